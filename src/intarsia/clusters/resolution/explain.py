"""Explain entities: contributions in log odds that add up, the cheapest split, and the nearest other entity."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia._core.error_context import errors_from, errors_in
from intarsia._core.validation import IntArray
from intarsia._files.tables import TABLES, is_parquet, read_columns
from intarsia.clusters.components import Links
from intarsia.clusters.resolution.database_pairs import open_pairs
from intarsia.clusters.resolution.explanations import (
    Contribution,
    EntityExplanation,
    EntityNeighbour,
    EntitySplit,
    PairExplanation,
)
from intarsia.clusters.resolution.pair_columns import (
    PairColumns,
    choose_pair_columns,
    in_type_of,
    kind_of_column,
    plain_list,
)
from intarsia.clusters.resolution.splits import EntityGraph
from intarsia.clusters.tables import check_id
from intarsia.exceptions import InvalidInputError

if TYPE_CHECKING:
    from intarsia.clusters.resolution.resolve import Resolution

PRIOR = "prior"
_REST = "joined rows and clipping"
# Prefix of Splink's columns for each comparison -> natural logarithm of the factor of the odds.
_PREFIXES = {"mw_": lambda weight: weight * math.log(2.0), "bf_": math.log}


# Function of ids: log odds of each comparison for the pairs of these records, by pair of ids; rows of a pair in a list.
PairTerms = Callable[[set[Any]], dict[frozenset[Any], list[dict[str, float]]]]


@errors_from("Resolution.explain")
def explain(resolution: Resolution, first: Any, second: Any, edges: Any) -> PairExplanation | EntityExplanation:
    """Explain the log odds of a pair of records, or the entity of one record if `second` is None."""
    terms = None if edges is None else partial(_read_comparisons, edges, resolution.pairs.columns)
    return (
        explain_entity(resolution, first, terms) if second is None else explain_pair(resolution, first, second, terms)
    )


def explain_pair(resolution: Resolution, first: Any, second: Any, terms: PairTerms | None) -> PairExplanation:
    """Explain the log odds of a pair of records; `terms` computes the contributions of the comparisons."""
    ends = [_record(resolution, name) for name in (first, second)]
    if ends[0] == ends[1]:
        raise InvalidInputError(
            f"both records are {first!r}. Pass two different records, or one id to explain its entity."
        )
    low, high = sorted(ends)
    row = _pair_row(resolution, low, high)
    contributions = _pair_contributions(resolution, row)
    if terms is not None:
        comparisons = terms({first, second})
        contributions = _with_comparisons(contributions, comparisons.get(frozenset((first, second)), []))
    entities = tuple(resolution.pairs.entity_names[resolution.labels[end]] for end in ends)
    return PairExplanation(
        first,
        second,
        math.fsum(item.log_odds for item in contributions),
        tuple(contributions),
        (entities[0], entities[1]),
        row is not None,
        pair_constraint(resolution.links, low, high),
    )


def explain_entity(resolution: Resolution, name: Any, terms: PairTerms | None) -> EntityExplanation:
    """Explain why the records of an entity are together; `terms` computes the contributions of the comparisons."""
    ids = resolution.pairs.ids
    first_record = int(resolution.labels[_record(resolution, name)])
    members = np.flatnonzero(resolution.labels == first_record)
    records = tuple(ids[record] for record in members)
    graph = EntityGraph(resolution)
    entity = int(np.searchsorted(graph.first_record, first_record))
    attachments = dict.fromkeys(records, resolution.calibration.absent * (len(records) - 1))
    pairs, calibration = resolution.pairs, resolution.calibration
    inside = np.flatnonzero((resolution.labels[pairs.pairs] == first_record).all(axis=1))
    log_odds = resolution.log_odds[inside]
    by_pair = []
    for (a, b), value in zip(pairs.pairs[inside].tolist(), log_odds.tolist(), strict=True):
        by_pair.append(Contribution(f"{ids[a]!r} - {ids[b]!r}", value))
        attachments[ids[a]] += value - calibration.absent
        attachments[ids[b]] += value - calibration.absent
    contributions = by_pair
    if terms is not None:
        comparisons = terms(set(records))
        contributions = _summed(
            _with_comparisons(
                _pair_contributions(resolution, int(row)),
                comparisons.get(frozenset(ids[record] for record in pairs.pairs[row].tolist()), []),
            )
            for row in inside
        )
    n_absent = len(records) * (len(records) - 1) // 2 - len(inside)
    if n_absent:
        contributions.append(Contribution(f"{n_absent} pairs without a score", n_absent * calibration.absent))
    return EntityExplanation(
        resolution.pairs.entity_names[first_record],
        records,
        math.fsum(item.log_odds for item in contributions),
        tuple(contributions),
        attachments,
        _named_split(graph, entity, members, ids),
        _nearest_entity(resolution, graph, entity),
    )


def _named_split(graph: EntityGraph, entity: int, members: IntArray, ids: list[Any]) -> EntitySplit | None:
    """Return the cheapest split with the ids of the records."""
    split = graph.cheapest_split(entity)
    if split is None:
        return None
    second_nodes = set(graph.nodes(entity)[split.side].tolist())
    sides: tuple[list[Any], list[Any]] = ([], [])
    for record in members:
        sides[int(graph.node_of[record]) in second_nodes].append(ids[record])
    return EntitySplit(split.cost, tuple(sides[0]), tuple(sides[1]), split.exact)


def _nearest_entity(resolution: Resolution, graph: EntityGraph, entity: int) -> EntityNeighbour | None:
    """Return the other entity whose joining costs least; an allowed one is preferred."""
    entities, gains = graph.join_gains()
    rows = np.flatnonzero((entities == entity).any(axis=1))
    best: EntityNeighbour | None = None
    for row in rows[np.argsort(-gains[rows], kind="stable")]:
        other = int(entities[row].sum() - entity)
        obstacle = join_obstacle(resolution, graph, entity, other)
        neighbour = EntityNeighbour(
            resolution.pairs.entity_names[graph.first_record[other]], -float(gains[row]), obstacle
        )
        if not obstacle:
            return neighbour
        best = best or neighbour
    return best


def join_obstacle(resolution: Resolution, graph: EntityGraph, first: int, second: int) -> str:
    """Return the constraint that forbids joining two entities, by number; empty if there is none."""
    names = graph.first_record[[first, second]]
    sides = [np.flatnonzero(resolution.labels == name) for name in names]
    if len(sides[0]) + len(sides[1]) > resolution.problem.max_size:
        return linked_obstacle(resolution.links, sides[0], sides[1]) or "max_size"
    return linked_obstacle(resolution.links, sides[0], sides[1])


def linked_obstacle(links: Links, first: IntArray, second: IntArray) -> str:
    """Return the constraint that forbids joining two groups of records; empty if there is none."""
    if len(links.cannot):
        sides = [np.isin(links.cannot, members) for members in (first, second)]
        if (sides[0] & sides[1][:, ::-1]).any():
            return "cannot-link"
    if links.source is not None:
        sources = [links.source[members][links.source[members] >= 0] for members in (first, second)]
        if np.isin(sources[0], sources[1]).any():
            return "one source"
    return ""


def _record(resolution: Resolution, name: Any) -> int:
    """Return the number of a record; raise if no record has this id."""
    check_id(name, "explain(first, second)")
    ids = resolution.pairs.ids
    try:
        return ids.index(name)
    except ValueError:
        hint = f" The ids are of type {type(ids[0]).__name__}." if ids and type(ids[0]) is not type(name) else ""
        raise InvalidInputError(f"there is no record with id {name!r:.60}.{hint} Pass an id of the pairs.") from None


def _pair_row(resolution: Resolution, low: int, high: int) -> int | None:
    """Return the row of a pair of records, or None if it has no score."""
    pairs = resolution.pairs.pairs
    start, stop = np.searchsorted(pairs[:, 0], [low, low + 1])
    row = int(start + np.searchsorted(pairs[start:stop, 1], high))
    return row if row < stop and pairs[row, 1] == high else None


def _pair_contributions(resolution: Resolution, row: int | None) -> list[Contribution]:
    """Return the score of a pair and its calibration as contributions."""
    calibration = resolution.calibration
    if row is None:
        return [Contribution("pair without a score", calibration.absent)]
    score = resolution.pairs.log_odds[row : row + 1]
    contributions = [Contribution("score", float(score[0]))]
    if calibration.method != "none":
        contributions.append(Contribution("calibration", float(resolution.log_odds[row] - score[0])))
    return contributions


def pair_constraint(links: Links, low: int, high: int) -> str:
    """Return the constraint that decides a pair, or an empty string."""
    for name, pairs in (("must-link", links.must), ("cannot-link", links.cannot)):
        if len(pairs) and (np.sort(pairs, axis=1) == (low, high)).all(axis=1).any():
            return name
    if links.source is not None and links.source[low] >= 0 and links.source[low] == links.source[high]:
        return "one source"
    return ""


def _with_comparisons(contributions: list[Contribution], rows: list[dict[str, float]]) -> list[Contribution]:
    """Replace the score by the contributions of the comparisons; `rows` are the rows of the pair in the table."""
    if not rows or contributions[0].name != "score":
        return contributions
    score = contributions[0].log_odds
    mean = {name: math.fsum(row[name] for row in rows) / len(rows) for name in rows[0]}
    best = min([mean, *rows], key=lambda row: abs(math.fsum(row.values()) - score) if PRIOR in row else 0.0)
    terms = [Contribution(name, value) for name, value in best.items()]
    rest = score - math.fsum(best.values())
    if PRIOR not in best:  # without the match weight, the prior is what the comparisons leave of the score
        terms.append(Contribution(PRIOR, rest))
    elif abs(rest) > 1e-9:
        terms.append(Contribution(_REST, rest))
    return terms + contributions[1:]


def _read_comparisons(
    edges: Any, id_columns: PairColumns, ids: set[Any]
) -> dict[frozenset[Any], list[dict[str, float]]]:
    """Return the log odds of each comparison for the rows whose two ids are in `ids`, by pair of ids."""
    with errors_in("edges"):
        columns, id_columns = _rows_of_ids(edges, id_columns, ids)
        prefix = next((prefix for prefix in _PREFIXES if any(name.startswith(prefix) for name in columns)), None)
        if prefix is None:
            raise InvalidInputError(
                f"no column begins with 'mw_' or 'bf_' among {list(columns)[:8]}. Pass Splink's predictions with their "
                f"comparisons, or no edges."
            )
        names = [name for name in columns if name.startswith(prefix)]
        values = [plain_list(columns[name]) for name in names]
        ends = [in_type_of(side, ids) for side in id_columns.read_pairs(columns)]
        weights = plain_list(columns["match_weight"]) if "match_weight" in columns else None
        rows: dict[frozenset[Any], list[dict[str, float]]] = {}
        for row, (a, b) in enumerate(zip(*ends, strict=True)):
            if a in ids and b in ids:
                terms = {
                    _comparison_name(name, prefix): _PREFIXES[prefix](float(column[row]))
                    for name, column in zip(names, values, strict=True)
                    if column[row] is not None
                }
                if weights is not None:
                    terms[PRIOR] = float(weights[row]) * math.log(2.0) - math.fsum(terms.values())
                rows.setdefault(frozenset((a, b)), []).append(terms)
    return rows


def _comparison_name(column: str, prefix: str) -> str:
    """Return the name of a comparison from Splink's column."""
    name = column.removeprefix(prefix)
    return f"{name.removeprefix('tf_adj_')}, term frequency" if name.startswith("tf_adj_") else name


def _rows_of_ids(edges: Any, id_columns: PairColumns, ids: set[Any]) -> tuple[dict[str, Any], PairColumns]:
    """Return the columns of a table of pairs, and those of ids; of a Parquet file only rows with these ids are read."""
    if is_parquet(edges):
        import duckdb

        texts = [duckdb.ConstantExpression(str(name[-1] if id_columns.has_tables else name)) for name in ids]
        with open_pairs(edges) as relation:
            if set(id_columns.names) <= set(relation.columns):
                for name in (id_columns.left[-1], id_columns.right[-1]):
                    relation = relation.filter(duckdb.ColumnExpression(name).cast("VARCHAR").isin(*texts))
            columns = read_columns(relation)
    else:
        columns = read_columns(edges)
    if columns is None:
        raise InvalidInputError(f"the pairs are of type {type(edges).__name__}. Pass {TABLES}.")
    columns = {str(name): values for name, values in columns.items()}
    if not set(id_columns.names) <= set(columns):
        id_columns = choose_pair_columns({name: kind_of_column(values) for name, values in columns.items()})
    return columns, id_columns


def _summed(rows: Iterable[list[Contribution]]) -> list[Contribution]:
    """Return the sum of the contributions of several pairs, by name."""
    values: dict[str, list[float]] = {}
    for contributions in rows:
        for item in contributions:
            values.setdefault(item.name, []).append(item.log_odds)
    return [Contribution(name, math.fsum(terms)) for name, terms in values.items()]
