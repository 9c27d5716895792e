"""JSON as PSL's own reader takes it: comments, single quotes, trailing commas, leading zeros and plus signs."""

from __future__ import annotations

import bisect
import re
from operator import itemgetter
from typing import Any

from intarsia._files.json_text import read_json_text

_TOKEN = re.compile(
    r"""
    (?P<string>"(?:[^"\\]|\\.)*")
  | (?P<single>'(?:[^'\\]|\\.)*')
  | (?P<blank>\s+|//[^\n]*|\#[^\n]*|/\*.*?\*/)
  | (?P<number>[+-]?\d[\w.+-]*)
  | (?P<word>\w+)
  | (?P<other>.)
    """,
    re.DOTALL | re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(.)|\"", re.DOTALL)
_NUMBER = re.compile(r"\+?(-?)0*(\d.*)", re.DOTALL)


def read_lenient_json(text: str, location: str) -> Any:
    r"""Read JSON with the additions that PSL allows.

    These are comments (`//`, `#` and `/* */`), strings in single quotes, a comma after the last item of a list or an
    object, and numbers that begin with zeros or a plus sign. Nothing else is added: names need their quotes.

    Parameters
    ----------
    text : str
        Content of a file.
    location : str
        Name of the file, for messages.

    Raises
    ------
    FileFormatError
        The text is not JSON; the message has the line and the column in `text`.

    Examples
    --------
    >>> read_lenient_json("{'arity': +02, # two\n 'rules': ['1: !P(X)',]}", "model.json")
    {'arity': 2, 'rules': ['1: !P(X)']}
    >>> read_lenient_json("{'a': 1 // one\n 'b': 2}", "model.json")
    Traceback (most recent call last):
        ...
    intarsia.exceptions.FileFormatError: model.json, line 2, column 2: no JSON (Expecting ',' delimiter). Check ...
    """
    strict, places = _strict(text)

    def original(at: int) -> tuple[int, int]:
        begin, begin_in_text = places[bisect.bisect_right(places, at, key=itemgetter(0)) - 1]
        place = begin_in_text + at - begin
        return text.count("\n", 0, place) + 1, place - text.rfind("\n", 0, place)

    return read_json_text(strict, location, "Check commas and quotes.", original)


def _strict(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The text as strict JSON, and pairs of corresponding places in it and in the original."""
    pieces: list[str] = []
    places = [(0, 0)]
    length = 0
    before, comma = "", -1  # last token that is not blank; index of a comma that may be the last of its list
    for match in _TOKEN.finditer(text):
        kind, piece = match.lastgroup, match[0]
        if kind == "blank":
            piece = " " * len(piece)
        else:
            if piece in "]}" and comma >= 0:
                pieces[comma] = " "
            comma = len(pieces) if piece == "," and before not in ("", "[", "{", ",", ":") else -1
            before = piece
            if kind in ("string", "single"):
                piece = '"' + _ESCAPE.sub(_escaped, piece[1:-1]) + '"'
            elif kind == "number":
                piece = _NUMBER.sub(r"\1\2", piece)
        pieces.append(piece)
        length += len(piece)
        if len(piece) != match.end() - match.start():
            places.append((length, match.end()))
    return "".join(pieces), places


def _escaped(match: re.Match[str]) -> str:
    """A quote or an escape inside a string, as strict JSON writes it."""
    if match[0] == '"':
        return '\\"'
    return "'" if match[1] == "'" else match[0]
