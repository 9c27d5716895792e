r"""CRFsuite's feature files: a line for each token, its label and its features separated by tabs.

A feature may have a value after a colon (`length:3`); a colon of the name itself is written `\:`, a backslash `\\`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from itertools import repeat, zip_longest
from typing import Any, NamedTuple

from intarsia._files.text_lines import Source, read_lines, source_name, written_text
from intarsia.exceptions import FileFormatError, InvalidInputError
from intarsia.models.sequence_features import named_values

_COLON_OR_ESCAPE = re.compile(r"\\.|:")
_ESCAPED = re.compile(r"\\([:\\])")
_TO_ESCAPE = re.compile(r"([:\\])")
_END = object()


class CrfsuiteSequence(NamedTuple):
    """One sequence of a CRFsuite file.

    Attributes
    ----------
    labels : list of str
        One for each token.
    features : list of lists of str or of dicts
        Names of the features of each token; where one of them has a value, all with their values. Both are what
        `SequenceVectorizer` reads.
    weight : float
        Weight of the sequence, by a line or field `@weight:2.5`; 1 without it.

    Examples
    --------
    >>> CrfsuiteSequence(["B-NP"], [["word=cat"]]).weight
    1.0
    """

    labels: list[str]
    features: list[list[str] | dict[str, float]]
    weight: float = 1.0


def read_crfsuite(source: Source) -> Iterator[CrfsuiteSequence]:
    r"""Sequences of a CRFsuite feature file, one at a time.

    Several blank lines count as one; lines may end in CR LF, the last one in nothing; gzip files are told by their
    content. A backslash before any other character than a colon or a backslash stands for itself. A feature that is
    named twice in a line counts twice.

    Parameters
    ----------
    source : path or open stream
        The file, in UTF-8.

    Raises
    ------
    FileFormatError
        A value is no finite number (an unescaped colon in a name is the usual reason), a label is missing, or a
        declaration is not known; the message names the line.

    Examples
    --------
    >>> import io
    >>> for sequence in read_crfsuite(io.StringIO("B-NP\tw=the\n" + "I-NP\tw=cat\tlength:3\n\n" + "O\tw=\\:\n")):
    ...     print(sequence.labels, sequence.features)
    ['B-NP', 'I-NP'] [['w=the'], {'w=cat': 1.0, 'length': 3.0}]
    ['O'] [['w=:']]
    """
    name = source_name(source)
    labels: list[str] = []
    features: list[list[str] | dict[str, float]] = []
    weight = 1.0
    for number, line in read_lines(source):
        fields = line.split("\t")
        if not line.strip(" \t"):
            if labels:
                yield CrfsuiteSequence(labels, features, weight)
            labels, features, weight = [], [], 1.0
            continue
        try:
            while fields and fields[0].startswith("@"):
                weight = _declared_weight(fields.pop(0))
            if fields:
                labels.append(_label(fields[0]))
                features.append(_token(fields[1:]))
        except FileFormatError as error:
            raise FileFormatError(f"{name}, line {number}: {error}") from None
    if labels:
        yield CrfsuiteSequence(labels, features, weight)


def _token(fields: list[str]) -> list[str] | dict[str, float]:
    """Features of one line; empty fields, such as after a tab at its end, are none."""
    if not any(":" in field or "\\" in field for field in fields):
        return [field for field in fields if field]
    parsed = [_parse(field) for field in fields if field]
    if all(value is None for _, value in parsed):
        return [name for name, _ in parsed]
    found: dict[str, float] = {}
    for name, value in parsed:
        found[name] = found.get(name, 0.0) + (1.0 if value is None else value)
    return found


def _parse(field: str) -> tuple[str, float | None]:
    """Name and value of a feature; None where no value is written."""
    name, text = _split(field)
    if not name:
        raise FileFormatError(f"{field!r:.60} has no name before the colon. Write a colon of a name as \\:.")
    return name, _number(text, field) if text else None


def _split(field: str) -> tuple[str, str | None]:
    """What stands before the first colon that is none of the name, without escapes, and what stands after it."""
    colon = next((found.start() for found in _COLON_OR_ESCAPE.finditer(field) if found[0] == ":"), None)
    return _ESCAPED.sub(r"\1", field[:colon]), None if colon is None else field[colon + 1 :]


def _number(text: str, field: str) -> float:
    try:
        value = float(text) if "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise FileFormatError(
            f"{field!r:.60}: expected a finite number after the colon, got {text!r:.40}. Write a colon of a name as "
            f"\\:."
        )
    return value


def _label(field: str) -> str:
    label, text = _split(field)
    if text is not None:
        raise FileFormatError(f"label {field!r:.60} holds a colon. Write it as \\:.")
    if not label:
        raise FileFormatError("expected a label before the first tab. Give any label where it is not known.")
    return label


def _declared_weight(field: str) -> float:
    name, _, text = field.partition(":")
    if name != "@weight":
        raise FileFormatError(f"declaration {field!r:.60} is not known. Known: @weight:number.")
    weight = _number(text, field)
    if weight < 0:
        raise FileFormatError(f"{field!r:.60}: a weight is at least 0.")
    return weight


def write_crfsuite(target: Source, X: Iterable[Any], y: Iterable[Any], weights: Iterable[float] | None = None) -> int:
    r"""Write sequences of named features with their labels, and return how many.

    The file appears when all are written. What a token may be is told by
    `intarsia.models.sequence_features.named_values`; arrays have no names and are refused.

    Parameters
    ----------
    target : path or open text stream
        A path that ends in .gz is written as a gzip file.
    X : iterable of sequences
        Lists of dicts or of lists of strings.
    y : iterable of sequences of str
        One label for each token.
    weights : iterable of float, optional
        One for each sequence.

    Raises
    ------
    InvalidInputError
        What is given could not be read back: the message names sequence and token.

    Examples
    --------
    >>> import sys
    >>> write_crfsuite(sys.stdout, [[{"word": "10:30", "length": 5}]], [["O"]])
    O	word=10\:30	length:5.0
    <BLANKLINE>
    1
    """
    n = 0
    with written_text(target) as file:
        for k, (sequence, labels, weight) in enumerate(_triples(X, y, weights)):
            tokens, labels = list(sequence), list(labels)
            if len(tokens) != len(labels) or not tokens:
                raise InvalidInputError(
                    f"write_crfsuite: X[{k}] has {len(tokens)} tokens and y[{k}] {len(labels)} labels; expected the "
                    f"same number, at least 1. An empty sequence cannot be written in this format."
                )
            if weight is not None:
                if not math.isfinite(weight) or weight < 0:
                    raise InvalidInputError(f"write_crfsuite: weights[{k}] is {weight}; expected a number from 0 on.")
                file.write(f"@weight:{float(weight)!r}\n")
            for t, (token, label) in enumerate(zip(tokens, labels, strict=True)):
                try:
                    file.write(_line(token, label))
                except InvalidInputError as error:
                    raise InvalidInputError(f"write_crfsuite: X[{k}][{t}]: {error}") from None
            file.write("\n")
            n += 1
    return n


def _triples(X: Iterable[Any], y: Iterable[Any], weights: Iterable[float] | None) -> Iterator[tuple[Any, Any, Any]]:
    """Sequences with labels and weights; a remainder on any side is refused."""
    streams = [X, y] if weights is None else [X, y, weights]
    for k, items in enumerate(zip_longest(*streams, fillvalue=_END)):
        if any(item is _END for item in items):
            raise InvalidInputError(
                f"write_crfsuite: X, y{'' if weights is None else ' and weights'} have different lengths: one ends "
                f"after {k} sequences. Give one of each for each sequence."
            )
        yield items[0], items[1], None if weights is None else items[2]


def _line(token: Any, label: Any) -> str:
    names, values = named_values(token)
    if not isinstance(label, str) or not label.strip(" ") or label.startswith("@"):
        raise InvalidInputError(f"label {label!r:.60} cannot be written; expected a string that does not begin with @.")
    fields = [_escape(label)]
    for name, value in zip(names, repeat(1.0) if values is None else values, strict=False):
        fields.append(_escape(name) if value == 1.0 else f"{_escape(name)}:{value!r}")
    return "\t".join(fields) + "\n"


def _escape(name: str) -> str:
    if not name or "\t" in name or "\n" in name or "\r" in name:
        raise InvalidInputError(f"{name!r:.60} cannot be written: it is empty, or holds a tab or the end of a line.")
    return _TO_ESCAPE.sub(r"\\\1", name)
