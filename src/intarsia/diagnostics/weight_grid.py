"""Grid search over weights: the slow method that succeeds where a perceptron with approximate inference fails."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from intarsia._core.error_context import errors_from
from intarsia._core.validation import FloatArray, check_number
from intarsia.diagnostics.labelled_data import as_examples, labelled
from intarsia.exceptions import InvalidInputError, TooLargeError
from intarsia.inference import InferenceMethod
from intarsia.inference.registry import METHODS
from intarsia.learning.margin_example import MarginExample


@dataclass(frozen=True, eq=False)
class WeightGrid:
    """Training errors of an inference method on a grid of weights.

    Attributes
    ----------
    points : (n_points, n_weights) float array
        Weights that were tried.
    errors : (n_points,) float array
        Fraction of wrong labels of each.
    weights : (n_weights,) float array
        Weights of the lowest error; of several, those farthest from any point with a higher error, so that small
        changes of the weights or of the data do not matter.
    error : float
        Their error.
    feasible : float
        Fraction of the grid with this error.

    Examples
    --------
    >>> from intarsia.datasets.counterexamples import diamond_examples
    >>> grid = weight_grid_search(diamond_examples(), inference="brute_force", n_steps=48)
    >>> grid.error, grid.weights.round(2).tolist()                 # w_1 < 0 < w_2, as in Figure 5 (a)
    (0.0, [-0.71, 0.71])
    """

    points: FloatArray
    errors: FloatArray
    weights: FloatArray
    error: float
    feasible: float

    def __str__(self) -> str:
        weights = ", ".join(f"{weight:.4g}" for weight in self.weights[:10])
        dots = ", ..." if self.weights.size > 10 else ""
        return (
            f"lowest error {self.error:.4g} at {self.feasible:.1%} of {len(self.points)} points, such as w = "
            f"({weights}{dots})."
        )


@errors_from("weight_grid_search")
def weight_grid_search(
    X: Any,
    y: Any = None,
    model: Any = None,
    inference: str | InferenceMethod = "belief_propagation",
    *,
    n_steps: int = 32,
    radii: Sequence[float] = (1.0,),
    max_points: int = 20_000,
) -> WeightGrid:
    """Try the weights of a grid with the inference that will predict, and return those with the fewest wrong labels.

    A perceptron assumes that a step towards the truth corrects a mistake. With loopy belief propagation the opposite
    can happen, although weights without mistakes exist; "a grid search on weight space, for example, will be slow but
    successful". It needs no assumption on the inference. Use it for a handful of weights, to see whether the learner is
    at fault or the model. Cost: inference on all examples for each point.

    Parameters
    ----------
    X, y, model
        The same as in `separable`; at most about four weights.
    inference : str or InferenceMethod
        Any method that predicts labellings.
    n_steps : int
        Two weights: number of directions around the circle. Otherwise: number of values of each weight in a cube from
        -1 to 1, whose points are scaled to unit length.
    radii : list of float
        Norms of the weights. Scores of any size have the same best labelling, but belief propagation at a temperature
        and fixed scores depend on it.
    max_points : int
        Maximum number of points.

    Raises
    ------
    TooLargeError
        If the grid has more points than `max_points`.

    References
    ----------
    Kulesza2007, section 4.2 and Figure 5.

    Examples
    --------
    >>> from intarsia.datasets.counterexamples import diamond_examples
    >>> from intarsia.inference.messages.belief_propagation import BeliefPropagation
    >>> parallel = BeliefPropagation(schedule="parallel", rounding="beliefs", max_iter=2000, tol=1e-10)
    >>> print(weight_grid_search(diamond_examples(200.0), inference=parallel, n_steps=64))
    lowest error 0 at 1.6% of 64 points, such as w = (0.7071, -0.7071).
    """
    check_number(n_steps, "n_steps", low=2, integer=True)
    for radius in radii:
        check_number(radius, "radii", low=0.0, open_low=True)
    if not len(radii):
        raise InvalidInputError("radii is empty. Pass at least one norm, such as 1.0.")
    method = METHODS.resolve(inference, {})
    margin_examples = labelled(as_examples(X, y, model))
    points = _grid(margin_examples[0].source.scores.n_weights, int(n_steps), radii, max_points)
    errors = np.array([training_error(margin_examples, point, method) for point in points])
    best = errors <= errors.min() + 1e-12
    return WeightGrid(points, errors, _innermost(points, best), float(errors.min()), float(best.mean()))


def training_error(margin_examples: Sequence[MarginExample], weights: FloatArray, method: InferenceMethod) -> float:
    """Return the fraction of labels that inference with these weights predicts wrongly."""
    answers = [item.answer(item.theta(weights), method)[0] for item in margin_examples]
    n_wrong = sum(item.wrong_mass(mu) for item, mu in zip(margin_examples, answers, strict=True))
    return float(n_wrong / sum(item.n_labelled for item in margin_examples))


def _grid(n_weights: int, n_steps: int, radii: Sequence[float], max_points: int) -> FloatArray:
    """Return the points of the grid: directions times radii, without duplicates."""
    n_directions = 2 if n_weights == 1 else n_steps if n_weights == 2 else float(n_steps) ** n_weights
    if n_directions * len(radii) > max_points:
        raise TooLargeError(
            f"{n_weights} weights with n_steps={n_steps} need {n_directions * len(radii):.3g} points, more than "
            f"max_points={max_points}. Use fewer steps or weights, or raise max_points."
        )
    if n_weights == 1:
        directions = np.array([[1.0], [-1.0]])
    elif n_weights == 2:
        angles = (np.arange(n_steps) + 0.5 * (n_steps % 2)) * (2.0 * math.pi / n_steps)
        directions = np.column_stack([np.cos(angles), np.sin(angles)])
    else:
        cube = np.array(list(itertools.product(np.linspace(-1.0, 1.0, n_steps), repeat=n_weights)))
        norms = np.linalg.norm(cube, axis=1)
        directions = np.unique((cube[norms > 0.0] / norms[norms > 0.0, None]).round(12), axis=0)
    return np.concatenate([radius * directions for radius in radii])


def _innermost(points: FloatArray, best: Any) -> FloatArray:
    """Return the best point that is farthest from the nearest point with a higher error."""
    candidates, others = points[best], points[~best]
    if not len(others):
        return candidates[0].copy()
    distances = [np.linalg.norm(others - point, axis=1).min() for point in candidates]
    return candidates[int(np.argmax(np.round(distances, 9)))].copy()
