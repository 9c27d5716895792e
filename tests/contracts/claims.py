"""Check the claims of an inference result against enumeration, and list those that are false."""

from __future__ import annotations

import numpy as np

from intarsia import Status
from intarsia.inference import method_class

SUMS = 1e-12  # tolerance for the sum of a distribution
EXACT = 1e-12  # relative to max(|log Z|, 1): log Z of exact methods
AGREE = 2e-11  # marginals of factors and variables, at any tolerance
BOUND = 1e-9  # relative to the scores: bounds, and scores that are claimed to be optimal


def settings_of(method):
    """Return the settings with which a method is tested: every schedule, several values of damping, other options."""
    parameters = method_class(method)().get_params()
    if "schedule" in parameters:
        return [
            {"schedule": schedule, "damping": damping}
            for schedule in ("forward_backward", "parallel", "residual")
            for damping in (0.0, 0.3, 0.9)
        ] + [{"tol": 1e-4, "schedule": "residual", "damping": 0.5}, {"tol": 1e-5}]
    if "random_start" in parameters:
        return [{}, {"random_start": True}]
    if "longest_cycle" in parameters:
        return [{}, {"longest_cycle": 4}]
    if "n_chains" in parameters:
        return [{"max_iter": 400}, {"max_iter": 400, "block": "single"}]
    return [{}]


def broken_claims(result, graph, theta, truth):
    """Return a message for each claim of the result that enumeration refutes."""
    broken = []
    exact_method = method_class(result.method.name).exact
    feasible = truth.scores.size > 0
    size = max(1.0, float(np.abs(theta[np.isfinite(theta)]).max(initial=0.0)))
    if result.status is Status.INFEASIBLE:
        return [f"INFEASIBLE, but {truth.scores.size} labellings are possible"] if feasible else []
    if not feasible:
        if exact_method or result.method.proves_map or result.status is Status.EXACT:
            broken.append(f"{result.status.name}, but no labelling is possible")
        if result.lower_bound > -np.inf:
            broken.append(f"lower bound {result.lower_bound}, but no labelling is possible")
        return broken
    if result.score > truth.best_score + BOUND * size:
        broken.append(f"score {result.score} above the best, {truth.best_score}")
    if result.task == "map":
        broken += _broken_map(result, truth, size, exact_method)
    else:
        broken += _broken_log_partition(result, truth, size, exact_method)
        broken += _broken_marginals(result, graph, truth, exact_method)
    return broken


def _broken_map(result, truth, size, exact_method):
    best, slack = truth.best_score, BOUND * max(size, abs(truth.best_score))
    broken = []
    if result.lower_bound > best + slack:
        broken.append(f"lower bound {result.lower_bound} above the best score {best}")
    if result.upper_bound < best - slack:
        broken.append(f"upper bound {result.upper_bound} below the best score {best}")
    if result.status is Status.EXACT and not abs(result.score - best) <= slack:
        broken.append(f"EXACT, but {result.score} is not the best score {best}")
    if (exact_method or result.method.proves_map) and result.status is not Status.EXACT:
        broken.append(f"{result.status.name}, but the method proves its labelling: EXACT")
    if result.upper_bound - result.score <= slack and result.status is Status.CONVERGED:
        broken.append(f"CONVERGED, but the score {result.score} meets its bound: EXACT")
    if result.status is Status.CONVERGED and result.integral and result.method.name == "lp_relaxation":
        broken.append("CONVERGED with an integral optimum: EXACT")
    return broken


def _broken_log_partition(result, truth, size, exact_method):
    value, exact = result.log_partition, truth.log_partition
    slack = BOUND * max(size, abs(exact))
    broken = []
    if value is not None and np.isnan(value):
        broken.append("log Z is NaN")
    if result.log_partition_is == "exact":
        tight = EXACT * max(abs(exact), 1.0 if exact_method else size)
        if not abs(value - exact) <= tight:
            broken.append(f"log Z {value!r} is exact, but off by {abs(value - exact) / max(abs(exact), 1.0):.1e}")
    if result.log_partition_is == "lower bound" and value > exact + slack:
        broken.append(f"log Z {value} is not a lower bound of {exact}")
    if result.log_partition_is == "upper bound" and value < exact - slack:
        broken.append(f"log Z {value} is not an upper bound of {exact}")
    if result.lower_bound > exact + slack or result.upper_bound < exact - slack:
        broken.append(f"bounds {result.lower_bound}, {result.upper_bound} do not enclose {exact}")
    return broken


def _broken_marginals(result, graph, truth, exact_method):
    broken = []
    sums = [abs(result.marginals(v).sum() - 1.0) for v in range(graph.n_variables)]
    joints = [result.factor_marginals(c) for c in range(graph.n_factors)]
    sums += [abs(joint.sum() - 1.0) for joint in joints]
    if not max(sums) <= SUMS:
        broken.append(f"sums of marginals differ from 1 by {max(sums):.1e}")
    if result.mu.min() < 0.0:
        broken.append(f"a marginal is negative: {result.mu.min():.1e}")
    if exact_method or result.status is Status.EXACT:
        gap = float(np.abs(result.mu - truth.mu).max())
        if gap > 1e-9:
            broken.append(f"EXACT, but marginals are off by {gap:.1e}")
    if not result.converged:
        return broken
    worst = 0.0
    for c, joint in enumerate(joints):
        scope = graph.scope(c).tolist()
        for axis, v in enumerate(scope):
            marginal = joint.sum(axis=tuple(a for a in range(len(scope)) if a != axis))
            worst = max(worst, float(np.abs(marginal - result.marginals(v)).max()))
    # Sampling counts joint states, so its marginals of factors and variables agree exactly.
    tol = 0.0 if result.mu_error is not None or exact_method else float(result.method.tol)
    if worst > max(1.001 * tol, AGREE):
        broken.append(f"{result.status.name}, but factors and variables differ by {worst:.1e}")
    return broken
