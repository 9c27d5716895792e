"""Blocks that run on workers give the same results as in the main process."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import block_diag
from tests.core.test_worker_threads import PickledCalls
from tests.softlogic.random_hinges import random_mrf

from intarsia._core import worker_threads
from intarsia.exceptions import ConvergenceWarning
from intarsia.inference import Status
from intarsia.softlogic import ConsensusADMM, HingeLossMRF, LinearRows
from intarsia.softlogic.admm import run


def side_by_side(models):
    """Combine models without common variables to a single model."""

    def joined(rows):
        parts = [one.to_scipy(model.n_variables) for one, model in zip(rows, models, strict=True)]
        return LinearRows.from_scipy(block_diag(parts, format="csr"), np.concatenate([one.const for one in rows]))

    return HingeLossMRF(
        sum(model.n_variables for model in models),
        joined([model.terms for model in models]),
        np.concatenate([model.weight for model in models]),
        np.concatenate([model.power for model in models]),
        equalities=joined([model.equalities for model in models]),
        inequalities=joined([model.inequalities for model in models]),
    )


@pytest.fixture
def on_workers(monkeypatch):
    """Send every model of more than one block to workers."""

    def begin():
        sent = PickledCalls(monkeypatch)
        monkeypatch.setattr(run, "workers_are_apart", lambda: True)
        monkeypatch.setattr(run, "_MIN_ENTRIES_TO_SEND", 0)
        monkeypatch.setattr(run, "count_workers", lambda n_jobs: 2)
        return sent

    return begin


def test_workers_return_the_same_point(on_workers):
    model = side_by_side([random_mrf(seed) for seed in range(12)])
    here = ConsensusADMM(n_jobs=1).solve(model)
    again = ConsensusADMM(n_jobs=1, tol=1e-9).solve(model, warm_start=here)
    sent = on_workers()
    there = ConsensusADMM().solve(model)
    assert there.status is here.status is Status.CONVERGED
    assert sent.bytes
    np.testing.assert_array_equal(there.x, here.x)
    np.testing.assert_array_equal(there.state.multipliers(), here.state.multipliers())
    assert (there.n_iter, there.objective, there.lower_bound) == (here.n_iter, here.objective, here.lower_bound)
    # The returned state can be used as a warm start.
    np.testing.assert_array_equal(ConsensusADMM(tol=1e-9).solve(model, warm_start=there).x, again.x)


@pytest.mark.filterwarnings("ignore:.*no point satisfies:intarsia.exceptions.ConvergenceWarning")
def test_workers_respect_limits_and_report_contradictions(on_workers):
    model = side_by_side([random_mrf(seed) for seed in range(4)])
    with pytest.warns(ConvergenceWarning):
        here = ConsensusADMM(n_jobs=1, max_iter=7).solve(model)
    one = LinearRows([0, 1, 2], [0, 0], [1.0, 1.0], [-0.2, -0.8])  # x = 0.2 and x = 0.8
    wrong = HingeLossMRF(1, LinearRows([0, 1], [0], [1.0], [0.0]), 1.0, 1, equalities=one, inequalities=None)
    nothing = LinearRows([0], [], [], [])
    impossible = side_by_side(
        [random_mrf(0), HingeLossMRF(1, wrong.terms, 1.0, 1, equalities=one, inequalities=nothing)]
    )
    on_workers()
    with pytest.warns(ConvergenceWarning):
        there = ConsensusADMM(max_iter=7).solve(model)
    assert there.status is Status.MAX_ITER
    np.testing.assert_array_equal(there.x, here.x)
    with pytest.warns(ConvergenceWarning):
        assert ConsensusADMM(tol=0).solve(model, time_limit=0.0).status is Status.TIME_LIMIT
    assert ConsensusADMM().solve(impossible).status is Status.INFEASIBLE
    assert worker_threads.workers_are_apart()
