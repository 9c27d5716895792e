"""`resolve`: kinds of tables, scales of scores, constraints, planted errors, bad input."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from intarsia.clusters import resolve
from intarsia.exceptions import IntarsiaError, InvalidInputError

EDGES = {
    "id1": ["a", "a", "b", "c", "d", "d", "e", "b"],
    "id2": ["b", "c", "c", "d", "e", "f", "f", "d"],
    "log_odds": [3.0, 2.0, 4.0, 1.0, 3.0, 3.0, 3.0, -4.0],
}
ENTITIES = ["a", "a", "a", "d", "d", "d"]


def plain(edges, ids=None, **settings):
    return resolve(edges, ids, calibrate=None, **{"absent": 0.0, **settings})


def entities(resolution):
    table = resolution.table
    return dict(zip(next(iter(table.values())), table["entity"], strict=True))


def test_all_kinds_of_tables(tmp_path):
    relation = (
        duckdb.from_arrow(pa.table(EDGES)) if hasattr(duckdb, "from_arrow") else duckdb.from_df(pd.DataFrame(EDGES))
    )
    relation.write_parquet(str(tmp_path / "pairs.parquet"))
    pd.DataFrame(EDGES).to_csv(tmp_path / "pairs.csv", index=False)
    kinds = [EDGES, pd.DataFrame(EDGES), pl.DataFrame(EDGES), pa.table(EDGES), pl.LazyFrame(EDGES), relation]
    kinds += [tmp_path / "pairs.parquet", tmp_path / "pairs.csv"]
    for edges in kinds:
        resolution = plain(edges)
        table = resolution.table
        if isinstance(table, pl.LazyFrame):
            table = table.collect()
        columns = table.fetchnumpy() if hasattr(table, "fetchnumpy") else table
        column = columns["entity"]
        assert [str(value) for value in column] == ENTITIES, type(edges)
        assert (type(resolution.table) is type(edges)) or isinstance(resolution.table, dict)
        assert resolution.score == resolution.bound == 18.0
        assert resolution.proven


def test_scales_of_scores():
    odds = np.array(EDGES["log_odds"])
    ends = {"unique_id_l": EDGES["id1"], "unique_id_r": EDGES["id2"]}
    for name, values in (("match_weight", odds / np.log(2)), ("match_probability", 1 / (1 + np.exp(-odds)))):
        resolution = plain({**ends, name: values})
        assert list(entities(resolution).values()) == ENTITIES
        assert resolution.score == pytest.approx(18.0)
    assert plain({**ends, "score": odds}).score == 18.0  # negative values cannot be probabilities
    assert plain({**ends, "score": 1 / (1 + np.exp(-odds))}).score == pytest.approx(18.0)
    with pytest.raises(InvalidInputError, match=r"row 0: 'probability' is 3\.0, expected a probability"):
        plain({**ends, "probability": odds})


def test_ids_without_pairs_repeated_pairs_and_order():
    edges = {"id1": [2, 1, 9], "id2": [1, 2, 10], "log_odds": [4.0, -2.0, 1.0]}
    resolution = plain(edges, [10, 9, 5, 2, 1])
    assert entities(resolution) == {1: 1, 2: 1, 5: 5, 9: 9, 10: 9}
    assert resolution.pairs.n_repeated == 1
    assert entities(plain(edges, repeated="min")) == {1: 1, 2: 2, 9: 9, 10: 9}
    assert entities(plain(edges, repeated="max"))[2] == 1


def test_constraints():
    assert (
        entities(plain(EDGES, cannot_link=[("a", "b")]))["a"] != entities(plain(EDGES, cannot_link=[("a", "b")]))["b"]
    )
    joined = plain(EDGES, must_link=[("a", "f")])
    assert entities(joined)["a"] == entities(joined)["f"]
    assert joined.score <= joined.bound < 18.0
    sized = plain(EDGES, max_size=2)
    assert max(np.unique(list(entities(sized).values()), return_counts=True)[1]) <= 2
    sources = dict(zip("abcdef", (1, 2, 1, 1, 2, 3), strict=True))
    linked = entities(plain(EDGES, source=sources))
    for name in set(linked.values()):
        members = [sources[record] for record, entity in linked.items() if entity == name]
        assert len(members) == len(set(members))
    assert linked == entities(plain(EDGES, source={"id": list(sources), "source": list(sources.values())}))


def test_one_to_one_linkage_finds_the_best_assignment():
    """Two tables, one record of each per entity: the optimum is that of the assignment problem."""
    from scipy.optimize import linear_sum_assignment

    rng = np.random.default_rng(0)
    n = 40
    odds = rng.normal(0, 3, (n, n))
    left, right = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    edges = {
        "id1": [f"l{i:02d}" for i in left.ravel()],
        "id2": [f"r{j:02d}" for j in right.ravel()],
        "log_odds": odds.ravel(),
    }
    source = {**{f"l{i:02d}": "left" for i in range(n)}, **{f"r{i:02d}": "right" for i in range(n)}}
    resolution = plain(edges, source=source, time_limit=20.0)
    rows, columns = linear_sum_assignment(-np.maximum(odds, 0.0))
    best = np.maximum(odds, 0.0)[rows, columns].sum()
    assert resolution.score == pytest.approx(best)
    assert resolution.proven
    sizes = np.unique(list(entities(resolution).values()), return_counts=True)[1]
    assert sizes.max() == 2


def test_planted_bridge_is_cut_and_chain_of_weak_links_is_not_merged():
    cliques = [(f"{side}{i}", f"{side}{j}", 2.0) for side in "xy" for i in range(5) for j in range(i)]
    bridge = [("x0", "y0", 3.0), *((f"x{i}", f"y{i}", -1.0) for i in range(1, 5))]
    first, second, odds = map(list, zip(*cliques, *bridge, strict=True))
    assert len(set(entities(plain({"id1": first, "id2": second, "log_odds": odds})).values())) == 2
    chain = {"id1": list("abcde"), "id2": list("bcdef"), "log_odds": [0.5] * 5}
    far = {"id1": list("abcd"), "id2": list("cdef"), "log_odds": [-3.0] * 4}
    both = {name: chain[name] + far[name] for name in chain}
    assert max(np.unique(list(entities(plain(both)).values()), return_counts=True)[1]) == 2


def test_components_table():
    edges = {**EDGES, "id1": [*EDGES["id1"], "x"], "id2": [*EDGES["id2"], "y"], "log_odds": [*EDGES["log_odds"], -1.0]}
    resolution = plain(edges, absent=-0.5)
    rows = resolution.components
    assert rows["component"] == ["a", "x", "y"]
    assert rows["n_records"] == [6, 1, 1]
    assert rows["n_entities"] == [2, 1, 1]
    assert rows["score"] == [18.0, 0.0, 0.0]
    assert rows["gap"] == [0.0, 0.0, 0.0]
    assert all(rows["proven"])


def test_empty_and_single():
    resolution = plain({"id1": [], "id2": [], "score": []}, ["b", "a"])
    assert resolution.table == {"id": ["a", "b"], "entity": ["a", "b"]}
    assert resolution.score == resolution.bound == resolution.gap == 0.0
    assert plain({"id1": [], "id2": [], "score": []}).table == {"id": [], "entity": []}


@pytest.mark.parametrize(
    ("change", "settings", "message"),
    [
        (
            {"log_odds": [1.0, float("nan"), *[0.0] * 6]},
            {},
            "edges: row 1: 'log_odds' is nan, expected a finite number",
        ),
        ({"log_odds": [1.0, float("inf"), *[0.0] * 6]}, {}, "edges: row 1: 'log_odds' is inf"),
        ({"id1": [None, *"abcdefg"]}, {}, "edges: row 0: the id in column 'id1' is missing"),
        ({"id1": ["b", *EDGES["id1"][1:]]}, {}, "edges, row 0: record 'b' is paired with itself"),
        ({}, {"must_link": [("a", "b")], "cannot_link": [("b", "a")]}, "'b' and 'a' must not be together"),
        ({}, {"must_link": [("a", ["b"])]}, "must_link, row 0: expected the id of a record, got a list"),
        ({}, {"must_link": [("a", "zz")]}, "must_link, row 0: there is no record with id 'zz'"),
        ({}, {"score_column": "log_od"}, "log_odds"),
        ({}, {"id_columns": ("id1", "id3")}, "id2|id1"),
        ({}, {"absent": 1.0}, "absent"),
        ({}, {"max_size": 0}, "max_size"),
        ({}, {"repeated": "sum"}, "repeated"),
        ({}, {"source": 3}, "Pass a dict id -> source"),
    ],
)
def test_bad_input_is_named(change, settings, message):
    with pytest.raises(IntarsiaError, match=message):
        plain({**EDGES, **change}, **settings)


def test_no_pairs_leave_every_record_alone():
    resolution = resolve({"id1": [], "id2": [], "log_odds": []}, ids=["b", "a"])
    assert resolution.table == {"id": ["a", "b"], "entity": ["a", "b"]}
    assert resolution.proven


@pytest.mark.parametrize("kind", ["dict", "parquet"])
def test_integer_ids_and_their_text_are_matched(tmp_path, kind):
    edges = {"id1": [1, 2], "id2": [2, 3], "log_odds": [3.0, -2.0]}
    if kind == "parquet":
        pd.DataFrame(edges).to_parquet(tmp_path / "pairs.parquet")
        edges = tmp_path / "pairs.parquet"
    (tmp_path / "ids.csv").write_text("id,source\n1,a\n2,b\n3,a\n10,b\n", encoding="utf-8")
    resolution = plain(edges, tmp_path / "ids.csv", source=tmp_path / "ids.csv", must_link=[("3", "10")])
    assert entities(resolution) == {1: 1, 2: 1, 3: 3, 10: 3}
    assert resolution.links.source.tolist() == [0, 1, 0, 1]


def test_text_ids_and_integers_are_matched_the_other_way_round():
    edges = {"id1": ["1", "2"], "id2": ["2", "3"], "log_odds": [3.0, -2.0]}
    assert entities(plain(edges, [1, 2, 3, 4])) == {"1": "1", "2": "1", "3": "3", "4": "4"}
    padded = {"id1": ["01", "2"], "id2": ["2", "3"], "log_odds": [3.0, -2.0]}
    with pytest.raises(InvalidInputError, match=r"a pair has id '01', which is not in ids"):
        plain(padded, [1, 2, 3])
    labels = {"id1": ["1"] * 6 + ["2"] * 6, "id2": ["2"] * 6 + ["3"] * 6, "match": [1] * 6 + [0] * 6}
    integers = {"id1": [1, 2], "id2": [2, 3], "log_odds": [3.0, -2.0]}
    assert resolve(integers, calibrate=labels).calibration.method == "labels"
