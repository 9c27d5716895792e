"""Segments of tag sequences, and how well they are found, counted as conlleval counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from operator import eq
from typing import Any

from intarsia._core.error_context import errors_from
from intarsia._core.html import ShownResult
from intarsia._core.validation import check_choice
from intarsia.exceptions import InvalidInputError
from intarsia.metrics.counts import PrecisionRecall, count_by_label, is_hidden, paired_sequences

Segment = tuple[int, int, Hashable]

# B I E S of BIOES; L and U are what BILOU calls E and S.
_BEGINS = frozenset("BSU")
_ENDS = frozenset("ESLU")
_PREFIXES = _BEGINS | _ENDS | {"I"}


def _split_prefixed(tag: Any) -> tuple[str, Hashable]:
    prefix, _, label = tag.partition("-") if isinstance(tag, str) else ("", "", "")
    if prefix not in _PREFIXES:
        raise InvalidInputError(
            f"{tag!r} is no tag of a segment: expected O, or B, I, E or S followed by a hyphen and a label. For labels "
            f"without prefix give scheme='runs'."
        )
    return prefix, label


def _split_run(tag: Any) -> tuple[str, Hashable]:
    return "I", tag


def _split_token(tag: Any) -> tuple[str, Hashable]:
    return "S", tag


_SPLIT: dict[str, Callable[[Any], tuple[str, Hashable]]] = {
    "conll": _split_prefixed,
    "runs": _split_run,
    "tokens": _split_token,
}


def scheme_names() -> list[str]:
    """How tags can be read as segments: the values of `scheme=`.

    Examples
    --------
    >>> scheme_names()
    ['conll', 'runs', 'tokens']
    """
    return list(_SPLIT)


class _Reader:
    """Tags of one scheme as segments; every distinct tag is split once."""

    def __init__(self, scheme: str, outside: Any) -> None:
        self._split = _SPLIT[check_choice(scheme, _SPLIT, "scheme")]
        self._known: dict[Any, tuple[str, Hashable] | None] = {outside: None}

    def find(self, tags: Sequence[Any], name: str) -> list[Segment]:
        found: list[Segment] = []
        start, label, over = -1, None, False
        for t, tag in enumerate(tags):
            try:
                part = self._known[tag]
            except KeyError:
                part = self._learn(tag, f"{name}[{t}]")
            except TypeError:
                raise InvalidInputError(f"{name}[{t}] is {tag!r:.60}; expected one label for each token.") from None
            if part is None:
                if start >= 0:
                    found.append((start, t, label))
                start = -1
                continue
            prefix, kind = part
            if start < 0 or over or prefix in _BEGINS or kind != label:
                if start >= 0:
                    found.append((start, t, label))
                start, label = t, kind
            over = prefix in _ENDS
        if start >= 0:
            found.append((start, len(tags), label))
        return found

    def _learn(self, tag: Any, name: str) -> tuple[str, Hashable]:
        if is_hidden(tag) or isinstance(tag, frozenset):
            raise InvalidInputError(
                f"{name} is {tag!r:.60}, which names no label. Segments are compared where every label is known; "
                f"leave such sequences out."
            )
        try:
            part = self._known[tag] = self._split(tag)
        except InvalidInputError as error:
            raise InvalidInputError(f"{name}: {error}") from None
        return part


def find_segments(tags: Sequence[Any], scheme: str = "conll", outside: Any = "O") -> list[Segment]:
    """Segments of one sequence of tags: first token, token after the last, label.

    No sequence of tags is wrong: a predicted one is read as conlleval reads it. With `scheme="conll"` one rule reads
    IOB1, IOB2, IOE, BIOES and BILOU: a segment begins at a B or S tag, after an E or S tag, after an outside tag, and
    where the label changes; it ends where the next begins and before an outside tag. So an I tag after O begins a
    segment. (On tags with B, I, O or I, E, O this is conlleval's rule; it knows no S and no B after E.)

    Parameters
    ----------
    tags : sequence
        One tag for each token.
    scheme : {"conll", "runs", "tokens"}
        "conll": prefixes B, I, E, S (or L, U), a hyphen and a label, or the prefix alone. "runs": tags are labels
        without prefix, equal neighbours are one segment. "tokens": likewise, every token is a segment of its own
        (option -r of conlleval).
    outside : str or int
        Tag of what belongs to no segment.

    Examples
    --------
    >>> find_segments(["I-NP", "I-NP", "B-NP", "I-VP", "O"])
    [(0, 2, 'NP'), (2, 3, 'NP'), (3, 4, 'VP')]
    >>> find_segments(["title", "title", "year"], scheme="runs")
    [(0, 2, 'title'), (2, 3, 'year')]
    """
    return _Reader(scheme, outside).find(tags, "tags")


@dataclass(frozen=True)
class SegmentScores(ShownResult):
    """How well segments were found, overall and for each label.

    Attributes
    ----------
    overall : PrecisionRecall
        Counts over all labels.
    by_label : dict of PrecisionRecall
        Counts for each label of a true or predicted segment.
    accuracy : float
        Share of the tokens whose whole tag is right; 0 where there is none.
    n, n_tokens : int
        Sequences and tokens.

    Examples
    --------
    See `segment_scores`, which makes it.

    >>> SegmentScores(PrecisionRecall(2, 4, 1), {}, accuracy=0.5, n=1, n_tokens=6).precision
    0.25
    """

    overall: PrecisionRecall
    by_label: dict[Hashable, PrecisionRecall]
    accuracy: float
    n: int
    n_tokens: int

    @property
    def precision(self) -> float:
        """Share of the predicted segments that are right."""
        return self.overall.precision

    @property
    def recall(self) -> float:
        """Share of the true segments that were predicted."""
        return self.overall.recall

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return self.overall.f1

    def as_dict(self) -> dict[str, Any]:
        """For JSON: `precision`, `recall`, `f1`, `accuracy`, `by_label` and `n`, the number of sequences."""
        return {
            "precision": self.precision,
            "recall": self.recall,
            "f1": self.f1,
            "accuracy": self.accuracy,
            "by_label": {str(label): counts.as_dict() for label, counts in self.by_label.items()},
            "n": self.n,
        }


@errors_from("segment_scores")
def segment_scores(
    y_true: Sequence[Any], y_pred: Sequence[Any], scheme: str = "conll", outside: Any = "O"
) -> SegmentScores:
    """Precision, recall and F1 of predicted segments, from true and predicted tags, counted as conlleval counts.

    A predicted segment is right if the truth has one with the same first token, last token and label. All numbers are
    shares between 0 and 1 (conlleval prints per cent). Where nothing was predicted precision is 0, where there is
    nothing to find recall is 0, and then so is F1 (see `PrecisionRecall`).

    Parameters
    ----------
    y_true, y_pred : lists of sequences
        One tag for each token.
    scheme, outside
        How tags are read: see `find_segments`.

    Raises
    ------
    InvalidInputError
        Lengths differ, a true label is hidden, or a tag does not follow the scheme.

    Examples
    --------
    Of two segments the first is found whole, of the second only a part.

    >>> scores = segment_scores([["B-NP", "I-NP", "B-VP", "I-VP"]], [["B-NP", "I-NP", "B-VP", "O"]])
    >>> scores.precision, scores.recall, scores.f1, scores.accuracy
    (0.5, 0.5, 0.5, 0.75)
    >>> scores.by_label["NP"].f1, scores.by_label["VP"].f1
    (1.0, 0.0)
    """
    reader = _Reader(scheme, outside)
    n_true: Counter[Hashable] = Counter()
    n_pred: Counter[Hashable] = Counter()
    n_correct: Counter[Hashable] = Counter()
    n = n_tokens = n_right = 0
    for k, (true, pred) in enumerate(paired_sequences(y_true, y_pred)):
        true_segments = reader.find(true, f"y_true[{k}]")
        pred_segments = reader.find(pred, f"y_pred[{k}]")
        n_true.update(label for _, _, label in true_segments)
        n_pred.update(label for _, _, label in pred_segments)
        n_correct.update(label for _, _, label in set(true_segments).intersection(pred_segments))
        n += 1
        n_tokens += len(true)
        n_right += sum(map(eq, true, pred))
    return SegmentScores(
        PrecisionRecall(n_true.total(), n_pred.total(), n_correct.total()),
        count_by_label(n_true, n_pred, n_correct),
        n_right / n_tokens if n_tokens else 0.0,
        n,
        n_tokens,
    )
