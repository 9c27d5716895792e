"""Pair features and constraints: construction and invalid input."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia.clusters import dense_pair_features, link_constraints, pair_features
from intarsia.exceptions import InvalidInputError


def test_partners_are_ascending():
    features = pair_features(4, [[3, 1], [0, 1], [2, 1], [3, 0]], [[1.0], [2.0], [3.0], [4.0]])
    for i in range(4):
        partners = features.idx[features.ptr[i] : features.ptr[i + 1]]
        assert partners.tolist() == sorted(partners)
        for j, row in zip(partners, features.row[features.ptr[i] : features.ptr[i + 1]], strict=True):
            assert sorted((i, int(j))) == features.pairs[row].tolist()
    assert features.idx[features.ptr[1] : features.ptr[2]].tolist() == [0, 2, 3]
    assert features.values.ravel().tolist() == [2.0, 4.0, 3.0, 1.0]


@pytest.mark.parametrize(
    ("pairs", "values", "names", "message"),
    [
        ([[0, 3]], [1.0], None, r"pair 0 is \[0, 3\], but there are 3 records"),
        ([[0, 1], [1, 1]], [1.0, 1.0], None, "pair 1 joins record 1 with itself"),
        ([[0, 1], [1, 0]], [1.0, 1.0], None, r"pair \[0, 1\] is listed twice"),
        ([[0, 1]], [np.nan], None, r"pair 0, \[0, 1\], are not all finite"),
        ([[0, 1]], [1.0, 2.0], None, "one row of features per pair"),
        ([[0, 1, 2]], [1.0], None, "one row of features per pair"),
        ([[0, 1]], [[1.0, 2.0]], ["a"], "2 different names"),
        ([[0, 1]], [[1.0, 2.0]], ["a", "a"], "2 different names"),
    ],
)
def test_bad_pairs(pairs, values, names, message):
    with pytest.raises(InvalidInputError, match=message):
        pair_features(3, pairs, values, names)


def test_bad_dense():
    with pytest.raises(InvalidInputError, match=r"values\[0, 1\] and values\[1, 0\] differ"):
        dense_pair_features([[0.0, 1.0], [2.0, 0.0]])
    with pytest.raises(InvalidInputError, match="expected \\(n_records, n_records"):
        dense_pair_features(np.zeros((2, 3, 1)))
    with pytest.raises(InvalidInputError, match="not all finite"):
        dense_pair_features([[0.0, np.nan], [np.nan, 0.0]])


@pytest.mark.parametrize(
    ("links", "message"),
    [
        (
            {"must_link": [[0, 1], [1, 2]], "cannot_link": [[2, 0]]},
            "records 2 and 0 cannot be together, but must-links",
        ),
        ({"must_link": [[0, 4]]}, "must_link: pair 0"),
        ({"cannot_link": [[1, 1]]}, "cannot_link: pair 0"),
        ({"cannot_link": [1, 2]}, "expected \\(n_pairs, 2\\)"),
        ({"source": [0, 1]}, "there are 4 records"),
        ({"source": [0, 7, 7, 1], "must_link": [[2, 1]]}, "records 1 and 2 come from the same source, but must-links"),
    ],
)
def test_bad_links(links, message):
    with pytest.raises(InvalidInputError, match=message):
        link_constraints(4, **links)
