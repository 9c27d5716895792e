"""The estimator: learning, decoding, scores, files and errors."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia.exceptions import InvalidInputError, TooLargeError
from intarsia.metrics import clustering_scores
from intarsia_reproduction.coreference import (
    CoreferenceResolver,
    Document,
    Mention,
    load_tales,
    score_clusters,
    score_documents,
)

TALES = load_tales()
TRAIN, TEST = TALES[:-3], TALES[-3:]


@pytest.fixture(scope="module")
def resolver() -> CoreferenceResolver:
    return CoreferenceResolver().fit(TRAIN)


def test_it_learns_more_than_matching_words(resolver):
    heads = [np.unique([text.words(m)[-1].lower() for m in text.mentions], return_inverse=True)[1] for text in TEST]
    assert resolver.score(TEST) > score_clusters(TEST, heads).conll + 0.1


def test_decoding_was_chosen_by_cross_validation(resolver):
    scores = resolver.decoding_scores_
    assert len(scores) == 10
    assert scores[resolver.threshold_, resolver.conflict_cost_] == max(scores.values())
    fixed = CoreferenceResolver(threshold=0.4, conflict_cost=0.1).fit(TRAIN)
    assert (fixed.threshold_, fixed.conflict_cost_, fixed.decoding_scores_) == (0.4, 0.1, {})
    few = CoreferenceResolver().fit(TRAIN[:2])
    assert (few.threshold_, few.conflict_cost_, few.decoding_scores_) == (0.35, 0.3, {})


def test_score_is_the_conll_score_over_all_mentions(resolver):
    clusters = resolver.predict(TEST)
    true = [(k, entity) for k, text in enumerate(TEST) for entity in text.entities]
    predicted = [(k, int(label)) for k, labels in enumerate(clusters) for label in labels]
    scores = clustering_scores(true, predicted)
    assert resolver.score(TEST) == scores.conll == resolver.evaluate(TEST).conll
    assert scores.conll == pytest.approx((scores.muc.f1 + scores.b_cubed.f1 + scores.ceaf_e.f1) / 3)
    predicted_texts = [text.with_entities(labels.tolist()) for text, labels in zip(TEST, clusters, strict=True)]
    assert score_documents(TEST, predicted_texts[::-1]).conll == pytest.approx(scores.conll)


@pytest.mark.parametrize("decode", ["correlation", "best_antecedent"])
def test_order_of_mentions_does_not_matter(resolver, decode):
    model = CoreferenceResolver(decode=decode).fit(TRAIN)
    text = TEST[0]
    order = np.random.default_rng(0).permutation(text.n_mentions)
    shuffled = Document(text.name, text.sentences, [text.mentions[k] for k in order])
    labels, other = model.predict([text, shuffled])
    assert clustering_scores(labels[order], other).conll == 1.0
    assert other[0] == 0  # numbered by first occurrence in the list
    marginals, other_marginals = model.predict_marginals([text, shuffled])
    np.testing.assert_allclose(marginals[np.ix_(order, order)], other_marginals)
    antecedents, other_antecedents = model.predict_antecedents([text, shuffled])
    for k, mention in enumerate(order):
        expected = antecedents[mention]
        assert other_antecedents[k] == (-1 if expected < 0 else np.flatnonzero(order == expected)[0])


def test_antecedents_come_before_and_marginals_are_probabilities(resolver):
    text = TEST[1]
    (antecedents,) = resolver.predict_antecedents([text])
    place = [(m.sentence, m.start, -m.end) for m in text.mentions]
    assert all(a < 0 or place[a] < place[k] for k, a in enumerate(antecedents))
    (marginals,) = resolver.predict_marginals([text])
    np.testing.assert_allclose(marginals, marginals.T)
    np.testing.assert_allclose(np.diag(marginals), 1.0)
    assert marginals.min() >= 0.0
    assert marginals.max() <= 1.0 + 1e-12


def test_labels_can_be_passed_as_y(resolver):
    plain = [text.with_entities(None) for text in TRAIN]
    labels = [list(text.entities) for text in TRAIN]
    same = CoreferenceResolver().fit(plain, labels)
    assert same.weights_ == resolver.weights_
    with pytest.raises(InvalidInputError, match=r"CoreferenceResolver.fit: document 'the lost ring' has no entities"):
        CoreferenceResolver().fit(plain)
    with pytest.raises(InvalidInputError, match="9 documents, but y has 8 items"):
        CoreferenceResolver().fit(plain, labels[:-1])


def test_hidden_entities_are_left_out():
    text = TRAIN[0]
    hidden = text.with_entities([None if k % 3 == 0 else e for k, e in enumerate(text.entities)])
    model = CoreferenceResolver(threshold=0.35, conflict_cost=0.0).fit([hidden, *TRAIN[1:]])
    assert 0.0 < model.score([hidden]) <= 1.0


def test_short_documents(resolver):
    none, one = Document("none", [], []), Document("one", [["Ann", "left"]], [Mention(0, 0, 0)])
    labels = resolver.predict([none, one, TEST[0]])
    assert [len(group) for group in labels] == [0, 1, TEST[0].n_mentions]
    assert resolver.predict([]) == []
    assert resolver.predict_marginals([one])[0].tolist() == [[1.0]]
    assert resolver.predict_antecedents([none, one])[1].tolist() == [-1]
    resolver_with_short = CoreferenceResolver().fit([none.with_entities([]), one.with_entities([0]), *TRAIN])
    assert resolver_with_short.weights_


def test_warm_start():
    again = CoreferenceResolver(warm_start=True, threshold=0.3, conflict_cost=0.0).fit(TRAIN)
    n_iter = again.n_iter_
    assert again.fit(TRAIN).n_iter_ < n_iter


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"decode": "greedy"}, "decode='greedy'"),
        ({"threshold": 1.5}, "threshold"),
        ({"threshold": "best"}, "threshold='best'"),
        ({"conflict_cost": -1.0}, "conflict_cost"),
        ({"max_distance": 0}, "max_distance"),
        ({"l2": 0.0}, "l2"),
        ({"false_new_cost": np.inf}, "false_new_cost"),
    ],
)
def test_invalid_settings(settings, message):
    with pytest.raises(InvalidInputError, match=f"CoreferenceResolver.fit: {message}"):
        CoreferenceResolver(**settings).fit(TRAIN)


def test_invalid_input(resolver, monkeypatch):
    for argument, message in (
        (TEST[0], "got one Document"),
        ("text", "item 0 is of type str, expected a Document"),
        (3, "expected a list of documents, got int"),
    ):
        with pytest.raises(InvalidInputError, match=f"CoreferenceResolver.predict: .*{message}"):
            resolver.predict(argument)
    with pytest.raises(InvalidInputError, match="there are no documents"):
        CoreferenceResolver().fit([])
    with pytest.raises(InvalidInputError, match="no document has two mentions"):
        CoreferenceResolver().fit([Document("a", [["Ann"]], [Mention(0, 0, 0)], [0])])
    monkeypatch.setattr("intarsia_reproduction.coreference.resolver._MAX_MENTIONS", 5)
    with pytest.raises(TooLargeError, match="mentions; at most 5 fit"):
        resolver.predict(TEST)


def test_changed_settings_are_detected():
    model = CoreferenceResolver(threshold=0.3, conflict_cost=0.0).fit(TRAIN[:2])
    with pytest.raises(InvalidInputError, match="max_distance was changed after fit"):
        model.set_params(max_distance=3).predict(TEST)


def test_scores_need_equal_documents():
    with pytest.raises(InvalidInputError, match="score_clusters: there are 3 documents, but clusters of 1"):
        score_clusters(TEST, [[0]])
    with pytest.raises(InvalidInputError, match="score_clusters: document 'the thief' has"):
        score_clusters(TEST[:1], [[0]])
    with pytest.raises(
        InvalidInputError, match="score_documents: document 'the shepherd', part 0, is in one file only"
    ):
        score_documents(TEST, TEST[:2])
