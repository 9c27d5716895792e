"""Comparisons of two values: similarities computed by hand, missing values, and unreadable values."""

from __future__ import annotations

import datetime

import numpy as np
import pytest
from sklearn.base import clone

from intarsia.clusters.comparisons import (
    COMPARISONS,
    Date,
    Embedding,
    ExactMatch,
    JaroWinkler,
    Numeric,
    TokenOverlap,
    compare_pairs,
    resolve_comparisons,
)
from intarsia.clusters.tables import read_table
from intarsia.exceptions import InvalidInputError

SAMPLES = {
    "exact": ["ann", "bob", "Ann"],
    "jaro_winkler": ["ann", "bob", "Ann"],
    "token_overlap": ["a long title", "another one", "A title, long"],
    "numeric": [3, 7.5, "3"],
    "date": ["2001-02-03", datetime.date(1999, 5, 6), "20010203"],
    "embedding": [[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]],
}


def one(comparison, left, right):
    """Features of one pair of values."""
    return comparison.features([left, right], np.array([0]), np.array([1]), "here")[0].tolist()


@pytest.mark.parametrize("name", COMPARISONS.names)
def test_every_comparison_is_symmetric_and_in_range(name):
    comparison = clone(COMPARISONS.resolve(name))
    values = [*SAMPLES[name], None]
    first, second = np.triu_indices(4, 1)
    found = comparison.features(values, first, second, "here")
    names = comparison.feature_names("x")
    assert found.shape == (6, len(names)) == (6, 2 + len(comparison.levels))
    assert found.min() >= 0
    assert found.max() <= 1
    np.testing.assert_allclose(found, comparison.features(values, second, first, "here"))  # a pair has no order
    by_pair = dict(zip(zip(first.tolist(), second.tolist(), strict=True), found, strict=True))
    assert by_pair[0, 2][0] == pytest.approx(1.0)
    assert by_pair[0, 1][0] < 0.6
    assert by_pair[0, 3].tolist() == [0.0] * (len(names) - 1) + [1.0]
    assert found[:, -1].tolist() == (second == 3).astype(float).tolist()
    assert comparison.features([], first[:0], second[:0], "here").shape == (0, len(names))


@pytest.mark.parametrize(
    ("left", "right", "likeness"),
    # Table of Winkler: Jaro 17/18, 0.822, 0.767, plus a tenth of the rest for each of up to four equal first letters.
    [("martha", "marhta", 17 / 18 + 0.3 / 18), ("DWAYNE", "duane", 0.84), ("dixon", "dicksonx", 0.8133), ("a", "b", 0)],
)
def test_jaro_winkler(left, right, likeness):
    assert one(JaroWinkler(levels=()), left, right)[0] == pytest.approx(likeness, abs=5e-5)


def test_levels():
    assert one(JaroWinkler(levels=(0.8, 0.9, 1.0)), "martha", "marhta")[1:] == [1.0, 1.0, 0.0, 0.0]
    assert JaroWinkler(levels=(0.8,)).feature_names("name") == [
        "name jaro_winkler", "name jaro_winkler >= 0.8", "name jaro_winkler missing",
    ]  # fmt: skip
    with pytest.raises(InvalidInputError, match="levels must be a number in"):
        one(JaroWinkler(levels=(2,)), "a", "b")


def test_token_overlap():
    left, right = "on learning to rank", "Learning to rank, quickly and to sort"
    # learning, to and rank are in common, of seven words in total; the shorter string has four words.
    assert one(TokenOverlap(levels=()), left, right)[0] == pytest.approx(3 / 7)
    assert one(TokenOverlap(measure="overlap", levels=()), left, right)[0] == pytest.approx(3 / 4)
    # ' a', 'ab', 'b ' and ' a', 'ac', 'c '.
    assert one(TokenOverlap(ngram=2, levels=()), "ab", "ac")[0] == pytest.approx(1 / 5)
    assert one(TokenOverlap(levels=()), "...", "word")[-1] == 1.0  # a string without words is missing
    with pytest.raises(InvalidInputError, match="measure='cosine' is not known"):
        one(TokenOverlap(measure="cosine"), "a", "b")


def test_numbers():
    assert one(Numeric(levels=()), 100, "80")[0] == pytest.approx(0.8)
    assert one(Numeric(scale=5, levels=()), 100, 80)[0] == 0
    assert one(Numeric(), 0, 0.0) == [1.0, 1.0, 0.0]
    assert one(Numeric(levels=()), -1, 1)[0] == 0
    with pytest.raises(InvalidInputError, match=r"here: Numeric cannot read any value, such as 'old'"):
        one(Numeric(), "old", "young")
    with pytest.raises(InvalidInputError, match="Numeric: scale must be a number"):
        one(Numeric(scale=0), 1, 2)


def test_dates():
    assert one(Date(levels=()), "2001-02-03", datetime.datetime(2001, 2, 9, 5))[0] == pytest.approx(2 / 3)
    assert one(Date(levels=()), "2001-02-03", np.datetime64("2001-03-02"))[0] == 1.0  # day and month exchanged
    assert one(Date(format="%d.%m.%Y", levels=()), "3.2.2001", "03.02.1999")[0] == pytest.approx(2 / 3)
    assert one(Date(levels=()), "2001-02-03", "some day") == [0.0, 1.0]
    assert one(Date(levels=()), "20010203", 20010203)[0] == 1.0


def test_vectors():
    assert one(Embedding(), [1, 0], [-1, 0])[0] == 0
    assert one(Embedding(), np.array([3.0, 4.0]), [3, 4])[0] == pytest.approx(1)
    assert one(Embedding(), [0, 0], [3, 4])[0] == 0
    with pytest.raises(InvalidInputError, match="here, row 1: the vector has 3 numbers, but that of row 0 has 2"):
        one(Embedding(), [1, 2], [1, 2, 3])
    with pytest.raises(InvalidInputError, match="here, row 1: expected a vector of finite numbers"):
        one(Embedding(), [1, 2], [1, np.nan])


def test_resolve_comparisons():
    table = read_table({"name": ["Ann", "ann"], "age": [30, None]})
    declared = resolve_comparisons({"name": ["exact", JaroWinkler(levels=())], "age": "numeric"})
    found = compare_pairs(table, declared, np.array([0]), np.array([1]))
    assert found.tolist() == [[1, 0, 1, 0, 0, 0, 1]]
    with pytest.raises(InvalidInputError, match=r"^column='nam' is not known.*Did you mean 'name'"):
        compare_pairs(table, [("nam", ExactMatch())], np.array([0]), np.array([1]))
    with pytest.raises(InvalidInputError, match=r"comparison='jaro' is not known.*Did you mean 'jaro_winkler'"):
        resolve_comparisons({"name": "jaro"})
    for nothing in (None, {}, ["name"]):
        with pytest.raises(InvalidInputError, match="comparisons must be a dict"):
            resolve_comparisons(nothing)
