"""Patches of variables given the labels of all the rest, as one factor graph without links between patches."""

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
    """A graph of independent patches, with the linear map of the scores.

    Attributes
    ----------
    graph : FactorGraph
        The same variables. A factor is cut into its parts inside each patch; a part of one variable goes into that
        variable's block.
    labels : TrainingLabels
        Those given, but hidden in patches that are left out.
    rows, columns : int arrays
        Entry `columns[k]` of the original theta is added into entry `rows[k]`.
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
        """Memory of its arrays."""
        return self.rows.nbytes + self.columns.nbytes + graph_bytes(self.graph)

    def lower(self, theta: FloatArray) -> FloatArray:
        """Scores of the patches."""
        return np.bincount(self.rows, theta[self.columns], self.graph.n_theta).astype(np.float64, copy=False)

    def pull_back(self, gradient: FloatArray) -> FloatArray:
        """Gradient in the original theta."""
        return np.bincount(self.columns, gradient[self.rows], self.n_theta).astype(np.float64, copy=False)


def condition_on_rest(
    graph: FactorGraph, labels: TrainingLabels, patch_of: IntArray, wanted: NDArray[np.bool_] | None = None
) -> Conditioned:
    """Cut a graph into patches, each given the labels of its neighbours.

    A patch beside a variable that is not observed cannot be conditioned on it and is left out, as is one that is not
    wanted: all scores in it are zero and all states allowed, so that it adds nothing to a likelihood.
    """
    included = patches_with_observed_border(graph, labels, patch_of)
    if wanted is not None:
        included &= wanted
    pair_patch = patch_of[graph.scope_idx]
    kept = included[pair_patch]
    # Pairs (factor, variable) of one factor and one patch, in the order of the scope, become a factor.
    pairs = np.lexsort((pair_patch, graph.factor_of_pair))
    pairs = pairs[kept[pairs]]
    factor = graph.factor_of_pair[pairs]
    new = np.ones(pairs.size, dtype=bool)
    new[1:] = (factor[1:] != factor[:-1]) | (pair_patch[pairs][1:] != pair_patch[pairs][:-1])
    first = np.flatnonzero(new)
    width = np.diff(np.append(first, pairs.size))
    pieces = _Pieces(graph, labels, pairs, first, width, factor[first])
    split = int(graph.variable_ptr[-1])
    alone, joint = np.flatnonzero(width == 1), np.flatnonzero(width > 1)
    own = np.flatnonzero(np.repeat(included[patch_of], graph.n_states))
    rows, columns = [own], [own]
    v = graph.scope_idx[pairs[first[alone]]]
    columns.append(pieces.entries(alone))
    rows.append(_ranges(graph.variable_ptr[v], graph.n_states[v]))
    columns.append(pieces.entries(joint))
    rows.append(split + np.arange(columns[-1].size))
    joint_pairs = pairs[_ranges(first[joint], width[joint])]
    patches = FactorGraph(
        graph.n_states, np.concatenate([[0], np.cumsum(width[joint])]).astype(np.int64), graph.scope_idx[joint_pairs]
    )
    hidden = np.repeat(~included[patch_of], graph.n_states)
    # Always an object of its own: what is remembered by `labels` must not hold them.
    known = TrainingLabels(labels.allowed | hidden, labels.variable_ptr)
    return Conditioned(patches, known, np.concatenate(rows), np.concatenate(columns), graph.n_theta)


def patches_with_observed_border(graph: FactorGraph, labels: TrainingLabels, patch_of: IntArray) -> np.ndarray:
    """Which patches have only observed variables among their neighbours in other patches."""
    n_patches = int(patch_of.max(initial=-1)) + 1
    included = np.ones(n_patches, dtype=bool)
    # The patches of each factor's variables that are not observed: a second patch in the factor borders on them.
    pair_patch, factor = patch_of[graph.scope_idx], graph.factor_of_pair
    unknown = ~labels.observed[graph.scope_idx]
    low, high = np.full(graph.n_factors, n_patches), np.full(graph.n_factors, -1)
    np.minimum.at(low, factor[unknown], pair_patch[unknown])
    np.maximum.at(high, factor[unknown], pair_patch[unknown])
    other = (low[factor] < pair_patch) | (high[factor] > pair_patch)
    included[pair_patch[other & (high[factor] >= 0)]] = False
    return included


class _Pieces:
    """Parts of factors inside patches, and where their entries stand in theta."""

    def __init__(
        self, graph: FactorGraph, labels: TrainingLabels, pairs: IntArray, first: IntArray, width: IntArray,
        factor: IntArray,
    ) -> None:  # fmt: skip
        self.pairs, self.first, self.width = pairs, first, width
        self.strides = pair_strides(graph)[pairs]
        self.states = graph.n_states[graph.scope_idx[pairs]]
        # Whole factor at its labels, then without the piece's own variables. A label of -1 is never outside a piece
        # of a patch that is included, so counting it as 0 changes nothing.
        y = np.maximum(labels.y, 0)[graph.scope_idx] * pair_strides(graph)
        inside = np.bincount(graph.factor_of_pair, y, graph.n_factors).astype(np.int64)[factor]
        own = np.add.reduceat(y[pairs], first) if first.size else first
        self.base = graph.table_ptr[factor] + inside - own

    def entries(self, pieces: IntArray) -> IntArray:
        """Positions in theta of the entries of each piece, in C order, piece after piece."""
        if pieces.size == 0:
            return np.empty(0, np.int64)
        sizes = np.multiply.reduceat(self.states, self.first)[pieces]
        piece = np.repeat(pieces, sizes)
        rest = _ranges(np.zeros(pieces.size, np.int64), sizes)
        at = self.base[piece]
        for k in range(int(self.width[pieces].max())):  # from the last axis, which runs fastest
            has = np.flatnonzero(self.width[piece] > k)
            pair = self.first[piece[has]] + self.width[piece[has]] - 1 - k
            rest_here, state = np.divmod(rest[has], self.states[pair])
            at[has] += state * self.strides[pair]
            rest[has] = rest_here
        return at


def _ranges(starts: IntArray, lengths: IntArray) -> IntArray:
    """Concatenation of `arange(start, start + length)` over all rows."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if ends.size else 0
    return np.arange(total) + np.repeat(starts - (ends - lengths), lengths)
