"""Tiny versions of the image experiments: a CRF beats the independent model on real images."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia_reproduction.experiment import Finding, Task, choose_tasks, load_experiment, run_tasks
from intarsia_reproduction.experiments import backgrounds

EXTRA = {
    "denoising": ("study-decoding", "n1_25-smoothing", "n1_25-boosting"),
    "horses": ("trw-10-surrogate", "full-size-10-surrogate", "half-size-10-univariate_logistic"),
    "backgrounds": ("trw-5-surrogate_em",),
}
FITS = {
    "denoising": ("n1_25-independent", "n1_25-clique_logistic"),
    "horses": ("independent", "trw-10-clique_logistic"),
    "backgrounds": ("independent", "trw-5-univariate_logistic"),
}


@pytest.mark.data
@pytest.mark.parametrize("name", list(FITS))
def test_neighbours_help(name, data, tmp_path):
    experiment = load_experiment(name, quick=True, data=data)
    tasks = [task for key in FITS[name] for task in choose_tasks(experiment, key)]
    findings = run_tasks(tasks, tmp_path)
    independent, crf = (findings[key].values["train error"] for key in FITS[name])
    assert crf < independent
    figures = experiment.figures(findings)
    assert figures
    assert all(np.isfinite(finding.arrays["weights"]).all() for finding in findings.values())


@pytest.mark.data
@pytest.mark.parametrize("name", list(EXTRA))
def test_rows_that_may_diverge_and_studies_have_finite_errors(name, data, tmp_path):
    experiment = load_experiment(name, quick=True, data=data)
    tasks = [task for task in experiment.tasks if task.key in EXTRA[name]]
    findings = run_tasks(tasks, tmp_path)
    assert set(findings) == set(EXTRA[name])
    for finding in findings.values():
        assert all(0.0 <= error <= 1.0 for name, error in finding.values.items() if "error" in name)


@pytest.mark.data
def test_boosting_of_noisy_neighbourhoods_beats_single_pixels(data, tmp_path):
    """The pixels that boosting learns from are drawn independently of their noise."""
    experiment = load_experiment("denoising", quick=True, data=data)
    tasks = [task for task in experiment.tasks if task.key in ("n1_25-boosting", "n1_25-independent")]
    findings = run_tasks(tasks, tmp_path)
    errors = {key: finding.values["test error"] for key, finding in findings.items()}
    assert errors["n1_25-boosting"] < 0.8 * errors["n1_25-independent"]


def test_rows_of_backgrounds_pool_folds_and_resume_after_the_last_stored_fold(tmp_path):
    n_runs = [0, 0]

    def fold_task(fold):
        def run(_):
            n_runs[fold] += 1
            if fold == 1 and n_runs[1] == 1:
                raise RuntimeError("interrupted")
            values = {"train error": 0.1 * fold, "test error": 0.5, "processor s": 2.0}
            return Finding(values, 4, {"picture_errors": np.array([[fold, 2], [1, 2]])}, {"tol": 0.1, "fold": fold})

        return Task(f"row-fold{fold}", f"fold {fold}", {}, "error rate", run)

    tasks = [fold_task(fold) for fold in (0, 1)]
    with pytest.raises(RuntimeError, match="interrupted"):
        backgrounds._over_folds(tasks, tmp_path / "row.checkpoint.npz")
    finding = backgrounds._over_folds(tasks, tmp_path / "row.checkpoint.npz")
    assert n_runs == [1, 2]
    assert finding.values["test error"] == 3 / 8  # of 8 labelled pixels
    assert finding.values["train error"] == pytest.approx(0.05)
    assert finding.arrays["picture_errors"].tolist() == [[0, 2], [1, 2], [1, 2], [1, 2]]
    assert finding.values["processor s"] == 4.0
    assert finding.settings["test errors of folds"] == [0.5, 0.5]
    assert finding.settings["tol"] == 0.1


def test_notes_of_backgrounds_count_folds_that_diverged():
    """A fit that diverged may have stopped by convergence, or at its limit of iterations."""
    statuses = {
        "CONVERGED, 9 iterations": "CONVERGED",
        "diverged: risk -1": "MAX_ITER",
        "diverged: risk -2": "CONVERGED",
    }
    findings = [Finding({}, 1, settings={"note": note, "status": status}) for note, status in statuses.items()]
    assert backgrounds._note(findings) == "1 of 3 folds converged, 2 diverged"
