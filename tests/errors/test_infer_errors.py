"""Invalid input of `intarsia.infer` raises one line: where, expected, got, remedy."""

from __future__ import annotations

import re

import numpy as np
import pytest

import intarsia
from intarsia.exceptions import IntarsiaError, InvalidInputError, NotSupportedError, TooLargeError


@pytest.fixture
def chain():
    graph = intarsia.chain_graph(3, 2)
    return graph, graph.zeros()


def refuses(message, error=InvalidInputError):
    """Expect exactly this one-line message."""
    return pytest.raises(error, match=f"^{re.escape(message)}$")


@pytest.mark.parametrize(("value", "text"), [(np.nan, "nan"), (np.inf, "inf")])
def test_nan_and_plus_infinity_in_a_variable(chain, value, text):
    graph, theta = chain
    graph.variable(theta, 1)[1] = value
    with refuses(f"theta[3] (variable 1, state 1) is {text}. Scores must be finite, or -inf for impossible states."):
        intarsia.infer(graph, theta, "brute_force")


def test_nan_in_a_table_beside_minus_infinity(chain):
    graph, theta = chain
    graph.table(theta, 0)[0, 0] = -np.inf
    graph.table(theta, 1)[1, 0] = np.nan
    with refuses("theta[12] (table 1, states (1, 0)) is nan. Scores must be finite, or -inf for impossible states."):
        intarsia.infer(graph, theta, "brute_force")


def test_plus_and_minus_infinity_together(chain):
    graph, theta = chain
    graph.variable(theta, 0)[:] = [-np.inf, np.inf]
    with refuses("theta[1] (variable 0, state 1) is inf. Scores must be finite, or -inf for impossible states."):
        intarsia.infer(graph, theta, "brute_force")


def test_named_variables_are_named():
    builder = intarsia.GraphBuilder()
    builder.variable("rain", 2, scores=[0.0, np.nan])
    with refuses("theta[1] (variable 0 'rain', state 1) is nan. Scores must be finite, or -inf for impossible states."):
        builder.build()


@pytest.mark.parametrize("shape", [(13,), (15,), (2, 7), (0,)])
def test_wrong_length_of_theta(chain, shape):
    graph, _ = chain
    with refuses(
        f"theta has shape {shape}, but this graph needs (14,): 6 entries for 3 variables, then 8 for 2 tables. "
        f"Use graph.pack(...)."
    ):
        intarsia.infer(graph, np.zeros(shape), "brute_force")


def test_theta_must_be_an_array_of_numbers(chain):
    graph, _ = chain
    with pytest.raises(InvalidInputError, match=r"^theta: expected numbers, got 'abc'"):
        intarsia.infer(graph, "abc", "brute_force")


def test_truncated_weight_of_minus_infinity():
    graph = intarsia.grid_graph(2, 2, 3, kind="truncated_linear", truncation=2)
    with refuses("theta[13] (table 1, weight) is -inf, but the weight of a truncated factor must be finite."):
        intarsia.infer(graph, graph.pack(tables=[1, -np.inf, 1, 1]), "brute_force")


def test_scope_names_a_missing_variable():
    with refuses(
        "FactorGraph: factor 1 names variable 3, but there are 3 variables (0..2). Pass indices of existing variables "
        "in scope_idx."
    ):
        intarsia.from_edges([2, 2, 2], [[0, 1], [1, 3]])
    with refuses(
        "FactorGraph: factor 0 names variable -1, but there are 3 variables (0..2). Pass indices of existing variables "
        "in scope_idx."
    ):
        intarsia.from_edges([2, 2, 2], [[-1, 1]])


def test_scope_names_a_variable_twice():
    with refuses("FactorGraph: factor 1 names a variable twice: [2, 2]. Use each variable once per factor."):
        intarsia.from_edges([2, 2, 2], [[0, 1], [2, 2]])
    with refuses("FactorGraph: factor 0 names a variable twice: [1, 0, 1]. Use each variable once per factor."):
        intarsia.FactorGraph([2, 2], [0, 3], [1, 0, 1])


@pytest.mark.parametrize("state", [2, -1, 10**12])
def test_evidence_out_of_range(chain, state):
    with refuses(f"evidence[1] is {state}, but the state of variable 1 must be an integer in 0..1."):
        intarsia.infer(*chain, "brute_force", evidence={1: state})


@pytest.mark.parametrize("state", [0.5, True])
def test_evidence_that_is_no_state(chain, state):
    with refuses(f"evidence[1] is {state}, but the state of variable 1 must be an integer in 0..1."):
        intarsia.infer(*chain, "brute_force", evidence={1: state})


def test_evidence_on_a_missing_variable(chain):
    with refuses(
        "Variable 3 does not exist; the graph has 3 variables, counted from 0. Pass an integer below 3, or a name."
    ):
        intarsia.infer(*chain, "brute_force", evidence={3: 0})
    with refuses("There is no variable named 'rain' in this graph. Use one of graph.names, or an index."):
        intarsia.infer(*chain, "brute_force", evidence={"rain": 0})


def test_evidence_that_contradicts_itself():
    builder = intarsia.GraphBuilder()
    builder.variable("rain", 2)
    with refuses("evidence has two states for variable 0, 0 and 1. Remove one of them."):
        intarsia.infer(*builder.build(), "brute_force", evidence={"rain": 0, 0: 1})


@pytest.mark.parametrize(
    ("wrong", "near"),
    [("trwbp", None), ("tree_reweigthed", "tree_reweighted"), ("BeliefPropagation", "belief_propagation")],
)
def test_unknown_method_lists_names_and_suggests_the_nearest(chain, wrong, near):
    known = ", ".join(repr(name) for name in sorted(["auto", *intarsia.inference.method_names()]))
    with pytest.raises(InvalidInputError) as caught:
        intarsia.infer(*chain, wrong)
    message = str(caught.value)
    assert message.startswith(f"method={wrong!r} is not known. Known: {known}.")
    if near:
        assert message.endswith(f"Did you mean {near!r}?")


def test_method_of_another_type(chain):
    with pytest.raises(InvalidInputError, match=r"^method must be a name .* or a settings object, got int\.$"):
        intarsia.infer(*chain, 3)


def test_unknown_setting_suggests_the_nearest(chain):
    with refuses(
        "BruteForce: setting='max_assignment' is not known. Known: 'max_assignments', 'temperature'. "
        "Did you mean 'max_assignments'?"
    ):
        intarsia.infer(*chain, "brute_force", max_assignment=3)
    with pytest.raises(InvalidInputError, match=r"^BruteForce: setting='temprature' is not known"):
        intarsia.infer(*chain, intarsia.BruteForce(), temprature=3)


@pytest.mark.parametrize("temperature", [-1.0, np.nan, np.inf, "warm", True])
def test_invalid_temperature(chain, temperature):
    with refuses(f"BruteForce: temperature must be a number in [0, 1e+300], got {temperature!r}."):
        intarsia.infer(*chain, "brute_force", temperature=temperature)


def test_unknown_task(chain):
    with refuses("task='marginal' is not known. Known: 'map', 'marginals'. Did you mean 'marginals'?"):
        intarsia.infer(*chain, "brute_force", task="marginal")


@pytest.mark.parametrize("limit", [0, -1.0, np.nan])
def test_time_limit_must_be_positive(chain, limit):
    with refuses(f"time_limit must be a number in (0, inf], got {limit!r}."):
        intarsia.infer(*chain, "brute_force", time_limit=limit)


@pytest.mark.parametrize("name", ["n_samples", "n_best"])
@pytest.mark.parametrize("count", [-1, 0.5])
def test_counts_must_be_non_negative_integers(chain, name, count):
    with refuses(f"{name} must be an integer in [0, inf], got {count!r}."):
        intarsia.infer(*chain, "brute_force", **{name: count})


def test_samples_of_a_labelling(chain):
    with refuses(
        "n_samples needs task='marginals' and a temperature above 0, since samples are drawn from a distribution. "
        "Use task='marginals', or drop n_samples.",
        NotSupportedError,
    ):
        intarsia.infer(*chain, "brute_force", task="map", n_samples=3)


def test_graph_of_another_type(chain):
    with refuses(
        "infer: graph must be a FactorGraph, got list. Build one with GraphBuilder, grid_graph, "
        "chain_graph or from_edges."
    ):
        intarsia.infer([[0, 1]], chain[1], "brute_force")


def test_warm_start_from_another_graph(chain):
    other = intarsia.chain_graph(4, 2)
    earlier = intarsia.infer(other, other.zeros(), "brute_force")
    with refuses("warm_start: the earlier result is from another graph. Pass one for the same graph."):
        intarsia.infer(*chain, "brute_force", warm_start=earlier)


def test_warm_start_with_other_evidence(chain):
    earlier = intarsia.infer(*chain, "belief_propagation")
    with refuses("warm_start: the earlier result has other evidence. Pass the same evidence, or drop warm_start."):
        intarsia.infer(*chain, "belief_propagation", warm_start=earlier, evidence={1: 0})


def test_brute_force_on_too_many_assignments():
    graph = intarsia.chain_graph(40, 2)
    with refuses(
        "BruteForce: 2**40 assignments exceed max_assignments=1e+07. Use JunctionTree, or raise the limit.",
        TooLargeError,
    ):
        intarsia.infer(graph, graph.zeros(), "brute_force")


def test_junction_tree_on_a_dense_grid():
    graph = intarsia.grid_graph(60, 60, 2)
    with pytest.raises(TooLargeError) as caught:
        intarsia.infer(graph, graph.zeros(), "junction_tree")
    message = str(caught.value)
    assert "JunctionTree" in message
    assert "max_memory" in message
    assert "\n" not in message


def test_tree_on_a_loop_names_methods_that_take_loops():
    graph = intarsia.grid_graph(2, 2, 2)
    with pytest.raises(NotSupportedError) as caught:
        intarsia.infer(graph, graph.zeros(), "tree")
    message = str(caught.value)
    assert "Tree" in message
    assert "JunctionTree" in message or "junction_tree" in message
    assert "\n" not in message


def test_marginals_of_an_infeasible_model_raise():
    graph = intarsia.chain_graph(2, 2)
    result = intarsia.infer(graph, np.full(graph.n_theta, -np.inf), "brute_force")
    with refuses(
        "This result holds no marginals: no assignment has a finite score. Check `status` first.", NotSupportedError
    ):
        result.marginals(0)


def test_all_errors_are_intarsia_errors_and_invalid_input_is_a_value_error():
    assert issubclass(InvalidInputError, ValueError)
    for error in (InvalidInputError, NotSupportedError, TooLargeError):
        assert issubclass(error, IntarsiaError)


@pytest.mark.parametrize("seed", [-1, 1.5, "seven"])
def test_invalid_seed(seed):
    graph = intarsia.chain_graph(2, 2)
    with pytest.raises(InvalidInputError, match="random_state must be an integer"):
        intarsia.infer(graph, graph.zeros(), "gibbs", random_state=seed)
