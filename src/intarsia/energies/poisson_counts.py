"""Noisy counts of many walkers: a Poisson likelihood of what was seen at each variable and state."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from intarsia._core.validation import as_float_array, check_number
from intarsia.energies.binding.bound_energy import BoundEnergy, ScalarTerms
from intarsia.energies.binding.label_index import LabelIndex
from intarsia.energies.binding.scalar_functions import PoissonDeviances
from intarsia.energies.energy import Energy
from intarsia.exceptions import InvalidInputError


class PoissonCounts(Energy):
    r"""Minus the log-likelihood of counts y under Poisson laws with mean `rate mu + background` (Vilnis2015 Eq. 23).

    .. math:: L(\mu) = \psi \sum_{v,s} m_{vs} - y_{vs} + y_{vs} \log (y_{vs} / m_{vs}), \quad
              m = rate \, \mu + background

    which is the negative log-likelihood shifted to have 0 as its least value. Convex, but without a background its
    slope is unbounded near 0, so that no step is safe: use `bethe_mirror_descent`, which finds its steps, or
    `bethe_dual`.

    Parameters
    ----------
    counts : float array (n_variables, n_states) or flat over the variables' states
        What was seen; NaN where nothing was looked for.
    rate : float or array like `counts`
        Expected count per unit of marginal, such as the number of walkers times the chance to see one.
    background : float
        Expected count where nobody is.
    psi : float
        Strength; 1 is the likelihood itself.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(2, 2)
    >>> seen = PoissonCounts([[4, 0], [np.nan, 2]], rate=4.0).bind(graph)
    >>> seen.value(graph.statistics([0, 0])) > 100       # two were seen where nobody is
    True
    >>> round(seen.value(np.array([1.0, 0, 0.5, 0.5] + [0.0] * 4)), 12)
    0.0
    """

    def __init__(
        self, counts: ArrayLike, *, rate: float | ArrayLike = 1.0, background: float = 0.0, psi: float = 1.0
    ) -> None:
        self.counts = counts
        self.rate = rate
        self.background = background
        self.psi = psi

    def bind_index(self, index: LabelIndex) -> BoundEnergy:
        """A term per count that was made."""
        graph = index.graph
        n = int(graph.variable_ptr[-1])
        counts = as_float_array(self.counts, "PoissonCounts: counts").reshape(-1)
        if counts.size != n:
            raise InvalidInputError(
                f"PoissonCounts: counts holds {counts.size} numbers, but the variables have {n} states in all. "
                f"Give one each, NaN where nothing was looked for."
            )
        bad = (counts < 0) | np.isinf(counts)
        if bad.any():
            at = int(np.argmax(bad))
            raise InvalidInputError(
                f"PoissonCounts: the count of {graph.locate(at)} is {counts[at]}. Counts are finite and at least 0."
            )
        rate = np.ravel(as_float_array(self.rate, "PoissonCounts: rate"))
        if rate.size not in (1, n) or not np.isfinite(rate).all() or not (rate > 0).all():
            raise InvalidInputError("PoissonCounts: rate must be one number above 0, or one for each count.")
        check_number(self.background, "PoissonCounts: background", low=0.0, high=1e200)
        check_number(self.psi, "PoissonCounts: psi", low=0.0, high=1e200)
        seen = np.flatnonzero(~np.isnan(counts))
        chosen = csr_array((np.ones(seen.size), seen, np.arange(seen.size + 1)), shape=(seen.size, graph.n_theta))
        background = np.full(seen.size, float(self.background))
        functions = PoissonDeviances(counts[seen], np.broadcast_to(rate, n)[seen], background)  # type: ignore[arg-type]
        return ScalarTerms(graph, chosen, functions, float(self.psi), np.zeros(seen.size, np.int64), 1)  # type: ignore[arg-type]
