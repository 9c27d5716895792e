"""Graphs with global preferences: against enumeration and an independent solver, finite differences, and learning."""

from __future__ import annotations

import numpy as np
import pytest
from tests.core.test_worker_threads import PickledCalls
from tests.oracles.enumeration import enumerate_model
from tests.oracles.finite_differences import central_differences, relative_error
from tests.oracles.global_energy import solve_smooth

from intarsia import BetheMirrorDescent, JunctionTree, Tree, TreeReweighted
from intarsia.crf import Factors, GraphCRF, GraphInstance
from intarsia.crf import graph_crf as graph_crf_module
from intarsia.crf.graph_energies import labels_of_variables, psi_features
from intarsia.crf.graph_surrogate_risk import GraphSurrogateRisk
from intarsia.energies import (
    Absolute,
    ConstantPsi,
    Count,
    DistanceToSet,
    Hinge,
    LinearPsi,
    MeasuredEnergy,
    SmoothedHinge,
    Squared,
    Transitions,
)
from intarsia.exceptions import ConvergenceWarning, InvalidInputError, NotSupportedError
from intarsia.learning import Adam, RiskMinimizer
from intarsia.learning.energy_learner import DoubleLoop, DoublyStochastic

LABELS = ["low", "mid", "high"]
CYCLE, TREE = [[0, 1], [1, 2], [2, 0], [2, 3]], [[0, 1], [1, 2], [1, 3]]
EXACT = RiskMinimizer(loss="likelihood", l2=1.2)
CLOSE = BetheMirrorDescent(max_iter=300, tol=1e-9)
ONE_HIGH = MeasuredEnergy(Count("high"), SmoothedHinge(1.0), psi=2.0)
ENERGIES = [
    ONE_HIGH,
    MeasuredEnergy(Count("low") - Count("mid"), Squared(0.0), psi=0.7),
    MeasuredEnergy(Transitions("low", "high"), Squared(0.5), psi=0.5),
]


def graphs(edges, n=6, seed=0):
    """Make graphs whose labels depend on noisy features; some are hidden or sets."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        features = np.column_stack([rng.normal(size=(4, 2)), np.ones(4)])
        labels = np.digitize(features[:, 0] + 0.5 * rng.normal(size=4), [-0.5, 0.5])
        told = [LABELS[k] for k in labels]
        told[int(rng.integers(4))] = None
        told[0] = frozenset(["low", "mid"]) if rng.random() < 0.3 and labels[0] < 2 else told[0]
        X.append((features, edges))
        y.append(told)
    return X, y


def settings(**more):
    return {"learner": EXACT, "inference": "junction_tree", "classes": LABELS, **more}


def made_risk(crf, X, y, energies, oracle, psi="constant", fixed=None):
    crf.fit(X, y)
    examples = crf.examples(X, y)
    maps = [one.scores for one in examples]
    bound = [sum(energies[1:], energies[0]).bind(m.graph, labels_of_variables(m, {"node": crf.classes_})) for m in maps]
    psi = LinearPsi() if psi == "linear" else ConstantPsi()
    features = psi_features(psi, maps)
    return GraphSurrogateRisk(
        examples, bound, bound[0].psi, psi, features, CLOSE, oracle, fixed=fixed, ridge=0.2, psi_ridge=0.4
    )


@pytest.mark.parametrize("edges", [CYCLE, TREE], ids=["cycle", "tree"])
def test_marginals_under_fixed_energies_are_those_of_an_independent_solver(edges):
    X, y = graphs(edges)
    crf = GraphCRF(**settings(energies=ENERGIES, energy_learner=None, projection=CLOSE)).fit(X, y)
    plain = GraphCRF(**settings()).fit(X, y)
    np.testing.assert_array_equal(crf.weights_, plain.weights_)
    result, without = crf.predict_marginals(X[:2]), plain.predict_marginals(X[:2])
    for one, marginals, other in zip(crf.examples(X, y)[:2], result, without, strict=True):
        graph, theta = one.scores.graph, one.scores.theta(crf.weights_)
        bound = sum(ENERGIES[1:], ENERGIES[0]).bind(graph, crf.classes_.tolist())
        _, mu = solve_smooth(graph, theta, bound.value, bound.gradient)
        np.testing.assert_allclose(marginals.reshape(-1), mu[:12], atol=1e-4)
        assert np.abs(marginals - other).max() > 0.01


@pytest.mark.parametrize("psi", ["constant", "linear"])
@pytest.mark.parametrize(
    "oracle", [JunctionTree(), TreeReweighted(tol=1e-12, max_iter=5000)], ids=["junction_tree", "tree_reweighted"]
)
def test_gradient_with_fixed_slopes_equals_finite_differences(oracle, psi):
    X, y = graphs(CYCLE, n=2)
    crf = GraphCRF(**settings())
    risk = made_risk(crf, X, y, ENERGIES, oracle, psi)
    point = risk.start(crf.weights_) + 0.05 * np.random.default_rng(1).normal(size=risk.start(crf.weights_).size)
    kept = risk.with_slopes(point)
    value, gradient = kept(point)
    assert value == pytest.approx(risk(point)[0], rel=1e-12)
    expected = central_differences(lambda at: kept(at)[0], point)
    assert relative_error(gradient, expected) < 1e-5


def test_the_risk_is_that_of_enumerated_tilted_models():
    X, y = graphs(CYCLE, n=3)
    crf = GraphCRF(**settings())
    risk = made_risk(crf, X, y, ENERGIES, JunctionTree(), fixed=None)
    point = risk.start(crf.weights_)
    total = 0.0
    for one, energy in zip(risk.examples, risk.energies, strict=True):
        graph, theta = one.scores.graph, one.scores.theta(crf.weights_)
        _, mu = solve_smooth(graph, theta, energy.value, energy.gradient)
        tilted = theta - energy.gradient(mu)
        told = tilted.copy()
        told[:12][~one.labels.allowed] = -np.inf
        total += enumerate_model(graph, tilted).log_partition - enumerate_model(graph, told).log_partition
    expected = total / risk.mass + 0.1 * float(crf.weights_ @ crf.weights_)
    assert risk(point)[0] == pytest.approx(expected, rel=1e-4)
    half = risk.subset([0, 2])
    assert len(half) == 2
    assert half.mass == risk.examples[0].mass + risk.examples[2].mass


def test_results_do_not_depend_on_threads_or_backend(monkeypatch):
    X, y = graphs(CYCLE, n=3)
    crf = GraphCRF(**settings())
    risk = made_risk(crf, X, y, ENERGIES, JunctionTree(), "linear")
    point = risk.start(crf.weights_)
    moved = point + 0.1
    expected = [risk(moved), risk.with_slopes(point)(moved), risk.subset([2, 0])(moved)]
    assert abs(expected[0][0] - expected[1][0]) > 1e-6

    def check():
        again = made_risk(crf, X, y, ENERGIES, JunctionTree(), "linear")
        again.n_jobs = 2
        result = [again(moved), again.with_slopes(point)(moved), again.subset([2, 0])(moved)]
        for (value, gradient), (told, slope) in zip(result, expected, strict=True):
            assert value == told
            np.testing.assert_array_equal(gradient, slope)

    check()
    travels = PickledCalls(monkeypatch)
    check()
    assert len(travels.bytes) >= 4


def leaders(n, seed):
    """Make graphs of five people with one leader; only two are joined, and single features are weak."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        leads = int(rng.integers(5))
        is_it = np.arange(5) == leads
        features = np.column_stack([is_it + 0.8 * rng.normal(size=5), np.ones(5)])
        X.append((features, [[0, 1]]))
        y.append(np.where(is_it, "leader", "member"))
    return X, y


def test_learned_strengths_make_predictions_better():
    X, y = leaders(25, 0)
    held_out = leaders(60, 1)
    one = MeasuredEnergy(Count("leader"), Squared(1.0), psi=0.1)
    base = {"inference": "tree", "learner": EXACT}
    plain = GraphCRF(**base).fit(X, y)
    crf = GraphCRF(
        **base, energies=one, energy_learner=DoubleLoop(max_iter=4, l1=0.0), projection=BetheMirrorDescent(max_iter=30)
    ).fit(X, y, freeze_weights=True)
    assert crf.energies_.weights[0, 0] > 0.5  # each graph has exactly one
    np.testing.assert_array_equal(crf.weights_, plain.weights_)
    assert crf.energy_history_["risk"][-1] < crf.energy_history_["risk"][0]
    losses, spreads = [], []
    for model in (crf, plain):
        marginals = model.predict_marginals(held_out[0])
        told = [
            p[np.arange(5), (labels != "leader").astype(int)] for p, labels in zip(marginals, held_out[1], strict=True)
        ]
        losses.append(-np.log(told).mean())
        spreads.append(np.std([p[:, 0].sum() for p in marginals]))
    assert losses[0] < losses[1]
    assert spreads[0] < 0.7 * spreads[1]
    learned = crf.energies_.weights
    again = crf.fit(X, y, freeze_weights=True, development=leaders(10, 2))
    np.testing.assert_array_equal(again.weights_, plain.weights_)
    assert (again.energies_.weights != learned).all()
    assert crf.projection.oracle == "auto"  # settings are not modified


def test_weights_and_strengths_together():
    X, y = leaders(15, 3)
    one = MeasuredEnergy(Count("leader"), Squared(1.0), psi=0.1)
    crf = GraphCRF(inference="tree", learner=EXACT, energies=[one], projection=BetheMirrorDescent(max_iter=20))
    crf.fit(X, y, freeze_weights=False)
    plain = GraphCRF(inference="tree", learner=EXACT).fit(X, y)
    assert np.abs(crf.weights_ - plain.weights_).max() > 1e-3
    assert (crf.energies_.weights >= 0).all()
    best = (
        GraphCRF(inference="tree", learner=EXACT, energies=[one], decode="map", energy_learner=None)
        .fit(X, y)
        .predict(X)
    )
    assert {label for labels in best for label in labels} <= {"leader", "member"}


@pytest.mark.parametrize(
    "learner", [DoubleLoop(max_iter=2, l1=0.0), DoublyStochastic(max_iter=2)], ids=lambda one: one.name
)
def test_weights_do_not_depend_on_the_number_of_threads(learner):
    """Inference does not converge, but no thread issues a warning during learning."""
    X, y = leaders(12, 3)
    one = MeasuredEnergy(Count("leader"), Squared(1.0), psi=2.0)
    alone, two = (
        GraphCRF(
            inference="tree", learner=EXACT, energies=[one], energy_learner=learner, n_jobs=n,
            projection=BetheMirrorDescent(max_iter=2, tol=1e-12),
        ).fit(X, y)
        for n in (1, 2)
    )  # fmt: skip
    np.testing.assert_array_equal(two.weights_, alone.weights_)
    np.testing.assert_array_equal(two.energies_.weights, alone.energies_.weights)
    assert (alone.energies_.weights != 2.0).all()


def test_workers_are_checked_where_only_strengths_are_learned():
    X, y = leaders(4, 3)
    crf = GraphCRF(inference="tree", learner=EXACT, energies=[MeasuredEnergy(Count("leader"), Squared(1.0))]).fit(X, y)
    with pytest.raises(InvalidInputError, match=r"^GraphCRF.fit: n_jobs is 0, but work needs a worker"):
        crf.set_params(n_jobs=0).fit(X, y, freeze_weights=True)


def test_a_saved_model_predicts_the_same(tmp_path):
    X, y = leaders(10, 4)
    one = MeasuredEnergy(Count("leader"), Squared(1.0), psi=0.5)
    crf = GraphCRF(
        inference=Tree(), learner=EXACT, energies=[one], psi="linear",
        energy_learner=DoubleLoop(max_iter=1, n_inner_iter=2), projection=BetheMirrorDescent(max_iter=20),
    ).fit(X, y)  # fmt: skip
    crf.save(tmp_path / "model.npz")
    loaded = GraphCRF.load(tmp_path / "model.npz")
    assert repr(loaded.get_params()) == repr(crf.get_params())
    for ours, theirs in zip(crf.predict_marginals(X), loaded.predict_marginals(X), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(loaded.energies_.weights, crf.energies_.weights)
    np.testing.assert_array_equal(loaded.energy_history_["risk"], crf.energy_history_["risk"])


def test_several_types_and_energies_that_do_not_apply_to_a_graph():
    rng = np.random.default_rng(5)

    def instance(n_words):
        features = {"word": rng.normal(size=(n_words, 2)), "topic": np.ones((1, 1))}
        pairs = np.column_stack([np.arange(n_words), np.zeros(n_words, dtype=int)])
        return GraphInstance(features, factors={"about": Factors(pairs, types=("word", "topic"))})

    X = [instance(n) for n in (2, 3, 4)]
    y = [{"word": np.where(rng.random(len(x.node_features["word"])) < 0.5, "good", "bad"), "topic": np.array(["sport"])}
         for x in X]  # fmt: skip
    y[0]["topic"] = np.array(["art"])
    third = MeasuredEnergy(Count("good", variables=[2]), Squared(0.0), psi=500.0)
    classes = {"word": ["bad", "good"], "topic": ["art", "sport"]}
    crf = GraphCRF(
        inference="tree",
        learner=EXACT,
        classes=classes,
        energies=[third],
        energy_learner=None,
        projection="bethe_mirror_descent",
    ).fit(X, y)
    plain = GraphCRF(inference="tree", learner=EXACT, classes=classes).fit(X, y)
    result, without = crf.predict_marginals(X), plain.predict_marginals(X)
    np.testing.assert_allclose(
        result[0]["word"], without[0]["word"]
    )  # of two words none is third; the topic has no "good"
    assert result[1]["word"][2, 1] < 0.05 < without[1]["word"][2, 1]
    with pytest.raises(NotSupportedError, match=r"LinearPsi depends on features of variables.*'word', 'topic'"):
        GraphCRF(
            inference="tree", learner=EXACT, classes=classes, energies=[third], energy_learner=None, psi="linear"
        ).fit(X, y)


BAD = [
    ({"energies": MeasuredEnergy(Count("tall"), Squared(1.0))}, InvalidInputError, r"label='tall' is not known"),
    ({"energies": [ONE_HIGH, 3]}, InvalidInputError, r"energies\[1\] is a int, not an energy"),
    ({"energies": ONE_HIGH, "inference": "mean_field"}, NotSupportedError, r"exact or convex.*MeanField"),
    ({"energies": ONE_HIGH, "projection": "tree"}, NotSupportedError, r"projection=Tree does not support energies"),
    ({"energies": MeasuredEnergy(Count("low"), Hinge(1.0))}, NotSupportedError, r"kinks.*energy_learner=None"),
    ({"energies": MeasuredEnergy(Count("low"), Absolute(1.0), psi=np.inf)}, InvalidInputError, r"psi\[0\] is inf"),
    ({"energies": ONE_HIGH, "psi": "quadratic"}, InvalidInputError, r"'quadratic' is not known"),
]


@pytest.mark.parametrize(("given", "error", "message"), BAD, ids=[str(i) for i in range(len(BAD))])
def test_invalid_settings_raise_before_any_work(given, error, message):
    X, y = graphs(TREE, n=2)
    crf = GraphCRF(**settings(**given))
    with pytest.raises(error, match=message):
        crf.fit(X, y)
    assert not hasattr(crf, "weights_")


def test_invalid_arguments_of_fit():
    X, y = graphs(TREE, n=2)
    with pytest.raises(InvalidInputError, match="freeze_weights and development are only used with energies"):
        GraphCRF(**settings()).fit(X, y, freeze_weights=True)
    with pytest.raises(InvalidInputError, match="Drop freeze_weights=False"):
        GraphCRF(**settings(energies=ONE_HIGH)).fit(X, y, development=(X, y), freeze_weights=False)
    with pytest.raises(NotSupportedError, match="energies need the whole data set"):
        GraphCRF(**settings(energies=ONE_HIGH)).partial_fit(X, y)


def test_kinks_and_distances_of_fixed_strength():
    X, y = graphs(TREE, n=3)
    expected = [
        MeasuredEnergy(Count("high"), Hinge(0.5), psi=5.0),
        DistanceToSet([["low", "mid", "low", "mid"]], psi=0.5),
    ]
    crf = GraphCRF(**settings(energies=expected, energy_learner=None)).fit(X, y)
    plain = GraphCRF(**settings()).fit(X, y)
    high = crf.classes_.tolist().index("high")
    with pytest.warns(
        ConvergenceWarning, match=r"did not converge for 3 of 3 graphs.*projection=BetheRDA\(max_iter=400"
    ):
        tilted = crf.predict_marginals(X)
    for result, without in zip(tilted, plain.predict_marginals(X), strict=True):
        assert result[:, high].sum() < without[:, high].sum()


@pytest.mark.parametrize("freeze_weights", [None, True, False])
def test_a_fit_reads_its_graphs_once(monkeypatch, freeze_weights):
    X, y = graphs(TREE)
    read, n_read = graph_crf_module.read_graphs, []

    def counted(data):
        n_read.append(len(data))
        return read(data)

    monkeypatch.setattr(graph_crf_module, "read_graphs", counted)
    learner = DoublyStochastic(max_iter=1, optimizer=Adam(step_size=1e-6))
    crf = GraphCRF(**settings(energies=[ONE_HIGH], energy_learner=learner, projection=BetheMirrorDescent(max_iter=5)))
    crf.fit(X, y, freeze_weights=freeze_weights)
    assert n_read == [6]
    crf.fit(X, y, freeze_weights=True, development=(X[:4], y[:4]))
    assert n_read == [6, 6, 4]


def test_development_is_checked_before_the_weights_are_fitted(monkeypatch):
    X, y = graphs(TREE)
    monkeypatch.setattr(RiskMinimizer, "minimize", lambda *_, **__: pytest.fail("the weights were fitted"))
    with pytest.raises(InvalidInputError, match=r"development: .*X has 6 examples, but y has 5"):
        GraphCRF(**settings(energies=[ONE_HIGH])).fit(X, y, development=(X, y[:5]))


def test_a_fixed_strength_is_not_learned():
    X, y = graphs(TREE)
    fixed = MeasuredEnergy(Count("high"), SmoothedHinge(1.0), strength=7.0)
    constant = MeasuredEnergy(Count("high"), SmoothedHinge(1.0), psi=7.0)
    models = [
        GraphCRF(**settings(energies=[fixed])).fit(X, y),
        GraphCRF(**settings(energies=[constant], energy_learner=None)).fit(X, y),
    ]
    ours, expected = (np.concatenate(crf.predict_marginals(X)) for crf in models)
    np.testing.assert_allclose(ours, expected, atol=1e-12)
