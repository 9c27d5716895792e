"""Inference methods: marginals, MAP, temperature, evidence, warm start, samples, n-best, settings and graph tools."""

from __future__ import annotations

import re

import numpy as np
from tests.golden.golden import golden
from tests.zoo import ATTRACTIVE, FORESTS, ZOO, random_theta

import intarsia
from intarsia import graph as graphs
from intarsia.exceptions import IntarsiaError
from intarsia.inference import method_class, method_names

METHODS = method_names()
MODELS = (
    "chain",
    "tree",
    "star",
    "grid",
    "three_way_factor",
    "hard_implications",
    "hard_zeros",
    "potts",
    "constraints",
)
TAKES = {"tree": FORESTS, "graph_cut": ATTRACTIVE}
SETTINGS = {"gibbs": {"max_iter": 200}}
NUMBERS = ("mu", "score", "log_partition", "lower_bound", "upper_bound", "residual", "n_iter", "integral", "assignment")


def fields(result, *names, prefix=""):
    """Return fields of a result as a dict; those that are None are left out."""
    values = {f"{prefix}{name}": getattr(result, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def summary(result, *more, prefix=""):
    texts = [result.status.name, result.log_partition_is, result.method.name]
    return {f"{prefix}is": texts} | fields(result, *NUMBERS, *more, prefix=prefix)


def ask(model, method, task="marginals", **options):
    """Return the numbers of a result, or the type of the error."""
    cls = method_class(method) if isinstance(method, str) else type(method)
    task = task if (cls.gives_marginals if task == "marginals" else cls.gives_map) else "map"
    task = task if cls.gives_map or task != "map" else "marginals"
    graph, theta = ZOO[model]()
    if isinstance(method, str):
        options = SETTINGS.get(method, {}) | options
    return intarsia.infer(graph, theta, method, task, random_state=7, **options)


def accepted(method, models=MODELS):
    return [model for model in models if model in TAKES.get(method, ZOO)]


@golden(each=METHODS, reordered={"belief_propagation", "mean_field", "tree_reweighted"})
def marginals(method):
    """Small numbers of three models: their names are part of the names of the arrays."""
    result = {}
    for model in accepted(method)[:4]:
        result |= summary(ask(model, method), prefix=f"{model}.")
    return result


@golden(each=[name for name in METHODS if method_class(name).gives_map and method_class(name).gives_marginals])
def best_labelling(method):
    result = {}
    for model in accepted(method):
        result |= summary(ask(model, method, "map"), prefix=f"{model}.")
    return {key: value for key, value in result.items() if not key.endswith(".mu")}


@golden(each=METHODS, reordered={"belief_propagation", "mean_field"})
def hard_models(method):
    """Models with forbidden states, shared tables, and no possible labelling."""
    result = {}
    for model in ("hard_zeros_three_way", "truncated_linear", "infeasible", "huge_potentials"):
        try:
            result |= summary(ask(model, method), prefix=f"{model}.")
        except IntarsiaError as error:
            result[f"{model}.error"] = type(error).__name__
    return {key: value for key, value in result.items() if not key.endswith(".mu") or value.size < 30}


@golden(of=[name for name in METHODS if method_class(name).gives_marginals], reordered=True)
def temperature(method):
    model = accepted(method)[0]
    result = summary(ask(model, method, temperature=0.5), prefix="cold.")
    return result | summary(ask(model, method, temperature=2.0), prefix="hot.")


@golden(of=METHODS)
def evidence(method):
    model = accepted(method, ("grid", "chain"))[0]
    return summary(ask(model, method, evidence={1: 1, 3: 0}))


@golden(of=METHODS)
def warm_start(method):
    """The second run begins where the first, cut short, has ended."""
    model = accepted(method, ("grid", "chain"))[0]
    short = {"max_iter": 2} if "max_iter" in method_class(method)().get_params() else {}
    try:
        first = ask(model, method, **short)
        return summary(ask(model, method, warm_start=first))
    except IntarsiaError as error:
        return {"error": str(error)}


@golden(each=["brute_force", "tree", "junction_tree", "gibbs", "bethe_rda"])
def samples_and_best(method):
    result = {}
    if method_class(method).gives_samples:
        result |= fields(ask("tree", method, n_samples=20), "samples", "mu_error", "r_hat")
    if method_class(method).gives_best:
        result |= fields(ask("tree", method, n_best=8), "best", "best_scores", prefix="n_best.")
    return result


@golden(each=["belief_propagation", "tree_reweighted", "mean_field"])
def schedules(method):
    result = {}
    for schedule in ("forward_backward", "parallel", "residual"):
        for damping in (0.0, 0.4):
            try:
                found = ask("grid", method, schedule=schedule, damping=damping)
            except IntarsiaError as error:
                result[f"{schedule}.{damping}"] = type(error).__name__
                continue
            result |= fields(found, "mu", "log_partition", "n_iter", prefix=f"{schedule}.{damping}.")
    return result


@golden()
def gibbs_settings():
    result = {}
    for settings in ({"block": "single"}, {"n_chains": 2}, {"max_iter": 150}):
        found = ask("grid", "gibbs", **settings)
        result |= fields(found, "mu", "mu_error", "r_hat", prefix=f"{settings}.")
    return result


@golden()
def auto():
    """What "auto" chooses on small models, for both tasks."""
    result = {}
    for model in ("chain", "grid", "potts", "constraints", "infeasible"):
        for task in ("marginals", "map"):
            graph, theta = ZOO[model]()
            found = intarsia.infer(graph, theta, "auto", task, random_state=0)
            result |= summary(found, prefix=f"{model}.{task}.")
    return {key: value for key, value in result.items() if not key.endswith(".mu")}


@golden()
def shown():
    """What a result prints, and its accessors."""
    result = ask("tree", "junction_tree")
    graph = result.graph
    return {
        "repr": re.sub(r"[0-9.e-]+ s\)", "s)", repr(result)),
        "variable": result.marginals(3),
        "factor": result.factor_marginals(0),
        "entropy": float(-np.sum(result.marginals(0) * np.log(result.marginals(0)))),
        "graph": repr(graph),
    }


@golden()
def brute_force_with_energy():
    """An energy on the exact distribution of a small chain."""
    from intarsia.energies import Count, Hinge, MeasuredEnergy

    graph = graphs.chain_graph(3, 3)
    energy = MeasuredEnergy(Count(1), Hinge(0.2), psi=3.0)
    return summary(intarsia.infer(graph, random_theta(graph, 4), "bethe_rda", energy=energy, tol=1e-8))


@golden(of=["chain", "star", "grid", "complete", "grid_three_states"])
def appearance(model):
    graph, _ = ZOO[model]()
    rho = graphs.appearance_probabilities(graph, random_state=0)
    return {"rho": rho, "valid": graphs.is_valid_appearance(graph, rho)}


@golden(of=["grid", "hard_zeros", "one_state_variables", "constraints", "shared_chain"])
def reduction(model):
    graph, _ = ZOO[model]()
    found = graphs.reduce_graph(graph, {0: 0})
    return {
        "free": found.free_variables, "states": found.states, "rows": found.rows, "columns": found.columns,
        "coef": found.coef, "fixed": found.fixed, "factor_of": found.factor_of, "scopes": found.graph.scope_idx,
        "n_states": found.graph.n_states,
    }  # fmt: skip


@golden(of=["grid", "potts", "three_way_factor", "unary_factors_twice"])
def learning_form(model):
    graph, _ = ZOO[model]()
    found = graphs.learning_form(graph, {1: 0})
    return {"source": found.source, "coef": found.coef, "scopes": found.graph.scope_idx, "ptr": found.graph.scope_ptr}


@golden(of=["disconnected", "potts", "truncated_quadratic", "constraints", "three_way_factor"])
def factor_graph(model):
    """Layout, packing, statistics, scores and tables of a graph."""
    graph, theta = ZOO[model]()
    y = np.array([i % s for i, s in enumerate(graph.n_states)])
    return {
        "n": [graph.n_variables, graph.n_factors, graph.n_theta], "variable_ptr": graph.variable_ptr,
        "statistics": graph.statistics(y), "score": graph.score(theta, y), "repr": repr(graph),
        "tables": [graph.factor_table(theta, c) for c in range(graph.n_factors)][:4],
    }  # fmt: skip


@golden()
def shapes():
    made = {
        "chain": graphs.chain_graph(4, 2, shared=True), "complete": graphs.complete_graph(4, 3),
        "grid": graphs.grid_graph(2, 3, 2, connectivity=8), "star": graphs.star_graph(3, 2),
        "tree": graphs.tree_graph([-1, 0, 0, 1], [2, 3, 2, 2]), "edges": graphs.from_edges([2, 3, 2], [[0, 1], [2, 1]]),
    }  # fmt: skip
    arrays = ("n_states", "scope_ptr", "scope_idx", "table_of_factor", "variable_ptr")
    return {f"{name}.{key}": getattr(graph, key) for name, graph in made.items() for key in arrays}


@golden()
def batches():
    parts = [graphs.chain_graph(n, 2, shared=True) for n in (1, 3, 2)]
    apart, shared = graphs.batch_graphs(parts), graphs.batch_graphs(parts[1:], share_tables=True)
    theta = random_theta(apart.graph, 3)
    found = intarsia.infer(apart.graph, theta, "tree")
    return {"mu": found.mu, "log_z": found.log_partition, "start": apart.variable_start, "shared": shared.graph.n_theta}


@golden()
def builder():
    build = graphs.GraphBuilder()
    build.variable("a", 2, scores=[0.5, -0.5])
    build.variable("b", 3)
    build.factor(["a", "b"], np.arange(6.0).reshape(2, 3) / 5)
    build.variable("c", 2)
    build.constraint(["a", "c"], "implies")
    graph, theta = build.build()
    found = intarsia.infer(graph, theta, "junction_tree", evidence={"a": 1})
    return {"theta": theta, "names": list(graph.names), "mu": found.mu, "log_z": found.log_partition}
