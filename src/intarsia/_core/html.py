"""Notebook display of estimators and results: one small table without scripts, colours or external resources."""

from __future__ import annotations

import dataclasses
import enum
import inspect
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

import numpy as np

# Maximum length of the text of a cell, and maximum number of items of an array, list or dict that are listed.
_MAX_LENGTH = 200
_MAX_ITEMS = 6
# The table inherits the colours of the page, so that it is readable on light and dark themes.
_TABLE = "border-collapse:collapse;background:transparent;color:inherit;font:inherit"
_NAME = "text-align:left;vertical-align:top;font-weight:normal;opacity:.7;padding:.1em 1em .1em 0"
_VALUE = "text-align:left;vertical-align:top;padding:.1em 0;overflow-wrap:anywhere"


def html_table(title: str, facts: Iterable[tuple[str, Any]]) -> str:
    """Return an HTML table of names and values; all values are escaped.

    Examples
    --------
    >>> table = html_table("Result", [("label", "<script>"), ("score", 0.123456789)])
    >>> "&lt;script&gt;" in table, "0.123457" in table
    (True, True)
    """
    rows = "".join(
        f'<tr><th scope="row" style="{_NAME}">{escape(brief(name))}</th>'
        f'<td style="{_VALUE}">{escape(brief(value))}</td></tr>'
        for name, value in facts
    )
    return (
        f'<table style="{_TABLE}"><caption style="text-align:left;font-weight:bold">{escape(title)}</caption>'
        f"<tbody>{rows}</tbody></table>"
    )


def brief(value: Any) -> str:
    """Format a value in one line: numbers with six digits, the items of small containers, the shape of large arrays.

    Examples
    --------
    >>> brief(np.zeros((1000, 3))), brief([1, 2.5, "a"]), brief({"risk": np.ones(2)})
    ('float64 array (1000, 3)', '1, 2.5, a', 'risk: 1, 1')
    """
    text = _text(value, 2)
    return text if len(text) <= _MAX_LENGTH else text[: _MAX_LENGTH - 1] + "…"


def _text(value: Any, depth: int) -> str:
    """Format a value as text; containers are listed down to `depth` levels."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return value[: _MAX_LENGTH + 1]
    if isinstance(value, enum.Enum):
        return f"{value.name}: {value.value}" if isinstance(value.value, str) else value.name
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, np.ndarray):
        if value.ndim == 1 and value.size <= _MAX_ITEMS:
            return ", ".join(_text(item, 0) for item in value.tolist()) or "none"
        return f"{value.dtype} array {value.shape}"
    if isinstance(value, (list, tuple, set, frozenset, Mapping)):
        return _members(value, depth)
    name = type(value).__name__
    if isinstance(value, (type, ShownResult)):
        return name
    # The default repr of a dataclass without one of its own would contain whole arrays.
    if dataclasses.is_dataclass(value) and value.__dataclass_params__.repr:  # type: ignore[union-attr]
        fields = {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
        return f"{name}({_members(fields, depth)})" if depth else name
    # Our classes have a short repr; that of other classes may have any length.
    if type(value).__module__.startswith("intarsia.") or value is None or isinstance(value, (bool, int)):
        return " ".join(repr(value).split())
    return name


def _members(value: Any, depth: int) -> str:
    """Format the items of a container, or only their number if there are many."""
    if depth == 0 or len(value) > _MAX_ITEMS:
        return f"{type(value).__name__} of {len(value)}"
    if isinstance(value, Mapping):
        return ", ".join(f"{_text(key, 0)}: {_text(item, depth - 1)}" for key, item in value.items()) or "none"
    return ", ".join(_text(item, depth - 1) for item in value) or "none"


class ShownResult:
    """Mixin for result dataclasses: shows a table of the fields in a notebook."""

    def _facts(self) -> Iterable[tuple[str, Any]]:
        """Yield names and values of the public fields that are set."""
        for item in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, item.name)
            empty = value is None or (isinstance(value, (str, dict, list, tuple)) and not value)
            unbounded = isinstance(value, float) and not np.isfinite(value)
            if not item.name.startswith("_") and not empty and not unbounded:
                yield item.name, value

    def _repr_html_(self) -> str:
        return html_table(type(self).__name__, self._facts())


class ShownEstimator:
    """Mixin before `BaseEstimator`: shows the changed settings and the fitted attributes in a notebook."""

    def _facts(self) -> Iterable[tuple[str, Any]]:
        """Yield names and values of changed settings and fitted attributes."""
        defaults = inspect.signature(type(self)).parameters
        settings: dict[str, Any] = self.get_params(deep=False)  # type: ignore[attr-defined]
        changed = {name: value for name, value in settings.items() if repr(value) != repr(defaults[name].default)}
        fitted = {name: value for name, value in vars(self).items() if name.endswith("_") and value is not None}
        yield from changed.items()
        if not changed:
            yield "settings", "all default"
        yield from fitted.items()
        if not fitted:
            yield "fitted", "not yet"

    def _repr_html_(self) -> str:
        return html_table(type(self).__name__, self._facts())

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """Return the HTML and text representation; scikit-learn's would contain scripts and list every setting."""
        return {"text/plain": repr(self), "text/html": self._repr_html_()}
