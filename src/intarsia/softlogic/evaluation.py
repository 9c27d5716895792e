"""Evaluators of PSL programs: compare inferred values with the true values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from intarsia._core.validation import FloatArray, check_choice
from intarsia.exceptions import InvalidInputError
from intarsia.metrics import PrecisionRecall, ranking_scores
from intarsia.softlogic.grounding.atoms import AtomTable
from intarsia.softlogic.grounding.tables import row_keys
from intarsia.softlogic.program import Evaluation

_THRESHOLD = 0.5
_Scores = dict[str, Any]


@dataclass(frozen=True)
class _Case:
    """An evaluation with its options, and the atoms and inferred values that it needs."""

    evaluation: Evaluation
    atoms: AtomTable
    x: FloatArray

    @property
    def predicate(self) -> int:
        """Index of the predicate."""
        return self.atoms.predicate_index(self.evaluation.predicate)

    def pairs(self) -> tuple[FloatArray, FloatArray]:
        """Return inferred and true values of the targets that have a true value, and of atoms that the options add."""
        variables = self.atoms.variables(self.evaluation.predicate)
        values, truth = self.x[variables], self.atoms.truth[variables]
        if self.flag("eval.closetruth"):
            truth = np.where(np.isnan(truth), 0.0, truth)
        observed, of_observed = np.empty(0), np.empty(0)
        if self.flag("eval.includeobs"):
            observed = self.atoms.observed[self.predicate].values
            of_observed = self.atoms.truth_of(self.predicate, self.atoms.observed[self.predicate].arguments)
        values, truth = np.concatenate([values, observed]), np.concatenate([truth, of_observed])
        has_truth = ~np.isnan(truth)
        return values[has_truth], truth[has_truth]

    def option(self, name: str, default: Any) -> Any:
        """Return an option, given by its short name or by PSL's name, which is prefixed with the evaluator."""
        evaluator = self.evaluation.evaluator.lower()
        names = {"rankingevaluator": ["rankingevaluator", "aucevaluator"]}.get(evaluator, [evaluator])
        for key in (name, *(f"{prefix}.{name}" for prefix in names)):
            if key in self.evaluation.options:
                return self.evaluation.options[key]
        return default

    def flag(self, name: str) -> bool:
        """Return the value of a boolean option."""
        value = str(self.option(name, False)).lower()
        if value not in ("true", "false"):
            raise InvalidInputError(
                f"{self}: {name} must be true or false, got {value!r:.40}. Set it to true or false."
            )
        return value == "true"

    def threshold(self) -> float:
        """Return the value from which an atom counts as true."""
        value = self.option("threshold", _THRESHOLD)
        try:
            return float(value)
        except (TypeError, ValueError):
            raise InvalidInputError(
                f"{self}: threshold must be a number, got {value!r:.40}. Set it to a number."
            ) from None

    def category_indexes(self) -> list[int]:
        """Return the sorted positions of the arguments that form the category."""
        value = str(self.option("categoryindexes", -1))
        n = self.atoms.predicates[self.predicate].n_arguments
        try:
            positions = [int(position) for position in value.split(":")]
        except ValueError:
            positions = [n]
        if not all(-n <= position < n for position in positions):
            raise InvalidInputError(
                f"{self}: categoryindexes must be argument positions from {-n} to {n - 1}, separated by ':', got "
                f"{value!r:.40}. Set it, for example, to '{n - 1}'."
            )
        return sorted({position % n for position in positions})

    def __str__(self) -> str:
        return f"{self.evaluation.evaluator} of {self.evaluation.predicate}"


def _discrete(case: _Case) -> _Scores:
    """Compute accuracy, precision, recall and F1 of thresholded values."""
    values, truth = case.pairs()
    predicted, true = values >= case.threshold(), truth >= case.threshold()
    n, n_true, n_predicted, n_right = len(true), int(true.sum()), int(predicted.sum()), int((true & predicted).sum())
    positive = PrecisionRecall(n_true, n_predicted, n_right)
    negative = PrecisionRecall(n - n_true, n - n_predicted, n - n_true - n_predicted + n_right)
    return {
        "accuracy": (positive.n_correct + negative.n_correct) / n if n else math.nan,
        "precision": positive.precision,
        "recall": positive.recall,
        "f1": positive.f1,
        "precision_negative": negative.precision,
        "recall_negative": negative.recall,
        "f1_negative": negative.f1,
        "n": n,
    }


def _continuous(case: _Case) -> _Scores:
    """Compute mean absolute and squared errors."""
    values, truth = case.pairs()
    error = values - truth
    mse = float((error * error).mean()) if error.size else math.nan
    return {
        "mae": float(np.abs(error).mean()) if error.size else math.nan,
        "mse": mse,
        "rmse": math.sqrt(mse),
        "n": len(error),
    }


def _ranking(case: _Case) -> _Scores:
    """Compute areas under the ROC and precision-recall curves."""
    values, truth = case.pairs()
    return ranking_scores(truth > case.threshold(), values).as_dict()


def _categorical(case: _Case) -> _Scores:
    """Compute the accuracy of choosing the category with the largest value."""
    atoms, p = case.atoms, case.predicate
    arguments, values = atoms.arguments[p], case.x[atoms.variables(case.evaluation.predicate)]
    if case.flag("eval.includeobs"):
        arguments = np.concatenate([arguments, atoms.observed[p].arguments])
        values = np.concatenate([values, atoms.observed[p].values])
    n_constants = len(atoms.constants)
    base = [k for k in range(arguments.shape[1]) if k not in case.category_indexes()]
    group = row_keys(arguments[:, base], n_constants)
    order = np.lexsort((-values, group))  # of tied values the first
    best = order[np.unique(group[order], return_index=True)[1]]
    true = atoms.truth_rows[p].arguments[atoms.truth_rows[p].values >= 1.0]
    keys = row_keys(np.concatenate([arguments[best], true]), n_constants)
    right = np.isin(keys[len(best) :], keys[: len(best)])
    return {"accuracy": float(right.mean()) if right.size else math.nan, "n": len(right)}


_EVALUATORS: dict[str, Callable[[_Case], _Scores]] = {
    "DiscreteEvaluator": _discrete,
    "ContinuousEvaluator": _continuous,
    "RankingEvaluator": _ranking,
    "AUCEvaluator": _ranking,
    "CategoricalEvaluator": _categorical,
}
# Options that the evaluators read.
EVALUATOR_OPTIONS = ("eval.includeobs", "eval.closetruth", "threshold", "categoryindexes")


def evaluator_names() -> list[str]:
    """Return the names of the evaluators.

    Examples
    --------
    >>> evaluator_names()[:2]
    ['DiscreteEvaluator', 'ContinuousEvaluator']
    """
    return list(_EVALUATORS)


def evaluate(evaluations: Iterable[Evaluation], atoms: AtomTable, x: FloatArray) -> dict[str, dict[str, _Scores]]:
    """Compute scores by predicate and evaluator, over the targets that have a true value.

    * `DiscreteEvaluator`: accuracy, and precision, recall and F1 of true and of false atoms, at a threshold of 1/2.
    * `ContinuousEvaluator`: mean absolute error, mean squared error and its root.
    * `RankingEvaluator`, `AUCEvaluator`: areas under the ROC curve and under the precision-recall curves of true and of
      false atoms. (PSL ranks the curve of false atoms from the highest value; this function ranks it from the lowest.)
    * `CategoricalEvaluator`: among atoms that differ only in their last argument, the atom with the largest value is
      predicted (of tied atoms the first; PSL chooses at random). The accuracy is the fraction of the atoms with true
      value 1 that are predicted; true atoms that are not targets count as wrong.

    If there is nothing to compare, only `n` = 0 is returned.

    Parameters
    ----------
    evaluations : iterable of Evaluation
        Evaluators and their options, by PSL's names or without the prefix of the evaluator: `threshold` (default 1/2),
        `categoryindexes` (positions of the arguments that form the category, such as "1:2"; by default the last),
        `eval.includeobs` (include observed atoms that have a true value), `eval.closetruth` (treat targets without a
        true value as false). A second evaluation with the same evaluator is listed as "DiscreteEvaluator 2", and so on.
    atoms : AtomTable
        Atom and true value of each variable.
    x : float array (n_variables,)
        Inferred values.

    Returns
    -------
    dict of dict of dict
        Scores by name of the predicate, then by name of the evaluator.

    Raises
    ------
    InvalidInputError
        An evaluator is unknown, or an option has an invalid value.

    Examples
    --------
    >>> from intarsia.softlogic.program import Program
    >>> from intarsia.softlogic.grounding.ground import ground
    >>> program = Program().predicate("P", 1).target("P", ["a", "b"]).truth("P", [("a", 1), ("b", 0)])
    >>> scores = evaluate([Evaluation("P", "ContinuousEvaluator")], ground(program).atoms, np.array([0.5, 0.0]))
    >>> scores["P"]["ContinuousEvaluator"]
    {'mae': 0.25, 'mse': 0.125, 'rmse': 0.3535533905932738, 'n': 2}
    """
    scores_of: dict[str, dict[str, _Scores]] = {}
    for evaluation in evaluations:
        check_choice(evaluation.evaluator, _EVALUATORS, "evaluator")
        case = _Case(evaluation, atoms, x)
        by_evaluator = scores_of.setdefault(atoms.predicates[case.predicate].name, {})
        n_earlier = sum(name.partition(" ")[0] == evaluation.evaluator for name in by_evaluator)
        name = evaluation.evaluator + (f" {n_earlier + 1}" if n_earlier else "")
        scores = _EVALUATORS[evaluation.evaluator](case)
        by_evaluator[name] = scores if scores["n"] else {"n": 0}
    return scores_of
