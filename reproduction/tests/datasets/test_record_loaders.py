"""Loaders of records, mentions and relations, tested on small files and on damaged files."""

import gzip
import io
import json

import numpy as np
import pytest

from intarsia._files.plain_tables import read_csv_columns, read_tab_columns
from intarsia.exceptions import FileFormatError, InvalidInputError, MissingDataError
from intarsia_reproduction.datasets import (
    load_cora_citations,
    load_epinions,
    load_febrl,
    load_linked_documents,
    load_litbank,
    load_simple_acquaintances,
)

CORA = "1,2,3,4,5,6,7,8,9,10,11,12,13,14\n"
FEBRL = "rec_id, given_name, surname\n"
TEXT = {
    "doc": "a_book",
    "sentences": [["Ann", "saw", "her", "dog", "."], ["It", "barked", "."]],
    "mentions": [[0, 0, 0, 0, 4, "PROP", "PER"], [0, 2, 0, 3, 5, "NOM", "VEH"], [1, 0, 1, 0, 5, "PRON", "VEH"]],
}
PROGRAM = {
    "rules": ["1: Likes(A, B) -> Knows(A, B)"],
    "predicates": {
        "Likes/2": {"observations": ["../data/x/likes_obs.txt"]},
        "Knows/2": {"observations": ["knows_obs.txt"], "targets": ["knows_targets.txt"], "truth": ["knows_truth.txt"]},
    },
}


def put(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode(), mtime=0))
    else:
        path.write_text(text)


def put_papers(folder, **changes):
    files = {
        "cora.ids": "x1\t2\nx2\t1\n",
        "cora.labels": "1\t2\n2\t1\n",
        "cora.links.gz": "1\t2\n",
        "cora.words.gz": "1\t3:1 1:1 \n2\t2:1\n",
        "labels.txt": "1\tArt\n2\tMusic",
    }
    for name, text in (files | changes).items():
        put(folder, f"psl_uai13/cora/{name}", text)


def put_program(folder, **changes):
    files = {
        "model.json": json.dumps(PROGRAM),
        "options.json": "{}",
        "knows_obs.txt": "0\t1\n",
        "knows_targets.txt": "1\t0\n",
        "knows_truth.txt": "1\t0\t0.0\n",
        "likes_obs.txt": "0\t1\t0.25\n",
        "lived_obs.txt": "",
    }
    for name, text in (files | changes).items():
        put(folder, f"simple_acquaintances/{name}", text)


# ---------------------------------------------------------------- valid files


def test_citations(tmp_path):
    rows = 'u,b93,"a. b, c",,t one,,,,,1993,,,,\nu,x,d,,t two,,,,,,,,,\nu,b93,"a. b",,t one,,,,,93,,,,may\n'
    put(tmp_path, "er_cora/cora_1295.csv.gz", CORA + rows)
    records = load_cora_citations(tmp_path)
    assert records.entity.tolist() == [0, 1, 0]
    assert records.columns["authors"] == ["a. b, c", "d", "a. b"]
    assert records.columns["year"] == ["1993", None, "93"]
    assert records.columns["month"] == [None, None, "may"]
    assert len(records.columns) == 12
    assert len(set(records.ids)) == 3


def test_persons(tmp_path):
    for k in (1, 2, 3):
        put(
            tmp_path,
            f"febrl/dataset{k}.csv.gz",
            FEBRL + f"rec-7-org, ann, lee\nrec-1-dup-0, , w{k}\nrec-7-dup-11, x,\n",
        )
    records = load_febrl(2, tmp_path)
    assert records.entity.tolist() == [0, 1, 0]
    assert records.ids == ["rec-7-org", "rec-1-dup-0", "rec-7-dup-11"]
    assert records.columns == {"given_name": ["ann", None, "x"], "surname": ["lee", "w2", None]}
    with pytest.raises(InvalidInputError, match="number must be 1, 2 or 3"):
        load_febrl(4, tmp_path)


def test_mentions(tmp_path):
    put(tmp_path, "litbank/litbank_coref.jsonl.gz", json.dumps(TEXT) + "\n")
    (text,) = load_litbank(tmp_path)
    assert text.name == "a_book"
    assert [text.words(mention) for mention in text.mentions] == [["Ann"], ["her", "dog"], ["It"]]
    assert text.entity.tolist() == [4, 5, 5]
    assert [mention.kind for mention in text.mentions] == ["PROP", "NOM", "PRON"]


def test_trust(tmp_path):
    put(tmp_path, "psl_uai13/epinions/trusts.txt.gz", "1\t3\t1\n2\t1\t0\n")
    put(tmp_path, "psl_uai13/epinions/knows.txt.gz", "2\t1\t1\n1\t3\t1\n")
    network = load_epinions(tmp_path)
    assert network.pairs.tolist() == [[0, 2], [1, 0]]
    assert network.trust.tolist() == [True, False]
    assert network.n_users == 3
    put(tmp_path, "psl_uai13/epinions/knows.txt.gz", "2\t1\t1\n")
    with pytest.raises(FileFormatError, match="expected the same pairs"):
        load_epinions(tmp_path)


def test_papers(tmp_path):
    put_papers(tmp_path)
    papers = load_linked_documents("cora", tmp_path)
    np.testing.assert_array_equal(papers.words.toarray(), [[1, 0, 1], [0, 1, 0]])
    assert papers.topic.tolist() == [1, 0]
    assert papers.ids == ["x2", "x1"]
    assert papers.links.tolist() == [[0, 1]]
    assert papers.topic_names == ["Art", "Music"]
    with pytest.raises(MissingDataError, match="citeseer"):
        load_linked_documents("citeseer", tmp_path)
    with pytest.raises(InvalidInputError, match="Known"):
        load_linked_documents("pubmed", tmp_path)


def test_acquaintances(tmp_path):
    put_program(tmp_path)
    program = load_simple_acquaintances(tmp_path)
    assert program.rules == PROGRAM["rules"]
    assert program.observations == {"Likes": [(("0", "1"), 0.25)], "Knows": [(("0", "1"), 1.0)]}
    assert [names for names, _ in program.targets["Knows"]] == [("1", "0")]
    assert np.isnan(program.targets["Knows"][0][1])
    assert program.truth == {"Knows": [(("1", "0"), 0.0)]}


# ---------------------------------------------------------------- damaged files


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (CORA + "u,x,a\n", r"line 2: 3 columns, expected 14"),
        ("1,2\nu,x\n", "2 columns, expected 14"),
        (CORA + "u,,d,,t,,,,,,,,,\n", "record 0 has no label"),
        (CORA + 'u,x,"a,,t,,,,,,,,,\n', "line 2"),
        ("", "the file is empty"),
    ],
)
def test_damaged_citations(tmp_path, text, message):
    put(tmp_path, "er_cora/cora_1295.csv.gz", text)
    with pytest.raises(FileFormatError, match=message):
        load_cora_citations(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [(FEBRL + "person7, a, b\n", "rec_id of record 0 is 'person7'"), ("a,b\n", "expected a column 'rec_id', got a, b")],
)
def test_damaged_persons(tmp_path, text, message):
    for k in (1, 2, 3):
        put(tmp_path, f"febrl/dataset{k}.csv.gz", text)
    with pytest.raises(FileFormatError, match=message):
        load_febrl(1, tmp_path)


@pytest.mark.parametrize(
    ("mention", "message"),
    [
        ([0, 4, 0, 5, 1, "NOM", "PER"], "words 4 to 5 of sentence 0"),
        ([2, 0, 2, 0, 1, "NOM", "PER"], "sentence 2"),
        ([0, 0, 1, 0, 1, "NOM", "PER"], "sentence 0"),
        ([0, 0, 0, 0, 1, "WHO", "PER"], "kind 'WHO'"),
        ([0, 0, 0, 0, -1, "NOM", "PER"], "entity -1"),
        ([0, 0], "expected a JSON document"),
    ],
)
def test_damaged_mentions(tmp_path, mention, message):
    put(tmp_path, "litbank/litbank_coref.jsonl.gz", json.dumps(TEXT | {"mentions": [mention]}))
    with pytest.raises(FileFormatError, match=message):
        load_litbank(tmp_path)
    put(tmp_path, "litbank/litbank_coref.jsonl.gz", json.dumps(TEXT)[:-9])
    with pytest.raises(FileFormatError, match="line 1: expected a JSON document"):
        load_litbank(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cora.labels": "1\t2\n"}, "a paper has no topic"),
        ({"cora.labels": "1\t3\n2\t1\n"}, "number 3 is outside 1 to 2"),
        ({"cora.links.gz": "1\t9\n"}, "number 9 is outside 1 to 2"),
        ({"cora.words.gz": "1\t0:1\n"}, "line 1: column 2 is '0:1'"),
        ({"cora.ids": "x1\ttwo\n"}, "line 1: column 2 is 'two'; expected an integer"),
        ({"cora.ids": "x1\n"}, "line 1: 1 columns, expected 2"),
    ],
)
def test_damaged_papers(tmp_path, changes, message):
    put_papers(tmp_path, **changes)
    with pytest.raises(FileFormatError, match=message):
        load_linked_documents("cora", tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model.json": "[]"}, "expected a JSON document with 'rules'"),
        ({"model.json": "{"}, "expected a JSON document with 'rules'"),
        ({"likes_obs.txt": "0\t1\tmuch\n"}, "line 1: expected a number after 2 names, got 'much'"),
        ({"likes_obs.txt": "0\n"}, "line 1: 1 columns, expected 2 names"),
    ],
)
def test_damaged_program(tmp_path, changes, message):
    put_program(tmp_path, **changes)
    with pytest.raises(FileFormatError, match=message):
        load_simple_acquaintances(tmp_path)


def test_tables():
    assert read_tab_columns(io.StringIO("\n1\ta\n"), (int, str)) == [[1], ["a"]]
    assert read_csv_columns(io.StringIO('a,b\n"x, y", z\n\n')) == {"a": ["x, y"], "b": ["z"]}
    with pytest.raises(FileFormatError, match="the name 'a' occurs twice"):
        read_csv_columns(io.StringIO("a,a\n"))
