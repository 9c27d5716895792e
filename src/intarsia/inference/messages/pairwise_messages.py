"""Fast message passing on pairwise graphs with equal state counts; see `_kernels/pairwise_messages.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, IntArray, read_only
from intarsia._kernels.arguments import EdgeLayout, Indices, PairwiseModel
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
from intarsia._kernels.pairwise_slots import order_slots, row_spans
from intarsia.graph import FactorGraph, FactorKind
from intarsia.graph.factor_kinds import parametric_statistic
from intarsia.graph.once_per_graph import OncePerGraph
from intarsia.inference.messages.general_messages import Beliefs, GeneralMessages

# Products of normalised messages stay above exp(-SAFE_RANGE), far from underflow at exp(-708).
SAFE_RANGE = 600.0
# Up to this many states learning unrolls the loops over them, at the price of compiling once for each number.
UNROLLED = 16


@dataclass(frozen=True)
class SlotLayout:
    """Where the messages of a pairwise graph lie; see the kernel. Computed once per graph."""

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

    @property
    def slots(self) -> tuple[Indices, Indices, Indices, Indices]:
        """First members of a `PairwiseModel`."""
        return self.slot_ptr, self.middle, self.backward, self.opposite


@OncePerGraph
def slot_layout(graph: FactorGraph) -> SlotLayout:
    """Lay out the messages of a pairwise graph."""
    n, n_pairs = graph.n_variables, graph.scope_idx.size
    index: Any = np.int32 if n_pairs < 2**31 else np.int64  # half the memory where it is enough
    by_variable = [np.empty(size, index) for size in (n, n, n + 1, n, n)]
    by_slot = [np.empty(n_pairs, index) for _ in range(3)]
    by_edge = np.empty(n_pairs // 2, index), np.empty(n_pairs // 2, np.bool_)
    scratch = np.empty(n + 1, index), np.empty(n_pairs, index)
    order_slots(graph.scope_idx, *by_variable, *by_slot, *by_edge, *scratch)  # type: ignore[call-arg]
    slot_ptr, middle = by_variable[2], by_variable[3]
    most = int(max((slot_ptr[1:] - middle).max(initial=0), (middle - slot_ptr[:-1]).max(initial=0)))
    return SlotLayout(*by_variable, *by_slot, *by_edge, most)  # type: ignore[call-arg, arg-type]


class PairwiseMessages:
    """Messages in the linear domain, by slot."""

    def __init__(self, graph: FactorGraph, theta: FloatArray, rho: float, start: FloatArray | None = None) -> None:
        self.graph = graph
        self.theta = read_only(theta)
        self.rho = rho
        self.k = k = int(graph.n_states[0])
        self.kind = int(graph.table_kind[0]) or None
        self.layout = layout = slot_layout(graph)
        split = int(graph.variable_ptr[-1])
        unary = theta[:split].reshape(-1, k)[layout.variable_of_rank]
        self.unary_top = _spans(unary)[0]
        unary = np.exp(unary - self.unary_top[:, None])
        tables, table_of_slot = lay_tables(graph, layout, theta[split:])
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
        self._spare: FloatArray | None = None
        self._logs: FloatArray | None = None
        self._work = np.empty((5, k))
        self._after = np.empty((layout.most_receivers, k))

    def sweep(self, schedule: str, damping: float) -> float:
        """Update every message once; returns the residual, NaN when the model is infeasible."""
        self._logs = None
        old = new = self.messages
        if schedule == "parallel":
            if self._spare is None:
                self._spare = np.empty_like(self.messages)
            new = self._spare
        residual = 0.0
        for forward in (True, False):
            where = self.model, damping, old, new, self._after
            if self.k > 2 or self.kind is not None:
                change = sweep_equal(forward, self.kind, self.reach, *where, self._work, self._work[0])
            elif self.rho == 1.0:
                change = sweep_binary(forward, *where)
            else:
                change = sweep_binary_reweighted(forward, *where)
            if change < 0:
                return np.nan
            residual = max(residual, change)
        if new is not old:
            self.messages, self._spare = new, old
        return residual

    def sweep_onto(self, stack: FloatArray, damping: float) -> bool:
        """Forward-backward sweeps of full tables, one fewer than `stack` has rows; False when infeasible.

        The stack takes the messages before each sweep and after the last.
        """
        self._logs = None
        many = stack_sweeps_binary if self.k == 2 else stack_sweeps_equal
        possible = many(len(stack) - 1, self.model, damping, self.messages, self._after, self._work, self.states, stack)
        return bool(possible)

    @property
    def states(self) -> Any:
        """What tells kernels the number of states: as a constant where there are few, see `UNROLLED`."""
        return (0,) * self.k if 2 < self.k <= UNROLLED else self._work[0]

    def log_messages(self) -> FloatArray:
        """Logarithms of the messages, by pair as in `GeneralMessages`."""
        by_pair = np.empty_like(self.messages)
        by_pair[self.layout.pair_of_slot] = self._logarithms()
        return by_pair.reshape(-1)

    def finish(self) -> FloatArray:
        """`log_messages` for the last time; what a sweep needs is given back first, since memory peaks here."""
        logs = self._logarithms()
        del self.messages, self.model, self._logs, self._spare
        by_pair = np.empty_like(logs)
        by_pair[self.layout.pair_of_slot] = logs
        return by_pair.reshape(-1)

    def _logarithms(self) -> FloatArray:
        """Logarithms of the messages, by slot; computed once for messages that stand."""
        if self._logs is None:
            with np.errstate(divide="ignore"):
                self._logs = np.log(self.messages)
        return self._logs

    def beliefs(self) -> Beliefs | None:
        """Marginals and the value of the objective; None when the model is infeasible."""
        if self.kind is not None:
            return self.general().beliefs()
        graph, layout = self.graph, self.layout
        mu, by_rank, checks = graph.zeros(), np.empty_like(self.model.unary), np.zeros(4)
        objective = variable_marginals(
            self.model, layout.variable_of_rank, self.unary_top, self.messages, self.theta, graph.variable_ptr, mu,
            by_rank, checks,
        )  # fmt: skip
        of_edges = binary_edge_marginals if self.k == 2 else edge_marginals
        if not np.isnan(objective):
            edges = EdgeLayout(
                layout.rank, layout.pair_of_slot, layout.edge_of_slot, layout.factor_of_edge, layout.flipped,
                graph.scope_idx, graph.table_of_factor, graph.table_ptr, self.table_top,
            )  # fmt: skip
            logs, joint = self._logarithms(), np.empty(self.k**2)
            objective += of_edges(self.model, edges, self.messages, logs, mu, by_rank, self._work, joint, checks)
        return None if np.isnan(objective) else Beliefs.of(mu, objective, checks)

    def variable_marginals(self) -> FloatArray | None:
        """The part of `beliefs` that belongs to variables, with 0 for the factors; a fraction of the cost."""
        graph = self.graph
        mu = graph.zeros()
        possible = variable_marginals_alone(
            self.model, self.layout.variable_of_rank, self.messages, graph.variable_ptr, mu
        )
        return mu if possible else None

    def general(self) -> GeneralMessages:
        """The same messages in the log domain."""
        rho = np.full(self.graph.n_factors, self.rho)
        return GeneralMessages(self.graph, self.theta, rho, False, self.log_messages())


def lay_tables(graph: FactorGraph, layout: SlotLayout, scores: FloatArray) -> tuple[FloatArray, Indices]:
    """Tables with the earlier variable as first axis, and which one each slot uses; a copy.

    Tables of single factors lie in the order in which a sweep reads them; of shared ones there are two, as given
    and transposed. A parametric factor has its scores by distance.
    """
    k = int(graph.n_states[0])
    table_of_edge = graph.table_of_factor[layout.factor_of_edge]
    if graph.table_kind[0] != FactorKind.TABLE:
        kind, truncation = int(graph.table_kind[0]), graph.table_truncation
        different, which = np.unique(truncation, return_inverse=True)
        by_distance = np.stack([parametric_statistic(kind, float(t), k)[0] for t in different])[which.reshape(-1)]
        laid = np.zeros(by_distance.shape)
        np.multiply(scores[:, None], by_distance, where=by_distance != 0, out=laid)  # a weight may be -inf
        return laid, table_of_edge.astype(layout.edge_of_slot.dtype)[layout.edge_of_slot]
    tables = scores.reshape(-1, k, k)
    if graph.shares_tables:
        both = np.stack([tables, tables.transpose(0, 2, 1)], axis=1).reshape(-1, k * k)
        return both, (2 * table_of_edge + layout.flipped).astype(layout.edge_of_slot.dtype)[layout.edge_of_slot]
    laid = np.take(tables, table_of_edge, axis=0)
    if layout.flipped.any():
        laid[layout.flipped] = laid[layout.flipped].transpose(0, 2, 1)
    return laid.reshape(-1, k * k), layout.edge_of_slot


def reach_of_tables(graph: FactorGraph, k: int) -> IntArray:
    """Distance up to which a truncated score still changes, for each table; beyond it the score is constant."""
    truncation = graph.table_truncation
    if graph.table_kind[0] == FactorKind.TRUNCATED_QUADRATIC:
        truncation = np.sqrt(truncation)
    return np.clip(np.ceil(np.minimum(truncation, k)) - 1, 0, k - 1).astype(np.int64)


def is_uniform_pairwise(graph: FactorGraph, rho: FloatArray) -> bool:
    """Whether all factors are pairwise, of one kind and with one rho, and all variables have equally many states."""
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
    """Whether the fast path applies: uniform, no hard zero in a table, and no product that could underflow."""
    if not is_uniform_pairwise(graph, rho):
        return False
    k, split = int(graph.n_states[0]), int(graph.variable_ptr[-1])
    if not np.isfinite(theta[split:].sum()):
        return False
    if graph.table_kind[0] == FactorKind.TABLE:
        span = _spans(theta[split:].reshape(-1, k * k))[1]
    else:
        span = _spans(lay_tables(graph, slot_layout(graph), theta[split:])[0])[1]
    unary_span = _spans(theta[:split].reshape(-1, k))[1]
    # A normalised message is at least exp(-span / rho) / k; a cavity is a product of those at its variable.
    message_span = span / rho[0] + np.log(k)
    most = float(message_span.max())
    if most * 2 > SAFE_RANGE:
        return False
    degree = np.bincount(graph.scope_idx, minlength=graph.n_variables)
    if float((degree * most + unary_span).max()) + most < SAFE_RANGE:
        return True
    at_variable = np.bincount(
        graph.scope_idx, np.repeat(message_span[graph.table_of_factor], 2), minlength=graph.n_variables
    )
    return float((at_variable + unary_span).max()) + most < SAFE_RANGE


def _spans(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    top, span = np.empty(len(rows)), np.empty(len(rows))
    row_spans(read_only(rows), top, span)
    return top, span


class PairwiseMaxMessages:
    """Max-product messages in the log domain, by slot; any graph for which `is_uniform_pairwise` holds."""

    def __init__(self, graph: FactorGraph, theta: FloatArray, rho: float, start: FloatArray | None = None) -> None:
        self.graph = graph
        self.theta = read_only(theta)
        self.rho = rho
        self.kind = int(graph.table_kind[0]) or None
        self.layout = layout = slot_layout(graph)
        k, split, n_messages = int(graph.n_states[0]), int(graph.variable_ptr[-1]), graph.scope_idx.size
        unary = theta[:split].reshape(-1, k)[layout.variable_of_rank]
        tables, table_of_slot = lay_tables(graph, layout, theta[split:])
        if rho != 1.0:
            tables /= rho
        self.model = PairwiseModel(*layout.slots, table_of_slot, tables, unary, rho, 0)
        if start is None:
            self.messages = np.zeros((n_messages, k))
        else:
            self.messages = start.reshape(n_messages, k)[layout.pair_of_slot]
        self._spare: FloatArray | None = None
        self._work = np.empty((5, k))
        self._after = np.empty((layout.most_receivers, k))

    def sweep(self, schedule: str, damping: float) -> float:
        """Update every message once; returns the residual, NaN when the model is infeasible."""
        old = new = self.messages
        if schedule == "parallel":
            if self._spare is None:
                self._spare = np.empty_like(self.messages)
            new = self._spare
        residual = 0.0
        for forward in (True, False):
            change = sweep_max(forward, self.kind, self.model, damping, old, new, self._after, self._work)
            if change < 0:
                return np.nan
            residual = max(residual, change)
        if new is not old:
            self.messages, self._spare = new, old
        return residual

    def distance(self) -> float:
        """Largest change that an undamped update of all messages at once would make; they stay as they are."""
        change = self.sweep("parallel", 0.0)
        if self._spare is not None:
            self.messages, self._spare = self._spare, self.messages
        return change

    def log_messages(self) -> FloatArray:
        """The messages, by pair as in `GeneralMessages`."""
        by_pair = np.empty_like(self.messages)
        by_pair[self.layout.pair_of_slot] = self.messages
        return by_pair.reshape(-1)

    def general(self) -> GeneralMessages:
        """The same messages in the form that a labelling is read from."""
        rho = np.full(self.graph.n_factors, self.rho)
        return GeneralMessages(self.graph, self.theta, rho, True, self.log_messages())
