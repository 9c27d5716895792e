"""Every recorded call, message and setting is as recorded; `record.py` in this folder records them again."""

from __future__ import annotations

import functools

import pytest
from tests.golden import messages, settings
from tests.golden.golden import Store, differences, load_calls, machine, run

HINT = "If the change is meant, run `python tests/golden/record.py --only {}` and explain it in the commit."


@functools.cache
def store() -> Store:
    return Store()


@pytest.mark.parametrize("name", sorted(load_calls()))
def test_call_is_as_recorded(name):
    call, result = load_calls()[name], run(name)
    assert name in store().recorded, f"{name} is not recorded. {HINT.format(name)}"
    old = store().recorded[name]
    if machine() != store().machine:
        found = differences(old, result, call.tol)
    elif call.reordered:
        found = differences(old, result, 1e-12)
    else:
        found = [] if result.hash == store().hashes[name] else differences(old, result) or ["only the hash differs"]
    assert not found, "\n".join([f"{name} has changed:", *found, HINT.format(f"'{name}'")])


def test_every_recorded_call_still_exists():
    assert set(store().recorded) == set(load_calls())


@pytest.mark.parametrize("family", sorted(messages.FAMILIES))
def test_messages_are_as_recorded(family):
    assert messages.texts(family) == messages.recorded()[family]


def test_settings_and_their_defaults_are_as_recorded():
    assert settings.defaults() == settings.recorded()
