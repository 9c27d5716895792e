"""Viterbi decoding of short inputs, one sequence at a time, with the weights of a fitted model prepared once."""

from __future__ import annotations

import numpy as np

from intarsia._core.validation import LARGEST_SCORE, FloatArray, IntArray, read_only, too_large
from intarsia._kernels.chain_paths import find_best_paths
from intarsia.graph.chains import ChainBatch
from intarsia.models.chain_scores import ChainLayout, StateFeatures
from intarsia.models.feature_matrix import FeatureRows
from intarsia.sequences.chain_data import Constraints

# Longer inputs are decoded in chunks, which workers can share.
MAX_POSITIONS = 4096


class ChainDecoder:
    """Best labels of short inputs by Viterbi, without the work that depends on the size of the model.

    The arrays that are derived from the weights are computed once, so that the weights must not change.

    Parameters
    ----------
    weights : float array
        Weights of the model, read-only.
    layout : ChainLayout
        Layout of the weights, without features of steps.
    constraints : Constraints
        Forbidden transitions and ends.

    Raises
    ------
    InvalidInputError
        If a weight of a transition or an end is NaN or too large.
    """

    def __init__(self, weights: FloatArray, layout: ChainLayout, constraints: Constraints) -> None:
        self.weights, self.layout, self.constraints = weights, layout, constraints
        parts = layout.unpack(weights)
        self._states = parts.states
        self.table = layout.wide_table(parts.states)
        transitions, start, end = constraints.added_to(parts.transitions, parts.start, parts.end)
        k = layout.n_labels
        batch = ChainBatch(np.zeros((1, k)), np.array([0, 1]), transitions, start, end)  # checks the scores
        self.transitions, self._start, self._end = batch.transitions.reshape(1, k, k), batch.start, batch.end
        # The columns of a row differ, so this bounds the scores of indicator features; False if a weight is NaN.
        self._is_bounded = bool(np.abs(weights).max(initial=0.0) * layout.n_features <= LARGEST_SCORE)

    def is_for(self, weights: FloatArray, layout: ChainLayout, constraints: Constraints) -> bool:
        """Return whether the decoder was made from these very objects."""
        return self.weights is weights and self.layout is layout and self.constraints is constraints

    def best_states(self, rows: FeatureRows, ptr: IntArray) -> tuple[IntArray, FloatArray] | None:
        """Return the best states of all positions and the scores (n_positions, n_labels), or None.

        The scores include those of first and last labels. The result is None for long inputs, empty sequences,
        sequences without a possible labelling and invalid scores, which need the general path.
        """
        n = int(ptr[-1])
        if n == 0 or n > MAX_POSITIONS:
            return None
        nodes = StateFeatures(rows, self.layout).scores(self._states, 0, n, self.table)
        if (rows.values.size or not self._is_bounded) and (too_large(nodes) or bool(np.isnan(nodes).any())):
            return None
        longest = n
        if ptr.size > 2:
            lengths = np.diff(ptr)
            if not lengths.all():
                return None
            longest = int(lengths.max())
        if self._start is not None:
            nodes[ptr[:-1]] += self._start
        if self._end is not None:
            nodes[ptr[1:] - 1] += self._end
        paths, scores = np.full((1, n), -1, dtype=np.int64), np.full((1, ptr.size - 1), -np.inf)
        prefix = np.empty((longest, self.layout.n_labels))
        waiting = np.empty(1), np.empty((1, 3), dtype=np.int64)
        find_best_paths(read_only(ptr), nodes, self.transitions, paths, scores, prefix, *waiting)
        return (paths[0], nodes) if scores.min() > -np.inf else None
