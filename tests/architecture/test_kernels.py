"""Kernels take few arguments: arrays that travel together are a named tuple of `_kernels/*_arguments.py`."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

KERNELS = sorted((Path(__file__).parents[2] / "src" / "intarsia" / "_kernels").glob("*.py"))
MAX_ARGUMENTS = 13
# Called for every pair of records, where a named tuple would cost more than the work; its docstring says so.
SINGLE_ARRAYS = {"_add_pairs"}


def functions_with_many_arguments(tree: ast.Module) -> list[str]:
    """List functions with more arguments than `MAX_ARGUMENTS`."""
    return [
        f"line {node.lineno}: {node.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and node.name not in SINGLE_ARRAYS
        and len(node.args.posonlyargs) + len(node.args.args) + len(node.args.kwonlyargs) > MAX_ARGUMENTS
    ]


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.name)
def test_kernels_take_few_arguments(path):
    assert functions_with_many_arguments(ast.parse(path.read_text(encoding="utf-8"))) == []


def test_planted_kernel_with_many_arguments_is_listed():
    many = ", ".join(f"a{k}" for k in range(MAX_ARGUMENTS + 1))
    tree = ast.parse(f"def f({many}):\n    pass\n\ndef g(a):\n    pass\n")
    assert functions_with_many_arguments(tree) == ["line 1: f"]
