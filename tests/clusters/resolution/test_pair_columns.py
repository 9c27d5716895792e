"""Which columns of a table of pairs are ids: any names X_l and X_r, never scores; ids of a column have one type."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import coo_array, csgraph

from intarsia import EntityClusterer
from intarsia.cli import main
from intarsia.clusters import label_components, resolve
from intarsia.clusters.resolution.pair_columns import in_type_of, one_type
from intarsia.exceptions import InvalidInputError

N = 60  # records


def scores_and_ids(seed=0):
    """Positive match weights of random pairs, ids as integers, and the components by SciPy."""
    rng = np.random.default_rng(seed)
    ends = np.unique(np.sort(rng.integers(0, N, (45, 2)), axis=1), axis=0)
    ends = ends[ends[:, 0] < ends[:, 1]]
    weights = rng.uniform(0.2, 9.0, len(ends)).round(3)
    graph = coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(N, N))
    component = csgraph.connected_components(graph, directed=False)[1]
    used = np.unique(ends)
    smallest = {k: 100 + int(used[component[used] == component[k]].min()) for k in used.tolist()}
    return ends + 100, weights, {100 + k: name for k, name in smallest.items()}


def as_kind(columns, kind, folder):
    """Return the columns as a table of a kind."""
    frame = pd.DataFrame(columns)
    if kind == "numpy":
        return {name: np.asarray(values) for name, values in columns.items()}
    if kind in ("polars", "lazy"):
        table = pl.DataFrame({name: list(values) for name, values in columns.items()})
        return table.lazy() if kind == "lazy" else table
    if kind == "relation":
        return duckdb.from_df(frame)
    if kind == "parquet":
        frame.to_parquet(folder / "pairs.parquet")
        return folder / "pairs.parquet"
    if kind == "csv":
        frame.to_csv(folder / "pairs.csv", index=False)
        return str(folder / "pairs.csv")
    return frame


def as_dict(table):
    """Return any table of results as a dict of lists."""
    if isinstance(table, pl.LazyFrame):
        table = table.collect()
    if isinstance(table, duckdb.DuckDBPyRelation):
        table = table.df()
    return {name: list(table[name]) for name in (table if isinstance(table, dict) else table.columns)}


KINDS = ("numpy", "pandas", "polars", "lazy", "relation", "parquet", "csv")
NAMES = [
    ("cust_id_l", "cust_id_r", "cust_id"),
    ("unique_id_l", "unique_id_r", "unique_id"),
    ("customerId_left", "customerId_right", "customerId"),
    ("person_l", "person_r", "person"),
    ("rec_key_1", "rec_key_2", "rec_key"),
    ("left", "right", "id"),
    ("entity_l", "entity_r", "id"),
    ("one", "other", "id"),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("names", NAMES, ids=lambda names: names[0])
def test_scores_before_ids(names, kind, tmp_path):
    ends, weights, expected = scores_and_ids()
    columns = {
        "match_weight": weights,
        "match_probability": 1 / (1 + 2.0**-weights),
        names[1]: ends[:, 1],
        names[0]: ends[:, 0],
    }
    resolution = resolve(as_kind(columns, kind, tmp_path), absent=0.0)
    table = as_dict(resolution.table)
    assert list(table) == [names[2], "entity"]
    got = {int(name): int(entity) for name, entity in zip(table[names[2]], table["entity"], strict=True)}
    assert got == expected
    assert resolution.n_pairs == len(ends)


EXTRA = {
    "attributes of both": {"first_name_l": "ann", "first_name_r": "anne", "city_l": "Rye", "city_r": "Rye"},
    "compared by Splink": {"gamma_name": 2, "name_l": "ann", "name_r": "anne", "mw_name": 3.5, "match_key": "0"},
    "integer scores": {"gamma_name": 2, "weight_l": 70, "weight_r": 71, "overall_score": 3},
    "term frequencies": {"tf_city_l": 0.25, "tf_city_r": 0.25, "bf_city": 8},
}


@pytest.mark.parametrize("extra", EXTRA)
@pytest.mark.parametrize("kind", ["pandas", "parquet", "csv"])
@pytest.mark.parametrize("seed", [0, 1])
def test_ids_among_other_columns(extra, kind, seed, tmp_path):
    ends, weights, expected = scores_and_ids(seed)
    columns = {name: [value] * len(ends) for name, value in EXTRA[extra].items()}
    columns |= {"match_weight": weights, "patient_id_l": ends[:, 0], "patient_id_r": ends[:, 1]}
    names = list(columns)
    np.random.default_rng(seed).shuffle(names)
    resolution = resolve(as_kind({name: columns[name] for name in names}, kind, tmp_path), absent=0.0)
    table = as_dict(resolution.table)
    assert dict(zip(map(int, table["patient_id"]), map(int, table["entity"]), strict=True)) == expected


REFUSED = [
    ({"a_id_l": [1], "a_id_r": [2], "b_id_l": [3], "b_id_r": [4]}, "'a_id_l', 'a_id_r' or 'b_id_l', 'b_id_r'"),
    ({"name_l": ["x"], "name_r": ["y"], "p": [1], "q": [2]}, "'name_l' and 'name_r' are not clearly ids"),
    ({"cust_id_l": [1.5], "cust_id_r": [2.5]}, "'cust_id_l' and 'cust_id_r' are not clearly ids"),
    ({"cust_id_l": [1], "cust": [2], "x": [3]}, "the table has 'cust_id_l' but no 'cust_id_r'"),
    ({"match_probability": [0.5]}, "such as 'unique_id_l' and 'unique_id_r'"),
    ({"x": [1], "y": [2], "z": [3]}, "such as 'unique_id_l' and 'unique_id_r'"),
    ({"unique_id_l": [1], "unique_id_r": [2], "source_dataset_l": ["a"]}, "the table has 'source_dataset_l' alone"),
]


@pytest.mark.parametrize(("columns", "message"), REFUSED)
@pytest.mark.parametrize("kind", ["pandas", "relation"])
def test_unclear_ids_are_refused(columns, message, kind, tmp_path):
    table = as_kind({"match_weight": [3.0], **columns}, kind, tmp_path)
    for call in (resolve, label_components):
        with pytest.raises(InvalidInputError, match=message):
            call(table)
    if "source_dataset_l" not in columns and len(columns) > 1:
        first, second = list(columns)[:2]
        assert resolve(table, id_columns=(first, second)).n_entities == 1


def test_other_tables_of_pairs(tmp_path, capsys):
    """Labels, links of the command line and edges of an EntityClusterer, with scores first."""
    ends, weights, expected = scores_and_ids()
    edges = {"match_weight": weights, "cust_id_l": ends[:, 0], "cust_id_r": ends[:, 1]}
    match = np.arange(len(ends)) % 2
    labels = {"match_probability": weights / 10, "match": match, "cust_id_r": ends[:, 1], "cust_id_l": ends[:, 0]}
    assert resolve(edges, calibrate=labels).calibration.n_pairs == len(ends)
    apart = {"match_weight": [2.0, 3.0, -1.0], "cust_id_r": ["2", "4", "3"], "cust_id_l": ["1", "3", "2"]}
    assert EntityClusterer().predict([1, 2, 3, 4, 5], edges=apart).tolist() == [0, 0, 1, 1, 2]
    pd.DataFrame(edges).to_parquet(tmp_path / "pairs.parquet")
    lonely = sorted({100 + k for k in range(N)} - set(expected))[:2]
    pd.DataFrame({"note": [0.5], "cust_id_l": lonely[:1], "cust_id_r": lonely[1:]}).to_csv(tmp_path / "must.csv")
    pd.DataFrame({"name": "x", "cust_id": [100 + k for k in range(N)]}).to_csv(tmp_path / "ids.csv", index=False)
    options = ["-o", tmp_path / "out.csv", "--must-link", tmp_path / "must.csv", "--ids", tmp_path / "ids.csv"]
    with pytest.raises(SystemExit) as stopped:
        main(["cluster", "resolve", *map(str, [tmp_path / "pairs.parquet", *options])])
    assert stopped.value.code == 0, capsys.readouterr().err
    table = pd.read_csv(tmp_path / "out.csv").set_index("cust_id")["entity"]
    assert len(table) == N
    assert table[lonely[1]] == lonely[0]


@pytest.mark.parametrize("kind", ["numpy", "pandas", "parquet", "relation"])
@pytest.mark.parametrize("odd", ["x7", "30"])
def test_integers_and_their_strings_are_one_record(kind, odd, tmp_path):
    columns = {"id_l": [1, 2, 4], "id_r": ["2", odd, "5"], "log_odds": [3.0, 2.0, 1.0]}
    resolution = resolve(as_kind(columns, kind, tmp_path))
    table = as_dict(resolution.table)
    name = str if odd == "x7" else int
    assert table["id"] == sorted(map(name, ["1", "2", "4", "5", odd]))
    assert table["entity"] == [{"4": name("4"), "5": name("4")}.get(str(k), name("1")) for k in table["id"]]
    labelled = as_dict(label_components(as_kind(columns, kind, tmp_path)))
    assert sorted(labelled["component"]) == sorted([name("1"), name("1"), name("4")])


def test_mixed_types_in_one_column():
    columns = {"id1": [2, "2", 3], "id2": [1, 5, "5"], "log_odds": [1.0, 1.0, 1.0]}
    assert resolve(columns).table == {"id": [1, 2, 3, 5], "entity": [1, 1, 1, 1]}
    columns["id1"][2] = "c"
    assert resolve(columns).table == {"id": ["1", "2", "5", "c"], "entity": ["1", "1", "1", "1"]}
    assert resolve(columns, source={1: "x", "2": "y", "c": "x"}).links.source.tolist() == [0, 1, -1, 0]


def test_types_of_ids_that_do_not_agree():
    assert one_type([1.5, "a"]) == [1.5, "a"]
    assert one_type(["9" * 30, 1]) == ["9" * 30, "1"]
    assert in_type_of([(1, 2, 3)], [("a", 1)]) == [(1, 2, 3)]
    edges = {"id1": [1], "id2": [2], "log_odds": [1.0]}
    with pytest.raises(InvalidInputError, match="those of previous such as 1"):
        resolve({"id1": ["x"], "id2": ["y"], "log_odds": [1.0]}, previous=resolve(edges))
    text = {"id1": ["2"], "id2": ["3"], "log_odds": [1.0]}
    assert resolve(text, previous=resolve(edges)).table == {"id": [1, 2, 3], "entity": [1, 1, 1]}
    with pytest.raises(InvalidInputError, match="source has no id of the pairs: it has 'x', they have 1"):
        resolve(edges, source={"x": "shop", "y": "web"})


@pytest.mark.parametrize("kind", KINDS)
def test_no_rows(kind, tmp_path):
    columns = {"match_weight": np.empty(0), "cust_id_l": np.empty(0, np.int64), "cust_id_r": np.empty(0, np.int64)}
    if kind == "csv":
        (tmp_path / "pairs.csv").write_text("match_weight,cust_id_l,cust_id_r\n", encoding="utf-8")
        edges = tmp_path / "pairs.csv"
    else:
        edges = as_kind(columns, kind, tmp_path)
    assert as_dict(resolve(edges).table) == {"cust_id": [], "entity": []}
    assert as_dict(resolve(edges, [3, 1]).table) == {"cust_id": [1, 3], "entity": [1, 3]}
    assert set(as_dict(label_components(edges))["component"]) == set()


@pytest.mark.parametrize("kind", KINDS)
def test_repeated_pairs_and_pairs_of_a_record_with_itself(kind, tmp_path):
    columns = {"match_weight": [2.0, -1.0, 3.0], "cust_id_l": [1, 2, 2], "cust_id_r": [2, 1, 3]}
    resolution = resolve(as_kind(columns, kind, tmp_path))
    assert resolution.n_pairs == 2
    assert resolution.score == pytest.approx(3.5 * np.log(2) - 0.1)
    columns["cust_id_r"] = [2, 1, 2]
    for call in (resolve, label_components):
        with pytest.raises(InvalidInputError, match=r"2'? is paired with itself"):
            call(as_kind(columns, kind, tmp_path))
