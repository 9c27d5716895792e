"""Derivatives of the marginals of chains, against differences of enumerated marginals."""

from __future__ import annotations

import numpy as np
import pytest
from tests.oracles.chain_paths import visit_batch
from tests.oracles.finite_differences import central_differences

from intarsia.graph.chains import ChainBatch
from intarsia.inference.chains import chain_covariance
from intarsia.inference.chains.chain_covariance import covariance_product

LENGTHS = {"single": [1], "pair": [2], "several": [3, 1, 4], "nothing": []}


def random_batch(lengths, k=3, *, per_step=False, forbidden=False, seed=0):
    rng = np.random.default_rng(seed)
    n, n_steps = sum(lengths), sum(lengths) - len(lengths)
    tables = rng.standard_normal((n_steps, k, k) if per_step else (k, k))
    if forbidden:
        tables[..., 0, 1] = -np.inf
    ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(int)
    return ChainBatch(rng.standard_normal((n, k)), ptr, tables, rng.standard_normal(k), rng.standard_normal(k))


def linear_function(batch, nodes, tables, node_vector, step_vector):
    """The vectors times the enumerated marginals, for other scores."""
    moved = ChainBatch(nodes, batch.ptr, tables, batch.start, batch.end)
    answers = visit_batch(moved)
    mu = np.concatenate([a.nodes for a in answers])
    steps = np.concatenate([a.steps for a in answers])
    return float((mu * node_vector).sum() + (steps * step_vector).sum())


@pytest.mark.parametrize("forbidden", [False, True])
@pytest.mark.parametrize("per_step", [False, True])
@pytest.mark.parametrize("lengths", ["single", "pair", "several"])
def test_against_differences(lengths, per_step, forbidden):
    batch = random_batch(LENGTHS[lengths], per_step=per_step, forbidden=forbidden)
    rng = np.random.default_rng(1)
    node_vector, step_vector = rng.standard_normal(batch.nodes.shape), rng.standard_normal((batch.n_steps, 3, 3))
    nodes, steps = covariance_product(batch, node_vector, step_vector, table_per_step=per_step)
    in_nodes = central_differences(
        lambda z: linear_function(batch, z.reshape(nodes.shape), batch.transitions, node_vector, step_vector),
        batch.nodes.reshape(-1).copy(),
    )
    in_tables = central_differences(
        lambda z: linear_function(batch, batch.nodes, z.reshape(batch.transitions.shape), node_vector, step_vector),
        batch.transitions.reshape(-1).copy(),
    )
    assert nodes.reshape(-1) == pytest.approx(in_nodes, abs=1e-9)
    assert steps.reshape(-1) == pytest.approx(in_tables, abs=1e-9)


def test_parts_of_a_large_batch_agree(monkeypatch):
    batch = random_batch([3, 5, 1, 2, 4], per_step=True)
    vector, steps = np.random.default_rng(2).standard_normal(batch.nodes.shape), np.ones((batch.n_steps, 3, 3))
    steps[::2] = -2.0
    whole = covariance_product(batch, vector, steps, table_per_step=True)
    monkeypatch.setattr(chain_covariance, "_MAX_BYTES", 300)
    assert len(chain_covariance._ranges(batch)) > 2
    for part, expected in zip(covariance_product(batch, vector, steps, table_per_step=True), whole, strict=True):
        assert part == pytest.approx(expected, abs=1e-14)


def test_extreme_scores_and_impossible_sequences():
    nodes = np.array([[1000.0, 0.0], [0.0, 1000.0], [-np.inf, -np.inf]])
    batch = ChainBatch(nodes, [0, 2, 3], [[0.0, -999.0], [0.0, 0.0]])
    nodes, steps = covariance_product(batch, np.ones((3, 2)) * [1.0, 0.0])
    assert np.isfinite(nodes).all()
    assert np.isfinite(steps).all()
    assert not nodes[2].any()


def test_long_sequences_keep_their_digits():
    """Independent positions: the covariance of a position does not depend on the length."""
    n = 20_000
    batch = ChainBatch(np.zeros((n, 2)), [0, n], np.zeros((2, 2)))
    nodes, _ = covariance_product(batch, np.tile([1e3, 0.0], (n, 1)))
    assert nodes[:, 0] == pytest.approx(np.full(n, 250.0), abs=1e-8)


def test_a_large_constant_costs_no_digits():
    """A constant added to a position changes no covariance; without centring, the sum would lose 9 digits.

    The vector has multiples of 1/8, so that adding the constant does not round it.
    """
    batch = random_batch([6, 1, 4], per_step=True)
    rng = np.random.default_rng(3)
    node_vector = rng.integers(-8, 9, batch.nodes.shape) / 8.0
    step_vector = rng.integers(-8, 9, (batch.n_steps, 3, 3)) / 8.0
    expected = covariance_product(batch, node_vector, step_vector, table_per_step=True)
    moved = covariance_product(batch, node_vector + 2.0**30, step_vector, table_per_step=True)
    for part, exact in zip(moved, expected, strict=True):
        assert part == pytest.approx(exact, abs=1e-10)


def test_empty_batch():
    batch = random_batch([])
    nodes, steps = covariance_product(batch, np.zeros((0, 3)))
    assert nodes.shape == (0, 3)
    assert not steps.any()
