"""A folder imports only from folders above it in the list, and `import intarsia` stays fast."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import intarsia

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "intarsia"
REPRODUCTION = ROOT / "reproduction" / "src" / "intarsia_reproduction"
FILES = sorted(SOURCE.rglob("*.py"))
FOLDERS = sorted(path.parent for path in [*SOURCE.rglob("__init__.py"), *REPRODUCTION.rglob("__init__.py")])

# From top to bottom; each may import from itself and from folders before it.
ORDER = [
    "_version", "exceptions", "_core", "_files", "graph", "_kernels", "models", "energies", "inference", "losses",
    "metrics", "gradients", "worlds", "testing", "learning", "crf", "sequences", "collective", "clusters",
    "softlogic", "torch",
    "diagnostics", "datasets", "report", "tour", "cli",
]  # fmt: skip
# graph/ may call its own kernels, although _kernels is below it; _core/compiled_kernels.py writes files.
ALSO = {("graph", "_kernels"), ("_core", "_files")}
# Families with their own pipeline, and the families that importing each of them must not load.
FAMILIES = ("crf", "sequences", "collective", "clusters", "softlogic")
MOST_FILES = 20
MOST_LINES = 450
# Kernels and helpers of an algorithm are in one file.
LONG = {"_kernels/partition.py"}


def room(parts: tuple[str, ...]) -> str:
    """Return the folder (or top-level module) of a path or of a dotted name below `intarsia`."""
    return parts[0].removesuffix(".py") if parts else "__init__"


def imported_names(path: Path) -> list[tuple[int, str]]:
    """Return line and dotted name of each import of the package, at any place in the file."""
    names = []
    package = ("intarsia", *path.relative_to(SOURCE).parent.parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) + "." if node.level else ""
            module = base + (node.module or "")
            if module.strip(".") == "intarsia":
                names += [(node.lineno, f"intarsia.{alias.name}") for alias in node.names]
            else:
                names.append((node.lineno, module))
    return [(line, name) for line, name in names if name.partition(".")[0] in ("intarsia", "intarsia_reproduction")]


def test_every_folder_is_in_the_list():
    folders = {p.name for p in SOURCE.iterdir() if p.is_dir() and p.name not in ("__pycache__", "_compiled")}
    modules = {p.stem for p in SOURCE.glob("*.py")} - {"__init__", "__main__"}
    assert folders | modules == set(ORDER)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_folders_import_only_from_folders_above(path):
    here = room(path.relative_to(SOURCE).parts)
    if here in ("__init__", "__main__"):
        return
    for line, name in imported_names(path):
        assert not name.startswith("intarsia_reproduction"), f"line {line}: the library does not know {name}"
        there = room(tuple(name.split(".")[1:]))
        if there not in ORDER:  # the top-level package, or a name of it
            assert here == "cli", f"line {line}: import the module, not the package's front page ({name})"
            continue
        allowed = ORDER.index(there) <= ORDER.index(here) or (here, there) in ALSO
        assert allowed, f"line {line}: {here} must not import {name}, which stands below it"


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: "/".join(p.parts[-2:]))
def test_folders_stay_small(folder):
    if folder.name == "_kernels":
        return
    files = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
    assert len(files) <= MOST_FILES, "give the folder sub-rooms"
    base = SOURCE if folder.is_relative_to(SOURCE) else REPRODUCTION
    assert len(folder.relative_to(base).parts) <= 2, "no more than two levels"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_files_are_short(path):
    if path.relative_to(SOURCE).as_posix() not in LONG:
        assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES, "a file holds one idea"


def modules_after(code: str) -> set[str]:
    """Return the modules that a new process has loaded after running code."""
    script = f"import sys, json\n{code}\njson.dump(sorted(sys.modules), sys.stdout)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_does_not_load_another(family):
    loaded = {name.split(".")[1] for name in modules_after(f"import intarsia.{family}") if name.startswith("intarsia.")}
    below = set(ORDER[ORDER.index("softlogic") + 1 :])
    assert not loaded & ((set(FAMILIES) | below) - {family})
    if family in ("collective", "softlogic"):
        assert not loaded & {"learning", "gradients", "losses"}


def test_soft_logic_loads_few_modules():
    loaded = modules_after("import intarsia.softlogic")
    rooms = {name.split(".")[1] for name in loaded if name.startswith("intarsia.")}
    assert rooms <= {"_version", "exceptions", "_core", "_files", "_kernels", "metrics", "softlogic"}
    assert "duckdb" not in loaded
    assert not [name for name in loaded - modules_after("import sklearn.base") if name.startswith("sklearn.")]
    program = "intarsia.Program().predicate('P', 1).rule('1: P(X) = 1').target('P', ['a'])"
    assert "duckdb" in modules_after(f"import intarsia; intarsia.softlogic.ground({program})")


def test_inference_of_rules_loads_neither_scipy_sparse_nor_narwhals():
    program = (
        "intarsia.Program().predicate('P', 1).predicate('Q', 1).rule('2: P(X) -> Q(X) ^2').rule('1: !Q(X) ^2')"
        ".observe('P', [('a',)]).target('Q', [('a',)])"
    )
    loaded = modules_after(f"import intarsia; intarsia.SoftLogic({program}).infer().table('Q')")
    assert "duckdb" in loaded
    assert not loaded & {"scipy.sparse", "narwhals"}


def test_training_on_dense_images_does_not_load_scipy_sparse():
    code = (
        "import numpy as np, intarsia\n"
        "y = [np.tile([0, 1, 0, 1], (3, 1)), np.tile([0, 0, 1, 1], (3, 1))]\n"
        "X = [np.stack([np.ones(labels.shape), labels + 0.5], axis=-1) for labels in y]\n"
        "intarsia.GridCRF().fit(X, y).score(X, y)"
    )
    loaded = modules_after(code)
    assert "intarsia.crf.grid_crf" in loaded
    assert "scipy.sparse" not in loaded


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_no_print_and_no_assert(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        assert not isinstance(node, ast.Assert), f"line {node.lineno}: raise an error that says what to do"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id != "print", f"line {node.lineno}: the library does not print"


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("__init__.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_init_files_only_re_export(path):
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        plain = isinstance(node, (ast.Import, ast.ImportFrom, ast.Expr, ast.Assign, ast.AnnAssign))
        assert plain, f"line {node.lineno}: a folder's __init__ only re-exports"


def test_no_utils_or_helpers_module():
    for path in FILES:
        assert path.stem not in ("utils", "helpers", "misc", "common")


def test_import_is_light():
    script = "import sys, json, intarsia; json.dump(sorted(sys.modules), sys.stdout)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert not loaded & {"numpy", "scipy", "numba", "sklearn", "matplotlib", "typer", "rich", "networkx", "torch"}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_only_its_own_folder_imports_pytorch(path):
    if room(path.relative_to(SOURCE).parts) == "torch":
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        assert not [name for name in names if name.split(".")[0] == "torch"], f"line {node.lineno}"


def test_neural_predicates_do_not_load_pytorch():
    code = "import intarsia; intarsia.Program().predicate('P', 1, module=len).observe('P', ['a'])"
    assert "torch" not in modules_after(code)


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
    with pytest.raises(AttributeError, match="attribute nothing"):
        _ = intarsia.nothing


def test_subpackages_are_attributes():
    public = {p.name for p in SOURCE.iterdir() if p.is_dir() and not p.name.startswith("_")} - {"cli", "tour"}
    public -= {"torch"}  # an extra: `import intarsia.torch`, so that looking through the names never loads PyTorch
    assert public == {name for name in intarsia.__all__ if inspect.ismodule(getattr(intarsia, name))} - {"exceptions"}


@pytest.mark.parametrize("folder", [folder for folder in FOLDERS if folder not in (SOURCE, REPRODUCTION)])
def test_folder_all_resolves(folder):
    name = ".".join(folder.relative_to(folder.parents[len(folder.parts) - folder.parts.index("src") - 2]).parts)
    if name == "intarsia.torch":
        pytest.importorskip("torch")
    module = __import__(name, fromlist=["__all__"])
    for public in getattr(module, "__all__", []):
        assert hasattr(module, public), public
        assert not inspect.ismodule(getattr(module, public)), f"{public} is a module of the same name"
