"""Entity resolution from scored pairs, without labels and without a threshold, with a certificate."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csgraph

from intarsia._core.clock import Clock
from intarsia._core.error_context import errors_from
from intarsia._core.html import ShownResult
from intarsia._core.progress import pair_progress
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, IntArray, check_number
from intarsia._kernels.correlation_exact import cluster_small_components
from intarsia.clusters.components import Links
from intarsia.clusters.resolution.calibration import Calibration, calibrate_pairs
from intarsia.clusters.resolution.correlation import EXACT_NODES, cluster_nodes
from intarsia.clusters.resolution.incremental import (
    Changes,
    EarlierClusters,
    carry_over,
    compare_entities,
    merge_pairs,
)
from intarsia.clusters.resolution.join_problem import Components, JoinProblem, contract, split_components
from intarsia.clusters.resolution.links import read_links
from intarsia.clusters.resolution.scored_pairs import ScoredPairs, read_scored_pairs, result_table
from intarsia.exceptions import InvalidInputError

if TYPE_CHECKING:
    from intarsia.clusters.resolution.confidence import Confidence
    from intarsia.clusters.resolution.explanations import EntityExplanation, PairExplanation

_NO_GAP = 1e-9
_SECONDS_PER_COMPONENT = 5.0  # of the proof, without a time limit


@dataclass(frozen=True, eq=False)
class Resolution(ShownResult):
    """Entities of records, with a certificate for each component; the result of `resolve`.

    Attributes
    ----------
    table : table or dict
        One row per record: the ids under the name that they have in the pairs ("unique_id" for `unique_id_l` and
        `unique_id_r`, otherwise "id"), with `source_dataset_l` and `source_dataset_r` also "source_dataset", and the
        "entity", which is the smallest id of its records. It is a table of the same kind as the pairs, or a dict.
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
    status : Status
        EXACT if no clustering has a higher score, TIME_LIMIT if the proof was ended by a limit, INTERRUPTED by Ctrl-C.
    changes : Changes or None
        Entities that changed since `previous`.
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
    status: Status
    seconds: float
    labels: IntArray = field(repr=False)
    pairs: ScoredPairs = field(repr=False)
    node_of: IntArray = field(repr=False)
    log_odds: FloatArray = field(repr=False)
    component_of_record: IntArray = field(repr=False)
    component_bounds: FloatArray = field(repr=False)
    problem: JoinProblem = field(repr=False)
    links: Links = field(repr=False)
    changes: Changes | None = None

    @property
    def proven(self) -> bool:
        """Whether no clustering has a higher score."""
        return self.gap <= _NO_GAP

    @errors_from("Resolution.confidence")
    def confidence(
        self,
        *,
        n_samples: int = 1000,
        time_limit: float | None = None,
        random_state: int | np.random.Generator = 0,
    ) -> Confidence:
        """Compute the posterior probability of each pair, and how sure it is that each record is in the right entity.

        A clustering has a probability proportional to exp(its score). Components of up to 10 records are computed
        exactly; larger ones are sampled by Metropolis-Hastings. Only clusterings count whose entities are connected by
        pairs with log odds above -5. The probabilities are as good as the log odds are calibrated: pass labelled pairs
        to `resolve(..., calibrate=labels)` if you have some.

        Parameters
        ----------
        n_samples : int
            Number of sampled clusterings, at least 20.
        time_limit : float, optional
            Limit in seconds for sampling; fewer samples are taken.
        random_state : int or Generator
            Seed.

        Examples
        --------
        Record x could belong to a or to b.

        >>> edges = {"id1": ["a", "b", "a"], "id2": ["x", "x", "b"], "log_odds": [4.0, 4.0, -9.0]}
        >>> confidence = resolve(edges, calibrate=None, absent=0.0).confidence()
        >>> confidence.records["id"], [round(value, 2) for value in confidence.records["confidence"]]
        (['a', 'b', 'x'], [0.5, 0.5, 0.5])
        """
        from intarsia.clusters.resolution.confidence import compute_confidence

        return compute_confidence(self, n_samples, time_limit, random_state)

    def explain(self, first: Any, second: Any = None, *, edges: Any = None) -> PairExplanation | EntityExplanation:
        """Explain the log odds of two records, or an entity; `edges`: the pairs again, with Splink's `mw_` columns.

        Examples
        --------
        >>> resolve({"id1": ["a"], "id2": ["b"], "log_odds": [4.0]}).explain("a", "b").log_odds
        4.0
        """
        from intarsia.clusters.resolution.explain import explain

        return explain(self, first, second, edges)


@errors_from("resolve")
def resolve(
    edges: Any,
    ids: Any = None,
    *,
    id_columns: tuple[str, str] | None = None,
    score_column: str | None = None,
    scale: str = "auto",
    repeated: str = "mean",
    calibrate: Any = None,
    absent: float | str = "auto",
    source: Any = "auto",
    must_link: Sequence[Any] = (),
    cannot_link: Sequence[Any] = (),
    max_size: int | None = None,
    time_limit: float | None = None,
    previous: Resolution | None = None,
    verbose: bool = False,
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
        With `source_dataset_l` and `source_dataset_r`, a record is named by its table and its id.
    ids : list or table, optional
        Ids of all records; records in no pair become entities of one record.
    id_columns, score_column : optional
        Names of unusual columns. By default, ids are any two columns X_l and X_r; floats and scores are never ids.
    scale : {"auto", "match_weight", "log_odds", "probability"}
        Meaning of the scores; "auto" reads it off the name of the column and the values.
    repeated : {"mean", "max", "min"}
        How the scores of a pair that occurs several times are joined.
    calibrate : None, "auto" or table of labelled pairs
        How scores become log odds. None: as they are. A table with two ids and "match": by labels. "auto": by their
        agreement with each other; if a and b both match c, they are the same entity whatever their own score says.
        This can make right scores wrong. "competition", with `source`: by how often a pair is the best of both records.
    absent : float or "auto"
        Log odds, at most 0, of a pair of records that was never compared; "auto" estimates it.
    source : "auto", None, dict or table
        Source of each record, as a dict id -> source or a table with ids and sources: an entity then has at most one
        record of each source. "auto": its `source_dataset`, if no pair is within one (Splink's "link_only").
    must_link, cannot_link : lists of pairs of ids
        Records that are, and are not, the same entity.
    max_size : int, optional
        Largest number of records of an entity.
    time_limit : float, optional
        Limit in seconds; the gap says how good the clustering is. Default: 5 seconds for each component.
    previous : Resolution, optional
        Earlier result to which `edges` adds pairs; pairs in both have the new score. Only components whose log odds
        or constraints changed are resolved again, and `changes` of the result lists kept, grown, split, merged and new
        entities. Pass all settings and constraints again: the result is that of all pairs together.
    verbose : bool
        Whether to show progress on stderr, if it is a terminal.

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
    if previous is not None and not isinstance(previous, Resolution):
        raise InvalidInputError(
            f"previous is of type {type(previous).__name__}. Pass the Resolution that an earlier call returned."
        )
    pairs = read_scored_pairs(
        edges, ids, id_columns=id_columns, score_column=score_column, scale=scale, repeated=repeated,
        earlier_ids=() if previous is None else previous.pairs.ids,
    )  # fmt: skip
    if previous is not None:
        pairs = merge_pairs(previous.pairs, pairs)
    if isinstance(source, str) and source == "auto":
        source = pairs.tables()
    links = read_links(pairs, must_link, cannot_link, source)

    def quick_clustering(log_odds: FloatArray, absent: float) -> IntArray:
        problem, node_of = _problem(pairs, log_odds, links, absent, max_size)
        clustered = _cluster_components(problem, Clock(0.0), prove=False)
        label_of_node = np.empty_like(clustered.labels)
        label_of_node[clustered.components.order] = clustered.labels
        return label_of_node[node_of]

    calibration, log_odds = calibrate_pairs(pairs, calibrate, absent, quick_clustering, links.source)
    problem, node_of = _problem(pairs, log_odds, links, calibration.absent, max_size)
    earlier = None
    if previous is not None:
        earlier = carry_over(previous, pairs, log_odds, links, node_of, problem)
    clock = Clock(time_limit)
    with pair_progress("resolve", verbose) as progress:
        clustered = _cluster_components(problem, clock, progress, earlier)
    resolution = _present(pairs, log_odds, calibration, problem, links, clustered, node_of, start)
    if previous is not None:
        n_components = int((clustered.is_changed & (np.diff(clustered.components.node_ptr) > 1)).sum())
        changes = compare_entities(previous, pairs, resolution.labels, n_components)
        resolution = replace(resolution, changes=changes)
    if clock.interrupted and not resolution.proven:
        return replace(resolution, status=Status.INTERRUPTED)
    return resolution


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


@dataclass(frozen=True, eq=False)
class _Clustered:
    """Components, the label of each of their nodes; bound, seconds and whether it was treated, for each component."""

    components: Components
    labels: IntArray
    bounds: FloatArray
    seconds: FloatArray
    is_changed: NDArray[np.bool_]


def _cluster_components(
    problem: JoinProblem,
    clock: Clock,
    progress: Callable[[int], None] | None = None,
    earlier: EarlierClusters | None = None,
    *,
    prove: bool = True,
) -> _Clustered:
    """Cluster all components: small ones by one call of a kernel, large ones one by one.

    `progress` is called with the number of pairs that remain. Components without a changed node keep their earlier
    clusters and bounds.
    """
    components = split_components(problem)
    sizes = np.diff(components.node_ptr)
    labels = np.arange(problem.n_nodes)
    bounds, seconds, is_changed = np.zeros(len(sizes)), np.zeros(len(sizes)), np.ones(len(sizes), dtype=bool)
    if earlier is not None:
        component_of_node = np.repeat(np.arange(len(sizes)), sizes)
        is_changed = np.bincount(component_of_node, earlier.changed[components.order], len(sizes)) > 0
        unchanged_nodes = np.flatnonzero(~is_changed[component_of_node])
        entity = np.unique(earlier.label[components.order][unchanged_nodes], return_inverse=True)[1]
        labels[unchanged_nodes] = unchanged_nodes[_first_record(entity)]
        bounds[~is_changed] = earlier.bound[components.order[components.node_ptr[:-1]]][~is_changed]
    small = np.flatnonzero((sizes > 1) & (sizes <= EXACT_NODES) & is_changed)
    if small.size:
        begin = time.perf_counter()
        cluster_small_components(small, components.node_ptr, components.problem.graph(), labels, bounds)
        seconds[small] = (time.perf_counter() - begin) / len(small)
    large = np.flatnonzero((sizes > EXACT_NODES) & is_changed)
    n_edges = np.diff(components.edge_ptr)
    remaining_edges = float(n_edges[large].sum())
    for k in large[np.argsort(sizes[large], kind="stable")]:  # small ones first: their proof is quick
        begin = time.perf_counter()
        limit = _SECONDS_PER_COMPONENT
        if clock.limit is not None:
            limit = max(clock.limit - clock.seconds, 0.0) * n_edges[k] / remaining_edges
        remaining_edges -= n_edges[k]
        component_clock = Clock(limit)
        solution = cluster_nodes(components.part(k), component_clock, prove=prove)
        if component_clock.interrupted:  # the remaining components are clustered quickly
            clock.interrupted, clock.limit = True, 0.0
        if progress is not None:
            progress(int(remaining_edges))
        first = components.node_ptr[k]
        labels[first : components.node_ptr[k + 1]] = first + solution.labels
        bounds[k], seconds[k] = solution.bound, time.perf_counter() - begin
    return _Clustered(components, _split_unconnected(components.problem, labels), bounds, seconds, is_changed)


def _split_unconnected(problem: JoinProblem, labels: IntArray) -> IntArray:
    """Split clusters into the connected components of their edges with a positive gain, which never costs anything."""
    supports = (labels[problem.ends[:, 0]] == labels[problem.ends[:, 1]]) & (problem.gains() > 0)
    ends = problem.ends[supports]
    graph = coo_array((np.ones(len(ends), dtype=bool), (ends[:, 0], ends[:, 1])), shape=(problem.n_nodes,) * 2)
    return csgraph.connected_components(graph, directed=False)[1].astype(np.int64)


def _present(
    pairs: ScoredPairs, log_odds: FloatArray, calibration: Calibration, problem: JoinProblem, links: Links,
    clustered: _Clustered, node_of: IntArray, start: float,
) -> Resolution:  # fmt: skip
    """Build the result: entities named by their smallest id, and one row per component."""
    components, labels, bounds = clustered.components, clustered.labels, clustered.bounds
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
    np.add.at(seconds_of_row, row, clustered.seconds)
    bound_of_row = np.zeros(n_rows)
    bound_of_row[row] = bounds
    names = np.array([*pairs.entity_names, None], dtype=object)[:-1]
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
    table = {**pairs.record_table(), "entity": names[entity].tolist()}
    total, total_bound = float(score.sum()), float(bound.sum())
    total_gap = (total_bound - total) / abs(total_bound) if total_bound else 0.0
    return Resolution(
        table=result_table(table, pairs.kind),
        components=result_table(rows, pairs.kind),
        score=total,
        bound=total_bound,
        gap=total_gap,
        calibration=calibration,
        n_records=len(pairs.ids),
        n_entities=len(np.unique(entity)),
        n_pairs=len(pairs.pairs),
        status=Status.EXACT if total_gap <= _NO_GAP else Status.TIME_LIMIT,
        seconds=time.perf_counter() - start,
        labels=entity,
        pairs=pairs,
        node_of=node_of,
        log_odds=log_odds,
        component_of_record=first,
        component_bounds=bound_of_row,
        problem=problem,
        links=links,
    )


def _first_record(group: IntArray) -> IntArray:
    """Return the first record of each record's group."""
    first = np.full(int(group.max(initial=-1)) + 1, len(group), dtype=np.int64)
    np.minimum.at(first, group, np.arange(len(group)))
    return first[group]
