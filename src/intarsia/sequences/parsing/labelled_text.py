"""Labelled strings: a text with labelled spans, their checks, and tags for the tokens of a text."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral
from typing import Any

from intarsia.exceptions import InvalidInputError
from intarsia.sequences.parsing.tokens import Token, check_text

Span = tuple[int, int, str]
OUTSIDE = "O"


@dataclass(frozen=True)
class LabelledText:
    """String with labelled spans, the training data of `RecordParser`.

    Parameters
    ----------
    text : str
        The string.
    spans : sequence of (start, end, field)
        Character offsets, `end` exclusive. They are sorted; they must not overlap and must be inside the text. Text
        outside all spans belongs to no field.

    Raises
    ------
    InvalidInputError
        If spans overlap, are empty, or are not inside the text.

    Examples
    --------
    >>> example = LabelledText("12 Main St", [(3, 10, "street"), (0, 2, "number")])
    >>> example.spans
    ((0, 2, 'number'), (3, 10, 'street'))
    >>> example.fields()
    {'number': '12', 'street': 'Main St'}
    """

    text: str
    spans: Sequence[Span] = ()

    def __post_init__(self) -> None:
        """Check and sort the spans."""
        object.__setattr__(self, "spans", check_spans(check_text(self.text, "text"), self.spans))

    def fields(self) -> dict[str, str]:
        """Return the text of each field; several spans of a field are joined with a space."""
        values: dict[str, str] = {}
        for start, end, field in self.spans:
            text = self.text[start:end]
            values[field] = f"{values[field]} {text}" if field in values else text
        return values


def check_spans(text: str, spans: Any, allowed_fields: Iterable[str] | None = None) -> tuple[Span, ...]:
    """Return the spans of a text, sorted; raise for the first that is invalid.

    Parameters
    ----------
    text : str
        The text.
    spans : iterable of (start, end, field)
        Character offsets.
    allowed_fields : list of str, optional
        Names of the fields that may occur; by default any name.

    Examples
    --------
    >>> check_spans("12 Main St", [(3, 10, "street"), (0, 2, "number")])
    ((0, 2, 'number'), (3, 10, 'street'))
    """
    if isinstance(spans, (str, bytes)) or not isinstance(spans, Iterable):
        raise InvalidInputError(f"spans must be a list of (start, end, field), got {spans!r:.60}.")
    result = sorted((_check_span(text, span) for span in spans), key=lambda span: span[:2])
    for (_, end, field), (start, _, next_field) in pairwise(result):
        if start < end:
            raise InvalidInputError(
                f"span {field!r}, which ends at {end}, and span {next_field!r}, which starts at {start}, overlap. "
                f"Remove one of them; a character belongs to at most one field."
            )
    names = None if allowed_fields is None else list(allowed_fields)
    for start, end, field in result:
        if names is not None and field not in names:
            raise InvalidInputError(
                f"span ({start}, {end}) has the unknown field {field!r}. Use one of {', '.join(map(repr, names))}, or "
                f"add it to the fields."
            )
    return tuple(result)


def _check_span(text: str, span: Any) -> Span:
    if not isinstance(span, (tuple, list)) or len(span) != 3:
        raise InvalidInputError(f"a span must be (start, end, field), got {span!r:.60}.")
    start, end, field = span
    if not isinstance(start, Integral) or not isinstance(end, Integral) or isinstance(start, bool):
        raise InvalidInputError(f"offsets of a span must be integers, got {span!r:.60}.")
    if not isinstance(field, str) or not field.strip() or field == OUTSIDE:
        raise InvalidInputError(
            f"the field of span ({start}, {end}) must be a string that is not blank and not {OUTSIDE!r}, got "
            f"{field!r:.60}. Remove the span, or name its field."
        )
    start, end = int(start), int(end)
    if not 0 <= start < end <= len(text):
        raise InvalidInputError(
            f"span ({start}, {end}, {field!r}) is not inside the text, which has {len(text)} characters, or is empty. "
            f"Use 0 <= start < end <= {len(text)}."
        )
    return start, end, field


def check_labelled(X: Any, y: Any = None) -> list[LabelledText]:
    """Return labelled strings from a list of `LabelledText`, or from texts and a list of spans for each of them.

    Examples
    --------
    >>> check_labelled(["12 Main St"], [[(0, 2, "number")]])
    [LabelledText(text='12 Main St', spans=((0, 2, 'number'),))]
    """
    if isinstance(X, (str, bytes)) or not isinstance(X, Iterable):
        raise InvalidInputError(f"X must be a list of LabelledText, or of strings with spans as y, got {X!r:.60}.")
    items = list(X)
    if y is None:
        for i, item in enumerate(items):
            if not isinstance(item, LabelledText):
                raise InvalidInputError(
                    f"X[{i}] is {type(item).__name__} {item!r:.60}, but y is missing. Pass the list of LabelledText "
                    f"that read_labelled returns, or pass the spans of each string as y."
                )
        return items
    spans = None if isinstance(y, (str, bytes)) or not isinstance(y, Iterable) else list(y)
    if spans is None or len(spans) != len(items):
        n_spans = type(y).__name__ if spans is None else f"{len(spans)} entries"
        raise InvalidInputError(
            f"y must have one list of spans for each of the {len(items)} strings, got {n_spans}. Pass [] for a string "
            f"without fields."
        )
    examples = []
    for i, (item, item_spans) in enumerate(zip(items, spans, strict=True)):
        text = check_text(item.text if isinstance(item, LabelledText) else item, f"X[{i}]")
        try:
            examples.append(LabelledText(text, item_spans))
        except InvalidInputError as error:
            raise InvalidInputError(f"y[{i}]: {error}") from None
    return examples


def token_fields(tokens: Sequence[Token], spans: Sequence[Span]) -> list[int]:
    """Return the index of the span of each token, or -1: the span that covers most of its characters.

    Examples
    --------
    >>> from intarsia.sequences.parsing.tokens import tokenize
    >>> token_fields(tokenize("12 Main St"), [(0, 2, "number"), (3, 10, "street")])
    [0, 1, 1]
    """
    starts = [token.start for token in tokens]
    index = [-1] * len(tokens)
    cover = [0] * len(tokens)
    for k, (start, end, _) in enumerate(spans):
        t = max(bisect_left(starts, start) - 1, 0)
        while t < len(tokens) and tokens[t].start < end:
            overlap = min(end, tokens[t].end) - max(start, tokens[t].start)
            # At least half of the token must be covered, so that a comma span does not label a long token.
            if overlap > cover[t] and 2 * overlap >= tokens[t].end - tokens[t].start:
                index[t], cover[t] = k, overlap
            t += 1
    return index


def tags_of(text: str, tokens: Sequence[Token], spans: Sequence[Span], *, bio: bool) -> tuple[list[str], list[Span]]:
    """Return a tag for each token of a text, and the spans that begin or end inside a word.

    With `bio`, the first token of a span has the tag B-field and the others I-field; otherwise all have the tag field.
    A token outside all spans has the tag O.

    Examples
    --------
    >>> from intarsia.sequences.parsing.tokens import tokenize
    >>> tags_of("12 Main St", tokenize("12 Main St"), [(0, 2, "number"), (3, 10, "street")], bio=True)
    (['B-number', 'B-street', 'I-street'], [])
    """
    index = token_fields(tokens, spans)
    tags = []
    for t, k in enumerate(index):
        if k < 0:
            tags.append(OUTSIDE)
        elif not bio:
            tags.append(spans[k][2])
        else:
            tags.append(f"{'I' if t and index[t - 1] == k else 'B'}-{spans[k][2]}")
    ends: dict[int, tuple[int, int]] = {}
    for token, k in zip(tokens, index, strict=True):
        if k >= 0:
            ends[k] = (ends.get(k, (token.start, 0))[0], token.end)
    # Punctuation that a tokenizer keeps with a word does not count.
    misaligned = [
        (start, end, field)
        for k, (start, end, field) in enumerate(spans)
        if k not in ends or trimmed(text, *ends[k]) != trimmed(text, start, end)
    ]
    return tags, misaligned


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the offsets of a span without the punctuation and white space at its ends; punctuation alone stays.

    Examples
    --------
    >>> trimmed("(12), Main", 0, 5)
    (1, 3)
    """
    first, last = start, end
    while first < end and not text[first].isalnum():
        first += 1
    while last > first and not text[last - 1].isalnum():
        last -= 1
    return (first, last) if first < last else (start, end)


def spans_of(tokens: Sequence[Token], segments: Iterable[tuple[int, int, Any]]) -> list[Span]:
    """Return character spans of segments (first token, token after the last, field).

    Examples
    --------
    >>> from intarsia.sequences.parsing.tokens import tokenize
    >>> spans_of(tokenize("12 Main St"), [(0, 1, "number"), (1, 3, "street")])
    [(0, 2, 'number'), (3, 10, 'street')]
    """
    return [(tokens[first].start, tokens[last - 1].end, str(field)) for first, last, field in segments]
