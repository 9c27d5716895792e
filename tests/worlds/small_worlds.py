"""Small worlds that a user could write, whose states can all be listed."""

from __future__ import annotations

import itertools

import numpy as np

from intarsia.worlds import World


class Matching(World):
    """Assignment of n left to n right items; a move swaps the partners of two left items."""

    def __init__(self, pairs, truth=None):
        self.pairs = np.asarray(pairs, dtype=float)
        self.n_sites, self.n_weights = self.pairs.shape[0], self.pairs.shape[2]
        self.truth = truth
        self.state, self.applied = np.arange(self.n_sites), []

    def propose(self, rng, weights):
        return tuple(int(i) for i in rng.choice(self.n_sites, 2, replace=False)) if self.n_sites > 1 else None

    def features(self):
        return self.pairs[np.arange(self.n_sites), self.state].sum(axis=0)

    def feature_change(self, move):
        i, j = move
        a, b = self.state[i], self.state[j]
        return self.pairs[i, b] + self.pairs[j, a] - self.pairs[i, a] - self.pairs[j, b]

    def apply(self, move):
        i, j = move
        self.state[i], self.state[j] = self.state[j], self.state[i]
        self.applied.append(move)

    def undo(self):
        self.apply(self.applied.pop())
        self.applied.pop()

    def performance(self):
        return float((self.state == self.truth).mean())

    def all_scores(self, weights):
        rows = np.arange(self.n_sites)
        return {
            order: float(self.pairs[rows, list(order)].sum(axis=0) @ weights)
            for order in itertools.permutations(range(self.n_sites))
        }


class Line(World):
    """Position on a line with walls; from an end only one move is possible, so that proposals are not symmetric."""

    n_weights = 1

    def __init__(self, n=4, *, declares_ratio=True):
        self.n_sites, self.state, self.applied, self.declares_ratio = n, 0, [], declares_ratio

    def steps(self, position):
        return [step for step in (-1, 1) if 0 <= position + step < self.n_sites]

    def propose(self, rng, weights):
        steps = self.steps(self.state)
        return steps[int(rng.integers(len(steps)))]

    def features(self):
        return np.array([float(self.state)])

    def log_ratio(self, move):
        if not self.declares_ratio:
            return 0.0
        return float(np.log(len(self.steps(self.state)) / len(self.steps(self.state + move))))

    def apply(self, move):
        self.state += move
        self.applied.append(move)

    def undo(self):
        self.state -= self.applied.pop()


class ListedLine(Line):
    """The line with listed moves: propose and the ratio of probabilities are derived from the list."""

    propose = World.propose
    log_ratio = World.log_ratio
    total = 1.0

    def moves(self, weights):
        steps = self.steps(self.state)
        return [(step, self.total / len(steps)) for step in steps]


class GainOnly(Matching):
    """A world without features: only their changes are known."""

    features = World.features


def matching(n=5, seed=0, n_features=2, *, kind=Matching, noise=0.3):
    """Return a matching whose first feature separates the true partners."""
    rng = np.random.default_rng(seed)
    truth = rng.permutation(n)
    pairs = noise * rng.normal(size=(n, n, n_features))
    pairs[np.arange(n), truth, 0] += 1.0
    return kind(pairs, truth)
