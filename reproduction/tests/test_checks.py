"""Stored results agree with the code: a cheap row of each table is computed again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from intarsia.cli import main
from intarsia_reproduction import checks
from intarsia_reproduction.checks import CHEAP_TASKS, OUR_TASKS, check_results
from intarsia_reproduction.experiment import EXPERIMENTS, Experiment, Finding, Task, load_experiment, save_finding

RESULTS = Path(__file__).parents[2] / "docs" / "results"


@pytest.mark.data
@pytest.mark.parametrize("name", CHEAP_TASKS)
def test_stored_row_is_computed_again(name):
    rows = check_results([name], RESULTS)
    assert rows
    if rows[0].status in ("no data", "not stored"):
        pytest.skip(f"{name}: {rows[0].status}")
    assert [(row.row, row.stored_value, row.computed_value) for row in rows if row.status != "equal"] == []


def test_every_experiment_has_a_check():
    assert set(CHEAP_TASKS) == set(EXPERIMENTS)
    for name, key in [*CHEAP_TASKS.items(), *OUR_TASKS.items()]:
        assert key in [task.key for task in load_experiment(name).tasks]


@pytest.fixture
def stored(monkeypatch, tmp_path):
    """Replace the table of the woodcocks by one whose rows are 0.25 and 3; return a function that stores figures."""
    task = Task("interpolation", "a row", {"": None, "b": None}, "ratio", lambda path: Finding({"": 0.25, "b": 3.0}, 8))
    experiment = Experiment("birds", "Made up", [task], lambda findings: {}, "none", "Why?")
    monkeypatch.setattr(checks, "load_experiment", lambda name, data: experiment)
    (tmp_path / "birds").mkdir()
    return lambda values: save_finding("interpolation", Finding(values, 8), tmp_path / "birds")


def run(*arguments):
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", *arguments])
    return ended.value.code


def test_changed_figures_are_different(stored, tmp_path, capsys):
    assert check_results(["birds"], tmp_path)[0].status == "not stored"
    stored({"": 0.25, "b": 3.0})
    assert [row.status for row in check_results(["birds"], tmp_path)] == ["equal", "equal"]
    assert run("birds", "--check", "--output", str(tmp_path)) == 0
    stored({"": 0.25, "b": 3.1})
    assert [row.status for row in check_results(["birds"], tmp_path)] == ["equal", "different"]
    capsys.readouterr()
    assert run("birds", "--check", "--output", str(tmp_path), "--json") == 1
    document = json.loads(capsys.readouterr().out)
    assert [row["computed_value"] for row in document["rows"]] == [0.25, 3.0]


def test_a_figure_that_is_no_longer_computed_is_different(stored, tmp_path):
    stored({"": 0.25, "c": 1.0})
    assert [row.status for row in check_results(["birds"], tmp_path)] == ["equal", "different"]


@pytest.mark.parametrize("option", ["--quick", "--draw"])
def test_check_refuses_other_modes(option, capsys):
    assert run("--check", option) == 2
    assert "Drop --quick" in capsys.readouterr().err


def test_check_needs_stored_results(tmp_path, capsys):
    assert run("--check", "--output", str(tmp_path / "nowhere")) == 2
    assert "Pass the folder" in capsys.readouterr().err
    assert run("denoise", "--check") == 2
    assert "denoising" in capsys.readouterr().err
