"""Tests of the hash table of feature names against a dict."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia._files.saved_model import names_from_arrays, names_to_arrays
from intarsia.sequences.serving.feature_index import FeatureIndex


def _index(names: list[str]) -> FeatureIndex:
    return FeatureIndex(*names_from_arrays(names_to_arrays(names, "name"), "name"))


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 100, 20_000])
def test_columns_are_those_of_a_dict(n: int) -> None:
    names = [f"{i}|word={i * 7919}é\n\ud800"[: 6 + i % 15] for i in range(n)]
    names = list(dict.fromkeys(names))
    n = len(names)
    index, expected = _index(names), {name: i for i, name in enumerate(names)}
    queries = [*names[::-1], *(f"other={i}" for i in range(3 * n + 5)), "", "word"]
    assert index.columns(queries).tolist() == [expected.get(name, n) for name in queries]
    assert index.names() == names
    assert index.columns([]).size == 0


def test_full_buckets_continue_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    import intarsia.sequences.serving.feature_index as module

    names = [f"n{i}" for i in range(50)]
    # All names have their place in the last bucket, so that most are stored in the buckets after it.
    monkeypatch.setattr(module, "hash", lambda name: (len(name) << 40) + (int(name[1:]) << 20) + 31, raising=False)
    queries = [*names, "n99", "n1234"]
    assert _index(names).columns(queries).tolist() == [*range(50), 50, 50]


@pytest.mark.parametrize("names", [["a", "b", "a"], [*map(str, range(9000)), "3"]])
def test_repeated_names_are_refused(names: list[str]) -> None:
    with pytest.raises(ValueError, match="vocabulary"):
        _index(names)


def test_damaged_names_are_refused() -> None:
    arrays = names_to_arrays(["ab", "c"], "name")
    for name, value in {
        "name_ptr": np.array([0, 3, 2, 3]),
        "name_text": np.array([255, 254, 253], np.uint8),
    }.items():
        with pytest.raises(ValueError, match=r"name|utf-8"):
            names_from_arrays({**arrays, name: value}, "name")
