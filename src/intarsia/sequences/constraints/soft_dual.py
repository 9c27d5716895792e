r"""Penalized MAP by a dual with one multiplier for each penalty (dual decomposition of soft constraints, "Soft-DD").

Penalties are convex functions of counts :math:`z_j(y)` that are sums over steps of the chain, so

.. math:: \max_y \Bigl(s(y) - \sum_j \psi_j f_j(z_j(y))\Bigr) \le \min_{\lambda \in \Lambda}
   \Bigl(\max_y \bigl(s(y) - \lambda^\top z(y)\bigr) + \sum_j (\psi_j f_j)^*(\lambda_j)\Bigr).

For a hinge with the weight psi, lambda is between 0 and psi. Each step solves a plain chain by Viterbi and moves lambda
along the subgradient, projected to its bounds; no automaton is needed, however many penalties there are. Where the
bound equals the score of a labelling, that labelling is the best.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from intarsia._core.validation import FloatArray, IntArray
from intarsia.energies.binding.scalar_terms import ScalarFunctions
from intarsia.sequences.constraints.solver import Chain, highest_through

MAX_ITER = 300
# The step is multiplied by this factor after so many steps without a lower bound.
_SHRINKAGE, _PATIENCE = 0.7, 4
_MIN_RATE = 1e-4


@dataclass(frozen=True, eq=False)
class CountPenalties:
    """Convex functions of linear combinations of counts of labels and transitions.

    Attributes
    ----------
    first : (n_counts, n_labels) float array
        Amount that the first label of a sequence adds to each count.
    following : (n_counts, n_labels, n_labels) float array
        Amount that a label (last axis) after another adds to each count.
    coefficients : (n, n_counts) sparse array
        Coefficients of the counts in the argument of each function.
    functions : ScalarFunctions
        The n convex functions.
    member_of : (n,) int array
        Energy of each function.
    """

    first: FloatArray
    following: FloatArray
    coefficients: csr_array
    functions: ScalarFunctions
    member_of: IntArray

    def values(self, path: IntArray) -> FloatArray:
        """Return the arguments of the functions for a labelling."""
        counts = self.first[:, path[0]] + self.following[:, path[:-1], path[1:]].sum(axis=1)
        return np.asarray(self.coefficients @ counts)

    def charges(self, values: FloatArray, psi: FloatArray) -> FloatArray:
        """Return the penalty of each argument."""
        return np.asarray(psi * self.functions.value(values))

    def tilted(self, chain: Chain, multipliers: FloatArray) -> Chain:
        """Return the chain with the multipliers times the arguments subtracted from the scores."""
        nodes, k = chain.nodes.copy(), self.first.shape[1]
        weights = multipliers @ self.coefficients
        nodes[0] -= weights @ self.first
        return Chain(nodes, chain.tables - (weights @ self.following.reshape(-1, k * k)).reshape(k, k))


@dataclass(frozen=True, eq=False)
class DualAnswer:
    """Best labelling that the dual method met, and its bound.

    Attributes
    ----------
    path : (length,) int array
        Labelling; -1 if the chain allows none.
    score : float
        Its score minus penalties.
    bound : float
        Upper bound on the score minus penalties of every labelling.
    multipliers : float array
        Multipliers of the lowest bound.
    n_iter : int
        Number of Viterbi passes.
    """

    path: IntArray
    score: float
    bound: float
    multipliers: FloatArray
    n_iter: int

    @property
    def proven(self) -> bool:
        """Whether the labelling is proven to be the best."""
        return self.bound - self.score <= tolerance_of(self.score)


def tolerance_of(score: float) -> float:
    """Return the difference of scores that counts as rounding."""
    return 1e-9 * max(1.0, abs(score))


def ascend_dual(chain: Chain, penalties: CountPenalties, psi: FloatArray, max_iter: int = MAX_ITER) -> DualAnswer:
    """Minimize the bound by projected subgradient steps, and return the best labelling on the way.

    Parameters
    ----------
    chain : Chain
        Scores of one sequence.
    penalties : CountPenalties
        Penalties of counts.
    psi : (n,) float array
        Weight of each penalty.
    max_iter : int
        Maximum number of Viterbi passes.

    Examples
    --------
    Label 1 has a higher score at both positions, but two of them cost 3:

    >>> from intarsia.energies.binding.scalar_terms import Penalties
    >>> hinge, first, following = Penalties([1.0], [0.0], [1.0], [0.0]), np.array([[0.0, 1.0]]), [[[0.0, 1.0]] * 2]
    >>> counts = CountPenalties(first, np.array(following), csr_array([[1.0]]), hinge, np.array([0]))
    >>> chain = Chain(np.array([[0.0, 1.0], [0.0, 2.0]]), np.zeros((1, 2, 2)))
    >>> answer = ascend_dual(chain, counts, np.array([3.0]))
    >>> answer.path.tolist(), answer.score, answer.proven
    ([0, 1], 2.0, True)
    """
    length = len(chain.nodes)
    low, high = (np.where(psi > 0.0, bound, 0.0) for bound in penalties.functions.bounds(psi))
    multipliers = np.clip(np.zeros(psi.size), low, high)
    best = DualAnswer(np.full(length, -1, dtype=np.int64), -np.inf, np.inf, multipliers, 0)
    rate, n_stalled, step = 1.0, 0, 0
    for step in range(1, max_iter + 1):
        paths, scores = penalties.tilted(chain, multipliers).best(1)
        if not scores.size:
            return DualAnswer(best.path, -np.inf, -np.inf, multipliers, step)
        path, values = paths[0], penalties.values(paths[0])
        bound = float(scores[0] + penalties.functions.conjugate(multipliers, psi).sum())
        score = float(scores[0] + multipliers @ values - penalties.charges(values, psi).sum())
        n_stalled = 0 if bound < best.bound - tolerance_of(bound) else n_stalled + 1
        best = DualAnswer(
            path if score > best.score else best.path,
            max(score, best.score),
            min(bound, best.bound),
            multipliers if bound < best.bound else best.multipliers,
            step,
        )
        if best.proven or rate < _MIN_RATE:
            break
        if n_stalled == _PATIENCE:
            rate, n_stalled = rate * _SHRINKAGE, 0
        # A step upwards in lambda lowers the bound where the value exceeds the limit that the multiplier stands for.
        direction = values - penalties.functions.conjugate_derivative(multipliers, psi)
        is_blocked = ((direction > 0.0) & (multipliers >= high)) | ((direction < 0.0) & (multipliers <= low))
        direction[is_blocked] = 0.0
        norm = float(direction @ direction)
        if norm == 0.0:
            break
        gap = max(bound - best.score, tolerance_of(bound)) if best.score > -np.inf else max(1.0, abs(bound))
        multipliers = np.clip(multipliers + rate * gap / norm * direction, low, high)
    return best


def possible_labels(chain: Chain, penalties: CountPenalties, psi: FloatArray, answer: DualAnswer) -> NDArray[np.bool_]:
    """Return the labels (length, n_labels) that a labelling with at least the score of the answer may have.

    The bound of the labellings through a label is that of the tilted chain; labels with a bound below the score are
    excluded.
    """
    constant = float(penalties.functions.conjugate(answer.multipliers, psi).sum())
    bounds = highest_through(penalties.tilted(chain, answer.multipliers)) + constant
    return np.asarray(bounds >= answer.score - 10.0 * tolerance_of(answer.score))
