"""`intarsia softlogic`: programs from the command line, and one clear line for each error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from intarsia.cli import main

MODEL = """{
    "rules": [
        "2: Likes(A, X) & Likes(B, X) & (A != B) -> Knows(A, B) ^2",   // pulls up
        "1: !Knows(A, B) ^2"
    ],
    "predicates": {
        "Likes/2": {"observations": ["likes.txt"]},
        "Knows/2": {"targets": ["targets.txt"], "truth": ["truth.txt"], "evaluations": ["DiscreteEvaluator"]}
    }
}"""
KEYS = [
    "objective", "n_atoms", "n_terms", "n_constraints", "max_violation", "evaluations", "converged", "n_iter",
    "ground_seconds", "solve_seconds", "atoms_file",
]  # fmt: skip


@pytest.fixture
def run(capsys):
    """Run `intarsia softlogic`: exit code, stdout, stderr."""

    def call(*arguments):
        with pytest.raises(SystemExit) as stopped:
            main(["softlogic", *map(str, arguments)])
        out, err = capsys.readouterr()
        return stopped.value.code, out, err

    return call


@pytest.fixture
def model(tmp_path):
    (tmp_path / "likes.txt").write_text("ann\tchess\nbob\tchess\n")
    (tmp_path / "targets.txt").write_text("ann\tbob\nbob\tann\n")
    (tmp_path / "truth.txt").write_text("ann\tbob\t1\nbob\tann\t0\n")
    path = tmp_path / "model.json"
    path.write_text(MODEL)
    return path


def test_infer_prints_one_document_and_writes_the_atoms(run, model, tmp_path):
    code, out, err = run("infer", model, "--output", tmp_path / "found", "--set", "tol=1e-8", "--json")
    assert (code, err, out.count("\n")) == (0, "", 1)
    document = json.loads(out)
    assert list(document) == KEYS
    # 2 (1 - x)^2 + x^2 at x = 2/3, twice.
    assert document["objective"] == pytest.approx(4 / 3, abs=1e-5)
    assert [document[key] for key in ("n_atoms", "n_terms", "n_constraints", "converged")] == [2, 4, 0, True]
    assert document["evaluations"]["Knows"]["DiscreteEvaluator"]["accuracy"] == 0.5
    lines = [line.split("\t") for line in Path(document["atoms_file"]).read_text().splitlines()]
    assert [line[:2] for line in lines] == [["ann", "bob"], ["bob", "ann"]]
    assert float(lines[0][2]) == pytest.approx(2 / 3, abs=1e-3)


def test_atoms_of_several_predicates_are_written_to_a_folder(run, model, tmp_path):
    text = MODEL.replace('"Likes/2"', '"Nice/1": {"targets": [["ann"]]}, "Likes/2"')
    model.write_text(text)
    code, out, _ = run("infer", model, "--output", tmp_path / "found", "--json")
    assert code == 0
    assert json.loads(out)["atoms_file"] == str(tmp_path / "found")
    assert sorted(path.name for path in (tmp_path / "found").iterdir()) == ["KNOWS.txt", "NICE.txt"]


def test_printed_tables(run, model, tmp_path):
    code, out, _ = run("infer", model, "-o", tmp_path / "found")
    assert code == 0
    assert "2 atoms, 4 terms, 0 constraints" in out
    assert "Knows, DiscreteEvaluator: accuracy 0.5" in out
    assert "KNOWS.txt" in out
    code, out, _ = run("explain", model, "Knows(ann, 'bob')")
    assert code == 0
    assert out.startswith("Knows('ann', 'bob') = 0.66")
    assert "1 - Knows('ann', 'bob')" in out


def test_explain_prints_one_document(run, model):
    code, out, err = run("explain", model, "KNOWS(ann, bob)", "--json", "--terms", 1, "--set", "tol=1e-8")
    assert (code, err, out.count("\n")) == (0, "", 1)
    document = json.loads(out)
    assert list(document) == ["atom", "value", "rules", "constraints", "bound", "imbalance"]
    assert sorted(round(rule["force"], 3) for rule in document["rules"]) == pytest.approx([-4 / 3, 4 / 3], abs=0.01)


def test_data_folder_option(run, model, tmp_path):
    (tmp_path / "moved").mkdir()
    for name in ("likes.txt", "targets.txt", "truth.txt"):
        (tmp_path / name).rename(tmp_path / "moved" / name)
    code, _, err = run("infer", model, "-o", tmp_path / "found")
    assert code == 2
    assert "likes.txt does not exist" in err
    assert run("infer", model, "--data", tmp_path / "moved", "-o", tmp_path / "found", "--json")[0] == 0


def test_notes_on_likely_mistakes_go_to_stderr(run, model, tmp_path):
    (tmp_path / "likes.txt").write_text("")
    code, out, err = run("infer", model, "-o", tmp_path / "found", "--json")
    assert code == 0
    assert json.loads(out)["n_terms"] == 2
    assert "has no groundings" in err


def test_contradicting_constraints_are_reported_with_exit_code_0(run, model, tmp_path):
    model.write_text(MODEL.replace('"1: !Knows(A, B) ^2"', '"Knows(A, B) <= 0.2 .", "Knows(A, B) >= 0.4 ."'))
    code, out, err = run("infer", model, "-o", tmp_path / "found", "--json")
    assert code == 0
    document = json.loads(out)
    assert not document["converged"]
    assert document["max_violation"] > 0.01
    assert "Knows(A, B) >= 0.4" in err or "Knows(A, B) <= 0.2" in err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.replace("-> Knows", "-> Knosw"), "Did you mean 'Knows'"),
        (lambda t: t.replace("Knows(A, B) ^2", "Knows(A B) ^2"), "line 1, column 52: expected ',' or ')', got 'B'"),
        (lambda t: t.replace("-> Knows(A, B)", "-> Knows(A, C)"), "variable C is unsafe"),
        (lambda t: t.replace("Likes/2", 'x\\"; drop table/2'), "a name must consist of letters, digits"),
        (lambda t: t.replace("DiscreteEvaluator", "Discreet"), "evaluator='Discreet' is not known"),
        (lambda t: t[:-1], "invalid JSON"),
    ],
)
def test_bad_programs_give_one_line(run, model, tmp_path, change, message):
    model.write_text(change(MODEL))
    code, out, err = run("infer", model, "-o", tmp_path / "found", "--json")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert not (tmp_path / "found").exists()


@pytest.mark.parametrize(
    ("likes", "message"),
    [
        ("ann\tchess\nbob\n", "likes.txt, line 2: 1 fields; expected 2 arguments"),
        ("ann\tchess\t1.5\n", "likes.txt, line 1: the value 1.5 is outside [0, 1]"),
        ("ann\tgo\ncy\tgo\n", "Knows('ann', 'cy')"),
    ],
)
def test_bad_data_give_one_line(run, model, tmp_path, likes, message):
    (tmp_path / "likes.txt").write_text(likes)
    code, out, err = run("infer", model, "-o", tmp_path / "found", "--json")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explain", "MODEL", "Knows(ann"], "atom, line 1, column 10: expected ',' or ')', got the end"),
        (["explain", "MODEL", "Knows(ann, cy)"], "Knows('ann', 'cy') is neither a target nor latent"),
        (["explain", "MODEL", "Knows(ann, bob) & x"], "expected the end, got '&'"),
        (["explain", "MODEL", "Knows(,)"], "expected a constant, got ','"),
        (["infer", "MODEL", "--set", "tolerance=1"], "Did you mean 'tol'"),
        (["infer", "MODEL", "--missing", "ignore"], "missing='ignore' is not known"),
        (["infer", "MODEL", "--data", "nowhere"], "--data nowhere is neither a folder nor a .data file"),
        (["infer", "nothing.json"], "there is no file nothing.json"),
    ],
)
def test_bad_arguments_give_one_line(run, model, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*[model if word == "MODEL" else word for word in arguments])
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


LEARNING = """{
    "rules": ["1: Likes(A, X) & Likes(B, X) & (A != B) -> Knows(A, B) ^2", "Knows(A, B) = Knows(B, A) ."],
    "learn": {"rules": ["1: !Knows(A, B) ^2"]},
    "predicates": {
        "Likes/2": {"observations": {"learn": ["likes.txt"], "infer": ["none.txt"]}},
        "Knows/2": {"targets": ["targets.txt"], "truth": ["truth.txt"]}
    }
}"""


@pytest.fixture
def learning(tmp_path):
    """Write a program in which people who like the same know each other: the first rule is right, the last wrong."""
    files = {
        "likes.txt": "ann\tchess\nbob\tchess\n",
        "targets.txt": "ann\tbob\nbob\tann\n",
        "truth.txt": "ann\tbob\t1\nbob\tann\t1\n",
        "model.json": LEARNING,
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path / "model.json"


@pytest.mark.parametrize("learner", ["paired_dual", "perceptron"])
def test_learn_writes_the_program_with_its_weights(run, learning, learner):
    file = learning.with_name("learned.json")
    code, out, err = run("learn", learning, "--learner", learner, "--set", "max_iter=50", "--json", "--output", file)
    assert code == 0, err
    document = json.loads(out)
    assert document["n"] == 2
    assert document["n_updates"] <= 50
    assert document["file"] == str(file)
    written = json.loads(Path(document["file"]).read_text(encoding="utf-8"))
    assert written["rules"] + written["learn"]["rules"] == document["rules"]
    up, equal, down = document["rules"]
    assert equal == "Knows(A, B) = Knows(B, A) ."
    assert float(up.partition(":")[0]) > 1.0 > float(down.partition(":")[0])
    from intarsia.softlogic import read_psl

    assert read_psl(document["file"], phase="learn").rules[0].weight == pytest.approx(float(up.partition(":")[0]))


def test_learn_stops_early(run, learning):
    """The hard rule makes both targets equal, so the held-out target follows the other one."""
    code, out, err = run("learn", learning, "--validation", "0.5", "--json")
    assert code == 0, err
    up, _, down = json.loads(out)["rules"]
    assert float(up.partition(":")[0]) > float(down.partition(":")[0])


def test_learn_prints_text_and_writes_to_another_folder(run, learning, tmp_path):
    (tmp_path / "other").mkdir()
    code, out, err = run("learn", learning, "-o", tmp_path / "other" / "new.json", "--set", "max_iter=3")
    assert code == 0
    assert "after 3 updates" in out
    assert "relative to" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--learner", "paired"], "Did you mean 'paired_dual'"),
        (["--set", "n_inner_iter=0"], "n_inner_iter must be an integer"),
        (["--set", "speed=3"], "setting='speed' is not known"),
        (["--learner", "pseudo_likelihood", "--set", "step_size=3"], "setting='step_size' is not known"),
        (["--data", "nowhere"], "is neither a folder nor a .data file"),
        (["--validation", "2"], "validation must be"),
        (["--validation", "0.5", "--scoring", "auc"], "scoring='auc' is not known"),
        (["--learner", "perceptron", "--validation", "0.5"], "HingePerceptron needs the labels of all targets"),
    ],
)
def test_learn_errors_are_one_line(run, learning, arguments, message):
    code, out, err = run("learn", learning, *arguments)
    assert code == 2
    assert message in err
    assert out == ""


@pytest.mark.parametrize("command", ["infer", "learn"])
def test_nothing_is_written_without_output(run, model, tmp_path, monkeypatch, command):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    before = sorted(tmp_path.rglob("*"))
    code, out, _ = run(command, model)
    assert code == 0
    assert "No file was written. Use --output" in out
    code, out, _ = run(command, model, "--json")
    assert code == 0
    assert json.loads(out)["atoms_file" if command == "infer" else "file"] is None
    assert sorted(tmp_path.rglob("*")) == before


def test_atoms_are_shown_without_output(run, model):
    _, out, _ = run("infer", model)
    assert "Knows('ann', 'bob') = 0.66" in out


def test_duplicate_rule_is_one_line_on_stderr(tmp_path, capsys):
    path = tmp_path / "model.json"
    path.write_text('{"rules": ["1: !P(A)", "1: !P(A)"], "predicates": {"P/1": {"targets": [["a"]]}}}')
    with pytest.raises(SystemExit) as stopped:
        main(["softlogic", "infer", str(path)])
    assert stopped.value.code == 0
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if "is already in the program" in line] == lines
    assert len(lines) == 1
    assert lines[0].startswith("intarsia: model.json: rules, number 2")
