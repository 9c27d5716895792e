"""The compatibility table is complete, and pairs that it calls refused raise."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from tests.learning.margin_sets import random_triangles

from intarsia import StructuredPerceptron
from intarsia.diagnostics import compatibility
from intarsia.diagnostics.compatibility import energy_compatibility
from intarsia.exceptions import CompatibilityWarning, ConvergenceWarning, IntarsiaError
from intarsia.graph import chain_graph
from intarsia.inference import method_names
from intarsia.learning import LEARNERS, example
from intarsia.learning.compatibility import LOOPS
from intarsia.learning.energy_learner import ENERGY_LEARNERS
from intarsia.models import LinearScores


def test_every_pair_has_a_row_with_a_reason():
    table = compatibility()
    of_graphs = [pair for pair in table if pair.model != "worlds"]
    assert len(of_graphs) == 2 * (len(LEARNERS.names) + 1) * len(method_names())  # and the layer for PyTorch
    for pair in table:
        assert pair.judgement.level in {"guaranteed", "heuristic", "known to fail", "refused"}
        assert pair.judgement.reason
        if pair.judgement.level in {"guaranteed", "known to fail"}:
            assert pair.judgement.reference


def test_learners_of_energies_have_rows():
    table = energy_compatibility()
    assert {pair.learner for pair in table} == set(ENERGY_LEARNERS.names)
    assert {pair.inference for pair in table} == {name for name in method_names() if name.startswith("bethe")}
    levels = {pair.learner: pair.judgement.level for pair in table}
    assert levels == {"double_loop": "heuristic", "doubly_stochastic": "heuristic"}
    assert compatibility("double_loop") == energy_compatibility("double_loop")
    assert energy_compatibility("double_loop", "tree")[0].judgement.level == "refused"


@pytest.mark.parametrize("method", [name for name in method_names() if not name.startswith("bethe")])
def test_refused_pairs_raise_and_all_others_run(method):
    pair = next(p for p in compatibility("structured_perceptron", method) if p.model == LOOPS)
    chosen = StructuredPerceptron(max_iter=2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if pair.judgement.level == "refused":
            with pytest.raises(IntarsiaError):
                chosen.minimize(random_triangles(2), method)
        elif method != "graph_cut":  # raises for weights that are not attractive, as its reason says
            chosen.minimize(random_triangles(2), method)
    kinds = {w.category for w in caught} - {ConvergenceWarning}
    assert kinds == ({CompatibilityWarning} if pair.judgement.level == "known to fail" else set())


def test_no_warning_without_loops():
    rng = np.random.default_rng(0)
    data = [example(LinearScores(chain_graph(3, 2), rng.normal(size=(3, 1))), [0, 1, 1])]
    StructuredPerceptron(max_iter=3).minimize(data, "belief_propagation")


def test_every_search_of_worlds_has_a_row():
    from intarsia.clusters.decoding import DECODERS as CLUSTER_DECODERS
    from intarsia.worlds.decoder import DECODERS

    rows = {pair.inference for pair in compatibility("sample_rank") if pair.model == "worlds"}
    judged = {*DECODERS.names, *CLUSTER_DECODERS.names, "sample_world"}
    for name in judged:
        (row,) = compatibility("sample_rank", name)
        assert row.judgement.reason
    classes = {type(CLUSTER_DECODERS.resolve(name)) for name in CLUSTER_DECODERS.names}
    assert len(rows) == len(classes) + 1  # a row for each method, and one for sampling
    assert compatibility("structured_svm", "annealing") == []
    with pytest.raises(IntarsiaError, match=r"does not search worlds\. Use one of"):
        compatibility("sample_rank", "tabu")
