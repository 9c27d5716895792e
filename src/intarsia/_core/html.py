"""How estimators and results look in a notebook: one small table, without scripts, colours or anything from the net."""

from __future__ import annotations

import dataclasses
import enum
import inspect
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

import numpy as np

# Longest text of a cell, and how many members of an array, list or dict are shown.
_LONGEST = 200
_MOST = 6
# The colours of the page, so that it is read on light and on dark ones.
_TABLE = "border-collapse:collapse;background:transparent;color:inherit;font:inherit"
_NAME = "text-align:left;vertical-align:top;font-weight:normal;opacity:.7;padding:.1em 1em .1em 0"
_VALUE = "text-align:left;vertical-align:top;padding:.1em 0;overflow-wrap:anywhere"


def html_table(title: str, facts: Iterable[tuple[str, Any]]) -> str:
    """A table of names and values; whatever they hold is shown as text.

    Examples
    --------
    >>> table = html_table("Found", [("label", "<script>"), ("score", 0.123456789)])
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
    """A value in a line: numbers with six digits, the members of what is small, the shape of what is large.

    Examples
    --------
    >>> brief(np.zeros((1000, 3))), brief([1, 2.5, "a"]), brief({"risk": np.ones(2)})
    ('float64 array (1000, 3)', '1, 2.5, a', 'risk: 1, 1')
    """
    text = _text(value, 2)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _text(value: Any, depth: int) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return value[: _LONGEST + 1]
    if isinstance(value, enum.Enum):
        return f"{value.name}: {value.value}" if isinstance(value.value, str) else value.name
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, np.ndarray):
        if value.ndim == 1 and value.size <= _MOST:
            return ", ".join(_text(item, 0) for item in value.tolist()) or "none"
        return f"{value.dtype} array {value.shape}"
    if isinstance(value, (list, tuple, set, frozenset, Mapping)):
        return _members(value, depth)
    name = type(value).__name__
    if isinstance(value, (type, ShownResult)):
        return name
    # A printed form that nobody wrote would hold whole arrays.
    if dataclasses.is_dataclass(value) and value.__dataclass_params__.repr:  # type: ignore[union-attr]
        fields = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
        return f"{name}({_members(fields, depth)})" if depth else name
    # Ours print themselves shortly; what others print may be anything.
    if type(value).__module__.startswith("intarsia.") or value is None or isinstance(value, (bool, int)):
        return " ".join(repr(value).split())
    return name


def _members(value: Any, depth: int) -> str:
    if depth == 0 or len(value) > _MOST:
        return f"{len(value)} in a {type(value).__name__}"
    if isinstance(value, Mapping):
        return ", ".join(f"{_text(key, 0)}: {_text(item, depth - 1)}" for key, item in value.items()) or "none"
    return ", ".join(_text(item, depth - 1) for item in value) or "none"


class ShownResult:
    """Mixin of dataclasses that are results: in a notebook, a table of what they hold."""

    def _facts(self) -> Iterable[tuple[str, Any]]:
        """Names and values: the fields that say something."""
        for one in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, one.name)
            empty = value is None or (isinstance(value, (str, dict, list, tuple)) and not value)
            unbounded = isinstance(value, float) and not np.isfinite(value)
            if not one.name.startswith("_") and not empty and not unbounded:
                yield one.name, value

    def _repr_html_(self) -> str:
        return html_table(type(self).__name__, self._facts())


class ShownEstimator:
    """Mixin before `BaseEstimator`: in a notebook, settings that are not the default, and what was learned."""

    def _facts(self) -> Iterable[tuple[str, Any]]:
        """Names and values."""
        defaults = inspect.signature(type(self)).parameters
        given: dict[str, Any] = self.get_params(deep=False)  # type: ignore[attr-defined]
        changed = {name: value for name, value in given.items() if repr(value) != repr(defaults[name].default)}
        learned = {name: value for name, value in vars(self).items() if name.endswith("_") and value is not None}
        yield from changed.items()
        if not changed:
            yield "settings", "all as by default"
        yield from learned.items()
        if not learned:
            yield "fitted", "not yet"

    def _repr_html_(self) -> str:
        return html_table(type(self).__name__, self._facts())

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """Instead of scikit-learn's, whose page carries scripts and lists every setting."""
        return {"text/plain": repr(self), "text/html": self._repr_html_()}
