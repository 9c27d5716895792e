"""Features of the tokens of references."""

from __future__ import annotations

import pytest

from intarsia_reproduction.models.reference_features import reference_features, token_kind


@pytest.mark.parametrize(
    ("token", "kind"),
    [
        ("1999", "year"), ("(1999a),", "year()"), ("3021", "number4"), ("12-17", "range"), ("12--17.", "range"),
        ("J.-P.", "initial"), ("VII", "roman"), ("IEEE", "capitals"), ("hep-th/9901001", "eprint"),
        ("http://x.org/1", "url"), ("45A", "digits"), ("Journal", "Word"), ("journal", "word"), ("and", "and"),
        ("),", "),"),
    ],
)  # fmt: skip
def test_kinds(token, kind):
    assert token_kind(token) == kind


def test_stretches_between_marks():
    features = reference_features(["A.", "Lee", ",", "On", "trees", ",", "1999"])
    assert "stretch=initial|Word|," in features[1]
    assert "next stretch=Word|word|," in features[1]
    assert "last stretch begins=a" in features[4]
    assert not any(name.startswith("last stretch") for name in features[0])


def test_quotes_and_years():
    features = reference_features(["Lee", '"', "Trees", '"', "1999", "7"])
    assert [next(name for name in row if name.startswith("quoted")) for row in features] == [
        "quoted=before", "quoted=inside", "quoted=inside", "quoted=inside", "quoted=after", "quoted=after",
    ]  # fmt: skip
    assert [name for row in features for name in row if name.startswith("year=")] == [
        *["year=before"] * 4, "year=at", "year=after",
    ]  # fmt: skip


def test_separators_are_features_of_later_tokens():
    features = reference_features(["Trees", ",", "in", "Proc", "of"])
    assert "after in" not in features[2]
    assert {"after in", "after proc"} <= set(features[4])


@pytest.mark.parametrize("tokens", [[], ["."], ["()"]])
def test_short_references(tokens):
    assert len(reference_features(tokens)) == len(tokens)
