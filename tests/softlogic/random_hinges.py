"""Random hinge-loss MRFs with feasible constraints."""

from __future__ import annotations

import numpy as np
from scipy.sparse import random_array

from intarsia.softlogic import HingeLossMRF, LinearRows


def random_mrf(seed, n=8, n_terms=20, n_equalities=2, n_inequalities=3, powers=(1, 2), density=0.3):
    rng = np.random.default_rng(seed)
    inside = rng.random(n)

    def rows(count, shift):
        matrix = random_array((count, n), density=density, rng=rng, data_sampler=rng.standard_normal, format="csr")
        return LinearRows.from_scipy(matrix, shift(np.asarray(matrix @ inside)))

    return HingeLossMRF(
        n,
        rows(n_terms, lambda at: rng.normal(0.0, 0.5, at.size) - at),
        np.round(rng.exponential(1.0, n_terms), 3) * (rng.random(n_terms) < 0.9),
        rng.choice(powers, n_terms),
        equalities=rows(n_equalities, lambda at: -at) if n_equalities else None,
        inequalities=rows(n_inequalities, lambda at: -at - 0.1 * rng.random(at.size)) if n_inequalities else None,
    )
