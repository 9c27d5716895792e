"""The free energy of given marginals, the weights rho it needs, and what a truncated run says of log Z."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from intarsia._core.validation import FloatArray, IntArray
from intarsia.exceptions import InvalidInputError
from intarsia.gradients.rule import GradientResult, GradientRule, Judge
from intarsia.graph import FactorGraph
from intarsia.graph.spanning_trees import check_appearance, stored_appearance
from intarsia.inference.messages.mean_field import MeanField
from intarsia.inference.messages.tree_reweighted import TreeReweighted
from intarsia.inference.method import InferenceMethod


def factor_weights(graph: FactorGraph, inference: InferenceMethod) -> FloatArray:
    """Give rho of every factor: 1 for belief propagation; given, or computed once for a graph, for tree-reweighted."""
    if not isinstance(inference, TreeReweighted):
        return np.ones(graph.n_factors)
    if inference.rho is None:
        return stored_appearance(graph)
    given = np.asarray(inference.rho, dtype=float)
    if given.ndim and given.shape != (graph.n_factors,):
        raise InvalidInputError(
            f"TreeReweighted: rho has shape {given.shape}, but the graph in learning form has {graph.n_factors} "
            f"factors. Give one value for each of these, or one for all."
        )
    return check_appearance(graph, np.broadcast_to(given, (graph.n_factors,)).copy())


def state_positions(graph: FactorGraph, factor: IntArray) -> list[IntArray]:
    """For each axis, the last one first: position among the variables' states of every table entry.

    `factor` is the factor of each entry; -1 stands where a factor has no such axis.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> state_positions(chain_graph(2, 2), np.zeros(4, dtype=int))
    [array([2, 3, 2, 3]), array([0, 0, 1, 1])]
    """
    within = np.arange(factor.size) + graph.table_ptr[0] - graph.table_ptr[factor]
    widths = np.diff(graph.scope_ptr)[factor]
    positions = []
    rest = within.copy()
    for back in range(graph.max_scope):  # from the last axis, which runs fastest
        there = widths > back
        variable = graph.scope_idx[np.where(there, graph.scope_ptr[factor + 1] - 1 - back, 0)]
        states = graph.n_states[variable]
        positions.append(np.where(there, graph.variable_ptr[variable] + rest % states, -1))
        rest = np.where(there, rest // states, rest)
    return positions


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
