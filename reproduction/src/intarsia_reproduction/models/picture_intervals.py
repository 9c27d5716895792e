"""Confidence intervals of the error rates of images, over test images, and of differences to the baselines."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from intarsia._core.validation import FloatArray, IntArray
from intarsia.crf import GridCRF
from intarsia.exceptions import ConvergenceWarning
from intarsia.learning import LBFGS
from intarsia.metrics.pixels import count_errors
from intarsia_reproduction.experiment import Finding, Task
from intarsia_reproduction.models.image_fits import Pictures
from intarsia_reproduction.models.intervals import bootstrap_error, pooled_error

# Models whose errors are subtracted from those of each row.
BASES = ("boosting", "independent")
_INTERVAL = ("", ", low", ", high")


def predict_errors(crf: GridCRF, weights: FloatArray, test: Pictures) -> IntArray:
    """Return the numbers of wrong and of labelled pixels of each test image, predicted with stored weights.

    The model is "fitted" to the first test image by no iterations, which sets its sizes and keeps the weights.
    """
    learner: Any = crf.learner
    learner.set_params(optimizer=LBFGS(max_iter=0), checkpoint=None)
    first = test.take([0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        crf.fit(first.features, first.labels, edge_features=first.edges, start=weights)
        return count_errors(crf.predict_marginals(test.features, edge_features=test.edges), test.counted)


def interval_task(
    rows: Mapping[str, Sequence[str]],
    predict: Callable[[str, FloatArray], IntArray] | None = None,
    *,
    required: bool,
    bases: Sequence[str] = BASES,
    base_row: Callable[[str, str], str] = lambda row, base: base,
) -> Task:
    """Return the task that computes 95 % intervals of test errors, by bootstrap over the test images.

    Its figures are the test error of each row, and its differences to those of gradient boosting of single pixels and
    of the independent model on the same images. It reads the rows that are stored in the folder of the run, so it comes
    last; delete its file to compute it again after further rows. The pages show its figures as a table of their own:
    for each row "ROW: test error", "ROW: minus boosting" and "ROW: minus independent", each also with ", low" and
    ", high".

    Parameters
    ----------
    rows : dict of sequences of str
        Keys of the tasks whose test images are pooled for each row: the folds of a cross-validation, or a single task.
    predict : function, optional
        Function of a task's key and stored weights that returns the errors of each test image, for results that
        were stored without them. By default such results are left out.
    required : bool
        Whether a full run includes the task.
    bases : sequence of str
        Names of the baselines.
    base_row : function
        Function of a row and the name of a baseline that returns the row of that baseline; by default they are equal.
    """

    def run(checkpoint: Path) -> Finding:
        errors = {}
        for row, keys in rows.items():
            counts = [stored_errors(checkpoint.parent, key, predict) for key in keys]
            present = [count for count in counts if count is not None]
            if len(present) == len(counts):
                errors[row] = np.concatenate(present)
        n = max((len(counts) for counts in errors.values()), default=0)
        settings = {"interval": "95 %, bootstrap over test pictures, paired for differences", "draws": 2000}
        return Finding(error_intervals(errors, bases, base_row), n, settings=settings)

    label = "test errors with 95 % intervals over test pictures, and differences to the baselines"
    return Task("intervals", label, {}, "error rate", run, required=required, separate=True)


def error_intervals(
    errors: Mapping[str, IntArray],
    bases: Sequence[str] = BASES,
    base_row: Callable[[str, str], str] = lambda row, base: base,
) -> dict[str, float]:
    """Return the test error of each row with its interval, and the differences to the baselines on the same images.

    Examples
    --------
    >>> errors = {"crf": np.array([[1, 10], [2, 10]]), "independent": np.array([[2, 10], [3, 10]])}
    >>> values = error_intervals(errors)
    >>> [round(values[f"crf: minus independent{end}"], 3) for end in ("", ", low", ", high")]
    [-0.1, -0.1, -0.1]
    >>> "independent: minus independent" in values
    False
    """
    values: dict[str, float] = {}
    for row, counts in errors.items():
        figures = {"test error": (pooled_error(counts), *bootstrap_error(counts))}
        for base in bases:
            other = base_row(row, base)
            base_counts = errors.get(other)
            if other == row or base_counts is None or not np.array_equal(counts[:, 1], base_counts[:, 1]):
                continue
            difference = pooled_error(counts) - pooled_error(base_counts)
            figures[f"minus {base}"] = (difference, *bootstrap_error(counts, base_counts))
        for figure, triple in figures.items():
            values |= {f"{row}: {figure}{end}": value for end, value in zip(_INTERVAL, triple, strict=True)}
    return values


def stored_errors(folder: Path, key: str, predict: Callable[[str, FloatArray], IntArray] | None) -> IntArray | None:
    """Return the errors of each test image of a stored result, predicted again if need be; None without arrays."""
    path = folder / f"{key}.npz"
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as arrays:
        if "picture_errors" in arrays:
            return np.asarray(arrays["picture_errors"])
        if predict is None:
            return None
        weights = np.asarray(arrays["weights"])
    return predict(key, weights)
