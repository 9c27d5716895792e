"""Fast message passing on pairwise graphs whose variables have equally many states."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, IntArray, read_only
from intarsia._kernels.chain_vectors import row_spans
from intarsia._kernels.graph_arguments import Indices
from intarsia._kernels.message_arguments import EdgeLayout, PairwiseModel
from intarsia._kernels.pairwise_beliefs import (
    binary_edge_marginals,
    edge_marginals,
    variable_marginals,
    variable_marginals_alone,
)
from intarsia._kernels.pairwise_max import sweep_max
from intarsia._kernels.pairwise_messages import (
    stack_sweeps_binary,
    stack_sweeps_equal,
    sweep_binary,
    sweep_binary_reweighted,
    sweep_equal,
)
from intarsia._kernels.pairwise_slots import order_slots
from intarsia.graph import FactorGraph, FactorKind
from intarsia.graph.factor_kinds import parametric_statistic
from intarsia.graph.once_per_graph import OncePerGraph
from intarsia.inference.messages.general_messages import Beliefs, GeneralMessages

# Products of normalised messages stay above exp(-SAFE_RANGE), far from underflow at exp(-708).
SAFE_RANGE = 600.0
# Up to this number of states, kernels for learning unroll the loops over states; each number is compiled separately.
UNROLLED = 16


@dataclass(frozen=True)
class SlotLayout:
    """Order of the messages of a pairwise graph in memory; the kernel `order_slots` documents it."""

    variable_of_rank: Indices
    rank: Indices
    slot_ptr: Indices
    middle: Indices
    backward: Indices
    pair_of_slot: Indices
    opposite: Indices
    edge_of_slot: Indices
    factor_of_edge: Indices
    flipped: NDArray[np.bool_]
    most_receivers: int

    @cached_property
    def slot_of_pair(self) -> NDArray[np.intp]:
        """Slot of each pair of a factor and a variable."""
        return np.argsort(self.pair_of_slot)

    def by_pair(self, rows: FloatArray) -> FloatArray:
        """Return the rows of all slots in the order of the pairs, as a new flat array."""
        flat = np.empty(rows.size)
        # With mode="clip" NumPy writes into the array directly.
        np.take(rows, self.slot_of_pair, axis=0, out=flat.reshape(rows.shape), mode="clip")
        return flat

    @property
    def slots(self) -> tuple[Indices, Indices, Indices, Indices]:
        """First members of a `PairwiseModel`."""
        return self.slot_ptr, self.middle, self.backward, self.opposite


@OncePerGraph
def slot_layout(graph: FactorGraph) -> SlotLayout:
    """Return the memory layout of the messages of a pairwise graph, computed once per graph."""
    n, n_pairs = graph.n_variables, graph.scope_idx.size
    index: Any = np.int32 if n_pairs < 2**31 else np.int64  # int32 halves the memory
    by_variable = [np.empty(size, index) for size in (n, n, n + 1, n, n)]
    by_slot = [np.empty(n_pairs, index) for _ in range(3)]
    by_edge = np.empty(n_pairs // 2, index), np.empty(n_pairs // 2, np.bool_)
    scratch = np.empty(n + 1, index), np.empty(n_pairs, index)
    order_slots(graph.scope_idx, *by_variable, *by_slot, *by_edge, *scratch)  # type: ignore[call-arg]
    slot_ptr, middle = by_variable[2], by_variable[3]
    most_receivers = int(max((slot_ptr[1:] - middle).max(initial=0), (middle - slot_ptr[:-1]).max(initial=0)))
    return SlotLayout(*by_variable, *by_slot, *by_edge, most_receivers)  # type: ignore[call-arg, arg-type]


class PairwiseMessages:
    """Sum-product messages in the linear domain, in the order of `SlotLayout`."""

    def __init__(self, graph: FactorGraph, theta: FloatArray, rho: float, start: FloatArray | None = None) -> None:
        self.graph = graph
        self.theta = read_only(theta)
        self.rho = rho
        self.k = k = int(graph.n_states[0])
        self.kind = int(graph.table_kind[0]) or None
        self.layout = layout = slot_layout(graph)
        split = int(graph.variable_ptr[-1])
        unary = np.take(theta[:split].reshape(-1, k), layout.variable_of_rank, axis=0)
        self.unary_top = _spans(unary)[0]
        unary = np.exp(unary - self.unary_top[:, None])
        tables, table_of_slot = tables_by_slot(graph, layout, theta[split:])
        self.table_top = _spans(tables)[0]
        tables -= self.table_top[:, None]
        if rho != 1.0:
            tables /= rho
        np.exp(tables, out=tables)
        root = {1.0: -1, 0.5: 1, 0.25: 2}.get(rho, 0)
        self.model = PairwiseModel(*layout.slots, table_of_slot, tables, unary, rho, root)
        self.reach = reach_of_tables(graph, k)
        n_messages = graph.scope_idx.size
        if start is None:
            self.messages = np.full((n_messages, k), 1.0 / k)
        else:
            self.messages = np.exp(start.reshape(n_messages, k)[layout.pair_of_slot])
        self._other_messages: FloatArray | None = None
        self._logs: FloatArray | None = None
        self._work = np.empty((5, k))
        self._after = np.empty((layout.most_receivers, k))

    def sweep(self, schedule: str, damping: float) -> float:
        """Update every message once; return the residual, NaN if the model is infeasible."""
        self._logs = None
        old = new = self.messages
        if schedule == "parallel":
            if self._other_messages is None:
                self._other_messages = np.empty_like(self.messages)
            new = self._other_messages
        residual = 0.0
        for forward in (True, False):
            arguments = self.model, damping, old, new, self._after
            if self.k > 2 or self.kind is not None:
                change = sweep_equal(forward, self.kind, self.reach, *arguments, self._work, self._work[0])
            elif self.rho == 1.0:
                change = sweep_binary(forward, *arguments)
            else:
                change = sweep_binary_reweighted(forward, *arguments)
            if change < 0:
                return np.nan
            residual = max(residual, change)
        if new is not old:
            self.messages, self._other_messages = new, old
        return residual

    def sweep_onto(self, stack: FloatArray, damping: float) -> bool:
        """Make `len(stack) - 1` forward-backward sweeps with full tables; return whether the model is feasible.

        The rows of `stack` receive the messages before each sweep and after the last sweep.
        """
        self._logs = None
        sweep_kernel = stack_sweeps_binary if self.k == 2 else stack_sweeps_equal
        possible = sweep_kernel(
            len(stack) - 1, self.model, damping, self.messages, self._after, self._work, self.states, stack
        )
        return bool(possible)

    @property
    def states(self) -> Any:
        """Argument whose length is the number of states: a tuple (a constant for Numba) up to `UNROLLED` states."""
        return (0,) * self.k if 2 < self.k <= UNROLLED else self._work[0]

    def log_messages(self) -> FloatArray:
        """Return the logarithms of the messages, ordered by pair as in `GeneralMessages`."""
        return self.layout.by_pair(self._logarithms())

    def finish(self) -> FloatArray:
        """Return `log_messages` at the end of a run; work arrays are freed first to lower the memory peak."""
        logs = self._logarithms()
        del self.messages, self.model, self._logs, self._other_messages
        return self.layout.by_pair(logs)

    def _logarithms(self) -> FloatArray:
        """Return the logarithms of the messages, ordered by slot; cached until the next sweep."""
        if self._logs is None:
            with np.errstate(divide="ignore"):
                self._logs = np.log(self.messages)
        return self._logs

    def beliefs(self) -> Beliefs | None:
        """Return marginals, objective and bounds; None if the model is infeasible."""
        if self.kind is not None:
            return self.general().beliefs()
        graph, layout = self.graph, self.layout
        mu, by_rank, totals = graph.zeros(), np.empty_like(self.model.unary), np.empty(graph.n_variables)
        possible = variable_marginals(
            self.model, layout.variable_of_rank, self.messages, graph.variable_ptr, mu, by_rank, totals
        )
        if not possible:
            return None
        log_norm = np.log(totals)
        log_norm += self.unary_top
        checks = np.array([0.0, log_norm.sum(), log_norm.sum(), np.abs(log_norm).sum()])
        split = int(graph.variable_ptr[-1])
        objective = _expected_score_and_entropy(mu[:split], self.theta[:split])
        edge_kernel = binary_edge_marginals if self.k == 2 else edge_marginals
        edges = EdgeLayout(
            layout.rank, layout.pair_of_slot, layout.edge_of_slot, layout.factor_of_edge, layout.flipped,
            graph.scope_idx, graph.table_of_factor, graph.table_ptr, self.table_top,
        )  # fmt: skip
        logs, joint = self._logarithms(), np.empty(self.k**2)
        objective += edge_kernel(self.model, edges, self.messages, logs, mu, by_rank, self._work, joint, checks)
        return None if np.isnan(objective) else Beliefs.of(mu, objective, checks)

    def variable_marginals(self) -> FloatArray | None:
        """Return the marginals of variables, with 0 for the factors; much cheaper than `beliefs`."""
        graph = self.graph
        mu = graph.zeros()
        possible = variable_marginals_alone(
            self.model, self.layout.variable_of_rank, self.messages, graph.variable_ptr, mu
        )
        return mu if possible else None

    def general(self) -> GeneralMessages:
        """Return the messages in the log domain, as `GeneralMessages`."""
        rho = np.full(self.graph.n_factors, self.rho)
        return GeneralMessages(self.graph, self.theta, rho, False, self.log_messages())


def _expected_score_and_entropy(marginals: FloatArray, scores: FloatArray) -> float:
    """Return the sum of `mu (theta - log mu)` over the states whose marginal is not 0."""
    if marginals.min() <= 0.0:
        possible = marginals > 0.0
        marginals, scores = marginals[possible], scores[possible]
    terms = np.log(marginals)
    np.subtract(scores, terms, out=terms)
    terms *= marginals
    return float(terms.sum())


def tables_by_slot(graph: FactorGraph, layout: SlotLayout, scores: FloatArray) -> tuple[FloatArray, Indices]:
    """Return a copy of the tables with the earlier variable as first axis, and the table index of each slot.

    Tables of single factors are stored in the order in which a sweep reads them; shared tables are stored twice, as
    they are and transposed. A parametric factor is stored as its scores by distance between states.
    """
    k = int(graph.n_states[0])
    table_of_edge = graph.table_of_factor[layout.factor_of_edge]
    if graph.table_kind[0] != FactorKind.TABLE:
        kind, truncation = int(graph.table_kind[0]), graph.table_truncation
        truncations, row = np.unique(truncation, return_inverse=True)
        by_distance = np.stack([parametric_statistic(kind, float(t), k)[0] for t in truncations])[row.reshape(-1)]
        slot_tables = np.zeros(by_distance.shape)
        np.multiply(scores[:, None], by_distance, where=by_distance != 0, out=slot_tables)  # a weight may be -inf
        return slot_tables, table_of_edge.astype(layout.edge_of_slot.dtype)[layout.edge_of_slot]
    tables = scores.reshape(-1, k, k)
    if graph.shares_tables:
        with_transposed = np.stack([tables, tables.transpose(0, 2, 1)], axis=1).reshape(-1, k * k)
        return with_transposed, (2 * table_of_edge + layout.flipped).astype(layout.edge_of_slot.dtype)[
            layout.edge_of_slot
        ]
    slot_tables = np.take(tables, table_of_edge, axis=0)
    if layout.flipped.any():
        slot_tables[layout.flipped] = slot_tables[layout.flipped].transpose(0, 2, 1)
    return slot_tables.reshape(-1, k * k), layout.edge_of_slot


def reach_of_tables(graph: FactorGraph, k: int) -> IntArray:
    """Return for each table the distance between states beyond which the truncated score is constant."""
    truncation = graph.table_truncation
    if graph.table_kind[0] == FactorKind.TRUNCATED_QUADRATIC:
        truncation = np.sqrt(truncation)
    return np.clip(np.ceil(np.minimum(truncation, k)) - 1, 0, k - 1).astype(np.int64)


def is_uniform_pairwise(graph: FactorGraph, rho: FloatArray) -> bool:
    """Return whether all factors are pairwise with equal kind and rho, and all variables have equally many states."""
    if graph.n_factors == 0:
        return False
    kinds = graph.table_kind
    return bool(
        (np.diff(graph.scope_ptr) == 2).all()
        and (graph.n_states == graph.n_states[0]).all()
        and (kinds == kinds[0]).all()
        and (rho == rho[0]).all()
    )


def fits_pairwise(graph: FactorGraph, theta: FloatArray, rho: FloatArray) -> bool:
    """Return whether `PairwiseMessages` applies: a uniform pairwise graph, no -inf in tables, no underflow."""
    if not is_uniform_pairwise(graph, rho):
        return False
    k, split = int(graph.n_states[0]), int(graph.variable_ptr[-1])
    if not np.isfinite(theta[split:].sum()):
        return False
    if graph.table_kind[0] == FactorKind.TABLE:
        # The range of all scores bounds the spans of rows, which need not be computed if this bound is small enough.
        range_of_tables = float(np.ptp(theta[split:])) / float(rho[0]) + np.log(k)
        if (_largest_degree(graph) + 2) * range_of_tables + float(np.ptp(theta[:split])) < SAFE_RANGE:
            return True
    if graph.table_kind[0] == FactorKind.TABLE:
        span = _spans(theta[split:].reshape(-1, k * k))[1]
    else:
        span = _spans(tables_by_slot(graph, slot_layout(graph), theta[split:])[0])[1]
    unary_span = _spans(theta[:split].reshape(-1, k))[1]
    # A normalised message is at least exp(-span / rho) / k; a cavity is the product of the messages to its variable.
    message_span = span / rho[0] + np.log(k)
    largest_span = float(message_span.max())
    if largest_span * 2 > SAFE_RANGE:
        return False
    degree = np.bincount(graph.scope_idx, minlength=graph.n_variables)
    if float((degree * largest_span + unary_span).max()) + largest_span < SAFE_RANGE:
        return True
    span_of_variable = np.bincount(
        graph.scope_idx, np.repeat(message_span[graph.table_of_factor], 2), minlength=graph.n_variables
    )
    return float((span_of_variable + unary_span).max()) + largest_span < SAFE_RANGE


@OncePerGraph
def _largest_degree(graph: FactorGraph) -> int:
    """Return the largest number of factors that join one variable."""
    return int(np.bincount(graph.scope_idx, minlength=1).max())


def _spans(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the maximum of each row, and the difference between maximum and minimum."""
    maxima, span = np.empty(len(rows)), np.empty(len(rows))
    row_spans(read_only(rows), maxima, span)
    return maxima, span


class PairwiseMaxMessages:
    """Max-product messages in the log domain, by slot, for graphs that satisfy `is_uniform_pairwise`."""

    def __init__(self, graph: FactorGraph, theta: FloatArray, rho: float, start: FloatArray | None = None) -> None:
        self.graph = graph
        self.theta = read_only(theta)
        self.rho = rho
        self.kind = int(graph.table_kind[0]) or None
        self.layout = layout = slot_layout(graph)
        k, split, n_messages = int(graph.n_states[0]), int(graph.variable_ptr[-1]), graph.scope_idx.size
        unary = theta[:split].reshape(-1, k)[layout.variable_of_rank]
        tables, table_of_slot = tables_by_slot(graph, layout, theta[split:])
        if rho != 1.0:
            tables /= rho
        self.model = PairwiseModel(*layout.slots, table_of_slot, tables, unary, rho, 0)
        if start is None:
            self.messages = np.zeros((n_messages, k))
        else:
            self.messages = start.reshape(n_messages, k)[layout.pair_of_slot]
        self._other_messages: FloatArray | None = None
        self._work = np.empty((5, k))
        self._after = np.empty((layout.most_receivers, k))

    def sweep(self, schedule: str, damping: float) -> float:
        """Update every message once; return the residual, NaN if the model is infeasible."""
        old = new = self.messages
        if schedule == "parallel":
            if self._other_messages is None:
                self._other_messages = np.empty_like(self.messages)
            new = self._other_messages
        residual = 0.0
        for forward in (True, False):
            change = sweep_max(forward, self.kind, self.model, damping, old, new, self._after, self._work)
            if change < 0:
                return np.nan
            residual = max(residual, change)
        if new is not old:
            self.messages, self._other_messages = new, old
        return residual

    def distance(self) -> float:
        """Return the largest change that an undamped parallel update would make; the messages do not change."""
        change = self.sweep("parallel", 0.0)
        if self._other_messages is not None:
            self.messages, self._other_messages = self._other_messages, self.messages
        return change

    def log_messages(self) -> FloatArray:
        """Return the messages, ordered by pair as in `GeneralMessages`."""
        return self.layout.by_pair(self.messages)

    def general(self) -> GeneralMessages:
        """Return the messages as `GeneralMessages`, which decode labellings."""
        rho = np.full(self.graph.n_factors, self.rho)
        return GeneralMessages(self.graph, self.theta, rho, True, self.log_messages())
