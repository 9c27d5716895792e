"""Tiny versions of the image experiments: a CRF beats the independent model on real images."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia_reproduction.experiment import choose_tasks, load_experiment, run_tasks

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
