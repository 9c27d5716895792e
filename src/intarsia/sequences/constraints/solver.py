"""Best labellings of one sequence under many automata, which are added one by one as answers violate them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, IntArray, read_only
from intarsia._kernels.chain_paths import find_best_paths
from intarsia.sequences.constraints.automaton import Automaton
from intarsia.sequences.constraints.lagrangian import Relaxation, decompose
from intarsia.sequences.constraints.trellis import MAX_SIZE, Automata

# Number of labellings of the plain chain that are tried before automata are used.
N_QUICK = 8
# Joint states times labels for which a search takes about a tenth of a second.
QUICK_SIZE = 4 * 10**6


@dataclass(frozen=True, eq=False)
class Chain:
    """Scores of one sequence that is not empty.

    Attributes
    ----------
    nodes : (length, n_labels) float array
        Scores of labels, including those of the first and last label.
    tables : (1 or length - 1, n_labels, n_labels) float array
        Scores of transitions.
    """

    nodes: FloatArray
    tables: FloatArray

    @property
    def alive(self) -> NDArray[np.bool_]:
        """Labels with a finite score."""
        return self.nodes > -np.inf

    def restricted(self, allowed: NDArray[np.bool_]) -> Chain:
        """Return the chain with scores of -inf for labels (length, n_labels) that are not allowed."""
        return Chain(np.where(allowed, self.nodes, -np.inf), self.tables)

    def best(self, n_best: int) -> tuple[IntArray, FloatArray]:
        """Return the best labellings (n, length) without automata, and their scores."""
        length, k = self.nodes.shape
        paths, scores = np.full((n_best, length), -1, dtype=np.int64), np.full((n_best, 1), -np.inf)
        waiting = np.empty(n_best), np.empty((n_best, 3), dtype=np.int64)
        ptr = read_only(np.array([0, length]))
        find_best_paths(ptr, self.nodes, self.tables, paths, scores, np.empty((length, k)), *waiting)
        n = int((scores > -np.inf).sum())
        return paths[:n], scores[:n, 0]


@dataclass(frozen=True, eq=False)
class Solution:
    """Best labellings under automata.

    Attributes
    ----------
    paths : (n, length) int array
        Labellings, the best first; none if the automata reject every labelling.
    scores : (n,) float array
        Their scores, minus penalties.
    bound : float
        Upper bound on the score of every labelling that the automata accept.
    proven : bool
        Whether the labellings are proven to be the best, or proven not to exist.
    active : list of int
        Automata that were needed.
    """

    paths: IntArray
    scores: FloatArray
    bound: float
    proven: bool
    active: list[int]


def solve(chain: Chain, automata: Automata, n_best: int = 1, max_size: int = QUICK_SIZE) -> Solution:
    """Return the best labellings under all automata, whose scores must not be positive.

    Automata are added one by one: an answer that no other automaton rejects or penalizes is the best of all, because
    each automaton can only lower scores. First, the best labellings of the plain chain are tried. If the joint states
    of the automata are too many, the answer is the best labelling of a Lagrangian relaxation, with an upper bound.
    """
    length, k = chain.nodes.shape
    max_size = min(max(max_size, 16 * length * k), MAX_SIZE)

    def penalties(paths: IntArray) -> FloatArray:
        return automata.scores(np.arange(paths.shape[0] + 1) * length, paths.ravel(), k)

    has_penalties = automata.has_penalties
    paths, scores = chain.best(n_best if has_penalties else max(n_best, N_QUICK))
    path_penalties = penalties(paths)
    is_accepted = np.asarray(~path_penalties.any(axis=1))
    # The first accepted of the best labellings are the best, unless a penalized labelling may be better.
    accepted = np.flatnonzero(is_accepted)[:n_best]
    if not scores.size or (accepted.size == n_best and (is_accepted[:n_best].all() or not has_penalties)):
        return Solution(paths[accepted], scores[accepted], float(scores[accepted].max(initial=-np.inf)), True, [])
    active = set(np.flatnonzero(path_penalties[:n_best].any(axis=0)).tolist())
    solution = _add_automata(chain, automata, n_best, max_size, active)
    return _solve_relaxation(chain, automata, n_best, max_size) if solution is None else solution


def _add_automata(
    chain: Chain, automata: Automata, n_best: int, max_size: int, first: Collection[int] = ()
) -> Solution | None:
    """Add violated automata until none is; return None if the joint states are too many."""
    (length, k), active = chain.nodes.shape, set(first)
    while True:
        order = sorted(active)
        trellis = automata.subset(order).trellis(chain.alive, max_size)
        if trellis is None:
            return None
        paths, scores = trellis.best(chain.nodes, chain.tables, n_best)
        penalties = automata.scores(np.arange(len(paths) + 1) * length, paths.ravel(), k)
        violated = set(np.flatnonzero(_inactive(penalties, order).any(axis=0)).tolist())
        if not violated:
            return Solution(paths, scores, float(scores.max(initial=-np.inf)), True, order)
        active |= violated


def _solve_with_few_labels(chain: Chain, automata: Automata, max_size: int) -> Solution | None:
    """Return the best labelling among those with few of the labels that the automata tell apart; None if not found.

    Labels that a clash of automata needs are allowed where a labelling has them that uses few of them, and only they
    there, so that joint states stay few. Once a labelling is accepted, other labels are allowed as long as that works.
    """
    (length, k), handled = chain.nodes.shape, list[int]()
    differs = [_distinguished(automaton, length) for automaton in automata.members]
    n_uses = np.bincount(chain.best(1)[0].ravel(), minlength=k)
    allowed, penalty = ~np.any(differs, axis=0), 4.0 * _spread(chain)
    for _ in range(4 * len(automata)):
        restricted = chain.restricted(allowed)
        solution = _add_automata(restricted, automata, 1, max_size)
        if solution is None:
            return None
        if solution.scores.size:
            break
        clash = find_clash(restricted, automata, solution.active, max_size)
        missing = ~allowed & chain.alive & (np.any([differs[i] for i in clash], axis=0) if clash else True)
        if not missing.any():
            missing = ~allowed & chain.alive  # the scores exclude what the automata accept
        if not missing.any():
            return None
        handled += [i for i in clash if i not in handled]
        wider = chain.restricted(allowed | missing)
        wider.nodes[missing] -= penalty
        labelling_so_far = _add_automata(wider, automata.subset(handled), 1, max_size)
        if labelling_so_far is None or not labelling_so_far.scores.size:
            allowed |= missing
            continue
        is_on_path = labelling_so_far.paths[0][:, None] == np.arange(k)
        is_new = (missing & is_on_path).any(axis=1)
        allowed[is_new] = is_on_path[is_new]
    else:
        return None
    for label in sorted(np.flatnonzero(n_uses > 0).tolist(), key=lambda y: -n_uses[y]):
        larger = allowed | (np.arange(k) == label)
        wider = chain.restricted(larger)
        candidate = None if allowed[:, label].all() else _add_automata(wider, automata, 1, max_size)
        if candidate is not None and candidate.scores.size:  # a superset, so that its best is no worse
            solution, allowed = candidate, larger
    return solution


def _distinguished(automaton: Automaton, length: int) -> NDArray[np.bool_]:
    """Return which labels (length, n_labels) have another symbol than most labels at their position."""
    common = np.array([np.bincount(row).argmax() for row in automaton.symbols])
    kinds = np.zeros(length, dtype=np.int64) if automaton.kinds is None else automaton.kinds
    return np.asarray((automaton.symbols != common[:, None])[kinds])


def _inactive(scores: FloatArray, active: list[int]) -> FloatArray:
    result = scores.copy()
    result[:, active] = 0.0
    return result


def _solve_relaxation(chain: Chain, automata: Automata, n_best: int, max_size: int) -> Solution:
    """Return the answer of a Lagrangian relaxation; then labels that cannot be in a better answer are left out."""
    every = list(range(len(automata)))
    relaxation: Relaxation = decompose(chain.nodes, chain.tables, automata, max_size)
    if relaxation.score == -np.inf:
        few = _solve_with_few_labels(chain, automata, max_size) if relaxation.bound > -np.inf else None
        if few is not None:
            return replace(few, bound=relaxation.bound, proven=False, active=every)
        return Solution(np.empty((0, len(chain.nodes)), np.int64), np.empty(0), relaxation.bound, False, every)
    is_best = relaxation.bound <= relaxation.score + 1e-9 * max(1.0, abs(relaxation.score))
    if not is_best or n_best > 1:
        trellis = None
        if n_best == 1:
            alive = chain.alive & (highest_through(chain) >= relaxation.score - 1e-9)
            trellis = automata.trellis(alive, max_size)
        if trellis is not None:
            paths, scores = trellis.best(chain.nodes, chain.tables, 1)
            if scores.size and scores[0] >= relaxation.score - 1e-9:
                return Solution(paths, scores, float(scores[0]), True, every)
    proven = is_best and n_best == 1
    return Solution(relaxation.path[None], np.array([relaxation.score]), relaxation.bound, proven, every)


def highest_through(chain: Chain) -> FloatArray:
    """Return the highest score of a labelling of the plain chain through each label of each position."""
    nodes, tables = chain.nodes, chain.tables
    length = len(nodes)
    prefix, suffix = nodes.copy(), np.zeros(nodes.shape)
    for t in range(1, length):
        prefix[t] += (prefix[t - 1][:, None] + tables[min(t - 1, len(tables) - 1)]).max(axis=0)
    for t in range(length - 2, -1, -1):
        suffix[t] = (tables[min(t, len(tables) - 1)] + nodes[t + 1] + suffix[t + 1]).max(axis=1)
    return np.asarray(prefix + suffix)


def find_clash(chain: Chain, automata: Automata, candidates: Sequence[int], max_size: int | None = None) -> list[int]:
    """Return a smallest set, in the sense that no member can be left out, of automata that reject every labelling.

    Parameters
    ----------
    chain : Chain
        Scores of the sequence.
    automata : Automata
        All automata.
    candidates : sequence of int
        Automata that together reject every labelling.
    max_size : int, optional
        Limit of joint states times labels for each search, which then uses no relaxation.
    """
    clash = list(candidates)
    for i in list(clash):
        rest = [j for j in clash if j != i]
        solution = None
        if rest:
            some = automata.subset(rest)
            solution = solve(chain, some) if max_size is None else _add_automata(chain, some, 1, max_size)
        if not rest:
            paths, _ = chain.best(1)
            if not paths.size:
                return []
        elif solution is not None and solution.proven and not solution.paths.size:
            clash = rest
    return clash


def least_violation(chain: Chain, penalties: Automata) -> Solution:
    """Return the labelling with the lowest sum of penalties and, among these, the highest score."""
    weight = 1.0 + len(chain.nodes) * _spread(chain)
    return solve(chain, Automata([automaton.scaled(weight) for automaton in penalties.members]))


def _spread(chain: Chain) -> float:
    """Return the largest difference between finite scores of a position and of a transition, added up."""
    spans = [np.where(chain.alive, chain.nodes, np.nan), np.where(chain.tables > -np.inf, chain.tables, np.nan)]
    return float(sum(np.nanmax(array) - np.nanmin(array) for array in spans if np.isfinite(array).any()))
