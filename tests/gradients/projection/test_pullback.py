"""Gradients through Bethe projections against finite differences of the whole projection."""

from __future__ import annotations

import numpy as np
import pytest
from tests.energies.energy_models import BIO, ENERGIES, chain
from tests.gradients.projection.projection_models import (
    ENERGIES_OFF_KINKS,
    KINKED,
    LOOPY,
    NOT_CONVEX,
    SMOOTH,
    count_to,
    directional_error,
    loss,
    model,
    weights,
)
from tests.oracles.finite_differences import relative_error
from tests.zoo import ZOO

import intarsia
from intarsia.energies import Count, Hinge, MeasuredEnergy
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.gradients.projection import projection_pullback
from intarsia.inference.registry import METHODS

BOUND = 1e-6
TIGHT = {"tol": 1e-13, "max_iter": 3000}
# Methods with settings for a run to convergence.
CONVERGED = {
    "bethe_mirror_descent": TIGHT,
    "bethe_accelerated": TIGHT,
    "bethe_dual": {"tol": 1e-12},
}


def check(method, graph, theta, energy):
    """Compare the gradients in theta and psi with finite differences."""
    weight = weights(graph)
    grad_theta, grad_psi = projection_pullback(method, graph, theta, energy).pull(weight)
    in_theta = directional_error(lambda t: loss(method, graph, t, energy, weight), theta, grad_theta, 1e-3)
    in_psi = directional_error(
        lambda psi: loss(method, graph, theta, energy.with_psi(psi), weight), energy.psi, grad_psi, 1e-3
    )
    assert in_theta < BOUND
    assert in_psi < BOUND


# The dual needs linear measurements; only the dual converges to 1e-13 if an energy has kinks.
IMPLICIT = [
    *((method, name) for method in ("bethe_mirror_descent", "bethe_accelerated") for name in SMOOTH),
    *(("bethe_dual", name) for name in [*SMOOTH, *ENERGIES_OFF_KINKS] if name != "function"),
]


@pytest.mark.parametrize(("method", "name"), IMPLICIT)
def test_implicit_gradients_on_a_chain(method, name):
    check(METHODS.resolve(method, CONVERGED[method]), *model(name))


@pytest.mark.parametrize("name", NOT_CONVEX)
def test_implicit_gradients_of_energies_that_are_not_convex(name):
    check(METHODS.resolve("bethe_mirror_descent", TIGHT), *model(name))


@pytest.mark.parametrize("name", KINKED)
def test_implicit_gradients_at_a_kink(name):
    graph, theta, energy = model(name)
    check(METHODS.resolve("bethe_dual", CONVERGED["bethe_dual"]), graph, theta, energy)
    weight = weights(graph)
    expected = projection_pullback("bethe_dual", graph, theta, energy).pull(weight)
    for method in ("bethe_rda", "bethe_mirror_descent"):  # whose iterates only approach the kink
        gradients = projection_pullback(METHODS.resolve(method, {"max_iter": 50}), graph, theta, energy).pull(weight)
        assert relative_error(gradients[0], expected[0]) < BOUND
        assert relative_error(gradients[1], expected[1]) < BOUND


def test_a_hard_constraint_has_gradients():
    graph, theta = chain()
    hard = MeasuredEnergy(Count("B-x"), Hinge(0.2), psi=np.inf).bind(graph, BIO)
    method, weight = METHODS.resolve("bethe_dual", {"tol": 1e-12}), weights(graph)
    grad_theta, grad_psi = projection_pullback(method, graph, theta, hard).pull(weight)
    assert directional_error(lambda scores: loss(method, graph, scores, hard, weight), theta, grad_theta) < BOUND
    assert abs(grad_psi[0]) < 1e-9


@pytest.mark.parametrize("name", LOOPY)
@pytest.mark.parametrize("method", ["bethe_mirror_descent", "bethe_dual", "bethe_accelerated"])
def test_implicit_gradients_over_trees_and_junction_trees(method, name):
    check(METHODS.resolve(method, CONVERGED[method]), *model(name))


@pytest.mark.parametrize("name", ["grid", "unequal_state_counts"])
@pytest.mark.parametrize("method", CONVERGED)
def test_gradients_over_a_tree_reweighted_oracle(method, name):
    oracle = METHODS.resolve("tree_reweighted", {"tol": 1e-13, "max_iter": 20000})
    check(METHODS.resolve(method, {"tol": 1e-11, "max_iter": 1000, "oracle": oracle}), *model(name))


def test_the_temperature_counts():
    check(METHODS.resolve("bethe_mirror_descent", {**TIGHT, "temperature": 0.6}), *model("squared"))


def test_without_energy_the_gradient_is_that_of_the_oracle():
    graph, theta = ZOO["tree"]()
    weight = weights(graph)
    gradient, grad_psi = projection_pullback("bethe_rda", graph, theta).pull(weight)
    assert directional_error(lambda t: float(weight @ intarsia.infer(graph, t, "tree").mu), theta, gradient) < 1e-8
    assert grad_psi.size == 0


def test_several_energies_are_one_sum():
    graph, theta = chain()
    energies = [ENERGIES["squared"], ENERGIES["huber"]]
    several = projection_pullback("bethe_dual", graph, theta, energies, names=BIO)
    total = projection_pullback("bethe_dual", graph, theta, energies[0] + energies[1], names=BIO)
    weight = weights(graph)
    np.testing.assert_array_equal(several.pull(weight)[0], total.pull(weight)[0])
    assert several.pull(weight)[1].shape == (2,)


def test_a_kink_with_a_multiplier_at_its_end_has_no_derivative():
    graph = intarsia.from_edges(2, [], n_variables=1)
    touching = MeasuredEnergy(Count(1), Hinge(0.5), psi=1.0)  # without the hinge the marginal is 0.5 already
    assert not projection_pullback("bethe_dual", graph, graph.zeros(), touching).is_differentiable
    beyond = MeasuredEnergy(Count(1), Hinge(0.6), psi=1.0)
    assert projection_pullback("bethe_dual", graph, graph.zeros(), beyond).is_differentiable


def test_invalid_arguments_are_named():
    graph, theta = chain()
    energy = count_to(1.0)
    with pytest.raises(InvalidInputError, match="must be a Bethe projection, got Tree"):
        projection_pullback("tree", graph, theta, energy)
    with pytest.raises(InvalidInputError, match=r"energies\[1\] must be an Energy"):
        projection_pullback("bethe_rda", graph, theta, [energy, "count"])
    with pytest.raises(InvalidInputError, match="grad_mu must have shape"):
        projection_pullback("bethe_dual", graph, theta, energy).pull([1.0])
    with pytest.raises(NotSupportedError, match="temperature"):
        projection_pullback(METHODS.resolve("bethe_rda", {"temperature": 0.0}), graph, theta, energy)


def test_an_infeasible_model_has_no_gradient():
    graph, theta = ZOO["infeasible"]()
    pullback = projection_pullback("bethe_rda", graph, theta, count_to(1.0))
    assert pullback.mu is None
    with pytest.raises(NotSupportedError, match="infeasible"):
        pullback.pull(graph.zeros())
