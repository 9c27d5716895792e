"""Rules that need converged inference raise KeyboardInterrupt if it is interrupted."""

from __future__ import annotations

import pytest

from intarsia.gradients import GRADIENTS
from intarsia.gradients.pairwise_reversal import PairwiseReversal
from intarsia.graph import grid_graph
from intarsia.losses import training_labels
from intarsia.losses.marginal_losses import UnivariateLogistic


@pytest.mark.parametrize("rule", ["back_propagation", "perturbation", "implicit"])
def test_an_interrupted_inference_gives_no_gradient(rule, monkeypatch):
    """Otherwise Ctrl-C would end one inference, and the fit would continue with an incomplete gradient."""
    graph = grid_graph(2, 3, 2)
    calls, whole = [], PairwiseReversal.sweep

    def sweep(self):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return whole(self)

    monkeypatch.setattr(PairwiseReversal, "sweep", sweep)
    theta = graph.pack(variables=[[0.0, 0.1 * v] for v in range(6)], tables=[[[0.5, 0.0], [0.0, 0.5]]] * 7)
    with pytest.raises(KeyboardInterrupt):
        GRADIENTS.resolve(rule).value_and_gradient(
            graph, theta, training_labels(graph, [0, 1, 0, 1, 0, 1]), UnivariateLogistic(), "tree_reweighted"
        )
    assert len(calls) == 2
