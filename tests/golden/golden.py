"""Named calls whose results are recorded: how they are registered, run, hashed, stored and compared."""

from __future__ import annotations

import functools
import hashlib
import importlib
import inspect
import json
import platform
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from intarsia import exceptions
from intarsia._core.compiled_kernels import stored_kernels

FOLDER = Path(__file__).parent
FAMILIES = tuple(sorted(path.stem for path in FOLDER.glob("*_calls.py")))
# Numbers of a run that depend on rounding in the last digit: compared only on the machine that recorded them.
OF_THE_RUN = {"n_iter", "n_admm_iter", "n_passes", "residual", "gradient_norm", "n_restarts", "warnings"}
LIBRARIES = ("numpy", "numba", "scipy", "scikit-learn", "highspy", "duckdb", "rapidfuzz")


@dataclass(frozen=True)
class Call:
    """A recorded call; `reordered` compares arrays to 1e-12 instead of by hash, `tol` is for other machines."""

    function: Callable[..., dict[str, Any]]
    arguments: tuple[Any, ...] = ()
    reordered: bool = False
    tol: float = 1e-7


CALLS: dict[str, Call] = {}


def golden(
    *, each: Iterable[Any] | None = None, of: Iterable[Any] | None = None, reordered: Any = False, tol: float = 1e-7
):
    """Register a function as a call, or as one call for every item of `each`, its first argument.

    With `of` it is one call for all items together; their names begin the names of the results. `reordered` is a bool,
    or the items of `each` to which it applies.
    """

    def register(function):
        family = function.__module__.rpartition(".")[2].removesuffix("_calls")
        if of is not None:
            name = f"{family}.{function.__name__}"
            assert name not in CALLS, name
            CALLS[name] = Call(functools.partial(_all_items, function, list(of)), (), reordered, tol)
            return function
        for item in [None] if each is None else list(each):
            name = f"{family}.{function.__name__}" + ("" if each is None else f"[{item}]")
            assert name not in CALLS, name
            loose = reordered if isinstance(reordered, bool) else item in reordered
            CALLS[name] = Call(function, () if each is None else (item,), loose, tol)
        return function

    return register


def _all_items(function: Callable[..., dict[str, Any]], items: list[Any], folder: Path) -> dict[str, Any]:
    result = {}
    for k, item in enumerate(items):
        if _takes_folder(function):
            (folder / str(k)).mkdir()
            found = function(item, folder=folder / str(k))
        else:
            found = function(item)
        result |= {f"{item}.{key}": value for key, value in found.items()}
    return result


def _takes_folder(function: Callable[..., Any]) -> bool:
    return "folder" in inspect.signature(function).parameters


def load_calls() -> dict[str, Call]:
    """Import every family and return its calls by name."""
    for family in FAMILIES:
        importlib.import_module(f"tests.golden.{family}")
    return CALLS


@dataclass(frozen=True)
class Recorded:
    """Result of a call: arrays and texts by name."""

    arrays: dict[str, np.ndarray]
    texts: dict[str, str]

    @property
    def hash(self) -> str:
        """Return the hash of all arrays and texts."""
        state = hashlib.blake2b(digest_size=16)
        for name in sorted(self.arrays):
            array = self.arrays[name]
            state.update(f"{name} {array.dtype.kind} {array.shape}\n".encode() + array.tobytes())
        state.update(json.dumps(self.texts, sort_keys=True).encode())
        return state.hexdigest()


def run(name: str) -> Recorded:
    """Run a call in a folder of its own; the types of the package's warnings belong to its result."""
    call = load_calls()[name]
    with (
        tempfile.TemporaryDirectory() as folder,
        warnings.catch_warnings(record=True) as caught,
        threadpool_limits(1),  # sums of a library with threads depend on their number
    ):
        warnings.simplefilter("always")
        at = {"folder": Path(folder)} if _takes_folder(call.function) else {}
        values = call.function(*call.arguments, **at)
        names = {w.category.__name__ for w in caught if hasattr(exceptions, w.category.__name__)}
        return flatten(values | ({"warnings": sorted(names)} if names else {}), folder)


def flatten(values: Mapping[str, Any], folder: str = "") -> Recorded:
    """Return the arrays of a dict of values; of a nested value, the floats and a text with all the rest."""
    arrays: dict[str, np.ndarray] = {}
    texts: dict[str, str] = {}
    for name, value in values.items():
        if "seconds" in name:
            continue
        array = _numeric(value)
        if array is not None:
            arrays[name] = array
            continue
        floats: list[float] = []
        rest = _without_floats(value, floats)
        texts[name] = rest if isinstance(rest, str) else json.dumps(rest, sort_keys=True)
        if folder:
            texts[name] = texts[name].replace(folder, "<folder>")
        if floats:
            arrays[name] = _numeric(np.array(floats))
    return Recorded(arrays, texts)


def _numeric(value: Any) -> np.ndarray | None:
    """Return a number or an array of numbers with one of three types, or None for anything else."""
    if sparse.issparse(value):
        value = value.toarray()
    if isinstance(value, (list, tuple)):
        flat = value
        while flat and all(isinstance(row, (list, tuple)) and len(row) == len(flat[0]) for row in flat):
            flat = [item for row in flat for item in row]
        if not all(isinstance(item, (int, float, np.number)) for item in flat):
            return None
    if not isinstance(value, (bool, int, float, np.ndarray, np.generic, list, tuple)):
        return None
    array = np.asarray(value)
    match array.dtype.kind:
        case "f":
            # The sign of a zero and the payload of a NaN are no part of a result.
            array = array.astype(np.float64) + 0.0
            return np.ascontiguousarray(np.where(np.isnan(array), np.nan, array)).reshape(array.shape)
        case "i" | "u":
            return np.ascontiguousarray(array.astype(np.int64)).reshape(array.shape)
        case "b":
            return np.ascontiguousarray(array).reshape(array.shape)
    return None


def _without_floats(value: Any, floats: list[float]) -> Any:
    """Return a value as JSON types in which every float is "#"; the floats are appended to the list."""
    if sparse.issparse(value):
        value = value.toarray()
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, float):
        floats.append(value)
        return "#"
    array = _numeric(value) if isinstance(value, list) and value else None
    if array is not None and array.dtype.kind == "f" and array.size > 1:
        floats.extend(array.ravel().tolist())
        return f"#{list(array.shape)}"
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, Mapping):
        plain = {str(key): item for key, item in value.items()}
        return {key: _without_floats(plain[key], floats) for key in sorted(plain) if not dropped(key)}
    if isinstance(value, (set, frozenset)):
        return sorted((_without_floats(item, floats) for item in value), key=str)
    if isinstance(value, (list, tuple)):
        return [_without_floats(item, floats) for item in value]
    raise TypeError(f"A call returned {type(value).__name__}: give its arrays and plain values.")


def dropped(name: str) -> bool:
    """Return whether a field of a document is a time, or a count of the run that depends on rounding."""
    return "seconds" in name or name in OF_THE_RUN


def machine() -> dict[str, str]:
    """Return the processor, Python and the libraries on which the last bits of a result depend."""
    processor = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line]
        processor = lines[0] if lines else processor
    from llvmlite.binding import get_host_cpu_name

    found = {"processor": f"{processor} ({get_host_cpu_name()})", "system": sys.platform}
    # Kernels that are stored with the package are compiled for another processor than those compiled here. Their names
    # contain a hash of their sources: after a change of a source, some are compiled here.
    _, manifest = stored_kernels() or (None, {})
    names = "".join(sorted(manifest)).encode()
    found["kernels"] = hashlib.blake2b(names, digest_size=8).hexdigest() if manifest else "compiled at first use"
    found["python"] = ".".join(map(str, sys.version_info[:2]))
    for library in LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            found[library] = "missing"
    return found


def differences(old: Recorded, new: Recorded, tol: float | None = None) -> list[str]:
    """Return a line for each value that differs; with a tolerance, relative to the largest number of an array."""
    lines = []
    for name in sorted({*old.arrays, *new.arrays} | {*old.texts, *new.texts}):
        if tol is not None and tol > 1e-12 and name.rpartition(".")[2] in OF_THE_RUN:
            continue
        before, after = old.texts.get(name), new.texts.get(name)
        if before != after:
            lines.append(f"{name}: {_shorten(before, after)} -> {_shorten(after, before)}")
        a, b = old.arrays.get(name), new.arrays.get(name)
        if a is None and b is None:
            continue
        if a is None or b is None or a.shape != b.shape or a.dtype != b.dtype:
            shapes = ["missing" if x is None else f"{x.dtype.name}{list(x.shape)}" for x in (a, b)]
            lines.append(f"{name}: {shapes[0]} -> {shapes[1]}")
            continue
        lines += [f"{name}: {line}" for line in _array_differences(a, b, tol)]
    return lines


def _array_differences(a: np.ndarray, b: np.ndarray, tol: float | None) -> list[str]:
    """Return the largest difference of two arrays of equal shape, if it is more than the tolerance allows."""
    if a.dtype.kind != "f":
        n = int(np.sum(a != b))
        return [f"{n} of {a.size} differ, first {a[a != b][0]} -> {b[a != b][0]}"] if n else []
    finite = np.isfinite(a) & np.isfinite(b)
    odd = ~finite & ~((a == b) | (np.isnan(a) & np.isnan(b)))
    if odd.any():
        return [f"{int(odd.sum())} of {a.size} are not finite, first {a[odd][0]} -> {b[odd][0]}"]
    gap = np.abs(a[finite] - b[finite])
    largest = float(gap.max(initial=0.0))
    scale = float(np.abs(a[finite]).max(initial=0.0))
    if largest <= (0.0 if tol is None else tol * max(1.0, scale)):
        return []
    nonzero = a[finite] != 0.0
    relative = float(np.max(gap[nonzero] / np.abs(a[finite][nonzero]), initial=0.0))
    return [f"max abs {largest:.2e}, max relative {relative:.2e} ({int((gap > 0).sum())} of {a.size} numbers)"]


def _shorten(text: str | None, other: str | None, width: int = 160) -> str:
    """Return the surroundings of the first character in which two texts differ."""
    if text is None:
        return "missing"
    start = next((i for i, (x, y) in enumerate(zip(text, other or "", strict=False)) if x != y), 0)
    start = max(0, min(start, len(text)) - 40)
    return repr(text[start : start + width])


class Store:
    """The recorded results: hashes, shapes and texts in `golden.json`, all numbers in `arrays.npz`."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.json, self.npz = folder / "golden.json", folder / "arrays.npz"
        self.machine: dict[str, str] = {}
        self.hashes: dict[str, str] = {}
        self.recorded: dict[str, Recorded] = {}
        if self.json.exists():
            self._read()

    def _read(self) -> None:
        document = json.loads(self.json.read_text(encoding="utf-8"))
        with np.load(self.npz) as file:
            numbers = {kind: file[kind] for kind in "fib"}
        at = dict.fromkeys("fib", 0)
        self.machine = document["machine"]
        for name, entry in document["calls"].items():
            arrays = {}
            for key, (kind, *shape) in entry["arrays"].items():
                size = int(np.prod(shape, dtype=int))
                arrays[key] = numbers[kind][at[kind] : at[kind] + size].reshape(shape)
                at[kind] += size
            self.recorded[name] = Recorded(arrays, entry["texts"])
            self.hashes[name] = entry["hash"]

    def write(self, results: Mapping[str, Recorded]) -> None:
        """Write the results, ordered by name, one line for each call."""
        numbers: dict[str, list[np.ndarray]] = {"f": [np.empty(0)], "i": [np.empty(0, int)], "b": [np.empty(0, bool)]}
        lines = []
        for name in sorted(results):
            result = results[name]
            arrays = {key: [array.dtype.kind, *array.shape] for key, array in result.arrays.items()}
            for array in result.arrays.values():
                numbers[array.dtype.kind].append(array.reshape(-1))
            entry = {"hash": result.hash, "arrays": arrays, "texts": result.texts}
            lines.append(f" {json.dumps(name)}: {json.dumps(entry, ensure_ascii=False)}")
        body = ",\n".join(lines)
        text = f'{{\n"machine": {json.dumps(machine())},\n"calls": {{\n{body}\n}}\n}}\n'
        self.json.write_text(text, encoding="utf-8")
        np.savez_compressed(self.npz, **{kind: np.concatenate(parts) for kind, parts in numbers.items()})
