"""The free energy of given marginals, and what a truncated run says of log Z."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from intarsia._validation import FloatArray
from intarsia.gradients.appearance import factor_weights
from intarsia.gradients.rule import GradientResult, GradientRule, Judge
from intarsia.gradients.state_positions import state_positions
from intarsia.graph import FactorGraph
from intarsia.inference.mean_field import MeanField
from intarsia.inference.method import InferenceMethod


def free_energy_found(
    rule: GradientRule, graph: FactorGraph, theta: FloatArray, method: InferenceMethod
) -> GradientResult:
    """The free energy of the marginals that a rule differentiates, as a function of theta; -inf when infeasible."""
    scores = graph.check_theta(theta)
    temperature = 1.0 if method.temperature is None else float(method.temperature)
    rho = np.zeros(graph.n_factors) if isinstance(method, MeanField) else factor_weights(graph, method)
    judge = Judge(lambda mu: free_energy(graph, scores, mu, rho, temperature), uses_factors=True)
    found = rule.differentiate(graph, scores, judge, method)
    if found.mu is None:
        return replace(found, value=-np.inf)
    return replace(found, gradient=found.gradient + found.mu)  # theta stands in the energy itself, too


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
