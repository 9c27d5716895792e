"""Loss of the marginals of graphs under energies: its gradient in weights, psi and settings, and learning by it."""

from __future__ import annotations

import numpy as np
import pytest
from tests.crf.test_graph_energies import CYCLE, ENERGIES, EXACT, TREE, graphs, leaders, settings
from tests.gradients.projection.projection_models import directional_error

from intarsia import BetheDual, BetheMirrorDescent, JunctionTree, TreeReweighted, load
from intarsia.crf import GraphCRF
from intarsia.crf.graph_energies import labels_of_variables, psi_features
from intarsia.crf.graph_projected_risk import GraphProjectedRisk
from intarsia.energies import ConstantPsi, Count, Hinge, LinearPsi, MeasuredEnergy, Squared
from intarsia.energies.binding.graph_energies import GraphEnergies
from intarsia.learning.projection.through_projection import ThroughProjection

TIGHT = BetheMirrorDescent(max_iter=2000, tol=1e-12)


def make_risk(learner, method, oracle, edges=CYCLE, psi=None, energies=ENERGIES):
    X, y = graphs(edges, n=3)
    crf = GraphCRF(**settings()).fit(X, y)
    examples = crf.examples(X, y)
    maps = [labelled.scores for labelled in examples]
    names = [labels_of_variables(scores, {"node": crf.classes_}) for scores in maps]
    preferences = GraphEnergies.known(energies, [(m.graph, labels) for m, labels in zip(maps, names, strict=True)])
    bound = [preferences.bound(m.graph, labels) for m, labels in zip(maps, names, strict=True)]
    psi = psi or ConstantPsi()
    risk = GraphProjectedRisk(
        learner, preferences, names, examples, bound, preferences.psi, psi, psi_features(psi, maps),
        method.set_params(oracle=oracle), oracle, ridge=0.3, psi_rate=0.1,
    )  # fmt: skip
    return risk, risk.start(np.concatenate([crf.weights_, risk.extras]))


@pytest.mark.parametrize("loss", ["univariate_logistic", "clique_logistic"])
@pytest.mark.parametrize(
    "oracle", [JunctionTree(), TreeReweighted(tol=1e-13, max_iter=5000)], ids=["junction_tree", "tree_reweighted"]
)
def test_gradient_equals_finite_differences(oracle, loss):
    learner = ThroughProjection(loss=loss, learn_also=["limits", "measurements"])
    risk, point = make_risk(learner, TIGHT, oracle, psi=LinearPsi())
    gradient = risk(point)[1]
    assert directional_error(lambda p: risk(p)[0], point, gradient, 1e-3) < 1e-6


def test_truncated_gradient_on_trees():
    method = BetheMirrorDescent(max_iter=4, tol=0.0, step_size=0.5)
    risk, point = make_risk(ThroughProjection(mode="truncated"), method, JunctionTree(), TREE)
    gradient = risk(point)[1]
    assert directional_error(lambda p: risk(p)[0], point, gradient, 1e-5) < 1e-6


def test_hinges_are_learned_through_the_dual(tmp_path):
    X, y = leaders(12, 0)
    hinge = MeasuredEnergy(Count("leader"), Hinge(1.6), psi=1.5)
    learner = ThroughProjection(learn_also=["limits"], max_iter=3).set_params(optimizer__step_size=0.1)
    crf = GraphCRF(inference="tree", learner=EXACT, energies=[hinge], projection=BetheDual(), energy_learner=learner)
    crf.fit(X, y)
    limit = crf.energies_.energies.members[0].judgement.limit
    assert limit < 1.6  # every graph has a single leader
    crf.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    assert again.energies_.energies.members[0].judgement.limit == limit


def test_weights_and_energies_are_learned_together():
    X, y = leaders(30, 0)
    count = MeasuredEnergy(Count("leader"), Squared(1.0), psi=0.5)
    learner = ThroughProjection(max_iter=5, average=False)
    crf = GraphCRF(inference="tree", learner=EXACT, energies=[count], energy_learner=learner)
    crf.fit(X, y, freeze_weights=False)
    risks = crf.energy_history_["best_risk"]
    assert risks.min() < risks[0]
