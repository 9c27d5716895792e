"""Contributions add up to log odds that marginals and labellings give independently; top features; pictures."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console
from scipy import sparse

from intarsia import ChainCRF
from intarsia.energies import at_most_one
from intarsia.exceptions import InvalidInputError
from intarsia.sequences import Segment, count
from intarsia.sequences.confidence.tagged_text import TaggedText

TAGS = ["B-x", "I-x", "O"]


def sentences(n=60, seed=0):
    rng = np.random.default_rng(seed)
    y = [rng.choice(TAGS, size=int(rng.integers(1, 7))).tolist() for _ in range(n)]
    X = [[{f"w{c}" if rng.random() < 0.6 else "w": 1.0, "v": float(rng.normal())} for c in labels] for labels in y]
    return X, y


def legal(y):
    return [["B-x" if label == "I-x" else label for label in labels] for labels in y]


MODELS = {
    "plain": {},
    "without ends": {"ends": False},
    "pairs": {"weights": "observed"},
    "bio": {"scheme": "bio", "classes": TAGS},
    "energies": {"energies": at_most_one("x", strength=1.5)},
}


@pytest.mark.parametrize("name", MODELS)
def test_contributions_add_up_to_the_log_odds_of_the_marginals(name):
    X, y = sentences()
    crf = ChainCRF(l2=0.3, **MODELS[name]).fit(X, legal(y) if name == "bio" else y)
    index = {label: c for c, label in enumerate(crf.classes_.tolist())}
    n_energies = 0
    for x, labels, marginals in zip(X[:20], crf.predict(X[:20]), crf.predict_marginals(X[:20]), strict=True):
        for t in range(len(x)):
            explanation = crf.explain(x, t)
            assert explanation.label == labels[t]
            a, b = index[explanation.label], index[explanation.other]
            expected = np.log(marginals[t, a] / marginals[t, b])
            assert explanation.log_odds == pytest.approx(expected, abs=1e-9)
            assert sum(term.value for term in explanation.contributions) == explanation.log_odds
            assert marginals[t, b] == pytest.approx(np.delete(marginals[t], a).max())
            assert explanation.probability == pytest.approx(marginals[t, a])
            assert explanation.other_probability == pytest.approx(marginals[t, b])
            n_energies += sum(term.kind == "energies" and term.value != 0.0 for term in explanation.contributions)
    assert (n_energies > 0) == (name == "energies")


@pytest.mark.parametrize("name", ["plain", "without ends", "pairs", "energies"])
def test_contributions_add_up_to_the_log_odds_given_the_neighbours(name):
    X, y = sentences()
    crf = ChainCRF(l2=0.3, **MODELS[name]).fit(X, y)
    for x, labels in zip(X[:20], crf.predict(X[:20]), strict=True):
        for t in range(len(x)):
            explanation = crf.explain(x, t, odds="neighbours")
            changed = labels.tolist()
            changed[t] = explanation.other
            log_p = crf.sequence_log_probability([x, x], [labels, changed])
            assert explanation.log_odds == pytest.approx(log_p[0] - log_p[1], abs=1e-9)
            assert explanation.probability == pytest.approx(1 / (1 + np.exp(log_p[1] - log_p[0])))


def test_feature_terms_are_values_times_weights():
    X, y = sentences()
    crf = ChainCRF(l2=0.3).fit(X, y)
    x = next(x for x in X if len(x) > 2)
    explanation = crf.explain(x, 1, label="O", other="B-x")
    terms = {term.name: term.value for term in explanation.contributions if term.kind == "feature"}
    weights, classes = crf.state_weights_, crf.classes_.tolist()
    for name, value in x[1].items():
        row = weights[crf.vocabulary_.index(name)]
        assert terms[name] == pytest.approx(value * (row[classes.index("O")] - row[classes.index("B-x")]))
    assert explanation.total("feature") == pytest.approx(sum(terms.values()))
    reverse = crf.explain(x, 1, label="B-x", other="O")
    assert reverse.log_odds == pytest.approx(-explanation.log_odds)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_arrays_and_edge_features(kind):
    rng = np.random.default_rng(0)
    X = [kind(rng.normal(size=(5, 3))) for _ in range(20)]
    E = [rng.normal(size=(4, 2)) for _ in range(20)]
    y = [rng.integers(2, size=5) for _ in range(20)]
    crf = ChainCRF(l2=0.3).fit(X, y, edge_features=E)
    (marginals,) = crf.predict_marginals([X[0]], edge_features=[E[0]])
    for t in range(5):
        explanation = crf.explain(X[0], t, label=1, other=0, edge_features=E[0])
        assert explanation.log_odds == pytest.approx(np.log(marginals[t, 1] / marginals[t, 0]), abs=1e-9)
        assert {"feature 0", "feature 1", "feature 2"} <= {term.name for term in explanation.contributions}
    assert next(name for name, _ in crf.top_features(0, n=1)).startswith("feature ")


def test_rules_are_not_terms():
    X, y = sentences()
    crf = ChainCRF(l2=0.3).fit(X, y)
    x = next(x for x in X if len(x) > 3)
    without = [crf.explain(x, t, label="O", other="B-x").log_odds for t in range(len(x))]
    crf.set_params(require=[count("x", maximum=0)])
    for t in range(len(x)):
        explanation = crf.explain(x, t, other="B-x")
        assert explanation.label == "O"
        assert explanation.log_odds == pytest.approx(without[t])
    assert min(without) < 0.0


def test_impossible_label_has_infinite_odds():
    X, y = sentences()
    crf = ChainCRF(l2=0.3, scheme="bio", classes=TAGS).fit(X, legal(y))
    explanation = crf.explain(X[0], 0, other="I-x")
    assert explanation.log_odds == np.inf
    assert explanation.other_probability == 0.0
    assert "+inf" in str(explanation)


def test_top_features_are_the_largest_weights():
    X, y = sentences()
    crf = ChainCRF(l2=0.3).fit(X, y)
    column = crf.state_weights_[:, 0]
    everything = crf.top_features("B-x")
    assert [weight for _, weight in everything] == sorted(column[column != 0], reverse=True)
    (best,) = crf.top_features("B-x", n=1)
    assert abs(best[1]) == np.abs(column).max()


def test_refusals():
    X, y = sentences()
    crf = ChainCRF(l2=0.3).fit(X, y)
    n = len(X[0])
    assert crf.explain(X[0], -1).position == n - 1
    with pytest.raises(InvalidInputError, match=r"ChainCRF\.explain: position"):
        crf.explain(X[0], n)
    with pytest.raises(InvalidInputError, match="x has no positions"):
        crf.explain([], 0)
    with pytest.raises(InvalidInputError, match="other='z' is not a label"):
        crf.explain(X[0], 0, other="z")
    with pytest.raises(InvalidInputError, match="Pass another label"):
        crf.explain(X[0], 0, label="O", other="O")
    with pytest.raises(InvalidInputError, match="odds='x'"):
        crf.explain(X[0], 0, odds="x")
    with pytest.raises(InvalidInputError, match="label='z' is not a label"):
        crf.top_features("z")


# ---------------------------------------------------------------- pictures


def rendered(value):
    stream = io.StringIO()
    Console(file=stream, width=120).print(value)
    return stream.getvalue()


def test_explanation_is_shown_as_text_html_and_in_terminals():
    X, y = sentences()
    crf = ChainCRF(l2=0.3).fit([[{"<b>": 1.0, **token} for token in x] for x in X], y)
    explanation = crf.explain([{"<b>": 1.0}, {"wO": 1.0}], 0)
    assert "&lt;b&gt;" in explanation._repr_html_()
    assert "<b>" not in explanation._repr_html_().replace("<body>", "")
    for text in (str(explanation), rendered(explanation)):
        assert "feature: <b>" in text
        assert "log odds" in text
    assert explanation.as_dict()["contributions"][0]["kind"] in ("feature", "before", "after", "start", "end")


def test_tagged_text_shows_words_labels_and_confidences():
    text = TaggedText(["12", "<i>", "Street", ","], [Segment(0, 1, "no", 0.987), Segment(1, 3, "street", 0.5)])
    assert str(text) == "[12 | no 0.99] [<i> Street | street 0.50] ,"
    page = text._repr_html_()
    assert "&lt;i&gt; Street" in page
    assert "probability 0.987" in page
    assert "12[no 0.99] <i> Street[street 0.50] ," in rendered(text)


def test_tagged_text_of_a_model():
    X, y = sentences()
    crf = ChainCRF(l2=0.3).fit(X, y)
    text = crf.tagged_text(X[0])
    assert text.words == [str(t) for t in range(len(X[0]))]
    assert text.segments == crf.predict_segments(X[:1])[0]
    assert str(crf.tagged_text([])) == ""
    with pytest.raises(InvalidInputError, match="words has 9 words"):
        crf.tagged_text(X[0], ["w"] * 9)
