"""Tests of the detection of settings that were changed after a fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from intarsia._core.settings import Settings
from intarsia._core.transaction import SettingsOfFit


@dataclass(frozen=True)
class _Item(Settings):
    name: str
    bounds: tuple[int | None, ...] = (0, None)
    table: object = None


class _Estimator(Settings):
    def __init__(self, *, value: object = None) -> None:
        self.value = value


@pytest.mark.parametrize(
    ("old", "new", "is_changed"),
    [
        ([_Item("a"), _Item("b", (1, 2))], [_Item("a"), _Item("b", (1, 2))], False),
        ([_Item("a")], [_Item("b")], True),
        ([_Item("a")], [_Item("a"), _Item("a")], True),
        ([_Item("a", (0, 1))], [_Item("a", (0, None))], True),
        ([_Item("a", table=np.ones(3))], [_Item("a", table=np.ones(3))], False),
        ([_Item("a", table=np.ones(3))], [_Item("a", table=np.zeros(3))], True),
        ({"x": ["a"]}, {"x": ["a"]}, False),
        ({"x": ["a"]}, {"x": ["b"]}, True),
        (["a", 1], ["a", True], True),
        ("a", "b", True),
        (0.5, 0.5, False),
    ],
)
def test_changed_settings_are_detected(old: object, new: object, is_changed: bool) -> None:
    fitted = SettingsOfFit(_Estimator(value=old), ("value",))
    assert (fitted.changed(_Estimator(value=new)) == "value") is is_changed
