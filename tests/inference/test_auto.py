"""Choice of `method="auto"`: exact where affordable, and equal in the library and on the command line."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
from tests.oracles.enumeration import enumerate_model
from tests.zoo import ZOO

import intarsia
from intarsia.cli import main
from intarsia.exceptions import InvalidInputError, NotSupportedError, TimeLimitError
from intarsia.graph.once_per_graph import OncePerGraph
from intarsia.inference import method_class


def _random(graph, strength=1.0, seed=0):
    return graph, strength * np.random.default_rng(seed).standard_normal(graph.n_theta)


def _dense(n, seed=0):
    rng = np.random.default_rng(seed)
    pairs = [(i, j) for i in range(n) for j in range(i)]
    return intarsia.from_edges(2, np.array([pairs[k] for k in rng.permutation(len(pairs))[: 4 * n]]))


MODELS = {
    "forest": (lambda: _random(intarsia.chain_graph(300, 3)), "tree", "tree"),
    "small grid": (lambda: _random(intarsia.grid_graph(8, 8, 2)), "junction_tree", "junction_tree"),
    "thin grid": (lambda: _random(intarsia.grid_graph(4, 400, 2)), "junction_tree", "junction_tree"),
    "large grid": (lambda: _random(intarsia.grid_graph(60, 60, 2)), "tree_reweighted", "dual_decomposition"),
    "dense": (lambda: _random(_dense(200), 0.1), "tree_reweighted", "dual_decomposition"),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("task", ["marginals", "map"])
def test_chosen_method(name, task):
    build, marginals, best = MODELS[name]
    result = intarsia.infer(*build(), task=task)
    selected = marginals if task == "marginals" else best
    assert result.method.name == selected
    assert result.chosen_by_auto
    assert f"auto chose {selected}" in repr(result)


def test_attractive_binary_models_use_graph_cut():
    graph = intarsia.grid_graph(60, 60, 2)
    theta = np.random.default_rng(0).standard_normal(graph.n_theta)
    theta[graph.variable_ptr[-1] :] = np.tile([1.0, 0.0, 0.0, 1.0], graph.n_tables)
    result = intarsia.infer(graph, theta, task="map")
    assert (result.method.name, result.status.name) == ("graph_cut", "EXACT")
    assert intarsia.infer(graph, theta).method.name == "tree_reweighted"


@pytest.mark.parametrize("name", ZOO)
def test_result_equals_enumeration(name):
    graph, theta = ZOO[name]()
    truth = enumerate_model(graph, theta)
    result = intarsia.infer(graph, theta)
    if truth.log_partition == -np.inf:
        assert result.status.name == "INFEASIBLE"
        return
    assert result.status.name == "EXACT"
    np.testing.assert_allclose(result.log_partition, truth.log_partition, atol=1e-9)
    assert intarsia.infer(graph, theta, task="map").score == pytest.approx(truth.scores.max(), abs=1e-9)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("task", ["pr", "mar", "map"])
def test_library_and_command_line_agree(name, task, tmp_path, capsys):
    intarsia.write_uai(tmp_path / "m.uai", *MODELS[name][0]())
    with pytest.raises(SystemExit):
        main(["infer", str(tmp_path / "m.uai"), "--task", task, "--json", "--seed", "0"])
    document = json.loads(capsys.readouterr().out)
    model = intarsia.read_uai(tmp_path / "m.uai")
    result = intarsia.infer(*model, task="map" if task == "map" else "marginals", random_state=0)
    assert document["method"] == result.method.name
    assert document["status"] == result.status.name
    if task == "map":
        assert document["assignment"] == result.assignment.tolist()
    else:
        assert document["log_partition"] == result.log_partition


# ---------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("settings", "task", "expected"),
    [
        ({"max_iter": 3, "tol": 1e-3}, "marginals", "tree_reweighted"),
        ({"damping": 0.3}, "marginals", "tree_reweighted"),
        ({"schedule": "parallel"}, "marginals", "tree_reweighted"),
        ({"max_iter": 3}, "map", "dual_decomposition"),
        ({"damping": 0.3}, "map", "belief_propagation"),
        ({"ordering": "min_fill"}, "marginals", "junction_tree"),
        ({"temperature": 2.0}, "marginals", "tree"),
    ],
)
@pytest.mark.filterwarnings("ignore::intarsia.exceptions.ConvergenceWarning")
def test_settings_are_those_of_the_chosen_method(settings, task, expected):
    result = intarsia.infer(*ZOO["chain"](), task=task, **settings)
    assert result.method.name == expected
    assert {key: result.method.get_params()[key] for key in settings} == settings


def test_setting_of_exact_methods_is_ignored_by_the_fallback():
    graph, theta = MODELS["small grid"][0]()
    assert intarsia.infer(graph, theta, max_memory=100.0).method.name == "tree_reweighted"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dampnig": 0.3}, r"^setting='dampnig' is not known\. Known: .* Did you mean 'damping'\?$"),
        ({"damping": 0.3, "max_memory": 1e9}, "considers no method that has all of the settings damping, max_memory"),
        ({"max_iter": -1}, r"^TreeReweighted: max_iter"),
    ],
)
def test_settings_without_a_candidate_raise(settings, message):
    with pytest.raises(InvalidInputError, match=message):
        intarsia.infer(*ZOO["chain"](), **settings)


def test_best_labellings_are_never_approximate():
    result = intarsia.infer(*ZOO["grid"](), task="map", n_best=3)
    assert result.method.name == "junction_tree"
    with pytest.raises(InvalidInputError, match="setting='max_iter'"):
        intarsia.infer(*ZOO["grid"](), task="map", n_best=3, max_iter=4)
    with pytest.raises(NotSupportedError, match="n_samples needs task='marginals'"):
        intarsia.infer(*ZOO["grid"](), task="map", n_samples=3)


def test_samples_are_exact_where_affordable():
    assert intarsia.infer(*ZOO["grid"](), n_samples=3, random_state=0).method.name == "junction_tree"
    graph, theta = _random(intarsia.grid_graph(40, 40, 2), 0.1)
    result = intarsia.infer(graph, theta, n_samples=3, random_state=0)
    assert (result.method.name, result.samples.shape) == ("gibbs", (3, 1600))


def test_constraints_over_many_variables():
    builder = intarsia.GraphBuilder()
    names = [f"v{k}" for k in range(40)]
    for name in names:
        builder.variable(name, 2, [0.0, 1.0])
    builder.constraint(names, "budget", max_active=3)
    graph, theta = builder.build()
    result = intarsia.infer(graph, theta, task="map")
    assert (result.method.name, result.score) == ("dual_decomposition", 3.0)
    with pytest.raises(NotSupportedError, match="expands constraints into tables"):
        intarsia.infer(graph, theta)


# ---------------------------------------------------------------- time


def test_fallback_when_the_exact_method_runs_out_of_time(monkeypatch):
    limits = []

    def too_slow(self, problem):
        limits.append(problem.clock.limit)
        raise TimeLimitError("JunctionTree: not finished in time_limit.")

    monkeypatch.setattr(method_class("junction_tree"), "run", too_slow)
    result = intarsia.infer(*ZOO["grid"](), time_limit=8.0)
    assert result.method.name == "tree_reweighted"
    assert 2.0 < limits[0] <= 4.0


def test_unsuccessful_search_for_an_order_is_short():
    """Grids from 20x20 to 100x100 and random graphs: the choice of the method takes a fraction of a second."""
    for graph in (*(intarsia.grid_graph(n, n, 2) for n in (20, 30, 50, 100)), _dense(800), _dense(3000)):
        theta = graph.zeros()
        intarsia.infer(graph, theta)  # compile the kernels
        graph = intarsia.FactorGraph(graph.n_states, graph.scope_ptr, graph.scope_idx)
        began = time.process_time()
        assert intarsia.infer(graph, theta).method.name == "tree_reweighted"
        assert time.process_time() - began < 1.0


def test_unsuccessful_search_for_an_order_is_not_repeated(monkeypatch):
    from intarsia.inference.exact import junction_tree

    graph, theta = _random(intarsia.grid_graph(40, 40, 2), 0.1)
    intarsia.infer(graph, theta)
    monkeypatch.setattr(junction_tree, "search_order", lambda *_, **__: pytest.fail("searched again"))
    assert intarsia.infer(graph, theta).method.name == "tree_reweighted"


def test_cached_values_of_a_graph_are_not_pickled():
    import pickle

    graph, theta = ZOO["grid"]()
    intarsia.infer(graph, theta)
    assert graph._computed
    assert all(isinstance(key, OncePerGraph) for key in graph._computed)
    again = pickle.loads(pickle.dumps(graph))
    assert again._computed == {}
    assert intarsia.infer(again, theta).log_partition == intarsia.infer(graph, theta).log_partition
