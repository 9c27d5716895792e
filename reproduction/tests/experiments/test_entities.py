"""Comparison of clustering methods on synthetic customers, and a tiny version of the experiment."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia.datasets import make_customers
from intarsia.exceptions import InvalidInputError
from intarsia_reproduction.experiment import Finding, load_experiment, run_tasks, save_finding
from intarsia_reproduction.experiments import entities


def values(ours, components):
    """Return the F1 of all columns: equal for both scores, 0.75 for agglomeration, and 0.5 with cluster features."""
    by_method = {"ours": ours, "components": components, "agglomeration": 0.75, "with cluster features": 0.5}
    return {f"{title}, {method}": f1 for title in ("B-cubed F1", "pairwise F1") for method, f1 in by_method.items()}


def test_no_entity_is_in_both_halves():
    entity = np.random.default_rng(0).integers(0, 21, 200)
    train, test = entities.split_by_entity(entity, 3)
    assert sorted([*train, *test]) == list(range(200))
    assert not set(entity[train]) & set(entity[test])
    assert {len(set(entity[train])), len(set(entity[test]))} == {10, 11}
    assert not np.array_equal(train, entities.split_by_entity(entity, 4)[0])


def test_every_method_recovers_easy_entities():
    train, test = (make_customers(20, max_copies=3, typos=0.2, random_state=seed) for seed in (1, 2))
    comparisons = {"first_name": "jaro_winkler", "last_name": "jaro_winkler", "birth_date": "date", "email": "exact"}
    added = [entities.AllEqual("birth_date")]
    scores, decisions = entities.compare_methods(train, test, added, comparisons=comparisons)
    assert set(scores) == set(values(0.0, 0.0))
    assert min(scores.values()) > 0.9
    assert set(decisions) == {"ours", "with cluster features"}
    without, _ = entities.compare_methods(train, test, comparisons=comparisons)
    assert without == {name: score for name, score in scores.items() if "with cluster features" not in name}


def test_means_count_the_splits_above_components(tmp_path):
    tasks = {task.key: task for task in load_experiment("entities", quick=True).tasks}
    with pytest.raises(InvalidInputError, match="the mean needs the results of its splits"):
        tasks["cora-mean"].run(tmp_path / "none")
    for key, ours, components in (("cora-13", 0.9, 0.8), ("cora-14", 0.7, 0.8)):
        settings = {"decisions": {"ours": "ranking", "with cluster features": "resolve"}}
        save_finding(key, Finding(values(ours, components), 100, settings=settings), tmp_path)
    finding = run_tasks([tasks["cora-mean"]], tmp_path)["cora-mean"]
    assert finding.n == 2
    assert finding.values[entities.ABOVE] == 1.0
    assert finding.values["pairwise F1, ours"] == pytest.approx(0.8)
    gains = run_tasks([tasks["cora-mean-gain"]], tmp_path)["cora-mean-gain"].values
    gain = [gains[f"pairwise F1, ours, gain{end}"] for end in ("", ", low", ", high")]
    assert gain == pytest.approx([0.05, -0.05, 0.15])
    sides = {
        method: [gains[f"splits {side} agglomeration, {method}"] for side in ("above", "below")]
        for method in ("ours", "with cluster features")
    }
    assert sides == {"ours": [1.0, 1.0], "with cluster features": [0.0, 2.0]}
    assert gains["splits decided by ranking, ours"] == 2.0
    assert gains["splits decided by ranking, with cluster features"] == 0.0
    # A split that is higher by one score only does not count.
    mixed = values(0.9, 0.8) | {"pairwise F1, ours": 0.8}
    save_finding("cora-14", Finding(mixed, 100), tmp_path)
    assert tasks["cora-mean"].run(tmp_path / "none").values[entities.ABOVE] == 1.0


def test_the_figure_has_splits_but_no_means():
    finding = Finding(values(0.9, 0.8), 100)
    figure = load_experiment("entities").figures(
        dict.fromkeys(("cora-0", "cora-13", "cora-chosen", "cora-mean"), finding)
    )
    axes = figure["entities-cora"].axes
    assert all(len(line.get_xdata()) == 2 for panel in axes for line in panel.lines)
    assert [len(panel.lines) for panel in axes] == [4, 4]
    assert load_experiment("entities").figures({"febrl1-13": finding}) == {}


@pytest.mark.data
def test_entities_tiny(data, tmp_path, monkeypatch):
    monkeypatch.setattr(entities, "_QUICK", {"cora": {"mean": range(13, 14)}})
    full = entities._load

    def small(name, folder):
        table = full(name, folder)
        return table.take(np.flatnonzero(table.entity < 12))

    monkeypatch.setattr(entities, "_load", small)
    experiment = load_experiment("entities", quick=True, data=data)
    findings = run_tasks(experiment.tasks, tmp_path)
    assert set(findings) == {"cora-13", "cora-mean", "cora-mean-gain"}
    assert 0.5 < findings["cora-13"].values["B-cubed F1, ours"] <= 1.0
    assert set(experiment.figures(findings)) == {"entities-cora"}
    assert all(row["ours"] is not None for row in experiment.rows(findings))
