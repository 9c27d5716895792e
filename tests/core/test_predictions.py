"""PredictionList: arrays of different lengths convert to a vector of objects."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from intarsia._core.predictions import PredictionList


@pytest.mark.parametrize("lengths", [(2, 3), (2, 2), (0, 0), (1, 1), ()])
def test_converts_to_one_dimension_for_any_lengths(lengths):
    entries = PredictionList(np.arange(n) for n in lengths)
    joined = np.concatenate([entries, PredictionList([np.arange(4)])])
    assert joined.shape == (len(lengths) + 1,)
    for entry, n in zip(joined, (*lengths, 4), strict=True):
        np.testing.assert_array_equal(entry, np.arange(n))


def test_behaves_as_a_list():
    entries = PredictionList([np.arange(2), np.arange(3)])
    assert isinstance(entries, list)
    np.testing.assert_array_equal(np.concatenate(entries), [0, 1, 0, 1, 2])  # the labels of all positions
    assert [len(entry) for entry in pickle.loads(pickle.dumps(entries))] == [2, 3]
