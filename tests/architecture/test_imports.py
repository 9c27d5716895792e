"""The folder list is the data flow: a folder imports only from folders above it, and the front page stays quick."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import intarsia

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "intarsia"
FILES = sorted(SOURCE.rglob("*.py"))

# Top to bottom; each may import from itself and from those before it.
ORDER = [
    "graph", "_kernels", "models", "energies", "inference", "losses", "metrics", "gradients", "learning", "collective",
    "clusters", "softlogic", "_loading", "diagnostics", "datasets", "report", "experiments", "cli",
]  # fmt: skip
SERVE_ALL = {
    "exceptions", "_validation", "_array_file", "_atomic_file", "_html", "_jit", "_json_text", "_packed_file",
    "_progress", "_registry", "_transaction", "_version",
}  # fmt: skip
# The kernels of a room belong to the room: graph/ calls its own statistics although _kernels stands below it.
ALSO = {("graph", "_kernels")}


def room(parts: tuple[str, ...]) -> str:
    """Folder (or top-level module) of a path or of a dotted name below `intarsia`."""
    return parts[0].removesuffix(".py") if parts else "__init__"


def imported_names(path: Path) -> list[tuple[int, str]]:
    """Line and dotted name of each import of the package, wherever it stands in the file."""
    found = []
    package = ("intarsia", *path.relative_to(SOURCE).parent.parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) + "." if node.level else ""
            module = base + (node.module or "")
            if module.strip(".") == "intarsia":
                found += [(node.lineno, f"intarsia.{alias.name}") for alias in node.names]
            else:
                found.append((node.lineno, module))
    return [(line, name) for line, name in found if name == "intarsia" or name.startswith("intarsia.")]


def test_every_folder_is_in_the_list():
    folders = {p.name for p in SOURCE.iterdir() if p.is_dir() and p.name != "__pycache__"}
    modules = {p.stem for p in SOURCE.glob("*.py")} - {"__init__", "__main__"}
    assert folders <= set(ORDER)
    assert modules <= SERVE_ALL | set(ORDER)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_upwards(path):
    here = room(path.relative_to(SOURCE).parts)
    if here in ("__init__", "__main__"):
        return
    for line, name in imported_names(path):
        there = room(tuple(name.split(".")[1:]))
        if there == "__init__":
            assert here == "cli", f"line {line}: import the module, not the package's front page"
            continue
        if there not in ORDER and there not in SERVE_ALL:  # a name of the front page, such as `from intarsia import x`
            assert here == "cli" or there == "__version__", f"line {line}: {name} is not a folder of the package"
            continue
        if here in SERVE_ALL:
            assert there in SERVE_ALL, f"line {line}: {here} serves all and imports {name}"
            continue
        allowed = there in SERVE_ALL or ORDER.index(there) <= ORDER.index(here) or (here, there) in ALSO
        assert allowed, f"line {line}: {here} must not import {name}, which stands below it"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_no_print_and_no_assert(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        assert not isinstance(node, ast.Assert), f"line {node.lineno}: raise an error that says what to do"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id != "print", f"line {node.lineno}: the library does not print"


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("__init__.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_folder_front_pages_only_re_export(path):
    if path.parent == SOURCE:
        return
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        plain = isinstance(node, (ast.Import, ast.ImportFrom, ast.Expr, ast.Assign, ast.AnnAssign))
        assert plain, f"line {node.lineno}: a folder's __init__ only re-exports"


def test_no_room_for_odds_and_ends():
    for path in FILES:
        assert path.stem not in ("utils", "helpers", "misc", "common")


def test_import_is_light():
    script = "import sys, json, intarsia; json.dump(sorted(sys.modules), sys.stdout)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert not loaded & {"numpy", "scipy", "numba", "sklearn", "matplotlib", "typer", "rich", "networkx"}


def test_import_is_quick():
    script = "import time; t = time.perf_counter(); import intarsia; print(time.perf_counter() - t)"
    times = [
        float(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)
        for _ in range(3)
    ]
    assert min(times) < 0.3


def test_all_names_resolve():
    assert len(set(intarsia.__all__)) == len(intarsia.__all__)
    for name in intarsia.__all__:
        assert getattr(intarsia, name) is not None
    assert sorted(dir(intarsia)) == sorted(intarsia.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = intarsia.nothing


def test_type_checkers_see_the_same_names():
    """The block under TYPE_CHECKING and the lazy table list the same names."""
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    listed = {alias.name for node in block.body for alias in node.names}
    assert listed | {"__version__"} == set(intarsia.__all__)


@pytest.mark.parametrize("folder", [p.parent for p in sorted(SOURCE.rglob("__init__.py")) if p.parent != SOURCE])
def test_folder_all_resolves(folder):
    name = ".".join(folder.relative_to(SOURCE.parent).parts)
    module = __import__(name, fromlist=["__all__"])
    for public in getattr(module, "__all__", []):
        assert hasattr(module, public), public
