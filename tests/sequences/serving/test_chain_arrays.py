"""Inference with NumPy agrees with the compiled kernels, ties and forbidden transitions included."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia.graph.chains import ChainBatch
from intarsia.inference.chains import chain_inference as compiled
from intarsia.sequences.serving.chain_arrays import (
    ChainSums,
    Segment,
    best_path,
    best_paths,
    log_partition,
    marginals,
)


def _chains(n: int):
    """Random scores: small and large, integers with many ties, and forbidden labels and transitions."""
    rng = np.random.default_rng(0)
    for trial in range(n):
        length, k = int(rng.integers(1, 12)), int(rng.integers(2, 6))
        nodes, transitions = rng.normal(size=(length, k)) * rng.choice([1, 10, 300]), rng.normal(size=(k, k))
        if trial % 3 == 0:
            transitions[rng.random((k, k)) < 0.3] = -np.inf
        if trial % 4 == 0:
            nodes[rng.random((length, k)) < 0.2] = -np.inf
        if trial % 5 == 0:
            nodes, transitions = np.round(nodes), np.round(transitions)
        yield nodes, transitions, ChainBatch(nodes, [0, length], transitions)


def test_best_labellings_are_those_of_the_kernels_bit_for_bit():
    n_impossible = 0
    for nodes, transitions, batch in _chains(500):
        paths, scores = compiled.best_paths(batch, 7)
        path, score = best_path(nodes, transitions)
        assert score == scores[0, 0]
        if score == -np.inf:
            n_impossible += 1
            assert best_paths(nodes, transitions, 7) == []
            continue
        assert path == paths[0].tolist()
        n_paths = int((scores[:, 0] > -np.inf).sum())
        expected = [(paths[r].tolist(), scores[r, 0]) for r in range(n_paths)]
        assert best_paths(nodes, transitions, 7) == expected
    assert n_impossible > 10


def test_marginals_and_log_partition():
    for nodes, transitions, batch in _chains(500):
        expected = compiled.chain_marginals(batch)
        np.testing.assert_allclose(marginals(nodes, transitions), expected.nodes, rtol=0, atol=1e-12)
        assert log_partition(nodes, transitions) == pytest.approx(expected.log_partition[0], rel=1e-13, abs=1e-10)


@pytest.mark.parametrize("n_best", [1, 2, 50])
def test_all_labellings_of_a_short_chain(n_best):
    nodes, transitions, _ = next(_chains(1))
    nodes, transitions = nodes[:2, :2], np.array([[0.5, -1.0], [0.25, 2.0]])
    scores = sorted(
        ((nodes[0, a] + transitions[a, b] + nodes[1, b], [a, b]) for a in range(2) for b in range(2)), reverse=True
    )
    results = best_paths(nodes, transitions, n_best)
    assert [path for path, _ in results] == [path for _, path in scores[:n_best]]


def test_segment_probabilities_are_sums_over_labellings_with_exactly_this_segment():
    """The sum over labellings in which only the segment's labels are possible, and not its neighbours' label."""
    n_impossible = 0
    for nodes, transitions, _ in _chains(300):
        length, k = nodes.shape
        total = log_partition(nodes, transitions)
        if total == -np.inf:
            continue
        rng = np.random.default_rng(length)
        first = int(rng.integers(length))
        labels = rng.integers(k, size=int(rng.integers(1, length - first + 1))).tolist()
        not_before, not_after = (None if rng.random() < 0.3 else int(rng.integers(k)) for _ in range(2))
        clamped, after = nodes.copy(), first + len(labels)
        for t, label in enumerate(labels, first):
            clamped[t, np.arange(k) != label] = -np.inf
        if first > 0 and not_before is not None:
            clamped[first - 1, not_before] = -np.inf
        if after < length and not_after is not None:
            clamped[after, not_after] = -np.inf
        expected = log_partition(clamped, transitions) - total
        segment = Segment(first, labels, not_before, not_after)
        value = ChainSums(nodes, transitions).segment_log_probability(segment)
        assert value == pytest.approx(min(expected, 0.0), rel=1e-10, abs=1e-9) or value == expected == -np.inf
        n_impossible += expected == -np.inf
    assert n_impossible > 10


@pytest.mark.parametrize("scale", [1.0, 100.0, 1000.0])
def test_sums_of_small_and_large_ranges_agree(scale):
    """The product of exponentials, used for small ranges, and sums of logarithms give the same; 1000 exceeds it."""
    rng = np.random.default_rng(3)
    nodes, transitions = scale * rng.random((6, 4)), rng.normal(size=(4, 4))
    forbidden = np.full((6, 1), -np.inf)  # an impossible label changes nothing, and needs sums of logarithms
    wide = np.full((5, 5), -np.inf)
    wide[:4, :4] = transitions
    value = log_partition(np.hstack([nodes, forbidden]), wide)
    assert log_partition(nodes, transitions) == pytest.approx(value, rel=1e-13)
