"""Six calls that a user makes, traced: the files and functions of the package that each passes through."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np

import intarsia

SOURCE = str(Path(intarsia.__file__).parent)


def infer_uai() -> Callable[[], object]:
    """Read a model in UAI format and infer at the command line."""
    from intarsia.cli import main

    graph = intarsia.grid_graph(3, 3, 2)
    path = Path(tempfile.mkdtemp()) / "model.uai"
    intarsia.write_uai(path, graph, graph.zeros())

    def run() -> None:
        with suppress(SystemExit):
            main(["infer", str(path), "--json"])

    return run


def chain_energy() -> Callable[[], object]:
    """Fit a chain with a learned energy and predict."""
    from intarsia.energies import at_most_one

    rng = np.random.default_rng(0)
    y = [rng.choice(["B-x", "O"], int(rng.integers(1, 9)), p=[0.4, 0.6]).tolist() for _ in range(30)]
    X = [[[f"w={label if rng.random() < 0.7 else rng.integers(3)}", "b"] for label in labels] for labels in y]
    return lambda: intarsia.ChainCRF(energies=at_most_one("x")).fit(X, y).predict(X)


def grid() -> Callable[[], object]:
    """Fit a grid through truncated inference and predict."""
    y = [np.tile([0, 1, 0, 1], (3, 1)), np.tile([0, 0, 1, 1], (3, 1))]
    X = [np.stack([np.ones(labels.shape), labels + 0.5], axis=-1) for labels in y]
    return lambda: intarsia.GridCRF().fit(X, y).predict(X)


def soft_logic() -> Callable[[], object]:
    """Read a program of PSL, infer and read the atoms."""
    folder = Path(tempfile.mkdtemp())
    (folder / "likes.txt").write_text("ann\tchess\nbob\tchess\n")
    (folder / "knows.txt").write_text("ann\tbob\nbob\tann\n")
    program = {
        "predicates": {
            "Likes/2": {"observations": ["likes.txt"]},
            "Knows/2": {"targets": ["knows.txt"]},
        },
        "rules": ["2: Likes(A, X) & Likes(B, X) & (A != B) -> Knows(A, B) ^2", "1: !Knows(A, B) ^2"],
    }
    (folder / "program.json").write_text(json.dumps(program))
    return lambda: intarsia.SoftLogic(intarsia.softlogic.read_psl(folder / "program.json")).infer().table("Knows")


def entities() -> Callable[[], object]:
    """Learn from labelled records and resolve new ones."""
    from intarsia.datasets import make_customers

    old, new = make_customers(30, random_state=1), make_customers(20, random_state=2)
    clusterer = intarsia.EntityClusterer({"first_name": "exact", "last_name": "token_overlap", "birth_date": "date"})
    return lambda: clusterer.fit(old.columns, old.entity).predict(new.columns)


def resolve() -> Callable[[], object]:
    """Resolve scored pairs."""
    rng = np.random.default_rng(0)
    first, second = np.triu_indices(8, 1)
    pairs = {"id_l": first, "id_r": second, "match_probability": rng.random(first.size)}
    return lambda: intarsia.clusters.resolve(pairs)


def measure(name: str) -> None:
    """Print the number of files and functions that a flow passes through, and the depth of its deepest stack."""
    call = globals()[name]()
    call()  # imports modules and compiles kernels
    seen: set[tuple[str, str, int]] = set()
    depth = deepest = 0

    def note(frame: object, event: str, _: object) -> None:
        nonlocal depth, deepest
        code = frame.f_code  # type: ignore[attr-defined]
        if not code.co_filename.startswith(SOURCE) or event not in ("call", "return"):
            return
        depth += 1 if event == "call" else -1
        if event == "call":
            deepest = max(deepest, depth)
            if not code.co_name.startswith("<"):
                seen.add((code.co_filename, code.co_qualname, code.co_firstlineno))

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    files = len({path for path, _, _ in seen})
    print(json.dumps({"files": files, "functions": len(seen), "depth": deepest}))
