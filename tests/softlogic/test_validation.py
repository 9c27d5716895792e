"""Early stopping of `SoftLogic.fit` on held-out targets."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from intarsia.exceptions import InvalidInputError
from intarsia.softlogic import PairedDual, Program, ProjectedSubgradient, SoftLogic
from intarsia.softlogic.validation import hold_out_labels, scoring_function


def votes(n, flipped=0):
    """Return a program in which people vote as their tags say, except the first `flipped`, who do the opposite."""
    people = [f"p{k}" for k in range(n)]
    truth = [float((k % 2) ^ (k < flipped)) for k in range(n)]
    return (
        Program()
        .predicate("Tag", 2)
        .predicate("Votes", 1)
        .rule("1: Tag(A, 'red') -> Votes(A) ^2")
        .rule("1: Tag(A, 'red') -> !Votes(A) ^2")
        .rule("1: Tag(A, 'blue') -> !Votes(A) ^2")
        .observe("Tag", [(p, "red" if k % 2 else "blue") for k, p in enumerate(people)])
        .target("Votes", people)
        .truth("Votes", list(zip(people, truth, strict=True)))
    )


def test_validation_program_decides_when_learning_stops():
    """In the other data nobody follows the tags, so the initial weights are better than any learned ones."""
    learner = PairedDual(optimizer=ProjectedSubgradient(max_iter=50))
    model = SoftLogic(votes(10), learner=learner)
    learned = model.fit().weights_
    opposite = SoftLogic(votes(10), learner=learner).fit(validation=votes(10, flipped=10))
    np.testing.assert_array_equal(opposite.weights_, [1.0, 1.0, 1.0])
    assert opposite.history_["validation"][0] == np.nanmax(opposite.history_["validation"])
    same = SoftLogic(votes(10), learner=learner).fit(validation=votes(12))
    assert learned[0] > 1.2 > learned[1]
    assert same.weights_[0] > same.weights_[1]


def test_validation_score_is_that_of_infer():
    """The history has the score of `infer` with the recorded weights."""
    program, held_out = votes(10, 3), votes(8, 1)
    optimizer = ProjectedSubgradient(max_iter=5, tol=0.0)
    model = SoftLogic(program, learner=PairedDual(optimizer=optimizer)).fit(validation=held_out, scoring="auroc")
    truth = np.array([float((k % 2) ^ (k < 1)) for k in range(8)])
    for weights, score in zip(model.history_["weights"], model.history_["validation"], strict=True):
        model.weights_ = weights
        values = model.infer(held_out)
        x = np.array([values.value("Votes", f"p{k}") for k in range(8)])
        assert score == pytest.approx(roc_auc_score(truth, x.round(6)), abs=1e-6)


def test_fraction_holds_out_targets_that_learning_does_not_see():
    program = votes(20)
    seen = []
    model = SoftLogic(program).fit(validation=0.25, scoring=lambda truth, values: seen.append(truth.size) or 0.0)
    assert set(seen) == {5}
    assert model.learning_result_.latent.size == 5
    np.testing.assert_array_equal(model.weights_, model.history_["weights"][0])  # of equal scores the first
    again = SoftLogic(votes(20)).fit(validation=0.25)
    np.testing.assert_array_equal(again.weights_, SoftLogic(votes(20)).fit(validation=0.25).weights_)


def test_saved_model_keeps_the_validation_scores(tmp_path):
    model = SoftLogic(votes(20), learner=PairedDual(optimizer=ProjectedSubgradient(max_iter=80, tol=0.0)))
    model.fit(validation=0.2)
    model.save(tmp_path / "votes.npz")
    loaded = SoftLogic.load(tmp_path / "votes.npz")
    np.testing.assert_array_equal(loaded.history_["validation"], model.history_["validation"])
    np.testing.assert_array_equal(loaded.weights_, model.weights_)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"validation": 1.5}, r"validation must be .*\(0.*1\).*1\.5"),
        ({"validation": 0}, "validation must be"),
        ({"validation": True}, "validation must be a Program or a fraction.*got bool"),
        ({"validation": "tenth"}, "validation must be a Program or a fraction.*got str.*0.1"),
        ({"validation": 0.1, "scoring": "aupr"}, "scoring='aupr' is not known.*Did you mean 'auprc'"),
        ({"validation": 0.05, "scoring": "auroc"}, "scoring='auroc' needs true and false targets.*Hold out more"),
        ({"validation": Program().predicate("A", 1)}, "the rules of validation differ from those of the model"),
        ({"validation": votes(3).without_data()}, "no target has a true value to validate on.*Program.truth"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*has no groundings:UserWarning")
def test_invalid_validation_raises(settings, message):
    model = SoftLogic(votes(20))
    with pytest.raises(InvalidInputError, match=message):
        model.fit(**settings)
    assert not hasattr(model, "weights_")


def test_learners_that_need_all_labels_can_validate_on_another_program_only():
    with pytest.raises(InvalidInputError, match=r"HingePseudoLikelihood needs the labels of all.*Pass a Program"):
        SoftLogic(votes(20), learner="pseudo_likelihood").fit(validation=0.1)
    model = SoftLogic(votes(20), learner="pseudo_likelihood").fit(validation=votes(6))
    assert "validation" in model.history_


def test_a_single_labelled_target_cannot_be_held_out():
    with pytest.raises(InvalidInputError, match="needs at least two targets with a true value, got 1"):
        hold_out_labels(np.array([1.0, np.nan]), 0.5)


def test_scores_are_higher_for_better_values():
    truth = np.array([1.0, 0.0, 1.0, 0.0])
    for name in ("neg_mean_squared_error", "auroc", "auprc", "auprc_negative"):
        score = scoring_function(name)
        assert score(truth, np.array([0.9, 0.1, 0.8, 0.2])) > score(truth, np.array([0.4, 0.6, 0.8, 0.2]))
