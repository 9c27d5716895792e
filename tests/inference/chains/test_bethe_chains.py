"""Projections of many sequences at once, compared with the registered methods on each sequence alone."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import intarsia
from intarsia.energies import (
    Absolute,
    Count,
    DistanceToSet,
    FunctionEnergy,
    MeasuredEnergy,
    SmoothedHinge,
    Squared,
    Transitions,
    at_most_one,
    balanced,
    before,
)
from intarsia.energies.binding.batch_energies import ChainEnergies
from intarsia.exceptions import ConvergenceWarning, InvalidInputError, NotSupportedError
from intarsia.graph import chain_graph
from intarsia.graph.chains import ChainBatch
from intarsia.inference.chains import bethe_chains
from intarsia.inference.chains.bethe_chains import by_length, check_chain_method, project_chains
from intarsia.inference.chains.chain_inference import chain_marginals
from intarsia.inference.chains.chain_search import run_search
from intarsia.inference.projection.bethe_mirror_descent import BetheMirrorDescent
from intarsia.inference.projection.bethe_rda import BetheRDA

NAMES = ["O", "B-x", "I-x", "B-y"]
OUTPUTS = [["O", "B-x", "I-x"], ["B-y", "B-y", "O"], ["B-x", "O", "O", "O"]]


def half_square(mu, graph):
    return 0.5 * float((mu[: graph.variable_ptr[-1]] ** 2).sum())


def identity(mu, graph):
    return np.where(np.arange(mu.size) < graph.variable_ptr[-1], mu, 0.0)


ENERGIES = {
    "smooth": [at_most_one("x"), balanced("x", "y"), before("x", "y")],
    "kinks": [at_most_one("x", width=0.0), MeasuredEnergy(Count("B-y"), Absolute(0.4))],
    "transitions": [MeasuredEnergy(Transitions("O", "B-y"), Squared(2.0)), at_most_one("y")],
    "words": [DistanceToSet(OUTPUTS)],
    "counts": [DistanceToSet(OUTPUTS, positional=False)],
    "sum": [DistanceToSet(OUTPUTS), at_most_one("y"), FunctionEnergy(half_square, identity, reads="variables")],
}
# With a tolerance of 0 all sequences make the same number of steps; with rejected steps, 200 steps converge.
METHODS = (
    BetheRDA(max_iter=15, tol=0.0),
    BetheRDA(max_iter=15, beta=1.0, tol=0.0),
    BetheMirrorDescent(max_iter=200, tol=1e-11),
)


def make_batch(seed=0, n=9, per_step=False, forbidden=False):
    rng = np.random.default_rng(seed)
    lengths = np.sort(rng.integers(1, 6, n))
    ptr = np.concatenate([[0], np.cumsum(lengths)])
    table = rng.normal(size=(ptr[-1] - n, 4, 4) if per_step else (4, 4))
    if forbidden:
        table[..., 0, 2] = -np.inf
    return ChainBatch(rng.normal(size=(ptr[-1], 4)), ptr, table, rng.normal(size=4), rng.normal(size=4))


def alone(batch, s, energies, psi, method):
    """Return the result of a registered method for one sequence, as a factor graph."""
    one = batch.part(s, s + 1)
    nodes = one.nodes.copy()
    nodes[0] += batch.start
    nodes[-1] += batch.end
    graph = chain_graph(one.n_positions, 4, shared=True)
    theta = np.concatenate([nodes.reshape(-1), one.transitions.reshape(-1) if one.n_steps else []])
    energy = sum(energies[1:], energies[0]).bind(graph, NAMES).with_psi(psi)
    settings = {**method.get_params(deep=False), "energy": energy}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return intarsia.infer(graph, theta, type(method)(**settings))


def marginals(batch):
    return chain_marginals(batch, transitions=None).nodes.reshape(-1)


def strengths(energies, n=9):
    return np.random.default_rng(1).uniform(0.5, 3.0, (n, energies.n_psi))


@pytest.mark.parametrize("method", METHODS, ids=["rda", "cautious", "mirror_descent"])
@pytest.mark.parametrize("kind", list(ENERGIES))
def test_batch_equals_single_sequences(kind, method):
    batch, energies = make_batch(), ChainEnergies(ENERGIES[kind], NAMES, 5)
    psi = strengths(energies)
    result = project_chains(batch, energies, psi, method)
    nodes = marginals(result.batch)
    for s in range(batch.n_sequences):
        single = alone(batch, s, ENERGIES[kind], psi[s], method)
        a, b = 4 * batch.ptr[s], 4 * batch.ptr[s + 1]
        np.testing.assert_allclose(nodes[a:b], single.mu[: b - a], atol=1e-11 if method.tol == 0 else 1e-6)
        np.testing.assert_allclose(result.objective[s], -single.log_partition, atol=1e-10)


@pytest.mark.parametrize("kind", ["smooth", "transitions", "words"])
def test_converged_means_a_fixed_point_of_the_tilted_model(kind):
    batch, energies = make_batch(seed=3), ChainEnergies(ENERGIES[kind], NAMES, 5)
    psi = strengths(energies)
    result = project_chains(batch, energies, psi, BetheMirrorDescent(max_iter=500, tol=1e-9))
    assert result.converged.all()
    at_mu = chain_marginals(result.batch, transitions="steps")
    has = np.diff(batch.ptr) > 1
    pairs = np.zeros((9, 16))
    pairs[has] = np.add.reduceat(at_mu.transitions.reshape(-1, 16), (batch.ptr[:-1] - np.arange(9))[has])
    for s in range(9):
        a, b = batch.ptr[s], batch.ptr[s + 1]
        graph = chain_graph(int(b - a), 4, shared=True)
        mu = np.concatenate([at_mu.nodes[a:b].reshape(-1), pairs[s] if b - a > 1 else []])
        one = sum(ENERGIES[kind][1:], ENERGIES[kind][0]).bind(graph, NAMES).with_psi(psi[s])
        slope, split = one.gradient(mu), 4 * (b - a)
        table = batch.transitions - slope[split:].reshape(4, 4) if b - a > 1 else batch.transitions
        moved = ChainBatch(batch.nodes[a:b] - slope[:split].reshape(-1, 4), [0, b - a], table, batch.start, batch.end)
        np.testing.assert_allclose(marginals(moved), at_mu.nodes[a:b].reshape(-1), atol=1e-8)


def test_table_per_step_and_forbidden_transitions():
    shared, energies = make_batch(forbidden=True), ChainEnergies(ENERGIES["smooth"], NAMES, 5)
    psi, method = strengths(energies), BetheMirrorDescent(max_iter=100)
    each = np.broadcast_to(shared.transitions, (shared.n_steps, 4, 4)).copy()
    by_step = ChainBatch(shared.nodes, shared.ptr, each, shared.start, shared.end)
    plain, repeated = (project_chains(batch, energies, psi, method) for batch in (shared, by_step))
    np.testing.assert_allclose(plain.readings, repeated.readings, atol=1e-12)
    longest = chain_marginals(plain.batch.part(8, 9), transitions="steps").transitions
    assert (longest[:, 0, 2] == 0).all()


def test_infeasible_sequences_do_not_affect_others():
    batch = make_batch()
    nodes = batch.nodes.copy()
    nodes[batch.ptr[4]] = -np.inf
    energies = ChainEnergies(ENERGIES["words"], NAMES, 5)
    psi = strengths(energies)
    broken = project_chains(
        ChainBatch(nodes, batch.ptr, batch.transitions, batch.start, batch.end), energies, psi, BetheRDA()
    )
    whole = project_chains(batch, energies, psi, BetheRDA())
    assert np.isinf(broken.objective[4])
    assert np.isfinite(np.delete(broken.objective, 4)).all()
    others = np.delete(np.arange(9), 4)
    np.testing.assert_allclose(broken.objective[others], whole.objective[others], atol=1e-12)


def test_no_steps_without_gradient_or_iterations():
    batch, energies = make_batch(), ChainEnergies(ENERGIES["smooth"], NAMES, 5)
    plain = marginals(batch)
    none = project_chains(batch, energies, np.zeros((9, energies.n_psi)), BetheRDA())
    assert none.n_calls == 1
    assert none.converged.all()
    assert (marginals(none.batch) == plain).all()
    stopped = project_chains(batch, energies, strengths(energies), BetheRDA(max_iter=0))
    assert (marginals(stopped.batch) == plain).all()
    assert not stopped.converged.all()


def test_empty_batch():
    energies = ChainEnergies(ENERGIES["smooth"], NAMES, 5)
    empty = ChainBatch(np.zeros((0, 4)), [0], np.zeros((4, 4)))
    assert project_chains(empty, energies, np.zeros((0, energies.n_psi)), BetheRDA()).readings.size == 0


def test_oracle_calls_cover_all_unfinished_sequences():
    batch, energies = make_batch(n=60), ChainEnergies(ENERGIES["words"], NAMES, 5)
    result = project_chains(batch, energies, strengths(energies, 60), BetheRDA())
    assert result.n_calls <= 1 + 2 * result.n_iter.max() < result.n_iter.sum()


def test_order_by_length():
    order, place = by_length(np.array([0, 3, 4, 6]))
    assert order.tolist() == [1, 2, 0]
    assert order[place].tolist() == [0, 1, 2]


def test_methods_without_batch_support_raise():
    with pytest.raises(NotSupportedError, match=r"BetheDual does not support many.*BetheRDA or BetheMirrorDescent"):
        check_chain_method(intarsia.BetheDual())
    with pytest.raises(NotSupportedError, match=r"^projection must not have energy .*Pass energies= to the estimator"):
        check_chain_method(BetheRDA(energy=at_most_one("x")))


def test_invalid_energies_raise():
    with pytest.raises(InvalidInputError, match=r"psi\[0\] is inf.*forbidden="):
        ChainEnergies(at_most_one("x", psi=np.inf), NAMES, 3)
    with pytest.raises(InvalidInputError, match=r"energies\[1\] is a str, not an energy"):
        ChainEnergies([at_most_one("x"), "y"], NAMES, 3)
    with pytest.raises(InvalidInputError, match="got an empty list"):
        ChainEnergies([], NAMES, 3)
    with pytest.raises(InvalidInputError, match=r"label='z' is not known"):
        ChainEnergies(MeasuredEnergy(Count("z"), Squared()), NAMES, 3)


def test_energy_of_a_missing_position_is_zero():
    fifth = MeasuredEnergy(Count("B-x", variables=[4]), Squared(1.0), psi=2.0)
    energies = ChainEnergies([fifth, MeasuredEnergy(Count("O"), Squared(0.0))], NAMES, 5)
    never, both = np.tile([0.0, 0.0, 0.0, 1.0], (7, 1)), energies.on(np.array([0, 2, 7]))
    values, _ = both.judge(both.read(never, None), np.tile([2.0, 1.0], (2, 1)))
    np.testing.assert_allclose(values, [0.0, 1.0])


@pytest.mark.parametrize("case", ["labels", "runs", "forbidden", "strong"])
def test_compiled_projection_agrees_with_the_general_search(case):
    """Sequences that need a step have equal results; for the others the model without tilt is a fixed point."""
    rng = np.random.default_rng(len(case))
    names = ["a", "b", "c"]
    energies = [
        MeasuredEnergy(Count("b"), SmoothedHinge(1.0)),
        MeasuredEnergy(Count("a") - Count("c"), SmoothedHinge(1.0)),
    ]
    if case == "runs":
        energies = [at_most_one("b"), *energies]
    chains = ChainEnergies(energies, names, 8)
    n_without_step = 0
    for _ in range(20):
        ptr = np.concatenate([[0], np.cumsum(np.sort(rng.integers(1, 9, 6)))])
        transitions = rng.normal(0, 1, (3, 3))
        if case == "forbidden":
            transitions[0, 1] = -np.inf
        batch = ChainBatch(rng.normal(0, 6, (ptr[-1], 3)), ptr, transitions, rng.normal(size=3), rng.normal(size=3))
        psi = rng.exponential(2.0, (6, chains.n_psi)) * (5000.0 if case == "strong" else 1.0)
        method = BetheRDA(max_iter=40)
        compiled = bethe_chains._project_counts(batch, chains, psi, method)
        search = run_search(batch, chains, psi, method)
        tilted = compiled.is_tilted
        n_without_step += int((~tilted).sum())
        np.testing.assert_array_equal(compiled.converged[tilted], search.converged[tilted])
        np.testing.assert_array_equal(compiled.n_iter[tilted], search.n_iter[tilted])
        for name in ("objective", "residual"):
            np.testing.assert_allclose(getattr(compiled, name)[tilted], getattr(search, name)[tilted], atol=1e-8)
        slope, readings = (vector.reshape(6, -1) for vector in (compiled.slope, compiled.readings))
        np.testing.assert_allclose(slope[tilted], search.slope.reshape(6, -1)[tilted], atol=1e-9)
        np.testing.assert_allclose(readings[tilted], search.readings.reshape(6, -1)[tilted], atol=1e-9)
        oracle = bethe_chains.ChainOracle(batch, chains, psi)
        rows = np.repeat(tilted, np.diff(ptr))
        np.testing.assert_allclose(compiled.batch.nodes[rows], oracle.tilted(compiled.slope).nodes[rows], atol=1e-9)
        np.testing.assert_array_equal(compiled.batch.nodes[~rows], batch.nodes[~rows])
        plain, _ = oracle(None)
        after, _ = oracle(oracle.energy.judge(plain, psi)[1])
        assert (np.abs(plain - after).reshape(6, -1)[~tilted] <= method.tol + 1e-12).all()
    assert n_without_step > 0
