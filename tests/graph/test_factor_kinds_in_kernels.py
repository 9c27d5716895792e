"""Kernels compare with the integers of `FactorKind` by name."""

from __future__ import annotations

import re
from pathlib import Path

import intarsia
from intarsia._kernels import factor_kinds
from intarsia.graph import FactorKind


def test_constants_are_those_of_the_enum():
    constants = {name: value for name, value in vars(factor_kinds).items() if name.isupper()}
    assert constants
    assert all(FactorKind[name] == value for name, value in constants.items())


def test_constraints_on_counts():
    for kind, compare in {
        FactorKind.AT_MOST: lambda count: count > 2,
        FactorKind.AT_LEAST: lambda count: count < 2,
        FactorKind.EXACTLY: lambda count: count != 2,
    }.items():
        output = FactorKind[f"{kind.name}_OUTPUT"]
        for count in range(5):
            assert factor_kinds.violated(int(kind), 2.0, count) == compare(count)
            assert factor_kinds.violated(int(output), 2.0, count) == compare(count)


def test_no_kernel_compares_kinds_with_numbers():
    folder = Path(intarsia.__file__).parent / "_kernels"
    number = re.compile(r"\bkinds?(\[\w+\])? (==|!=|>=|<=|>|<|-) \d")
    others = {
        "partition.py",
        "elimination_plan.py",
    }  # other enumerations: kinds of features and proposals, kinds of pieces
    files = [path for path in folder.glob("*.py") if path.name not in others]
    assert not [(path.name, line) for path in files for line in path.read_text().splitlines() if number.search(line)]
