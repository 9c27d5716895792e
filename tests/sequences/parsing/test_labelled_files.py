"""Readers of labelled files: every format gives the spans of the text, and errors name the file and the line."""

from __future__ import annotations

import contextlib
import gzip
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.exceptions import FileFormatError, IntarsiaError, InvalidInputError
from intarsia.sequences.parsing import LabelledText, read_labelled, write_labelled

TEXT = "12 Main St, Rome"
SPANS = ((0, 2, "number"), (3, 10, "street"), (12, 16, "city"))
EXPECTED = [LabelledText(TEXT, SPANS), LabelledText("Oslo", [(0, 4, "city")])]

PARSERATOR = """<?xml version="1.0" encoding="utf-8"?>
<AddressCollection>
  <AddressString><number>12</number> <street>Main</street> <street>St</street>, <city>Rome</city></AddressString>
  <AddressString><city>Oslo</city>
  </AddressString>
</AddressCollection>
"""
ANYSTYLE = """<dataset>
  <sequence>
    <number>12</number>
    <street>Main St</street>,
    <city>Rome</city>
  </sequence>
  <sequence><city>Oslo</city></sequence>
</dataset>
"""
JSONL = [
    [
        json.dumps({"text": TEXT, key: [list(span) for span in SPANS]}),
        json.dumps({"text": "Oslo", key: [[0, 4, "city"]]}),
    ]
    for key in ("spans", "label", "labels", "entities")
]
OBJECTS = [
    [json.dumps({"text": e.text, "spans": [{a: s[0], b: s[1], "label": s[2]} for s in e.spans]}) for e in EXPECTED]
    for a, b in (("start", "end"), ("start_offset", "end_offset"))
]
SPACY = [json.dumps([e.text, {"entities": [list(s) for s in e.spans]}]) for e in EXPECTED]
STUDIO = json.dumps(
    [
        {
            "id": k,
            "data": {"text": e.text},
            "annotations": [
                {"was_cancelled": True, "result": []},
                {
                    "result": [
                        {
                            "from_name": "label",
                            "to_name": "text",
                            "type": "labels",
                            "value": {"start": a, "end": b, "text": e.text[a:b], "labels": [field]},
                        }
                        for a, b, field in e.spans
                    ]
                },
            ],
        }
        for k, e in enumerate(EXPECTED)
    ]
    + [{"data": {"text": "not labelled yet"}, "annotations": []}],
    indent=1,
)
STUDIO_MIN = json.dumps(
    [
        {"text": e.text, "label": [{"start": a, "end": b, "text": e.text[a:b], "labels": [f]} for a, b, f in e.spans]}
        for e in EXPECTED
    ]
)


@pytest.mark.parametrize(
    "content",
    [PARSERATOR, *("\n".join(lines) for lines in [*JSONL, *OBJECTS, SPACY]), STUDIO, STUDIO_MIN],
)
def test_formats_are_detected_and_agree(content, tmp_path):
    assert read_labelled(io.StringIO(content)) == EXPECTED
    path = tmp_path / "data"
    path.write_bytes(gzip.compress(content.encode()))
    assert read_labelled(path) == EXPECTED


def test_anystyle():
    first, second = read_labelled(io.StringIO(ANYSTYLE))
    assert first.fields() == {"number": "12", "street": "Main St", "city": "Rome"}
    assert first.text == "12 Main St, Rome"
    assert second == EXPECTED[1]
    joined = "<dataset><sequence><a>x y</a><b>z</b><a>q</a><a>r</a></sequence></dataset>"
    assert read_labelled(io.StringIO(joined)) == [
        LabelledText("x y z q r", [(0, 3, "a"), (4, 5, "b"), (6, 7, "a"), (8, 9, "a")])
    ]


@pytest.mark.parametrize(
    "tags",
    [["B-number", "B-street", "I-street", "O", "B-city"], ["number", "street", "street", "O", "city"]],
)
def test_conll(tags, tmp_path):
    words = ["12", "Main", "St", ",", "Rome"]
    content = "\n".join(f"{word} NN {tag}" for word, tag in zip(words, tags, strict=True)) + "\n\nOslo NN city\n\n"
    if tags[0].startswith("B"):
        content = content.replace("NN city", "NN B-city")
    path = tmp_path / "data.conll"
    path.write_text(content)
    first, second = read_labelled(path)
    assert first.text == "12 Main St , Rome"
    assert first.fields() == {"number": "12", "street": "Main St", "city": "Rome"}
    assert second == EXPECTED[1]


def test_csv_joins_the_cells_with_spaces(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text('number,street,city\n12,"Main  St",Rome\n,,Oslo\n')
    first, second = read_labelled(path)
    assert (first.text, first.spans) == ("12 Main St Rome", ((0, 2, "number"), (3, 10, "street"), (11, 15, "city")))
    assert second == EXPECTED[1]
    assert read_labelled(path, fields=["city", "number"])[0].text == "Rome 12"
    tabs = tmp_path / "data.tsv"
    tabs.write_text("number\tcity\n12\tRome\n")
    assert read_labelled(tabs)[0].text == "12 Rome"


def test_label_studio_counts_as_browsers_do():
    text = "\U0001f3e0 12 Main"
    task = {
        "data": {"address": text},
        "annotations": [{"result": [{"value": {"start": 3, "end": 5, "text": "12", "labels": ["n"]}}]}],
    }
    assert read_labelled(io.StringIO(json.dumps([task])))[0].fields() == {"n": "12"}


SPANS_ERRORS = [
    ('{"text": "", "spans": []}\n{"text": "ab", "spans": [[0, 3, "x"]]}', r"line 2: span \(0, 3, 'x'\) is not inside"),
    ('\n{"text": "abc", "spans": [[0, 2, "x"], [1, 3, "y"]]}', "line 2: .*'x'.* and .*'y'.* overlap"),
    ('{"text": "abc", "spans": [[1, 1, "x"]]}', "line 1: .* or is empty"),
    ('{"text": "abc", "spans": [["0", 1, "x"]]}', "line 1: offsets of a span must be integers"),
    ('{"text": "abc", "spans": [[0, 1, null]]}', "line 1: the field of span"),
    ('{"text": "abc", "spans": [[0, 1, "z"]]}', "line 1: .* unknown field 'z'. Use one of 'x', 'y'"),
    ('{"text": "abc", "spans": "x"}', "line 1: expected a list of spans"),
    ('{"spans": []}', "line 1: expected a string as 'text'"),
    ('{"text": "abc", "spans": []}\n{"text" 3}', "line 2, column 9: invalid JSON"),
]
XML_ERRORS = [
    ("<a>\n<b><x>1</x></b>\n<b><x>1<y>2</y></x></b></a>", "line 3: element 'y' is inside the field 'x'"),
    ("<a>\n<b><z>1</z></b></a>", "line 2: .*unknown field 'z'"),
    ("<a>\n<b><x>1</b></a>", "line 2, column 10: invalid XML .mismatched tag"),
    ('<!DOCTYPE a [<!ENTITY q "qq">]><a><b><x>&q;</x></b></a>', "line 1: entity declarations"),
]
ERRORS = [
    *[("a.jsonl", content, f"a.jsonl, {message}") for content, message in SPANS_ERRORS],
    *[("a.xml", content, f"a.xml, {message}") for content, message in XML_ERRORS],
    (
        "a.json",
        '[\n {"text": "abc", "spans": []},\n {"text": "abc", "spans": [[0, 9, "x"]]}\n]',
        "a.json, line 3: span",
    ),
    (
        "a.json",
        '[{"text": "abc", "label": [{"start": 0, "end": 1, "text": "q", "labels": ["x"]}]}]',
        "line 1: .*says 'q'",
    ),
    ("a.conll", "w x\n\nv\n", "a.conll, line 3: 1 columns"),
    ("a.conll", "w x\n\nv z\n", "a.conll, line 3: .*unknown field 'z'"),
    ("a.csv", "p,q\n1,2\n", "a.csv, line 1: there is no column 'x'"),
    ("a.csv", "x,y\n1,2,3\n", "a.csv, line 2: 3 columns"),
    ("a.dat", "hello\n", "a.dat: the format of the file cannot be detected. Pass format="),
]


@pytest.mark.parametrize(("name", "content", "message"), ERRORS)
def test_errors_name_file_and_line(name, content, message, tmp_path):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(FileFormatError, match=message):
        read_labelled(path, fields=["x", "y"])


def test_bytes_that_are_not_text(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "ok", "spans": []}\n{"text": "caf\xe9", "spans": []}\n')
    with pytest.raises(FileFormatError, match=r"a.jsonl, line 2: byte 14 \(0xe9\) is not UTF-8"):
        read_labelled(path)
    escaped = io.StringIO('{"text": "x\\ud800", "spans": []}')
    with pytest.raises(FileFormatError, match=r"line 1: text contains .* a byte that is not text"):
        read_labelled(escaped)


def test_a_column_called_text_is_not_silently_a_field(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,city\nin Rome,Rome\n")
    with pytest.raises(FileFormatError, match=r"a.csv, line 1: there is a column 'text'"):
        read_labelled(path)


NAMES = st.sampled_from(["x", "Street.Name", "y-2", "_z"])


@st.composite
def labelled_texts(draw):
    text = draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=6)))
    return LabelledText(text, [(a, b, draw(NAMES)) for a, b in zip(cuts[::2], cuts[1::2], strict=False)])


@given(examples=st.lists(labelled_texts(), min_size=1, max_size=4))
def test_json_lines_survive_a_round_trip(examples):
    file = io.StringIO()
    assert write_labelled(file, examples) == len(examples)
    assert read_labelled(io.StringIO(file.getvalue()), "jsonl") == examples


@given(examples=st.lists(labelled_texts(), min_size=1, max_size=4))
def test_xml_survives_a_round_trip_or_is_refused(examples):
    file = io.StringIO()
    try:
        write_labelled(file, examples, "parserator")
    except InvalidInputError:
        return
    for example, back in zip(examples, read_labelled(io.StringIO(file.getvalue()), "parserator"), strict=True):
        assert back.text == " ".join(example.text.split())
        fields = [(" ".join(example.text[a:b].split()), field) for a, b, field in example.spans]
        assert [(back.text[a:b], field) for a, b, field in back.spans] == [pair for pair in fields if pair[0]]


def test_writers_refuse_what_xml_cannot_hold():
    for example, message in [
        (LabelledText("a b", [(0, 1, "x"), (2, 3, "x")]), "would be read as one"),
        (LabelledText("a b", [(0, 1, "two words")]), "cannot be the name of an XML element"),
        (LabelledText("a\x01", [(0, 1, "x")]), "XML cannot contain"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            write_labelled(io.StringIO(), [example], "parserator")


def test_files_of_the_peers(data):
    """Numbers of strings, labels and strings that repeat a field, as the data sets' own page says."""
    for name, n, n_fields, n_repeating in [
        ("usaddress/labeled.xml.gz", 1513, 29, 61),
        ("probablepeople/person_labeled.xml.gz", 2898, None, 74),
        ("probablepeople/company_labeled.xml.gz", 1383, None, 143),
    ]:
        examples = read_labelled(data / name)
        assert len(examples) == n
        assert n_fields in (None, len({span[2] for e in examples for span in e.spans}))
        assert sum(len(e.spans) > len(e.fields()) for e in examples) == n_repeating


@given(content=st.binary(max_size=200), name=st.sampled_from(["a.xml", "a.jsonl", "a.csv", "a.conll", "a"]))
def test_any_bytes_are_read_or_refused(content, name, tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / name
    path.write_bytes(content)
    with contextlib.suppress(IntarsiaError):
        assert all(isinstance(example, LabelledText) for example in read_labelled(path))
