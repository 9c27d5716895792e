"""World of a clustering: records, features and the current partition; SampleRank and the decoders work on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.error_context import errors_in
from intarsia._core.registry import Registry
from intarsia._core.validation import FloatArray, IntArray, as_int_array, frozen
from intarsia._kernels import partition as kernels
from intarsia.clusters.choices import Choices
from intarsia.clusters.cluster_model import ClusterModel, PairFeatures, read_numbers
from intarsia.clusters.constraints import Constraints, link_constraints
from intarsia.clusters.decoding import DECODERS, Clustering
from intarsia.clusters.partition import (
    MetricFunction,
    Move,
    Partition,
    PartitionMetric,
    dense_codes,
    index_dtype,
    resolve_metric,
    truth_constants,
)
from intarsia.clusters.proposers import ProposerArrays, SplitMerge, check_sequential
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.worlds.decoder import Decoding
from intarsia.worlds.jump_proposer import JumpProposer
from intarsia.worlds.ranking import RankingState
from intarsia.worlds.world import World

CHUNK = 10_000  # compiled loops return after this many proposals, so that Ctrl-C and progress work
UNDIVIDED = 20_000  # each call of `search` draws from all candidate pairs if there are not more than this
STRETCH = 2_500  # candidate pairs that one call draws from otherwise, so that their data stay in the cache


class ClusterWorld(World):
    r"""Records with features and a current clustering, whose score :math:`\Theta \cdot \phi` is updated move by move.

    Learn with `SampleRank().rank([world, ...])`, then search with `decode(world, weights)`. Worlds that share
    weights must have the same pair features, attributes and `model`.

    Parameters
    ----------
    pairs : PairFeatures
        Features of pairs of records.
    model : ClusterModel, optional
        Features of a clustering.
    attributes : dict name -> int array (n_records,), optional
        Integer codes of attributes for `agreement`, `all_equal` and `distinct`; -1 is unknown.
    numbers : dict name -> float array (n_records,), optional
        Numbers for `span`; NaN is unknown.
    constraints : Constraints, optional
        Must-link and cannot-link constraints.
    truth : int array (n_records,), optional
        True entity of each record, -1 where unknown; pairs with such a record are ignored. Needed for learning.
    metric : {"pairwise_f1", "b_cubed_f1", "pair_accuracy"}, PartitionMetric or function
        Performance metric F; a function of truth and labels is slow.
    proposer : SplitMerge or JumpProposer, optional
        Proposer of neighbouring clusterings. With a `JumpProposer`, such as `AdaptiveSplitMerge`, and with a
        user-defined metric, SampleRank runs in Python instead of compiled loops.
    start : int array (n_records,), optional
        Initial clustering; by default singletons, except for records joined by must-links.

    Examples
    --------
    Three records, of which 0 and 1 are similar. The score is the sum of 2 x similarity - 1 over pairs inside clusters.

    >>> from intarsia.clusters.cluster_model import pair_features
    >>> pairs = pair_features(3, [[0, 1], [0, 2], [1, 2]], [[0.9, 1], [0.2, 1], [0.3, 1]], ["similarity", "constant"])
    >>> world = ClusterWorld(pairs, truth=[5, 5, 8])
    >>> world.feature_names
    ('within similarity', 'within constant', 'absent')
    >>> move = world.merge(0, 1)
    >>> round(world.score_change(move, [2.0, -1.0, 0.0]), 3), world.performance_change(move)
    (0.8, 1.0)
    >>> world.apply(move)
    >>> world.labels.tolist(), world.performance()
    ([0, 0, 1], 1.0)
    """

    compiled: ClassVar[bool] = True
    decoders: ClassVar[Registry[Any]] = DECODERS
    result_type: ClassVar[type[Decoding]] = Clustering

    def __init__(
        self,
        pairs: PairFeatures,
        model: ClusterModel | None = None,
        *,
        attributes: Mapping[str, ArrayLike] | None = None,
        numbers: Mapping[str, ArrayLike] | None = None,
        constraints: Constraints | None = None,
        truth: ArrayLike | None = None,
        metric: str | PartitionMetric | MetricFunction = "pairwise_f1",
        proposer: SplitMerge | JumpProposer | None = None,
        start: ArrayLike | None = None,
    ) -> None:
        n = pairs.n_records
        attribute_codes = {
            name: self._per_record(codes, n, f"attributes[{name!r}]") for name, codes in (attributes or {}).items()
        }
        self.pairs = pairs
        self.table = (ClusterModel() if model is None else model).table(
            pairs.names, tuple(attribute_codes), tuple(numbers or {})
        )
        self.n_sites = n
        self.n_weights = len(self.feature_names)
        self.constraints = link_constraints(n) if constraints is None else constraints
        if self.constraints.n_records != n:
            raise InvalidInputError(
                f"ClusterWorld: constraints are for {self.constraints.n_records} records, but pairs has {n}. Build "
                f"them for the same records."
            )
        self.proposer: SplitMerge | JumpProposer = SplitMerge() if proposer is None else proposer
        self.truth = None if truth is None else self._per_record(truth, n, "truth")
        self.metric = resolve_metric(metric)
        self._constants = truth_constants(np.full(n, -1) if self.truth is None else self.truth)
        number_rows = [read_numbers(values, n, name) for name, values in (numbers or {}).items()]
        self._world = self._world_arrays(list(attribute_codes.values()), number_rows)
        self._state: kernels.State
        self._evaluated_move: Move | None = None
        self._proposer_arrays = ProposerArrays(pairs, self.table)
        labels = self.constraints.atom if start is None else self._per_record(start, n, "start")
        self._start = labels
        self.reset()

    # ---------------------------------------------------------------- state

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features."""
        return self.table.names

    @property
    def labels(self) -> IntArray:
        """Current cluster of each record, numbered by first occurrence."""
        return self.partition.labels

    @property
    def state(self) -> IntArray:
        """Current clustering: the labels; assigning labels resets the world to them."""
        return self.labels

    @state.setter
    def state(self, labels: ArrayLike) -> None:
        self.reset(labels)

    def reset(self, labels: ArrayLike | None = None) -> None:
        """Set the current clustering; by default the initial one."""
        new_labels = self._start if labels is None else self._per_record(labels, self.n_sites, "labels")
        with errors_in("ClusterWorld"):
            self.constraints.check(new_labels)
        self.partition = Partition(new_labels)
        self._state = self._make_state()
        self._undo_stack: list[Move] = []
        self._next_stretch = 0
        self.refresh()

    def refresh(self) -> None:
        """Recompute the statistics of all clusters, which removes the rounding errors of many updates."""
        kernels.rebuild(self._world, self._state)
        self._evaluated_move = None

    def restart(self, rng: np.random.Generator) -> None:
        """Go back to the initial clustering and clear the memory of proposers."""
        self.memory.clear()
        self.reset()

    def features(self) -> FloatArray:
        """Return the feature vector of the current clustering."""
        totals: FloatArray = self._state.phi[self.partition.clusters].sum(axis=0)
        kernels.between_totals(totals, self._world, self._state)
        return totals

    def performance(self) -> float:
        """Return the performance F of the current clustering."""
        truth = self._require_truth()
        if isinstance(self.metric, PartitionMetric):
            return self.metric.value(truth, self.partition)
        return float(kernels.measure(self._state.totals, kernels.NOW, self.metric, self._constants))

    # ---------------------------------------------------------------- moves

    def merge(self, i: int, j: int) -> Move:
        """Return the move that merges the clusters of two records."""
        a, b = self.partition.cluster_of(i), self.partition.cluster_of(j)
        small, large = (a, b) if self.partition.sizes[a] <= self.partition.sizes[b] else (b, a)
        return Move(self.partition.members(small), large)

    def is_allowed(self, move: Move) -> bool:
        """Return whether a move satisfies the constraints."""
        records = self.partition.check_move(move)
        groups = np.unique(self.constraints.atom[records])
        if np.diff(self.constraints.atom_ptr)[groups].sum() != records.size:
            return False
        self._state.lists[kernels.MOVED, : records.size] = records
        return bool(kernels.is_allowed(records.size, move.target, self._world, self._state))

    def propose(self, rng: np.random.Generator, weights: FloatArray) -> Move | None:
        """Return a proposed move that satisfies the constraints, or None."""
        if isinstance(self.proposer, JumpProposer):
            return self.proposer.propose(self, rng, weights if self.truth is None else None, weights)[0]
        proposer = self.proposer.arrays(self.pairs, self.table, weights)
        arrays = (self._world, self._state)
        n_moved, target, log_ratio, moves_one_atom = kernels.propose(rng, *arrays, proposer)
        if n_moved == 0 or not kernels.is_allowed(n_moved, target, *arrays):
            return None
        records = self._state.lists[kernels.MOVED, :n_moved].copy()
        self._evaluated_move = None
        if moves_one_atom:
            log_ratio = kernels.log_ratio_of_atom(n_moved, target, *arrays, proposer)
        return Move(records, target, log_ratio)

    def feature_change(self, move: Move) -> FloatArray:
        """Return the features after the move minus those before."""
        self._evaluate(move)
        return self._state.phi[-1].copy()

    def score_change(self, move: Move, weights: ArrayLike) -> float:
        """Return the score after the move minus that before."""
        return float(self.check_weights(weights) @ self.feature_change(move))

    def performance_change(self, move: Move) -> float:
        """Return the performance F after the move minus that before."""
        truth = self._require_truth()
        if isinstance(self.metric, PartitionMetric):
            return self.metric.change(truth, self.partition, move)
        self._evaluate(move)
        after = kernels.measure(self._state.totals, kernels.THEN, self.metric, self._constants)
        return float(after - kernels.measure(self._state.totals, kernels.NOW, self.metric, self._constants))

    def log_ratio(self, move: Move) -> float:
        """Return the log-probability of the reverse move minus that of the move, if `propose` computed it."""
        return move.log_ratio

    def apply(self, move: Move) -> None:
        """Apply the move; `undo` reverts it."""
        self._evaluate(move)
        source = self.partition.cluster_of(int(move.records[0]))
        source_remains = int(self.partition.sizes[source]) > move.records.size
        kernels.commit(move.records.size, move.target, self._state)
        self._evaluated_move = None
        self._undo_stack.append(Move(move.records, source if source_remains else -1))

    def undo(self) -> None:
        """Revert the last move made by `apply`."""
        if not self._undo_stack:
            raise InvalidInputError("ClusterWorld.undo: there is no move to revert. Call apply first.")
        self.apply(self._undo_stack.pop())
        self._undo_stack.pop()

    # ---------------------------------------------------------------- search and learning

    def walk(self, state: RankingState, n_steps: int, rng: np.random.Generator) -> None:
        """Run SampleRank (Rohanimanesh2009, Algorithm 1) for some proposals, compiled if the metric F is built in."""
        self._require_truth()
        if isinstance(self.metric, PartitionMetric) or not isinstance(self.proposer, SplitMerge):
            super().walk(state, n_steps, rng)
            return
        rules = (True, state.rule, state.rate, state.required, self.metric, self._constants, state.update_sums)
        settings = (state.weights, state.temperature, 1.0, False, state.walk, *rules, state.counters)
        while n_steps > 0:
            chunk = min(n_steps, CHUNK)
            self._run_kernel(chunk, rng, *settings, local=False)
            n_steps -= chunk

    def chunk_size(self, n_proposals: int) -> int:
        """Return the number of proposals of one call of `search`.

        Each call draws from one stretch of the pairs: with few proposals, shorter calls reach all stretches.
        """
        n_pairs = len(self.pairs.pairs)
        return CHUNK if n_pairs <= UNDIVIDED else min(CHUNK, max(1, STRETCH * n_proposals // n_pairs))

    def search(
        self, weights: FloatArray, n_steps: int, rng: np.random.Generator, temperature: float, cooling: float = 1.0
    ) -> tuple[float, IntArray]:
        """Search under fixed weights by hill climbing (temperature 0) or Metropolis-Hastings.

        Returns the change of the score, and counters. The temperature is multiplied by `cooling` before each proposal.
        Pass at most about 10,000 proposals, so that Ctrl-C takes effect soon. If there are more candidate pairs than
        the cache holds, each call draws from one stretch of them and the next call from the next stretch. No stretch
        depends on the clustering, so that Metropolis-Hastings stays exact.
        """
        counters, no_updates = np.zeros(6, dtype=np.int64), np.zeros((2, self.n_weights))
        rules = (False, kernels.PERCEPTRON, 1.0, 0.0, kernels.PAIRWISE_F1, self._constants, no_updates)
        arguments = (rng, weights, temperature, cooling, True, kernels.BY_MODEL, *rules, counters)
        return self._run_kernel(n_steps, *arguments, local=True), counters

    def agglomerate(self, weights: FloatArray, min_gain: float = 0.0) -> int:
        """Merge the best pair of clusters while the score grows by more than `min_gain`; return how many."""
        self._undo_stack, self._evaluated_move = [], None
        return int(kernels.agglomerate(weights, float(min_gain), self._world, self._state)[1])

    def allocate(
        self, rng: np.random.Generator, i: int, j: int, sequential: bool, proposer: kernels.Proposer
    ) -> tuple[float, IntArray]:
        """Divide the cluster of two records between them; return the log-probability and the smaller side.

        If the records are in two clusters, return the log-probability of dividing their union into these clusters;
        there is nothing to move then.
        """
        with errors_in("ClusterWorld.allocate"):
            check_sequential(sequential, proposer, len(self.pairs.pairs))
            self.constraints.check_different_atoms(i, j)
        log_probability, n_moved = kernels.allocate(rng, i, j, sequential, self._world, self._state, proposer)
        self._evaluated_move = None
        return float(log_probability), self._state.lists[kernels.MOVED, :n_moved].copy()

    def try_choices(
        self,
        choices: Choices,
        sampled_choices: IntArray,
        rng: np.random.Generator,
        sequential: bool,
        proposer: kernels.Proposer,
        score: FloatArray | None,
    ) -> tuple[FloatArray, Move | None]:
        """Return the value of each sampled split or merge, -inf if it is not allowed, and the best move.

        Indices count the splits first, then the merges; splits are divided at random. The value is the change of the
        score under the weights `score` or, without them, of the performance F, which must be a built-in metric.
        """
        check_sequential(sequential, proposer, len(self.pairs.pairs))
        values, records = np.empty(sampled_choices.size), np.empty(self.n_sites, dtype=np.int64)
        moves = (rng, sampled_choices, choices.splits, choices.merges, sequential, values)
        n_moved, target = kernels.try_choices(*moves, records, *self._values_by(score), proposer)
        return values, Move(records[:n_moved].copy(), int(target)) if n_moved else None

    def best_draw(
        self, n_draws: int, rng: np.random.Generator, proposer: kernels.Proposer, score: FloatArray | None = None
    ) -> tuple[Move | None, float]:
        """Return the best of some random moves of a `SplitMerge`, and its value as in `try_choices`; None if none."""
        records = np.empty(self.n_sites, dtype=np.int64)
        rule = (*self._values_by(score), proposer)
        n_moved, target, value = kernels.try_proposals(rng, n_draws if self.n_sites > 1 else 0, records, *rule)
        return Move(records[:n_moved].copy(), int(target)) if n_moved else None, float(value)

    def _values_by(self, score: FloatArray | None) -> tuple[Any, ...]:
        """Return the arguments with which the kernels value moves, by the score or by the performance F."""
        weights = np.zeros(self.n_weights) if score is None else self.check_weights(score)
        if score is None:
            self._require_truth()
        metric = kernels.PAIRWISE_F1 if isinstance(self.metric, PartitionMetric) else self.metric
        self._evaluated_move = None
        return score is not None, weights, metric, self._constants, self._world, self._state

    @contextmanager
    def proposing(self, proposer: SplitMerge | None) -> Iterator[None]:
        """Use another proposer inside a `with` block; None stands for the default proposer of the decoders."""
        previous = self.proposer
        self.proposer = SplitMerge(random=1.0, sequential=2.0, move_one=2.0) if proposer is None else proposer
        try:
            yield
        finally:
            self.proposer = previous

    def jump_proposer(self) -> JumpProposer:
        """Return the proposer of CEM-Decode if none is passed."""
        from intarsia.clusters.adaptive import AdaptiveSplitMerge  # here, because adaptive.py imports this module

        return AdaptiveSplitMerge(n_samples=20, max_iter=5, learn_every=1)

    def _run_kernel(
        self, n_steps: int, rng: np.random.Generator, weights: FloatArray, temperature: float, *rules: Any, local: bool
    ) -> float:
        """Run the compiled loop, with pairs of one stretch only if `local`; return the change of the score."""
        self._undo_stack, self._evaluated_move = [], None
        if not isinstance(self.proposer, SplitMerge):
            raise NotSupportedError(
                "ClusterWorld.search: the proposer is not a SplitMerge. Use CEMDecode, or set proposer=SplitMerge()."
            )
        proposer = self._proposer_arrays.of(self.proposer, weights)
        n_pairs = len(self.pairs.pairs)
        n_stretches = n_pairs // STRETCH if local and n_pairs > UNDIVIDED else 1
        bounds, index = np.linspace(0, n_pairs, n_stretches + 1).astype(np.int64), self._next_stretch % n_stretches
        proposer.numbers[[kernels.FIRST_PAIR, kernels.LAST_PAIR]] = bounds[index], bounds[index + 1]
        self._next_stretch += local
        if self.n_sites < 2:  # there is nothing to propose
            return 0.0
        setting = float(temperature), kernels.WalkRules(*rules), proposer
        return float(kernels.walk_partition(n_steps, rng, weights, *setting, self._world, self._state))

    # ---------------------------------------------------------------- preparation

    def _evaluate(self, move: Move) -> None:
        """Compute the changes of a move into the buffers, unless they are there already."""
        if self._evaluated_move is move:
            return
        records = self.partition.check_move(move)
        self._state.lists[kernels.MOVED, : records.size] = records
        kernels.evaluate(records.size, move.target, self._world, self._state)
        self._evaluated_move = move

    def _require_truth(self) -> IntArray:
        """Return the truth; raise if it was not set."""
        if self.truth is None:
            raise InvalidInputError("ClusterWorld: performance needs the truth. Pass truth= to ClusterWorld.")
        return self.truth

    @staticmethod
    def _per_record(values: ArrayLike, n: int, name: str) -> IntArray:
        """Return one integer per record as an array; raise if the shape is wrong."""
        codes = as_int_array(values, f"ClusterWorld: {name}")
        if codes.shape != (n,):
            raise InvalidInputError(
                f"ClusterWorld: {name} has shape {codes.shape}, but there are {n} records. Pass one integer per record."
            )
        return codes

    def _world_arrays(self, attributes: list[IntArray], numbers: list[FloatArray]) -> kernels.World:
        """Return the constant arrays that the kernels read."""
        pairs, links, n = self.pairs, self.constraints, self.pairs.n_records
        columns = [dense_codes(codes) for codes in attributes]
        inverse, truth_column = np.zeros(1), -1
        if self.truth is not None:
            truth_column = len(columns)
            columns.append(dense_codes(self.truth))
            labelled = columns[-1][columns[-1] >= 0]
            inverse = 1.0 / np.bincount(labelled) if labelled.size else inverse
        codes = np.stack(columns, axis=1) if columns else np.zeros((n, 0), dtype=np.int64)
        rows = np.full((kernels.N_OF_RECORD, n + 1), -1, dtype=np.int64)
        of_record = (pairs.ptr, links.atom, links.atom_ptr, links.atom_idx, links.cannot_ptr, links.source)
        for row, values in zip(rows, of_record, strict=True):
            row[: values.size] = values
        partners = np.stack([pairs.idx, pairs.row], dtype=index_dtype(max(n, len(pairs.pairs))), casting="same_kind")
        table = np.stack([self.table.kind.astype(np.float64), self.table.argument.astype(np.float64), self.table.level])
        levels = np.stack([self.table.count_column.astype(np.float64), self.table.count_level])
        has_must_links = links.atom_ptr.size < n + 1
        between = bool((self.table.kind >= kernels.BETWEEN).any())
        flags = np.array([pairs.complete, truth_column, links.source.size > 0, has_must_links, between], dtype=np.int64)
        number_columns = np.stack(numbers, axis=1) if numbers else np.zeros((n, 0))
        leading_arrays = (rows, partners, pairs.pairs, pairs.values, links.cannot_idx, codes, inverse, table, levels)
        arrays = (*leading_arrays, self.table.extreme_column, flags, number_columns)
        return kernels.World(*(frozen(np.ascontiguousarray(array)) for array in arrays))

    def _make_state(self) -> kernels.State:
        """Allocate the arrays that the kernels change."""
        n, d = self.pairs.n_records, self.pairs.n_features
        n_added = 2 + d + self._world.levels.shape[1] + 2 * self._world.codes.shape[1]
        n_stats = n_added + 2 * self.table.extreme_column.size
        lists = np.zeros((kernels.N_LISTS, n), dtype=index_dtype(n))
        stats, phi = np.zeros((n + kernels.N_SPARE_STATS, n_stats)), np.zeros((n + kernels.N_SPARE_PHI, self.n_weights))
        return kernels.State(self.partition.rows, lists, stats, phi, np.zeros((2, 4)), np.zeros((2, n + 1)))
