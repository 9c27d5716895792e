"""`label_components` and `resolve_component` on pandas, DuckDB, dask and Spark: the entities of `resolve`."""

from __future__ import annotations

import shutil
import sys
from functools import partial

import duckdb
import numpy as np
import pandas as pd
import pytest

from intarsia.clusters import label_components, resolve, resolve_component
from intarsia.exceptions import IntarsiaError

COLUMNS = ["unique_id", "entity", "score", "bound"]


def scored_pairs(n=200, seed=0):
    rng = np.random.default_rng(seed)
    ends = np.unique(np.sort(rng.integers(0, n, (2 * n, 2)), axis=1), axis=0)
    ends = ends[ends[:, 0] < ends[:, 1]]
    same = ends[:, 0] // 4 == ends[:, 1] // 4
    weight = rng.normal(np.where(same, 3.0, -2.0), 2.0)
    names = np.array([f"r{k:03d}" for k in range(n)])
    swap = rng.random(len(ends)) < 0.5
    left, right = np.where(swap, ends[:, 1], ends[:, 0]), np.where(swap, ends[:, 0], ends[:, 1])
    frame = pd.DataFrame({"unique_id_l": names[left], "unique_id_r": names[right], "match_weight": weight})
    return pd.concat([frame, frame.iloc[:5]], ignore_index=True)  # five rows twice


def expected(frame):
    """Entities of `resolve` of the records in a component of several records."""
    resolution = resolve(frame, calibrate=None, absent=-0.1)
    return resolution.table.set_index("unique_id")["entity"]


def check(table, frame):
    entity = expected(frame)
    assert set(table["entity"]) <= set(table["unique_id"])
    got = table.set_index("unique_id")["entity"]
    assert not got.index.duplicated().any()
    pd.testing.assert_series_equal(got.sort_index(), entity[sorted(got.index)], check_dtype=False)
    others = entity.drop(got.index)
    assert (others == others.index).all()  # a record in no pair of a component is alone


def test_pandas_groups():
    frame = scored_pairs()
    pairs = label_components(frame)
    assert isinstance(pairs, pd.DataFrame)
    check(pairs.groupby("component")[list(pairs.columns)].apply(resolve_component).reset_index(drop=True), frame)
    check(resolve_component(pairs), frame)  # several components at once


def test_components_by_sql_equal_those_in_memory(tmp_path):
    frame = scored_pairs()
    in_memory = label_components(frame).sort_values(["unique_id_l", "unique_id_r"], ignore_index=True)
    duckdb.from_df(frame).write_parquet(str(tmp_path / "pairs.parquet"))
    for edges in (duckdb.from_df(frame), duckdb.connect().from_df(frame), tmp_path / "pairs.parquet"):
        relation = label_components(edges)
        assert isinstance(relation, duckdb.DuckDBPyRelation)
        by_sql = relation.df().sort_values(["unique_id_l", "unique_id_r"], ignore_index=True)
        pd.testing.assert_frame_equal(by_sql, in_memory, check_dtype=False)
        check(by_sql.groupby("component")[list(by_sql.columns)].apply(resolve_component), frame)


def test_long_chains_and_probabilities_by_sql():
    n = 500
    order = np.random.default_rng(3).permutation(n + 1)
    frame = pd.DataFrame({"id1": order[:-1], "id2": order[1:], "match_probability": [0.9] * n})
    frame.loc[7, "match_probability"] = 0.2
    table = label_components(duckdb.from_df(frame)).df()
    assert sorted(set(table["component"])) == sorted({order[:8].min(), order[8:].min()})
    assert len(table) == n - 1
    np.testing.assert_allclose(table["log_odds"], np.log(9.0))
    with pytest.raises(IntarsiaError, match="label_components: edges"):
        label_components(duckdb.sql("select 1 as id1, 2 as id2, 'nan'::double as log_odds"))
    with pytest.raises(IntarsiaError, match="expected a probability"):
        label_components(duckdb.sql("select 1 as id1, 2 as id2, 3.5 as probability"))


def test_empty_tables():
    empty = pd.DataFrame({"id1": pd.Series(dtype=object), "id2": pd.Series(dtype=object), "log_odds": np.empty(0)})
    assert list(label_components(empty).columns) == ["id1", "id2", "log_odds", "component"]
    assert list(resolve_component(empty).columns) == ["id", *COLUMNS[1:]]
    with pytest.raises(IntarsiaError, match="resolve_component: the table is of type int"):
        resolve_component(3)


def test_dask_cluster_of_two_processes():
    dask_frame = pytest.importorskip("dask.dataframe", reason="dask.dataframe is not installed")
    distributed = pytest.importorskip("distributed")
    frame = scored_pairs()
    pairs = label_components(frame).sort_values("component").set_index("component")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster),
    ):
        partitions = dask_frame.from_pandas(pairs, npartitions=4, sort=True)  # whole components stay together
        meta = {"unique_id": object, "entity": object, "score": float, "bound": float}
        table = partitions.map_partitions(partial(resolve_component, absent=-0.1), meta=meta).compute()
    check(table.reset_index(drop=True), frame)


@pytest.mark.filterwarnings("ignore")  # PySpark uses parts of pandas that are deprecated
def test_spark(monkeypatch):
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed: pip install 'intarsia[spark]'")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java: apt-get install default-jre-headless")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)  # the workers would take python3 of the path
    frame = scored_pairs()
    session = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        pairs = session.createDataFrame(label_components(frame))
        schema = "unique_id string, entity string, score double, bound double"
        table = pairs.groupby("component").applyInPandas(resolve_component, schema).toPandas()
    finally:
        session.stop()
    check(table, frame)
