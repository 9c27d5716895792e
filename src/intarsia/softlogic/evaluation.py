"""The evaluators that PSL programs ask for: inferred truth values against the true ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from intarsia._validation import FloatArray, check_choice
from intarsia.exceptions import InvalidInputError
from intarsia.metrics import PrecisionRecall, ranking_scores
from intarsia.softlogic.atoms import AtomTable
from intarsia.softlogic.linear_rows import Index32
from intarsia.softlogic.program import Evaluation

_THRESHOLD = 0.5
_Scores = dict[str, Any]


def _discrete(values: FloatArray, truth: FloatArray, arguments: Index32, threshold: float) -> _Scores:
    predicted, true = values >= threshold, truth >= threshold
    counts = PrecisionRecall(int(true.sum()), int(predicted.sum()), int((true & predicted).sum()))
    return {
        "accuracy": float((predicted == true).mean()),
        "precision": counts.precision,
        "recall": counts.recall,
        "f1": counts.f1,
    }


def _continuous(values: FloatArray, truth: FloatArray, arguments: Index32, threshold: float) -> _Scores:
    error = values - truth
    return {"mae": float(np.abs(error).mean()), "mse": float((error * error).mean())}


def _ranking(values: FloatArray, truth: FloatArray, arguments: Index32, threshold: float) -> _Scores:
    scores = ranking_scores(truth > threshold, values).as_dict()
    del scores["n"]
    return scores


def _categorical(values: FloatArray, truth: FloatArray, arguments: Index32, threshold: float) -> _Scores:
    """Whether the best last argument is a true one, for each choice of the others that has a true one."""
    _, group = np.unique(arguments[:, :-1], axis=0, return_inverse=True)
    group = group.ravel()
    right = known = 0
    order = np.lexsort((-values, group))
    best = order[np.unique(group[order], return_index=True)[1]]
    for k, first in enumerate(best.tolist()):
        if (truth[group == k] >= threshold).any():
            known += 1
            right += bool(truth[first] >= threshold)
    return {"accuracy": right / known if known else float("nan")}


_EVALUATORS: dict[str, Callable[[FloatArray, FloatArray, Index32, float], _Scores]] = {
    "DiscreteEvaluator": _discrete,
    "ContinuousEvaluator": _continuous,
    "RankingEvaluator": _ranking,
    "AUCEvaluator": _ranking,
    "CategoricalEvaluator": _categorical,
}


def evaluator_names() -> list[str]:
    """Names of the evaluators.

    Examples
    --------
    >>> evaluator_names()[:2]
    ['DiscreteEvaluator', 'ContinuousEvaluator']
    """
    return list(_EVALUATORS)


def evaluate(evaluations: Iterable[Evaluation], atoms: AtomTable, x: FloatArray) -> dict[str, dict[str, _Scores]]:
    """Scores by predicate and evaluator, over the variables whose true value is known.

    * `DiscreteEvaluator`: accuracy, and precision, recall and F1 of what is true, at a threshold of 1/2.
    * `ContinuousEvaluator`: mean absolute and mean squared error.
    * `RankingEvaluator`, `AUCEvaluator`: areas under the ROC and under both precision-recall curves. (PSL walks the
      negative one from the highest value; here it starts at the lowest, where false atoms are looked for.)
    * `CategoricalEvaluator`: how often the last argument with the largest value is a true one.

    Parameters
    ----------
    evaluations : iterable of Evaluation
        What to compute; an option whose name ends in "threshold" replaces 1/2.
    atoms : AtomTable
        Which atom each variable is, and its true value.
    x : float array (n_variables,)
        Inferred values.

    Examples
    --------
    >>> from intarsia.softlogic import Program, ground
    >>> program = Program().predicate("P", 1).target("P", ["a", "b"]).truth("P", [("a", 1), ("b", 0)])
    >>> scores = evaluate([Evaluation("P", "ContinuousEvaluator")], ground(program).atoms, np.array([0.5, 0.0]))
    >>> scores["P"]["ContinuousEvaluator"]
    {'mae': 0.25, 'mse': 0.125, 'n': 2}
    """
    found: dict[str, dict[str, _Scores]] = {}
    for evaluation in evaluations:
        check_choice(evaluation.evaluator, _EVALUATORS, "evaluator")
        p = atoms.predicate_index(evaluation.predicate)
        part = atoms.variables(evaluation.predicate)
        truth = atoms.truth[part]
        known = ~np.isnan(truth)
        scores: _Scores = {}
        if known.any():
            compute = _EVALUATORS[evaluation.evaluator]
            scores = compute(x[part][known], truth[known], atoms.arguments[p][known], _threshold(evaluation))
        scores["n"] = int(known.sum())
        found.setdefault(atoms.predicates[p].name, {})[evaluation.evaluator] = scores
    return found


def _threshold(evaluation: Evaluation) -> float:
    for name, value in evaluation.options.items():
        if name.endswith("threshold"):
            try:
                return float(value)
            except (TypeError, ValueError):
                raise InvalidInputError(
                    f"{evaluation.evaluator} of {evaluation.predicate}: {name} must be a number, got {value!r:.40}."
                ) from None
    return _THRESHOLD
