"""Figure 3 on small grids: the order of the errors, and the reference gradient."""

import itertools

import numpy as np
import pytest

from intarsia.graph import chain_graph
from intarsia.inference.registry import METHODS
from intarsia.losses import training_labels
from intarsia_reproduction.experiments import perturbation as module

TINY = module.Settings(side=3, n_models=2, n_multipliers=9)


@pytest.fixture(scope="module", params=list(module._SHORT_NAMES))
def finding(request):
    return module._run(request.param, 0.5, TINY)


def test_errors_have_the_order_of_the_number_of_sides(finding):
    m, errors = finding.arrays["multipliers"], np.median(finding.arrays["errors"], axis=2)
    for row, order in enumerate((1, 2, 4)):
        slope = np.log10(errors[row, -1] / errors[row, -2]) / np.log10(m[-1] / m[-2])
        assert slope == pytest.approx(order, abs=0.35)


def test_more_sides_are_more_accurate_at_larger_multipliers(finding):
    values, errors = finding.values, np.median(finding.arrays["errors"], axis=2)
    best = [values[f"{sides}-sided, best multiplier"] for sides in ("one", "two", "four")]
    assert best[0] > 10 * best[1]
    assert best[1] > 10 * best[2]
    assert list(errors.argmin(axis=1)) == sorted(errors.argmin(axis=1))
    assert values["single scores moved"] < 1e-7  # both reference gradients agree
    assert finding.n == TINY.n_models


def test_differences_of_single_scores_give_the_enumerated_gradient():
    graph, rng = chain_graph(3, 2), np.random.default_rng(5)
    theta, y = rng.normal(size=graph.n_theta), np.array([0, 1, 1])
    labellings = np.array(list(itertools.product((0, 1), repeat=3)))
    statistics = np.array([graph.statistics(labelling) for labelling in labellings])
    p = np.exp(statistics @ theta)
    p /= p.sum()
    mu = p @ statistics
    # d(-log mu_i(y_i)) / d theta = mu - E[statistics | x_i = y_i]
    true = sum(mu - (p * (x := labellings[:, i] == y[i])) @ statistics / p[x].sum() for i in range(3))
    gradient = module.differences(graph, theta, training_labels(graph, y), METHODS.resolve("belief_propagation", {}))
    np.testing.assert_allclose(gradient, true, atol=1e-8)


def test_strengths_scale_the_same_draws():
    graph, weak, _ = module.random_model(3, 0.25, seed=4)
    _, strong, _ = module.random_model(3, 2.0, seed=4)
    split = int(graph.variable_ptr[-1])
    np.testing.assert_array_equal(weak[:split], strong[:split])
    np.testing.assert_allclose(8.0 * weak[split:], strong[split:])


def test_tasks_rows_and_figure(finding):
    experiment = module.perturbation(quick=True)
    assert len({task.key for task in experiment.tasks}) == 8
    task = next(t for t in experiment.tasks if t.key == f"{finding.settings['method']}_s0p5")
    assert set(task.paper) == set(finding.values)
    figure = experiment.figures({task.key: finding})["perturbation"]
    assert figure.axes[0].get_title(loc="left") == task.label
    assert experiment.figures({}) == {}
