"""Loss of the marginals of sequences under energies: its gradient in weights and psi, fits, and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from tests.gradients.projection.projection_models import directional_error
from tests.sequences.test_surrogate_risk import NAMES, SEGMENTS, make_examples

from intarsia import ChainCRF, GraphCRF
from intarsia.energies import (
    ConstantPsi,
    Count,
    DistanceToSet,
    Hinge,
    Huber,
    LinearPsi,
    MeasuredEnergy,
    SmoothedHinge,
    SoftInterval,
    Squared,
    Transitions,
)
from intarsia.energies.binding.batch_energies import ChainEnergies
from intarsia.exceptions import NotSupportedError
from intarsia.inference.projection.bethe_mirror_descent import BetheMirrorDescent
from intarsia.losses.registry import LOSSES
from intarsia.sequences.energy_fit import SurrogateRisk
from intarsia_reproduction.through_projection.learner import ProjectedChainRisk, ThroughProjection

ENERGIES = {
    "segments": SEGMENTS,
    "combination": [
        MeasuredEnergy(Count("B-x") - 0.5 * Count("B-y"), Huber(0.4, width=0.8), psi=0.9),
        MeasuredEnergy(Transitions("O", "B-y") + Count("O"), SoftInterval(0.5, 1.5, width=0.7), psi=0.6),
    ],
    "words": [DistanceToSet([["O", "B-x"], ["B-y", "O", "B-y"]], psi=0.5), *SEGMENTS],
}
TIGHT = BetheMirrorDescent(tol=1e-13, max_iter=3000)


def make_risk(kind, loss="univariate_logistic", psi=None, fixed=False, **settings):
    examples = make_examples(**settings)
    weights = 0.5 * np.random.default_rng(2).normal(size=examples.layout.n_weights)
    surrogate = SurrogateRisk(
        examples, ChainEnergies(ENERGIES[kind], NAMES, 4), psi or ConstantPsi(), TIGHT,
        folds=[(np.arange(len(examples)), weights)] if fixed else None, ridge=0.2, psi_ridge=0.4, psi_rate=0.1,
    )  # fmt: skip
    risk = ProjectedChainRisk(surrogate, LOSSES.resolve(loss))
    point = risk.start(weights)
    return risk, point + 0.05 * np.abs(np.random.default_rng(3).normal(size=point.size))


def check(risk, point):
    _, gradient = risk(point)
    assert directional_error(lambda p: risk(p)[0], point, gradient, 1e-4, n_directions=3) < 1e-6


@pytest.mark.parametrize("loss", ["univariate_logistic", "clique_logistic", "smoothed_classification_error"])
@pytest.mark.parametrize("kind", ["segments", "combination", "words"])
def test_gradient_equals_finite_differences(kind, loss):
    check(*make_risk(kind, loss))


@pytest.mark.parametrize(("hidden", "edges"), [(True, False), (False, True)])
def test_gradient_with_hidden_labels_and_features_of_steps(hidden, edges):
    check(*make_risk("combination", "clique_logistic", hidden=hidden, edges=edges))


def test_gradient_in_psi_as_a_function_of_the_input_with_frozen_weights():
    check(*make_risk("segments", psi=LinearPsi(), fixed=True))


def test_a_subset_has_the_loss_of_the_projection():
    risk, point = make_risk("segments")
    parts = [risk.subset([i]) for i in range(len(risk))]
    assert all(isinstance(part, ProjectedChainRisk) for part in parts)
    masses = np.array([part.mass for part in parts])
    gradients = np.array([part(point)[1][: risk.n_weights] for part in parts])
    np.testing.assert_allclose(masses @ gradients / risk.mass, risk(point)[1][: risk.n_weights], atol=1e-9)


def make_words(n=60, seed=0):
    """Return sequences in which the label b occurs exactly twice, with noisy features."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        labels = np.zeros(6, dtype=int)
        labels[rng.choice(6, 2, replace=False)] = 1
        y.append(["ab"[k] for k in labels])
        X.append(labels[:, None] + 1.0 * rng.normal(size=(6, 1)))
    return X, y


@pytest.mark.parametrize("freeze_weights", [None, False])
def test_psi_is_learned(freeze_weights):
    X, y = make_words()
    learner = ThroughProjection(max_iter=6, select=False).set_params(optimizer__step_size=0.2)
    crf = ChainCRF(energies=[MeasuredEnergy(Count("b"), Squared(2.0), psi=0.1)], energy_learner=learner)
    crf.fit(X, y, freeze_weights=freeze_weights)
    test_X, test_y = make_words(200, seed=1)
    assert crf.strengths_[0].strength > 0.2
    assert crf.score(test_X, test_y) > ChainCRF().fit(X, y).score(test_X, test_y)
    risks = crf.energy_history_["best_risk"]
    assert min(risks) < risks[0]


def test_refusals_are_named():
    X, y = make_words(5)
    energies = [MeasuredEnergy(Count("b"), Squared(2.0))]
    with pytest.raises(NotSupportedError, match="needs a loss of marginals and sequences, got Likelihood"):
        ChainCRF(energies=energies, energy_learner=ThroughProjection(loss="likelihood")).fit(X, y)
    graphs = [(x, [[t, t + 1] for t in range(5)]) for x in X]
    with pytest.raises(NotSupportedError, match="and GraphSurrogateRisk"):
        GraphCRF(energies=energies, energy_learner=ThroughProjection()).fit(graphs, y)
    kinks = [MeasuredEnergy(Count("b"), Hinge(1.0), psi=0.5)]
    with pytest.raises(NotSupportedError, match="Use SmoothedHinge"):
        ChainCRF(energies=kinks, energy_learner=ThroughProjection(select=False)).fit(X, y)
    ChainCRF(energies=[MeasuredEnergy(Count("b"), SmoothedHinge(1.0))], energy_learner=ThroughProjection()).fit(X, y)
