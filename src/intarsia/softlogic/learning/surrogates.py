"""Surrogates of the entropy of a point: hinges with fixed weights that keep learning from the trivial weights 0."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from intarsia._core.registry import Parts, Registry
from intarsia._core.validation import FloatArray, check_number
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.hinge.linear_rows import Index32, LinearRows


@dataclass(frozen=True, eq=False)
class SurrogateTerms:
    """Minus the surrogate, in hinges: `weight * sum of max(0, rows)^power + constant`.

    Attributes
    ----------
    rows : LinearRows
        One variable each.
    power : int8 array (n_rows,)
        1 or 2.
    weight : float
        Of all of them; never learned.
    constant : float
        Added to the minimum.
    in_both : bool
        Whether they stand in both problems, or only in the one whose labels are free.
    """

    rows: LinearRows
    power: NDArray[np.int8]
    weight: float
    constant: float = 0.0
    in_both: bool = True


class EntropySurrogate(BaseEstimator, ABC):  # type: ignore[misc]
    """Base of the surrogates h of Bach2015, section 3.1: settings objects, the values of `surrogate=`."""

    name: ClassVar[str]
    """Name in the registry."""
    summary: ClassVar[str]
    """What it does, in one line."""

    @abstractmethod
    def terms(self, labels: FloatArray, over: Index32 | None = None) -> list[SurrogateTerms]:
        """The terms of -h over these variables, all by default; `labels` has NaN at latent ones."""

    def _over(self, labels: FloatArray, over: Index32 | None) -> Index32:
        return (np.arange(labels.size) if over is None else over).astype(np.int32)

    def _check_weight(self, weight: float) -> float:
        check_number(weight, f"{type(self).__name__}: weight", low=0.0, open_low=True, high=np.inf, open_high=True)
        return float(weight)


class EntropyPair(EntropySurrogate):
    r"""Two squared hinges around each variable, whose minimum is at 1/2: :math:`-h = c \sum_i y_i^2 + (1 - y_i)^2`.

    The pair of Bach2015, section 3.1: predictions stay undecided unless the weights are strong enough to pull them to
    one side, as the entropy would ask. Choose it where 0 and 1 are equally good in advance, such as for membership of
    one of two groups.

    Parameters
    ----------
    weight : float
        c > 0. The learned weights grow with it; where it is not small beside the weights that learning starts from,
        latent variables may stay in the middle and the weights fall to 0.

    Examples
    --------
    >>> EntropyPair(weight=2.0).terms(np.zeros(1))[0].rows.values([0.25])      # y and 1 - y
    array([0.25, 0.75])
    """

    name: ClassVar[str] = "entropy_pair"
    summary: ClassVar[str] = "pulls every variable to 1/2; for two-sided variables"

    def __init__(self, *, weight: float = 0.1) -> None:
        self.weight = weight

    def terms(self, labels: FloatArray, over: Index32 | None = None) -> list[SurrogateTerms]:
        """Y and 1 - y for every variable, squared."""
        chosen = self._over(labels, over)
        n = chosen.size
        rows = LinearRows(np.arange(2 * n + 1), np.repeat(chosen, 2), np.tile([1.0, -1.0], n), np.tile([0.0, 1.0], n))
        return [SurrogateTerms(rows, np.full(2 * n, 2, dtype=np.int8), self._check_weight(self.weight))]


class QuadraticPrior(EntropySurrogate):
    r"""A squared pull of every variable to 0: :math:`-h = c \sum_i y_i^2`.

    Choose it where 0 is what a variable is without evidence, such as links of a sparse network or intensities that
    other terms explain.

    Parameters
    ----------
    weight : float
        c > 0. The learned weights grow with it; where it is not small beside the weights that learning starts from,
        latent variables may stay in the middle and the weights fall to 0.

    Examples
    --------
    >>> QuadraticPrior().terms(np.zeros(2))[0].rows.values([0.25, 1.0])
    array([0.25, 1.  ])
    """

    name: ClassVar[str] = "quadratic_prior"
    summary: ClassVar[str] = "pulls every variable to 0; for sparse relations and intensities"

    def __init__(self, *, weight: float = 0.1) -> None:
        self.weight = weight

    def terms(self, labels: FloatArray, over: Index32 | None = None) -> list[SurrogateTerms]:
        """Y for every variable, squared."""
        chosen = self._over(labels, over)
        n = chosen.size
        rows = LinearRows(np.arange(n + 1), chosen, np.ones(n), np.zeros(n))
        return [SurrogateTerms(rows, np.full(n, 2, dtype=np.int8), self._check_weight(self.weight))]


class LabelLoss(EntropySurrogate):
    r"""The loss of the latent structured SVM: :math:`h = c \sum_i |y_i - \hat y_i|` while the labels are free.

    Minus the loss is convex only where every label is 0 or 1, and is then linear: -y where the label is 0 and y - 1
    where it is 1. It stands in the free problem only (Yu2009).

    Parameters
    ----------
    weight : float
        c > 0: by how much wrong labels must lose.

    Raises
    ------
    InvalidInputError
        If a label is neither 0 nor 1.

    Examples
    --------
    With label 1 at y = 0.25, minus the loss is -0.75: the hinge y, and the constant -1.

    >>> (terms,) = LabelLoss().terms(np.array([1.0]))
    >>> float(terms.rows.values([0.25])[0]) + terms.constant
    -0.75
    """

    name: ClassVar[str] = "label_loss"
    summary: ClassVar[str] = "the loss of the latent SVM; for labels 0 and 1"

    def __init__(self, *, weight: float = 1.0) -> None:
        self.weight = weight

    def terms(self, labels: FloatArray, over: Index32 | None = None) -> list[SurrogateTerms]:
        """1 - y where the label is 0, y where it is 1, and the constant -1 for each."""
        chosen = self._over(labels, over)
        known = chosen[np.isfinite(labels[chosen])]
        values = labels[known]
        between = (values != 0.0) & (values != 1.0)
        if between.any():
            i = int(known[np.argmax(between)])
            raise InvalidInputError(
                f"LabelLoss: label {labels[i]} of variable {i} is neither 0 nor 1, and minus its loss is not convex. "
                f"Round the labels, or use surrogate='entropy_pair'."
            )
        weight = self._check_weight(self.weight)
        rows = LinearRows(
            np.arange(known.size + 1),
            known,
            np.where(values == 1.0, 1.0, -1.0),
            np.where(values == 1.0, 0.0, 1.0),
        )
        power = np.ones(known.size, dtype=np.int8)
        return [SurrogateTerms(rows, power, weight, -weight * known.size, in_both=False)]


class SurrogateByRole(EntropySurrogate):
    """One surrogate for latent variables, another for labelled ones.

    Choose it where the two differ in what they are without evidence: groups to which a person belongs by halves, and
    links that are rare.

    Parameters
    ----------
    latent, labelled : EntropySurrogate or None
        By default the pair for latent variables and the prior for labelled ones.

    Examples
    --------
    >>> [terms.rows.n_rows for terms in SurrogateByRole().terms(np.array([np.nan, 1.0, 0.0]))]
    [2, 2]
    """

    name: ClassVar[str] = "by_role"
    summary: ClassVar[str] = "a pair for latent variables, a prior for labelled ones, or any other two"

    _parts: ClassVar[Parts]  # filled in below, where the registry is

    def __init__(
        self,
        *,
        latent: EntropySurrogate | None = None,
        labelled: EntropySurrogate | None = None,
    ) -> None:
        self.latent = latent
        self.labelled = labelled

    def terms(self, labels: FloatArray, over: Index32 | None = None) -> list[SurrogateTerms]:
        """Those of the one over the latent variables, then those of the other."""
        chosen = self._over(labels, over)
        hidden = np.isnan(labels[chosen])
        latent = EntropyPair() if self.latent is None else self.latent
        labelled = QuadraticPrior() if self.labelled is None else self.labelled
        return [*latent.terms(labels, chosen[hidden]), *labelled.terms(labels, chosen[~hidden])]


SURROGATES: Registry[EntropySurrogate] = Registry(
    "surrogate",
    "intarsia.softlogic.learning",
    {
        "entropy_pair": "surrogates:EntropyPair",
        "quadratic_prior": "surrogates:QuadraticPrior",
        "label_loss": "surrogates:LabelLoss",
        "by_role": "surrogates:SurrogateByRole",
    },
    EntropySurrogate,  # type: ignore[type-abstract]
)
SurrogateByRole._parts = {"latent": SURROGATES, "labelled": SURROGATES}
