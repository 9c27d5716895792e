"""Explanations of an `EntityClusterer`: contributions of comparisons and of features of clusters that add up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia._core.validation import FloatArray, IntArray
from intarsia._files.tables import read_columns
from intarsia.clusters.cluster_features.feature_world import make_feature_world
from intarsia.clusters.cluster_model import pair_features
from intarsia.clusters.comparisons import compare_pairs
from intarsia.clusters.components import Links
from intarsia.clusters.database.stored_tables import StoredTables
from intarsia.clusters.entity_worlds import MATCH, TrainedWeights, world_values
from intarsia.clusters.fellegi_sunter.pair_model import FellegiSunter
from intarsia.clusters.linkage.fitting import trained_weights
from intarsia.clusters.linkage.inputs import SIDES, SidedId
from intarsia.clusters.linkage.prediction import LAST_CALLS, LastCall, PreparedPairs, decided_way, entities_of_records
from intarsia.clusters.linkage.resolved import edge_resolution
from intarsia.clusters.linkage.training import AGGLOMERATION, RESOLVE, start_weights, take_records
from intarsia.clusters.matcher import PairMatcher
from intarsia.clusters.record_pairs import RecordPairs
from intarsia.clusters.resolution.explain import PRIOR, explain_entity, explain_pair, linked_obstacle, pair_constraint
from intarsia.clusters.resolution.explanations import (
    Contribution,
    EntityExplanation,
    EntityNeighbour,
    EntitySplit,
    PairExplanation,
)
from intarsia.clusters.resolution.resolve import Resolution, resolve
from intarsia.clusters.resolution.scored_pairs import ScoredPairs
from intarsia.clusters.tables import check_id
from intarsia.clusters.world import ClusterWorld
from intarsia.exceptions import InvalidInputError

if TYPE_CHECKING:
    from intarsia.clusters.entity_clusterer import EntityClusterer

CLIPPING = "clipping"
_SPLIT_RECORDS = 8  # largest entity whose splits are all tried
_NEIGHBOURS = 20  # other entities that are tried


@dataclass(frozen=True, eq=False)
class ExplainedRecords:
    """Records that a fitted model has clustered, with what is needed to explain the result.

    Attributes
    ----------
    model : EntityClusterer
        Fitted model.
    tables : list
        The table of records, or both tables.
    pairs : PreparedPairs
        Records with candidate pairs, log odds and constraints.
    """

    model: EntityClusterer
    tables: list[Any]
    pairs: PreparedPairs

    @property
    def records(self) -> RecordPairs:
        """Records and their candidate pairs."""
        return self.pairs[0]

    @property
    def links(self) -> Links:
        """Constraints on pairs of records, and sources."""
        return self.pairs[2]

    @cached_property
    def names(self) -> list[Any]:
        """Id of the first row of each record; with two tables a pair of table and id."""
        return [_plain(self.records.name(record)) for record in range(self.records.n_records)]

    @cached_property
    def shift(self) -> float:
        """Constant that `resolve` adds to the log odds, chosen in training with labels."""
        return self.model.shift_ if decided_way(self.model) == RESOLVE else 0.0

    @cached_property
    def resolution(self) -> Resolution:
        """Result of `resolve` with the ids of the records."""
        links = self.links
        source = None
        if links.source is not None:
            codes = links.source.tolist()
            source = {name: code for name, code in zip(self.names, codes, strict=True) if code >= 0}
        return resolve(
            ScoredPairs(self.names, self.records.pairs, self.pairs[1] + self.shift, None, "log_odds", 0),
            source=source,
            must_link=[tuple(self.names[end] for end in pair) for pair in links.must.tolist()],
            cannot_link=[tuple(self.names[end] for end in pair) for pair in links.cannot.tolist()],
        )

    @cached_property
    def labels(self) -> IntArray:
        """Entity of each record: the number of its first record."""
        labels = entities_of_records(self.model, self.pairs)
        first = np.full(int(labels.max(initial=-1)) + 1, len(labels), dtype=np.int64)
        np.minimum.at(first, labels, np.arange(len(labels)))
        return first[labels]

    def record(self, name: Any, side: int | None = None) -> int:
        """Return the record of a row by its id; of two tables, of the table `side`, or the only one with this id."""
        row_ids = [name]
        if len(self.tables) == 2:
            if isinstance(name, tuple) and len(name) == 2 and name[0] in SIDES:
                row_ids = [SidedId(*name)]
            else:
                row_ids = [SidedId(SIDES[k], name) for k in ((0, 1) if side is None else (side,))]
        known_ids = [row_id for row_id in row_ids if row_id in self._ids]
        if len(known_ids) > 1:
            raise InvalidInputError(
                f"both tables have a record with id {name!r:.60}. Pass ('left', {name!r:.60}) or ('right', "
                f"{name!r:.60})."
            )
        if not known_ids:
            table = f" in the {SIDES[side]} table" if len(self.tables) == 2 and side is not None else ""
            example = _plain(self.records.ids[0]) if self.records.ids else None
            raise InvalidInputError(
                f"there is no record with id {name!r:.60}{table}. Use ids of the records, such as {example!r:.60}."
            )
        return int(self.records.find(known_ids, "ids")[0])

    @cached_property
    def _ids(self) -> set[Any]:
        return set(self.records.ids)

    def rows_of(self, record: int) -> list[Any]:
        """Return the ids of all rows of a record."""
        return [_plain(self.records.ids[row]) for row in np.flatnonzero(self.records.record_of == record)]

    def pair_terms(self, rows: IntArray) -> list[dict[str, float]]:
        """Return the contributions of the comparisons to the log odds of candidate pairs, by their rows."""
        model, records = self.model, self.records
        if not len(rows):
            return []
        ends = records.first_row[records.pairs[rows]]
        input_rows, position = np.unique(ends, return_inverse=True)
        position = position.reshape(-1, 2)
        features = records.values[rows]
        table = None
        if model.comparisons_:
            with StoredTables(self.tables) as stored_tables:
                table = stored_tables.take(input_rows)
            if not features.shape[1]:  # the database compared the records
                features = compare_pairs(table, model.comparisons_, position[:, 0], position[:, 1])
        if isinstance(model.matcher_, FellegiSunter) and table is not None:
            matrix = model.matcher_.contributions(table, features, position)
            names = [f"{column} {comparison.name}" for column, comparison in model.comparisons_]
            constant = math.log(model.matcher_.prior) - math.log1p(-model.matcher_.prior)
        else:
            matrix, names = self._weighted(features)
            constant = model.matcher_.intercept
        terms = []
        for row, values in zip(rows.tolist(), matrix.tolist(), strict=True):
            by_name = {PRIOR: constant, **dict(zip(names, values, strict=True))}
            rest = float(self.pairs[1][row]) - math.fsum(by_name.values())
            if abs(rest) > 1e-9:
                by_name[CLIPPING] = rest
            if self.shift:
                by_name["shift of all log odds"] = self.shift
            terms.append(by_name)
        return terms

    def _weighted(self, features: FloatArray) -> tuple[FloatArray, list[str]]:
        """Return the contributions of logistic regression, summed over the features of each comparison."""
        weighted = features * self.model.matcher_.weights
        if not self.model.comparisons_:
            return weighted, list(self.model.feature_names_)
        names, columns, begin = [], [], 0
        for column, comparison in self.model.comparisons_:
            end = begin + len(comparison.feature_names(column))
            names.append(f"{column} {comparison.name}")
            columns.append(weighted[:, begin:end].sum(axis=1))
            begin = end
        return np.column_stack(columns), names

    def rows_within(self, members: IntArray) -> IntArray:
        """Return the rows of the candidate pairs of which both records are members."""
        is_member = np.zeros(self.records.n_records, dtype=bool)
        is_member[members] = True
        return np.flatnonzero(is_member[self.records.pairs].all(axis=1))


def explain_records(
    model: EntityClusterer, first: Any, second: Any, call: tuple[Any, ...]
) -> PairExplanation | EntityExplanation:
    """Explain two records, or the entity of one if `second` is None.

    Parameters
    ----------
    model : EntityClusterer
        Fitted model.
    first, second : ids
        Records.
    call : tuple
        X, right, edges, must_link, cannot_link; if X is None, those of the last prediction.
    """
    for name in (first, second):
        check_id(name, "explain(first, second, X=records)")
    last_call = LastCall(call)
    if call[0] is None:
        if model not in LAST_CALLS:
            raise InvalidInputError(
                "there is no earlier prediction of this object to explain. Pass the records as X=, or call predict "
                "first."
            )
        last_call = LAST_CALLS[model]
    X, right, edges, must_link, cannot_link = last_call.arguments or call
    if edges is not None and not isinstance(getattr(model, "matcher_", None), PairMatcher):
        return _explain_edges(model, last_call, first, second)
    if last_call.data is None:
        pairs = model._prepare(X, right, edges, must_link, cannot_link)
        last_call.data = ExplainedRecords(model, [X] if right is None else [X, right], pairs)
    return explain_one(last_call.data, first) if second is None else explain_two(last_call.data, first, second)


def _explain_edges(
    model: EntityClusterer, last_call: LastCall, first: Any, second: Any
) -> PairExplanation | EntityExplanation:
    """Explain entities of scored pairs without labels; the comparisons of Splink's pairs are included."""
    if last_call.data is None:
        last_call.data = edge_resolution(model, *(last_call.arguments or ()))
    edges = (last_call.arguments or ())[2]
    columns = read_columns(edges) or {}
    has_comparisons = any(str(name).startswith(("mw_", "bf_")) for name in columns)
    explanation: PairExplanation | EntityExplanation = last_call.data.explain(
        first, second, edges=edges if has_comparisons else None
    )
    return explanation


def explain_two(data: ExplainedRecords, first: Any, second: Any) -> PairExplanation:
    """Explain the log odds of two records."""
    numbers = [data.record(first, 0), data.record(second, 1)]
    if numbers[0] == numbers[1]:
        if first == second:
            raise InvalidInputError(
                f"both records are {first!r:.60}. Pass two different records, or one id to explain its entity."
            )
        name = data.names[int(data.labels[numbers[0]])]
        return PairExplanation(first, second, 0.0, (), (name, name), False, "equal rows")
    names = [data.names[number] for number in numbers]
    if decided_way(data.model) == RESOLVE:
        return explain_pair(data.resolution, names[0], names[1], _terms_by_id(data))
    low, high = sorted(numbers)
    rows = np.flatnonzero((data.records.pairs == (low, high)).all(axis=1))
    terms = data.pair_terms(rows)
    contributions = [Contribution(name, value) for name, value in (terms[0] if terms else {}).items()]
    if not terms:
        weights = _trained(data)
        contributions = [Contribution("pair without a score", _weight_of(weights, "absent"))]
    entities = [data.names[int(data.labels[number])] for number in numbers]
    return PairExplanation(
        names[0],
        names[1],
        math.fsum(item.log_odds for item in contributions),
        tuple(contributions),
        (entities[0], entities[1]),
        bool(terms),
        pair_constraint(data.links, low, high),
    )


def explain_one(data: ExplainedRecords, name: Any) -> EntityExplanation:
    """Explain the entity of a record."""
    number = data.record(name)
    if decided_way(data.model) == RESOLVE:
        explanation = explain_entity(data.resolution, data.names[number], _terms_by_id(data))
    else:
        explanation = _explain_by_features(data, number)
    number_of = {record_name: k for k, record_name in enumerate(data.names)}
    rows = [row for record_name in explanation.records for row in data.rows_of(number_of[record_name])]
    return replace(explanation, records=tuple(rows))


def _terms_by_id(data: ExplainedRecords) -> Any:
    """Return the function of ids that computes the contributions of the comparisons."""

    def terms(ids: set[Any]) -> dict[frozenset[Any], list[dict[str, float]]]:
        members = np.array([k for k, name in enumerate(data.names) if name in ids], dtype=np.int64)
        rows = data.rows_within(members)
        keys = [frozenset(data.names[end] for end in pair) for pair in data.records.pairs[rows].tolist()]
        return {key: [by_name] for key, by_name in zip(keys, data.pair_terms(rows), strict=True)}

    return terms


def _explain_by_features(data: ExplainedRecords, number: int) -> EntityExplanation:
    """Explain an entity under learned weights of features of clusters, or under those of greedy merging."""
    trained = _trained(data)
    members = np.flatnonzero(data.labels == data.labels[number])
    world = _world(data, trained, members)
    weighted = trained.weights * world.features()
    contributions = []
    rows = data.rows_within(members)
    for name, value in zip(trained.feature_names, weighted.tolist(), strict=True):
        if name == f"within {MATCH}":
            weight = _weight_of(trained, name)
            sums: dict[str, list[float]] = {}
            for terms in data.pair_terms(rows):
                for comparison, log_odds in terms.items():
                    sums.setdefault(comparison, []).append(weight * log_odds)
            contributions += [Contribution(comparison, math.fsum(values)) for comparison, values in sums.items()]
        elif value:
            contributions.append(Contribution(name, value))
    score = math.fsum(item.log_odds for item in contributions)
    names = [data.names[record] for record in members.tolist()]
    attachments = dict.fromkeys(names, 0.0)
    if len(members) > 1:
        attachments = {name: _split_cost(world, trained, [k]) for k, name in enumerate(names)}
    return EntityExplanation(
        names[0],
        tuple(names),
        score,
        tuple(contributions),
        attachments,
        _cheapest_split(world, trained, names, attachments),
        _nearest(data, trained, members),
    )


def _trained(data: ExplainedRecords) -> TrainedWeights:
    """Return the weights of the features of clusters by which entities were decided."""
    trained = trained_weights(data.model, data.records)
    if decided_way(data.model) == AGGLOMERATION:
        return replace(trained, weights=start_weights(trained.feature_names))
    return trained


def _weight_of(trained: TrainedWeights, name: str) -> float:
    """Return the weight of a feature, 0 if the model does not have it."""
    return float(trained.weights[trained.feature_names.index(name)]) if name in trained.feature_names else 0.0


def _world(data: ExplainedRecords, trained: TrainedWeights, members: IntArray) -> ClusterWorld:
    """Return a world of some records, all in one cluster."""
    subset = take_records(data.records, members)
    values = world_values(subset, data.pairs[1][data.rows_within(members)], trained.features)
    return make_feature_world(
        pair_features(len(members), subset.pairs, values, trained.names),
        trained.model,
        trained.cluster_features,
        subset.columns,
        start=np.zeros(len(members), dtype=np.int64),
    )


def _split_cost(world: ClusterWorld, trained: TrainedWeights, second: Sequence[int]) -> float:
    """Return the loss of the score if some records become an entity of their own."""
    world.reset()
    together = world.score(trained.weights)
    labels = np.zeros(world.n_sites, dtype=np.int64)
    labels[list(second)] = 1
    world.reset(labels)
    score_apart = world.score(trained.weights)
    world.reset()
    return together - score_apart


def _cheapest_split(
    world: ClusterWorld, trained: TrainedWeights, names: list[Any], attachments: dict[Any, float]
) -> EntitySplit | None:
    """Return the cheapest split; of a large entity, the cheapest split of a single record."""
    n = len(names)
    if n < 2:
        return None
    if n > _SPLIT_RECORDS:
        weakest = min(attachments, key=attachments.__getitem__)
        rest = tuple(name for name in names if name != weakest)
        return EntitySplit(attachments[weakest], rest, (weakest,), False)
    best: tuple[float, list[int]] | None = None
    for code in range(1, 2 ** (n - 1)):
        second = [k + 1 for k in range(n - 1) if code >> k & 1]
        cost = _split_cost(world, trained, second)
        if best is None or cost < best[0]:
            best = (cost, second)
    cost, second = best or (0.0, [])
    first = tuple(name for k, name in enumerate(names) if k not in second)
    return EntitySplit(cost, first, tuple(names[k] for k in second), True)


def _nearest(data: ExplainedRecords, trained: TrainedWeights, members: IntArray) -> EntityNeighbour | None:
    """Return the other entity whose joining costs least, among those with the best candidate pairs."""
    label = int(data.labels[members[0]])
    of_ends = data.labels[data.records.pairs]
    rows = np.flatnonzero((of_ends == label).any(axis=1) & (of_ends[:, 0] != of_ends[:, 1]))
    rows = rows[np.argsort(-data.pairs[1][rows], kind="stable")]
    others = list(dict.fromkeys(int(ends.sum() - label) for ends in of_ends[rows]))[:_NEIGHBOURS]
    best: EntityNeighbour | None = None
    for other in others:
        other_members = np.flatnonzero(data.labels == other)
        all_members = np.sort(np.concatenate([members, other_members]))
        world = _world(data, trained, all_members)
        gain = _split_cost(world, trained, np.flatnonzero(np.isin(all_members, other_members)).tolist())
        obstacle = linked_obstacle(data.links, members, other_members)
        neighbour = EntityNeighbour(data.names[other], -gain, obstacle)
        if best is None or (bool(obstacle), neighbour.cost) < (bool(best.obstacle), best.cost):
            best = neighbour
    return best


def _plain(name: Any) -> Any:
    """Return an id as users write it; with two tables a pair of table and id."""
    return tuple(name) if isinstance(name, SidedId) else name
