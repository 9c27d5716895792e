"""Cached data of a graph are freed with the graph; otherwise fits over many graphs would fill the memory."""

import gc
import weakref

import pytest

import intarsia
from intarsia.inference import method_class, method_names


@pytest.mark.parametrize("name", method_names())
def test_no_method_keeps_a_graph_alive(name):
    graph = intarsia.chain_graph(3, 2)
    task = "marginals" if method_class(name).gives_marginals else "map"
    intarsia.infer(graph, graph.zeros(), name, task=task, random_state=0)
    alive = weakref.ref(graph)
    del graph
    gc.collect()
    assert alive() is None
