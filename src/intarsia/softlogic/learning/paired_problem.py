"""The two inference problems of weight learning: labels free, and labels clamped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intarsia._core.validation import FloatArray, IntArray, frozen, read_only
from intarsia._kernels.hinge_sums import sum_hinges
from intarsia.softlogic.hinge.conditioning import check_values, condition
from intarsia.softlogic.hinge.linear_rows import Index32, LinearRows
from intarsia.softlogic.hinge.mrf import HingeLossMRF
from intarsia.softlogic.learning.surrogates import EntropySurrogate, SurrogateTerms


@dataclass(frozen=True, eq=False, repr=False)
class Side:
    r"""One of the two inference problems: :math:`\min w \cdot \phi - h` over its free variables.

    Attributes
    ----------
    model : HingeLossMRF
        Terms with free variables; groups 0 .. n_weights - 1 have the learned weights, later groups those of the
        surrogate.
    fixed : float array (n_weights,)
        Features of the terms without free variables.
    constant : float
        Constant that the surrogate adds to the minimum.
    """

    model: HingeLossMRF
    fixed: FloatArray
    constant: float

    def minimum(self, weights: FloatArray, objective: float) -> float:
        """Return the minimum of the problem, from the objective of its model with these weights."""
        return objective + float(weights @ self.fixed) + self.constant


@dataclass(frozen=True, eq=False, repr=False)
class PairedProblem:
    r"""Learning problem of a model with labels and latent variables, as a difference of two inference problems.

    .. math:: J(w) = \tfrac{\lambda}{2} |w|^2 + [\min_{z'} w \cdot \phi(\hat y, z') - h(\hat y, z')]
                     - [\min_{y, z} w \cdot \phi(y, z) - h(y, z)]

    This is Eq. 4 of Bach2015 with the sign for which lower values are more likely: the first bracket, with the labels,
    must approach the second, over all states. Its subgradient is :math:`\lambda w + \phi(\hat y, z') - \phi(y, z)`. If
    both problems contain the surrogate, J is never negative.

    Attributes
    ----------
    free, clamped : Side
        Problem over labelled and latent variables; problem over latent variables, with the labels substituted.
    labels : float array (n_variables,)
        Labels; NaN for latent variables.
    latent : int array (n_latent,)
        Latent variables, in the order of the clamped model.
    counts : float array (n_weights,)
        Number of terms that share each weight, at least 1.
    surrogate : float array
        Weights of the groups of the surrogate.

    Examples
    --------
    The rule for y = 1 has feature 1 for the label 0, and feature 0 if y is free to be 1:

    >>> rule = HingeLossMRF(1, LinearRows([0, 1], [0], [-1.0], [1.0]), 1.0, 1)             # max(0, 1 - y)
    >>> problem = PairedProblem.of(rule, [0.0])
    >>> problem
    PairedProblem(1 labelled and 0 latent variables, 1 weights)
    >>> clamped, free = problem.clamped.fixed, problem.features(problem.free, np.array([0.0]))
    >>> problem.gradient(np.array([2.0]), clamped, free, l2=0.5).tolist()               # 0.5 x 2 + 1 - 0
    [2.0]
    """

    free: Side
    clamped: Side
    labels: FloatArray
    latent: IntArray
    counts: FloatArray
    surrogate: FloatArray

    @classmethod
    def of(cls, model: HingeLossMRF, labels: ArrayLike, surrogate: EntropySurrogate | None = None) -> PairedProblem:
        """Create the problem from a model, labels and a surrogate.

        Parameters
        ----------
        model : HingeLossMRF
            The model; its weights are ignored, the terms of a group share a weight.
        labels : float array (n_variables,)
            A value in [0, 1] for each labelled variable, NaN for each latent variable.
        surrogate : EntropySurrogate, optional
            Surrogate h of the entropy. None means h = 0, for which weights 0 are always optimal.

        Raises
        ------
        InvalidInputError
            A label is outside [0, 1], or the labels alone violate a constraint; the message names it.

        Examples
        --------
        With label y = 1 the rule z -> y is always satisfied:

        >>> rule = HingeLossMRF(2, LinearRows([0, 2], [0, 1], [1.0, -1.0], [0.0]), 1.0, 2)      # max(0, z - y)^2
        >>> problem = PairedProblem.of(rule, [np.nan, 1.0])
        >>> problem.clamped.model.terms.values([0.25])
        array([-0.75])
        """
        values = check_values(labels, model.n_variables, "PairedProblem: labels")
        extras = [] if surrogate is None else surrogate.terms(values)
        base, n_weights = _groups(model), model.n_groups
        counts = np.bincount(base, minlength=n_weights).astype(np.float64)
        extended = _with_surrogate(model, base, extras)
        free = Side(extended, np.zeros(n_weights), sum(extra.constant for extra in extras))
        # Surrogate terms of the free problem only keep their group in the clamped problem, without terms.
        clamped_extras = [extra if extra.in_both else _without_rows(extra) for extra in extras]
        conditioned = condition(_with_surrogate(model, base, clamped_extras), values)
        weights = np.array([extra.weight for extra in extras])
        constant = float(weights @ conditioned.fixed[n_weights:]) + sum(extra.constant for extra in clamped_extras)
        clamped = Side(conditioned.model, conditioned.fixed[:n_weights], constant)
        return cls(
            free,
            clamped,
            read_only(frozen(values)),
            conditioned.free,
            read_only(frozen(np.maximum(counts, 1.0))),
            read_only(frozen(weights)),
        )

    @property
    def n_weights(self) -> int:
        """Number of weights to learn."""
        return int(self.counts.size)

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """Which variables have a label."""
        return ~np.isnan(self.labels)

    def weighted(self, side: Side, weights: FloatArray) -> HingeLossMRF:
        """Return the model of a side with these weights and those of the surrogate."""
        return side.model.with_weights(np.concatenate([weights, self.surrogate]))

    def features(self, side: Side, values: FloatArray) -> FloatArray:
        """Return the feature of each weight, from the value of the linear function of each term."""
        summed = np.zeros(side.model.n_groups)
        sum_hinges(read_only(values), side.model.power, side.model.term_group, summed)
        return np.asarray(summed[: self.n_weights] + side.fixed)

    def gradient(self, weights: FloatArray, clamped: FloatArray, free: FloatArray, l2: float) -> FloatArray:
        """Return the subgradient of J from the features of both sides (Bach2015, Algorithm 1, with opposite sign)."""
        return np.asarray(l2 * weights + clamped - free)

    def value(self, weights: FloatArray, clamped: float, free: float, l2: float) -> float:
        """Return J from the minima of the models of both sides."""
        difference = self.clamped.minimum(weights, clamped) - self.free.minimum(weights, free)
        return 0.5 * l2 * float(weights @ weights) + difference

    def complete(self, latent: FloatArray) -> FloatArray:
        """Return the values of all variables: the labels, and these values of the latent variables."""
        values = self.labels.copy()
        values[self.latent] = latent
        return values

    def __repr__(self) -> str:
        return (
            f"PairedProblem({int(self.labelled.sum())} labelled and {self.latent.size} latent variables, "
            f"{self.n_weights} weights)"
        )


def _groups(model: HingeLossMRF) -> Index32:
    """Return the group of each term."""
    if model.term_group is None:
        return np.arange(model.n_terms, dtype=np.int32)
    return model.term_group


def _without_rows(extra: SurrogateTerms) -> SurrogateTerms:
    """Return surrogate terms without rows."""
    return SurrogateTerms(LinearRows.empty(), np.zeros(0, dtype=np.int8), extra.weight)


def _with_surrogate(model: HingeLossMRF, group: Index32, extras: Sequence[SurrogateTerms]) -> HingeLossMRF:
    """Return the model with the terms of the surrogate added, in groups of their own and with weights 0."""
    terms, power = model.terms, model.power
    if extras:
        power = np.concatenate([power, *(extra.power for extra in extras)])
        sizes = [extra.rows.n_rows for extra in extras]
        group = np.concatenate([group, np.repeat(model.n_groups + np.arange(len(extras)), sizes).astype(np.int32)])
        row_sets = (terms, *(extra.rows for extra in extras))
        starts = np.cumsum([0] + [row_set.n_entries for row_set in row_sets[:-1]])
        terms = LinearRows(
            np.concatenate([[0], *(row_set.ptr[1:] + start for row_set, start in zip(row_sets, starts, strict=True))]),
            np.concatenate([row_set.idx for row_set in row_sets]),
            np.concatenate([row_set.coef for row_set in row_sets]),
            np.concatenate([row_set.const for row_set in row_sets]),
        )
    names = [model.name_of_group(k) for k in range(model.n_groups)] + ["surrogate"] * len(extras)
    return HingeLossMRF(
        model.n_variables,
        terms,
        np.zeros(terms.n_rows),
        power,
        group,
        model.equalities,
        model.inequalities,
        model.equality_group,
        model.inequality_group,
        tuple(names),
    )
