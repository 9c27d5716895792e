"""Surrogates of the entropy: hinges with fixed weights that prevent the trivial solution of weights 0."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from intarsia._core.registry import Parts, Registry
from intarsia._core.settings import Settings
from intarsia._core.validation import FloatArray, check_number
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.hinge.linear_rows import Index32, LinearRows


@dataclass(frozen=True, eq=False)
class SurrogateTerms:
    """Terms of a negative surrogate: `weight * sum of max(0, rows)^power + constant`.

    Attributes
    ----------
    rows : LinearRows
        Linear functions of one variable each.
    power : int8 array (n_rows,)
        Power of each hinge, 1 or 2.
    weight : float
        Common weight of the terms, which is not learned.
    constant : float
        Constant added to the minimum.
    in_both : bool
        Whether the terms are in both inference problems, or only in the one with free labels.
    """

    rows: LinearRows
    power: NDArray[np.int8]
    weight: float
    constant: float = 0.0
    in_both: bool = True


class EntropySurrogate(Settings, ABC):
    """Base class of surrogates h of the entropy (Bach2015, section 3.1), the values of `surrogate=`."""

    name: ClassVar[str]
    """Name in the registry."""
    summary: ClassVar[str]
    """Effect of the surrogate, in one line."""

    @abstractmethod
    def terms(self, labels: FloatArray, over: Index32 | None = None) -> list[SurrogateTerms]:
        """Return the terms of -h for these variables, by default all; `labels` is NaN for latent variables."""

    def _over(self, labels: FloatArray, over: Index32 | None) -> Index32:
        """Return the variables of the surrogate, by default all."""
        return (np.arange(labels.size) if over is None else over).astype(np.int32)

    def _check_weight(self, weight: float) -> float:
        """Return the weight; raise if it is not positive and finite."""
        check_number(weight, f"{type(self).__name__}: weight", low=0.0, open_low=True, high=np.inf, open_high=True)
        return float(weight)


class EntropyPair(EntropySurrogate):
    r"""Pair of squared hinges per variable, with minimum at 1/2: :math:`-h = c \sum_i y_i^2 + (1 - y_i)^2`.

    Like an entropy, it keeps predictions undecided unless the weights are large enough to pull them to one side
    (Bach2015, section 3.1). Use it if 0 and 1 are equally likely a priori, such as for membership in one of two groups.

    Parameters
    ----------
    weight : float
        Weight c > 0 of the surrogate. The learned weights grow with it. If it is not small relative to the initial
        weights, latent variables may stay in the middle and the weights may decrease to 0.

    Examples
    --------
    >>> EntropyPair(weight=2.0).terms(np.zeros(1))[0].rows.values([0.25])      # y and 1 - y
    array([0.25, 0.75])
    """

    name: ClassVar[str] = "entropy_pair"
    summary: ClassVar[str] = "pulls every variable to 1/2; for variables without a preferred value"

    def __init__(self, *, weight: float = 0.1) -> None:
        self.weight = weight

    def terms(self, labels: FloatArray, over: Index32 | None = None) -> list[SurrogateTerms]:
        """Return the squared hinges y and 1 - y for every variable."""
        variables = self._over(labels, over)
        n = variables.size
        rows = LinearRows(
            np.arange(2 * n + 1), np.repeat(variables, 2), np.tile([1.0, -1.0], n), np.tile([0.0, 1.0], n)
        )
        return [SurrogateTerms(rows, np.full(2 * n, 2, dtype=np.int8), self._check_weight(self.weight))]


class QuadraticPrior(EntropySurrogate):
    r"""Squared hinge per variable, with minimum at 0: :math:`-h = c \sum_i y_i^2`.

    Use it if variables are 0 without evidence, such as links of a sparse network or intensities that other terms
    explain.

    Parameters
    ----------
    weight : float
        Weight c > 0 of the surrogate. The learned weights grow with it. If it is not small relative to the initial
        weights, latent variables may stay in the middle and the weights may decrease to 0.

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
        """Return the squared hinge y for every variable."""
        variables = self._over(labels, over)
        n = variables.size
        rows = LinearRows(np.arange(n + 1), variables, np.ones(n), np.zeros(n))
        return [SurrogateTerms(rows, np.full(n, 2, dtype=np.int8), self._check_weight(self.weight))]


class LabelLoss(EntropySurrogate):
    r"""Loss of the latent structured SVM: :math:`h = c \sum_i |y_i - \hat y_i|` in the free problem.

    Use it to learn with a margin. The negative loss is convex only if every label is 0 or 1; it is then linear: -y for
    label 0 and y - 1 for label 1. It is part of the free problem only (Yu2009).

    Parameters
    ----------
    weight : float
        Weight c > 0 of the loss, the margin by which the labels must win.

    Raises
    ------
    InvalidInputError
        A label is neither 0 nor 1.

    Examples
    --------
    For label 1 and y = 0.25 the negative loss is -0.75: the hinge y plus the constant -1.

    >>> (terms,) = LabelLoss().terms(np.array([1.0]))
    >>> float(terms.rows.values([0.25])[0]) + terms.constant
    -0.75
    """

    name: ClassVar[str] = "label_loss"
    summary: ClassVar[str] = "loss of the latent structured SVM; for labels 0 and 1"

    def __init__(self, *, weight: float = 1.0) -> None:
        self.weight = weight

    def terms(self, labels: FloatArray, over: Index32 | None = None) -> list[SurrogateTerms]:
        """Return the hinges 1 - y for label 0 and y for label 1, with the constant -1 for each."""
        variables = self._over(labels, over)
        labelled = variables[np.isfinite(labels[variables])]
        values = labels[labelled]
        is_fractional = (values != 0.0) & (values != 1.0)
        if is_fractional.any():
            i = int(labelled[np.argmax(is_fractional)])
            raise InvalidInputError(
                f"LabelLoss: labels must be 0 or 1, because otherwise the negative loss is not convex; got {labels[i]} "
                f"for variable {i}. Round the labels, or use surrogate='entropy_pair'."
            )
        weight = self._check_weight(self.weight)
        rows = LinearRows(
            np.arange(labelled.size + 1),
            labelled,
            np.where(values == 1.0, 1.0, -1.0),
            np.where(values == 1.0, 0.0, 1.0),
        )
        power = np.ones(labelled.size, dtype=np.int8)
        return [SurrogateTerms(rows, power, weight, -weight * labelled.size, in_both=False)]


class SurrogateByRole(EntropySurrogate):
    """Combination of a surrogate for latent variables and another for labelled variables.

    Use it if the two kinds of variables have different default values, such as group memberships (1/2) and rare links
    (0).

    Parameters
    ----------
    latent, labelled : EntropySurrogate or None
        Surrogates of latent and of labelled variables; by default `EntropyPair()` and `QuadraticPrior()`.

    Examples
    --------
    >>> [terms.rows.n_rows for terms in SurrogateByRole().terms(np.array([np.nan, 1.0, 0.0]))]
    [2, 2]
    """

    name: ClassVar[str] = "by_role"
    summary: ClassVar[str] = "different surrogates for latent and for labelled variables"

    _parts: ClassVar[Parts]  # set below, after the registry

    def __init__(
        self,
        *,
        latent: EntropySurrogate | None = None,
        labelled: EntropySurrogate | None = None,
    ) -> None:
        self.latent = latent
        self.labelled = labelled

    def terms(self, labels: FloatArray, over: Index32 | None = None) -> list[SurrogateTerms]:
        """Return the terms for latent variables, then those for labelled variables."""
        variables = self._over(labels, over)
        is_latent = np.isnan(labels[variables])
        latent = EntropyPair() if self.latent is None else self.latent
        labelled = QuadraticPrior() if self.labelled is None else self.labelled
        return [*latent.terms(labels, variables[is_latent]), *labelled.terms(labels, variables[~is_latent])]


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
