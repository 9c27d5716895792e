"""Exact directional derivatives of marginals, by differentiating variable elimination in forward mode.

If v is eliminated with separator s, the upward pass yields p(x_v | x_s), and the downward pass p(x_s). A change of the
scores changes the message of a bucket by the expectation of the change under p(x_v | x_s), so both passes have linear
counterparts that need no logarithms and no divisions. Since the marginals are the gradient of log Z, their derivative
is the covariance matrix of the statistics, which is symmetric: the same function multiplies it from both sides.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intarsia._core.validation import FloatArray
from intarsia.graph import FactorGraph
from intarsia.graph.elimination_order import forest_order
from intarsia.graph.once_per_graph import OncePerGraph
from intarsia.inference.exact.elimination import BucketTree
from intarsia.inference.exact.junction_tree import JunctionTree

# Largest number of table entries that are computed at once for several directions.
_MAX_ENTRIES = 2_000_000


@dataclass(frozen=True)
class _Piece:
    """Block of scores, or message of another bucket, with its axes in the order of the axes of a bucket.

    `order` transposes the axes of the block, `shape` inserts axes of length 1, and `summed` are the axes of the bucket
    over which a table of the bucket is summed to obtain a table with the axes of the block.
    """

    source: int
    block_shape: tuple[int, ...]
    order: tuple[int, ...]
    shape: tuple[int, ...]
    summed: tuple[int, ...]

    def expand(self, values: FloatArray) -> FloatArray:
        """Return values (..., *block_shape) with one axis per variable of the bucket."""
        n_lead = values.ndim - len(self.block_shape)
        axes = (*range(n_lead), *(n_lead + axis for axis in self.order))
        return values.transpose(axes).reshape(*values.shape[:n_lead], *self.shape)

    def contract(self, table: FloatArray) -> FloatArray:
        """Return a table (..., *bucket) summed to the axes of the block, in its order."""
        n_lead = table.ndim - len(self.shape)
        summed = table.sum(axis=tuple(n_lead + axis for axis in self.summed)) if self.summed else table
        inverse = np.argsort(self.order) if self.order else ()
        return summed.transpose((*range(n_lead), *(n_lead + int(axis) for axis in inverse)))


@dataclass(frozen=True)
class _Bucket:
    """A variable with its separator: blocks of scores, messages of earlier buckets, and the bucket of its parent."""

    blocks: tuple[tuple[slice, _Piece], ...]
    children: tuple[_Piece, ...]


@OncePerGraph
def _plan(graph: FactorGraph) -> list[_Bucket]:
    """Return the buckets of a graph in their order of elimination."""
    order = forest_order(graph)
    tree = JunctionTree().prepare(graph) if order is None else BucketTree(graph, order)
    n_states = graph.n_states.tolist()
    scopes = [[int(v), *separator] for v, separator, _ in tree.buckets()]
    blocks: list[list[tuple[slice, _Piece]]] = []
    for scope in scopes:
        v = scope[0]
        states = slice(int(graph.variable_ptr[v]), int(graph.variable_ptr[v + 1]))
        blocks.append([(states, _piece(v, [v], scope, n_states))])
    for c in range(graph.n_factors):
        factor = graph.scope(c).tolist()
        bucket = int(tree.position[factor].min())
        entries = slice(int(graph.table_ptr[c]), int(graph.table_ptr[c + 1]))
        blocks[bucket].append((entries, _piece(c, factor, scopes[bucket], n_states)))
    children: list[list[_Piece]] = [[] for _ in scopes]
    for b, (_, separator, parent) in enumerate(tree.buckets()):
        if parent >= 0:
            children[parent].append(_piece(b, separator, scopes[parent], n_states))
    return [_Bucket(tuple(block), tuple(child)) for block, child in zip(blocks, children, strict=True)]


def _piece(source: int, axes: list[int], bucket: list[int], n_states: list[int]) -> _Piece:
    """Return how a block over the variables `axes` lies in a bucket over the variables `bucket`."""
    place = {v: axis for axis, v in enumerate(bucket)}
    order = tuple(sorted(range(len(axes)), key=lambda axis: place[axes[axis]]))
    shape = tuple(n_states[v] if v in axes else 1 for v in bucket)
    summed = tuple(axis for axis, v in enumerate(bucket) if v not in axes)
    return _Piece(source, tuple(n_states[v] for v in axes), order, shape, summed)


class EliminationDerivative:
    """Covariance of the statistics of models with equal graph, as a product with vectors.

    Parameters
    ----------
    graph : FactorGraph
        Graph in learning form: a separate full table for every factor.
    theta : (..., n_theta) array
        Scores of one model, or of several models; -inf marks impossible states.

    Attributes
    ----------
    mu : (..., n_theta) array
        Marginals.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(2, 2)
    >>> derivative = EliminationDerivative(graph, graph.zeros())
    >>> derivative.product(np.eye(graph.n_theta)[:1])[0, :4].tolist()        # the variables are independent
    [0.25, -0.25, 0.0, 0.0]
    """

    def __init__(self, graph: FactorGraph, theta: FloatArray) -> None:
        self.graph, self.plan = graph, _plan(graph)
        self.shape = theta.shape[:-1]
        self._conditionals: list[FloatArray] = []  # p(x_v | x_s) of each bucket
        messages: list[FloatArray] = []
        for bucket in self.plan:
            total = self._total(bucket, theta, messages)
            axis = len(self.shape)
            largest = total.max(axis=axis, keepdims=True)
            weights = np.exp(total - np.where(largest > -np.inf, largest, 0.0))
            sums = weights.sum(axis=axis, keepdims=True)
            self._conditionals.append(weights / np.where(sums > 0, sums, 1.0))
            with np.errstate(divide="ignore"):
                messages.append((np.log(sums) + largest).squeeze(axis) if sums.size else sums.squeeze(axis))
        self._separators: list[FloatArray] = [np.ones(self.shape)] * len(self.plan)  # p(x_s) of each bucket
        self.mu = np.zeros(theta.shape)
        for b in reversed(range(len(self.plan))):
            table = self._conditionals[b] * np.expand_dims(self._separators[b], len(self.shape))
            self._spread(self.plan[b], table, self._separators, self.mu)

    @property
    def n_entries(self) -> int:
        """Number of table entries of all buckets."""
        return sum(table.size for table in self._conditionals)

    def product(self, directions: FloatArray) -> FloatArray:
        """Return the derivatives of mu (k, ..., n_theta) along directions (k, ..., n_theta) in theta."""
        result = np.empty((len(directions), *self.shape, self.graph.n_theta))
        chunk = max(1, _MAX_ENTRIES // max(self.n_entries, 1))
        for start in range(0, len(directions), chunk):
            result[start : start + chunk] = self._product(directions[start : start + chunk])
        return result

    def _product(self, directions: FloatArray) -> FloatArray:
        lead = (len(directions), *self.shape)
        directions = np.broadcast_to(directions, (*lead, self.graph.n_theta))
        axis = len(lead)
        messages: list[FloatArray] = []
        changes: list[FloatArray] = []  # of log p(x_v | x_s)
        for bucket, conditional in zip(self.plan, self._conditionals, strict=True):
            total = self._total(bucket, directions, messages)
            message = (conditional * total).sum(axis=axis)
            changes.append(total - np.expand_dims(message, axis))
            messages.append(message)
        separators: list[FloatArray] = [np.zeros(lead)] * len(self.plan)
        result = np.zeros(directions.shape)
        for b in reversed(range(len(self.plan))):
            change = changes[b] * np.expand_dims(self._separators[b], axis - 1)
            change += np.expand_dims(separators[b], axis)
            change *= self._conditionals[b]
            self._spread(self.plan[b], change, separators, result)
        return result

    def _total(self, bucket: _Bucket, values: FloatArray, messages: list[FloatArray]) -> FloatArray:
        """Return the sum of the blocks and messages of a bucket, as a table with one axis per variable."""
        lead = values.shape[:-1]
        pieces = [piece.expand(values[..., block].reshape(*lead, *piece.block_shape)) for block, piece in bucket.blocks]
        pieces += [piece.expand(messages[piece.source]) for piece in bucket.children]
        shape = np.broadcast_shapes(*(piece.shape for piece in pieces))
        total = np.zeros(shape)
        for piece in pieces:
            total += piece
        return total

    def _spread(self, bucket: _Bucket, table: FloatArray, separators: list[FloatArray], out: FloatArray) -> None:
        """Write the sums of the table of a bucket to the separators of its children and to its blocks of `out`."""
        for piece in bucket.children:
            separators[piece.source] = piece.contract(table)
        for block, piece in bucket.blocks:
            out[..., block] = piece.contract(table).reshape(*out.shape[:-1], -1)
