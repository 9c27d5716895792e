"""The truncated log-partition function, and its gradient: what truncated likelihood and EM are made of."""

from __future__ import annotations

import numpy as np

from intarsia._validation import FloatArray
from intarsia.gradients.appearance import factor_weights
from intarsia.gradients.rule import Judge
from intarsia.gradients.state_positions import state_positions
from intarsia.gradients.truncated import TruncatedGradient
from intarsia.graph import FactorGraph
from intarsia.inference.mean_field import MeanField
from intarsia.inference.method import InferenceMethod
from intarsia.inference.registry import resolve_method


def truncated_log_partition(
    graph: FactorGraph, theta: FloatArray, inference: str | InferenceMethod, n_iter: int
) -> tuple[float, FloatArray]:
    r"""Value :math:`\langle\theta, \mu_N\rangle + \tilde H(\mu_N)` of the marginals after N sweeps, with its gradient.

    This is what a truncated run says of log Z; the truncated likelihood of labels y is `theta @ statistics(y)` minus
    it, and truncated EM the difference of two, clamped and free. With too few sweeps it may lie below the score of y,
    so that the likelihood exceeds 1. At convergence the gradient is mu itself; before, there is a part through mu_N.

    Parameters
    ----------
    graph : FactorGraph
        In learning form.
    theta : (graph.n_theta,) array
        Scores.
    inference : str or InferenceMethod
        Mean field, belief propagation or tree-reweighted, at temperature 1.
    n_iter : int
        Sweeps.

    Returns
    -------
    value : float
        -inf when the model is infeasible.
    gradient : (graph.n_theta,) array

    References
    ----------
    Domke2013, section 7.3 (with plus, not minus, before the entropy).

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(3, 2)
    >>> value, gradient = truncated_log_partition(graph, graph.zeros(), "belief_propagation", 2)
    >>> round(value, 6), gradient[:2].tolist()                # 3 log 2
    (2.079442, [0.5, 0.5])
    """
    method = resolve_method(inference, {}) if isinstance(inference, str) else inference
    rule = TruncatedGradient(n_iter=n_iter)
    rule.check_fits(method)
    scores = graph.check_theta(theta)
    temperature = 1.0 if method.temperature is None else float(method.temperature)
    if isinstance(method, MeanField):
        rho = np.zeros(graph.n_factors)
    else:
        rho = factor_weights(graph, method)
    judge = Judge(lambda mu: free_energy(graph, scores, mu, rho, temperature), uses_factors=True)
    found = rule.differentiate(graph, scores, judge, method)
    if found.mu is None:
        return -np.inf, found.gradient
    return found.value, found.gradient + found.mu


def free_energy(
    graph: FactorGraph, theta: FloatArray, mu: FloatArray, rho: FloatArray, temperature: float = 1.0
) -> tuple[float, FloatArray]:
    """Give `<theta, mu> + T H~(mu)` with H~ = sum_i H(mu_i) - sum_c rho_c I(mu_c), and its gradient in mu.

    Domke2013 Eqs. (13), (16) and (17); rho = 0 is mean field. I is taken against the variables' marginals, as in
    `inference`, although those of factors may differ before convergence. Where mu is 0 so is the gradient.
    """
    possible = mu > 0.0
    logs = np.log(mu, where=possible, out=np.zeros(mu.size))
    entropy_slope = np.where(possible, -logs - 1.0, 0.0)
    split = int(graph.variable_ptr[-1])
    value = -float(mu[:split] @ logs[:split])
    if graph.n_factors and rho.any():
        factor = np.repeat(np.arange(graph.n_factors), np.diff(graph.table_ptr))
        weight = rho[factor]
        table, alive = mu[split:], possible[split:]
        log_ratio = logs[split:].copy()  # log mu_c - sum of log mu_i
        expected = np.zeros(split)  # sum over factors of rho_c mu_c(x_i)
        for position in state_positions(graph, factor):
            here = position >= 0
            log_ratio[here] -= logs[position[here]]
            expected += np.bincount(position[here], (weight * table)[here], minlength=split)
        log_ratio[~alive] = 0.0
        value -= float((weight * table) @ log_ratio)
        entropy_slope[split:] = np.where(alive, -weight * (log_ratio + 1.0), 0.0)
        own = possible[:split]
        entropy_slope[:split][own] += expected[own] / mu[:split][own]
    else:
        entropy_slope[split:] = 0.0
    score_slope = np.where(possible, theta, 0.0)
    return float(mu @ score_slope) + temperature * value, score_slope + temperature * entropy_slope
