"""Checks of energies: convergence of their projection, its gap, and the optimum by enumeration on small instances."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from intarsia._core.settings import clone
from intarsia._core.validation import FloatArray
from intarsia.crf.graph_crf import GraphCRF
from intarsia.crf.graph_energies import labels_of_variables, project_graph
from intarsia.diagnostics.check import BAD, GOOD, UNCLEAR, Check
from intarsia.diagnostics.held_out import compare_errors, make_folds, too_few
from intarsia.energies.binding.batch_energies import bind_members
from intarsia.energies.binding.bound_energy import BoundEnergy
from intarsia.graph import FactorGraph, chain_graph
from intarsia.inference.projection.bethe_projection import BetheProjection
from intarsia.sequences.chain_crf import ChainCRF
from intarsia.sequences.chain_data import ChainScores, make_truth, read_chain_labels
from intarsia.sequences.constraints.chain_rules import chains_of

# Instances with at most so many labellings are compared with the optimum by enumeration.
MAX_LABELLINGS = 1024
# Objectives, in nats, that differ by more differ clearly.
_CLEAR_SHORTFALL = 0.05
_MAX_STEPS = 2000


class Projection(NamedTuple):
    """One instance: scores of a graph, the energy with its psi, and the method that computes marginals under it."""

    graph: FactorGraph
    theta: FloatArray
    energy: BoundEnergy
    method: BetheProjection


def projections_of(fitted: Any, X: Any) -> list[Projection]:
    """Return the projections by which a fitted estimator with energies predicts."""
    if isinstance(fitted, GraphCRF):
        maps, classes = fitted._read_for_prediction(X, None)[1], fitted._class_table()
        energies: Any = fitted.energies_
        tilted = energies.add_energies(maps, [labels_of_variables(scores, classes) for scores in maps])
        return [Projection(t.graph, t.scores.theta(fitted.weights_), t.energy, t.method) for t in tilted]
    data, energies = fitted._read(X, None), fitted.energies_
    scores = ChainScores(data, fitted.layout_, fitted.constraints_)
    method = clone(energies.method).set_params(oracle="tree")
    members, sizes, classes = energies.energies.members, energies.energies.sizes, fitted.classes_.tolist()
    result = []
    batch = scores.batch(fitted.weights_, 0, len(data.lengths))
    for chain, psi in zip(chains_of(batch), energies.strengths(data), strict=True):
        length, k = chain.nodes.shape
        graph = chain_graph(length, k)
        tables = np.broadcast_to(chain.tables, (length - 1, k, k))
        theta = np.concatenate([chain.nodes.ravel(), tables.ravel()])
        energy = bind_members(members, sizes, graph, classes).with_psi(psi)
        result.append(Projection(graph, theta, energy, method))
    return result


def check_projections(projections: Sequence[Projection]) -> Check:
    """Check convergence and gaps of projections, and compare those of small instances with enumeration.

    Bad: a small instance has a clearly better objective, or most instances do not converge. Good: all converge, and the
    energy is convex, so that a fixed point is the optimum, or all agree with enumeration.
    """
    converged, gaps, shortfalls, is_convex = [], [], [], []
    for graph, theta, energy, method in projections:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = project_graph(graph, theta, energy, method)
        if result.mu is None or result.log_partition is None:
            continue
        converged.append(result.converged)
        is_convex.append(energy.convex)
        if energy.convex and np.isfinite(result.upper_bound):
            gaps.append(max(0.0, result.upper_bound - result.log_partition))
        if graph.is_forest and float(np.prod(graph.n_states, dtype=np.float64)) <= MAX_LABELLINGS:
            shortfalls.append(best_by_enumeration(graph, theta, energy) - result.log_partition)
    n, n_converged = len(converged), sum(converged)
    values = {
        "n": float(n),
        "converged": n_converged / max(1, n),
        "convex": float(all(is_convex)),
        "largest gap": max(gaps, default=np.nan),
        "largest shortfall": max(shortfalls, default=np.nan),
    }
    text = f"{n_converged} of {n} projections converge; the energy is " + ("" if all(is_convex) else "not ") + "convex"
    if gaps:
        text += f", and the objective is at most {values['largest gap']:.2g} below its optimum"
    if shortfalls:
        text += f"; on {len(shortfalls)} small instances enumeration finds up to {max(shortfalls):.2g} more"
    is_exact = bool(shortfalls) and max(shortfalls) <= _CLEAR_SHORTFALL
    verdict = UNCLEAR
    if (shortfalls and not is_exact) or 2 * n_converged < n:
        verdict = BAD
    elif n and n_converged == n and (all(is_convex) or (is_exact and len(shortfalls) == n)):
        verdict = GOOD
    return Check("projection", verdict, text, values, {"gap": np.array(gaps)})


def best_by_enumeration(graph: FactorGraph, theta: FloatArray, energy: BoundEnergy) -> float:
    """Return the highest <theta, mu> + H - L(mu) that mirror descent finds over all distributions of labellings."""
    labellings = np.array(list(itertools.product(*(range(n) for n in graph.n_states.tolist()))))
    statistics = np.array([graph.statistics(y) for y in labellings])
    statistics = statistics[~(statistics[:, theta == -np.inf] > 0).any(axis=1)]
    scores = statistics @ np.where(theta == -np.inf, 0.0, theta)

    def evaluate(log_p: FloatArray) -> tuple[float, FloatArray]:
        p = np.exp(log_p)
        value, slope = energy.judge(energy.read(p @ statistics))
        return float(p @ (scores - log_p)) - value, scores - statistics @ energy.spread(slope, theta.size)

    log_p, step = scores - np.logaddexp.reduce(scores), 1.0
    value, target = evaluate(log_p)
    for _ in range(_MAX_STEPS):
        new = (1.0 - step) * log_p + step * target
        new -= np.logaddexp.reduce(new)
        new_value, new_target = evaluate(new)
        if new_value > value:
            log_p, value, target, step = new, new_value, new_target, min(1.0, 1.5 * step)
        elif step < 1e-8:
            break
        else:
            step *= 0.5
    return value


def held_out_chains(crf: ChainCRF, X: Sequence[Any], y: Sequence[Any], classes: Any, random_state: int) -> Check:
    """Compare a chain model on held-out sequences with the most frequent label and with a model of single positions."""
    if len(X) < 2:
        return too_few()
    wrong = {name: np.zeros(len(X)) for name in ("model", "majority", "independent")}
    sizes = np.zeros(len(X))
    model = clone(crf).set_params(classes=classes)
    alone = clone(model).set_params(energies=None, require=None, scheme=None, forbidden=None, ends=False, decode="map")
    for train, test in make_folds(len(X), random_state):
        train_X, train_y = [X[i] for i in train], [y[i] for i in train]
        model.fit(train_X, train_y)
        pairs = [(x[t : t + 1], labels[t : t + 1]) for x, labels in zip(train_X, train_y, strict=True)
                 for t in range(len(labels))]  # fmt: skip
        alone.fit([x for x, _ in pairs], [labels for _, labels in pairs])
        masks = np.concatenate([_possible(model, x, labels) for x, labels in zip(train_X, train_y, strict=True)])
        majority = int(masks[masks.sum(axis=1) == 1].sum(axis=0).argmax())
        for i in test:
            possible = _possible(model, X[i], y[i])
            single = [X[i][t : t + 1] for t in range(len(y[i]))]
            predictions = {
                "model": model.predict([X[i]])[0],
                "independent": np.concatenate([alone.classes_[:0], *alone.predict(single)]),
                "majority": np.repeat(model.classes_[majority], len(y[i])),
            }
            sizes[i] = (~possible.all(axis=1)).sum()
            for name, labels in predictions.items():
                states = np.searchsorted(model.classes_, labels)
                wrong[name][i] = (~possible[np.arange(states.size), states]).sum()
    return compare_errors(wrong, sizes)


def _possible(model: ChainCRF, x: Any, labels: Any) -> Any:
    """Return which labels (length, n_labels) agree with those of one sequence."""
    data = model._read([x], None)
    return make_truth(read_chain_labels([labels], data), model.classes_, np.ones(1)).possible(model.classes_.size)
