"""Arguments of kernels that read a factor graph: its arrays, flow networks, elimination orders and bucket trees.

A kernel takes a few named tuples of arrays instead of twenty arrays. They are built once per graph or once per run.
Numba passes the members of a named tuple on as single arguments, so a group costs nothing inside a kernel; calling a
kernel from Python takes about half a microsecond longer for each group.

Numba stores names and modules of these classes in its disk cache: after renaming or moving a class, delete the cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, IntArray

if TYPE_CHECKING:
    from intarsia.graph import FactorGraph

Indices = NDArray[Any]  # int32, or int64 for more than 2^31 messages


class GraphArrays(NamedTuple):
    """Arrays of a factor graph; `FactorGraph` documents each.

    A *pair* is a position of `scope_idx`: a factor with one of its variables. Variable v has the pairs
    `pair_idx[pair_ptr[v]:pair_ptr[v + 1]]`.
    """

    n_states: IntArray
    variable_ptr: IntArray
    pair_ptr: IntArray
    pair_idx: IntArray
    factor_of_pair: IntArray
    scope_ptr: IntArray
    scope_idx: IntArray
    table_of_factor: IntArray
    table_ptr: IntArray
    table_kind: IntArray
    table_truncation: FloatArray

    @staticmethod
    def of(graph: FactorGraph) -> GraphArrays:
        """Return the arrays of a graph."""
        return GraphArrays(
            graph.n_states, graph.variable_ptr, *graph.pairs_by_variable, graph.factor_of_pair, graph.scope_ptr,
            graph.scope_idx, graph.table_of_factor, graph.table_ptr, graph.table_kind, graph.table_truncation,
        )  # fmt: skip


class SampledBlocks(NamedTuple):
    """Blocks of variables that Gibbs sampling draws jointly; each block induces a forest.

    Attributes
    ----------
    weights, weight_ptr : float array, int array
        exp(score) of the tables inside blocks, and the position of each table's.
    block_of : int array (n_variables,)
        Block of each variable.
    block_ptr, order : int array
        Variables block by block, parents before children: block b is `order[block_ptr[b]:block_ptr[b + 1]]`.
    parent_pair : int array (n_variables,)
        Pair of each variable in the factor to its parent; -1 for a root.
    """

    weights: FloatArray
    weight_ptr: IntArray
    block_of: IntArray
    block_ptr: IntArray
    order: IntArray
    parent_pair: IntArray


class FlowNetwork(NamedTuple):
    """Arcs of a flow network by their tail, with residual capacities; see `graph_cut`.

    Attributes
    ----------
    arc_ptr : uint32 array (n_nodes + 1,)
        Arcs that leave node v: `arc_ptr[v]` to `arc_ptr[v + 1]`.
    head, reverse : uint32 array (n_arcs,)
        Node where each arc ends, and the arc in the opposite direction.
    capacity : float array (n_arcs,)
        Residual capacity of each arc.
    terminal : float array (n_nodes,)
        Residual capacity from the source (positive) or to the sink (negative).
    """

    arc_ptr: Indices
    head: Indices
    reverse: Indices
    capacity: FloatArray
    terminal: FloatArray


class SearchTrees(NamedTuple):
    """Search trees of a maximum flow, from the source and from the sink; see `graph_cut`.

    Attributes
    ----------
    tree : int8 array (n_nodes,)
        FREE, SOURCE or SINK.
    parent, stamp, distance : uint32 array, int array, int array
        Arc to the parent of each node, the time of its last visit, and its distance to the root then.
    queue, waiting, cursor : uint32 array, bool array, int array (4,)
        Active nodes in a circular queue, which nodes are in it, and the positions `_BEGIN` to `_TIME`.
    orphans : uint32 array
        Nodes that lost their parent.
    """

    tree: NDArray[np.int8]
    parent: Indices
    stamp: Indices
    distance: Indices
    queue: Indices
    waiting: NDArray[np.bool_]
    cursor: IntArray
    orphans: Indices


class ForestGraph(NamedTuple):
    """Arrays of a factor graph that the search for a forest reads; see `GraphArrays`."""

    scope_ptr: IntArray
    scope_idx: IntArray
    pair_ptr: IntArray
    pair_idx: IntArray
    factor_of_pair: IntArray


class ForestOrder(NamedTuple):
    """Result and scratch of `elimination_order.peel_forest`.

    Attributes
    ----------
    n_remaining : int array (n_factors,)
        Scratch: variables of each factor that are not removed yet.
    degree, stack, removed : int array (n_variables,)
        Scratch: factors with other variables, variables to remove, and which variables are removed.
    order : int array (n_variables,)
        Variables in the order of their removal.
    """

    n_remaining: IntArray
    degree: IntArray
    stack: IntArray
    removed: IntArray
    order: IntArray


class EliminationScopes(NamedTuple):
    """Scopes of a factor graph in terms of an elimination order.

    Attributes
    ----------
    n_states, order : int array (n_variables,)
        Number of states of each variable, and the variables in the order of their elimination.
    scope_ptr, scope_rank : int array
        Scope of each factor, as positions in `order`.
    factor_ptr, factor_idx : int array
        Factors of each bucket.
    """

    n_states: IntArray
    order: IntArray
    scope_ptr: IntArray
    scope_rank: IntArray
    factor_ptr: IntArray
    factor_idx: IntArray


class Separators(NamedTuple):
    """Result and scratch of `elimination_plan.find_separators`.

    Attributes
    ----------
    parent : int array (n_buckets,)
        Bucket that receives the message of each bucket; -1 for a root.
    first_child, next_child, last_bucket : int array (n_buckets,)
        Scratch, -1 on entry: linked lists of children, and the last bucket that met each variable.
    members : int array (n_buckets,)
        Scratch: separator of one bucket.
    cells : float array (n_buckets,)
        Size of each message.
    sep_ptr, sep_rank : int array
        Separators, as positions in the elimination order, in rising order.
    """

    parent: IntArray
    first_child: IntArray
    next_child: IntArray
    last_bucket: IntArray
    members: IntArray
    cells: FloatArray
    sep_ptr: IntArray
    sep_rank: IntArray


class BucketTables(NamedTuple):
    """Arrays from which `elimination_plan.lay_out` writes the program of a bucket tree.

    Attributes
    ----------
    n_states, order, scope_ptr, scope_rank, factor_ptr, factor_idx : int array
        See `EliminationScopes`.
    variable_ptr, factor_start : int array
        Positions of the scores of variables and of factors.
    factor_slot : int array (n_factors,)
        Slot of each factor's log-range among those of variables, tables and messages.
    child_ptr, child_idx : int array
        Children of each bucket.
    sep_ptr, sep_rank : int array
        See `Separators`.
    message_ptr, bucket_ptr : int array (n_buckets + 1,)
        Position of each message, and of each bucket's program.
    n_scores : int array (1,)
        Number of variables and tables, which precede messages among the log-ranges.
    """

    n_states: IntArray
    order: IntArray
    variable_ptr: IntArray
    scope_ptr: IntArray
    scope_rank: IntArray
    factor_ptr: IntArray
    factor_idx: IntArray
    factor_start: IntArray
    factor_slot: IntArray
    child_ptr: IntArray
    child_idx: IntArray
    sep_ptr: IntArray
    sep_rank: IntArray
    message_ptr: IntArray
    bucket_ptr: IntArray
    n_scores: IntArray


class BucketLayout(NamedTuple):
    """Result and scratch of `elimination_plan.lay_out`.

    Attributes
    ----------
    axis, n_of_kind : int array (n_buckets,), int array (3,)
        Scratch: axis of each variable in one bucket, and the number of its pieces of each kind.
    program : int array
        Program of all buckets.
    needs : int array (5,)
        Sizes of the work space that the program needs.
    """

    axis: IntArray
    n_of_kind: IntArray
    program: IntArray
    needs: IntArray


class BucketProgram(NamedTuple):
    """Layout of a bucket tree, written by `elimination_plan.lay_out`, and the number of entries of all tables."""

    program: IntArray
    bucket_ptr: IntArray
    n_table: int


class BucketScratch(NamedTuple):
    """Work space for one bucket: where its tables are read and written, positions of entries, the open block."""

    places: IntArray
    index: IntArray
    block: FloatArray


class DualGraph(NamedTuple):
    """Arrays of a factor graph as the sweeps of `dual_decomposition` read them.

    Attributes
    ----------
    n_states, variable_ptr, pair_ptr, pair_idx, factor_of_pair, scope_ptr, scope_idx : int array
        See `GraphArrays`.
    first, last : int array (n_factors,)
        Variables of lowest and highest index of each factor.
    start, kind, truncation : array (n_factors,)
        Position in theta, kind and truncation of each factor's table.
    message_ptr : int array (n_pairs + 1,)
        Position of each pair's message.
    """

    n_states: IntArray
    variable_ptr: IntArray
    pair_ptr: IntArray
    pair_idx: IntArray
    factor_of_pair: IntArray
    scope_ptr: IntArray
    scope_idx: IntArray
    first: IntArray
    last: IntArray
    start: IntArray
    kind: IntArray
    truncation: FloatArray
    message_ptr: IntArray
