"""The script that changes single lines: its changes are valid Python, and its list of equivalent ones is current."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tests import mutate

SOURCE = b"""def clip(values: list[int], low: int = 0) -> None:
    total = max(values) - low
    if total <= 2 and low:
        raise ValueError(f"{total + 1} is low")
    total -= low
    values.append(total)
"""
FILE = Path("src/intarsia/made/up.py")


def test_each_kind_of_change_is_made():
    mutations = [(mutant.number, mutant.mutation) for mutant in mutate.mutants_of(FILE, SOURCE)]
    assert set(mutations) == {
        (1, "0 -> (0 + 1)"),
        (1, "0 -> (0 - 1)"),
        (2, "max(values) - low -> max(values) + low"),
        (2, "max(values) -> min(values)"),
        (3, "total <= 2 and low -> total <= 2 or low"),
        (3, "total <= 2 and low -> not (total <= 2 and low)"),
        (3, "total <= 2 -> total < 2"),
        (3, "total <= 2 -> total > 2"),
        (3, "2 -> (2 + 1)"),
        (3, "2 -> (2 - 1)"),
        (5, "total -= low -> pass"),
        (6, "values.append(total) -> pass"),
        (6, "values.append(total) -> return values.append(total)"),
    }
    for mutant in mutate.mutants_of(FILE, SOURCE):
        changed = SOURCE[: mutant.start] + mutant.text.encode() + SOURCE[mutant.end :]
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(SOURCE))


def test_a_larger_sample_continues_a_smaller_one():
    first, more = (mutate.sample(3, ["losses", "metrics"], n) for n in (4, 10))
    assert more[:4] == first
    assert [mutant.room for mutant in first] == ["losses", "metrics"] * 2
    assert len({(mutant.file, mutant.number) for mutant in more}) == 10


@pytest.mark.parametrize("key", list(mutate.equivalents()), ids="-".join)
def test_equivalent_mutants_are_of_the_present_source(key):
    file = Path(key[0])
    assert key in {mutant.key for mutant in mutate.mutants_of(file, (mutate.TREE / file).read_bytes())}
    assert len(mutate.equivalents()[key]) > 20
