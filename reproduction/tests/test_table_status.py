"""Stored rows whose code has changed since are detected, and missing rows are listed."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from intarsia.cli import main
from intarsia.exceptions import FileFormatError
from intarsia_reproduction import table_status as module
from intarsia_reproduction.experiment import (
    EXPERIMENTS,
    Experiment,
    Finding,
    Task,
    load_findings,
    run_tasks,
    save_finding,
)
from intarsia_reproduction.table_status import code_fingerprint, table_status

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def test_no_stored_row_comes_from_code_that_has_changed_since():
    """Run the row again, or add it with a reason to docs/results/accepted_changes.json."""
    tables = table_status(EXPERIMENTS, RESULTS)
    assert {table.name: table.changed for table in tables if table.changed} == {}
    assert {table.name: table.edited for table in tables if table.edited} == {}  # figures are computed, not typed


def measure(size, checkpoint):
    return Finding({"": float(size)}, size)


def tasks(size):
    return [Task(key, f"row {key}", {"": None}, "ratio", partial(measure, size)) for key in "abc"]


@pytest.fixture
def table(monkeypatch, tmp_path):
    """Replace the table of the woodcocks by three rows; return a function that sets their size."""

    def set_size(size):
        experiment = Experiment("birds", "Made up", tasks(size), lambda findings: {}, "none", "Why?")
        monkeypatch.setattr(module, "load_experiment", lambda name: experiment)
        return tmp_path / "birds"

    set_size(3).mkdir()
    return set_size


def test_states(table, tmp_path):
    folder = table(3)
    run_tasks(tasks(3)[:1], folder)
    save_finding("b", Finding({"": 3.0}, 3), folder)
    (status,) = table_status(["birds"], tmp_path)
    assert (status.current, status.no_code, status.no_commit, status.missing) == (["a"], ["b"], ["b"], ["c"])
    assert (status.n_stored, status.changed, status.accepted) == (2, [], [])
    table(4)
    (status,) = table_status(["birds"], tmp_path)
    assert (status.current, status.changed, status.no_code) == ([], ["a"], ["b"])


def test_an_accepted_change_holds_for_one_version_of_the_code(table, tmp_path):
    folder = table(3)
    run_tasks(tasks(3)[:1], folder)
    table(4)
    accepted = {"row": "birds/a", "code": code_fingerprint(tasks(4)[0].run), "reason": "the size is not used"}
    (tmp_path / "accepted_changes.json").write_text(json.dumps({"rows": [accepted]}))
    assert table_status(["birds"], tmp_path)[0].accepted == ["a"]
    table(5)
    assert table_status(["birds"], tmp_path)[0].changed == ["a"]


@pytest.mark.parametrize("text", ["[]", "{", '{"rows": [{"row": "birds/a", "code": "01", "reason": " "}]}'])
def test_an_accepted_change_needs_a_reason(table, tmp_path, text):
    (tmp_path / "accepted_changes.json").write_text(text)
    with pytest.raises(FileFormatError, match="run the rows again"):
        table_status(["birds"], tmp_path)


def test_the_code_is_stored_with_the_row(tmp_path):
    row = tasks(3)[:1]
    run_tasks(row, tmp_path)
    assert load_findings(row, tmp_path)["a"].origin["code"] == code_fingerprint(row[0].run)


def test_rows_that_were_edited_by_hand_are_listed(table, tmp_path, capsys):
    folder = table(3)
    run_tasks(tasks(3)[:2], folder)
    assert table_status(["birds"], tmp_path)[0].edited == []
    path = folder / "b.json"
    document = json.loads(path.read_text())
    document["settings"]["note"] = "better than it looks"
    path.write_text(json.dumps(document))
    assert table_status(["birds"], tmp_path)[0].edited == ["b"]
    assert run("birds", "--status", "--output", str(tmp_path)) == 1
    assert "Edited: birds b" in capsys.readouterr().out


def run(*arguments):
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", *arguments])
    return ended.value.code


def test_command(table, tmp_path, capsys):
    folder = table(3)
    run_tasks(tasks(3)[:1], folder)
    assert run("birds", "--status", "--output", str(tmp_path)) == 0
    assert "Missing: birds b, c" in capsys.readouterr().out
    table(4)
    assert run("birds", "--status", "--output", str(tmp_path), "--json") == 1
    document = json.loads(capsys.readouterr().out)["tables"][0]
    assert document["changed"] == ["a"]
    assert document["fingerprints"] == {"a": code_fingerprint(tasks(4)[0].run)}
    assert run("birds", "--status", "--output", str(tmp_path)) == 1
    assert f"Older code: birds/a, the code is now {code_fingerprint(tasks(4)[0].run)}" in capsys.readouterr().out
    assert run("birds", "--status", "--check") == 2
    assert "either --check or --status" in capsys.readouterr().err
    assert run("birds", "--status", "--output", str(tmp_path / "nowhere")) == 2
    assert "Pass the folder" in capsys.readouterr().err


def test_rows_without_recorded_code_are_compared_with_their_commit(tmp_path, monkeypatch):
    """The woodcocks' baseline, as if computed today, and as if its file had been empty then."""
    from intarsia_reproduction.experiment import load_experiment

    task = next(task for task in load_experiment("birds").tasks if task.key == "interpolation")
    texts = {file: file.read_text() for file, _ in module.code_definitions(task.run)}
    monkeypatch.setattr(module, "_git", lambda folder, *arguments: texts[folder / arguments[-1].split("./")[1]])
    finding, path = Finding({"": 1.0}, 1, origin={"commit": "planted"}), tmp_path / "interpolation.json"
    assert not module._differs_from_commit(task, finding, path)
    module._definitions_at.cache_clear()
    texts = dict.fromkeys(texts, "")
    assert module._differs_from_commit(task, finding, path)
    module._definitions_at.cache_clear()
