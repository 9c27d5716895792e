"""Likelihood of sequences against enumeration, and its gradient against finite differences."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from tests.oracles.chain_likelihood import log_probability, parts_of
from tests.oracles.finite_differences import central_differences, relative_error

from intarsia.models.chain_scores import ChainLayout, observed_pairs
from intarsia.sequences.chain_data import ChainExamples, ChainTruth, cut_in_chunks, make_data
from intarsia.sequences.maximum_likelihood import ChainRisk
from intarsia.sequences.tag_schemes import find_constraints


def make_examples(rng, lengths, d, k, *, pairs, ends, n_edge, partial, forbidden, weighted):
    """Return random sequences with labels that the constraints permit."""
    n = sum(lengths)
    matrix = sparse.random_array((n, d), density=0.6, rng=rng, format="csr")
    ptr = np.concatenate([[0], np.cumsum(lengths)])
    bounds = find_constraints(np.arange(k), [(0, k - 1), (None, 1)] if forbidden else None, None)
    states = np.concatenate([permitted(rng, length, k, forbidden) for length in lengths])
    allowed = None
    if partial:
        allowed = (states[:, None] == np.arange(k)) | (rng.random((n, k)) < 0.4)
        states = np.where(allowed.sum(axis=1) == 1, states, -1)
    edges = [rng.normal(size=(length - 1, n_edge)) for length in lengths] if n_edge else None
    weight = rng.random(len(lengths)) if weighted else np.ones(len(lengths))
    data = make_data(matrix if pairs else matrix.toarray(), ptr, edges)
    truth = ChainTruth(states, allowed, weight)
    chosen = observed_pairs(matrix, truth.possible(k)) if pairs else (None, None)
    return ChainExamples(data, truth, ChainLayout(d, k, *chosen, ends, n_edge), bounds)


def permitted(rng, length, k, forbidden):
    while True:
        path = rng.integers(k, size=length)
        if not forbidden or allows(k)(path):
            return path


def allows(k):
    return lambda path: path[0] != 1 and (0, k - 1) not in set(itertools.pairwise(map(int, path)))


def by_enumeration(examples, weights, forbidden):
    """Return the weighted negative log-likelihood per labelled position."""
    data, truth, layout = examples.data, examples.truth, examples.layout
    k = layout.n_labels
    dense = data.matrix.toarray() if sparse.issparse(data.matrix) else data.matrix
    total, mass = 0.0, 0.0
    for s, (a, b) in enumerate(itertools.pairwise(data.ptr.tolist())):
        known = truth.possible(k)[a:b]
        edges = None if data.edges is None else data.edges[a - s : b - s - 1]
        sets = [set(np.flatnonzero(row)) for row in known]
        value = log_probability(
            parts_of(layout, weights), dense[a:b], sets, allows(k) if forbidden else lambda path: True, edges
        )
        total -= truth.weight[s] * value
        mass += truth.weight[s] * sum(len(some) < k for some in sets)
    return total / mass


CASES = [
    {"pairs": False, "ends": True, "n_edge": 0, "partial": False, "forbidden": False, "weighted": False},
    {"pairs": True, "ends": False, "n_edge": 0, "partial": True, "forbidden": False, "weighted": True},
    {"pairs": True, "ends": True, "n_edge": 2, "partial": False, "forbidden": True, "weighted": True},
    {"pairs": False, "ends": True, "n_edge": 1, "partial": True, "forbidden": True, "weighted": True},
]


@pytest.mark.parametrize("case", range(len(CASES)))
@settings(max_examples=8, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1))
def test_value_and_gradient(case, seed):
    rng = np.random.default_rng(seed)
    how = CASES[case]
    examples = make_examples(rng, [3, 1, 2, 4], 3, 3, **how)
    risk = ChainRisk(examples, ridge=0.6)
    weights = rng.normal(size=risk.n_weights)
    value, gradient = risk(weights)
    assert value == pytest.approx(
        by_enumeration(examples, weights, how["forbidden"]) + 0.3 * weights @ weights, abs=1e-11
    )
    differences = central_differences(lambda w: risk(w)[0], weights)
    assert relative_error(gradient, differences) < 1e-8


def test_chunks_jobs_and_subsets(monkeypatch):
    """Sums do not depend on the chunks, and threads change no bit."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 6, size=40).tolist()
    examples = make_examples(
        rng, lengths, 4, 3, pairs=True, ends=True, n_edge=0, partial=True, forbidden=True, weighted=True
    )
    weights = rng.normal(size=examples.layout.n_weights)
    whole = ChainRisk(examples)(weights)
    monkeypatch.setattr(
        "intarsia.sequences.maximum_likelihood.cut_in_chunks", lambda ptr: cut_in_chunks(ptr, min_size=7)
    )
    cut = ChainRisk(examples)
    assert len(cut._chunks) > 5
    value, gradient = cut(weights)
    assert value == pytest.approx(whole[0], rel=1e-12)
    np.testing.assert_allclose(gradient, whole[1], atol=1e-13)
    threads = ChainRisk(examples, n_jobs=2)(weights)
    assert threads[0] == value
    np.testing.assert_array_equal(threads[1], gradient)
    # The total risk is the mean of the risks of the subsets, weighted by mass.
    parts = [cut.subset(np.arange(0, 40, 2)), cut.subset(np.arange(1, 40, 2))]
    assert sum(part.mass for part in parts) == pytest.approx(cut.mass)
    assert sum(part.mass * part(weights)[0] for part in parts) == pytest.approx(cut.mass * value)
    np.testing.assert_allclose(sum(part.mass * part(weights)[1] for part in parts), cut.mass * gradient, atol=1e-10)


def test_huge_weights_have_infinite_risk():
    rng = np.random.default_rng(0)
    examples = make_examples(rng, [2, 2], 2, 2, **CASES[0])
    risk = ChainRisk(examples)
    assert risk(np.full(risk.n_weights, np.inf))[0] == np.inf
    assert risk(np.full(risk.n_weights, 1e150))[0] == np.inf
    assert risk(np.full(risk.n_weights, np.nan))[0] == np.inf
