"""Segments of tag sequences, and precision, recall and F1 of predicted segments, counted as by conlleval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from operator import eq
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from intarsia._core.error_context import errors_from, errors_in
from intarsia._core.html import ShownResult
from intarsia._core.validation import check_choice
from intarsia.exceptions import InvalidInputError
from intarsia.metrics.counts import PrecisionRecall, count_by_label, is_hidden, paired_sequences

Segment = tuple[int, int, Hashable]

# B, I, E and S are the prefixes of BIOES; BILOU writes L for E and U for S.
_BEGINS = frozenset("BSU")
_ENDS = frozenset("ESLU")
_PREFIXES = _BEGINS | _ENDS | {"I"}


def _split_prefixed(tag: Any) -> tuple[str, Hashable]:
    """Return prefix and label of a tag such as B-NP."""
    prefix, _, label = tag.partition("-") if isinstance(tag, str) else ("", "", "")
    if prefix not in _PREFIXES:
        raise InvalidInputError(
            f"{tag!r} is not a valid tag: expected O, or B, I, E or S followed by a hyphen and a label. For labels "
            f"without a prefix, pass scheme='runs'."
        )
    return prefix, label


def _split_run(tag: Any) -> tuple[str, Hashable]:
    """Return the prefix I: equal neighbours form one segment."""
    return "I", tag


def _split_token(tag: Any) -> tuple[str, Hashable]:
    """Return the prefix S: every token is a segment."""
    return "S", tag


_SPLIT: dict[str, Callable[[Any], tuple[str, Hashable]]] = {
    "conll": _split_prefixed,
    "runs": _split_run,
    "tokens": _split_token,
}


def scheme_names() -> list[str]:
    """Return the valid values of `scheme=`, the ways to read tags as segments.

    Examples
    --------
    >>> scheme_names()
    ['conll', 'runs', 'tokens']
    """
    return list(_SPLIT)


class _SegmentReader:
    """Reader of the segments of tag sequences under one scheme; every distinct tag is split once."""

    def __init__(self, scheme: str, outside: Any) -> None:
        self._split = _SPLIT[check_choice(scheme, _SPLIT, "scheme")]
        self._split_tags: dict[Any, tuple[str, Hashable] | None] = {outside: None}

    def find(self, tags: Sequence[Any], name: str) -> list[Segment]:
        """Return the segments of one tag sequence; `name` is used in errors."""
        segments: list[Segment] = []
        start, label, ended = -1, None, False
        for t, tag in enumerate(tags):
            try:
                prefix_and_label = self._split_tags[tag]
            except KeyError:
                prefix_and_label = self._split_new_tag(tag, f"{name}[{t}]")
            except TypeError:
                raise InvalidInputError(
                    f"{name}[{t}] is {tag!r:.60}; expected one label for each token. Pass a flat list."
                ) from None
            if prefix_and_label is None:
                if start >= 0:
                    segments.append((start, t, label))
                start = -1
                continue
            prefix, kind = prefix_and_label
            if start < 0 or ended or prefix in _BEGINS or kind != label:
                if start >= 0:
                    segments.append((start, t, label))
                start, label = t, kind
            ended = prefix in _ENDS
        if start >= 0:
            segments.append((start, len(tags), label))
        return segments

    def _split_new_tag(self, tag: Any, name: str) -> tuple[str, Hashable]:
        """Split a tag that occurs for the first time, and store the result."""
        if is_hidden(tag) or isinstance(tag, frozenset):
            raise InvalidInputError(
                f"{name} is {tag!r:.60}, which is not a single label. Segment scores need every label of a sequence; "
                f"remove sequences with hidden labels."
            )
        with errors_in(name):
            prefix_and_label = self._split_tags[tag] = self._split(tag)
        return prefix_and_label


@errors_from("find_segments")
def find_segments(tags: Sequence[Any], scheme: str = "conll", outside: Any = "O") -> list[Segment]:
    """Return the segments of one sequence of tags as tuples (first token, token after the last, label).

    Every sequence of valid tags is accepted and read as by conlleval. With `scheme="conll"` one rule reads IOB1, IOB2,
    IOE, BIOES and BILOU: a segment begins at a B or S tag, after an E or S tag, after an outside tag, and where the
    label changes; it ends where the next segment begins and before an outside tag. So an I tag after O begins a
    segment. (For tags with B, I, O or I, E, O this is conlleval's rule; conlleval does not support S, nor B after E.)

    Parameters
    ----------
    tags : sequence
        One tag for each token.
    scheme : {"conll", "runs", "tokens"}
        "conll": prefixes B, I, E, S (or L, U), a hyphen and a label, or the prefix alone. "runs": tags are labels
        without prefix, and equal neighbours form one segment. "tokens": tags are labels without prefix, and every
        token is a segment (option -r of conlleval).
    outside : str or int
        Tag of tokens that belong to no segment.

    Examples
    --------
    >>> find_segments(["I-NP", "I-NP", "B-NP", "I-VP", "O"])
    [(0, 2, 'NP'), (2, 3, 'NP'), (3, 4, 'VP')]
    >>> find_segments(["title", "title", "year"], scheme="runs")
    [(0, 2, 'title'), (2, 3, 'year')]
    """
    return _SegmentReader(scheme, outside).find(tags, "tags")


class TagJoins(NamedTuple):
    """Pairs of neighbouring tags that belong to one segment; returned by `join_tags`.

    Attributes
    ----------
    labels : list
        Label of each tag without its prefix; None for the outside tag.
    fields : (n_tags,) int array
        Number of the label of each tag, equal for tags with the same label; -1 for the outside tag.
    continues : (n_tags, n_tags) bool array
        Whether a tag (row) followed by another tag (column) are in the same segment.
    """

    labels: list[Hashable]
    fields: NDArray[np.int64]
    continues: NDArray[np.bool_]


@errors_from("join_tags")
def join_tags(tags: Sequence[Any], scheme: str = "conll", outside: Any = "O") -> TagJoins:
    """Return which pairs of distinct tags belong to one segment when the second follows the first.

    The segments of `find_segments` are determined by these pairs: a segment begins at every tag, other than the outside
    tag, that does not continue the segment of the tag before it.

    Examples
    --------
    >>> joins = join_tags(["B-NP", "I-NP", "O"])
    >>> joins.labels
    ['NP', 'NP', None]
    >>> joins.continues.tolist()
    [[False, True, False], [False, True, False], [False, False, False]]
    """
    reader = _SegmentReader(scheme, outside)
    pairs = [None if tag == outside else reader._split_new_tag(tag, f"tags[{t}]") for t, tag in enumerate(tags)]
    labels = [None if pair is None else pair[1] for pair in pairs]
    numbers: dict[Hashable, int] = {}
    for pair in pairs:
        if pair is not None:
            numbers.setdefault(pair[1], len(numbers))
    fields = np.array([-1 if pair is None else numbers[pair[1]] for pair in pairs], dtype=np.int64)
    ends = np.array([pair is not None and pair[0] in _ENDS for pair in pairs], dtype=bool)
    begins = np.array([pair is not None and pair[0] in _BEGINS for pair in pairs], dtype=bool)
    continues = (fields[:, None] == fields) & (fields >= 0) & ~ends[:, None] & ~begins
    return TagJoins(labels, fields, continues)


def scheme_of_labels(labels: Iterable[Any], outside: Any = "O") -> str:
    """Return how to read these labels as segments: "conll" if every label has a prefix, otherwise "runs".

    Examples
    --------
    >>> scheme_of_labels(["B-NP", "I-NP", "O"]), scheme_of_labels(["title", "O"])
    ('conll', 'runs')
    """
    names = {label for label in labels if not isinstance(label, str) or label != outside}
    if names == {"B", "I"}:
        return "conll"
    has_prefix = [isinstance(name, str) and name[1:2] == "-" and name[0] in _PREFIXES for name in names]
    return "conll" if names and all(has_prefix) else "runs"


def scheme_of_tags(y_true: Sequence[Any], y_pred: Sequence[Any], outside: Any = "O") -> str:
    """Return how to read tags as segments: "conll" if some true tag has a prefix such as B-, otherwise "runs".

    Tags without a prefix among tags with a prefix are then refused as invalid, instead of being read as runs.

    Examples
    --------
    >>> scheme_of_tags([["B-NP", "O"]], [["O", "O"]]), scheme_of_tags([["title", "O"]], [["O", "O"]])
    ('conll', 'runs')
    """
    tags = {tag for true, _ in paired_sequences(y_true, y_pred) for tag in true if isinstance(tag, Hashable)}
    with_prefix = [tag for tag in tags if scheme_of_labels([tag], outside) == "conll"]
    return "conll" if with_prefix or tags - {outside} == {"B", "I"} or tags <= {outside} else "runs"


@dataclass(frozen=True)
class SegmentScores(ShownResult):
    """Precision, recall and F1 of predicted segments, overall and for each label.

    Attributes
    ----------
    overall : PrecisionRecall
        Counts over all labels.
    by_label : dict of PrecisionRecall
        Counts for each label of a true or predicted segment.
    accuracy : float
        Fraction of the tokens whose tag is correct; 0 if there are no tokens.
    n, n_tokens : int
        Number of sequences and of tokens.

    Examples
    --------
    `segment_scores` returns it.

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
        """Fraction of the predicted segments that are correct."""
        return self.overall.precision

    @property
    def recall(self) -> float:
        """Fraction of the true segments that were predicted."""
        return self.overall.recall

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return self.overall.f1

    def as_dict(self) -> dict[str, Any]:
        """Return `precision`, `recall`, `f1`, `accuracy`, `by_label` and `n` (number of sequences) for JSON."""
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
    """Compute precision, recall and F1 of predicted segments from true and predicted tags, counted as by conlleval.

    A predicted segment is correct if a true segment has the same first token, last token and label. All numbers are
    fractions between 0 and 1 (conlleval prints per cent). Precision is 0 if nothing is predicted, recall is 0 if there
    are no true segments, and F1 is then 0 too (see `PrecisionRecall`). There is no `sample_weight`, as in conlleval:
    the counts are numbers of segments over the whole corpus.

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
    The first of two segments is predicted correctly; the second is predicted too short.

    >>> scores = segment_scores([["B-NP", "I-NP", "B-VP", "I-VP"]], [["B-NP", "I-NP", "B-VP", "O"]])
    >>> scores.precision, scores.recall, scores.f1, scores.accuracy
    (0.5, 0.5, 0.5, 0.75)
    >>> scores.by_label["NP"].f1, scores.by_label["VP"].f1
    (1.0, 0.0)
    """
    reader = _SegmentReader(scheme, outside)
    n_true: Counter[Hashable] = Counter()
    n_pred: Counter[Hashable] = Counter()
    n_correct: Counter[Hashable] = Counter()
    n = n_tokens = n_correct_tokens = 0
    for k, (true, pred) in enumerate(paired_sequences(y_true, y_pred)):
        true_segments = reader.find(true, f"y_true[{k}]")
        pred_segments = reader.find(pred, f"y_pred[{k}]")
        n_true.update(label for _, _, label in true_segments)
        n_pred.update(label for _, _, label in pred_segments)
        n_correct.update(label for _, _, label in set(true_segments).intersection(pred_segments))
        n += 1
        n_tokens += len(true)
        n_correct_tokens += sum(map(eq, true, pred))
    return SegmentScores(
        PrecisionRecall(n_true.total(), n_pred.total(), n_correct.total()),
        count_by_label(n_true, n_pred, n_correct),
        n_correct_tokens / n_tokens if n_tokens else 0.0,
        n,
        n_tokens,
    )
