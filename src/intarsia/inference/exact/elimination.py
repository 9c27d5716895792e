"""Exact inference along an elimination order: the engine that `tree` and `junction_tree` share."""

from __future__ import annotations

import itertools

import numpy as np

from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, IntArray
from intarsia._kernels.arguments import (
    BucketLayout,
    BucketProgram,
    BucketScratch,
    BucketTables,
    EliminationScopes,
    Separators,
)
from intarsia._kernels.elimination import maximise_buckets, sum_buckets, sum_buckets_in_log
from intarsia._kernels.elimination_labels import complete_best, sample_buckets
from intarsia._kernels.elimination_plan import find_separators, lay_out
from intarsia._kernels.symbolic import run_loops
from intarsia.exceptions import TimeLimitError
from intarsia.graph import FactorGraph, FactorKind
from intarsia.graph.factor_kinds import pair_statistic
from intarsia.inference.method import Answer, Clock, Problem


class FullTables:
    """Layout of the variables' scores followed by all tables, parametric ones with an entry for each pair of states.

    Parameters
    ----------
    graph : FactorGraph
        In normal form.

    Attributes
    ----------
    size : int
        Number of entries.
    n_blocks : int
        Variables and tables together.
    start : int array
        Where each table begins.
    block_of_factor : int array
        Which block holds the factor's table.
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
        """For each entry after the variables': whether it is parametric, its entry of theta and statistic."""
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
        """Write all scores to `out`, the maximum of each block taken out.

        Returns these maxima and the range of each block's finite scores.
        """
        if self._parametric.any():
            n_variable = self._bounds[self._graph.n_variables]
            out[:n_variable] = theta[:n_variable]
            tables = theta[self._source]
            weight = tables[self._is_parametric]
            with np.errstate(invalid="ignore"):  # 0 * inf, replaced at once
                tables[self._is_parametric] = np.where(self._statistic == 0.0, 0.0, weight * self._statistic)
            out[n_variable:] = tables
        else:
            out[:] = theta
        return self._take_maxima(out, self.n_blocks)

    @property
    def n_variable(self) -> int:
        """Number of the variables' entries, which come first."""
        return int(self._bounds[self._graph.n_variables])

    def fill_variables(self, theta: FloatArray, out: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The same for the variables alone."""
        out[: self.n_variable] = theta[: self.n_variable]
        return self._take_maxima(out[: self.n_variable], self._graph.n_variables)

    def _take_maxima(self, out: FloatArray, n_blocks: int) -> tuple[FloatArray, FloatArray]:
        bounds = self._bounds[: n_blocks + 1]
        top: FloatArray = np.maximum.reduceat(out, bounds[:-1])
        finite = np.where(top > -np.inf, top, 0.0)
        out -= np.repeat(finite, np.diff(bounds))
        span: FloatArray = -np.minimum.reduceat(np.where(out > -np.inf, out, 0.0), bounds[:-1])
        return top, span

    def contract(self, full: FloatArray) -> FloatArray:
        """Marginals in the layout of mu from those of full tables: expected statistics for parametric kinds."""
        if not self._parametric.any():
            return full
        n_variable = self._bounds[self._graph.n_variables]
        tables = full[n_variable:].copy()
        tables[self._is_parametric] *= self._statistic
        mu = np.bincount(self._source, tables, minlength=self._graph.n_theta).astype(np.float64, copy=False)
        mu[:n_variable] = full[:n_variable]
        return mu


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
        received = np.bincount(parent[parent >= 0], cells[parent >= 0], minlength=1).max(initial=0.0)
        self.n_bytes = 8.0 * (self.n_cells + received + 3.0 * self.tables.size + float(self.bucket_ptr[-1]))
        self.entries = cells * graph.n_states[order]
        self.log2_width = float(np.log2(self.entries.max(initial=1.0)))
        self._program: IntArray | None = None
        self._ranges: list[list[tuple[int, int]] | None] = [None, None]

    def _find_separators(self) -> None:
        graph, n = self.graph, self.order.size
        scratch = np.full((3, n), -1)
        parent, cells, sep_ptr = np.full(n, -1), np.empty(n), np.zeros(n + 1, np.int64)
        room = max(graph.scope_idx.size, 16)
        while True:
            sep_at = np.empty(room, np.int64)
            scopes = EliminationScopes(graph.n_states, self.order, graph.scope_ptr, self._scope_at, *self._factors)
            result = Separators(
                parent, scratch[0], scratch[1], scratch[2], np.empty(n, np.int64), cells, sep_ptr, sep_at
            )
            if run_loops(find_separators, n + graph.scope_idx.size, scopes, result) == 0:
                break
            scratch[:], room = -1, 4 * room
        self._parent, self._cells, self._sep_ptr, self._sep_at = parent, cells, sep_ptr, sep_at[: sep_ptr[-1]]
        self._children = _group(parent, n)

    @property
    def program(self) -> IntArray:
        """What the passes do at each bucket, made when it is first needed."""
        if self._program is None:
            graph, order, tables = self.graph, self.order, self.tables
            self.message_ptr = 2 * tables.size + _offsets(self._cells.astype(np.int64))
            self._program, self.needs = np.zeros(self.bucket_ptr[-1], np.int64), np.ones(5, np.int64)
            arrays = BucketTables(
                graph.n_states, order, graph.variable_ptr, graph.scope_ptr, self._scope_at, *self._factors,
                tables.start[graph.table_of_factor], tables.block_of_factor, *self._children, self._sep_ptr,
                self._sep_at, self.message_ptr, self.bucket_ptr, np.array([tables.n_blocks]),
            )  # fmt: skip
            result = BucketLayout(np.empty(order.size, np.int64), np.empty(3, np.int64), self._program, self.needs)
            run_loops(lay_out, order.size + self._sep_at.size, arrays, result)
        return self._program

    def _prepared(self, problem: Problem, name: str) -> _Run:
        """A run, or the one before with the variables' scores as they are now."""
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
        """Ranges of buckets, first to last or last to first, of about `_CHUNK` entries each."""
        if self._ranges[backwards] is None:
            entries = self.entries[::-1] if backwards else self.entries
            number = (np.cumsum(entries) / _CHUNK).astype(np.int64)
            starts = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), entries.size]
            self._ranges[backwards] = list(itertools.pairwise(starts))
        return self._ranges[backwards]  # type: ignore[return-value]

    def answer(self, problem: Problem, name: str) -> Answer:
        """Everything the problem asks for; `name` is the method's, for messages."""
        run = self._prepared(problem, name)
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
        self.program, needs = tree.program, tree.needs
        n = tree.order.size
        # Logarithms of all tables, the tables (once a sum needs them), the messages: one array for the kernels.
        self.values = np.empty(int(tree.message_ptr[-1]))
        top, span = tree.tables.fill(problem.theta, self.values[: tree.tables.size])
        self.spans = np.concatenate([span, np.zeros(n)])
        self.table_constant = top[tree.tables.block_of_factor].sum()
        self.constant = float(top[: problem.graph.n_variables].sum() + self.table_constant)
        self.n_new = tree.tables.size  # entries whose exponentials are still to be taken
        self.domains = np.zeros((2, n), np.int8)
        self.taken_out = np.zeros(n)
        self.scratch = BucketScratch(np.empty(needs[0], np.int64), np.empty(needs[1], np.int64), np.empty(needs[2]))
        self.products = np.empty(needs[4])

    def change_variables(self) -> None:
        """Take the variables' scores anew; those of the tables are as they were."""
        tables = self.tree.tables
        top, span = tables.fill_variables(self.problem.theta, self.values)
        self.spans[: span.size], self.spans[tables.n_blocks :] = span, 0.0
        self.constant = float(top.sum() + self.table_constant)
        self.domains[:], self.taken_out[:] = 0, 0.0
        self.n_new = max(self.n_new, tables.n_variable)

    def collect(self, *, maximise: bool) -> float:
        """Upward pass; the best score or log Z, -inf if nothing is possible."""
        if self.constant == -np.inf:
            return -np.inf
        n_table = self.tree.tables.size
        if not maximise:
            np.exp(self.values[: self.n_new], out=self.values[n_table : n_table + self.n_new])
            self.n_new = 0
        if not self._pass(maximise=maximise, beliefs=np.empty(0)):
            return -np.inf
        return self.constant + float(self.taken_out.sum())

    def marginals(self) -> FloatArray:
        """Downward pass after a sum; overwrites the messages."""
        tables = self.tree.tables
        beliefs = np.zeros(tables.size + int(self.tree.needs[3]))
        self._pass(maximise=False, beliefs=beliefs)
        beliefs.resize(tables.size, refcheck=False)  # gives the room back without a copy
        return tables.contract(beliefs)

    def _pass(self, *, maximise: bool, beliefs: FloatArray) -> bool:
        """One pass in chunks, downward if there is room for beliefs; False if nothing is possible."""
        tree, spreading = self.tree, beliefs.size > 0
        kernel, other = sum_buckets, sum_buckets_in_log
        if maximise:
            kernel, other = maximise_buckets, maximise_buckets
        n = tree.order.size
        plan = BucketProgram(self.program, tree.bucket_ptr, tree.tables.size)
        for start, stop in tree.ranges(backwards=spreading):
            self._check_time()
            while start < stop:
                done = kernel(
                    plan, *((n - stop, n - start) if spreading else (start, stop)), spreading,
                    self.values, beliefs, self.spans, self.domains, self.taken_out, self.scratch,
                )  # fmt: skip
                if done < 0:
                    return False
                start += done
                if start < stop:
                    kernel, other = other, kernel
        return True

    def samples(self, count: int) -> IntArray:
        """Independent draws after a sum."""
        tree = self.tree
        labels = np.empty((count, tree.order.size), np.int64)
        sample_buckets(
            self.program, tree.bucket_ptr, tree.tables.size, tree.tables.n_blocks, self.domains[1], self.values,
            self.problem.rng, self.products, labels,
        )  # fmt: skip
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
        given = self.program, tree.bucket_ptr, tree.tables.n_blocks
        complete_best(*given, n, self.values, graph.variable_ptr, self.products, found[0], gaps)
        if count == 1:
            return found
        rows = [found[0]]
        position = tree.position
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
            complete_best(*given, stop, self.values, graph.variable_ptr, self.products, y, gaps)
            rows.append(y)
        labels = np.stack(rows)
        scores = graph.score(self.problem.theta, labels)
        ordered: IntArray = labels[np.argsort(-scores, kind="stable")]
        return ordered

    def _check_time(self) -> None:
        _check_clock(self.problem.clock, self.name)


def _offsets(sizes: IntArray) -> IntArray:
    """Where each of several stretches begins, and the end of the last."""
    offsets = np.zeros(sizes.size + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def _group(owner: IntArray, n: int) -> tuple[IntArray, IntArray]:
    """CSR lists of the items of each of n owners; an owner of -1 is left out."""
    ptr = _offsets(np.bincount(owner + 1, minlength=n + 1))
    return ptr[1:] - ptr[1], np.argsort(owner, kind="stable")[ptr[1] :]


def _check_clock(clock: Clock, name: str) -> None:
    if clock.expired:
        raise TimeLimitError(
            f"{name}: not finished at time_limit={clock.limit:g} s, and an exact method has nothing to show before its "
            f"end. Raise time_limit, or use 'tree_reweighted', 'belief_propagation' or 'mean_field'."
        )
