"""`intarsia parse`: train on files, parse strings, evaluate, label in the terminal."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import sys

import pytest
from tests.sequences.parsing.generated import addresses

from intarsia import RecordParser
from intarsia.cli import main
from intarsia.cli.parse_files import assign, spans_from_labels
from intarsia.exceptions import InvalidInputError
from intarsia.sequences import in_order, once, read_labelled, write_labelled

TRAIN, TEST = addresses(80), addresses(20, seed=1)


@pytest.fixture
def run(capsys, monkeypatch):
    """Run `intarsia parse`: exit code, stdout, stderr."""

    def call(*arguments, stdin=""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8"))
        with pytest.raises(SystemExit) as stopped:
            main(["parse", *map(str, arguments)])
        out, err = capsys.readouterr()
        return stopped.value.code, out, err

    return call


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parse")
    write_labelled(folder / "train.xml.gz", TRAIN, "parserator")
    write_labelled(folder / "test.jsonl", TEST)
    (folder / "new.txt").write_text("".join(f"{example.text}\n" for example in TEST))
    RecordParser(l2=0.1).fit(TRAIN).save(folder / "m.npz")
    return folder


def test_train_and_evaluate(run, folder, tmp_path):
    model = tmp_path / "m.npz"
    code, out, err = run("train", folder / "train.xml.gz", "--model", model, "--json")
    assert (code, err) == (0, "")
    answer = json.loads(out)
    assert (answer["file"], answer["n"]) == (str(model), len(TRAIN))
    code, out, err = run("evaluate", folder / "test.jsonl", "--model", model, "--json")
    scores = json.loads(out)
    expected = RecordParser.load(model).evaluate(TEST)
    assert (code, scores["f1"], scores["exact"], scores["n"]) == (0, expected.f1, expected.exact, len(TEST))
    code, out, err = run("evaluate", folder / "test.jsonl", "--model", model)
    assert code == 0
    assert "% of the strings exactly right" in out
    assert "street" in out


def test_predict_json_lines_with_probabilities(run, folder):
    code, out, _ = run("predict", folder / "new.txt", "--model", folder / "m.npz", "--alternatives", "2")
    parses = [json.loads(line) for line in out.splitlines()]
    parser = RecordParser.load(folder / "m.npz")
    assert code == 0
    assert [parse["text"] for parse in parses] == [example.text for example in TEST]
    for parse in parses:
        expected = parser.parse(parse["text"], 2).as_dict()
        assert [span["field"] for span in parse["spans"]] == [span["field"] for span in expected["spans"]]
        assert parse["probability"] == pytest.approx(expected["probability"])
        assert len(parse["alternatives"]) == 2


def test_predict_reads_standard_input(run, folder):
    code, out, err = run("predict", "-", "--model", folder / "m.npz", stdin="12 Oak Ave, Oslo 12345\n\n")
    assert (code, err) == (0, "")
    first, second = map(json.loads, out.splitlines())
    assert {span["field"]: span["text"] for span in first["spans"]}["zip"] == "12345"
    assert (second["text"], second["spans"], second["probability"]) == ("", [], 1.0)


def test_predict_csv_columns(run, folder, tmp_path):
    target = tmp_path / "out.csv"
    code, out, _ = run("predict", folder / "new.txt", "--model", folder / "m.npz", "--output", target, "--json")
    assert (code, json.loads(out)["n"]) == (0, len(TEST))
    rows = list(csv.DictReader(target.open()))
    parser = RecordParser.load(folder / "m.npz")
    for row, example in zip(rows, TEST, strict=True):
        assert row["text"] == example.text
        tagged = parser.tag(example.text)
        for field in parser.fields_:
            assert row[field] == tagged.get(field, "")
            assert (row[f"{field} probability"] == "") == (field not in tagged)


def test_predict_a_column_of_a_csv_file(run, folder, tmp_path):
    file = tmp_path / "in.csv"
    file.write_text('id,address\n1,"12 Oak Ave, Oslo"\n')
    code, out, _ = run("predict", file, "--model", folder / "m.npz", "--column", "address")
    assert (code, json.loads(out)["text"]) == (0, "12 Oak Ave, Oslo")
    code, _, err = run("predict", file, "--model", folder / "m.npz")
    assert code == 2
    assert "pass the column of the strings with --column, one of id, address" in err


def test_train_from_standard_input(run, tmp_path):
    text = io.StringIO()
    write_labelled(text, TRAIN)
    code, _, err = run("train", "-", "--model", tmp_path / "m.npz", "--l2", "0.1", stdin=text.getvalue())
    assert (code, err) == (0, "")


def test_train_with_word_lists(run, folder, tmp_path):
    words = tmp_path / "cities.txt"
    words.write_text("Rome\nNew York\n")
    arguments = ["train", folder / "train.xml.gz", "--model", tmp_path / "m.npz", "--l2", "0.1"]
    assert run(*arguments, "--gazetteer", f"city={words}")[0] == 0
    assert RecordParser.load(tmp_path / "m.npz").gazetteers == {"city": ["Rome", "New York"]}


def test_train_with_rules(run, folder, tmp_path):
    arguments = ["train", folder / "train.xml.gz", "--model", tmp_path / "m.npz", "--l2", "0.1"]
    code, _, err = run(*arguments, "--rule", "once(zip)", "--rule", 'in_order("number", street)')
    assert (code, err) == (0, "")
    assert RecordParser.load(tmp_path / "m.npz").rules == [once("zip"), in_order("number", "street")]
    code, _, err = run(*arguments, "--rule", "exactly_once(zip)", "--rule", "count(zip, maximum=0)")
    assert code == 2
    assert "exactly_once('zip') and count('zip', maximum=0)" in err
    assert "ZipCode" in run(*arguments, "--rule", "once(ZipCode)")[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "missing.xml", "--model", "m.npz"], "missing.xml: No such file"),
        (["train", "{}/test.jsonl", "--model", "no/m.npz"], "the folder no does not exist"),
        (["train", "{}/test.jsonl", "--model", "{}/x.npz", "--rule", "twice(zip)"], "is not a rule"),
        (["train", "{}/test.jsonl", "--model", "{}/x.npz", "--rule", "once()"], "rule 'once()'"),
        (["train", "{}/test.jsonl", "--model", "{}/x.npz", "--l2", "much"], "expected a number or auto"),
        (["train", "{}/test.jsonl", "--model", "{}/x.npz", "--gazetteer", "city"], "expected NAME=FILE"),
        (["train", "{}/test.jsonl", "--model", "{}/x.npz", "--field", "city"], "test.jsonl, line 1: .*unknown field"),
        (["train", "{}/new.txt", "--model", "{}/x.npz", "--format", "jsonl"], "new.txt, line 1, column"),
        (["predict", "{}/new.txt", "--model", "{}/test.jsonl"], "damaged, or not an Intarsia model"),
        (["predict", "{}/new.txt", "--model", "{}/m.npz", "--to", "xml"], "expected jsonl or csv"),
        (["predict", "{}/new.txt", "--model", "{}/m.npz", "--json"], "--json needs --output"),
        (["label", "-", "--output", "{}/a.jsonl"], "stdin holds the strings"),
    ],
)
def test_bad_input(run, folder, arguments, message):
    code, out, err = run(*[argument.format(folder) for argument in arguments])
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert re.search(message.replace("()", r"\(\)"), err)


def test_bytes_that_are_not_text(run, folder, tmp_path):
    file = tmp_path / "bad.txt"
    file.write_bytes(b"12 Main St\ncaf\xe9\n")
    code, _, err = run("predict", file, "--model", folder / "m.npz")
    assert code == 2
    assert "bad.txt, line 2: byte 4 (0xe9) is not UTF-8" in err


def test_label_in_the_terminal(run, folder, tmp_path):
    answers = tmp_path / "answers.jsonl"
    file = tmp_path / "two.txt.gz"
    file.write_bytes(gzip.compress(b"12 Oak Ave\n7 Elm Rd\n5 Bay St\n"))
    lines = "1=number 2-3=street\n\n9=x\ns\nq\n"
    code, out, err = run("label", file, "--output", answers, "--field", "number", stdin=lines)
    assert (code, err) == (0, "")
    assert "words from 1 to 3" in out
    assert [example.fields() for example in read_labelled(answers)] == [{"number": "12", "street": "Oak Ave"}]
    code, out, _ = run("label", file, "--output", answers, "--json", "--model", folder / "m.npz")
    item = json.loads(out)
    assert item["n_answers"] == 1
    assert item["text"] in ("7 Elm Rd", "5 Bay St")
    assert 0 < item["probability"] < 1
    spans = spans_from_labels(item["tokens"], item["labels"])
    assert spans == RecordParser.load(folder / "m.npz").predict([item["text"]])[0]


def test_all_strings_have_answers(run, tmp_path):
    file, answers = tmp_path / "one.txt", tmp_path / "answers.jsonl"
    file.write_text("12 Oak Ave\n")
    out = run("label", file, "--output", answers, stdin="1-2=a\n2=a\n3=-\n\n")[1]
    assert "Nothing is left to label." in out
    assert read_labelled(answers)[0].spans == ((0, 2, "a"), (3, 6, "a"))
    item = json.loads(run("label", file, "--output", answers, "--json")[1])
    assert item == {"text": None, "probability": None, "tokens": [], "labels": [], "n_answers": 1, "n_waiting": 0,
                    "fields": ["a"]}  # fmt: skip


def test_assignments():
    assert assign([["a", 1], ["a", 1], None], "2=-") == [["a", 1], None, None]
    assert assign([["a", 1], ["a", 1], None], "2-3=a") == [["a", 1], ["a", 2], ["a", 2]]
    for line in ["x", "0=a", "2-1=a", "4=a"]:
        with pytest.raises(InvalidInputError, match="expected words and a field"):
            assign([None] * 3, line)
