"""Worlds with features of clusters: built-in ones in the kernels, user-written ones in Python loops."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np

from intarsia._core.settings import clone
from intarsia._core.validation import FloatArray, IntArray
from intarsia.clusters.cluster_features.cluster_feature import (
    AllEqual,
    ClusterFeature,
    DistinctValues,
    NoKnownValue,
    PairAggregate,
    Span,
    value_codes,
    value_numbers,
)
from intarsia.clusters.cluster_model import ClusterModel, PairFeatures
from intarsia.clusters.partition import Move
from intarsia.clusters.world import ClusterWorld
from intarsia.exceptions import IntarsiaError, InvalidInputError, NotSupportedError
from intarsia.worlds.ranking import RankingState
from intarsia.worlds.world import World

_CHECKED_MOVES = 50  # for which the changes of user-written features are compared with their values
_CODED = (AllEqual, DistinctValues, NoKnownValue)  # read codes of the values
_BUILT_IN = (*_CODED, Span, PairAggregate)


def model_with(model: ClusterModel, features: Sequence[ClusterFeature]) -> ClusterModel:
    """Return a copy of a cluster model with the built-in features added.

    Examples
    --------
    >>> model_with(ClusterModel(), [Span("year")]).span
    ['year']
    """
    extended: ClusterModel = clone(model)
    for feature in features:
        if isinstance(feature, PairAggregate):
            feature.check()
            present = getattr(extended, feature.how)
            if feature.how in ("exists", "for_all"):
                added: Any = {**(present if isinstance(present, dict) else {}), feature.feature: float(feature.level)}
            else:
                columns = [] if present is None else [present] if isinstance(present, str) else list(present)
                added = columns if feature.feature in columns or "all" in columns else [*columns, feature.feature]
            extended.set_params(**{feature.how: added})
        elif isinstance(feature, _BUILT_IN):
            columns = list(getattr(extended, feature.setting) or ())
            added = columns if feature.column in columns else [*columns, feature.column]
            extended.set_params(**{feature.setting: added})
    return extended


def written_features(features: Sequence[ClusterFeature]) -> list[ClusterFeature]:
    """Return the features that a user wrote; raise if one is not a ClusterFeature or two have one name."""
    for feature in features:
        if not isinstance(feature, ClusterFeature):
            raise InvalidInputError(
                f"cluster_features has a {type(feature).__name__}; expected ClusterFeature objects such as "
                f"Span('year'). Derive your class from ClusterFeature."
            )
    labels = [feature.label for feature in features]
    repeated = next((label for label in labels if labels.count(label) > 1), None)
    if repeated is not None:
        raise InvalidInputError(f"cluster_features has {repeated!r} twice. Give each feature a name of its own.")
    return [feature for feature in features if not isinstance(feature, _BUILT_IN)]


def feature_names(
    model: ClusterModel, pair_names: Sequence[str], features: Sequence[ClusterFeature]
) -> tuple[str, ...]:
    """Return the names of all features of a clustering."""
    columns = [feature.column for feature in features if isinstance(feature, _CODED)]
    numbers = [feature.column for feature in features if isinstance(feature, Span)]
    table = model_with(model, features).table(pair_names, list(dict.fromkeys(columns)), list(dict.fromkeys(numbers)))
    return (*table.names, *(feature.label for feature in written_features(features)))


def make_feature_world(
    pairs: PairFeatures,
    model: ClusterModel,
    features: Sequence[ClusterFeature],
    columns: Mapping[str, list[Any]],
    **settings: Any,
) -> ClusterWorld:
    """Build a world with features of clusters; `columns` has the values of each record."""
    python_features = written_features(features)
    if not features:
        return ClusterWorld(pairs, model, **settings)
    attributes = {f.column: value_codes(columns[f.column]) for f in features if isinstance(f, _CODED)}
    numbers = {f.column: value_numbers(columns[f.column]) for f in features if isinstance(f, Span)}
    settings |= {"attributes": attributes, "numbers": numbers}
    extended = model_with(model, features)
    if python_features:
        return FeatureWorld(pairs, extended, python_features=python_features, columns=columns, **settings)
    return ClusterWorld(pairs, extended, **settings)


class FeatureWorld(ClusterWorld):
    """World whose score includes features that a user wrote; its loops run in Python.

    Parameters
    ----------
    pairs, model
        As in `ClusterWorld`.
    python_features : list of ClusterFeature
        Features of clusters.
    columns : dict of str -> list
        Values of each record.
    **settings
        Further parameters of `ClusterWorld`.
    """

    compiled: ClassVar[bool] = False

    def __init__(
        self,
        pairs: PairFeatures,
        model: ClusterModel | None = None,
        *,
        python_features: Sequence[ClusterFeature],
        columns: Mapping[str, list[Any]],
        **settings: Any,
    ) -> None:
        self.python_features = list(python_features)
        self.columns = columns
        self._n_checks = 0
        super().__init__(pairs, model, **settings)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features."""
        return (*self.table.names, *(feature.label for feature in self.python_features))

    def refresh(self) -> None:
        """Recompute the statistics and features of all clusters."""
        super().refresh()
        for slot in self.partition.clusters:
            self._state.phi[slot, len(self.table.names) :] = self._values(self.partition.members(slot))

    def propose(self, rng: np.random.Generator, weights: FloatArray) -> Move | None:
        """Return a proposed move that satisfies the constraints, or None."""
        return super().propose(rng, weights[: len(self.table.names)])

    def walk(self, state: RankingState, n_steps: int, rng: np.random.Generator) -> None:
        """Run SampleRank for some proposals, in Python."""
        self._require_truth()
        World.walk(self, state, n_steps, rng)

    def search(
        self, weights: FloatArray, n_steps: int, rng: np.random.Generator, temperature: float, cooling: float = 1.0
    ) -> tuple[float, IntArray]:
        """Search under fixed weights by hill climbing (temperature 0) or Metropolis-Hastings, in Python."""
        result = World.search(self, weights, n_steps if self.n_sites > 1 else 0, rng, temperature, cooling)
        self._undo_stack.clear()
        return result

    def agglomerate(self, weights: FloatArray, min_gain: float = 0.0) -> int:
        """Merge the best pair of clusters while the score grows by more than `min_gain`; return how many."""
        heap: list[tuple[float, int, int]] = []
        for i, j in self.pairs.pairs.tolist():
            self._push(heap, i, j, weights, min_gain)
        n_merges = 0
        while heap:
            gain, i, j = heapq.heappop(heap)
            move = self._merge_of(i, j)
            if move is None:
                continue
            current = self.score_change(move, weights)
            if current <= min_gain:
                continue
            if current < -gain - 1e-9:  # another merge has changed the gain since
                heapq.heappush(heap, (-current, i, j))
                continue
            self.apply(move)
            n_merges += 1
            for r in self.partition.members(self.partition.cluster_of(i)).tolist():
                for other in self.pairs.idx[self.pairs.ptr[r] : self.pairs.ptr[r + 1]].tolist():
                    self._push(heap, r, other, weights, min_gain)
        self._undo_stack.clear()
        return n_merges

    def try_choices(self, *arguments: Any, **settings: Any) -> Any:
        """Raise, because adaptive proposers run compiled code that cannot call features in Python."""
        raise NotSupportedError(
            "adaptive proposers do not support features that a user wrote. Use SplitMerge, or built-in features."
        )

    def best_draw(self, *arguments: Any, **settings: Any) -> Any:
        """Raise, because the compiled draws cannot call features in Python."""
        return self.try_choices()

    def _merge_of(self, i: int, j: int) -> Move | None:
        """Return the move that merges the clusters of two records, or None if there is none that is allowed."""
        if self.partition.cluster_of(i) == self.partition.cluster_of(j):
            return None
        move = self.merge(i, j)
        return move if self.is_allowed(move) else None

    def _push(self, heap: list[tuple[float, int, int]], i: int, j: int, weights: FloatArray, min_gain: float) -> None:
        """Add the merge of two records' clusters to the heap if it raises the score."""
        move = self._merge_of(i, j)
        if move is not None:
            gain = self.score_change(move, weights)
            if gain > min_gain:
                heapq.heappush(heap, (-gain, i, j))

    def _evaluate(self, move: Move) -> None:
        """Compute the changes of a move; the values of the two changed clusters are stored for `apply`."""
        if self._evaluated_move is move:
            return
        super()._evaluate(move)
        n, phi, first = self.n_sites, self._state.phi, len(self.table.names)
        records = np.asarray(move.records)
        source = self.partition.cluster_of(int(records[0]))
        rest = np.setdiff1d(self.partition.members(source), records)
        phi[n, first:] = self._values_after(phi[source, first:], records, rest, False) if rest.size else 0.0
        if move.target < 0:
            phi[n + 1, first:] = self._values(records)
        else:
            members = self.partition.members(move.target)
            phi[n + 1, first:] = self._values_after(phi[move.target, first:], records, members, True)
        phi[-1, first:] = phi[n + 1, first:] + phi[n, first:] - phi[source, first:]
        if move.target >= 0:
            phi[-1, first:] -= phi[move.target, first:]
        self._n_checks += 1

    def _values_after(self, before: FloatArray, records: IntArray, rest: IntArray, is_added: bool) -> FloatArray:
        """Return the values of a cluster after records joined or left it; features with `change` compute the change."""
        with_change = [
            k for k, item in enumerate(self.python_features) if type(item).change is not ClusterFeature.change
        ]
        after = np.concatenate([rest, records]) if is_added else rest
        others = [k for k in range(len(self.python_features)) if k not in with_change]
        values = np.empty(len(self.python_features))
        values[others] = self._values(after, others)
        moved_rows, rest_rows = np.sort(records).tolist(), np.sort(rest).tolist()
        for k in with_change:
            feature = self.python_features[k]
            moved_columns = {name: [self.columns[name][row] for row in moved_rows] for name in feature.columns}
            with _errors_of(feature, "change"):
                change = feature.change(
                    float(before[k]), moved_columns, _LazyColumns(self.columns, rest_rows), is_added
                )
            if change is None:
                values[k] = self._values(after, [k])[0]
                continue
            values[k] = float(before[k]) + float(change)
            if self._n_checks < _CHECKED_MOVES:
                expected = float(self._values(after, [k])[0])
                if not abs(values[k] - expected) <= 1e-6 * max(1.0, abs(expected)):
                    raise InvalidInputError(
                        f"cluster feature {feature.label!r}: change gives {values[k]:g} after records {moved_rows[:5]} "
                        f"{'joined' if is_added else 'left'} records {rest_rows[:5]}, but value gives {expected:g}. "
                        f"Correct its method change, or remove it."
                    )
                values[k] = expected
        return values

    def _values(self, records: IntArray, selected: Sequence[int] | None = None) -> FloatArray:
        """Return the values of all features of a cluster, or of some; exceptions become InvalidInputError."""
        rows = np.sort(records).tolist()
        features = self.python_features if selected is None else [self.python_features[k] for k in selected]
        values = np.empty(len(features))
        for k, feature in enumerate(features):
            columns = {name: [self.columns[name][row] for row in rows] for name in feature.columns}
            with _errors_of(feature, "value"):
                values[k] = float(feature.value(columns))
            if not np.isfinite(values[k]):
                raise InvalidInputError(
                    f"cluster feature {feature.label!r} returned {values[k]} for records {rows[:5]}. Make its method "
                    f"value return a finite number."
                )
        return values


class _LazyColumns(Mapping[str, list[Any]]):
    """Columns of some rows; a column is collected when it is read."""

    def __init__(self, columns: Mapping[str, list[Any]], rows: list[int]) -> None:
        self._columns, self._rows = columns, rows

    def __getitem__(self, name: str) -> list[Any]:
        values = self._columns[name]
        return [values[row] for row in self._rows]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


@contextmanager
def _errors_of(feature: ClusterFeature, method: str) -> Iterator[None]:
    """Raise exceptions of a user's method as InvalidInputError with the name of the feature."""
    try:
        yield
    except IntarsiaError:
        raise
    except Exception as error:
        raise InvalidInputError(
            f"cluster feature {feature.label!r} raised {type(error).__name__}: {error}. Correct its method {method}, "
            f"which is called with the values of the records of a cluster, None where missing."
        ) from error
