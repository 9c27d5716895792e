"""Planted failures are detected, compatible pairs fit, and a diagnosis is available as text, JSON and plot."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.learning.margin_sets import random_triangles

from intarsia import BeliefPropagation, GridCRF, diagnose
from intarsia.datasets.counterexamples import diamond_examples, triangle_examples
from intarsia.diagnostics import diagnose_examples
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.report.diagnosis_plots import plot_diagnosis
from intarsia.sequences import ChainCRF

PARALLEL = BeliefPropagation(schedule="parallel")


def test_planted_failure_is_detected():
    found = diagnose_examples(diamond_examples(), "structured_perceptron", PARALLEL)
    assert found.verdict == "fails"
    assert found.check("learning curve").values["misled"] > 0
    assert found.check("along the update").values["behind"] == 0.0  # w* = (1, -1) lies behind
    assert found.check("separability").values["exact"] is True
    assert any("lp_relaxation" in reason for reason in found.reasons)


@pytest.mark.parametrize("inference", ["lp_relaxation", "brute_force"])
def test_compatible_pairs_fit_the_diamond(inference):
    found = diagnose_examples(diamond_examples(), "structured_perceptron", inference)
    assert found.verdict == "fits"
    assert found.check("learning curve").values["misled"] == 0


def test_triangle_fits_exact_inference_and_fails_relaxed_inference():
    assert diagnose_examples(triangle_examples(), inference="brute_force").verdict == "fits"
    relaxed = diagnose_examples(triangle_examples(), inference="lp_relaxation")
    assert relaxed.verdict == "fails"
    assert relaxed.check("separability").verdict == "bad"
    assert "exact" in relaxed.reasons[0]


@pytest.mark.parametrize("learner", ["structured_perceptron", "structured_svm"])
def test_noisy_data_do_not_fail_a_compatible_pair(learner):
    found = diagnose_examples(random_triangles(n=8, noise=0.4), learner, "lp_relaxation", n_passes=8)
    assert found.verdict != "fails"


def test_uncertain_where_theory_warns_and_the_sample_is_harmless():
    found = diagnose_examples(
        diamond_examples(), "structured_perceptron", "belief_propagation"
    )  # sequential updates do not flip the labels
    assert found.verdict == "uncertain"
    assert found.check("theory").values["level"] == "known to fail"


def test_estimators_that_learn_through_marginals():
    y = [np.repeat([[0, 0, 1, 1]], 3, axis=0), np.repeat([[0, 1, 1, 1]], 3, axis=0)]
    X = [labels[..., None] - 0.5 for labels in y]
    crf = GridCRF()
    found = diagnose(crf, X, y, n_passes=5)
    assert found.verdict == "fits"
    assert found.check("agreement with exact marginals").values["mean error"] < 0.5
    assert not hasattr(crf, "weights_")


def test_diagnosis_as_json_text_and_plot(tmp_path):
    found = diagnose_examples(diamond_examples(), "structured_perceptron", PARALLEL, n_passes=4)
    document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert {"verdict", "reasons", "checks"} <= set(document)
    assert [one["name"] for one in document["checks"]][:2] == ["theory", "learning curve"]
    assert str(found).splitlines()[0].endswith("fails.")
    figure = plot_diagnosis(found)
    assert "fails" in figure.get_suptitle()
    assert len(figure.axes[1].lines) == 2


def test_invalid_arguments_raise():
    with pytest.raises(NotSupportedError, match="ChainCRF infers exactly"):
        diagnose(ChainCRF(), [[["a"]]], [["x"]])
    with pytest.raises(InvalidInputError, match="n_passes"):
        diagnose_examples(diamond_examples(), n_passes=0)
    with pytest.raises(NotSupportedError, match="Gibbs does not compute"):
        diagnose_examples(diamond_examples(), inference="gibbs")
