"""Exact inference by variable elimination in a fixed order, used by `tree` and `junction_tree`."""

from __future__ import annotations

import itertools
from functools import cached_property

import numpy as np

from intarsia._core.clock import Clock
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, IntArray
from intarsia._kernels.elimination import maximise_buckets, sum_buckets, sum_buckets_in_log
from intarsia._kernels.elimination_labels import complete_best, sample_buckets
from intarsia._kernels.elimination_plan import find_separators, lay_out
from intarsia._kernels.graph_arguments import (
    BucketLayout,
    BucketProgram,
    BucketScratch,
    BucketTables,
    EliminationScopes,
    Separators,
)
from intarsia._kernels.symbolic import run_loops
from intarsia.exceptions import TimeLimitError
from intarsia.graph import FactorGraph, FactorKind
from intarsia.graph.factor_kinds import pair_statistic
from intarsia.inference.method import Answer, Problem


class FullTables:
    """Layout of the scores of variables followed by all tables in full, also those of parametric factors.

    Parameters
    ----------
    graph : FactorGraph
        Graph in normal form.

    Attributes
    ----------
    size : int
        Number of entries.
    n_blocks : int
        Number of variables and tables.
    start : int array
        Offset of each table.
    block_of_factor : int array
        Index of the block with the table of each factor.
    """

    def __init__(self, graph: FactorGraph) -> None:
        self._graph = graph
        self.n_blocks = graph.n_variables + graph.n_tables
        self.block_of_factor: IntArray = graph.n_variables + graph.table_of_factor
        self._parametric = graph.table_kind != FactorKind.TABLE
        sizes = np.diff(graph.table_ptr)
        sides = np.zeros(0, np.int64)
        if self._parametric.any():
            first = graph.first_factor_of_table[self._parametric]
            sides = graph.n_states[graph.scope_idx[graph.scope_ptr[first]]]
            sizes[self._parametric] = sides**2
        self._bounds: IntArray = np.concatenate([graph.variable_ptr, graph.variable_ptr[-1] + np.cumsum(sizes)])
        self.start = self._bounds[graph.n_variables : -1]
        self.size = int(self._bounds[-1])
        if sides.size:
            self._expand(sizes, sides)

    def _expand(self, sizes: IntArray, sides: IntArray) -> None:
        """Set for each table entry whether it is parametric, its position in theta, and its statistic."""
        graph, parametric = self._graph, self._parametric
        table = np.repeat(np.arange(graph.n_tables), sizes)
        within = np.arange(table.size) + self.start[0] - self.start[table]
        self._is_parametric = parametric[table]
        self._source = graph.table_ptr[table] + np.where(self._is_parametric, 0, within)
        side = np.zeros(graph.n_tables, np.int64)
        side[parametric] = sides
        table, within = table[self._is_parametric], within[self._is_parametric]
        states = np.divmod(within, side[table])
        self._statistic = pair_statistic(graph.table_kind[table], graph.table_truncation[table], *states)

    def fill(self, theta: FloatArray, out: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Write all scores to `out`, with the maximum of each block subtracted.

        Return these maxima and the range of the finite scores of each block.
        """
        if self._parametric.any():
            n_variable = self._bounds[self._graph.n_variables]
            out[:n_variable] = theta[:n_variable]
            tables = theta[self._source]
            weight = tables[self._is_parametric]
            with np.errstate(invalid="ignore"):  # 0 * inf is replaced by 0
                tables[self._is_parametric] = np.where(self._statistic == 0.0, 0.0, weight * self._statistic)
            out[n_variable:] = tables
        else:
            out[:] = theta
        return self._subtract_maxima(out, self.n_blocks)

    @property
    def n_variable(self) -> int:
        """Number of entries of the variables, which come first."""
        return int(self._bounds[self._graph.n_variables])

    def fill_variables(self, theta: FloatArray, out: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Write the scores of the variables to `out` as `fill` does; return their maxima and ranges."""
        out[: self.n_variable] = theta[: self.n_variable]
        return self._subtract_maxima(out[: self.n_variable], self._graph.n_variables)

    def _subtract_maxima(self, out: FloatArray, n_blocks: int) -> tuple[FloatArray, FloatArray]:
        """Subtract the maximum of each block in place; return maxima and ranges."""
        bounds = self._bounds[: n_blocks + 1]
        maxima: FloatArray = np.maximum.reduceat(out, bounds[:-1])
        finite = np.where(maxima > -np.inf, maxima, 0.0)
        out -= np.repeat(finite, np.diff(bounds))
        span: FloatArray = -np.minimum.reduceat(np.where(out > -np.inf, out, 0.0), bounds[:-1])
        return maxima, span

    def contract(self, full: FloatArray) -> FloatArray:
        """Return marginals in the layout of mu from marginals of full tables."""
        if not self._parametric.any():
            return full
        n_variable = self._bounds[self._graph.n_variables]
        tables = full[n_variable:].copy()
        tables[self._is_parametric] *= self._statistic
        mu = np.bincount(self._source, tables, minlength=self._graph.n_theta).astype(np.float64, copy=False)
        mu[:n_variable] = full[:n_variable]
        return mu


# Number of entries that are processed between two checks of the time limit: a fraction of a second.
_CHUNK = 2.0e7


class BucketTree:
    """Elimination plan of a graph and an order, independent of the scores, which `answer` takes.

    Parameters
    ----------
    graph : FactorGraph
        Graph in normal form.
    order : int array
        All variables in the order of their elimination.

    Attributes
    ----------
    n_cells : float
        Sum of the sizes of all messages.
    n_bytes : float
        Memory that `answer` needs, including tables.
    log2_width : float
        Logarithm (base 2) of the largest number of joint states of a bucket.
    """

    def __init__(self, graph: FactorGraph, order: IntArray) -> None:
        self.graph, self.order = graph, order
        n = order.size
        self.position = position = np.empty(n, np.int64)
        position[order] = np.arange(n)
        self._scope_at = position[graph.scope_idx]
        first = np.minimum.reduceat(self._scope_at, graph.scope_ptr[:-1]) if graph.n_factors else np.empty(0, np.int64)
        self._factors = _group(first, n)
        self._find_separators()
        self.tables = FullTables(graph)
        n_pieces = 1 + np.diff(self._factors[0]) + np.diff(self._children[0])
        n_axes = np.diff(self._sep_ptr)
        self.bucket_ptr = _offsets(10 + 2 * n_axes + n_pieces * (3 + n_axes))
        cells = self._cells
        self.n_cells = float(cells.sum())
        parent = self._parent
        largest_inbox = np.bincount(parent[parent >= 0], cells[parent >= 0], minlength=1).max(initial=0.0)
        self.n_bytes = 8.0 * (self.n_cells + largest_inbox + 3.0 * self.tables.size + float(self.bucket_ptr[-1]))
        self.entries = cells * graph.n_states[order]
        self.log2_width = float(np.log2(self.entries.max(initial=1.0)))
        self._ranges: list[list[tuple[int, int]] | None] = [None, None]

    def _find_separators(self) -> None:
        """Compute separator, parent and message size of each bucket; enlarge the work array until it is sufficient."""
        graph, n = self.graph, self.order.size
        scratch = np.full((3, n), -1)
        parent, cells, sep_ptr = np.full(n, -1), np.empty(n), np.zeros(n + 1, np.int64)
        capacity = max(graph.scope_idx.size, 16)
        while True:
            sep_at = np.empty(capacity, np.int64)
            inputs = EliminationScopes(graph.n_states, self.order, graph.scope_ptr, self._scope_at, *self._factors)
            outputs = Separators(
                parent, scratch[0], scratch[1], scratch[2], np.empty(n, np.int64), cells, sep_ptr, sep_at
            )
            if run_loops(find_separators, n + graph.scope_idx.size, inputs, outputs) == 0:
                break
            scratch[:], capacity = -1, 4 * capacity
        self._parent, self._cells, self._sep_ptr, self._sep_at = parent, cells, sep_ptr, sep_at[: sep_ptr[-1]]
        self._children = _group(parent, n)

    def buckets(self) -> list[tuple[int, list[int], int]]:
        """Return variable, separator (variables in their order of elimination) and parent (-1: none) of each bucket."""
        ptr, members = self._sep_ptr.tolist(), self.order[self._sep_at].tolist()
        return [(int(v), members[ptr[b] : ptr[b + 1]], int(self._parent[b])) for b, v in enumerate(self.order)]

    @cached_property
    def instructions(self) -> tuple[IntArray, IntArray, IntArray]:
        """Encoded instructions of the passes for each bucket, sizes of work arrays, and offsets of the messages."""
        graph, order, tables = self.graph, self.order, self.tables
        message_ptr = 2 * tables.size + _offsets(self._cells.astype(np.int64))
        program, needs = np.zeros(self.bucket_ptr[-1], np.int64), np.ones(5, np.int64)
        inputs = BucketTables(
            graph.n_states, order, graph.variable_ptr, graph.scope_ptr, self._scope_at, *self._factors,
            tables.start[graph.table_of_factor], tables.block_of_factor, *self._children, self._sep_ptr,
            self._sep_at, message_ptr, self.bucket_ptr, np.array([tables.n_blocks]),
        )  # fmt: skip
        outputs = BucketLayout(np.empty(order.size, np.int64), np.empty(3, np.int64), program, needs)
        run_loops(lay_out, order.size + self._sep_at.size, inputs, outputs)
        return program, needs, message_ptr

    def _make_run(self, problem: Problem, name: str) -> _Run:
        """Return a new run, or the cached run with updated scores of variables if only these have changed."""
        repeated = problem.repeated
        if repeated is None:
            return _Run(self, problem, name)
        run = repeated.state
        if isinstance(run, _Run) and run.tree is self and repeated.changed <= self.tables.n_variable:
            run.change_variables()
            return run
        repeated.state = run = _Run(self, problem, name)
        return run

    def ranges(self, *, backwards: bool) -> list[tuple[int, int]]:
        """Return ranges of buckets with about `_CHUNK` entries each, from first to last or from last to first."""
        if self._ranges[backwards] is None:
            entries = self.entries[::-1] if backwards else self.entries
            number = (np.cumsum(entries) / _CHUNK).astype(np.int64)
            starts = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), entries.size]
            self._ranges[backwards] = list(itertools.pairwise(starts))
        return self._ranges[backwards]  # type: ignore[return-value]

    def answer(self, problem: Problem, name: str) -> Answer:
        """Solve a problem; `name` is the name of the method, for error messages."""
        run = self._make_run(problem, name)
        if problem.task == "map" or problem.n_best:
            best_score = run.pass_up(maximise=True)
            if best_score == -np.inf:
                return Answer(Status.INFEASIBLE)
            best = run.best_labellings(max(problem.n_best, 1))
        answer = Answer(Status.EXACT)
        if problem.n_best:
            answer.best = best
        if problem.task == "map":
            answer.assignment = best[0]
            answer.lower_bound = answer.upper_bound = best_score
            return answer
        log_partition = run.pass_up(maximise=False)
        if log_partition == -np.inf:
            return Answer(Status.INFEASIBLE)
        answer.log_partition = answer.lower_bound = answer.upper_bound = log_partition
        answer.log_partition_is = "exact"
        if problem.n_samples:
            answer.samples = run.samples(problem.n_samples)
        answer.mu = run.marginals()
        return answer


class _Run:
    """Run of one problem on a bucket tree: tables with their maxima subtracted, and messages."""

    def __init__(self, tree: BucketTree, problem: Problem, name: str) -> None:
        self.tree, self.problem, self.name = tree, problem, name
        self.program, self.needs, message_ptr = tree.instructions
        n, needs = tree.order.size, self.needs
        # One array for the kernels: logarithms of all tables, their exponentials (for sums), and the messages.
        self.values = np.empty(int(message_ptr[-1]))
        maxima, span = tree.tables.fill(problem.theta, self.values[: tree.tables.size])
        self.spans = np.concatenate([span, np.zeros(n)])
        self.table_constant = maxima[tree.tables.block_of_factor].sum()
        self.constant = float(maxima[: problem.graph.n_variables].sum() + self.table_constant)
        self.n_without_exp = tree.tables.size  # number of entries without exponentials
        self.domains = np.zeros((2, n), np.int8)
        self.constants = np.zeros(n)
        self.scratch = BucketScratch(np.empty(needs[0], np.int64), np.empty(needs[1], np.int64), np.empty(needs[2]))
        self.products = np.empty(needs[4])

    def change_variables(self) -> None:
        """Read the scores of the variables again; the scores of the tables have not changed."""
        tables = self.tree.tables
        maxima, span = tables.fill_variables(self.problem.theta, self.values)
        self.spans[: span.size], self.spans[tables.n_blocks :] = span, 0.0
        self.constant = float(maxima.sum() + self.table_constant)
        self.domains[:], self.constants[:] = 0, 0.0
        self.n_without_exp = max(self.n_without_exp, tables.n_variable)

    def pass_up(self, *, maximise: bool) -> float:
        """Make the upward pass; return the best score or log Z, -inf if the model is infeasible."""
        if self.constant == -np.inf:
            return -np.inf
        n_table = self.tree.tables.size
        if not maximise:
            np.exp(self.values[: self.n_without_exp], out=self.values[n_table : n_table + self.n_without_exp])
            self.n_without_exp = 0
        if not self._pass(maximise=maximise, beliefs=np.empty(0)):
            return -np.inf
        return self.constant + float(self.constants.sum())

    def marginals(self) -> FloatArray:
        """Make the downward pass after a sum and return the marginals; overwrites the messages."""
        tables = self.tree.tables
        beliefs = np.zeros(tables.size + int(self.needs[3]))
        self._pass(maximise=False, beliefs=beliefs)
        beliefs.resize(tables.size, refcheck=False)  # frees memory without a copy
        return tables.contract(beliefs)

    def _pass(self, *, maximise: bool, beliefs: FloatArray) -> bool:
        """Make one pass in chunks, downward if `beliefs` is not empty; return whether the model is feasible."""
        tree, downward = self.tree, beliefs.size > 0
        kernel, other_kernel = sum_buckets, sum_buckets_in_log
        if maximise:
            kernel, other_kernel = maximise_buckets, maximise_buckets
        n = tree.order.size
        program = BucketProgram(self.program, tree.bucket_ptr, tree.tables.size)
        for start, stop in tree.ranges(backwards=downward):
            self._check_time()
            while start < stop:
                n_done = kernel(
                    program, *((n - stop, n - start) if downward else (start, stop)), downward,
                    self.values, beliefs, self.spans, self.domains, self.constants, self.scratch,
                )  # fmt: skip
                if n_done < 0:
                    return False
                start += n_done
                if start < stop:
                    kernel, other_kernel = other_kernel, kernel
        return True

    def samples(self, count: int) -> IntArray:
        """Return independent samples, after a sum."""
        tree = self.tree
        labels = np.empty((count, tree.order.size), np.int64)
        sample_buckets(
            self.program, tree.bucket_ptr, tree.tables.size, tree.tables.n_blocks, self.domains[1], self.values,
            self.problem.rng, self.products, labels,
        )  # fmt: skip
        return labels

    def best_labellings(self, count: int) -> IntArray:
        """Return up to `count` labellings with the highest scores, in descending order, after a maximum.

        Best-first search with exact values: completing a prefix greedily yields the best labelling with this prefix,
        and each alternative choice on the path defines a set of labellings whose best value follows from the maxima.
        These sets are disjoint, so no labelling is returned twice.
        """
        graph, tree = self.problem.graph, self.tree
        n = graph.n_variables
        gaps = np.empty(int(graph.variable_ptr[-1]))
        first = np.empty((1, n), np.int64)
        plan = self.program, tree.bucket_ptr, tree.tables.n_blocks
        complete_best(*plan, n, self.values, graph.variable_ptr, self.products, first[0], gaps)
        if count == 1:
            return first
        rows = [first[0]]
        position = tree.position
        variable_of = np.repeat(np.arange(n), graph.n_states)
        bucket_of = position[variable_of]
        value, stop = 0.0, n
        # Open choices: loss of score, index of the labelling that branches, entry of the alternative state.
        lost, origin, entry = np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64)
        while len(rows) < count:
            self._check_time()
            new = np.flatnonzero((bucket_of < stop) & (gaps > -np.inf))
            lost = np.concatenate([lost, value + gaps[new]])
            origin = np.concatenate([origin, np.full(new.size, len(rows) - 1)])
            entry = np.concatenate([entry, new])
            if lost.size == 0:
                break
            n_missing = count - len(rows)
            if lost.size > n_missing:
                keep = np.argpartition(-lost, n_missing - 1)[:n_missing]
                lost, origin, entry = lost[keep], origin[keep], entry[keep]
            best = int(np.argmax(lost))
            y = rows[origin[best]].copy()
            v = int(variable_of[entry[best]])
            y[v] = entry[best] - graph.variable_ptr[v]
            value, stop = float(lost[best]), int(position[v])
            lost[best], origin[best], entry[best] = lost[-1], origin[-1], entry[-1]
            lost, origin, entry = lost[:-1], origin[:-1], entry[:-1]
            complete_best(*plan, stop, self.values, graph.variable_ptr, self.products, y, gaps)
            rows.append(y)
        labels = np.stack(rows)
        scores = graph.score(self.problem.theta, labels)
        sorted_labels: IntArray = labels[np.argsort(-scores, kind="stable")]
        return sorted_labels

    def _check_time(self) -> None:
        """Raise TimeLimitError if the time limit is reached."""
        _check_clock(self.problem.clock, self.name)


def _offsets(sizes: IntArray) -> IntArray:
    """Return the offset of each block, and the end of the last."""
    offsets = np.zeros(sizes.size + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def _group(owner: IntArray, n: int) -> tuple[IntArray, IntArray]:
    """Return CSR lists of the items of each of n owners; items with owner -1 are omitted."""
    ptr = _offsets(np.bincount(owner + 1, minlength=n + 1))
    return ptr[1:] - ptr[1], np.argsort(owner, kind="stable")[ptr[1] :]


def _check_clock(clock: Clock, name: str) -> None:
    """Raise TimeLimitError if the time limit is reached."""
    if clock.expired:
        raise TimeLimitError(
            f"{name}: not finished at time_limit={clock.limit:g} s, and exact methods have no intermediate result. "
            f"Raise time_limit, or use 'tree_reweighted', 'belief_propagation' or 'mean_field'."
        )
