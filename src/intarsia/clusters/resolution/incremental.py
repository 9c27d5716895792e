"""New pairs for an earlier resolution: only components that changed are resolved again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, IntArray, check_choice
from intarsia.clusters.components import Links
from intarsia.clusters.resolution.join_problem import JoinProblem
from intarsia.clusters.resolution.pair_columns import in_type_of
from intarsia.clusters.resolution.scored_pairs import ScoredPairs, positions, sorted_ids
from intarsia.exceptions import InvalidInputError

if TYPE_CHECKING:
    from intarsia.clusters.resolution.resolve import Resolution


@dataclass(frozen=True, eq=False)
class Changes:
    """Entities of a resolution compared with an earlier one: `changes["split"]` lists ids of entities.

    Attributes
    ----------
    entities : dict of lists
        "kept": entities with the same records as before. "grown": earlier entities that gained new records and lost
        none. "split": earlier entities whose records are in several entities now. "merged": entities with records of
        several earlier ones. "new": entities of new records only.
    n_components : int
        Number of components that were resolved again.
    """

    entities: dict[str, list[Any]]
    n_components: int

    def __getitem__(self, name: str) -> list[Any]:
        return self.entities[check_choice(name, self.entities, "name")]

    def __repr__(self) -> str:
        counts = ", ".join(f"{name}={len(entities):,}" for name, entities in self.entities.items())
        return f"Changes({counts}, n_components={self.n_components:,})"


@dataclass(frozen=True, eq=False)
class EarlierClusters:
    """Earlier cluster, bound and change of each node.

    Attributes
    ----------
    changed : bool array (n_nodes,)
        Whether the node is new, or has a pair or constraint that changed.
    label : int array (n_nodes,)
        Earlier entity of the node, -1 for new nodes.
    bound : float array (n_nodes,)
        Bound of the node's earlier component.
    """

    changed: NDArray[np.bool_]
    label: IntArray
    bound: FloatArray


def merge_pairs(earlier: ScoredPairs, latest: ScoredPairs) -> ScoredPairs:
    """Return the pairs of both tables; a pair in both has the score of the latest.

    Examples
    --------
    >>> from intarsia.clusters.resolution.scored_pairs import read_scored_pairs
    >>> old = read_scored_pairs({"id1": ["a", "b"], "id2": ["b", "d"], "log_odds": [1.0, 2.0]})
    >>> new = read_scored_pairs({"id1": ["d", "c"], "id2": ["b", "a"], "log_odds": [-3.0, 4.0]})
    >>> both = merge_pairs(old, new)
    >>> both.ids, both.pairs.tolist(), both.log_odds.tolist()
    (['a', 'b', 'c', 'd'], [[0, 1], [0, 2], [1, 3]], [1.0, 4.0, -3.0])
    """
    latest = replace(latest, ids=in_type_of(latest.ids, earlier.ids))
    ids = [*earlier.ids, *latest.ids]
    if len(set(map(type, ids))) > 1 or (ids and earlier.columns.has_tables != latest.columns.has_tables):
        raise InvalidInputError(
            f"the pairs have ids such as {latest.ids[0]!r:.60}, those of previous such as {earlier.ids[0]!r:.60}. "
            f"Pass ids of the same columns and types."
        )
    names = sorted_ids(set(ids))
    ends = np.concatenate([_renumbered(table, names) for table in (latest, earlier)])
    log_odds = np.concatenate([latest.log_odds, earlier.log_odds])
    _, first = np.unique(ends[:, 0] * len(names) + ends[:, 1], return_index=True)
    return ScoredPairs(
        names, ends[first], log_odds[first], latest.kind, latest.scale, latest.n_repeated, latest.columns
    )


def _renumbered(table: ScoredPairs, names: list[Any]) -> IntArray:
    """Return the pairs of a table as positions in a longer list of ids."""
    return np.sort(positions(table.ids, names)[table.pairs], axis=1).reshape(-1, 2)


def carry_over(
    earlier: Resolution,
    pairs: ScoredPairs,
    log_odds: FloatArray,
    links: Links,
    node_of: IntArray,
    problem: JoinProblem,
) -> EarlierClusters:
    """Return the earlier clusters of the nodes, and which nodes changed since."""
    n, n_nodes = len(pairs.ids), int(node_of.max(initial=-1)) + 1
    place = positions(earlier.pairs.ids, pairs.ids)
    label, bound = np.full(n, -1, dtype=np.int64), np.zeros(n)
    label[place], bound[place] = earlier.labels, earlier.component_bounds[earlier.component_of_record]
    changed = label < 0
    key = pairs.pairs[:, 0] * n + pairs.pairs[:, 1]
    earlier_ends = np.sort(place[earlier.pairs.pairs], axis=1)
    row = np.searchsorted(key, earlier_ends[:, 0] * n + earlier_ends[:, 1])  # all earlier pairs are in the table
    is_changed = np.ones(len(key), dtype=bool)
    is_changed[row] = log_odds[row] != earlier.log_odds
    changed[pairs.pairs[is_changed].ravel()] = True
    for new_pairs, before in ((links.must, earlier.links.must), (links.cannot, earlier.links.cannot)):
        before_pairs = {tuple(pair) for pair in np.sort(place[before], axis=1).tolist()}
        for pair in {tuple(pair) for pair in np.sort(new_pairs, axis=1).tolist()} ^ before_pairs:
            changed[list(pair)] = True
    old_source = np.full(n, -1) if earlier.links.source is None else _spread(earlier.links.source, place, n)
    new_source = np.full(n, -1) if links.source is None else links.source
    # Without a limit of the size, the largest size is the number of records.
    limits = (
        np.inf if other.max_size >= size else other.max_size
        for other, size in ((earlier.problem, len(place)), (problem, n))
    )
    if (
        len(set(limits)) > 1
        or earlier.problem.absent != problem.absent
        or _differ(old_source[place], new_source[place])
    ):
        changed[:] = True
    node_changed = np.zeros(n_nodes, dtype=bool)
    node_changed[node_of[changed]] = True
    node_label, node_bound = np.full(n_nodes, -1, dtype=np.int64), np.zeros(n_nodes)
    node_label[node_of], node_bound[node_of] = label, bound
    return EarlierClusters(node_changed, node_label, node_bound)


def _spread(values: IntArray, place: IntArray, n: int) -> IntArray:
    """Return values at their places in an array of length n, -1 elsewhere."""
    spread = np.full(n, -1, dtype=np.int64)
    spread[place] = values
    return spread


def _differ(first: IntArray, second: IntArray) -> bool:
    """Return whether two codings of sources group the records differently."""
    if not np.array_equal(first < 0, second < 0):
        return True
    coded = first >= 0
    combinations = np.unique(np.column_stack([first[coded], second[coded]]), axis=0)
    return len(combinations) != len(np.unique(first[coded])) or len(combinations) != len(np.unique(second[coded]))


def compare_entities(earlier: Resolution, pairs: ScoredPairs, labels: IntArray, n_components: int) -> Changes:
    """Compare the entities of all records with those of an earlier resolution."""
    place = positions(earlier.pairs.ids, pairs.ids)
    old = np.full(len(labels), -1, dtype=np.int64)
    old[place] = place[earlier.labels]
    combinations = np.unique(np.column_stack([old, labels])[old >= 0], axis=0)
    n_new_of_old = np.bincount(combinations[:, 0], minlength=len(labels))
    n_old_of_new = np.bincount(combinations[:, 1], minlength=len(labels))
    entities = np.unique(labels)
    has_new = np.zeros(len(labels), dtype=bool)
    has_new[labels[old < 0]] = True
    source_of = np.zeros(len(labels), dtype=np.int64)
    source_of[combinations[:, 1]] = combinations[:, 0]
    single = entities[(n_old_of_new[entities] == 1) & (n_new_of_old[source_of[entities]] == 1)]
    names = np.array([*pairs.entity_names, None], dtype=object)[:-1]
    return Changes(
        {
            "kept": names[single[~has_new[single]]].tolist(),
            "grown": names[single[has_new[single]]].tolist(),
            "split": names[np.flatnonzero(n_new_of_old > 1)].tolist(),
            "merged": names[np.flatnonzero(n_old_of_new > 1)].tolist(),
            "new": names[entities[n_old_of_new[entities] == 0]].tolist(),
        },
        n_components,
    )
