"""Coverage of conformal sets on five data sets: stored measurements are inside their bands, and a small run works."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from intarsia.exceptions import MissingDataError

ROOT = Path(__file__).parents[2]
STORED = json.loads((ROOT / "docs" / "results" / "conformal_coverage.json").read_text(encoding="utf-8"))


def script():
    spec = importlib.util.spec_from_file_location("conformal_coverage", ROOT / "reproduction" / "conformal_coverage.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_stored_coverages_are_inside_their_bands():
    rows = [row for entry in STORED["data_sets"] for row in entry["rows"]]
    assert len(STORED["data_sets"]) == 5
    assert STORED["settings"]["n_splits"] == 50
    assert len(rows) == 5 * 3 * 4
    for row in rows:
        assert row["band_of_mean"][0] <= row["coverage"] <= row["band_of_mean"][1]
        assert row["splits_in_band"] is None or row["splits_in_band"] >= 0.9


def test_stored_drift_is_flagged_where_coverage_is_lost():
    for entry in STORED["data_sets"]:
        assert entry["drift"]["p_value_without_drift"] > 0.01
        if entry["drift"]["coverage"] < 0.87:
            assert entry["drift"]["p_value"] < 0.001


def test_small_run():
    try:
        result = script().measure("Cora references", n_splits=3, max_pool=60)
    except MissingDataError as error:
        pytest.skip(str(error))
    assert result["n_calibration"] == result["n_test"] == 30
    assert {row["unit"] for row in result["rows"]} == {
        "all labels of a sequence", "labelling", "labelling, never empty", "labels by position",
    }  # fmt: skip
    assert all(0.5 < row["coverage"] <= 1.0 for row in result["rows"])
