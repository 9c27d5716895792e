"""Splits and merges whose choice is learned by the cross-entropy method while searching."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize
from scipy.special import gammaln

from intarsia._core.validation import FloatArray, IntArray, check_choice, check_number
from intarsia._kernels import partition as kernels
from intarsia.clusters.choices import Choices, ProposalWeights, choices_of, log_softmax
from intarsia.clusters.partition import Move, PartitionMetric
from intarsia.clusters.proposers import JumpProposer, SplitMerge

if TYPE_CHECKING:
    from intarsia.clusters.world import ClusterWorld

_INNER_ITER = 20  # of L-BFGS: it begins near its end, and only a part of the way is gone


@dataclass(frozen=True, eq=False)
class Draw:
    """A move that was drawn, with the choice behind it.

    Attributes
    ----------
    move : Move or None
        None where constraints forbid it.
    split : bool
        Whether it is a split.
    choice : int
        Which one of the splits, or merges.
    log_allocation : float
        Log-probability of dividing the cluster so; for a merge, of undoing it so.
    """

    move: Move | None
    split: bool
    choice: int
    log_allocation: float


class AdaptiveSplitMerge(JumpProposer):
    r"""A mixture of splits and merges that are chosen by learned features (Rohanimanesh2009, Eq. 10-11).

    A cluster is chosen for a split with probability proportional to :math:`\exp(\lambda_w \cdot \psi(y_i))`, a pair
    of clusters for a merge with :math:`\exp(\lambda_b \cdot \psi(y_i, y_j))`, :math:`\psi` being mean, minimum and
    maximum of the pair features inside and between (see `Choices`). The cross-entropy method (Algorithm 2) fits
    :math:`\lambda`: draw `n_samples` moves from the present clustering, keep the best `elite_fraction`, maximise their
    log-probability (concave, since a move tells whether it is a split or a merge; L-BFGS with the exact gradient), go a
    part `smoothing` of the way, and again. :math:`\lambda` is kept until the proposer learns again, from 0. Choose it
    for documents of up to some hundreds of records; each round costs the features of all candidate pairs.

    With even allocation the best splits drawn are often those of the smallest clusters, which do least harm; sequential
    allocation divides a wrong cluster well, and so lets the proposer learn which one is wrong.

    Parameters
    ----------
    beta : float
        Share of splits.
    learn_beta : bool
        Whether that is learned too: the share of splits among the samples kept, smoothed, within [0.05, 0.95].
    n_samples : int
        Moves drawn in a round.
    elite_fraction : float
        Share of them that is kept; with ties at the threshold, all of these.
    smoothing : float
        How far the parameters go towards the best ones of a round, in (0, 1].
    max_iter : int
        Most rounds each time the proposer learns.
    tol : float
        Rounds end when no parameter changes by more.
    l2 : float
        Keeps the inner problem bounded: this times half the squared parameters is taken off the mean log-probability.
    allocation : {"random", "sequential"}
        How a chosen cluster is divided between two of its records, as in `SplitMerge`.
    learn_every : int
        Jumps from one learning to the next.
    n_draws : int
        Moves drawn for a jump without learning; the best one is proposed.
    adapt : bool
        False leaves every split and every merge equally probable, with as many moves drawn: the uniform proposer to
        compare with.

    References
    ----------
    Rohanimanesh2009, Section 4; DeBoer2005.

    Examples
    --------
    Two pairs of records that belong together, and pairs that do not: what is drawn are soon the good merges.

    >>> from intarsia.clusters.cluster_model import ClusterModel, dense_pair_features
    >>> from intarsia.clusters.world import ClusterWorld
    >>> likeness = np.where(np.eye(2).repeat(2, 0).repeat(2, 1) > 0, 1.0, -1.0)
    >>> world = ClusterWorld(dense_pair_features(likeness), ClusterModel(absent=False))
    >>> proposer = AdaptiveSplitMerge()
    >>> learned, _, value = proposer.learn(world, proposer.initial(world), np.random.default_rng(0), np.ones(1))
    >>> value, bool(learned.merge[0] > 0)
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
        """Raise for settings that cannot be meant."""
        here = "AdaptiveSplitMerge"
        check_number(self.beta, f"{here}: beta", low=0.0, high=1.0)
        for name in ("n_samples", "max_iter", "learn_every", "n_draws"):
            check_number(getattr(self, name), f"{here}: {name}", low=1, integer=True)
        check_number(self.elite_fraction, f"{here}: elite_fraction", low=0.0, high=1.0, open_low=True)
        check_number(self.smoothing, f"{here}: smoothing", low=0.0, high=1.0, open_low=True)
        check_number(self.tol, f"{here}: tol", low=0.0, high=np.inf)
        check_number(self.l2, f"{here}: l2", low=0.0, high=np.inf, open_low=True, open_high=True)
        check_choice(self.allocation, ("random", "sequential"), f"{here}: allocation")

    def initial(self, world: ClusterWorld) -> ProposalWeights:
        """Parameters before any learning: every split alike, and every merge."""
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
        """Moves from the present clustering; `model` are the weights that allocate sequentially."""
        chosen = self._choose(choices, weights, rng, size)
        kernel = self._kernel_proposer(world, model)
        n = choices.splits.size
        return [
            self._split(world, choices, int(k), kernel, rng)
            if k < n
            else self._merge(world, choices, int(k) - n, kernel, rng)
            for k in chosen
        ]

    def learn(
        self,
        world: ClusterWorld,
        weights: ProposalWeights,
        rng: np.random.Generator,
        score: FloatArray | None = None,
        model: FloatArray | None = None,
    ) -> tuple[ProposalWeights, Move | None, float]:
        """Fit the parameters to the present clustering (Algorithm 2); with the best move drawn meanwhile and its value.

        The value of a move is what it adds to the score under the weights `score`, or, without them, to F.
        """
        self.check_settings()
        choices = choices_of(world)
        best, best_value = None, -np.inf
        for _ in range(int(self.max_iter)):
            chosen, values, found = self._sample(world, choices, weights, rng, int(self.n_samples), score, model)
            if found is None:
                break
            if values.max() > best_value:
                best, best_value = found, float(values.max())
            if not self.adapt:
                continue
            possible = np.isfinite(values)
            kept = int(np.ceil(float(self.elite_fraction) * possible.sum()))
            threshold = np.sort(values)[-kept]  # Algorithm 2, line 7, read from the top
            fitted = self.fit(choices, chosen[possible & (values >= threshold)], weights)
            moved = max(np.abs(fitted.split - weights.split).max(), np.abs(fitted.merge - weights.merge).max())
            weights = fitted
            if moved <= float(self.tol):
                break
        return weights, best, best_value

    def fit(self, choices: Choices, elite: IntArray, weights: ProposalWeights) -> ProposalWeights:
        """Parameters a part of the way towards those under which what was kept is most probable (Eq. 2).

        `elite` numbers the splits, then the merges.
        """
        alpha, n, n_splits = float(self.smoothing), max(1, elite.size), choices.splits.size
        counts = np.bincount(elite, minlength=n_splits + len(choices.merges)) / n
        found = {}
        for name, features, kept in (
            ("split", choices.split_features, counts[:n_splits]),
            ("merge", choices.merge_features, counts[n_splits:]),
        ):
            before: FloatArray = getattr(weights, name)
            found[name] = before
            if kept.sum() > 0.0:
                given = (features, kept, float(self.l2))
                best = minimize(
                    cross_entropy, before, given, jac=True, method="L-BFGS-B", options={"maxiter": _INNER_ITER}
                ).x
                found[name] = alpha * best + (1.0 - alpha) * before
        beta = weights.beta
        if self.learn_beta and choices.splits.size and choices.merges.size:
            beta = float(np.clip(alpha * counts[:n_splits].sum() + (1.0 - alpha) * beta, 0.05, 0.95))
        return replace(weights, **found, beta=beta)

    def propose(
        self,
        world: ClusterWorld,
        rng: np.random.Generator,
        score: FloatArray | None = None,
        model: FloatArray | None = None,
    ) -> tuple[Move | None, float]:
        """The best of the moves drawn for a jump, and its value; every `learn_every` jumps the parameters are learned.

        Parameters and the number of jumps are kept in `world.memory`.
        """
        self.check_settings()
        weights, jumps = world.memory.get(id(self), (self.initial(world), 0))
        if jumps % int(self.learn_every) == 0:
            # Algorithm 2 begins at 0. Parameters that went on from the last time would draw ever fewer of the moves.
            weights, best, value = self.learn(world, self.initial(world), rng, score, model)
        else:
            drawn = self._sample(world, choices_of(world), weights, rng, int(self.n_draws), score, model)
            best, value = drawn[2], float(drawn[1].max(initial=-np.inf))
        world.memory[id(self)] = (weights, jumps + 1)
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
        """Choices drawn, the values of the moves they led to (-inf: not allowed), and the best of these moves."""
        if score is not None or not isinstance(world.metric, PartitionMetric):
            chosen = self._choose(choices, weights, rng, size)
            kernel = self._kernel_proposer(world, model)
            return chosen, *world.try_choices(choices, chosen, rng, self.allocation == "sequential", kernel, score)
        drawn = self.draw(world, choices, weights, rng, size, model)
        chosen = np.array([d.choice + (0 if d.split else choices.splits.size) for d in drawn], dtype=np.int64)
        values = np.array([-np.inf if d.move is None else world.performance_change(d.move) for d in drawn])
        return chosen, values, drawn[int(np.argmax(values))].move if drawn else None

    @staticmethod
    def _choose(choices: Choices, weights: ProposalWeights, rng: np.random.Generator, size: int) -> IntArray:
        """Numbers of splits, then of merges, drawn by the mixture."""
        chances = np.exp(np.concatenate(choices.log_probabilities(weights)))
        if chances.size == 0:
            return np.zeros(0, dtype=np.int64)
        return np.asarray(rng.choice(chances.size, size=size, p=chances / chances.sum()))

    def log_ratio(self, world: ClusterWorld, draw: Draw, choices: Choices, weights: ProposalWeights) -> float:
        """Log backward over forward probability of a drawn move, the parameters held fixed: for Metropolis-Hastings."""
        if draw.move is None:
            return -np.inf
        atoms = world.constraints.atom
        moved = np.unique(atoms[draw.move.records]).size
        home = world.partition.cluster_of(int(draw.move.records[0]))
        here = choices.log_probabilities(weights)[0 if draw.split else 1][draw.choice]
        other = world.partition.members(home if draw.split else draw.move.target)
        others = np.unique(atoms[other]).size - (moved if draw.split else 0)
        # seeds: any two atoms of the cluster when splitting, one atom of each side when merging
        total = moved + others
        allocation = draw.log_allocation + np.log(moved * others) - _log_pairs(total)
        world.apply(draw.move)
        there = choices_of(world)
        label = world.partition.rows[kernels.LABEL]
        if draw.split:
            pair = sorted((int(label[draw.move.records[0]]), home))
            at = np.flatnonzero((there.merges == pair).all(axis=1))
            back = there.log_probabilities(weights)[1][at[0]] if at.size else -np.inf
            ratio = back - here - allocation
        else:
            at = np.flatnonzero(there.splits == label[draw.move.records[0]])
            ratio = there.log_probabilities(weights)[0][at[0]] + allocation - here
        world.undo()
        return float(ratio)

    def _split(
        self, world: ClusterWorld, choices: Choices, k: int, kernel: kernels.Proposer, rng: np.random.Generator
    ) -> Draw:
        members = world.partition.members(int(choices.splits[k]))
        i, j = _seeds(
            np.unique(world.constraints.atom[members]), world.constraints.atom_idx, world.constraints.atom_ptr, rng
        )
        log_probability, moved = world.allocate(rng, i, j, self.allocation == "sequential", kernel)
        return Draw(Move(moved), True, k, log_probability)

    def _merge(
        self, world: ClusterWorld, choices: Choices, k: int, kernel: kernels.Proposer, rng: np.random.Generator
    ) -> Draw:
        a, b = (int(slot) for slot in choices.merges[k])
        i, j = (_one_of(world, slot, rng) for slot in (a, b))
        move = world.merge(i, j)
        if not world.is_allowed(move):
            return Draw(None, False, k, 0.0)
        log_probability, _ = world.allocate(rng, i, j, self.allocation == "sequential", kernel)
        return Draw(move, False, k, log_probability)

    def _kernel_proposer(self, world: ClusterWorld, model: FloatArray | None) -> kernels.Proposer:
        sequential = self.allocation == "sequential"
        inner = SplitMerge(random=float(not sequential), sequential=float(sequential))
        return inner.arrays(world.pairs, world.table, np.zeros(world.n_weights) if model is None else model)


def cross_entropy(weights: FloatArray, features: FloatArray, counts: FloatArray, l2: float) -> tuple[float, FloatArray]:
    r"""Minus the penalised log-likelihood of choices that were kept, and its gradient (Rohanimanesh2009, Eq. 2).

    :math:`-\sum_k c_k \log Q_k + \frac r2 |\lambda|^2` with :math:`Q \propto \exp(\psi \lambda)`.

    Examples
    --------
    >>> value, gradient = cross_entropy(np.zeros(1), np.array([[1.0], [0.0]]), np.array([1.0, 0.0]), 0.1)
    >>> round(value, 4), gradient.tolist()
    (0.6931, [-0.5])
    """
    log_q = log_softmax(features @ weights)
    total = counts.sum()
    value = -counts @ log_q + 0.5 * l2 * weights @ weights
    return float(value), np.asarray(features.T @ (total * np.exp(log_q) - counts) + l2 * weights)


def _log_pairs(n: int) -> float:
    return float(gammaln(n + 1) - gammaln(n - 1) - np.log(2.0))


def _seeds(atoms: IntArray, idx: IntArray, ptr: IntArray, rng: np.random.Generator) -> tuple[int, int]:
    """A record of each of two different atoms."""
    first, second = rng.choice(atoms, size=2, replace=False)
    return int(idx[ptr[first]]), int(idx[ptr[second]])


def _one_of(world: ClusterWorld, slot: int, rng: np.random.Generator) -> int:
    """A record of a random atom of a cluster."""
    links = world.constraints
    atom = rng.choice(np.unique(links.atom[world.partition.members(slot)]))
    return int(links.atom_idx[links.atom_ptr[atom]])
