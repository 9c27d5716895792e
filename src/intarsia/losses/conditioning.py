"""Patches of variables conditioned on the labels of all others, as one factor graph of independent patches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, IntArray
from intarsia.graph import FactorGraph
from intarsia.losses.clamping import graph_bytes
from intarsia.losses.labels import TrainingLabels
from intarsia.losses.terms import pair_strides


@dataclass(frozen=True, eq=False)
class Conditioned:
    """A graph of independent patches, with the linear map from the original scores.

    Attributes
    ----------
    graph : FactorGraph
        Graph of the same variables. A factor is split into its pieces inside each patch; a piece of one variable is
        added to the block of that variable.
    labels : TrainingLabels
        The original labels, but hidden in excluded patches.
    rows, columns : int arrays
        Entry `columns[k]` of the original theta is added to entry `rows[k]`.
    n_theta : int
        Length of the original theta.
    """

    graph: FactorGraph
    labels: TrainingLabels
    rows: IntArray
    columns: IntArray
    n_theta: int

    @property
    def n_bytes(self) -> int:
        """Memory of its arrays, in bytes."""
        return self.rows.nbytes + self.columns.nbytes + graph_bytes(self.graph)

    def lower(self, theta: FloatArray) -> FloatArray:
        """Return the scores of the patches."""
        return np.bincount(self.rows, theta[self.columns], self.graph.n_theta).astype(np.float64, copy=False)

    def pull_back(self, gradient: FloatArray) -> FloatArray:
        """Return the gradient in the original theta."""
        return np.bincount(self.columns, gradient[self.rows], self.n_theta).astype(np.float64, copy=False)


def condition_on_rest(
    graph: FactorGraph, labels: TrainingLabels, patch_of: IntArray, selected: NDArray[np.bool_] | None = None
) -> Conditioned:
    """Split a graph into patches, each conditioned on the labels of its neighbours.

    A patch next to a variable that is not observed cannot be conditioned on it and is excluded, as are patches outside
    `selected`: all scores in an excluded patch are zero and all states allowed, so that it adds nothing to a
    likelihood.
    """
    included = patches_with_observed_border(graph, labels, patch_of)
    if selected is not None:
        included &= selected
    pair_patch = patch_of[graph.scope_idx]
    in_patch = included[pair_patch]
    # Pairs (factor, variable) of one factor and one patch, in the order of the scope, become a factor.
    pairs = np.lexsort((pair_patch, graph.factor_of_pair))
    pairs = pairs[in_patch[pairs]]
    factor = graph.factor_of_pair[pairs]
    is_first = np.ones(pairs.size, dtype=bool)
    is_first[1:] = (factor[1:] != factor[:-1]) | (pair_patch[pairs][1:] != pair_patch[pairs][:-1])
    first = np.flatnonzero(is_first)
    width = np.diff(np.append(first, pairs.size))
    pieces = _Pieces(graph, labels, pairs, first, width, factor[first])
    split = int(graph.variable_ptr[-1])
    single, joint = np.flatnonzero(width == 1), np.flatnonzero(width > 1)
    variable_entries = np.flatnonzero(np.repeat(included[patch_of], graph.n_states))
    rows, columns = [variable_entries], [variable_entries]
    v = graph.scope_idx[pairs[first[single]]]
    columns.append(pieces.entries(single))
    rows.append(_ranges(graph.variable_ptr[v], graph.n_states[v]))
    columns.append(pieces.entries(joint))
    rows.append(split + np.arange(columns[-1].size))
    joint_pairs = pairs[_ranges(first[joint], width[joint])]
    patches = FactorGraph(
        graph.n_states, np.concatenate([[0], np.cumsum(width[joint])]).astype(np.int64), graph.scope_idx[joint_pairs]
    )
    hidden = np.repeat(~included[patch_of], graph.n_states)
    # Always a new object: an entry of the cache must not refer to its key `labels`.
    patch_labels = TrainingLabels(labels.allowed | hidden, labels.variable_ptr)
    return Conditioned(patches, patch_labels, np.concatenate(rows), np.concatenate(columns), graph.n_theta)


def patches_with_observed_border(graph: FactorGraph, labels: TrainingLabels, patch_of: IntArray) -> np.ndarray:
    """Return which patches have only observed variables among their neighbours in other patches."""
    n_patches = int(patch_of.max(initial=-1)) + 1
    included = np.ones(n_patches, dtype=bool)
    # Lowest and highest patch among the unobserved variables of each factor; other patches of it border on them.
    pair_patch, factor = patch_of[graph.scope_idx], graph.factor_of_pair
    unknown = ~labels.observed[graph.scope_idx]
    low, high = np.full(graph.n_factors, n_patches), np.full(graph.n_factors, -1)
    np.minimum.at(low, factor[unknown], pair_patch[unknown])
    np.maximum.at(high, factor[unknown], pair_patch[unknown])
    other = (low[factor] < pair_patch) | (high[factor] > pair_patch)
    included[pair_patch[other & (high[factor] >= 0)]] = False
    return included


class _Pieces:
    """Pieces of factors inside patches, and the positions of their entries in theta."""

    def __init__(
        self, graph: FactorGraph, labels: TrainingLabels, pairs: IntArray, first: IntArray, width: IntArray,
        factor: IntArray,
    ) -> None:  # fmt: skip
        self.pairs, self.first, self.width = pairs, first, width
        self.strides = pair_strides(graph)[pairs]
        self.states = graph.n_states[graph.scope_idx[pairs]]
        # Entry of the whole factor at its labels, minus the contribution of the variables in the piece. Outside a piece
        # of an included patch no label is -1, so that counting it as 0 changes nothing.
        y = np.maximum(labels.y, 0)[graph.scope_idx] * pair_strides(graph)
        offset = np.bincount(graph.factor_of_pair, y, graph.n_factors).astype(np.int64)[factor]
        contribution = np.add.reduceat(y[pairs], first) if first.size else first
        self.base = graph.table_ptr[factor] + offset - contribution

    def entries(self, pieces: IntArray) -> IntArray:
        """Return the positions in theta of the entries of each piece, in C order, piece after piece."""
        if pieces.size == 0:
            return np.empty(0, np.int64)
        sizes = np.multiply.reduceat(self.states, self.first)[pieces]
        piece = np.repeat(pieces, sizes)
        remaining = _ranges(np.zeros(pieces.size, np.int64), sizes)
        positions = self.base[piece]
        for k in range(int(self.width[pieces].max())):  # from the last axis, which runs fastest
            affected = np.flatnonzero(self.width[piece] > k)
            pair = self.first[piece[affected]] + self.width[piece[affected]] - 1 - k
            quotient, state = np.divmod(remaining[affected], self.states[pair])
            positions[affected] += state * self.strides[pair]
            remaining[affected] = quotient
        return positions


def _ranges(starts: IntArray, lengths: IntArray) -> IntArray:
    """Return the concatenation of `arange(start, start + length)` over all rows."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if ends.size else 0
    return np.arange(total) + np.repeat(starts - (ends - lengths), lengths)
