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
    network_energy,
    weights,
    with_coefficients,
    with_limits,
    with_poisson,
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
# Methods with settings for a run to convergence, and for a few iterations with constant step sizes.
CONVERGED = {
    "bethe_mirror_descent": TIGHT,
    "bethe_accelerated": TIGHT,
    "bethe_dual": {"tol": 1e-12},
}
TRUNCATED = {
    "bethe_rda": {"max_iter": 7, "tol": 0.0, "beta": 1.0},
    "bethe_mirror_descent": {"max_iter": 6, "tol": 0.0, "step_size": 0.3},
    "bethe_accelerated": {"max_iter": 7, "tol": 0.0, "lipschitz": 2.0},
}


def check(method, graph, theta, energy, mode):
    """Compare the gradients in theta and psi with finite differences."""
    weight = weights(graph)
    pullback = projection_pullback(method, graph, theta, energy, mode=mode)
    grad_theta, grad_parameters = pullback.pull(weight)
    step = 1e-5 if mode == "truncated" else 1e-3
    in_theta = directional_error(lambda t: loss(method, graph, t, energy, weight), theta, grad_theta, step)
    in_psi = directional_error(
        lambda psi: loss(method, graph, theta, energy.with_psi(psi), weight), energy.psi, grad_parameters["psi"], step
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
    check(METHODS.resolve(method, CONVERGED[method]), *model(name), "implicit")


@pytest.mark.parametrize("name", NOT_CONVEX)
def test_implicit_gradients_of_energies_that_are_not_convex(name):
    check(METHODS.resolve("bethe_mirror_descent", TIGHT), *model(name), "implicit")


# Accelerated steps need a smooth convex energy.
UNROLLED = [
    *(("bethe_accelerated", name) for name in SMOOTH),
    *(
        (method, name)
        for method in ("bethe_rda", "bethe_mirror_descent")
        for name in [*SMOOTH, *ENERGIES_OFF_KINKS, *KINKED, *NOT_CONVEX, "counts", "sum"]
    ),
]


@pytest.mark.parametrize(("method", "name"), UNROLLED)
def test_truncated_gradients_on_a_chain(method, name):
    check(METHODS.resolve(method, TRUNCATED[method]), *model(name), "truncated")


@pytest.mark.parametrize("name", KINKED)
def test_implicit_gradients_at_a_kink(name):
    graph, theta, energy = model(name)
    check(METHODS.resolve("bethe_dual", CONVERGED["bethe_dual"]), graph, theta, energy, "implicit")
    weight = weights(graph)
    expected = projection_pullback("bethe_dual", graph, theta, energy).pull(weight)
    for method in ("bethe_rda", "bethe_mirror_descent"):  # whose iterates only approach the kink
        gradients = projection_pullback(METHODS.resolve(method, {"max_iter": 50}), graph, theta, energy).pull(weight)
        assert relative_error(gradients[0], expected[0]) < BOUND
        assert relative_error(gradients[1]["limits"], expected[1]["limits"]) < BOUND


def test_a_hard_constraint_has_gradients():
    graph, theta = chain()
    hard = MeasuredEnergy(Count("B-x"), Hinge(0.2), psi=np.inf).bind(graph, BIO)
    method, weight = METHODS.resolve("bethe_dual", {"tol": 1e-12}), weights(graph)
    grad_theta, grad_parameters = projection_pullback(method, graph, theta, hard).pull(weight)
    assert directional_error(lambda scores: loss(method, graph, scores, hard, weight), theta, grad_theta) < BOUND
    for_limits = np.array([0.2]), grad_parameters["limits"]
    assert directional_error(lambda x: loss(method, graph, theta, with_limits(hard, x), weight), *for_limits) < BOUND
    assert abs(grad_parameters["psi"][0]) < 1e-9


@pytest.mark.parametrize("name", LOOPY)
@pytest.mark.parametrize("method", ["bethe_mirror_descent", "bethe_dual", "bethe_accelerated"])
def test_implicit_gradients_over_trees_and_junction_trees(method, name):
    check(METHODS.resolve(method, CONVERGED[method]), *model(name), "implicit")


@pytest.mark.parametrize("name", ["grid", "one_state_variables", "truncated_quadratic", "hard_zeros"])
@pytest.mark.parametrize("method", TRUNCATED)
def test_truncated_gradients_over_trees_and_junction_trees(method, name):
    check(METHODS.resolve(method, TRUNCATED[method]), *model(name), "truncated")


@pytest.mark.parametrize("name", ["grid", "unequal_state_counts"])
@pytest.mark.parametrize("method", ["bethe_rda", "bethe_mirror_descent", "bethe_accelerated", "bethe_dual"])
def test_gradients_over_a_tree_reweighted_oracle(method, name):
    oracle = METHODS.resolve("tree_reweighted", {"tol": 1e-13, "max_iter": 20000})
    mode = "truncated" if method == "bethe_rda" else "implicit"
    settings = {"max_iter": 3, "tol": 0.0} if mode == "truncated" else {"tol": 1e-11, "max_iter": 1000}
    check(METHODS.resolve(method, {**settings, "oracle": oracle}), *model(name), mode)


@pytest.mark.parametrize("mode", ["implicit", "truncated"])
@pytest.mark.parametrize("name", ["smoothed_hinge", "huber", "rounded_interval", "segments"])
def test_gradients_in_limits_and_measurements(name, mode):
    graph, theta, energy = model(name)
    method = METHODS.resolve("bethe_accelerated", TRUNCATED["bethe_accelerated"] if mode == "truncated" else TIGHT)
    weight = weights(graph)
    gradients = projection_pullback(method, graph, theta, energy, mode=mode).pull(weight)[1]
    terms = energy.terms
    for key, values, rebuild in (
        ("limits", terms.functions.shift, with_limits),
        ("measurements", terms.measurements.data, with_coefficients),
    ):
        error = directional_error(
            lambda changed, rebuild=rebuild: loss(method, graph, theta, rebuild(terms, changed), weight),
            values, gradients[key],
        )  # fmt: skip
        assert error < BOUND


@pytest.mark.parametrize("mode", ["implicit", "truncated"])
def test_gradients_in_rates_and_backgrounds(mode):
    graph, theta, energy = model("poisson_with_background")
    method = METHODS.resolve("bethe_accelerated", TRUNCATED["bethe_accelerated"] if mode == "truncated" else TIGHT)
    weight, functions = weights(graph), energy.functions
    gradients = projection_pullback(method, graph, theta, energy, mode=mode).pull(weight)[1]
    rates, backgrounds = functions.rate.copy(), functions.background.copy()
    for name, values, rebuild in (
        ("rates", rates, lambda changed: with_poisson(energy, changed, backgrounds)),
        ("backgrounds", backgrounds, lambda changed: with_poisson(energy, rates, changed)),
    ):
        error = directional_error(
            lambda changed, rebuild=rebuild: loss(method, graph, theta, rebuild(changed), weight),
            values, gradients[name],
        )  # fmt: skip
        assert error < BOUND


@pytest.mark.parametrize("mode", ["implicit", "truncated"])
@pytest.mark.parametrize("shared", [False, True])
def test_gradients_in_the_parameters_of_a_network(mode, shared):
    graph, theta = chain(shared)
    start = np.random.default_rng(3).standard_normal(2 * (int(graph.variable_ptr[-1]) + 1))
    method = METHODS.resolve(
        "bethe_mirror_descent", TRUNCATED["bethe_mirror_descent"] if mode == "truncated" else TIGHT
    )
    weight = weights(graph)
    gradients = projection_pullback(method, graph, theta, network_energy(start), mode=mode).pull(weight)[1]
    error = directional_error(
        lambda values: loss(method, graph, theta, network_energy(values).bind(graph), weight),
        start, gradients["parameters"],
    )  # fmt: skip
    assert error < BOUND


def test_the_temperature_counts():
    for mode, settings in (("implicit", TIGHT), ("truncated", TRUNCATED["bethe_mirror_descent"])):
        method = METHODS.resolve("bethe_mirror_descent", {**settings, "temperature": 0.6})
        check(method, *model("squared"), mode)


def test_without_energy_the_gradient_is_that_of_the_oracle():
    graph, theta = ZOO["tree"]()
    weight = weights(graph)
    gradient, parameters = projection_pullback("bethe_rda", graph, theta).pull(weight)
    assert directional_error(lambda t: float(weight @ intarsia.infer(graph, t, "tree").mu), theta, gradient) < 1e-8
    assert parameters == {}


def test_a_run_without_iterations_ignores_the_energy():
    graph, theta, energy = model("squared")
    method = METHODS.resolve("bethe_rda", {"max_iter": 0})
    gradient, parameters = projection_pullback(method, graph, theta, energy, mode="truncated").pull(weights(graph))
    expected = projection_pullback("bethe_rda", graph, theta).pull(weights(graph))[0]
    np.testing.assert_allclose(gradient, expected, atol=1e-12)
    assert not parameters["psi"].any()


def test_several_energies_are_one_sum():
    graph, theta = chain()
    energies = [ENERGIES["squared"], ENERGIES["huber"]]
    several = projection_pullback("bethe_dual", graph, theta, energies, names=BIO)
    total = projection_pullback("bethe_dual", graph, theta, energies[0] + energies[1], names=BIO)
    weight = weights(graph)
    np.testing.assert_array_equal(several.pull(weight)[0], total.pull(weight)[0])
    assert several.pull(weight)[1]["psi"].shape == (2,)


def test_a_kink_with_a_multiplier_at_its_end_has_no_derivative():
    graph = intarsia.from_edges(2, [], n_variables=1)
    touching = MeasuredEnergy(Count(1), Hinge(0.5), psi=1.0)  # without the hinge the marginal is 0.5 already
    assert not projection_pullback("bethe_dual", graph, graph.zeros(), touching).is_differentiable
    beyond = MeasuredEnergy(Count(1), Hinge(0.6), psi=1.0)
    assert projection_pullback("bethe_dual", graph, graph.zeros(), beyond).is_differentiable


def test_invalid_arguments_are_named():
    graph, theta = chain()
    energy = count_to(1.0)
    with pytest.raises(InvalidInputError, match="mode"):
        projection_pullback("bethe_rda", graph, theta, energy, mode="exact")
    with pytest.raises(InvalidInputError, match="must be a Bethe projection, got Tree"):
        projection_pullback("tree", graph, theta, energy)
    with pytest.raises(InvalidInputError, match=r"energies\[1\] must be an Energy"):
        projection_pullback("bethe_rda", graph, theta, [energy, "count"])
    with pytest.raises(InvalidInputError, match="grad_mu must have shape"):
        projection_pullback("bethe_dual", graph, theta, energy).pull([1.0])
    earlier = projection_pullback("bethe_dual", graph, theta, energy).result
    with pytest.raises(InvalidInputError, match="warm_start"):
        projection_pullback("bethe_rda", graph, theta, energy, mode="truncated", warm_start=earlier)
    with pytest.raises(NotSupportedError, match="temperature"):
        projection_pullback(METHODS.resolve("bethe_rda", {"temperature": 0.0}), graph, theta, energy)


def test_an_infeasible_model_has_no_gradient():
    graph, theta = ZOO["infeasible"]()
    pullback = projection_pullback("bethe_rda", graph, theta, count_to(1.0))
    assert pullback.mu is None
    with pytest.raises(NotSupportedError, match="infeasible"):
        pullback.pull(graph.zeros())
