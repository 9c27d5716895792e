"""`resolve(edges, previous=...)`: the result of a full run, with only changed components resolved again."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia.clusters import resolve
from intarsia.clusters.resolution import resolve as module
from intarsia.exceptions import InvalidInputError


def random_pairs(rng, n, n_pairs):
    ends = np.unique(np.sort(rng.integers(0, n, (n_pairs, 2)), axis=1), axis=0)
    ends = ends[ends[:, 0] < ends[:, 1]]
    same = ends[:, 0] // 4 == ends[:, 1] // 4
    odds = rng.normal(np.where(same, 2.0, -1.5), 1.5).round(3)
    return [(f"r{a:03d}", f"r{b:03d}", w) for (a, b), w in zip(ends.tolist(), odds.tolist(), strict=True)]


def table(rows):
    return {name: [row[k] for row in rows] for k, name in enumerate(("id1", "id2", "log_odds"))}


def entities(resolution):
    return dict(zip(resolution.table["id"], resolution.table["entity"], strict=True))


@pytest.mark.parametrize("seed", range(6))
def test_equals_a_full_run(seed):
    rng = np.random.default_rng(seed)
    rows = random_pairs(rng, 120, 220)
    chosen = rng.random(len(rows)) < 0.9
    old = [row for row, is_old in zip(rows, chosen, strict=True) if is_old]
    new = [row for row, is_old in zip(rows, chosen, strict=True) if not is_old]
    new += [(a, b, -w) for a, b, w in old[:3]]  # scores that changed
    settings = {"calibrate": None, "absent": -0.2}
    if seed % 2:
        settings["max_size"] = 3
    first = resolve(table(old), cannot_link=[old[5][:2]], **settings)
    links = {"cannot_link": [old[5][:2], old[8][:2]], "must_link": [old[12][:2]]}
    second = resolve(table(new), previous=first, **links, **settings)
    everything = {(a, b): w for a, b, w in old} | {(a, b): w for a, b, w in new}
    full = resolve(table([(a, b, w) for (a, b), w in everything.items()]), **links, **settings)
    assert entities(second) == entities(full)
    assert second.score == pytest.approx(full.score)
    assert second.bound == pytest.approx(full.bound)
    np.testing.assert_allclose(second.components["bound"], full.components["bound"])
    before, after = entities(first), entities(full)
    groups_before = {name: {r for r in before if before[r] == name} for name in set(before.values())}
    groups_after = {name: {r for r in after if after[r] == name} for name in set(after.values())}
    changes = second.changes
    assert changes["kept"] == sorted(n for n, g in groups_after.items() if g in groups_before.values())
    assert changes["split"] == sorted(n for n, g in groups_before.items() if len({after[r] for r in g}) > 1)
    assert changes["merged"] == sorted(
        n for n, g in groups_after.items() if len({before[r] for r in g if r in before}) > 1
    )
    assert changes["new"] == sorted(n for n, g in groups_after.items() if not g & set(before))


def test_only_changed_components_are_resolved(monkeypatch):
    rows = [(f"{k:03d}{a}", f"{k:03d}{b}", 2.0) for k in range(50) for a, b in ("ab", "bc", "ac")]
    first = resolve(table(rows), calibrate=None)
    treated = []
    kernel = module.cluster_small_components
    monkeypatch.setattr(
        module, "cluster_small_components", lambda chosen, *rest: (treated.extend(chosen), kernel(chosen, *rest))
    )
    second = resolve(table([("000a", "new", 3.0), ("001a", "001b", -9.0)]), previous=first, calibrate=None)
    assert len(treated) == second.changes.n_components == 2
    assert second.changes["grown"] == ["000a"]
    assert second.changes["split"] == ["001a"]
    assert len(second.changes["kept"]) == 48
    assert second.changes["merged"] == second.changes["new"] == []
    assert "kept=48" in repr(second.changes)
    unchanged = resolve(table(rows[:1]), previous=second, calibrate=None)
    assert unchanged.changes.n_components == 0
    assert entities(unchanged) == entities(second)


def shifted_pairs(shift):
    """Pairs of 150 entities of five records, with scores that are shifted and three times too large."""
    rng = np.random.default_rng(2)
    n = 750
    true_pairs = [(i, j) for i in range(n) for j in range(i + 1, n) if i // 5 == j // 5]
    pairs = {(min(i, j), max(i, j)) for i, j in [*true_pairs, *rng.integers(0, n, (6 * n, 2)).tolist()] if i != j}
    return [
        (f"r{i:03d}", f"r{j:03d}", 3.0 * rng.normal(1.5 if i // 5 == j // 5 else -1.5, 1.2) + shift)
        for i, j in sorted(pairs)
    ]


def test_calibration_is_that_of_a_full_run():
    rows = shifted_pairs(6.0)
    cut = len(rows) // 20  # too few pairs for a calibration
    first = resolve(table(rows[:cut]), calibrate="auto")
    second = resolve(table(rows[cut:]), previous=first, calibrate="auto")
    full = resolve(table(rows), calibrate="auto")
    assert (first.calibration.method, full.calibration.method) == ("none", "agreement")
    np.testing.assert_array_equal(second.log_odds, full.log_odds)
    assert entities(second) == entities(full)


def test_sources_are_compared():
    rng = np.random.default_rng(0)
    rows = random_pairs(rng, 400, 3000)
    first = resolve(table(rows))
    second = resolve(table([("r000", "zzz", 4.0)]), previous=first)
    assert second.changes.n_components <= 1
    source = {row[0]: k % 7 for k, row in enumerate(rows)}
    third = resolve(table(rows[:1]), previous=second, source=source)
    assert third.changes.n_components == sum(size > 1 for size in third.components["n_records"]) > 1
    with pytest.raises(InvalidInputError, match="previous is of type dict"):
        resolve(table(rows), previous={"id": []})
