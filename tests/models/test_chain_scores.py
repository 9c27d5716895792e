"""Scores from sparse features and their gradient, against products of full matrices."""

import numpy as np
import pytest
from scipy import sparse

from intarsia.models.chain_scores import ChainLayout, StateFeatures, observed_pairs


def make(n_labels, seed, weights="observed"):
    """Make features of which few have weights with many labels, with empty rows and values other than 1."""
    rng = np.random.default_rng(seed)
    n, n_features = 40, 30
    matrix = rng.standard_normal((n, n_features)) * (
        rng.random((n, n_features)) < np.linspace(0.9, 0.1, n_features) ** 2
    )
    matrix[[0, 17]] = 0.0
    allowed = np.eye(n_labels, dtype=bool)[rng.integers(0, n_labels, n)]
    pairs = observed_pairs(matrix, allowed) if weights == "observed" else (None, None)
    return sparse.csr_array(matrix), matrix, ChainLayout(n_features, n_labels, *pairs)


def kinds(layout):
    """Return the number of wide features, and of other features that have weights."""
    return layout.split.n_wide, int(((layout.split.number < 0) & (np.diff(layout.pair_ptr) > 0)).sum())


@pytest.mark.parametrize("weights", ["observed", "all"])
@pytest.mark.parametrize("n_labels", [1, 3, 9, 40])
@pytest.mark.parametrize("given", ["sparse", "indicators", "dense"])
def test_scores_and_gradient_are_products_with_the_full_matrix(given, n_labels, weights):
    rows, full, layout = make(n_labels, 3 * n_labels, weights)
    if given == "indicators":  # all values are the same
        rows.data[:] = 0.5
        full = rows.toarray()
    features = StateFeatures(full if given == "dense" else rows, layout)
    rng = np.random.default_rng(1)
    vector = rng.standard_normal(layout.n_weights)
    states, table = layout.unpack(vector).states, features.spread(layout.unpack(vector).states)
    expected = full @ layout.state_matrix(vector)
    for first, last in ((0, 40), (5, 23), (7, 7)):
        np.testing.assert_allclose(features.scores(states, first, last), expected[first:last], atol=1e-13)
        np.testing.assert_allclose(features.scores(states, first, last, table), expected[first:last], atol=1e-13)
        residual = rng.standard_normal((last - first, n_labels))
        whole = full[first:last].T @ residual
        pair_ptr, pair_label = layout.pairs()
        each = whole[np.repeat(np.arange(30), np.diff(pair_ptr)), pair_label]
        gradient = np.ones(layout.n_states)  # the gradient is added to the present values
        features.pull_back(residual, gradient, first, last)
        np.testing.assert_allclose(gradient, 1.0 + each, atol=1e-13)
        gradient, gathered = np.zeros(layout.n_states), features.zeros()
        middle = (first + last) // 2
        features.pull_back(residual[: middle - first], gradient, first, middle, gathered)
        features.pull_back(residual[middle - first :], gradient, middle, last, gathered)
        features.collect(gathered, gradient)
        np.testing.assert_allclose(gradient, each, atol=1e-13)


def test_both_kinds_of_features_are_tested():
    wide, narrow = kinds(make(40, 120)[2])
    assert wide >= 5
    assert narrow >= 5


def test_weights_of_minus_infinity_forbid_labels():
    rows, full, layout = make(40, 120)
    features = StateFeatures(rows, layout)
    vector = np.random.default_rng(2).standard_normal(layout.n_weights)
    one = [int(np.argmax(layout.split.number == 0)), int(np.argmax(layout.split.number < 0))]
    slots = layout.pair_ptr[one]  # of a wide feature and of another feature
    vector[slots] = -np.inf
    features_of = np.repeat(np.arange(30), np.diff(layout.pair_ptr))[slots]
    result = features.scores(layout.unpack(vector).states, 0, 40)
    expected = np.zeros((40, 40), dtype=bool)
    for f, p in zip(features_of, slots, strict=True):
        expected[:, layout.pair_label[p]] |= full[:, f] != 0
    assert expected.any()
    np.testing.assert_array_equal(~np.isfinite(result), expected)
    assert not np.isnan(result).any()


def test_wide_features_are_computed_once_per_layout():
    layout = make(40, 120)[2]
    assert layout.split is layout.split
