"""Cache of losses between calls: threads share it, and copies or pickles of a loss do not contain it."""

from __future__ import annotations

import pickle
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone
from tests.losses.labelled_models import learning_model, some_labels

from intarsia.exceptions import ConvergenceWarning
from intarsia.losses import LOSSES, DirectLoss, clamping, training_labels
from intarsia.losses.clamping import LabelCache

MODEL = "grid_three_states"
SHARED = [name for name in LOSSES.names if issubclass(LOSSES.get(name), DirectLoss)]


@pytest.fixture
def many_switches():
    """Switch between threads as often as possible."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def evaluate(loss, labels):
    graph, theta = learning_model(MODEL)
    return loss.value_and_gradient_theta(graph, theta, labels, random_state=1)


def some_sorts(name, n=12):
    sorts = ["observed"] if not LOSSES.get(name).handles_hidden else ["mixed", "sets", "hidden"]
    return [some_labels(MODEL, sorts[k % len(sorts)], seed=k) for k in range(n)]


@pytest.mark.parametrize("name", SHARED)
def test_one_loss_for_many_threads(name, many_switches):
    alone, shared = LOSSES.get(name)(), LOSSES.get(name)()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        expected = [evaluate(alone, labels) for labels in some_sorts(name)]
        labels = some_sorts(name)  # new objects, which are not in the cache yet
        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(lambda k: evaluate(shared, labels[k % len(labels)]), range(2 * len(labels))))
    for k, (value, gradient) in enumerate(results):
        assert value == expected[k % len(expected)][0]
        np.testing.assert_array_equal(gradient, expected[k % len(expected)][1])


def test_threads_stay_within_the_limit(monkeypatch):
    graph, _ = learning_model(MODEL)
    many = [training_labels(graph, np.zeros(graph.n_variables, dtype=int)) for _ in range(16)]
    store: LabelCache[int] = LabelCache()
    total = store._total

    def count_slowly():
        n_bytes = total()
        time.sleep(0.005)  # long enough for other threads to see the same free memory
        return n_bytes

    monkeypatch.setattr(clamping, "MAX_BYTES", 3)
    monkeypatch.setattr(store, "_total", count_slowly)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda k: store.get(many[k], graph, b"", lambda: k, lambda result: 1), range(16)))
    assert results == list(range(16))
    assert len(store) == store.n_bytes == 3


@pytest.mark.parametrize("name", SHARED)
def test_a_loss_in_use_can_be_copied_and_sent(name):
    loss = LOSSES.get(name)()
    labels = some_sorts(name, n=1)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        value, gradient = evaluate(loss, labels)
        for other in (clone(loss), pickle.loads(pickle.dumps(loss))):
            assert other.get_params() == loss.get_params()
            sent = pickle.loads(pickle.dumps(labels))
            assert evaluate(other, sent)[0] == value
            np.testing.assert_array_equal(evaluate(other, sent)[1], gradient)
