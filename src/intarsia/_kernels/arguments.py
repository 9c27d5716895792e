"""Groups of arrays that travel together through the kernels: a graph, its scores, messages, gradients, scratch space.

A kernel takes a few such named tuples instead of twenty arrays. They are built once per graph or once per run. Numba
passes the members of a named tuple on as single arguments, so a group costs nothing inside a kernel; calling a kernel
from Python takes about half a microsecond longer for each group.

Numba stores the names of these classes in its disk cache: after renaming a class, delete the cache.
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
    arc_ptr : int array (n_nodes + 1,)
        Arcs that leave node v: `arc_ptr[v]` to `arc_ptr[v + 1]`.
    head, reverse : int array (n_arcs,)
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
    parent, stamp, distance : int array
        Arc to the parent of each node, the time of its last visit, and its distance to the root then.
    queue, waiting, cursor : int array, bool array, int array (4,)
        Active nodes in a circular queue, which nodes are in it, and the positions `_BEGIN` to `_TIME`.
    orphans : int array
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


class FlowErrors(NamedTuple):
    """Squared errors of expected counts: precision / 2 times the sum of (rate * count - y)^2, plus a constant."""

    y: FloatArray
    rate: float
    precision: float
    constant: float
    n_walkers: float


class FlowScratch(NamedTuple):
    """Work space of a forward-backward pass over cells and moves.

    Attributes
    ----------
    shift : float array (n_steps - 1,)
        Subtracted from the scores of each table before exponentiating.
    tables : float array (n_steps - 1, s, s)
        Exponentiated tables.
    weights, forward, backward : float array (n_steps, s)
        Exponentiated scores of cells, and scaled messages.
    """

    shift: FloatArray
    tables: FloatArray
    weights: FloatArray
    forward: FloatArray
    backward: FloatArray


class SparseSequences(NamedTuple):
    """Labelled sequences with sparse features.

    Attributes
    ----------
    ptr : int array (n_sequences + 1,)
        Sequence s has the positions `ptr[s]` to `ptr[s + 1]`.
    row_ptr, columns, values : array
        Features of positions as a CSR matrix.
    states : int array (n_positions,)
        Labels; -1 for a hidden label.
    allowed : bool array (n_positions, n_labels)
        Labels that each position may have; read only where a label is hidden.
    importance : float array (n_sequences,)
        Weights of sequences.
    """

    ptr: IntArray
    row_ptr: Indices
    columns: Indices
    values: FloatArray
    states: IntArray
    allowed: NDArray[np.bool_]
    importance: FloatArray


class LabelFeatures(NamedTuple):
    """Layout of the weights of a chain model: a weight per pair (feature, label), then transitions, then ends.

    Attributes
    ----------
    pair_ptr, pair_label : int array
        Pairs of feature f are `pair_ptr[f]` to `pair_ptr[f + 1]`, each with its label.
    ends : bool
        Whether the first and the last label have weights.
    transitions, start, end : float array
        Constants that are added to the scores of transitions, first and last labels: -inf where forbidden.
    """

    pair_ptr: IntArray
    pair_label: IntArray
    ends: bool
    transitions: FloatArray
    start: FloatArray
    end: FloatArray


class UpdateRule(NamedTuple):
    """Length of the update after a mistake; see `online_updates.learn_sequences`."""

    fixed: bool
    max_step: float
    slack: float
    loss: int
    gamma: float


class LearnedWeights(NamedTuple):
    """Weights, changes times the number of sequences before them, variances of the weights, number of sequences."""

    weights: FloatArray
    total: FloatArray
    variance: FloatArray
    count: FloatArray


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


class MessageModel(NamedTuple):
    """A factor graph with full tables and its scores, as message passing reads them.

    Attributes
    ----------
    theta : float array
        Log-potentials.
    table_start : int array (n_factors,)
        Position in `theta` of each factor's table.
    exp_tables, exp_ptr : float array, int array (n_factors,)
        exp((theta - maximum) / rho) of all tables, and the position of each factor's; empty for max-product.
    rho : float array (n_factors,)
        Appearance probabilities.
    message_ptr : int array (n_pairs + 1,)
        Position of each pair's message.
    variable_ptr, pair_ptr, pair_idx, factor_of_pair, scope_ptr, scope_idx : int array
        Arrays of the graph, see `GraphArrays`.
    """

    theta: FloatArray
    table_start: IntArray
    exp_tables: FloatArray
    exp_ptr: IntArray
    rho: FloatArray
    message_ptr: IntArray
    variable_ptr: IntArray
    pair_ptr: IntArray
    pair_idx: IntArray
    factor_of_pair: IntArray
    scope_ptr: IntArray
    scope_idx: IntArray


class MessageState(NamedTuple):
    """Log messages, the beliefs of variables that follow from them, and work space for one factor; see `messages`.

    Attributes
    ----------
    messages : float array
        Log message of each pair, from its factor to its variable.
    finite, n_impossible : float array, int array
        Sum of the finite terms of each belief, and the number of its terms that are -inf.
    sizes, digits : int array (max_scope,)
        Scratch: number of states, and present state, of each axis of a factor.
    logs, weights : float array (max_scope, max_states)
        Scratch: a row for each axis of a factor.
    row, shift : float array (max_states,)
        Scratch: a value for each state of a variable.
    """

    messages: FloatArray
    finite: FloatArray
    n_impossible: IntArray
    sizes: IntArray
    digits: IntArray
    logs: FloatArray
    weights: FloatArray
    row: FloatArray
    shift: FloatArray


class ResidualQueue(NamedTuple):
    """Pairs by the pending change of their messages: changes, max-heap, position of each pair in it, pairs to renew."""

    priority: FloatArray
    heap: IntArray
    position: IntArray
    queue: IntArray


class FactorAdjoints(NamedTuple):
    """Gradients that the backward pass over a factor graph accumulates; see `back_messages`.

    Attributes
    ----------
    beliefs : float array
        Gradients with respect to the beliefs, which are those of the variables' scores.
    messages : float array
        Gradients with respect to log messages, without the terms that follow from `beliefs`.
    theta : float array
        Gradients in the layout of theta; `beliefs` is its first block.
    """

    beliefs: FloatArray
    messages: FloatArray
    theta: FloatArray


class SequenceScores(NamedTuple):
    """Scores of the positions of a batch of sequences.

    Attributes
    ----------
    ptr : int array (n_sequences + 1,)
        Sequence s has the positions `ptr[s]` to `ptr[s + 1]`.
    nodes : float array (n_positions, n_labels)
        Scores of labels.
    start, end : float array (n_labels,)
        Added to the first and the last position of every sequence.
    offsets : float array (n_sequences, n_labels) or (1, n_labels)
        Subtracted from every position of a sequence, or of all sequences: the gradient of a global energy.
    """

    ptr: IntArray
    nodes: FloatArray
    start: FloatArray
    end: FloatArray
    offsets: FloatArray


class ChainTables(NamedTuple):
    """Exponentiated transition scores: a table for all steps, or one for each.

    Attributes
    ----------
    tables : float array (1 or n_steps, n_labels, n_labels)
        exp(score - maximum of the table).
    tops, floors : float array (1 or n_steps,)
        Maximum of each table's scores, and its smallest positive entry.
    dense : bool
        Whether no table has a zero.
    transposed : float array (n_labels, n_labels)
        First table with its axes exchanged.
    """

    tables: FloatArray
    tops: FloatArray
    floors: FloatArray
    dense: bool
    transposed: FloatArray


class ChainScratch(NamedTuple):
    """Work space for the longest sequence.

    Attributes
    ----------
    tops, floors, totals : float array (longest,)
        Maximum of the scores, smallest positive weight, and sum of the forward message of each position.
    message : float array (n_labels,)
        A message before it is multiplied by the weights of its position.
    alpha, onward : float array (longest, n_labels)
        Forward messages, and backward messages times weights.
    """

    tops: FloatArray
    floors: FloatArray
    totals: FloatArray
    message: FloatArray
    alpha: FloatArray
    onward: FloatArray


class PairwiseModel(NamedTuple):
    """Scores of a pairwise graph whose variables all have k states, laid out by slot and rank.

    `pairwise_messages` explains slots and ranks. Sum-product kernels take exponentials of scores, max-product kernels
    take the scores.

    Attributes
    ----------
    slot_ptr : int array (n_variables + 1,)
        Slots of the variable of rank i: `slot_ptr[i]` to `slot_ptr[i + 1]`.
    middle : int array (n_variables,)
        First slot of each variable that faces a later neighbour.
    backward : int array (n_variables,)
        Ranks in the order of a backward half-sweep.
    opposite : int array (n_slots,)
        Slot at the other end of the factor.
    table_of_slot : int array (n_slots,)
        Row of `tables` that each slot uses.
    tables : float array (n_tables, k * k) or (n_tables, k)
        Full tables with the earlier variable as first axis, or scores by distance.
    unary : float array (n_variables, k)
        Scores of variables by rank.
    rho : float
        Appearance probability of every factor.
    root : int
        Number of square roots that compute a power `rho`: 1 for 1/2, 2 for 1/4, -1 for 1, 0 for a general power.
    """

    slot_ptr: Indices
    middle: Indices
    backward: Indices
    opposite: Indices
    table_of_slot: Indices
    tables: FloatArray
    unary: FloatArray
    rho: float
    root: int


class EdgeLayout(NamedTuple):
    """Positions of the edges of a pairwise graph among its slots, factors and tables.

    Attributes
    ----------
    rank : int array (n_variables,)
        Rank of each variable.
    pair_of_slot, edge_of_slot : int array (n_slots,)
        Position of `scope_idx`, and edge, of each slot.
    factor_of_edge, flipped : array (n_edges,)
        Factor of each edge, and whether the first axis of that factor is its later variable.
    scope_idx, table_of_factor, table_ptr : int array
        Arrays of the graph.
    table_top : float array (n_tables,)
        Maximum that was subtracted from each table before exponentiating.
    """

    rank: Indices
    pair_of_slot: Indices
    edge_of_slot: Indices
    factor_of_edge: Indices
    flipped: NDArray[np.bool_]
    scope_idx: Indices
    table_of_factor: Indices
    table_ptr: Indices
    table_top: FloatArray


class PairwiseAdjoints(NamedTuple):
    """Gradients that the backward pass over a pairwise graph accumulates.

    Attributes
    ----------
    messages : float array (n_slots,) for two states, else (n_slots, k)
        Gradients with respect to log messages; for two states, to the log odds.
    unary : float array (n_variables, k)
        Gradients with respect to the variables' scores, by rank.
    outer : float array (n_tables, k * k)
        Sums of outer products; times the table and divided by rho, the gradients with respect to tables.
    """

    messages: FloatArray
    unary: FloatArray
    outer: FloatArray
