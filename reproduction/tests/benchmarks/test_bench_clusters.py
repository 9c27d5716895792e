"""Rows of the benchmark on few records; the measured seconds are not checked."""

from itertools import combinations

import numpy as np
import pytest
from reproduction.tests.benchmarks.bench_contract import check

from intarsia.clusters import connected_components
from intarsia_reproduction.benchmarks import bench_clusters as bench
from intarsia_reproduction.benchmarks.peers import find_peer
from intarsia_reproduction.workloads.cluster_workloads import proposal_world, scored_edges


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(bench, "_SIZES", (60, 120))
    monkeypatch.setattr(bench, "_DENSE", 40)
    monkeypatch.setattr(bench, "_PROPOSALS", 10_000)
    monkeypatch.setattr(bench, "_RESOLVERS", ((80, False), (90, True)))
    monkeypatch.setattr(bench, "_TRAINING", 100)
    monkeypatch.setattr(bench, "_RESOLVED", 120)


class FakePeer:
    """Peer that joins pairs above the threshold, and reports more seconds for lower thresholds."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def load(self, n_records, pairs, probability):
        self.edges = int(n_records), np.asarray(pairs), np.asarray(probability)
        return {"version": "0.0"}

    def ask(self, do, threshold):
        assert do == "cluster"
        self.threshold = threshold
        return {"processor_seconds": 2.0 - threshold, "peak_bytes": 1234}

    def fetch(self, name):
        assert name == "labels"
        return connected_components(*self.edges, self.threshold)


def test_without_peers(small, monkeypatch):
    monkeypatch.setattr(bench, "find_peer", lambda name: None)
    lines = []
    rows = bench.bench_clusters(repeats=1, report=lines.append)
    check(rows)
    assert len(rows) == len(bench._SIZES) + 1 + len(bench._RESOLVERS) + 1
    assert lines[0] == "proposals"
    first, grown, dense, tied, blocks, resolved = rows
    assert first["ours_quality"] == pytest.approx(10_000 / first["ours_seconds"])
    assert grown["peer_seconds"] == first["ours_seconds"]
    assert grown["peer_quality"] == first["ours_quality"]
    assert dense["n_pairs"] == 40 * 39 // 2
    assert tied["peer_seconds"] is tied["peer_quality"] is blocks["peer_seconds"] is None
    assert resolved["ours_peak_bytes"] > 1e7
    for row in (tied, blocks, resolved):
        assert 0.7 < row["ours_quality"] <= 1.0


def test_threshold_of_the_peer_is_tuned_on_other_records(small, monkeypatch):
    peer = FakePeer()
    monkeypatch.setattr(bench, "find_peer", lambda name: peer)
    row = bench._compare_with_dedupe(80, True, 1)
    check([row])
    training = scored_edges(100, 704, in_blocks=True)
    by_threshold = [
        bench.qualities(
            training.truth, connected_components(100, training.pairs, 1 / (1 + np.exp(-training.log_odds)), threshold)
        )[0]
        for threshold in bench._THRESHOLDS
    ]
    assert row["peer_threshold"] == bench._THRESHOLDS[int(np.argmax(by_threshold))]
    assert row["peer_seconds"] == pytest.approx(2.0 - row["peer_threshold"])
    edges = scored_edges(80, 705, in_blocks=True)
    for key, threshold in (("peer_quality", row["peer_threshold"]), ("peer_default_quality", 0.5)):
        labels = connected_components(80, edges.pairs, edges.probability, threshold)
        assert row[key] == bench.qualities(edges.truth, labels)[0]
    assert row["peer_peak_bytes"] == 1234


@pytest.mark.skipif(find_peer("dedupe") is None, reason="dedupe is not installed; see reproduction/README.md")
def test_dedupe_finds_well_separated_entities():
    edges = scored_edges(60, 1, in_blocks=True)
    is_match = edges.truth[edges.pairs[:, 0]] == edges.truth[edges.pairs[:, 1]]
    certain_edges = type(edges)(edges.truth, edges.pairs[is_match], np.full(is_match.sum(), 8.0))
    with find_peer("dedupe") as peer:
        dedupe = bench.Dedupe(peer)
        assert dedupe.load(certain_edges)
        assert dedupe.seconds(0.5) > 0
        assert dedupe.peak_bytes > 1e6
        pairwise, b_cubed = dedupe.qualities(0.5)
    assert pairwise > 0.9  # some records are lost, since a twentieth of the pairs is missing
    assert b_cubed > 0.9


@pytest.mark.parametrize("in_blocks", [False, True])
def test_edges_are_distinct_pairs_of_different_records(in_blocks):
    edges = scored_edges(400, 3, in_blocks=in_blocks)
    assert (edges.pairs[:, 0] < edges.pairs[:, 1]).all()
    assert edges.pairs.min() >= 0
    assert edges.pairs.max() < 400
    assert len({tuple(pair) for pair in edges.pairs.tolist()}) == len(edges.pairs)
    assert np.bincount(edges.truth).max() <= 9
    assert 4 < 400 / np.unique(edges.truth).size < 6
    components = np.bincount(connected_components(400, edges.pairs))
    assert (components.max() <= 8 * 9) == in_blocks
    assert len(edges.pairs) == 8000 if not in_blocks else 6000 < len(edges.pairs) < 10_000
    expected = {(i, j) for i, j in combinations(range(400), 2) if edges.truth[i] == edges.truth[j]}
    scored = expected & {tuple(pair) for pair in edges.pairs.tolist()}
    assert 0.9 < len(scored) / len(expected) < 1.0  # a twentieth is missing


def test_log_odds_are_calibrated_for_pairs_of_dissimilar_entities():
    edges = scored_edges(20_000, 5)
    first, second = edges.truth[edges.pairs].T
    not_similar = (first == second) | (first // 2 != second // 2)
    for low, high in ((-2.0, -1.0), (-0.5, 0.5), (1.0, 2.0)):
        in_range = not_similar & (edges.log_odds > low) & (edges.log_odds < high)
        frequency = (first == second)[in_range].mean()
        assert frequency == pytest.approx(edges.probability[in_range].mean(), abs=0.06)


@pytest.mark.parametrize("dense", [False, True])
def test_sampling_stays_near_the_entities(dense):
    world, weights = proposal_world(100, dense=dense)
    assert world.pairs.complete == dense
    assert world.performance() == 1.0
    world.search(weights, 10_000, np.random.default_rng(0), 1.0)
    assert world.performance() > 0.85
    assert 3.5 < 100 / world.partition.n_clusters < 6.5
