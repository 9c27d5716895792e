"""Settings, seeds, warm starts and limits of every method, and agreement of compiled and plain Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from tests.contracts.asking import (
    METHODS,
    TAKES,
    all_numbers,
    ask,
    every_method,
    every_task,
    on,
    plain_model,
    slack,
    solve,
)
from tests.zoo import ZOO

import intarsia
from intarsia import Status
from intarsia.exceptions import ConvergenceWarning, NotSupportedError, TimeLimitError, TooLargeError
from intarsia.inference import method_class

# ---------------------------------------------------------------- settings, seeds, limits


@every_method
def test_settings_survive_clone_and_are_not_modified(method):
    kind = method_class(method)
    settings = kind()
    params = settings.get_params()
    assert params == clone(settings).get_params() == kind(**params).get_params()
    assert "temperature" in params
    graph, theta = ZOO[plain_model(method)]()
    task = "marginals" if kind.gives_marginals else "map"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = intarsia.infer(graph, theta, settings, task, temperature=0.9 if task == "marginals" else 0.0)
    assert settings.get_params() == params
    assert [key for key in vars(settings) if key not in params] == [], "a run must not store anything"
    assert type(result.method) is kind


@on(["chain", "grid", "three_way_factor"])
@every_task
def test_same_seed_same_answer(method, model, task):
    first = solve(method, model, task)
    second = ask(*ZOO[model](), method, task)
    for (field, before), (_, after) in zip(all_numbers(first), all_numbers(second), strict=True):
        if field != "seconds":
            np.testing.assert_array_equal(before, after, err_msg=field)


@on(["chain", "grid", "three_way_factor", "hard_zeros", "potts", "isolated_node"])
@every_task
def test_warm_start_from_the_solution_ends_immediately(method, model, task):
    earlier = solve(method, model, task)
    graph, theta = ZOO[model]()
    again = ask(graph, theta, method, task, warm_start=earlier)
    if earlier.mu_error is not None or not earlier.converged:
        return
    assert again.converged
    assert again.n_iter <= 2
    assert again.score == pytest.approx(earlier.score)
    np.testing.assert_allclose(again.mu, earlier.mu, atol=slack(earlier))


@every_method
def test_time_limit_is_respected(method):
    graph = intarsia.grid_graph(40, 40, 4)
    theta = 3 * np.random.default_rng(1).standard_normal(graph.n_theta)
    if method_class(method).exact or method in TAKES:  # raises before it starts, or has no intermediate result
        with pytest.raises((NotSupportedError, TooLargeError)):
            ask(graph, theta, method, time_limit=1e-9)
        return
    ask(graph, theta, method, time_limit=1e-9)  # compile
    start = time.perf_counter()
    result = ask(graph, theta, method, time_limit=1e-9)
    assert time.perf_counter() - start < 2.0
    assert result.status is Status.TIME_LIMIT
    assert result.mu is not None


@every_method
@every_task
def test_exact_methods_raise_at_the_time_limit(method, task):
    if not method_class(method).exact:
        return
    graph = intarsia.chain_graph(12, 2)
    with pytest.raises(TimeLimitError) as caught:
        ask(graph, graph.zeros(), method, task, time_limit=1e-9)
    assert method_class(method).__name__ in str(caught.value)
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------- with and without compilation

JIT_MODELS = ["isolated_node", "three_way_tree", "hard_implications", "unequal_state_counts", "potts"]
_WITHOUT_JIT = """
import json, sys
from tests.contracts.test_inference_settings import jit_answers
json.dump(jit_answers(), sys.stdout)
"""


def jit_answers():
    """Return the results of every method on a few small models as plain lists."""
    answers = {}
    for method in METHODS:
        defaults = method_class(method)().get_params()
        settings = {"max_iter": 60, "n_chains": 2, "burn_in": 5} if "burn_in" in defaults else {}
        for model in [model for model in JIT_MODELS if model in TAKES.get(method, ZOO)]:
            for task in ("marginals", "map"):
                result = ask(*ZOO[model](), method, task, **settings)
                answers[f"{method} {model} {task}"] = [
                    result.status.name, result.mu.tolist(), result.log_partition, result.assignment.tolist()
                ]  # fmt: skip
    return answers


def test_jit_on_and_off_agree():
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_JIT],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    plain, compiled = json.loads(done.stdout), jit_answers()
    assert plain.keys() == compiled.keys()
    for key, (status, mu, log_partition, assignment) in compiled.items():
        # Which variables a sweep skips may depend on rounding, so iterative methods agree to their tolerance.
        close = 1e-9 if method_class(key.split()[0]).exact else 1e-6
        assert plain[key][0] == status, key
        np.testing.assert_allclose(plain[key][1], mu, atol=close, err_msg=key)
        assert plain[key][2] == (None if log_partition is None else pytest.approx(log_partition, abs=close)), key
        assert plain[key][3] == assignment, key
