"""Exact answers along an elimination order: the engine that `tree` and `junction_tree` share."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from intarsia._kernels.elimination import (
    Plan,
    complete_best,
    pass_buckets,
    sample_buckets,
)
from intarsia._kernels.elimination_plan import build_buckets, contract_tables, fill_tables, measure_buckets
from intarsia._kernels.statistics import score_labellings
from intarsia._validation import FloatArray, IntArray
from intarsia.exceptions import TooLargeError
from intarsia.graph import FactorGraph, FactorKind
from intarsia.inference.method import Answer, Clock, Problem
from intarsia.inference.result import Status

# Entries worked on between two looks at the clock: a fraction of a second.
_CHUNK = 2.0e7


class BucketTree:
    """What follows from graph and order alone; scores come in with `answer`.

    Parameters
    ----------
    graph : FactorGraph
        In normal form.
    order : int array
        All variables, first eliminated first.

    Attributes
    ----------
    n_cells : float
        Sum of the sizes of all messages.
    n_bytes : float
        Memory that `answer` will take, tables included.
    log2_width : float
        log2 of the largest number of joint states of a bucket.
    """

    def __init__(self, graph: FactorGraph, order: IntArray) -> None:
        self.order = order
        sep_ptr, sep_idx, factor_ptr, factor_idx, child_ptr, child_idx, cells = build_buckets(
            graph.n_states, graph.scope_ptr, graph.scope_idx, order
        )
        limits = measure_buckets(order, graph.n_states, sep_ptr, factor_ptr, child_ptr, child_idx, cells)
        parametric = graph.table_kind != FactorKind.TABLE
        self.is_full = not parametric.any()
        self.side = np.zeros(graph.n_tables, np.int64)
        sizes = np.diff(graph.table_ptr)
        if not self.is_full:
            first = graph.first_factor_of_table[parametric]
            self.side[parametric] = graph.n_states[graph.scope_idx[graph.scope_ptr[first]]]
            sizes = np.where(parametric, self.side**2, sizes)
        self.table_start = graph.variable_ptr[-1] + np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.n_cells = float(cells.sum())
        self.n_bytes = 8.0 * (self.n_cells + float(limits[4]) + 3.0 * float(self.table_start[-1]))
        self.entries = cells * graph.n_states[order]
        self.log2_width = float(np.log2(self.entries.max(initial=1.0)))
        self.n_table = int(self.table_start[-1])
        message_ptr = np.full(order.size + 1, 2 * self.n_table)
        if self.n_cells < 2.0**60:  # otherwise it will be refused
            message_ptr[1:] += np.cumsum(cells.astype(np.int64))
        self.plan = Plan(
            order, graph.n_states, graph.variable_ptr, graph.scope_ptr, graph.scope_idx,
            self.table_start[graph.table_of_factor], graph.n_variables + graph.table_of_factor,
            sep_ptr, sep_idx, factor_ptr, factor_idx, child_ptr, child_idx, message_ptr, limits,
        )  # fmt: skip

    def answer(self, problem: Problem, name: str) -> Answer:
        """Everything the problem asks for; `name` is the method's, for messages."""
        run = _Run(self, problem, name)
        if problem.task == "map" or problem.n_best:
            top = run.collect(maximise=True)
            if top == -np.inf:
                return Answer(Status.INFEASIBLE)
            best = run.best_labellings(max(problem.n_best, 1))
        answer = Answer(Status.EXACT)
        if problem.n_best:
            answer.best = best
        if problem.task == "map":
            answer.assignment = best[0]
            answer.lower_bound = answer.upper_bound = top
            return answer
        log_partition = run.collect(maximise=False)
        if log_partition == -np.inf:
            return Answer(Status.INFEASIBLE)
        answer.log_partition = answer.lower_bound = answer.upper_bound = log_partition
        answer.log_partition_is = "exact"
        if problem.n_samples:
            answer.samples = run.samples(problem.n_samples)
        answer.mu = run.marginals()
        return answer


class _Run:
    """One problem on a bucket tree: tables with their maxima taken out, and the messages."""

    def __init__(self, tree: BucketTree, problem: Problem, name: str) -> None:
        self.tree, self.problem, self.name = tree, problem, name
        graph = problem.graph
        top = np.empty(graph.n_variables + graph.n_tables)
        self.span = np.empty(top.size)
        # Logarithms of all tables, the tables (once a sum needs them), the messages: one array for the kernels.
        self.values = np.empty(int(tree.plan.message_ptr[-1]))
        fill_tables(
            problem.theta, graph.n_states, graph.variable_ptr, graph.table_ptr, graph.table_kind,
            graph.table_truncation, tree.table_start, tree.side, self.values, top, self.span,
        )  # fmt: skip
        self.constant = float(top[: graph.n_variables].sum() + top[tree.plan.block_of_factor].sum())
        self.message_span = np.zeros(graph.n_variables)
        self.message_in_log = np.zeros(graph.n_variables, np.bool_)
        self.bucket_in_log = np.zeros(graph.n_variables, np.bool_)

    def collect(self, *, maximise: bool) -> float:
        """Upward pass; the best score or log Z, -inf if nothing is possible."""
        if self.constant == -np.inf:
            return -np.inf
        n_table = self.tree.n_table
        if not maximise:
            np.exp(self.values[:n_table], out=self.values[n_table : 2 * n_table])
        taken_out = np.zeros(self.problem.graph.n_variables)
        if not self._pass(maximise=maximise, taken_out=taken_out, beliefs=np.empty(0)):
            return -np.inf
        return self.constant + float(taken_out.sum())

    def marginals(self) -> FloatArray:
        """Downward pass after a sum; overwrites the messages."""
        graph, tree = self.problem.graph, self.tree
        beliefs = np.zeros(tree.n_table + int(tree.plan.limits[4]))
        self._pass(maximise=False, taken_out=np.empty(0), beliefs=beliefs)
        if tree.is_full:
            beliefs.resize(tree.n_table, refcheck=False)  # gives the room back without a copy
            return beliefs
        mu = np.empty(graph.n_theta)
        contract_tables(
            beliefs, int(graph.variable_ptr[-1]), graph.table_ptr, graph.table_kind, graph.table_truncation,
            tree.table_start, tree.side, mu,
        )  # fmt: skip
        return mu

    def _pass(self, *, maximise: bool, taken_out: FloatArray, beliefs: FloatArray) -> bool:
        """One pass in chunks: downward if there is room for beliefs."""
        entries, spreading = self.tree.entries, beliefs.size > 0
        for start, stop in _chunks(entries[::-1] if spreading else entries, self.problem.clock, self.name):
            if spreading:
                start, stop = entries.size - stop, entries.size - start
            if not pass_buckets(
                self.tree.plan, start, stop, spreading, maximise, self.values, self.tree.n_table, self.span,
                self.message_span, self.message_in_log, self.bucket_in_log, taken_out, beliefs,
            ):  # fmt: skip
                return False
        return True

    def samples(self, count: int) -> IntArray:
        """Independent draws after a sum."""
        labels = np.empty((count, self.problem.graph.n_variables), np.int64)
        sample_buckets(self.tree.plan, self.values, self.tree.n_table, self.bucket_in_log, self.problem.rng, labels)
        return labels

    def best_labellings(self, count: int) -> IntArray:
        """Up to `count` labellings of highest score, in falling order, after a maximum.

        Best-first search with exact values: completing a prefix greedily gives the best labelling that begins with it,
        and each other choice on the way is the first step of a set of labellings whose best value is
        known at once. These sets are disjoint, so no labelling comes twice.
        """
        graph, tree = self.problem.graph, self.tree
        n = graph.n_variables
        gaps = np.empty(int(graph.variable_ptr[-1]))
        found = np.empty((1, n), np.int64)
        complete_best(tree.plan, n, self.values, found[0], gaps)
        if count == 1:
            return found
        rows = [found[0]]
        position = np.empty(n, np.int64)
        position[tree.order] = np.arange(n)
        variable_of = np.repeat(np.arange(n), graph.n_states)
        bucket_of = position[variable_of]
        value, stop = 0.0, n
        # Open choices: value lost, labelling it departs from, entry of the variables' block taken instead.
        lost, origin, entry = np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64)
        while len(rows) < count:
            self._check_time()
            new = np.flatnonzero((bucket_of < stop) & (gaps > -np.inf))
            lost = np.concatenate([lost, value + gaps[new]])
            origin = np.concatenate([origin, np.full(new.size, len(rows) - 1)])
            entry = np.concatenate([entry, new])
            if lost.size == 0:
                break
            room = count - len(rows)
            if lost.size > room:
                keep = np.argpartition(-lost, room - 1)[:room]
                lost, origin, entry = lost[keep], origin[keep], entry[keep]
            at = int(np.argmax(lost))
            y = rows[origin[at]].copy()
            v = int(variable_of[entry[at]])
            y[v] = entry[at] - graph.variable_ptr[v]
            value, stop = float(lost[at]), int(position[v])
            lost[at], origin[at], entry[at] = lost[-1], origin[-1], entry[-1]
            lost, origin, entry = lost[:-1], origin[:-1], entry[:-1]
            complete_best(tree.plan, stop, self.values, y, gaps)
            rows.append(y)
        labels = np.stack(rows)
        scores = score_labellings(labels, self.problem.theta, *graph.statistics_arguments)
        ordered: IntArray = labels[np.argsort(-scores, kind="stable")]
        return ordered

    def _check_time(self) -> None:
        _check_clock(self.problem.clock, self.name)


def _chunks(entries: FloatArray, clock: Clock, name: str) -> Iterator[tuple[int, int]]:
    """Split buckets into ranges of about `_CHUNK` entries, looking at the clock before each."""
    number = (np.cumsum(entries) / _CHUNK).astype(np.int64)
    starts = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), entries.size]
    for start, stop in itertools.pairwise(starts):
        _check_clock(clock, name)
        yield start, stop


def _check_clock(clock: Clock, name: str) -> None:
    if clock.expired:
        raise TooLargeError(
            f"{name}: not finished at time_limit={clock.limit:g} s, and an exact method has nothing to show before its "
            f"end. Raise time_limit, or use 'tree_reweighted', 'belief_propagation' or 'mean_field'."
        )
