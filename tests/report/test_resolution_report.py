"""The waterfall ends at the sum; the report states the counts, recall and doubts of a run."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from intarsia.clusters import resolve
from intarsia.exceptions import InvalidInputError
from intarsia.report import plot_explanation, report_resolution

EDGES = {
    "unique_id_l": ["a", "a", "b", "c", "d"],
    "unique_id_r": ["b", "c", "c", "d", "e"],
    "match_weight": [3.0, 2.0, 4.0, -1.0, 4.5],
    "match_key": ["0", "0", "1", "1", "0"],
}


def cells(page, section):
    """Return the rows of the tables of a section as lists of strings."""
    body = page.split(f'<section id="{section}">')[1].split("</section>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", body)
    return [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in rows if "<td" in row]


def test_the_waterfall_ends_at_the_sum():
    resolution = resolve(EDGES, calibrate=None, absent=0.0)
    explanation = resolution.explain("a")
    axes = plot_explanation(explanation).axes[0]
    bars = axes.patches
    assert bars[-1].get_width() == pytest.approx(explanation.score)
    assert sum(bar.get_width() for bar in bars[:-1]) == pytest.approx(explanation.score)
    for bar, following in itertools.pairwise(bars[:-1]):
        assert following.get_x() == pytest.approx(bar.get_x() + bar.get_width())


def test_many_contributions_are_summed():
    names = [f"r{k}" for k in range(8)]
    pairs = [(a, b) for a in names for b in names if a < b]
    edges = {"id1": [a for a, _ in pairs], "id2": [b for _, b in pairs], "log_odds": np.arange(1.0, 29.0)}
    axes = plot_explanation(resolve(edges, calibrate=None).explain("r0"), max_bars=5).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()][-2:] == ["24 others", "sum"]
    assert axes.patches[-1].get_width() == pytest.approx(28 * 29 / 2)


def test_the_report_states_counts_recall_and_doubts(tmp_path):
    resolution = resolve(EDGES, ids=list("abcdef"), calibrate=None, absent=0.0)
    truth = {"a": 1, "b": 1, "c": 1, "d": 2, "e": 3, "f": 2}  # true pairs: ab ac bc df; df was not compared
    path = tmp_path / "folder" / "report.html"
    report_resolution(resolution, path, edges=EDGES, truth=truth)
    page = path.read_text(encoding="utf-8")
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page
    assert cells(page, "blocking") == [
        ["0", "3"],
        ["1", "2"],
        ["compared pairs", "5", "3", "0.75", "0.6"],
        ["pairs within entities", "4", "3", "0.75", "0.75"],
    ]
    assert cells(page, "sizes") == [["1", "1", "1"], ["2", "1", "2"], ["3", "1", "3"]]
    doubts = cells(page, "doubts")
    assert doubts[0][:2] == ["d", "2"]
    assert float(doubts[0][2]) == pytest.approx(4.5 * np.log(2), rel=1e-3)
    assert doubts[-1][:4] == ["a", "d", "3", "2"]
    assert float(doubts[-1][4]) == pytest.approx(np.log(2), rel=1e-3)


def test_calibrated_scores_have_two_histograms(tmp_path):
    rng = np.random.default_rng(0)
    edges = {"id1": [f"a{k}" for k in range(40)], "id2": [f"b{k}" for k in range(40)], "log_odds": rng.normal(size=40)}
    labels = {"id1": edges["id1"], "id2": edges["id2"], "match": (edges["log_odds"] > 0).astype(int)}
    report_resolution(resolve(edges, calibrate=labels), tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "Calibration" in page
    assert "calibrated" in page


def test_an_empty_run_has_a_report(tmp_path):
    report_resolution(resolve({"id1": [], "id2": [], "log_odds": []}, ids=["a"]), tmp_path / "r.html")
    assert "There are no scored pairs" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_bad_input_is_named(tmp_path):
    resolution = resolve(EDGES)
    with pytest.raises(InvalidInputError, match="truth has no id of the scored pairs"):
        report_resolution(resolution, tmp_path / "r.html", truth={"z": 1})
    with pytest.raises(InvalidInputError, match="edges are of type int"):
        report_resolution(resolution, tmp_path / "r.html", edges=3)
    assert not (tmp_path / "r.html").exists()


def test_doubtful_entities_by_confidence(tmp_path):
    edges = {"id1": ["a", "b", "a", "p"], "id2": ["x", "x", "b", "q"], "log_odds": [4.0, 4.0, -9.0, 9.0]}
    resolution = resolve(edges, calibrate=None, absent=0.0)
    confidence = resolution.confidence()
    report_resolution(resolution, tmp_path / "plain.html")
    assert "mean confidence" not in (tmp_path / "plain.html").read_text(encoding="utf-8")
    report_resolution(resolution, tmp_path / "report.html", confidence=confidence)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "mean confidence" in page
    rows = cells(page, "doubts")
    assert [row[0] for row in rows[:3]] != ["p", "a", "b"]
    assert rows[2][0] == "p"
    assert float(rows[0][2]) == pytest.approx(0.5, abs=0.02)
    assert float(rows[2][2]) > 0.99
    with pytest.raises(InvalidInputError, match="Pass the result of its own method"):
        report_resolution(resolve(EDGES, list("abcdefg")), tmp_path / "other.html", confidence=confidence)
