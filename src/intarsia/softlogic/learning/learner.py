"""What every learner of hinge-loss models is: settings, and one function from a model with labels to weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from intarsia._core.html import ShownResult
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, as_float_array
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.hinge.mrf import HingeLossMRF

Score = Callable[[FloatArray], float]


@dataclass(frozen=True, eq=False)
class LearnedWeights(ShownResult):
    """What a learner found, and how it got there.

    Attributes
    ----------
    weights : float array (n_groups,)
        One weight for each group of the model.
    status : Status
        CONVERGED, MAX_ITER, TIME_LIMIT or INTERRUPTED.
    n_iter : int
        Updates of the weights.
    n_admm_iter : int
        ADMM iterations on both problems together; 0 where there is no inference.
    latent : float array (n_latent,)
        Last values of the latent variables, in their order in the model.
    history : dict of arrays
        A row for the start and for each update that was kept: "weights" (rows, n_groups), "updates" and
        "admm_iterations" made so far, "seconds"; with `evaluate=True` also "objective" and "score", computed afterwards
        at these weights.

    Examples
    --------
    A rule that its label breaks is not wanted: a rule for y = 1, where y is 0, ends with the weight 0.

    >>> from intarsia.softlogic.hinge.linear_rows import LinearRows
    >>> from intarsia.softlogic.learning.paired_dual import PairedDual
    >>> from intarsia.softlogic.learning.projected_subgradient import ProjectedSubgradient
    >>> rule = HingeLossMRF(1, LinearRows([0, 1], [0], [-1.0], [1.0]), 1.0, 2)
    >>> found = PairedDual(optimizer=ProjectedSubgradient(average=False)).fit(rule, [0.0])
    >>> found.weights.tolist(), found.history["weights"][0].tolist(), found.latent.size
    ([0.0], [1.0], 0)
    """

    weights: FloatArray
    status: Status
    n_iter: int
    n_admm_iter: int
    latent: FloatArray
    history: dict[str, NDArray[Any]] = field(default_factory=dict)


class HingeLearner(BaseEstimator, ABC):  # type: ignore[misc]
    """Base of the learners of weights, the values of `SoftLogic(learner=...)`."""

    name: ClassVar[str]
    """Name in the registry."""
    summary: ClassVar[str]
    """When to choose it, in one line."""
    takes_latent: ClassVar[bool] = True
    """Whether variables may be without a label."""

    @abstractmethod
    def fit(
        self,
        model: HingeLossMRF,
        labels: ArrayLike,
        *,
        start: ArrayLike | None = None,
        learned: ArrayLike | None = None,
        score: Score | None = None,
        title: str = "",
    ) -> LearnedWeights:
        """Learn a weight for each group of a model.

        Parameters
        ----------
        model : HingeLossMRF
            Terms that share a weight have one group.
        labels : float array (n_variables,)
            Values in [0, 1]; NaN at latent variables.
        start : float array (n_groups,), optional
            Where to begin; by default the model's own weights.
        learned : bool array (n_groups,), optional
            Which weights to learn, all by default; the others stay.
        score : function, optional
            From weights to a figure such as accuracy on other data, for the history.
        title : str
            What progress is shown under.
        """

    def _check_labels(self, labels: FloatArray) -> None:
        if labels.size and np.isnan(labels).all():
            raise InvalidInputError(
                f"{type(self).__name__}: no variable has a label, so there is nothing to learn from. Give some."
            )
        if not self.takes_latent and np.isnan(labels).any():
            i = int(np.argmax(np.isnan(labels)))
            raise InvalidInputError(
                f"{type(self).__name__}: variable {i} has no label, and this learner takes none that are latent. Label "
                f"all of them, or use learner='paired_dual'."
            )


def start_weights(model: HingeLossMRF, start: ArrayLike | None) -> FloatArray:
    """The weights to begin at: those given, or the model's (of each group's first term; 1 where it has no term).

    Examples
    --------
    >>> from intarsia.softlogic.hinge.linear_rows import LinearRows
    >>> rows = LinearRows([0, 1, 2], [0, 0], [1.0, -1.0], [0, 1])
    >>> start_weights(HingeLossMRF(1, rows, [3.0, 5.0], 1, term_group=[0, 1]), None)
    array([3., 5.])
    """
    if start is None:
        weights = np.ones(model.n_groups)
        group = np.arange(model.n_terms) if model.term_group is None else model.term_group
        found, first = np.unique(group, return_index=True)
        weights[found] = model.weight[first]
        return weights
    weights = as_float_array(start, "start").copy()
    if weights.shape != (model.n_groups,):
        raise InvalidInputError(
            f"start has shape {weights.shape}, but there are {model.n_groups} groups. Give one weight for each."
        )
    good = np.isfinite(weights) & (weights >= 0.0)
    if not good.all():
        k = int(np.argmax(~good))
        raise InvalidInputError(f"start[{k}] is {weights[k]}. Weights are finite and at least 0.")
    return weights


def learned_mask(model: HingeLossMRF, learned: ArrayLike | None) -> NDArray[np.bool_]:
    """Which weights move: all, or those given.

    Examples
    --------
    >>> from intarsia.softlogic.hinge.linear_rows import LinearRows
    >>> learned_mask(HingeLossMRF(1, LinearRows([0, 1], [0], [1.0], [0.0]), 1.0, 1), None)
    array([ True])
    """
    if learned is None:
        return np.ones(model.n_groups, dtype=bool)
    mask = np.asarray(learned)
    if mask.dtype != bool or mask.shape != (model.n_groups,):
        raise InvalidInputError(
            f"learned must be a vector of {model.n_groups} times True or False, one for each group, got "
            f"{mask.dtype} of shape {mask.shape}."
        )
    return mask
