"""Candidate pairs with features from tables and from scored edges, and invalid input."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

from intarsia.clusters.blocking import AllPairs
from intarsia.clusters.comparisons import ExactMatch, Numeric
from intarsia.clusters.record_pairs import compared_records, guess_comparisons, scored_records
from intarsia.clusters.tables import read_table
from intarsia.exceptions import InvalidInputError

EDGES = {"id1": ["a", "c"], "id2": ["b", "a"], "score": [0.9, 0.25], "rule": ["name", "town"]}


def test_compared_records():
    table = {"id": ["x", "y", "z"], "name": ["ann lee", "lee ann", "bob"], "age": [1, 2, 3]}
    declared = [("name", ExactMatch()), ("age", Numeric(levels=()))]
    found = compared_records(table, declared, None, "id")
    assert found.ids == ["x", "y", "z"]
    assert found.pairs.tolist() == [[0, 1]]  # shared words in the text column
    assert found.values.tolist() == [[0.0, 0.0, 0.5, 0.0]]
    assert len(compared_records(table, declared, AllPairs(), "id").pairs) == 3
    assert len(compared_records(table, declared[1:], None, None).pairs) == 3  # without text columns: all pairs
    with pytest.raises(InvalidInputError, match=r"^column='nam' is not known"):
        compared_records(table, [("nam", ExactMatch())], None, None)


@pytest.mark.parametrize("table", [{"name": []}, {"name": ["ann"]}])
def test_tables_of_few_records(table):
    found = compared_records(table, [("name", ExactMatch())], None, None)
    assert (found.n_records, found.pairs.shape, found.values.shape) == (len(table["name"]), (0, 2), (0, 2))


@pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame])
def test_scored_records(make):
    found = scored_records(["c", "b", "a", "alone"], make(EDGES), None, None, None)
    assert found.ids == ["c", "b", "a", "alone"]
    assert found.pairs.tolist() == [[0, 2], [1, 2]]
    assert found.values.ravel().tolist() == [0.25, 0.9]
    assert found.names == ("score",)


def test_edges_of_other_programs():
    splink = {
        "match_weight": [3.0], "match_probability": [0.9], "unique_id_l": [7], "unique_id_r": [5], "match_key": ["0"],
        "surname_l": ["a"],
    }  # fmt: skip
    found = scored_records(np.array([5, 7]), splink, None, None, None)
    assert found.pairs.tolist() == [[0, 1]]
    assert found.names == ("match_weight", "match_probability")
    chosen = scored_records({"pid": [5, 7]}, splink, "pid", ("unique_id_l", "unique_id_r"), ["match_weight"])
    assert chosen.values.tolist() == [[3.0]]
    # dedupe exports pairs of ids and a score, without column names.
    plain = {"0": [5], "1": [7], "2": [0.5]}
    assert scored_records(pd.Series([5, 7]), plain, None, None, None).names == ("2",)
    assert scored_records([5, 7], plain, None, None, None).values.tolist() == [[0.5]]


@pytest.mark.parametrize(
    ("ids", "edges", "message"),
    [
        (["a", "b"], EDGES, r"^edges, row 1: there is no record with id 'c'"),
        (["a", "b", "c", "a"], EDGES, "id 'a' is in row 0 and in row 3"),
        (
            ["a", "b", "c"],
            EDGES | {"score": [0.9, np.nan]},
            "edges, 'score', row 1: expected a finite number, got None",
        ),
        (["a", "b", "c"], EDGES | {"score": [np.inf, 0]}, "row 0: expected a finite number, got inf"),
        (["a", "b", "c"], EDGES | {"id2": ["a", "a"]}, "row 0: record 'a' is paired with itself"),
        (["a", "b", "c"], EDGES | {"id1": ["a", "b"], "id2": ["b", "a"]}, "the pair 'a', 'b' twice"),
        (["a", "b", "c"], {"id1": ["a"], "id2": ["b"]}, "no column of numbers"),
        (["a"], {"id1": ["a"]}, "expected two ids, such as"),
    ],
)
def test_bad_edges(ids, edges, message):
    with pytest.raises(InvalidInputError, match=message):
        scored_records(ids, edges, None, None, None)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8, np.uint64])
@pytest.mark.parametrize("ids", [[0, 1, 2, 3], [3, 1, 0, 2], [9, 7, 12, 8], [5, 100, 200, 250]])
def test_arrays_of_edges_equal_lists(ids, dtype):
    ends = [[ids[0], ids[2], ids[1]], [ids[1], ids[0], ids[3]]]
    scores = [0.5, -1.0, 2.0]
    expected = scored_records(ids, {"id1": ends[0], "id2": ends[1], "score": scores}, None, None, None)
    arrays = {"id1": np.array(ends[0], dtype), "id2": np.array(ends[1], dtype), "score": np.array(scores)}
    result = scored_records(np.array(ids, dtype), arrays, None, None, None)
    assert result.ids == expected.ids
    assert result.pairs.tolist() == expected.pairs.tolist()
    assert result.values.tolist() == expected.values.tolist()


@pytest.mark.parametrize(
    ("ids", "change", "message"),
    [
        ([4, 5, 6], {"id1": np.array([4, 7])}, "^edges, row 1: there is no record with id 7"),
        ([4, 5, 6], {"id1": np.array([4, 3])}, "^edges, row 1: there is no record with id 3"),
        ([4, 5, 7], {"id1": np.array([4, 6])}, "^edges, row 1: there is no record with id 6"),
        ([4, 5, 6], {"id1": np.array([4, 2**64 - 1], np.uint64)}, "there is no record with id 18446744073709551615"),
        ([4, 5, 10**30], {"id1": np.array([4, 6])}, "^edges, row 1: there is no record with id 6"),
        ([4, 5, 6], {"score": np.array([0.5, -np.inf])}, "'score', row 1: expected a finite number, got -inf"),
        ([4, 5, 6], {"score": np.array([np.nan, 0.5])}, "'score', row 0: expected a finite number, got None"),
    ],
)
def test_bad_arrays_of_edges(ids, change, message):
    edges = {"id1": np.array([4, 4]), "id2": np.array([5, 5]), "score": np.array([0.5, 0.5])} | change
    with pytest.raises(InvalidInputError, match=message):
        scored_records(ids, edges, None, None, None)


def test_ids_that_are_equal_numbers_of_other_types():
    edges = {"id1": np.array([1.0, 2.0]), "id2": np.array([2, 0]), "score": np.array([1, 2])}
    assert scored_records([0, 1, 2], edges, None, ("id1", "id2"), None).pairs.tolist() == [[0, 2], [1, 2]]
    with pytest.raises(InvalidInputError, match="'id1' and 'id2' are not clearly ids: they hold floats"):
        scored_records([0, 1, 2], edges, None, None, None)


def test_guessed_comparisons():
    table = read_table(
        {
            "id": [1, 2],
            "first": ["Ann", "Bob"],
            "born": [datetime.date(2001, 2, 3), None],
            "written": ["2001-02-03", "1999-05-06T00:00"],
            "height": [1.5, None],
            "title": ["on the origin of species", "principia mathematica"],
            "vector": [[1.0, 2.0], [3.0, 4.0]],
            "empty": [None, " "],
        }
    )
    assert guess_comparisons(table, excluded=["id"]) == {
        "first": "jaro_winkler", "born": "date", "written": "date", "height": "numeric", "title": "token_overlap",
        "vector": "embedding",
    }  # fmt: skip
