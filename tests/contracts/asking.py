"""Run inference methods for the contract tests, and check results against their own claims (exact, bound, estimate)."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pytest
from tests.oracles.enumeration import enumerate_model
from tests.zoo import ATTRACTIVE, FORESTS, INFEASIBLE, ZOO

import intarsia
from intarsia.exceptions import ConvergenceWarning
from intarsia.inference import method_class, method_names

METHODS = method_names()
FEASIBLE = [name for name in ZOO if name not in INFEASIBLE]
# Models without shared tables and ties, on which a result must change together with the model.
PLAIN = ["isolated_node", "chain", "tree", "grid", "three_way_factor", "unequal_state_counts", "hard_zeros"]
# Methods that accept only some models; for others they raise with a reason, which is tested as well.
TAKES = {"tree": FORESTS, "graph_cut": ATTRACTIVE}
SEED = 7


def plain_model(method):
    """Return the name of a model that the method accepts."""
    return next(model for model in ("chain", "grid") if model in TAKES.get(method, ZOO))


def ask(graph, theta, method, task="marginals", **options):
    """Return the result of `infer` without convergence warnings; the status reports them as well."""
    options.setdefault("random_state", SEED)
    if task == "marginals" and not method_class(method).gives_marginals:
        task = "map"
    if task == "map" and not method_class(method).gives_map:
        task = "marginals"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return intarsia.infer(graph, theta, method, task, **options)


@functools.cache
def solve(method, model, task="marginals"):
    return ask(*ZOO[model](), method, task)


@functools.cache
def truth_of(model, temperature=1.0):
    return enumerate_model(*ZOO[model](), temperature=temperature)


def slack(result, at=None):
    """Return the allowed error of mu: rounding, the tolerance, or the Monte Carlo error."""
    if result.mu_error is not None:
        error = result.mu_error if at is None else result.mu_error[at]
        return 6 * np.max(error, initial=0.0) + 0.02
    return 1e-9 if result.method.exact else 1e-4


def all_numbers(result):
    """Yield every number in a result, with the name of its field."""
    for name in ("mu", "assignment", "samples", "best", "best_scores", "mu_error", "messages", "tilted_theta"):
        value = getattr(result, name)
        if value is not None:
            yield name, np.asarray(value)
    for name in ("score", "log_partition", "lower_bound", "upper_bound", "residual", "seconds", "r_hat"):
        value = getattr(result, name)
        if value is not None:
            yield name, np.asarray(value)
    for name, value in result.history.items():
        yield f"history[{name!r}]", np.asarray(value)


def on(models):
    """Parametrise a test over the methods and the models that each accepts."""
    pairs = [(method, model) for method in METHODS for model in models if model in TAKES.get(method, ZOO)]
    return pytest.mark.parametrize(("method", "model"), pairs)


every_method = pytest.mark.parametrize("method", METHODS)
every_task = pytest.mark.parametrize("task", ["marginals", "map"])


def check_log_partition(result, truth):
    """Check log Z against its claim: exact, a bound or an estimate."""
    value, exact = result.log_partition, truth.log_partition
    tiny = 1e-9 * max(1.0, abs(exact)) if np.isfinite(exact) else 0.0
    match result.log_partition_is:
        case None:
            assert value is None
        case "exact":
            assert value == pytest.approx(exact, abs=tiny)
        case "lower bound":
            assert value <= exact + tiny
        case "upper bound":
            assert value >= exact - tiny
        case "estimate":
            assert not np.isnan(value)
        case unknown:
            pytest.fail(f"log_partition_is={unknown!r} is not 'exact', 'lower bound', 'upper bound' or 'estimate'")
    assert result.lower_bound <= exact + tiny
    assert result.upper_bound >= exact - tiny
    promised = type(result.method).log_partition_is
    if result.converged and promised in ("exact", "lower bound", "upper bound"):
        assert result.log_partition_is in (promised, "exact")
    if promised == "lower bound":  # holds at every sweep, not only at convergence
        assert result.log_partition_is in ("lower bound", "exact")
