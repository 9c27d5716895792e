"""Change single lines of the package, one at a time, and report the changes that no test notices.

    python tests/mutate.py --n 40 --output mutants.json            # the nearest tests, then those of the room
    python tests/mutate.py --n 40 --output mutants.json --whole    # then all tests, for the survivors

Mutants are drawn with a seed, from one room (folder of the package) after the other, so that a larger `--n` continues a
smaller one. They are made in a copy of the tree. Results are stored after each mutant, and the same command resumes.
A mutant is killed if a test fails that passes without it; tests in `tests/architecture` read the source text and do
not count. `tests/equivalent_mutants.toml` lists the mutants that change nothing, with a reason each.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

TREE = Path(__file__).resolve().parents[1]
PACKAGE = Path("src/intarsia")
COPIED = (
    *("src", "tests", "reproduction", "docs", "examples", "conda", "conftest.py", "pyproject.toml", "mkdocs.yml"),
    *("README.md", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "SECURITY.md", "LICENSE", "Makefile"),
)
COMPARISONS = {
    ast.Lt: ("<", ("<=", ">=")), ast.LtE: ("<=", ("<", ">")), ast.Gt: (">", (">=", "<=")), ast.GtE: (">=", (">", "<")),
    ast.Eq: ("==", ("!=",)), ast.NotEq: ("!=", ("==",)), ast.Is: ("is", ("is not",)), ast.IsNot: ("is not", ("is",)),
    ast.In: ("in", ("not in",)), ast.NotIn: ("not in", ("in",)),
}  # fmt: skip
ARITHMETIC = {ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*")}
LOGIC = {ast.And: ("and", "or"), ast.Or: ("or", "and")}
SWAPS = (("min", "max"), ("minimum", "maximum"), ("argmin", "argmax"), ("fmin", "fmax"), ("all", "any"))
NAMES = dict(SWAPS) | {new: old for old, new in SWAPS}
NEAR_SECONDS, ROOM_SECONDS, WHOLE_SECONDS, ONE_SECONDS = 200, 600, 3000, 60  # of the processor
NEAREST = 4  # test files that are run first


@dataclass(frozen=True)
class Mutant:
    """One change of the source: bytes `start` to `end` of a file are replaced by `text`."""

    file: str
    line: str  # text of the first changed line
    mutation: str
    number: int
    start: int
    end: int
    text: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.file, self.line, self.mutation

    @property
    def room(self) -> str:
        parts = Path(self.file).relative_to(PACKAGE).parts
        return parts[0] if len(parts) > 1 else "."


# ---------------------------------------------------------------- mutants of a file


def mutants_of(file: Path, source: bytes) -> list[Mutant]:
    """Return all mutants of a source file."""
    lines = source.split(b"\n")
    offsets = [0]
    for line in lines:
        offsets.append(offsets[-1] + len(line) + 1)

    def span(node: ast.AST) -> tuple[int, int]:
        return offsets[node.lineno - 1] + node.col_offset, offsets[node.end_lineno - 1] + node.end_col_offset

    def make(whole: tuple[int, int], start: int, end: int, text: str) -> Mutant:
        number = source[:start].count(b"\n")
        old = source[whole[0] : whole[1]].decode()
        new = (source[whole[0] : start] + text.encode() + source[end : whole[1]]).decode()
        mutation = " -> ".join(" ".join(part.split()) for part in (old, new))
        return Mutant(str(file), lines[number].decode().strip(), mutation, number + 1, start, end, text)

    def between(node: ast.AST, left: ast.AST, right: ast.AST, old: str, news: tuple[str, ...]) -> Iterator[Mutant]:
        first, last = span(left)[1], span(right)[0]
        pattern = rf"\b{old.replace(' ', ' +')}\b" if old.isalpha() or " " in old else re.escape(old)
        match = re.search(pattern.encode(), source[first:last])
        if match and b"#" not in source[first:last]:
            for new in news:
                yield make(span(node), first + match.start(), first + match.end(), new)

    def visit(node: ast.AST) -> Iterator[Mutant]:
        whole = span(node) if hasattr(node, "lineno") else (0, 0)
        if isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert):
            return
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            return
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield from between(node, node.left, node.comparators[0], *COMPARISONS[type(node.ops[0])])
        elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
            old, new = ARITHMETIC[type(node.op)]
            yield from between(node, node.left, node.right, old, (new,))
        elif isinstance(node, ast.BoolOp):
            old, new = LOGIC[type(node.op)]
            if len(node.values) == 2:
                yield from between(node, *node.values, old, (new,))
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            for new in (f"({source[slice(*whole)].decode()} + 1)", f"({source[slice(*whole)].decode()} - 1)"):
                yield make(whole, *whole, new)
        elif isinstance(node, ast.Call):
            function = node.func
            name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
            if name in NAMES:
                end = span(function)[1]
                yield make(span(node), end - len(name), end, NAMES[name])
        elif isinstance(node, ast.AugAssign) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
            yield make(whole, *whole, "pass")
        elif isinstance(node, ast.If | ast.While | ast.IfExp) and not isinstance(node.test, ast.Constant):
            test = span(node.test)
            yield make(test, *test, f"not ({source[slice(*test)].decode()})")
        elif isinstance(node, ast.FunctionDef) and isinstance(node.returns, ast.Constant) and len(node.body) > 2:
            last = node.body[-1]
            if not isinstance(last, ast.Return):
                yield make(span(last), span(last)[0], span(last)[0], "return\n" + " " * last.col_offset)
        hidden: set[int] = set()  # annotations and decorators
        for name in ("annotation", "returns", "decorator_list"):
            value = getattr(node, name, None)
            hidden.update(id(child) for child in (value if isinstance(value, list) else [value]))
        for child in ast.iter_child_nodes(node):
            if id(child) not in hidden:
                yield from visit(child)

    return list(visit(ast.parse(source)))


def sample(seed: int, rooms: list[str], n: int) -> list[Mutant]:
    """Return n mutants, at most one of a line, from one room after the other.

    Their order is that of a checksum, so that an edit elsewhere does not change which are drawn.
    """

    def rank(mutant: Mutant) -> bytes:
        return sha256(repr((seed, *mutant.key)).encode()).digest()

    by_room: dict[str, list[Mutant]] = {}
    for path in sorted((TREE / PACKAGE).rglob("*.py")):
        by_line: dict[int, list[Mutant]] = {}
        for mutant in mutants_of(path.relative_to(TREE), path.read_bytes()):
            by_line.setdefault(mutant.number, []).append(mutant)
        for mutants in by_line.values():
            by_room.setdefault(mutants[0].room, []).append(min(mutants, key=rank))
    queues = [sorted(by_room[room], key=rank) for room in (rooms or sorted(by_room))]
    drawn = []
    while len(drawn) < n and any(queues):
        drawn += [queue.pop(0) for queue in queues if queue]
    return drawn[:n]


# ---------------------------------------------------------------- tests of a mutant


@cache
def _texts(folder: str) -> dict[Path, str]:
    return {path.relative_to(TREE): path.read_text(encoding="utf-8") for path in sorted((TREE / folder).rglob("*.py"))}


def importers(module: str) -> list[Path]:
    """Return the files of the package that import a module."""
    return [path for path, text in _texts(str(PACKAGE)).items() if re.search(rf"\b{re.escape(module)}\b", text)]


def near_tests(mutant: Mutant) -> list[str]:
    """Return the example of the file, and the test files that have its name, import it, or use its public names."""
    file = Path(mutant.file)
    tests = [] if mutant.room == "_kernels" else _tests_of([file])
    return [mutant.file, *(tests or _tests_of([file, *importers(module_of(file))]))]


def _tests_of(users: list[Path]) -> list[str]:
    """Return the test files that are nearest to any of these source files."""
    scores: dict[Path, float] = {}
    for path, text in _texts("tests").items():
        if not path.name.startswith("test_") or "architecture" in path.parts:
            continue
        for user in users:
            name = rf"\b{re.escape(module_of(user))}\b"
            public = re.findall(r"^(?:class|def) ([A-Za-z]\w*)", _texts(str(PACKAGE))[user], re.MULTILINE)
            score = 100.0 * (path.stem == f"test_{user.stem}") + 20.0 * bool(re.search(name, text))
            score += sum(bool(re.search(rf"\b{symbol}\b", text)) for symbol in public)
            score += (score > 0) * (3.0 * (user.parts[2] in path.parts) - 10.0 * ("contracts" in path.parts))
            if score:
                scores[path] = max(scores.get(path, score), score)
    best = sorted(scores, key=lambda path: (-scores[path], str(path)))
    return [str(path) for path in best[:NEAREST]]


def module_of(file: Path) -> str:
    """Return the dotted name of a source file."""
    return ".".join(file.with_suffix("").parts[1:]).removesuffix(".__init__")


def room_tests(mutant: Mutant) -> list[str]:
    """Return the folders of tests and examples of a room; for a kernel, those of the rooms that use it."""
    rooms = [mutant.room]
    if mutant.room == "_kernels":
        rooms = sorted({path.parts[2] for path in importers(module_of(Path(mutant.file)))} - {"_kernels"})
    folders = [f"{parent}/{room.lstrip('_')}" for room in rooms for parent in ("tests", str(PACKAGE))]
    folders += [f"{PACKAGE}/{room}" for room in rooms]
    return sorted({folder for folder in folders if (TREE / folder).is_dir()} or {"tests/core"})


class Tests:
    """Runs tests in a copy of the tree."""

    def __init__(self, copy: Path) -> None:
        self.copy = copy
        self.sound: set[str] = set()  # tests that pass without a mutation
        self.broken: set[str] = set()  # tests that fail without one, for example because the copy is not a repository
        for name in COPIED:
            source = TREE / name
            if source.is_dir():
                shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc"))
            elif source.exists():
                shutil.copy(source, copy / name)
        (copy / "mutation_watch.py").write_text(
            "from pathlib import Path\n\n\ndef pytest_runtest_logstart(nodeid, location):\n"
            "    Path('current_test').write_text(nodeid)\n"
        )
        self.clock = int(time.time())

    def write(self, file: str, content: bytes) -> None:
        """Write a source file with a time stamp of its own, since Python's cache compares seconds and sizes."""
        self.clock += 2
        (self.copy / file).write_bytes(content)
        os.utime(self.copy / file, (self.clock, self.clock))

    def run(self, tests: list[str], seconds: int, kernels: Path | None = None) -> tuple[int, str]:
        """Run tests until one fails; return the exit code (-1 without an end), and the test that failed or hung."""
        environment = dict(os.environ)
        environment |= {
            "PYTHONPATH": os.pathsep.join(str(self.copy / part) for part in ("src", "reproduction/src", ".")),
            "NUMBA_CACHE_DIR": str(kernels or self.copy / "numba"),
        }
        if kernels:  # a stored kernel may contain the code before the mutation
            environment["INTARSIA_COMPILED"] = str(kernels)
        shutil.rmtree(self.copy / ".pytest_cache", ignore_errors=True)
        skipped = [f"--deselect={name}" for name in sorted(self.broken)]
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "mutation_watch", "--ignore=tests/architecture"]
        current = self.copy / "current_test"
        current.unlink(missing_ok=True)
        process = subprocess.Popen(
            [*command, *skipped, *tests],
            cwd=self.copy,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds)),
        )
        try:
            code = process.wait(timeout=6 * seconds)
        except subprocess.TimeoutExpired:
            code = -1
        finally:  # also after Ctrl-C
            if process.poll() is None:
                os.killpg(process.pid, 9)
                process.wait()
        failed = self.copy / ".pytest_cache" / "v" / "cache" / "lastfailed"
        if code >= 0 and failed.exists():
            return code, next(iter(json.loads(failed.read_text())), "")
        return code, current.read_text() if code < 0 and current.exists() else ""

    def judge(self, mutant: Mutant, stage: str, tests: list[str], seconds: int) -> tuple[str, str]:
        """Return "killed", "survived" or "unfinished", and the test that killed it."""
        source = (self.copy / mutant.file).read_bytes()
        changed = source[: mutant.start] + mutant.text.encode() + source[mutant.end :]
        is_kernel = mutant.room == "_kernels" or b"_core.jit" in source
        with tempfile.TemporaryDirectory() as folder:
            kernels = Path(folder) if is_kernel else None
            while True:
                self.write(mutant.file, changed)
                code, name = self.run(tests, seconds, kernels)
                if code < 0 and name:  # does this test hang, or were there too many tests?
                    code, _ = self.run([name], ONE_SECONDS + 60 * is_kernel, kernels)
                    if code == 0:
                        self.write(mutant.file, source)
                        return "unfinished", name
                self.write(mutant.file, source)
                if code in (0, 5):
                    return "survived", ""
                if not name or name in self.sound:
                    return "killed", name or stage
                if self.run([name], seconds)[0] == 0:
                    self.sound.add(name)
                    return "killed", name
                self.broken.add(name)


# ---------------------------------------------------------------- command


def equivalents() -> dict[tuple[str, str, str], str]:
    """Return the reasons of the mutants that change nothing, by file, line and mutation."""
    with (TREE / "tests" / "equivalent_mutants.toml").open("rb") as file:
        return {(row["file"], row["line"], row["mutation"]): row["reason"] for row in tomllib.load(file)["mutant"]}


def _key(row: dict) -> tuple[str, str, str]:
    return row["file"], row["line"], row["mutation"]


def show(rows: list[dict]) -> None:
    """Print the survivors, and how many mutants of the present source were killed."""
    known = equivalents()
    present = {file: {mutant.key for mutant in mutants_of(file, (TREE / file).read_bytes())}
               for file in {Path(row["file"]) for row in rows} if (TREE / file).exists()}  # fmt: skip
    rows = [row for row in rows if _key(row) in present.get(Path(row["file"]), ())]
    alive = [row for row in rows if row["result"] != "killed" and _key(row) not in known]
    n_killed = sum(row["result"] == "killed" for row in rows)
    for row in alive:
        print(f"{row['result']:10s} {row['file']}:{row['number']}\n           {row['mutation']}")
    n_real = n_killed + len(alive)
    print(f"{len(rows)} mutants, {len(rows) - n_real} equivalent, {n_killed} of {n_real} others killed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=40, help="number of mutants")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--room", action="append", default=[], help="only this folder of the package; repeatable")
    parser.add_argument("--whole", action="store_true", help="run all tests for survivors")
    parser.add_argument("--again", action="store_true", help="judge the stored survivors again, after new tests")
    parser.add_argument("--output", type=Path, required=True, help="JSON file of results; resumed if it exists")
    options = parser.parse_args()
    rows = json.loads(options.output.read_text()) if options.output.exists() else []
    done = {_key(row): row for row in rows}
    known = equivalents()
    with tempfile.TemporaryDirectory() as folder:
        tests = Tests(Path(folder))
        for mutant in sample(options.seed, options.room, options.n):
            row = done.get(mutant.key)
            stages = [("near", near_tests(mutant), NEAR_SECONDS), ("room", room_tests(mutant), ROOM_SECONDS)]
            stages += [("whole", [], WHOLE_SECONDS)] if options.whole else []
            if row is not None and not options.again:
                stages = [stage for stage in stages if stage[0] == "whole" and row["stage"] != "whole"]
            if mutant.key in known or (row is not None and (row["result"] == "killed" or not stages)):
                continue
            begin = time.perf_counter()
            for stage, names, seconds in stages:
                result, name = tests.judge(mutant, stage, names, seconds)
                if result == "killed":
                    break
            new = asdict(mutant) | {"room": mutant.room, "result": result, "stage": stage, "test": name}
            done[mutant.key] = new | {"seconds": round(time.perf_counter() - begin, 1)}
            options.output.write_text(json.dumps(list(done.values()), indent=1) + "\n")
            print(f"{result:10s} {mutant.file}:{mutant.number} {mutant.mutation[:100]} [{stage}: {name}]", flush=True)
    show(list(done.values()))


if __name__ == "__main__":
    main()
