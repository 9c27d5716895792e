"""Reasons behind results of learning with latent variables: rules that lose their weight, and step sizes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np

from intarsia.exceptions import ConvergenceWarning
from intarsia.softlogic import ConsensusADMM, PairedDual, PairedProblem, ProjectedSubgradient, evaluate_history
from intarsia.softlogic.learning.learner import spread_rows
from intarsia.softlogic.learning.side_run import SideRun
from intarsia_reproduction.experiment import Finding
from intarsia_reproduction.models.soft_rules.latent_learning import Comparison

LINK_FIGURES = ("AuPR", "weight of the link rule", "violations, labels clamped", "violations, labels free")


def learn_last_rule(comparison: Comparison, weight: float) -> Finding:
    """Learn the weight of the last rule too, and compute its violations in both problems at the given weight."""
    rows = []
    for k in range(comparison.n_folds):
        fold = comparison.folds(k)
        fit = comparison.learner("paired_1").fit(fold.model, fold.labels)
        weights = fit.history["weights"][-1].copy()
        scores = [fold.score(weights), float(weights[-1])]
        problem = PairedProblem.of(fold.model, fold.labels, comparison.surrogate)
        weights[-1] = weight
        sides = (problem.clamped, problem.free)
        scores += [float(SideRun(problem, side, ConsensusADMM()).solve(weights)[-1]) for side in sides]
        rows.append(scores)
    return Finding(
        dict(zip(LINK_FIGURES, np.mean(rows, axis=0).tolist(), strict=True)), len(rows), settings={"rows": rows}
    )


# Weights of the link rule to choose from, and seeds of the generated networks on which the choice is made. Both were
# written down before any network was fitted.
_LINK_WEIGHTS = (0.1, 0.3, 1.0, 3.0, 10.0)
_LINK_SEEDS = range(100, 120)


def choose_link_weight(accuracy: Callable[[float, int], float]) -> tuple[float, dict[str, float]]:
    """Return the weight with the highest mean accuracy over generated networks (the smallest of equals), and all means.

    Parameters
    ----------
    accuracy : function
        Function of a weight and of the seed of a network.

    Examples
    --------
    >>> choose_link_weight(lambda weight, seed: -abs(weight - 3.0))[0]
    3.0
    """
    means = {weight: float(np.mean([accuracy(weight, seed) for seed in _LINK_SEEDS])) for weight in _LINK_WEIGHTS}
    return max(_LINK_WEIGHTS, key=lambda weight: means[weight]), {str(weight): mean for weight, mean in means.items()}


STEP_FIGURES = ("copies faster", "consensus faster", "equally fast", "only consensus arrives", "only copies arrive")


def compare_steps(comparison: Comparison, budget: int) -> Finding:
    """Count the settings in which paired duals (copies) or naive interleaving (consensus) need fewer iterations.

    The settings are nine pairs of a learning rate and an ADMM step, for squared and for linear hinges, on the first
    fold. Both have the same target: 1.01 of the lowest objective of all runs with the same hinges.
    """
    counts, details = dict.fromkeys(STEP_FIGURES, 0.0), []
    fold = comparison.folds(0)
    for power in (2, 1):
        model = replace(fold.model, power=np.full(fold.model.n_terms, power, dtype=np.int8))
        problem = PairedProblem.of(model, fold.labels, comparison.surrogate)
        curves = {}
        for rate, step, place in product((1.0, 4.0, 16.0), (0.1, 1.0, 10.0), ("copies", "consensus")):
            optimizer = ProjectedSubgradient(
                step_size=rate * comparison.step_size, max_iter=10**9, max_admm_iter=budget, tol=0.0
            )
            learner = PairedDual(
                gradient_at=place, surrogate=comparison.surrogate, l2=comparison.l2, optimizer=optimizer,
                inference=ConsensusADMM(over_relaxation=1.0, step_size=step),
            )  # fmt: skip
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # too large steps are part of the comparison
                history = learner.fit(model, fold.labels, trainable=fold.trainable).history
            rows = spread_rows(history["admm_iterations"], 20)
            objective = evaluate_history(problem, history["weights"][rows], comparison.l2, ConsensusADMM())["objective"]
            curves[rate, step, place] = history["admm_iterations"][rows], objective
        target = 1.01 * min(float(objective.min()) for _, objective in curves.values())
        for rate, step in product((1.0, 4.0, 16.0), (0.1, 1.0, 10.0)):
            arrivals = []
            for place in ("copies", "consensus"):
                iterations, objective = curves[rate, step, place]
                # A run that arrives and then leaves again has not converged.
                has_converged = objective[-1] <= target
                arrivals.append(int(iterations[np.argmax(objective <= target)]) if has_converged else None)
            counts[_outcome(*arrivals)] += 1.0 if arrivals != [None, None] else 0.0
            details.append({"power": power, "rate": rate, "admm step": step, "iterations": arrivals})
    return Finding(counts, len(details), settings={"budget": budget, "runs": details})


def _outcome(copies: int | None, consensus: int | None) -> str:
    """Return which of the two arrived at the target after fewer iterations."""
    if copies is None:
        return "only consensus arrives"
    if consensus is None:
        return "only copies arrive"
    return "equally fast" if copies == consensus else "copies faster" if copies < consensus else "consensus faster"
