"""Probabilities of segments against enumeration of all labellings, for runs, BIO and BIOES, with forbidden pairs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from intarsia import ChainCRF
from intarsia.energies import at_most_one
from intarsia.exceptions import InvalidInputError
from intarsia.graph.chains import ChainBatch
from intarsia.inference.chains.chain_inference import chain_log_partition, path_scores
from intarsia.metrics.segments import find_segments, join_tags, scheme_of_labels
from intarsia.sequences import Segment, exactly_once, in_order, once
from intarsia.sequences.confidence.segments import restricted_log_probability, segment_log_probabilities

TAGS = {
    "runs": ["a", "b", "c"],
    "runs with outside": ["a", "b", "O"],
    "bio": ["B-x", "I-x", "B-y", "I-y", "O"],
    "bioes": ["B-x", "I-x", "E-x", "S-x", "O"],
    "prefix alone": ["B", "I", "O"],
    "tokens": ["a", "b"],
}


def random_chain(rng, k, length, zeros=0.0, scale=1.0):
    def scores(*shape):
        values = scale * rng.normal(size=shape)
        values[rng.random(shape) < zeros] = -np.inf
        return values

    per_step = rng.random() < 0.5 and length > 1
    transitions = scores(length - 1, k, k) if per_step else scores(k, k)
    return ChainBatch(scale * rng.normal(size=(length, k)), [0, length], transitions, scores(k), scores(k))


def by_enumeration(batch, tags, scheme):
    """Return the probability of every segment that occurs in some labelling."""
    paths = list(itertools.product(range(len(tags)), repeat=batch.n_positions))
    log_weights = np.array([path_scores(batch, path)[0] for path in paths])
    weights = np.exp(log_weights - log_weights.max())
    totals = {}
    for path, weight in zip(paths, weights / weights.sum(), strict=True):
        for segment in find_segments([tags[state] for state in path], scheme):
            totals[segment] = totals.get(segment, 0.0) + weight
    return totals


@pytest.mark.parametrize("name", TAGS)
@pytest.mark.parametrize("zeros", [0.0, 0.2])
def test_probability_of_every_segment_equals_enumeration(name, zeros):
    tags, rng = TAGS[name], np.random.default_rng(7)
    scheme = "tokens" if name == "tokens" else scheme_of_labels(tags)
    joins = join_tags(tags, scheme)
    field_of = dict(zip(joins.labels, joins.fields.tolist(), strict=True))
    n_checked = 0
    for length in (1, 2, 3, 4, 4, 4):
        batch = random_chain(rng, len(tags), length, zeros)
        if chain_log_partition(batch)[0] == -np.inf:
            continue
        expected = by_enumeration(batch, tags, scheme)
        rows = np.array([[0, start, end, field_of[label]] for start, end, label in expected])
        values = np.array(list(expected.values()))
        np.testing.assert_allclose(np.exp(segment_log_probabilities(batch, rows, joins)), values, atol=1e-12)
        restricted = [restricted_log_probability(batch, row, joins) for row in rows]
        np.testing.assert_allclose(np.exp(restricted), values, atol=1e-12)
        n_checked += values.size
    assert n_checked >= 20


@pytest.mark.parametrize("scale", [300.0, 2000.0])
def test_large_scores_do_not_underflow(scale):
    rng, tags = np.random.default_rng(1), TAGS["bio"]
    joins = join_tags(tags)
    batch = random_chain(rng, len(tags), 4, scale=scale)
    expected = by_enumeration(batch, tags, "conll")
    field_of = dict(zip(joins.labels, joins.fields.tolist(), strict=True))
    rows = np.array([[0, start, end, field_of[label]] for start, end, label in expected])
    np.testing.assert_allclose(
        np.exp(segment_log_probabilities(batch, rows, joins)), list(expected.values()), atol=1e-9
    )


def test_log_probability_of_a_long_unlikely_segment_does_not_underflow():
    n = 2000
    batch = ChainBatch(np.log(np.tile([0.1, 0.9], (n, 1))), [0, n], np.zeros((2, 2)))
    joins = join_tags([0, 1], "runs")
    log_probability = segment_log_probabilities(batch, np.array([[0, 0, n, 0]]), joins)[0]
    assert log_probability == pytest.approx(n * np.log(0.1), rel=1e-12)


@pytest.mark.parametrize("name", TAGS)
def test_pairs_of_tags_determine_the_segments(name):
    """`join_tags` and `find_segments` read tags in the same way."""
    tags, rng = TAGS[name], np.random.default_rng(3)
    scheme = "tokens" if name == "tokens" else scheme_of_labels(tags)
    joins = join_tags(tags, scheme)
    for _ in range(200):
        states = rng.integers(len(tags), size=int(rng.integers(1, 9)))
        begins = [t for t in range(states.size) if t == 0 or not joins.continues[states[t - 1], states[t]]]
        begins = [t for t in begins if joins.fields[states[t]] >= 0]
        assert begins == [start for start, _, _ in find_segments([tags[s] for s in states], scheme)]


# ---------------------------------------------------------------- ChainCRF.predict_segments


def sentences(tags, n=40, seed=0):
    rng = np.random.default_rng(seed)
    y = [rng.choice(tags, size=int(rng.integers(1, 6))).tolist() for _ in range(n)]
    X = [[[f"w{label}" if rng.random() < 0.6 else "w", "bias"] for label in labels] for labels in y]
    return X, y


def labellings(crf, x, **options):
    """Return all labellings of a sequence with their probabilities."""
    ranked = crf.predict_kbest([x], crf.classes_.size ** len(x), **options)[0]
    return [(labels.tolist(), np.exp(value)) for labels, value in ranked]


@pytest.mark.parametrize(
    "settings", [{}, {"decode": "marginals"}, {"forbidden": [(None, "I-x")]}, {"energies": at_most_one("x")}]
)
def test_segments_of_predictions_equal_sums_over_labellings(settings):
    X, y = sentences(["B-x", "I-x", "O"])
    if "forbidden" in settings:
        X, y = zip(*((x, labels) for x, labels in zip(X, y, strict=True) if "I-x" not in labels[:1]), strict=True)
    crf = ChainCRF(l2=0.5, **settings).fit(X, y)
    predicted, segments = crf.predict(X), crf.predict_segments(X)
    for x, labels, row in zip(X, predicted, segments, strict=True):
        assert [segment[:3] for segment in row] == find_segments(labels.tolist())
        possible = labellings(crf, x)
        for segment in row:
            total = sum(p for tags, p in possible if segment[:3] in find_segments(tags))
            assert segment.probability == pytest.approx(total, abs=1e-9)


@pytest.mark.parametrize("decode", ["map", "marginals"])
def test_segments_under_rules_equal_sums_over_valid_labellings(decode):
    X, y = sentences(["a", "b", "c"], n=30)
    crf = ChainCRF(l2=0.5, decode=decode).fit(X, y)
    rules = [once("a"), in_order("b", "c")]
    predicted_without = crf.predict(X)
    possible = [labellings(crf, x) for x in X]
    crf.set_params(require=rules)
    predicted, n_changed = crf.predict(X), 0
    for labels, row, all_labels, before in zip(
        predicted, crf.predict_segments(X), possible, predicted_without, strict=True
    ):
        n_changed += labels.tolist() != before.tolist()
        assert [segment[:3] for segment in row] == find_segments(labels.tolist(), "runs")
        valid = [(tags, p) for tags, p in all_labels if all(rule.check(tags) for rule in rules)]
        total = sum(p for _, p in valid)
        for segment in row:
            mass = sum(p for tags, p in valid if segment[:3] in find_segments(tags, "runs"))
            assert segment.probability == pytest.approx(mass / total, abs=1e-9)
    assert n_changed > 3


def test_rules_that_clash_leave_the_probabilities_of_the_model():
    X, y = sentences(["a", "b"])
    crf = ChainCRF(l2=0.5).fit(X, y).set_params(require=[exactly_once("a"), exactly_once("b")])
    x = [["wa", "bias"]]
    with pytest.warns(UserWarning, match="no labelling of"):
        (segments,) = crf.predict_segments([x])
    assert 0.0 < segments[0].probability < 1.0


def test_probability_is_not_the_product_of_marginals():
    X, y = sentences(["a", "b"], seed=2)
    crf = ChainCRF(l2=0.1).fit(X, y)
    longest = max(range(len(X)), key=lambda i: len(X[i]))
    (marginals,) = crf.predict_marginals([X[longest]])
    (segments,) = crf.predict_segments([X[longest]])
    products = [marginals[s.start : s.end, list(crf.classes_).index(s.label)].prod() for s in segments]
    assert not np.allclose(products, [s.probability for s in segments], atol=1e-3)


def test_segments_under_known_labels():
    X, y = sentences(["a", "b"])
    crf = ChainCRF(l2=0.5).fit(X, y)
    x = [["w", "bias"]] * 3
    (segments,) = crf.predict_segments([x], allowed=[["a", "a", None]])
    possible = labellings(crf, x, allowed=[["a", "a", None]])
    for segment in segments:
        total = sum(p for tags, p in possible if segment[:3] in find_segments(tags, "runs"))
        assert segment.probability == pytest.approx(total, abs=1e-12)


def test_segments_of_other_labels_than_the_predicted():
    X, y = sentences(["a", "b"])
    crf = ChainCRF(l2=0.5).fit(X, y)
    segments = crf.predict_segments(X, labels=y)
    for x, labels, row in zip(X, y, segments, strict=True):
        possible = labellings(crf, x)
        assert [segment[:3] for segment in row] == find_segments(labels, "runs")
        for segment in row:
            total = sum(p for tags, p in possible if segment[:3] in find_segments(tags, "runs"))
            assert segment.probability == pytest.approx(total, abs=1e-9)


def test_empty_sequences_and_no_sequences():
    X, y = sentences(["a", "b"])
    crf = ChainCRF(l2=0.5).fit(X, y)
    assert crf.predict_segments([]) == []
    first, second, third = crf.predict_segments([[], X[0], []])
    assert first == third == []
    assert isinstance(second[0], Segment)


def test_labels_without_outside_tag_and_integer_labels():
    X, y = sentences([3, 7])
    crf = ChainCRF(l2=0.5).fit(X, y)
    assert {segment.label for row in crf.predict_segments(X) for segment in row} <= {3, 7}


def test_labels_that_the_model_does_not_know_are_refused():
    X, y = sentences(["a", "b"])
    crf = ChainCRF(l2=0.5).fit(X, y)
    with pytest.raises(InvalidInputError, match=r"predict_segments: labels\[0\]\[0\] is hidden or not one of the 2"):
        crf.predict_segments([X[0]], labels=[["z"] * len(X[0])])
    with pytest.raises(InvalidInputError, match=r"labels\[0\]\[0\] is hidden"):
        crf.predict_segments([X[0]], labels=[[None] * len(X[0])])
    with pytest.raises(InvalidInputError, match="is not a valid tag"):
        crf.predict_segments([X[0]], scheme="conll")


def test_workers_do_not_change_the_result():
    X, y = sentences(["a", "b"], n=3000)
    crf = ChainCRF(l2=0.5).fit(X, y)
    one = crf.predict_segments(X)
    assert crf.set_params(n_jobs=2).predict_segments(X) == one
