"""Poisson likelihood of noisy counts at each variable and state, for collective graphical models."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from intarsia._core.validation import as_float_array, check_number
from intarsia.energies.binding.bound_energy import BoundEnergy
from intarsia.energies.binding.label_index import LabelIndex
from intarsia.energies.binding.scalar_terms import PoissonDeviances, ScalarTerms
from intarsia.energies.energy import Energy, check_weight
from intarsia.exceptions import InvalidInputError


class PoissonCounts(Energy):
    r"""Negative log-likelihood of counts y under Poisson laws with mean `rate mu + background` (Vilnis2015 Eq. 23).

    .. math:: L(\mu) = \psi \sum_{v,s} m_{vs} - y_{vs} + y_{vs} \log (y_{vs} / m_{vs}), \quad
              m = rate \, \mu + background

    This is the negative log-likelihood, shifted to a minimum of 0. It is convex, but without a background its slope is
    unbounded near 0, so that no fixed step size is safe. Use `bethe_mirror_descent`, which searches its step size, or
    `bethe_dual`.

    Parameters
    ----------
    counts : float array (n_variables, n_states) or flat over the variables' states
        Observed counts; NaN where there was no observation.
    rate : float or array like `counts`
        Expected count per unit of marginal, such as the number of individuals times the probability to observe one.
    background : float
        Expected count where there is no individual.
    psi : float
        Weight psi of the energy; 1 is the likelihood itself.
    strength : float, optional
        Fixed weight psi, which is not learned.
    title : str, optional
        Name of the energy in tables such as `strengths_`.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(2, 2)
    >>> counts = PoissonCounts([[4, 0], [np.nan, 2]], rate=4.0).bind(graph)
    >>> counts.value(graph.statistics([0, 0])) > 100       # 2 were counted where nobody can be
    True
    >>> round(counts.value(np.array([1.0, 0, 0.5, 0.5] + [0.0] * 4)), 12)
    0.0
    """

    def __init__(
        self,
        counts: ArrayLike,
        *,
        rate: float | ArrayLike = 1.0,
        background: float = 0.0,
        psi: float = 1.0,
        strength: float | None = None,
        title: str | None = None,
    ) -> None:
        self.counts = counts
        self.rate = rate
        self.background = background
        self.psi = psi
        self.strength = strength
        self.title = title

    def bind_index(self, index: LabelIndex) -> BoundEnergy:
        """Return one scalar term per observed count."""
        layout = index.layout
        n = int(layout.variable_ptr[-1])
        counts = as_float_array(self.counts, "PoissonCounts: counts").reshape(-1)
        if counts.size != n:
            raise InvalidInputError(
                f"PoissonCounts: counts has {counts.size} numbers, but the variables have {n} states in total. "
                f"Pass one count per state, NaN where there was no observation."
            )
        is_invalid = (counts < 0) | np.isinf(counts)
        if is_invalid.any():
            i = int(np.argmax(is_invalid))
            raise InvalidInputError(
                f"PoissonCounts: the count of {index.graph.locate(i)} is {counts[i]}. Counts must be finite and at "
                f"least 0."
            )
        rate = np.ravel(as_float_array(self.rate, "PoissonCounts: rate"))
        if rate.size not in (1, n) or not np.isfinite(rate).all() or not (rate > 0).all():
            raise InvalidInputError("PoissonCounts: rate must be one positive number, or one for each count.")
        check_number(self.background, "PoissonCounts: background", low=0.0, high=1e200)
        psi = check_weight(self, 1e200)
        observed = np.flatnonzero(~np.isnan(counts))
        n_observed = observed.size
        shape = (n_observed, layout.n_theta)
        matrix = csr_array((np.ones(n_observed), observed, np.arange(n_observed + 1)), shape=shape)
        background = np.full(n_observed, float(self.background))
        functions = PoissonDeviances(counts[observed], np.broadcast_to(rate, n)[observed], background)  # type: ignore[arg-type]
        return ScalarTerms(layout, matrix, functions, psi, np.zeros(n_observed, np.int64), 1)
