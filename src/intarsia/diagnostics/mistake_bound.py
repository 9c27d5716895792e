"""The perceptron's mistakes beside the most that theory allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from intarsia._core.error_context import errors_from
from intarsia._core.validation import FloatArray, check_number
from intarsia.diagnostics.labelled_data import as_examples, labelled
from intarsia.diagnostics.margin_search import why_no_mistake_bound
from intarsia.diagnostics.separability import Separability, algorithmically_separable
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.inference import InferenceMethod, Status
from intarsia.learning.structured_perceptron import StructuredPerceptron


@dataclass(frozen=True, eq=False)
class MistakeBound:
    """Mistakes that the perceptron made, and bounds on them.

    Attributes
    ----------
    mistakes : int
        Made until a pass had none, or until `max_iter`.
    converged : bool
        Whether a pass had none.
    bound : float or None
        Most mistakes by Theorem 1, from the certain margin and the upper bound on the radius; None without such.
    bound_met : float or None
        The same with the longest step that was made as radius, which is all that the proof needs for this run; 0 if
        no step was made.
    separability : Separability
        Where the margin and the radius come from.
    weights : float array
        Where the perceptron ended.

    Examples
    --------
    One variable with the feature 1 and the label 1: weights (0, 0) are a tie, which label 0 wins. One step mends it.

    >>> from intarsia.graph import chain_graph
    >>> from intarsia.learning import example
    >>> from intarsia.models import LinearScores
    >>> found = mistake_bound([example(LinearScores(chain_graph(1, 2), [[1.0]]), [1])], inference="brute_force")
    >>> found.mistakes, round(found.bound, 6), found.weights[:2].tolist()
    (1, 1.0, [-1.0, 1.0])
    """

    mistakes: int
    converged: bool
    bound: float | None
    bound_met: float | None
    separability: Separability
    weights: FloatArray

    def __str__(self) -> str:
        most = "no bound is certain" if self.bound is None else f"at most {self.bound:.4g} by theory"
        met = "" if self.bound_met is None else f", {self.bound_met:.4g} with the longest step that was made"
        end = "" if self.converged else ", and the last pass still made some"
        return f"{self.mistakes} mistakes{end}; {most}{met}."


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
    r"""Run the perceptron, and bound its mistakes by :math:`R^2 / \gamma^2`.

    Parameters
    ----------
    X, y, model, inference
        As in `algorithmically_separable`.
    max_iter : int
        Most passes.
    random_state : int
        Seed of the order of the examples.

    Raises
    ------
    InvalidInputError
        If the data are not separable: then there is no margin and no bound.
    NotSupportedError
        If an example has hidden labels whose completions differ in their features, or if the weights of examples
        differ: the theorem does not hold then, see the notes.

    Notes
    -----
    The proof needs that a mistake means :math:`w \cdot d \le 0`, with :math:`d` the features of the truth less those of
    the answer. With fixed scores (finite ones that no weight multiplies, such as a given coupling) it means
    :math:`w \cdot d + b \le 0` only, so that :math:`R^2 / \gamma^2` bounds nothing. The same two sums still give
    :math:`\lVert u \rVert^2 / (2m - R^2)` for any weights u that separate with a margin :math:`m > R^2 / 2`, norm and
    margin as they are; the smallest of these is taken. Without fixed scores it is :math:`R^2 / \gamma^2`.

    With hidden labels a step goes towards the best completion under the present weights, which need not be the one that
    the margin is of. Examples of different weights make steps of different lengths, for which the proof has no single
    :math:`R` and :math:`\gamma`.

    References
    ----------
    Kulesza2007, Theorem 1; Collins2002.

    Examples
    --------
    >>> from intarsia.datasets.counterexamples import diamond_examples
    >>> found = mistake_bound(diamond_examples(), inference="brute_force")
    >>> found.mistakes, found.converged, round(found.bound_met)            # steps of length 2.76, a margin of 0.0707
    (2, True, 1522)
    """
    check_number(max_iter, "max_iter", low=1, integer=True)
    examples = as_examples(X, y, model)
    found = algorithmically_separable(examples, inference=inference)
    if not found.separable:
        raise InvalidInputError(f"the examples are {found} Without a margin there is no bound on the mistakes.")
    ready = labelled(examples)
    reason = why_no_mistake_bound(ready)
    if reason:
        raise NotSupportedError(reason)
    learner = StructuredPerceptron(average=False, path="steps", max_iter=max_iter, random_state=random_state)
    run = learner.minimize(examples, inference)
    steps = np.diff(run.history["path"], axis=0)
    longest = float(np.linalg.norm(steps, axis=1).max(initial=0.0))
    return MistakeBound(
        mistakes=int(run.history["mistakes"].sum()),
        converged=run.status is Status.CONVERGED,
        bound=found.mistake_bound,
        bound_met=found.most_mistakes(longest / ready[0].weight),
        separability=found,
        weights=run.point,
    )
