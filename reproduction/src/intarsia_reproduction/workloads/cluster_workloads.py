"""Records for timing entity resolution: true entities, candidate pairs and noisy scores."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from intarsia._core.validation import FloatArray, IntArray
from intarsia._files.atomic_file import replaced_file
from intarsia._kernels.linkage import order_by_linkage
from intarsia.clusters import ClusterModel, ClusterWorld, dense_pair_features, pair_features
from intarsia.clusters.cluster_model import PairFeatures

_LARGEST = 9  # records of an entity: 1 to 9 with equal probabilities, 5 on average
_IN_A_BLOCK = 8  # entities
_MISSED = 0.05  # fraction of the pairs in blocks that blocking misses
_APART = 3.0  # standard deviations between the mean scores of matching and of other pairs


@dataclass(frozen=True, eq=False)
class ScoredEdges:
    """Records with scored candidate pairs, as returned by a matcher.

    Attributes
    ----------
    truth : int array (n_records,)
        Entity of each record.
    pairs : int array (n_pairs, 2)
        Candidate pairs, with the smaller record first.
    log_odds : float array (n_pairs,)
        Score of each pair.
    """

    truth: IntArray
    pairs: IntArray
    log_odds: FloatArray

    @property
    def n_records(self) -> int:
        """Number of records."""
        return int(self.truth.size)

    @property
    def probability(self) -> FloatArray:
        """Match probabilities of the pairs."""
        return np.asarray(1.0 / (1.0 + np.exp(-self.log_odds)))

    @property
    def table(self) -> dict[str, FloatArray | IntArray]:
        """Edges as a table for `EntityClusterer`."""
        return {"id1": self.pairs[:, 0], "id2": self.pairs[:, 1], "score": self.log_odds}


def scored_edges(n_records: int, seed: int, *, in_blocks: bool = False, edges_per_record: int = 20) -> ScoredEdges:
    """Draw entities of 1 to 9 records and about 20 scored pairs for each record, in random order.

    Every entity has a similar entity (its twin), some more similar than others, so that errors between twins are
    correlated. Given whether a pair matches, its score is normal with equal variances, so log odds are linear in it.

    Parameters
    ----------
    n_records : int
        Number of records.
    seed : int
        Seed.
    in_blocks : bool
        Whether candidates are all pairs inside blocks of eight entities (some 40 records, 20 pairs for each; then
        `edges_per_record` is not used). By default candidates are pairs of twins and pairs of random records, which
        connect almost all records.
    edges_per_record : int
        Number of candidate pairs per record, if they are not in blocks.

    Examples
    --------
    >>> edges = scored_edges(1000, seed=1)
    >>> edges.pairs.shape, bool((edges.pairs[:, 0] < edges.pairs[:, 1]).all())
    ((20000, 2), True)
    >>> matches = edges.truth[edges.pairs[:, 0]] == edges.truth[edges.pairs[:, 1]]
    >>> bool(edges.log_odds[matches].mean() > 2 > -5 > edges.log_odds[~matches].mean())
    True
    """
    rng = np.random.default_rng(seed)
    entity = np.repeat(np.arange(n_records), rng.integers(1, _LARGEST + 1, n_records))[:n_records]
    codes = _pairs_inside(entity // (_IN_A_BLOCK if in_blocks else 2))
    codes = codes[rng.random(codes.size) >= _MISSED]
    if not in_blocks:
        ends = np.sort(rng.integers(0, n_records, (edges_per_record * n_records * 5 // 4, 2)), axis=1)
        random_codes = np.setdiff1d(ends[ends[:, 0] < ends[:, 1]] @ [n_records, 1], codes)
        codes = np.concatenate([codes, rng.permutation(random_codes)[: edges_per_record * n_records - codes.size]])
    pairs = np.stack(np.divmod(codes, n_records), axis=1)
    matches = entity[pairs[:, 0]] == entity[pairs[:, 1]]
    twins = ~matches & (entity[pairs[:, 0]] // 2 == entity[pairs[:, 1]] // 2)
    similarity = np.where(matches, 0.5, -0.5) * _APART + rng.standard_normal(len(pairs))
    twin_similarity = 0.5 + 0.8 * rng.standard_normal(n_records)
    similarity[twins] += twin_similarity[entity[pairs[twins, 0]] // 2]
    log_odds = _APART * similarity + np.log(matches.sum() / (~matches).sum())
    number = rng.permutation(n_records)
    truth = np.empty(n_records, dtype=np.int64)
    truth[number] = entity
    return ScoredEdges(truth, np.sort(number[pairs], axis=1), log_odds)


def _pairs_inside(group: IntArray) -> IntArray:
    """Return the pairs i < j of equal groups as i * n + j; members of a group are adjacent."""
    n, codes, lag = group.size, [], 1
    while lag < n:
        first = np.flatnonzero(group[:-lag] == group[lag:])
        if first.size == 0:  # no group is longer, so larger lags have no pairs
            break
        codes.append(first * n + first + lag)
        lag += 1
    return np.concatenate(codes) if codes else np.empty(0, dtype=np.int64)


def proposal_world(n_records: int, *, dense: bool = False, n_features: int = 20) -> tuple[ClusterWorld, FloatArray]:
    """Return a world at its true entities, with weights under which sampling stays near them.

    Records are numbered as by `EntityClusterer`, with likely entities adjacent. Pairs have `n_features` noisy copies of
    the log odds as features; the model has their sums, and means, minima, maxima, levels and sizes of clusters. Splits
    and merges are uniform.

    Parameters
    ----------
    n_records : int
        Number of records.
    dense : bool
        Whether all pairs are candidates; by default eight for each record.
    n_features : int
        Number of features of a pair.

    Examples
    --------
    >>> world, weights = proposal_world(50)
    >>> len(weights), world.performance()               # 20 sums, absent, 4 x 3 aggregates, 2 levels, 2 sizes
    (37, 1.0)
    """
    edges = _reorder_by_linkage(scored_edges(n_records, seed=701, edges_per_record=8))
    rng = np.random.default_rng(702)
    model = ClusterModel(
        mean=_FEW, minimum=_FEW, maximum=_FEW, exists={_FEW[0]: 0.0}, for_all={_FEW[0]: 0.0}, sizes=(1, 2)
    )
    world = ClusterWorld(_noisy_features(edges, dense, n_features, rng), model, truth=edges.truth, start=edges.truth)
    weights = np.full(world.n_weights, 0.05)
    weights[:n_features] = 1.0 / n_features
    weights[world.feature_names.index("absent")] = -3.0
    return world, weights


_FEW = ["f0", "f1", "f2", "f3"]


def _reorder_by_linkage(edges: ScoredEdges) -> ScoredEdges:
    order = order_by_linkage(np.argsort(-edges.log_odds, kind="stable"), edges.pairs, edges.n_records)
    number = np.empty(edges.n_records, dtype=np.int64)
    number[order] = np.arange(edges.n_records)
    return ScoredEdges(edges.truth[order], np.sort(number[edges.pairs], axis=1), edges.log_odds)


def _noisy_features(edges: ScoredEdges, dense: bool, n_features: int, rng: np.random.Generator) -> PairFeatures:
    if not dense:
        noise = rng.standard_normal((len(edges.pairs), n_features))
        return pair_features(edges.n_records, edges.pairs, edges.log_odds[:, None] + noise)
    n = edges.n_records
    values = np.full((n, n), -3.0)
    values[edges.pairs[:, 0], edges.pairs[:, 1]] = edges.log_odds
    values = np.triu(values, 1)
    features = (values + values.T)[:, :, None] + rng.standard_normal((n, n, n_features))
    return dense_pair_features(0.5 * (features + features.transpose(1, 0, 2)))


def noisy_component(
    n_records: int, entity_size: int, edges_per_record: int, seed: int
) -> dict[str, IntArray | FloatArray]:
    """Return scored pairs whose records are tied together by pairs with the wrong sign, a sixth of all.

    Examples
    --------
    >>> edges = noisy_component(20, 5, 3, 0)
    >>> sorted(edges), bool((edges["id1"] < edges["id2"]).all())
    (['id1', 'id2', 'log_odds'], True)
    """
    rng = np.random.default_rng(seed)
    entity = np.arange(n_records) // entity_size
    random_pairs = np.sort(rng.integers(0, n_records, (n_records * edges_per_record, 2)), axis=1)
    codes = _pairs_inside(entity)
    inside = np.column_stack([codes // n_records, codes % n_records])
    ends = np.unique(np.concatenate([random_pairs[random_pairs[:, 0] < random_pairs[:, 1]], inside]), axis=0)
    mean = np.where(entity[ends[:, 0]] == entity[ends[:, 1]], 2.0, -2.0)
    return {"id1": ends[:, 0], "id2": ends[:, 1], "log_odds": rng.normal(mean, 2.0)}


def write_many_pairs(path: Path, n_records: int, seed: int) -> None:
    """Write a Parquet file of about five scored pairs per record, in the columns of Splink."""
    import duckdb

    rng = np.random.default_rng(seed)
    sizes = rng.geometric(0.35, n_records)
    entity = np.repeat(np.arange(n_records), sizes)[:n_records]
    steps = [(np.flatnonzero(entity[:-step] == entity[step:]), step) for step in range(1, 12)]
    first = np.concatenate([start for start, _ in steps])
    second = np.concatenate([start + step for start, step in steps])
    others = rng.integers(0, n_records, max(5 * n_records - len(first), 0))
    first = np.concatenate([first, others])
    second = np.concatenate([second, (others + rng.integers(1, 60, len(others))) % n_records])
    weight = rng.normal(np.where(entity[first] == entity[second], 6.0, -8.0), 4.0)
    columns = {"a": first, "b": second, "w": weight}
    connection = duckdb.connect()
    connection.register("pairs", columns)
    text = (
        "select 'r' || lpad(a::varchar, 8, '0') as unique_id_l, 'r' || lpad(b::varchar, 8, '0') as unique_id_r, "
        "w as match_weight from pairs where a != b"
    )
    with replaced_file(path) as temporary:
        connection.sql(text).write_parquet(str(temporary))
