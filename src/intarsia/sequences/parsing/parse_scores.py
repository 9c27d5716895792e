"""Scores of predicted against true spans of record strings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from intarsia.metrics.counts import PrecisionRecall, count_by_label
from intarsia.metrics.segments import SegmentScores
from intarsia.sequences.parsing.labelled_text import LabelledText, token_fields, trimmed
from intarsia.sequences.parsing.tokens import Token


@dataclass(frozen=True)
class ParseScores(SegmentScores):
    """Precision, recall and F1 of exact spans, and the fraction of strings with a completely correct parse.

    Attributes
    ----------
    overall : PrecisionRecall
        Counts over all fields.
    by_label : dict of PrecisionRecall
        Counts for each field.
    accuracy : float
        Fraction of the tokens whose field is correct.
    n, n_tokens : int
        Number of strings and of tokens.
    exact : float
        Fraction of the strings of which all spans are correct; 0 if there are no strings.

    Examples
    --------
    `RecordParser.evaluate` returns it.

    >>> ParseScores(PrecisionRecall(2, 4, 1), {}, accuracy=0.5, n=1, n_tokens=6, exact=0.0).precision
    0.25
    """

    exact: float

    def as_dict(self) -> dict[str, Any]:
        """Return the scores for JSON."""
        return {**super().as_dict(), "exact": self.exact, "n_tokens": self.n_tokens}


def score_parses(
    true: Sequence[LabelledText], predicted: Sequence[LabelledText], split: Callable[[str], list[Token]]
) -> ParseScores:
    """Compare the spans of predicted with those of true labelled strings.

    A span is correct if a true span has the same field and the same first and last letter or digit: punctuation at the
    ends of spans does not count, because tokenizers and annotators treat it differently.

    Examples
    --------
    >>> from intarsia.sequences.parsing.tokens import find_tokenizer
    >>> true = [LabelledText("12 Main St", [(0, 2, "number"), (3, 10, "street")])]
    >>> predicted = [LabelledText("12 Main St", [(0, 2, "number"), (3, 7, "street")])]
    >>> scores = score_parses(true, predicted, find_tokenizer("words"))
    >>> scores.f1, scores.accuracy.__round__(2), scores.exact
    (0.5, 0.67, 0.0)
    """
    n_true: Counter[Hashable] = Counter()
    n_pred: Counter[Hashable] = Counter()
    n_correct: Counter[Hashable] = Counter()
    n_tokens = n_correct_tokens = n_exact = 0
    for example, prediction in zip(true, predicted, strict=True):
        true_spans, spans = _plain_spans(example), _plain_spans(prediction)
        n_true.update(span[2] for span in true_spans)
        n_pred.update(span[2] for span in spans)
        n_correct.update(span[2] for span in true_spans & spans)
        n_exact += true_spans == spans
        tokens = split(example.text)
        n_tokens += len(tokens)
        pairs = zip(_fields(tokens, example), _fields(tokens, prediction), strict=True)
        n_correct_tokens += sum(field == predicted_field for field, predicted_field in pairs)
    return ParseScores(
        PrecisionRecall(n_true.total(), n_pred.total(), n_correct.total()),
        count_by_label(n_true, n_pred, n_correct),
        n_correct_tokens / n_tokens if n_tokens else 0.0,
        len(true),
        n_tokens,
        n_exact / len(true) if true else 0.0,
    )


def _plain_spans(example: LabelledText) -> set[tuple[int, int, str]]:
    return {(*trimmed(example.text, start, end), field) for start, end, field in example.spans}


def _fields(tokens: list[Token], example: LabelledText) -> list[str | None]:
    return [None if k < 0 else example.spans[k][2] for k in token_fields(tokens, example.spans)]
