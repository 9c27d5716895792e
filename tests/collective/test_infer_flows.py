"""Collective inference, compared with a minimisation over paths, proportional fitting, and other storages."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import gammaln
from tests.oracles.collective_paths import least_objective, proportional_fitting

from intarsia._core.clock import Clock
from intarsia.collective import ExactNoise, GaussianNoise, PoissonNoise, infer_flows, moves_within
from intarsia.collective.problem import CollectiveProblem
from intarsia.collective.search import DualAscent
from intarsia.collective.tables import move_tables
from intarsia.exceptions import ConvergenceWarning, InvalidInputError, NotSupportedError
from intarsia.inference import Status

RATE, SIGMA = 0.7, 3.0


def instance(seed, n_steps=4, n_cells=3, shared=True, missing=0.2):
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(1 if shared else n_steps - 1, n_cells, n_cells))
    scores = rng.normal(size=(n_steps, n_cells))
    counts = rng.poisson(8.0, size=(n_steps, n_cells)).astype(float)
    counts[rng.random(counts.shape) < missing] = np.nan
    return theta, scores, counts


def poisson(counts):
    """Negative log-likelihood and slope from their formulas."""
    seen = ~np.isnan(counts)
    y = np.where(seen, counts, 0.0)

    def value(cells, moves):
        return float((RATE * cells - y * np.log(RATE * cells) + gammaln(y + 1))[seen].sum())

    return value, lambda cells, moves: (np.where(seen, RATE - y / cells, 0.0), np.zeros_like(moves))


def gaussian(counts, flows=None):
    seen = ~np.isnan(counts)
    y = np.where(seen, counts, 0.0)
    constant = 0.5 * np.log(2 * np.pi * SIGMA**2)

    def value(cells, moves):
        total = (0.5 * (RATE * cells - y) ** 2 / SIGMA**2 + constant)[seen].sum()
        if flows is not None:
            total += (0.5 * (RATE * moves - flows) ** 2 / SIGMA**2 + constant).sum()
        return float(total)

    def slope(cells, moves):
        at_moves = np.zeros_like(moves) if flows is None else RATE * (RATE * moves - flows) / SIGMA**2
        return np.where(seen, RATE * (RATE * cells - y) / SIGMA**2, 0.0), at_moves

    return value, slope


NOISES = {"poisson": (PoissonNoise(RATE), poisson), "gaussian": (GaussianNoise(SIGMA, RATE), gaussian)}


@pytest.mark.parametrize("method", ["dual", "mirror_descent"])
@pytest.mark.parametrize("name", ["poisson", "gaussian"])
@pytest.mark.parametrize(("seed", "shared", "weight"), [(0, True, 1.0), (1, False, 1.0), (2, True, 0.3)])
def test_optimum_over_paths_is_reached(method, name, seed, shared, weight):
    theta, scores, counts = instance(seed, shared=shared)
    noise, written_out = NOISES[name]
    result = infer_flows(
        theta, counts, 30.0, noise=noise, scores=scores, method=method, model_weight=weight, tol=1e-12, max_iter=5000
    )
    full = np.broadcast_to(theta, (3, 3, 3))
    least, cells, moves = least_objective(full, scores, 30.0, *written_out(counts), weight)
    assert result.objective == pytest.approx(least, rel=1e-8, abs=1e-6)
    assert result.lower_bound <= result.objective + 1e-9
    assert result.objective - result.lower_bound <= 1e-12 * (1 + abs(result.objective)) + 1e-12
    np.testing.assert_allclose(result.walkers, cells, atol=1e-3)
    for t in range(3):
        np.testing.assert_allclose(result.flows(t), moves[t], atol=1e-3)
    if shared:
        np.testing.assert_allclose(result.sum_of_flows(), moves.sum(axis=0), atol=3e-3)


@pytest.mark.parametrize("method", ["dual", "mirror_descent"])
def test_observed_moves(method):
    theta, scores, counts = instance(5, n_steps=3)
    flows = np.random.default_rng(6).poisson(4.0, size=(2, 3, 3)).astype(float)
    result = infer_flows(
        theta,
        counts,
        30.0,
        noise=GaussianNoise(SIGMA, RATE),
        scores=scores,
        flow_counts=flows,
        method=method,
        tol=1e-11,
    )
    least, _, moves = least_objective(np.broadcast_to(theta, (2, 3, 3)), scores, 30.0, *gaussian(counts, flows))
    assert result.objective == pytest.approx(least, rel=1e-8, abs=1e-6)
    np.testing.assert_allclose(result.flows(1), moves[1], atol=1e-3)


@given(st.integers(0, 10_000))
@settings(max_examples=12, deadline=None, derandomize=True)
def test_exact_counts_equal_proportional_fitting(seed):
    rng = np.random.default_rng(seed)
    theta, scores = rng.normal(size=(1, 3, 3)), rng.normal(size=(3, 3))
    counts = rng.multinomial(20, [0.3, 0.3, 0.4], size=3).astype(float)
    if seed % 3 == 0:
        counts[1] = np.nan
    result = infer_flows(theta, counts, 20.0, noise="exact", scores=scores, tol=1e-9)
    cells, moves = proportional_fitting(np.broadcast_to(theta, (2, 3, 3)), scores, counts, 400)
    np.testing.assert_allclose(result.walkers, cells, atol=1e-5)
    np.testing.assert_allclose(result.flows(0), moves[0], atol=1e-5)
    seen = ~np.isnan(counts)
    np.testing.assert_allclose(result.walkers[seen], counts[seen], atol=1e-6)


def test_without_counts_the_model_is_returned():
    theta, scores, _ = instance(3)
    result = infer_flows(theta, np.full((4, 3), np.nan), 7.0, scores=scores)
    least, cells, _ = least_objective(
        np.broadcast_to(theta, (3, 3, 3)), scores, 7.0, lambda c, m: 0.0, lambda c, m: (0 * c, 0 * m)
    )
    np.testing.assert_allclose(result.walkers, cells, atol=1e-5)
    assert result.objective == pytest.approx(least, abs=1e-7)
    assert (result.n_iter, result.converged) == (0, True)


@pytest.mark.parametrize("reach", [1, 2])
def test_storage_does_not_matter(reach):
    rng = np.random.default_rng(reach)
    s, n_steps = 24, 5
    theta = rng.normal(size=(s, s))
    far = np.abs(np.subtract.outer(np.arange(s), np.arange(s))) > reach
    theta[far] = -np.inf
    order = rng.permutation(s)
    counts = rng.poisson(3.0, size=(n_steps, s)).astype(float)
    counts[2] = np.nan
    tight = {"n_walkers": 70.0, "tol": 1e-11}
    banded = infer_flows(theta, counts, **tight)
    mixed = infer_flows(theta[np.ix_(order, order)], counts[:, order], **tight)
    stored = sparse.coo_array((theta[~far], np.nonzero(~far)), shape=(s, s))
    from_sparse = infer_flows(stored, counts, **tight)
    tables = banded._oracle.tables, mixed._oracle.tables
    assert [one.reach for one in tables] == [reach, None]
    # Extra moves, just enough for dense storage, so improbable that the result does not change.
    dense = infer_flows(np.where(far, -400.0, theta), counts, **tight)
    assert dense._oracle.tables.dense
    for other, back in ((mixed, np.argsort(order)), (from_sparse, slice(None)), (dense, slice(None))):
        assert other.objective == pytest.approx(banded.objective, rel=1e-10)
        np.testing.assert_allclose(other.walkers[:, back], banded.walkers, atol=1e-5)
    flows = [banded.flows(t).toarray() for t in range(n_steps - 1)]
    np.testing.assert_allclose(sum(flows), banded.sum_of_flows().toarray(), atol=1e-9)
    np.testing.assert_allclose(dense.sum_of_flows(), sum(flows), atol=1e-4)
    np.testing.assert_allclose(flows[0].sum(axis=1), banded.walkers[0], atol=1e-9)
    np.testing.assert_allclose(flows[0].sum(axis=0), banded.walkers[1], atol=1e-9)


def test_paths_of_tiny_probability():
    """A walker crosses a line where each step costs 300: only the log domain can represent this."""
    s, n_steps = 20, 6
    theta = np.full((s, s), -np.inf)
    for i in range(s):
        for j in range(max(0, i - 1), min(s, i + 2)):
            theta[i, j] = 0.0 if i == j else -300.0
    scores = np.zeros((n_steps, s))
    scores[0, 1:] = -np.inf
    counts = np.full((n_steps, s), np.nan)
    counts[-1] = 0.0
    counts[-1, 5] = 1.0
    result = infer_flows(theta, counts, 1.0, noise=ExactNoise(), scores=scores)
    np.testing.assert_allclose(result.walkers[np.arange(6), np.arange(6)], 1.0)  # the only path there
    assert result.objective == pytest.approx(5 * 300.0)
    assert result._oracle.logarithmic


def test_log_domain_equals_the_linear_domain():
    theta, scores, counts = instance(7)
    plain = infer_flows(theta, counts, 30.0, scores=scores, tol=1e-11)
    # Equivalent model with an additional state that costs more than the range of doubles.
    wide = np.full((4, 4), -900.0)
    wide[:3, :3] = theta[0]
    more = np.pad(scores, ((0, 0), (0, 1)))
    more[:, 3] = -900.0
    found = infer_flows(wide, np.pad(counts, ((0, 0), (0, 1)), constant_values=np.nan), 30.0, scores=more, tol=1e-11)
    np.testing.assert_allclose(found.walkers[:, :3], plain.walkers, atol=1e-6)
    found._oracle.logarithmic = True
    again = found._oracle(found._messages.scores)
    assert again.log_partition == pytest.approx(found._messages.log_partition, rel=1e-12)
    np.testing.assert_allclose(again.marginals, found.marginals, atol=1e-12)
    np.testing.assert_allclose(found._oracle.sum_of_flows(again, 0), found.sum_of_flows() / 30.0, atol=1e-12)


def test_objective_falls_and_bound_rises():
    theta, scores, counts = instance(8, n_steps=6, n_cells=4)
    for method in ("dual", "mirror_descent"):
        history = infer_flows(theta, counts, 30.0, scores=scores, method=method).history
        assert (np.diff(history["objective"]) <= 1e-9).all()
        assert (np.diff(history["lower_bound"]) >= -1e-9).all()
        assert (history["objective"] >= history["lower_bound"] - 1e-9).all()


def test_counts_of_all_sizes():
    """Relative abundances mix tiny fractions and thousands; both methods must reach the same optimum."""
    rng = np.random.default_rng(3)
    counts = 10.0 ** rng.uniform(-9, 3, size=(6, 12))
    theta = -np.abs(np.subtract.outer(np.arange(12.0), np.arange(12.0)))
    dual = infer_flows(theta, counts, 1000.0)
    mirror = infer_flows(theta, counts, 1000.0, method="mirror_descent", max_iter=20_000, tol=1e-7)
    assert dual.converged
    assert mirror.objective == pytest.approx(dual.objective, rel=1e-6)


def test_model_weight_zero_fits_counts_only():
    counts = np.array([[6.0, 4.0], [5.0, 5.0]])
    result = infer_flows(np.zeros((2, 2)), counts, 10.0, model_weight=0.0, method="mirror_descent", tol=1e-12)
    np.testing.assert_allclose(result.walkers, counts, atol=1e-3)
    with pytest.raises(NotSupportedError, match="model_weight > 0"):
        infer_flows(np.zeros((2, 2)), counts, 10.0, model_weight=0.0)


def test_one_step_and_one_cell():
    # min n log(n / 10) terms + 2 cells: stationarity log n_i - y_i / n_i equal for both cells
    n = infer_flows(np.zeros((2, 2)), [[8.0, 2.0]], 10.0, tol=1e-12).walkers[0]
    assert n.sum() == pytest.approx(10.0)
    assert np.log(n[0]) - 8 / n[0] == pytest.approx(np.log(n[1]) - 2 / n[1], abs=1e-5)
    one = infer_flows([[0.5]], [[3.0], [4.0]], 3.0)
    np.testing.assert_allclose(one.walkers, 3.0)


def test_warm_start_and_limits():
    theta, scores, counts = instance(9, n_steps=8, n_cells=5)
    first = infer_flows(theta, counts, 30.0, scores=scores)
    again = infer_flows(theta, counts, 30.0, scores=scores, warm_start=first)
    assert again.n_iter <= 1
    stopped = infer_flows(theta, counts, 30.0, scores=scores, time_limit=0.0)
    assert stopped.status is Status.TIME_LIMIT
    np.testing.assert_allclose(stopped.marginals.sum(axis=1), 1.0)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        few = infer_flows(theta, counts, 30.0, scores=scores, max_iter=1)
    assert first.objective <= few.objective < np.inf
    with pytest.raises(InvalidInputError, match="warm_start"):
        infer_flows(theta, counts[:, ::-1] * np.nan, 30.0, scores=scores, warm_start=first)


@pytest.mark.parametrize("method", ["dual", "mirror_descent"])
def test_interruption_keeps_the_best(method, monkeypatch):
    from intarsia.collective.problem import CollectiveProblem

    evaluate, calls = CollectiveProblem.evaluate, []

    def interrupted(self, tilt):
        calls.append(1)
        if len(calls) > 3:
            raise KeyboardInterrupt
        return evaluate(self, tilt)

    monkeypatch.setattr(CollectiveProblem, "evaluate", interrupted)
    theta, scores, counts = instance(9, n_steps=8, n_cells=5)
    result = infer_flows(theta, counts, 30.0, scores=scores, method=method)
    assert result.status is Status.INTERRUPTED
    np.testing.assert_allclose(result.marginals.sum(axis=1), 1.0)


def test_infeasible_models():
    nowhere = infer_flows(np.full((2, 2), -np.inf), np.full((3, 2), np.nan), 5.0)
    assert nowhere.status is Status.INFEASIBLE
    with pytest.raises(NotSupportedError, match="no flows"):
        nowhere.flows(0)
    # Both cells are reachable, but not by enough walkers: leaving cell 0 or 1 is impossible.
    stay = [[0.0, -np.inf], [-np.inf, 0.0]]
    apart = infer_flows(stay, [[8.0, 2.0], [2.0, 8.0]], 10.0, noise="exact")
    assert apart.status is Status.INFEASIBLE


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"counts": [[1.0, -1.0], [0.0, 1.0]]}, "a count is -1"),
        ({"counts": [1.0, 2.0]}, "expected an array"),
        ({"counts": [[1.0, 2.0, 3.0]]}, "3 cells, but theta has 2"),
        ({"counts": [[1.0, np.inf], [1.0, 1.0]]}, "must be finite"),
        ({"counts": [[np.nan, 1.0]]}, "Pass n_walkers"),
        ({"counts": [[0.0, 0.0]]}, "Pass n_walkers"),
        ({"n_walkers": 0.0}, "n_walkers must be"),
        ({"noise": "poison"}, "Did you mean 'poisson'"),
        ({"noise": PoissonNoise(rate=0.0)}, "PoissonNoise: rate"),
        ({"method": "newton"}, "method='newton' is not known"),
        ({"theta": np.zeros((2, 3))}, r"table 0 has shape \(2, 3\)"),
        ({"theta": [[np.nan, 0.0], [0.0, 0.0]]}, "NaN"),
        ({"theta": np.zeros((3, 2, 2))}, "3 tables for 1 pairs of steps"),
        ({"table_of_step": [1]}, "table_of_step"),
        ({"scores": np.zeros((3, 2))}, "scores of cells have shape"),
        ({"flow_counts": np.zeros((2, 2))}, "flow_counts has shape"),
        ({"noise": "exact", "n_walkers": 4.0}, "exact counts of step 0 sum to 3"),
        ({"theta": [[0.0, -np.inf], [0.0, -np.inf]]}, r"counts\[1, 1\] is 2, but no possible path"),
    ],
)
def test_invalid_input(change, message):
    arguments = {"theta": np.zeros((2, 2)), "counts": [[1.0, 2.0], [1.0, 2.0]]} | change
    with pytest.raises(InvalidInputError, match=message):
        infer_flows(**arguments)


def test_mirror_descent_rejects_exact_counts():
    with pytest.raises(NotSupportedError, match="method='dual'"):
        infer_flows(np.zeros((2, 2)), [[1.0, 2.0]], noise="exact", method="mirror_descent")


@pytest.mark.parametrize("scale", [1e12, 1e14, 1e16, 1e18])
def test_rounding_errors_at_huge_tilts_are_no_optimum(scale):
    """Objective and dual are differences of huge terms there, and can be computed on the wrong side of the optimum."""
    theta = np.log([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.3, 0.2, 0.5]])
    counts = np.array([[30.0, 40, 30], [10, 20, 70]])
    optimum = infer_flows(theta, counts, 100, tol=1e-10).objective
    tables = move_tables(theta, 2)
    problem = CollectiveProblem(tables, np.zeros((2, 3)), counts, None, 100.0, PoissonNoise(), 1.0)
    rng = np.random.default_rng(0)
    for _ in range(200):
        tilt = scale * rng.standard_normal(6)
        search = DualAscent(problem, problem.evaluate(np.zeros(6)), Clock(None))
        search.consider(problem.evaluate(tilt))
        search.consider(problem.evaluate(-np.abs(tilt)))
        assert search.best_objective > optimum - 1e-6
        assert search.lower < optimum + 1e-6


@pytest.mark.parametrize("seed", [1, 2, 13, 25])
def test_the_dual_starts_again_after_a_failed_line_search(seed):
    """Accurate counts with gaps and sharp moves: the dual is far from quadratic, and the first line search fails."""
    rng = np.random.default_rng(seed)
    positions = np.stack(np.divmod(np.arange(25), 5), axis=1).astype(float)
    moves = moves_within(positions, 2.0, ("stay", "distance"))
    theta = moves.matrix(moves.log_softmax(moves.features @ np.array([2.0, -10.0 - 10.0 * (seed % 3)])))
    counts = 1e5 * rng.dirichlet(np.full(25, 0.1), size=9)
    counts[np.arange(9) % 4 != 0] = np.nan
    settings = {"noise": PoissonNoise(10.0), "tol": 1e-5}
    result = infer_flows(theta, counts, 1e4, **settings)
    assert result.converged
    assert result.objective == pytest.approx(
        infer_flows(theta, counts, 1e4, method="mirror_descent", **settings).objective, rel=2e-5
    )
