"""Entity resolution from scored pairs, without labels and without a threshold, with a certificate."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import coo_array, csgraph

from intarsia._core.clock import Clock
from intarsia._core.error_context import errors_from
from intarsia._core.html import ShownResult
from intarsia._core.validation import FloatArray, IntArray, check_number
from intarsia._files.tables import TableKind, write_table
from intarsia._kernels.correlation_exact import cluster_small_components
from intarsia.clusters.resolution.calibration import Calibration, calibrate_pairs
from intarsia.clusters.resolution.correlation import (
    EXACT_NODES,
    Components,
    JoinProblem,
    cluster_nodes,
    contract,
    split_components,
)
from intarsia.clusters.resolution.links import Links, read_links
from intarsia.clusters.resolution.scored_pairs import ScoredPairs, read_scored_pairs

if TYPE_CHECKING:
    from intarsia.clusters.resolution.explanations import EntityExplanation, PairExplanation

_SECONDS_PER_COMPONENT = 5.0  # of the proof, without a time limit


@dataclass(frozen=True, eq=False)
class Resolution(ShownResult):
    """Entities of records, with a certificate for each component; the result of `resolve`.

    Attributes
    ----------
    table : table or dict
        Columns "id" and "entity", one row per record; the entity is the smallest id of its records. It is a table of
        the same kind as the pairs, or a dict of columns.
    components : table or dict
        One row per connected component of likely pairs: "component" (its smallest id), "n_records", "n_entities",
        "score" (total log odds of the pairs that are joined), "bound" (no clustering has a higher score), "gap" (the
        difference relative to the bound), "proven" (whether the gap is zero) and "seconds".
    score, bound, gap : float
        Sums over all components, and the relative difference.
    calibration : Calibration
        How scores became log odds, and the log odds of a pair without a score.
    n_records, n_entities, n_pairs : int
        Numbers of records, of entities and of distinct pairs.
    seconds : float
        Wall time.

    Examples
    --------
    >>> resolution = resolve({"id1": ["a", "b"], "id2": ["b", "c"], "match_probability": [0.9, 0.2]})
    >>> resolution.table
    {'id': ['a', 'b', 'c'], 'entity': ['a', 'a', 'c']}
    >>> resolution.components["component"], resolution.components["proven"]
    (['a', 'c'], [True, True])
    """

    table: Any = field(repr=False)
    components: Any = field(repr=False)
    score: float
    bound: float
    gap: float
    calibration: Calibration
    n_records: int
    n_entities: int
    n_pairs: int
    seconds: float
    labels: IntArray = field(repr=False)
    pairs: ScoredPairs = field(repr=False)
    links: Links = field(repr=False)
    max_size: int | None = field(repr=False)

    @property
    def proven(self) -> bool:
        """Whether no clustering has a higher score."""
        return self.gap <= 1e-9

    @errors_from("Resolution.explain")
    def explain(
        self, first: Any, second: Any = None, *, edges: Any = None, id_columns: tuple[str, str] | None = None
    ) -> PairExplanation | EntityExplanation:
        """Explain the log odds of a pair of records, or why the records of an entity are together.

        Parameters
        ----------
        first, second : ids
            Ids of two records; or only the id of an entity, or of any of its records.
        edges : table, optional
            The table of pairs again. Its columns of each comparison, `mw_...` or `bf_...` of Splink, become the
            contributions.
        id_columns : pair of str, optional
            Columns of `edges` with the ids, if they are not usual ones.

        Returns
        -------
        PairExplanation or EntityExplanation
            Contributions in log odds that add up to the log odds of the pair, or to the score of the entity.

        Examples
        --------
        >>> edges = {"unique_id_l": ["a", "b"], "unique_id_r": ["b", "c"], "match_weight": [4.0, -2.0],
        ...          "mw_name": [7.0, 7.0], "mw_city": [2.0, -4.0]}
        >>> resolution = resolve(edges)
        >>> resolution.explain("a", "b", edges=edges)
        'a' and 'b' are in the same entity: log odds +2.773
          name         +4.852
          city         +1.386
          prior        -3.466
        >>> resolution.explain("a").split.cost == resolution.score
        True
        """
        from intarsia.clusters.resolution.explain import explain_entity, explain_pair

        if second is None:
            return explain_entity(self, first, edges, id_columns)
        return explain_pair(self, first, second, edges, id_columns)


@errors_from("resolve")
def resolve(
    edges: Any,
    ids: Any = None,
    *,
    id_columns: tuple[str, str] | None = None,
    score_column: str | None = None,
    scale: str = "auto",
    repeated: str = "mean",
    calibrate: Any = "auto",
    absent: float | str = "auto",
    source: Any = None,
    must_link: Sequence[Any] = (),
    cannot_link: Sequence[Any] = (),
    max_size: int | None = None,
    time_limit: float | None = None,
) -> Resolution:
    """Group records into entities from a table of scored pairs, without labels and without a threshold.

    It searches the clustering with the highest total log odds of the pairs within clusters (correlation clustering):
    every pair counts, for or against. For each connected component it returns an upper bound, so that you see how far
    the clustering can be from the best one. Use it behind Splink or dedupe, instead of connected components.

    Parameters
    ----------
    edges : table
        One row per pair: two ids and a score, for example the predictions of Splink. Pass low scores too: evidence
        against a pair separates entities. pandas, polars, Arrow, lazy frames, DuckDB relations, files, dicts.
    ids : list or table, optional
        Ids of all records; records in no pair become entities of one record.
    id_columns, score_column : optional
        Names of the columns, if they are not usual ones.
    scale : {"auto", "match_weight", "log_odds", "probability"}
        Meaning of the scores; "auto" reads it off the name of the column and the values.
    repeated : {"mean", "max", "min"}
        How the scores of a pair that occurs several times are joined.
    calibrate : "auto", None or table of labelled pairs
        How scores become log odds. "auto": by their agreement with each other; if a and b both match c, they are the
        same entity whatever their own score says. None: as they are. A table with two ids and "match": by these labels.
    absent : float or "auto"
        Log odds, at most 0, of a pair of records that was never compared; "auto" estimates it.
    source : column of sources, optional
        Source of each record, as a dict id -> source or a table with ids and sources: an entity then has at most one
        record of each source.
    must_link, cannot_link : lists of pairs of ids
        Records that are, and are not, the same entity.
    max_size : int, optional
        Largest number of records of an entity.
    time_limit : float, optional
        Limit in seconds. The search ends with the best clustering so far, and the gap says how good it is. By default
        the proof of each component takes at most 5 seconds.

    Examples
    --------
    Two entities that one wrong pair connects: the pair is not enough against two others.

    >>> edges = {"id1": ["a", "a", "b", "c", "d", "d", "e"], "id2": ["b", "c", "c", "d", "e", "f", "f"],
    ...          "log_odds": [3.0, 2.0, 4.0, 1.0, 3.0, 3.0, 3.0]}
    >>> more = {"id1": ["b"], "id2": ["d"], "log_odds": [-4.0]}
    >>> edges = {name: edges[name] + more[name] for name in edges}
    >>> resolution = resolve(edges, calibrate=None, absent=0.0)
    >>> resolution.table["entity"]
    ['a', 'a', 'a', 'd', 'd', 'd']
    >>> resolution.score, resolution.bound, resolution.proven
    (18.0, 18.0, True)
    """
    start = time.perf_counter()
    if max_size is not None:
        check_number(max_size, "max_size", low=1, integer=True)
    if time_limit is not None:
        check_number(time_limit, "time_limit", low=0.0, high=np.inf)
    pairs = read_scored_pairs(
        edges, ids, id_columns=id_columns, score_column=score_column, scale=scale, repeated=repeated
    )
    links = read_links(pairs.ids, must_link, cannot_link, source)

    def quick_clustering(log_odds: FloatArray, absent: float) -> IntArray:
        problem, node_of = _problem(pairs, log_odds, links, absent, max_size)
        components, labels, *_ = _cluster_components(problem, Clock(0.0))
        label_of_node = np.empty_like(labels)
        label_of_node[components.order] = labels
        return label_of_node[node_of]

    calibration, log_odds = calibrate_pairs(pairs, calibrate, absent, quick_clustering)
    problem, node_of = _problem(pairs, log_odds, links, calibration.absent, max_size)
    components, labels, bounds, seconds = _cluster_components(problem, Clock(time_limit))
    return _present(pairs, log_odds, calibration, components, labels, bounds, seconds, node_of, links, max_size, start)


def _problem(
    pairs: ScoredPairs, log_odds: FloatArray, links: Links, absent: float, max_size: int | None
) -> tuple[JoinProblem, IntArray]:
    """Build the problem whose nodes are records, or records that must stay together; return the node of each record."""
    n = len(pairs.ids)
    cannot = np.sort(links.cannot, axis=1)
    source, source_ptr = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    if links.source is not None:
        source = links.source[links.source >= 0]
        source_ptr = np.concatenate([[0], np.cumsum(links.source >= 0)]).astype(np.int64)
    records = JoinProblem(
        np.concatenate([pairs.pairs, cannot]),
        np.concatenate([log_odds - absent, np.full(len(cannot), -np.inf)]),
        np.ones(n, dtype=np.int64),
        source_ptr,
        source,
        absent,
        n if max_size is None else int(max_size),
    )
    if not len(links.must):
        return (contract(records, np.arange(n))[0] if len(cannot) else records), np.arange(n)
    graph = coo_array((np.ones(len(links.must)), (links.must[:, 0], links.must[:, 1])), shape=(n, n))
    node_of = csgraph.connected_components(graph, directed=False)[1].astype(np.int64)
    return contract(records, node_of)[0], node_of


def _cluster_components(problem: JoinProblem, clock: Clock) -> tuple[Components, IntArray, FloatArray, FloatArray]:
    """Cluster all components: small ones by one call of a kernel, large ones one by one.

    Return the components, the label of each of their nodes, and the bound and the seconds of each component.
    """
    components = split_components(problem)
    sizes = np.diff(components.node_ptr)
    labels = np.arange(problem.n_nodes)
    bounds, seconds = np.zeros(len(sizes)), np.zeros(len(sizes))
    small = np.flatnonzero((sizes > 1) & (sizes <= EXACT_NODES))
    if small.size:
        begin = time.perf_counter()
        cluster_small_components(small, components.node_ptr, components.problem.graph(), labels, bounds)
        seconds[small] = (time.perf_counter() - begin) / len(small)
    large = np.flatnonzero(sizes > EXACT_NODES)
    n_edges = np.diff(components.edge_ptr)
    remaining_edges = float(n_edges[large].sum())
    for k in large[np.argsort(sizes[large], kind="stable")]:  # small ones first: their proof is quick
        begin = time.perf_counter()
        limit = _SECONDS_PER_COMPONENT
        if clock.limit is not None:
            limit = max(clock.limit - clock.seconds, 0.0) * n_edges[k] / remaining_edges
        remaining_edges -= n_edges[k]
        solution = cluster_nodes(components.part(k), Clock(limit))
        first = components.node_ptr[k]
        labels[first : components.node_ptr[k + 1]] = first + solution.labels
        bounds[k], seconds[k] = solution.bound, time.perf_counter() - begin
    return components, _split_unconnected(components.problem, labels), bounds, seconds


def _split_unconnected(problem: JoinProblem, labels: IntArray) -> IntArray:
    """Split clusters into the connected components of their edges with a positive gain, which never costs anything."""
    supports = (labels[problem.ends[:, 0]] == labels[problem.ends[:, 1]]) & (problem.gains() > 0)
    ends = problem.ends[supports]
    graph = coo_array((np.ones(len(ends), dtype=bool), (ends[:, 0], ends[:, 1])), shape=(problem.n_nodes,) * 2)
    return csgraph.connected_components(graph, directed=False)[1].astype(np.int64)


def _present(
    pairs: ScoredPairs, log_odds: FloatArray, calibration: Calibration, components: Components, labels: IntArray,
    bounds: FloatArray, seconds: FloatArray, node_of: IntArray, links: Links, max_size: int | None, start: float,
) -> Resolution:  # fmt: skip
    """Build the result: entities named by their smallest id, and one row per component."""
    label_of_node, component_of_node = np.empty_like(labels), np.empty_like(labels)
    label_of_node[components.order] = labels
    component_of_node[components.order] = np.repeat(np.arange(len(bounds)), np.diff(components.node_ptr))
    label, component = label_of_node[node_of], component_of_node[node_of]
    entity = _first_record(label)
    component_name, first = np.unique(_first_record(component), return_inverse=True)
    row = np.empty(len(bounds), dtype=np.int64)  # row of each component in the table, in the order of its smallest id
    row[component] = first
    together = entity[pairs.pairs[:, 0]] == entity[pairs.pairs[:, 1]]
    n_rows = len(component_name)
    size = np.bincount(entity, minlength=len(entity))
    n_absent = np.bincount(first, (size[entity] - 1) / 2.0, n_rows)
    inside = first[pairs.pairs[together, 0]]
    n_absent -= np.bincount(inside, minlength=n_rows)
    score = np.bincount(inside, log_odds[together], n_rows) + calibration.absent * n_absent
    # Pairs within records that must stay together have a constant score, which the bounds do not contain.
    locked = node_of[pairs.pairs[:, 0]] == node_of[pairs.pairs[:, 1]]
    records_of_node = np.bincount(node_of)
    bound = calibration.absent * np.bincount(first, (records_of_node[node_of] - 1) / 2.0, n_rows)
    np.add.at(bound, first[pairs.pairs[locked, 0]], log_odds[locked] - calibration.absent)
    np.add.at(bound, row, bounds)
    gap = np.maximum(bound - score, 0.0) / np.maximum(np.abs(bound), 1e-300)
    gap[bound - score <= 1e-9 * np.maximum(1.0, np.abs(bound))] = 0.0
    bound = np.where(gap == 0.0, score, bound)
    seconds_of_row = np.zeros(n_rows)
    np.add.at(seconds_of_row, row, seconds)
    names = np.array([*pairs.ids, None], dtype=object)[:-1]
    rows = {
        "component": names[component_name].tolist(),
        "n_records": np.bincount(first, minlength=n_rows),
        "n_entities": np.bincount(first[np.unique(entity)], minlength=n_rows),
        "score": score,
        "bound": bound,
        "gap": gap,
        "proven": gap == 0.0,
        "seconds": seconds_of_row,
    }
    table = {"id": list(pairs.ids), "entity": names[entity].tolist()}
    total, total_bound = float(score.sum()), float(bound.sum())
    return Resolution(
        table=_written(table, pairs.kind),
        components=_written(rows, pairs.kind),
        score=total,
        bound=total_bound,
        gap=(total_bound - total) / abs(total_bound) if total_bound else 0.0,
        calibration=calibration,
        n_records=len(pairs.ids),
        n_entities=len(np.unique(entity)),
        n_pairs=len(pairs.pairs),
        seconds=time.perf_counter() - start,
        labels=entity,
        pairs=pairs,
        links=links,
        max_size=max_size,
    )


def _written(columns: dict[str, Any], kind: TableKind | None) -> Any:
    """Return columns as a table of the given kind, or as a dict of lists."""
    if kind is not None:
        return write_table(columns, kind)
    return {name: values.tolist() if isinstance(values, np.ndarray) else values for name, values in columns.items()}


def _first_record(group: IntArray) -> IntArray:
    """Return the first record of each record's group."""
    first = np.full(int(group.max(initial=-1)) + 1, len(group), dtype=np.int64)
    np.minimum.at(first, group, np.arange(len(group)))
    return first[group]
