"""Structured perceptron, compared with an enumeration of all labellings, and the two small problems of the paper."""

from __future__ import annotations

import numpy as np
import pytest
from tests.learning.margin_sets import features, labellings, random_triangles
from tests.learning.training_sets import noisy_grids

from intarsia import ICM, BeliefPropagation, GraphCRF, GridCRF, LPRelaxation, StructuredPerceptron, TreeReweighted
from intarsia.datasets.counterexamples import diamond_examples, triangle_examples
from intarsia.exceptions import CompatibilityWarning, ConvergenceWarning, InvalidInputError, NotSupportedError
from intarsia.graph import chain_graph
from intarsia.inference import Status
from intarsia.learning import example
from intarsia.learning.margin_example import MarginExample
from intarsia.models import LinearScores, MatrixScores

PLAIN = StructuredPerceptron(average=False, shuffle=False, path="steps", max_iter=15)
PARALLEL = BeliefPropagation(schedule="parallel")


def written_out(data, n_passes, margin=0.0):
    """Perceptron over all labellings; ties go to the first, as in brute force. Weights after every example."""
    weights, after, mistakes = np.zeros(data[0].scores.n_weights), [], 0
    for _ in range(n_passes):
        for one in data:
            every = labellings(one.scores.graph)
            y = one.labels.y
            values = [features(one.scores, z) @ weights + margin * (z != y).sum() for z in every]
            z = every[int(np.argmax(values))]
            if (z != y).any():
                weights = weights + one.weight * (features(one.scores, y) - features(one.scores, z))
                mistakes += 1
            after.append(weights)
    return np.array(after), mistakes


@pytest.mark.parametrize("margin", [0.0, 0.7])
def test_steps_are_those_of_enumeration(margin):
    data = random_triangles(n=5, noise=0.4, weight=0.5)
    learner = StructuredPerceptron(average=False, shuffle=False, max_iter=4, margin=margin)
    result = learner.minimize(data, "brute_force")
    after, mistakes = written_out(data, 4, margin)
    np.testing.assert_allclose(result.point, after[-1], atol=1e-12)
    assert result.history["mistakes"].sum() == mistakes
    np.testing.assert_allclose(result.history["path"], np.vstack([0 * after[:1], after[4::5]]), atol=1e-12)


def test_the_averaged_one_is_the_mean_after_each_example():
    data = random_triangles(n=5, noise=0.4)
    result = StructuredPerceptron(shuffle=False, max_iter=4).minimize(data, "brute_force")
    assert result.status is Status.MAX_ITER
    np.testing.assert_allclose(result.point, written_out(data, 4)[0].mean(axis=0), atol=1e-12)


def test_single_passes_equal_one_fit():
    data, learner = random_triangles(n=5, noise=0.4), StructuredPerceptron(max_iter=3)
    weights, state = np.zeros(8), None
    for _ in range(3):
        weights, state, risk = learner.step(data, "brute_force", weights, state)
    result = learner.minimize(data, "brute_force")
    np.testing.assert_allclose(result.point, weights, atol=1e-12)
    assert result.value == risk


def test_belief_propagation_makes_it_diverge_on_the_diamond():
    with pytest.warns(CompatibilityWarning, match="lp_relaxation"):
        result = PLAIN.minimize(diamond_examples(), PARALLEL)
    path = result.history["path"]
    assert (result.history["mistakes"] == 2).all()
    # Four nodes, so two of each kind: twice the (-0.05, +0.05) of Kulesza2007, Section 4.2.
    np.testing.assert_allclose(np.diff(path[::2], axis=0), np.broadcast_to([-0.1, 0.1], (15, 2)), atol=1e-12)
    assert (result.history["misled"][1:] > 0).all()


@pytest.mark.parametrize("inference", ["lp_relaxation", "brute_force", "integer_program"])
def test_relaxed_and_exact_inference_learn_the_diamond(inference):
    result = PLAIN.minimize(diamond_examples(), inference)
    assert result.status is Status.CONVERGED
    assert result.history["misled"].sum() == 0
    a, b = result.point
    assert a + 0.95 * b < 0 < 0.95 * a + b


def test_the_triangle_is_learnt_by_exact_and_never_by_relaxed_inference():
    assert PLAIN.minimize(triangle_examples(), "brute_force").status is Status.CONVERGED
    relaxed = PLAIN.minimize(triangle_examples(), "lp_relaxation")
    assert relaxed.status is Status.MAX_ITER
    assert (relaxed.history["mistakes"] == 3).all()


def test_fractions_are_used_without_rounding():
    one = MarginExample(triangle_examples()[0])
    mu, _ = one.answer(one.theta(np.ones(3)), LPRelaxation())
    np.testing.assert_allclose(mu[:6], 0.5)
    assert one.wrong_mass(mu) == pytest.approx(1.0)  # two labelled nodes, half of each wrong


def test_hidden_labels_are_filled_in():
    graph = chain_graph(2, 2)
    matrix = np.zeros((graph.n_theta, 2))
    matrix[1, 0] = matrix[3, 1] = 1.0
    result = PLAIN.minimize([example(MatrixScores(graph, matrix), [1, -1])], "brute_force")
    assert result.point.tolist() == [1.0, 0.0]  # the second variable is never wrong


def test_validation_keeps_the_best_pass():
    train, held_out = noisy_grids(6, noise=2.0), noisy_grids(6, noise=2.0, seed=1)
    learner = StructuredPerceptron(max_iter=12, patience=3)
    result = learner.minimize(train, "icm", validation=held_out)
    shares = result.history["validation_risk"]
    ready = [MarginExample(one) for one in held_out]
    method = ICM()
    wrong = sum(one.wrong_mass(one.answer(one.theta(result.point), method)[0]) for one in ready)
    assert wrong / 72 == pytest.approx(shares.min())
    assert len(shares) == 12 or len(shares) - 1 - int(np.argmin(shares)) == 3


def test_estimators_predict_the_best_labelling():
    rng = np.random.default_rng(0)
    y = [np.repeat([[0, 0, 1, 1]], 3, axis=0), np.repeat([[0, 1, 1, 1]], 3, axis=0)]
    X = [np.dstack([labels - 0.5 + 0.3 * rng.normal(size=labels.shape), np.ones(labels.shape)]) for labels in y]
    crf = GridCRF(learner="structured_perceptron", inference="lp_relaxation").fit(X, y)
    assert crf.status_ is Status.CONVERGED
    assert crf.score(X, y) == 1.0
    assert crf.history_["mistakes"][-1] == 0
    np.testing.assert_array_equal(crf.initial_weights_, 0.0)
    with pytest.raises(NotSupportedError, match="marginals"):
        crf.predict_marginals(X)
    graphs = [(image.reshape(-1, 2), [[0, 1], [1, 2], [4, 5]]) for image in X]
    flat = [labels.reshape(-1) for labels in y]
    crf = GraphCRF(learner="structured_perceptron", inference="lp_relaxation", classes=[0, 1])
    assert crf.set_params(learner__average=False).fit(graphs, flat).score(graphs, flat) == 1.0
    crf = GraphCRF(learner="structured_perceptron", inference="lp_relaxation").partial_fit(graphs, flat, classes=[0, 1])
    assert crf.history_["risk"].size == 1


def test_class_weights_are_costs():
    one = MarginExample(example(LinearScores(chain_graph(2, 2), [[0.0], [1.0]]), [1, 0], 1.0, [3.0, 0.5]))
    assert one.cost[:4].tolist() == [3.0, 0.0, 0.0, 0.5]


def test_bad_settings_and_data_raise():
    data = random_triangles()
    with pytest.raises(NotSupportedError, match=r"Gibbs does not compute. Use one of: .*lp_relaxation"):
        PLAIN.minimize(data, "gibbs")
    with pytest.raises(InvalidInputError, match="max_iter"):
        StructuredPerceptron(max_iter=-1).minimize(data, "icm")
    with pytest.raises(InvalidInputError, match="path='all'"):
        StructuredPerceptron(path="all").minimize(data, "icm")
    with pytest.raises(InvalidInputError, match="no examples"):
        PLAIN.minimize([], "icm")
    with pytest.raises(InvalidInputError, match="start has shape"):
        PLAIN.minimize(data, "icm", np.zeros(3))
    with pytest.raises(InvalidInputError, match="example 1 needs 8 weights, but example 0 needs 15"):
        PLAIN.minimize([*random_triangles(1, n_states=3), *data], "icm")
    blind = [example(one.scores, [-1, -1, -1]) for one in data]
    with pytest.raises(InvalidInputError, match="Label some"):
        PLAIN.minimize(blind, "icm")


def test_impossible_labels_raise():
    graph = chain_graph(2, 2)
    fixed = graph.pack(tables=[[[-np.inf, 0.0], [0.0, -np.inf]]])
    scores = MatrixScores(graph, np.zeros((graph.n_theta, 1)), fixed)
    data = [example(scores, np.array([[True, False], [True, False]]))]
    with pytest.raises(InvalidInputError, match="example 0"):
        PLAIN.minimize(data, "brute_force")


def test_inference_that_does_not_converge_warns_once():
    data = noisy_grids(2)
    with pytest.warns(ConvergenceWarning, match="did not converge for 2 predictions") as told:
        StructuredPerceptron(max_iter=2).minimize(data, TreeReweighted(max_iter=0))
    assert len(told) == 1


@pytest.mark.parametrize("average", [True, False])
def test_after_an_interruption_the_last_complete_pass_is_the_result(monkeypatch, average):
    data = random_triangles(n=5, noise=0.4)
    whole = StructuredPerceptron(average=average, max_iter=2).minimize(data, "brute_force")
    calls, answer = iter(range(10**6)), MarginExample.answer

    def interrupted(self, theta, method):
        if next(calls) == 13:  # in the third pass
            raise KeyboardInterrupt
        return answer(self, theta, method)

    monkeypatch.setattr(MarginExample, "answer", interrupted)
    result = StructuredPerceptron(average=average, max_iter=9).minimize(data, "brute_force")
    assert result.status is Status.INTERRUPTED
    np.testing.assert_array_equal(result.point, whole.point)
    assert result.n_iter == 2
