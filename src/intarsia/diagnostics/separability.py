"""Decide whether some weights label all examples correctly, by exact inference or by its LP relaxation."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from intarsia._core.error_context import errors_from
from intarsia._core.validation import FloatArray, check_number
from intarsia.diagnostics.feature_bounds import FeatureBounds
from intarsia.diagnostics.labelled_data import as_examples, labelled
from intarsia.diagnostics.margin_search import Certificate, MarginSearch, completions, why_no_mistake_bound
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.inference import InferenceMethod, method_class, method_names
from intarsia.inference.registry import METHODS
from intarsia.learning.margin_example import MarginExample


@dataclass(frozen=True, eq=False)
class Separability:
    """Result of a separability test: whether some weights label all examples correctly, and with which margin.

    Attributes
    ----------
    separable : bool or None
        None if hidden labels have too many completions to try all of them, and none that was tried worked.
    over : {"labellings", "local polytope"}
        Set of answers over which the inference maximizes.
    weights : float array or None
        Weights of norm 1 with the largest margin; with fixed scores, the shortest weights that separate.
    gamma : float or None
        Margin: smallest score difference between a truth and a wrong answer, divided by the norm of the weights.
    gamma_is : {"exact", "over vertices met"}
        "exact" over labellings. Over the local polytope, vertices that are wrong only in fractions may be missed: then
        `gamma` is an upper bound on the margin, and `gamma_at_least` a lower bound.
    gamma_at_least : float or None
        Margin that is certain. Over the local polytope it is the margin over all points whose wrong labels have a mass
        of at least 1. These include all wrong vertices if variables are binary, factors join two variables and no label
        is hidden; otherwise it is None.
    radius : float
        Upper bound on the norm of the feature difference between a truth and any answer.
    certificate : Certificate or None
        Proof that no such weights exist.
    n_constraints, n_rounds : int
        Number of constraints of the last program, and number of programs solved.
    note : str
        Additional information.

    Examples
    --------
    One variable with feature 1 and label 1: the features of truth and wrong answer differ by (-1, 1), which is also the
    direction of the best weights.

    >>> from intarsia.graph import chain_graph
    >>> from intarsia.learning import example
    >>> from intarsia.models import LinearScores
    >>> result = separable([example(LinearScores(chain_graph(1, 2), [[1.0]]), [1])])
    >>> result.separable, round(result.gamma, 4), round(result.radius, 4), round(result.mistake_bound, 4)
    (True, 1.4142, 1.4142, 1.0)
    """

    separable: bool | None
    over: str
    gamma_is: str
    radius: float
    weights: FloatArray | None = None
    gamma: float | None = None
    gamma_at_least: float | None = None
    certificate: Certificate | None = None
    n_constraints: int = 0
    n_rounds: int = 0
    note: str = ""
    _bound: Callable[[float], float | None] | None = field(default=None, repr=False)

    @cached_property
    def mistake_bound(self) -> float | None:
        """Maximum number of mistakes of the perceptron (Kulesza2007, Theorem 1).

        None if no margin is certain, and with hidden labels or different sample weights, for which the theorem does not
        hold.
        """
        return self.most_mistakes(self.radius)

    def most_mistakes(self, radius: float) -> float | None:
        """Return the maximum number of mistakes of a perceptron with steps of length at most `radius`, or None."""
        return self._bound(radius) if self.gamma_at_least and self._bound is not None else None

    def __str__(self) -> str:
        if self.separable is None:
            return f"undecided over {self.over}. {self.note}"
        if not self.separable:
            size = 0 if self.certificate is None else self.certificate.examples.size
            return f"not separable over {self.over}: {size} answers prove it. {self.note}".strip()
        bound = self.mistake_bound
        bound_text = "" if bound is None else f", so the perceptron makes at most {bound:.4g} mistakes"
        return (
            f"separable over {self.over} with margin {self.gamma:.4g} ({self.gamma_is}); features differ by at most "
            f"{self.radius:.4g}{bound_text}. {self.note}"
        ).strip()


@errors_from("separable")
def separable(X: Any, y: Any = None, model: Any = None, *, max_completions: int = 256) -> Separability:
    r"""Decide whether exact inference labels the examples correctly with some weights, and find the largest margin.

    Solves :math:`\min \lVert w \rVert` with :math:`w \cdot (\Phi(x, y) - \Phi(x, z)) \ge 1` for every wrong labelling z
    by constraint generation: an integer program finds the best wrong labelling of each example, a quadratic program
    finds the weights, until no constraint is violated; then :math:`\gamma = 1 / \lVert w \rVert`. If no such weights
    exist, the result contains a proof. Cost: an integer program for each example and round; intended for samples of
    small graphs.

    Parameters
    ----------
    X, y : data and labels, as for `model.fit`
        Labels may be hidden, or sets: every labelling that agrees counts as correct. X alone may be a list of
        `Example`.
    model : GridCRF or GraphCRF
        Estimator that defines the features; it need not be fitted.
    max_completions : int
        Maximum number of combinations of completions of hidden labels (with different features) to try.

    Returns
    -------
    Separability

    References
    ----------
    Kulesza2007, Definition 1.

    Examples
    --------
    >>> from intarsia.datasets.counterexamples import triangle_examples
    >>> result = separable(triangle_examples())
    >>> result.separable, (result.weights / result.weights[0]).round(6).tolist()
    (True, [1.0, 1.0, 1.0])
    >>> round(result.gamma, 6)                 # by 1 of w = (1, 1, 1), whose norm is the square root of 3
    0.57735
    """
    check_number(max_completions, "max_completions", low=1, integer=True)
    margin_examples = labelled(as_examples(X, y, model))
    return _decide(margin_examples, False, int(max_completions))


@errors_from("algorithmically_separable")
def algorithmically_separable(
    X: Any,
    y: Any = None,
    model: Any = None,
    inference: str | InferenceMethod = "lp_relaxation",
    *,
    max_completions: int = 256,
) -> Separability:
    r"""Decide whether this inference labels the examples correctly with some weights, and find the largest margin.

    For exact methods the result equals that of `separable`. For LP-relaxed inference every vertex of the local polytope
    is an answer, and fractional vertices are wrong. Whether weights exist is decided by
    :math:`w \cdot (\Phi(x, y) - \Phi(x, z)) \ge D(z)` over the polytope, where D is the mass on wrong labels. D is
    linear, so a linear program finds the most violated constraint. Then the margin over the vertices is computed.

    Parameters
    ----------
    X, y, model, max_completions
        The same as in `separable`.
    inference : str or InferenceMethod
        An exact method or an LP relaxation. For other methods no program describes the answers; use `diagnose`.

    Returns
    -------
    Separability

    References
    ----------
    Kulesza2007, Definition 2 and Theorem 1.

    Examples
    --------
    >>> from intarsia.datasets.counterexamples import triangle_examples
    >>> result = algorithmically_separable(triangle_examples())
    >>> result.separable, bool(result.certificate.residual < 1e-9)
    (False, True)
    """
    method = METHODS.resolve(inference, {})
    if not _maximises(type(method)):
        names = [name for name in method_names() if _maximises(method_class(name))]
        raise NotSupportedError(
            f"{type(method).__name__} does not maximize over a known set of answers, so separability cannot be "
            f"decided. Use one of: {', '.join(names)}; or run `diagnose`, which measures the learner's risk."
        )
    check_number(max_completions, "max_completions", low=1, integer=True)
    margin_examples = labelled(as_examples(X, y, model))
    return _decide(margin_examples, method.map_is == "relaxed optimum", int(max_completions))


def _maximises(method: type[InferenceMethod]) -> bool:
    """Return whether the answers of a method are the maximum over labellings or over the local polytope."""
    return method.gives_map and (method.exact or method.proves_map or method.map_is == "relaxed optimum")


def _decide(margin_examples: list[MarginExample], relaxed: bool, max_completions: int) -> Separability:
    """Try the completions of hidden labels and return the result with the largest margin."""
    radius = max(FeatureBounds(item).radius for item in margin_examples)
    choices = [completions(item, max_completions) for item in margin_examples]
    n_combinations = float(np.prod([float(len(result)) for result in choices]))
    if n_combinations == 0.0:
        raise InvalidInputError(
            "separability: the model forbids every labelling that agrees with an example's labels. Correct the "
            "labels, or relax the hard constraints."
        )
    # The vertices of a forest's polytope are labellings.
    tight = all(item.source.form.graph.is_forest for item in margin_examples)
    search = MarginSearch(margin_examples, relaxed and not tight)
    best = last = best_truths = None
    for truths in itertools.islice(itertools.product(*choices), max_completions):
        last = search.run(list(truths))
        if last.weights is not None and (best is None or last.gamma > best.gamma):
            best, best_truths = last, list(truths)
    complete = n_combinations <= max_completions
    result = Separability(
        separable=best is not None or (False if complete else None),
        over="local polytope" if relaxed else "labellings",
        gamma_is="over vertices met" if search.relaxed else "exact",
        radius=radius,
        n_constraints=(best or last).n_constraints,  # type: ignore[union-attr]
        n_rounds=search.n_rounds,
    )
    if best is not None and best.weights is not None:
        length = 1.0 if search.has_fixed else float(np.linalg.norm(best.weights))
        note = "" if complete else "Not all completions of hidden labels were tried; the margin may be larger."
        certain = best.gamma_at_least if not search.relaxed or _vertices_are_far(margin_examples) else None
        bound: Callable[[float], float | None] | None = None
        if certain and best_truths is not None and not why_no_mistake_bound(margin_examples):
            bound = partial(search.most_mistakes, best_truths) if search.has_fixed else partial(_by_theorem, certain)
        weights = best.weights / length
        return replace(result, weights=weights, gamma=best.gamma, gamma_at_least=certain, note=note, _bound=bound)
    if not complete:
        note = f"There are more than {max_completions} completions of hidden labels. Increase max_completions."
        return replace(result, note=note)
    note = (
        ""
        if n_combinations == 1
        else f"This proof is for the last of {n_combinations:.0f} completions of hidden labels."
    )
    return replace(result, certificate=last.certificate, note=note)  # type: ignore[union-attr]


def _by_theorem(gamma: float, radius: float) -> float:
    """Return the mistake bound of Kulesza2007, Theorem 1."""
    return (radius / gamma) ** 2


def _vertices_are_far(margin_examples: list[MarginExample]) -> bool:
    """Return whether every wrong vertex of the local polytope certainly has wrong labels of mass at least 1.

    Integral vertices have. With binary variables and pairwise factors the others are half-integral, and their
    fractional variables contain a cycle, since the vertices of a forest are integral: at least three variables, half of
    each wrong.
    """
    graphs = [item.source.form.graph for item in margin_examples]
    binary = all(graph.max_scope <= 2 and int(graph.n_states.max(initial=2)) == 2 for graph in graphs)
    return binary and all(item.complete for item in margin_examples)
