"""The two inference problems between which weights are learned: labels free, and labels clamped."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intarsia._validation import FloatArray, IntArray, frozen, read_only
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.conditioning import check_values, condition
from intarsia.softlogic.entropy_surrogate import EntropySurrogate, SurrogateTerms
from intarsia.softlogic.hinge_mrf import HingeLossMRF
from intarsia.softlogic.linear_rows import Index32, LinearRows


@dataclass(frozen=True, eq=False, repr=False)
class Side:
    r"""One of the two problems: :math:`\min w \cdot \phi - h`, over the variables that are free in it.

    Attributes
    ----------
    model : HingeLossMRF
        Terms in which a variable is free; groups 0 .. n_weights - 1 carry the learned weights, one more the surrogate.
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
    surrogate : float
        Weight of the surrogate.
    """

    free: Side
    clamped: Side
    labels: FloatArray
    latent: IntArray
    counts: FloatArray
    surrogate: float

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
            If a label is outside [0, 1], all are latent, or the labels alone break a constraint, which is named.

        Examples
        --------
        The rule z -> y with label 1: nothing of it is left to be broken.

        >>> rule = HingeLossMRF(2, LinearRows([0, 2], [0, 1], [1.0, -1.0], [0.0]), 1.0, 2)      # max(0, z - y)^2
        >>> problem = PairedProblem.of(rule, [np.nan, 1.0])
        >>> problem.clamped.model.terms.values([0.25])
        array([-0.75])
        """
        values = check_values(labels, model.n_variables, "PairedProblem: labels")
        if values.size and np.isnan(values).all():
            raise InvalidInputError(
                "PairedProblem: no variable has a label, so there is nothing to learn from. Give some."
            )
        extra = None if surrogate is None else surrogate.terms(values)
        base = _groups(model)
        counts = np.bincount(base, minlength=model.n_groups).astype(np.float64)
        whole = _joined(model, base, extra)
        n_weights = model.n_groups
        weight, constant = (0.0, 0.0) if extra is None else (extra.weight, extra.constant)
        free = Side(whole, np.zeros(n_weights), constant)
        both = surrogate is None or surrogate.in_both
        given = condition(whole if both else _joined(model, base, None), values)
        settled = weight * float(given.fixed[n_weights]) + (constant if both else 0.0)
        clamped = Side(given.model, given.fixed[:n_weights], settled)
        return cls(
            free,
            clamped,
            read_only(frozen(values)),
            given.free,
            read_only(frozen(np.maximum(counts, 1.0))),
            weight,
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
        return side.model.with_weights(np.append(weights, self.surrogate))

    def features(self, side: Side, values: FloatArray) -> FloatArray:
        """Features by weight, from the value of every term's linear function (at whatever copies of the variables)."""
        excess = np.maximum(values, 0.0)
        reached = np.where(side.model.power == 2, excess * excess, excess)
        summed = np.bincount(side.model.term_group, weights=reached, minlength=self.n_weights + 1)  # type: ignore[arg-type]
        return np.asarray(summed[: self.n_weights] + side.fixed)

    def gradient(self, weights: FloatArray, clamped: FloatArray, free: FloatArray, ridge: float) -> FloatArray:
        """Subgradient of J from the features of both sides (Bach2015, Algorithm 1, with the sign turned)."""
        return np.asarray(ridge * weights + clamped - free)

    def value(self, weights: FloatArray, clamped: float, free: float, ridge: float) -> float:
        """J from the minima of both sides' models."""
        difference = self.clamped.minimum(weights, clamped) - self.free.minimum(weights, free)
        return 0.5 * ridge * float(weights @ weights) + difference

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


def _joined(model: HingeLossMRF, group: Index32, extra: SurrogateTerms | None) -> HingeLossMRF:
    """The model with the surrogate's terms as one more group (which is there, though empty, without a surrogate)."""
    terms, power = model.terms, model.power
    if extra is not None:
        power = np.concatenate([power, extra.power])
        group = np.concatenate([group, np.full(extra.rows.n_rows, model.n_groups, dtype=np.int32)])
        rows = (terms, extra.rows)
        terms = LinearRows(
            np.concatenate([terms.ptr, terms.n_entries + extra.rows.ptr[1:]]),
            np.concatenate([one.idx for one in rows]),
            np.concatenate([one.coef for one in rows]),
            np.concatenate([one.const for one in rows]),
        )
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
        (*(model.name_of_group(k) for k in range(model.n_groups)), "surrogate"),
    )
