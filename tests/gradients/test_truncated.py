"""The truncated gradient is exact for the truncated inference, which equals the sweeps of the inference method."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from tests.gradients.marginal_losses import NeedsLogZ, RandomQuadratic, lowered, mixed_rho
from tests.oracles.finite_differences import central_differences, relative_error
from tests.random_models import random_models
from tests.zoo import HARD_ZEROS, INFEASIBLE, ZOO

import intarsia
from intarsia.exceptions import ConvergenceWarning, InvalidInputError, NotSupportedError
from intarsia.gradients.pairwise_reversal import PairwiseReversal
from intarsia.gradients.reversal import GeneralReversal, reversal_of
from intarsia.gradients.truncated import TruncatedGradient
from intarsia.graph import grid_graph, learning_form
from intarsia.inference import Status
from intarsia.inference.messages.belief_propagation import BeliefPropagation
from intarsia.inference.messages.mean_field import MeanField
from intarsia.inference.messages.pairwise_messages import fits_pairwise
from intarsia.inference.messages.tree_reweighted import TreeReweighted
from intarsia.inference.registry import METHODS
from intarsia.inference.sampling.gibbs import Gibbs

FEASIBLE = [name for name in ZOO if name not in INFEASIBLE and name != "no_variables"]
CASES = {
    "bp": lambda graph: BeliefPropagation(),
    "bp_damped": lambda graph: BeliefPropagation(damping=0.4),
    "trw_half": lambda graph: TreeReweighted(rho=0.5),
    "trw_mixed": lambda graph: TreeReweighted(rho=mixed_rho(graph), damping=0.2),
}


def check(graph, theta, inference, loss, n_iter=3, tolerance=1e-6):
    rule = TruncatedGradient(n_iter=n_iter)
    result = rule.value_and_gradient(graph, theta, None, loss, inference)
    assert np.isfinite(result.gradient).all()
    assert not result.gradient[~np.isfinite(theta)].any()
    expected = central_differences(
        lambda moved: rule.value_and_gradient(graph, moved, None, loss, inference).value, theta
    )
    assert relative_error(result.gradient, expected) < tolerance
    return result


@pytest.mark.parametrize("uses_factors", [False, True])
@pytest.mark.parametrize("method", CASES)
@pytest.mark.parametrize("name", FEASIBLE)
def test_messages_on_the_zoo(name, method, uses_factors):
    graph, theta = lowered(name)
    check(graph, theta, CASES[method](graph), RandomQuadratic(graph, uses_factors))


@pytest.mark.parametrize("uses_factors", [False, True])
@pytest.mark.parametrize("name", [name for name in FEASIBLE if name not in HARD_ZEROS])
def test_mean_field_on_the_zoo(name, uses_factors):
    graph, theta = lowered(name)
    check(graph, theta, MeanField(), RandomQuadratic(graph, uses_factors))


@pytest.mark.parametrize("method", ["bp", "bp_damped", "trw_half"])
@pytest.mark.parametrize("name", ["grid", "grid_three_states", "complete", "star"])
def test_general_and_fast_path_agree(name, method):
    graph, theta = lowered(name)
    inference = CASES[method](graph)
    rho = np.full(graph.n_factors, 0.5 if method == "trw_half" else 1.0)
    loss = RandomQuadratic(graph, True)
    assert isinstance(reversal_of(graph, theta, inference), PairwiseReversal)
    gradients = []
    for kind in (GeneralReversal, PairwiseReversal):
        run = kind(graph, theta, rho, inference.damping)
        assert run.forward(7)
        mu = run.marginals()
        run.pull_beliefs(mu, loss.value_and_gradient(graph, mu, None)[1], True)
        run.back()
        gradients.append(run.gradient())
    assert np.allclose(*gradients, rtol=0, atol=1e-12)


@pytest.mark.parametrize("damping", [0.0, 0.3])
@pytest.mark.parametrize("n_states", [5, 18])
def test_fast_path_with_many_states(n_states, damping):
    graph = grid_graph(2, 3, n_states, connectivity=8)
    theta = np.random.default_rng(7).standard_normal(graph.n_theta)
    rule, loss = TruncatedGradient(n_iter=4), RandomQuadratic(graph, True)
    inference = TreeReweighted(rho=0.25, damping=damping)
    assert isinstance(reversal_of(graph, theta, inference), PairwiseReversal)
    result = rule.value_and_gradient(graph, theta, None, loss, inference)
    for seed in range(3):
        along = np.random.default_rng(seed).standard_normal(theta.size)
        slope = central_differences(
            lambda h, along=along: rule.value_and_gradient(graph, theta + h[0] * along, None, loss, inference).value,
            np.zeros(1),
        )
        assert result.gradient @ along == pytest.approx(slope[0], rel=1e-7)


@pytest.mark.parametrize("rho", [1.0, 0.5, 0.8])
@pytest.mark.parametrize("n_states", [2, 3])
def test_fast_path_up_to_the_end_of_its_range(n_states, rho):
    """Products of messages reach 1e-200; the backward pass must not underflow."""
    graph = grid_graph(3, 4, n_states)
    scale = 1.0
    draw = np.random.default_rng(5).choice([-1.0, 0.0, 1.0], graph.n_theta)
    weights = np.full(graph.n_factors, rho)
    while fits_pairwise(graph, 1.1 * scale * draw, weights):
        scale *= 1.1
    assert scale > 20
    loss, gradients = RandomQuadratic(graph, True), []
    for kind in (GeneralReversal, PairwiseReversal):
        run = kind(graph, scale * draw, weights, 0.1)
        assert run.forward(5)
        mu = run.marginals()
        run.pull_beliefs(mu, loss.value_and_gradient(graph, mu, None)[1], True)
        run.back()
        gradients.append(run.gradient())
    assert np.isfinite(gradients[1]).all()
    assert relative_error(gradients[1], gradients[0]) < 1e-8


@pytest.mark.parametrize("method", [*CASES, "mean_field"])
@pytest.mark.parametrize("name", ["grid", "grid_three_states", "complete", "four_way_factor"])
def test_losses_of_variables_see_the_same_marginals(name, method):
    """On the fast path the marginals of factors are 0 for them, since they are not computed."""
    graph, theta = lowered(name)
    inference = MeanField() if method == "mean_field" else CASES[method](graph)
    rule, split = TruncatedGradient(n_iter=3), int(graph.variable_ptr[-1])
    part, whole = (
        rule.value_and_gradient(graph, theta, None, RandomQuadratic(graph, uses_factors), inference).mu
        for uses_factors in (False, True)
    )
    np.testing.assert_allclose(part[:split], whole[:split], rtol=1e-13, atol=0)
    assert whole[split:].sum() == pytest.approx(graph.n_factors)
    if isinstance(reversal_of(graph, theta, inference), PairwiseReversal):
        assert not part[split:].any()


@pytest.mark.parametrize("method", CASES)
@pytest.mark.parametrize("name", ["grid", "grid_three_states", "four_way_factor", "hard_zeros", "huge_potentials"])
def test_forward_pass_equals_the_inference(name, method):
    graph, theta = lowered(name)
    inference = CASES[method](graph).set_params(max_iter=4, tol=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        there = intarsia.infer(graph, theta, inference)
    here = TruncatedGradient(n_iter=4).value_and_gradient(graph, theta, None, RandomQuadratic(graph, True), inference)
    assert np.allclose(here.mu, there.mu, rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", ["mean_field", "belief_propagation", "tree_reweighted"])
@pytest.mark.parametrize("name", [name for name in FEASIBLE if name not in HARD_ZEROS])
def test_marginals_are_those_of_the_loss(name, method):
    """In the layout of the original graph, also with shared or parametric tables."""
    graph, theta = ZOO[name]()
    form = learning_form(graph)
    rule = TruncatedGradient(n_iter=3)
    for inference in (method, METHODS.resolve(method, {"temperature": 1.5})):
        judged = rule.value_and_gradient(
            form.graph, form.lower(theta), None, RandomQuadratic(form.graph, True), inference
        )
        np.testing.assert_allclose(
            rule.marginals(graph, theta, inference), form.raise_mu(judged.mu), rtol=0, atol=1e-14
        )


def test_marginals_of_unsupported_models_raise():
    graph, theta = ZOO["grid"]()
    with pytest.raises(NotSupportedError, match=r"cannot differentiate JunctionTree\. Use one of: MeanField"):
        TruncatedGradient().marginals(graph, theta, "junction_tree")
    with pytest.raises(InvalidInputError, match="n_iter"):
        TruncatedGradient(n_iter=-1).marginals(graph, theta, "mean_field")
    emptied = grid_graph(1, 2, 2)  # each state of one variable is forbidden with every state of the other
    for model in (ZOO["infeasible_variable"](), (emptied, emptied.pack(tables=np.full((1, 2, 2), -np.inf)))):
        for method in ("belief_propagation", "tree_reweighted"):
            with pytest.raises(InvalidInputError, match=r"theta allows no labelling\. Set some"):
                TruncatedGradient(n_iter=3).marginals(*model, method)
    assert TruncatedGradient().marginals(*ZOO["no_variables"](), "mean_field").shape == (0,)


def test_mean_field_reaches_the_same_optimum():
    graph, theta = lowered("grid_three_states")
    there = intarsia.infer(graph, theta, MeanField(tol=1e-13))
    here = TruncatedGradient(n_iter=200).value_and_gradient(
        graph, theta, None, RandomQuadratic(graph, True), MeanField()
    )
    assert np.allclose(here.mu, there.mu, atol=1e-9)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(random_models(max_variables=5, max_factors=5, max_states=3, max_assignments=200))
def test_random_models_with_zeros_never_give_nan(model):
    form = learning_form(model[0])
    graph, theta = form.graph, form.lower(model[1])
    if graph.n_variables == 0:
        return
    for inference in (BeliefPropagation(), TreeReweighted(rho=0.7, damping=0.3)):
        loss = RandomQuadratic(graph, True)
        result = TruncatedGradient(n_iter=4).value_and_gradient(graph, theta, None, loss, inference)
        assert np.isfinite(result.gradient).all()
        if result.status is Status.INFEASIBLE:
            assert result.value == np.inf
            assert not result.gradient.any()
            continue
        # A random direction instead of every entry, to save time.
        along = np.where(np.isfinite(theta), np.random.default_rng(0).standard_normal(theta.size), 0.0)
        values = [
            TruncatedGradient(n_iter=4).value_and_gradient(graph, theta + h * along, None, loss, inference).value
            for h in (-1e-4, 1e-4)
        ]
        assert result.gradient @ along == pytest.approx((values[1] - values[0]) / 2e-4, abs=2e-5, rel=2e-5)


@pytest.mark.parametrize("inference", [BeliefPropagation(), MeanField()])
def test_zero_and_many_sweeps(inference):
    graph, theta = lowered("three_way_factor")
    check(graph, theta, inference, RandomQuadratic(graph, True), n_iter=0)
    check(graph, theta, inference, RandomQuadratic(graph, True), n_iter=25)


def test_temperature():
    graph, theta = lowered("grid")
    for inference in (TreeReweighted(temperature=2.0), MeanField(temperature=0.7)):
        check(graph, theta, inference, RandomQuadratic(graph, True))
    with pytest.raises(NotSupportedError, match="temperature 0"):
        check(graph, theta, TreeReweighted(temperature=0.0), RandomQuadratic(graph, True))


@pytest.mark.parametrize("inference", [BeliefPropagation(), MeanField()])
def test_infeasible_variable(inference):
    graph, theta = lowered("infeasible_variable")
    result = TruncatedGradient().value_and_gradient(graph, theta, None, RandomQuadratic(graph, False), inference)
    assert result.status is Status.INFEASIBLE
    assert result.value == np.inf
    assert not result.gradient.any()


def test_no_variables():
    graph, theta = lowered("no_variables")
    result = TruncatedGradient().value_and_gradient(graph, theta, None, RandomQuadratic(graph, True), "mean_field")
    assert result.value == 0.0
    assert result.gradient.shape == (0,)


def test_mean_field_on_hard_tables_is_refused():
    graph, theta = lowered("hard_zeros")
    with pytest.raises(NotSupportedError, match="hard zeros in tables"):
        TruncatedGradient().value_and_gradient(graph, theta, None, RandomQuadratic(graph, False), "mean_field")


def test_memory_is_a_stack_of_messages():
    graph = grid_graph(20, 20, 8)
    theta = np.random.default_rng(0).standard_normal(graph.n_theta)
    loss = RandomQuadratic(graph, False)
    peaks = []
    for n_iter in (1, 41):
        rule = TruncatedGradient(n_iter=n_iter)
        rule.value_and_gradient(graph, theta, None, loss, "tree_reweighted")
        tracemalloc.start()
        rule.value_and_gradient(graph, theta, None, loss, "tree_reweighted")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    messages = 8 * 8 * graph.scope_idx.size
    assert peaks[1] - peaks[0] == pytest.approx(40 * messages, rel=0.1)


def test_refusals():
    graph, theta = lowered("grid")
    loss = RandomQuadratic(graph, False)
    rule = TruncatedGradient()
    with pytest.raises(NotSupportedError, match=r"cannot differentiate Gibbs\. Use one of: MeanField, Belief"):
        rule.value_and_gradient(graph, theta, None, loss, Gibbs())
    with pytest.raises(NotSupportedError, match="needs log_partition"):
        rule.value_and_gradient(graph, theta, None, NeedsLogZ(), "tree_reweighted")
    with pytest.raises(NotSupportedError, match="schedule='parallel'"):
        rule.value_and_gradient(graph, theta, None, loss, BeliefPropagation(schedule="parallel"))
    shared, scores = ZOO["shared_chain"]()
    with pytest.raises(InvalidInputError, match="learning_form"):
        rule.value_and_gradient(shared, scores, None, loss, "belief_propagation")
    with pytest.raises(InvalidInputError, match="n_iter"):
        TruncatedGradient(n_iter=-1).value_and_gradient(graph, theta, None, loss, "belief_propagation")
    with pytest.raises(InvalidInputError, match=r"rho has shape \(3,\)"):
        rule.value_and_gradient(graph, theta, None, loss, TreeReweighted(rho=[0.5, 0.5, 0.5]))


def test_mean_field_with_zeros_that_it_avoids():
    """A table forbids states that the scores of a variable forbid already: no 0 * -inf in the backward pass."""
    graph, theta = lowered("chain")
    theta = theta.copy()
    graph.variable(theta, 2)[0] = -np.inf
    for c in range(graph.n_factors):
        at = graph.scope(c).tolist().index(2) if 2 in graph.scope(c) else None
        if at is not None:
            np.moveaxis(graph.table(theta, c), at, 0)[0] = -np.inf
    check(graph, theta, MeanField(), RandomQuadratic(graph, True))
