"""CoNLL files: examples written by hand, round trips, and errors with line numbers."""

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intarsia.exceptions import FileFormatError, InvalidInputError
from intarsia.sequences import read_conll, write_conll


def read(text, **settings):
    return list(read_conll(io.StringIO(text, newline=""), **settings))


@pytest.mark.parametrize(
    "text",
    [
        "a A\nb B\n\nc C\n\n",
        "a A\nb B\n\nc C",  # no end of the last line
        "\n\na A\r\nb B\r\n\r\n \t\r\n\r\nc C\r\n",
        "  a \t A \nb\tB\n\nc  C\n",
    ],
)
def test_by_hand(text):
    assert read(text) == [(["a", "b"], ["A", "B"]), (["c"], ["C"])]


def test_any_number_of_columns():
    assert read("a\nb\n") == [(["a", "b"],)]
    assert read("a b c d e\n") == [(["a"], ["b"], ["c"], ["d"], ["e"])]
    assert read("") == read("\n\n") == []


def test_comments_are_skipped_on_request():
    text = "# text = x\n# # O\n"
    with pytest.raises(FileFormatError, match="line 2: 3 columns, but line 1 has 4"):
        read(text)
    assert read("# # O\na A O\n") == [(["#", "a"], ["#", "A"], ["O", "O"])]
    assert read("# a comment\n1\ta\n# between\n2\tb\n", comment="#") == [(["1", "2"], ["a", "b"])]


def test_separators_and_blanks_inside_tokens():
    assert read("New York\tB-x\n", separator="\t") == [(["New York"], ["B-x"])]
    assert read("1\u00a0000 O\n") == [(["1\u00a0000"], ["O"])]
    assert read("a,b\n", separator=",") == [(["a"], ["b"])]
    with pytest.raises(FileFormatError, match="line 2: column 2 is empty"):
        read("a\tb\tc\na\t\tc\n", separator="\t")


def test_sequences_are_read_lazily():
    lines = iter(["a A\n", "\n", "b B\n", "\n", "wrong\n"])
    sequences = read_conll(lines)
    assert next(sequences) == (["a"], ["A"])
    assert next(lines) == "b B\n"  # nothing was read ahead


CELL = st.text(st.sampled_from("ab#-\u00a0\u2028é"), min_size=1, max_size=3)
ROWS = st.lists(st.lists(st.tuples(CELL, CELL, CELL), min_size=1, max_size=3), max_size=3)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(ROWS, st.sampled_from([" ", "\t", ","]))
def test_round_trip(rows, separator):
    sequences = [tuple(map(list, zip(*sequence, strict=True))) for sequence in rows]
    file = io.StringIO(newline="")
    assert write_conll(file, iter(sequences), separator=separator) == len(sequences)
    assert read(file.getvalue(), separator=None if separator == " " else separator) == sequences


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_files(tmp_path, name):
    sequences = [(["New York", "x"], ["B-x", "O"])]
    write_conll(tmp_path / name, sequences, separator="\t")
    assert list(read_conll(tmp_path / name, separator="\t")) == sequences


@pytest.mark.parametrize(
    ("sequence", "message"),
    [
        ((["a b"], ["A"]), "token 0 of sequence 1 has 'a b'"),
        ((["a", "b\tc"], ["A", "B"]), "token 1 of sequence 1 has"),
        ((["a", ""], ["A", "B"]), "token 1 of sequence 1 has ''"),
        ((["a", None], ["A", "B"]), "token 1 of sequence 1 has None"),
        ((["a\n"], ["A"]), "token 0 of sequence 1"),
        ((["a", "b"], ["A"]), r"columns of sequence 1 have lengths \[2, 1\]"),
        (([], []), r"columns of sequence 1 have lengths \[0, 0\]"),
        ((["a"],), "sequence 1 has 1 columns, but sequence 0 has 2"),
    ],
)
def test_invalid_cells_are_not_written(tmp_path, sequence, message):
    with pytest.raises(InvalidInputError, match=message):
        write_conll(tmp_path / "a.txt", [(["a"], ["A"]), sequence])
    assert not list(tmp_path.iterdir())


def test_bad_separator():
    for separator in ("", "\n", 3):
        with pytest.raises(InvalidInputError, match="separator must be a string"):
            read("a\n", separator=separator)
