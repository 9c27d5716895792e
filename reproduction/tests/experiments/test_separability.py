"""The quick version of the experiment reproduces the numbers of the paper."""

import numpy as np
import pytest

from intarsia_reproduction.experiment import load_experiment, run_tasks


@pytest.fixture(scope="module")
def experiment():
    return load_experiment("separability", quick=True)


@pytest.fixture(scope="module")
def findings(experiment, tmp_path_factory):
    return run_tasks(experiment.tasks, tmp_path_factory.mktemp("separability"))


def test_every_number_that_the_paper_prints(experiment, findings):
    n_printed = 0
    for task in experiment.tasks:
        if task.paper[""] is not None:
            n_printed += 1
            assert findings[task.key].values[""] == pytest.approx(task.paper[""], abs=5e-7), task.label
    assert n_printed == 13


def test_gamma_is_a_root(findings):
    x = np.roots([1.0, 0.0, -1.0, -2.0])
    x = x[np.isreal(x)].real[0]
    assert findings["gamma-linear"].values[""] == pytest.approx((x + 1) / x**2, abs=1e-12)
    assert 1.05 < findings["gamma-2"].values[""] < 1.0893  # weak couplings flip later
    assert findings["gamma-in-turn"].values[""] < 1.0
    assert findings["flip-in-turn"].values[""] == 1.0


def test_mistakes_stay_below_their_bounds(findings):
    for name in ("lp", "exact", "triangle"):
        assert 0 < findings[f"learns-{name}"].values[""] <= findings[f"bound-{name}"].values[""]
        assert findings[f"learns-{name}"].settings["converged"]


def test_figures(experiment, findings):
    figures = experiment.figures(findings)
    assert sorted(figures) == ["figure-4-perceptron-path", "figure-5-feasible-regions"]
    (line,) = [line for line in figures["figure-4-perceptron-path"].axes[0].lines if line.get_marker() == "o"]
    np.testing.assert_allclose(line.get_xydata()[2], [-0.05, 0.05], atol=1e-12)
    regions = findings["regions"].arrays
    w_1, w_2 = np.meshgrid(regions["ticks"], regions["ticks"])
    exact = (w_1 + 0.95 * w_2 < -1e-9) & (0.95 * w_1 + w_2 > 1e-9)
    assert (regions["exact"][exact] == 3).all()
    assert not (regions["parallel"][exact] == 3).any()  # the regions do not overlap
    assert experiment.figures({}) == {}
