"""Two ways down the structured hinge loss, example by example; both know a lower bound on what can be reached.

The objective is `ridge / 2 |w|^2 + sum_i c_i max_z [l_i(z) - w . psi_i(z)]` with `psi_i(z)` the features of the truth
less those of z, and `l_i(z)` the cost of z plus what fixed scores say for it. Its dual has a distribution over answers
for each example; mean features and mean costs under these are all that is kept, and
`w = sum_i c_i E[psi_i] / ridge`, with the value `sum_i c_i E[l_i] - ridge / 2 |w|^2`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from intarsia._validation import FloatArray
from intarsia.exceptions import TooLargeError

MAX_BYTES = 2**31
_MOST_KEPT = 30
_MOST_ROUNDS = 50
_WORTH = 1e-5  # of the dual, for which another round among the answers is made
_NEW = 1e-12


class SvmSolver(ABC):
    """State of the search: `weights` to look at the next example with, `point` to predict with."""

    def __init__(self, shares: FloatArray, n_weights: int, ridge: float) -> None:
        self.shares = shares
        self.ridge = ridge
        self.weights = np.zeros(n_weights)
        self.cost = 0.0

    @property
    @abstractmethod
    def point(self) -> FloatArray:
        """Weights to predict with."""

    @abstractmethod
    def update(self, i: int, difference: FloatArray, cost: float) -> None:
        """Take in the answer for example i: its psi and its l."""

    def polish(self) -> None:  # noqa: B027  # most have nothing to do
        """Improve the weights without any new answer, where that is possible."""

    @property
    def dual(self) -> float:
        """Value that no weights get below; for the subgradient only after whole passes."""
        return self.cost - 0.5 * self.ridge * float(self.weights @ self.weights)


class BlockFrankWolfe(SvmSolver):
    """For each example the exact best step from its worst answer so far to its new one, then steps among the old ones.

    Block-coordinate Frank-Wolfe (LacosteJulien2013) with the pairwise steps and the memory of answers of Osokin2016:
    they cost no inference and take the search to the end, where plain steps zigzag. An example keeps few answers; the
    two least probable ones become one, which is as good a point of the dual as before.

    Examples
    --------
    >>> solver = BlockFrankWolfe(np.ones(1), 1, 1.0)
    >>> solver.update(0, np.array([2.0]), 1.0)       # max(0, 1 - 2 w) + w^2 / 2 is lowest at w = 1/2
    >>> solver.point.tolist(), solver.dual
    ([0.5], 0.125)
    """

    def __init__(self, shares: FloatArray, n_weights: int, ridge: float) -> None:
        super().__init__(shares, n_weights, ridge)
        room = int(MAX_BYTES / (8.0 * max(1, shares.size * n_weights)))
        if room < 2:
            raise TooLargeError(
                f"StructuredSVM: {16.0 * shares.size * n_weights / 2**30:.1f} GiB would be needed for two weight "
                f"vectors of each of {shares.size} examples. Use solver='subgradient', which keeps two in all."
            )
        self.n_kept = min(_MOST_KEPT, room)
        # The first answer of each example is the truth itself: no difference, no cost.
        self.planes = [np.zeros((1, n_weights)) for _ in range(shares.size)]
        self.costs = [np.zeros(1) for _ in range(shares.size)]
        self.probabilities = [np.ones(1) for _ in range(shares.size)]

    @property
    def point(self) -> FloatArray:
        """The present weights."""
        return self.weights

    def update(self, i: int, difference: FloatArray, cost: float) -> None:
        """Keep the answer, and move probability to it."""
        if self._value(i, difference, cost) > self._values(i).max() + _NEW * max(1.0, abs(cost)):
            self.planes[i] = np.vstack([self.planes[i], difference])
            self.costs[i] = np.append(self.costs[i], cost)
            self.probabilities[i] = np.append(self.probabilities[i], 0.0)
        self._move(i)
        self._tidy(i)

    def polish(self) -> None:
        """Steps among the answers that are kept, until they hardly help."""
        for _ in range(_MOST_ROUNDS):
            before = self.dual
            for i in range(self.shares.size):
                if self.costs[i].size > 1:
                    self._move(i)
            if self.dual - before <= _WORTH * abs(self.dual):
                break

    def _values(self, i: int) -> FloatArray:
        return np.asarray(self.costs[i] - self.planes[i] @ self.weights)

    def _value(self, i: int, difference: FloatArray, cost: float) -> float:
        return cost - float(difference @ self.weights)

    def _move(self, i: int) -> None:
        """Best step that moves probability from the lowest answer in use to the highest one."""
        values, share, chance = self._values(i), float(self.shares[i]), self.probabilities[i]
        high, low = int(np.argmax(values)), int(np.argmin(np.where(chance > 0.0, values, np.inf)))
        slope = share * float(values[high] - values[low])
        if slope <= 0.0:
            return
        way = self.planes[i][high] - self.planes[i][low]
        bend = share * share / self.ridge * float(way @ way)
        length = float(chance[low]) if slope >= bend * chance[low] else slope / bend
        self.weights += (share * length / self.ridge) * way
        self.cost += share * length * float(self.costs[i][high] - self.costs[i][low])
        chance[high] += length
        chance[low] = max(0.0, chance[low] - length)

    def _tidy(self, i: int) -> None:
        """Forget answers out of use; join the two least probable ones where there are too many."""
        used = self.probabilities[i] > 0.0
        planes, costs, chance = self.planes[i][used], self.costs[i][used], self.probabilities[i][used]
        if costs.size > self.n_kept:
            order = np.argsort(chance)
            pair, rest = order[:2], order[2:]
            total = chance[pair].sum()
            share = chance[pair] / total
            planes = np.vstack([planes[rest], share @ planes[pair]])
            costs = np.append(costs[rest], share @ costs[pair])
            chance = np.append(chance[rest], total)
        self.planes[i], self.costs[i], self.probabilities[i] = planes, costs, chance


class Subgradient(SvmSolver):
    """Steps of length 1 / (ridge t) against a subgradient; the result is a mean that favours late weights.

    After a whole pass every example has had equally many answers, so that the last weights belong to a point of the
    dual in which these are equally probable.

    Examples
    --------
    >>> solver = Subgradient(np.ones(1), 1, 1.0)
    >>> solver.update(0, np.array([2.0]), 1.0)       # the first step forgets where it began
    >>> solver.update(0, np.array([0.0]), 0.0)
    >>> solver.weights.tolist(), solver.dual
    ([1.0], 0.0)
    """

    def __init__(self, shares: FloatArray, n_weights: int, ridge: float) -> None:
        super().__init__(shares, n_weights, ridge)
        self.n_steps = 0
        self.mean = np.zeros(n_weights)

    @property
    def point(self) -> FloatArray:
        """Mean of all weights, the t-th of them weighing t."""
        return self.mean

    def update(self, i: int, difference: FloatArray, cost: float) -> None:
        """One step."""
        self.n_steps += 1
        scale = self.shares.size * float(self.shares[i])
        rate = 1.0 / self.n_steps
        self.weights *= 1.0 - rate
        self.weights += (rate * scale / self.ridge) * difference
        self.cost += rate * (scale * cost - self.cost)
        self.mean += 2.0 / (self.n_steps + 1) * (self.weights - self.mean)
