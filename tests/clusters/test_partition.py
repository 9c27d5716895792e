"""Partitions: moves compared with sets of sets, undo, and invalid moves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intarsia.clusters import Move, Partition
from intarsia.exceptions import InvalidInputError


def as_sets(partition):
    return {frozenset(partition.members(c).tolist()) for c in partition.clusters}


@settings(max_examples=30, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 12))
def test_moves_and_undo(seed, n):
    rng = np.random.default_rng(seed)
    partition = Partition(rng.integers(0, n, n))
    past = []
    for _ in range(15):
        before = (
            as_sets(partition),
            partition.labels.tolist(),
            {c: set(partition.members(c)) for c in partition.clusters},
        )
        record = int(rng.integers(n))
        home = partition.cluster_of(record)
        mine = partition.members(home)
        others = [c for c in partition.clusters if c != home]
        kind = rng.integers(3)
        expected = set(before[0])
        expected.discard(frozenset(mine.tolist()))
        if kind == 0 and others:
            other = others[int(rng.integers(len(others)))]
            expected.discard(frozenset(partition.members(other).tolist()))
            expected.add(frozenset([*mine.tolist(), *partition.members(other).tolist()]))
            partition.merge(home, other)
        elif kind == 1 and mine.size > 1:
            chosen = rng.permutation(mine)[: int(rng.integers(1, mine.size))]
            expected |= {frozenset(chosen.tolist()), frozenset(set(mine.tolist()) - set(chosen.tolist()))}
            partition.split(home, chosen)
        elif kind == 2 and others:
            other = others[int(rng.integers(len(others)))]
            expected.discard(frozenset(partition.members(other).tolist()))
            expected |= {
                frozenset([record, *partition.members(other).tolist()]),
                frozenset(set(mine.tolist()) - {record}),
            }
            partition.move(record, other)
        else:
            continue
        assert as_sets(partition) == expected - {frozenset()}
        assert partition.n_clusters == len(as_sets(partition))
        past.append(before)
    for sets, labels, numbered in reversed(past):
        partition.undo()
        assert as_sets(partition) == sets
        assert partition.labels.tolist() == labels
        assert {c: set(partition.members(c)) for c in partition.clusters} == numbered
    with pytest.raises(InvalidInputError, match="no move to revert"):
        partition.undo()


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda p: Partition([]), "with at least one record"),
        (lambda p: Partition([[0, 1]]), r"shape \(1, 2\)"),
        (lambda p: Partition([0.5]), "expected integers"),
        (lambda p: p.merge(0, 2), "cluster 2 is empty"),
        (lambda p: p.merge(0, 9), r"in \[0, 2\]"),
        (lambda p: p.merge(0, 0), "changes nothing"),
        (lambda p: p.split(0, [0, 1]), "Pass some of them"),
        (lambda p: p.split(0, [2]), "record 2 is not in cluster 0"),
        (lambda p: p.move(5, 0), r"in \[0, 2\]"),
        (lambda p: p.move(2, -1), "changes nothing"),
        (lambda p: p.apply(Move(np.array([0, 2]), -1)), "record 2 is not in cluster 0"),
        (lambda p: p.apply(Move(np.array([0, 0]), 1)), "each once"),
        (lambda p: p.apply(Move(np.array([-1]), 1)), r"in \[0, 2\]"),
    ],
)
def test_invalid_moves(act, message):
    partition = Partition([0, 0, 1])
    with pytest.raises(InvalidInputError, match=message):
        act(partition)
    assert partition.labels.tolist() == [0, 0, 1]
