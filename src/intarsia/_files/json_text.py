"""JSON from files that others wrote: a document, or an error that names the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from intarsia.exceptions import FileFormatError


def read_json_text(text: str, location: str, remedy: str, place: Callable[[int], tuple[int, int]] | None = None) -> Any:
    """The document of a JSON text.

    Parameters
    ----------
    text : str
        Content of a file, or one of its lines.
    location : str
        What it is called in messages.
    remedy : str
        What to do about a text that is none.
    place : callable, optional
        Line and column that messages name for an index into `text`; by default those in `text` itself.

    Raises
    ------
    FileFormatError
        The text is no JSON, too many brackets are open at once, or a number has thousands of digits.

    Examples
    --------
    >>> read_json_text('{"a": 1}', "model.json", "Correct it.")
    {'a': 1}
    >>> read_json_text('{"a" 1}', "model.json", "Check commas and quotes.")
    Traceback (most recent call last):
        ...
    intarsia.exceptions.FileFormatError: model.json, line 1, column 6: no JSON (Expecting ':' delimiter). Check ...
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line, column = (error.lineno, error.colno) if place is None else place(error.pos)
        raise FileFormatError(f"{location}, line {line}, column {column}: no JSON ({error.msg}). {remedy}") from None
    except RecursionError:
        raise FileFormatError(f"{location}: too many brackets inside each other. {remedy}") from None
    except ValueError:  # Python refuses whole numbers of more than some thousand digits
        raise FileFormatError(f"{location}: a number has too many digits. {remedy}") from None
