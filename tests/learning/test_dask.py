"""Estimators on a cluster of two worker processes give the weights and predictions of the local run."""

from __future__ import annotations

import gc
import os
import time

import numpy as np
import pytest
from joblib import parallel_config
from tests.softlogic.admm.test_workers import side_by_side
from tests.softlogic.random_hinges import random_mrf

import intarsia
from intarsia._core import worker_threads
from intarsia.datasets import make_customers
from intarsia.energies import Count, MeasuredEnergy, Squared
from intarsia.softlogic.admm import run

distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", host="127.0.0.1"
        ) as made,
        distributed.Client(made) as client,
    ):
        yield client


@pytest.fixture(autouse=True)
def sent(monkeypatch):
    """How many calls were sent; a test in which none was has shown nothing."""
    counts, spread = [], worker_threads._run_by_joblib

    def counted(calls, n_jobs):
        counts.append(len(calls))
        return spread(calls, n_jobs)

    monkeypatch.setattr(worker_threads, "_run_by_joblib", counted)
    yield counts
    assert sum(counts) > 1


def same(there, here):
    np.testing.assert_allclose(there, here, rtol=0, atol=1e-10)


def images(n, seed=0):
    rng = np.random.default_rng(seed)
    truth = [np.kron(rng.integers(0, 2, (2, 2)), np.ones((2, 2), int)) for _ in range(n)]
    return [y[:, :, None] + rng.normal(0, 0.8, (4, 4, 1)) for y in truth], truth


def sequences(n, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(200, 400, n)
    y = [rng.integers(0, 3, length) for length in lengths]
    return [np.eye(3)[one] + rng.normal(0, 0.7, (one.size, 3)) for one in y], y


def grid(**settings):
    learner = intarsia.RiskMinimizer(optimizer=intarsia.learning.LBFGS(max_iter=50, tol=1e-2))
    return intarsia.GridCRF(learner=learner, random_state=0, **settings)


def test_workers_are_other_processes(cluster):
    with parallel_config("dask"):
        result = worker_threads.run_by_workers([os.getpid] * 4, None)
    assert os.getpid() not in result
    assert set(result) <= set(cluster.run(os.getpid).values())


def holder_of(part, number):
    return os.getpid(), number + part.size


def test_parts_are_sent_once_and_calls_go_to_them(cluster, monkeypatch):
    scattered, scatter = [], cluster.scatter
    monkeypatch.setattr(cluster, "scatter", lambda data, **more: scattered.append(len(data)) or scatter(data, **more))
    parcels = worker_threads.Parcels([np.ones(100_000 + k) for k in range(4)])
    with parallel_config("dask"):
        result = [worker_threads.run_by_workers(parcels.calls(holder_of, turn), None) for turn in range(3)]
    assert [[size for _, size in turn] for turn in result] == [[100_000 + k + t for k in range(4)] for t in range(3)]
    assert scattered == [4]
    held = cluster.has_what()
    assert sum(str(key).startswith("_Bundle") for keys in held.values() for key in keys) >= 4
    assert {pid for turn in result for pid, _ in turn} == set(cluster.run(os.getpid).values())
    del parcels
    gc.collect()
    give_up = time.monotonic() + 30
    while any(str(key).startswith("_Bundle") for keys in cluster.has_what().values() for key in keys):
        assert time.monotonic() < give_up, "the cluster keeps what nobody asks for"
        time.sleep(0.05)


def test_grid_crf(cluster):
    X, y = images(4)
    here = grid().fit(X, y)
    with parallel_config("dask"):
        there = grid().fit(X, y)
        marginals, labels = there.predict_marginals(X), there.predict(X)
    same(there.weights_, here.weights_)
    for mine, theirs in zip(here.predict_marginals(X), marginals, strict=True):
        same(theirs, mine)
    np.testing.assert_array_equal(np.stack(labels), np.stack(here.predict(X)))


def test_chain_crf(cluster):
    X, y = sequences(40)  # more than one chunk, so that both workers are used
    settings = {
        "learner": intarsia.sequences.MaximumLikelihood(optimizer=intarsia.learning.LBFGS(max_iter=50, tol=1e-3)),
        "l2": 0.2,
    }
    here = intarsia.ChainCRF(**settings).fit(X, y)
    with parallel_config("dask"):
        there = intarsia.ChainCRF(**settings).fit(X, y)
        labels, draws = there.predict(X), there.sample(X[:3], 2, random_state=1)
        logs = there.sequence_log_probability(X, y)
    same(there.weights_, here.weights_)
    same(logs, here.sequence_log_probability(X, y))
    for mine, theirs in zip(here.predict(X), labels, strict=True):
        np.testing.assert_array_equal(theirs, mine)
    for mine, theirs in zip(here.sample(X[:3], 2, random_state=1), draws, strict=True):
        np.testing.assert_array_equal(theirs, mine)


def test_strengths_of_energies(cluster):
    rng = np.random.default_rng(2)
    X = [(rng.normal(size=(4, 2)), [[0, 1], [1, 2]]) for _ in range(4)]
    y = [rng.permutation(["one", "none", "none", "none"]) for _ in X]
    settings = {
        "inference": "tree",
        "learner": intarsia.RiskMinimizer(loss="likelihood", l2=1.6),
        "energies": MeasuredEnergy(Count("one"), Squared(1.0), psi=0.3),
        "energy_learner": intarsia.learning.DoubleLoop(max_iter=2, n_inner_iter=2),
    }
    here = intarsia.GraphCRF(**settings).fit(X, y)
    with parallel_config("dask"):
        there = intarsia.GraphCRF(**settings).fit(X, y)
    same(there.weights_, here.weights_)
    same(there.energies_.weights, here.energies_.weights)


def test_entity_clusterer(cluster):
    made = make_customers(30, random_state=1)
    here = intarsia.EntityClusterer(random_state=0).fit(made.columns, made.entity)
    with parallel_config("dask"):
        there = intarsia.EntityClusterer(random_state=0).fit(made.columns, made.entity)
        entities = there.predict(made.columns)
    assert there.weights_.keys() == here.weights_.keys()
    same(list(there.weights_.values()), list(here.weights_.values()))
    np.testing.assert_array_equal(entities, here.predict(made.columns))


def test_structured_svm(cluster):
    X, y = images(3)
    settings = {"learner": intarsia.StructuredSVM(max_iter=2, tol=1.0), "inference": "icm"}
    here = intarsia.GridCRF(**settings).fit(X, y)
    with parallel_config("dask"):
        there = intarsia.GridCRF(**settings).fit(X, y)
        labels = there.predict(X)
    same(there.weights_, here.weights_)
    same(there.risk_, here.risk_)
    np.testing.assert_array_equal(np.stack(labels), np.stack(here.predict(X)))


def test_collective_chain(cluster):
    rng = np.random.default_rng(0)
    counts = rng.poisson(5.0, (7, 4)).astype(float)
    moves = intarsia.collective.moves_within(np.arange(4.0)[:, None], 1.0, ["distance", "stay"])
    settings = {"moves": moves, "seasons": [0, 0, 0, 1, 1, 1], "max_iter": 2, "tol": 1.0}
    here = intarsia.CollectiveChain(**settings).fit(counts)
    with parallel_config("dask"):
        there = intarsia.CollectiveChain(**settings).fit(counts)
    same(there.weights_, here.weights_)
    same(there.predict(), here.predict())


def test_blocks_of_soft_logic(cluster, monkeypatch):
    monkeypatch.setattr(run, "_MIN_ENTRIES_TO_SEND", 0)
    model = side_by_side([random_mrf(seed) for seed in range(6)])
    here = intarsia.softlogic.ConsensusADMM().solve(model)
    with parallel_config("dask"):
        there = intarsia.softlogic.ConsensusADMM().solve(model)
    same(there.x, here.x)
    assert there.n_iter == here.n_iter
