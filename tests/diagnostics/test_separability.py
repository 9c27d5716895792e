"""Separability against linear and quadratic programs over all labellings, and over all half-integral points."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog, minimize
from tests.learning.margin_sets import features, frustrated_triangles, labellings, random_triangles

from intarsia import GraphCRF
from intarsia.datasets.counterexamples import diamond_examples, triangle_examples
from intarsia.diagnostics import algorithmically_separable, mistake_bound, separable
from intarsia.diagnostics.feature_bounds import FeatureBounds
from intarsia.diagnostics.margin_search import shortest_weights
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.graph import chain_graph
from intarsia.learning import StructuredPerceptron, example
from intarsia.learning.margin_example import MarginExample
from intarsia.models import MatrixScores
from intarsia.sequences import ChainCRF


def differences(data):
    """Return feature differences between each truth and every other labelling, and the numbers of different labels."""
    rows = []
    for one in data:
        y = one.labels.y
        rows += [
            features(one.scores, y) - features(one.scores, z) for z in labellings(one.scores.graph) if (z != y).any()
        ]
    return np.array(rows)


def half_integral(data):
    """Return these differences for all half-integral points of a binary triangle's local polytope."""
    rows = []
    for one in data:
        graph, truth = one.scores.graph, features(one.scores, one.labels.y)
        for ones in itertools.product([0.0, 0.5, 1.0], repeat=3):
            mu = graph.zeros()
            mu[:6] = np.column_stack([1 - np.array(ones), ones]).reshape(-1)
            edges = [graph.scope(c) for c in range(3)]
            spans = [
                [both for both in (0.0, 0.5, 1.0) if max(0, ones[a] + ones[b] - 1) <= both <= min(ones[a], ones[b])]
                for a, b in edges
            ]
            for joint in itertools.product(*spans):
                for c, ((a, b), both) in enumerate(zip(edges, joint, strict=True)):
                    table = [1 - ones[a] - ones[b] + both, ones[b] - both, ones[a] - both, both]
                    mu[graph.table_ptr[c] : graph.table_ptr[c + 1]] = table
                wrong = sum(abs(ones[v] - one.labels.y[v]) for v in range(3))
                if wrong > 0:
                    rows.append((truth - one.scores.pull_back(mu)) / wrong)
    return np.array(rows)


def separates(rows):
    """Return whether some weights are positive on all rows, by a linear program."""
    n, d = rows.shape
    found = linprog(
        np.append(np.zeros(d), -1.0), A_ub=np.column_stack([-rows, np.ones(n)]), b_ub=np.zeros(n),
        bounds=[(-1, 1)] * d + [(None, 1)], method="highs-ipm",
    )  # fmt: skip
    return -found.fun > 1e-6


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("noise", [0.0, 0.25])
def test_exact_margin_equals_enumeration(seed, noise):
    data = random_triangles(n=4, seed=seed, noise=noise)
    rows, found = differences(data), separable(data)
    assert found.separable == separates(rows)
    if found.separable:
        best = minimize(
            lambda w: w @ w, np.ones(8), jac=lambda w: 2 * w, method="SLSQP",
            constraints=[{"type": "ineq", "fun": lambda w: rows @ w - 1, "jac": lambda w: rows}],
            options={"ftol": 1e-14, "maxiter": 1000},
        )  # fmt: skip
        assert found.gamma == pytest.approx(1 / np.linalg.norm(best.x), rel=1e-5)
        assert (rows @ found.weights).min() == pytest.approx(found.gamma, rel=1e-5)
        assert np.linalg.norm(rows, axis=1).max() <= found.radius + 1e-9
    else:
        check_proof(found, data)


def check_proof(found, data):
    """Check the certificate by adding up its terms."""
    proof = found.certificate
    total, margins = 0.0, 0.0
    for i, multiplier, mu in zip(proof.examples, proof.multipliers, proof.answers, strict=True):
        one = data[i]
        truth = features(one.scores, one.labels.y)
        total = total + multiplier * (truth - one.scores.pull_back(mu))
        margins += multiplier * MarginExample(one).wrong_mass(mu)
    assert (proof.multipliers >= 0).all()
    assert np.linalg.norm(total) <= 1e-6
    assert margins > 0.1  # so no weights reach all margins


@pytest.mark.parametrize("seed", range(8))
def test_relaxed_separability_equals_that_over_half_integral_points(seed):
    data = frustrated_triangles(n=2, seed=seed)
    rows, found = half_integral(data), algorithmically_separable(data)
    assert found.separable == separates(rows)
    assert separable(data).separable == separates(differences(data))
    if found.separable:
        assert (rows @ found.weights).min() > 0
        assert found.gamma_at_least <= found.gamma * (1 + 1e-5)
        exact = separable(data)
        assert found.gamma <= exact.gamma * (1 + 1e-5)  # there are more wrong answers
    else:
        check_proof(found, data)


def test_random_sets_contain_both_outcomes():
    """Otherwise the parametrised test above would be vacuous."""
    verdicts = {algorithmically_separable(frustrated_triangles(n=2, seed=seed)).separable for seed in range(8)}
    assert verdicts == {True, False}


def test_triangle_with_hidden_labels():
    data = triangle_examples()
    assert separable(data).separable
    relaxed = algorithmically_separable(data)
    assert relaxed.separable is False
    assert relaxed.certificate.residual < 1e-9
    assert set(relaxed.certificate.examples) == {0, 1, 2}


def test_diamond_is_separable_by_exact_and_relaxed_inference():
    for found in (separable(diamond_examples()), algorithmically_separable(diamond_examples())):
        # Shortest w with 2 w . (1, 0.95) <= -1 and 2 w . (0.95, 1) >= 1 is (-10, 10).
        np.testing.assert_allclose(found.weights, [-10.0, 10.0], atol=1e-4)
        assert found.gamma == pytest.approx(1 / np.sqrt(200), rel=1e-5)


def test_hidden_labels_are_never_wrong():
    # Feature +1 where both agree: labels (1, ?) are separable if one completion of the second is.
    X = [([[1.0], [1.0]], [[0, 1]]), ([[-1.0], [-1.0]], [[0, 1]])]
    found = separable(X, [[1, -1], [0, -1]], GraphCRF(classes=[0, 1]))
    assert found.separable
    few = separable(X, [[1, -1], [0, -1]], GraphCRF(classes=[0, 1]), max_completions=1)
    assert few.separable
    assert "Not all completions" in few.note


def test_undecided_with_too_many_completions():
    same = [([[1.0], [1.0], [1.0]], [[0, 1]])] * 2
    labels = [[0, -1, -1], [1, -1, -1]]  # equal inputs with different labels are never separable
    full = separable(same, labels, GraphCRF(classes=[0, 1]))
    assert full.separable is False
    few = separable(same, labels, GraphCRF(classes=[0, 1]), max_completions=2)
    assert few.separable is None
    assert "Increase max_completions" in str(few)


@pytest.mark.parametrize("inference", ["lp_relaxation", "brute_force"])
def test_perceptron_respects_its_mistake_bound(inference):
    n_separable = 0
    for seed in range(3):
        data = random_triangles(n=3, seed=seed)
        if algorithmically_separable(data, inference=inference).separable:
            n_separable += 1
            found = mistake_bound(data, inference=inference)
            assert found.converged
            assert 0 < found.mistakes <= found.bound_of_run <= found.bound
    assert n_separable >= 1


def test_radius_bounds_every_difference():
    for one in random_triangles(n=4, n_states=3):
        found = FeatureBounds(MarginExample(one))
        lengths = np.linalg.norm(differences([one]), axis=1)
        assert lengths.max() <= found.radius <= 4 * lengths.max()
        nodes = one.scores.node_features
        assert found.longest == pytest.approx(max(1.0, np.linalg.norm(nodes, axis=1).max()))


def test_shortest_weights_against_a_quadratic_program():
    rng = np.random.default_rng(0)
    for _ in range(10):
        rows, sides = rng.normal(size=(12, 5)) + 1.0, rng.normal(size=12)
        weights, multipliers = shortest_weights(rows, sides)
        feasible = linprog(np.zeros(5), A_ub=-rows, b_ub=-sides, bounds=(None, None)).status == 0
        assert (weights is not None) == feasible
        if feasible:
            best = minimize(
                lambda w: w @ w, weights + 0.1, jac=lambda w: 2 * w, method="SLSQP",
                constraints=[{"type": "ineq", "fun": lambda w, r=rows, s=sides: r @ w - s}],
            )  # fmt: skip
            np.testing.assert_allclose(weights @ weights, best.fun, rtol=1e-5, atol=1e-7)
        else:
            assert np.linalg.norm(multipliers @ rows) < 1e-6
            assert multipliers @ sides == pytest.approx(1.0)


def test_refusals():
    with pytest.raises(NotSupportedError, match=r"BeliefPropagation does not maximize.*lp_relaxation.*diagnose"):
        algorithmically_separable(diamond_examples(), inference="belief_propagation")
    with pytest.raises(InvalidInputError, match="not separable over local polytope"):
        mistake_bound(triangle_examples())
    with pytest.raises(InvalidInputError, match="list of Example"):
        separable([1, 2])
    with pytest.raises(NotSupportedError, match="ChainCRF without energies infers exactly"):
        separable([[["a"]]], [["x"]], ChainCRF())
    with pytest.raises(InvalidInputError, match="GridCRF or a GraphCRF, got str"):
        separable([], [], "crf")
    with pytest.raises(InvalidInputError, match="no example has a label"):
        separable([example(one.scores, [-1] * 3) for one in random_triangles(1)])


def _one_node(row, label=1, *, fixed=(0.0, 0.0), weight=1.0):
    scores = MatrixScores(chain_graph(1, 2), [[0.0] * len(row), row], fixed=list(fixed))
    return example(scores, [label], weight=weight)


def _mistakes(data, max_iter=20_000):
    learner = StructuredPerceptron(average=False, path="none", max_iter=max_iter)
    return learner.minimize(data, "brute_force").history["mistakes"].sum()


def test_bound_with_fixed_scores():
    # A step adds 0.1 to the weight times 0.1, which must outgrow 5: 500 steps, where R^2 / gamma^2 would be 36.
    data = [_one_node([0.1], fixed=(0.0, -5.0))]
    found = mistake_bound(data, inference="brute_force")
    assert found.mistakes == 500 > 2 * (found.separability.radius / found.separability.gamma_at_least) ** 2
    # Weights u = (m + 5) / 0.1 have the margin m: |u|^2 / (2 m - R^2) is least at m = 5 + R^2.
    least = min(((m + 5.0) / 0.1) ** 2 / (2.0 * m - 0.01) for m in np.linspace(0.01, 50.0, 100_000))
    assert found.mistakes <= found.bound == pytest.approx(least, rel=1e-2)
    assert least <= found.bound * (1.0 + 1e-6)
    assert f"at most {found.bound:.4g}" in str(found)


@pytest.mark.parametrize("inference", ["brute_force", "lp_relaxation"])
def test_perceptron_respects_its_mistake_bound_with_fixed_scores(inference):
    n_bounded = 0
    for seed in range(20):
        rng, graph = np.random.default_rng(seed), chain_graph(2, 2)
        data = []
        for _ in range(2):
            matrix, fixed = rng.normal(size=(graph.n_theta, 3)), 3.0 * rng.normal(size=graph.n_theta)
            data.append(example(MatrixScores(graph, matrix, fixed), rng.integers(0, 2, 2)))
        if not algorithmically_separable(data, inference=inference).separable:
            continue
        found = mistake_bound(data, inference=inference, max_iter=5000 if inference == "brute_force" else 100)
        if found.bound is None:  # steps may be too long for the small margin with fixed scores
            continue
        n_bounded += 1
        assert found.converged or inference != "brute_force"
        assert found.mistakes <= found.bound_of_run * (1.0 + 1e-6) <= found.bound * (1.0 + 1e-2)
    assert n_bounded > 3


def test_irrelevant_fixed_scores_give_the_bound_of_theorem_1():
    # No answer violates the couplings: the bound is that of the two labellings in which all nodes agree.
    found = mistake_bound(diamond_examples(), inference="brute_force")
    separability = found.separability
    assert found.bound == pytest.approx((separability.radius / separability.gamma_at_least) ** 2, rel=1e-3)


def test_no_bound_with_fixed_scores_and_weights():
    with pytest.raises(NotSupportedError, match="fixed scores and the weight 2"):
        mistake_bound([_one_node([0.1], fixed=(0.0, -5.0), weight=2.0)], inference="brute_force")


def test_fixed_scores_with_their_own_feature_are_bounded():
    data = [_one_node([0.1, -5.0])]
    found = mistake_bound(data, inference="brute_force")
    assert found.mistakes <= found.bound * (1.0 + 1e-9)


def test_minus_infinity_scores_are_bounded():
    three = MatrixScores(chain_graph(1, 3), [[0.0], [1.0], [9.0]], fixed=[0.0, 0.0, -np.inf])
    found = mistake_bound([example(three, [1])], inference="brute_force")
    assert 0 < found.mistakes <= found.bound_of_run * (1.0 + 1e-9) <= found.bound * (1.0 + 2e-9)


def test_no_bound_with_examples_of_different_weights():
    data = [_one_node([-1.0, 0.3]), _one_node([1.0, 0.0], weight=0.01)]
    found = algorithmically_separable(data, inference="brute_force")
    assert _mistakes(data) > 2 * (found.radius / found.gamma_at_least) ** 2
    assert found.mistake_bound is None
    with pytest.raises(NotSupportedError, match=r"example 1 has the weight 0\.01 and example 0 has 1"):
        mistake_bound(data, inference="brute_force")


def test_equal_sample_weights_change_nothing():
    found = [
        mistake_bound([_one_node([-1.0, 0.3], weight=w), _one_node([1.0, 0.0], weight=w)], inference="brute_force")
        for w in (1.0, 0.25)
    ]
    assert found[0].mistakes == found[1].mistakes <= found[1].bound_of_run * (1.0 + 1e-9)
    assert found[0].bound_of_run == pytest.approx(found[1].bound_of_run)


def test_no_bound_with_hidden_labels():
    # Steps go towards the current best completion: this set, found by a search, makes more mistakes than the bound.
    rng, graph = np.random.default_rng(0), chain_graph(2, 2)
    for _ in range(98):
        data = []
        for _ in range(3):
            first = rng.normal(size=(graph.n_theta, 2))
            first[4:] = rng.normal(size=(4, 2))
            data.append(example(MatrixScores(graph, first), [int(rng.integers(2)), -1]))
    found = algorithmically_separable(data, inference="brute_force")
    assert _mistakes(data, 2000) > (found.radius / found.gamma_at_least) ** 2
    assert found.mistake_bound is None
    with pytest.raises(NotSupportedError, match="example 0 has hidden labels"):
        mistake_bound(data, inference="brute_force")
