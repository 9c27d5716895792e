"""Message passing on any factor graph, in the log domain; see `_kernels/messages.py`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intarsia._kernels.beliefs import decode_in_order, factor_beliefs, traversal_order, variable_beliefs
from intarsia._kernels.messages import gather_beliefs, sweep_messages, sweep_residual
from intarsia._validation import FloatArray, IntArray
from intarsia.graph import FactorGraph


@dataclass
class Beliefs:
    """What the messages say.

    Attributes
    ----------
    mu : float array
        Marginals in the layout of theta.
    objective : float
        `<theta, mu> + H~(mu)`.
    inconsistency : float
        Largest difference between a variable's marginal and that of a factor at it; 0 at a fixed point.
    upper_bound : float
        Bound on log Z for these messages, converged or not, if rho is valid.
    """

    mu: FloatArray
    objective: float
    inconsistency: float
    upper_bound: float


class GeneralMessages:
    """State of message passing on one graph: messages (`start` is taken over, not copied), beliefs, work space."""

    def __init__(
        self,
        graph: FactorGraph,
        theta: FloatArray,
        rho: FloatArray,
        maximise: bool,
        start: FloatArray | None = None,
    ) -> None:
        self.graph = graph
        self.theta = theta
        self.rho = rho
        self.maximise = maximise
        sizes = graph.n_states[graph.scope_idx]
        self.message_ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        if start is not None:
            self.messages = start
        else:
            self.messages = np.zeros(int(self.message_ptr[-1])) if maximise else np.repeat(-np.log(sizes), sizes)
        split = int(graph.variable_ptr[-1])
        self.finite = np.empty(split)
        self.n_impossible = np.empty(split, np.int64)
        k_max = int(graph.n_states.max(initial=1))
        self.work = np.empty((2 * max(graph.max_scope, 2) + 4, k_max))
        self.exp_tables, self.exp_ptr, self.exp_top = _exponentials(graph, theta, rho, maximise)
        self._queue: tuple[FloatArray, FloatArray, IntArray, IntArray] | None = None

    def sweep(self, schedule: str, damping: float, strict: bool = False) -> float:
        """Update every message once; returns the residual, NaN when the model is infeasible.

        `strict` measures the change of logarithms, so that states of tiny probability count too.
        """
        if schedule == "residual":
            return self._sweep_residual(damping)
        if schedule == "parallel":
            order = np.arange(self.graph.scope_idx.size)
        else:
            order = sweep_order(self.graph)
        return sweep_messages(order, schedule != "parallel", strict, damping, self.rho, *self._arguments)

    def _sweep_residual(self, damping: float) -> float:
        graph = self.graph
        n_pairs = graph.scope_idx.size
        fresh = self._queue is None
        if self._queue is None:
            self._queue = (
                np.empty(self.messages.size),
                np.zeros(n_pairs),
                np.empty(n_pairs, np.int64),
                np.empty(n_pairs, np.int64),
            )
        pair_ptr, pair_idx = graph.pairs_by_variable
        return sweep_residual(
            pair_ptr, pair_idx, n_pairs, 0.0, *self._queue, fresh, damping, self.rho, *self._arguments
        )  # fmt: skip

    @property
    def _arguments(self) -> tuple[object, ...]:
        graph = self.graph
        return (
            graph.factor_of_pair, self.theta, self.exp_tables, self.exp_ptr, 1.0 / self.rho, graph.table_of_factor,
            graph.table_ptr, graph.table_kind, graph.table_truncation, graph.variable_ptr, graph.scope_ptr,
            graph.scope_idx, self.message_ptr, self.messages, self.finite, self.n_impossible, self.maximise, self.work,
        )  # fmt: skip

    def _gather(self) -> None:
        graph = self.graph
        gather_beliefs(
            self.theta, self.messages, self.rho, graph.variable_ptr, graph.scope_idx, graph.factor_of_pair,
            self.message_ptr, self.finite, self.n_impossible,
        )  # fmt: skip

    def beliefs(self) -> Beliefs | None:
        """Marginals and the value of the objective; None when the model is infeasible."""
        graph = self.graph
        self._gather()
        mu = graph.zeros()
        log_mu, log_norm = np.empty(int(graph.variable_ptr[-1])), np.empty(graph.n_variables)
        if not variable_beliefs(self.finite, self.n_impossible, graph.variable_ptr, mu, log_mu, log_norm):
            return None
        widest = max(int(np.diff(graph.table_ptr).max(initial=1)), int(graph.n_states.max()) ** 2)
        checks = np.zeros(2)
        objective = factor_beliefs(
            self.theta, self.exp_tables, self.exp_ptr, self.exp_top, self.rho, graph.table_of_factor, graph.table_ptr,
            graph.table_kind, graph.table_truncation, graph.variable_ptr, graph.scope_ptr, graph.scope_idx,
            self.message_ptr, self.messages, self.finite, self.n_impossible, log_mu, log_norm, mu, self.work,
            np.empty(widest), checks,
        )  # fmt: skip
        return None if np.isnan(objective) else Beliefs(mu, float(objective), float(checks[0]), float(checks[1]))

    def log_messages(self) -> FloatArray:
        """The messages."""
        return self.messages

    def general(self) -> GeneralMessages:
        """Give this one itself; the fast path has another form."""
        return self

    def decode(self, rule: str) -> IntArray:
        """Labelling from max-marginals: each variable given those before it, or each by its own belief."""
        graph = self.graph
        self._gather()
        if rule == "beliefs":
            beliefs = np.where(self.n_impossible > 0, -np.inf, self.finite)
            blocks = np.split(beliefs, graph.variable_ptr[1:-1])
            return np.array([int(block.argmax()) for block in blocks], dtype=np.int64)
        pair_ptr, pair_idx = graph.pairs_by_variable
        order = traversal_order(pair_ptr, pair_idx, graph.factor_of_pair, graph.scope_ptr, graph.scope_idx)
        return decode_in_order(
            order, self.theta, self.rho, pair_ptr, pair_idx, graph.factor_of_pair, graph.table_of_factor,
            graph.table_ptr, graph.table_kind, graph.table_truncation, graph.variable_ptr, graph.scope_ptr,
            graph.scope_idx, self.message_ptr, self.messages, self.finite, self.n_impossible, self.work,
        )  # fmt: skip


def sweep_order(graph: FactorGraph) -> IntArray:
    """Pairs of one forward-backward sweep, each once.

    Going up, messages to every variable of a factor but its first, by target; going down, those to the first. For
    pairwise factors that is: forward to later variables, backward to earlier ones.
    """
    known: IntArray | None = graph.__dict__.get("_sweep_order")
    if known is None:
        targets = graph.scope_idx
        first = np.full(graph.n_factors, graph.n_variables)
        np.minimum.at(first, graph.factor_of_pair, targets)
        is_first = targets == first[graph.factor_of_pair]
        _, by_variable = graph.pairs_by_variable
        up = by_variable[~is_first[by_variable]]
        down = by_variable[is_first[by_variable]][::-1]
        known = graph.__dict__["_sweep_order"] = np.concatenate([up, down])
    return known


def _exponentials(
    graph: FactorGraph, theta: FloatArray, rho: FloatArray, maximise: bool
) -> tuple[FloatArray, IntArray, FloatArray]:
    """exp((theta - max) / rho) of every full table, where each factor's lies, and its max / rho.

    Factors that share a table share its exponential too if they have the same rho.
    """
    n_factors = graph.n_factors
    top = np.zeros(n_factors)
    if maximise or n_factors == 0:
        return np.empty(0), np.zeros(n_factors, np.int64), top
    if graph.shares_tables:
        keys = np.stack([graph.table_of_factor.astype(float), rho], axis=1)
        _, representative, block_of_factor = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        block_of_factor = block_of_factor.reshape(-1)
    else:
        representative = block_of_factor = np.arange(n_factors)
    tables = graph.table_of_factor[representative]
    full = graph.table_kind[tables] == 0
    sizes = np.where(full, np.diff(graph.table_ptr)[tables], 0)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    if graph.shares_tables or not full.all():
        blocks = [theta[graph.table_ptr[t] : graph.table_ptr[t] + n] for t, n in zip(tables, sizes, strict=True)]
        values = np.concatenate(blocks) if blocks else np.empty(0)
    else:
        values = theta[graph.table_ptr[0] :].copy()
    block_top = np.zeros(tables.size)
    if full.any():
        block_top[full] = np.maximum.reduceat(values, starts[:-1][full])
        block_top[np.isneginf(block_top)] = 0.0
        inverse = 1.0 / rho[representative]
        values -= np.repeat(block_top, sizes)
        if (rho != 1.0).any():
            values *= np.repeat(inverse, sizes)
        np.exp(values, out=values)
        block_top *= inverse
    return values, starts[block_of_factor], block_top[block_of_factor]
