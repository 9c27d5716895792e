r"""CRFsuite feature files: one line per token, with label and features separated by tabs.

A feature may have a value after a colon (`length:3`); a colon in a name is written `\:`, a backslash `\\`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from itertools import repeat, zip_longest
from typing import Any, NamedTuple

from intarsia._files.text_lines import Source, read_lines, source_name, written_text
from intarsia.exceptions import FileFormatError, InvalidInputError
from intarsia.models.named_features import named_values

_COLON_OR_ESCAPE = re.compile(r"\\.|:")
_ESCAPED = re.compile(r"\\([:\\])")
_TO_ESCAPE = re.compile(r"([:\\])")
_END = object()


class CrfsuiteSequence(NamedTuple):
    """Labels, features and weight of one sequence of a CRFsuite file.

    Attributes
    ----------
    labels : list of str
        One label per token.
    features : list of lists of str or of dicts
        Names of the features of each token; a dict from names to values if a feature has a value.
        `SequenceVectorizer` reads both.
    weight : float
        Weight of the sequence, from a line or field `@weight:2.5`; 1 by default.

    Examples
    --------
    >>> CrfsuiteSequence(["B-NP"], [["word=cat"]]).weight
    1.0
    """

    labels: list[str]
    features: list[list[str] | dict[str, float]]
    weight: float = 1.0


def read_crfsuite(source: Source) -> Iterator[CrfsuiteSequence]:
    r"""Read the sequences of a CRFsuite feature file, one at a time.

    Several blank lines count as one; lines may end in CR LF; the last line needs no line end; gzip files are detected
    by their content. A backslash is an escape only before a colon or a backslash. A feature that occurs twice in a line
    counts twice.

    Parameters
    ----------
    source : path or open stream
        The file, in UTF-8.

    Raises
    ------
    FileFormatError
        If a value is not a finite number (usually because of an unescaped colon in a name), a label is missing, or a
        declaration is unknown; the message names the line.

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
    """Return the features of one line; empty fields, such as after a tab at the end, are ignored."""
    if not any(":" in field or "\\" in field for field in fields):
        return [field for field in fields if field]
    parsed = [_parse(field) for field in fields if field]
    if all(value is None for _, value in parsed):
        return [name for name, _ in parsed]
    values: dict[str, float] = {}
    for name, value in parsed:
        values[name] = values.get(name, 0.0) + (1.0 if value is None else value)
    return values


def _parse(field: str) -> tuple[str, float | None]:
    """Return name and value of a feature; None if there is no value."""
    name, text = _split(field)
    if not name:
        raise FileFormatError(f"{field!r:.60} has no name before the colon. Write a colon in a name as \\:.")
    return name, _number(text, field) if text else None


def _split(field: str) -> tuple[str, str | None]:
    """Return the unescaped text before the first unescaped colon, and the text after it or None."""
    colon = next((match.start() for match in _COLON_OR_ESCAPE.finditer(field) if match[0] == ":"), None)
    return _ESCAPED.sub(r"\1", field[:colon]), None if colon is None else field[colon + 1 :]


def _number(text: str, field: str) -> float:
    try:
        value = float(text) if "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise FileFormatError(
            f"{field!r:.60}: expected a finite number after the colon, got {text!r:.40}. Write a colon in a name as "
            f"\\:."
        )
    return value


def _label(field: str) -> str:
    label, text = _split(field)
    if text is not None:
        raise FileFormatError(f"label {field!r:.60} contains a colon. Write it as \\:.")
    if not label:
        raise FileFormatError("expected a label before the first tab. Write any label if it is unknown.")
    return label


def _declared_weight(field: str) -> float:
    name, _, text = field.partition(":")
    if name != "@weight":
        raise FileFormatError(f"declaration {field!r:.60} is unknown. Use @weight:number.")
    weight = _number(text, field)
    if weight < 0:
        raise FileFormatError(f"{field!r:.60}: a weight must be at least 0.")
    return weight


def write_crfsuite(target: Source, X: Iterable[Any], y: Iterable[Any], weights: Iterable[float] | None = None) -> int:
    r"""Write sequences of named features with their labels to a CRFsuite file, and return their number.

    The file is created after all sequences are written. `intarsia.models.named_features.named_values` lists the
    formats of a token; arrays are invalid, because they have no feature names.

    Parameters
    ----------
    target : path or open text stream
        A path that ends in .gz is written as a gzip file.
    X : iterable of sequences
        Lists of dicts or of lists of strings.
    y : iterable of sequences of str
        One label per token.
    weights : iterable of float, optional
        One weight per sequence.

    Raises
    ------
    InvalidInputError
        If a sequence cannot be written so that it is read back unchanged; the message names sequence and token.

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
                    f"write_crfsuite: X[{k}] has {len(tokens)} tokens and y[{k}] has {len(labels)} labels; expected "
                    f"equal numbers of at least 1. Remove empty sequences, which this format cannot contain."
                )
            if weight is not None:
                if not math.isfinite(weight) or weight < 0:
                    raise InvalidInputError(f"write_crfsuite: weights[{k}] is {weight}; expected a finite number >= 0.")
                file.write(f"@weight:{float(weight)!r}\n")
            for t, (token, label) in enumerate(zip(tokens, labels, strict=True)):
                try:
                    file.write(_line(token, label))
                except InvalidInputError as error:
                    message = f"write_crfsuite: X[{k}][{t}]: {error}"
                    raise InvalidInputError(message) from None
            file.write("\n")
            n += 1
    return n


def _triples(X: Iterable[Any], y: Iterable[Any], weights: Iterable[float] | None) -> Iterator[tuple[Any, Any, Any]]:
    """Yield sequences with labels and weights; raise if their numbers differ."""
    streams = [X, y] if weights is None else [X, y, weights]
    for k, items in enumerate(zip_longest(*streams, fillvalue=_END)):
        if any(item is _END for item in items):
            raise InvalidInputError(
                f"write_crfsuite: X, y{'' if weights is None else ' and weights'} have different lengths: the shortest "
                f"has {k} sequences. Pass one of each for each sequence."
            )
        yield items[0], items[1], None if weights is None else items[2]


def _line(token: Any, label: Any) -> str:
    names, values = named_values(token)
    if not isinstance(label, str) or not label.strip(" ") or label.startswith("@"):
        raise InvalidInputError(
            f"label {label!r:.60} cannot be written; expected a string that is not blank and does not begin with @."
        )
    fields = [_escape(label)]
    for name, value in zip(names, repeat(1.0) if values is None else values, strict=False):
        fields.append(_escape(name) if value == 1.0 else f"{_escape(name)}:{value!r}")
    return "\t".join(fields) + "\n"


def _escape(name: str) -> str:
    if not name or "\t" in name or "\n" in name or "\r" in name:
        raise InvalidInputError(
            f"{name!r:.60} cannot be written, because it is empty or contains a tab or a line end. Replace it."
        )
    return _TO_ESCAPE.sub(r"\\\1", name)
