"""The first second: processor seconds and memory of fresh processes, beside the imports that they could not do without.

Every example of the README runs in a process of its own. The unit is the time to import NumPy, scipy.sparse,
sklearn.base and Numba in another fresh process of the same run. The bytecode of this package is compiled before, as
pip does when it installs a package; the imports of the unit have theirs too.
"""

from __future__ import annotations

import compileall
import contextlib
import json
import re
import sys
from functools import partial
from pathlib import Path
from typing import Any

import intarsia
from intarsia._files.atomic_file import run_program, temporary_folder, write_text
from intarsia.exceptions import MissingDataError
from intarsia_reproduction.benchmarks.measurement import (
    Report,
    Row,
    bench_row,
    fastest_in_turns,
    in_fresh_process,
    one_processor,
)
from intarsia_reproduction.benchmarks.peers import checkout

_IMPORTS = "import numpy, scipy.sparse, sklearn.base, numba"
_PEER = "imports of numpy, scipy.sparse, sklearn.base and numba"
_STOPPING = "one fresh process each"
_MEASURE = """
import contextlib, io, json, time
with contextlib.redirect_stdout(io.StringIO()):
    exec({code!r}, {{"__name__": "example"}})
seconds = time.process_time()
from intarsia_reproduction.benchmarks.measurement import peak_bytes
print(json.dumps({{"seconds": seconds, "bytes": peak_bytes()}}))
"""
_SMALL_GRID = """
import json, time, warnings
import numpy as np, intarsia
graph = intarsia.grid_graph(3, 3, n_states=2)
theta = np.random.default_rng(0).normal(size=graph.n_theta)
intarsia.infer(graph, theta)
times = []
for _ in range(200):
    start = time.perf_counter(); intarsia.infer(graph, theta); times.append(time.perf_counter() - start)
print(json.dumps({"seconds": sorted(times)[len(times) // 2]}))
"""
_COMMANDS = {
    "intarsia infer small.uai": ["infer", "small.uai", "--json"],
    "intarsia softlogic infer program.json": ["softlogic", "infer", "program.json", "--json"],
    "intarsia tag predict": ["tag", "predict", "words.txt", "--model", "tagger.npz"],
}
_GOALS = {"stored": 2.5, "warm": 0.8, "command": 0.8}


def bench_start(repeats: int = 5, *, report: Report | None = None, rows: list[Row] | None = None) -> list[Row]:
    """Return the rows of `intarsia bench start`; takes a few minutes.

    Parameters
    ----------
    repeats : int
        Fresh processes for each example whose kernels are compiled; the fastest counts. Examples for which everything
        must be compiled run once.
    report : callable, optional
        Called with a line of progress.
    rows : list, optional
        Filled with the rows as they are measured.
    """
    rows = [] if rows is None else rows
    compileall.compile_dir(str(Path(intarsia.__file__).parent), quiet=1)
    examples = readme_examples()
    with temporary_folder() as folder, contextlib.chdir(folder), one_processor():
        empty = {"NUMBA_CACHE_DIR": f"{folder}/numba", "INTARSIA_COMPILED": f"{folder}/nothing"}
        unit = fastest_in_turns({"imports": partial(_seconds, _IMPORTS)}, repeats)["imports"]
        for title, code in examples.items():
            if report is not None:
                report(f"start: {title}")
            cold = _seconds(code, {**empty, "NUMBA_CACHE_DIR": f"{folder}/{len(rows)}"})
            first = _seconds(code, {"NUMBA_CACHE_DIR": f"{folder}/stored-{len(rows)}"})
            best = fastest_in_turns({"warm": partial(_seconds, code), "imports": partial(_seconds, _IMPORTS)}, repeats)
            for state, seconds, goal in (
                ("nothing compiled, no stored kernels", cold, None),
                ("first run after installing, stored kernels", first, _GOALS["stored"]),
                ("later runs", best["warm"], _GOALS["warm"]),
            ):
                rows.append(_row(f"{title}: {state}", seconds, best["imports"], goal))
        _make_files(Path(folder))
        for title, arguments in _COMMANDS.items():
            code = f"import os; os.chdir({folder!r})\nfrom intarsia.cli import main\nmain({arguments!r})"
            seconds = min(_command_seconds(code) for _ in range(repeats + 1))
            rows.append(_row(f"{title}: later runs", seconds, unit, _GOALS["command"]))
        grid = in_fresh_process(_SMALL_GRID)["seconds"]
        rows.append(bench_row("infer on a 3 x 3 binary grid, second call", grid, wanted="at most 0.0003 s"))
    return rows


def readme_examples() -> dict[str, str]:
    """Return the Python examples of the README by the heading above them."""
    root = checkout()
    if root is None:
        raise MissingDataError("bench start reads the README of the repository. Run it in a source checkout.")
    text = (root / "README.md").read_text(encoding="utf-8")
    examples = re.findall(r"^## ([^\n]+)\n(?:(?!^## ).)*?^```python\n(.*?)^```", text, flags=re.M | re.S)
    return dict(examples)


def _seconds(code: str, environment: dict[str, str] | None = None) -> float:
    return float(in_fresh_process(_MEASURE.format(code=code), environment)["seconds"])


def _command_seconds(code: str) -> float:
    """Return the processor seconds of a command in a fresh process."""
    program = (
        "import resource, subprocess, sys, json\n"
        f"subprocess.run([sys.executable, '-c', {code!r}], stdout=subprocess.DEVNULL, check=True)\n"
        "usage = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(json.dumps({'seconds': usage.ru_utime + usage.ru_stime}))"
    )
    return float(in_fresh_process(program)["seconds"])


def _row(workload: str, seconds: float, unit: float, goal: float | None) -> Row:
    """Return a row whose `units` are multiples of the imports."""
    fields: dict[str, Any] = {} if goal is None else {"wanted": f"at most {goal:g} units"}
    return bench_row(
        workload, seconds, _PEER, unit, comparison="own rules", stopping=_STOPPING, units=seconds / unit, **fields
    )


def _make_files(folder: Path) -> None:
    """Write the small files that the commands read."""
    program = {
        "predicates": {"Likes/2": {"observations": ["likes.txt"]}, "Knows/2": {"targets": ["knows.txt"]}},
        "rules": ["2: Likes(A, X) & Likes(B, X) & (A != B) -> Knows(A, B) ^2", "1: !Knows(A, B) ^2"],
    }
    write_text(folder / "program.json", json.dumps(program))
    write_text(folder / "likes.txt", "ann\tchess\nbob\tchess\n")
    write_text(folder / "knows.txt", "ann\tbob\nbob\tann\n")
    write_text(folder / "words.txt", "Dr TITLE\nAda FIRST\nByron LAST\n\nAlan FIRST\nTuring LAST\n\n")
    code = (
        f"import os; os.chdir({str(folder)!r})\n"
        "import numpy as np, intarsia\nfrom intarsia.cli import main\n"
        "graph = intarsia.grid_graph(4, 4, n_states=2)\n"
        "intarsia.write_uai('small.uai', graph, np.random.default_rng(0).normal(size=graph.n_theta))\n"
        "main(['tag', 'train', 'words.txt', '--model', 'tagger.npz'])"
    )
    run_program([sys.executable, "-c", code], check=True)
