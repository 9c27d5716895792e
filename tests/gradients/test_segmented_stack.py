"""A stack of few states gives the gradient of a stack of all: repeated sweeps are equal to the last bit."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gradients.marginal_losses import RandomQuadratic, lowered, mixed_rho
from tests.zoo import HARD_ZEROS, INFEASIBLE, ZOO

from intarsia.exceptions import InvalidInputError
from intarsia.gradients import message_stack as segmented_stack
from intarsia.gradients.message_stack import SegmentedStack, kept_stacks, segment_lengths
from intarsia.gradients.truncated import TruncatedGradient
from intarsia.graph import grid_graph
from intarsia.inference.messages.belief_propagation import BeliefPropagation
from intarsia.inference.messages.mean_field import MeanField
from intarsia.inference.messages.tree_reweighted import TreeReweighted
from intarsia.losses import UnivariateLogistic, training_labels
from intarsia.losses.likelihood import SurrogateEM

SOFT = [name for name in ZOO if name not in (*INFEASIBLE, *HARD_ZEROS, "no_variables")]
HARD = [name for name in ZOO if name in HARD_ZEROS and name not in INFEASIBLE]
METHODS = {
    "bp": lambda graph: BeliefPropagation(),
    "bp_damped": lambda graph: BeliefPropagation(damping=0.4),
    "trw_half": lambda graph: TreeReweighted(rho=0.5),
    "trw_mixed": lambda graph: TreeReweighted(rho=mixed_rho(graph), damping=0.2),
    "mean_field": lambda graph: MeanField(),
}


@pytest.fixture
def replays(monkeypatch):
    """Count replayed segments."""
    seen = []
    whole = SegmentedStack.segments_reversed

    def counted(self, replay):
        def count(j, part):
            seen.append(j)
            replay(j, part)

        return whole(self, count)

    monkeypatch.setattr(SegmentedStack, "segments_reversed", counted)
    return seen


def kept_and_replayed(monkeypatch, replays, differentiate):
    """Results with all states stored and with as few as possible."""
    kept = differentiate()
    assert replays == []
    monkeypatch.setattr(segmented_stack, "KEPT_BYTES", 0)
    replayed = differentiate()
    assert replays
    assert replayed.value == kept.value
    np.testing.assert_array_equal(replayed.mu, kept.mu)
    np.testing.assert_array_equal(replayed.gradient, kept.gradient)
    return replayed


@pytest.mark.parametrize("uses_factors", [False, True])
@pytest.mark.parametrize(
    ("name", "method"),
    [(name, method) for method in METHODS for name in SOFT + (HARD if method != "mean_field" else [])],
)
def test_same_gradient_on_the_zoo(monkeypatch, replays, name, method, uses_factors):
    graph, theta = lowered(name)
    loss, inference = RandomQuadratic(graph, uses_factors), METHODS[method](graph)
    result = kept_and_replayed(
        monkeypatch,
        replays,
        lambda: TruncatedGradient(n_iter=8).value_and_gradient(graph, theta, None, loss, inference),
    )
    assert replays == [1, 0]  # of 3, 3 and 2 sweeps
    if graph.n_factors and uses_factors:
        assert result.gradient.any()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("n_states", "n_iter"), [(2, 17), (8, 6), (18, 3)])
def test_same_gradient_on_grids(monkeypatch, replays, n_states, n_iter, method):
    graph = grid_graph(5, 6, n_states)
    theta = np.random.default_rng(3).standard_normal(graph.n_theta)
    inference, loss = METHODS[method](graph), RandomQuadratic(graph, True)
    with kept_stacks():  # memory with old content
        kept_and_replayed(
            monkeypatch,
            replays,
            lambda: TruncatedGradient(n_iter=n_iter).value_and_gradient(graph, theta, None, loss, inference),
        )


@pytest.mark.parametrize("loss", [UnivariateLogistic(), SurrogateEM(clamped="mean_field")], ids=["logistic", "em"])
@pytest.mark.parametrize("name", ["grid", "grid_three_states", "four_way_factor", "unequal_state_counts"])
def test_same_gradient_with_hidden_labels(monkeypatch, replays, name, loss):
    graph, theta = lowered(name)
    y = np.arange(graph.n_variables) % graph.n_states
    y[::2] = -1
    labels = training_labels(graph, y)
    kept_and_replayed(
        monkeypatch,
        replays,
        lambda: TruncatedGradient(n_iter=5).value_and_gradient(graph, theta, labels, loss, "tree_reweighted"),
    )


def test_mean_field_whose_hard_zeros_are_out_of_reach(monkeypatch, replays):
    graph, theta = lowered("chain")
    theta = theta.copy()
    graph.variable(theta, 0)[0] = -np.inf
    for c in range(graph.n_factors):
        if 0 in graph.scope(c):
            np.moveaxis(graph.table(theta, c), graph.scope(c).tolist().index(0), 0)[0] = -np.inf
    loss = RandomQuadratic(graph, True)
    kept_and_replayed(
        monkeypatch,
        replays,
        lambda: TruncatedGradient(n_iter=5).value_and_gradient(graph, theta, None, loss, "mean_field"),
    )


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 5000), st.integers(0, 200))
def test_segments(n_iter, n_rows):
    lengths = segment_lengths(n_iter, n_rows)
    assert sum(lengths) == n_iter
    assert min(lengths) > 0 or lengths == [0]
    rows = 1 + max(j + length for j, length in enumerate(lengths))
    fewest = next(r for r in range(n_iter + 1) if r * (r + 1) >= 2 * n_iter)  # for sweeps that run at most twice
    assert rows <= max(n_rows, fewest + 1)
    if n_rows > n_iter:
        assert lengths == [n_iter]


@pytest.mark.parametrize("method", ["tree_reweighted", "mean_field"])
def test_memory_is_of_few_states(monkeypatch, method):
    """45 sweeps need the states before 9 of them, and one more; mean field 8 adjoints of fields besides."""
    graph = grid_graph(20, 20, 8)
    theta = np.random.default_rng(0).standard_normal(graph.n_theta)
    loss, peaks = RandomQuadratic(graph, False), []
    monkeypatch.setattr(segmented_stack, "KEPT_BYTES", 0)
    for n_iter in (1, 45):
        rule = TruncatedGradient(n_iter=n_iter)
        rule.value_and_gradient(graph, theta, None, loss, method)
        tracemalloc.start()
        rule.value_and_gradient(graph, theta, None, loss, method)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    state = 8 * (8 * graph.scope_idx.size if method == "tree_reweighted" else int(graph.variable_ptr[-1]))
    rows = 8 if method == "tree_reweighted" else 8 + 8 + 8  # the last 8: fields at the start of each later segment
    assert peaks[1] - peaks[0] <= 1.1 * rows * state


@pytest.mark.parametrize("method", METHODS)
def test_checkpoint_chooses_what_is_stored(monkeypatch, replays, method):
    """The setting overrides the limit in both directions, and the gradient is the same to the last bit."""
    graph, theta = lowered("grid_three_states")
    loss, inference = RandomQuadratic(graph, True), METHODS[method](graph)

    def differentiate(checkpoint):
        replays.clear()
        rule = TruncatedGradient(n_iter=10, checkpoint=checkpoint)
        return rule.value_and_gradient(graph, theta, None, loss, inference), len(replays)

    stored, n_stored = differentiate("auto")
    repeated, n_repeated = differentiate(True)
    monkeypatch.setattr(segmented_stack, "KEPT_BYTES", 0)
    never, n_never = differentiate(False)
    assert (n_stored, n_repeated, n_never) == (0, 3, 0)  # segments of 4, 3, 2 and 1 sweeps; the last is not repeated
    assert stored.value == repeated.value == never.value
    np.testing.assert_array_equal(repeated.gradient, stored.gradient)
    np.testing.assert_array_equal(never.gradient, stored.gradient)


@pytest.mark.parametrize("checkpoint", ["always", None, 1, 0.5])
def test_invalid_checkpoint(checkpoint):
    graph, theta = lowered("chain")
    rule = TruncatedGradient(n_iter=2, checkpoint=checkpoint)
    with pytest.raises(InvalidInputError, match="checkpoint must be True, False or 'auto', got"):
        rule.value_and_gradient(graph, theta, None, RandomQuadratic(graph, False), "belief_propagation")
