"""`intarsia cluster`: train on files, predict entities, evaluate them."""

from __future__ import annotations

import csv
import gzip
import json

import duckdb
import numpy as np
import pandas as pd
import pytest

from intarsia._files.tables import quiet_database
from intarsia.cli import main
from intarsia.cli.cluster_files import read_table_file, write_table_file
from intarsia.clusters.entity_clusterer import EntityClusterer
from intarsia.datasets import make_customers
from intarsia.exceptions import FileFormatError, InvalidInputError
from intarsia.metrics import clustering_scores

MEASURES = ("pairwise", "b_cubed", "muc", "ceaf_e", "ceaf_m", "lea")
COMPARED = ["--compare", "last_name=jaro_winkler", "--compare", "email=jaro_winkler", "--compare", "birth_date=date"]


@pytest.fixture
def run(capsys):
    """Run `intarsia cluster`: exit code, stdout, stderr."""

    def call(*arguments):
        with pytest.raises(SystemExit) as stopped:
            main(["cluster", *map(str, arguments)])
        out, err = capsys.readouterr()
        return stopped.value.code, out, err

    return call


def put(path, columns):
    with gzip.open(path, "wt") if path.suffix == ".gz" else path.open("w") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for name, seed in (("train", 1), ("test", 2)):
        made = make_customers(60, random_state=seed)
        columns = {"id": made.ids, **made.columns, "person": [f"p{k}" for k in made.entity]}
        put(
            folder / f"{name}.csv.gz",
            {key: ["" if v is None else v for v in values] for key, values in columns.items()},
        )
        put_parquet(folder / f"{name}.parquet", columns | {"visits": [7] * len(made)})
    with pytest.raises(SystemExit):
        main(["cluster", "train", f"{folder}/train.csv.gz", "-m", f"{folder}/m.npz", "--entity", "person", *COMPARED])
    return folder


def put_parquet(path, columns):
    frame = pd.DataFrame(columns)
    connection = duckdb.connect()
    connection.register("frame", frame)
    connection.execute(f"COPY (SELECT * FROM frame) TO '{path}' (FORMAT parquet)")


def test_train_predict_and_evaluate_csv_files(run, files, tmp_path):
    model = tmp_path / "m.npz"
    code, out, err = run("train", files / "train.csv.gz", "-m", model, "--entity", "person", *COMPARED, "--json")
    assert (code, err, out.count("\n")) == (0, "", 1)
    document = json.loads(out)
    assert list(document) == ["file", "n", "seconds"]
    assert (document["file"], document["n"]) == (str(model), len(make_customers(60, random_state=1)))
    assert [column for column, _ in EntityClusterer.load(model).comparisons_] == ["last_name", "email", "birth_date"]

    code, out, err = run("evaluate", files / "test.csv.gz", "-m", model, "--entity", "person", "--json")
    assert (code, err) == (0, "")
    scores = json.loads(out)
    assert list(scores) == ["pairwise", "b_cubed", "muc", "ceaf_e", "ceaf_m", "lea", "n_records", "n_entities"]
    assert list(scores["b_cubed"]) == ["precision", "recall", "f1"]
    assert scores["n_entities"] == 60
    assert scores["b_cubed"]["f1"] > 0.95

    resolved = tmp_path / "resolved.csv"
    code, out, err = run("predict", files / "test.csv.gz", "-m", model, "-o", resolved, "--json")
    assert (code, err) == (0, "")
    assert (json.loads(out)["file"], json.loads(out)["n"]) == (str(resolved), scores["n_records"])
    before, after = read_table_file(files / "test.csv.gz"), read_table_file(resolved)
    assert {name: after[name] for name in before} == before  # all rows and cells, in order
    assert list(after) == [*before, "entity"]
    found = clustering_scores(before["person"], after["entity"])
    assert found.b_cubed.f1 == pytest.approx(scores["b_cubed"]["f1"])
    code, out, _ = run("evaluate", resolved, "--entity", "person", "--predicted", "entity", "--json")
    assert json.loads(out)["muc"] == pytest.approx(scores["muc"])


def test_parquet_keeps_its_types(run, files, tmp_path):
    resolved, pairs = tmp_path / "out.parquet", tmp_path / "pairs.parquet"
    code, _, err = run(
        "predict", files / "test.parquet", "-m", files / "m.npz", "-o", resolved, "--column", "who", "--pairs", pairs
    )  # fmt: skip
    assert (code, err) == (0, "")
    described = duckdb.connect().execute("DESCRIBE SELECT * FROM read_parquet(?)", [str(resolved)]).fetchall()
    types = {row[0]: row[1] for row in described}
    assert (types["visits"], types["last_name"]) == ("BIGINT", "VARCHAR")
    assert types["who"] in ("INTEGER", "BIGINT")
    before, after = read_table_file(files / "test.parquet"), read_table_file(resolved)
    assert {name: after[name] for name in before} == before
    listed = read_table_file(pairs)
    assert list(listed) == ["id1", "id2", "probability"]
    assert 0 <= min(listed["probability"]) <= max(listed["probability"]) <= 1
    # Equal records from CSV have equal entities.
    run("predict", files / "test.csv.gz", "-m", files / "m.npz", "-o", tmp_path / "out.csv")
    assert [int(k) for k in read_table_file(tmp_path / "out.csv")["entity"]] == after["who"]


def test_printed_tables(run, files, tmp_path):
    code, out, _ = run("train", files / "train.csv.gz", "-m", tmp_path / "m.npz", "--entity", "person", "--id", "id",
                       "--source", "source", "--block", "shared_values=postcode,last_name", "--block",
                       "shared_tokens=email", "--compare", "last_name=exact",
                       "--compare", "email=jaro_winkler")  # fmt: skip
    assert code == 0
    assert "last_name by exact, email by jaro_winkler" in out
    model = EntityClusterer.load(tmp_path / "m.npz")
    assert [rule.named() for rule in model.blocking] == [["postcode", "last_name"], ["email"]]
    assert (model.id_column, model.source_column) == ("id", "source")
    code, out, _ = run("evaluate", files / "test.csv.gz", "-m", tmp_path / "m.npz", "--entity", "person")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[:7]] == ["measure", *MEASURES]
    assert "CoNLL mean" in out


def test_scored_pairs(run, tmp_path):
    put(tmp_path / "records.csv", {"id": list("abcde"), "who": [1, 1, 2, 2, ""]})
    put(tmp_path / "edges.csv", {"id_l": list("acbd"), "id_r": list("bdce"), "score": [0.9, 0.95, 0.1, 0.2]})
    model, edges = tmp_path / "m.npz", tmp_path / "edges.csv"
    arguments = ("--id", "id", "--entity", "who", "--edges", edges)
    assert run("train", tmp_path / "records.csv", "-m", model, *arguments)[0] == 0
    code, _, err = run("predict", tmp_path / "records.csv", "-m", model, "-o", tmp_path / "o.tsv", "--edges", edges)
    assert (code, err) == (0, "")
    assert read_table_file(tmp_path / "o.tsv")["entity"] == ["0", "0", "1", "1", "2"]


def test_refusals(run, files, tmp_path):
    (tmp_path / "odd.csv").write_text("a,b\n1\n")
    (tmp_path / "odd.parquet").write_text("no such thing")
    (tmp_path / "odd.xlsx").write_text("")
    train, model = ["train", files / "train.csv.gz", "-m", tmp_path / "m.npz"], ["-m", files / "m.npz"]
    for arguments, message in (
        ([*train, "--entity", "persn"], "column='persn' is not known"),
        ([*train, "--entity", "person", "--compare", "name"], "expected COLUMN=NAME"),
        ([*train, "--entity", "person", "--compare", "last_name=soundex"], "comparison='soundex' is not known"),
        ([*train, "--entity", "person", "--block", "words"], "blocking='words' is not known"),
        (["train", files / "train.csv.gz", "-m", tmp_path / "no" / "m.npz", "--entity", "person"], "does not exist"),
        (["predict", tmp_path / "odd.csv", *model, "-o", tmp_path / "o.csv"], "odd.csv, line 2: 1 columns, expected 2"),
        (["predict", tmp_path / "odd.parquet", *model, "-o", tmp_path / "o.csv"], "odd.parquet: "),
        (["predict", tmp_path / "odd.xlsx", *model, "-o", tmp_path / "o.csv"], "unknown file suffix"),
        (["predict", tmp_path / "none.parquet", *model, "-o", tmp_path / "o.csv"], "there is no file"),
        (["predict", files / "test.csv.gz", *model, "-o", tmp_path / "o.csv", "--column", "email"], "already"),
        (["evaluate", files / "test.csv.gz", "--entity", "person"], "either --model, or --predicted"),
    ):
        code, out, err = run(*arguments)
        assert (code, out, err.count("\n")) == (2, "", 1), err
        assert message in err
    assert not (tmp_path / "o.csv").exists()


def test_files_of_every_kind(tmp_path):
    columns = {"name": ["Lee, Ann", 'the "old" one', ""], "n": ["1", "", "3"]}
    for name in ("a.csv", "a.tsv", "a.csv.gz", "a.parquet"):
        write_table_file(tmp_path / name, columns, tmp_path / "x.csv", "n")
        assert read_table_file(tmp_path / name) == columns
        assert not list(tmp_path.glob("*.part"))
    (tmp_path / "bad.csv").write_bytes(b"a\n\xff\n")
    with pytest.raises(FileFormatError):
        read_table_file(tmp_path / "bad.csv")
    with pytest.raises(InvalidInputError, match="unknown file suffix"):
        read_table_file(tmp_path / "a.parquet.gz")


def test_vectors_in_parquet(tmp_path):
    rng = np.random.default_rng(0)
    middles = rng.normal(size=(10, 4))
    vectors = [(middles[k % 10] + 0.01 * rng.normal(size=4)).tolist() for k in range(40)]
    put_parquet(tmp_path / "v.parquet", {"vector": vectors})
    records = read_table_file(tmp_path / "v.parquet")
    model = EntityClusterer({"vector": "embedding"}).fit(records, [k % 10 for k in range(40)])
    assert model.score(records, [k % 10 for k in range(40)]) > 0.9


def test_no_progress_bar_on_stdout():
    assert quiet_database().execute("SELECT current_setting('enable_progress_bar')").fetchall() == [(False,)]


def test_review_names_bad_input_and_ends_when_all_is_answered(run, tmp_path):
    records, edges, answers = tmp_path / "people.csv", tmp_path / "pairs.csv", tmp_path / "answers.jsonl"
    records.write_text("id,name\na,Ann Lee\nb,Anne Lee\n")
    edges.write_text("id1,id2,log_odds\na,b,0.2\n")
    answers.write_text('{"id1": "a", "id2": "b", "answer": "same"}\n')
    arguments = ["review", str(records), "--edges", str(edges), "--output", str(answers), "--no-browser"]
    code, out, _ = run(*arguments, "--json")
    assert code == 0
    assert json.loads(out) == {"file": str(answers), "same": 1, "different": 0, "unsure": 0}
    edges.write_text("id1,id2,log_odds\na,z,0.2\n")
    code, _, error = run(*arguments)
    assert code == 2
    assert "records have no id 'z'" in error
    assert len(error.strip().splitlines()) == 1
