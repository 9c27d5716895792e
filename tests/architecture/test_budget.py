"""The package does not grow: every number of `budget.toml` holds, and none is looser than what is there."""

from __future__ import annotations

import pytest
from tests.architecture.scale import FLOWS, budget, flow, measured

BUDGET = budget()
SLACK = 1.01  # a number that fell by more is written down, so that it cannot rise again


@pytest.mark.parametrize("table", ["whole", "rooms"])
def test_numbers_only_fall(table):
    now = measured()[table]
    most = {name: limit for name, (_, limit) in BUDGET[table].items()}
    assert {name: value for name, value in now.items() if value > most.get(name, 0)} == {}, "over budget"
    loose = {name: limit for name, limit in most.items() if limit > SLACK * now.get(name, 0)}
    assert loose == {}, "lower them: python -m tests.architecture.scale --write"


@pytest.mark.parametrize("name", FLOWS)
def test_a_call_passes_through_few_files(name):
    now = flow(name)
    assert {key: value for key, value in now.items() if value > BUDGET[f"flow_{name}"][key][1]} == {}


def test_whatever_rose_has_a_reason():
    tables = {table: numbers for table, numbers in BUDGET.items() if table != "why"}
    rose = {
        f"{table}.{name}"
        for table, numbers in tables.items()
        for name, (start, most) in numbers.items()
        if most > start
    }
    assert rose <= set(BUDGET["why"])
