"""Segments and their scores, compared with the CoNLL rule applied to every span and with hand-made cases."""

from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intarsia.exceptions import InvalidInputError
from intarsia.metrics import find_segments, scheme_names, segment_scores

BOUNDED = settings(max_examples=60, deadline=None, derandomize=True)
OUTSIDE = ("O", "")

# Pairs of prefixes between which a chunk starts or ends although the type stays; those of B, I, O and E are the
# evaluation program's; EB and those with S follow from E being a last token and S a chunk of one token.
STARTS = {"BB", "IB", "OB", "OI", "EE", "EI", "OE", "EB", "BS", "IS", "ES", "OS", "SS", "SB", "SI", "SE"}
ENDS = {"BB", "BO", "IB", "IO", "EE", "EI", "EO", "EB", "BS", "IS", "ES", "SB", "SI", "SE", "SS", "SO"}


def split(tag):
    return OUTSIDE if tag == "O" else tuple(tag.split("-", 1))


def chunks_among_all_spans(tags):
    """Spans at whose ends a chunk starts and ends, without a start or an end inside; outside tags stand around."""
    parts = [OUTSIDE, *map(split, tags), OUTSIDE]
    start = [starts(before, now) for before, now in pairwise(parts)]
    end = [ends(before, now) for before, now in pairwise(parts)]
    return {
        (i, j, parts[i + 1][1])
        for i, j in combinations(range(len(tags) + 1), 2)
        if start[i] and end[j] and not any(start[i + 1 : j]) and not any(end[i + 1 : j])
    }


def starts(before, now):
    return before[0] + now[0] in STARTS or (now[0] != "O" and before[1] != now[1])


def ends(before, now):
    return before[0] + now[0] in ENDS or (before[0] != "O" and before[1] != now[1])


TAGS = ["O", *(f"{prefix}-{label}" for prefix in "BIES" for label in ("x", "y"))]
IOB = [tag for tag in TAGS if tag[0] in "OBI"]


@st.composite
def tag_pairs(draw, tags):
    lengths = draw(st.lists(st.integers(0, 8), max_size=4))
    sequence = st.sampled_from(tags)
    true = [draw(st.lists(sequence, min_size=n, max_size=n)) for n in lengths]
    # Half of the tags are copied, so that whole segments agree often enough to matter.
    pred = [[draw(sequence) if draw(st.booleans()) else tag for tag in tags] for tags in true]
    return true, pred


@BOUNDED
@given(st.one_of(tag_pairs(TAGS), tag_pairs(IOB)))
def test_counts_equal_the_conll_rule(pair):
    scores = segment_scores(*pair)
    true, pred = ([chunks_among_all_spans(tags) for tags in sequences] for sequences in pair)
    n_true, n_pred = sum(map(len, true)), sum(map(len, pred))
    n_correct = sum(len(a & b) for a, b in zip(true, pred, strict=True))
    assert (scores.overall.n_true, scores.overall.n_pred, scores.overall.n_correct) == (n_true, n_pred, n_correct)
    assert scores.precision == (n_correct / n_pred if n_pred else 0)
    assert scores.recall == (n_correct / n_true if n_true else 0)
    total = scores.precision + scores.recall
    assert scores.f1 == pytest.approx(2 * scores.precision * scores.recall / total if total else 0)
    for name in ("n_true", "n_pred", "n_correct"):
        assert sum(getattr(counts, name) for counts in scores.by_label.values()) == getattr(scores.overall, name)


@BOUNDED
@given(tag_pairs(TAGS))
def test_scores_are_symmetric_and_perfect_on_equal_tags(pair):
    true, pred = pair
    one, other = segment_scores(true, pred), segment_scores(pred, true)
    assert (one.precision, one.recall, one.f1) == (other.recall, other.precision, other.f1)
    same = [find_segments(tags) for tags in true] == [find_segments(tags) for tags in pred]
    assert (one.f1 == 1) == (same and one.overall.n_true > 0)
    assert (one.accuracy == 1) == (true == pred and one.n_tokens > 0)


@BOUNDED
@given(st.lists(st.sampled_from(TAGS), max_size=10))
def test_segments_cover_all_tokens_that_are_not_outside(tags):
    covered = [t for start, stop, _ in find_segments(tags) for t in range(start, stop)]
    assert covered == [t for t, tag in enumerate(tags) if tag != "O"]
    for start, stop, label in find_segments(tags):
        assert {tag[2:] for tag in tags[start:stop]} == {label}


@BOUNDED
@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["x", "y", "O"])), max_size=6))
def test_all_notations_give_the_same_segments(pieces):
    """Segments written in four notations and read back."""
    iob1, iob2, bioes, bilou, expected, at, before = [], [], [], [], [], 0, None
    for length, label in pieces:
        if label == "O":
            for tags in (iob1, iob2, bioes, bilou):
                tags += ["O"] * length
        else:
            inner = [f"I-{label}"] * (length - 1)
            iob1 += [f"{'B' if before == label else 'I'}-{label}", *inner]
            iob2 += [f"B-{label}", *inner]
            bioes += [f"S-{label}"] if length == 1 else [f"B-{label}", *inner[1:], f"E-{label}"]
            bilou += [f"U-{label}"] if length == 1 else [f"B-{label}", *inner[1:], f"L-{label}"]
            expected.append((at, at + length, label))
        at, before = at + length, label
    assert find_segments(iob1) == find_segments(iob2) == find_segments(bioes) == find_segments(bilou) == expected


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("", []),
        ("O O", []),
        ("O I-x I-x O", [(1, 3, "x")]),  # I after O begins
        ("I-x I-y", [(0, 1, "x"), (1, 2, "y")]),  # the label changes inside
        ("B-x I-y I-y", [(0, 1, "x"), (1, 3, "y")]),
        ("B-x B-x", [(0, 1, "x"), (1, 2, "x")]),
        ("I-x B-x I-x", [(0, 1, "x"), (1, 3, "x")]),
        ("B-x O I-x", [(0, 1, "x"), (2, 3, "x")]),
        ("B-x E-x I-x", [(0, 2, "x"), (2, 3, "x")]),
        ("E-x E-x", [(0, 1, "x"), (1, 2, "x")]),
        ("S-x I-x", [(0, 1, "x"), (1, 2, "x")]),
        ("B-person-last I-person-last", [(0, 2, "person-last")]),  # only the first hyphen ends the prefix
        ("B I O I", [(0, 2, ""), (3, 4, "")]),  # one kind of segment needs no label
    ],
)
def test_hand_made_cases(tags, expected):
    assert find_segments(tags.split()) == expected


def test_labels_without_prefix():
    labels = ["title", "title", "O", "year", "title"]
    assert find_segments(labels, "runs") == [(0, 2, "title"), (3, 4, "year"), (4, 5, "title")]
    assert find_segments(labels, "tokens") == [(t, t + 1, labels[t]) for t in (0, 1, 3, 4)]
    assert find_segments([0, 3, 3, 0], "runs", outside=0) == [(1, 3, 3)]
    assert find_segments(["_", "B-x"], outside="_") == [(1, 2, "x")]
    assert set(scheme_names()) == {"conll", "runs", "tokens"}


def test_as_dict():
    true, pred = [["B-x", "I-x", "O"], ["B-y"]], [["B-x", "O", "O"], ["B-y"]]
    assert segment_scores(true, pred).as_dict() == {
        "precision": 0.5,
        "recall": 0.5,
        "f1": 0.5,
        "accuracy": 0.75,
        "by_label": {
            "x": {"precision": 0.0, "recall": 0.0, "f1": 0.0, "n": 1},
            "y": {"precision": 1.0, "recall": 1.0, "f1": 1.0, "n": 1},
        },
        "n": 2,
    }


def test_no_true_or_no_predicted_segments():
    nothing = segment_scores([["O", "O"]], [["O", "O"]])
    assert (nothing.precision, nothing.recall, nothing.f1, nothing.accuracy) == (0, 0, 0, 1)
    assert nothing.by_label == {}
    silent = segment_scores([["B-x"]], [["O"]])
    assert (silent.precision, silent.recall, silent.f1, silent.accuracy) == (0, 0, 0, 0)
    empty = segment_scores([], [])
    assert (empty.f1, empty.accuracy, empty.n) == (0, 0, 0)


@pytest.mark.parametrize(
    ("true", "pred", "message"),
    [
        ([["O"]], [], "y_true has 1 sequences, but y_pred has 0"),
        ([["O"], ["O"]], [["O"], ["O", "O"]], r"y_true\[1\] has 1 labels, but y_pred\[1\] has 2"),
        (["O"], ["O"], r"y_true\[0\] is 'O'; expected the labels of one sequence"),
        ([["O", "title"]], [["O", "O"]], r"y_true\[0\]\[1\]: 'title' is not a valid tag.* scheme='runs'"),
        ([["O", 3]], [["O", "O"]], r"y_true\[0\]\[1\]: 3 is not a valid tag"),
        ([["O", None]], [["O", "O"]], r"y_true\[0\]\[1\] is None, which is not a single label"),
        ([[["O"]]], [["O"]], r"y_true\[0\]\[0\] is \['O'\]; expected one label"),
    ],
)
def test_bad_input(true, pred, message):
    with pytest.raises(InvalidInputError, match=message):
        segment_scores(true, pred)


def test_unknown_scheme():
    with pytest.raises(InvalidInputError, match="Did you mean 'runs'"):
        find_segments([], scheme="run")
