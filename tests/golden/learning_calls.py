"""Losses, gradient rules, optimizers, learners, schedules and the risk, on small graphs."""

from __future__ import annotations

import numpy as np
from tests.golden.golden import golden
from tests.golden.inference_calls import fields
from tests.learning.training_sets import noisy_grids
from tests.losses.labelled_models import learning_model, some_labels, weighted

from intarsia import graph as graphs
from intarsia.exceptions import IntarsiaError
from intarsia.gradients import GRADIENTS, truncated_log_partition
from intarsia.inference import method_class, method_names
from intarsia.learning import (
    LBFGS,
    LEARNERS,
    OPTIMIZERS,
    SGD,
    Adam,
    GraphWorld,
    Incremental,
    ProximalLBFGS,
    RiskMinimizer,
    SampleRank,
    StructuredPerceptron,
    StructuredSVM,
    example,
)
from intarsia.losses import LOSSES, MarginalLoss, training_labels
from intarsia.models import LinearScores, MatrixScores, Templates, TemplateScores, template_graph

MODELS = ("grid", "tree", "three_way_factor", "hard_zeros")
RULES = {"truncated": {"n_iter": 4}}
SORTS = ("observed", "hidden", "sets")


def loss_of(name, graph):
    loss = LOSSES.get(name)()
    if name == "patch_pseudo_likelihood" and graph.grid_shape is None:
        loss.set_params(patch=np.arange(graph.n_variables) // 2)
    return loss


@golden(each=LOSSES.names, reordered={"surrogate_em"})
def loss(name):
    """Value and gradient with observed labels, hidden labels and sets, with and without weights."""
    result = {}
    for k, model in enumerate(MODELS):
        graph, theta = learning_model(model)
        for sort in SORTS:
            labels = some_labels(model, sort, seed=k)
            labels = weighted(graph, labels) if LOSSES.get(name).takes_weights and sort == "hidden" else labels
            function = loss_of(name, graph)
            try:
                if isinstance(function, MarginalLoss):
                    mu = np.random.default_rng(k).random(graph.n_theta)
                    value, gradient = function.value_and_gradient(graph, mu, labels)
                else:
                    value, gradient = function.value_and_gradient_theta(graph, theta, labels, random_state=3)
                result |= {f"{model}.{sort}": np.append(gradient[:30], value)}
            except IntarsiaError as error:
                result[f"{model}.{sort}"] = str(error)
    return result


@golden(
    each=[f"{rule}-{method}" for rule in GRADIENTS.names for method in GRADIENTS.get(rule).differentiates],
    reordered={"back_propagation-mean_field"},
)
def gradient(pair):
    """Two losses through a rule and an inference method."""
    rule, _, method = pair.partition("-")
    result = {}
    for model in ("grid", "three_way_factor", "tree") if method_class(method).limited_to == "" else ("tree",):
        form = graphs.learning_form(learning_model(model)[0])
        theta = 0.5 * form.lower(learning_model(model)[1])
        labels = training_labels(form.graph, form.lower_labels(some_labels(model, "hidden").allowed))
        for loss in ("clique_logistic", "univariate_quadratic"):
            function = GRADIENTS.get(rule)(**RULES.get(rule, {}))
            found = function.value_and_gradient(form.graph, theta, labels, LOSSES.get(loss)(), method)
            result |= {f"{model}.{loss}": np.append(found.gradient, found.value), f"{model}.is": found.status.name}
    return result


@golden(of=["belief_propagation", "tree_reweighted", "mean_field"])
def truncated_value(method):
    graph, theta = learning_model("grid")
    value, gradient = truncated_log_partition(graph, theta, method, 3)
    return {"value": value, "gradient": gradient}


def banana(x):
    value = (1 - x[0]) ** 2 + 10 * (x[1] - x[0] ** 2) ** 2
    slope = -2 * (1 - x[0]) - 40 * x[0] * (x[1] - x[0] ** 2)
    return float(value), np.array([slope, 20 * (x[1] - x[0] ** 2)])


def minimum(found, prefix=""):
    return {f"{prefix}is": found.status.name} | fields(found, "point", "value", "n_iter", prefix=prefix)


@golden(each=OPTIMIZERS.names)
def optimizer(name):
    """A curved valley, stopped early and late."""
    start = np.array([-1.2, 1.0])
    result = minimum(OPTIMIZERS.get(name)(max_iter=5).minimize(banana, start), "early.")
    settings = {} if name == "lbfgs" else {"step_size": 0.01}
    return result | minimum(OPTIMIZERS.get(name)(max_iter=200, **settings).minimize(banana, start), "late.")


@golden()
def proximal_optimizer():
    found = ProximalLBFGS(l1=0.5, max_iter=50).minimize(banana, np.array([-1.2, 1.0]))
    return minimum(found) | {"repr": repr(ProximalLBFGS(l1=0.5))}


QUICK = {"risk_minimizer": {"optimizer": LBFGS(max_iter=15)}, "structured_svm": {"max_iter": 10},
         "structured_perceptron": {"max_iter": 5}, "sample_rank": {"max_iter": 2, "n_proposals": 20.0}}  # fmt: skip


@golden(each=LEARNERS.names)
def learner(name):
    """Every learner on labelled grids, from zero and from given weights."""
    data = noisy_grids(4)
    learner = LEARNERS.get(name)(**QUICK[name])
    inference = "lp_relaxation" if learner.learns_from != "marginals" else "tree_reweighted"
    found = learner.minimize(data, inference)
    result = minimum(found) | {
        f"history.{key}": np.asarray(values)[-1] for key, values in found.history.items() if key != "seconds"
    }
    if name == "structured_svm":  # cannot continue
        return result
    return result | minimum(learner.minimize(data, inference, found.point * 0.5), "again.")


@golden(of=[name for name in LOSSES.names if name != "contrastive_divergence"])
def risk_minimizer_loss(name):
    data = noisy_grids(3, shape=(2, 3))
    found = RiskMinimizer(loss=name, optimizer=LBFGS(max_iter=6)).minimize(data, "tree_reweighted")
    return minimum(found)


@golden(
    each=["adam", "sgd", "incremental", "no_precondition", "contrastive_divergence", "hidden", "weights", "held_out"]
)
def risk_minimizer(case):
    data = noisy_grids(6, shape=(2, 3))
    settings = {
        "adam": {"optimizer": Adam(max_iter=4, batch_size=2)},
        "sgd": {"optimizer": SGD(max_iter=4, batch_size=2), "loss": "univariate_logistic"},
        "incremental": {"schedule": Incremental(n_start=2, max_iter=8)},
        "no_precondition": {"precondition": False, "optimizer": LBFGS(max_iter=8)},
        "contrastive_divergence": {"loss": "contrastive_divergence", "optimizer": SGD(max_iter=3)},
        "held_out": {"validation_fraction": 0.34, "patience": 2, "optimizer": Adam(max_iter=8)},
    }.get(case, {"optimizer": LBFGS(max_iter=8)})
    if case == "hidden":
        data = [example(part.scores, np.where(np.arange(6) % 4, part.labels.y, -1)) for part in data]
    if case == "weights":
        data = [example(part.scores, part.labels.y, 0.5 + k, np.linspace(0, 1, 6)) for k, part in enumerate(data)]
    return minimum(RiskMinimizer(**settings).minimize(data, "tree_reweighted"))


@golden(of=["belief_propagation", "mean_field"])
def risk_minimizer_inference(method):
    return minimum(RiskMinimizer(optimizer=LBFGS(max_iter=6)).minimize(noisy_grids(3, shape=(2, 3)), method))


@golden(of=[name for name in method_names() if method_class(name).gives_map and name not in ("tree", "auto")])
def perceptron_inference(method):
    data = noisy_grids(3, shape=(2, 3))
    try:
        return minimum(StructuredPerceptron(max_iter=3).minimize(data, method))
    except IntarsiaError as error:
        return {"error": str(error)}


@golden(of=["subgradient", "frank_wolfe", "best", "margin", "no_average"])
def margin_learner(case):
    data = noisy_grids(4, shape=(2, 3))
    learner = {
        "subgradient": StructuredSVM(solver="subgradient", max_iter=8),
        "frank_wolfe": StructuredSVM(l2=3.0, max_iter=8),
        "best": StructuredPerceptron(max_iter=4, shuffle=False), "margin": StructuredPerceptron(max_iter=4, margin=1.0),
        "no_average": StructuredPerceptron(max_iter=4, average=False),
    }[case]  # fmt: skip
    return minimum(learner.minimize(data, "lp_relaxation"))


@golden(of=["mira", "perceptron", "truth", "hot", "block"])
def sample_rank(case):
    settings = {
        "mira": {}, "perceptron": {"update": "perceptron", "average": False}, "truth": {"walk": "truth"},
        "hot": {"temperature": 1.0}, "block": {"block": 2},
    }[case]  # fmt: skip
    found = SampleRank(max_iter=2, n_proposals=15.0, **settings).minimize(noisy_grids(3, shape=(2, 3)), "icm")
    return minimum(found)


@golden()
def graph_world():
    part = noisy_grids(1, shape=(2, 3))[0]
    world = GraphWorld(part, block=2)
    weights, rng = np.arange(world.n_weights) / 10 - 0.3, np.random.default_rng(0)
    rows = []
    for _ in range(6):
        move = world.propose(rng, weights)
        rows.append([*world.feature_change(move), world.performance_change(move)])
        world.apply(move)
    return {"changes": np.array(rows), "labels": world.labels, "features": world.features()}


@golden(of=["linear", "matrix", "template"])
def score_map(kind):
    """Scores of weights, and the pull-back of a gradient."""
    rng = np.random.default_rng(2)
    graph = graphs.grid_graph(2, 2, 3)
    if kind == "linear":
        scores = LinearScores(graph, rng.normal(size=(4, 2)), rng.normal(size=(4, 2)))
    elif kind == "matrix":
        scores = MatrixScores(graph, rng.normal(size=(graph.n_theta, 4)))
    else:
        templates = Templates({"a": 2, "b": 3}, {"a": 2, "b": 1}, {"ab": ("a", "b")}, {"ab": 1})
        scopes = {"ab": np.array([[0, 0], [1, 0]])}
        graph = template_graph(templates, {"a": 2, "b": 1}, scopes)
        node = {"a": rng.normal(size=(2, 2)), "b": np.ones((1, 1))}
        scores = TemplateScores(templates, graph, node, {"ab": rng.normal(size=(2, 1))})
    weights = rng.normal(size=scores.n_weights)
    return {
        "theta": scores.theta(weights), "pulled": scores.pull_back(rng.normal(size=graph.n_theta)),
    }  # fmt: skip
