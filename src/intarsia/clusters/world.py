"""Records, their features and a present clustering: the world in which SampleRank learns and decoders search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.error_context import errors_in
from intarsia._core.validation import FloatArray, IntArray, as_float_array, as_int_array, check_choice, frozen
from intarsia._kernels import partition as kernels
from intarsia.clusters.choices import Choices
from intarsia.clusters.cluster_model import ClusterModel, PairFeatures
from intarsia.clusters.constraints import Constraints, link_constraints
from intarsia.clusters.partition import (
    METRICS,
    FunctionMetric,
    MetricFunction,
    Move,
    Partition,
    PartitionMetric,
    canonical_labels,
    truth_constants,
)
from intarsia.clusters.proposers import JumpProposer, SplitMerge
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.learning.ranking_world import RankingState, RankingWorld

_LARGEST_CHUNK = 10_000  # compiled loops return after so many proposals, so that Ctrl-C and progress work
STRETCH = 10_000  # listed pairs that a search draws from at a time: what they touch stays in the cache


class ClusterWorld(RankingWorld):
    r"""A clustering of records with a score :math:`\Theta \cdot \phi` that changes by what a move touches.

    Learn with `SampleRank().fit_worlds([world, ...])`, then search with `decode(world, weights)`. Worlds that share
    weights must have the same pair features, attributes and `model`.

    Parameters
    ----------
    pairs : PairFeatures
        Features of pairs of records.
    model : ClusterModel, optional
        Which features a clustering has.
    attributes : dict name -> int array (n_records,), optional
        Codes for `agreement` and `all_equal`; -1 is unknown.
    constraints : Constraints, optional
        What must, and must not, be together.
    truth : int array (n_records,), optional
        True entity of each record, -1 where unknown; pairs with an unknown record do not count. Needed for learning.
    metric : {"pairwise_f1", "b_cubed_f1", "pair_accuracy"}, PartitionMetric or function
        Performance F; a function gets truth and labels, and is slow.
    proposer : SplitMerge or JumpProposer, optional
        How neighbours are proposed. With one that jumps, such as `AdaptiveSplitMerge`, and with a metric of one's
        own, SampleRank walks in Python.
    start : int array (n_records,), optional
        Clustering where walks begin; by default every record alone, must-links apart.

    Examples
    --------
    Three records; the pair 0-1 is alike. The score is the sum of 2 x likeness - 1 over the pairs inside clusters.

    >>> from intarsia.clusters.cluster_model import pair_features
    >>> pairs = pair_features(3, [[0, 1], [0, 2], [1, 2]], [[0.9, 1], [0.2, 1], [0.3, 1]], ["like", "one"])
    >>> world = ClusterWorld(pairs, truth=[5, 5, 8])
    >>> world.feature_names
    ('within like', 'within one', 'absent')
    >>> move = world.merge(0, 1)
    >>> round(world.score_change(move, [2.0, -1.0, 0.0]), 3), world.performance_change(move)
    (0.8, 1.0)
    >>> world.apply(move)
    >>> world.labels.tolist(), world.performance()
    ([0, 0, 1], 1.0)
    """

    def __init__(
        self,
        pairs: PairFeatures,
        model: ClusterModel | None = None,
        *,
        attributes: Mapping[str, ArrayLike] | None = None,
        constraints: Constraints | None = None,
        truth: ArrayLike | None = None,
        metric: str | PartitionMetric | MetricFunction = "pairwise_f1",
        proposer: SplitMerge | JumpProposer | None = None,
        start: ArrayLike | None = None,
    ) -> None:
        n = pairs.n_records
        given = {
            name: self._per_record(codes, n, f"attributes[{name!r}]") for name, codes in (attributes or {}).items()
        }
        self.pairs = pairs
        self.table = (ClusterModel() if model is None else model).table(pairs.names, tuple(given))
        self.constraints = link_constraints(n) if constraints is None else constraints
        if self.constraints.n_records != n:
            raise InvalidInputError(
                f"ClusterWorld: constraints are for {self.constraints.n_records} records, but pairs has {n}. Make "
                f"them for the same records."
            )
        self.proposer: SplitMerge | JumpProposer = SplitMerge() if proposer is None else proposer
        self.memory: dict[int, Any] = {}  # what adaptive proposers keep from one proposal to the next
        self.truth = None if truth is None else self._per_record(truth, n, "truth")
        self.metric = self._metric(metric)
        self._constants = truth_constants(np.full(n, -1) if self.truth is None else self.truth)
        self._world = self._world_arrays(list(given.values()))
        self._state: kernels.State
        self._pending: Move | None = None
        labels = self.constraints.atom if start is None else self._per_record(start, n, "start")
        self._start = labels
        self.reset()

    # ---------------------------------------------------------------- state

    @property
    def n_weights(self) -> int:
        """Number of features."""
        return len(self.table.names)

    @property
    def n_sites(self) -> int:
        """Number of records."""
        return self.pairs.n_records

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features."""
        return self.table.names

    @property
    def labels(self) -> IntArray:
        """The present clustering, numbered by first occurrence."""
        return self.partition.labels

    def reset(self, labels: ArrayLike | None = None) -> None:
        """Go to a clustering; by default to the start."""
        chosen = self._start if labels is None else self._per_record(labels, self.n_sites, "labels")
        with errors_in("ClusterWorld"):
            self.constraints.check(chosen)
        self.partition = Partition(chosen)
        self._state = self._make_state()
        self._past: list[Move] = []
        self._stretch = 0
        self.refresh()

    def refresh(self) -> None:
        """Statistics of all clusters anew, which takes the rounding of many changes away."""
        kernels.rebuild(self._world, self._state)
        self._pending = None

    def restart(self, rng: np.random.Generator) -> None:
        """Go to the start."""
        self.memory.clear()
        self.reset()

    def features(self) -> FloatArray:
        """Feature vector of the present clustering."""
        found: FloatArray = self._state.phi[self.partition.clusters].sum(axis=0)
        between = self.table.kind == kernels.BETWEEN  # the pairs across are all pairs less those within
        found[between] += self.pairs.values.sum(axis=0)[self.table.argument[between]]
        return found

    def score(self, weights: ArrayLike) -> float:
        """Score of the present clustering."""
        return float(self.check_weights(weights) @ self.features())

    def performance(self) -> float:
        """F of the present clustering."""
        truth = self._known_truth()
        if isinstance(self.metric, PartitionMetric):
            return self.metric.value(truth, self.partition)
        return float(kernels.measure(self._state.totals, kernels.NOW, self.metric, self._constants))

    # ---------------------------------------------------------------- moves

    def merge(self, i: int, j: int) -> Move:
        """The move that joins the clusters of two records."""
        a, b = self.partition.cluster_of(i), self.partition.cluster_of(j)
        small, large = (a, b) if self.partition.sizes[a] <= self.partition.sizes[b] else (b, a)
        return Move(self.partition.members(small), large)

    def is_allowed(self, move: Move) -> bool:
        """Whether a move keeps the constraints."""
        records = self.partition.check_move(move)
        groups = np.unique(self.constraints.atom[records])
        if np.diff(self.constraints.atom_ptr)[groups].sum() != records.size:
            return False
        self._state.lists[kernels.MOVED, : records.size] = records
        return bool(kernels.is_allowed(records.size, move.target, self._world, self._state))

    def propose(self, rng: np.random.Generator, weights: FloatArray) -> Move | None:
        """A move of the proposer that keeps the constraints, or None; adaptive ones learn by F where it is known."""
        if isinstance(self.proposer, JumpProposer):
            return self.proposer.propose(self, rng, weights if self.truth is None else None, weights)[0]
        proposer = self.proposer.arrays(self.pairs, self.table, weights)
        parts = (self._world, self._state)
        m, target, log_ratio, one_atom = kernels.propose(rng, *parts, proposer)
        if m == 0 or not kernels.is_allowed(m, target, *parts):
            return None
        records = self._state.lists[kernels.MOVED, :m].copy()
        self._pending = None
        if one_atom:
            log_ratio = kernels.log_ratio_of_atom(m, target, *parts, proposer)
        return Move(records, target, log_ratio)

    def feature_change(self, move: Move) -> FloatArray:
        """Features after the move, less those before."""
        self._evaluate(move)
        return self._state.phi[-1].copy()

    def score_change(self, move: Move, weights: ArrayLike) -> float:
        """Score after the move, less that before."""
        return float(self.check_weights(weights) @ self.feature_change(move))

    def performance_change(self, move: Move) -> float:
        """F after the move, less F before."""
        truth = self._known_truth()
        if isinstance(self.metric, PartitionMetric):
            return self.metric.change(truth, self.partition, move)
        self._evaluate(move)
        after = kernels.measure(self._state.totals, kernels.THEN, self.metric, self._constants)
        return float(after - kernels.measure(self._state.totals, kernels.NOW, self.metric, self._constants))

    def apply(self, move: Move) -> None:
        """Make the move; `undo` takes it back."""
        self._evaluate(move)
        home = self.partition.cluster_of(int(move.records[0]))
        left = int(self.partition.sizes[home]) > move.records.size
        kernels.commit(move.records.size, move.target, self._state)
        self._pending = None
        self._past.append(Move(move.records, home if left else -1))

    def undo(self) -> None:
        """Take back the last move made by `apply`."""
        if not self._past:
            raise InvalidInputError("ClusterWorld.undo: nothing to take back. Apply a move first.")
        self.apply(self._past.pop())
        self._past.pop()

    # ---------------------------------------------------------------- walks

    def walk(self, state: RankingState, n_steps: int, rng: np.random.Generator) -> None:
        """Algorithm 1 of Rohanimanesh2009 for some proposals, in compiled loops where F is one of the built-in ones."""
        self._known_truth()
        if isinstance(self.metric, PartitionMetric) or not isinstance(self.proposer, SplitMerge):
            super().walk(state, n_steps, rng)
            return
        rules = (True, state.rule, state.rate, state.required, self.metric, self._constants, state.learned)
        while n_steps > 0:
            chunk = min(n_steps, _LARGEST_CHUNK)
            self._walk(chunk, rng, state.weights, state.temperature, 1.0, False, state.walk, *rules, state.counters)
            n_steps -= chunk

    def search(
        self, weights: FloatArray, n_steps: int, rng: np.random.Generator, temperature: float, cooling: float = 1.0
    ) -> tuple[float, IntArray]:
        """Walk under fixed weights: a climb (temperature 0) or Metropolis-Hastings; change of score, and counters.

        The temperature is multiplied by `cooling` before each proposal. At most some 10,000 proposals at a time keep
        Ctrl-C prompt. Where more pairs are listed than caches hold, each call draws from a stretch of them, and the
        next call from the next one: every stretch has a distribution that does not depend on the clustering, so that
        Metropolis-Hastings is exact.
        """
        counters, none = np.zeros(6, dtype=np.int64), np.zeros((2, self.n_weights))
        rules = (False, kernels.PERCEPTRON, 1.0, 0.0, kernels.PAIRWISE_F1, self._constants, none)
        given = (rng, weights, temperature, cooling, True, kernels.BY_MODEL, *rules, counters)
        return self._walk(n_steps, *given, stretch=True), counters

    def agglomerate(self, weights: FloatArray, least_gain: float = 0.0) -> int:
        """Merge the best pair of clusters joined by a listed pair, while it gains more than this; number of merges."""
        self._past, self._pending = [], None
        return int(kernels.agglomerate(weights, float(least_gain), self._world, self._state)[1])

    def allocate(
        self, rng: np.random.Generator, i: int, j: int, sequential: bool, proposer: kernels.Proposer
    ) -> tuple[float, IntArray]:
        """Divide the cluster of two records between them: log-probability, and the smaller part.

        Of records in two clusters, the probability of dividing their union so; nothing is to be moved then.
        """
        log_probability, m = kernels.allocate(rng, i, j, sequential, self._world, self._state, proposer)
        self._pending = None
        return float(log_probability), self._state.lists[kernels.MOVED, :m].copy()

    def try_choices(
        self,
        choices: Choices,
        chosen: IntArray,
        rng: np.random.Generator,
        sequential: bool,
        proposer: kernels.Proposer,
        score: FloatArray | None,
    ) -> tuple[FloatArray, Move | None]:
        """How much each chosen split, divided at random, or merge would bring, -inf where not allowed; the best move.

        Splits come before merges. What counts is the score under these weights, or F where none are given, which must
        be one of the built-in ones.
        """
        values, best = np.empty(chosen.size), np.empty(self.n_sites, dtype=np.int64)
        weights = np.zeros(self.n_weights) if score is None else self.check_weights(score)
        if score is None:
            self._known_truth()
        metric = kernels.PAIRWISE_F1 if isinstance(self.metric, PartitionMetric) else self.metric
        self._pending = None
        given = (rng, chosen, choices.splits, choices.merges, sequential, values, best, score is not None, weights)
        m, target = kernels.try_choices(*given, metric, self._constants, self._world, self._state, proposer)
        return values, Move(best[:m].copy(), int(target)) if m else None

    @contextmanager
    def proposing(self, proposer: SplitMerge) -> Iterator[None]:
        """Use another proposer for a while."""
        own, self.proposer = self.proposer, proposer
        try:
            yield
        finally:
            self.proposer = own

    def check_weights(self, weights: ArrayLike) -> FloatArray:
        """Weights as an array; raises where they do not fit."""
        found = as_float_array(weights, "ClusterWorld: weights")
        if found.shape != (self.n_weights,) or not np.isfinite(found).all():
            raise InvalidInputError(
                f"ClusterWorld: weights has shape {found.shape}, expected {self.n_weights} finite numbers, one for "
                f"each of {', '.join(self.feature_names[:4])}, ... Give as many."
            )
        return found

    def _walk(
        self,
        n_steps: int,
        rng: np.random.Generator,
        weights: FloatArray,
        temperature: float,
        *rules: Any,
        stretch: bool = False,
    ) -> float:
        self._past, self._pending = [], None
        if not isinstance(self.proposer, SplitMerge):
            raise NotSupportedError(
                "ClusterWorld.search: an adaptive proposer jumps by CEMDecode. Use SplitMerge here."
            )
        proposer = self.proposer.arrays(self.pairs, self.table, weights)
        n_pairs = len(self.pairs.pairs)
        if stretch and n_pairs > 2 * STRETCH:
            bounds = np.linspace(0, n_pairs, n_pairs // STRETCH + 1).astype(np.int64)
            at = self._stretch % (bounds.size - 1)
            proposer.numbers[[kernels.FIRST_PAIR, kernels.LAST_PAIR]] = bounds[at], bounds[at + 1]
            self._stretch += 1
        how = kernels.WalkRules(*rules)
        arguments = (n_steps, rng, weights, float(temperature), how, proposer, self._world, self._state)
        if self.n_sites < 2:  # nothing to propose
            return 0.0
        return float(kernels.walk_partition(*arguments))

    # ---------------------------------------------------------------- preparation

    def _evaluate(self, move: Move) -> None:
        """Changes into the buffers, unless they are there already."""
        if self._pending is move:
            return
        records = self.partition.check_move(move)
        self._state.lists[kernels.MOVED, : records.size] = records
        kernels.evaluate(records.size, move.target, self._world, self._state)
        self._pending = move

    def _known_truth(self) -> IntArray:
        if self.truth is None:
            raise InvalidInputError("ClusterWorld: performance needs the truth. Give truth= when making the world.")
        return self.truth

    def _metric(self, metric: str | PartitionMetric | MetricFunction) -> int | PartitionMetric:
        if isinstance(metric, PartitionMetric):
            return metric
        if isinstance(metric, str):
            return METRICS[check_choice(metric, METRICS, "ClusterWorld: metric")]
        if not callable(metric):
            raise InvalidInputError(
                f"ClusterWorld: metric must be a name, a PartitionMetric or a function of truth and labels, got "
                f"{type(metric).__name__}."
            )
        return FunctionMetric(metric)

    @staticmethod
    def _per_record(values: ArrayLike, n: int, what: str) -> IntArray:
        found = as_int_array(values, f"ClusterWorld: {what}")
        if found.shape != (n,):
            raise InvalidInputError(
                f"ClusterWorld: {what} has shape {found.shape}, but there are {n} records. Give one number for each."
            )
        return found

    def _world_arrays(self, attributes: list[IntArray]) -> kernels.World:
        pairs, links, n = self.pairs, self.constraints, self.pairs.n_records
        columns = [_dense_codes(codes) for codes in attributes]
        inverse, truth_column = np.zeros(1), -1
        if self.truth is not None:
            truth_column = len(columns)
            columns.append(_dense_codes(self.truth))
            known = columns[-1][columns[-1] >= 0]
            inverse = 1.0 / np.bincount(known) if known.size else inverse
        codes = np.stack(columns, axis=1) if columns else np.zeros((n, 0), dtype=np.int64)
        rows = np.full((kernels.N_OF_RECORD, n + 1), -1, dtype=np.int64)
        of_record = (pairs.ptr, links.atom, links.atom_ptr, links.atom_idx, links.cannot_ptr, links.source)
        for row, values in zip(rows, of_record, strict=True):
            row[: values.size] = values
        near = np.stack([pairs.idx, pairs.row])
        table = np.stack([self.table.kind.astype(np.float64), self.table.argument.astype(np.float64), self.table.level])
        levels = np.stack([self.table.count_column.astype(np.float64), self.table.count_at])
        linked = links.atom_ptr.size < n + 1
        flags = np.array([pairs.complete, truth_column, links.source.size > 0, linked], dtype=np.int64)
        ready = (rows, near, pairs.pairs, pairs.values, links.cannot_idx, codes, inverse, table, levels)
        arrays = (*ready, self.table.extreme_column, flags)
        return kernels.World(*(frozen(np.ascontiguousarray(array)) for array in arrays))

    def _make_state(self) -> kernels.State:
        n, d = self.pairs.n_records, self.pairs.n_features
        n_added = 2 + d + self._world.levels.shape[1] + 2 * self._world.codes.shape[1]
        n_stats = n_added + 2 * self.table.extreme_column.size
        lists = np.zeros((kernels.N_LISTS, n), dtype=np.int64)
        stats, phi = np.zeros((n + kernels.N_SPARE_STATS, n_stats)), np.zeros((n + kernels.N_SPARE_PHI, self.n_weights))
        return kernels.State(self.partition.rows, lists, stats, phi, np.zeros((2, 4)))


def check_cluster_world(world: object) -> None:
    """Raise for a world whose states are not clusterings, with the loop to use in its place.

    Examples
    --------
    >>> from intarsia.clusters.cluster_model import pair_features
    >>> check_cluster_world(ClusterWorld(pair_features(2, [[0, 1]], [1.0])))
    """
    if isinstance(world, ClusterWorld):
        return
    needed = ("labels", "reset", "score", "search", "agglomerate", "proposing")
    missing = [name for name in needed if not hasattr(type(world), name)]
    lacks = f", which has no {missing[0]!r}" if missing else ""
    raise InvalidInputError(
        f"expected a ClusterWorld, got a {type(world).__name__}{lacks}. To search a world of your own, draw "
        f"moves by world.propose(rng, weights) and apply those whose world.score_change(move, weights) is above 0."
    )


def _dense_codes(codes: IntArray) -> IntArray:
    """Codes 0, 1, ... for the values from 0 on; -1 for the rest."""
    found = np.full(codes.size, -1, dtype=np.int64)
    known = codes >= 0
    found[known] = canonical_labels(codes[known]) if known.any() else 0
    return found
