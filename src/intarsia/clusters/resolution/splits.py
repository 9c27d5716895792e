"""Cheapest split of each entity, and the gain of joining two entities: how firmly the clustering is decided."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csgraph

from intarsia._core.validation import FloatArray, IntArray

if TYPE_CHECKING:
    from intarsia.clusters.resolution.resolve import Resolution

ENUMERATED_NODES = 12  # largest entity whose splits are all compared
_DENSE_NODES = 1500  # largest entity whose splits are searched; of a larger one, single records are split off
_SPECTRAL_NODES = 400
_ENTRIES = 2_000_000  # of the largest temporary array
_STARTS = 4


@dataclass(frozen=True, eq=False)
class Split:
    """Division of an entity into two sides.

    Attributes
    ----------
    cost : float
        Total log odds of the pairs between the sides, which the split loses.
    side : bool array
        Whether each node is on the second side.
    exact : bool
        Whether no other split costs less; otherwise the cheapest split costs at most `cost`.
    """

    cost: float
    side: NDArray[np.bool_]
    exact: bool


class EntityGraph:
    """Nodes of each entity and the log odds between them; a node is a record, or records that must stay together.

    Attributes
    ----------
    node_of : int array (n_records,)
        Node of each record.
    size : int array (n_nodes,)
        Number of records of each node.
    entity_of_node : int array (n_nodes,)
        Number of the entity of each node, in the order of the entities' first records.
    first_record : int array (n_entities,)
        First record of each entity.
    absent : float
        Log odds of two records without a score.

    Examples
    --------
    >>> from intarsia.clusters import resolve
    >>> edges = {"id1": ["a", "a", "b"], "id2": ["b", "c", "c"], "log_odds": [3.0, 1.0, 0.5]}
    >>> graph = EntityGraph(resolve(edges, calibrate=None))
    >>> split = graph.cheapest_split(0)
    >>> split.cost, split.side.tolist(), split.exact
    (1.5, [False, False, True], True)
    """

    def __init__(self, resolution: Resolution) -> None:
        pairs, n = resolution.pairs, len(resolution.labels)
        must = resolution.links.must
        graph = coo_array((np.ones(len(must)), (must[:, 0], must[:, 1])), shape=(n, n))
        self.node_of = csgraph.connected_components(graph, directed=False)[1] if len(must) else np.arange(n)
        self.size = np.bincount(self.node_of)
        self.absent = resolution.calibration.absent
        self.first_record, entity_of_record = np.unique(resolution.labels, return_inverse=True)
        self.entity_of_node = np.empty(len(self.size), dtype=np.int64)
        self.entity_of_node[self.node_of] = entity_of_record
        self._order = np.argsort(self.entity_of_node, kind="stable")
        self._ptr = np.concatenate([[0], np.cumsum(np.bincount(self.entity_of_node))])
        self._position = np.empty(len(self.size), dtype=np.int64)
        self._position[self._order] = np.arange(len(self.size)) - self._ptr[self.entity_of_node[self._order]]
        self._ends = self.node_of[pairs.pairs]
        self._weight = resolution.log_odds - self.absent
        self._edge_entities = self.entity_of_node[self._ends]
        inside = np.flatnonzero(self._edge_entities[:, 0] == self._edge_entities[:, 1])
        self._inside = inside[np.argsort(self._edge_entities[inside, 0], kind="stable")]
        self._inside_entity = self._edge_entities[self._inside, 0]

    @property
    def n_entities(self) -> int:
        """Number of entities."""
        return len(self.first_record)

    def nodes(self, entity: int) -> IntArray:
        """Return the nodes of an entity."""
        return self._order[self._ptr[entity] : self._ptr[entity + 1]]

    def n_records(self) -> IntArray:
        """Return the number of records of each entity."""
        return np.bincount(self.entity_of_node, self.size).astype(np.int64)

    def weights(self, entities: IntArray) -> FloatArray:
        """Return the log odds between the nodes of entities that have the same number of nodes.

        The shape is (n_entities, n_nodes, n_nodes); the diagonal is 0.
        """
        n = int(self._ptr[entities[0] + 1] - self._ptr[entities[0]])
        sizes = self.size[self._order[self._ptr[entities][:, None] + np.arange(n)]]
        matrices: FloatArray = float(self.absent) * sizes.astype(np.float64)[:, :, None] * sizes[:, None, :]
        low, high = (np.searchsorted(self._inside_entity, entities, side) for side in ("left", "right"))
        lengths = high - low
        rows = self._inside[np.repeat(low - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())]
        matrix = np.repeat(np.arange(len(entities)), lengths)
        first, second = self._position[self._ends[rows]].T
        np.add.at(matrices, (matrix, first, second), self._weight[rows])
        np.add.at(matrices, (matrix, second, first), self._weight[rows])
        matrices[:, np.arange(n), np.arange(n)] = 0.0
        return matrices

    def cheapest_split(self, entity: int) -> Split | None:
        """Return the cheapest split of an entity, or None if it is a single node."""
        n = int(self._ptr[entity + 1] - self._ptr[entity])
        if n == 1:
            return None
        if n > _DENSE_NODES:
            cost = self._attachments(entity)
            return Split(float(cost.min()), np.arange(n) == int(cost.argmin()), False)
        weights = self.weights(np.array([entity]))
        if n > ENUMERATED_NODES:
            return _search_split(weights[0])
        cost, row = _enumerate_splits(weights)
        return Split(float(cost[0]), _sides(n)[row[0]] > 0, True)

    def split_costs(self) -> FloatArray:
        """Return the cost of the cheapest split of every entity, infinite for single nodes."""
        costs = np.full(self.n_entities, np.inf)
        n_nodes = np.diff(self._ptr)
        for n in range(2, ENUMERATED_NODES + 1):
            entities = np.flatnonzero(n_nodes == n)
            batch = max(1, _ENTRIES // (len(_sides(n)) * n)) if len(entities) else 1
            for start in range(0, len(entities), batch):
                chunk = entities[start : start + batch]
                costs[chunk] = _enumerate_splits(self.weights(chunk))[0]
        for entity in np.flatnonzero(n_nodes > ENUMERATED_NODES):
            split = self.cheapest_split(int(entity))
            costs[entity] = np.inf if split is None else split.cost
        return costs

    def join_gains(self) -> tuple[IntArray, FloatArray]:
        """Return the pairs of entities with a scored pair between them, and the change of the score by joining them."""
        ends = np.sort(self._edge_entities, axis=1)
        between = ends[:, 0] != ends[:, 1]
        keys, row = np.unique(ends[between, 0] * self.n_entities + ends[between, 1], return_inverse=True)
        entities = np.column_stack([keys // self.n_entities, keys % self.n_entities])
        n_records = self.n_records()
        gain = np.bincount(row, self._weight[between], len(keys))
        return entities, gain + self.absent * n_records[entities[:, 0]] * n_records[entities[:, 1]]

    def _attachments(self, entity: int) -> FloatArray:
        """Return the log odds between each node of an entity and all its other nodes."""
        nodes = self.nodes(entity)
        size = self.size[nodes]
        total = self.absent * size * (size.sum() - size)
        rows = self._inside[self._inside_entity == entity]
        rows = rows[self._ends[rows, 0] != self._ends[rows, 1]]
        for side in (0, 1):
            np.add.at(total, self._position[self._ends[rows, side]], self._weight[rows])
        return total


@cache
def _sides(n: int) -> FloatArray:
    """Return all splits of n nodes, one per row: 1 for the nodes on the second side, where node 0 never is."""
    numbers = np.arange(1, 2 ** (n - 1))
    sides = (numbers[:, None] >> np.arange(n - 1)) & 1
    return np.column_stack([np.zeros(len(numbers)), sides])


def _enumerate_splits(weights: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the cost of the cheapest split of each matrix and its row in `_sides`."""
    sides = _sides(weights.shape[1])
    within = ((sides @ weights) * sides).sum(axis=2)
    costs = weights.sum(axis=2) @ sides.T - within
    best = costs.argmin(axis=1)
    return costs[np.arange(len(costs)), best], best


def _search_split(weights: FloatArray) -> Split:
    """Search a cheap split by local moves (Kernighan and Lin) from several starts."""
    n = len(weights)
    degree = weights.sum(axis=1)
    starts = [np.arange(n) == k for k in np.argsort(degree, kind="stable")[:_STARTS]]
    if n <= _SPECTRAL_NODES:  # a weak link between two halves shows in the second eigenvector of the Laplacian
        vector = np.linalg.eigh(np.diag(degree) - weights)[1]
        starts += [vector[:, k] > np.median(vector[:, k]) for k in (0, 1)]
    best = Split(np.inf, starts[0], False)
    for start in starts:
        if 0 < start.sum() < n:
            split = _improve_split(weights, start)
            best = split if split.cost < best.cost else best
    return Split(best.cost, best.side ^ best.side[0], False)  # node 0 is on the first side


def _improve_split(weights: FloatArray, side: NDArray[np.bool_]) -> Split:
    """Move every node once to the other side, best moves first; repeat from the best split as long as it improves."""
    n = len(weights)
    tolerance = 1e-9 * (1.0 + float(np.abs(weights).sum()))
    cost = float(weights[side][:, ~side].sum())
    while True:
        sign = np.where(side, 1.0, -1.0)
        pull = weights @ sign
        was_moved = np.zeros(n, dtype=bool)
        best_cost, best_side, current = cost, side, cost
        n_second = int(side.sum())
        for _ in range(n):
            change = np.where(was_moved, np.inf, sign * pull)
            if n_second == 1:
                change[sign > 0] = np.inf
            if n_second == n - 1:
                change[sign < 0] = np.inf
            node = int(change.argmin())
            if not np.isfinite(change[node]):
                break
            current += float(change[node])
            n_second -= int(sign[node])
            pull -= 2.0 * sign[node] * weights[:, node]
            sign[node] = -sign[node]
            was_moved[node] = True
            if current < best_cost - tolerance:
                best_cost, best_side = current, sign > 0
        if best_side is side:
            return Split(cost, side, False)
        side = best_side
        cost = float(weights[side][:, ~side].sum())
