"""Symmetries of every method: added constants, relabelled states, evidence, temperature."""

from __future__ import annotations

import numpy as np
import pytest
from tests.contracts.asking import PLAIN, ask, check_log_partition, every_method, on, slack, solve, truth_of
from tests.oracles.enumeration import enumerate_model
from tests.zoo import ZOO

from intarsia import Status
from intarsia.exceptions import IntarsiaError
from intarsia.inference import method_class

# ---------------------------------------------------------------- answers move along with the model


def variables_of(result):
    return result.mu[: result.graph.variable_ptr[-1]]


@on([*PLAIN, "shared_chain", "one_state_variables"])
@pytest.mark.parametrize("where", ["variable", "table"])
def test_adding_a_constant_to_a_block(method, model, where):
    graph, theta = ZOO[model]()
    before = solve(method, model)
    shifted = theta.copy()
    if where == "variable":
        graph.variable(shifted, 1)[:] += 0.75
        gain = 0.75
    else:
        graph.table(shifted, 0)[...] += 0.75
        gain = 0.75 * int((graph.table_of_factor == 0).sum())
    after = ask(graph, shifted, method)
    if before.log_partition is not None and before.log_partition > -np.inf:
        loose = 1e-9 if method_class(method).exact else 1e-5
        assert after.log_partition == pytest.approx(before.log_partition + gain, abs=loose)
    assert after.score == pytest.approx(before.score + gain, abs=1e-9)
    np.testing.assert_allclose(after.mu, before.mu, atol=slack(before))


def relabelled(graph, theta, seed=5):
    """Return the model with permuted states of every variable, and the permutations."""
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(k) for k in graph.n_states]
    changed = theta.copy()
    for v in range(graph.n_variables):
        graph.variable(changed, v)[:] = graph.variable(theta, v)[orders[v]]
    for c in range(graph.n_factors):
        graph.table(changed, c)[...] = graph.table(theta, c)[np.ix_(*(orders[v] for v in graph.scope(c)))]
    return changed, orders


@on(PLAIN)
def test_relabelling_states_permutes_marginals(method, model):
    graph, theta = ZOO[model]()
    before = solve(method, model)
    changed, orders = relabelled(graph, theta)
    after = ask(graph, changed, method)
    if not (before.converged and after.converged):
        return
    for v in range(graph.n_variables):
        np.testing.assert_allclose(after.marginals(v), before.marginals(v)[orders[v]], atol=slack(before))
    if before.log_partition is not None and before.mu_error is None:
        assert after.log_partition == pytest.approx(before.log_partition, abs=1e-5)


@on(["isolated_node"])
def test_isolated_variables_are_softmax(method, model):
    graph, theta = ZOO[model]()
    result = solve(method, model)
    scores = graph.variable(theta, 2)
    if result.task == "map":
        assert result.assignment[2] == scores.argmax()
        return
    softmax = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
    np.testing.assert_allclose(result.marginals(2), softmax, atol=slack(result))


@on(["one_state_variables"])
def test_one_state_variables_are_certain(method, model):
    result = solve(method, model)
    for v in (0, 2, 4):
        assert result.marginals(v).tolist() == [1.0]
        assert result.assignment[v] == 0


# ---------------------------------------------------------------- evidence and temperature


@on(["chain", "grid", "three_way_factor", "potts", "same_scope_twice", "hard_zeros"])
def test_evidence(method, model):
    graph, theta = ZOO[model]()
    evidence = {1: 1, graph.n_variables - 1: 0}
    truth = enumerate_model(graph, theta, evidence)
    result = ask(graph, theta, method, evidence=evidence)
    for v, state in evidence.items():
        assert result.marginals(v).tolist() == np.eye(graph.n_states[v])[state].tolist()
        assert result.assignment[v] == state
    if result.task == "marginals":
        check_log_partition(result, truth)
    if method_class(method).exact:
        np.testing.assert_allclose(result.mu, truth.mu, atol=1e-9)


@every_method
def test_fully_observed_models(method):
    graph, theta = ZOO["grid"]()
    y = [0, 1, 0, 1, 1, 0, 0, 1, 1]
    result = ask(graph, theta, method, evidence=dict(enumerate(y)))
    assert result.assignment.tolist() == y
    np.testing.assert_array_equal(result.mu, graph.statistics(y))
    if result.task == "marginals":
        assert result.log_partition == pytest.approx(graph.score(theta, y))
        assert result.log_partition_is == "exact"


@every_method
def test_impossible_evidence_is_infeasible(method):
    graph, theta = ZOO["hard_implications"]()
    for evidence in ({0: 1, 1: 0}, {1: 1, 2: 0, 4: 1}):
        assert ask(graph, theta, method, evidence=evidence).status is Status.INFEASIBLE


@on(["chain", "grid", "three_way_tree", "potts", "hard_zeros", "one_state_variables"])
@pytest.mark.parametrize("temperature", [0.5, 3.0])
def test_temperature(method, model, temperature):
    if not method_class(method).gives_marginals:
        return
    graph, theta = ZOO[model]()
    result = ask(graph, theta, method, temperature=temperature)
    truth = truth_of(model, temperature)
    check_log_partition(result, truth)
    if method_class(method).exact:
        np.testing.assert_allclose(result.mu, truth.mu, atol=1e-9)


@on(["chain", "grid", "hard_implications"])
def test_temperature_zero_is_map(method, model):
    graph, theta = ZOO[model]()
    try:
        result = ask(graph, theta, method, temperature=0.0)
    except IntarsiaError:
        assert not method_class(method).gives_map
        return
    best = truth_of(model).best_score
    assert result.score <= best + 1e-9
    if result.task == "marginals":
        assert result.lower_bound <= best + 1e-9 <= result.upper_bound + 2e-9
    if method_class(method).exact:
        assert result.score == pytest.approx(best)
