"""Records named by table and id, as Splink writes them: no collisions, and one record per table when link-only."""

from __future__ import annotations

import json

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

from intarsia import EntityClusterer
from intarsia.cli import main
from intarsia.clusters import label_components, read_answers, resolve, resolve_component
from intarsia.clusters.reviewing.review import ReviewSession
from intarsia.exceptions import InvalidInputError
from intarsia.report import report_resolution

ABSENT = -0.1
TABLES = ("web", "shop", "mail")


def random_pairs(seed, *, within=False, name="unique_id", n_each=3, text=False):
    """Scored pairs of records of three tables whose ids collide, as a data frame with the columns of Splink."""
    rng = np.random.default_rng(seed)
    records = [(table, f"k{k}" if text else k) for table in TABLES for k in range(1, n_each + 1)]
    rows = [
        (weight, *a, *b)
        for k, a in enumerate(records)
        for b in records[:k]
        if (within or a[0] != b[0]) and rng.random() < 0.75
        for weight in [round(float(rng.normal(0.5, 3.0)), 3)]
    ]
    names = ["match_weight", "source_dataset_l", f"{name}_l", "source_dataset_r", f"{name}_r"]
    return pd.DataFrame([rows[k] for k in rng.permutation(len(rows))], columns=names)


def keyed(frame, name="unique_id"):
    """Log odds of each pair of records."""
    ends = (zip(frame[f"source_dataset_{side}"], frame[f"{name}_{side}"], strict=True) for side in "lr")
    return {
        frozenset(pair): weight * np.log(2)
        for pair, weight in zip(zip(*ends, strict=True), frame["match_weight"], strict=True)
    }


def partitions(records):
    """All ways to group records."""
    if not records:
        yield []
        return
    for rest in partitions(records[1:]):
        yield [[records[0]], *rest]
        for k, group in enumerate(rest):
            yield [*rest[:k], [records[0], *group], *rest[k + 1 :]]


def best_clustering(frame, link_only):
    """Highest score of all allowed groupings, by enumeration."""
    odds = keyed(frame)
    records = sorted({record for pair in odds for record in pair})
    best = -np.inf
    for groups in partitions(records):
        if link_only and any(len({table for table, _ in group}) < len(group) for group in groups):
            continue
        score = sum(
            odds.get(frozenset((a, b)), ABSENT) for group in groups for k, a in enumerate(group) for b in group[:k]
        )
        best = max(best, score)
    return best


def groups_of(table, name="unique_id"):
    """Groups of (table, id) of a table of results; the entity is the smallest of its records."""
    if isinstance(table, pl.DataFrame):
        table = table.to_pandas()
    if isinstance(table, duckdb.DuckDBPyRelation):
        table = table.df()
    table = pd.DataFrame(table)
    groups = {}
    for source, record, entity in zip(table["source_dataset"], table[name], table["entity"], strict=True):
        groups.setdefault(entity, []).append((source, record))
    for entity, group in groups.items():
        assert entity == "{}-__-{}".format(*min(group))
    return sorted(map(sorted, groups.values()))


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_best_of_all_groupings(seed, within):
    frame = random_pairs(seed, within=within, n_each=3 if seed else 2)
    resolution = resolve(frame)
    assert resolution.proven
    assert resolution.score == pytest.approx(best_clustering(frame, link_only=not within))
    groups = groups_of(resolution.table)
    assert sum(map(len, groups)) == resolution.n_records
    odds = keyed(frame)
    score = sum(odds.get(frozenset((a, b)), ABSENT) for g in groups for k, a in enumerate(g) for b in g[:k])
    assert score == pytest.approx(resolution.score)
    if not within:
        assert all(len({table for table, _ in group}) == len(group) for group in groups)
        assert resolve(frame, source=None).score >= resolution.score


def test_only_dedupe_pairs_allow_several_records_of_a_table():
    ends = {
        "source_dataset_l": ["a", "a"],
        "unique_id_l": [1, 1],
        "source_dataset_r": ["a", "b"],
        "unique_id_r": [2, 1],
    }
    within = {**ends, "match_weight": [3.0, 3.0]}
    assert groups_of(resolve(within).table) == [[("a", 1), ("a", 2), ("b", 1)]]
    across = {name: values[1:] for name, values in within.items()}
    assert groups_of(resolve(across, previous=resolve(within)).table) == [[("a", 1), ("a", 2), ("b", 1)]]
    assert groups_of(resolve(within, previous=resolve(across)).table) == [[("a", 1), ("a", 2), ("b", 1)]]


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("name", ["unique_id", "cust_no"])
def test_all_ways_agree(name, text, within, tmp_path, capsys):
    parts = [random_pairs(seed, within=within, name=name, text=text) for seed in (7, 8, 9)]
    for k, part in enumerate(parts):  # three groups of nine records, which are solved exactly
        for side in "lr":
            part[f"{name}_{side}"] = part[f"{name}_{side}"] + (str(k) if text else 10 * k)
    frame = pd.concat([*parts, parts[0].iloc[:3]], ignore_index=True)  # rows twice
    expected = groups_of(resolve(frame).table, name)
    assert max(map(len, expected)) > 1
    frame.to_parquet(tmp_path / "pairs.parquet")
    frame.to_csv(tmp_path / "pairs.csv", index=False)
    categories = frame.astype({"source_dataset_l": "category", "source_dataset_r": "category"})
    for edges in (
        pl.from_pandas(frame), frame.to_dict("list"), {key: frame[key].to_numpy() for key in frame}, categories,
        duckdb.from_df(frame), duckdb.from_df(categories), tmp_path / "pairs.parquet",
    ):  # fmt: skip
        assert groups_of(resolve(edges).table, name) == expected
        labelled = label_components(edges)
        if isinstance(labelled, duckdb.DuckDBPyRelation):
            labelled = labelled.df()
        labelled = pd.DataFrame(labelled) if isinstance(labelled, dict) else labelled
        if isinstance(labelled, pl.DataFrame):
            labelled = labelled.to_pandas()
        grouped = groups_of(pd.concat([resolve_component(part) for _, part in labelled.groupby("component")]), name)
        assert [group for group in expected if len(group) > 1] == [group for group in grouped if len(group) > 1]
    assert sorted(sorted((s, str(k)) for s, k in group) for group in expected) == groups_of(
        {key: list(map(str, column)) for key, column in resolve(tmp_path / "pairs.csv").table.items()}, name
    )
    for suffix in (".parquet", ".csv"):
        output = tmp_path / f"out{suffix}"
        with pytest.raises(SystemExit) as stopped:
            main(["cluster", "resolve", str(tmp_path / "pairs.parquet"), "-o", str(output), "--json"])
        assert stopped.value.code == 0
        assert json.loads(capsys.readouterr().out)["one_record_per_source"] is not within
        table = pd.read_parquet(output) if suffix == ".parquet" else pd.read_csv(output)
        assert list(table.columns) == ["source_dataset", name, "entity"]
        assert groups_of(table, name) == expected


def test_records_in_no_pair_constraints_and_labels(tmp_path, capsys):
    frame = random_pairs(3, n_each=3)
    records = pd.DataFrame([(t, k, f"{t} {k}") for k in range(9) for t in TABLES], columns=[
        "source_dataset", "unique_id", "name"])  # fmt: skip
    resolution = resolve(frame, records)
    assert resolution.n_records == 27
    assert [("web", 0)] in groups_of(resolution.table)
    pairs = [[("web", 0), ("shop", 0)], [("web", 1), ("mail", 1)]]
    linked = resolve(frame, records, must_link=pairs[:1], cannot_link=pairs[1:])
    assert [("shop", 0), ("web", 0)] in groups_of(linked.table)
    assert not any(set(pairs[1]) <= set(group) for group in groups_of(linked.table))
    files = {"must": pairs[:1], "cannot": pairs[1:]}
    for key, links in files.items():
        rows = [(*a, *b) for a, b in links]
        names = ["source_dataset_l", "unique_id_l", "source_dataset_r", "unique_id_r"]
        pd.DataFrame(rows, columns=names).to_csv(tmp_path / f"{key}.csv", index=False)
    frame.to_parquet(tmp_path / "pairs.parquet")
    records.to_csv(tmp_path / "records.csv", index=False)
    options = ["--ids", "records.csv", "--must-link", "must.csv", "--cannot-link", "cannot.csv"]
    options = [text if text.startswith("--") else str(tmp_path / text) for text in options]
    with pytest.raises(SystemExit) as stopped:
        main(["cluster", "resolve", str(tmp_path / "pairs.parquet"), "-o", str(tmp_path / "out.parquet"), *options])
    assert stopped.value.code == 0, capsys.readouterr().err
    assert groups_of(pd.read_parquet(tmp_path / "out.parquet")) == groups_of(linked.table)
    labels = frame.assign(match=np.arange(len(frame)) % 2)
    assert resolve(frame, calibrate=labels).calibration.n_pairs == len(frame)
    for ids, message in (([1, 2], "an id is 1, but the pairs name a record by"), (records[["unique_id"]], "Add these")):
        with pytest.raises(InvalidInputError, match=message):
            resolve(frame, ids)


def test_results_name_tables_and_ids(tmp_path):
    frame = random_pairs(5, n_each=3).assign(mw_name=1.0)
    frame.to_parquet(tmp_path / "pairs.parquet")
    resolution = resolve(frame)
    odds = keyed(frame)
    confidence = resolution.confidence()
    assert list(confidence.records.columns)[:3] == ["source_dataset", "unique_id", "entity"]
    assert set(keyed(confidence.pairs.assign(match_weight=0.0))) == set(odds)
    group = max(groups_of(resolution.table), key=len)
    for edges in (frame, tmp_path / "pairs.parquet"):
        explanation = resolution.explain(*group[:2], edges=edges)
        assert explanation.log_odds == pytest.approx(odds[frozenset(group[:2])])
        assert [item.name for item in explanation.contributions] == ["name", "prior"]
    explanation = resolution.explain(group[0])
    assert explanation.entity == "{}-__-{}".format(*group[0])
    assert set(explanation.records) == set(group)
    truth = pd.DataFrame([(*r, r[1]) for r in resolution.pairs.ids], columns=["source_dataset", "unique_id", "entity"])
    report_resolution(resolution, tmp_path / "report.html", edges=frame, truth=truth, confidence=confidence)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"{resolution.n_records} records with a true entity" in page
    assert "shop-__-1" in page


def test_review_of_two_tables(tmp_path):
    frame = random_pairs(6, n_each=3)
    resolution = resolve(frame)
    records = pd.DataFrame([(*r, f"name {r[0]}{r[1]}") for r in resolution.pairs.ids], columns=[
        "source_dataset", "unique_id", "name"])  # fmt: skip
    session = ReviewSession(resolution, records, tmp_path / "answers.jsonl")
    question = json.loads(json.dumps(session.next_question()))["question"]  # as the page gets it
    first, second = (tuple(question[end]) for end in ("first", "second"))
    rows = session.next_question()["rows"]
    assert [row["column"] for row in rows] == ["name"]
    assert "".join(text for text, _ in rows[0]["first"]) == f"name {first[0]}{first[1]}"
    session.answer(first, second, "different")
    assert read_answers(tmp_path / "answers.jsonl").cannot_link == [(first, second)]
    again = resolve(frame, cannot_link=read_answers(tmp_path / "answers.jsonl").cannot_link)
    assert not any({first, second} <= set(group) for group in groups_of(again.table))


def test_plain_ids_of_a_clusterer():
    """Ids of an EntityClusterer are unique over all tables: they alone name a record."""
    edges = {
        "source_dataset_l": ["s", "s"], "unique_id_l": ["s1", "s2"], "source_dataset_r": ["w", "w"],
        "unique_id_r": ["w1", "w2"], "match_weight": [3.0, -3.0],
    }  # fmt: skip
    assert EntityClusterer().predict(["s1", "s2", "w1", "w2"], edges=edges).tolist() == [0, 1, 0, 2]


def test_names_of_entities_that_would_collide_are_refused():
    edges = {
        "source_dataset_l": ["a"], "unique_id_l": ["b-__-c"], "source_dataset_r": ["a-__-b"], "unique_id_r": ["c"],
        "match_weight": [3.0],
    }  # fmt: skip
    with pytest.raises(InvalidInputError, match="two records have the same name"):
        resolve(edges)


def test_missing_table_is_named():
    frame = random_pairs(1)
    frame.loc[2, "source_dataset_r"] = None
    with pytest.raises(InvalidInputError, match="row 2: the id in column 'source_dataset_r' is missing"):
        resolve(frame)
    with pytest.raises(InvalidInputError, match="1 rows lack an id or a score"):
        resolve(duckdb.from_df(frame))
