"""Clustering baselines compared with definitions written out, and the experiment on made-up scores."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from intarsia.clusters.partition import canonical_labels
from intarsia.exceptions import MissingDataError
from intarsia.metrics import clustering_scores
from intarsia_reproduction.experiment import load_experiment, run_tasks
from intarsia_reproduction.experiments.linkage import resolve as experiment
from intarsia_reproduction.models.clustering_baselines import (
    LinkageTree,
    best_cut,
    best_links,
    greedy_one_to_one,
    pairwise_f1,
)
from intarsia_reproduction.workloads.linkage_workloads import linkage_records, make_products


@pytest.fixture
def scored():
    rng = np.random.default_rng(3)
    truth = np.repeat(np.arange(30), 3)
    pairs = np.array([pair for pair in itertools.combinations(range(90), 2) if rng.random() < 0.8])
    is_match = truth[pairs[:, 0]] == truth[pairs[:, 1]]
    weight = np.where(is_match, 6.0, -6.0) + rng.normal(0, 3.0, len(pairs))
    return experiment.Scored(truth, pairs, weight)


@pytest.mark.parametrize("method", ["complete", "average"])
def test_linkage_trees_are_those_of_a_plain_loop(scored, method):
    join = {"complete": np.min, "average": np.mean}[method]
    probability = np.zeros((90, 90))
    probability[tuple(scored.pairs.T)] = probability[tuple(scored.pairs[:, ::-1].T)] = scored.probability
    for threshold in (0.3, 0.7):
        clusters = [[k] for k in range(90)]
        while True:
            similarity, first, second = max(
                (join(probability[np.ix_(clusters[a], clusters[b])]), a, b)
                for a, b in itertools.combinations(range(len(clusters)), 2)
            )
            if similarity < threshold:
                break
            clusters[first] += clusters.pop(second)
        expected = np.empty(90, dtype=np.int64)
        for number, members in enumerate(clusters):
            expected[members] = number
        tree = LinkageTree(90, scored.pairs, scored.probability, method, np.array([0.3, 0.7]))
        np.testing.assert_array_equal(tree.cut(threshold), canonical_labels(expected))


def test_one_to_one_matching_uses_each_record_once(scored):
    labels = greedy_one_to_one(90, scored.pairs, scored.match_weight, 0.0)
    assert np.bincount(labels).max() == 2
    partner = {tuple(np.flatnonzero(labels == label)) for label in np.flatnonzero(np.bincount(labels) == 2)}
    free = set(range(90)) - {record for pair in partner for record in pair}
    weight = {tuple(pair): value for pair, value in zip(scored.pairs.tolist(), scored.match_weight, strict=True)}
    for (first, second), value in weight.items():  # a pair was refused only for a better pair of one of its records
        if value >= 0 and (first, second) not in partner:
            better = [weight[pair] for pair in partner if {first, second} & set(pair)]
            assert better
            assert max(better) >= value
            assert not {first, second} <= free


def test_best_links_are_a_part_of_the_components(scored):
    labels = best_links(90, scored.pairs, scored.match_weight, 0.0)
    for record in range(90):
        rows = np.flatnonzero((scored.pairs == record).any(axis=1) & (scored.match_weight >= 0))
        if rows.size:
            first, second = scored.pairs[rows[np.argmax(scored.match_weight[rows])]]
            assert labels[first] == labels[second]


def test_pairwise_f1_is_that_of_the_library(scored):
    labels = np.random.default_rng(0).integers(0, 20, 90)
    assert pairwise_f1(scored.truth, labels) == pytest.approx(clustering_scores(scored.truth, labels).pairwise.f1)
    best, clusters = best_cut(scored.truth, np.array([0.0, 1.0]), lambda t: scored.truth if t else labels)
    assert best == 1.0
    assert clusters is scored.truth


def test_products_are_at_most_once_in_each_catalogue():
    products = make_products(200, random_state=4)
    listed = list(zip(products.entity.tolist(), products.columns["source_dataset"], strict=True))
    assert len(set(listed)) == len(listed)
    in_both = np.mean(np.bincount(products.entity) == 2)
    assert 0.5 < in_both < 0.7
    assert linkage_records("products")[1].columns == make_products().columns


def test_every_method_without_a_peer_runs(scored, monkeypatch, tmp_path):
    monkeypatch.setattr(experiment, "score_records", lambda name, data: scored)
    needs_peer = ("components-50", "components-95", "dedupe")
    tasks = [task for task in load_experiment("resolve", quick=True).tasks if task.key.startswith("fake-")]
    tasks = [task for task in tasks if task.key.removeprefix("fake-") not in needs_peer]
    findings = run_tasks(tasks, tmp_path)
    assert {"fake-resolve", "fake-greedy", "fake-complete"} <= set(findings)
    assert all(0.5 < finding.values["pairwise F1"] <= 1 for finding in findings.values())
    assert findings["fake-resolve"].values["gap"] >= 0
    best = findings["fake-components-best"]
    assert best.values["pairwise F1"] >= findings["fake-best-links"].values["pairwise F1"] - 0.2


def test_missing_splink_is_reported(monkeypatch):
    monkeypatch.setattr(experiment, "find_peer", lambda name: None)
    with pytest.raises(MissingDataError, match=r"setup_peers\.py splink"):
        experiment.score_records("products")
