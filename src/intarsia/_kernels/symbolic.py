"""Loops over indices, compiled only for graphs that are large enough to repay it.

Compiling takes a second, as long as plain Python needs for some 10^6 loop steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from intarsia._core.validation import FloatArray, IntArray

# Entries of all scopes together, above which loops over a graph are compiled.
SMALL = 8_000


def run_loops(
    function: Callable[..., int],
    n_steps: int,
    given: Sequence[IntArray | FloatArray],
    made: Sequence[IntArray | FloatArray],
) -> int:
    """Call a kernel on the arrays `given` and `made`, of which it changes only the latter.

    With at most `SMALL` steps this runs its Python source, on lists, whose entries are read faster than an array's; the
    source may therefore use nothing but `len` and single entries.
    """
    if n_steps > SMALL:
        return function(*given, *made)
    source: Any = getattr(function, "py_func", function)
    lists = [array.tolist() for array in made]
    result: int = source(*[array.tolist() for array in given], *lists)
    for array, entries in zip(made, lists, strict=True):
        array[:] = entries
    return result
