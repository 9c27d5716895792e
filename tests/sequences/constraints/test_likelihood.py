"""The likelihood under rules, its gradient, and what happens to labels that violate a rule."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

from intarsia import ChainCRF
from intarsia.sequences import count, exactly_once, in_order, once, one_of
from intarsia.sequences.chain_learner import prepare_fit
from intarsia.sequences.maximum_likelihood import ChainRisk

CLASSES = ["a", "b", "c"]
RULES = [once("a"), in_order("a", "b")]


def draw(rng, n=12):
    y, X = [], []
    while len(y) < n:
        labels = rng.choice(CLASSES, int(rng.integers(1, 6))).tolist()
        if all(rule.check(labels) for rule in RULES):
            y.append(labels)
            X.append([[f"w{rng.integers(4)}", label] for label in labels])
    return X, y


def examples_of(X, y, require=RULES, edge_features=None, tokens=None):
    crf = ChainCRF(classes=CLASSES, require=require)
    return prepare_fit(crf, X, y, edge_features, None, CLASSES, None, tokens=tokens).examples


def risk_by_enumeration(crf, X, y, weights):
    """Negative log-likelihood per position among valid labellings, with the plain scores of a model."""
    crf.weights_ = weights
    total = 0.0
    for x, labels in zip(X, y, strict=True):
        every = [list(row) for row in itertools.product(CLASSES, repeat=len(x))]
        logs = crf.sequence_log_probability([x] * len(every), every)
        is_valid = np.array([all(rule.check(row) for rule in RULES) for row in every])
        agrees = np.array([all(a is None or a == b for a, b in zip(labels, row, strict=True)) for row in every])
        total -= np.logaddexp.reduce(logs[is_valid & agrees]) - np.logaddexp.reduce(logs[is_valid])
    return total / sum(label is not None for labels in y for label in labels)


@pytest.mark.parametrize("hidden", [False, True])
def test_value_and_gradient(hidden):
    rng = np.random.default_rng(0)
    X, y = draw(rng)
    if hidden:
        y = [[None if rng.random() < 0.3 else label for label in labels] for labels in y]
        y[0] = [CLASSES[2]] * len(X[0])
    examples = examples_of(X, y)
    assert examples.required is not None
    risk = ChainRisk(examples)
    weights = rng.normal(size=risk.n_weights)
    value, gradient = risk(weights)
    plain = ChainCRF(classes=CLASSES).fit(X, y)
    assert value == pytest.approx(risk_by_enumeration(plain, X, y, weights.copy()), abs=1e-9)
    for i in rng.choice(risk.n_weights, 8, replace=False):
        step = np.zeros(risk.n_weights)
        step[i] = 1e-5
        difference = (risk(weights + step)[0] - risk(weights - step)[0]) / 2e-5
        assert gradient[i] == pytest.approx(difference, abs=1e-7)


def test_edge_features_and_subsets():
    rng = np.random.default_rng(1)
    X, y = draw(rng)
    edges = [rng.normal(size=(len(x) - 1, 2)) for x in X]
    risk = ChainRisk(examples_of(X, y, edge_features=edges))
    weights = rng.normal(size=risk.n_weights)
    value, gradient = risk(weights)
    for i in range(0, risk.n_weights, 7):
        step = np.zeros(risk.n_weights)
        step[i] = 1e-5
        difference = (risk(weights + step)[0] - risk(weights - step)[0]) / 2e-5
        assert gradient[i] == pytest.approx(difference, abs=1e-7)
    halves = [risk.subset(np.arange(0, 6)), risk.subset(np.arange(6, 12))]
    assert sum(half(weights)[0] * half.mass for half in halves) == pytest.approx(value * risk.mass)


def test_a_fit_under_rules_minimizes_the_objective_of_valid_labellings():
    X, y = draw(np.random.default_rng(2), 40)
    plain = ChainCRF(classes=CLASSES, l2=0.1).fit(X, y).set_params(require=RULES)
    strict = ChainCRF(classes=CLASSES, l2=0.1, require=RULES).fit(X, y)
    objectives = [
        0.05 * crf.weights_ @ crf.weights_ - crf.sequence_log_probability(X, y).sum() for crf in (strict, plain)
    ]
    assert objectives[0] < objectives[1] - 1e-3
    assert strict.risk_ * sum(map(len, y)) == pytest.approx(objectives[0], rel=1e-9)


def test_labels_that_violate_a_rule_are_counted_and_fitted_without_rules():
    X, y = draw(np.random.default_rng(3))
    X, y = [*X, [["w1"], ["w2"], ["w1"]]], [*y, ["a", "b", "a"]]
    with pytest.warns(UserWarning, match=r"of 1 of 13 sequences violate .*once\('a'\) is violated by y\[12\]"):
        crf = ChainCRF(classes=CLASSES, require=RULES).fit(X, y)
    assert np.isfinite(crf.weights_).all()
    with pytest.warns(UserWarning, match=r"no valid labelling agrees with y\[12\]"):
        ChainCRF(classes=CLASSES, require=RULES).fit(X, [*y[:-1], ["a", frozenset(["b", "c"]), "a"]])


def test_hopeless_rules_and_too_many_states_only_warn():
    X, y = draw(np.random.default_rng(4))
    with pytest.warns(UserWarning, match="violate require="):
        ChainCRF(classes=CLASSES, require=[exactly_once("a"), count("a", maximum=0)]).fit(X, y)
    names = [f"f{i}" for i in range(12)]
    long_y = [[names[(i + s) % 12] for i in range(12)] for s in range(4)]
    long_X = [[[f"w{i}"] for i in range(12)] for _ in long_y]
    with pytest.warns(UserWarning, match="too many joint states on 4 of 4 sequences"):
        ChainCRF(require=[once(name) for name in names]).fit(long_X, long_y)


def test_rules_that_read_tokens_use_them_in_fit():
    X, y = draw(np.random.default_rng(5))
    tokens = [["x" if label == "a" else "y" for label in labels] for labels in y]
    rules = [one_of("a", ["x", "x x", "x x x", "x x x x", "x x x x x"])]
    assert examples_of(X, y, rules).required is None
    assert examples_of(X, y, rules, tokens=tokens).required is not None


def test_no_warning_for_valid_labels():
    X, y = draw(np.random.default_rng(6))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ChainCRF(classes=CLASSES, require=RULES).fit(X, y)
