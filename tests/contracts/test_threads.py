"""Threads that share a graph or a fitted model get the answers of one thread, also at the first call."""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.contracts.threads import CASES

from intarsia import JunctionTree, chain_graph
from intarsia._core.error_context import warn_caller, without_warnings
from intarsia.graph.factor_graph import FactorGraph
from intarsia.graph.once_per_graph import OncePerGraph

ROOT = Path(__file__).parents[2]
NAMES = list(CASES)


@pytest.mark.parametrize("names", [NAMES[::2], NAMES[1::2]], ids=["first", "second"])
def test_eight_threads_on_one_object(names):
    done = subprocess.run(
        [sys.executable, "-m", "tests.contracts.threads", *names], cwd=ROOT, capture_output=True, text=True
    )  # a race can end the process, which must not end pytest
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": 0 of ") == len(names)


def test_values_of_a_graph_are_computed_once():
    started, calls = threading.Event(), []

    @OncePerGraph
    def slow(graph: FactorGraph) -> object:
        calls.append(graph)
        started.wait(0.2)  # long enough for the other threads to arrive
        return object()

    graph = chain_graph(3, 2)
    with ThreadPoolExecutor(4) as pool:
        values = list(pool.map(slow, [graph] * 4))
        trees = list(pool.map(JunctionTree().prepare, [graph] * 4))
    assert len(calls) == len(set(map(id, values))) == len(set(map(id, trees))) == 1


def test_dropped_warnings_are_those_of_one_thread():
    inside, go_on = threading.Event(), threading.Event()

    def quiet():
        with without_warnings(UserWarning):
            inside.set()
            go_on.wait(10)
            warn_caller("dropped", UserWarning)

    with warnings.catch_warnings(record=True) as caught, ThreadPoolExecutor(1) as pool:
        warnings.simplefilter("always")
        future = pool.submit(quiet)
        inside.wait(10)
        warn_caller("reported", UserWarning)
        go_on.set()
        future.result()
    assert [str(warning.message) for warning in caught] == ["reported"]
