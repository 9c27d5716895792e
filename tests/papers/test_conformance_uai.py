"""The 53 models of the UAI competitions and of other programs, with answers of independent programs."""

from __future__ import annotations

import contextlib
import gzip
import json
import warnings
from functools import lru_cache

import numpy as np
import pytest
from tests.conftest import REASON, conformance_folder

import intarsia
from intarsia.exceptions import ConvergenceWarning, IntarsiaError, NotSupportedError
from intarsia.inference import method_class, method_names

FOLDER = conformance_folder()
pytestmark = [pytest.mark.data, pytest.mark.skipif(FOLDER is None, reason=REASON)]
ANSWERS = {row["name"]: row for row in json.loads((FOLDER / "uai" / "answers.json").read_text())} if FOLDER else {}
MODELS = list(ANSWERS) or ["(no conformance models)"]
NARROW = [name for name in ANSWERS if (ANSWERS[name]["log2_width"] or 99) <= 22] or MODELS

# Small, so that all methods on all models take a minute or two; a converged run needs far less on most of them.
TIME_LIMIT = 0.4
# Plus a running sweep, the search for a feasible start, and a busy machine.
SLACK = 4.0


@lru_cache(maxsize=8)
def load(name):
    path = FOLDER / "uai" / name
    graph, theta = intarsia.read_uai(f"{path}.gz")
    known = path.with_name(f"{name}.evid")
    evidence = intarsia.read_uai_evidence(known) if known.exists() else {}
    return graph, theta, evidence


def solve(name, method, task, **settings):
    graph, theta, evidence = load(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return intarsia.infer(graph, theta, method, task, evidence=evidence, random_state=0, **settings)


def tolerance(name):
    """Accuracy of the known log Z: 1e-6 relative, or to the digits that were printed."""
    answer = ANSWERS[name]
    digits = 1e-6 if answer["log_partition_digits"] == "full" else 1e-5
    return digits * max(1.0, abs(answer["log_partition"]))


def known_marginals(name):
    """Marginals of the independent program, and their accuracy."""
    path = FOLDER / "uai" / name
    exact = path.with_name(f"{name}.exact_mar.json.gz")
    if exact.exists():
        return [np.array(block) for block in json.loads(gzip.decompress(exact.read_bytes()))], 1e-6
    printed = path.with_name(f"{name}.MAR")
    return (intarsia.graph.read_uai_solution(printed, "mar"), 1e-6) if printed.exists() else (None, None)


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """Compile everything once, so that time limits measure the methods."""
    if FOLDER is None:
        return
    for name in ("merlin_simple5.uai", "merlin_ChestClinic.uai", "tb2_water.uai"):
        for method in method_names():
            for task, able in (("marginals", "gives_marginals"), ("map", "gives_map")):
                if getattr(method_class(method), able) and not method_class(method).exact:
                    with contextlib.suppress(NotSupportedError):
                        solve(name, method, task, time_limit=TIME_LIMIT)


@pytest.mark.parametrize("name", MODELS)
def test_models_are_read_as_described(name):
    graph, theta, evidence = load(name)
    answer = ANSWERS[name]
    assert graph.n_variables == answer["n_vars"]
    assert graph.n_states.max() == answer["max_card"]
    assert len(evidence) == answer["n_evidence"]
    # The best assignment of the other programs has the score that they report.
    best = intarsia.graph.read_uai_solution(FOLDER / "uai" / f"{name}.MAP", "map")
    assert graph.score(theta, best) == pytest.approx(answer["best_map_score"], rel=1e-6, abs=1e-6)


def test_most_narrow_models_have_known_marginals():
    without = [name for name in NARROW if known_marginals(name)[0] is None]
    assert without == ["map_Segmentation_18.uai"]


@pytest.mark.parametrize("name", NARROW)
def test_junction_tree_is_exact(name):
    answer = ANSWERS[name]
    graph = load(name)[0]
    result = solve(name, "junction_tree", "marginals")
    assert (result.status.name, result.log_partition_is) == ("EXACT", "exact")
    assert result.log_partition == pytest.approx(answer["log_partition"], abs=tolerance(name))
    marginals, atol = known_marginals(name)
    if marginals is not None:
        found = result.mu[: graph.variable_ptr[-1]]
        np.testing.assert_allclose(found, np.concatenate(marginals), atol=atol, rtol=0)
    best = solve(name, "junction_tree", "map")
    slack = 1e-6 * max(1.0, abs(answer["best_map_score"]))
    assert best.score >= answer["best_map_score"] - slack
    if answer["map_proven"]:
        assert best.score <= answer["best_map_score"] + slack


PROVEN = [name for name in ANSWERS if ANSWERS[name]["map_proven"]] or MODELS
# Binary and attractive: the graph cut supports them.
CUTS = [name for name in PROVEN if "Segmentation" in name]
# Branch and cut needs longer than a test may take.
HARD = {"pr_CSP_13.uai", "pr_DBN_13.uai"}


@pytest.mark.parametrize("name", [name for name in PROVEN if name not in HARD])
def test_integer_program_proves_the_best_score(name):
    result = solve(name, "integer_program", "map")
    assert result.status.name == "EXACT"
    assert result.score == pytest.approx(ANSWERS[name]["best_map_score"], rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", CUTS)
def test_graph_cut_proves_the_best_score(name):
    result = solve(name, "graph_cut", "map")
    assert result.status.name == "EXACT"
    assert result.score == pytest.approx(ANSWERS[name]["best_map_score"], rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("method", [name for name in method_names() if not method_class(name).exact])
@pytest.mark.parametrize("name", MODELS)
def test_approximate_methods_give_an_honest_answer_in_time(name, method):
    answer = ANSWERS[name]
    graph, theta, evidence = load(name)
    known = answer["log_partition"]
    found = method_class(method)
    for task, able in (("marginals", found.gives_marginals), ("map", found.gives_map)):
        if not able:
            continue
        try:
            result = solve(name, method, task, time_limit=TIME_LIMIT)
        except IntarsiaError:  # the documented refusal
            continue
        assert result.seconds < TIME_LIMIT + SLACK
        # All 53 have an assignment; a method may fail to find one, but must not claim that there is none.
        assert result.status.name != "INFEASIBLE"
        assert result.mu is not None
        assert not np.isnan(result.mu).any()
        assert not np.isnan([result.score, result.lower_bound, result.upper_bound, result.residual]).any()
        for v, state in evidence.items():
            assert result.assignment[v] == state
            assert result.marginals(v)[state] == 1.0
        sums = np.add.reduceat(result.mu[: graph.variable_ptr[-1]], graph.variable_ptr[:-1])
        np.testing.assert_allclose(sums, 1.0, atol=1e-9)
        assert result.score == pytest.approx(graph.score(theta, result.assignment), rel=1e-9)
        if task == "map":
            if answer["map_proven"]:
                slack = 1e-6 * max(1.0, abs(answer["best_map_score"]))
                assert result.score <= answer["best_map_score"] + slack
                assert result.upper_bound >= answer["best_map_score"] - slack
            continue
        if result.log_partition is None:
            assert result.log_partition_is is None
            continue
        assert not np.isnan(result.log_partition)
        if not result.converged:
            assert result.log_partition_is in ("estimate", "lower bound")
        if known is None:
            continue
        slack = tolerance(name)
        assert result.lower_bound <= known + slack
        assert result.upper_bound >= known - slack
        if result.log_partition_is == "upper bound":
            assert result.log_partition >= known - slack
        if result.log_partition_is == "lower bound":
            assert result.log_partition <= known + slack
        if result.log_partition_is == "exact":
            assert result.log_partition == pytest.approx(known, abs=slack)


EASY = ["merlin_ChestClinic.uai", "merlin_simple5.uai", "merlin_simple6.uai", "tb2_network.uai", "tb2_water.uai",
        "pr_CSP_13.uai", "pr_ObjectDetection_22.uai", "pr_Segmentation_11.uai"]  # fmt: skip


@pytest.mark.parametrize("name", EASY)
def test_tree_reweighted_bounds_from_above(name):
    """Without a time limit, so that the bound is really tested."""
    result = solve(name, "tree_reweighted", "marginals")
    assert (result.status.name, result.log_partition_is) == ("CONVERGED", "upper bound")
    assert result.log_partition >= ANSWERS[name]["log_partition"] - tolerance(name)


@pytest.mark.parametrize("name", MODELS)
def test_mean_field_is_a_lower_bound_always(name):
    result = solve(name, "mean_field", "marginals", time_limit=TIME_LIMIT)
    assert result.log_partition_is == "lower bound"
    if ANSWERS[name]["log_partition"] is not None:
        assert result.log_partition <= ANSWERS[name]["log_partition"] + tolerance(name)


@pytest.mark.parametrize(
    ("name", "method"),
    [
        (name, method)
        for name in MODELS
        for method in method_names()
        # Junction trees of narrow models have their own test above, without a time limit.
        if method_class(method).exact and not (method == "junction_tree" and name in NARROW)
    ],
)
def test_exact_methods_answer_or_refuse_in_time(name, method):
    for task in ("marginals", "map"):
        try:
            result = solve(name, method, task, time_limit=TIME_LIMIT)
        except IntarsiaError:  # the documented refusal
            continue
        assert result.seconds < TIME_LIMIT + SLACK
        assert result.status.name == "EXACT"
        if task == "marginals" and ANSWERS[name]["log_partition"] is not None:
            assert result.log_partition == pytest.approx(ANSWERS[name]["log_partition"], abs=tolerance(name))
