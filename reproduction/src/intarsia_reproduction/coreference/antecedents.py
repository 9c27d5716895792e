"""Mention-ranking model with latent antecedents: likelihood, fit, and exact probabilities of coreference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import vstack

from intarsia._core.validation import FloatArray, IntArray
from intarsia.learning.lbfgs import LBFGS
from intarsia.learning.minimum import Minimum
from intarsia_reproduction.coreference.pair_features import AntecedentPairs


@dataclass(frozen=True, eq=False)
class RankingCosts:
    """Costs of errors, added to the scores of wrong antecedents while learning (Durrett and Klein 2013).

    Attributes
    ----------
    false_link : float
        Cost of an antecedent for a mention that begins an entity.
    false_new : float
        Cost of a new entity for a mention that has an antecedent.
    wrong_link : float
        Cost of an antecedent of another entity.
    """

    false_link: float = 0.5
    false_new: float = 1.5
    wrong_link: float = 0.5


class RankingLoss:
    r"""Negative log-likelihood of the correct antecedents, which are latent, with l2 regularization.

    Mention j chooses one antecedent :math:`a < j`, or begins an entity, with probability proportional to
    :math:`\exp(w \cdot \phi(a, j) + cost)`. All antecedents of the same entity are correct:

    .. math:: -\sum_j \log \sum_{a \in correct(j)} p_w(a | j) + \lambda |w|^2 / 2

    Parameters
    ----------
    pairs : sequence of AntecedentPairs
        Mentions of several documents.
    entities : sequence of int arrays
        Entity of each mention, as rows of their tables; -1 where it is unknown.
    costs : RankingCosts
        Costs of errors.
    l2 : float
        Regularization.

    Examples
    --------
    >>> from intarsia_reproduction.coreference.document import Document, Mention
    >>> from intarsia_reproduction.coreference.pair_features import antecedent_pairs
    >>> text = Document("a", [["Ann", "lost", "her", "hat"]], [Mention(0, 0, 0), Mention(0, 2, 2)])
    >>> loss = RankingLoss([antecedent_pairs(text, 10)], [np.array([0, 0])], RankingCosts(0, 0, 0), 1.0)
    >>> round(loss(np.zeros(loss.n_weights))[0], 4)             # Ann is certain, her has two choices
    0.6931
    """

    def __init__(
        self, pairs: Sequence[AntecedentPairs], entities: Sequence[IntArray], costs: RankingCosts, l2: float
    ) -> None:
        self.l2 = l2
        self._links: Any = vstack([document.features for document in pairs]).tocsr()
        self._new: Any = vstack([document.new_features for document in pairs]).tocsr()
        self._links_transposed, self._new_transposed = self._links.T.tocsr(), self._new.T.tocsr()
        counts = np.concatenate([np.diff(document.ptr) for document in pairs])
        self.ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.mention = np.repeat(np.arange(counts.size), counts)
        correct, labelled = [], []
        for document, entity in zip(pairs, entities, strict=True):
            first, second = entity[document.antecedent], entity[document.mention]
            correct.append((first == second) & (second >= 0))
            labelled.append(entity >= 0)
        self.correct = np.concatenate(correct)
        self.is_new = np.bincount(self.mention[self.correct], minlength=counts.size) == 0
        # Mentions whose entity is unknown choose nothing: they are left out of the sum.
        self.mass = np.concatenate(labelled).astype(np.float64)
        link_cost = np.where(self.is_new[self.mention], costs.false_link, costs.wrong_link)
        self._link_cost = np.where(self.correct, 0.0, link_cost)
        self._new_cost = np.where(self.is_new, 0.0, costs.false_new)

    @property
    def n_weights(self) -> int:
        """Number of weights: of the pairs, then of new entities."""
        return int(self._links.shape[1] + self._new.shape[1])

    def __call__(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Return value and gradient at these weights."""
        n = self._links.shape[1]
        links, new = self._links @ weights[:n], self._new @ weights[n:]
        correct_links = np.where(self.correct, links, -np.inf)
        correct_total = np.where(self.is_new, new, log_sums(correct_links, self.ptr))
        links, new = links + self._link_cost, new + self._new_cost
        total = np.logaddexp(log_sums(links, self.ptr), new)
        link_error = np.exp(links - total[self.mention])
        rows = np.flatnonzero(self.correct)
        link_error[rows] -= np.exp(correct_links[rows] - correct_total[self.mention[rows]])
        new_error = (np.exp(new - total) - self.is_new) * self.mass
        slope = np.concatenate(
            [self._links_transposed @ (link_error * self.mass[self.mention]), self._new_transposed @ new_error]
        )
        value = float(((total - correct_total) * self.mass).sum()) + 0.5 * self.l2 * float(weights @ weights)
        return value, slope + self.l2 * weights


def log_sums(values: FloatArray, ptr: IntArray) -> FloatArray:
    """Return the logarithm of the sum of exponentials of each slice `values[ptr[j]:ptr[j + 1]]`; -inf if it is empty.

    Examples
    --------
    >>> np.exp(log_sums(np.log([1.0, 2.0, 5.0]), np.array([0, 2, 2, 3]))).round(6).tolist()
    [3.0, 0.0, 5.0]
    """
    sums = np.full(ptr.size - 1, -np.inf)
    counts = np.diff(ptr)
    nonempty = np.flatnonzero(counts)
    if nonempty.size:
        starts = ptr[nonempty]
        largest = np.maximum.reduceat(values, starts)
        shift = np.where(np.isfinite(largest), largest, 0.0)
        with np.errstate(divide="ignore"):
            sums[nonempty] = (
                np.log(np.add.reduceat(np.exp(values - np.repeat(shift, counts[nonempty])), starts)) + shift
            )
    return sums


def fit_ranking(loss: RankingLoss, optimizer: LBFGS, start: FloatArray | None = None) -> Minimum:
    """Return the weights that minimize a ranking loss; the risk of the history is its mean over the mentions."""
    scale = 1.0 / max(float(loss.mass.sum()), 1.0)  # so that the tolerance does not depend on the number of mentions

    def mean_loss(weights: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = loss(weights)
        return scale * value, scale * gradient

    return optimizer.minimize(mean_loss, np.zeros(loss.n_weights) if start is None else start)


@dataclass(frozen=True, eq=False)
class AntecedentScores:
    """Scores of the candidate antecedents of each mention of a document, and of beginning an entity."""

    pairs: AntecedentPairs
    links: FloatArray
    new: FloatArray

    def probabilities(self) -> FloatArray:
        """Return the probability of each candidate antecedent; the rest is the probability of a new entity."""
        total = np.logaddexp(log_sums(self.links, self.pairs.ptr), self.new)
        return np.asarray(np.exp(self.links - total[self.pairs.mention]))

    def best(self) -> IntArray:
        """Return the best antecedent of each mention, -1 for a new entity."""
        choice = np.full(self.pairs.table.n_mentions, -1, dtype=np.int64)
        for j in range(choice.size):
            first, last = self.pairs.ptr[j], self.pairs.ptr[j + 1]
            if last > first:
                best = first + int(np.argmax(self.links[first:last]))
                if self.links[best] > self.new[j]:
                    choice[j] = self.pairs.antecedent[best]
        return choice


def coreference_probabilities(scores: AntecedentScores) -> NDArray[np.float64]:
    r"""Return the probability that each two mentions refer to the same entity, (n_mentions, n_mentions).

    Mentions choose their antecedents independently, and entities are the trees of the forest that results. Hence

    .. math:: q_{ij} = \sum_{a < j} p(a | j) q_{ia} \quad (i < j), \qquad q_{ii} = 1

    is exact; it takes one pass over the mentions.
    """
    pairs, probability = scores.pairs, scores.probabilities()
    n = pairs.table.n_mentions
    together = np.eye(n)
    for j in range(n):
        candidates = slice(pairs.ptr[j], pairs.ptr[j + 1])
        row = probability[candidates] @ together[pairs.antecedent[candidates], :j]
        together[j, :j] = together[:j, j] = row
    return together
