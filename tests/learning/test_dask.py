"""Estimators on a cluster of two worker processes give the weights and predictions of the local run."""

from __future__ import annotations

import os

import joblib
import numpy as np
import pytest
from joblib import parallel_config

import intarsia
from intarsia._core import worker_threads
from intarsia.datasets import make_customers
from intarsia.energies import Count, MeasuredEnergy, Squared

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
    counts, parallel = [], joblib.Parallel

    def counted(n_jobs):
        def run(tasks):
            counts.append(len(tasks))
            return parallel(n_jobs=n_jobs)(tasks)

        return run

    monkeypatch.setattr(joblib, "Parallel", counted)
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
