"""SampleRank: mistake bound, update rules and counters, on partitions and on graphs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize
from tests.learning.margin_sets import features, labellings, random_triangles
from tests.oracles.partitions import all_partitions, slow_performance

from intarsia import GraphCRF, SampleRank
from intarsia.clusters import ClusterModel, ClusterWorld, SplitMerge, dense_pair_features, pair_features
from intarsia.clusters.partition import FunctionMetric
from intarsia.crf import GraphInstance
from intarsia.exceptions import InvalidInputError
from intarsia.graph import GraphBuilder, chain_graph
from intarsia.learning import GraphWorld, example
from intarsia.learning.margin_example import MarginExample
from intarsia.models import LinearScores, MatrixScores

TRUTH = [0, 0, 1, 1, 1]


def separable_world(**more):
    """Five records whose true pairs are similar; F is the accuracy of pairs, which the sum of similarities ranks."""
    rng = np.random.default_rng(0)
    n = len(TRUTH)
    values = np.zeros((n, n, 2))
    for i, j in itertools.combinations(range(n), 2):
        values[i, j] = values[j, i] = [1.0 if TRUTH[i] == TRUTH[j] else -1.0, rng.choice([-1.0, 1.0])]
    model = ClusterModel(absent=False)
    return ClusterWorld(dense_pair_features(values), model, truth=TRUTH, metric="pair_accuracy", **more)


def margin_of(world):
    """Largest R and best delta over all pairs of clusterings of unequal F; delta from an independent solver."""
    vectors, performances = [], []
    for labels in all_partitions(len(TRUTH)):
        world.reset(labels)
        vectors.append(world.features())
        performances.append(slow_performance("pair_accuracy", TRUTH, labels))
    rows = [
        vectors[a] - vectors[b]
        for a, b in itertools.permutations(range(len(vectors)), 2)
        if performances[a] > performances[b] + 1e-12
    ]
    matrix = np.unique(np.round(rows, 9), axis=0)
    result = minimize(
        lambda w: 0.5 * w @ w, np.array([5.0, 0.0]), jac=lambda w: w, method="SLSQP",
        constraints={"type": "ineq", "fun": lambda w: matrix @ w - 1.0, "jac": lambda w: matrix},
    )  # fmt: skip
    assert result.success
    assert (matrix @ result.x).min() > 1.0 - 1e-6
    return np.linalg.norm(matrix, axis=1).max(), 1.0 / np.linalg.norm(result.x)


@pytest.mark.parametrize("walk", ["model", "truth", "always"])
def test_errors_stay_under_the_bound_and_are_not_zero(walk):
    world = separable_world(proposer=SplitMerge(random=1, sequential=1, move_one=1))
    longest, delta = margin_of(world)
    learner = SampleRank(update="perceptron", average=False, walk=walk, max_iter=40, n_proposals=200)
    result = learner.fit_worlds([world])
    errors = result.history["errors"].sum()
    assert errors == result.history["updates"].sum()
    assert 0 < errors <= longest**2 / delta**2
    assert result.status.name == "CONVERGED"


def test_the_first_pass_updates_although_weights_are_0():
    result = SampleRank(update="perceptron", max_iter=1, n_proposals=2).fit_worlds([separable_world()])
    assert result.history["updates"][0] > 0


def test_pairs_of_equal_performance_are_skipped():
    world = ClusterWorld(pair_features(3, [[0, 1]], [1.0]), truth=[-1, -1, -1])
    result = SampleRank(max_iter=3).fit_worlds([world])
    assert result.history["ranked"].sum() == 0
    assert result.point.tolist() == [0.0, 0.0]
    assert result.status.name == "CONVERGED"


def test_python_loop_and_compiled_loop_learn_the_same_ranking():
    compiled = separable_world()
    plain = separable_world()
    plain.metric = FunctionMetric(lambda truth, labels: slow_performance("pair_accuracy", truth, labels))
    settings = {"update": "perceptron", "average": False, "max_iter": 30, "walk": "always", "n_proposals": 40}
    for world in (compiled, plain):
        result = SampleRank(**settings).fit_worlds([world])
        assert result.status.name == "CONVERGED"
        every = []
        for labels in all_partitions(len(TRUTH)):
            world.reset(labels)
            every.append((world.score(result.point), world.performance()))
        best = max(every)
        assert best[1] == pytest.approx(1.0)


@pytest.mark.parametrize("update", ["mira", "adagrad", "perceptron"])
@pytest.mark.parametrize("metric", ["pairwise_f1", "b_cubed_f1", "pair_accuracy"])
def test_learned_weights_find_the_truth(update, metric):
    world = separable_world()
    world = ClusterWorld(world.pairs, ClusterModel(absent=False), truth=TRUTH, metric=metric)
    result = SampleRank(update=update, max_iter=5).fit_worlds([world])
    scores = {}
    for labels in all_partitions(len(TRUTH)):
        world.reset(labels)
        scores[labels] = world.score(result.point)
    assert max(scores, key=scores.get) == tuple(TRUTH)


def test_mira_takes_the_shortest_step_to_the_margin():
    """From 0 the pair 0-1, with feature 0.5, must gain 1: the shortest weight is 2."""
    world = ClusterWorld(pair_features(2, [[0, 1]], [0.5]), ClusterModel(absent=False), truth=[0, 0])
    result = SampleRank(update="mira", step_size=100.0, average=False, walk="truth").fit_worlds([world])
    assert result.point == pytest.approx([2.0])
    short = SampleRank(update="mira", step_size=0.1, average=False, walk="truth", max_iter=1, n_proposals=0.5)
    assert short.fit_worlds([world]).point == pytest.approx([0.05])  # 0.1 times the difference


def test_adagrad_by_hand():
    """The first step is the difference divided by its size: 1 for every weight that differs."""
    world = ClusterWorld(pair_features(2, [[0, 1]], [[0.5, -3.0]]), ClusterModel(absent=False), truth=[0, 0])
    one = SampleRank(update="adagrad", average=False, n_proposals=0.5, max_iter=1).fit_worlds([world])
    assert one.point == pytest.approx([1.0, -1.0])


def test_mean_of_the_weights():
    """A walk of t proposals starts like one of T, so that the weights after each proposal are known."""
    world = separable_world()

    def run(t, average):
        settings = {"update": "perceptron", "margin": 9.0, "walk": "always", "max_iter": 1, "average": average}
        return SampleRank(**settings, n_proposals=(t - 0.5) / world.n_sites).fit_worlds([world]).point

    each = np.array([run(t, False) for t in range(1, 21)])
    assert len(np.unique(each, axis=0)) > 2
    assert run(20, True) == pytest.approx(each.mean(axis=0))


def test_counts_add_up_and_the_seed_decides():
    world = separable_world()
    first, second = (SampleRank(max_iter=3, walk="always").fit_worlds([world]) for _ in range(2))
    assert first.point.tolist() == second.point.tolist()
    history = first.history
    assert (history["proposals"] == 500).all()
    assert (history["errors"] <= history["ranked"]).all()
    assert (history["ranked"] <= history["possible"]).all()
    assert (history["accepted"] == history["possible"]).all()  # the walk goes everywhere
    other = SampleRank(max_iter=3, walk="always", random_state=1).fit_worlds([world])
    assert other.history["ranked"].tolist() != history["ranked"].tolist()


# ---------------------------------------------------------------- graphs


def test_graph_changes_equal_recomputation():
    rng = np.random.default_rng(0)
    builder = GraphBuilder()
    for name in "abcd":
        builder.variable(name, 3)
    for scope in ("ab", "bcd", "ad"):
        builder.factor(list(scope), np.zeros((3,) * len(scope)))
    graph, _ = builder.build()
    scores = MatrixScores(graph, rng.normal(size=(graph.n_theta, 5)))
    world = GraphWorld(example(scores, [0, 2, -1, 1], variable_weights=[1.0, 2.0, 1.0, 1.0]), block=3)
    world.restart(rng)
    weights, sizes, begun = rng.normal(size=5), set(), world.labels.tolist()
    moves = 0
    for _ in range(60):
        move = world.propose(rng, weights)
        before, f_before = features(scores, world.labels), world.performance()
        change, better, gain = (
            world.feature_change(move),
            world.performance_change(move),
            world.score_change(move, weights),
        )
        world.apply(move)
        moves += 1
        sizes.add(move.variables.size)
        y = world.labels
        assert features(scores, y) - before == pytest.approx(change, abs=1e-9)
        assert gain == pytest.approx(weights @ change)
        assert world.performance() == pytest.approx(((y[0] == 0) + 2 * (y[1] == 2) + (y[3] == 1)) / 4)
        assert world.performance() - f_before == pytest.approx(better, abs=1e-12)
    assert sizes == {1, 2, 3}
    for _ in range(moves):
        world.undo()
    assert world.labels.tolist() == begun


@pytest.mark.parametrize("block", [1, 3])
def test_a_walk_to_the_truth_makes_it_the_best_of_its_neighbours(block):
    """From the truth every proposal is compared with it, and some weights rank all of these triangles correctly."""
    data = random_triangles(6, seed=1)
    learner = SampleRank(update="perceptron", walk="truth", block=block, max_iter=60, n_proposals=30)
    result = learner.minimize(data, "brute_force")
    assert result.history["risk"][-1] == pytest.approx(0.0)
    for one in data:
        y = MarginExample(one).labels
        best = result.point @ features(one.scores, y)
        for other in labellings(one.scores.graph):
            if 0 < (other != y).sum() <= block:
                assert result.point @ features(one.scores, other) < best


def test_hard_constraints_are_kept():
    graph = chain_graph(3, 2)
    forbidden = graph.zeros()
    forbidden[int(graph.table_ptr[0]) + 3] = -np.inf  # 1, 1 at the first two

    class Fixed(LinearScores):
        def theta(self, weights):
            return super().theta(weights) + forbidden

    world = GraphWorld(example(Fixed(graph, np.ones((3, 1))), [1, 0, 1]))
    for seed in range(10):
        rng = np.random.default_rng(seed)
        world.restart(rng)
        for _ in range(10):
            assert world.labels[:2].tolist() != [1, 1]
            move = world.propose(rng, np.zeros(world.n_weights))
            if move is not None:
                world.apply(move)


def test_as_learner_of_an_estimator():
    rng = np.random.default_rng(0)
    y = [rng.integers(0, 2, 6) for _ in range(10)]
    edges = [[i, (i + 1) % 6] for i in range(6)]
    X = [
        GraphInstance(np.stack([2.0 * labels - 1.0 + 0.3 * rng.normal(size=6), np.ones(6)], axis=1), edges)
        for labels in y
    ]
    crf = GraphCRF(learner=SampleRank(max_iter=5, n_proposals=20), inference="brute_force").fit(X, y)
    assert np.mean(np.concatenate(crf.predict(X)) == np.concatenate(y)) > 0.95
    assert crf.history_["updates"].sum() > 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"update": "perzeptron"}, "Did you mean 'perceptron'"),
        ({"walk": "there"}, "SampleRank: walk='there' is not known"),
        ({"step_size": 0.0}, "step_size must be a number"),
        ({"margin": -1.0}, "margin must be a number"),
        ({"temperature": np.nan}, "temperature must be a number"),
        ({"n_proposals": 0}, "n_proposals must be a number"),
        ({"max_iter": 1.5}, "max_iter must be an integer"),
        ({"block": 0}, "block must be an integer"),
        ({"random_state": -1}, "random_state must be an integer"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(InvalidInputError, match=message):
        SampleRank(**settings).fit_worlds([separable_world()])


def test_bad_worlds():
    with pytest.raises(InvalidInputError, match="no worlds"):
        SampleRank().fit_worlds([])
    other = ClusterWorld(pair_features(2, [[0, 1]], [1.0]), truth=[0, 0])
    wide = ClusterWorld(pair_features(2, [[0, 1]], [[1.0, 2.0]]), truth=[0, 0])
    with pytest.raises(InvalidInputError, match="world 1 has 3 features, but world 0 has 2"):
        SampleRank().fit_worlds([other, wide])
    with pytest.raises(InvalidInputError, match="2 finite weights are needed"):
        SampleRank().fit_worlds([other], start=np.zeros(5))
    with pytest.raises(InvalidInputError, match="Pass truth="):
        SampleRank().fit_worlds([ClusterWorld(other.pairs)])


def test_an_error_in_the_metric_is_raised():
    def broken(truth, labels):
        raise ZeroDivisionError("mine")

    world = ClusterWorld(pair_features(2, [[0, 1]], [1.0]), truth=[0, 0], metric=broken)
    with pytest.raises(ZeroDivisionError, match="mine"):
        SampleRank().fit_worlds([world])
