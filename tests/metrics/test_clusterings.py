"""Scores of clusterings: worked examples of the papers, naive loops over the definitions, and conventions."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score
from tests.oracles import clusterings as oracle

from intarsia.exceptions import InvalidInputError
from intarsia.metrics import clustering_scores

MEASURES = ("pairwise", "b_cubed", "muc", "ceaf_e", "ceaf_m", "lea")


def clusters(*members):
    """A clustering as a dict from record to the number of its cluster."""
    return {record: k for k, cluster in enumerate(members) for record in cluster}


def both(scores, measure):
    agreement = getattr(scores, measure)
    return pytest.approx((agreement.precision, agreement.recall))


# ---------------------------------------------------------------- worked by hand


def test_mentions_missing_from_one_clustering():
    """The example with which the reference scorer was published: e is missed, h and i are made up."""
    scores = clustering_scores(clusters("abc", "defg"), clusters("ab", "cd", "fghi"))
    # Of 5 true links ab and fg are left, of 5 predicted ones the same two.
    assert both(scores, "muc") == (2 / 5, 2 / 5)
    assert both(scores, "b_cubed") == ((4 / 2 + 1 / 2 + 1 / 2 + 4 / 4) / 8, (4 / 3 + 1 / 3 + 1 / 4 + 4 / 4) / 7)
    # abc with ab (4/5) and defg with fghi (4/8) beats any other matching.
    assert both(scores, "ceaf_e") == (1.3 / 3, 1.3 / 2)
    assert both(scores, "pairwise") == (2 / 8, 2 / 9)
    assert (scores.n_records, scores.n_entities, scores.n_predicted) == (7, 2, 3)


@pytest.mark.parametrize(
    ("response", "muc", "b_cubed", "ceaf_e"),
    [
        (("12345", "6789ABC"), (9 / 10, 1.0), ((5 + 4 / 7 + 25 / 7) / 12, 1.0), (1 + 10 / 12, 2, 3)),
        (("12345 89ABC".replace(" ", ""), "67"), (9 / 10, 1.0), ((2 + 25 / 10 * 2) / 12, 1.0), (1 + 10 / 15, 2, 3)),
        (("123456789ABC",), (9 / 11, 1.0), ((25 + 4 + 25) / 12 / 12, 1.0), (10 / 17, 1, 3)),
        (tuple("123456789ABC"), (0.0, 0.0), (1.0, 3 / 12), (2 / 6 + 2 / 3 + 2 / 6, 12, 3)),
    ],
)
def test_three_entities_of_five_two_and_five(response, muc, b_cubed, ceaf_e):
    """The truth and the four systems by which CEAF was introduced: links merged in two ways, all one, all alone."""
    scores = clustering_scores(clusters("12345", "67", "89ABC"), clusters(*response))
    assert both(scores, "muc") == muc
    assert both(scores, "b_cubed") == b_cubed
    similarity, n_predicted, n_true = ceaf_e
    assert both(scores, "ceaf_e") == (similarity / n_predicted, similarity / n_true)


# ---------------------------------------------------------------- definitions as loops

LABELLINGS = st.integers(1, 9).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(0, 4), min_size=n, max_size=n) for _ in range(2)])
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(LABELLINGS)
def test_scores_equal_naive_loops(labels):
    scores = clustering_scores(*labels)
    as_dicts = [dict(enumerate(side)) for side in labels]
    for measure in MEASURES:
        assert both(scores, measure) == getattr(oracle, measure)(*as_dicts), measure
    assert scores.adjusted_rand == pytest.approx(adjusted_rand_score(*labels))
    assert scores.conll == pytest.approx((scores.muc.f1 + scores.b_cubed.f1 + scores.ceaf_e.f1) / 3)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(*[st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 3))] * 2)
def test_scores_equal_naive_loops_on_different_mentions(true, predicted):
    scores = clustering_scores(true, predicted)
    for measure in MEASURES:
        assert both(scores, measure) == getattr(oracle, measure)(true, predicted), measure


def test_scores_ignore_label_names_and_record_order():
    rng = np.random.default_rng(0)
    true, predicted = rng.integers(0, 9, 60), rng.integers(0, 9, 60)
    order = rng.permutation(60)
    renamed = np.array([f"entity {k}" for k in predicted])
    one, other = clustering_scores(true, predicted), clustering_scores(true[order].tolist(), renamed[order])
    for measure in MEASURES:
        agreement = getattr(other, measure)
        assert both(one, measure) == (agreement.precision, agreement.recall)
    assert one.adjusted_rand == pytest.approx(other.adjusted_rand)


# ---------------------------------------------------------------- conventions


def test_hidden_true_labels_are_ignored():
    with_hidden = clustering_scores(["a", None, "a", "b", None], [0, 0, 1, 1, 2])
    assert with_hidden == clustering_scores(["a", "a", "b"], [0, 1, 1])
    assert clustering_scores(np.array([3, -1, 3]), [0, 0, 1]) == clustering_scores([3, 3], [0, 1])


def test_singletons_only():
    scores = clustering_scores([1, 2, 3], [7, 8, 9])
    assert (scores.pairwise.f1, scores.muc.f1, scores.b_cubed.f1, scores.ceaf_e.f1) == (0, 0, 1, 1)
    assert scores.adjusted_rand == 1


def test_no_records():
    scores = clustering_scores([], [])
    assert scores.n_records == 0
    assert scores.b_cubed.f1 == 0


def test_as_dict():
    document = clustering_scores([1, 1, 2], [1, 2, 2]).as_dict()
    assert list(document["muc"]) == ["precision", "recall", "f1"]
    assert list(document) == [*MEASURES, "n_records", "n_entities"]


@pytest.mark.parametrize(
    ("true", "predicted", "message"),
    [
        ([1, 2], [1], "true has 2 labels, but predicted has 1"),
        ([1, 2], [1, None], "predicted label 1 is missing"),
        ([1.0, float("nan")], [1, 2], "true label 1 is missing"),
        ({"a": 1}, [1], "one clustering is a dict"),
    ],
)
def test_bad_input(true, predicted, message):
    with pytest.raises(InvalidInputError, match=message):
        clustering_scores(true, predicted)


def test_memory_is_not_quadratic():
    """100,000 records in 20,000 clusters, one in twenty astray: a table of clusters would have 400 million cells."""
    rng = np.random.default_rng(0)
    true = rng.integers(0, 20_000, 100_000)
    astray = rng.random(100_000) < 0.05
    predicted = np.where(astray, 20_000 + np.arange(100_000), true)
    began = time.perf_counter()
    scores = clustering_scores(true, predicted)
    assert time.perf_counter() - began < 20
    assert scores.b_cubed.precision == 1.0
    assert scores.pairwise.recall == pytest.approx(0.95**2, abs=0.01)
