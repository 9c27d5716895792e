"""Split-merge proposer whose choices are learned by the cross-entropy method during the search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from intarsia._core.validation import FloatArray, IntArray, check_choice, check_number
from intarsia._kernels import partition as kernels
from intarsia.clusters.choices import Choices, ProposalWeights, choices_of
from intarsia.clusters.partition import Move, PartitionMetric
from intarsia.clusters.proposers import SplitMerge
from intarsia.worlds.cem_optimize import cem_rounds, check_cem_settings
from intarsia.worlds.jump_proposer import JumpProposer, count_draws
from intarsia.worlds.log_linear_choice import fit_choice

if TYPE_CHECKING:
    from intarsia.clusters.world import ClusterWorld


@dataclass(frozen=True, eq=False)
class Draw:
    """Sampled move, with the choice it came from.

    Attributes
    ----------
    move : Move or None
        The move; None if constraints forbid it.
    split : bool
        Whether the move is a split.
    choice : int
        Index of the split among the splits, or of the merge among the merges.
    log_allocation : float
        Log-probability of this division of the cluster; for a merge, of the split that reverts it.
    """

    move: Move | None
    split: bool
    choice: int
    log_allocation: float


class AdaptiveSplitMerge(JumpProposer):
    r"""Adaptive proposer of splits and merges, learned by the cross-entropy method (Rohanimanesh2009, Eq. 10-11).

    A cluster is chosen for a split with probability proportional to :math:`\exp(\lambda_w \cdot \psi(y_i))`, a pair
    of clusters for a merge with :math:`\exp(\lambda_b \cdot \psi(y_i, y_j))`, where :math:`\psi` are mean, minimum and
    maximum of the pair features inside the cluster or between the two clusters (see `Choices`). The cross-entropy
    method (Algorithm 2) fits :math:`\lambda` in rounds: sample `n_samples` moves from the current clustering, keep the
    best `elite_fraction`, maximise their log-probability (concave, because each move is known to be a split or a
    merge; by L-BFGS with the exact gradient), and move the parameters by the fraction `smoothing` towards the maximum.
    The parameters :math:`\lambda` are then used until the proposer learns again, starting from 0. Use it for documents
    of up to a few hundred records; each round computes the features of all candidate pairs.

    With random allocation the best sampled splits are often those of the smallest clusters, which do the least harm.
    Sequential allocation divides a wrong cluster well, so that the proposer learns which cluster is wrong.

    Parameters
    ----------
    beta : float
        Probability of a split.
    learn_beta : bool
        Whether to learn `beta` too: the fraction of splits among the elite samples, smoothed, within [0.05, 0.95].
    n_samples : int
        Number of moves sampled per round.
    elite_fraction : float
        Fraction of the samples that is kept, as in `cem_optimize`. Most moves change nothing; they would fill the elite
        if it were not strictly better than the rest.
    smoothing : float
        Fraction of the step from the old parameters to the best ones of a round, in (0, 1].
    max_iter : int
        Maximum number of rounds each time the proposer learns.
    tol : float
        Rounds stop when no parameter changes by more than this.
    l2 : float
        Regularization that keeps the inner problem bounded: `l2 / 2` times the squared parameters is subtracted from
        the mean log-probability.
    allocation : {"random", "sequential"}
        How a chosen cluster is divided between two of its records, as in `SplitMerge`.
    learn_every : int
        Number of jumps between two rounds of learning.
    n_draws : int
        Number of moves sampled for a jump without learning; the best one is proposed.
    adapt : bool
        If False, all splits and all merges stay equally probable, with equally many samples: the uniform proposer,
        for comparison.

    References
    ----------
    Rohanimanesh2009, Section 4; DeBoer2005.

    Examples
    --------
    Two pairs of records belong together and the other pairs do not; the proposer learns to sample the good merges.

    >>> from intarsia.clusters.cluster_model import ClusterModel, dense_pair_features
    >>> from intarsia.clusters.world import ClusterWorld
    >>> similarity = np.where(np.eye(2).repeat(2, 0).repeat(2, 1) > 0, 1.0, -1.0)
    >>> world = ClusterWorld(dense_pair_features(similarity), ClusterModel(absent=False))
    >>> proposer = AdaptiveSplitMerge()
    >>> weights, _, value = proposer.learn(world, proposer.initial(world), np.random.default_rng(0), np.ones(1))
    >>> value, bool(weights.merge[0] > 0)
    (1.0, True)
    """

    def __init__(
        self,
        *,
        beta: float = 0.5,
        learn_beta: bool = False,
        n_samples: int = 50,
        elite_fraction: float = 0.1,
        smoothing: float = 0.7,
        max_iter: int = 20,
        tol: float = 1e-3,
        l2: float = 0.01,
        allocation: str = "random",
        learn_every: int = 5,
        n_draws: int = 5,
        adapt: bool = True,
    ) -> None:
        self.beta = beta
        self.learn_beta = learn_beta
        self.n_samples = n_samples
        self.elite_fraction = elite_fraction
        self.smoothing = smoothing
        self.max_iter = max_iter
        self.tol = tol
        self.l2 = l2
        self.allocation = allocation
        self.learn_every = learn_every
        self.n_draws = n_draws
        self.adapt = adapt

    def check_settings(self) -> None:
        """Raise if a setting is out of range."""
        class_name = "AdaptiveSplitMerge"
        check_number(self.beta, f"{class_name}: beta", low=0.0, high=1.0)
        check_cem_settings(
            f"{class_name}: ", self.n_samples, self.elite_fraction, self.smoothing, self.max_iter, self.tol
        )
        for name in ("learn_every", "n_draws"):
            check_number(getattr(self, name), f"{class_name}: {name}", low=1, integer=True)
        check_number(self.l2, f"{class_name}: l2", low=0.0, high=np.inf, open_low=True, open_high=True)
        check_choice(self.allocation, ("random", "sequential"), f"{class_name}: allocation")

    def initial(self, world: ClusterWorld) -> ProposalWeights:
        """Return the parameters before any learning: all splits equally probable, and all merges."""
        n = 3 * world.pairs.n_features + 2
        return ProposalWeights(np.zeros(n), np.zeros(n), float(self.beta))

    def draw(
        self,
        world: ClusterWorld,
        choices: Choices,
        weights: ProposalWeights,
        rng: np.random.Generator,
        size: int,
        model: FloatArray | None = None,
    ) -> list[Draw]:
        """Sample moves from the current clustering; `model` holds the weights for sequential allocation."""
        sampled_choices = self._choose(choices, weights, rng, size)
        kernel = self._kernel_proposer(world, model)
        n = choices.splits.size
        return [
            self._split(world, choices, int(k), kernel, rng)
            if k < n
            else self._merge(world, choices, int(k) - n, kernel, rng)
            for k in sampled_choices
        ]

    def learn(
        self,
        world: ClusterWorld,
        weights: ProposalWeights,
        rng: np.random.Generator,
        score: FloatArray | None = None,
        model: FloatArray | None = None,
    ) -> tuple[ProposalWeights, Move | None, float]:
        """Fit the parameters to the current clustering (Algorithm 2); return them, the best sampled move and its value.

        The value of a move is the change of the score under the weights `score` or, without them, of the performance F.
        """
        self.check_settings()
        choices, sampled_choices = choices_of(world), np.zeros(0, dtype=np.int64)

        def draw(parameters: FloatArray) -> tuple[FloatArray, Move | None]:
            nonlocal sampled_choices
            arguments = (world, choices, _unpacked(parameters), rng, int(self.n_samples), score, model)
            sampled_choices, values, best_of_round = self._sample(*arguments)
            return values, best_of_round

        def fit(parameters: FloatArray, elites: IntArray) -> FloatArray:
            return _packed(self.fit(choices, sampled_choices[elites], _unpacked(parameters)))

        best, best_value = None, -np.inf
        rounds = cem_rounds(
            _packed(weights),
            draw,
            fit if self.adapt else None,
            elite_fraction=float(self.elite_fraction),
            smoothing=float(self.smoothing),
            max_iter=int(self.max_iter),
            tol=float(self.tol),
        )
        for cem_round in rounds:
            weights = _unpacked(cem_round.parameters)
            if cem_round.values.max() > best_value:
                best, best_value = cem_round.best, float(cem_round.values.max())
        return weights, best, best_value

    def fit(self, choices: Choices, elite: IntArray, weights: ProposalWeights) -> ProposalWeights:
        """Return the parameters under which the elite choices are most probable (Eq. 2).

        `elite` holds indices of choices: first the splits, then the merges. Parameters of a kind without elite choices
        are unchanged.
        """
        n_splits = choices.splits.size
        counts = np.bincount(elite, minlength=n_splits + len(choices.merges)) / max(1, elite.size)
        split, merge = weights.split, weights.merge
        if counts[:n_splits].sum() > 0.0:
            split = fit_choice(split, choices.split_features, counts[:n_splits], float(self.l2))
        if counts[n_splits:].sum() > 0.0:
            merge = fit_choice(merge, choices.merge_features, counts[n_splits:], float(self.l2))
        beta = weights.beta
        if self.learn_beta and n_splits and choices.merges.size:
            beta = float(np.clip(counts[:n_splits].sum(), 0.05, 0.95))
        return ProposalWeights(split, merge, beta)

    def propose(
        self,
        world: ClusterWorld,
        rng: np.random.Generator,
        score: FloatArray | None = None,
        model: FloatArray | None = None,
    ) -> tuple[Move | None, float]:
        """Return the best of the moves sampled for a jump, and its value.

        The parameters are learned every `learn_every` jumps; they and the number of jumps are stored in `world.memory`.
        """
        self.check_settings()
        weights, n_jumps = world.memory.get(id(self), (self.initial(world), 0))
        if n_jumps % int(self.learn_every) == 0:
            # Algorithm 2 starts at 0. Starting from the previous parameters would sample ever fewer different moves.
            weights, best, value = self.learn(world, self.initial(world), rng, score, model)
        else:
            samples = self._sample(world, choices_of(world), weights, rng, int(self.n_draws), score, model)
            best, value = samples[2], float(samples[1].max(initial=-np.inf))
        world.memory[id(self)] = (weights, n_jumps + 1)
        return best, value

    def _sample(
        self,
        world: ClusterWorld,
        choices: Choices,
        weights: ProposalWeights,
        rng: np.random.Generator,
        size: int,
        score: FloatArray | None,
        model: FloatArray | None,
    ) -> tuple[IntArray, FloatArray, Move | None]:
        """Return sampled choices, the values of their moves (-inf if not allowed), and the best of these moves."""
        count_draws(world, size)
        if score is not None or not isinstance(world.metric, PartitionMetric):
            sampled_choices = self._choose(choices, weights, rng, size)
            kernel = self._kernel_proposer(world, model)
            return sampled_choices, *world.try_choices(
                choices, sampled_choices, rng, self.allocation == "sequential", kernel, score
            )
        draws = self.draw(world, choices, weights, rng, size, model)
        sampled_choices = np.array(
            [draw.choice + (0 if draw.split else choices.splits.size) for draw in draws], dtype=np.int64
        )
        values = np.array([-np.inf if draw.move is None else world.performance_change(draw.move) for draw in draws])
        return sampled_choices, values, draws[int(np.argmax(values))].move if draws else None

    @staticmethod
    def _choose(choices: Choices, weights: ProposalWeights, rng: np.random.Generator, size: int) -> IntArray:
        """Sample indices of choices from the mixture: first the splits, then the merges."""
        probabilities = np.exp(np.concatenate(choices.log_probabilities(weights)))
        if probabilities.size == 0:
            return np.zeros(0, dtype=np.int64)
        return np.asarray(rng.choice(probabilities.size, size=size, p=probabilities / probabilities.sum()))

    def log_ratio(self, world: ClusterWorld, draw: Draw, choices: Choices, weights: ProposalWeights) -> float:
        """Return the log ratio of backward and forward probability of a sampled move, for Metropolis-Hastings."""
        if draw.move is None:
            return -np.inf
        atoms = world.constraints.atom
        n_moved = np.unique(atoms[draw.move.records]).size
        source = world.partition.cluster_of(int(draw.move.records[0]))
        log_forward = choices.log_probabilities(weights)[0 if draw.split else 1][draw.choice]
        members = world.partition.members(source if draw.split else draw.move.target)
        n_others = np.unique(atoms[members]).size - (n_moved if draw.split else 0)
        # The seeds are any two atoms of the cluster for a split, and one atom of each cluster for a merge.
        total = n_moved + n_others
        allocation = draw.log_allocation + np.log(n_moved * n_others) - _log_n_pairs(total)
        world.apply(draw.move)
        choices_after = choices_of(world)
        label = world.partition.rows[kernels.LABEL]
        if draw.split:
            pair = sorted((int(label[draw.move.records[0]]), source))
            matches = np.flatnonzero((choices_after.merges == pair).all(axis=1))
            log_backward = choices_after.log_probabilities(weights)[1][matches[0]] if matches.size else -np.inf
            ratio = log_backward - log_forward - allocation
        else:
            matches = np.flatnonzero(choices_after.splits == label[draw.move.records[0]])
            ratio = choices_after.log_probabilities(weights)[0][matches[0]] + allocation - log_forward
        world.undo()
        return float(ratio)

    def _split(
        self, world: ClusterWorld, choices: Choices, k: int, kernel: kernels.Proposer, rng: np.random.Generator
    ) -> Draw:
        """Sample how cluster k of the possible splits is divided."""
        members = world.partition.members(int(choices.splits[k]))
        i, j = _sample_seeds(
            np.unique(world.constraints.atom[members]), world.constraints.atom_idx, world.constraints.atom_ptr, rng
        )
        log_probability, records = world.allocate(rng, i, j, self.allocation == "sequential", kernel)
        return Draw(Move(records), True, k, log_probability)

    def _merge(
        self, world: ClusterWorld, choices: Choices, k: int, kernel: kernels.Proposer, rng: np.random.Generator
    ) -> Draw:
        """Build merge k of the possible merges, with the log-probability of the split that reverts it."""
        a, b = (int(slot) for slot in choices.merges[k])
        i, j = (_sample_record(world, slot, rng) for slot in (a, b))
        move = world.merge(i, j)
        if not world.is_allowed(move):
            return Draw(None, False, k, 0.0)
        log_probability, _ = world.allocate(rng, i, j, self.allocation == "sequential", kernel)
        return Draw(move, False, k, log_probability)

    def _kernel_proposer(self, world: ClusterWorld, model: FloatArray | None) -> kernels.Proposer:
        """Return the arrays of the split-merge proposer that divides clusters."""
        sequential = self.allocation == "sequential"
        inner = SplitMerge(random=float(not sequential), sequential=float(sequential))
        return inner.arrays(world.pairs, world.table, np.zeros(world.n_weights) if model is None else model)


def _packed(weights: ProposalWeights) -> FloatArray:
    """Return the parameters as one vector."""
    return np.concatenate([weights.split, weights.merge, [weights.beta]])


def _unpacked(parameters: FloatArray) -> ProposalWeights:
    """Return the parameters from a vector that `_packed` made."""
    n = parameters.size // 2
    return ProposalWeights(parameters[:n], parameters[n:-1], float(parameters[-1]))


def _log_n_pairs(n: int) -> float:
    """Return the logarithm of the number of pairs of n items."""
    from scipy.special import gammaln

    return float(gammaln(n + 1) - gammaln(n - 1) - np.log(2.0))


def _sample_seeds(atoms: IntArray, idx: IntArray, ptr: IntArray, rng: np.random.Generator) -> tuple[int, int]:
    """Sample two different atoms; return a record of each."""
    first, second = rng.choice(atoms, size=2, replace=False)
    return int(idx[ptr[first]]), int(idx[ptr[second]])


def _sample_record(world: ClusterWorld, slot: int, rng: np.random.Generator) -> int:
    """Sample an atom of a cluster; return a record of it."""
    links = world.constraints
    atom = rng.choice(np.unique(links.atom[world.partition.members(slot)]))
    return int(links.atom_idx[links.atom_ptr[atom]])
