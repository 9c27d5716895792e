"""`intarsia bench clusters`: proposals per second, and scored pairs into entities beside dedupe, in one run.

Both resolvers get the same scored pairs, ours as log odds and dedupe as the probabilities they stand for, and both are
tuned on the same other records: ours learns its weights there, dedupe's threshold is the one that does best there. What
is timed is the way from the scores to the clusters alone.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import numpy as np

from intarsia._core.validation import FloatArray, IntArray, check_number
from intarsia._kernels.partition import ACCEPTED
from intarsia.clusters import ClusterWorld, EntityClusterer
from intarsia.clusters.decoding import CHUNK
from intarsia.metrics import clustering_scores
from intarsia_reproduction.benchmarks.measurement import (
    PEAK_BYTES,
    Report,
    Row,
    bench_row,
    fastest_in_turns,
    in_fresh_process,
    one_processor,
    processor_seconds,
)
from intarsia_reproduction.benchmarks.peers import Peer, find_peer
from intarsia_reproduction.workloads.cluster_workloads import ScoredEdges, proposal_world, scored_edges

_SIZES = (1_000, 10_000, 100_000)  # records of the worlds in which proposals are counted
_DENSE = 1_000  # records, all pairs listed
_PROPOSALS = 200_000
_RATE = 200_000  # proposals per second
_KEPT = 0.8  # of the rate of a small world, in a large one
# Records beside dedupe, and whether in blocks: its time and memory grow with the square of a component.
_RESOLVERS = ((5_000, False), (10_000, False), (20_000, True))
_MOST_REPEATS = 3
_TRAINING = 2_000
_THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_DEFAULT_THRESHOLD = 0.5
_RESOLVED = 100_000
_RESOLVED_SECONDS, _RESOLVED_BYTES = 300.0, 4e9
_PER_SECOND = "proposals per second"
_F1 = "pairwise F1 of the entities found"


def bench_clusters(repeats: int = 5, *, report: Report | None = None, rows: list[Row] | None = None) -> list[Row]:
    """Rows of `intarsia bench clusters`; takes a few minutes.

    Every row has the keys of the contract, see `bench_inference`; what needs a peer that is not installed is None.
    Seconds are those of the processor (one thread); those of the largest set of records are by the clock on the wall.

    Parameters
    ----------
    repeats : int
        Timed runs of each program; the fastest counts. The largest set of records is resolved once.
    report : callable, optional
        Is told in a line what is being measured.
    rows : list, optional
        To add rows to as they are measured, so that Ctrl-C leaves them.
    """
    check_number(repeats, "bench: repeats", low=1, integer=True)
    tell: Report = report or (lambda line: None)
    rows = [] if rows is None else rows
    with one_processor():
        tell("proposals")
        rows += _proposals(repeats)
        for n_records, in_blocks in _RESOLVERS:
            tell(f"{n_records:,} records beside dedupe")
            rows.append(_beside_dedupe(n_records, in_blocks, repeats))
        tell(f"{_RESOLVED:,} records resolved")
        rows.append(_resolved())
    return rows


# ---------------------------------------------------------------- proposals


class _Walk:
    """A walk by Metropolis-Hastings from the true entities on."""

    def __init__(self, world: ClusterWorld, weights: FloatArray) -> None:
        self._world, self._weights, self._rng = world, weights, np.random.default_rng(703)
        self._proposed = self._accepted = 0

    def seconds(self) -> float:
        """Processor seconds of some proposals."""
        return processor_seconds(self._go)

    def _go(self) -> None:
        for _ in range(-(-_PROPOSALS // CHUNK)):
            counters = self._world.search(self._weights, CHUNK, self._rng, 1.0)[1]
            self._proposed += CHUNK
            self._accepted += int(counters[ACCEPTED])

    def facts(self) -> Row:
        """What was proposed, and where the walk is."""
        return {
            "n_pairs": len(self._world.pairs.pairs),
            "n_features": self._world.n_weights,
            "accepted_share": self._accepted / self._proposed,
            "records_per_cluster": self._world.n_sites / self._world.partition.n_clusters,
        }


def _proposals(repeats: int) -> list[Row]:
    walks = {f"{n:,} records, 8 pairs each": _Walk(*proposal_world(n)) for n in _SIZES}
    walks[f"{_DENSE:,} records, all pairs"] = _Walk(*proposal_world(_DENSE, dense=True))
    best = fastest_in_turns({name: walk.seconds for name, walk in walks.items()}, repeats)
    count = -(-_PROPOSALS // CHUNK) * CHUNK
    small, rows = next(iter(walks)), []
    for name, walk in walks.items():
        growing = name != small and not name.endswith("all pairs")
        rows.append(
            bench_row(
                f"{count:,} proposals: {name}, 20 features of a pair",
                best[name],
                f"the same, {small}" if growing else None,
                best[small] if growing else None,
                comparison="ourselves" if growing else None,
                stopping="the same number of proposals" if growing else None,
                wanted=f"ratio >= {_KEPT:g}" if growing else f"quality >= {_RATE:,}",
                ours_quality=count / best[name],
                peer_quality=count / best[small] if growing else None,
                quality_is=_PER_SECOND,
                **walk.facts(),
            )
        )
    return rows


# ---------------------------------------------------------------- entities


def trained_clusterer(edges: ScoredEdges) -> EntityClusterer:
    """`EntityClusterer` with default settings, fitted to scored pairs."""
    return EntityClusterer().fit(range(edges.n_records), edges.truth, edges=edges.table)


def qualities(truth: IntArray, labels: IntArray) -> tuple[float, float]:
    """F1 by pairs and by B-cubed.

    Examples
    --------
    >>> qualities(np.array([0, 0, 1]), np.array([0, 0, 0]))    # 1 pair of 3; every record 1, precision 2/3, 2/3, 1/3
    (0.5, 0.7142857142857143)
    """
    found = clustering_scores(truth, labels)
    return found.pairwise.f1, found.b_cubed.f1


class _Dedupe:
    """dedupe with one set of edges at a time."""

    def __init__(self, peer: Peer) -> None:
        self._peer, self.peak_bytes = peer, 0

    def load(self, edges: ScoredEdges) -> str:
        """Hand edges over; returns dedupe's version."""
        self._edges = edges
        answer = self._peer.load(n_records=edges.n_records, pairs=edges.pairs, probability=edges.probability)
        return str(answer["version"])

    def seconds(self, threshold: float) -> float:
        """Processor seconds of its whole clustering."""
        answer = self._peer.ask("cluster", threshold=threshold)
        self.peak_bytes = int(answer["peak_bytes"])
        return float(answer["processor_seconds"])

    def qualities(self, threshold: float) -> tuple[float, float]:
        """F1 by pairs and by B-cubed."""
        self.seconds(threshold)
        return qualities(self._edges.truth, self._peer.fetch("labels"))

    def best_threshold(self) -> float:
        """The threshold with the largest F1 on the edges loaded."""
        return max(_THRESHOLDS, key=lambda threshold: self.qualities(threshold)[0])


def _beside_dedupe(n_records: int, in_blocks: bool, repeats: int) -> Row:
    training, edges = (scored_edges(n, seed, in_blocks=in_blocks) for n, seed in ((_TRAINING, 704), (n_records, 705)))
    clusterer, found = trained_clusterer(training), list[IntArray]()

    def predict() -> None:
        found.append(clusterer.predict(range(edges.n_records), edges=edges.table))

    timed: dict[str, Callable[[], float]] = {"ours": lambda: processor_seconds(predict)}
    more: Row = {}
    with ExitStack() as stack:
        peer = find_peer("dedupe")
        if peer is not None:
            dedupe = _Dedupe(stack.enter_context(peer))
            dedupe.load(training)
            tuned = dedupe.best_threshold()
            more["peer_version"] = dedupe.load(edges)
            more["peer_default_quality"] = dedupe.qualities(_DEFAULT_THRESHOLD)[0]
            more["peer_threshold"] = tuned
            more["peer_quality"], more["peer_b_cubed_f1"] = dedupe.qualities(tuned)
            timed["peer"] = lambda: dedupe.seconds(tuned)
        best = fastest_in_turns(timed, min(repeats, _MOST_REPEATS))
        if peer is not None:
            more["peer_peak_bytes"] = dedupe.peak_bytes
    pairwise, b_cubed = qualities(edges.truth, found[-1])
    where = "in blocks of 40" if in_blocks else "tied together"
    return bench_row(
        f"{n_records:,} records {where}, {len(edges.pairs):,} scored pairs: into entities",
        best["ours"],
        "dedupe, its clustering at the best threshold",
        best.get("peer"),
        comparison="own rules",
        stopping="each when its own algorithm ends; the qualities differ",
        ours_quality=pairwise,
        quality_is=_F1,
        ours_b_cubed_f1=b_cubed,
        **more,
    )


_RESOLVE_CODE = """
import json, resource, sys, time
from intarsia_reproduction.benchmarks.bench_clusters import qualities, trained_clusterer
from intarsia_reproduction.workloads.cluster_workloads import scored_edges
clusterer = trained_clusterer(scored_edges({training}, 704))
edges = scored_edges({records}, 706)
start, on_processor = time.perf_counter(), time.process_time()
labels = clusterer.predict(range(edges.n_records), edges=edges.table)
seconds, on_processor = time.perf_counter() - start, time.process_time() - on_processor
peak = {peak}
pairwise, b_cubed = qualities(edges.truth, labels)
print(json.dumps(dict(seconds=seconds, processor_seconds=on_processor, peak=peak, pairs=len(edges.pairs),
                      pairwise=pairwise, b_cubed=b_cubed)))
"""


def _resolved() -> Row:
    """One large set in a fresh process, whose memory holds the edges as well."""
    found = in_fresh_process(_RESOLVE_CODE.format(training=_TRAINING, records=_RESOLVED, peak=PEAK_BYTES))
    return bench_row(
        f"{_RESOLVED:,} records tied together, {found['pairs']:,} scored pairs: into entities, on the wall",
        found["seconds"],
        wanted=f"< {_RESOLVED_SECONDS:g} s, < {_RESOLVED_BYTES:g} bytes",
        ours_quality=found["pairwise"],
        quality_is=_F1,
        ours_b_cubed_f1=found["b_cubed"],
        ours_processor_seconds=found["processor_seconds"],
        ours_peak_bytes=found["peak"],
    )
