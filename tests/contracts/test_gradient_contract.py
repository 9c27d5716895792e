"""Every loss through every inference and every gradient rule, against differences of its own value.

Along a random direction, by a formula of fourth order. Hidden labels, label sets, weights of variables, scopes up to
four, ragged states and hard zeros all occur.
"""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from tests.contracts.asking import TAKES
from tests.losses.labelled_models import SORTS, learning_model, some_labels, weighted
from tests.oracles.finite_differences import central_differences
from tests.zoo import HARD_ZEROS

from intarsia.exceptions import ConvergenceWarning, NotSupportedError
from intarsia.gradients import GRADIENTS
from intarsia.graph import grid_graph, learning_form
from intarsia.inference import method_class, method_names
from intarsia.inference.registry import METHODS
from intarsia.learning import RiskMinimizer, example
from intarsia.losses import LOSSES, DirectLoss, MarginalLoss, training_labels
from intarsia.losses.clamping import gives
from intarsia.models import LinearScores

MODELS = [
    "grid", "grid_three_states", "complete", "tree", "three_way_factor", "four_way_factor", "unequal_state_counts",
    "isolated_node", "one_state_variables", "same_scope_twice", *sorted(HARD_ZEROS),
]  # fmt: skip
RULES = {"truncated": {"n_iter": 3}, "perturbation": {"sides": 4, "multiplier": 30.0}}
"""Settings where the defaults will not do: a small marginal makes a steep loss and, by the rule, a short step, in which
rounding counts; four sides allow a longer one."""
PAIRS = [(rule, method) for rule in GRADIENTS.names for method in GRADIENTS.get(rule).differentiates]
DIRECT = [name for name in LOSSES.names if issubclass(LOSSES.get(name), DirectLoss)]
MARGINAL = [name for name in LOSSES.names if issubclass(LOSSES.get(name), MarginalLoss)]
# Of losses whose gradient jumps where another labelling takes over, differences must stay on one side.
PIECEWISE_LINEAR = ("saddle_point", "contrastive_divergence")
TASK = {"log_partition": "marginals", "map": "map"}


def loss_for(name, graph, inference=None):
    loss = LOSSES.get(name)()
    if name == "patch_pseudo_likelihood" and graph.grid_shape is None:
        loss.set_params(patch=np.arange(graph.n_variables) // 2)
    for setting in ("inference", "free", "clamped"):
        if inference is not None and setting in loss.get_params(deep=False):
            loss.set_params(**{setting: inference})
    return loss


def model(name):
    """In learning form, at half its strength: there belief propagation settles on every model."""
    form = learning_form(learning_model(name)[0])
    return form, 0.5 * form.lower(learning_model(name)[1])


def labels_for(loss, name, form, k):
    """Every sort of labels in turn, with and without weights."""
    sort = SORTS[k % 4] if loss.handles_hidden else "observed"  # all hidden has no terms
    labels = some_labels(name, sort, seed=k)
    labels = training_labels(form.graph, form.lower_labels(labels.allowed))
    return weighted(form.graph, labels, seed=k) if loss.takes_weights and k % 2 == 0 else labels


def check_slope(value, theta, gradient, step=1e-3, tolerance=1e-5):
    """Relative to the length of the gradient, which is what a slope in a random direction is as large as."""
    assert np.isfinite(gradient).all()
    assert not gradient[~np.isfinite(theta)].any()
    along = np.where(np.isfinite(theta), np.random.default_rng(0).standard_normal(theta.size), 0.0)
    slope = central_differences(lambda h: value(theta + h[0] * along), np.zeros(1), step)[0]
    assert gradient @ along == pytest.approx(slope, rel=0, abs=tolerance * max(float(np.linalg.norm(gradient)), 1e-2))


def precise(method):
    """The method run to the end of what doubles can hold."""
    known = method_class(method)().get_params()
    return METHODS.resolve(method, {k: v for k, v in {"tol": 1e-13, "max_iter": 20000}.items() if k in known})


@pytest.mark.parametrize("loss_name", LOSSES.names)
@pytest.mark.parametrize(("rule_name", "method"), PAIRS)
def test_through_every_rule_and_inference(rule_name, method, loss_name):
    rule = GRADIENTS.resolve(rule_name, RULES.get(rule_name))
    inference = precise(method)
    seen = 0
    for k, name in enumerate(MODELS):
        form, theta = model(name)
        graph = form.graph
        if method == "mean_field" and name in HARD_ZEROS:
            continue  # refused, see tests/gradients
        loss = loss_for(loss_name, graph, inference)
        labels = labels_for(loss, name, form, k)
        if not rule.fits_loss(loss):
            with pytest.raises(NotSupportedError, match=f"{type(loss).__name__}, which needs .*Use one of") as refusal:
                rule.value_and_gradient(graph, theta, labels, loss, inference)
            assert all(other in str(refusal.value) for other in MARGINAL)
            return
        found = rule.value_and_gradient(graph, theta, labels, loss, inference)
        seen += bool(found.gradient.any())
        check_slope(
            lambda t, g=graph, y=labels, s=loss: rule.value_and_gradient(g, t, y, s, inference).value,
            theta,
            found.gradient,
        )
    assert seen > len(MODELS) // 2


@pytest.mark.parametrize("method", method_names())
@pytest.mark.parametrize("loss_name", DIRECT)
def test_gradients_in_closed_form(loss_name, method):
    """Also of losses that draw samples, which are the same for the same seed."""
    task = TASK.get(LOSSES.get(loss_name).needs)
    if task is None:
        if method != method_names()[0]:
            return  # no inference, so once is enough
        able = []
    else:
        able = [name for name in method_names() if gives(method_class(name), task)]
    inference = precise(method) if task else None
    for k, name in enumerate(MODELS):
        form, theta = model(name)
        graph = form.graph
        if name not in TAKES.get(method, MODELS):
            continue
        loss = loss_for(loss_name, graph, inference)
        labels = labels_for(loss, name, form, k)

        def value(t, g=graph, y=labels, s=loss):
            return s.value_and_gradient_theta(g, t, y, random_state=1)

        if task is not None and method not in able:
            with pytest.raises(NotSupportedError, match=f"{type(inference).__name__} does not compute") as refusal:
                value(theta)
            assert all(re.search(rf"\b{other}\b", str(refusal.value)) for other in able)
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # of max-product; the labelling found is what counts
            step = 1e-6 if loss_name in PIECEWISE_LINEAR else 1e-3
            check_slope(lambda t, f=value: f(t)[0], theta, value(theta)[1], step)


@pytest.mark.parametrize("rule_name", GRADIENTS.names)
def test_what_a_rule_cannot_differentiate(rule_name):
    rule = GRADIENTS.resolve(rule_name)
    form, theta = model("grid")
    labels = some_labels("grid", "observed")
    able = [method_class(name).__name__ for name in rule.differentiates]
    for method in method_names():
        if method in rule.differentiates:
            for schedule in ("parallel", "residual"):
                if "schedule" in method_class(method)().get_params():
                    with pytest.raises(NotSupportedError, match="Set schedule='forward_backward'"):
                        rule.check_fits(METHODS.resolve(method, {"schedule": schedule}))
            continue
        with pytest.raises(NotSupportedError, match=f"cannot differentiate {method_class(method).__name__}") as refusal:
            rule.value_and_gradient(form.graph, theta, labels, LOSSES.get("univariate_logistic")(), method)
        assert all(name in str(refusal.value) for name in able)


@pytest.mark.parametrize("rule_name", GRADIENTS.names)
def test_declarations(rule_name):
    rule = GRADIENTS.get(rule_name)()
    assert rule.name == rule_name
    assert rule.summary
    assert clone(rule).get_params() == rule.get_params()
    assert set(rule.differentiates) <= set(method_names())
    assert all(rule.fits_loss(LOSSES.resolve(name)) for name in MARGINAL)


@pytest.mark.parametrize("loss_name", LOSSES.names)
def test_one_loss_for_all_workers(loss_name):
    """A risk does not depend on how many threads share the loss."""
    rng = np.random.default_rng(0)
    graph = grid_graph(3, 4, 2)
    examples = []
    for _ in range(6):
        y = rng.integers(0, 2, 12)
        if LOSSES.get(loss_name).handles_hidden:
            y[rng.integers(0, 12, 2)] = -1
        examples.append(example(LinearScores(graph, rng.normal(size=(12, 2))), y))
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for n_jobs in (1, 2):
            learner = RiskMinimizer(loss=LOSSES.get(loss_name)(), optimizer="sgd", n_jobs=n_jobs)
            risk = learner.risk(examples, "tree_reweighted")
            found.append(risk(0.3 * np.arange(risk.n_weights)))
    assert found[0][0] == found[1][0]
    np.testing.assert_array_equal(found[0][1], found[1][1])
