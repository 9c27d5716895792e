"""Separability of real data under LP-relaxed inference: constraint generation from all changes of a single label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from intarsia._core.validation import FloatArray
from intarsia.crf import GraphCRF, GridCRF
from intarsia.exceptions import InvalidInputError
from intarsia.inference import InferenceMethod
from intarsia.inference.relaxation.lp_relaxation import LPRelaxation
from intarsia.learning.examples import Example
from intarsia.learning.margin_example import WRONG_MASS, MarginExample
from intarsia_reproduction.experiment import Finding

# With weights in [-1, 1], a largest margin below this proves that no weights separate.
_SMALLEST_MARGIN = 1e-7
_SCALES = (0.01, 0.1, 1.0)  # factors on the weights in Theorem 2
Loaded = tuple[list[Example], list[Example], InferenceMethod]  # training examples, test examples, inference


@dataclass(frozen=True, eq=False)
class DataSeparability:
    """Whether weights exist with which LP-relaxed inference labels all examples correctly.

    Attributes
    ----------
    separable : bool or None
        None if the rounds did not suffice.
    margin : float
        Largest margin over the generated constraints, with weights in [-1, 1]; an upper bound on the margin.
    n_wrong : int
        Number of examples that the last weights label wrongly.
    n_rounds, n_constraints : int
        Number of linear programs, and number of constraints in the last one.
    weights : float array
        Last weights, each in [-1, 1].
    """

    separable: bool | None
    margin: float
    n_wrong: int
    n_rounds: int
    n_constraints: int
    weights: FloatArray


def decide_separability(
    examples: Sequence[Example], *, inference: InferenceMethod | None = None, max_rounds: int = 20
) -> DataSeparability:
    """Decide algorithmic separability of data sets that are too large for `algorithmically_separable`.

    Weights that separate must score every labelling above those with one changed label. A linear program finds the
    weights of the largest margin over these changes. If there are none, the data are not separable. Otherwise
    inference labels the examples: if all answers are right, the weights prove that the data are separable; each wrong
    answer, fractional or not, is a further constraint.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> from intarsia.learning import example
    >>> from intarsia.models import LinearScores
    >>> chains = [example(LinearScores(chain_graph(2, 2), [[x], [-x]]), y) for x, y in ((1.0, [1, 0]), (-1.0, [0, 1]))]
    >>> decide_separability(chains).separable
    True
    >>> contradiction = [example(LinearScores(chain_graph(2, 2), [[1.0], [1.0]]), y) for y in ([0, 0], [1, 1])]
    >>> decide_separability(contradiction).separable
    False
    """
    method = LPRelaxation() if inference is None else inference
    items = [MarginExample(item, i) for i, item in enumerate(examples)]
    for item in items:
        if not item.complete or item.theta(np.zeros(item.source.scores.n_weights)).any():
            raise InvalidInputError(
                f"decide_separability: example {item.number} has hidden labels or fixed scores. Use "
                f"`algorithmically_separable`, which supports both."
            )
    rows = [row for item in items for row in _single_changes(item)]
    for n_rounds in range(1, max_rounds + 1):
        weights, margin = _largest_margin(rows)
        if margin <= _SMALLEST_MARGIN:
            return DataSeparability(False, margin, len(items), n_rounds, len(rows), weights)
        n_wrong = 0
        for item in items:
            theta = item.theta(weights)
            answer, _ = item.answer(theta, method)
            if item.wrong_mass(answer) > WRONG_MASS:
                n_wrong += 1
                rows.append(_constraint(item, item.truth(theta, method) - answer))
        if n_wrong == 0:
            return DataSeparability(True, margin, 0, n_rounds, len(rows), weights)
    return DataSeparability(None, margin, n_wrong, max_rounds, len(rows), weights)


def _single_changes(item: MarginExample) -> list[sparse.csr_array]:
    """Return the difference of features between the labels and each labelling with one label changed."""
    graph = item.source.scores.graph
    truth = graph.statistics(item.labels)
    rows = []
    for variable, n_states in enumerate(graph.n_states):
        for state in range(int(n_states)):
            if state != item.labels[variable]:
                changed = item.labels.copy()
                changed[variable] = state
                rows.append(_constraint(item, truth - graph.statistics(changed)))
    return rows


def _constraint(item: MarginExample, difference: FloatArray) -> sparse.csr_array:
    return sparse.csr_array(item.pull_back(difference)[None, :])


def _largest_margin(rows: list[sparse.csr_array]) -> tuple[FloatArray, float]:
    """Maximize t with `rows @ w >= t` and weights in [-1, 1]."""
    from scipy.optimize import linprog

    matrix = sparse.vstack(rows, format="csr")
    n = matrix.shape[1]
    system = sparse.hstack([-matrix, sparse.csr_array(np.ones((matrix.shape[0], 1)))], format="csr")
    cost = np.append(np.zeros(n), -1.0)
    bounds = [(-1.0, 1.0)] * n + [(0.0, None)]
    result = linprog(cost, A_ub=system, b_ub=np.zeros(matrix.shape[0]), bounds=bounds, method="highs")
    solution = np.asarray(result.x, dtype=np.float64)  # the program is feasible and bounded, so there is a solution
    return solution[:n], float(solution[n])


def data_separability(name: str, n: int, data: Path | None = None) -> Finding:
    """Decide the separability of the first n words, snakes or horses (32 x 32 pixels in blocks of 2 x 2)."""
    examples, _, method = _LOADERS[name](n, 0, data)
    result = decide_separability(examples, inference=method)
    settings: dict[str, Any] = {
        "examples": n,
        "margin": result.margin,
        "wrong examples of the last weights": result.n_wrong,
        "rounds": result.n_rounds,
        "constraints": result.n_constraints,
        "weights": int(examples[0].scores.n_weights),
    }
    if result.separable is None:
        settings["note"] = f"undecided after {result.n_rounds} rounds, {result.n_wrong} examples wrong"
    value = np.nan if result.separable is None else float(result.separable)
    return Finding({"": value}, n, settings=settings)


def risk_and_bound(name: str, n: int, n_test: int, data: Path | None = None) -> Finding:
    """Return the bound of Kulesza2007, Theorem 2, and the test error of weights that separate the first n examples."""
    from intarsia.diagnostics import pac_bayes_bound

    examples, test, method = _LOADERS[name](n, n_test, data)
    weights = decide_separability(examples, inference=method).weights
    n_wrong = 0.0
    for i, item in enumerate(test):
        labelled = MarginExample(item, i)
        n_wrong += labelled.wrong_mass(labelled.answer(labelled.theta(weights), method)[0])
    n_labels = sum(item.n_labelled for item in test)
    bound = pac_bayes_bound(examples, weights=weights, scales=_SCALES)
    settings = {
        "examples": [n, len(test)],
        "empirical term": [bound.empirical_at_least, bound.empirical],
        "complexity": bound.complexity,
        "scale": bound.scale,
        "delta": bound.delta,
        "note": "the bound is vacuous" if bound.bound >= 1.0 else "done",
    }
    return Finding({"bound of Theorem 2": bound.bound, "test error": n_wrong / n_labels}, n_labels, settings=settings)


def _words(n: int, n_test: int, data: Path | None) -> Loaded:
    from intarsia.inference.exact.tree import Tree  # on chains the relaxation is exact
    from intarsia_reproduction.datasets import load_ocr_letters

    letters = load_ocr_letters(data=data)
    indices = [*np.flatnonzero(letters.fold == 0)[:n], *np.flatnonzero(letters.fold == 1)[:n_test]]
    X: list[Any] = []
    for i in indices:
        size = len(letters.letters[i])
        X.append((letters.pixels[i].astype(np.float64), np.column_stack([np.arange(size - 1), np.arange(1, size)])))
    y = [letters.letters[i].astype(np.int64) for i in indices]
    examples = GraphCRF(inference="tree", classes=np.arange(26)).examples(X, y)
    return examples[:n], examples[n:], Tree()


def _snakes(n: int, n_test: int, data: Path | None) -> Loaded:
    from intarsia_reproduction.datasets import load_snakes
    from intarsia_reproduction.experiments.margin import snake_features

    images = load_snakes(data=data)
    X = [snake_features(rgb) for rgb in (*images.train_rgb[:n], *images.test_rgb[:n_test])]
    y = [labels.astype(np.int64) for labels in (*images.train_label[:n], *images.test_label[:n_test])]
    examples = GridCRF(classes=np.arange(11)).examples(X, y)
    return examples[:n], examples[n:], LPRelaxation()


def _horses(n: int, n_test: int, data: Path | None) -> Loaded:
    from intarsia.models import pixel_features
    from intarsia_reproduction.datasets import load_horses
    from intarsia_reproduction.models.image_fits import block_means

    horses = load_horses(size=32, data=data)
    indices = [*horses.train[:n], *horses.test[:n_test]]
    X = [block_means(pixel_features(horses.rgb[i]), 2) for i in indices]
    y = [(block_means(horses.mask[i], 2) >= 0.5).astype(np.int64) for i in indices]
    examples = GridCRF(classes=np.arange(2)).examples(X, y)
    return examples[:n], examples[n:], LPRelaxation()


_LOADERS = {"words": _words, "snakes": _snakes, "horses": _horses}
