import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from tests.oracles.enumeration import enumerate_model
from tests.random_models import random_models
from tests.zoo import HARD_ZEROS, INFEASIBLE, ZOO

import intarsia
from intarsia._kernels.mean_field import exp_vectorised
from intarsia.exceptions import ConvergenceWarning, InvalidInputError
from intarsia.inference.messages.mean_field import MeanField

FEASIBLE = [name for name in ZOO if name not in INFEASIBLE]


def updated_marginal(graph, theta, mu, v):
    """Return the exact coordinate update of a marginal, in plain NumPy over full tables."""
    field = graph.variable(theta, v).astype(float).copy()
    for c in range(graph.n_factors):
        scope = graph.scope(c).tolist()
        if v not in scope:
            continue
        table = graph.factor_table(theta, c)
        weight = np.ones(table.shape)
        for axis, u in enumerate(scope):
            if u != v:
                shape = [1] * table.ndim
                shape[axis] = -1
                weight = weight * graph.variable(mu, u).reshape(shape)
        product = np.where(weight > 0, np.where(weight > 0, table, 0.0) * weight, 0.0)
        field += product.sum(axis=tuple(a for a, u in enumerate(scope) if u != v))
    field = np.exp(field - field.max())
    return field / field.sum()


def objective(graph, theta, mu):
    """Return <theta, mu> + H of the product of marginals, by enumeration of each factor."""
    total = 0.0
    for v in range(graph.n_variables):
        for p, score in zip(graph.variable(mu, v), graph.variable(theta, v), strict=True):
            if p > 0:
                total += p * (score - np.log(p))
    for c in range(graph.n_factors):
        table = graph.factor_table(theta, c)
        for x in np.ndindex(*table.shape):
            p = np.prod([graph.variable(mu, v)[s] for v, s in zip(graph.scope(c), x, strict=True)])
            if p > 0:
                total += p * table[x]
    return total


def check_result(graph, theta, result, truth):
    assert result.log_partition_is == "lower bound"
    assert result.log_partition == result.lower_bound
    assert result.log_partition <= truth.log_partition + 1e-9 * max(1, abs(truth.log_partition))
    assert result.log_partition == pytest.approx(objective(graph, theta, result.mu), rel=1e-9, abs=1e-9)
    assert not np.isnan(result.mu).any()
    for v in range(graph.n_variables):
        assert result.marginals(v).min() >= 0
        assert result.marginals(v).sum() == pytest.approx(1, abs=1e-12)
        if result.converged:
            np.testing.assert_allclose(updated_marginal(graph, theta, result.mu, v), result.marginals(v), atol=1e-6)


@pytest.mark.parametrize("random_start", [False, True])
@pytest.mark.parametrize("name", FEASIBLE)
def test_stationary_lower_bound(name, random_start):
    graph, theta = ZOO[name]()
    result = intarsia.infer(graph, theta, "mean_field", random_start=random_start, random_state=3, max_iter=5000)
    if graph.n_variables == 0:
        assert result.log_partition == 0
        return
    assert result.converged
    assert result.log_partition > -np.inf
    check_result(graph, theta, result, enumerate_model(graph, theta))


@pytest.mark.parametrize("name", FEASIBLE)
def test_tables_hold_products_of_marginals(name):
    graph, theta = ZOO[name]()
    mu = intarsia.infer(graph, theta, "mean_field", max_iter=5000).mu
    expected = np.zeros(graph.n_theta)
    expected[: graph.variable_ptr[-1]] = mu[: graph.variable_ptr[-1]]
    for c in range(graph.n_factors):
        joint = np.ones(())
        for v in graph.scope(c):
            joint = np.multiply.outer(joint, graph.variable(mu, int(v)))
        table = int(graph.table_of_factor[c])
        unit = np.zeros(graph.n_theta)
        unit[graph.table_ptr[table]] = 1.0
        if graph.table_kind[table] == 0:
            graph.table(expected, table)[...] += joint
        else:
            graph.table(expected, table)[0] += (graph.factor_table(unit, c) * joint).sum()
    np.testing.assert_allclose(mu, expected, atol=1e-12)


@pytest.mark.parametrize("name", FEASIBLE)
def test_bound_never_decreases(name):
    graph, theta = ZOO[name]()
    result = intarsia.infer(graph, theta, "mean_field", trace=True, random_start=True, random_state=5, max_iter=5000)
    if graph.n_variables == 0:
        return
    bounds = result.history["log_partition"]
    assert len(bounds) == len(result.history["residual"]) == result.n_iter
    assert np.diff(bounds).min(initial=0.0) >= -1e-10 * max(1.0, abs(bounds[-1]))
    assert bounds[-1] == pytest.approx(result.log_partition, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", sorted(INFEASIBLE))
def test_infeasible(name):
    graph, theta = ZOO[name]()
    result = intarsia.infer(graph, theta, "mean_field")
    assert result.status is intarsia.Status.INFEASIBLE
    assert result.log_partition == -np.inf


@pytest.mark.parametrize("name", sorted(HARD_ZEROS))
def test_hard_zeros_start_from_a_feasible_state(name):
    graph, theta = ZOO[name]()
    result = intarsia.infer(graph, theta, "mean_field")
    assert "Hard zeros" in result.note
    assert np.isfinite(result.log_partition)


def test_exact_without_coupling():
    graph, theta = ZOO["one_node"]()
    result = intarsia.infer(graph, theta, "mean_field")
    assert result.log_partition == pytest.approx(np.log(np.exp(theta).sum()), rel=1e-14)


@pytest.mark.parametrize("name", ["grid", "potts", "three_way_factor"])
def test_evidence_and_temperature(name):
    graph, theta = ZOO[name]()
    evidence = {1: 1, 3: 0}
    result = intarsia.infer(graph, theta, "mean_field", evidence=evidence, temperature=0.5)
    truth = enumerate_model(graph, theta, evidence, temperature=0.5)
    assert result.converged
    assert result.log_partition <= truth.log_partition
    assert result.marginals(1)[1] == 1
    cold = intarsia.infer(graph, theta, "mean_field", temperature=0.0)
    assert cold.log_partition == pytest.approx(cold.score)
    assert cold.log_partition <= truth_best(graph, theta) + 1e-9


def truth_best(graph, theta):
    return enumerate_model(graph, theta).best_score


def test_warm_start_needs_one_sweep():
    graph, theta = ZOO["grid_three_states"]()
    first = intarsia.infer(graph, theta, "mean_field")
    again = intarsia.infer(graph, theta, "mean_field", warm_start=first)
    assert first.n_iter > 1
    assert again.n_iter == 1
    np.testing.assert_allclose(again.mu, first.mu, atol=1e-7)


def test_warm_start_from_impossible_marginals_is_repaired():
    graph, theta = ZOO["hard_zeros"]()
    soft = np.where(np.isinf(theta), -1.0, theta)
    earlier = intarsia.infer(graph, soft, "mean_field")
    result = intarsia.infer(graph, theta, "mean_field", warm_start=earlier)
    assert np.isfinite(result.log_partition)


def test_random_start_is_reproducible_and_breaks_symmetry():
    graph = intarsia.grid_graph(3, 3, 2)
    theta = graph.pack(tables=np.tile([[2.0, 0.0], [0.0, 2.0]], (graph.n_factors, 1, 1)))
    symmetric = intarsia.infer(graph, theta, "mean_field")
    one, two = (intarsia.infer(graph, theta, "mean_field", random_start=True, random_state=7) for _ in range(2))
    np.testing.assert_array_equal(one.mu, two.mu)
    assert one.log_partition > symmetric.log_partition + 0.1


@pytest.mark.parametrize("n_states", [2, 3])
def test_skipping_converged_variables_does_not_change_the_result(n_states):
    """A large weakly coupled grid converges to the solution of sweeps over all variables in plain NumPy."""
    graph = intarsia.grid_graph(6, 6, n_states)
    theta = 0.3 * np.random.default_rng(8).standard_normal(graph.n_theta)
    result = intarsia.infer(graph, theta, "mean_field", tol=1e-10)
    mu = np.full(graph.variable_ptr[-1], 1 / n_states)
    for _ in range(60):
        for v in range(graph.n_variables):
            graph.variable(mu, v)[:] = updated_marginal(graph, theta, mu, v)
    np.testing.assert_allclose(result.mu[: mu.size], mu, atol=1e-9)


def test_binary_path_agrees_with_the_general_one():
    """Adding a third, impossible state selects the general implementation."""
    graph, theta = ZOO["grid"]()
    wide = intarsia.grid_graph(3, 3, 3)
    big = wide.zeros()
    for v in range(9):
        wide.variable(big, v)[:] = [*graph.variable(theta, v), -np.inf]
    for t in range(graph.n_tables):
        wide.table(big, t)[:2, :2] = graph.table(theta, t)
    a = intarsia.infer(graph, theta, "mean_field", tol=1e-12)
    b = intarsia.infer(wide, big, "mean_field", tol=1e-12)
    assert a.log_partition == pytest.approx(b.log_partition, rel=1e-12)
    for v in range(9):
        np.testing.assert_allclose(a.marginals(v), b.marginals(v)[:2], atol=1e-10)


def test_max_iter_is_reported():
    graph, theta = ZOO["grid"]()
    with pytest.warns(ConvergenceWarning, match="MeanField did not converge: stopped at max_iter"):
        result = intarsia.infer(graph, theta, "mean_field", max_iter=1)
    assert result.status is intarsia.Status.MAX_ITER
    assert result.log_partition <= enumerate_model(graph, theta).log_partition


@pytest.mark.parametrize("chosen", [{"max_iter": 0}, {"tol": -1.0}, {"tol": float("nan")}, {"temperature": -1}])
def test_bad_settings(chosen):
    graph, theta = ZOO["grid"]()
    with pytest.raises(InvalidInputError, match="MeanField"):
        intarsia.infer(graph, theta, MeanField(**chosen))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(random_models())
@pytest.mark.filterwarnings("ignore::intarsia.exceptions.ConvergenceWarning")
def test_random_models(model):
    graph, theta = model
    truth = enumerate_model(graph, theta)
    result = intarsia.infer(graph, theta, "mean_field", max_iter=3000)
    if truth.log_partition == -np.inf:
        assert result.status is intarsia.Status.INFEASIBLE
        return
    assert result.log_partition > -np.inf
    if result.status is not intarsia.Status.EXACT:
        check_result(graph, theta, result, truth)


@pytest.mark.parametrize("tol", [1e-3, 1e-9])
@pytest.mark.parametrize("states", [[2] * 9, [9, 2, 5, 4, 3, 6, 8, 7, 2]])
@pytest.mark.filterwarnings("ignore::intarsia.exceptions.ConvergenceWarning")
def test_incremental_fields_stay_accurate(states, tol):
    """On grids with impossible states and shared tables, each sweep increases the bound, which equals that of mu."""
    scopes = [(v, v + 1) for v in range(8) if v % 3 < 2] + [(v + 3, v) for v in range(6)]
    share = [(a, b) for a, b in scopes if states[a] == 2 and states[b] == 2][:2]
    tables = [scopes.index(share[0]) if len(share) == 2 and s == share[1] else c for c, s in enumerate(scopes)]
    tables = np.unique(tables, return_inverse=True)[1]
    ptr = np.arange(0, 2 * len(scopes) + 1, 2)
    graph = intarsia.FactorGraph(states, ptr, np.ravel(scopes), table_of_factor=tables)
    theta = 2.0 * np.random.default_rng(8).standard_normal(graph.n_theta)
    graph.variable(theta, 0)[1] = graph.variable(theta, 4)[0] = -np.inf
    result = intarsia.infer(graph, theta, "mean_field", tol=tol, trace=True)
    assert (np.diff(result.history["log_partition"]) >= -1e-10).all()
    assert result.converged
    assert result.log_partition == pytest.approx(objective(graph, theta, result.mu), rel=1e-12)
    for v in range(9):
        np.testing.assert_allclose(updated_marginal(graph, theta, result.mu, v), result.marginals(v), atol=50 * tol)
    for c in range(len(scopes)):
        if (tables == tables[c]).sum() == 1:
            i, j = scopes[c]
            product = np.outer(result.marginals(i), result.marginals(j))
            np.testing.assert_allclose(graph.table(result.mu, int(tables[c])), product, rtol=1e-13)


def test_vectorised_exponential_is_that_of_the_c_library():
    """Compare with `math.exp`, whose error is below 1 unit in the last place, on all scales down to the limit."""
    rng = np.random.default_rng(0)
    points = [0.0, -0.0, -5e-324, -1e-300, -1e-17, -0.34657359027997264, -0.34657359027997270, -math.log(2.0), -708.0]
    points += (-(10.0 ** rng.uniform(-20.0, np.log10(708.0), 5000))).tolist() + rng.uniform(-708.0, 0.0, 5000).tolist()
    points += [-n * math.log(2.0) / 2.0 for n in range(2042)]  # where the exponent changes
    for x in points:
        assert exp_vectorised(x) == pytest.approx(math.exp(x), rel=1e-15, abs=0.0), x
    assert exp_vectorised(0.0) == 1.0
    assert exp_vectorised(-math.inf) == 0.0
    assert exp_vectorised(-1000.0) == 0.0


@pytest.mark.parametrize("n_states", [2, 3])
def test_kernels_keep_no_reference_to_the_arrays(n_states):
    """The kernels count no references, so that none may remain after a run."""
    graph = intarsia.grid_graph(3, 3, n_states)
    theta = np.random.default_rng(1).standard_normal(graph.n_theta)
    intarsia.infer(graph, theta, "mean_field")
    counts = [sys.getrefcount(array) for array in (theta, graph.scope_idx, graph.variable_ptr)]
    for _ in range(5):
        intarsia.infer(graph, theta, "mean_field")
    assert [sys.getrefcount(array) for array in (theta, graph.scope_idx, graph.variable_ptr)] == counts
