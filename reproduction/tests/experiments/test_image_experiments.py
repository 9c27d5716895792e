"""Tiny versions of the image experiments: a CRF beats the independent model on real images."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia_reproduction.experiment import choose_tasks, load_experiment, run_tasks

EXTRA = {
    "denoising": ("study-decoding",),
    "horses": ("trw-10-surrogate", "full-size-10-surrogate"),
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
