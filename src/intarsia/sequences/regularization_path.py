"""Choice of the L2 regularization of a chain model by cross-validation along a warm-started path."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from intarsia._core.error_context import errors_from, warn_caller
from intarsia._core.progress import fit_progress
from intarsia._core.settings import clone
from intarsia._core.validation import FloatArray, IntArray, as_float_array, as_seed, check_choice, check_number
from intarsia.exceptions import ConvergenceWarning, InvalidInputError, NotSupportedError
from intarsia.learning.minimum import Minimum
from intarsia.metrics.labelling import labelling_scores
from intarsia.metrics.segments import segment_scores
from intarsia.sequences.chain_data import ChainExamples, ChainScores
from intarsia.sequences.chain_learner import ChainLearner, Prepared, make_layout, prepare_fit
from intarsia.sequences.chain_prediction import best_labels, for_each_sequence
from intarsia.sequences.maximum_likelihood import ChainRisk, MaximumLikelihood

if TYPE_CHECKING:
    from intarsia.sequences.chain_crf import ChainCRF

# From strong to weak regularization, two values per power of ten. Strong values converge in few iterations.
DEFAULT_VALUES = tuple(float(f"{10.0 ** (2.0 - step / 2.0):.3g}") for step in range(13))
# The path ends after this many consecutive values whose score is below the best: weaker values take longest to fit.
PATIENCE = 2
# The score of a value of l2 changes little in the last digits of the weights, so the path stops earlier than a fit.
PATH_TOL = 1e-4
# A fit along the path needs 20 to 30 iterations on hundreds of strings; this limit bounds the work of the path.
PATH_MAX_ITER = 200

RULES = ("best", "one_standard_error")
Metric = Callable[[list[Any], list[Any]], float]
_METRICS: dict[str, Metric] = {
    "accuracy": lambda y_true, y_pred: labelling_scores(y_true, y_pred).accuracy,
    "segment_f1": lambda y_true, y_pred: segment_scores(y_true, y_pred).f1,
}
SCORINGS = ("log_likelihood", *_METRICS)


@dataclass(frozen=True, eq=False)
class L2Path:
    """Held-out scores of a chain model for several values of `l2`, and the value that was chosen.

    Attributes
    ----------
    l2 : float
        Chosen value.
    values : (n,) array
        Evaluated values, in descending order. The path ends early where weaker regularization no longer helps.
    scores : (n, n_folds) array
        Held-out score of every value in every fold; higher is better.
    scoring : str
        Name of the score. "log_likelihood" is the mean log-likelihood per labelled position.
    model : ChainCRF, optional
        Model fitted to all sequences with the chosen value; None without a refit.

    Examples
    --------
    >>> path = L2Path(0.1, np.array([1.0, 0.1]), np.array([[-0.5, -0.7], [-0.4, -0.6]]), "log_likelihood")
    >>> print(path)
         l2  log_likelihood  standard error
          1         -0.6000          0.1000
        0.1         -0.5000          0.1000  chosen
    """

    l2: float
    values: FloatArray
    scores: FloatArray
    scoring: str
    model: ChainCRF | None = field(default=None, repr=False)

    @property
    def mean(self) -> FloatArray:
        """Mean score of each value over the folds."""
        return np.asarray(self.scores.mean(axis=1))

    @property
    def standard_error(self) -> FloatArray:
        """Standard error of each mean, from the variation between the folds; NaN for a single fold."""
        n_folds = self.scores.shape[1]
        if n_folds < 2:
            return np.full(len(self.values), np.nan)
        return np.asarray(self.scores.std(axis=1, ddof=1) / np.sqrt(n_folds))

    @property
    def table(self) -> dict[str, FloatArray]:
        """Columns "l2", "mean" and "standard_error", from which `pandas.DataFrame` makes a table."""
        return {"l2": self.values, "mean": self.mean, "standard_error": self.standard_error}

    def __str__(self) -> str:
        width = max(len(self.scoring), 10)
        lines = [f"{'l2':>8}  {self.scoring:>{width}}  standard error"]
        for value, mean, error in zip(self.values, self.mean, self.standard_error, strict=True):
            mark = "  chosen" if value == self.l2 else ""
            lines.append(f"{value:>8.4g}  {mean:>{width}.4f}  {error:>14.4f}{mark}")
        return "\n".join(lines)


@errors_from("choose_l2")
def choose_l2(
    estimator: ChainCRF,
    X: Any,
    y: Any,
    *,
    l2_values: Sequence[float] | None = None,
    cv: Any = 5,
    scoring: str | Metric = "log_likelihood",
    rule: str = "best",
    edge_features: Any = None,
    sample_weight: Any = None,
    refit: bool = True,
    random_state: int | np.random.Generator | None = 0,
) -> L2Path:
    """Choose `l2` of a `ChainCRF` by cross-validation, and fit the model with it.

    Every fold is fitted from the strongest to the weakest regularization, and each fit starts from the weights of the
    previous one (a warm-started regularization path), so that a path costs little more than its last fit. The path ends
    after two consecutive values with a lower score than the best. `ChainCRF(l2="auto")` makes this choice within `fit`,
    with the default arguments.

    Parameters
    ----------
    estimator : ChainCRF
        Model with any settings; it is not changed, and its own `l2` is ignored. Its learner must be
        `MaximumLikelihood`. Energies do not influence the choice.
    X, y : lists of sequences and labels
        Data in a format that `ChainCRF.fit` accepts. Labels may be hidden with "log_likelihood" and "accuracy".
    l2_values : list of float, optional
        Positive values to try; by default 100, 31.6, 10, ... 0.0001.
    cv : int, splitter or iterable
        Number of folds, a scikit-learn splitter, or pairs of training and test indices. An integer shuffles the
        sequences; data with fewer sequences have one fold per sequence.
    scoring : {"log_likelihood", "accuracy", "segment_f1"} or function
        Held-out score: the mean log-likelihood per labelled position, the fraction of correct labels, the F1 of
        segments as by conlleval, or a function of true and predicted labels (lists of lists) whose larger values are
        better.
    rule : {"best", "one_standard_error"}
        Choose the value with the best mean score, or the strongest regularization within one standard error of it.
    edge_features, sample_weight
        As in `ChainCRF.fit`.
    refit : bool
        Whether to fit the model to all sequences with the chosen value.
    random_state : int or Generator, optional
        Seed of the folds.

    Returns
    -------
    L2Path
        Chosen value `l2`, the scores, and the fitted `model`.

    Raises
    ------
    InvalidInputError
        If an argument is invalid, or a fold has no labelled position.
    NotSupportedError
        If the learner has no L2 regularization.

    Examples
    --------
    >>> from intarsia import ChainCRF
    >>> X = [[["sun"], ["rain"]], [["rain"], ["sun"]], [["sun"], ["sun"]], [["rain"], ["rain"]]] * 5
    >>> y = [["good", "bad"], ["bad", "good"], ["good", "good"], ["bad", "bad"]] * 5
    >>> path = choose_l2(ChainCRF(), X, y, l2_values=[10.0, 1.0, 0.1], cv=4)
    >>> path.l2, path.scores.shape
    (0.1, (3, 4))
    >>> path.model.predict([[["rain"]]])[0].tolist()
    ['bad']
    """
    learner = _check_learner(estimator._resolve_learner())
    inputs = prepare_fit(estimator, X, y, edge_features, sample_weight, estimator.classes, None)
    learner.check_examples(inputs.examples)
    folds = _folds(cv, inputs.examples, as_seed(random_state))
    path = follow_path(estimator, learner, inputs, folds, _check_values(l2_values), scoring, rule)
    if not refit:
        return path
    model = clone(estimator).set_params(l2=path.l2)
    return replace(path, model=model.fit(X, y, edge_features=edge_features, sample_weight=sample_weight))


def path_of_fit(crf: ChainCRF, learner: ChainLearner, inputs: Prepared, fixed_layout: bool) -> L2Path:
    """Return the path by which `ChainCRF(l2="auto")` chooses: five shuffled folds, held-out log-likelihood."""
    learner = _check_learner(learner)
    folds = _folds(5, inputs.examples, as_seed(learner.random_state))
    return follow_path(crf, learner, inputs, folds, np.array(DEFAULT_VALUES), "log_likelihood", "best", fixed_layout)


def _check_learner(learner: ChainLearner) -> MaximumLikelihood:
    if not isinstance(learner, MaximumLikelihood):
        raise NotSupportedError(
            f"{type(learner).__name__} has no L2 regularization to choose. Use learner='maximum_likelihood'."
        )
    return learner


def follow_path(
    crf: ChainCRF,
    learner: MaximumLikelihood,
    inputs: Prepared,
    folds: list[tuple[IntArray, IntArray]],
    values: FloatArray,
    scoring: str | Metric,
    rule: str,
    fixed_layout: bool = False,
) -> L2Path:
    """Fit every fold for descending values of `l2`, each from the weights of the previous value; choose a value.

    Pairs of feature and label have a weight if they occur in the training part of the fold, so that held-out labels
    have no influence; with `fixed_layout`, the weights are those of an earlier fit.
    """
    check_choice(rule, RULES, "rule")
    if not callable(scoring):
        check_choice(scoring, SCORINGS, "scoring")
    examples = inputs.examples
    layouts = [examples.layout] * len(folds)
    if not fixed_layout:
        training_sets = (examples.subset(train) for train, _ in folds)
        layouts = [make_layout(crf, train.data, train.truth, len(inputs.classes)) for train in training_sets]
    weights = [np.zeros(layout.n_weights) for layout in layouts]
    scores: list[list[float]] = []
    n_limited = 0
    with (
        threadpool_limits(1, user_api="blas"),
        fit_progress("choice of l2", bool(learner.verbose)) as report,
    ):
        for step, l2 in enumerate(values.tolist()):
            row = []
            for k, (train, test) in enumerate(folds):
                fold = replace(examples, layout=layouts[k])
                minimum = _fit_fold(learner, fold.subset(train), weights[k], l2)
                weights[k], n_limited = minimum.point, n_limited + (minimum.n_iter >= PATH_MAX_ITER)
                row.append(_score(scoring, fold.subset(test), weights[k], inputs.classes, learner.n_jobs))
            scores.append(row)
            if report is not None:
                report(step + 1, -float(np.mean(row)), 0.0, (step + 1) / len(values))
            means = np.mean(scores, axis=1)
            if step - int(means.argmax()) >= PATIENCE:
                break
    if n_limited:
        warn_caller(
            f"{n_limited} of {np.size(scores)} fits along the path of l2 ended at the limit of {PATH_MAX_ITER} "
            f"iterations, so their scores are estimates. Scale the features, or raise tol of the optimizer.",
            ConvergenceWarning,
        )
    path = L2Path(0.0, values[: len(scores)], np.array(scores), scoring if isinstance(scoring, str) else "score")
    return replace(path, l2=_choice(path, rule))


def _choice(path: L2Path, rule: str) -> float:
    """Return the best value, or the strongest one within one standard error; ties go to the stronger value."""
    best = int(path.mean.argmax())
    if rule == "one_standard_error" and path.scores.shape[1] > 1:
        best = int(np.argmax(path.mean >= path.mean[best] - path.standard_error[best]))
    return float(path.values[best])


def _fit_fold(learner: MaximumLikelihood, examples: ChainExamples, start: FloatArray, l2: float) -> Minimum:
    risk = ChainRisk(examples, l2 / examples.mass, learner.n_jobs)
    optimizer = clone(learner.optimizer_for(risk))
    optimizer.set_params(tol=max(float(optimizer.tol), PATH_TOL), max_iter=min(int(optimizer.max_iter), PATH_MAX_ITER))
    return optimizer.minimize(risk, start, random_state=as_seed(learner.random_state))


def _score(
    scoring: str | Metric, examples: ChainExamples, weights: FloatArray, classes: Any, n_jobs: int | None
) -> float:
    """Return the score of the weights on held-out examples."""
    if scoring == "log_likelihood":
        return -float(ChainRisk(examples, 0.0, n_jobs)(weights)[0])
    scores = ChainScores(examples.data, examples.layout, examples.constraints)
    predicted = [classes[path].tolist() for path in for_each_sequence(scores, weights, best_labels, None, n_jobs)]
    names = [*classes.tolist(), None]  # a hidden label is -1, the last entry
    true = [[names[state] for state in states.tolist()] for states in examples.data.cut(examples.truth.states)]
    score = float((scoring if callable(scoring) else _METRICS[scoring])(true, predicted))
    if not np.isfinite(score):
        raise InvalidInputError(
            f"scoring returned {score} for a held-out fold, but the score must be finite. Use another score."
        )
    return score


def _check_values(l2_values: Sequence[float] | None) -> FloatArray:
    """Return the values of l2 in descending order, each once."""
    if l2_values is None:
        return np.array(DEFAULT_VALUES)
    values = as_float_array(np.atleast_1d(np.asarray(l2_values)), "l2_values")
    if values.ndim != 1 or not values.size:
        raise InvalidInputError(f"l2_values has shape {values.shape}. Pass a list of at least one positive number.")
    for i, value in enumerate(values.tolist()):
        check_number(value, f"l2_values[{i}]", low=0.0, open_low=True, high=np.inf, open_high=True)
    return np.unique(values)[::-1]


def _folds(cv: Any, examples: ChainExamples, seed: int) -> list[tuple[IntArray, IntArray]]:
    """Return training and test sequences of each fold, as indices of the sequences that are not empty."""
    n = len(examples)
    if isinstance(cv, (int, float, np.integer, np.floating)):
        check_number(cv, "cv", low=2, integer=True)
        if n < 2:
            raise InvalidInputError(
                "l2 cannot be chosen from a single sequence. Pass more sequences, or set l2 to a number."
            )
        order = np.random.default_rng(seed).permutation(n)
        tests = [np.sort(test) for test in np.array_split(order, min(int(cv), n))]
        folds = [(np.setdiff1d(np.arange(n), test), test) for test in tests]
    else:
        folds = list(_listed_folds(cv, examples))
        if not folds:
            raise InvalidInputError("cv has no fold. Pass a number of folds, a splitter, or pairs of indices.")
    is_labelled = np.add.reduceat(examples.truth.is_labelled, examples.data.ptr[:-1]) * examples.truth.weight > 0
    for k, fold in enumerate(folds):
        for name, indices in zip(("training", "held-out"), fold, strict=True):
            if not is_labelled[indices].any():
                raise InvalidInputError(
                    f"the {name} sequences of fold {k} have no label. Use fewer folds, or pass more labelled sequences."
                )
    return folds


def _listed_folds(cv: Any, examples: ChainExamples) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield the folds of a splitter or of an iterable; empty sequences are left out."""
    n_inputs = examples.data.n_inputs
    number = np.full(n_inputs, -1)
    number[examples.data.source_index] = np.arange(len(examples))
    is_splitter = hasattr(cv, "split") and not isinstance(cv, (str, bytes, np.ndarray))
    splits = cv.split(np.zeros(n_inputs)) if is_splitter else cv
    if isinstance(splits, (str, bytes)) or not isinstance(splits, Iterable):
        raise InvalidInputError(
            f"cv is of type {type(cv).__name__}. Pass a number of folds, a splitter with a method split, or pairs of "
            f"training and test indices."
        )
    for k, split in enumerate(splits):
        try:
            train, test = (
                number[np.asarray(indices if len(indices) else [], dtype=None if len(indices) else np.int64)]
                for indices in split
            )
        except (TypeError, ValueError, IndexError):
            raise InvalidInputError(
                f"fold {k} of cv is not a pair of indices in 0 .. {n_inputs - 1}. Pass pairs (training, test) of "
                f"integer arrays."
            ) from None
        yield train[train >= 0], test[test >= 0]
