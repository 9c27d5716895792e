"""Figure 7 on synthetic images of two noisy halves."""

import numpy as np
import pytest

from intarsia.gradients.perturbation import PerturbationGradient
from intarsia.gradients.truncated import TruncatedGradient
from intarsia.learning.risk import Risk
from intarsia.models.image_features import edge_features
from intarsia_reproduction.experiments import truncation as module
from intarsia_reproduction.models.image_fits import Pictures

TINY = module.Settings(n_images=3, max_iter=12, ridge=0.01)


@pytest.fixture(scope="module")
def pictures():
    rng = np.random.default_rng(0)
    labels = [np.where(np.arange(10) < cut, 0, 5) * np.ones((8, 1), int) for cut in (3, 5, 7)]
    labels[0][0, :4] = -1
    rgb = [np.clip(0.5 + 0.15 * (y > 2)[:, :, None] + 0.2 * rng.normal(size=(8, 10, 3)), 0, 1) for y in labels]
    features = [np.concatenate([np.ones((8, 10, 1)), image], axis=2) for image in rgb]
    return Pictures(features, labels, [edge_features(image, sobel=False) for image in rgb])


@pytest.fixture(scope="module")
def start(pictures):
    return module.independent_weights(pictures, TINY)


def test_truncated_fitting_lowers_the_risk(pictures, start):
    finding = module.fit_with("truncated, 5 sweeps", TruncatedGradient(n_iter=5), pictures, pictures, start, TINY)
    risk = finding.arrays["risk"]
    assert finding.values[module.REACHED] == pytest.approx(risk.min())
    assert risk[-1] < 0.8 * risk[0]
    assert np.all(np.diff(finding.arrays["seconds"]) > 0)
    # Except for the regularization, five sweeps and convergence nearly agree on such small grids.
    assert finding.values[module.CONVERGED] <= finding.values[module.REACHED]
    assert finding.settings["label"] == "truncated, 5 sweeps"
    assert finding.values[module.TEST_LOW] <= finding.values[module.TEST] <= finding.values[module.TEST_HIGH]
    assert finding.values[module.SECONDS] == finding.arrays["seconds"][-1]


def test_independent_pixels_are_the_start_of_all_fits(pictures, start):
    prepare = lambda: (pictures, pictures, start)  # noqa: E731
    rule = TruncatedGradient(n_iter=1)
    finding = module._task("independent pixels (start of all fits)", rule, prepare, TINY, None)
    assert finding.arrays["risk"].size == 1
    probability = np.exp(start.reshape(-1)[: 8 * 4].reshape(8, 4) @ pictures.features[1].reshape(-1, 4).T)
    wrong = probability.argmax(axis=0) != pictures.labels[1].reshape(-1)
    assert finding.arrays["test_errors"][1] == pytest.approx(wrong.mean())


def test_perturbation_with_a_loose_threshold_learns_less(pictures, start):
    exact = module.fit_with("a", PerturbationGradient(tol=1e-10), pictures, pictures, start, TINY)
    loose = module.fit_with("b", PerturbationGradient(tol=1e-1), pictures, pictures, start, TINY)
    assert exact.values[module.CONVERGED] < loose.values[module.CONVERGED]


def test_photographs_are_cropped_at_the_centre():
    rows, columns = module._middle((48, 63), 24)
    assert (rows, columns) == (slice(12, 36), slice(19, 43))
    rows, columns = module._middle((20, 63), 24)
    assert len(range(*rows.indices(20))) == 20


def test_tasks_and_figure(pictures, start):
    experiment = module.truncation(quick=True)
    keys = [task.key for task in experiment.tasks]
    assert len(set(keys)) == len(keys) == 12
    finding = module.fit_with("perturbation, 1e-04", PerturbationGradient(tol=1e-4), pictures, pictures, start, TINY)
    assert set(finding.values) == set(experiment.tasks[0].paper)
    figure = experiment.figures({"perturbation_1e-04": finding})["truncation"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["perturbation, 1e-04"]
    assert experiment.figures({}) == {}


@pytest.mark.data
def test_photographs_are_loaded(data):
    settings = module.Settings(n_images=2, crop=16)
    loaded = module._load(settings, data)
    assert [x.shape for x in loaded.features] == [(16, 16, 100)] * 2
    assert [e.shape for e in loaded.edges] == [(2 * 16 * 15, 22)] * 2
    test = module._load(module.Settings(n_images=2, n_test=3, crop=16), data, test=True)
    assert len(test.labels) == 3
    assert not any(np.array_equal(x, new) for x in loaded.features for new in test.features)


def test_ctrl_c_ends_the_run(monkeypatch, pictures):
    """A learner returns its best weights when interrupted; they must not become a row."""
    calls, original = [], Risk.__call__

    def interrupt(risk, weights):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(risk, weights)

    monkeypatch.setattr(Risk, "__call__", interrupt)
    with pytest.raises(KeyboardInterrupt):
        module.independent_weights(pictures, TINY)
