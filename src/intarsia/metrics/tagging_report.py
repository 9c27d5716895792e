"""Printed report of predicted tags: scores of segments and of tokens for each label."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from intarsia._core.error_context import errors_from
from intarsia.metrics.counts import PrecisionRecall
from intarsia.metrics.labelling import LabellingScores, labelling_scores
from intarsia.metrics.overlaps import KINDS, OverlapScores, overlap_scores
from intarsia.metrics.segments import SegmentScores, scheme_of_tags, segment_scores


@dataclass(frozen=True)
class TaggingReport:
    """Scores of predicted tags by segment and by token; `print` shows them as tables.

    Attributes
    ----------
    segments : SegmentScores
        Precision, recall and F1 of segments, as by conlleval.
    overlaps : OverlapScores
        Scores that count partly correct segments, as by nervaluate.
    tokens : LabellingScores
        Scores of the tags of tokens.

    Examples
    --------
    `tagging_report` returns it.

    >>> tagging_report([["a", "b"]], [["a", "a"]]).tokens.accuracy
    0.5
    """

    segments: SegmentScores
    overlaps: OverlapScores
    tokens: LabellingScores

    def as_dict(self) -> dict[str, Any]:
        """Return all scores as a dict for JSON."""
        return {
            "segments": self.segments.as_dict(),
            "overlaps": self.overlaps.as_dict(),
            "tokens": self.tokens.as_dict(),
        }

    def _repr_html_(self) -> str:
        return f'<pre style="background:transparent;color:inherit">{escape(str(self))}</pre>'

    def __str__(self) -> str:
        token_rows = self.tokens.by_label
        width = max(8, *(len(str(label)) for label in (*self.segments.by_label, *token_rows, "all")))
        lines = _table("segment", self.segments.by_label, width)
        lines.append(_line("all", self.segments.overall, width))
        lines += ["", f"{'counting':<{width}}  precision  recall      f1   partly"]
        for kind in KINDS:
            counts = getattr(self.overlaps, kind)
            lines.append(
                f"{kind:<{width}}  {counts.precision:9.3f} {counts.recall:7.3f} {counts.f1:7.3f} {counts.partial:8d}"
            )
        lines += ["", *_table("token", token_rows, width)]
        lines.append(
            f"{'accuracy':<{width}}  {self.tokens.accuracy:9.3f} of {self.tokens.n_tokens} tokens, "
            f"{self.tokens.sequence_accuracy:.3f} of {self.tokens.n} sequences"
        )
        return "\n".join(lines)


def _table(title: str, rows: Mapping[Hashable, PrecisionRecall], width: int) -> list[str]:
    head = f"{title:<{width}}  precision  recall      f1    n"
    return [head, *(_line(str(label), counts, width) for label, counts in rows.items())]


def _line(name: str, counts: PrecisionRecall, width: int) -> str:
    return f"{name:<{width}}  {counts.precision:9.3f} {counts.recall:7.3f} {counts.f1:7.3f} {counts.n_true:4g}"


@errors_from("tagging_report")
def tagging_report(
    y_true: Sequence[Any], y_pred: Sequence[Any], scheme: str | None = None, outside: Any = "O"
) -> TaggingReport:
    """Return a report of predicted tags: scores by segment and by token, for each label.

    Labels that occur only in `y_true`, such as labels that were not in the training set, count as errors.

    Parameters
    ----------
    y_true, y_pred : lists of sequences
        One tag for each token; all labels must be known.
    scheme : {"conll", "runs", "tokens"}, optional
        How tags are read as segments: see `find_segments`. By default "conll" if a true tag has a prefix such as B-,
        otherwise "runs".
    outside : str or int
        Tag of tokens that belong to no segment.

    Raises
    ------
    InvalidInputError
        If lengths differ, if a label is hidden, or if a tag does not follow the scheme.

    Examples
    --------
    >>> print(tagging_report([["no", "street", "street"], ["no"]], [["no", "street", "city"], ["no"]]))
    segment   precision  recall      f1    n
    city          0.000   0.000   0.000    0
    no            1.000   1.000   1.000    2
    street        0.000   0.000   0.000    1
    all           0.500   0.667   0.571    3
    <BLANKLINE>
    counting  precision  recall      f1   partly
    strict        0.500   0.667   0.571        0
    exact         0.500   0.667   0.571        0
    partial       0.625   0.833   0.714        1
    type          0.750   1.000   0.857        0
    <BLANKLINE>
    token     precision  recall      f1    n
    city          0.000   0.000   0.000    0
    no            1.000   1.000   1.000    2
    street        1.000   0.500   0.667    2
    accuracy      0.750 of 4 tokens, 0.500 of 2 sequences
    """
    if scheme is None:
        scheme = scheme_of_tags(y_true, y_pred, outside)
    return TaggingReport(
        segment_scores(y_true, y_pred, scheme, outside),
        overlap_scores(y_true, y_pred, scheme, outside),
        labelling_scores(y_true, y_pred),
    )
