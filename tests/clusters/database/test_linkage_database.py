"""Blocking, levels and estimates of the database equal those in memory, on records with awkward values."""

from __future__ import annotations

import datetime
import tempfile

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

from intarsia.clusters import (
    AllPairs,
    Date,
    Embedding,
    EntityClusterer,
    ExactMatch,
    JaroWinkler,
    Numeric,
    SharedTokens,
    SharedValues,
    SortedNeighbourhood,
    TokenOverlap,
)
from intarsia.clusters.blocking import Blocking
from intarsia.clusters.database import stored_tables
from intarsia.clusters.database.stored_tables import count_rows
from intarsia.clusters.fellegi_sunter.levels import AgreementLevels, pair_levels, read_values
from intarsia.clusters.linkage import stored_input
from intarsia.clusters.linkage.fitting import candidate_pairs
from intarsia.clusters.linkage.inputs import read_model_input
from intarsia.clusters.linkage.stored_input import open_stored_input
from intarsia.datasets import make_customers
from intarsia.exceptions import IntarsiaError, InvalidInputError, TooLargeError

# Random tables have no entities to find; here both engines must do the same.
pytestmark = pytest.mark.filterwarnings("ignore::intarsia.exceptions.UnreliableModelWarning")

NAMES = ["Ann", "ann ", "ANNE", "Hélène", "helene", "Straße", "strasse", "Øystein", "ﬁona", "\u0301", " ", "\u00a0", ""]
NAMES += [
    "Smith  Jones",
    "smith\tjones",
    "Jones, Smith",
    "O'Hara",
    "Ольга",
    "Олга",
    "ольга",
    "Zoë",
    "1_000",
    "x\x1fy",
    None,
]
NUMBERS = ["3", "3.0", " 4 ", "1_000", "1e3", "inf", "nan", "n/a", "٣", ".5", "5.", "-2", "+2", "0x10", None, "", "0"]
DATES = ["2001-02-10", "20011002", "2001-10-02", "1999-02-10", "2001-02-31", " 2001-02-10 ", "2001-02-10T12:00"]
DATES += ["2001-02-10 x", "2001-02-10\tx", "10.2.2001", "٢٠٠١-02-10", None, "", "1999-12-31"]


def awkward_records(n=60, seed=0):
    rng = np.random.default_rng(seed)

    def draw(values):
        return [values[k] for k in rng.integers(len(values), size=n)]

    return {
        "id": [f"r{k}" for k in range(n)],
        "name": draw(NAMES),
        "title": [" ".join(filter(None, draw(NAMES)[:3])) for _ in range(n)],
        "amount": draw(NUMBERS),
        "born": draw(DATES),
        "age": draw([1, 2, 3, 40, None]),
        "weight": draw([1.5, 2.5, 1e300, 1e16, None, 0.0, -1.5]),
        "when": draw([datetime.date(2001, 2, 3), datetime.date(2001, 3, 2), datetime.date(1999, 1, 1), None]),
    }


COMPARISONS = {
    "name": JaroWinkler(levels=(0.5, 0.7, 0.9)),
    "title": TokenOverlap(),
    "amount": Numeric(scale=3),
    "born": Date(),
    "age": Numeric(),
    "weight": "numeric",
    "when": "date",
}
RULES = {
    "tokens": SharedTokens(["name", "title"], max_records=8),
    "two tokens": SharedTokens(["title"], max_records=20, min_shared=2),
    "ngrams": SharedTokens("name", max_records=9, ngram=2),
    "values": SharedValues(["name"], max_block=4),
    "prefix": SharedValues(["name", "born"], prefix=1, max_block=3),
    "dates and integers": SharedValues(["age", "when"], max_block=5),
    "neighbours": SortedNeighbourhood(["title", "name"], window=3),
    "all": AllPairs(),
    "several": [SharedValues("name", max_block=6), SharedTokens("title", max_records=5), SortedNeighbourhood("title")],
}


def levels_in_memory(model, X, right):
    inputs = read_model_input(model, X, right, None, reads_columns=False)
    pairs = candidate_pairs(model, inputs, None, inputs.separating_keys(model.id_column))
    levels = [AgreementLevels(column, comparison) for column, comparison in model.comparisons_]
    values = [read_values(inputs.records, level) for level in levels]
    rows = pairs.first_row[pairs.pairs]
    return pairs, pair_levels(levels, values, pairs.values, rows)


def check_equal(comparisons, blocking, X, right=None, **settings):
    memory = EntityClusterer(comparisons, blocking, engine="memory", **settings).fit(X, right)
    pairs, levels = levels_in_memory(memory, X, right)
    stored_model = EntityClusterer(comparisons, blocking, engine="duckdb", **settings)
    with open_stored_input(stored_model, X, right) as stored:
        np.testing.assert_array_equal(stored.database.records.record_of, pairs.record_of)
        stored_pairs, stored_levels = stored.database.levels()
    assert stored_pairs.tolist() == pairs.pairs.tolist()
    assert stored_levels.tolist() == levels.tolist()
    stored_model.fit(X, right)
    assert stored_model.pairs_per_rule_ == memory.pairs_per_rule_ == pairs.pairs_per_rule
    check_equal_models(memory, stored_model)
    log_odds = [model._prepare(X, right, None, (), ())[1] for model in (memory, stored_model)]
    np.testing.assert_allclose(log_odds[0], log_odds[1], atol=1e-9)
    if len(log_odds[0]):
        assert stored_model.predict(X, right).tolist() == memory.predict(X, right).tolist()
    return memory, stored_model


def check_equal_models(first, second):
    assert first.feature_names_ == second.feature_names_
    assert first.matcher_.prior == pytest.approx(second.matcher_.prior, rel=1e-9)
    assert first.n_iter_ == second.n_iter_
    for column, other in zip(first.matcher_.columns, second.matcher_.columns, strict=True):
        np.testing.assert_allclose(column.u, other.u, rtol=1e-9)
        np.testing.assert_allclose(column.m, other.m, rtol=1e-6, atol=1e-9)
        assert column.counts == other.counts
        assert column.n_present == other.n_present


@pytest.mark.parametrize("rule", RULES)
def test_pairs_and_levels_of_one_table(rule):
    check_equal(COMPARISONS, RULES[rule], awkward_records())


@pytest.mark.parametrize("rule", ["tokens", "values", "neighbours", "several"])
@pytest.mark.parametrize("one_to_one", [True, False])
def test_pairs_and_levels_of_two_tables(rule, one_to_one):
    left, right = awkward_records(40, 1), awkward_records(30, 2)
    check_equal(COMPARISONS, RULES[rule], left, right, id_column="id", one_to_one=one_to_one)


@pytest.mark.parametrize(
    "comparison",
    [
        ExactMatch(), JaroWinkler(levels=()), TokenOverlap("overlap"), TokenOverlap(ngram=2),
        TokenOverlap(ngram=3, levels=()), TokenOverlap(levels=(0.2, 0.25, 1 / 3, 0.5)),
    ],
)  # fmt: skip
def test_comparisons_of_strings(comparison):
    check_equal({"title": comparison, "name": comparison}, "all_pairs", awkward_records(50, 3))


@pytest.mark.parametrize("column", ["amount", "born", "name", "age", "when"])
def test_comparisons_of_other_types(column):
    records = awkward_records(50, 4)
    if column not in ("name", "when"):
        check_equal({column: Numeric(levels=(0.2, 0.5))}, "all_pairs", records)
    if column in ("born", "when"):
        check_equal({column: "date"}, "all_pairs", records)
        check_equal({column: Date(format="%d.%m.%Y")}, "all_pairs", {column: ["10.2.2001", "1.1.2000", "2.10.2001"]})
    if column != "when":
        check_equal({column: "exact"}, "all_pairs", records)


def test_names_of_columns_may_differ_in_case_only_and_have_quotes():
    records = {"a": ["x", "x", "y"], "A": ["p", "q", "q"], 'b "c"': ["1", "1", "2"], "file_row_number": ["s", "s", "t"]}
    check_equal(dict.fromkeys(list(records)[:3], "exact"), "all_pairs", records)


def test_equal_rows_count_as_many_pairs():
    records = {name: values * 3 for name, values in awkward_records(20, 5).items() if name != "id"}
    memory, _ = check_equal(COMPARISONS, RULES["tokens"], records)
    assert memory.matcher_.columns[0].n_present > 20


def test_sources_and_cannot_links_separate_equal_rows():
    records = awkward_records(30, 6)
    records = {name: [*values, *values[:6]] for name, values in records.items()}
    records["id"] = [f"r{k}" for k in range(36)]
    records["source"] = ["a"] * 30 + ["b"] * 6
    check_equal(COMPARISONS, RULES["tokens"], records, source_column="source")
    models = [
        EntityClusterer(COMPARISONS, RULES["tokens"], id_column="id", engine=name) for name in ("memory", "duckdb")
    ]
    links = {"cannot_link": [("r0", "r30"), ("r1", "r2")], "must_link": [("r3", "r9")]}
    answers = [model.fit(records).predict(records, **links).tolist() for model in models]
    assert answers[0] == answers[1]
    assert answers[0][0] != answers[0][30]
    assert answers[0][3] == answers[0][9]


def test_all_kinds_of_tables_give_the_same_entities(tmp_path):
    customers = make_customers(150, random_state=2)
    expected = EntityClusterer(engine="memory").fit_predict(customers.columns).tolist()
    frame = pd.DataFrame(customers.columns)
    frame.to_parquet(tmp_path / "records.parquet")
    frame.to_csv(tmp_path / "records.csv", index=False)
    connection = duckdb.connect()
    tables = {
        "dict": customers.columns,
        "rows": frame.to_dict("records"),
        "pandas": frame,
        "polars": pl.DataFrame(customers.columns),
        "lazy": pl.LazyFrame(customers.columns),
        "arrow": pl.DataFrame(customers.columns).to_arrow(),
        "relation": connection.sql("select * from frame"),
        "parquet": tmp_path / "records.parquet",
        "csv": tmp_path / "records.csv",
    }
    for name, table in tables.items():
        assert count_rows(table) == len(customers), name
        assert EntityClusterer(engine="duckdb").fit_predict(table).tolist() == expected, name


def test_a_fitted_model_is_used_by_the_other_engine(tmp_path):
    first, second = make_customers(120, random_state=3).columns, make_customers(100, random_state=4).columns
    memory = EntityClusterer(engine="memory").fit(first)
    expected = memory.predict(second).tolist()
    memory.engine = "duckdb"
    assert memory.predict(second).tolist() == expected
    stored = EntityClusterer(engine="duckdb").fit(first)
    stored.save(tmp_path / "model.npz")
    loaded = EntityClusterer.load(tmp_path / "model.npz")
    assert loaded.engine == "duckdb"
    assert loaded.pairs_per_rule_ == stored.pairs_per_rule_
    assert loaded.predict(second).tolist() == expected
    loaded.engine = "memory"
    assert loaded.predict(second).tolist() == expected


def test_many_records_use_the_database(monkeypatch):
    monkeypatch.setattr(stored_input, "MANY_RECORDS", 100)
    customers = make_customers(100, random_state=5).columns
    opened = []
    monkeypatch.setattr(
        stored_input, "StoredTables", lambda tables: opened.append(tables) or stored_tables.StoredTables(tables)
    )
    expected = EntityClusterer(engine="memory").fit_predict(customers).tolist()
    assert not opened
    assert EntityClusterer().fit_predict(customers).tolist() == expected
    assert len(opened) == 1
    pairs = EntityClusterer().fit(customers).predict_pairs(customers, n_samples=5)
    assert len(opened) == 3
    assert set(pairs) == {"id1", "id2", "probability"}
    few = {name: values[:20] for name, values in customers.items()}
    EntityClusterer().fit_predict(few)
    assert len(opened) == 3


def test_comparisons_that_the_database_lacks_are_computed_in_memory(monkeypatch):
    class Own(Blocking):
        name = "own"

        def pairs(self, table):
            return AllPairs().pairs(table)

    monkeypatch.setattr(stored_input, "MANY_RECORDS", 2)
    records = {
        "meaning": [[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]],
        "name": ["一二三四五六", "一二三四五七", "x"],
        "flag": [True, False, True],
    }
    chinese = {"name": ["".join(chr(0x4E00 + 7 * k + j) for j in range(9)) for k in range(40)]}
    cases = [
        ({"meaning": Embedding()}, "all_pairs", records, "meaning"),
        ({"flag": "exact"}, "all_pairs", records, "flag"),
        ({"name": TokenOverlap("tfidf")}, "all_pairs", records, "name"),
        ({"name": "jaro_winkler"}, "all_pairs", chinese, "not ASCII"),
        ({"name": "exact"}, Own(), records, "Own"),
        ({"name": "exact"}, SharedValues("price"), {**chinese, "price": [1.5] * 40}, "price"),
    ]
    for comparisons, blocking, table, message in cases:
        assert len(EntityClusterer(comparisons, blocking).fit_predict(table)) == len(table["name"])
        with pytest.raises(InvalidInputError, match=message):
            EntityClusterer(comparisons, blocking, engine="duckdb").fit(table)


def test_errors_are_those_of_the_library(tmp_path):
    records = awkward_records(20)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 not a table")
    clusterer = EntityClusterer({"name": "exact"}, engine="duckdb")
    with pytest.raises(InvalidInputError, match="engine='sql' is not known"):
        EntityClusterer(engine="sql").fit(records)
    with pytest.raises(InvalidInputError, match="Did you mean 'name'"):
        EntityClusterer({"nam": "exact"}, engine="duckdb").fit(records)
    with pytest.raises(InvalidInputError, match="cannot read any value"):
        EntityClusterer({"name": "date"}, "all_pairs", engine="duckdb").fit({"name": ["x", "y"]})
    twice = {name: [*values, values[0]] for name, values in records.items()}
    with pytest.raises(InvalidInputError, match=r"id 'r0' is in row 0 and in row 20"):
        EntityClusterer({"name": "exact"}, id_column="id", engine="duckdb").fit(twice)
    with pytest.raises(TooLargeError, match="max_pairs=3"):
        EntityClusterer({"name": "exact"}, AllPairs(max_pairs=3), engine="duckdb").fit(records)
    with pytest.raises(InvalidInputError, match="max_block"):
        EntityClusterer({"name": "exact"}, SharedValues("name", max_block=1), engine="duckdb").fit(records)
    with pytest.raises(InvalidInputError, match="there is no file"):
        clusterer.fit(tmp_path / "none.parquet")
    with pytest.raises(IntarsiaError, match=r"broken\.parquet"):
        clusterer.fit(tmp_path / "broken.parquet")
    with pytest.raises(InvalidInputError, match="no records"):
        EntityClusterer(engine="duckdb").fit({"name": []})
    with pytest.raises(InvalidInputError, match="of kind text in one table and number in the other"):
        EntityClusterer({"name": "exact"}, engine="duckdb").fit({"name": ["x"]}, {"name": [1.5]})
    assert not hasattr(clusterer, "weights_")


def test_the_database_is_deleted(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    EntityClusterer(engine="duckdb").fit_predict(make_customers(60).columns)
    with pytest.raises(InvalidInputError):
        EntityClusterer({"name": "date"}, "all_pairs", engine="duckdb").fit({"name": ["x", "y"]})
    assert not list(tmp_path.iterdir())
