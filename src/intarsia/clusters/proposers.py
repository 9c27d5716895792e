"""Proposers of the next clustering: random splits and merges, and moves of single records, in compiled loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from intarsia._core.settings import Settings
from intarsia._core.validation import FloatArray, check_number
from intarsia._kernels.partition import Proposer
from intarsia.clusters.cluster_model import FeatureTable, PairFeatures
from intarsia.exceptions import InvalidInputError


class SplitMerge(Settings):
    r"""Random splits and merges: sample two records; if they share a cluster, split it, else merge their clusters.

    The other records of a split cluster are assigned at random: each with probability 1/2 (`random`), or one after
    another in random order, with probability :math:`\sigma(s_1 - s_2)` to the first side, where :math:`s_1` and
    :math:`s_2` are the scores of its pairs with the two sides (`sequential`, which finds good splits far sooner).
    `move_one` moves the first record alone, to the other record's cluster or out of the shared one. The two records
    are sampled from a distribution that does not depend on the clustering, and the probabilities of seeds and order
    cancel between a move and its reverse, so that Metropolis-Hastings is exact for each kind. The cost of a proposal
    is the number of pairs between the moved records and the clusters they leave and join.

    Parameters
    ----------
    random, sequential, move_one : float
        Relative frequency of each kind of proposal.
    along_pairs : float, optional
        Fraction of the proposals whose two records are a candidate pair; the other proposals take any two records. By
        default 0 if no pair is absent and 0.95 otherwise, because two of 100,000 records sampled at random have
        nothing in common. With 1 some clusterings may be unreachable.
    temperature : float
        Temperature of sequential allocation: above 1 the assignment is closer to uniform.

    Notes
    -----
    Sequential allocation reads the weights of sums over pairs (`within`, `between`, `absent`), not those of aggregates.

    References
    ----------
    Rohanimanesh2009, Section 4; Jain2004; Dahl2005.

    Examples
    --------
    >>> SplitMerge(random=1, move_one=1).shares().tolist()
    [0.5, 0.0, 0.5]
    """

    def __init__(
        self,
        *,
        random: float = 1.0,
        sequential: float = 0.0,
        move_one: float = 0.0,
        along_pairs: float | None = None,
        temperature: float = 1.0,
    ) -> None:
        self.random = random
        self.sequential = sequential
        self.move_one = move_one
        self.along_pairs = along_pairs
        self.temperature = temperature

    def shares(self) -> FloatArray:
        """Return the probability of each kind of proposal: random, sequential, move-one."""
        frequencies = []
        for name in ("random", "sequential", "move_one"):
            check_number(getattr(self, name), f"SplitMerge: {name}", low=0.0, high=np.inf, open_high=True)
            frequencies.append(float(getattr(self, name)))
        if sum(frequencies) == 0.0:
            raise InvalidInputError("SplitMerge: random, sequential and move_one are all 0. Set one of them to 1.")
        return np.array(frequencies) / sum(frequencies)

    def arrays(self, pairs: PairFeatures, table: FeatureTable, weights: FloatArray) -> Proposer:
        """Return the arrays that the kernels read, for these weights."""
        check_number(self.temperature, "SplitMerge: temperature", low=0.0, high=np.inf, open_low=True)
        probabilities = self.shares()
        along_pairs = self.along_pairs
        if along_pairs is None:
            along_pairs = 0.0 if pairs.complete else 0.95
        check_number(along_pairs, "SplitMerge: along_pairs", low=0.0, high=1.0)
        along_pairs = float(along_pairs) if pairs.pairs.size else 0.0
        affinity, absent_weight = np.zeros(0), 0.0
        if probabilities[1] > 0.0:
            pair_weights, absent_weight = table.pair_weights(weights, pairs.n_features)
            affinity = pairs.values @ pair_weights / float(self.temperature)
        numbers = np.array(
            [
                *np.cumsum(probabilities),
                along_pairs,
                absent_weight / float(self.temperature),
                0.0,
                float(len(pairs.pairs)),
            ]
        )
        return Proposer(numbers, affinity)


class ProposerArrays:
    """Arrays of the last proposer and weights, so that repeated calls do not score all pairs again.

    Examples
    --------
    >>> from intarsia.clusters.cluster_model import ClusterModel, pair_features
    >>> pairs = pair_features(2, [[0, 1]], [3.0])
    >>> table = ClusterModel(absent=False).table(pairs.names)
    >>> arrays = ProposerArrays(pairs, table)
    >>> arrays.of(SplitMerge(sequential=1.0), np.array([2.0])).affinity
    array([6.])
    """

    def __init__(self, pairs: PairFeatures, table: FeatureTable) -> None:
        self._pairs, self._table = pairs, table
        self._key: Any = None
        self._arrays: Proposer

    def of(self, proposer: SplitMerge, weights: FloatArray) -> Proposer:
        """Return the arrays of a proposer for these weights."""
        key = (type(proposer), proposer.get_params(deep=False), weights.tobytes())
        if key != self._key:
            self._arrays, self._key = proposer.arrays(self._pairs, self._table, weights), key
        return self._arrays


def check_sequential(sequential: bool, proposer: Proposer, n_pairs: int) -> None:
    """Raise if clusters shall be divided sequentially but the arrays of the proposer lack the scores of the pairs.

    Examples
    --------
    >>> check_sequential(True, Proposer(np.array([0.0, 1.0, 1.0]), np.array([0.5, -0.5])), 2)
    """
    has_sequential = proposer.numbers[1] > proposer.numbers[0]
    if sequential and (not has_sequential or proposer.affinity.size != n_pairs):
        reason = f"has the scores of {proposer.affinity.size} pairs" if has_sequential else "has no sequential splits"
        raise InvalidInputError(
            f"sequential=True needs a proposer with the scores of all {n_pairs} pairs, but the proposer {reason}. Pass "
            f"SplitMerge(sequential=1.0).arrays(world.pairs, world.table, weights), or sequential=False."
        )
