"""The comparison of ways from pairs to entities, on made-up customers and in a tiny version of the experiment."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia.datasets import make_customers
from intarsia.exceptions import InvalidInputError
from intarsia_reproduction.experiment import Finding, load_experiment, run_tasks, save_finding
from intarsia_reproduction.experiments import entities


def values(ours, components):
    """F1 of all columns: the same by both measures, agglomeration at 0.5."""
    by_method = {"ours": ours, "components": components, "agglomeration": 0.5}
    return {f"{title}, {method}": f1 for title in ("B-cubed F1", "pairwise F1") for method, f1 in by_method.items()}


def test_no_entity_is_in_both_halves():
    entity = np.random.default_rng(0).integers(0, 21, 200)
    one, other = entities.split_by_entity(entity, 3)
    assert sorted([*one, *other]) == list(range(200))
    assert not set(entity[one]) & set(entity[other])
    assert {len(set(entity[one])), len(set(entity[other]))} == {10, 11}
    assert not np.array_equal(one, entities.split_by_entity(entity, 4)[0])


def test_every_method_finds_what_is_plain():
    train, test = (make_customers(20, max_copies=3, typos=0.2, random_state=seed) for seed in (1, 2))
    compared = {"first_name": "jaro_winkler", "last_name": "jaro_winkler", "birth_date": "date", "email": "exact"}
    found = entities.compare_methods(train, test, comparisons=compared)
    assert set(found) == set(values(0.0, 0.0))
    assert min(found.values()) > 0.9


def test_means_count_the_splits_above_components(tmp_path):
    tasks = {task.key: task for task in load_experiment("entities", quick=True).tasks}
    with pytest.raises(InvalidInputError, match="come before their mean"):
        tasks["cora-mean"].run(tmp_path / "none")
    for key, ours, components in (("cora-13", 0.9, 0.8), ("cora-14", 0.7, 0.8)):
        save_finding(key, Finding(values(ours, components), 100), tmp_path)
    found = run_tasks([tasks["cora-mean"]], tmp_path)["cora-mean"]
    assert found.n == 2
    assert found.values[entities.ABOVE] == 1.0
    assert found.values["pairwise F1, ours"] == pytest.approx(0.8)
    # Above by one measure only is not above.
    mixed = values(0.9, 0.8) | {"pairwise F1, ours": 0.8}
    save_finding("cora-14", Finding(mixed, 100), tmp_path)
    assert tasks["cora-mean"].run(tmp_path / "none").values[entities.ABOVE] == 1.0


def test_figure_of_every_split_and_of_no_mean():
    one = Finding(values(0.9, 0.8), 100)
    figure = load_experiment("entities").figures(dict.fromkeys(("cora-0", "cora-13", "cora-chosen", "cora-mean"), one))
    axes = figure["entities-cora"].axes
    assert all(len(line.get_xdata()) == 2 for each in axes for line in each.lines)
    assert [len(each.lines) for each in axes] == [3, 3]
    assert load_experiment("entities").figures({"febrl1-13": one}) == {}


@pytest.mark.data
def test_entities_tiny(data, tmp_path, monkeypatch):
    monkeypatch.setattr(entities, "_QUICK", {"cora": {"mean": range(13, 14)}})
    full = entities._load

    def small(name, folder):
        table = full(name, folder)
        return table.take(np.flatnonzero(table.entity < 12))

    monkeypatch.setattr(entities, "_load", small)
    experiment = load_experiment("entities", quick=True, data=data)
    found = run_tasks(experiment.tasks, tmp_path)
    assert set(found) == {"cora-13", "cora-mean"}
    assert 0.5 < found["cora-13"].values["B-cubed F1, ours"] <= 1.0
    assert set(experiment.figures(found)) == {"entities-cora"}
    assert all(row["ours"] is not None for row in experiment.rows(found))
