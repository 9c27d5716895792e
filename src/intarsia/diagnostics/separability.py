"""Whether some weights label all examples rightly, by exact inference or by its relaxation."""

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
    """Whether some weights label all examples rightly, and by what margin.

    Attributes
    ----------
    separable : bool or None
        None where hidden labels have too many completions to try them all, and none tried worked.
    over : {"labellings", "local polytope"}
        What the inference maximises over.
    weights : float array or None
        Weights with the largest margin, of norm 1; with fixed scores, the shortest that separate.
    gamma : float or None
        Their margin: by how much every truth outscores every wrong answer, over the norm of the weights.
    gamma_is : {"exact", "over vertices met"}
        "exact" over labellings. Vertices of the local polytope that are nowhere wholly wrong may be missed: then
        `gamma` is an upper bound on the margin, and `gamma_at_least` a lower one.
    gamma_at_least : float or None
        Margin that is certain. Over the local polytope it is that over all points with wrong labels of a mass of at
        least 1, to which all wrong vertices belong where variables are binary, factors join two of them and no label
        is hidden; None elsewhere.
    radius : float
        Upper bound on the length of the features of a truth less those of any answer.
    certificate : Certificate or None
        Proof that there are no such weights.
    n_constraints, n_rounds : int
        Size of the last program, and how often it was solved.
    note : str
        Anything else worth knowing.

    Examples
    --------
    One variable with the feature 1 and the label 1: the features of truth and wrong answer differ by (-1, 1), which is
    also the direction of the best weights.

    >>> from intarsia.graph import chain_graph
    >>> from intarsia.learning import example
    >>> from intarsia.models import LinearScores
    >>> found = separable([example(LinearScores(chain_graph(1, 2), [[1.0]]), [1])])
    >>> found.separable, round(found.gamma, 4), round(found.radius, 4), round(found.mistake_bound, 4)
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
        """Most mistakes that the perceptron can make (Kulesza2007, Theorem 1).

        None where no margin is certain, and with hidden labels or examples of different weights, for which the
        theorem does not hold.
        """
        return self.most_mistakes(self.radius)

    def most_mistakes(self, radius: float) -> float | None:
        """Most mistakes of a perceptron none of whose steps is longer than `radius`; None as for `mistake_bound`."""
        return self._bound(radius) if self.gamma_at_least and self._bound is not None else None

    def __str__(self) -> str:
        if self.separable is None:
            return f"undecided over {self.over}. {self.note}"
        if not self.separable:
            size = 0 if self.certificate is None else self.certificate.examples.size
            return f"not separable over {self.over}: {size} answers prove it. {self.note}".strip()
        most = self.mistake_bound
        told = "" if most is None else f", so the perceptron makes at most {most:.4g} mistakes"
        return (
            f"separable over {self.over} with margin {self.gamma:.4g} ({self.gamma_is}); features differ by at most "
            f"{self.radius:.4g}{told}. {self.note}"
        ).strip()


@errors_from("separable")
def separable(X: Any, y: Any = None, model: Any = None, *, max_completions: int = 256) -> Separability:
    r"""Whether exact inference can label the examples rightly with some weights, and the largest margin.

    Solves :math:`\min \lVert w \rVert` with :math:`w \cdot (\Phi(x, y) - \Phi(x, z)) \ge 1` for every wrong labelling z
    by constraint generation: an integer program finds each example's best wrong labelling, a quadratic program the
    weights, until none is violated; then :math:`\gamma = 1 / \lVert w \rVert`. Where there are no such weights, the
    result holds a proof. Cost: an integer program for each example and round; meant for samples of small graphs.

    Parameters
    ----------
    X, y : data and labels, as for `model.fit`
        Labels may be hidden or sets: any labelling that agrees counts as right. X alone may be a list of `Example`.
    model : GridCRF or GraphCRF
        How data become scores; need not be fitted.
    max_completions : int
        Most combinations of completions of hidden labels (with different features) that are tried.

    Returns
    -------
    Separability

    References
    ----------
    Kulesza2007, Definition 1.

    Examples
    --------
    >>> from intarsia.datasets.counterexamples import triangle_examples
    >>> found = separable(triangle_examples())
    >>> found.separable, (found.weights / found.weights[0]).round(6).tolist()
    (True, [1.0, 1.0, 1.0])
    >>> round(found.gamma, 6)                  # by 1 of w = (1, 1, 1), whose norm is the square root of 3
    0.57735
    """
    check_number(max_completions, "max_completions", low=1, integer=True)
    ready = labelled(as_examples(X, y, model))
    return _decide(ready, False, int(max_completions))


@errors_from("algorithmically_separable")
def algorithmically_separable(
    X: Any,
    y: Any = None,
    model: Any = None,
    inference: str | InferenceMethod = "lp_relaxation",
    *,
    max_completions: int = 256,
) -> Separability:
    r"""Whether this inference can label the examples rightly with some weights, and the largest margin.

    For exact methods the same as `separable`. For LP-relaxed inference every vertex of the local polytope is an answer,
    and fractional ones are wrong. Whether weights exist is decided by
    :math:`w \cdot (\Phi(x, y) - \Phi(x, z)) \ge D(z)` over the polytope, D the mass on wrong labels, which is linear,
    so that a linear program finds what is violated most; then the margin over its vertices.

    Parameters
    ----------
    X, y, model, max_completions
        As in `separable`.
    inference : str or InferenceMethod
        An exact method or a relaxation. Others answer what no program describes; `diagnose` probes them.

    Returns
    -------
    Separability

    References
    ----------
    Kulesza2007, Definition 2 and Theorem 1.

    Examples
    --------
    >>> from intarsia.datasets.counterexamples import triangle_examples
    >>> found = algorithmically_separable(triangle_examples())
    >>> found.separable, bool(found.certificate.residual < 1e-9)
    (False, True)
    """
    method = METHODS.resolve(inference, {})
    if not _maximises(type(method)):
        known = [name for name in method_names() if _maximises(method_class(name))]
        raise NotSupportedError(
            f"{type(method).__name__} is not the maximum over anything known, so that no "
            f"program decides. These are: {', '.join(known)}. For others, diagnose probes the learner's way."
        )
    check_number(max_completions, "max_completions", low=1, integer=True)
    ready = labelled(as_examples(X, y, model))
    return _decide(ready, method.map_is == "relaxed optimum", int(max_completions))


def _maximises(method: type[InferenceMethod]) -> bool:
    return method.gives_map and (method.exact or method.proves_map or method.map_is == "relaxed optimum")


def _decide(ready: list[MarginExample], relaxed: bool, max_completions: int) -> Separability:
    """Try the completions of hidden labels, and keep the one with the largest margin."""
    radius = max(FeatureBounds(one).radius for one in ready)
    choices = [completions(one, max_completions) for one in ready]
    n_ways = float(np.prod([float(len(found)) for found in choices]))
    if n_ways == 0.0:
        raise InvalidInputError("separability: the model forbids every labelling that agrees with an example's labels.")
    tight = all(one.source.form.graph.is_forest for one in ready)  # vertices of a forest's polytope are labellings
    search = MarginSearch(ready, relaxed and not tight)
    best = last = chosen = None
    for truths in itertools.islice(itertools.product(*choices), max_completions):
        last = search.run(list(truths))
        if last.weights is not None and (best is None or last.gamma > best.gamma):
            best, chosen = last, list(truths)
    complete = n_ways <= max_completions
    found = Separability(
        separable=best is not None or (False if complete else None),
        over="local polytope" if relaxed else "labellings",
        gamma_is="over vertices met" if search.relaxed else "exact",
        radius=radius,
        n_constraints=(best or last).n_constraints,  # type: ignore[union-attr]
        n_rounds=search.n_rounds,
    )
    if best is not None and best.weights is not None:
        length = 1.0 if search.has_fixed else float(np.linalg.norm(best.weights))
        note = "" if complete else "Some completions of hidden labels were not tried; the margin may be larger."
        certain = best.at_least if not search.relaxed or _vertices_are_far(ready) else None
        bound: Callable[[float], float | None] | None = None
        if certain and chosen is not None and not why_no_mistake_bound(ready):
            bound = partial(search.most_mistakes, chosen) if search.has_fixed else partial(_by_theorem, certain)
        weights = best.weights / length
        return replace(found, weights=weights, gamma=best.gamma, gamma_at_least=certain, note=note, _bound=bound)
    if not complete:
        note = f"{max_completions} completions of hidden labels were tried, and there are more: raise max_completions."
        return replace(found, note=note)
    note = "" if n_ways == 1 else f"This proof is for the last of {n_ways:.0f} completions of hidden labels."
    return replace(found, certificate=last.certificate, note=note)  # type: ignore[union-attr]


def _by_theorem(gamma: float, radius: float) -> float:
    return (radius / gamma) ** 2  # Kulesza2007 Theorem 1


def _vertices_are_far(ready: list[MarginExample]) -> bool:
    """Whether every wrong vertex of the local polytope surely has wrong labels of a mass of at least 1.

    Integral ones have. With binary variables and pairs the others are half-integral, and their fractional variables
    contain a cycle, for the vertices of a forest are integral: three or more variables, half of each wrong.
    """
    graphs = [one.source.form.graph for one in ready]
    binary = all(graph.max_scope <= 2 and int(graph.n_states.max(initial=2)) == 2 for graph in graphs)
    return binary and all(one.complete for one in ready)
