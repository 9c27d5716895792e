"""Message passing on arbitrary factor graphs in the log domain; see `_kernels/messages.py`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intarsia._core.validation import FloatArray, IntArray, read_only
from intarsia._kernels.beliefs import decode_in_order, factor_beliefs, traversal_order, variable_beliefs
from intarsia._kernels.message_arguments import MessageModel, MessageState, ResidualQueue
from intarsia._kernels.messages import gather_beliefs, sweep_messages, sweep_residual
from intarsia.graph import FactorGraph
from intarsia.graph.expansion import expand_tables
from intarsia.graph.once_per_graph import OncePerGraph

# Relative rounding error of a sum of logarithms, each computed by several operations.
ROUNDING = 4.0 * float(np.finfo(np.float64).eps)


@dataclass
class Beliefs:
    """Marginals, objective and bounds on log Z that follow from the current messages.

    Attributes
    ----------
    mu : float array
        Marginals in the layout of theta.
    objective : float
        `<theta, mu> + H~(mu)`.
    inconsistency : float
        Largest difference between the marginal of a variable according to itself and to a factor; 0 at a fixed point.
    upper_bound : float
        Upper bound on log Z for these messages, converged or not, if rho is a mean of forests. It includes a margin for
        rounding errors, which matter where messages diverge.
    lower_bound : float
        Lower bound on log Z for these messages, converged or not, if the graph is a forest and rho is 1.
    """

    mu: FloatArray
    objective: float
    inconsistency: float
    upper_bound: float
    lower_bound: float

    @staticmethod
    def of(mu: FloatArray, objective: float, checks: FloatArray) -> Beliefs:
        """Return the beliefs from the arrays that the kernels fill; the kernel `factor_beliefs` documents `checks`."""
        rounding = ROUNDING * float(checks[3])
        return Beliefs(mu, float(objective), float(checks[0]), float(checks[1]) + rounding, float(checks[2]) - rounding)


class GeneralMessages:
    """Messages of one graph with the work arrays of the kernels; `start` is used in place, not copied."""

    def __init__(
        self, graph: FactorGraph, theta: FloatArray, rho: FloatArray, maximise: bool, start: FloatArray | None = None
    ) -> None:
        self.expansion = expand_tables(graph)
        self.graph = graph = self.expansion.graph
        self.theta = read_only(self.expansion.lower(theta))
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
        table_start = graph.table_ptr[graph.table_of_factor]
        exponentials = _exponentials(graph, self.theta, rho, maximise)
        self.model = MessageModel(
            self.theta, table_start, *exponentials, rho, self.message_ptr, graph.variable_ptr,
            *graph.pairs_by_variable, graph.factor_of_pair, graph.scope_ptr, graph.scope_idx,
        )  # fmt: skip
        self._other_messages: FloatArray | None = None
        self._residual_queue: ResidualQueue | None = None
        scope, k = max(graph.max_scope, 2), int(graph.n_states.max(initial=1))
        self._scratch = (
            np.empty(scope, np.int64), np.empty(scope, np.int64), np.empty((scope, k)), np.empty((scope, k)),
            np.empty(k), np.empty(k),
        )  # fmt: skip

    @property
    def state(self) -> MessageState:
        """Messages, beliefs and work space as the kernels take them."""
        return MessageState(self.messages, self.finite, self.n_impossible, *self._scratch)

    def sweep(self, schedule: str, damping: float) -> float:
        """Update every message once; return the residual, NaN if the model is infeasible."""
        graph = self.graph
        if schedule == "forward_backward":
            new_messages = self.messages  # this schedule needs no second array
        elif self._other_messages is None:
            new_messages = self._other_messages = np.empty_like(self.messages)
        else:
            new_messages = self._other_messages
        arguments = damping, self.maximise, self.model, self.state, new_messages
        if schedule == "residual":
            is_first_sweep = self._residual_queue is None
            n_pairs = graph.scope_idx.size
            if self._residual_queue is None:
                heap, position, queue = (np.empty(n_pairs, np.int64) for _ in range(3))
                self._residual_queue = ResidualQueue(np.empty(n_pairs), heap, position, queue)
            return sweep_residual(is_first_sweep, self._residual_queue, *arguments)
        if schedule == "parallel":
            residual = sweep_messages(np.arange(graph.scope_idx.size), False, *arguments)
            self.messages, self._other_messages = new_messages, self.messages
            return residual
        return sweep_messages(sweep_order(graph), True, *arguments)

    def distance(self) -> float:
        """Return the largest change that an undamped parallel update would make; the messages do not change."""
        change = self.sweep("parallel", 0.0)
        if self._other_messages is not None:
            self.messages, self._other_messages = self._other_messages, self.messages
        return change

    def _gather(self) -> None:
        """Add up theta and the incoming log-messages of every variable."""
        gather_beliefs(self.model, self.state)

    def beliefs(self) -> Beliefs | None:
        """Return marginals, objective and bounds; None if the model is infeasible."""
        graph = self.graph
        self._gather()
        mu = graph.zeros()
        log_mu, log_norm = np.empty(int(graph.variable_ptr[-1])), np.empty(graph.n_variables)
        if not variable_beliefs(self.finite, self.n_impossible, graph.variable_ptr, mu, log_mu, log_norm):
            return None
        joint, checks = np.empty(int(np.diff(graph.table_ptr).max(initial=1))), np.zeros(4)
        objective = factor_beliefs(self.model, self.state, log_mu, log_norm, mu, joint, checks)
        if np.isnan(objective):
            return None
        return Beliefs.of(self.expansion.raise_mu(mu), objective, checks)

    def log_messages(self) -> FloatArray:
        """Return the log-messages, one block per pair of factor and variable."""
        return self.messages

    def finish(self) -> FloatArray:
        """Return the log-messages at the end of a run."""
        return self.messages

    def general(self) -> GeneralMessages:
        """Return self; the faster representations convert themselves."""
        return self

    def decode(self, rule: str) -> IntArray:
        """Return a labelling from max-marginals: each variable given earlier labels, or by its belief alone."""
        graph = self.graph
        self._gather()
        if rule == "beliefs":
            beliefs = np.where(self.n_impossible > 0, -np.inf, self.finite)
            blocks = np.split(beliefs, graph.variable_ptr[1:-1])
            return np.array([int(block.argmax()) for block in blocks], dtype=np.int64)
        order = np.empty(graph.n_variables, np.int64)
        variable_seen, factor_seen = np.zeros(graph.n_variables, np.bool_), np.zeros(graph.n_factors, np.bool_)
        traversal_order(self.model, order, variable_seen, factor_seen)
        labels = np.full(graph.n_variables, -1)
        decode_in_order(order, self.model, self.state, labels)
        return labels


@OncePerGraph
def sweep_order(graph: FactorGraph) -> IntArray:
    """Return the order in which a forward-backward sweep updates the pairs of factor and variable, each once.

    The forward pass updates, in order of the target variable, the messages to all variables of a factor except its
    first; the backward pass those to the first. For pairwise factors, messages go to later variables in the forward
    pass and to earlier variables in the backward pass.
    """
    targets = graph.scope_idx
    first = np.full(graph.n_factors, graph.n_variables)
    np.minimum.at(first, graph.factor_of_pair, targets)
    is_first = targets == first[graph.factor_of_pair]
    _, by_variable = graph.pairs_by_variable
    forward = by_variable[~is_first[by_variable]]
    backward = by_variable[is_first[by_variable]][::-1]
    return np.concatenate([forward, backward])


def _exponentials(
    graph: FactorGraph, theta: FloatArray, rho: FloatArray, maximise: bool
) -> tuple[FloatArray, IntArray]:
    """Return exp((theta - max) / rho) of every table, read-only, and the offset of the block of each factor.

    Factors that share a table and have equal rho also share the exponential.
    """
    if maximise or graph.n_factors == 0:
        return theta[:0], np.zeros(graph.n_factors, np.int64)
    if graph.shares_tables:
        keys = np.stack([graph.table_of_factor.astype(float), rho], axis=1)
        _, representative, block_of_factor = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        tables = graph.table_of_factor[representative]
        block_of_factor = block_of_factor.reshape(-1)
        values = np.concatenate([graph.table(theta, int(t)).reshape(-1) for t in tables])
    else:
        representative = block_of_factor = np.arange(graph.n_factors)
        tables = graph.table_of_factor
        if (tables == block_of_factor).all():
            values = theta[graph.table_ptr[0] :].copy()
        else:
            values = np.concatenate([graph.table(theta, int(t)).reshape(-1) for t in tables])
    sizes = np.diff(graph.table_ptr)[tables]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    maxima = np.maximum.reduceat(values, starts[:-1])
    maxima[np.isneginf(maxima)] = 0.0
    values -= np.repeat(maxima, sizes)
    if (rho != 1.0).any():
        values /= np.repeat(rho[representative], sizes)
    return read_only(np.exp(values, out=values)), starts[block_of_factor]
