"""Reproductions keep what is done: runs go on where they were, and rows that were not run say so."""

from __future__ import annotations

import json
import platform
import subprocess
from pathlib import Path

import numba
import numpy as np
import pytest
from matplotlib.figure import Figure

import intarsia
from intarsia.exceptions import FileFormatError, InvalidInputError
from intarsia_reproduction.experiment import (
    EXPERIMENTS,
    Experiment,
    Finding,
    Task,
    choose_tasks,
    load_experiment,
    load_findings,
    run_tasks,
)


def made(calls, broken=()):
    def task(key, required=True):
        def run(checkpoint):
            if key in broken:
                raise KeyboardInterrupt
            calls.append((key, checkpoint.name))
            return Finding({"test error": 0.25}, 8, {"weights": np.arange(3.0)}, {"seed": 1})

        return Task(key, f"row {key}", {"test error": 0.2, "train error": None}, "error rate", run, required=required)

    tasks = [task("a"), task("b"), task("c", required=False)]
    return Experiment("made", "Made up", tasks, lambda found: {"one": Figure()}, "no data", "Why?")


def test_what_is_done_is_not_done_again(tmp_path):
    calls = []
    with pytest.raises(KeyboardInterrupt):
        run_tasks(made(calls, broken=["b"]).tasks, tmp_path)
    assert calls == [("a", "a.checkpoint.npz")]
    found = run_tasks(made(calls).tasks, tmp_path)
    assert [key for key, _ in calls] == ["a", "b", "c"]
    assert found["a"].arrays["weights"].tolist() == [0.0, 1.0, 2.0]
    assert found["a"].settings == {"seed": 1}
    assert found["a"].seconds > 0.0


def test_every_row_can_be_made_again(tmp_path):
    """The file of a row has the commit, the settings, the seconds and the versions, whatever the task returns."""
    experiment = made([])
    run_tasks(experiment.tasks[:1], tmp_path)
    document = json.loads((tmp_path / "a.json").read_text())
    origin = document["origin"]
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True)
    assert origin["commit"].removesuffix("+changes") == (head.stdout.strip() or "not recorded")
    assert origin["intarsia"] == intarsia.__version__
    assert origin["python"] == platform.python_version()
    assert (origin["numpy"], origin["numba"]) == (np.__version__, numba.__version__)
    assert document["settings"] == {"seed": 1}
    assert document["seconds"] > 0.0
    row = experiment.rows(load_findings(experiment.tasks, tmp_path))[0]
    assert row["origin"] == origin
    assert row["commit"].startswith(origin["commit"][:7])


def test_changed_code_is_marked(tmp_path):
    finding = Finding({"": 1.0}, 1, origin={"commit": "0123456789+changes"})
    assert finding.commit == "0123456+changes"


def test_rows_stored_before_commits_were_recorded_say_so(tmp_path):
    experiment = made([])
    run_tasks(experiment.tasks[:1], tmp_path)
    document = json.loads((tmp_path / "a.json").read_text())
    del document["origin"]
    (tmp_path / "a.json").write_text(json.dumps(document))
    rows = experiment.rows(load_findings(experiment.tasks, tmp_path))
    assert (rows[0]["commit"], rows[0]["origin"]) == ("not recorded", {})
    assert rows[2]["commit"] is None  # not run


def test_rows_that_were_not_run_are_empty(tmp_path):
    experiment = made([])
    run_tasks(experiment.tasks[:1], tmp_path)
    rows = experiment.rows(load_findings(experiment.tasks, tmp_path))
    assert [(row["label"], row["paper"], row["ours"], row["status"]) for row in rows[:4]] == [
        ("row a, test error", 0.2, 0.25, "done"),
        ("row a, train error", None, None, "done"),
        ("row b, test error", 0.2, None, "not run"),
        ("row b, train error", None, None, "not run"),
    ]


def test_a_fit_that_was_interrupted_is_not_done(tmp_path):
    """Estimators keep their best after Ctrl-C and give it back; that is no row of a table."""

    def run(checkpoint):
        ended = "CONVERGED" if checkpoint.exists() else "INTERRUPTED"
        checkpoint.write_bytes(b"half a fit")
        return Finding({"": 1.0}, 1, settings={"status": ended})

    tasks = [Task("fit", "a fit", {"": 1.0}, "ratio", run)]
    with pytest.raises(KeyboardInterrupt):
        run_tasks(tasks, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["fit.checkpoint.npz"]
    assert run_tasks(tasks, tmp_path)["fit"].settings == {"status": "CONVERGED"}


@pytest.mark.parametrize("settings", [{"iterations": 0, "status": "CONVERGED"}, {"iterations of folds": [4, 0]}])
def test_a_fit_without_iterations_is_not_stored(tmp_path, settings):
    """Its row would show the weights that the fit started from."""
    task = Task("warm", "warm start", {"": None}, "error", lambda checkpoint: Finding({"": 0.5}, 1, settings=settings))
    with pytest.raises(InvalidInputError, match=r"warm: 1 of [12] fits made 0 iterations.*smaller tol"):
        run_tasks([task], tmp_path)
    assert not list(tmp_path.glob("warm*"))


def test_a_start_that_is_no_fit_is_stored(tmp_path):
    finding = Finding({"": 0.5}, 1, settings={"iterations": 0, "max_iter": 0, "status": "MAX_ITER"})
    run_tasks([Task("start", "the start", {"": None}, "error", lambda checkpoint: finding)], tmp_path)
    assert (tmp_path / "start.json").exists()


def test_a_checkpoint_goes_when_its_task_is_done(tmp_path):
    def run(checkpoint):
        checkpoint.write_bytes(b"half a fit")
        return Finding({"": 1.0}, 1)

    run_tasks([Task("fit", "a fit", {"": 1.0}, "ratio", run)], tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fit.json"]


def test_tasks_are_chosen_by_their_whole_name():
    experiment = made([])
    assert [task.key for task in choose_tasks(experiment, None)] == ["a", "b"]
    assert [task.key for task in choose_tasks(experiment, "row c")] == ["c"]
    assert [task.key for task in choose_tasks(experiment, "row *")] == ["a", "b", "c"]
    for only in ("horse", "row"):
        with pytest.raises(InvalidInputError, match=rf"no task is named '{only}'\. Use one of: a, b, c; "):
            choose_tasks(experiment, only)


def test_a_key_that_is_a_part_of_others_chooses_one_task():
    faces = load_experiment("faces")
    assert sum("ridge" in task.key or "ridge" in task.label for task in faces.tasks) > 1
    assert [task.key for task in choose_tasks(faces, "ridge")] == ["ridge"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"values": 1}'])
def test_a_damaged_result_is_reported_and_kept(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(FileFormatError, match="Delete it to run the task again"):
        run_tasks(made([]).tasks, tmp_path)
    assert path.read_text() == text


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(InvalidInputError, match="denoising"):
        load_experiment("denoise")


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("quick", [False, True])
def test_every_experiment_is_well_formed(name, quick):
    experiment = load_experiment(name, quick=quick)
    keys = [task.key for task in experiment.tasks]
    assert len(set(keys)) == len(keys)
    assert all(key.replace("-", "").replace("_", "").isalnum() for key in keys)
    assert any(task.required for task in experiment.tasks)
    assert experiment.question.endswith("?")
    rows = experiment.rows({})
    assert all(row["ours"] is None and row["status"] == "not run" for row in rows)
    json.dumps(rows, allow_nan=False)
