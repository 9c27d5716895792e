"""random_state takes a seed, a Generator or None in every learner of graphs and in their estimators."""

from __future__ import annotations

import numpy as np
import pytest
from tests.learning.training_sets import noisy_grids

from intarsia import GraphCRF, GridCRF, RiskMinimizer, SampleRank, StructuredPerceptron, StructuredSVM
from intarsia.exceptions import InvalidInputError
from intarsia.learning import Adam, DoublyStochastic

LEARNERS = {
    "risk": lambda state: RiskMinimizer(optimizer=Adam(batch_size=2, max_iter=2, tol=0.0), random_state=state),
    "held out": lambda state: RiskMinimizer(validation_fraction=0.5, random_state=state),
    "perceptron": lambda state: StructuredPerceptron(max_iter=3, random_state=state),
    "svm": lambda state: StructuredSVM(max_iter=3, tol=1.0, random_state=state),
    "ranking": lambda state: SampleRank(max_iter=2, n_proposals=5, random_state=state),
}
pytestmark = pytest.mark.filterwarnings("ignore::intarsia.exceptions.ConvergenceWarning")


def pictures():
    rng = np.random.default_rng(0)
    y = [rng.integers(2, size=(3, 4)) for _ in range(6)]
    return [labels[..., None] + rng.normal(size=(3, 4, 1)) for labels in y], y


@pytest.mark.parametrize("name", LEARNERS)
def test_a_generator_is_drawn_from_and_moves_on(name):
    examples = noisy_grids(6, noise=2.0)

    def fit(state):
        return LEARNERS[name](state).minimize(examples, "icm" if name in ("perceptron", "svm") else "mean_field").point

    rng = np.random.default_rng(5)
    first, second = fit(rng), fit(rng)
    np.testing.assert_array_equal(first, fit(np.random.default_rng(5)))
    assert rng.bit_generator.state != np.random.default_rng(5).bit_generator.state
    if name != "svm":  # its minimum does not depend on the order
        assert (first != second).any()
    assert np.isfinite(fit(None)).all()
    np.testing.assert_array_equal(fit(3), fit(np.int64(3)))


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("bad", [-1, "a", 1.5, np.random.RandomState(0)], ids=["negative", "string", "float", "legacy"])
def test_other_states_are_refused(name, bad):
    learner = LEARNERS[name](bad)
    with pytest.raises(InvalidInputError, match=f"{type(learner).__name__}: random_state must be an integer"):
        learner.minimize(noisy_grids(2), "icm" if name in ("perceptron", "svm") else "mean_field")


@pytest.mark.parametrize("place", ["estimator", "learner"])
def test_estimators_take_generators(place):
    X, y = pictures()

    def fit(rng):
        learner = RiskMinimizer(validation_fraction=0.5, patience=1)
        if place == "learner":
            return GridCRF(learner=learner.set_params(random_state=rng)).fit(X, y)
        return GridCRF(learner=learner, random_state=rng).fit(X, y)

    one, other = fit(np.random.default_rng(1)), fit(np.random.default_rng(1))
    np.testing.assert_array_equal(one.weights_, other.weights_)
    assert one.predict(X)[0].shape == (3, 4)


def test_saving_and_checkpoints_need_a_seed(tmp_path):
    X, y = pictures()
    crf = GridCRF(random_state=np.random.default_rng(0)).fit(X, y)
    with pytest.raises(InvalidInputError, match=r"Generator cannot be saved. Set random_state to an integer"):
        crf.save(tmp_path / "model")
    crf.set_params(random_state=0).save(tmp_path / "model")
    learner = RiskMinimizer(checkpoint=tmp_path / "fit", random_state=np.random.default_rng(0))
    with pytest.raises(InvalidInputError, match="RiskMinimizer: a fit with a checkpoint needs the same seed"):
        GridCRF(learner=learner).fit(X, y)


def test_energies_are_learned_with_a_generator():
    from intarsia.energies import Count, MeasuredEnergy, Squared

    rng = np.random.default_rng(0)
    X = [(rng.normal(size=(4, 2)), [[0, 1], [1, 2]]) for _ in range(4)]
    y = [rng.permutation(["one", "none", "none", "none"]) for _ in X]

    def fit(state):
        learner = DoublyStochastic(max_iter=2, optimizer=Adam(batch_size=1), random_state=state)
        wish = MeasuredEnergy(Count("one"), Squared(1.0), psi=0.3)
        crf = GraphCRF(
            inference="tree", learner=RiskMinimizer(loss="likelihood"), energies=wish, energy_learner=learner
        )
        return crf.fit(X, y).energies_.weights

    np.testing.assert_array_equal(fit(np.random.default_rng(2)), fit(np.random.default_rng(2)))
    with pytest.raises(InvalidInputError, match="DoublyStochastic: random_state must be"):
        fit(np.random.RandomState(0))
