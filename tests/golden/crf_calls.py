"""`GridCRF` and `GraphCRF`: labels of every kind, learners, energies, expectations, predictions and model files."""

from __future__ import annotations

import numpy as np
from tests.golden.golden import golden

from intarsia import GraphCRF, GridCRF, RiskMinimizer, SampleRank, StructuredPerceptron, StructuredSVM
from intarsia.crf import Factors, GraphInstance
from intarsia.energies import Count, MeasuredEnergy, SmoothedHinge, Squared
from intarsia.gradients import TruncatedGradient
from intarsia.learning import LBFGS, SGD, Adam, DoubleLoop, DoublyStochastic
from intarsia.learning.expectations import label_proportion
from intarsia.models import edge_features, histogram_of_gradients, pixel_features, sinusoidal_expansion

RNG = np.random.default_rng(0)
MASKS = [np.repeat([[0, 1]], 3, axis=0).repeat(2, axis=1), np.eye(3, dtype=int)]
IMAGES = [mask[:, :, None] - 0.5 + RNG.normal(size=(*mask.shape, 2)) for mask in MASKS]
QUICK = RiskMinimizer(l2=1.0, gradient=TruncatedGradient(n_iter=3), optimizer=LBFGS(max_iter=6))

EXACT = RiskMinimizer(loss="likelihood", optimizer=LBFGS(max_iter=6))


def people(n=6, seed=0):
    """Return graphs of people with one feature each; friends agree."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        labels = rng.integers(0, 2, 4)
        labels[2] = labels[0]
        X.append((np.column_stack([labels - 0.5 + rng.normal(size=4), np.ones(4)]), [[0, 2], [1, 2], [2, 3]]))
        y.append(np.array(["no", "yes"])[labels].tolist())
    return X, y


X, Y = people()


def predictions(crf, X, prefix=""):
    return {
        f"{prefix}weights": crf.weights_, f"{prefix}labels": [np.asarray(labels).tolist() for labels in crf.predict(X)],
        f"{prefix}marginals": np.concatenate([np.ravel(part) for part in crf.predict_marginals(X)]),
    }  # fmt: skip


@golden(each=["plain", "hidden", "sample_weight", "class_weight", "balanced", "edge_features", "eight", "map",
"warm_start",
              "belief_propagation", "mean_field", "perceptron", "svm", "sample_rank", "partial_fit"])  # fmt: skip
def grid_crf(case, folder):
    """Fit, save, load, predict and score."""
    settings = {
        "class_weight": {"class_weight": {0: 2.0}}, "balanced": {"class_weight": "balanced"},
        "eight": {"connectivity": 8},
        "map": {"decode": "map"}, "warm_start": {"warm_start": True}, "belief_propagation": {"inference": case},
        "mean_field": {"inference": case},
        "perceptron": {"learner": StructuredPerceptron(max_iter=3), "inference": "lp_relaxation"},
        "svm": {"learner": StructuredSVM(max_iter=3), "inference": "graph_cut"},
        "sample_rank": {"learner": SampleRank(max_iter=1, n_proposals=10.0), "inference": "icm"},
        "partial_fit": {"learner": RiskMinimizer(optimizer=SGD(), loss="univariate_logistic"), "classes": [0, 1]},
    }.get(case, {})  # fmt: skip
    crf, y, options, at = GridCRF(**({"learner": QUICK} | settings)), MASKS, {}, {}
    if case == "svm":
        y = [np.where(mask > 0, 1, 0) for mask in MASKS]
    if case == "hidden":
        y = [np.where(np.arange(mask.size).reshape(mask.shape) % 3 == 1, -1, mask) for mask in MASKS]
    if case == "sample_weight":
        options = {"sample_weight": [0.5, 2.0]}
    if case == "edge_features":
        at = {
            "edge_features": [
                edge_features(np.clip(image[..., 0] / 4 + 0.5, 0, 1), sobel=False, colour_thresholds=[0.1, 1.0])
                for image in IMAGES
            ]
        }
    if case == "warm_start":
        crf.fit(IMAGES[:1], MASKS[:1])
    if case == "partial_fit":
        crf.partial_fit(IMAGES, y).partial_fit(IMAGES, y)
    else:
        crf.fit(IMAGES, y, **options, **at)
    crf.save(folder / "m.npz")
    crf = GridCRF.load(folder / "m.npz")
    result = {"labels": crf.predict(IMAGES, **at), "score": crf.score(IMAGES, MASKS, **at), "weights": crf.weights_}
    if case not in ("svm", "perceptron", "sample_rank"):
        result["marginals"] = crf.predict_marginals(IMAGES, **at)
    return result | {"repr": repr(crf)[:400]}


@golden()
def grid_samples():
    crf = GridCRF(learner=EXACT, inference="junction_tree").fit(IMAGES, MASKS)
    best = crf.predict_kbest(IMAGES[1:], 3)[0]
    return {
        "samples": [np.asarray(part) for part in crf.sample(IMAGES, 3, random_state=0)],
        "best": [labels for labels, _ in best], "values": [value for _, value in best],
        "weighted": crf.score(IMAGES, MASKS, sample_weight=[1.0, 3.0]), "edges": crf.edge_weights_,
    }  # fmt: skip


@golden(each=["plain", "hidden", "sets", "sample_weight", "balanced", "symmetric", "adam", "likelihood", "partial_fit",
              "edge_features", "junction_tree"])  # fmt: skip
def graph_crf(case):
    settings = {
        "balanced": {"class_weight": "balanced"}, "symmetric": {"symmetric": True},
        "adam": {"learner": RiskMinimizer(optimizer=Adam(max_iter=4), loss="univariate_logistic")},
        "likelihood": {"learner": RiskMinimizer(loss="likelihood", optimizer=LBFGS(max_iter=6)), "inference": "tree"},
        "partial_fit": {"learner": RiskMinimizer(optimizer=Adam(), loss="clique_logistic")},
        "junction_tree": {"learner": RiskMinimizer(loss="likelihood", optimizer=LBFGS(max_iter=6)), "inference": case},
    }.get(case, {})  # fmt: skip
    crf, data, y, options = GraphCRF(**({"learner": QUICK} | settings)), X, Y, {}
    if case == "hidden":
        y = [[None if k == 1 else label for k, label in enumerate(labels)] for labels in Y]
    if case == "sets":
        y = [[frozenset({"no", "yes"}) if k == 1 else label for k, label in enumerate(labels)] for labels in Y]
    if case == "sample_weight":
        options = {"sample_weight": np.arange(6.0)}
    if case == "edge_features":
        data = [(nodes, edges, np.arange(6.0).reshape(3, 2) / 3) for nodes, edges in X]
    if case == "partial_fit":
        crf.partial_fit(data[:3], y[:3], classes=["no", "yes"]).partial_fit(data[3:], y[3:])
    else:
        crf.fit(data, y, **options)
    return predictions(crf, data) | {"score": crf.score(data, Y), "classes": str(crf.classes_)}


@golden(each=["squared", "hinge", "linear", "double_loop", "mirror_descent", "fixed"])
def graph_energies(case):
    """Learned strengths of energies, and predictions under them."""
    energy = MeasuredEnergy(Count("yes"), Squared(2.0), psi=0.3)
    settings = {
        "hinge": {"energies": MeasuredEnergy(Count("yes"), SmoothedHinge(1.0), psi=0.3)},
        "linear": {"psi": "linear"}, "double_loop": {"energy_learner": DoubleLoop(max_iter=2)},
        "mirror_descent": {"projection": "bethe_mirror_descent"},
        "fixed": {"energies": MeasuredEnergy(Count("yes"), Squared(2.0), strength=5.0)},
    }.get(case, {})  # fmt: skip
    base = {"learner": QUICK, "energies": energy, "energy_learner": DoublyStochastic(max_iter=2)}
    crf = GraphCRF(**(base | settings)).fit(X, Y)
    return predictions(crf, X[:3]) | {"history": {key: list(values) for key, values in crf.energy_history_.items()}}


@golden()
def graph_expectations():
    crf = GraphCRF(
        learner=RiskMinimizer(loss="likelihood", optimizer=LBFGS(max_iter=5)), classes=["no", "yes"], inference="tree"
    )
    crf.fit(X, None, expectations=label_proportion({"yes": 0.4}))
    return predictions(crf, X[:3])


def words():
    return GraphInstance(
        {"word": np.eye(3), "topic": np.ones((1, 1))},
        factors={
            "about": Factors([[0, 0], [2, 0]], types=("word", "topic")),
            "follows": Factors([[0, 1], [1, 2]], types="word"),
            "three": Factors([[0, 1, 2]], features=[[0.5]], types="word"),
        },
    )


@golden()
def graph_of_types(folder):
    """Several types of variables and factors, saved and loaded."""
    settings = {"classes": {"word": ["a", "b"], "topic": [0, 1]}, "symmetric": ["follows"]}
    crf = GraphCRF(learner=EXACT, inference="junction_tree", **settings).fit(
        [words()], [{"word": ["a", "b", "a"], "topic": [1]}]
    )
    crf.save(folder / "m.npz")
    crf = GraphCRF.load(folder / "m.npz")
    return {
        "labels": crf.predict([words()]), "marginals": crf.predict_marginals([words()]), "nodes": crf.node_weights_,
        "factors": crf.factor_weights_, "best": crf.predict_kbest([words()], 2),
        "samples": crf.sample([words()], 2, random_state=0),
    }  # fmt: skip


@golden()
def image_features():
    image = np.random.default_rng(3).random((4, 5, 3))
    return {
        "edges": edge_features(image), "gradients": histogram_of_gradients(image, cell=2.0, n_orientations=3),
        "expansion": sinusoidal_expansion(image[0, :2]), "pixels": pixel_features(image, cell=2.0)[:2, :2],
    }  # fmt: skip
