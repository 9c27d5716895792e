"""At convergence all rules give the same gradient; each rule reports what it does not support."""

from __future__ import annotations

import numpy as np
import pytest
from tests.gradients.marginal_losses import RandomQuadratic, lowered
from tests.oracles.enumeration import enumerate_model
from tests.oracles.finite_differences import central_differences, relative_error
from tests.zoo import FORESTS, HARD_ZEROS, INFEASIBLE, ZOO

from intarsia.exceptions import ConvergenceWarning, InvalidInputError, NotSupportedError
from intarsia.gradients import GRADIENTS
from intarsia.gradients.back_propagation import BackPropagation
from intarsia.gradients.implicit import ImplicitGradient
from intarsia.gradients.perturbation import PerturbationGradient
from intarsia.gradients.truncated import TruncatedGradient
from intarsia.inference import Status
from intarsia.inference.messages.belief_propagation import BeliefPropagation
from intarsia.inference.messages.mean_field import MeanField
from intarsia.inference.messages.tree_reweighted import TreeReweighted

FEASIBLE = [name for name in ZOO if name not in INFEASIBLE and name not in ("no_variables", "huge_potentials")]
# Belief propagation converges fast on these; on others it may need hundreds of sweeps or not converge.
CALM = [name for name in FEASIBLE if name not in ("hard_zeros", "complete")]
# Mean field starts at a saddle point of these symmetric models: a fixed point, but not an optimum.
SADDLES = {"ties", "tied_tree"}
RULES = [BackPropagation(), PerturbationGradient(), ImplicitGradient()]


def check_agreement(graph, theta, inference, uses_factors, rules):
    loss = RandomQuadratic(graph, uses_factors)
    expected = TruncatedGradient(n_iter=300).value_and_gradient(graph, theta, None, loss, inference)
    for rule in rules:
        result = rule.value_and_gradient(graph, theta, None, loss, inference)
        assert result.status is Status.CONVERGED
        assert result.value == pytest.approx(expected.value, abs=1e-8)
        assert relative_error(result.gradient, expected.gradient) < 1e-5, type(rule).__name__


@pytest.mark.parametrize("uses_factors", [False, True])
@pytest.mark.parametrize("name", FEASIBLE)
def test_tree_reweighted(name, uses_factors):
    graph, theta = lowered(name)
    check_agreement(graph, theta, TreeReweighted(), uses_factors, RULES)


@pytest.mark.parametrize("uses_factors", [False, True])
@pytest.mark.parametrize("name", CALM)
def test_belief_propagation(name, uses_factors):
    graph, theta = lowered(name)
    check_agreement(graph, theta, BeliefPropagation(damping=0.2), uses_factors, RULES)


@pytest.mark.parametrize("uses_factors", [False, True])
@pytest.mark.parametrize("name", [name for name in FEASIBLE if name not in HARD_ZEROS | SADDLES])
def test_mean_field(name, uses_factors):
    graph, theta = lowered(name)
    check_agreement(graph, theta, MeanField(), uses_factors, RULES[:2])


@pytest.mark.parametrize("rule", [TruncatedGradient(n_iter=20), *RULES])
@pytest.mark.parametrize("name", [name for name in FEASIBLE if name in FORESTS])
def test_forests_have_the_gradient_of_the_exact_marginals(name, rule):
    graph, theta = lowered(name)
    loss = RandomQuadratic(graph, True)
    result = rule.value_and_gradient(graph, theta, None, loss, "belief_propagation")
    along = np.where(np.isfinite(theta), np.random.default_rng(1).standard_normal(theta.size), 0.0)

    def exact(h):
        return loss.value_and_gradient(graph, enumerate_model(graph, theta + h[0] * along).mu, None)[0]

    expected = central_differences(exact, np.zeros(1), 1e-3)[0]
    assert result.gradient @ along == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_an_unstable_fixed_point_warns():
    """Mean field stays at the saddle point of a symmetric model, from which perturbed sweeps lead away."""
    graph, theta = lowered("ties")
    with pytest.warns(ConvergenceWarning, match="not stable"):
        result = BackPropagation().value_and_gradient(
            graph, 3.0 * theta, None, RandomQuadratic(graph, False), "mean_field"
        )
    assert result.status is Status.STALLED


def test_perturbation_shows_its_order():
    graph, theta = lowered("grid")
    loss = RandomQuadratic(graph, True)
    exact = BackPropagation(tol=1e-13).value_and_gradient(graph, theta, None, loss, "tree_reweighted").gradient
    for sides in (1, 2, 4):
        errors = [
            relative_error(
                PerturbationGradient(sides=sides, multiplier=m)
                .value_and_gradient(graph, theta, None, loss, "tree_reweighted")
                .gradient,
                exact,
            )
            for m in (2000.0, 1000.0)
        ]
        assert np.log2(errors[0] / errors[1]) == pytest.approx(sides, abs=0.5)


def test_a_stop_before_convergence_warns():
    graph, theta = lowered("grid")
    loss = RandomQuadratic(graph, False)
    for rule in RULES:
        with pytest.warns(ConvergenceWarning, match="raise max_iter"):
            result = rule.value_and_gradient(graph, theta, None, loss, TreeReweighted(max_iter=2))
        assert result.status is Status.MAX_ITER
    with pytest.warns(ConvergenceWarning, match="backward pass did not converge"):
        result = BackPropagation(max_iter=1).value_and_gradient(graph, theta, None, loss, "tree_reweighted")
    assert result.status is Status.MAX_ITER
    assert result.residual > 0


@pytest.mark.parametrize("rule", RULES)
def test_infeasible(rule):
    graph, theta = lowered("infeasible_variable")
    result = rule.value_and_gradient(graph, theta, None, RandomQuadratic(graph, False), "belief_propagation")
    assert result.status is Status.INFEASIBLE
    assert result.mu is None
    assert not result.gradient.any()


def test_temperature_scales_the_gradient():
    graph, theta = lowered("grid")
    for rule in RULES:
        check_agreement(graph, theta, TreeReweighted(temperature=1.7), True, [rule])


def test_a_constant_loss_has_gradient_zero():
    graph, theta = lowered("grid")
    loss = RandomQuadratic(graph, False)
    loss.a[:], loss.b[:] = 0.0, 0.0
    for rule in RULES:
        assert not rule.value_and_gradient(graph, theta, None, loss, "tree_reweighted").gradient.any()


def test_registry():
    rule = BackPropagation()
    assert GRADIENTS.resolve(rule) is rule
    assert GRADIENTS.resolve("back_propagation").get_params() == rule.get_params()
    assert GRADIENTS.resolve(PerturbationGradient(), {"sides": 4}).sides == 4
    with pytest.raises(InvalidInputError, match="Did you mean 'truncated'"):
        GRADIENTS.get("truncate")
    with pytest.raises(InvalidInputError, match="n_iter"):
        GRADIENTS.resolve("truncated", {"niter": 3})
    with pytest.raises(InvalidInputError, match="got int"):
        GRADIENTS.resolve(3)


def test_refusals():
    graph, theta = lowered("grid")
    loss = RandomQuadratic(graph, False)
    with pytest.raises(NotSupportedError, match=r"MeanField\. Use one of: BeliefPropagation, TreeReweighted"):
        ImplicitGradient().value_and_gradient(graph, theta, None, loss, "mean_field")
    for rule in RULES:
        with pytest.raises(NotSupportedError, match="cannot differentiate JunctionTree"):
            rule.value_and_gradient(graph, theta, None, loss, "junction_tree")
    with pytest.raises(InvalidInputError, match="sides must be 1, 2 or 4, got 3"):
        PerturbationGradient(sides=3).value_and_gradient(graph, theta, None, loss, "tree_reweighted")
