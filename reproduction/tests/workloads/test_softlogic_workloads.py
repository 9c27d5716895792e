"""The models are identical to those on which other solvers were measured."""

import pytest

from intarsia.exceptions import InvalidInputError
from intarsia.softlogic import ConsensusADMM
from intarsia_reproduction.workloads.softlogic_workloads import checksum, hinge_workload, many_clauses

# SHA-256 of the arrays of the published timings, as computed by `checksum`.
CHECKSUMS = {
    "w5_small": "9c6b54eb2ff06dbf62e3641fb7697f027ce5884dfb7552043865a54a8a9ea22d",
    "w5_big": "ff9f179d016eaaac4622b7f55d17fcf2532134d89d504547cae470973eccdf2e",
}


@pytest.mark.parametrize("name", ["w5_small", pytest.param("w5_big", marks=pytest.mark.slow)])
def test_models_are_identical_to_those_of_the_published_timings(name):
    assert checksum(hinge_workload(name)) == CHECKSUMS[name]


def test_the_published_optimum_is_reached():
    result = ConsensusADMM(tol=1e-4).solve(hinge_workload("w5_small"))
    assert result.converged
    assert result.lower_bound <= 32.7035
    assert 32.7025 <= result.objective <= 32.703 * (1.0 + 2e-4)


def test_many_clauses_have_the_same_distribution():
    model = many_clauses(42_000)
    sizes = model.terms.ptr[1:] - model.terms.ptr[:-1]
    assert model.n_variables == 10_000
    assert set(sizes[:40_000].tolist()) == {2, 3}
    assert set(sizes[40_000:].tolist()) == {1}
    assert set(model.weight.tolist()) <= {k / 20 for k in range(1, 21)}
    assert (model.power == 2).mean() == pytest.approx(0.5)


def test_unknown_name():
    with pytest.raises(InvalidInputError, match="Did you mean 'w5_small'"):
        hinge_workload("w5_smal")
