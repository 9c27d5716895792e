"""Free energy of marginals, the factor weights rho it needs, and its gradient through truncated inference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from intarsia._core.validation import FloatArray, IntArray
from intarsia.exceptions import InvalidInputError
from intarsia.gradients.rule import GradientResult, GradientRule, LossFunction
from intarsia.graph import FactorGraph
from intarsia.graph.spanning_trees import check_appearance, stored_appearance
from intarsia.inference.messages.mean_field import MeanField
from intarsia.inference.messages.tree_reweighted import TreeReweighted
from intarsia.inference.method import InferenceMethod


def factor_weights(graph: FactorGraph, inference: InferenceMethod) -> FloatArray:
    """Return rho of every factor: 1 for belief propagation; the setting, or spanning-tree weights, otherwise."""
    if not isinstance(inference, TreeReweighted):
        return np.ones(graph.n_factors)
    if inference.rho is None:
        return stored_appearance(graph)
    rho = np.asarray(inference.rho, dtype=float)
    if rho.ndim and rho.shape != (graph.n_factors,):
        raise InvalidInputError(
            f"TreeReweighted: rho has shape {rho.shape}, but the graph in learning form has {graph.n_factors} "
            f"factors. Pass one value per factor, or a single number."
        )
    return check_appearance(graph, np.broadcast_to(rho, (graph.n_factors,)).copy())


def state_positions(graph: FactorGraph, factor: IntArray) -> list[IntArray]:
    """Return for each axis, the last one first, the position of every table entry among the states of the variables.

    `factor` is the factor of each entry; the position is -1 if a factor has no such axis.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> state_positions(chain_graph(2, 2), np.zeros(4, dtype=int))
    [array([2, 3, 2, 3]), array([0, 0, 1, 1])]
    """
    offset = np.arange(factor.size) + graph.table_ptr[0] - graph.table_ptr[factor]
    widths = np.diff(graph.scope_ptr)[factor]
    positions = []
    remaining = offset.copy()
    for axis in range(graph.max_scope):  # from the last axis, which runs fastest
        has_axis = widths > axis
        variable = graph.scope_idx[np.where(has_axis, graph.scope_ptr[factor + 1] - 1 - axis, 0)]
        states = graph.n_states[variable]
        positions.append(np.where(has_axis, graph.variable_ptr[variable] + remaining % states, -1))
        remaining = np.where(has_axis, remaining // states, remaining)
    return positions


def differentiate_free_energy(
    rule: GradientRule, graph: FactorGraph, theta: FloatArray, method: InferenceMethod
) -> GradientResult:
    """Return the free energy of the marginals that a rule differentiates, and its gradient; -inf if infeasible."""
    scores = graph.check_theta(theta)
    temperature = 1.0 if method.temperature is None else float(method.temperature)
    rho = np.zeros(graph.n_factors) if isinstance(method, MeanField) else factor_weights(graph, method)
    loss_function = LossFunction(lambda mu: free_energy(graph, scores, mu, rho, temperature), uses_factors=True)
    result = rule.differentiate(graph, scores, loss_function, method)
    if result.mu is None:
        return replace(result, value=-np.inf)
    return replace(result, gradient=result.gradient + result.mu)  # the energy also depends on theta directly


def free_energy(
    graph: FactorGraph, theta: FloatArray, mu: FloatArray, rho: FloatArray, temperature: float = 1.0
) -> tuple[float, FloatArray]:
    """Return `<theta, mu> + T H~(mu)` with H~ = sum_i H(mu_i) - sum_c rho_c I(mu_c), and its gradient in mu.

    Domke2013 Eqs. (13), (16) and (17); rho = 0 is mean field. I is computed with the marginals of the variables, as in
    `inference`, although those of factors may differ before convergence. The gradient is 0 where mu is 0.
    """
    possible = mu > 0.0
    logs = np.log(mu, where=possible, out=np.zeros(mu.size))
    entropy_slope = np.where(possible, -logs - 1.0, 0.0)
    split = int(graph.variable_ptr[-1])
    value = -float(mu[:split] @ logs[:split])
    if graph.n_factors and rho.any():
        factor = np.repeat(np.arange(graph.n_factors), np.diff(graph.table_ptr))
        weight = rho[factor]
        table, possible_entry = mu[split:], possible[split:]
        log_ratio = logs[split:].copy()  # log mu_c - sum of log mu_i
        expected = np.zeros(split)  # sum over factors of rho_c mu_c(x_i)
        for position in state_positions(graph, factor):
            has_axis = position >= 0
            log_ratio[has_axis] -= logs[position[has_axis]]
            expected += np.bincount(position[has_axis], (weight * table)[has_axis], minlength=split)
        log_ratio[~possible_entry] = 0.0
        value -= float((weight * table) @ log_ratio)
        entropy_slope[split:] = np.where(possible_entry, -weight * (log_ratio + 1.0), 0.0)
        possible_state = possible[:split]
        entropy_slope[:split][possible_state] += expected[possible_state] / mu[:split][possible_state]
    else:
        entropy_slope[split:] = 0.0
    score_slope = np.where(possible, theta, 0.0)
    return float(mu @ score_slope) + temperature * value, score_slope + temperature * entropy_slope
