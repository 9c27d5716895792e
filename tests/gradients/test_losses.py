"""Every loss of marginals, through every inference that can be differentiated, with hidden labels and label sets."""

from __future__ import annotations

import numpy as np
import pytest
from tests.gradients.marginal_losses import lowered
from tests.oracles.finite_differences import central_differences, relative_error

from intarsia.exceptions import NotSupportedError
from intarsia.gradients.back_propagation import BackPropagation
from intarsia.gradients.implicit import ImplicitGradient
from intarsia.gradients.perturbation import PerturbationGradient
from intarsia.gradients.truncated import TruncatedGradient
from intarsia.losses.labels import training_labels
from intarsia.losses.registry import loss_class, loss_names

MARGINAL = [name for name in loss_names() if loss_class(name).needs == "marginals"]
INFERENCE = ["mean_field", "belief_propagation", "tree_reweighted"]
MODELS = ["grid", "three_way_factor", "four_way_factor", "unequal_state_counts", "hard_implications"]


def some_labels(graph, with_set):
    """A possible labelling with the last variable hidden, and a set of two labels at the first one if asked for."""
    allowed = np.zeros(int(graph.variable_ptr[-1]), dtype=bool)
    allowed[graph.variable_ptr[:-1] + 1] = True
    graph.variable(allowed, -1)[:] = True
    if with_set:
        graph.variable(allowed, 0)[:2] = True
    return training_labels(graph, allowed)


@pytest.mark.parametrize("inference", INFERENCE)
@pytest.mark.parametrize("loss", MARGINAL)
@pytest.mark.parametrize("name", MODELS)
def test_truncated_gradient_of_every_loss(name, loss, inference):
    if name.startswith("hard") and inference == "mean_field":
        return
    graph, theta = lowered(name)
    chosen, rule = loss_class(loss)(), TruncatedGradient(n_iter=3)
    for labels in (some_labels(graph, False), some_labels(graph, True)):
        found = rule.value_and_gradient(graph, theta, labels, chosen, inference)
        expected = central_differences(
            lambda moved, labels=labels: rule.value_and_gradient(graph, moved, labels, chosen, inference).value, theta
        )
        assert relative_error(found.gradient, expected) < 1e-5
    labels = some_labels(graph, False)
    found = rule.value_and_gradient(graph, theta, labels, chosen, inference)
    twice = training_labels(graph, labels, np.full(graph.n_variables, 2.0))
    heavy = rule.value_and_gradient(graph, theta, twice, chosen, inference)
    assert found.value != 0.0
    assert heavy.value == pytest.approx(2.0 * found.value)
    assert np.allclose(heavy.gradient, 2.0 * found.gradient, atol=1e-12)


@pytest.mark.parametrize("inference", INFERENCE)
@pytest.mark.parametrize("loss", MARGINAL)
@pytest.mark.parametrize("name", MODELS)
def test_rules_agree_on_every_loss(name, loss, inference):
    if name.startswith("hard") and inference == "mean_field":
        return
    graph, theta = lowered(name)
    labels, chosen = some_labels(graph, False), loss_class(loss)()
    expected = TruncatedGradient(n_iter=200).value_and_gradient(graph, theta, labels, chosen, inference).gradient
    # A small marginal makes a steep loss and, by the step rule, a short step, where rounding counts; four sides allow a
    # longer one.
    rules = [BackPropagation(), PerturbationGradient(sides=4, multiplier=30.0)]
    if inference != "mean_field":
        rules.append(ImplicitGradient())
    for rule in rules:
        found = rule.value_and_gradient(graph, theta, labels, chosen, inference)
        assert relative_error(found.gradient, expected) < 1e-5, type(rule).__name__


def test_other_losses_are_refused_with_those_that_fit():
    graph, theta = lowered("grid")
    with pytest.raises(NotSupportedError, match=r"PseudoLikelihood .* needs labels only.* univariate_logistic, clique"):
        TruncatedGradient().value_and_gradient(
            graph, theta, some_labels(graph, False), loss_class("pseudo_likelihood")(), "tree_reweighted"
        )
