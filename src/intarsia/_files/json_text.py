"""Parse JSON from files of unknown origin; errors name the file, the line and the column."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from intarsia.exceptions import FileFormatError


def read_json_text(
    text: str, location: str, remedy: str, position: Callable[[int], tuple[int, int]] | None = None
) -> Any:
    """Parse a JSON document.

    Parameters
    ----------
    text : str
        Content of a file, or of one line of a file.
    location : str
        Name of the text in messages.
    remedy : str
        Advice that is appended to error messages.
    position : callable, optional
        Converts an index into `text` to the line and column that messages show; by default those in `text` itself.

    Raises
    ------
    FileFormatError
        The text is not valid JSON, is nested too deeply, or contains a number with thousands of digits.

    Examples
    --------
    >>> read_json_text('{"a": 1}', "model.json", "Correct it.")
    {'a': 1}
    >>> read_json_text('{"a" 1}', "model.json", "Check commas and quotes.")
    Traceback (most recent call last):
        ...
    intarsia.exceptions.FileFormatError: model.json, line 1, column 6: invalid JSON (Expecting ':' delimiter). Check ...
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line, column = (error.lineno, error.colno) if position is None else position(error.pos)
        raise FileFormatError(
            f"{location}, line {line}, column {column}: invalid JSON ({error.msg}). {remedy}"
        ) from None
    except RecursionError:
        raise FileFormatError(f"{location}: brackets are nested too deeply. {remedy}") from None
    except ValueError:  # Python does not parse integers of several thousand digits
        raise FileFormatError(f"{location}: a number has too many digits. {remedy}") from None
