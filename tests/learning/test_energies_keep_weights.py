"""Learning energies does not spoil the weights: they are frozen by default, otherwise the best point is the result."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia import ChainCRF, GraphCRF, RiskMinimizer
from intarsia.energies import Count, MeasuredEnergy, SmoothedHinge, Squared, at_most_one
from intarsia.exceptions import ConvergenceWarning
from intarsia.learning import Adam, DoubleLoop, DoublyStochastic
from intarsia.metrics import segment_scores
from intarsia_reproduction.datasets import load_umass_citations


def features_of(words):
    return [
        [f"word={w.lower()}", f"end={w[-3:]}", f"digit={w[:1].isdigit()}", f"upper={w[:1].isupper()}"] for w in words
    ]


def name_data(n, seed=0):
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        title, first, last = rng.random() < 0.5, f"first{rng.integers(30)}", f"last{rng.integers(30)}"
        X.append([["Dr"], [first], [last]] if title else [[first], [last]])
        y.append(["TITLE", "FIRST", "LAST"] if title else ["FIRST", "LAST"])
    return X, y


def risk_per_position(crf, X, y):
    return -crf.sequence_log_probability(X, y).sum() / sum(map(len, y))


FAR = DoublyStochastic(max_iter=3, optimizer=Adam(step_size=1.0))  # a step that leads away from the optimum


@pytest.mark.parametrize("learner", [FAR, DoubleLoop(max_iter=3)], ids=["doubly_stochastic", "double_loop"])
def test_weights_are_frozen_by_default(learner):
    X, y = name_data(40)
    plain = ChainCRF(l2=0.2).fit(X, y)
    crf = ChainCRF(l2=0.2, energies=[at_most_one("TITLE")], energy_learner=learner).fit(X, y)
    np.testing.assert_array_equal(crf.weights_, plain.weights_)
    assert risk_per_position(crf, X, y) <= risk_per_position(plain, X, y) + 1e-12
    again = crf.fit(*name_data(40, seed=1))  # frozen while strengths are learned, but fitted to the new data
    assert again.weights_.size != plain.weights_.size or np.abs(again.weights_ - plain.weights_).max() > 1e-3


def test_weights_of_graphs_are_frozen_by_default():
    rng = np.random.default_rng(0)
    y = [rng.integers(2, size=4) for _ in range(10)]
    X = [(labels[:, None] + rng.normal(0, 0.5, (4, 1)) - 0.5, [[0, 1], [1, 2], [2, 3]]) for labels in y]
    settings = {"inference": "tree", "learner": RiskMinimizer(loss="likelihood", l2=2.0)}
    few = MeasuredEnergy(Count(1), SmoothedHinge(3.0), psi=0.1)
    crf = GraphCRF(**settings, energies=[few], energy_learner=DoublyStochastic(max_iter=1)).fit(X, y)
    np.testing.assert_array_equal(crf.weights_, GraphCRF(**settings).fit(X, y).weights_)


def one_of_several(n, seed=0):
    """Return sequences in which one position, which noisy features show, is a title."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        labels = np.arange(6) == rng.integers(6)
        X.append(np.column_stack([labels + rng.normal(0, 0.7, 6), np.ones(6)]))
        y.append(np.where(labels, "TITLE", "O").tolist())
    return X, y


ONE_TITLE = MeasuredEnergy(Count("TITLE"), Squared(1.0))


def test_learning_together_keeps_the_best_point_and_warns():
    X, y = one_of_several(60)
    frozen = ChainCRF(l2=0.2, energies=[ONE_TITLE]).fit(X, y)
    assert frozen.strengths_[0].strength > 0.5
    crf = ChainCRF(l2=0.2, energies=[ONE_TITLE])
    with pytest.warns(ConvergenceWarning, match=r"ended with a risk of .* above .* The best point is the result"):
        crf.set_params(energy_learner=DoublyStochastic(max_iter=3, optimizer=Adam(step_size=3.0, decay=0.0))).fit(
            X, y, freeze_weights=False
        )
    assert crf.energy_history_["best_risk"][1:].min() > crf.energy_history_["best_risk"][0]  # held-out risk
    np.testing.assert_array_equal(crf.weights_, frozen.weights_)


@pytest.mark.parametrize("with_development", [False, True])
@pytest.mark.filterwarnings("ignore:.*learning weights and energies together ended")
def test_learning_together_does_not_increase_the_held_out_loss(with_development):
    X, y = one_of_several(60)
    new, truth = one_of_several(200, seed=1)
    development = one_of_several(40, seed=2) if with_development else None
    plain = ChainCRF(l2=0.2).fit(X, y)
    crf = ChainCRF(l2=0.2, energies=[ONE_TITLE]).fit(X, y, freeze_weights=False, development=development)
    risks = crf.energy_history_["best_risk"]
    assert risks.min() <= risks[0]
    assert risk_per_position(crf, new, truth) < risk_per_position(plain, new, truth)


def test_an_energy_that_contradicts_the_labels_ends_at_strength_0():
    X, y = name_data(40)
    never = MeasuredEnergy(Count("TITLE"), SmoothedHinge(0.0), psi=50.0)
    barely = DoublyStochastic(max_iter=1, optimizer=Adam(step_size=1e-6))  # too short a step to reach it
    crf = ChainCRF(l2=0.2, energies=[never], energy_learner=barely).fit(X, y)
    np.testing.assert_array_equal(crf.strengths(X), 0.0)


def test_energies_as_in_the_readme_do_no_harm_on_citations(data):
    train = load_umass_citations(data).train
    X, y = [features_of(words) for words in train.words], train.tags
    learn, held = (X[:80], y[:80]), (X[80:160], y[80:160])
    plain = ChainCRF(l2=0.2).fit(*learn)
    fields = sorted({tag[2:] for tags in learn[1] for tag in tags if "/" not in tag and tag.startswith("B-")})[:3]
    crf = ChainCRF(l2=0.2, energies=[at_most_one(name) for name in fields]).fit(*learn)
    assert risk_per_position(crf, *learn) <= risk_per_position(plain, *learn) + 1e-12
    before, after = (segment_scores(held[1], model.predict(held[0])).f1 for model in (plain, crf))
    n_segments = sum(tag.startswith("B-") for tags in held[1] for tag in tags)
    noise = np.sqrt(before * (1.0 - before) / n_segments)  # standard error of a proportion of so many segments
    assert after >= before - 2.0 * noise
