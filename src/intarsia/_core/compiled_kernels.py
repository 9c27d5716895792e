"""Machine code of kernels that is stored with the package, so that a first call need not compile.

`intarsia compile` fills the folder `_compiled` beside the package's code, and wheels contain it. The code is made for a
portable processor of the platform (x86-64-v3 on Intel and AMD: every one with AVX2), not for the processor at hand, and
is used before Numba's own cache. Code for another processor adds in another order, so that results with and without
stored kernels agree to rounding errors, not to the bit.

The name of a stored file contains a hash of everything that the machine code depends on: all sources of the kernel, its
signature and its free variables. Stored code is a pickle, which can run any code when it is read. Therefore a file is
read only if its checksum is that of the manifest, and only if nobody else can write to the folder or to the manifest.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import os
import pickle
import platform
import re
import stat
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
from llvmlite import binding
from numba.core.caching import FunctionCache
from numba.core.compiler import CompileResult
from numba.core.runtime.nrt import rtsys
from numba.core.serialize import dumps

from intarsia._files.atomic_file import make_folder, remove, replace, temporary_folder, write_bytes, write_text
from intarsia.exceptions import InvalidInputError

# Another folder for the compiled code, for example where the package's own folder is read-only.
FOLDER_VARIABLE = "INTARSIA_COMPILED"
ROOT = Path(os.environ.get(FOLDER_VARIABLE) or Path(__file__).resolve().parents[1] / "_compiled")
# Folder that is being filled; set only by `intarsia compile`.
WRITE_VARIABLE = "INTARSIA_COMPILE"
MANIFEST = "manifest.json"
_IMPORT = re.compile(r"^from ([\w.]+) import (\([^)]*\)|.*)|^import (.*)", re.MULTILINE)
_WORD = re.compile(r"[\w.]+")
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


def compile_environment(folder: str | os.PathLike[str]) -> dict[str, str]:
    """Return the variables under which Python processes compile for the portable processor, into an empty folder."""
    name, features = PROCESSORS[platform.machine()]
    return {
        WRITE_VARIABLE: os.fspath(folder),
        "NUMBA_CPU_NAME": name,
        "NUMBA_CPU_FEATURES": ",".join(f"+{feature}" for feature in features),
    }


def fill_stored_folder(compile_into: Callable[[Path], None]) -> list[Path]:
    """Call a function that compiles kernels into an empty folder, then replace the stored kernels; return their files.

    The manifest is written last. Until then the old kernels are in use, and after an error they remain.
    """
    folder = make_folder(ROOT / folder_name()).resolve()
    reason = _why_unsafe(folder)
    if reason:
        raise InvalidInputError(
            f"intarsia compile: {reason}, so that kernels that are stored there would not be used. Correct the "
            f"permissions, or set {FOLDER_VARIABLE} to a folder of your own."
        )
    try:
        with temporary_folder(folder) as work:
            compile_into(Path(work))
            manifest = {}
            for file in sorted(Path(work).glob("*.nbc")):
                manifest[file.name] = checksum = hashlib.sha256(file.read_bytes()).hexdigest()
                replace(file, folder / f"{checksum}.nbc")
        write_text(folder / MANIFEST, json.dumps(manifest, indent=0))
    finally:
        stored_names = {f"{checksum}.nbc" for checksum in _read_manifest(folder).values()}
        remove(*(file for file in folder.glob("*.nb[ci]") if file.name not in stored_names))
    return [folder / name for name in sorted(stored_names)]


def _read_manifest(folder: Path) -> dict[str, str]:
    """Return the checksum of each stored kernel; nothing without a manifest, or if it is damaged."""
    with suppress(OSError, ValueError):
        content = json.loads((folder / MANIFEST).read_bytes())
        if isinstance(content, dict):
            return content
    return {}


@functools.cache
def stored_kernels() -> tuple[Path, dict[str, str]] | None:
    """Return the folder for this Python, Numba and processor, with its manifest, or None where none can be used."""
    folder = (ROOT / folder_name()).resolve()
    if not is_supported() or not (folder / MANIFEST).is_file():
        return None
    has = binding.get_host_cpu_features()
    if not all(has.get(feature, False) for feature in PROCESSORS[platform.machine()][1]):
        return None
    return None if _is_ignored(folder, folder / MANIFEST) else (folder, _read_manifest(folder))


@functools.cache
def _is_ignored(*paths: Path) -> bool:
    """Warn and return True if others can write to one of these paths, and so could run code in this process."""
    reason = next(filter(None, map(_why_unsafe, paths)), "")
    if reason:
        warnings.warn(
            f"compiled kernels are ignored: {reason}. Correct the permissions (`chmod go-w`), or set "
            f"{FOLDER_VARIABLE} or NUMBA_CACHE_DIR to a folder of your own. Until then they are compiled when needed.",
            UserWarning,
            stacklevel=2,
        )
    return bool(reason)


def _why_unsafe(path: Path) -> str:
    """Return why others can change a file or folder; an empty string if they cannot.

    Whoever can change the package's own code is trusted as that code is. Windows is not checked.
    """
    if not hasattr(os, "geteuid"):
        return ""
    package = Path(__file__).resolve().parents[1]
    trusted = package.stat()
    owners = {0, os.geteuid(), trusted.st_uid}
    for place in (path, *path.parents):
        if place == package or place in package.parents:
            break
        state = place.stat()
        if state.st_uid not in owners:
            return f"{place} belongs to another user"
        others = stat.S_IWOTH if _is_private_group(state) else stat.S_IWOTH | stat.S_IWGRP
        if package in place.parents and state.st_gid == trusted.st_gid:
            others &= ~trusted.st_mode
        # In a sticky folder such as /tmp, others cannot replace our files; but they can add files of their own.
        if state.st_mode & others and (place == path or not state.st_mode & stat.S_ISVTX):
            return f"other users can write to {place}"
    return ""


def _is_private_group(state: os.stat_result) -> bool:
    """Return whether the group of a file is that of its owner alone, as many systems make one for each user."""
    if not state.st_mode & stat.S_IWGRP:
        return True
    import grp
    import pwd

    with suppress(KeyError):
        owner, group = pwd.getpwuid(state.st_uid), grp.getgrgid(state.st_gid)
        return owner.pw_gid == group.gr_gid and owner.pw_name == group.gr_name and not group.gr_mem
    return False


class KernelCache(FunctionCache):
    """Cache of one kernel: the code stored with the package first, then Numba's own cache.

    Numba's cache is opened when the stored code lacks a signature, since opening it touches the file system.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._is_open: bool | None = None

    def _file_name(self, sig: Any) -> str:
        """Return the name of a stored file, which is another one for other code, signatures or free variables."""
        code, cells = self._function.__code__, self._function.__closure__ or ()
        content = dumps(tuple(cell.cell_contents for cell in cells))
        contents = (code.co_code, content, str(sig).encode(), self._source_stamp().encode())
        key = hashlib.sha256(b"".join(hashlib.sha256(value).digest() for value in contents)).hexdigest()
        return f"{Path(code.co_filename).stem}.{self._function.__name__}-{code.co_firstlineno}-{key[:32]}.nbc"

    def _source_stamp(self) -> str:
        return _source_stamp(self._function.__code__.co_filename, self._function.__module__)

    def _open(self) -> bool:
        """Open Numba's own cache; return False where there is no folder that we, and only we, can write."""
        if self._is_open is None:
            self._is_open = False
            with suppress(RuntimeError):
                super().__init__(self._function)
                self._is_open = not _is_ignored(Path(self._cache_path).resolve())
                # Numba's own stamp does not notice a change in another file.
                self._cache_file._source_stamp = self._source_stamp()
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
        """Return the stored code for a signature; None if there is none, or if its file is not that of the manifest."""
        with suppress(OSError):
            if os.environ.get(WRITE_VARIABLE):
                content = Path(os.environ[WRITE_VARIABLE], self._file_name(sig)).read_bytes()
            else:
                folder, manifest = stored_kernels() or (Path(), {})
                checksum = manifest.get(self._file_name(sig)) if manifest else None
                if checksum is None:
                    return None
                content = (folder / f"{checksum}.nbc").read_bytes()
                if hashlib.sha256(content).hexdigest() != checksum:
                    return None
            # Code of another version of a library can raise anything; compiling the kernel again is always right.
            with suppress(Exception):
                return CompileResult._rebuild(target_context, *pickle.loads(content))
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store the compiled code for a signature."""
        folder = os.environ.get(WRITE_VARIABLE)
        if folder:
            write_bytes(Path(folder, self._file_name(sig)), dumps(data._reduce()))
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
def _source_stamp(file: str, module: str) -> str:
    """Return a hash of all sources that can change the machine code of the kernels of a file.

    These are the modules of Intarsia and of the kernel's own package that it imports, directly or through others, and
    the groups of arguments, which a kernel receives without importing them.
    """
    path, this = Path(file).resolve(), Path(__file__).resolve()
    places = (("intarsia", this.parents[2]), (module.partition(".")[0], path.parents[module.count(".")]))
    waiting, hashes = [path, *path.parent.glob("*arguments.py")], dict[Path, bytes]()
    while waiting:
        source = waiting.pop()
        if source not in hashes and source != this:  # this file decides where machine code is stored, not what it is
            hashes[source], imported = _read_source(source, places)
            waiting += imported
    return hashlib.sha256(b"".join(hashes[source] for source in sorted(hashes))).hexdigest()


@functools.cache
def _read_source(path: Path, places: tuple[tuple[str, Path], ...]) -> tuple[bytes, list[Path]]:
    """Return the hash of a source, and the files of those modules that it imports whose package is in `places`."""
    content = path.read_bytes()
    names: set[str] = set()
    for module, imported, modules in _IMPORT.findall(content.decode("utf-8", "replace")):
        names.update(
            [module, *(f"{module}.{name}" for name in _WORD.findall(imported))] if module else _WORD.findall(modules)
        )
    files = []
    for package, folder in places:
        for name in names:
            if name.startswith(f"{package}."):
                base = folder.joinpath(*name.split("."))
                files += [file for file in (base.with_suffix(".py"), base / "__init__.py") if file.is_file()]
    return hashlib.sha256(content).digest(), files
