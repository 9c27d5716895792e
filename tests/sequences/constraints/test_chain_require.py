"""`ChainCRF(require=...)`: every kind of prediction is that of the valid labellings, against enumeration."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

import intarsia
from intarsia import ChainCRF
from intarsia.energies import (
    Count,
    Hinge,
    MeasuredEnergy,
    Squared,
    Transitions,
    at_most_one,
    balanced,
    before,
    exactly_one,
    implies,
)
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.graph import chain_graph
from intarsia.sequences import each_side, exactly_once, fixed, in_order, needs, not_together, once, one_of, when
from intarsia.sequences.constraints.automaton import Automaton
from intarsia.sequences.constraints.penalized import EnergyPenalties
from intarsia.sequences.constraints.rule import Rule
from intarsia.sequences.constraints.solver import Chain, solve
from intarsia.sequences.constraints.trellis import Automata

CLASSES = ["a", "b", "c"]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = [rng.choice(CLASSES, int(rng.integers(1, 6))).tolist() for _ in range(60)]
    X = [[[f"w{rng.integers(6)}", f"{label}?{rng.random() < 0.5}"] for label in labels] for labels in y]
    return X, y


@pytest.fixture(scope="module")
def plain(data):
    return ChainCRF(l2=1.0, classes=CLASSES).fit(*data)


def valid_labellings(crf, x, rules, tokens=None):
    """Log-probabilities of all valid labellings of a sequence, by enumeration with the plain model."""
    labellings = [list(labels) for labels in itertools.product(CLASSES, repeat=len(x))]
    logs = crf.sequence_log_probability([x] * len(labellings), labellings)
    keep = [i for i, labels in enumerate(labellings) if all(rule.check(labels, tokens) for rule in rules)]
    logs = logs[keep]
    return [labellings[i] for i in keep], logs - np.logaddexp.reduce(logs)


RULES = [once("a"), in_order("a", "b"), needs("c", "a")]


def test_all_predictions_are_those_of_the_valid_labellings(data, plain):
    crf = ChainCRF(l2=1.0, classes=CLASSES, require=RULES)
    crf.__dict__.update({key: value for key, value in vars(plain).items() if key.endswith("_")})
    crf._note_settings()
    X = data[0][:30]
    best, marginals = crf.predict(X), crf.predict_marginals(X)
    ranked, samples = crf.predict_kbest(X, 3), crf.sample(X, 300, random_state=0)
    for i, x in enumerate(X):
        labellings, logs = valid_labellings(plain, x, RULES)
        order = np.argsort(-logs)
        assert logs[labellings.index(best[i].tolist())] == pytest.approx(logs.max())
        expected = np.array([[np.exp(logs[[y[t] == c for y in labellings]]).sum() for c in CLASSES]
                             for t in range(len(x))])  # fmt: skip
        np.testing.assert_allclose(marginals[i], expected, atol=1e-9)
        np.testing.assert_allclose([value for _, value in ranked[i]], logs[order[:3]], atol=1e-9)
        assert all(rule.check(labels.tolist()) for labels, _ in ranked[i] for rule in RULES)
        assert all(rule.check(labels.tolist()) for labels in samples[i] for rule in RULES)
        assert crf.predict_single(x) == best[i].tolist()
    everything = [["a"] * len(x) for x in X]
    assert np.isfinite(crf.sequence_log_probability(X, everything)).all()
    assert crf.sequence_log_probability([X[0]], [[None] * len(X[0])]) == pytest.approx(0.0, abs=1e-9)


def test_decoding_by_marginals_obeys_single_positions(data, plain):
    crf = ChainCRF(classes=CLASSES, decode="marginals").fit(*data).set_params(require=[fixed({0: "b"})])
    assert all(labels[0] == "b" for labels in crf.predict(data[0]))


def test_rules_may_be_changed_after_fit(data):
    crf = ChainCRF(classes=CLASSES).fit(*data)
    crf.set_params(require=[not_together("a", "b")])
    assert all(not_together("a", "b").check(labels.tolist()) for labels in crf.predict(data[0]))
    crf.set_params(require=[once("c")])
    assert all(once("c").check(labels.tolist()) for labels in crf.predict(data[0]))


def test_rules_are_saved_without_pickle(data, tmp_path):
    rules = [once("a"), each_side(exactly_once("b"), "a"), when("a", needs("b", "c")), fixed({-1: "c", 0: "a"}),
             one_of("c", ["x y", "z"], ignore_case=False), in_order("a", "b"), not_together("a", "c")]  # fmt: skip
    crf = ChainCRF(classes=CLASSES).fit(*data).set_params(require=rules)
    crf.save(tmp_path / "model.npz")
    loaded = intarsia.load(tmp_path / "model.npz")
    assert loaded.require == rules
    assert list(map(repr, loaded.require)) == list(map(repr, rules))


def test_rules_with_tokens(data):
    X = data[0][:20]
    tokens = [["x" if t % 2 else "y" for t in range(len(x))] for x in X]
    rule = one_of("a", ["x"])
    crf = ChainCRF(classes=CLASSES).fit(*data).set_params(require=[rule])
    for labels, words in zip(crf.predict(X, tokens=tokens), tokens, strict=True):
        assert rule.check(labels.tolist(), words)
    assert rule.check(crf.predict_single(X[0], tokens=tokens[0]), tokens[0])
    with pytest.raises(InvalidInputError, match=r"reads the tokens, but there are none\. Pass tokens="):
        crf.predict(X)
    with pytest.raises(InvalidInputError, match=r"tokens\[0\] has"):
        crf.predict([X[0]], tokens=[[*tokens[0], "x"]])
    with pytest.raises(InvalidInputError, match="X has 20 sequences, but tokens has 1"):
        crf.predict(X, tokens=["x"])


def test_clashing_rules_give_the_least_violation_and_a_warning(data):
    rules = [fixed({0: "a"}), fixed({0: "b"}), once("c")]
    crf = ChainCRF(classes=CLASSES).fit(*data).set_params(require=rules)
    with pytest.warns(UserWarning, match=r"X\[0\] satisfies fixed\({0: 'a'}\) and fixed\({0: 'b'}\)"):
        labels = crf.predict(data[0][:3])
    assert all(sequence[0] in "ab" and once("c").check(sequence.tolist()) for sequence in labels)
    with pytest.warns(UserWarning, match="The rules are ignored there"):
        crf.predict_marginals(data[0][:3])


def test_rules_combine_with_allowed_and_empty_sequences(data):
    crf = ChainCRF(classes=CLASSES).fit(*data).set_params(require=once("a"))
    x = [["w1"]] * 3
    labels = crf.predict([x, []], allowed=[["a", None, "a"], None])
    assert labels[0].tolist() == ["a", "a", "a"]
    assert labels[1].tolist() == []
    assert crf.predict([[]])[0].tolist() == []


def test_invalid_rules_are_refused(data):
    with pytest.raises(InvalidInputError, match=r"require\[0\] is a str, not a rule"):
        ChainCRF(require=["a"]).fit(*data)
    with pytest.raises(InvalidInputError, match="a soft rule, but require takes hard rules"):
        ChainCRF(require=[once("a", soft=True)]).fit(*data)
    with pytest.raises(InvalidInputError, match="require must be a list of rules"):
        ChainCRF(require="a").fit(*data)
    with pytest.warns(UserWarning, match="no label has it"):
        ChainCRF(require=[once("zip")]).fit(*data)


class NoTwo(Rule):
    """User rule: the label a never occurs twice in a row."""

    soft, strength = False, None

    def check(self, labels, tokens=None):
        return all(pair != ("a", "a") for pair in itertools.pairwise(labels))

    def automaton(self, classes, length, tokens=None):
        symbols = np.array([[int(label == "a") for label in classes]])
        return Automaton(np.array([[0, 1], [0, -1]]), np.zeros(2), symbols)


def test_rules_of_users(data):
    crf = ChainCRF(classes=CLASSES).fit(*data).set_params(require=[NoTwo()])
    assert all(NoTwo().check(labels.tolist()) for labels in crf.predict(data[0]))
    assert any(not NoTwo().check(labels) for labels in data[1])


def test_n_jobs_has_no_effect(data):
    valid = [i for i, labels in enumerate(data[1]) if all(rule.check(labels) for rule in RULES)]
    X, y = ([sequences[i] for i in valid] for sequences in data)
    first = ChainCRF(classes=CLASSES, require=RULES, n_jobs=1).fit(X, y)
    second = ChainCRF(classes=CLASSES, require=RULES, n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(first.weights_, second.weights_)
    X = data[0] * 40
    assert all((a == b).all() for a, b in zip(first.predict(X), second.predict(X), strict=True))


ENERGIES = [
    at_most_one("a", width=0.0),
    at_most_one("a"),
    exactly_one("b"),
    before("a", "b"),
    implies("a", "c"),
    balanced("a", "b", width=0.0),
    MeasuredEnergy(Count("a") - 0.5 * Count("b"), Squared(1.0)),
    MeasuredEnergy(Transitions("a", "b") + Count("c"), Hinge(1.0)),
]


@pytest.mark.parametrize("names", [["a", "b", "c"], ["B-a", "I-a", "B-b", "c"]], ids=["raw", "bio"])
def test_penalized_map_against_enumeration(names):
    rng = np.random.default_rng(0)
    k = len(names)
    for _ in range(150):
        length = int(rng.integers(1, 5))
        nodes, table = rng.normal(size=(length, k)), rng.normal(size=(k, k))
        energies = [ENERGIES[i] for i in rng.choice(len(ENERGIES), 3, replace=False)]
        if "B-a" in names:
            energies = [e for e in energies if "Count" not in repr(e)] or [ENERGIES[0]]
        psi = rng.exponential(size=len(energies))
        solution = solve(Chain(nodes, table[None]), Automata(EnergyPenalties(energies, names).automata(length, psi)))
        graph = chain_graph(length, k)
        best = -np.inf
        for y in itertools.product(range(k), repeat=length):
            score = nodes[np.arange(length), list(y)].sum() + sum(table[a, b] for a, b in itertools.pairwise(y))
            for energy, weight in zip(energies, psi, strict=True):
                if length == 1 and "Transitions" in repr(energy):  # the graph has no table then
                    score -= weight * max(0.0, float(y[0] == 2) - 1.0)
                else:
                    score -= weight * energy.bind(graph, names).value(graph.statistics(list(y)))
            best = max(best, score)
        assert solution.scores[0] == pytest.approx(best, abs=1e-9), (energies, length)


def test_penalized_map_of_a_model(data):
    X, y = data
    crf = ChainCRF(classes=CLASSES, energies=at_most_one("a", strength=50.0, width=0.0)).fit(X, y)
    crf.set_params(decode="penalized_map")
    strict = ChainCRF(classes=CLASSES).fit(X, y).set_params(require=[once("a")])
    for a, b in zip(crf.predict(X), strict.predict(X), strict=True):
        assert a.tolist() == b.tolist()
    with pytest.raises(NotSupportedError, match="needs energies"):
        ChainCRF(classes=CLASSES, decode="penalized_map").fit(X, y).predict(X)


def test_no_warning_without_reason(data):
    crf = ChainCRF(classes=CLASSES).fit(*data).set_params(require=RULES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        crf.predict(data[0])
        crf.predict_marginals(data[0])


def test_single_sequences_and_batches_have_equal_labels(data):
    X, y = data
    plain = ChainCRF(classes=CLASSES).fit(X, y)
    crf = ChainCRF(classes=CLASSES).fit(X, y).set_params(require=[once("a"), once("b")])
    everything_allowed = [[None] * len(x) for x in X]  # takes the general path
    expected = [labels.tolist() for labels in crf.predict(X, allowed=everything_allowed)]
    assert [labels.tolist() for labels in crf.predict(X)] == expected
    assert [crf.predict_single(x) for x in X] == expected
    assert [labels.tolist() for labels in plain.predict(X)] != expected
