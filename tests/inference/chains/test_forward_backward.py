"""Repeated passes over a batch: label counts, changed scores, sequences in the log domain."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia.graph.chains import ChainBatch
from intarsia.inference.chains.chain_inference import chain_marginals
from intarsia.inference.chains.forward_backward import ChainPass


def make_batch(size, seed=0, forbidden=0.0, per_step=False, ends=True):
    rng = np.random.default_rng(seed)
    lengths = [1, 2, 2, 5, 7]
    ptr = np.concatenate([[0], np.cumsum(lengths)])
    nodes = size * rng.normal(size=(ptr[-1], 5))
    nodes[rng.random(nodes.shape) < forbidden] = -np.inf
    table = rng.normal(size=(ptr[-1] - 5, 5, 5) if per_step else (5, 5))
    table[rng.random(table.shape) < forbidden] = -np.inf
    more = (rng.normal(size=5), rng.normal(size=5)) if ends else ()
    return ChainBatch(nodes, ptr, table, *more)


BATCHES = {
    "plain": make_batch(1.0),
    "no_ends": make_batch(1.0, ends=False),
    "forbidden": make_batch(1.0, 1, forbidden=0.3),
    "per_step": make_batch(1.0, 2, forbidden=0.2, per_step=True),
    "needs_logs": make_batch(500.0, 3),
    "all_forbidden": make_batch(1.0, 4, forbidden=1.0),
}


@pytest.mark.parametrize("name", list(BATCHES))
def test_counts_are_sums_of_marginals(name):
    batch = BATCHES[name]
    taken = np.random.default_rng(5).normal(size=(batch.n_sequences, batch.n_labels))
    left = batch.nodes - np.repeat(taken, np.diff(batch.ptr), axis=0)
    expected = chain_marginals(ChainBatch(left, batch.ptr, batch.transitions, batch.start, batch.end))
    repeated = ChainPass(batch)
    for _ in range(2):  # independent of the first call
        counts, log_partition = repeated.label_counts(taken)
        np.testing.assert_allclose(counts, np.add.reduceat(expected.nodes, batch.ptr[:-1], axis=0), atol=1e-12)
        np.testing.assert_allclose(log_partition, expected.log_partition, rtol=1e-13, atol=1e-12)
    plain = chain_marginals(batch)
    np.testing.assert_allclose(
        repeated.label_counts()[0], np.add.reduceat(plain.nodes, batch.ptr[:-1], axis=0), atol=1e-12
    )


@pytest.mark.parametrize("name", list(BATCHES))
def test_changed_scores_with_a_reused_output_array(name):
    batch = BATCHES[name]
    repeated, buffer = ChainPass(batch), np.empty(batch.nodes.shape)
    for seed in range(2):
        nodes = batch.nodes + np.random.default_rng(seed).normal(size=batch.nodes.shape)
        result = repeated.marginals(nodes, out=buffer, transitions="steps")
        fresh = chain_marginals(
            ChainBatch(nodes, batch.ptr, batch.transitions, batch.start, batch.end), transitions="steps"
        )
        assert result.nodes is buffer
        np.testing.assert_array_equal(result.nodes, fresh.nodes)
        np.testing.assert_array_equal(result.transitions, fresh.transitions)
        np.testing.assert_array_equal(result.log_partition, fresh.log_partition)


def test_batches_cover_linear_and_log_domain():
    assert ChainPass(BATCHES["needs_logs"]).forward(keep=False).in_logs.any()
    assert not ChainPass(BATCHES["per_step"]).forward(keep=False).in_logs.any()
    assert (ChainPass(BATCHES["all_forbidden"]).label_counts()[1] == -np.inf).all()
