"""How big the package is: statements, files, public names, hidden import cycles, and the length of six flows.

Run `python -m tests.architecture.scale` for a table beside `budget.toml`, or with `--write` to lower the budget to
what is measured.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "intarsia"
BUDGET = Path(__file__).with_name("budget.toml")
FLOWS = ("infer_uai", "chain_energy", "grid", "soft_logic", "entities", "resolve")


def trees() -> dict[Path, ast.Module]:
    """Return the syntax tree of every file of the package, by its path below the package."""
    return {
        path.relative_to(SOURCE): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))
    }


def statements(files: dict[Path, ast.Module]) -> dict[str, int]:
    """Return the number of statements of each room; a statement counts once, on however many lines it stands."""
    count: Counter[str] = Counter()
    for path, tree in files.items():
        count[path.parts[0].removesuffix(".py")] += sum(isinstance(node, ast.stmt) for node in ast.walk(tree))
    return dict(sorted(count.items()))


def public_names() -> int:
    """Return the number of names in the front door and in the `__all__` of every room."""
    from tests.modules import modules

    import intarsia

    lists = {module.__name__: getattr(module, "__all__", ()) for module in modules() if hasattr(module, "__path__")}
    names = {name for listed in lists.values() for name in listed} | set(intarsia.__all__)
    if "intarsia.torch" not in lists:  # needs an extra; its list is read from the file
        tree = ast.parse((SOURCE / "torch" / "__init__.py").read_text(encoding="utf-8"))
        values = (node.value for node in tree.body if isinstance(node, ast.Assign))
        names |= {item.value for value in values for item in value.elts}
    return len(names)


def hidden_cycles(files: dict[Path, ast.Module]) -> int:
    """Return the number of imports for type checking alone whose target imports the importing file."""
    for_types: set[tuple[str, str]] = set()
    imports: set[tuple[str, str]] = set()
    for path, tree in files.items():
        here = ".".join(("intarsia", *path.with_suffix("").parts))
        guarded = {
            id(inner)
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
            for inner in ast.walk(node)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                (for_types if id(node) in guarded else imports).add((here, node.module))
    return sum((there, here) in imports for here, there in for_types)


def internal_any(files: dict[Path, ast.Module]) -> int:
    """Return the number of annotations that are plain `Any`."""
    annotations = (
        getattr(node, "annotation", None) or getattr(node, "returns", None)
        for tree in files.values()
        for node in ast.walk(tree)
    )
    return sum(isinstance(note, ast.Name) and note.id == "Any" for note in annotations)


def flow(name: str) -> dict[str, int]:
    """Return how many files and functions of the package one call passes through, and its deepest stack."""
    code = f"from tests.architecture.flows import measure; measure({name!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return json.loads(done.stdout.splitlines()[-1])


def measured() -> dict[str, dict[str, int]]:
    """Return everything that has a budget, but for the flows."""
    files = trees()
    rooms = statements(files)
    whole = {
        "statements": sum(rooms.values()),
        "files": len(files),
        "public_names": public_names(),
        "hidden_cycles": hidden_cycles(files),
        "any": internal_any(files),
        "longest_file": max(len((SOURCE / path).read_text(encoding="utf-8").splitlines()) for path in files),
    }
    return {"whole": whole, "rooms": rooms}


def budget() -> dict[str, dict[str, list[int]]]:
    """Return the budget: for each number, where it started and the most that it may be now."""
    return tomllib.loads(BUDGET.read_text(encoding="utf-8"))


def write(now: dict[str, dict[str, int]], old: dict[str, dict[str, list[int]]]) -> None:
    """Write what is measured as the new budget; reasons and starting points stay."""
    lines = [
        "# The most that each number may be: [at the start, now]. `python -m tests.architecture.scale --write`",
        "# lowers them. A number above its start needs a reason below [why].",
    ]
    for table, numbers in now.items():
        lines += ["", f"[{table}]"]
        for name, value in numbers.items():
            start = old.get(table, {}).get(name, [value])[0]
            lines.append(f"{name} = [{start}, {value}]")
    lines += ["", "[why]", *(f"{json.dumps(name)} = {json.dumps(text)}" for name, text in old.get("why", {}).items())]
    BUDGET.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Print a table, or write the budget."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write what is measured as the new budget")
    arguments = parser.parse_args()
    old = budget() if BUDGET.exists() else {}
    now = measured() | {f"flow_{name}": flow(name) for name in FLOWS}
    for table, numbers in now.items():
        for name, value in numbers.items():
            print(f"{table:18} {name:14} {value:7}  {old.get(table, {}).get(name, '')}")
    if arguments.write:
        write(now, old)


if __name__ == "__main__":
    main()
