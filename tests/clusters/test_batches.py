"""Batches of connected components, with their constraints."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia.clusters.components import Links, connected_components, read_links, split_into_batches
from intarsia.clusters.record_pairs import RecordPairs
from intarsia.exceptions import InvalidInputError

NONE = np.empty((0, 2), np.int64)


def some_records(n=60, n_pairs=40, seed=0):
    rng = np.random.default_rng(seed)
    pairs = np.unique(np.sort(rng.integers(0, n, (n_pairs, 2)), axis=1), axis=0)
    pairs = pairs[pairs[:, 0] < pairs[:, 1]]
    return RecordPairs([f"r{k}" for k in range(n)], np.arange(n), pairs, rng.normal(size=(len(pairs), 2)), ("f", "g"))


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("most", [1, 10, 1000])
def test_each_record_and_pair_is_in_one_batch(most, ordered):
    records = some_records()
    must = np.array([[0, 59], [3, 7]])
    cannot = np.array([[0, 1], [20, 21], [59, 58]])
    source = np.arange(60) % 7
    batches = split_into_batches(
        records, Links(must, cannot, source), records.values[:, 0] if ordered else None, max_records=most
    )
    assert sorted(np.concatenate([batch.records for batch in batches])) == list(range(60))
    assert sorted(np.concatenate([batch.rows for batch in batches])) == list(range(len(records.pairs)))
    component = connected_components(60, np.concatenate([records.pairs, must]))
    for batch in batches:
        assert (batch.pairs[:, 0] < batch.pairs[:, 1]).all()
        np.testing.assert_array_equal(np.sort(batch.records[batch.pairs]), records.pairs[batch.rows])
        n_components = len(set(component[batch.records]))
        assert n_components == 1 or len(batch.records) <= most
        # Components are never divided.
        assert np.isin(component, component[batch.records]).sum() == len(batch.records)
        assert batch.constraints.source.tolist() == np.unique(source[batch.records], return_inverse=True)[1].tolist()
    if most == 1000:
        (whole,) = batches
        atom = whole.constraints.atom
        assert atom[whole.records == 0] == atom[whole.records == 59]
        assert whole.constraints.cannot_idx.size == 2 * len(cannot)


@pytest.mark.parametrize("seed", range(5))
def test_similar_records_have_neighbouring_positions(seed):
    records = some_records(n_pairs=150, seed=seed)
    likeness = np.round(records.values[:, 0], 1)  # with ties
    (batch,) = split_into_batches(records, Links(NONE, NONE), likeness)
    place = np.empty(60, dtype=int)
    place[batch.records] = np.arange(60)
    for level in np.unique(likeness):
        group = connected_components(60, records.pairs, likeness, level)
        for k in range(group.max() + 1):
            assert np.ptp(place[group == k]) == (group == k).sum() - 1


def test_no_records():
    assert split_into_batches(RecordPairs([], np.arange(0), NONE, np.empty((0, 1)), ("f",)), Links(NONE, NONE)) == []


@pytest.mark.parametrize(
    ("must", "cannot", "sources", "message"),
    [
        ([("r0", "r1"), ("r1", "r2")], [("r2", "r0")], None, "'r2' and 'r0' must not be together, but must-links join"),
        ([("r0", "nobody")], [], None, r"must_link, row 0: there is no record with id 'nobody'"),
        ([], [("r1", "r1")], None, r"cannot_link, row 0: \('r1', 'r1'\); expected the ids of two different records"),
        ([("r0",)], [], None, "expected the ids of two"),
        ([("r0", "r2")], [], ["shop", "web", "shop"], "'r0' and 'r2' come from the same source 'shop'"),
    ],
)
def test_bad_links(must, cannot, sources, message):
    three = RecordPairs(["r0", "r1", "r2"], np.arange(3), NONE, np.empty((0, 1)), ("f",))
    with pytest.raises(InvalidInputError, match=message):
        read_links(three, must, cannot, sources)


def test_sources_become_integers():
    three = RecordPairs(["r0", "r1", "r2"], np.arange(3), NONE, np.empty((0, 1)), ("f",))
    links = read_links(three, [], [["r0", "r1"]], ["shop", None, "web"])
    assert links.source.tolist() == [0, -1, 1]
    assert links.cannot.tolist() == [[0, 1]]
