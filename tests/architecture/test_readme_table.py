"""The README shows only rows whose peer finished in the same run with the same stopping rule."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from intarsia.exceptions import InvalidInputError
from intarsia_reproduction.benchmarks.measurement import bench_row, check_row

ROOT = Path(__file__).parents[2]
FAIR = bench_row("a fair row", 0.5, "somebody", 2.0, comparison="same rule", stopping="50 sweeps each")


@pytest.fixture
def readme_table():
    spec = importlib.util.spec_from_file_location("readme_table", ROOT / "docs" / "readme_table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_table_matches_the_json(readme_table):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme_table.with_table(readme) == readme, "run: python docs/readme_table.py"
    assert readme.count("| CRFsuite |") == 1


def test_each_peer_stands_once_with_its_lowest_ratio(readme_table):
    rows = [
        FAIR | {"peer": peer, "ratio": ratio, "workload": f"{peer} {ratio}"}
        for peer, ratio in [("PGMax", 3.0), ("mbi's descent", 6.0), ("PGMax, by JAX", 0.5), ("PGMax", 13.0)]
    ]
    assert [row["ratio"] for row in readme_table.lowest_rows(rows)] == [0.5, 6.0]
    assert len(readme_table.lowest_rows(readme_table.stored_rows())) <= 10


def test_fair_row_is_printed(readme_table):
    assert readme_table.peers_table([FAIR]).splitlines()[2:] == ["| a fair row | somebody | 50 sweeps each | 4 |"]
    to_a_gap = {"stopping": "gap of 0.001", "quality_is": "distance", "ours_quality": 9e-4, "peer_quality": 1e-4}
    assert len(readme_table.peers_table([FAIR | to_a_gap]).splitlines()) == 3


@pytest.mark.parametrize(
    "fault",
    [
        {"peer_finished": False},
        {"comparison": "quoted"},
        {"comparison": "own rules"},
        {"comparison": "ourselves"},
        {"peer_seconds": None, "ratio": None, "peer_finished": None},
        {"workload": "memory of a gradient"},
        {"stopping": "ours at 0.001, somebody at 1e-4"},
        {"stopping": "gap of 0.001", "quality_is": "distance from it", "ours_quality": 2e-3, "peer_quality": 1e-4},
        {"stopping": "gap of 0.001", "quality_is": "distance from it", "ours_quality": 1e-4, "peer_quality": None},
    ],
    ids=str,
)
def test_unfair_row_is_left_out(readme_table, fault):
    assert len(readme_table.peers_table([FAIR | fault]).splitlines()) == 2


@pytest.mark.parametrize("field", ["comparison", "stopping", "peer_finished"])
def test_incomplete_row_raises(readme_table, field):
    with pytest.raises(InvalidInputError, match=f"'a fair row' has no field '{field}'"):
        readme_table.peers_table([{key: value for key, value in FAIR.items() if key != field}])
    with pytest.raises(InvalidInputError, match="a fair row"):
        readme_table.peers_table([FAIR | {field: None}])


def test_row_with_a_peer_states_the_comparison():
    with pytest.raises(InvalidInputError, match="expected comparison to be one of same rule, own rules"):
        bench_row("a grid", 0.5, "somebody", 2.0)
    with pytest.raises(InvalidInputError, match="no peer"):
        bench_row("a grid", 0.5, comparison="same rule", stopping="50 sweeps")


def test_every_stored_row_is_valid_and_matches_the_quote(readme_table):
    rows = readme_table.stored_rows()
    assert len(rows) > 50
    for row in rows:
        check_row(row)
        assert ("quoted" in (row["peer"] or "")) == (row["comparison"] == "quoted")
        if row["comparison"] == "same rule" and row.get("quality_is", "").startswith("distance"):
            limit = 3e-3 if "0.003" in row["workload"] else 1e-3
            assert max(row["ours_quality"], row["peer_quality"]) <= limit, row["workload"]


def test_no_unfair_number_in_the_readme(readme_table):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert not [word for word in ("(quoted", "libDAI", "Domke's C++", "stopped)", "19,595") if word in readme]
    shown = json.dumps(readme_table.peers_table(readme_table.stored_rows()))
    assert "Clarabel" not in shown
    assert "dedupe" not in shown


def test_faster_peers_with_rules_of_their_own_are_named(readme_table):
    rows = [
        FAIR | {"comparison": "own rules", "peer": "somebody.parse", "ratio": ratio} for ratio in (0.5, 0.25, 2.0)
    ] + [FAIR | {"comparison": "own rules", "peer": "imports of numpy", "ratio": 0.1}, FAIR | {"ratio": 0.125}]
    sentence = readme_table.faster_peers(rows)
    assert sentence.endswith(": somebody (0.25).")
