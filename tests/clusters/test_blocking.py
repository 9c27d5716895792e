"""Candidate pairs of blocking rules, compared with loops over all pairs."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
import numpy as np
import pytest

from intarsia.clusters.blocking import (
    BLOCKINGS,
    AllPairs,
    SharedTokens,
    SharedValues,
    SortedNeighbourhood,
    unique_pairs,
)
from intarsia.clusters.record_pairs import blocking_rules
from intarsia.clusters.tables import read_table
from intarsia.exceptions import InvalidInputError, TooLargeError


def some_table(n=40, seed=0):
    rng = np.random.default_rng(seed)
    words = np.array(["red", "green", "blue", "old", "new", "Ann", "bob", "eve"])
    return read_table(
        {
            "title": [" ".join(rng.choice(words, rng.integers(0, 4))) for _ in range(n)],
            "town": [rng.choice(["x", "y", "z", None]) for _ in range(n)],
        }
    )


def candidate_pairs(table, blocking):
    return unique_pairs([rule.pairs(table) for rule in blocking_rules([], blocking)])


def as_set(pairs):
    return {tuple(pair) for pair in pairs.tolist()}


def words_of(value):
    return set((value or "").casefold().split())


def test_all_pairs():
    assert as_set(AllPairs().pairs(some_table())) == set(combinations(range(40), 2))
    with pytest.raises(TooLargeError, match=r"^40 records have 780 pairs, more than max_pairs=779"):
        AllPairs(max_pairs=779).pairs(some_table())


def test_shared_values():
    table = some_table()
    town, title = table.columns["town"], table.columns["title"]
    expected = {(i, j) for i, j in combinations(range(40), 2) if town[i] is not None and town[i] == town[j]}
    assert as_set(SharedValues("town").pairs(table)) == expected
    both = {(i, j) for i, j in expected if title[i] and title[j] and title[i][:2].lower() == title[j][:2].lower()}
    found = SharedValues(["town", "title"], prefix=2).pairs(table)
    assert as_set(found) == both


@pytest.mark.parametrize(("max_records", "min_shared"), [(100, 1), (100, 2), (9, 1)])
def test_shared_tokens(max_records, min_shared):
    table = some_table()
    sets = [words_of(value) for value in table.columns["title"]]
    frequent = {w for w in set().union(*sets) if sum(w in s for s in sets) > max_records}
    assert bool(frequent) == (max_records == 9)
    expected = {
        (i, j)
        for i, j in combinations(range(40), 2)
        if len((sets[i] & sets[j]) - frequent) >= min_shared
        or (table.columns["title"][i] and table.columns["title"][i] == table.columns["title"][j])
    }
    assert as_set(SharedTokens("title", max_records, min_shared).pairs(table)) == expected


def test_ngrams_pair_misspelt_words():
    table = read_table({"name": ["martha", "marhta", "zoe"]})
    assert len(SharedTokens("name").pairs(table)) == 0
    assert as_set(SharedTokens("name", ngram=2).pairs(table)) == {(0, 1)}


def test_words_are_shared_within_a_column_only():
    table = read_table({"a": ["x", "y"], "b": ["y", "x"]})
    assert len(SharedTokens().pairs(table)) == 0


def test_sorted_neighbourhood():
    table = read_table({"name": ["d", "a", None, "c", "b"]})
    assert as_set(SortedNeighbourhood("name", window=1).pairs(table)) == {(1, 4), (3, 4), (0, 3)}
    assert len(SortedNeighbourhood("name", window=9).pairs(table)) == 6


@pytest.mark.parametrize("blocking", [SharedValues("name", max_block=10), SharedTokens("name", max_records=10)])
def test_many_equal_records_stay_connected(blocking):
    """The limit bounds the pairs of a large block, but equal records stay connected."""
    table = read_table({"name": ["ann lee"] * 200, "age": list(range(200))})
    pairs = blocking.pairs(table)
    assert 199 <= len(pairs) <= 2000
    graph = nx.Graph(pairs.tolist())
    assert nx.is_connected(graph)
    assert len(graph) == 200


def test_union_of_rules_and_registry_names():
    table = some_table()
    both = candidate_pairs(table, [SharedValues("town"), SharedTokens("title")])
    one, other = SharedValues("town").pairs(table), SharedTokens("title").pairs(table)
    assert as_set(both) == as_set(one) | as_set(other)
    assert len(both) == len(as_set(both))
    assert both.tolist() == sorted(both.tolist())
    for name in BLOCKINGS.names:
        assert (np.diff(candidate_pairs(table, name), axis=1) > 0).all()
        assert candidate_pairs(read_table({"title": []}), name).shape == (0, 2)
        assert candidate_pairs(read_table({"title": ["a"]}), name).shape == (0, 2)
    with pytest.raises(InvalidInputError, match="blocking='tokens' is not known"):
        candidate_pairs(table, "tokens")
    with pytest.raises(InvalidInputError, match="column='twn'"):
        candidate_pairs(table, SharedValues("twn"))
    for bad in (SharedValues("town", max_block=1), SharedTokens(max_records=0), SortedNeighbourhood(window=0)):
        with pytest.raises(InvalidInputError, match=f"^{type(bad).__name__}: "):
            candidate_pairs(table, bad)
