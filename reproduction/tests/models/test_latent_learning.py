"""Comparison of learners with latent variables: small versions of the three experiments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from intarsia.datasets import load_karate_club
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic import EntropyPair, QuadraticPrior, SurrogateByRole
from intarsia_reproduction.experiment import Finding, load_experiment, run_tasks, save_finding
from intarsia_reproduction.experiments import faces, trust
from intarsia_reproduction.experiments.groups import (
    _accuracy_on_generated_club,
    camps,
    from_equal_weights,
    groups,
    karate,
    karate_with_observed_leaders,
    make_fold,
    propagated_karate,
)
from intarsia_reproduction.models.baselines import propagate_labels
from intarsia_reproduction.models.soft_rules.latent_diagnosis import choose_link_weight, compare_steps, learn_last_rule
from intarsia_reproduction.models.soft_rules.latent_learning import (
    _FRACTION,
    METHODS,
    Comparison,
    compare_curves,
    compare_stopped,
    draw_curves,
    method_tasks,
    with_interval,
)
from intarsia_reproduction.models.soft_rules.social_groups import make_social_groups
from intarsia_reproduction.models.soft_rules.trust_rules import triad_features


@pytest.fixture(scope="module")
def small():
    network = make_social_groups(60, 9, 6)
    return Comparison(
        folds=lambda k: make_fold(network, k, 5),
        n_folds=1,
        surrogate=SurrogateByRole(latent=EntropyPair(weight=0.1), labelled=QuadraticPrior(weight=0.5)),
        l2=1e-3,
        step_size=0.5,
        budget=5400,
        score_name="AuPR",
        n_points=8,
    )


def test_all_methods_on_a_small_network(small, tmp_path):
    tasks = method_tasks(small)
    findings = run_tasks(tasks, tmp_path)
    for key in ("primal", "em", "paired_1", "paired_10", "naive"):
        curve = findings[key].arrays["fold_0"]
        assert curve[0, 0] == 0
        assert 5400 <= curve[0, -1] < 5600  # all methods stop soon after the budget is spent
        assert curve[1, -1] < 0.8 * curve[1, 0]
        assert curve[2, -1] > curve[2, 0] + 0.1
        assert (curve[1] >= 0.0).all()  # the clamped problem is a restriction of the free one
        assert min(findings[key].settings["updates"]) >= 50
    first = [findings[key].arrays["fold_0"][1, 0] for key in ("primal", "em", "paired_1", "paired_10", "naive")]
    np.testing.assert_allclose(first, first[0], rtol=1e-3)  # all methods have the same initial weights
    assert findings["bar-paired_1"].values[_FRACTION] < 0.2
    assert set(draw_curves(findings, "groups", "Groups", "AuPR")) == {"groups-objective", "groups-aupr"}


def test_from_equal_weights_all_methods_are_scored(small):
    finding = from_equal_weights(replace(small, budget=300))
    assert set(finding.values) == {f"{name}, AuPR" for key, name in METHODS.items() if key != "naive"}
    assert all(0.0 < value < 1.0 for value in finding.values.values())
    learner, fold = replace(small, budget=300).learner("em"), small.folds(0)
    model = fold.model.with_weights(np.ones(fold.model.n_groups))
    weights = learner.fit(model, fold.labels, trainable=fold.trainable).history["weights"]
    assert finding.values["EM, AuPR"] == pytest.approx(fold.score(weights[-1]), abs=1e-6)


def test_all_methods_are_stopped_by_the_same_held_out_score(small, tmp_path):
    comparison = replace(small, budget=600, has_validation=True)
    task = next(task for task in method_tasks(comparison) if task.key == "em")
    finding = run_tasks([task], tmp_path)["em"]
    (iterations, score), curve = finding.settings["iterations and score where stopped"][0], finding.arrays["fold_0"]
    row = int(np.argmax(curve[0] == iterations))
    assert (curve[0, row], curve[2, row]) == (iterations, score)
    assert finding.values["AuPR, stopped by held-out score"] == pytest.approx(score)


def test_all_methods_are_compared_at_equal_stopping_rules(small, tmp_path):
    comparison = replace(small, has_validation=True)
    for key, shift in (("primal", 0.0), ("em", 0.1), ("paired_1", 0.2), ("paired_10", 0.1), ("naive", 0.4)):
        stopped = [[100, 0.3 + shift], [200, 0.4 + shift], [300, 0.5 + shift]]
        save_finding(key, Finding({}, 3, settings={"iterations and score where stopped": stopped}), tmp_path)
    values = compare_stopped(comparison, tmp_path / "checkpoint").values
    assert values["EM"] == pytest.approx(0.5)
    assert values["naive interleaving, N = 1 minus EM"] == pytest.approx(0.3)
    assert values["naive interleaving, N = 1 minus EM, low"] == pytest.approx(0.3)  # equal on all folds
    assert values["EM, low"] < 0.5 < values["EM, high"]
    assert "stopped" in {task.key for task in method_tasks(comparison)}


def test_a_rule_of_latent_atoms_loses_its_weight(small):
    """With free labels the latent variables agree, so the link rule is violated more with clamped labels."""
    values = learn_last_rule(small, 1.0).values
    assert values["violations, labels clamped"] > values["violations, labels free"]
    assert values["weight of the link rule"] < 0.05
    assert not small.folds(0).trainable[-1]  # so it stays constant in the experiment


def test_steps_are_counted_by_their_outcome(small):
    finding = compare_steps(small, 200)
    arrivals = [run["iterations"] for run in finding.settings["runs"]]
    assert len(arrivals) == finding.n == 18
    assert finding.values["equally fast"] == sum(a == b is not None for a, b in arrivals)
    assert sum(finding.values.values()) == sum(pair != [None, None] for pair in arrivals)


def test_a_comparison_without_results_raises(small, tmp_path):
    bar = [task for task in method_tasks(small) if task.key == "bar-naive"]
    with pytest.raises(
        InvalidInputError, match="needs the results of primal subgradient, EM, naive interleaving, N = 1"
    ):
        run_tasks(bar, tmp_path)


def test_curves_are_compared_at_the_objective_of_the_baselines():
    theirs = np.array([[0.0, 50.0, 100.0], [3.0, 1.0, 2.0], [0.1, 0.8, 0.9]])
    worse = np.array([[0.0, 100.0], [3.0, 2.5], [0.1, 0.2]])
    early = np.array([[0.0, 2.0, 8.0, 40.0], [3.0, 1.01, 0.9, 0.8], [0.1, 0.5, 0.79, 0.2]])
    fraction, gain, later_gain = compare_curves(early, [worse, theirs])
    assert fraction == pytest.approx(2 / 50)
    assert gain == pytest.approx(0.5 - 0.8)
    assert later_gain == pytest.approx(0.79 - 0.8)  # the score after a fifth of 50 iterations
    late = np.array([[0.0, 40.0], [3.0, 1.0], [0.1, 0.85]])
    assert compare_curves(late, [theirs]) == pytest.approx((0.8, 0.05, 0.05))
    slow = np.array([[0.0, 50.0, 200.0], [3.0, 1.005, 1.0], [0.1, 0.8, 0.9]])
    assert compare_curves(late, [slow])[0] == pytest.approx(0.8)  # both sides are timed to 1.01 of the lowest objective
    assert compare_curves(late, [slow, theirs + np.array([[20.0], [0.0], [0.0]])])[0] == pytest.approx(
        0.8
    )  # the faster baseline
    never = np.array([[0.0, 40.0], [3.0, 1.02], [0.1, 0.85]])
    assert compare_curves(never, [theirs]) == (np.inf, -np.inf, -np.inf)


def test_factions_of_the_karate_club_are_recovered(tmp_path):
    finding = karate(tmp_path / "none")
    assert finding.values["accuracy"] >= 0.9
    assert len(finding.settings["wrong members"]) == round((1.0 - finding.values["accuracy"]) * 32)
    assert finding.values["accuracy, low"] < finding.values["accuracy"] < finding.values["accuracy, high"]


def test_link_rule_with_observed_leaders_is_label_propagation(tmp_path):
    finding = karate_with_observed_leaders(tmp_path / "none")
    club = load_karate_club()
    values = np.full((34, 1), np.nan)
    values[[0, 33], 0] = 1.0, 0.0
    expected = propagate_labels(club.edges, values, np.array([0.5]))[1:33, 0]
    np.testing.assert_allclose(finding.arrays["latent"], expected, atol=1e-3)
    assert finding.values == propagated_karate(tmp_path / "none").values


def test_weight_of_links_is_chosen_on_generated_clubs():
    """Without links only the ties to the two leaders are known."""
    accuracies = [_accuracy_on_generated_club(weight, 7) for weight in (1e-3, 1.0)]
    assert all(0.5 <= accuracy <= 1.0 for accuracy in accuracies)
    weight, means = choose_link_weight(lambda weight, seed: 0.5 + (weight == 0.3) + 0.0 * seed)
    assert weight == 0.3
    assert means["0.3"] == pytest.approx(1.5)
    assert choose_link_weight(lambda weight, seed: 0.5)[0] == 0.1


def test_camps_of_a_network_are_recovered(tmp_path):
    network = make_social_groups(150, 18, 10, random_state=3)
    finding = camps(network, tmp_path / "none")
    assert finding.values["accuracy"] >= 0.9 > 0.6 > network.camp.mean() > 0.4  # above the accuracy of the larger camp
    assert finding.n == 150


def test_trust_on_a_generated_network():
    """Latent trustworthiness identifies ten users among forty whom nobody trusts."""
    rng = np.random.default_rng(0)
    pairs = np.unique(rng.integers(0, 40, (400, 2)), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    trusted = (pairs[:, 1] >= 10).astype(float)
    fold = trust.make_fold((pairs, trusted, 40), 0, 4)
    comparison = Comparison(
        folds=lambda k: fold,
        n_folds=1,
        surrogate=trust._SURROGATE,
        l2=trust._L2,
        step_size=trust._STEP,
        budget=200,
        score_name="AuPR",
    )
    fit = comparison.learner("paired_1").fit(fold.model, fold.labels)
    assert fold.score(fit.weights) > 0.9 > (trusted == 0.0).mean() + 0.5


def test_faces_of_two_kinds():
    """Lower halves of faces are predicted if both halves are bright or both are dark."""
    rng = np.random.default_rng(0)

    def pictures(n):
        kind = rng.integers(0, 2, n)[:, None, None]
        return np.clip(0.2 + 0.6 * kind + 0.05 * rng.standard_normal((n, 4, 4)), 0.0, 1.0)

    data = faces.half_faces(pictures(20), np.arange(20) // 2, pictures(10), np.arange(10))
    fold = faces.make_fold(data)
    experiment = Comparison(
        folds=lambda k: fold,
        n_folds=1,
        surrogate=faces.SURROGATE,
        l2=faces._L2,
        step_size=faces._STEP,
        adagrad=True,
        budget=600,
        warm_up=10,
        score_name="variance explained",
    )
    fit = experiment.learner("paired_1").fit(fold.model, fold.labels)
    assert fold.score(fit.history["weights"][0]) < 0.3
    assert fold.score(fit.weights) > 0.6
    low, high = fold.interval(fit.weights)
    assert low < fold.score(fit.weights) < high
    assert len(fold.labels) == 18 * (6 + 8)  # one person with two faces is held out
    assert fold.validation(fit.weights) > 0.6


@pytest.mark.parametrize("name", ["groups", "trust", "faces"])
def test_experiments_load_by_name(name):
    experiment = load_experiment(name, quick=True)
    assert experiment.name == name
    assert {"primal", "em", "paired_1", "paired_10", "naive", "bar-paired_1"} <= {task.key for task in experiment.tasks}
    assert experiment.figures({}) == {}


def test_quick_and_full_have_the_same_rows():
    assert [task.key for task in groups(quick=True).tasks] == [task.key for task in groups().tasks]


def test_the_naive_method_is_paired_dual_at_the_consensus(small):
    learner = replace(small, warm_up=3).learner("naive")
    assert (learner.gradient_at, learner.n_inner_iter, learner.warm_up) == ("consensus", 1, 3)
    assert small.learner("paired_10").n_inner_iter == 10


def test_rules_on_top_of_user_effects_use_what_regression_cannot():
    """Trust is mutual and otherwise random: the regression knows nothing, the rule about opposite pairs everything."""
    rng = np.random.default_rng(0)
    half = np.array([(a, b) for a in range(24) for b in range(a)])
    half = half[rng.permutation(len(half))[:150]]
    value = (rng.random(150) < 0.6).astype(float)
    pairs, trusted = np.concatenate([half, half[:, ::-1]]), np.concatenate([value, value])
    statements = pairs, trusted, 24
    score, chosen = trust.stacked(statements, 0, 8, False, n_updates=50)
    fold = trust._fold_of_pair(len(pairs), 8)
    hidden = fold == 0
    effects = trust.user_effects(pairs[~hidden], trusted[~hidden], 24, pairs[hidden])
    assert score > 0.75 > trust.area_under_precision(trusted[hidden] == 0.0, effects)
    assert chosen["temperature"] in trust._TEMPERATURES
    assert set(chosen) == {"temperature", "updates", "inner score"}


def test_stacked_rows_are_compared_with_the_regression_on_triads(tmp_path):
    tasks = load_experiment("trust").tasks
    task = next(task for task in tasks if task.key == "beside-triads")
    with pytest.raises(InvalidInputError, match="triad-regression and of one of stacked, stacked-latent"):
        task.run(tmp_path / "checkpoint")
    for key, shift in (("triad-regression", 0.0), ("stacked", 0.1), ("stacked-latent", 0.2), ("stacked-triads", -0.1)):
        save_finding(key, Finding({}, 3, settings={"scores": [0.5 + shift, 0.6 + shift, 0.8 + shift]}), tmp_path)
    values = task.run(tmp_path / "checkpoint").values
    assert [values[name] for name in task.paper] == pytest.approx([0.1, 0.2, -0.1])
    assert values["ours: rules on top of user effects and triads, high"] == pytest.approx(-0.1)


def test_regression_on_triads_sees_opposite_statements_and_paths():
    pairs = np.array([[0, 1], [1, 2], [3, 1], [2, 0]])
    features = triad_features(pairs, np.array([1.0, 0.0, 0.0, 1.0]), 4, np.array([[0, 2], [3, 2], [1, 3]]))
    np.testing.assert_array_equal(features[:, :2], [[1, 0], [0, 0], [0, 1]])  # opposites: trust, none, distrust
    for row, kind in ((0, 3), (1, 2)):  # A to B to C: trust and distrust; twice distrust
        assert features[row, kind] == pytest.approx(np.log(2.0))


def test_intervals_over_folds_are_those_of_student():
    by_fold = [0.5, 0.7, 0.6, 0.9]
    figures = with_interval("AuPR", by_fold)
    expected = stats.ttest_1samp(by_fold, 0.0).confidence_interval(0.95)
    assert (figures["AuPR, low"], figures["AuPR, high"]) == pytest.approx((expected.low, expected.high))
    assert with_interval("AuPR", [0.5]) == {"AuPR": 0.5}
    assert with_interval("AuPR", [0.5], (0.4, 0.6)) == {"AuPR": 0.5, "AuPR, low": 0.4, "AuPR, high": 0.6}


def test_smoothness_on_top_of_a_noisy_regression_helps():
    """Lower halves are constant and their noise is not, so smooth predictions explain more than ridge regression."""
    rng = np.random.default_rng(0)

    def pictures(n):
        level = rng.uniform(0.3, 0.7, n)[:, None, None]
        return np.clip(level + 0.15 * rng.standard_normal((n, 4, 4)), 0.0, 1.0)

    data = faces.half_faces(pictures(24), np.arange(24) // 2, pictures(12), np.arange(12))
    weight, column = faces.choose_stack(data, 0, n_updates=40)
    assert weight in faces._STACK_WEIGHTS
    predicted = faces.stack(data, 0, weight, 40)[column]
    finding = faces._finding(data, predicted)
    ridge = faces.regress("ridge", data.above, data.below, data.person, data.test_above)[0]
    gain = finding.values["difference from ridge"]
    assert gain == pytest.approx(data.score(predicted) - data.score(ridge))
    assert finding.values["difference from ridge, low"] <= gain <= finding.values["difference from ridge, high"]
