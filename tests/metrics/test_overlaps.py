"""Partial scores of segments against stored answers of nervaluate, and the printed report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from intarsia.exceptions import InvalidInputError
from intarsia.metrics import overlap_scores, segment_scores, tagging_report
from intarsia.metrics.overlaps import KINDS

# Random tags and the scores that nervaluate 1.2.1 computes for them.
ANSWERS = json.loads((Path(__file__).parent / "nervaluate_answers.json").read_text(encoding="utf-8"))["cases"]
NAMES = ("correct", "incorrect", "partial", "missed", "spurious", "precision", "recall", "f1")


@pytest.mark.parametrize("case", ANSWERS, ids=range(len(ANSWERS)))
def test_scores_equal_nervaluate(case):
    scores = overlap_scores(case["true"], case["pred"])
    for kind in KINDS:
        expected = dict(zip(NAMES, case["overall"][kind], strict=True))
        assert getattr(scores, kind).as_dict() == pytest.approx(expected)
        for label, answers in case["by_label"].items():
            expected = dict(zip(NAMES, answers[kind], strict=True))
            assert scores.by_label[label][kind].as_dict() == pytest.approx(expected)
    assert set(scores.by_label) == set(case["by_label"])


@pytest.mark.parametrize("case", ANSWERS[:10], ids=range(10))
def test_strict_f1_is_that_of_conlleval(case):
    assert overlap_scores(case["true"], case["pred"]).strict.f1 == pytest.approx(
        segment_scores(case["true"], case["pred"]).f1
    )


def test_raw_labels_and_no_sequences():
    scores = overlap_scores([["a", "a", "b"]], [["a", "b", "b"]], scheme="runs")
    assert (scores.strict.correct, scores.partial.partial, scores.type.correct) == (0, 2, 2)
    assert overlap_scores([], []).strict.f1 == 0.0


def test_report_recognises_the_scheme_and_shows_every_label():
    report = tagging_report([["B-x", "I-x", "O"]], [["B-x", "O", "O"]])
    assert report.segments.f1 == 0.0
    assert report.overlaps.partial.f1 == 0.5
    text = str(report)
    assert {"x", "B-x", "I-x", "O", "all", "strict", "type"} <= {line.split()[0] for line in text.splitlines() if line}
    assert tagging_report([["street", "no"]], [["street", "street"]]).segments.by_label["street"].n_true == 1
    assert set(report.as_dict()) == {"segments", "overlaps", "tokens"}
    assert "strict" in report._repr_html_()
    assert "&lt;b&gt;" in tagging_report([["<b>"]], [["<b>"]])._repr_html_()
    assert "0.000 of 0 tokens" in str(tagging_report([], []))


def test_report_counts_labels_that_are_only_true_as_errors():
    report = tagging_report([["rare", "a"]], [["a", "a"]])
    assert report.segments.by_label["rare"].recall == 0.0
    assert report.tokens.accuracy == 0.5


def test_hidden_labels_are_refused():
    with pytest.raises(InvalidInputError, match="not a single label"):
        tagging_report([["a", None]], [["a", "a"]])
