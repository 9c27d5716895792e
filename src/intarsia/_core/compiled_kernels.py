"""Machine code of kernels that is stored with the package, so that a first call need not compile.

`intarsia compile` fills the folder `_compiled` beside the package's code, and wheels contain it. The code is made for a
portable processor of the platform (x86-64-v3 on Intel and AMD: every one with AVX2), not for the processor at hand.
A stored kernel is used before Numba's own cache. Therefore the result of a call does not depend on what was compiled on
this machine before. Kernels that are not stored, or whose file has changed since, are compiled by Numba as usual.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import os
import platform
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
from llvmlite import binding
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.compiler import CompileResult
from numba.core.runtime.nrt import rtsys
from numba.core.serialize import dumps

# Another folder for the compiled code, for example where the package's own folder is read-only.
FOLDER_VARIABLE = "INTARSIA_COMPILED"
ROOT = Path(os.environ.get(FOLDER_VARIABLE) or Path(__file__).resolve().parents[1] / "_compiled")
WRITE_VARIABLE = "INTARSIA_COMPILE"
_X86_FEATURES = (
    "avx,avx2,bmi,bmi2,cmov,cx16,cx8,f16c,fma,fxsr,lzcnt,mmx,movbe,popcnt,sahf,sse,sse2,sse3,sse4.1,sse4.2,ssse3,xsave"
)
# Name of LLVM's processor and the features that it needs, by `platform.machine()`.
_X86 = ("x86-64-v3", _X86_FEATURES.split(","))
_ARM: tuple[str, list[str]] = ("generic", [])
PROCESSORS: dict[str, tuple[str, list[str]]] = {"x86_64": _X86, "AMD64": _X86, "aarch64": _ARM, "arm64": _ARM}


def folder_name() -> str:
    """Return the name of the folder for this Python, Numba and platform."""
    version = f"py{sys.version_info[0]}{sys.version_info[1]}"
    return f"{version}-numba{numba.__version__}-{sys.platform}-{platform.machine()}"


def is_supported() -> bool:
    """Return whether a portable processor is known for this platform."""
    return platform.machine() in PROCESSORS


def compile_environment() -> dict[str, str]:
    """Return the variables under which a Python process compiles for the portable processor and stores the code."""
    name, features = PROCESSORS[platform.machine()]
    return {
        WRITE_VARIABLE: "1",
        "NUMBA_CPU_NAME": name,
        "NUMBA_CPU_FEATURES": ",".join(f"+{feature}" for feature in features),
    }


@functools.cache
def stored_folder() -> Path | None:
    """Return the folder with code for this Python, Numba and processor, or None where there is none."""
    if not is_supported():
        return None
    folder = ROOT / folder_name()
    if os.environ.get(WRITE_VARIABLE):
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    if not folder.is_dir():
        return None
    has = binding.get_host_cpu_features()
    return folder if all(has.get(feature, False) for feature in PROCESSORS[platform.machine()][1]) else None


class KernelCache(FunctionCache):
    """Cache of one kernel: the code stored with the package first, then Numba's own cache.

    Numba's cache is opened when the stored code lacks a signature, since opening it touches the file system.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._is_open: bool | None = None

    def _stored_file(self) -> IndexDataCacheFile | None:
        folder = stored_folder()
        if folder is None:
            return None
        code = self._function.__code__
        stamp = _source_stamp(code.co_filename)
        name = f"{Path(code.co_filename).stem}.{self._function.__qualname__}-{code.co_firstlineno}"
        return IndexDataCacheFile(cache_path=str(folder), filename_base=name, source_stamp=stamp)

    def _key(self, sig: Any) -> tuple[Any, str]:
        """Return the key of a signature; kernels made by one function with different free variables differ in it."""
        cells = self._function.__closure__ or ()
        content = dumps(tuple(cell.cell_contents for cell in cells))
        return sig, hashlib.sha256(self._function.__code__.co_code + content).hexdigest()

    def _open(self) -> bool:
        """Open Numba's own cache; return False where no folder can be written, as in a read-only container."""
        if self._is_open is None:
            try:
                super().__init__(self._function)
            except RuntimeError:
                self._is_open = False
                return False
            # Numba's own stamp does not notice a change of the groups of arguments, which are defined in other files.
            self._cache_file._source_stamp = _source_stamp(self._function.__code__.co_filename)
            self._is_open = True
        return self._is_open

    @property
    def cache_path(self) -> Any:
        """Folder of Numba's own cache; None where there is none."""
        return self._cache_path if self._open() else None

    def flush(self) -> None:
        """Empty Numba's own cache of this kernel."""
        if self._open():
            super().flush()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled code for a signature, or None if it must be compiled."""
        # Numba's own method refreshes its registries, which imports all implementations of functions. Only compiling
        # needs these; code that is already compiled needs the runtime that manages the memory of arrays.
        rtsys.initialize(target_context)
        overload = self._stored_overload(sig, target_context)
        if overload is None and not os.environ.get(WRITE_VARIABLE) and self._open():
            # An entry that refers to a class which has moved since raises; the kernel is then compiled again.
            with suppress(Exception):
                overload = self._load_overload(sig, target_context)
        if overload is None:
            _import_array_functions()
        return overload

    def _stored_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the stored code for a signature; None if there is none, or if its file is damaged."""
        file = self._stored_file()
        if file is None:
            return None
        # A damaged pickle can raise anything; compiling the kernel again is always right.
        with suppress(Exception):
            data = file.load(self._key(sig))
            return None if data is None else CompileResult._rebuild(target_context, *data)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store the compiled code for a signature."""
        file = self._stored_file() if os.environ.get(WRITE_VARIABLE) else None
        if file is not None:
            file.save(self._key(sig), data._reduce())
        elif self._open():
            super().save_overload(sig, data)


@functools.cache
def _import_array_functions() -> None:
    """Import Numba's array functions without `scipy.linalg`, which takes 0.2 s and 16 MB.

    Numba imports it only to check that a BLAS is available. SciPy is a dependency of this package, so that it is. The
    machine code of a matrix product imports `scipy.linalg` at its first call.
    """
    if "numba.np.arraymath" in sys.modules:
        return
    from numba.np import linalg

    check_blas = linalg.ensure_blas
    linalg.ensure_blas = lambda: None
    try:
        arraymath: Any = importlib.import_module("numba.np.arraymath")
        arraymath.ensure_blas = check_blas
    finally:
        linalg.ensure_blas = check_blas


@functools.cache
def _source_stamp(path: str) -> str:
    """Return a hash of a kernel's file, of the options of its compilation, and of the groups of its arguments."""
    files = [Path(path), Path(__file__).with_name("jit.py"), *sorted(Path(path).parent.glob("*arguments.py"))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
