"""Contract tests of proposals: our families pass, and each planted fault is named."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from intarsia.exceptions import InvalidInputError
from intarsia.testing import check_proposal
from intarsia.worlds import CategoricalProposal, GaussianProposal, PermutationProposal, Proposal


def test_families_keep_their_contract():
    rng = np.random.default_rng(0)
    matrix = rng.dirichlet(np.ones(4), size=4).ravel()
    orders = list(itertools.permutations(range(4)))
    assert check_proposal(PermutationProposal(4), matrix, outcomes=orders) == pytest.approx(1.0)
    states = list(itertools.product(range(2), range(3)))
    probabilities = np.concatenate([[0.3, 0.7], [0.2, 0.5, 0.3]])
    assert check_proposal(CategoricalProposal([2, 3]), probabilities, outcomes=states) == pytest.approx(1.0)
    assert check_proposal(CategoricalProposal([2, 3]), probabilities) == pytest.approx(1.0)
    check_proposal(GaussianProposal([0.0, 1.0], 2.0))


def test_permutations_repair_parameters_without_mass():
    """If all free values have probability 0, they are drawn uniformly, and log_probability agrees."""
    matrix = np.array([[1.0, 0, 0], [1.0, 0, 0], [0, 0.5, 0.5]])
    orders = list(itertools.permutations(range(3)))
    assert check_proposal(PermutationProposal(3), matrix.ravel(), outcomes=orders) == pytest.approx(1.0)
    with pytest.raises(InvalidInputError, match="too many orders"):
        PermutationProposal(8).log_probability(np.full(64, 1 / 8), range(8))


class Bits(CategoricalProposal):
    def __init__(self):
        super().__init__([2, 2])


class TooMuch(Bits):
    def log_probability(self, parameters, sample):
        return super().log_probability(parameters, sample) + 0.1


class TooLittle(Bits):
    def log_probability(self, parameters, sample):
        return super().log_probability(parameters, sample) - 0.3


class OtherDistribution(Bits):
    def log_probability(self, parameters, sample):
        return float(np.log([0.4, 0.3, 0.2, 0.1])[2 * sample[0] + sample[1]])


class BadFit(Bits):
    def fit(self, parameters, elites, weights):
        return np.array([0.001, 0.999, 0.999, 0.001])


class ShortFit(Bits):
    def fit(self, parameters, elites, weights):
        return np.zeros(1)


class WithoutProbability(Bits):
    log_probability = Proposal.log_probability


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (TooMuch, r"TooMuch.log_probability: the probabilities of 4 different samples sum to 1.105\d*, expected 1"),
        (TooLittle, r"the probabilities of 4 different samples sum to 0.7408\d*, expected 1"),
        (OtherDistribution, "has the probability .* by log_probability, but the frequency"),
        (BadFit, "BadFit.fit lowers the mean log-probability"),
        (ShortFit, r"ShortFit.fit returned parameters of shape \(1,\), expected 4"),
        (WithoutProbability, "WithoutProbability does not define log_probability"),
    ],
)
@pytest.mark.parametrize("outcomes", [None, list(itertools.product((0, 1), repeat=2))], ids=["drawn", "listed"])
def test_each_planted_fault_is_named(kind, message, outcomes):
    with pytest.raises(InvalidInputError, match=message):
        check_proposal(kind(), outcomes=outcomes)


def test_other_objects_are_rejected():
    with pytest.raises(InvalidInputError, match="check_proposal: expected a Proposal, got a int"):
        check_proposal(3)
