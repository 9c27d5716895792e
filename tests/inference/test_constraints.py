"""Count constraints: their definition, evidence, every method, and scopes too large for tables."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts.asking import ask

import intarsia
from intarsia import Status
from intarsia.exceptions import InvalidInputError, NotSupportedError, TooLargeError
from intarsia.graph import FactorKind, reduce_graph
from intarsia.inference import method_class, method_names

# Definition of each kind of constraint, independent of the implementation.
DEFINITIONS = {
    "exactly_one": lambda y, _: sum(y) == 1,
    "at_most_one": lambda y, _: sum(y) <= 1,
    "at_least_one": lambda y, _: any(y),
    "budget": lambda y, most: sum(y) <= most,
    "implies": lambda y, _: bool(y[-1]) or not all(y[:-1]),
    "xor_output": lambda y, _: (sum(y[:-1]), y[-1]) in ((0, 0), (1, 1)),
}
SUPPORTING_METHODS = [name for name in method_names() if method_class(name).supports_constraints]


@st.composite
def constrained_models(draw):
    """Generate (graph, theta, function that computes the score of a labelling from the definitions)."""
    n = draw(st.integers(2, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    builder = intarsia.GraphBuilder()
    unary = rng.standard_normal((n, 2))
    names = [builder.variable(f"x{v}", 2, unary[v]) for v in range(n)]
    pieces = []
    for _ in range(draw(st.integers(0, 3))):
        pair = rng.permutation(n)[:2]
        table = rng.standard_normal((2, 2))
        builder.factor([names[v] for v in pair], table)
        pieces.append(lambda y, pair=pair, table=table: table[y[pair[0]], y[pair[1]]])
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(sorted(DEFINITIONS)))
        scope = rng.permutation(n)[: draw(st.integers(2, n))]
        most = draw(st.integers(0, 3)) if kind == "budget" else None
        weight = draw(st.sampled_from([-np.inf, -0.75]))
        builder.constraint([names[v] for v in scope], kind, max_active=most, weight=weight)
        pieces.append(
            lambda y, scope=scope, kind=kind, most=most, weight=weight: (
                0.0 if DEFINITIONS[kind]([int(y[v]) for v in scope], most) else weight
            )
        )
    graph, theta = builder.build()
    return graph, theta, lambda y: sum(unary[v, y[v]] for v in range(n)) + sum(piece(y) for piece in pieces)


def labellings(graph, evidence=None):
    evidence = evidence or {}
    choices = [[evidence[v]] if v in evidence else [0, 1] for v in range(graph.n_variables)]
    return [np.array(y) for y in itertools.product(*choices)]


@given(constrained_models(), st.booleans())
@settings(max_examples=40, deadline=None, derandomize=True)
def test_methods_agree_with_the_definitions(model, known):
    graph, theta, meaning = model
    evidence = {0: 1, graph.n_variables - 1: 0} if known and graph.n_variables > 2 else {}
    scores = {tuple(y): meaning(y) for y in labellings(graph, evidence)}
    for y, score in scores.items():
        assert graph.score(theta, y) == pytest.approx(score)
    best = max(scores.values())
    for method in [*SUPPORTING_METHODS, "junction_tree"]:
        result = ask(graph, theta, method, "map", evidence=evidence)
        if best == -np.inf:
            assert result.status is Status.INFEASIBLE
            continue
        assert result.status is not Status.INFEASIBLE
        assert result.score <= best + 1e-9
        assert result.upper_bound >= best - 1e-9
        if method_class(method).exact or method_class(method).proves_map:
            assert result.score == pytest.approx(best)


@given(constrained_models())
@settings(max_examples=30, deadline=None, derandomize=True)
def test_reduction_by_evidence_preserves_scores(model):
    """Scores of the reduced graph, with constraints or tables, equal those of the original graph."""
    graph, theta, meaning = model
    evidence = {1: 1}
    for keep in (True, False):
        reduction = reduce_graph(graph, evidence, keep_constraints=keep)
        short, constant = reduction.lower(theta), reduction.constant(theta)
        for y in labellings(graph, evidence):
            low = reduction.lower_labelling(y)
            assert reduction.graph.score(short, low) + constant == pytest.approx(meaning(y))
            mu = reduction.raise_mu(reduction.graph.statistics(low))
            np.testing.assert_allclose(mu, graph.statistics(y))


@pytest.mark.parametrize("kind", sorted(DEFINITIONS))
@pytest.mark.parametrize("weight", [-np.inf, -0.5])
def test_relaxation_of_one_constraint_is_tight(kind, weight):
    """The rows describe the convex hull, so the linear program finds the best labelling for any scores."""
    rng = np.random.default_rng(4)
    for _ in range(10):
        builder = intarsia.GraphBuilder()
        names = [builder.variable(f"x{v}", 2, rng.standard_normal(2)) for v in range(6)]
        builder.constraint(names, kind, max_active=2 if kind == "budget" else None, weight=weight)
        graph, theta = builder.build()
        best = max(graph.score(theta, y) for y in labellings(graph))
        for method in ("lp_relaxation", "dual_decomposition"):
            result = intarsia.infer(graph, theta, method, "map")
            assert result.upper_bound == pytest.approx(best, abs=1e-6), method
            assert result.score == pytest.approx(best, abs=1e-9), method


@pytest.mark.parametrize("method", SUPPORTING_METHODS)
def test_constraint_too_large_for_a_table(method):
    rng = np.random.default_rng(5)
    gains = rng.standard_normal(200)
    builder = intarsia.GraphBuilder()
    names = [builder.variable(f"x{v}", 2, [0.0, gain]) for v, gain in enumerate(gains)]
    builder.constraint(names, "budget", max_active=10)
    builder.constraint(names[:100], "exactly_one")
    graph, theta = builder.build()
    result = ask(graph, theta, method, "map")
    first = gains[:100].max()
    others = np.sort(gains[100:])[::-1][:9]
    assert result.score == pytest.approx(first + others[others > 0].sum())
    assert result.upper_bound == pytest.approx(result.score, rel=1e-3)
    assert result.mu.shape == (graph.n_theta,)


def test_assignment_problem():
    """One job per worker and one worker per job: two constraints per variable, and a tight relaxation."""
    from scipy.optimize import linear_sum_assignment

    rng = np.random.default_rng(6)
    value = rng.standard_normal((5, 5))
    builder = intarsia.GraphBuilder()
    names = [[builder.variable(f"{i}-{j}", 2, [0.0, value[i, j]]) for j in range(5)] for i in range(5)]
    for i in range(5):
        builder.constraint(names[i], "exactly_one")
        builder.constraint([names[k][i] for k in range(5)], "exactly_one")
    best = value[linear_sum_assignment(value, maximize=True)].sum()
    for method in SUPPORTING_METHODS:
        result = ask(*builder.build(), method, "map", random_state=0)
        assert result.upper_bound == pytest.approx(best, rel=2e-4), method
        if method != "dual_decomposition":
            assert result.score == pytest.approx(best), method
        assert result.score > -np.inf


def test_error_for_wide_constraints_lists_supporting_methods():
    builder = intarsia.GraphBuilder()
    names = [builder.variable(f"x{v}", 2) for v in range(30)]
    builder.constraint(names, "at_least_one")
    graph, theta = builder.build()
    with pytest.raises(NotSupportedError) as caught:
        intarsia.infer(graph, theta, "belief_propagation")
    assert "factor 0 joins 30 variables" in str(caught.value)
    assert ", ".join(SUPPORTING_METHODS) in str(caught.value)
    with pytest.raises(TooLargeError, match=r"2\*\*30"):
        graph.factor_table(theta, 0)
    with pytest.raises(TooLargeError, match=r"2\*\*30"):
        reduce_graph(graph)
    # Evidence makes the constraint small enough.
    evidence = dict.fromkeys(range(15), 0)
    assert intarsia.infer(graph, theta, "junction_tree", evidence=evidence).log_partition == pytest.approx(
        np.log(2.0**15 - 1)
    )


def test_note_lists_contradicting_constraints():
    builder = intarsia.GraphBuilder()
    names = [builder.variable(f"x{v}", 2) for v in range(6)]
    builder.constraint(names[:4], "at_least_one")
    builder.constraint(names[2:], "at_most_one")
    builder.constraint(names, "budget", max_active=0)
    graph, theta = builder.build()
    for method in ("lp_relaxation", "integer_program"):
        result = intarsia.infer(graph, theta, method, "map")
        assert result.status is Status.INFEASIBLE
        assert "0 over ['x0', 'x1', 'x2', 'x3']" in result.note
        assert "2 over" in result.note
        assert "1 over" not in result.note
    assert intarsia.infer(graph, theta, "dual_decomposition", "map").status is Status.INFEASIBLE


def test_invalid_constraints_raise():
    builder = intarsia.GraphBuilder()
    builder.variable("a", 2)
    builder.variable("b", 2)
    builder.variable("many", 3)
    for arguments, message in (
        ((["a", "b"], "exactly_two"), "kind='exactly_two' is not known"),
        ((["a", "many"], "exactly_one"), "'many' has 3 states"),
        ((["a", "b"], "budget"), "max_active=None with kind='budget'"),
        ((["a"], "implies"), "needs at least one input and an output"),
        ((["a", "c"], "exactly_one"), "'c' is not known"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            builder.constraint(*arguments)
    with pytest.raises(InvalidInputError, match=r"max_active must be an integer"):
        builder.constraint(["a", "b"], "budget", max_active=-1)
    with pytest.raises(InvalidInputError, match="weight must be a number"):
        builder.constraint(["a", "b"], "at_most_one", weight=1.0)
    with pytest.raises(InvalidInputError, match="is a constraint, but not all its variables have two states"):
        intarsia.FactorGraph([2, 3], [0, 2], [0, 1], table_kind=[FactorKind.EXACTLY], table_truncation=[1.0])
    graph = intarsia.FactorGraph([2, 2], [0, 2], [0, 1], table_kind=[FactorKind.EXACTLY], table_truncation=[1.0])
    with pytest.raises(InvalidInputError, match="the weight of a constraint is a penalty"):
        graph.score(graph.pack(tables=[0.5]), [0, 0])
