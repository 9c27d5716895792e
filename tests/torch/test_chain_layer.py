"""ChainLayer against enumeration of all labellings, and its errors."""

from __future__ import annotations

import numpy as np
import pytest
from tests.oracles.chain_paths import visit_paths

from intarsia.exceptions import InvalidInputError

torch = pytest.importorskip("torch")
layers = pytest.importorskip("intarsia.torch")
ChainLayer, chain_log_z, chain_probabilities = layers.ChainLayer, layers.chain_log_z, layers.chain_probabilities

LENGTHS = torch.tensor([4, 0, 1, 3])


def random_layer(k=3, *, forbidden=None, seed=0):
    torch.manual_seed(seed)
    layer = ChainLayer(k, forbidden=forbidden).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_()
    return layer, torch.randn(4, 4, k, dtype=torch.float64)


def visited(layer, scores, lengths=LENGTHS):
    """Each sequence, enumerated; None for an empty one."""
    table = layer.transitions.detach().numpy().copy()
    if layer.forbidden is not None:
        table[layer.forbidden.numpy()] = -np.inf
    ends = [None if p is None else p.detach().numpy() for p in (layer.start, layer.end)]
    return [
        visit_paths(rows[:n].numpy(), [table] * (n - 1), *ends) if n else None
        for rows, n in zip(scores, lengths.tolist(), strict=True)
    ]


@pytest.mark.parametrize("forbidden", [None, torch.tensor([[0, 1, 0], [0, 0, 0], [1, 0, 0]]).bool()])
def test_everything_against_enumeration(forbidden):
    layer, scores = random_layer(forbidden=forbidden)
    marginals, steps = layer(scores, lengths=LENGTHS), layer.step_marginals(scores, lengths=LENGTHS)
    log_z, best = layer.log_partition(scores, lengths=LENGTHS), layer.viterbi(scores, lengths=LENGTHS)
    for s, answer in enumerate(visited(layer, scores)):
        n = int(LENGTHS[s])
        assert not marginals[s, n:].any()
        assert not steps[s, max(n - 1, 0) :].any()
        assert (best[s, n:] == -1).all()
        if answer is None:
            assert log_z[s] == 0
            continue
        assert log_z[s].item() == pytest.approx(answer.log_partition)
        assert marginals[s, :n].detach().numpy() == pytest.approx(answer.nodes)
        assert steps[s, : n - 1].detach().numpy() == pytest.approx(answer.steps)
        assert tuple(best[s, :n].tolist()) == answer.paths[0]


@pytest.mark.parametrize("reduction", ["none", "sum", "mean", "token_mean"])
def test_likelihood_with_hidden_labels_against_enumeration(reduction):
    layer, scores = random_layer()
    labels = torch.tensor([[0, -1, 2, 1], [-1] * 4, [2, 0, 0, 0], [-1, -1, -1, 7]])  # 7 is in the padding
    expected = []
    for s, answer in enumerate(visited(layer, scores)):
        if answer is None:
            expected.append(0.0)
            continue
        y = labels[s].tolist()
        allowed = [score for path, score in zip(answer.paths, answer.scores, strict=True)
                   if all(label in (-1, x) for label, x in zip(y, path, strict=False))]  # fmt: skip
        expected.append(answer.log_partition - np.logaddexp.reduce(allowed))
    divisor = {"mean": 4, "token_mean": 8}.get(reduction, 1)
    total = np.array(expected) if reduction == "none" else sum(expected) / divisor
    value = layer.loss(scores, labels, lengths=LENGTHS, reduction=reduction)
    assert value.detach().numpy() == pytest.approx(total)


def test_marginal_losses_against_enumeration():
    layer, scores = random_layer()
    labels = torch.tensor([[0, 1, -1, 1], [0] * 4, [2, 0, 0, 0], [1, 2, 0, 0]])
    logistic, quadratic, cliques = 0.0, 0.0, 0.0
    for s, answer in enumerate(visited(layer, scores)):
        for t in range(int(LENGTHS[s])):
            y = int(labels[s, t])
            if y < 0:
                continue
            logistic -= np.log(answer.nodes[t, y])
            quadratic += ((answer.nodes[t] - np.eye(3)[y]) ** 2).sum()
            if t and labels[s, t - 1] >= 0:
                cliques -= np.log(answer.steps[t - 1, int(labels[s, t - 1]), y])
    for loss, expected in (
        ("univariate_logistic", logistic),
        ("univariate_quadratic", quadratic),
        ("clique_logistic", cliques),
    ):
        value = layer.loss(scores, labels, lengths=LENGTHS, loss=loss, reduction="sum")
        assert value.item() == pytest.approx(expected)


@pytest.mark.parametrize("reduction", ["none", "mean"])
@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("loss", ["likelihood", "univariate_logistic", "univariate_quadratic", "clique_logistic"])
def test_gradients_of_losses(loss, hidden, reduction):
    layer, scores = random_layer()
    labels = torch.randint(0, 3, (4, 4))
    if hidden:
        labels[0, 1] = labels[3, 0] = -1
    parameters = tuple(layer.parameters())
    assert torch.autograd.gradcheck(
        lambda x, *_: layer.loss(x, labels, lengths=LENGTHS, loss=loss, reduction=reduction),
        (scores.requires_grad_(), *parameters),
    )


@pytest.mark.parametrize("function", [chain_log_z, chain_probabilities])
@pytest.mark.parametrize("per_step", [False, True])
def test_gradients_of_functions(function, per_step):
    torch.manual_seed(1)
    sizes = [(4, 4, 3), (4, 3, 3, 3) if per_step else (3, 3), (3,), (3,)]
    inputs = [torch.randn(*size, dtype=torch.float64, requires_grad=True) for size in sizes]
    assert torch.autograd.gradcheck(lambda *x: function(*x, lengths=LENGTHS), inputs)
    assert torch.autograd.gradcheck(lambda *x: function(*x, lengths=LENGTHS), inputs[:2])


def test_samples_follow_the_marginals_and_the_seed():
    layer, scores = random_layer()
    samples = layer.sample(scores, 20_000, lengths=LENGTHS, random_state=0)
    assert samples.shape == (20_000, 4, 4)
    assert (samples[:, 1] == -1).all()
    marginals = layer(scores, lengths=LENGTHS)
    frequency = torch.stack([(samples == label).double().mean(0) for label in range(3)], -1)
    assert torch.allclose(frequency, marginals, atol=0.02)
    torch.manual_seed(3)
    first = layer.sample(scores, 5)
    torch.manual_seed(3)
    assert torch.equal(first, layer.sample(scores, 5))


def test_mask_and_lengths_agree_and_bytes_are_masks():
    layer, scores = random_layer()
    mask = torch.arange(4) < LENGTHS[:, None]
    expected = layer(scores, lengths=LENGTHS)
    assert torch.equal(layer(scores, mask), expected)
    assert torch.equal(layer(scores, mask.to(torch.uint8)), expected)


def test_padding_may_hold_anything():
    layer, scores = random_layer()
    dirty = scores.clone()
    dirty[torch.arange(4) >= LENGTHS[:, None]] = float("nan")
    dirty.requires_grad_()
    loss = layer.loss(dirty, torch.zeros(4, 4, dtype=torch.long), lengths=LENGTHS)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(dirty.grad).all()


@pytest.mark.parametrize("size", [(0, 4, 3), (2, 0, 3)])
def test_no_sequences_or_no_positions(size):
    layer = ChainLayer(3)
    scores = torch.zeros(size, requires_grad=True)
    loss = layer.loss(scores, torch.zeros(size[:2], dtype=torch.long))
    loss.backward()
    assert loss == 0
    assert layer(scores).shape == size
    assert layer.viterbi(scores).shape == size[:2]
    assert layer.sample(scores, 2).shape == (2, *size[:2])
    assert not layer.transitions.grad.any()


def test_a_tagger_learns_in_a_sequential_network():
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(2, 2), ChainLayer(2))
    labels = (torch.arange(40)[None] // torch.tensor([[1], [2]])) % 2
    inputs = torch.randn(2, 40, 2) + torch.nn.functional.one_hot(labels, 2)
    optimizer = torch.optim.Adam(network.parameters(), 0.1)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = network[1].loss(network[0](inputs), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.6 * losses[0]
    assert network(inputs).shape == (2, 40, 2)


SCORES, LABELS = torch.zeros(2, 3, 2), torch.zeros(2, 3, dtype=torch.long)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda layer: layer([[1.0]]), r"ChainLayer.forward: scores must be a torch.Tensor, got list"),
        (lambda layer: layer(SCORES[0]), r"scores has shape \(3, 2\), expected \(batch, time, labels\)"),
        (lambda layer: layer(torch.zeros(2, 3, 4)), "scores has 4 labels in its last axis, but the layer has 2"),
        (lambda layer: layer(SCORES.long()), r"scores has dtype torch.int64.*scores.float\(\)"),
        (lambda layer: layer(SCORES + float("nan")), r"scores, outside of padding,\[0, 0\] is nan.*learning rate"),
        (lambda layer: layer(SCORES + float("inf")), r"is inf\. Scores must be at most"),
        (lambda layer: layer(SCORES, LABELS), r"mask has dtype torch.int64, expected torch.bool"),
        (lambda layer: layer(SCORES, torch.tensor([[1, 1, 1], [0, 1, 1]]).bool()), r"mask\[1\] has 2 positions but"),
        (lambda layer: layer(SCORES, torch.ones(2, 2).bool()), r"mask has shape \(2, 2\), expected \(2, 3\)"),
        (lambda layer: layer(SCORES, lengths=torch.tensor([4, 1])), r"lengths\[0\] is 4. Pass lengths from 0 to 3"),
        (lambda layer: layer(SCORES, torch.ones(2, 3).bool(), torch.tensor([1, 1])), "mask and lengths are both set"),
        (lambda layer: layer.loss(SCORES, LABELS + 2), r"ChainLayer.loss: labels\[0, 0\] is 2. Pass labels from 0"),
        (lambda layer: layer.loss(SCORES, LABELS.float()), "labels has dtype torch.float32, expected integers"),
        (lambda layer: layer.loss(SCORES, LABELS[:1]), r"labels has shape \(1, 3\), expected \(2, 3\)"),
        (lambda layer: layer.loss(SCORES, LABELS, loss="hinge"), "loss='hinge' is not known"),
        (lambda layer: layer.loss(SCORES, LABELS, reduction="max"), "reduction='max' is not known"),
        (lambda layer: layer.sample(SCORES, -1), "n_samples must be an integer"),
        (lambda _: ChainLayer(0), "n_labels must be an integer"),
        (lambda _: ChainLayer(2, forbidden=torch.zeros(2, 2)), "forbidden has dtype torch.float32"),
        (lambda _: chain_log_z(SCORES, torch.zeros(3, 3)), r"chain_log_z: transitions has shape \(3, 3\)"),
    ],
)
def test_errors_say_what_to_do(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call(ChainLayer(2))


def test_impossible_sequences_have_no_gradient():
    layer = ChainLayer(2, forbidden=torch.ones(2, 2).bool())
    scores = torch.zeros(1, 3, 2, requires_grad=True)
    log_z = layer.log_partition(scores)
    assert log_z[0] == -np.inf
    log_z.sum().backward()
    assert not scores.grad.any()
