"""PSL 3 programs and their data files: read as they are, or refused with file and line."""

from __future__ import annotations

import gzip
import json

import pytest

from intarsia.exceptions import FileFormatError, InvalidInputError
from intarsia.softlogic import ground, read_psl
from intarsia.softlogic.atom_files import read_atom_file
from intarsia.softlogic.constants import ConstantTable

MODEL = """{
    // a comment, and one /* inside */ "another"
    "options": {"runtime.log.level": "INFO"},
    "rules": [
        "1.0: KNOWS(A, B) & Prior('0') -> TRUSTS(A, B) ^2", /* and
        one over lines */
        "0.5 : !Trusts(A, B) ^2"
    ],
    "predicates": {
        "Trusts/2": {
            "evaluations": ["AUCEvaluator", {"evaluator": "org.linqs.psl.DiscreteEvaluator", "options": {"x": 1}}],
            "targets": {"learn": ["data/learn.txt"], "infer": ["data//infer.txt"]},
            "truth": {"infer": ["data/truth.txt"], "learn": ["data/truth.txt"]}
        },
        "Knows/2": {"observations": ["data/knows.txt"]},
        "Prior/1": {"observations": [["0", "0.7"]], "types": ["UniqueStringID"]}
    },
    "learn": {"options": {}, "rules": ["2: !Trusts(A, B)"]}
}"""


@pytest.fixture
def model(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "learn.txt").write_text("a\tb\n")
    (tmp_path / "data" / "infer.txt").write_text("b\ta\n\nc\ta\n")
    (tmp_path / "data" / "truth.txt").write_text("b\ta\t1.0\n")
    (tmp_path / "data" / "knows.txt").write_bytes(gzip.compress(b"a\tb\r\nb\ta\t0.5\r\n"))
    path = tmp_path / "model.json"
    path.write_text(MODEL)
    return path


def test_a_program_with_comments_phases_and_inline_data(model):
    program = read_psl(model)
    assert [rule.weight for rule in program.rules] == [1.0, 0.5]
    assert program.n_atoms("target") == 2
    assert program.options == {"runtime.log.level": "INFO"}
    assert [(e.predicate, e.evaluator, e.options) for e in program.evaluations] == [
        ("Trusts", "AUCEvaluator", {}),
        ("Trusts", "DiscreteEvaluator", {"x": 1}),
    ]
    assert program.notes == []
    found = ground(program, missing="zero")
    # Knows(b, a) = 0.5 and Prior = 0.7 pull Trusts(b, a) towards 0.2.
    assert found.mrf.terms.const[0] == pytest.approx(0.2)
    assert found.atoms.truth[0] == 1.0


def test_the_other_phase(model):
    program = read_psl(model, phase="learn")
    assert [rule.weight for rule in program.rules] == [1.0, 0.5, 2.0]
    assert program.n_atoms("target") == 1
    with pytest.raises(InvalidInputError, match="phase='evaluate' is not known"):
        read_psl(model, phase="evaluate")


def test_a_folder_for_all_data(model, tmp_path):
    other = tmp_path / "other"
    (tmp_path / "data").rename(other)
    with pytest.raises(InvalidInputError, match=r"Trusts/2, targets: the data file .*infer.txt does not exist.*--data"):
        read_psl(model)
    assert read_psl(model, data=other).n_atoms("target") == 2
    for file in other.iterdir():
        file.rename(tmp_path / file.name)
    program = read_psl(model)
    assert program.n_atoms("target") == 2
    assert "3 data files, such as data//infer.txt, are not where the program says" in program.notes[0]


def test_unknown_keys_are_noted(model):
    document = {"rules": [], "predicates": {"P/1": {"color": "red"}}, "author": "me"}
    model.write_text(json.dumps(document))
    notes = read_psl(model).notes
    assert any("'author' is not used" in note for note in notes)
    assert any("P/1: 'color' is not used" in note for note in notes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"rules": [}', "model.json, line 1, column 12: no JSON"),
        ('{\n// x\n"rules": ["a",,]}', "model.json, line 3, column 15: no JSON"),
        ("[]", "model.json: expected an object, got list"),
        ('{"rules": "A"}', "model.json: rules: expected a list, got str"),
        ('{"rules": [3]}', "rules, number 1: expected a string, got int 3"),
        ('{"predicates": {"Knows": {}}}', "expected a name and its number of arguments, such as Knows/2, got 'Knows'"),
        ('{"predicates": {"x\\"; drop table/2": {}}}', "a name consists of letters, digits"),
        ('{"predicates": {"P/1": []}}', "predicates, P/1: expected an object, got list"),
        ('{"predicates": {"P/1": {"observations": {"train": []}}}}', "='train' is not known"),
        ('{"predicates": {"P/1": {"observations": [["a", "2"]]}}}', "the truth value 2 is outside"),
        ('{"predicates": {"P/1": {"evaluations": [{}]}}}', "evaluator: expected a string, got NoneType"),
        ('{"rules": ["1: P(A"], "predicates": {"P/1": {}}}', "model.json: rules, number 1, line 1, column 7: expected"),
        ('{"rules": ["1: !Pp(A)"], "predicates": {"P/1": {}}}', "rules, number 1 .*'Pp' is not known"),
        ("[" * 100_000, "too many brackets"),
    ],
)
def test_what_is_no_program(tmp_path, text, message):
    path = tmp_path / "model.json"
    path.write_text(text)
    with pytest.raises(InvalidInputError, match=message):
        read_psl(path)


# ---------------------------------------------------------------- data files


def read(path, n_arguments=2):
    constants = ConstantTable()
    rows = read_atom_file(path, n_arguments, constants)
    return [tuple(constants.names[n] for n in row) for row in rows.arguments], rows.values.tolist()


def test_lines_of_both_lengths(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("\ufeffa\tb\n \nc d\tä\t0.25\n\ne\tf\t 1")
    assert read(path) == ([("a", "b"), ("c d", "ä"), ("e", "f")], [1.0, 0.25, 1.0])


def test_many_blocks_are_one_table(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("".join(f"name{i}\tother{i % 7}\t{i % 5 / 4}\n" for i in range(150_000)))
    arguments, values = read(path)
    assert path.stat().st_size > 2 * 2**20
    assert arguments[123_456] == ("name123456", "other4")
    assert len(arguments) == 150_000
    assert values[3] == 0.75


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\tb\nc\n", "a.txt, line 2: 1 fields; expected 2 arguments and perhaps a truth value"),
        (b"a\tb\t1\tx\n", "a.txt, line 1: 4 fields"),
        (b"a b\n", "a.txt, line 1: 1 fields"),
        (b"a\tb\t1\nc\td\t1.5\n", r"a.txt, line 2: the truth value 1.5 is outside \[0, 1\]"),
        (b"a\tb\n\nc\td\tmany\n", "a.txt, line 3: expected a truth value"),
        (b"a\tb\nc\t\xff\n", "a.txt, line 2: byte 0xff is not UTF-8"),
        (gzip.compress(b"a\tb\n" * 1000, mtime=0)[:-20], "a.txt: damaged gzip file"),
    ],
)
def test_bad_lines_are_named(tmp_path, content, message):
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=message):
        read(path)


def test_an_endless_line_is_refused_before_it_is_read(tmp_path):
    """Two gigabytes of zeros without an end of line; a sparse file, of which only the first blocks are touched."""
    path = tmp_path / "a.txt"
    with open(path, "wb") as file:
        file.write(b"a\tb\n")
        file.truncate(2_000_000_000)
    with pytest.raises(FileFormatError, match=r"a.txt, line 2: more than 1000000 bytes in one line"):
        read(path)


def test_an_empty_file_has_no_atoms(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("")
    assert read(path) == ([], [])
