"""Only `_files/atomic_file.py` writes, makes folders and starts programs, so that tests can make each step fail."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SEAM = "src/intarsia/_files/atomic_file.py"
SOURCES = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("src/intarsia", "reproduction/src")
    for path in (ROOT / folder).rglob("*.py")
)
# Calls with a reason to be elsewhere.
ALLOWED = {
    ("reproduction/src/intarsia_reproduction/benchmarks/measurement.py", "open"),  # a switch of Linux, not a file
    ("reproduction/src/intarsia_reproduction/benchmarks/peers.py", "open"),  # stderr of a peer, in a temporary folder
    ("src/intarsia/report/page_parts.py", "savefig"),  # into memory
}
MODULES = re.compile(
    r"(subprocess|shutil|tempfile)\.[A-Za-z]|os\.(open|write|replace|renames?|remove|unlink|mkdir|makedirs|rmdir|removedirs|"
    r"link|symlink|truncate|mkfifo|chmod|system|popen|startfile|exec|spawn|posix_spawn)"
)
METHODS = {
    "write_text", "write_bytes", "mkdir", "unlink", "rmdir", "touch", "rename", "symlink_to", "hardlink_to", "chmod",
    "tofile", "extractall", "to_parquet", "write_csv", "write_json",
}  # fmt: skip
# Functions of other libraries that write to their first argument, which must come from the seam.
WRITERS = {"savez", "savez_compressed", "savefig", "savetxt", "write_parquet", "ZipFile", "GzipFile", "memmap"}


def writes(tree: ast.Module) -> list[tuple[int, str]]:
    """Return line and name of each call that writes, makes a folder or starts a program without the seam."""
    from_seam = {
        node.optional_vars.id
        for node in ast.walk(tree)
        if isinstance(node, ast.withitem) and isinstance(node.optional_vars, ast.Name)
        if ast.unparse(node.context_expr).startswith(("replaced_file(", "written_file("))
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in ("subprocess", "shutil", "tempfile", "os"):
            found += [(node.lineno, a.name) for a in node.names if MODULES.match(f"{node.module}.{a.name}")]
        elif isinstance(node, ast.Call):
            place, _, name = ast.unparse(node.func).rpartition(".")
            if name == "open" and place not in ("os", "webbrowser", "archive"):
                is_write = "w" in (mode := _mode(node, place == "")) or set(mode) & set("ax+")
            elif name in WRITERS:
                first = {part.id for a in node.args[:1] for part in ast.walk(a) if isinstance(part, ast.Name)}
                is_write = not first & from_seam and (not name.endswith("File") or set(_mode(node, True)) & set("wax"))
            else:
                is_path_replace = name == "replace" and len(node.args) == 1 and not node.keywords
                is_write = bool(MODULES.match(f"{place}.{name}")) or (
                    place not in ("", "dataclasses") and (name in METHODS or is_path_replace)
                )
            found += [(node.lineno, name)] * bool(is_write)
    return found


def _mode(node: ast.Call, after_path: bool) -> str:
    """Return the mode of a call that opens a file; "r" for one that opens a stream of the seam."""
    words = {word.arg: word.value for word in node.keywords}
    mode = words.get("mode", next(iter(node.args[after_path:]), None))
    return str(mode.value) if isinstance(mode, ast.Constant) and "fileobj" not in words else "r"


def test_only_one_file_writes():
    found = [
        f"{path}:{line}: {name}"
        for path in SOURCES
        if path != SEAM
        for line, name in writes(ast.parse((ROOT / path).read_text(encoding="utf-8")))
        if (path, name) not in ALLOWED
    ]
    assert found == [], "use the functions of _files/atomic_file.py"
    assert len(writes(ast.parse((ROOT / SEAM).read_text(encoding="utf-8")))) > 9


def test_every_exception_is_needed():
    for path, name in ALLOWED:
        assert name in {found for _, found in writes(ast.parse((ROOT / path).read_text(encoding="utf-8")))}, path


@pytest.mark.parametrize(
    "line",
    [
        "open(path, 'w')", "open(path, mode='xb')", "path.open('a')", "os.replace(a, b)", "os.open(path, os.O_CREAT)",
        "Path(path).write_text('')", "path.rename(other)", "path.replace(other)", "path.mkdir()", "path.unlink()",
        "np.savez(path, a=a)", "figure.savefig(path)", "table.write_parquet(path)", "subprocess.run(command)",
        "subprocess.Popen(command)", "shutil.rmtree(path)", "tempfile.TemporaryDirectory()", "tempfile.mkstemp()",
        "from subprocess import run", "from tempfile import mkdtemp", "from shutil import copy",
        "from os import replace",
        "zipfile.ZipFile(path, 'w')", "gzip.GzipFile(path, mode='wb')", "os.system('ls')",
    ],
)  # fmt: skip
def test_planted_writes_are_found(line):
    assert writes(ast.parse(line)) != []


@pytest.mark.parametrize(
    "line",
    [
        "open(path)", "open(path, 'rb')", "path.open('rb')", "text.replace('a', 'b')", "dataclasses.replace(a, b=1)",
        "with replaced_file(path) as part:\n    table.write_parquet(str(part))", "zipfile.ZipFile(file)",
        "from intarsia._files.atomic_file import write_text\nwrite_text(path, '')", "subprocess.PIPE",
    ],
)  # fmt: skip
def test_reads_are_not_found(line):
    assert writes(ast.parse(line)) == []
