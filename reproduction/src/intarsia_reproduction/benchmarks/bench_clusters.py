"""`intarsia bench clusters`: proposals per second, and entity resolution of scored pairs compared with dedupe.

Both programs get the same scored pairs, ours as log odds and dedupe as the corresponding probabilities. Both are tuned
on the same other records: ours learns its weights there, and dedupe uses the threshold with the largest F1 there. Only
the step from scores to clusters is timed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import numpy as np

from intarsia._core.validation import FloatArray, IntArray, check_number
from intarsia._kernels.partition import ACCEPTED
from intarsia.clusters import ClusterWorld, EntityClusterer
from intarsia.clusters.world import CHUNK
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

_SIZES = (1_000, 10_000, 100_000)  # numbers of records for which proposals are counted
_DENSE = 1_000  # number of records of which all pairs are listed
_PROPOSALS = 200_000
_RATE = 200_000  # required proposals per second
_RATE_FRACTION = 0.8  # required rate with many records, as a fraction of the rate with few
# Number of records to compare with dedupe, and whether they are in blocks. The time and memory of dedupe grow with the
# square of the component size.
_RESOLVERS = ((5_000, False), (10_000, False), (20_000, True))
_MOST_REPEATS = 3
_TRAINING = 2_000
_THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_DEFAULT_THRESHOLD = 0.5
_RESOLVED = 100_000
_LARGE_SECONDS, _LARGE_BYTES = 300.0, 4e9
_PER_SECOND = "proposals per second"
_F1 = "pairwise F1 of the entities found"


def bench_clusters(repeats: int = 5, *, report: Report | None = None, rows: list[Row] | None = None) -> list[Row]:
    """Measure the rows of `intarsia bench clusters`; takes a few minutes.

    Every row has the keys that `bench_inference` describes; values of a peer that is not installed are None.
    Times are processor seconds (one thread), except for the largest set of records, which is timed by wall clock.

    Parameters
    ----------
    repeats : int
        Number of timed runs of each program; the fastest counts. The largest set of records is run once.
    report : callable, optional
        Called with one line of text before each measurement.
    rows : list, optional
        List to which each row is appended once it is measured, so that Ctrl-C keeps the finished rows.
    """
    check_number(repeats, "bench: repeats", low=1, integer=True)
    log: Report = report or (lambda line: None)
    rows = [] if rows is None else rows
    with one_processor():
        log("proposals")
        rows += _proposals(repeats)
        for n_records, in_blocks in _RESOLVERS:
            log(f"{n_records:,} records compared with dedupe")
            rows.append(_compare_with_dedupe(n_records, in_blocks, repeats))
        log(f"{_RESOLVED:,} records resolved")
        rows.append(_resolved())
    return rows


# ---------------------------------------------------------------- proposals


class _Sampler:
    """Metropolis-Hastings sampler of clusterings that starts from the true entities."""

    def __init__(self, world: ClusterWorld, weights: FloatArray) -> None:
        self._world, self._weights, self._rng = world, weights, np.random.default_rng(703)
        self._proposed = self._accepted = 0

    def seconds(self) -> float:
        """Return the processor seconds of `_PROPOSALS` proposals."""
        return processor_seconds(self._propose)

    def _propose(self) -> None:
        for _ in range(-(-_PROPOSALS // CHUNK)):
            counters = self._world.search(self._weights, CHUNK, self._rng, 1.0)[1]
            self._proposed += CHUNK
            self._accepted += int(counters[ACCEPTED])

    def facts(self) -> Row:
        """Return the numbers of pairs and features, the acceptance rate and the current cluster size."""
        return {
            "n_pairs": len(self._world.pairs.pairs),
            "n_features": self._world.n_weights,
            "accepted_share": self._accepted / self._proposed,
            "records_per_cluster": self._world.n_sites / self._world.partition.n_clusters,
        }


def _proposals(repeats: int) -> list[Row]:
    samplers = {f"{n:,} records, 8 pairs each": _Sampler(*proposal_world(n)) for n in _SIZES}
    samplers[f"{_DENSE:,} records, all pairs"] = _Sampler(*proposal_world(_DENSE, dense=True))
    best = fastest_in_turns({name: sampler.seconds for name, sampler in samplers.items()}, repeats)
    count = -(-_PROPOSALS // CHUNK) * CHUNK
    small, rows = next(iter(samplers)), []
    for name, sampler in samplers.items():
        is_large = name != small and not name.endswith("all pairs")
        rows.append(
            bench_row(
                f"{count:,} proposals: {name}, 20 features of a pair",
                best[name],
                f"the same, {small}" if is_large else None,
                best[small] if is_large else None,
                comparison="ourselves" if is_large else None,
                stopping="the same number of proposals" if is_large else None,
                wanted=f"ratio >= {_RATE_FRACTION:g}" if is_large else f"quality >= {_RATE:,}",
                ours_quality=count / best[name],
                peer_quality=count / best[small] if is_large else None,
                quality_is=_PER_SECOND,
                **sampler.facts(),
            )
        )
    return rows


# ---------------------------------------------------------------- entities


def trained_clusterer(edges: ScoredEdges) -> EntityClusterer:
    """Return an `EntityClusterer` with default settings, fitted to scored pairs."""
    return EntityClusterer().fit(range(edges.n_records), edges.truth, edges=edges.table)


def qualities(truth: IntArray, labels: IntArray) -> tuple[float, float]:
    """Return pairwise F1 and B-cubed F1.

    Examples
    --------
    >>> qualities(np.array([0, 0, 1]), np.array([0, 0, 0]))    # 1 pair of 3; every record 1, precision 2/3, 2/3, 1/3
    (0.5, 0.7142857142857143)
    """
    scores = clustering_scores(truth, labels)
    return scores.pairwise.f1, scores.b_cubed.f1


class Dedupe:
    """Connection to dedupe, with one set of edges at a time."""

    def __init__(self, peer: Peer) -> None:
        self._peer, self.peak_bytes = peer, 0

    def load(self, edges: ScoredEdges) -> str:
        """Send edges to dedupe and return its version."""
        self._edges = edges
        answer = self._peer.load(n_records=edges.n_records, pairs=edges.pairs, probability=edges.probability)
        return str(answer["version"])

    def seconds(self, threshold: float) -> float:
        """Return the processor seconds of a complete clustering."""
        answer = self._peer.ask("cluster", threshold=threshold)
        self.peak_bytes = int(answer["peak_bytes"])
        return float(answer["processor_seconds"])

    def qualities(self, threshold: float) -> tuple[float, float]:
        """Return pairwise F1 and B-cubed F1 at a threshold."""
        self.seconds(threshold)
        return qualities(self._edges.truth, self._peer.fetch("labels"))

    def best_threshold(self) -> float:
        """Return the threshold with the largest pairwise F1 on the current edges."""
        return max(_THRESHOLDS, key=lambda threshold: self.qualities(threshold)[0])


def _compare_with_dedupe(n_records: int, in_blocks: bool, repeats: int) -> Row:
    training, edges = (scored_edges(n, seed, in_blocks=in_blocks) for n, seed in ((_TRAINING, 704), (n_records, 705)))
    clusterer, predictions = trained_clusterer(training), list[IntArray]()

    def predict() -> None:
        predictions.append(clusterer.predict(range(edges.n_records), edges=edges.table))

    timed: dict[str, Callable[[], float]] = {"ours": lambda: processor_seconds(predict)}
    peer_fields: Row = {}
    with ExitStack() as stack:
        peer = find_peer("dedupe")
        if peer is not None:
            dedupe = Dedupe(stack.enter_context(peer))
            dedupe.load(training)
            threshold = dedupe.best_threshold()
            peer_fields["peer_version"] = dedupe.load(edges)
            peer_fields["peer_default_quality"] = dedupe.qualities(_DEFAULT_THRESHOLD)[0]
            peer_fields["peer_threshold"] = threshold
            peer_fields["peer_quality"], peer_fields["peer_b_cubed_f1"] = dedupe.qualities(threshold)
            timed["peer"] = lambda: dedupe.seconds(threshold)
        best = fastest_in_turns(timed, min(repeats, _MOST_REPEATS))
        if peer is not None:
            peer_fields["peer_peak_bytes"] = dedupe.peak_bytes
    pairwise, b_cubed = qualities(edges.truth, predictions[-1])
    structure = "in blocks of 40" if in_blocks else "tied together"
    return bench_row(
        f"{n_records:,} records {structure}, {len(edges.pairs):,} scored pairs: into entities",
        best["ours"],
        "dedupe, its clustering at the best threshold",
        best.get("peer"),
        comparison="own rules",
        stopping="each when its own algorithm ends; the qualities differ",
        ours_quality=pairwise,
        quality_is=_F1,
        ours_b_cubed_f1=b_cubed,
        **peer_fields,
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
    """Cluster one large set in a fresh process, whose peak memory includes the edges."""
    measurement = in_fresh_process(_RESOLVE_CODE.format(training=_TRAINING, records=_RESOLVED, peak=PEAK_BYTES))
    return bench_row(
        f"{_RESOLVED:,} records tied together, {measurement['pairs']:,} scored pairs: into entities, on the wall",
        measurement["seconds"],
        wanted=f"< {_LARGE_SECONDS:g} s, < {_LARGE_BYTES:g} bytes",
        ours_quality=measurement["pairwise"],
        quality_is=_F1,
        ours_b_cubed_f1=measurement["b_cubed"],
        ours_processor_seconds=measurement["processor_seconds"],
        ours_peak_bytes=measurement["peak"],
    )
