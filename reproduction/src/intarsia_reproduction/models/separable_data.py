"""Separability of real data under LP-relaxed inference: a perceptron, then constraint generation."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from intarsia._core.status import Status
from intarsia._core.validation import FloatArray
from intarsia.crf import GraphCRF, GridCRF
from intarsia.exceptions import InvalidInputError
from intarsia.inference import InferenceMethod
from intarsia.inference.relaxation.lp_relaxation import LPRelaxation
from intarsia.learning.examples import Example
from intarsia.learning.margin_example import WRONG_MASS, MarginExample
from intarsia.learning.structured_perceptron import StructuredPerceptron
from intarsia_reproduction.experiment import Finding

# With weights in [-1, 1], a largest margin below this proves that no weights separate.
_SMALLEST_MARGIN = 1e-7
_N_PASSES = 200  # of the perceptron
_STRICT = 1e-3  # a wrong label must lose by this fraction of the margin, so that ties do not count as right
_SCALES = (0.01, 0.1, 1.0)  # factors on the weights in Theorem 2
TIME_LIMIT = 100.0  # processor seconds for each decision
_MANY_ROUNDS = 10_000  # so that the time ends an undecided search
_BUSY = 10.0  # HiGHS measures time by the clock, which on a busy machine runs faster than the processor time
Loaded = tuple[list[Example], list[Example], InferenceMethod]  # training examples, test examples, inference


@dataclass(frozen=True, eq=False)
class DataSeparability:
    """Whether weights exist with which LP-relaxed inference labels all examples correctly.

    Attributes
    ----------
    separable : bool or None
        None if the rounds or the time did not suffice.
    margin : float
        Largest margin over the generated constraints, with weights in [-1, 1]; an upper bound on the margin. NaN if no
        linear program was solved.
    n_wrong : int
        Number of examples that the last weights label wrongly.
    n_passes : int
        Number of passes of the perceptron.
    n_rounds, n_constraints : int
        Number of linear programs, and number of constraints in the last one.
    weights : float array
        Last weights.
    """

    separable: bool | None
    margin: float
    n_wrong: int
    n_passes: int
    n_rounds: int
    n_constraints: int
    weights: FloatArray


def decide_separability(
    examples: Sequence[Example],
    *,
    inference: InferenceMethod | None = None,
    max_rounds: int = 20,
    time_limit: float = np.inf,
) -> DataSeparability:
    """Decide algorithmic separability of data sets that are too large for `algorithmically_separable`.

    A perceptron with a margin searches first: a pass without a mistake proves that the data are separable. Otherwise a
    linear program decides. Weights that separate must score every labelling above those with one changed label, and
    the program returns the weights of the largest margin over these changes. If there are none, the data are not
    separable. Otherwise inference labels the examples: if all answers are right, and no other answer ties, the weights
    prove that the data are separable; each wrong answer, fractional or not, is a further constraint.

    Parameters
    ----------
    examples : list of Example
        Labelled graphs without hidden labels or fixed scores.
    inference : InferenceMethod, optional
        Method that labels the examples; by default the LP relaxation.
    max_rounds : int
        Maximum number of linear programs.
    time_limit : float
        Processor seconds after which the search gives up; the perceptron has at most half of them.

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
    begin = time.process_time()
    weights, n_passes, converged = _run_perceptron(examples, method, begin + time_limit / 2.0)
    if converged:
        return DataSeparability(True, np.nan, 0, n_passes, 0, 0, weights)
    rows = [row for item in items for row in _single_changes(item)]
    margin, n_wrong, n_rounds = np.nan, len(items), 0
    while n_rounds < max_rounds:
        solution = _largest_margin(rows, begin + time_limit - time.process_time())
        if solution is None:
            break
        weights, margin = solution
        n_rounds += 1
        if margin <= _SMALLEST_MARGIN:
            return DataSeparability(False, margin, len(items), n_passes, n_rounds, len(rows), weights)
        n_wrong = 0
        for item in items:
            theta = item.theta(weights)
            answer, _ = item.answer(theta + _STRICT * margin * item.cost, method)
            if item.wrong_mass(answer) > WRONG_MASS:
                n_wrong += 1
                rows.append(_constraint(item, item.truth(theta, method) - answer))
        if n_wrong == 0:
            return DataSeparability(True, margin, 0, n_passes, n_rounds, len(rows), weights)
    return DataSeparability(None, margin, n_wrong, n_passes, n_rounds, len(rows), weights)


def _run_perceptron(
    examples: Sequence[Example], method: InferenceMethod, deadline: float
) -> tuple[FloatArray, int, bool]:
    """Return the weights after some passes, the number of passes, and whether the last one had no mistake."""
    learner = StructuredPerceptron(average=False, margin=1.0, max_iter=1, shuffle=False, path="none")
    weights: FloatArray = np.zeros(examples[0].scores.n_weights)
    n_passes, converged = 0, False
    while not converged and n_passes < _N_PASSES and time.process_time() < deadline:
        fit = learner.minimize(examples, method, start=weights)
        weights, converged, n_passes = fit.point, fit.status is Status.CONVERGED, n_passes + 1
    return weights, n_passes, converged


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


def _largest_margin(rows: list[sparse.csr_array], time_limit: float) -> tuple[FloatArray, float] | None:
    """Maximize t with `rows @ w >= t` and weights in [-1, 1]; return None if the time does not suffice."""
    from scipy.optimize import linprog

    matrix = sparse.vstack(rows, format="csr")
    n = matrix.shape[1]
    system = sparse.hstack([-matrix, sparse.csr_array(np.ones((matrix.shape[0], 1)))], format="csr")
    cost = np.append(np.zeros(n), -1.0)
    bounds = [(-1.0, 1.0)] * n + [(0.0, None)]
    if time_limit <= 0.0:
        return None
    options: Any = {"time_limit": _BUSY * time_limit} if np.isfinite(time_limit) else {}
    result = linprog(cost, A_ub=system, b_ub=np.zeros(matrix.shape[0]), bounds=bounds, method="highs", options=options)
    if result.status != 0:  # the program is feasible and bounded, so only the time can end it without a solution
        return None
    solution = np.asarray(result.x, dtype=np.float64)
    return solution[:n], float(solution[n])


def data_separability(name: str, n: int, data: Path | None = None, time_limit: float = TIME_LIMIT) -> Finding:
    """Decide the separability of the first n words, snakes or horses (32 x 32 pixels in blocks of 2 x 2)."""
    examples, _, method = _LOADERS[name](n, 0, data)
    result = decide_separability(examples, inference=method, max_rounds=_MANY_ROUNDS, time_limit=time_limit)
    settings: dict[str, Any] = {
        "examples": n,
        "margin": result.margin,
        "wrong examples of the last weights": result.n_wrong,
        "passes of the perceptron": result.n_passes,
        "rounds": result.n_rounds,
        "constraints": result.n_constraints,
        "weights": int(examples[0].scores.n_weights),
    }
    if result.separable is None:
        settings["note"] = f"not decided within {time_limit:g} processor s"
        return Finding({}, n, settings=settings)
    return Finding({"": float(result.separable)}, n, settings=settings)


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
