"""RiskMinimizer: stages, weights of examples, early stopping, and progress during a fit."""

from __future__ import annotations

import io
import time
import warnings
from itertools import pairwise

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from tests.learning.training_sets import noisy_grids

from intarsia._core.progress import fit_progress
from intarsia.exceptions import ConvergenceWarning, InvalidInputError
from intarsia.gradients.truncated import TruncatedGradient
from intarsia.graph import grid_graph
from intarsia.inference import Status
from intarsia.learning import LBFGS, LEARNERS, SGD, Incremental, RiskMinimizer, example
from intarsia.learning.risk import Risk
from intarsia.models import LinearScores


def quick(**settings):
    return RiskMinimizer(**{"gradient": TruncatedGradient(n_iter=3), "l2": 0.5} | settings)


def test_a_weight_of_two_equals_passing_the_example_twice():
    """Two of three examples doubled by weight, compared with doubled in the list; the penalty is not doubled."""
    one = noisy_grids(3)
    heavy = [example(e.scores, e.labels.y, weight=w) for e, w in zip(one, (2.0, 1.0, 2.0), strict=True)]
    at = np.random.default_rng(0).normal(size=8)
    weighted, listed = (quick(l2=18.0).risk(e, "mean_field")(at) for e in (heavy, [*one, one[0], one[2]]))
    assert weighted[0] == pytest.approx(listed[0], rel=1e-12)
    np.testing.assert_allclose(weighted[1], listed[1], rtol=1e-10)
    silent = [*one, example(noisy_grids(1, seed=9)[0].scores, np.zeros(12, int), weight=0.0)]
    np.testing.assert_allclose(quick().risk(silent, "mean_field")(at)[1], quick().risk(one, "mean_field")(at)[1])


def test_variables_of_weight_zero_equal_hidden_ones():
    one = noisy_grids(1)[0]
    counts = np.arange(12) % 3 != 0
    at = np.random.default_rng(0).normal(size=8)
    weighted, hidden = (
        quick(loss="univariate_logistic").risk([e], "mean_field")(at)
        for e in (
            example(one.scores, one.labels.y, variable_weights=counts.astype(float)),
            example(one.scores, np.where(counts, one.labels.y, -1)),
        )
    )
    assert weighted[0] == pytest.approx(hidden[0], rel=1e-12)
    np.testing.assert_allclose(weighted[1], hidden[1], rtol=1e-10)
    with pytest.raises(InvalidInputError, match=r"variable_weights has shape \(3,\), but the graph has 12"):
        example(one.scores, one.labels.y, variable_weights=np.ones(3))
    with pytest.raises(InvalidInputError, match="example: weight must be"):
        example(one.scores, one.labels.y, weight=-1.0)
    with pytest.raises(InvalidInputError, match="weight of 0"):
        quick().minimize(noisy_grids(2, weight=0.0), "mean_field")


def test_a_subset_has_its_own_mean_and_the_same_penalty():
    examples = noisy_grids(5)
    whole = quick(loss="contrastive_divergence", gradient="auto", optimizer="sgd", l2=18.0).risk(examples, "mean_field")
    at = np.random.default_rng(0).normal(size=8)
    parts = [whole.subset([i])(at) for i in range(5)]
    np.testing.assert_allclose(np.mean([g for _, g in parts], axis=0), whole(at)[1])  # seeds belong to the examples
    assert np.mean([v for v, _ in parts]) == pytest.approx(whole(at)[0])


def test_stages_are_nested_and_the_last_has_all_examples(monkeypatch):
    seen = []
    whole = Risk.__call__

    def noted(risk, weights):
        seen.append({id(e) for e in risk.examples})
        return whole(risk, weights)

    monkeypatch.setattr(Risk, "__call__", noted)
    learner = quick(schedule=Incremental(n_start=2, max_iter=60), optimizer=LBFGS(tol=1e-2))
    examples = noisy_grids(7)
    result = learner.minimize(examples, "tree_reweighted")
    sizes = [len(s) for s in seen]
    assert sizes == sorted(sizes)
    assert sorted(set(sizes)) == [2, 4, 7]
    assert all(a <= b for a, b in pairwise(seen))
    assert sorted(set(result.history["n_examples"])) == [2.0, 4.0, 7.0]
    assert (np.diff(result.history["evaluations"]) >= 1).all()
    assert result.history["evaluations"][-1] == len(seen)
    assert result.value == pytest.approx(quick().risk(examples, "tree_reweighted")(result.point)[0])


def test_only_the_last_stage_warns():
    """All examples are equal, so that the second stage completes the unfinished first stage."""
    one = noisy_grids(1)
    learner = quick(l2=1.2, optimizer=LBFGS(tol=1e-4))
    enough = learner.minimize(one, "tree_reweighted").n_iter
    learner.set_params(l2=4.8, schedule=Incremental(n_start=2, max_iter=enough - 1))  # the same risk per variable
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = learner.minimize(one * 4, "tree_reweighted")
    assert result.status is Status.CONVERGED
    assert (result.history["n_examples"] == 2.0).sum() == enough  # the start and all its iterations
    with pytest.warns(ConvergenceWarning, match="Raise max_iter of the schedule"):
        learner.set_params(optimizer__tol=1e-12).minimize(one * 4, "tree_reweighted")
    few = quick(schedule="incremental").minimize(noisy_grids(3), "tree_reweighted")
    np.testing.assert_array_equal(few.point, quick().minimize(noisy_grids(3), "tree_reweighted").point)
    assert set(few.history["n_examples"]) == {3.0}


@pytest.mark.parametrize(
    "optimizer", [LBFGS(tol=1e-8), SGD(step_size=0.5, max_iter=200, tol=1e-8)], ids=["lbfgs", "sgd"]
)
def test_early_stopping_returns_the_best_validation_weights(optimizer):
    """Without a penalty the fit to few noisy examples soon overfits."""
    train, others = noisy_grids(2, noise=2.0), noisy_grids(8, noise=2.0, seed=5)
    learner = quick(l2=0.0, optimizer=optimizer, patience=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = learner.minimize(train, "tree_reweighted", validation=others)
    judged = learner.risk(others, "tree_reweighted")
    rows = result.history["validation_risk"]
    assert rows.size == result.n_iter + 1 == result.history["risk"].size
    assert judged(result.point)[0] == rows.min()
    assert result.value == learner.risk(train, "tree_reweighted")(result.point)[0]
    assert result.status is Status.STALLED
    assert rows.argmin() == rows.size - 1 - 4 < rows.size - 1


def test_a_fraction_is_held_out():
    examples = noisy_grids(10, noise=2.0)
    learner = quick(l2=0.0, validation_fraction=0.3, patience=2, random_state=3)
    result = learner.minimize(examples, "tree_reweighted")
    again = learner.minimize(examples, "tree_reweighted")
    np.testing.assert_array_equal(result.point, again.point)
    at_zero = quick(l2=0.0).risk(examples, "tree_reweighted")(np.zeros(8))[0]
    assert result.history["validation_risk"][0] == pytest.approx(
        at_zero
    )  # uniform marginals, whichever examples are held out
    with pytest.raises(InvalidInputError, match="needs at least two examples, got 1"):
        quick(validation_fraction=0.5).minimize(examples[:1], "tree_reweighted")
    blank = example(examples[0].scores, np.full(12, -1))
    with pytest.raises(InvalidInputError, match="labels of the 1 validation examples are hidden"):
        quick().minimize(examples, "tree_reweighted", validation=[blank])
    with pytest.raises(InvalidInputError, match="validation_fraction must be"):
        quick(validation_fraction=1.0).minimize(examples, "tree_reweighted")
    with pytest.raises(InvalidInputError, match="patience must be"):
        quick(patience=0).minimize(examples, "tree_reweighted")
    with pytest.raises(InvalidInputError, match="Incremental: n_start"):
        quick(schedule=Incremental(n_start=0)).minimize(examples, "tree_reweighted")
    with pytest.raises(InvalidInputError, match="schedule='doubling' is not known"):
        quick(schedule="doubling").minimize(examples, "tree_reweighted")


def test_progress_is_shown_on_a_terminal_only(monkeypatch, capsys):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    with fit_progress("fitting", True) as report:
        assert report is None
    monkeypatch.setattr("sys.stderr", screen)
    with fit_progress("fitting", False) as report:
        assert report is None
    with fit_progress("fitting", True) as report:
        report(0, 2.0, 0.5, 0.0)
        time.sleep(0.25)
        report(10, 1.25, 0.01, 0.5)
        time.sleep(0.25)
    assert "iteration 10, risk 1.25, gradient 1.0e-02, 0.3 s, at most 0.3 s left" in screen.getvalue()
    quick(verbose=True).minimize(noisy_grids(2), "tree_reweighted", title="my fit")
    assert "my fit" in screen.getvalue()
    assert capsys.readouterr().out == ""


def test_names_stand_for_learners():
    assert isinstance(LEARNERS.resolve("risk_minimizer", {"l2": 0.5}), RiskMinimizer)
    assert clone(RiskMinimizer(schedule=Incremental(n_start=5))).schedule.n_start == 5
    assert LEARNERS.names[0] == "risk_minimizer"
    with pytest.raises(InvalidInputError, match="learner='risk_minimiser' is not known"):
        LEARNERS.resolve("risk_minimiser")


def test_a_truncated_likelihood_above_one_warns():
    """Without a sweep, log Z ignores the pairs, so that weights in favour of the labelled pairs cost nothing."""
    learner = RiskMinimizer(
        loss="likelihood", gradient=TruncatedGradient(n_iter=0), l2=4e-3, optimizer=LBFGS(max_iter=20, tol=1e3)
    )
    with pytest.warns(ConvergenceWarning, match="truncated likelihood exceeds 1"):
        learner.set_params(optimizer__tol=1e-1).minimize(noisy_grids(3), "mean_field")


def test_badly_scaled_features_warn():
    scores = LinearScores(grid_graph(2, 2, 2), 1e30 * np.array([[1.0], [1.0], [-1.0], [2.0]]))
    with pytest.warns(ConvergenceWarning, match="No step lowers the risk any further. Scale the features to"):
        quick(l2=0.4, precondition=False).minimize([example(scores, [0, 1, 0, 1])], "tree_reweighted")


def test_settings_of_a_part_that_is_a_name():
    learner = RiskMinimizer().set_params(optimizer__max_iter=7, gradient__n_iter=3, schedule="incremental")
    assert (learner.optimizer.max_iter, learner.gradient.n_iter) == (7, 3)
    assert learner.set_params(schedule__n_start=5).schedule.n_start == 5
    assert learner.set_params(optimizer__max_iter=9, optimizer="adam").optimizer.max_iter == 9
    with pytest.raises(ValueError, match="Invalid parameter 'zeal'"):
        RiskMinimizer().set_params(optimizer__zeal=1)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # so are workers of xdist
def test_processes_instead_of_threads():
    """All data go to another process and back; not with loky, whose workers take long to start."""
    risk = quick(loss="piecewise_likelihood", gradient="auto", n_jobs=2).risk(noisy_grids(2), "mean_field")
    at = np.random.default_rng(0).normal(size=8)
    threads = risk(at)
    with parallel_config("multiprocessing"):
        processes = risk(at)
    assert processes[0] == threads[0]
    assert np.array_equal(processes[1], threads[1])
