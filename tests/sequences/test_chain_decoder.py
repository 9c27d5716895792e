"""Direct decoding of short inputs agrees with the general path, and never uses weights of an earlier model."""

from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import pytest

from intarsia import ChainCRF
from intarsia.exceptions import InvalidInputError
from intarsia.sequences.chain_decoder import MAX_POSITIONS
from intarsia.sequences.chain_learner import CHAIN_LEARNERS
from intarsia.sequences.chain_prediction import best_labels

TAGS = np.array(["B-x", "I-x", "O", "B-y", "I-y"])


def _sequences(n: int, seed: int, values: bool = False):
    """Sequences with repeated features, features that are not in training sets of other seeds, and their tags."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        length = int(rng.integers(1, 9))
        names = [
            [f"f{k}" for k in rng.integers(0, 40 + 30 * (seed % 2), int(rng.integers(0, 8)))] for _ in range(length)
        ]
        X.append([dict.fromkeys(token, 0.5) | {"w": "a"} for token in names] if values else names)
        tags, before = [], 2
        for _ in range(length):
            before = int(rng.choice([k for k in range(5) if k not in (1, 4) or before in (k, k - 1)]))
            tags.append(TAGS[before])
        y.append(tags)
    return X, y


def _general(crf, X):
    data = crf._read(X, None)
    return data.spread([crf.classes_[path] for path in crf._run(best_labels, data, None)], crf.classes_[:0])


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("weights", ["all", "observed"])
@pytest.mark.parametrize("scheme", [None, "bio"])
@pytest.mark.parametrize("ends", [False, True])
def test_short_inputs_have_the_labels_of_the_general_path(values, weights, scheme, ends):
    X, y = _sequences(40, 0, values)
    crf = ChainCRF(l2=1.0, weights=weights, scheme=scheme, ends=ends).fit(X, y)
    X_test, _ = _sequences(30, 1, values)
    expected = _general(crf, X_test)
    for x, batch_labels, labels in zip(X_test, crf.predict(X_test), expected, strict=True):
        for predicted in (batch_labels, crf.predict([x])[0]):
            assert predicted.dtype == labels.dtype
            np.testing.assert_array_equal(predicted, labels)
        assert crf.predict_single(x) == labels.tolist()


def test_labels_have_the_highest_score_of_all():
    X, y = _sequences(40, 0)
    crf = ChainCRF(l2=1.0).fit(X, y)
    column = {name: k for k, name in enumerate(crf.vocabulary_)}
    W, T, u, v = crf.state_weights_, crf.transitions_, crf.start_, crf.end_
    for x in [x for x in _sequences(20, 1)[0] if len(x) <= 4]:
        nodes = [sum((W[column[name]] for name in token if name in column), np.zeros(W.shape[1])) for token in x]

        def score(path, nodes=nodes):
            steps = sum(T[a, b] for a, b in itertools.pairwise(path))
            return u[path[0]] + v[path[-1]] + steps + sum(row[k] for row, k in zip(nodes, path, strict=True))

        best = max(map(score, itertools.product(range(W.shape[1]), repeat=len(x))))
        path = [crf.classes_.tolist().index(label) for label in crf.predict_single(x)]
        assert score(path) == pytest.approx(best, abs=1e-9)


def test_inputs_beyond_the_limit_and_empty_ones():
    X, y = _sequences(40, 0)
    crf = ChainCRF(l2=1.0).fit(X, y)
    x = [token for sequence in X for token in sequence]
    long = x * (MAX_POSITIONS // len(x) + 1)
    assert len(long) > MAX_POSITIONS
    np.testing.assert_array_equal(crf.predict_single(long), _general(crf, [long])[0])
    assert crf.predict_single([]) == []
    assert [labels.size for labels in crf.predict([X[0], [], X[1]])] == [len(X[0]), 0, len(X[1])]
    assert crf.predict([]) == []


def test_what_is_forbidden_for_a_sequence_altogether_is_decoded_without_constraints():
    X, y = [[["a"], ["b"]], [["a"], ["a"]]], [["p", "q"], ["p", "q"]]
    crf = ChainCRF(l2=1.0, forbidden=[("p", "p"), ("q", "p"), ("q", "q"), (None, "q"), ("p", None)]).fit(X, y)
    for x in ([["a"]], [["a"], ["b"], ["b"]]):  # only p q is possible
        np.testing.assert_array_equal(crf.predict_single(x), _general(crf, [x])[0])


def test_the_decoder_follows_the_weights():
    X, y = _sequences(40, 0)
    crf = ChainCRF(l2=1.0).fit(X, y)
    crf.predict(X)
    crf.weights_ = -crf.weights_
    reversed_labels = crf.predict(X)
    for labels, expected in zip(reversed_labels, _general(crf, X), strict=True):
        np.testing.assert_array_equal(labels, expected)
    crf.fit(X, [tags[::-1] for tags in y])
    for labels, expected in zip(crf.predict(X), _general(crf, X), strict=True):
        np.testing.assert_array_equal(labels, expected)
    with pytest.raises(ValueError, match="read-only"):  # such a change would not reach the decoder
        crf.weights_[0] = 5.0


@pytest.mark.parametrize("name", CHAIN_LEARNERS.names)
def test_a_model_that_has_predicted_can_be_fitted_further(name):
    X, y = _sequences(20, 0)
    used, fresh = (ChainCRF(learner=name, warm_start=True, random_state=0).fit(X, y) for _ in range(2))
    used.predict(X)
    np.testing.assert_array_equal(used.fit(X, y).weights_, fresh.fit(X, y).weights_)
    if name != "maximum_likelihood":
        used.predict(X)
        np.testing.assert_array_equal(used.partial_fit(X, y).weights_, fresh.partial_fit(X, y).weights_)


def test_the_decoder_is_not_pickled():
    X, y = _sequences(40, 0)
    crf = ChainCRF(l2=1.0).fit(X, y)
    size = len(pickle.dumps(crf))
    labels = crf.predict(X)
    assert crf._prepared_decoder is not None
    assert len(pickle.dumps(crf)) == size
    for other in (pickle.loads(pickle.dumps(crf)), copy.deepcopy(crf)):
        assert other._prepared_decoder is None
        for a, b in zip(other.predict(X), labels, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e250])
@pytest.mark.parametrize("position", [0, -1])
def test_invalid_weights_raise(bad, position):
    X, y = [[["a"], ["b"]]], [["p", "q"]]
    crf = ChainCRF(l2=1.0).fit(X, y)
    weights = crf.weights_.copy()
    weights[position] = bad
    crf.weights_ = weights
    with pytest.raises(InvalidInputError, match=r"ChainCRF\.predict: ChainBatch"):
        crf.predict(X)


def test_predict_single_takes_the_arguments_of_predict():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 3)) for n in (4, 2, 5)]
    y = [rng.integers(0, 3, len(x)) for x in X]
    steps = [rng.normal(size=(len(x) - 1, 2)) for x in X]
    crf = ChainCRF(l2=1.0).fit(X, y, edge_features=steps)
    for x, step in zip(X, steps, strict=True):
        allowed = [2] + [-1] * (len(x) - 1)
        expected = crf.predict([x], edge_features=[step], allowed=[allowed])[0]
        np.testing.assert_array_equal(crf.predict_single(x, edge_features=step, allowed=allowed), expected)
        assert expected[0] == 2
    with pytest.raises(InvalidInputError, match=r"^ChainCRF\.predict_single: "):
        crf.predict_single(X[0])
    with pytest.raises(InvalidInputError, match=r"^ChainCRF\.predict_single: "):
        ChainCRF(l2=1.0).fit([[["a"], ["b"]]], [["p", "q"]]).predict_single([["a", 3]])
