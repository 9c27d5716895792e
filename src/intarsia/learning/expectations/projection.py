"""Projection of the posterior of a whole corpus onto expectations, through the dual problem."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intarsia._core.validation import FloatArray
from intarsia.exceptions import InvalidInputError
from intarsia.learning.expectations.corpus import BoundExpectations, Corpus, Moments

# Violation of a hard constraint, relative to its size, that means that no distribution satisfies it.
_INFEASIBLE = 1e-3


@dataclass(frozen=True, eq=False)
class Projection:
    """Result of `project`.

    Attributes
    ----------
    multipliers : (n_terms,) float array
        Optimal multipliers.
    moments : Moments
        Sums of the projected distribution q, which is the model with scores reduced by the tilt of the multipliers.
    value : float
        Maximum of the dual: minimum of `-<theta, mu> - H(q) + sum_j psi_j f_j(a_j . mu)`.
    residual : float
        Largest entry of the scaled projected gradient of the dual.
    n_iter : int
        Number of evaluations, each a pass over the corpus.
    """

    multipliers: FloatArray
    moments: Moments
    value: float
    residual: float
    n_iter: int


def project(
    corpus: Corpus,
    weights: FloatArray,
    expectations: BoundExpectations,
    start: FloatArray | None = None,
    *,
    max_iter: int = 200,
    tol: float = 1e-8,
) -> Projection:
    r"""Project the posterior of all examples together onto the expectations.

    The projected distribution minimizes :math:`\sum_s KL(q_s \| p_s) + \sum_j \psi_j f_j(\sum_s a_{js} \cdot \mu_s)`
    over all distributions (Vilnis2015 Eq. 2). The dual has one multiplier per term, however many examples there are,

    .. math:: \max_\lambda\; -\sum_s \log Z_s(\theta_s - A_s^\top \lambda) - \sum_j (\psi_j f_j)^*(\lambda_j),

    and L-BFGS-B maximizes it with multipliers scaled by the norms of the measurements. With exact inference the result
    is exact.

    Parameters
    ----------
    corpus : Corpus
        Examples, of which labelled positions keep their labels.
    weights : float array
        Weights of the model.
    expectations : BoundExpectations
        Expectations on the corpus.
    start : float array, optional
        Initial multipliers; by default 0.
    max_iter : int
        Maximum number of evaluations of the dual.
    tol : float
        Stop when no entry of the scaled projected gradient is larger, relative to 1 plus the largest one at the start.

    Raises
    ------
    InvalidInputError
        If no distribution satisfies the hard constraints; the message names one.
    """
    from scipy.optimize import Bounds, minimize

    functions, psi, scale = expectations.functions, expectations.psi, expectations.scale
    low, high = (np.where(psi > 0.0, ends, 0.0) for ends in functions.bounds(psi))  # without weight, no multiplier
    latest: dict[bytes, Moments] = {}
    count = 0

    def dual(scaled: FloatArray) -> tuple[float, FloatArray]:
        nonlocal count
        count += 1
        multipliers = np.clip(scaled / scale, low, high)
        moments = corpus.moments(weights, expectations.tilt(multipliers), clamped=True)
        latest.clear()
        latest[multipliers.tobytes()] = moments
        value = moments.log_partition + float(functions.conjugate(multipliers, psi).sum())
        gradient = functions.conjugate_derivative(multipliers, psi) - expectations.values(moments.marginals)
        return value, gradient / scale

    first = np.clip(np.zeros(psi.size) if start is None else start, low, high) * scale
    bounds = Bounds(low * scale, high * scale)
    result = minimize(
        dual, first, jac=True, method="L-BFGS-B", bounds=bounds,
        options={"maxiter": max_iter, "maxfun": max_iter, "ftol": 0.0, "gtol": tol, "maxcor": 20, "maxls": 40},
    )  # fmt: skip
    multipliers = np.clip(result.x / scale, low, high)
    moments_of_result = latest.get(multipliers.tobytes())
    if moments_of_result is None:
        value, gradient = dual(result.x)
        moments_of_result = next(iter(latest.values()))
    else:
        value, gradient = float(result.fun), np.asarray(result.jac)
    step = np.clip(result.x - gradient, bounds.lb, bounds.ub) - result.x
    _check_feasible(expectations, expectations.values(moments_of_result.marginals))
    return Projection(multipliers, moments_of_result, -value, float(np.abs(step).max(initial=0.0)), count)


def _check_feasible(expectations: BoundExpectations, values: FloatArray) -> None:
    """Raise if a hard constraint is violated although its multiplier was increased as far as possible."""
    size = np.maximum(np.where(np.isfinite(expectations.low), np.abs(expectations.low), 0.0), 1.0)
    violation = np.where(np.isinf(expectations.psi), expectations.violations(values) / size, 0.0)
    worst = int(np.argmax(violation)) if violation.size else 0
    if violation.size and violation[worst] > _INFEASIBLE:
        raise InvalidInputError(
            f"hard expectations cannot be satisfied: {expectations.names[worst]} is {values[worst]:.4g}, but must be "
            f"in [{expectations.low[worst]:.4g}, {expectations.high[worst]:.4g}]. Other hard expectations, the labels "
            f"or forbidden transitions contradict it; correct them, or set a finite strength."
        )
