import numpy as np
import pytest

from intarsia.exceptions import InvalidInputError
from intarsia_reproduction.workloads.workloads import inference_workload

# SHA-256 of unary (f8), edges (i8) and pair (f8), little-endian, of the models of the published timings.
CHECKSUMS = {
    "w1_binary": "888a1d83efb31cc2fd49c846df79b323e66f460bce690158418f417f7480c2ec",
    "w1_multi": "5bd300f129fb603c6a9d51d20e6dc948210d9400a5be3d3af90ff9275ea657e6",
    "w1_small": "34983fda2ef4488f5b20aa802e8126214e36ad2d91cda14bf425475f56186e65",
}


@pytest.mark.parametrize("name", CHECKSUMS)
def test_models_are_identical_to_those_of_the_published_timings(name):
    assert inference_workload(name).checksum() == CHECKSUMS[name]


def test_theta_and_the_arrays_have_the_same_score():
    workload = inference_workload("w1_small")
    graph, theta = workload.model()
    y = np.random.default_rng(0).integers(0, 2, size=graph.n_variables)
    by_hand = sum(workload.unary[v, y[v]] for v in range(len(y)))
    by_hand += sum(workload.pair[e, y[i], y[j]] for e, (i, j) in enumerate(workload.edges))
    assert graph.score(theta, y) == pytest.approx(by_hand)
    np.testing.assert_array_equal(graph.scope_idx.reshape(-1, 2), workload.edges)


def test_unknown_name():
    with pytest.raises(InvalidInputError, match="Did you mean 'w1_small'"):
        inference_workload("w1_smal")
