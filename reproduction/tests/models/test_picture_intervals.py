"""Intervals of error rates over test images, from stored errors or from stored weights."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from intarsia.crf import GridCRF
from intarsia.gradients.truncated import TruncatedGradient
from intarsia.inference.messages.tree_reweighted import TreeReweighted
from intarsia.learning import LBFGS, RiskMinimizer
from intarsia_reproduction.experiment import Task, run_tasks
from intarsia_reproduction.models.baselines import boost_pixels
from intarsia_reproduction.models.image_fits import Pictures, fit_independent, fit_pictures
from intarsia_reproduction.models.intervals import bootstrap_error, pooled_error
from intarsia_reproduction.models.picture_intervals import error_intervals, interval_task, predict_errors, stored_errors

RESULTS = Path(__file__).parents[3] / "docs" / "results"


def random_pictures(n, seed):
    rng = np.random.default_rng(seed)
    labels = [np.repeat(rng.integers(0, 2, size=(4, 2)), 3, axis=1) for _ in range(n)]
    return Pictures([np.stack([np.ones(y.shape), y + rng.normal(size=y.shape)], axis=-1) for y in labels], labels)


def model():
    learner = RiskMinimizer(
        loss="univariate_logistic", gradient=TruncatedGradient(n_iter=3), optimizer=LBFGS(max_iter=20), l2=0.1
    )
    return GridCRF(inference=TreeReweighted(), learner=learner, classes=np.arange(2))


def test_interval_of_the_pooled_error_by_resampling_one_at_a_time():
    """The quantiles agree with a loop over resamples, and images of unequal size count by their pixels."""
    rng = np.random.default_rng(1)
    total = rng.integers(50, 200, size=40)
    counts, base = (np.stack([rng.binomial(total, p), total], axis=1) for p in (0.1, 0.15))
    draws = [rng.integers(0, 40, size=40) for _ in range(4000)]
    single = [pooled_error(counts[draw]) for draw in draws]
    paired = [pooled_error(counts[draw]) - pooled_error(base[draw]) for draw in draws]
    np.testing.assert_allclose(bootstrap_error(counts), np.quantile(single, [0.025, 0.975]), atol=1e-3)
    np.testing.assert_allclose(bootstrap_error(counts, base), np.quantile(paired, [0.025, 0.975]), atol=1e-3)


def test_stored_weights_predict_the_errors_of_the_fit():
    train, test = random_pictures(6, 0), random_pictures(5, 1)
    finding = fit_pictures(model(), train, test, start=("zeros", np.zeros(12)))
    counts = finding.arrays["picture_errors"]
    assert counts.shape == (5, 2)
    assert counts[:, 1].tolist() == [24] * 5
    assert pooled_error(counts) == finding.values["test error"]
    assert predict_errors(model(), finding.arrays["weights"], test).tolist() == counts.tolist()


def test_the_task_reads_stored_rows_and_predicts_where_errors_are_missing(tmp_path):
    train, test = random_pictures(6, 0), random_pictures(5, 1)

    def independent(_):
        return fit_independent(train, test, n_classes=2, ridge=1e-3, optimizer=LBFGS(max_iter=20))

    fits = {
        "independent": independent,
        "crf": lambda _: fit_pictures(model(), train, test, start=("zeros", np.zeros(12))),
        "boosting": lambda _: boost_pixels(train, test, n_pixels=1000, max_iter=5),
    }
    findings = run_tasks([Task(key, key, {}, "", run) for key, run in fits.items()], tmp_path)
    arrays = dict(findings["crf"].arrays)
    counts = arrays.pop("picture_errors")
    np.savez(tmp_path / "crf.npz", **arrays)  # as stored before the errors of each image were
    predicted = []

    def predict(key, weights):
        predicted.append(key)
        return predict_errors(model(), weights, test)

    rows = {key: [key] for key in fits} | {"two folds": ["crf", "independent"], "not run": ["crf", "missing"]}
    task = interval_task(rows, predict, required=True)
    values = task.run(tmp_path / "checkpoint.npz").values
    assert set(predicted) == {"crf"}
    assert stored_errors(tmp_path, "missing", predict) is None
    assert values["crf: test error"] == findings["crf"].values["test error"]
    assert (values["crf: test error, low"], values["crf: test error, high"]) == bootstrap_error(counts)
    difference = findings["crf"].values["test error"] - findings["boosting"].values["test error"]
    assert values["crf: minus boosting"] == pytest.approx(difference)
    assert values["crf: minus boosting, low"] <= difference <= values["crf: minus boosting, high"]
    assert "two folds: test error" in values
    assert "two folds: minus boosting" not in values  # other images
    assert not any(name.startswith("not run") for name in values)
    pooled = error_intervals({"both": np.concatenate([counts, counts])})["both: test error"]
    assert pooled == pytest.approx(pooled_error(counts))


@pytest.mark.parametrize("name", ["horses", "denoising"])
def test_intervals_belong_to_the_stored_rows(name):
    """Intervals contain the stored test errors: they were computed again after the last change of each row."""
    values = json.loads((RESULTS / name / "intervals.json").read_text())["values"]
    rows = {figure.removesuffix(": test error") for figure in values if figure.endswith(": test error")}
    assert rows
    for row in rows:
        test_error = json.loads((RESULTS / name / f"{row}.json").read_text())["values"]["test error"]
        assert values[f"{row}: test error"] == pytest.approx(test_error, abs=1e-6), row
        assert values[f"{row}: test error, low"] <= test_error <= values[f"{row}: test error, high"]
