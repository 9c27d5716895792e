"""Scores of segments that count partly correct predictions: strict, exact, partial and type, as in nervaluate."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from intarsia._core.error_context import errors_from
from intarsia._core.html import ShownResult
from intarsia.metrics.counts import paired_sequences
from intarsia.metrics.segments import Segment, _SegmentReader

KINDS = ("strict", "exact", "partial", "type")


@dataclass(frozen=True)
class OverlapCounts:
    """Numbers of segments by outcome, with precision, recall and F1 (SemEval 2013, task 9).

    Attributes
    ----------
    correct, incorrect, partial : int
        Predicted segments that match a true segment, that overlap a true segment but do not match it, and that count
        half.
    missing, spurious : int
        True segments without a prediction, and predicted segments without a true segment.

    Examples
    --------
    >>> counts = OverlapCounts(correct=2, incorrect=0, partial=1, missing=1, spurious=0)
    >>> counts.precision, counts.recall
    (0.8333333333333334, 0.625)
    """

    correct: int = 0
    incorrect: int = 0
    partial: int = 0
    missing: int = 0
    spurious: int = 0

    @property
    def n_pred(self) -> int:
        """Number of predicted segments."""
        return self.correct + self.incorrect + self.partial + self.spurious

    @property
    def n_true(self) -> int:
        """Number of true segments."""
        return self.correct + self.incorrect + self.partial + self.missing

    @property
    def precision(self) -> float:
        """Fraction of the predicted segments that are correct; partly correct ones count half."""
        return (self.correct + 0.5 * self.partial) / self.n_pred if self.n_pred else 0.0

    @property
    def recall(self) -> float:
        """Fraction of the true segments that were predicted; partly correct ones count half."""
        return (self.correct + 0.5 * self.partial) / self.n_true if self.n_true else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0

    def __add__(self, other: OverlapCounts) -> OverlapCounts:
        return OverlapCounts(
            self.correct + other.correct, self.incorrect + other.incorrect, self.partial + other.partial,
            self.missing + other.missing, self.spurious + other.spurious,
        )  # fmt: skip

    def as_dict(self) -> dict[str, Any]:
        """Return counts, precision, recall and F1 as a dict for JSON."""
        return {
            "correct": self.correct,
            "incorrect": self.incorrect,
            "partial": self.partial,
            "missed": self.missing,
            "spurious": self.spurious,
            "precision": self.precision,
            "recall": self.recall,
            "f1": self.f1,
        }


@dataclass(frozen=True)
class OverlapScores(ShownResult):
    """Scores of predicted segments in four ways of counting; returned by `overlap_scores`.

    Attributes
    ----------
    strict : OverlapCounts
        Correct: same boundaries and same label.
    exact : OverlapCounts
        Correct: same boundaries, whatever the label.
    partial : OverlapCounts
        Correct: same boundaries, whatever the label; an overlap counts half.
    type : OverlapCounts
        Correct: an overlap with a true segment of the same label.
    by_label : dict label -> dict kind -> OverlapCounts
        Counts of the segments of each label alone.

    Examples
    --------
    >>> scores = overlap_scores([["B-x", "I-x", "O"]], [["B-x", "O", "O"]])
    >>> scores.strict.f1, scores.partial.f1, scores.type.f1
    (0.0, 0.5, 1.0)
    """

    strict: OverlapCounts
    exact: OverlapCounts
    partial: OverlapCounts
    type: OverlapCounts
    by_label: dict[Hashable, dict[str, OverlapCounts]]

    def as_dict(self) -> dict[str, Any]:
        """Return all scores as a dict for JSON."""
        return {
            **{kind: getattr(self, kind).as_dict() for kind in KINDS},
            "by_label": {
                str(label): {kind: counts.as_dict() for kind, counts in kinds.items()}
                for label, kinds in self.by_label.items()
            },
        }


@errors_from("overlap_scores")
def overlap_scores(
    y_true: Sequence[Any], y_pred: Sequence[Any], scheme: str = "conll", outside: Any = "O"
) -> OverlapScores:
    """Compute scores of segments that count partly correct boundaries and labels, as the program nervaluate does.

    Each predicted segment, in order, is assigned to one true segment that is not yet assigned: the first that matches,
    otherwise the first that overlaps. `segment_scores` computes conlleval's scores, whose F1 is that of "strict".

    Parameters
    ----------
    y_true, y_pred : lists of sequences
        One tag for each token.
    scheme, outside
        How tags are read as segments: see `find_segments`.

    Raises
    ------
    InvalidInputError
        If lengths differ, if a label is hidden, or if a tag does not follow the scheme.

    Examples
    --------
    The second segment is predicted too short, and the third has the wrong label.

    >>> scores = overlap_scores([["B-x", "B-x", "I-x", "B-y"]], [["B-x", "B-x", "O", "B-x"]])
    >>> [round(counts.f1, 2) for counts in (scores.strict, scores.exact, scores.partial, scores.type)]
    [0.33, 0.67, 0.83, 0.67]
    """
    reader = _SegmentReader(scheme, outside)
    totals = {kind: OverlapCounts() for kind in KINDS}
    by_label: dict[Hashable, dict[str, OverlapCounts]] = {}
    for k, (true_tags, pred_tags) in enumerate(paired_sequences(y_true, y_pred)):
        true, pred = reader.find(true_tags, f"y_true[{k}]"), reader.find(pred_tags, f"y_pred[{k}]")
        for kind in KINDS:
            totals[kind] += _count(true, pred, kind)
        for label in {segment[2] for segment in (*true, *pred)}:
            kinds = by_label.setdefault(label, {kind: OverlapCounts() for kind in KINDS})
            true_of_label = [segment for segment in true if segment[2] == label]
            pred_of_label = [segment for segment in pred if segment[2] == label]
            for kind in KINDS:
                kinds[kind] += _count(true_of_label, pred_of_label, kind)
    labels = sorted(by_label, key=lambda label: (type(label).__name__, label))
    return OverlapScores(**totals, by_label={label: by_label[label] for label in labels})


def _count(true: list[Segment], pred: list[Segment], kind: str) -> OverlapCounts:
    """Return the counts of one sequence."""
    waiting = list(true)  # true segments that are not yet assigned
    outcomes = {"correct": 0, "incorrect": 0, "partial": 0, "spurious": 0}
    for segment in pred:
        overlapping = [other for other in waiting if other[0] < segment[1] and segment[0] < other[1]]
        matching = [other for other in overlapping if _matches(segment, other, kind)]
        if matching and kind == "type":  # the closest boundaries
            match = min(matching, key=lambda other: abs(other[0] - segment[0]) + abs(other[1] - segment[1]))
        else:
            match = (matching or overlapping or [None])[0]  # type: ignore[list-item]
        if match is None:
            outcomes["spurious"] += 1
            continue
        waiting.remove(match)
        outcomes["correct" if matching else "partial" if kind == "partial" else "incorrect"] += 1
    return OverlapCounts(missing=len(waiting), **outcomes)


def _matches(segment: Segment, other: Segment, kind: str) -> bool:
    if kind == "type":
        return segment[2] == other[2]
    return segment[:2] == other[:2] and (kind != "strict" or segment[2] == other[2])
