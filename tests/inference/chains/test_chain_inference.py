from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.chain_paths import visit_batch
from tests.oracles.finite_differences import central_differences

import intarsia
from intarsia.exceptions import InvalidInputError
from intarsia.graph.chains import ChainBatch
from intarsia.inference.chains.chain_inference import (
    best_paths,
    chain_log_partition,
    chain_marginals,
    path_log_probabilities,
    path_scores,
    sample_paths,
    viterbi,
)
from intarsia.inference.chains.forward_backward import ChainPass

NEVER = -np.inf


def random_batch(seed, lengths=(4, 1, 3, 2), k=3, *, size=2.0, zeros=0.0, per_step=False, ends=True):
    """Return a batch with scores of about `size`, of which a fraction `zeros` is -inf."""
    rng = np.random.default_rng(seed)
    ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(int)
    n_tables = (int(ptr[-1]) - len(lengths),) if per_step else ()

    def scores(*shape):
        values = size * rng.normal(size=shape)
        values[rng.random(shape) < zeros] = NEVER
        return values

    start, end = (scores(k), scores(k)) if ends else (None, None)
    return ChainBatch(scores(int(ptr[-1]), k), ptr, scores(*n_tables, k, k), start, end)


def only_a_small_way():
    """Return a batch whose only labelling is 0112, with tiny messages for its label at position 1."""
    tables = np.full((3, 3, 3), NEVER)
    tables[0, 0, :2] = 0.0, -350.0
    tables[1, 1, 1] = tables[2, 1, 2] = -200.0
    tables[1, 2, 2] = tables[2, 2, 2] = 0.0
    return ChainBatch(np.zeros((4, 3)), [0, 4], tables, start=[0.0, NEVER, NEVER])


def apart():
    """Return a batch without transitions between labels, whose differences add up to 1600."""
    nodes = np.array([[0.0, -400.0]] * 4 + [[NEVER, 0.0]] + [[0.0, -100.0], [0.0, 100.0]])
    return ChainBatch(nodes, [0, 5, 7], [[0.0, NEVER], [NEVER, 0.0]])


CASES = {
    "plain": random_batch(0),
    "no_ends": random_batch(1, ends=False),
    "table_per_step": random_batch(2, per_step=True),
    "one_label": random_batch(3, k=1),
    "one_label_per_step": random_batch(4, k=1, per_step=True),
    "six_labels": random_batch(5, (3, 4), 6),  # more than the four rows that kernels process at a time
    "long": random_batch(6, (9, 6), 2),  # more than four steps
    "long_per_step": random_batch(7, (8, 7), 2, per_step=True),
    "length_one": random_batch(8, (1, 1), 4),
    "length_one_per_step": random_batch(9, (1, 1), 4, per_step=True),
    "one_step": random_batch(10, (2,), 3, per_step=True),
    "empty": random_batch(11, (), 3),
    "empty_per_step": random_batch(12, (), 3, per_step=True),
    "zeros": random_batch(13, (4, 3, 2, 1, 5), zeros=0.3),
    "zeros_per_step": random_batch(14, (4, 3, 2, 1, 5), zeros=0.3, per_step=True),
    "zeros_in_nodes": ChainBatch([[0, NEVER], [1, 2], [NEVER, 1]], [0, 3], [[0.5, 1.5], [2.5, -1]]),
    "huge": random_batch(15, size=1000.0),
    "huge_with_zeros": random_batch(16, (4, 3, 3, 2), size=1000.0, zeros=0.2, per_step=True),
    "absurd": random_batch(17, size=1e150),
    "wide_table": random_batch(18, (4, 4), size=250.0, ends=False),
    "infeasible_row": ChainBatch([[0, 1], [NEVER, NEVER], [1, 2], [0, 0]], [0, 3, 4], np.zeros((2, 2))),
    "infeasible_step": ChainBatch(np.zeros((4, 2)), [0, 3, 4], np.full((2, 2), NEVER)),
    "infeasible_and_huge": ChainBatch([[0, 1000], [1000, 0]], [0, 2], [[NEVER, NEVER], [NEVER, 2000]], [0, NEVER]),
    "ties": ChainBatch(np.zeros((4, 3)), [0, 3, 4], np.zeros((3, 3))),
    "small_way": only_a_small_way(),
    "apart": apart(),
}
each_case = pytest.mark.parametrize("name", list(CASES))


def size_of(batch):
    """Return the size of the scores, to which rounding errors are proportional."""
    parts = [batch.nodes, batch.transitions, *(part for part in (batch.start, batch.end) if part is not None)]
    return max([1.0, *(np.abs(part[np.isfinite(part)]).max(initial=0.0) for part in parts)])


def check_sums(batch):
    truth = visit_batch(batch)
    size = size_of(batch)
    near = {"rtol": 1e-12, "atol": 1e-13 * size}
    result = chain_marginals(batch)
    expected = [answer.log_partition for answer in truth]
    np.testing.assert_allclose(result.log_partition, expected, **near)
    np.testing.assert_allclose(chain_log_partition(batch), expected, **near)
    if size > 1e12:  # with so large sums, rounding errors dominate all probabilities except 0 and 1
        assert np.isfinite(result.nodes).all()
        return
    k = batch.n_labels
    nodes = np.concatenate([np.zeros((0, k)), *(answer.nodes for answer in truth)])
    steps = np.concatenate([np.zeros((0, k, k)), *(answer.steps for answer in truth)])
    np.testing.assert_allclose(result.nodes, nodes, rtol=1e-11 * size, atol=1e-13)
    np.testing.assert_allclose(result.transitions, steps.sum(axis=0), rtol=1e-11 * size, atol=1e-13)
    single = chain_marginals(batch, transitions="steps")
    np.testing.assert_allclose(single.transitions, steps, rtol=1e-11 * size, atol=1e-13)
    np.testing.assert_array_equal(single.nodes, result.nodes)
    assert chain_marginals(batch, transitions=None).transitions is None
    weight = np.linspace(0.0, 2.0, batch.n_sequences)
    weighted = sum((w * answer.steps.sum(axis=0) for w, answer in zip(weight, truth, strict=True)), np.zeros((k, k)))
    result = chain_marginals(batch, sequence_weight=weight)
    np.testing.assert_allclose(result.transitions, weighted, rtol=1e-11 * size, atol=1e-13)


def check_paths(batch, n_best=7):
    truth = visit_batch(batch)
    near = {"rtol": 1e-12, "atol": 1e-13 * size_of(batch)}
    paths, scores = best_paths(batch, n_best)
    labels, highest = viterbi(batch)
    np.testing.assert_array_equal(labels, paths[0])
    np.testing.assert_array_equal(highest, scores[0])
    draws = sample_paths(batch, 3, random_state=1)
    for s, answer in enumerate(truth):
        positions = slice(batch.ptr[s], batch.ptr[s + 1])
        n = min(n_best, len(answer.paths))
        np.testing.assert_allclose(scores[:n, s], answer.scores[:n], **near)
        assert (scores[n:, s] == NEVER).all()
        assert (paths[n:, positions] == -1).all()
        assert (np.diff(scores[:n, s]) <= 0).all()
        result = [tuple(path) for path in paths[:n, positions].tolist()]
        assert len(set(result)) == n
        score_of = dict(zip(answer.paths, answer.scores, strict=True))
        np.testing.assert_allclose([score_of[path] for path in result], scores[:n, s], **near)
        drawn = {tuple(path) for path in draws[:, positions].tolist()}
        assert drawn <= set(answer.paths) if answer.paths else drawn == {(-1,) * (positions.stop - positions.start)}
    if all(answer.paths for answer in truth):
        np.testing.assert_allclose(path_scores(batch, labels), highest, **near)
        with_partition = highest - [answer.log_partition for answer in truth]
        np.testing.assert_allclose(path_log_probabilities(batch, labels), with_partition, **near)


@each_case
def test_sums_agree_with_enumeration(name):
    check_sums(CASES[name])


@each_case
def test_paths_agree_with_enumeration(name):
    check_paths(CASES[name])


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32),
    lengths=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    k=st.integers(1, 4),
    size=st.sampled_from([0.1, 3.0, 60.0, 300.0, 2000.0]),
    zeros=st.sampled_from([0.0, 0.15, 0.4]),
    per_step=st.booleans(),
    ends=st.booleans(),
)
def test_random_batches(seed, lengths, k, size, zeros, per_step, ends):
    batch = random_batch(seed, lengths, k, size=size, zeros=zeros, per_step=per_step, ends=ends)
    check_sums(batch)
    check_paths(batch, n_best=12)


def test_log_domain_is_used_only_where_needed():
    """The log domain is used only where needed, as it takes many times longer."""
    for name in ("plain", "zeros", "zeros_per_step", "long", "infeasible_step"):
        assert not ChainPass(CASES[name]).forward(keep=False).in_logs.any()
    nodes = 10 * np.random.default_rng(26).normal(size=(500, 4))
    batch = ChainBatch(nodes, [0, 500], np.where(np.eye(4, k=1) > 0, NEVER, 0.0))
    assert not ChainPass(batch).forward(keep=False).in_logs.any()
    batch = CASES["apart"]
    assert (
        np.repeat(ChainPass(batch).forward(keep=False).in_logs, np.diff(batch.ptr)).tolist() == [True] * 5 + [False] * 2
    )


@pytest.mark.parametrize("name", ["plain", "table_per_step", "zeros", "six_labels", "huge"])
def test_label_sets_and_observed_labels(name):
    batch = CASES[name]
    rng = np.random.default_rng(3)
    allowed = rng.random(batch.nodes.shape) < 0.6
    allowed[np.arange(batch.n_positions), rng.integers(batch.n_labels, size=batch.n_positions)] = True
    allowed[0] = np.arange(batch.n_labels) == 1  # an observed label
    clamped = batch.restricted(allowed)
    check_sums(clamped)
    check_paths(clamped)
    free = visit_batch(batch)
    for s, answer in enumerate(visit_batch(clamped)):
        allowed_labels = allowed[batch.ptr[s] : batch.ptr[s + 1]]
        allowed_paths = [y for y in free[s].paths if all(allowed_labels[t, label] for t, label in enumerate(y))]
        assert sorted(answer.paths) == sorted(allowed_paths)


@pytest.mark.parametrize("per_step", [False, True])
def test_agrees_with_the_tree_method(per_step):
    """Compare on more labels and positions than enumeration can handle."""
    batch = random_batch(20, (12, 1, 30), 7, per_step=per_step, zeros=0.1)
    scores = batch.nodes.copy()
    scores[batch.ptr[:-1]] += batch.start
    scores[batch.ptr[1:] - 1] += batch.end
    marginals, (labels, highest) = chain_marginals(batch, transitions="steps"), viterbi(batch)
    for s in range(batch.n_sequences):
        a, b = batch.ptr[s : s + 2]
        graph = intarsia.chain_graph(int(b - a), 7)
        tables = batch.transitions[a - s : b - s - 1] if per_step else [batch.transitions] * int(b - a - 1)
        theta = np.concatenate([scores[a:b].ravel(), *(np.ravel(table) for table in tables)])
        result = intarsia.infer(graph, theta, "tree")
        assert marginals.log_partition[s] == pytest.approx(result.log_partition, rel=1e-12)
        mu = np.concatenate([marginals.nodes[a:b].ravel(), marginals.transitions[a - s : b - s - 1].ravel()])
        np.testing.assert_allclose(mu, result.mu, atol=1e-12)
        assert highest[s] == pytest.approx(intarsia.infer(graph, theta, "tree", task="map").score, rel=1e-12)
        assert graph.score(theta, labels[a:b]) == pytest.approx(highest[s], rel=1e-12)


@pytest.mark.parametrize("per_step", [False, True])
def test_marginals_are_gradients(per_step):
    batch = random_batch(21, (3, 1, 5), 4, per_step=per_step, zeros=0.1)
    weight = np.array([0.5, 2.0, 1.0])
    result = chain_marginals(batch, transitions="steps")
    n, tables = batch.nodes.size, batch.transitions.size

    def value(theta):
        nodes, transitions = theta[:n].reshape(batch.nodes.shape), theta[n : n + tables]
        start, end = theta[n + tables :].reshape(2, -1)
        moved = ChainBatch(nodes, batch.ptr, transitions.reshape(batch.transitions.shape), start, end)
        return float(weight @ chain_log_partition(moved))

    at = np.concatenate([batch.nodes.ravel(), batch.transitions.ravel(), batch.start, batch.end])
    assert np.isfinite(chain_log_partition(batch)).all()
    weighted = result.nodes * np.repeat(weight, np.diff(batch.ptr))[:, None]
    pairs = result.transitions * np.repeat(weight, np.diff(batch.ptr) - 1)[:, None, None]
    if not per_step:
        pairs = chain_marginals(batch, sequence_weight=weight).transitions
    ends = weighted[batch.ptr[:-1]].sum(axis=0), weighted[batch.ptr[1:] - 1].sum(axis=0)
    gradient = np.concatenate([weighted.ravel(), pairs.ravel(), *ends])
    np.testing.assert_allclose(gradient, central_differences(value, at), atol=1e-9)


def check_frequencies(batch, n_samples=20_000):
    """Check the frequencies of complete labellings with Pearson's chi-squared statistic."""
    draws = sample_paths(batch, n_samples, random_state=7)
    for s, answer in enumerate(visit_batch(batch)):
        number = {y: i for i, y in enumerate(answer.paths)}
        sampled_paths = draws[:, batch.ptr[s] : batch.ptr[s + 1]].tolist()
        counts = np.bincount([number[tuple(y)] for y in sampled_paths], minlength=len(number))
        expected = n_samples * np.exp(np.array(answer.scores) - answer.log_partition)
        common = expected >= 5
        counts = np.append(counts[common], counts[~common].sum())
        expected = np.append(expected[common], expected[~common].sum())
        statistic = ((counts - expected) ** 2 / np.maximum(expected, 1.0)).sum()
        assert statistic < common.sum() + 5 * np.sqrt(2 * common.sum()) + 5
    np.testing.assert_array_equal(draws, sample_paths(batch, n_samples, random_state=7))


@pytest.mark.parametrize("per_step", [False, True])
def test_frequencies_of_samples(per_step):
    check_frequencies(random_batch(22, (3, 1, 4), 3, size=1.0, zeros=0.1, per_step=per_step))


def test_frequencies_of_samples_in_the_log_domain():
    """Two labellings of each sequence are equally probable, although every row strongly prefers one label."""
    nodes = [[0, 1000], [0, -1000], [0, 400], [0, 400], [0, 400], [0, -1200]]
    batch = ChainBatch(nodes, [0, 2, 6], [[0, NEVER], [NEVER, 0]])
    np.testing.assert_allclose(chain_marginals(batch).nodes, 0.5, rtol=1e-12)
    check_frequencies(batch)


def test_generator_can_be_reused():
    rng = np.random.default_rng(0)
    batch = random_batch(23, size=0.1)
    first, second = sample_paths(batch, 20, rng), sample_paths(batch, 20, rng)
    assert (first != second).any()
    assert sample_paths(batch, 0).shape == (0, batch.n_positions)


@pytest.mark.parametrize("name", ["plain", "table_per_step", "huge_with_zeros"])
def test_threads_return_equal_results(name):
    batch = CASES[name]
    whole = chain_marginals(batch, transitions="steps")
    parts = [batch.part(0, 1), batch.part(1, 1), batch.part(1, batch.n_sequences)]
    with ThreadPoolExecutor(2) as pool:
        result = list(pool.map(lambda part: chain_marginals(part, transitions="steps"), parts))
    np.testing.assert_array_equal(np.concatenate([part.nodes for part in result]), whole.nodes)
    np.testing.assert_array_equal(np.concatenate([part.transitions for part in result]), whole.transitions)
    np.testing.assert_array_equal(np.concatenate([part.log_partition for part in result]), whole.log_partition)


def test_accuracy_on_a_long_chain():
    """All labels have equal sums over their successors, so log Z has a closed form."""
    n = 200_000
    batch = ChainBatch(np.full((n, 2), 0.1), [0, n], np.log([[1, 3], [3, 1]]))
    result = chain_marginals(batch)
    assert result.log_partition[0] == pytest.approx(0.1 * n + np.log(2) + (n - 1) * np.log(4), rel=1e-14)
    np.testing.assert_allclose(result.nodes, 0.5, rtol=1e-12)
    np.testing.assert_allclose(result.transitions, (n - 1) * np.array([[1, 3], [3, 1]]) / 8, rtol=1e-11)
    forbidden = ChainBatch(batch.nodes, [0, n], [[0.0, NEVER], [NEVER, 0.0]])
    assert chain_log_partition(forbidden)[0] == pytest.approx(0.1 * n + np.log(2), rel=1e-14)


def test_all_labellings_if_more_are_requested():
    batch = random_batch(24, (4, 2), 3)
    paths, scores = best_paths(batch, 200)
    assert np.isfinite(scores).sum(axis=0).tolist() == [81, 9]
    assert len({tuple(path) for path in paths[:81, :4].tolist()}) == 81


def test_scores_of_forbidden_labels():
    batch = ChainBatch(np.zeros((3, 2)), [0, 2, 3], [[0, 0], [NEVER, 0]], start=[0, 1], end=[0, 2])
    np.testing.assert_array_equal(path_scores(batch, [[1, 0, 0], [0, 1, 1]]), [[NEVER, 0.0], [2.0, 3.0]])
    impossible = batch.restricted(np.array([[True, True], [False, False], [True, True]]))
    assert path_log_probabilities(impossible, [0, 0, 1])[0] == NEVER


def test_input_is_not_modified():
    batch = random_batch(25, per_step=True)
    before = batch.nodes.copy(), batch.transitions.copy()
    check_sums(batch)
    check_paths(batch)
    np.testing.assert_array_equal(batch.nodes, before[0])
    np.testing.assert_array_equal(batch.transitions, before[1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda batch: chain_marginals(batch, transitions="step"), "Did you mean 'steps'"),
        (lambda batch: chain_marginals(batch, sequence_weight=[1.0]), r"needs 4 finite numbers, .* got shape \(1,\)"),
        (lambda batch: chain_marginals(batch, sequence_weight=[1, 1, 1, np.nan]), "needs 4 finite numbers"),
        (lambda batch: chain_marginals(batch, transitions=None, sequence_weight=[1.0] * 4), "transitions is None"),
        (lambda batch: best_paths(batch, 0), "n_best must be an integer"),
        (lambda batch: sample_paths(batch, -1), "n_samples must be an integer"),
        (lambda batch: path_scores(batch, [0, 1]), r"labels has shape \(2,\)\. Pass a label for each of the 10"),
        (lambda batch: path_scores(batch, [0] * 9 + [-1]), r"label -1 at position 9 is not in 0 \.\. 2"),
        (lambda batch: path_scores(batch, [3] + [0] * 9), r"label 3 at position 0"),
    ],
)
def test_invalid_arguments_raise(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call(CASES["plain"])
