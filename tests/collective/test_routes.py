"""Routes that the example of walkers samples from flows, against enumeration of all walks."""

from __future__ import annotations

import importlib.util
import itertools
from pathlib import Path

import numpy as np
import pytest

from intarsia.collective import infer_flows

COUNTS = np.array([[50.0, 30, 20], [30, 40, 30], [np.nan, np.nan, np.nan], [10, 30, 60]])
LINE = np.log([[0.7, 0.3, 1e-9], [0.1, 0.5, 0.4], [0.2, 1e-9, 0.8]])


@pytest.fixture(scope="module")
def example():
    path = Path(__file__).parents[2] / "examples" / "follow_walkers.py"
    specification = importlib.util.spec_from_file_location("follow_walkers", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize("through", [{}, {0: [0], 3: [1, 2]}, {2: [2]}])
def test_sampled_routes_have_the_enumerated_frequencies(example, through):
    result = infer_flows(LINE, COUNTS, n_walkers=100)
    walks = np.array(list(itertools.product(range(3), repeat=4)))
    probability = result.walkers[0][walks[:, 0]]
    for t in range(3):  # given the counts, walkers are a Markov chain with the inferred flows
        flow = np.asarray(result.flows(t))
        probability = probability * (flow / flow.sum(axis=1, keepdims=True))[walks[:, t], walks[:, t + 1]]
    for step, cells in through.items():
        probability = probability * np.isin(walks[:, step], cells)
    probability /= probability.sum()
    n, code = 20_000, np.array([27, 9, 3, 1])
    routes = example.sample_routes(result, n, through, np.random.default_rng(1))
    frequency = np.bincount(routes @ code, minlength=81)[walks @ code] / n
    assert not frequency[probability == 0].any()
    deviation = np.abs(frequency - probability) / np.sqrt(np.maximum(probability * (1 - probability), 1e-9) / n)
    assert deviation[probability > 1e-4].max() < 4.5
