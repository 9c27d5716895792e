"""Commands on damaged files: an exit status, one line on stderr for an error, never a traceback."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fuzz.damage import bounded_by, files, within_bounds
from tests.fuzz.valid_files import CONLL, CRFSUITE, GRAPHS, JSON_PIECES, PSL, RULE_PIECES, UAI

from intarsia.cli import main
from intarsia.cli.app import program as whole_program

NAMES = ["Ann Lee", "Anne Lee", "Bob Ray", "Bob Rays", "Eve Fox", "Eva Fox"]
RECORDS = "".join(f"{name},{k},p{k // 2}\n" for k, name in enumerate(NAMES))
CSV = f"name,id,person\n{RECORDS}".encode()
EDGES = b"id1,id2,score\n0,1,0.9\n2,3,0.8\n1,2,0.1\n"
LEARN = PSL.replace(b'{"infer": [["ann", "bob"]], "all": []}', b'[["ann", "bob"], ["bob", "ann"]]')

few = bounded_by(10)


def run(*arguments):
    """Run the program; return exit status, stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    return stopped.value.code, out.getvalue(), err.getvalue()


ENDINGS = (".npz", ".csv", ".json", ".txt", ".uai", ".d")
# Command, with a file of this name in place of FILE, and valid contents.
COMMANDS = {
    "infer": (["infer", "FILE", "--task", "mar", "--json", "--max-iter", "20"], "m.uai", [UAI]),
    "infer map": (["infer", "FILE", "--task", "map", "--json", "--method", "belief_propagation"], "m.uai", [UAI]),
    "infer evidence": (["infer", "whole.uai", "--evidence", "FILE", "--json"], "m.evid", [b"1 0 1", b"1 2 0 1 2 2"]),
    "tag train": (["tag", "train", "FILE", "-m", "new.npz", "--max-iter", "3", "--json"], "a.txt", [CONLL, CRFSUITE]),
    "tag predict": (["tag", "predict", "FILE", "-m", "tagger.npz", "-o", "out.txt", "--json"], "a.txt", [CONLL]),
    "tag evaluate": (["tag", "evaluate", "FILE", "-m", "tagger.npz", "--json"], "a.txt", [CONLL]),
    "softlogic infer": (
        ["softlogic", "infer", "FILE", "-o", "found.d", "--missing", "zero", "--json"],
        "model.json",
        [PSL],
    ),
    "softlogic atoms": (
        ["softlogic", "infer", "whole.json", "-o", "found.d", "--missing", "zero", "--json"],
        "likes.txt",
        [b"ann\tchess\nbob\tchess\n", b"ann\tchess\t0.5\n"],
    ),
    "softlogic learn": (
        ["softlogic", "learn", "FILE", "-o", "l.json", "--set", "max_iter=3", "--missing", "zero", "--json"],
        "model.json",
        [LEARN],
    ),
    "cluster train": (["cluster", "train", "FILE", "-m", "new.npz", "--entity", "person", "--json"], "a.csv", [CSV]),
    "cluster edges": (
        [
            "cluster",
            "train",
            "whole.csv",
            "-m",
            "new.npz",
            "--entity",
            "person",
            "--id",
            "id",
            "--edges",
            "FILE",
            "--json",
        ],
        "e.csv",
        [EDGES],
    ),
    "cluster predict": (["cluster", "predict", "FILE", "-m", "people.npz", "-o", "out.csv", "--json"], "a.csv", [CSV]),
    "cluster evaluate": (
        ["cluster", "evaluate", "FILE", "-m", "people.npz", "--entity", "person", "--json"],
        "a.csv",
        [CSV],
    ),
    "diagnose": (["diagnose", "FILE", "--n-passes", "2", "--time-limit", "1", "--json"], "graphs.json", [GRAPHS]),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Folder with valid files and models; the program is imported once, which takes longer than most errors."""
    program = whole_program()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.main.get_command", lambda _: program)
        yield _folder(tmp_path_factory)


def _folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("commands")
    for name, content in (
        ("whole.uai", UAI),
        ("whole.json", PSL),
        ("whole.csv", CSV),
        ("train.txt", CONLL),
        ("likes.txt", b"ann\tchess\nbob\tchess\n"),
    ):
        (made / name).write_bytes(content)
    people = ["cluster", "train", made / "whole.csv", "-m", made / "people.npz", "--entity", "person", "--json"]
    tagger = ["tag", "train", made / "train.txt", "-m", made / "tagger.npz", "--max-iter", "3", "--json"]
    for command in (people, tagger):
        code, _, err = run(*command)
        assert code == 0, err
    return made


def words_of(kind, folder):
    """Return the arguments of a command, with files replaced by their paths in the folder."""
    arguments, name, _ = COMMANDS[kind]
    return [
        str(folder / (name if word == "FILE" else word)) if word == "FILE" or word.endswith(ENDINGS) else word
        for word in arguments
    ]


@pytest.mark.parametrize("kind", COMMANDS)
def test_valid_files(folder, kind):
    _, name, valid = COMMANDS[kind]
    for content in valid:
        (folder / name).write_bytes(content)
        code, _, err = run(*words_of(kind, folder))
        assert code == 0, err


@pytest.mark.parametrize("kind", COMMANDS)
@few
@given(choice=st.data())
def test_any_file(folder, kind, choice):
    _, name, valid = COMMANDS[kind]
    pieces = [*JSON_PIECES, *RULE_PIECES] if name.endswith("json") else []
    (folder / name).write_bytes(choice.draw(files(valid, pieces)))
    with within_bounds():
        code, out, err = run(*words_of(kind, folder))
        assert code in (0, 2)
        assert "Traceback" not in err
        if code == 2:
            assert out == ""
            assert err.splitlines()[-1].startswith("intarsia: ")
        else:
            json.loads(out)
