"""The fast path of max-product: pairwise graphs with equal state counts; see `_kernels/pairwise_max.py`."""

from __future__ import annotations

import numpy as np

from intarsia._kernels.pairwise_max import sweep_max
from intarsia._validation import FloatArray, read_only
from intarsia.graph import FactorGraph
from intarsia.inference.general_messages import GeneralMessages
from intarsia.inference.pairwise_messages import SlotLayout, lay_tables


class PairwiseMaxMessages:
    """Max-product messages in the log domain, by slot; any graph for which `is_uniform_pairwise` holds."""

    def __init__(self, graph: FactorGraph, theta: FloatArray, rho: float, start: FloatArray | None = None) -> None:
        self.graph = graph
        self.theta = read_only(theta)
        self.rho = rho
        self.kind = int(graph.table_kind[0]) or None
        self.layout = layout = SlotLayout.of(graph)
        k, split, n_messages = int(graph.n_states[0]), int(graph.variable_ptr[-1]), graph.scope_idx.size
        self.unary = theta[:split].reshape(-1, k)[layout.variable_of_rank]
        self.tables, self.table_of_slot = lay_tables(graph, layout, theta[split:])
        if rho != 1.0:
            self.tables /= rho
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
        layout = self.layout
        residual = 0.0
        for forward in (True, False):
            change = sweep_max(
                forward, self.kind, layout.slot_ptr, layout.middle, layout.backward, layout.opposite,
                self.table_of_slot, self.tables, self.unary, self.rho, damping, old, new, self._after, *self._work,
            )  # fmt: skip
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
