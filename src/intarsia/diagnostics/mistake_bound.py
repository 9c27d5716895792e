"""Mistakes of the structured perceptron compared with the bound of theory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from intarsia._core.error_context import errors_from
from intarsia._core.validation import FloatArray, check_number
from intarsia.diagnostics.labelled_data import as_examples, labelled
from intarsia.diagnostics.margin_search import has_fixed_scores, why_no_mistake_bound
from intarsia.diagnostics.separability import Separability, algorithmically_separable
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.inference import InferenceMethod, Status
from intarsia.learning.structured_perceptron import StructuredPerceptron

# Relative rounding error of a bound.
_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class MistakeBound:
    """Number of mistakes of a structured perceptron, and upper bounds on it.

    Attributes
    ----------
    mistakes : int
        Number of mistakes until a pass without one, or until `max_iter`.
    converged : bool
        Whether a pass had no mistake.
    bound : float or None
        Upper bound of Theorem 1, from the certain margin and the upper bound on the radius; None if no margin is
        certain.
    bound_of_run : float or None
        Bound with the longest step of this run as radius, which is all that the proof needs for this run; 0 if no step
        was made.
    separability : Separability
        Result that contains the margin and the radius.
    weights : float array
        Final weights of the perceptron.
    theorem : str
        "Theorem 1" (Kulesza2007), or "the extension to fixed scores", for which Theorem 1 does not hold.

    Examples
    --------
    One variable with feature 1 and label 1: with weights (0, 0) the labels tie and label 0 wins. One step corrects it.

    >>> from intarsia.graph import chain_graph
    >>> from intarsia.learning import example
    >>> from intarsia.models import LinearScores
    >>> result = mistake_bound([example(LinearScores(chain_graph(1, 2), [[1.0]]), [1])], inference="brute_force")
    >>> result.mistakes, round(result.bound, 6), result.weights[:2].tolist()
    (1, 1.0, [-1.0, 1.0])
    """

    mistakes: int
    converged: bool
    bound: float | None
    bound_of_run: float | None
    separability: Separability
    weights: FloatArray
    theorem: str = "Theorem 1"

    def __str__(self) -> str:
        bound = "no bound is certain" if self.bound is None else f"at most {self.bound:.4g} by {self.theorem}"
        observed = "" if self.bound_of_run is None else f", {self.bound_of_run:.4g} with the longest step of this run"
        end = "" if self.converged else ", and the last pass still made mistakes"
        return f"{self.mistakes} mistakes{end}; {bound}{observed}."


@errors_from("mistake_bound")
def mistake_bound(
    X: Any,
    y: Any = None,
    model: Any = None,
    inference: str | InferenceMethod = "lp_relaxation",
    *,
    max_iter: int = 1000,
    random_state: int = 0,
) -> MistakeBound:
    r"""Run the structured perceptron and bound its mistakes by :math:`R^2 / \gamma^2`.

    Parameters
    ----------
    X, y, model, inference
        The same as in `algorithmically_separable`.
    max_iter : int
        Maximum number of passes.
    random_state : int
        Random seed of the order of the examples.

    Raises
    ------
    InvalidInputError
        If the data are not separable: then there is no margin and no bound.
    NotSupportedError
        If an example has hidden labels whose completions have different features, or if sample weights differ: then the
        theorem does not hold, see the notes. Also if the run contradicts the bound, because a condition of the proof
        does not hold (such as inference that is not exact for scores of very different sizes); no bound is returned.

    Notes
    -----
    The proof uses that a mistake means :math:`w \cdot d \le 0`, with :math:`d` the features of the truth minus those of
    the answer. With fixed scores (finite scores that no weight multiplies, such as a given coupling) a mistake only
    means :math:`w \cdot d + b \le 0`, so that :math:`R^2 / \gamma^2` is not a bound. A similar proof gives the bound
    :math:`\lVert u \rVert^2 / (2m - R^2)` for all weights u that separate with a margin :math:`m > R^2 / 2`, without
    normalization; the smallest one is used. Without fixed scores it equals :math:`R^2 / \gamma^2`.

    With hidden labels a step goes towards the best completion under the current weights, which may differ from the
    completion that has the margin. Examples of different weights make steps of different lengths, for which the proof
    has no common :math:`R` and :math:`\gamma`.

    References
    ----------
    Kulesza2007, Theorem 1; Collins2002.

    Examples
    --------
    >>> from intarsia.datasets.counterexamples import diamond_examples
    >>> result = mistake_bound(diamond_examples(), inference="brute_force")
    >>> result.mistakes, result.converged, round(result.bound_of_run)         # steps of length 2.76, a margin of 0.0707
    (2, True, 1522)
    """
    check_number(max_iter, "max_iter", low=1, integer=True)
    examples = as_examples(X, y, model)
    separability = algorithmically_separable(examples, inference=inference)
    if not separability.separable:
        raise InvalidInputError(
            f"the examples are {separability} Without a margin there is no bound on the mistakes. Add features, or "
            f"drop contradictory examples."
        )
    margin_examples = labelled(examples)
    reason = why_no_mistake_bound(margin_examples)
    if reason:
        raise NotSupportedError(reason)
    learner = StructuredPerceptron(average=False, path="steps", max_iter=max_iter, random_state=random_state)
    run = learner.minimize(examples, inference)
    steps = np.diff(run.history["path"], axis=0)
    longest = float(np.linalg.norm(steps, axis=1).max(initial=0.0))
    mistakes, bound = int(run.history["mistakes"].sum()), separability.mistake_bound
    bound_of_run = separability.most_mistakes(longest / margin_examples[0].weight)
    for limit in (bound, bound_of_run):
        if limit is not None and mistakes > limit * (1.0 + _ROUNDING) + _ROUNDING:
            raise NotSupportedError(
                f"the run made {mistakes} mistakes, more than the bound of {limit:.4g}, so a condition of the theorem "
                f"does not hold: the inference did not return answers of the highest score. Scale the features and "
                f"fixed scores to similar sizes, or use inference='brute_force'."
            )
    return MistakeBound(
        mistakes=mistakes,
        converged=run.status is Status.CONVERGED,
        bound=bound,
        bound_of_run=bound_of_run,
        separability=separability,
        weights=run.point,
        theorem="the extension to fixed scores" if any(map(has_fixed_scores, margin_examples)) else "Theorem 1",
    )
