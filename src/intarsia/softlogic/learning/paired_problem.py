"""The two inference problems between which weights are learned: labels free, and labels clamped."""

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
    r"""One of the two problems: :math:`\min w \cdot \phi - h`, over the variables that are free in it.

    Attributes
    ----------
    model : HingeLossMRF
        Terms in which a variable is free; groups 0 .. n_weights - 1 carry the learned weights, those after them the
        surrogate's.
    fixed : float array (n_weights,)
        Features of the terms without free variables.
    constant : float
        What else the surrogate adds to the minimum.
    """

    model: HingeLossMRF
    fixed: FloatArray
    constant: float

    def minimum(self, weights: FloatArray, objective: float) -> float:
        """The value of the whole problem, from that of the model with these weights."""
        return objective + float(weights @ self.fixed) + self.constant


@dataclass(frozen=True, eq=False, repr=False)
class PairedProblem:
    r"""A model with labels and latent variables, as the two problems whose difference is learned from.

    .. math:: J(w) = \tfrac{\lambda}{2} |w|^2 + [\min_{z'} w \cdot \phi(\hat y, z') - h(\hat y, z')]
                     - [\min_{y, z} w \cdot \phi(y, z) - h(y, z)]

    Bach2015, Eq. 4, with the sign for which lower is more likely: the bracket of the labels must come down to that of
    all states. Its subgradient is :math:`\lambda w + \phi(\hat y, z') - \phi(y, z)`. With a surrogate that stands in
    both problems J is never negative.

    Attributes
    ----------
    free, clamped : Side
        Labels and latent variables free; latent variables only, the labels put in.
    labels : float array (n_variables,)
        The labels; NaN at latent variables.
    latent : int array (n_latent,)
        The latent variables, in the order of the clamped model.
    counts : float array (n_weights,)
        Terms that share each weight; 1 where there are none.
    surrogate : float array
        Weights of the surrogate's parts.

    Examples
    --------
    The rule for y = 1 has the feature 1 where the label is 0, and 0 where y is free to be 1:

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
        """Put the labels in, and the surrogate's terms beside the model's.

        Parameters
        ----------
        model : HingeLossMRF
            Its weights do not matter; its groups share weights.
        labels : float array (n_variables,)
            A value in [0, 1] for every labelled variable, NaN for every latent one.
        surrogate : EntropySurrogate, optional
            None is h = 0, for which the weights 0 are always best.

        Raises
        ------
        InvalidInputError
            If a label is outside [0, 1], or the labels alone break a constraint, which is named.

        Examples
        --------
        The rule z -> y with label 1: nothing of it is left to be broken.

        >>> rule = HingeLossMRF(2, LinearRows([0, 2], [0, 1], [1.0, -1.0], [0.0]), 1.0, 2)      # max(0, z - y)^2
        >>> problem = PairedProblem.of(rule, [np.nan, 1.0])
        >>> problem.clamped.model.terms.values([0.25])
        array([-0.75])
        """
        values = check_values(labels, model.n_variables, "PairedProblem: labels")
        extras = [] if surrogate is None else surrogate.terms(values)
        base, n_weights = _groups(model), model.n_groups
        counts = np.bincount(base, minlength=n_weights).astype(np.float64)
        whole = _joined(model, base, extras)
        free = Side(whole, np.zeros(n_weights), sum(extra.constant for extra in extras))
        # A part that stands in one problem only keeps its group in the other, without terms.
        kept = [extra if extra.in_both else _emptied(extra) for extra in extras]
        given = condition(_joined(model, base, kept), values)
        weights = np.array([extra.weight for extra in extras])
        settled = float(weights @ given.fixed[n_weights:]) + sum(extra.constant for extra in kept)
        clamped = Side(given.model, given.fixed[:n_weights], settled)
        return cls(
            free,
            clamped,
            read_only(frozen(values)),
            given.free,
            read_only(frozen(np.maximum(counts, 1.0))),
            read_only(frozen(weights)),
        )

    @property
    def n_weights(self) -> int:
        """How many weights there are to learn."""
        return int(self.counts.size)

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """Which variables have a label."""
        return ~np.isnan(self.labels)

    def weighted(self, side: Side, weights: FloatArray) -> HingeLossMRF:
        """The model of a side with these weights, and the surrogate's."""
        return side.model.with_weights(np.concatenate([weights, self.surrogate]))

    def features(self, side: Side, values: FloatArray) -> FloatArray:
        """Features by weight, from the value of every term's linear function (at whatever copies of the variables)."""
        summed = np.zeros(side.model.n_groups)
        sum_hinges(read_only(values), side.model.power, side.model.term_group, summed)
        return np.asarray(summed[: self.n_weights] + side.fixed)

    def gradient(self, weights: FloatArray, clamped: FloatArray, free: FloatArray, l2: float) -> FloatArray:
        """Subgradient of J from the features of both sides (Bach2015, Algorithm 1, with the sign turned)."""
        return np.asarray(l2 * weights + clamped - free)

    def value(self, weights: FloatArray, clamped: float, free: float, l2: float) -> float:
        """J from the minima of both sides' models."""
        difference = self.clamped.minimum(weights, clamped) - self.free.minimum(weights, free)
        return 0.5 * l2 * float(weights @ weights) + difference

    def complete(self, latent: FloatArray) -> FloatArray:
        """All variables: labels, and these values of the latent ones."""
        whole = self.labels.copy()
        whole[self.latent] = latent
        return whole

    def __repr__(self) -> str:
        return (
            f"PairedProblem({int(self.labelled.sum())} labelled and {self.latent.size} latent variables, "
            f"{self.n_weights} weights)"
        )


def _groups(model: HingeLossMRF) -> Index32:
    if model.term_group is None:
        return np.arange(model.n_terms, dtype=np.int32)
    return model.term_group


def _emptied(extra: SurrogateTerms) -> SurrogateTerms:
    return SurrogateTerms(LinearRows.empty(), np.zeros(0, dtype=np.int8), extra.weight)


def _joined(model: HingeLossMRF, group: Index32, extras: Sequence[SurrogateTerms]) -> HingeLossMRF:
    """The model with the surrogate's terms, a group for each part."""
    terms, power = model.terms, model.power
    if extras:
        power = np.concatenate([power, *(extra.power for extra in extras)])
        sizes = [extra.rows.n_rows for extra in extras]
        group = np.concatenate([group, np.repeat(model.n_groups + np.arange(len(extras)), sizes).astype(np.int32)])
        rows = (terms, *(extra.rows for extra in extras))
        starts = np.cumsum([0] + [one.n_entries for one in rows[:-1]])
        terms = LinearRows(
            np.concatenate([[0], *(one.ptr[1:] + start for one, start in zip(rows, starts, strict=True))]),
            np.concatenate([one.idx for one in rows]),
            np.concatenate([one.coef for one in rows]),
            np.concatenate([one.const for one in rows]),
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
