"""Online learners: each step against a loop written from the definitions, with enumeration of all labellings."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.oracles.chain_likelihood import parts_of, path_score

from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.inference import Status
from intarsia.sequences.chain_crf import ChainCRF
from intarsia.sequences.online_learners import AROW, AveragedPerceptron, PassiveAggressive

K, D = 3, 4


def sequences(seed, n=6):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(int(rng.integers(1, 4)), D)) for _ in range(n)]
    return X, [rng.integers(K, size=len(one)).tolist() for one in X]


def statistics(x, path):
    """Return phi(x, y) in the layout of the weights of a model with all pairs and ends."""
    states, transitions = np.zeros((D, K)), np.zeros((K, K))
    start, end = np.zeros(K), np.zeros(K)
    for t, y in enumerate(path):
        states[:, y] += x[t]
    for a, b in itertools.pairwise(path):
        transitions[a, b] += 1
    start[path[0]] += 1
    end[path[-1]] += 1
    return np.concatenate([states.ravel(), transitions.ravel(), start, end])


def best(x, weights, layout, sets):
    """Return the best labelling; a tie goes to the lowest labels, compared from the end."""
    paths = itertools.product(*sets)
    return max(
        paths,
        key=lambda p: (path_score(features=x, path=p, **parts_of(layout, weights)), tuple(-y for y in reversed(p))),
    )


def run(X, y, layout, n_epochs, change, variance=1.0, importance=None):
    """Return the weights after each sequence; `change(w, v, delta, n_wrong)` returns new weights and variances."""
    w = np.zeros(layout.n_weights)
    v = np.full(layout.n_weights, variance)
    seen = []
    for epoch in range(n_epochs):
        for s in np.random.default_rng([0, epoch]).permutation(len(X)):
            sets = [range(K) if label == -1 else [label] for label in y[s]]
            path = best(X[s], w, layout, [range(K)] * len(X[s]))
            target = best(X[s], w, layout, sets)
            if path != target:
                delta = statistics(X[s], target) - statistics(X[s], path)
                new, v = change(w, v, delta, sum(a != b for a, b in zip(path, target, strict=True)))
                w = w + (1.0 if importance is None else importance[s]) * (new - w)
            seen.append(w)
    return np.array(seen)


def perceptron(w, v, delta, n_wrong):
    return w + delta, v


def passive_aggressive(variant, c, sensitive):
    def change(w, v, delta, n_wrong):
        loss = (np.sqrt(n_wrong) if sensitive else 1.0) - w @ delta
        size = delta @ delta
        tau = {"pa": loss / size, "pa1": min(c, loss / size), "pa2": loss / (size + 1 / (2 * c))}[variant]
        return w + tau * delta, v

    return change


def arow(gamma):
    def change(w, v, delta, n_wrong):
        alpha = (n_wrong - w @ delta) / (delta @ (v * delta) + gamma)
        return w + alpha * v * delta, 1.0 / (1.0 / v + delta**2 / gamma)

    return change


def test_averaged_perceptron():
    X, y = sequences(0)
    crf = ChainCRF(learner=AveragedPerceptron(max_iter=3), classes=range(K)).fit(X, y)
    expected = run(X, y, crf.layout_, crf.n_iter_, perceptron)
    np.testing.assert_allclose(crf.weights_, expected.mean(axis=0), atol=1e-12)


def test_hidden_labels_and_sample_weight():
    X, y = sequences(1)
    y = [[-1 if (s + t) % 3 == 0 else label for t, label in enumerate(one)] for s, one in enumerate(y)]
    weight = np.array([1.0, 0.5, 2.0, 1.0, 0.0, 1.5])
    crf = ChainCRF(learner=AveragedPerceptron(max_iter=2), classes=range(K)).fit(X, y, sample_weight=weight)
    expected = run(X, y, crf.layout_, crf.n_iter_, perceptron, importance=weight)
    np.testing.assert_allclose(crf.weights_, expected.mean(axis=0), atol=1e-12)


@pytest.mark.parametrize("variant", ["pa", "pa1", "pa2"])
@pytest.mark.parametrize("sensitive", [True, False])
def test_passive_aggressive(variant, sensitive):
    X, y = sequences(2)
    learner = PassiveAggressive(variant=variant, c=0.1, error_sensitive=sensitive, max_iter=2, average=sensitive)
    crf = ChainCRF(learner=learner, classes=range(K)).fit(X, y)
    seen = run(X, y, crf.layout_, crf.n_iter_, passive_aggressive(variant, 0.1, sensitive))
    np.testing.assert_allclose(crf.weights_, seen.mean(axis=0) if sensitive else seen[-1], atol=1e-12)


def test_arow():
    X, y = sequences(3)
    crf = ChainCRF(learner=AROW(variance=2.0, gamma=0.7, max_iter=3), classes=range(K)).fit(X, y)
    np.testing.assert_allclose(
        crf.weights_, run(X, y, crf.layout_, crf.n_iter_, arow(0.7), variance=2.0)[-1], atol=1e-12
    )


@pytest.mark.parametrize("name", ["averaged_perceptron", "passive_aggressive", "arow"])
def test_separable_data_are_learned(name):
    """The label says whether the previous word is equal; it needs transitions and features together."""
    rng = np.random.default_rng(0)
    X = [[[f"w{w}"] for w in rng.integers(4, size=6)] for _ in range(30)]
    y = [["even" if one[0] in ("w0", "w2") else "odd" for one in sequence] for sequence in X]
    crf = ChainCRF(learner=name).fit(X, y)
    assert crf.status_ is Status.CONVERGED
    assert crf.score(X, y) == 1.0
    assert crf.history_["risk"][-1] == 0.0


def test_forbidden_transitions_are_never_taken():
    X, y = sequences(5, 20)
    y = [[0] * len(one) for one in y]
    y[0] = [1] * len(y[0])
    crf = ChainCRF(learner="averaged_perceptron", forbidden=[(0, 1), (1, 0)]).fit(X, y)
    assert all(len(set(labels)) == 1 for labels in crf.predict(X))
    assert crf.transitions_[0, 1] == crf.transitions_[1, 0] == 0.0


def test_partial_fit_is_one_pass():
    X, y = sequences(6)
    learner = AROW(max_iter=2)
    whole = ChainCRF(learner=learner, classes=range(K)).fit(X, y)
    steps = ChainCRF(learner=learner, classes=range(K))
    for _ in range(whole.n_iter_):
        steps.partial_fit(X, y)
    np.testing.assert_array_equal(steps.weights_, whole.weights_)


def test_early_stopping_keeps_the_best_pass():
    X, y = sequences(7, 30)
    V, z = sequences(8, 10)
    learner = AveragedPerceptron(max_iter=8, patience=2)
    crf = ChainCRF(learner=learner, classes=range(K)).fit(X, y, validation=(V, z))
    shares = crf.history_["validation_risk"]
    assert 1.0 - crf.score(V, z) == pytest.approx(shares.min())
    assert len(shares) <= int(np.argmin(shares)) + 3


@pytest.mark.parametrize("patience", [1, 2, 4])
@pytest.mark.parametrize("seed", [7, 9, 11])
def test_learning_stops_after_exactly_this_many_passes_without_a_gain(seed, patience):
    """Against passes of `partial_fit`, which are evaluated one by one."""
    X, y = sequences(seed, 30)
    V, z = sequences(seed + 1, 10)
    learner = AveragedPerceptron(max_iter=40, patience=patience)
    passes = ChainCRF(learner=learner, classes=range(K))
    errors = []
    while len(errors) - 1 - (int(np.argmin(errors)) if errors else 0) < patience:
        errors.append(1.0 - passes.partial_fit(X, y).score(V, z))
    crf = ChainCRF(learner=learner, classes=range(K)).fit(X, y, validation=(V, z))
    assert crf.history_["validation_risk"] == pytest.approx(errors)
    assert crf.status_ is Status.STALLED


def test_unsupported_input_is_refused():
    X, y = sequences(0)
    edges = [np.ones((len(one) - 1, 1)) for one in X]
    with pytest.raises(NotSupportedError, match="AROW does not support edge_features"):
        ChainCRF(learner="arow").fit(X, y, edge_features=edges)
    with pytest.raises(NotSupportedError, match=r"l2=1.0 cannot be used with AROW"):
        ChainCRF(learner="arow", l2=1.0).fit(X, y)
    with pytest.raises(InvalidInputError, match="PassiveAggressive: variant='pa3' is not known"):
        ChainCRF(learner=PassiveAggressive(variant="pa3")).fit(X, y)
    with pytest.raises(InvalidInputError, match="AROW: gamma must be a number"):
        ChainCRF(learner=AROW(gamma=0)).fit(X, y)
