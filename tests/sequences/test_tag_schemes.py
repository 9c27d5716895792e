"""Constraints of tag schemes and forbidden pairs, against lists written by hand."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia.exceptions import InvalidInputError
from intarsia.sequences.tag_schemes import find_constraints


def possible(classes, forbidden=None, scheme=None):
    found = find_constraints(np.array(classes), forbidden, scheme)
    pairs = {
        (a, b) for i, a in enumerate(classes) for j, b in enumerate(classes) if np.isfinite(found.transitions[i, j])
    }
    first = {a for i, a in enumerate(classes) if np.isfinite(found.start[i])}
    last = {a for i, a in enumerate(classes) if np.isfinite(found.end[i])}
    return pairs, first, last


def test_bio():
    pairs, first, last = possible(["B-x", "I-x", "B-y", "I-y", "O"], scheme="bio")
    every = {"B-x", "I-x", "B-y", "I-y", "O"}
    assert {(a, b) for a in every for b in every} - pairs == {
        ("O", "I-x"), ("O", "I-y"), ("B-x", "I-y"), ("I-x", "I-y"), ("B-y", "I-x"), ("I-y", "I-x"),
    }  # fmt: skip
    assert first == {"B-x", "B-y", "O"}
    assert last == every


@pytest.mark.parametrize(("end", "single"), [("E", "S"), ("L", "U")])
def test_bioes(end, single):
    b, i, e, s = "B-x", "I-x", f"{end}-x", f"{single}-x"
    pairs, first, last = possible([b, i, e, s, "O"], scheme="bioes")
    assert pairs == {(b, i), (b, e), (i, i), (i, e)} | {(a, c) for a in (e, s, "O") for c in (b, s, "O")}
    assert first == {b, s, "O"}
    assert last == {e, s, "O"}


def test_prefix_alone():
    assert possible(["B", "I", "O"], scheme="bio")[0] == {
        ("B", "B"), ("B", "I"), ("B", "O"), ("I", "B"), ("I", "I"), ("I", "O"), ("O", "B"), ("O", "O"),
    }  # fmt: skip


def test_forbidden_pairs_and_boundaries():
    pairs, first, last = possible([0, 1], forbidden=[(0, 1), (None, 1), (1, None)])
    assert (pairs, first, last) == ({(0, 0), (1, 0), (1, 1)}, {0}, {0})


@pytest.mark.parametrize(
    ("classes", "forbidden", "scheme", "message"),
    [
        (["a", "b"], [("a", "c")], None, r"'c' is not a label. Use the labels \['a', 'b'\]"),
        (["a", "b"], ["ab"], None, "list of pairs"),
        (["a", "b"], "ab", None, "list of pairs"),
        (["a", "b"], [(None, None)], None, "list of pairs"),
        (["a", "b"], None, "bio", "scheme='bio' needs labels that are O, or B or I .* got 'a'"),
        (["B-x", "E-x"], None, "bio", r"scheme='bio' needs labels that are O, or .*, got 'E-x'"),
        ([0, 1], None, "bioes", r"scheme='bioes' needs labels that are O, or .*, got 0"),
        (["B-x", "O"], None, "iob", "scheme='iob' is not known. Known: 'bio', 'bioes'"),
    ],
)
def test_bad_input(classes, forbidden, scheme, message):
    with pytest.raises(InvalidInputError, match=message):
        find_constraints(np.array(classes), forbidden, scheme)
