"""Invalid graphs, scores, labels and evidence raise one line: where, expected, got, remedy."""

import networkx as nx
import numpy as np
import pytest

from intarsia.exceptions import InvalidInputError
from intarsia.graph import (
    FactorGraph,
    GraphBuilder,
    batch_graphs,
    chain_graph,
    complete_graph,
    from_edges,
    from_networkx,
    grid_graph,
    reduce_graph,
    star_graph,
    tree_graph,
)

CHAIN = chain_graph(3, 2)
NAMED = FactorGraph([2, 3], [0, 2], [0, 1], names=["rain", "wet"])
BATCH = batch_graphs([chain_graph(2, 2), chain_graph(3, 2)])
SHARED = batch_graphs([chain_graph(2, 2, shared=True), chain_graph(3, 2, shared=True)], share_tables=True)


def builder():
    made = GraphBuilder()
    made.variable("rain", 2)
    made.variable("wet", 3)
    return made


def theta_with(position, value, n=14):
    theta = np.zeros(n)
    theta[position] = value
    return theta


def build(use):
    made = builder()
    use(made)
    return made.build()


CASES = {
    # graphs
    "fractional states": (lambda: FactorGraph([2.5], [0], []), "n_states: expected integers, got dtype float64."),
    "negative states": (
        lambda: FactorGraph([2, -1], [0], []),
        "variable 1 has -1 states. Every variable needs at least 1.",
    ),
    "too many states": (lambda: FactorGraph([2**62] * 20, [0], []), "9.22e+19 states in all"),
    "no scope_ptr": (lambda: FactorGraph([2], [], []), "scope_ptr must start at 0 and end at len(scope_idx)=0."),
    "falling scope_ptr": (lambda: FactorGraph([2, 2], [0, 2, 1, 2], [0, 1]), "scope_ptr must not decrease."),
    "missing variable": (
        lambda: FactorGraph([2, 2], [0, 1, 3], [0, 0, 2]),
        "FactorGraph: factor 1 names variable 2, but there are 2 variables (0..1).",
    ),
    "variable twice": (
        lambda: FactorGraph([2, 2], [0, 2], [1, 1]),
        "factor 0 names a variable twice: [1, 1]. Use each variable once per factor.",
    ),
    "variable twice in a triple": (lambda: FactorGraph([2, 2, 2], [0, 3], [1, 0, 1]), "twice: [1, 0, 1]."),
    "table numbers with gaps": (
        lambda: FactorGraph([2, 2], [0, 2, 4], [0, 1, 0, 1], [0, 2]),
        "0, 1, 2, ... without gaps.",
    ),
    "unused table": (lambda: FactorGraph([2, 2], [0, 2, 4], [0, 1, 0, 1], [1, 1]), "no factor uses table 0."),
    "wrong number of tables": (lambda: FactorGraph([2, 2], [0, 2], [0, 1], [0, 0]), "table_of_factor has shape (2,)"),
    "shared tables of different shape": (
        lambda: FactorGraph([2, 3, 2], [0, 2, 4], [0, 1, 0, 2], [0, 0]),
        "factors 0 and 1 share table 0 but differ in shape. Use separate tables for them.",
    ),
    "shared tables of different scope": (
        lambda: FactorGraph([2, 3, 2], [0, 2, 5], [0, 1, 0, 1, 2], [0, 0]),
        "factors 0 and 1 share table 0 but differ in shape.",
    ),
    "Potts with unequal states": (
        lambda: from_edges([2, 3], [[0, 1]], kind="potts"),
        "factor 0 is parametric (Potts or truncated), which needs exactly two variables with equally many states.",
    ),
    "unknown kind": (lambda: from_edges(2, [[0, 1]], kind="pots"), "Did you mean 'potts'?"),
    "unknown kind number": (
        lambda: FactorGraph([2, 2], [0, 2], [0, 1], table_kind=[99]),
        "table 0 has the unknown kind 99.",
    ),
    "too many kinds": (lambda: FactorGraph([2, 2], [0, 2], [0, 1], table_kind=[0, 0]), "1 tables, but 2 kinds"),
    "truncation NaN": (
        lambda: FactorGraph([2, 2], [0, 2], [0, 1], table_truncation=[np.nan]),
        "table 0 has truncation nan.",
    ),
    "truncation negative": (
        lambda: grid_graph(2, 2, 2, truncation=-1),
        "truncation must be a number in [0, inf], got -1.",
    ),
    "huge table": (lambda: FactorGraph([10] * 20, [0, 20], range(20)), "would have 2**66 entries. Use smaller scopes."),
    "too few names": (lambda: FactorGraph([2, 2], [0], [], names=["a"]), "1 names for 2 variables."),
    "names twice": (lambda: FactorGraph([2, 2], [0], [], names=["a", "a"]), "the name 'a' occurs twice."),
    "another grid shape": (lambda: FactorGraph([2, 2], [0], [], grid_shape=(5, 5)), "grid_shape (5, 5) has 25 pixels"),
    "no such factor": (lambda: CHAIN.scope(-1), "there is no factor -1. The index must be in 0..1."),
    "no such table": (lambda: CHAIN.table(CHAIN.zeros(), 2), "there is no table 2. The index must be in 0..1."),
    # scores and labels
    "NaN": (
        lambda: CHAIN.score(theta_with(3, np.nan), [0, 0, 0]),
        "theta[3] (variable 1, state 1) is nan. Scores must be finite",
    ),
    "+inf": (lambda: CHAIN.score(theta_with(13, np.inf), [0, 0, 0]), "theta[13] (table 1, states (1, 1)) is inf."),
    "+inf beside -inf": (lambda: CHAIN.check_theta(np.where(np.arange(14) == 5, np.inf, -np.inf)), "theta[5]"),
    "wrong length": (
        lambda: CHAIN.score(np.zeros(13), [0, 0, 0]),
        "theta has shape (13,), but this graph needs (14,): 6 entries for 3 variables, then 8 for 2 tables.",
    ),
    "text": (lambda: CHAIN.check_theta("abc"), "theta: expected numbers, got 'abc'."),
    "-inf as truncated weight": (
        lambda: chain_graph(2, 2, kind="truncated_linear").check_theta([0, 0, 0, 0, -np.inf]),
        "theta[4] (table 0, weight) is -inf, but the weight of a truncated factor must be finite.",
    ),
    "label too large": (
        lambda: CHAIN.score(CHAIN.zeros(), [[0, 1, 0], [0, 1, 2]]),
        "y[1, 2] is 2, but the label of variable 2 must be in 0..1.",
    ),
    "hidden label": (
        lambda: CHAIN.score(CHAIN.zeros(), [0, -1, 0]),
        "y[1] is -1, but the label of variable 1 must be in 0..1.",
    ),
    "too few labels": (lambda: CHAIN.score(CHAIN.zeros(), [0, 1]), "y has shape (2,), but the last axis must hold"),
    "fractional label": (lambda: CHAIN.score(CHAIN.zeros(), [0, 0.5, 1]), "y: expected integers"),
    "pack too few": (lambda: CHAIN.pack([1, 2]), "variables holds 2 scores, but the graph needs 6."),
    "no such variable": (
        lambda: CHAIN.variable(CHAIN.zeros(), 3),
        "Variable 3 does not exist; the graph has 3 variables",
    ),
    "no such name": (lambda: NAMED.variable_index("snow"), "There is no variable named 'snow' in this graph."),
    "fractional variable": (lambda: CHAIN.variable_index(1.5), "Variable 1.5 does not exist"),
    # evidence
    "evidence too large": (
        lambda: reduce_graph(CHAIN, {0: 2}),
        "evidence[0] is 2, but the state of variable 0 must be an integer in 0..1.",
    ),
    "evidence negative": (lambda: reduce_graph(CHAIN, {0: -1}), "evidence[0] is -1, but"),
    "evidence by name": (
        lambda: reduce_graph(NAMED, {"wet": 3}),
        "evidence['wet'] is 3, but the state of variable 'wet' must be an integer in 0..2.",
    ),
    "evidence bool": (lambda: reduce_graph(CHAIN, {0: True}), "evidence[0] is True, but"),
    "evidence numpy bool": (lambda: reduce_graph(CHAIN, {0: np.bool_(True)}), "evidence[0] is np.True_, but"),
    "evidence float": (
        lambda: reduce_graph(CHAIN, {0: 1.0}),
        "evidence[0] is 1.0, but the state of variable 0 must be an integer in 0..1.",
    ),
    "evidence NaN": (lambda: reduce_graph(CHAIN, {0: np.nan}), "evidence[0] is nan, but"),
    "evidence None": (lambda: reduce_graph(CHAIN, {0: None}), "evidence[0] is None, but"),
    "evidence text": (lambda: reduce_graph(CHAIN, {0: "x"}), "evidence[0] is 'x', but"),
    "evidence elsewhere": (lambda: reduce_graph(CHAIN, {5: 0}), "Variable 5 does not exist"),
    "evidence twice": (
        lambda: reduce_graph(CHAIN, {0: 0, -3: 1}),
        "evidence has two states for variable 0, 0 and 1. Remove one of them.",
    ),
    "evidence as a list": (
        lambda: reduce_graph(CHAIN, [(0, 1)]),
        "evidence must be a dict from variable to state, got list.",
    ),
    # shapes
    "edges of three": (lambda: from_edges(2, [[0, 1, 2]]), "edges has shape (1, 3); expected (n_edges, 2)."),
    "negative end": (lambda: from_edges(2, [[0, -1]]), "factor 0 names variable -1"),
    "named ends": (lambda: from_edges(2, [["a", "b"]]), "edges: expected integers"),
    "two counts": (
        lambda: from_edges([2, 2], [], n_variables=3),
        "lists 2 variables, but n_variables=3. Drop n_variables.",
    ),
    "negative length": (
        lambda: chain_graph(-1, 2),
        "chain_graph: length must be an integer in [0, 1e+09], got -1.",
    ),
    "no states": (lambda: chain_graph(3, 0), "chain_graph: n_states must be an integer in [1, inf], got 0."),
    "no leaf states": (lambda: star_graph(3, -1), "star_graph: n_states must be"),
    "no complete states": (lambda: complete_graph(3, 0), "complete_graph: n_states must be"),
    "cyclic parents": (
        lambda: tree_graph([2, 0, 1, -1], 2),
        "tree_graph: variable 0 is an ancestor of itself. Remove the cycle, or use from_edges.",
    ),
    "missing parent": (
        lambda: tree_graph([-1, 5], 2),
        "parents[1] is 5, but must be -1 for a root or the index of another variable.",
    ),
    "state counts of another tree": (
        lambda: tree_graph([-1, 0], [2, 3, 4]),
        "n_states has shape (3,), but parents lists 2",
    ),
    "flat grid": (lambda: grid_graph(0, 2, 2), "grid_graph: height must be an integer in [1, 1e+09], got 0."),
    "six neighbours": (lambda: grid_graph(2, 2, 2, connectivity=6), "connectivity must be 4 or 8, got 6."),
    "directed": (lambda: from_networkx(nx.DiGraph([(0, 1)])), "the graph is directed. Pass graph.to_undirected()."),
    "self-loop": (lambda: from_networkx(nx.Graph([(0, 0)])), "node 0 has an edge to itself. Remove self-loops."),
    "node without states": (lambda: from_networkx(nx.path_graph(3), {0: 2}), "n_states has no entry for node 1."),
    # batches
    "no graphs": (lambda: batch_graphs([]), "the list of graphs is empty. Pass at least one graph."),
    "other tables": (
        lambda: batch_graphs([chain_graph(2, 2), chain_graph(2, 3)], share_tables=True),
        "the tables of graph 1 differ in size or kind from those of graph 0. Use share_tables=False.",
    ),
    "other truncation": (
        lambda: batch_graphs(
            [from_edges(3, [[0, 1]], kind="truncated_linear", truncation=t) for t in (1, 2)], share_tables=True
        ),
        "the tables of graph 1 differ in size or kind from those of graph 0.",
    ),
    "thetas missing": (lambda: BATCH.pack([np.zeros(8)]), "got 1 thetas for 2 graphs. Pass one theta per graph."),
    "short vector": (
        lambda: BATCH.unpack(np.zeros(3)),
        "the vector has shape (3,), but the union of the graphs needs (22,).",
    ),
    "summed statistics": (
        lambda: SHARED.unpack(np.zeros(14)),
        "the members share tables, so their statistics are summed.",
    ),
    # builder
    "name twice": (
        lambda: builder().variable("rain", 2),
        "variable 'rain' already exists. Use a unique name per variable.",
    ),
    "variable without states": (
        lambda: builder().variable("x", 0),
        "n_states of 'x' must be an integer in [1, inf], got 0.",
    ),
    "scores of another size": (
        lambda: builder().variable("x", 2, [1, 2, 3]),
        "variable 'x' has 2 states but scores of shape (3,).",
    ),
    "misspelt name": (lambda: builder().factor(["rian"], [1, 2]), "Did you mean 'rain'?"),
    "scope as text": (lambda: builder().factor("rain", [1, 2]), "scope is the string 'rain'. Pass a list: ['rain']."),
    "scores of another shape": (
        lambda: builder().factor(["rain", "wet"], [1, 2]),
        "needs scores of shape (2, 3), got (2,).",
    ),
    "shared with nobody": (
        lambda: builder().factor(["rain"], share_with=0),
        "share_with=0 must be the index of an earlier",
    ),
    "shared with text": (
        lambda: builder().factor(["rain"], share_with="a"),
        "share_with='a' must be the index of an earlier",
    ),
    "NaN score": (
        lambda: build(lambda b: b.factor(["rain", "wet"], np.full((2, 3), np.nan))),
        "theta[5] (table 0, states (0, 0)) is nan.",
    ),
    "name twice in a factor": (
        lambda: build(lambda b: b.factor(["rain", "rain"], np.eye(2))),
        "names a variable twice",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_message(case):
    call, message = CASES[case]
    with pytest.raises(InvalidInputError) as caught:
        call()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ValueError)
