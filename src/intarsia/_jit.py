"""The one decorator through which every Numba kernel is compiled.

Kernels are serial, release the GIL, follow IEEE division (no exception at x / 0) and are cached on disk. They are
compiled at their first call, never at import. A kernel and its private helpers share a file, because
Numba's cache does not notice an edit in another file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])

# Full fastmath assumes that infinities do not occur; this subset keeps them.
_REASSOCIATE = {"reassoc", "contract", "arcp", "nsz"}


def kernel(function: F) -> F:
    """Compile a kernel with strict floating-point semantics."""
    compiled = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    return cast(F, compiled)


def fast_kernel(function: F) -> F:
    """Compile a kernel whose sums may be reordered; a test with -inf must cover it."""
    compiled = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_REASSOCIATE)(function)
    return cast(F, compiled)


def inline_kernel(function: F) -> F:
    """Compile a small helper that is inlined into the kernels of its own file."""
    compiled = numba.njit(cache=True, nogil=True, error_model="numpy", inline="always")(function)
    return cast(F, compiled)
