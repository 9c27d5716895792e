"""Loops over the structure of a graph, compiled only for graphs that are large enough to repay it.

Compiling takes a second, as long as plain Python needs for about 10^6 loop steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Entries of all scopes together, above which loops over a graph are compiled.
SMALL = 8_000


def run_loops(function: Callable[..., int], n_steps: int, arrays: Any, result: Any) -> int:
    """Call a kernel on two named tuples of arrays, and return what it returns; it changes only those of `result`.

    With at most `SMALL` steps the Python source of the kernel runs on lists, whose entries are read faster than those
    of an array. The source may therefore use nothing but `len` and single entries.
    """
    if n_steps > SMALL:
        return function(arrays, result)
    source: Any = getattr(function, "py_func", function)
    lists = type(result)(*[array.tolist() for array in result])
    value: int = source(type(arrays)(*[array.tolist() for array in arrays]), lists)
    for array, entries in zip(result, lists, strict=True):
        array[:] = entries
    return value
