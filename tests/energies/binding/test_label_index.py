"""The layout of chains agrees with their factor graphs, and labels are found in it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from intarsia.energies import Count, MeasuredEnergy, SegmentStarts, Squared
from intarsia.energies.binding.label_index import ChainShape, LabelIndex, measurement_ranges
from intarsia.exceptions import InvalidInputError
from intarsia.graph import chain_graph, from_edges


@pytest.mark.parametrize("length", [1, 2, 5])
@pytest.mark.parametrize("n_labels", [1, 2, 3])
@pytest.mark.parametrize("has_table", [False, True])
def test_chain_shape_equals_the_factor_graph(length, n_labels, has_table):
    shape = ChainShape(length, n_labels, has_table)
    graph = chain_graph(length, n_labels, shared=True) if has_table else from_edges(n_labels, [], n_variables=length)
    assert (shape.n_variables, shape.n_theta) == (graph.n_variables, graph.n_theta)
    assert shape.graph.n_theta == graph.n_theta
    for name in ("n_states", "variable_ptr", "table_ptr", "table_of_factor"):
        np.testing.assert_array_equal(getattr(shape, name), getattr(graph, name), err_msg=name)
    matrix = csr_array(np.random.default_rng(0).normal(size=(4, graph.n_theta)))
    np.testing.assert_array_equal(measurement_ranges(shape, matrix), measurement_ranges(graph, matrix))
    in_shape, in_graph = LabelIndex(shape), LabelIndex(graph)
    for a in range(n_labels):
        np.testing.assert_array_equal(in_shape.positions(a), in_graph.positions(a))
        for b in range(n_labels):
            np.testing.assert_array_equal(in_shape.transitions(a, b), in_graph.transitions(a, b))


def test_energies_that_only_count_build_no_factor_graph(monkeypatch):
    for name in ("chain_graph", "from_edges"):
        monkeypatch.setattr(f"intarsia.energies.binding.label_index.{name}", None)
    shape = ChainShape(4, 2, has_table=True)
    for measurement in (Count("a"), SegmentStarts("a")):
        bound = MeasuredEnergy(measurement, Squared()).bind(shape, ["a", "b"])
        assert bound.value(np.zeros(shape.n_theta)) == 0.0
        assert bound.lipschitz is not None


def test_a_label_of_another_type_is_refused():
    with pytest.raises(InvalidInputError, match=r"label='1' is not a label.*with its type"):
        LabelIndex(ChainShape(2, 2, has_table=False), [0, 1]).states("1")
