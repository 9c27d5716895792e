"""Results of `RecordParser`: spans with probabilities, alternatives, fields as a dict, and scores of an evaluation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from intarsia._core.html import ShownResult
from intarsia.sequences.parsing.labelled_text import LabelledText, Span

# Punctuation at the ends of a value that separates fields, as usaddress removes it.
_SEPARATORS = " ,;"


@dataclass(frozen=True)
class ParsedSpan:
    """Field in a text: where it stands, its text and its probability.

    Attributes
    ----------
    field : str
        Name of the field.
    start, end : int
        Character offsets; ``parse.text[start:end] == text``.
    text : str
        The characters of the span.
    probability : float
        Probability that exactly this span, no longer and no shorter, has this field.

    Examples
    --------
    >>> ParsedSpan("city", 3, 7, "Rome", 0.9).as_dict()
    {'field': 'city', 'start': 3, 'end': 7, 'text': 'Rome', 'probability': 0.9}
    """

    field: str
    start: int
    end: int
    text: str
    probability: float

    def as_dict(self) -> dict[str, Any]:
        """Return the attributes as a dict for JSON."""
        return {
            "field": self.field,
            "start": self.start,
            "end": self.end,
            "text": self.text,
            "probability": self.probability,
        }


class Fields(dict[str, str]):
    """Values of the fields of a parse, a dict from field to text, as `usaddress.tag` returns it.

    Attributes
    ----------
    repeated : tuple of str
        Fields with more than one span; their texts are joined with a space.

    Examples
    --------
    >>> spans = [ParsedSpan("city", 0, 5, "Rome,", 1.0), ParsedSpan("city", 6, 10, "Oslo", 1.0)]
    >>> fields = Fields(spans)
    >>> fields, fields.repeated
    ({'city': 'Rome Oslo'}, ('city',))
    """

    def __init__(self, spans: Iterable[ParsedSpan] = ()) -> None:
        super().__init__()
        repeated: list[str] = []
        for span in spans:
            value = " ".join(span.text.split()).strip(_SEPARATORS)
            if span.field not in self:
                self[span.field] = value
                continue
            self[span.field] = f"{self[span.field]} {value}".strip()
            if span.field not in repeated:
                repeated.append(span.field)
        self.repeated = tuple(repeated)


@dataclass(frozen=True)
class Parse(ShownResult):
    """Fields of a text with their probabilities; returned by `RecordParser.parse`.

    Attributes
    ----------
    text : str
        The text.
    spans : tuple of ParsedSpan
        Fields in the order of the text; characters outside all spans have no field.
    probability : float
        Probability of the whole parse: all spans correct, and no others.
    alternatives : tuple of Parse
        The next best parses of the text, the best first.
    violations : tuple of str
        Rules that the parse violates: soft rules, or hard rules if no parse of this text satisfies them all.

    Examples
    --------
    >>> parse = Parse("in Rome", (ParsedSpan("city", 3, 7, "Rome", 0.9),), 0.8)
    >>> parse.fields()
    {'city': 'Rome'}
    >>> parse.labelled()
    LabelledText(text='in Rome', spans=((3, 7, 'city'),))
    """

    text: str
    spans: tuple[ParsedSpan, ...] = ()
    probability: float = 1.0
    alternatives: tuple[Parse, ...] = ()
    violations: tuple[str, ...] = ()

    def fields(self) -> Fields:
        """Return the text of each field; several spans of a field are joined with a space."""
        return Fields(self.spans)

    def labelled(self) -> LabelledText:
        """Return the text with its spans, to write or to correct it."""
        return LabelledText(self.text, span_tuples(self))

    def as_dict(self) -> dict[str, Any]:
        """Return text, spans, probability, alternatives and violations as a dict for JSON."""
        return {
            "text": self.text,
            "spans": [span.as_dict() for span in self.spans],
            "probability": self.probability,
            "alternatives": [
                {"spans": [span.as_dict() for span in other.spans], "probability": other.probability}
                for other in self.alternatives
            ],
            "violations": list(self.violations),
        }


def span_tuples(parse: Parse) -> list[Span]:
    """Return the spans of a parse as tuples (start, end, field)."""
    return [(span.start, span.end, span.field) for span in parse.spans]
