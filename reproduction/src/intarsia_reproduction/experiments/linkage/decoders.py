"""How often decoders find the best clustering of small worlds, compared with all clusterings."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import beta

from intarsia._core.validation import FloatArray, IntArray
from intarsia.clusters import CEMDecode, ClusterModel, ClusterWorld, HillClimbing, pair_features
from intarsia.worlds import Decoder, decode
from intarsia_reproduction.experiment import Experiment, Finding, Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOUND, PROPOSALS = "best clustering found", "proposals"
LOW, HIGH = "from", "to"  # 95 % interval of the number of worlds, by Clopper and Pearson
_WORLDS, _QUICK_WORLDS, _RECORDS = 30, 5, 8
_PROPOSALS = 500.0  # per record, for all decoders with a budget
_CHAINS = 10  # as many as the other decoders' number of proposals allows
_DECODERS: dict[str, tuple[str, str | Decoder]] = {
    "annealing": ("annealing", "annealing"),
    "cem-kicks": ("CEM-Decode with kicks (default)", CEMDecode(n_proposals=_PROPOSALS)),
    "cem-paper": ("CEM-Decode as printed, without kicks", CEMDecode(n_kicks=0)),
    "hill-climbing": ("hill climbing after greedy merging (default)", "hill_climbing"),
    "hill-climbing-only": ("hill climbing from single records", HillClimbing(agglomerate=False, patience=_PROPOSALS)),
    "greedy": ("greedy merging", "agglomeration"),
}


def decoders(quick: bool = False, data: Path | None = None) -> Experiment:
    """Return the experiment that counts how often each decoder finds the best of all clusterings.

    The quick version has five worlds.

    Examples
    --------
    >>> [task.key for task in decoders(quick=True).tasks][:2]
    ['annealing', 'cem-kicks']
    """
    n_worlds = _QUICK_WORLDS if quick else _WORLDS
    columns, unit = dict.fromkeys((FOUND, LOW, HIGH, PROPOSALS)), f"of {n_worlds}; mean number"
    tasks = [Task(key, label, columns, unit, partial(_run, key, n_worlds)) for key, (label, _) in _DECODERS.items()]
    label = f"hill climbing from single records, best of {_CHAINS}"
    tasks.append(Task("hill-climbing-chains", label, columns, unit, partial(_run_chains, n_worlds)))
    label = "baseline: greedy single moves from random clusterings, restarted"
    tasks.append(Task("restarted", label, columns, unit, partial(_run_restarted, n_worlds)))
    return Experiment(
        "decoders",
        "Decoders of clusterings compared with enumeration",
        tasks,
        _figures,
        f"{n_worlds} random worlds of {_RECORDS} records with pair and cluster features, and random weights",
        question="How often does each decoder find the best of all clusterings?",
    )


def small_world(seed: int, n: int = _RECORDS) -> tuple[ClusterWorld, FloatArray]:
    """Return a world with random pair features, features of clusters, and random weights.

    Examples
    --------
    >>> world, weights = small_world(0)
    >>> world.n_sites, len(weights)
    (8, 10)
    """
    rng = np.random.default_rng(seed)
    features = pair_features(n, np.array(list(combinations(range(n), 2))), rng.normal(size=(n * (n - 1) // 2, 2)))
    model = ClusterModel(absent=False, mean="all", minimum="all", maximum="all", sizes=(1, 3))
    world = ClusterWorld(features, model)
    return world, rng.normal(size=world.n_weights)


def all_clusterings(n: int) -> Iterator[IntArray]:
    """Yield all clusterings of n records.

    Examples
    --------
    >>> len(list(all_clusterings(4)))
    15
    """
    if n == 0:
        yield np.zeros(0, dtype=np.int64)
        return
    for labels in all_clusterings(n - 1):
        for cluster in range(int(labels.max(initial=-1)) + 2):
            yield np.append(labels, cluster)


def best_score(world: ClusterWorld, weights: FloatArray) -> float:
    """Return the highest score of all clusterings of a small world.

    Examples
    --------
    >>> world = ClusterWorld(pair_features(2, [[0, 1]], [3.0]), ClusterModel(absent=False))
    >>> best_score(world, np.array([2.0]))
    6.0
    """
    best = -np.inf
    for labels in all_clusterings(world.n_sites):
        world.reset(labels)
        best = max(best, world.score(weights))
    world.reset()
    return best


@cache
def _best_of(seed: int) -> float:
    """Return the highest score of the clusterings of a world of the table, which all decoders share."""
    return best_score(*small_world(seed))


def _run(key: str, n_worlds: int, _: Path) -> Finding:
    decoder = _DECODERS[key][1]
    is_best, n_proposals = [], []
    for seed in range(n_worlds):
        world, weights = small_world(seed)
        best = _best_of(seed)
        result = decode(world, weights, decoder)
        is_best.append(result.score > best - 1e-9)
        n_proposals.append(result.n_proposals)
    return Finding(_values(is_best, n_proposals), n_worlds, settings={"decoder": repr(decoder), "records": _RECORDS})


def _run_chains(n_worlds: int, _: Path) -> Finding:
    is_best, n_proposals, decoder = [], [], HillClimbing(agglomerate=False)
    for seed in range(n_worlds):
        world, weights = small_world(seed)
        best = _best_of(seed)
        result = decode(world, weights, decoder, n_chains=_CHAINS)
        is_best.append(result.score > best - 1e-9)
        n_proposals.append(result.n_proposals)
    settings = {"decoder": repr(decoder), "chains": _CHAINS, "records": _RECORDS}
    return Finding(_values(is_best, n_proposals), n_worlds, settings=settings)


def _run_restarted(n_worlds: int, _: Path) -> Finding:
    is_best, n_proposals = [], []
    for seed in range(n_worlds):
        world, weights = small_world(seed)
        best = _best_of(seed)
        score, n = restarted_greedy(world, weights, int(_PROPOSALS * _RECORDS), seed)
        is_best.append(score > best - 1e-9)
        n_proposals.append(n)
    return Finding(_values(is_best, n_proposals), n_worlds, settings={"records": _RECORDS, "per record": _PROPOSALS})


def _values(is_best: list[bool], n_proposals: list[int]) -> dict[str, float]:
    """Return the number of worlds whose best clustering was found, its interval, and the mean number of proposals."""
    n, count = len(is_best), sum(is_best)
    low = float(beta.ppf(0.025, count, n - count + 1)) if count else 0.0
    high = float(beta.ppf(0.975, count + 1, n - count)) if count < n else 1.0
    return {FOUND: float(count), LOW: n * low, HIGH: n * high, PROPOSALS: float(np.mean(n_proposals))}


def restarted_greedy(world: ClusterWorld, weights: FloatArray, n_proposals: int, seed: int) -> tuple[float, int]:
    """Return the highest score of repeated greedy searches, and the number of clusterings that were scored.

    Each search starts from a random clustering and moves the single record that raises the score most to another or
    a new cluster, until no move raises it. Every clustering that is scored counts as a proposal.

    Examples
    --------
    >>> world = ClusterWorld(pair_features(2, [[0, 1]], [3.0]), ClusterModel(absent=False))
    >>> restarted_greedy(world, np.array([2.0]), 10, seed=0)
    (6.0, 10)
    """
    rng, n = np.random.default_rng(seed), world.n_sites
    best, n_scored = -np.inf, 0
    while n_scored < n_proposals:
        labels = np.unique(rng.integers(0, n, n), return_inverse=True)[1]
        score = -np.inf
        moves = [labels]
        while n_scored < n_proposals:
            scores = []
            for move in moves[: n_proposals - n_scored]:
                world.reset(move)
                scores.append(world.score(weights))
            n_scored += len(scores)
            k = int(np.argmax(scores))
            if scores[k] <= score + 1e-12:
                break
            score, labels = scores[k], moves[k]
            moves = [
                np.unique(np.where(np.arange(n) == record, cluster, labels), return_inverse=True)[1]
                for record in range(n)
                for cluster in range(int(labels.max()) + 2)
                if cluster != labels[record]
            ]
        best = max(best, score)
    world.reset()
    return best, n_scored


def _figures(findings: dict[str, Finding]) -> dict[str, Figure]:
    return {}
