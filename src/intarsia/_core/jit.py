"""Decorators that compile every Numba kernel.

Kernels are serial, release the GIL, follow IEEE division (no exception at x / 0) and are cached on disk. They are
compiled at their first call, never at import. Caches notice an edit in every module of the package that the file of a
kernel imports at its top level (`compiled_kernels.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from llvmlite import ir  # comes with Numba
from numba.core import cgutils, types
from numba.extending import intrinsic

from intarsia._core.compiled_kernels import KernelCache

F = TypeVar("F", bound=Callable[..., Any])

_settings: Any = numba.config

# Full fastmath assumes that infinities do not occur; this subset keeps them.
_REASSOCIATE = {"reassoc", "contract", "arcp", "nsz"}


def _compile(function: F, **options: Any) -> F:
    """Return the function as a kernel that is compiled at its first call."""
    compiled = numba.njit(nogil=True, error_model="numpy", **options)(function)
    if not _settings.DISABLE_JIT:
        compiled._cache = KernelCache(function)
    return cast(F, compiled)


def kernel(function: F) -> F:
    """Compile a kernel with strict floating-point semantics."""
    # An option that is not set would be inherited from the kernel that calls this one.
    return _compile(function, fastmath=False)


def fast_kernel(function: F) -> F:
    """Compile a kernel whose sums may be reordered; a test with -inf must cover it."""
    return _compile(function, fastmath=_REASSOCIATE)


def borrowing_kernel(function: F) -> F:
    """Compile a helper that borrows its arrays from the calling kernel, and is copied into it.

    An ordinary kernel counts a reference to each array that it receives, those in named tuples included. In a small
    kernel that is called a million times, the counting and the passing of arrays take ten times as long as the work.
    A borrowing kernel cannot create arrays. Python must not call it with a random number generator, to which a
    reference would remain.
    """
    return _compile(function, forceinline=True, _nrt=False)


def fast_borrowing_kernel(function: F) -> F:
    """Compile a fast kernel that counts no references to its arrays, for example where a loop slices them often.

    It cannot create arrays. Its sums may be reordered, as in `fast_kernel`.
    """
    return _compile(function, fastmath=_REASSOCIATE, _nrt=False)


def inline_kernel(function: F) -> F:
    """Compile a small helper that is inlined into the kernels of its own file."""
    return _compile(function, inline="always")


def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Prefetch `array[index]` into the processor's caches; the index must be within the array.

    This helps where a loop reads an array in random order and knows the next indices: a processor on its own waits for
    only a few of them at a time.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array_struct = context.make_array(signature.args[0])(context, builder, arguments[0])
        is_tuple = isinstance(signature.args[1], types.BaseTuple)
        indices = cgutils.unpack_tuple(builder, arguments[1]) if is_tuple else [arguments[1]]
        pointer = cgutils.get_item_pointer(context, builder, signature.args[0], array_struct, indices)
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        call = builder.module.declare_intrinsic("llvm.prefetch", [byte], function_type)
        # The arguments mean: prefetch for writing, keep in all cache levels, data cache.
        builder.call(call, [builder.bitcast(pointer, byte), *(ir.Constant(number, k) for k in (1, 3, 1))])
        return context.get_dummy_value()

    return types.void(array, index), generate


def _no_prefetch(array: Any, index: Any) -> None:
    """Do nothing; replaces `prefetch` where kernels run as plain Python."""


prefetch: Any = _no_prefetch if _settings.DISABLE_JIT else intrinsic(_prefetch)
