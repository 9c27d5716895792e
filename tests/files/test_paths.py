"""A path is one file: characters that DuckDB reads as a pattern are ordinary characters, wherever a path is passed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from intarsia import EntityClusterer
from intarsia._files.tables import read_columns
from intarsia.cli import main
from intarsia.clusters import label_components, resolve
from intarsia.clusters.database.stored_tables import count_rows
from intarsia.datasets import make_customers
from intarsia.exceptions import InvalidInputError

# Name, and a file that the name would match as a pattern.
NAMES = [("p[1].parquet", "p1.parquet"), ("q*.parquet", "q2.parquet"), ("r?.parquet", "rx.parquet")]
NAMES += [
    ("d[ab]/x.parquet", "da/x.parquet"),
    ("**/x.parquet", "y/z/x.parquet"),
    ("it's {1,2}.parquet", "it's 1.parquet"),
]


@pytest.fixture(params=NAMES, ids=lambda names: names[0])
def paths(request, tmp_path):
    """The path of a file, and of another one that its name would match."""
    paths = [tmp_path / name for name in request.param]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
    return paths


def test_pairs(paths):
    edges = [{"id1": [name], "id2": ["b"], "log_odds": [2.0], "mw_x": [1.0]} for name in ("right", "wrong")]
    for path, columns in zip(paths, edges, strict=True):
        pd.DataFrame(columns).to_parquet(path)
    path = paths[0]
    resolution = resolve(str(path))
    assert resolution.table["id"] == ["b", "right"]
    assert label_components(path).fetchall() == [("b", "right", 2.0, "b")]
    assert resolution.explain("right", "b", edges=path).contributions[0].name == "x"
    assert list(read_columns(path)["id1"]) == ["right"]
    path.unlink()
    for call in (resolve, label_components, read_columns):
        with pytest.raises(InvalidInputError, match="there is no file"):
            call(path)


def test_records(paths, monkeypatch, capsys):
    customers = make_customers(40, random_state=0)
    columns = {name: customers.columns[name] for name in ("first_name", "last_name", "phone")}
    frame = pd.DataFrame(columns)
    frame.to_parquet(paths[0])
    frame.iloc[:9].to_parquet(paths[1])
    assert count_rows(paths[0]) == len(frame)
    assert len(EntityClusterer(engine="duckdb").fit_predict(str(paths[0]))) == len(frame)
    model, output = paths[0].with_name("model.npz"), paths[0].with_name("out[1].parquet")
    EntityClusterer().fit(columns, customers.entity).save(model)
    with pytest.raises(SystemExit) as stopped:
        main(["cluster", "predict", str(paths[0]), "--model", str(model), "-o", str(output)])
    assert stopped.value.code == 0, capsys.readouterr().err
    written = read_columns(output)
    assert list(written) == [*columns, "entity"]
    np.testing.assert_array_equal(written["phone"], read_columns(paths[0])["phone"])


def test_relative_paths_with_a_tilde(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"id1": ["a"], "id2": ["b"], "log_odds": [2.0]}).to_parquet("~pairs.parquet")
    assert resolve("~pairs.parquet").n_entities == 1
