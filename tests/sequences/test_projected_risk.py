"""Loss of the marginals of sequences under energies: its gradient in weights, psi and settings of the energies."""

from __future__ import annotations

import numpy as np
import pytest
from tests.gradients.projection.projection_models import directional_error
from tests.sequences.test_surrogate_risk import NAMES, SEGMENTS, make_examples

from intarsia import ChainCRF, load
from intarsia.energies import (
    ConstantPsi,
    Count,
    DistanceToSet,
    FunctionEnergy,
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
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.inference.projection.bethe_mirror_descent import BetheMirrorDescent
from intarsia.inference.projection.bethe_rda import BetheRDA
from intarsia.learning.projection.through_projection import ThroughProjection
from intarsia.losses import CliqueLogistic
from intarsia.sequences.projected_risk import ProjectedChainRisk


def count_network(mu, graph, parameters):
    counts = mu[: int(graph.variable_ptr[-1])].reshape(-1, 3).sum(axis=0)
    return float(np.logaddexp(0.0, counts @ parameters[:3] + parameters[3]))


def _unit(mu, graph, parameters):
    n = int(graph.variable_ptr[-1])
    counts = mu[:n].reshape(-1, 3).sum(axis=0)
    return n, counts, 1.0 / (1.0 + np.exp(-(counts @ parameters[:3] + parameters[3])))


def network_slope(mu, graph, parameters):
    n, _, unit = _unit(mu, graph, parameters)
    slope = np.zeros(mu.size)
    slope[:n] = np.tile(unit * parameters[:3], n // 3)
    return slope


def network_hessian(mu, graph, v, parameters):
    n, _, unit = _unit(mu, graph, parameters)
    inner = unit * (1 - unit) * float(v[:n].reshape(-1, 3).sum(axis=0) @ parameters[:3])
    product = np.zeros(mu.size)
    product[:n] = np.tile(inner * parameters[:3], n // 3)
    return product


def network_parameters(mu, graph, v, parameters):
    n, counts, unit = _unit(mu, graph, parameters)
    change = v[:n].reshape(-1, 3).sum(axis=0)
    inner = unit * (1 - unit) * float(change @ parameters[:3])
    return np.append(unit * change + inner * counts, inner)


NETWORK = FunctionEnergy(
    count_network, network_slope, convex=True, floor=0.0, reads="variables", hessian_vector=network_hessian,
    parameters=[0.5, -1.0, 0.3, 0.1], parameter_derivative=network_parameters, psi=0.8,
)  # fmt: skip
ENERGIES = {
    "segments": SEGMENTS,
    "combination": [
        MeasuredEnergy(Count("B-x") - 0.5 * Count("B-y"), Huber(0.4, width=0.8), psi=0.9),
        MeasuredEnergy(Transitions("O", "B-y") + Count("O"), SoftInterval(0.5, 1.5, width=0.7), psi=0.6),
    ],
    "words": [DistanceToSet([["O", "B-x"], ["B-y", "O", "B-y"]], psi=0.5), *SEGMENTS],
    "network": [NETWORK],
    "hinge": [MeasuredEnergy(Count("B-x"), Hinge(0.6), psi=0.3)],
}
ALL = ("limits", "measurements", "parameters")
TIGHT = BetheMirrorDescent(tol=1e-13, max_iter=3000)


def make_risk(kind, learner, method=TIGHT, psi=None, fixed=False, **settings):
    examples = make_examples(**settings)
    weights = 0.5 * np.random.default_rng(2).normal(size=examples.layout.n_weights)
    risk = ProjectedChainRisk(
        learner, examples, ChainEnergies(ENERGIES[kind], NAMES, 4), psi or ConstantPsi(), method,
        folds=[(np.arange(len(examples)), weights)] if fixed else None, ridge=0.2, psi_ridge=0.4, psi_rate=0.1,
    )  # fmt: skip
    start = np.concatenate([weights, risk.extras]) if not fixed else risk.extras
    point = risk.start(start)
    return risk, point + 0.05 * np.abs(np.random.default_rng(3).normal(size=point.size))


def check(risk, point, step=1e-4):
    _, gradient = risk(point)
    assert directional_error(lambda p: risk(p)[0], point, gradient, step, n_directions=3) < 1e-6


@pytest.mark.parametrize("loss", ["univariate_logistic", "clique_logistic", "smoothed_classification_error"])
@pytest.mark.parametrize("kind", ["segments", "combination"])
def test_gradient_of_all_sequences_together(kind, loss):
    check(*make_risk(kind, ThroughProjection(loss=loss, learn_also=ALL)))


@pytest.mark.parametrize("kind", ["words", "network"])
def test_gradient_of_energies_that_are_not_sums_of_penalties(kind):
    check(*make_risk(kind, ThroughProjection(learn_also=ALL)))


@pytest.mark.parametrize("kind", ["combination", "network", "hinge"])
def test_truncated_gradient(kind):
    check(*make_risk(kind, ThroughProjection(mode="truncated", learn_also=ALL), BetheRDA(max_iter=4, tol=0.0)), 1e-5)


@pytest.mark.parametrize(("hidden", "edges"), [(True, False), (False, True)])
@pytest.mark.parametrize("mode", ["implicit", "truncated"])
def test_gradient_with_hidden_labels_and_features_of_steps(mode, hidden, edges):
    method = TIGHT if mode == "implicit" else BetheRDA(max_iter=3, tol=0.0)
    learner = ThroughProjection(mode=mode, loss="clique_logistic", learn_also=["limits"])
    check(*make_risk("combination", learner, method, hidden=hidden, edges=edges), 1e-5)


def test_gradient_in_psi_as_a_function_of_the_input_with_frozen_weights():
    check(*make_risk("segments", ThroughProjection(learn_also=["limits"]), psi=LinearPsi(), fixed=True))


def test_both_ways_to_differentiate_agree():
    risk, point = make_risk("combination", ThroughProjection(learn_also=ALL))
    n = risk.n_weights - risk.extras.size
    energies, strengths = risk.energies_with(point[n : risk.n_weights]), risk.strengths(risk.split(point)[1], 0, 5)
    other = np.zeros(risk.n_weights)
    batch = risk._batch(point[:n], 0, 5)
    total, by_psi = risk._pull_one_by_one(batch, energies, strengths, 0, 5, other)
    together = np.zeros(risk.n_weights)
    total_together, by_psi_together = risk.add_up(point[: risk.n_weights], strengths, None, 0, 5, together)
    assert total == pytest.approx(total_together, abs=1e-9)
    np.testing.assert_allclose(other, together, atol=1e-7)
    np.testing.assert_allclose(by_psi, by_psi_together, atol=1e-7)


def test_chunks_are_smaller_for_many_labels():
    risk, point = make_risk("segments", ThroughProjection())
    assert risk.chunk_sizes() == (16384, 16384)
    expected = risk(point)
    risk = risk.uncut()
    risk.chunk_sizes = lambda: (3, 3)
    value, gradient = risk(point)
    assert len([chunk for block in risk.parts() for chunk in block]) > 3
    assert value == pytest.approx(expected[0], abs=1e-9)
    np.testing.assert_allclose(gradient, expected[1], atol=1e-8)


def test_settings_by_name_and_nested_settings(tmp_path):
    X, y = make_words(15)
    energy = MeasuredEnergy(Count("b") - 0.1 * Count("a"), SmoothedHinge(1.5), psi=0.5)
    crf = ChainCRF(energies=energy, energy_learner="through_projection")
    crf.set_params(energy_learner=ThroughProjection(loss=CliqueLogistic(), learn_also="measurements", max_iter=1))
    crf.set_params(energy_learner__mode="truncated").fit(X, y)
    assert crf.energies_.parameters.shape == (2,)
    crf.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    assert again.energy_learner.mode == "truncated"
    np.testing.assert_array_equal(again.energies_.parameters, crf.energies_.parameters)
    with pytest.raises(InvalidInputError, match="mode"):
        crf.set_params(energy_learner__mode="exact").fit(X, y)


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
def test_a_limit_is_learned(tmp_path, freeze_weights):
    X, y = make_words()
    energy = MeasuredEnergy(Count("b"), Squared(1.2), psi=1.0)
    learner = ThroughProjection(learn_also=["limits"], max_iter=12, select=False).set_params(optimizer__step_size=0.2)
    crf = ChainCRF(energies=[energy], energy_learner=learner)
    crf.fit(X, y, freeze_weights=freeze_weights)
    learned = crf.energies_.energies.members[0].judgement.target
    assert abs(learned - 2.0) < 0.2  # every sequence has two
    test_X, test_y = make_words(200, seed=1)
    plain = ChainCRF().fit(X, y)
    assert crf.score(test_X, test_y) > plain.score(test_X, test_y)
    crf.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    assert again.energies_.energies.members[0].judgement.target == learned
    pairs = zip(again.predict(test_X), crf.predict(test_X), strict=True)
    assert all(np.array_equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("freeze_weights", [None, False])
def test_the_limit_of_an_energy_of_fixed_strength_is_learned(freeze_weights):
    X, y = make_words(40)
    energy = MeasuredEnergy(Count("b"), Squared(1.2), strength=1.0)
    learner = ThroughProjection(learn_also=["limits"], max_iter=8).set_params(optimizer__step_size=0.2)
    crf = ChainCRF(energies=[energy], energy_learner=learner).fit(X, y, freeze_weights=freeze_weights)
    target = crf.energies_.energies.members[0].judgement.target
    # Weights that are learned too can make up for part of a wrong target.
    assert abs(target - 2.0) < 0.3 if freeze_weights is None else target > 1.3
    assert crf.strengths_[0].strength == 1.0
    assert crf.strengths_[0].note == "fixed"


def test_an_energy_network_is_learned():
    X, y = make_words(30)

    def function(mu, graph, parameters):
        return 0.5 * (mu[: int(graph.variable_ptr[-1])].reshape(-1, 2)[:, 1].sum() - parameters[0]) ** 2

    def derivative(mu, graph, parameters):
        n, slope = int(graph.variable_ptr[-1]), np.zeros(mu.size)
        slope[1:n:2] = mu[1:n:2].sum() - parameters[0]
        return slope

    def hessian_vector(mu, graph, v, parameters):
        n, product = int(graph.variable_ptr[-1]), np.zeros(mu.size)
        product[1:n:2] = v[1:n:2].sum()
        return product

    def parameter_derivative(mu, graph, v, parameters):
        return np.array([-v[1 : int(graph.variable_ptr[-1]) : 2].sum()])

    energy = FunctionEnergy(
        function, derivative, convex=True, floor=0.0, lipschitz=9.0, reads="variables", hessian_vector=hessian_vector,
        parameters=[1.2], parameter_derivative=parameter_derivative,
    )  # fmt: skip
    learner = ThroughProjection(learn_also=["parameters"], max_iter=5, select=False).set_params(
        optimizer__step_size=0.2
    )
    projection = BetheMirrorDescent(tol=1e-3)
    crf = ChainCRF(energies=[energy], energy_learner=learner, projection=projection).fit(X, y)
    assert abs(crf.energies_.parameters[0] - 2.0) < 0.3


def test_lbfgs_minimizes_the_risk():
    X, y = make_words(40)
    energy = MeasuredEnergy(Count("b"), SmoothedHinge(1.5), psi=0.5)
    learner = ThroughProjection(optimizer="lbfgs", max_iter=10, select=False)
    crf = ChainCRF(energies=[energy], energy_learner=learner).fit(X, y)
    risks = crf.energy_history_["best_risk"]
    assert risks[-1] < risks[0]


def test_invalid_settings_are_named():
    X, y = make_words(5)
    energies = [MeasuredEnergy(Count("b"), Squared(2.0))]
    with pytest.raises(NotSupportedError, match="loss=Likelihood is not a loss of marginals"):
        ChainCRF(energies=energies, energy_learner=ThroughProjection(loss="likelihood")).fit(X, y)
    with pytest.raises(InvalidInputError, match="learn_also must be among 'limits'"):
        ChainCRF(energies=energies, energy_learner=ThroughProjection(learn_also=["limit"])).fit(X, y)
    with pytest.raises(InvalidInputError, match="mode"):
        ChainCRF(energies=energies, energy_learner=ThroughProjection(mode="exact")).fit(X, y)
