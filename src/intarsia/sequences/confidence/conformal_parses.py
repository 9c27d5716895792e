"""Conformal sets of complete labellings: the k best until enough probability is reached."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.error_context import entry_point
from intarsia._core.validation import FloatArray, as_generator, check_number
from intarsia.exceptions import InvalidInputError
from intarsia.metrics.conformal import conformal_quantile, warn_unless_exchangeable
from intarsia.metrics.counts import paired_sequences

_FIRST_BEST = 8
# Sequences for which the best labellings are listed at the same time, which bounds the memory.
_GROUP = 256
Ranked = list[tuple[Any, float]]


class ConformalParses:
    """Sets of complete labellings of a sequence that contain the true labelling with probability 1 - alpha.

    The set has the most probable labellings, in descending order, until their total probability reaches a threshold,
    which is computed from held-out sequences. If these are exchangeable with the new sequences, the true labelling of
    a new sequence is in its set with probability at least 1 - alpha, whatever the quality of the model.

    Parameters
    ----------
    crf : ChainCRF
        Fitted model.
    alpha : float
        Probability of an error, between 0 and 1.
    max_labellings : int
        Maximum number of labellings that are listed. If more than a fraction alpha of the true labellings have a higher
        rank, which is usual for long sequences, sets have members that are not listed: all labellings whose
        probability exceeds a bound. `contains` then says whether a labelling is a member.
    random_state : int or Generator, optional
        Without it, the set always contains the best labelling, and the coverage is higher than 1 - alpha if the best
        labelling is more often correct. With it, the last labelling of a set is in the set at random, so that the
        coverage is 1 - alpha exactly; sets can then be empty.

    Attributes
    ----------
    threshold_ : float
        Labellings are in the set if their score is at most `threshold_`. The score is the total probability of the
        labellings before them, or 1 - log(probability) for labellings that are not listed. Infinite if there are
        fewer than 1 / alpha - 1 calibration sequences.
    scores_ : (n,) float array
        Score of the true labelling of each calibration sequence.

    References
    ----------
    Romano2020.

    Examples
    --------
    >>> from intarsia import ChainCRF
    >>> rng = np.random.default_rng(0)
    >>> y = [rng.choice(["a", "b"], 3).tolist() for _ in range(900)]
    >>> X = [[[c if rng.random() < 0.8 else "?"] for c in labels] for labels in y]
    >>> crf = ChainCRF(l2=0.1).fit(X[:100], y[:100])
    >>> parses = ConformalParses(crf, alpha=0.1).conformalize(X[100:500], y[100:500])
    >>> parses.coverage(X[500:], y[500:]) > 0.85
    True
    >>> for labels, probability in parses.predict_set([[["a"], ["?"], ["b"]]])[0]:
    ...     print(*labels, round(probability, 1))
    a b b 0.6
    a a b 0.4
    """

    def __init__(
        self,
        crf: Any,
        *,
        alpha: float = 0.1,
        max_labellings: int = 1000,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.crf, self.alpha, self.max_labellings, self.random_state = crf, alpha, max_labellings, random_state

    @entry_point
    def conformalize(self, X: Any, y: Any) -> ConformalParses:
        """Compute the threshold from held-out sequences with all their labels.

        Raises
        ------
        InvalidInputError
            If there is no sequence, or lengths differ.
        """
        check_number(self.alpha, "alpha", low=0.0, high=1.0, open_low=True)
        check_number(self.max_labellings, "max_labellings", low=1, high=10**6, integer=True)
        scores, self._uncertainty = self._scores_of(X, y)
        if not scores.size:
            raise InvalidInputError("there is no calibration sequence. Pass held-out sequences with their labels.")
        self.scores_, self.threshold_ = scores, conformal_quantile(scores, self.alpha)
        if self.threshold_ > 1.0:
            reason = (
                f"{scores.size} calibration sequences are too few for alpha={self.alpha}"
                if self.threshold_ == np.inf
                else f"{int((scores > 1.0).sum())} of {scores.size} true labellings are not among the "
                f"{self.max_labellings} best"
            )
            warnings.warn(
                f"{reason}, so sets have more members than are listed. Pass more sequences, increase alpha or "
                f"max_labellings, or use contains(X, y).",
                UserWarning,
                stacklevel=2,
            )
        return self

    @entry_point
    def predict_set(self, X: Any) -> list[Ranked]:
        """Return the set of each sequence: pairs of labels and probability, the most probable first.

        Warns with `ExchangeabilityWarning` if the probabilities of the best labellings differ from those of the
        calibration sequences more than chance explains.
        """
        self._check_conformalized()
        X = list(X)
        chances = self._chances(len(X))
        sets: list[Ranked] = []
        uncertainty = []
        for i, ranked in enumerate(self._ranked(X, lambda i, ranked: _mass(ranked) > self.threshold_)):
            members, before = [], 0.0
            for labels, probability in ranked:
                if before + chances[i] * probability > self.threshold_:
                    break
                members.append((labels, probability))
                before += probability
            sets.append(members)
            uncertainty.append(1.0 - ranked[0][1])
        warn_unless_exchangeable(self._uncertainty, np.array(uncertainty))
        return sets

    @entry_point
    def contains(self, X: Any, y: Any) -> NDArray[np.bool_]:
        """Return whether the labelling of each sequence is in its set, listed or not."""
        self._check_conformalized()
        return self._scores_of(X, y)[0] <= self.threshold_

    @entry_point
    def coverage(self, X: Any, y: Any) -> float:
        """Return the fraction of the sequences whose true labelling is in their set."""
        is_member = self.contains(X, y)
        if not is_member.size:
            raise InvalidInputError("there is no sequence. Pass at least one sequence with its labels.")
        return float(is_member.mean())

    def _check_conformalized(self) -> None:
        if not hasattr(self, "threshold_"):
            raise InvalidInputError("there is no threshold yet. Call conformalize(X, y) with held-out sequences first.")

    def _chances(self, n: int) -> FloatArray:
        """Return a random number for each sequence, or 0 without `random_state`."""
        return np.zeros(n) if self.random_state is None else as_generator(self.random_state).random(n)

    def _scores_of(self, X: Any, y: Any) -> tuple[FloatArray, FloatArray]:
        """Return the score of each true labelling (infinite if it is impossible), and 1 - probability of the best."""
        X = list(X)
        truth = [true for true, _ in paired_sequences(y, y)]
        if len(truth) != len(X):
            raise InvalidInputError(f"X has {len(X)} sequences, but y has {len(truth)}. Pass equally many.")
        chances, scores, uncertainty = self._chances(len(X)), np.full(len(X), np.inf), np.zeros(len(X))

        def is_listed(i: int, ranked: Ranked) -> bool:
            return any(labels == truth[i] for labels, _ in ranked)

        for i, ranked in enumerate(self._ranked(X, is_listed)):
            if len(ranked[0][0]) != len(truth[i]):
                raise InvalidInputError(
                    f"y[{i}] has {len(truth[i])} labels, but X[{i}] has {len(ranked[0][0])} positions. Pass one label "
                    f"per position."
                )
            uncertainty[i], before = 1.0 - ranked[0][1], 0.0
            for labels, probability in ranked:
                if labels == truth[i]:
                    scores[i] = before + chances[i] * probability
                    break
                before += probability
        classes = set(self.crf.classes_.tolist())
        unlisted = [i for i in np.flatnonzero(scores == np.inf).tolist() if classes.issuperset(truth[i])]
        if unlisted:
            log_p = self.crf.sequence_log_probability([X[i] for i in unlisted], [truth[i] for i in unlisted])
            scores[unlisted] = 1.0 - log_p
        return scores, uncertainty

    def _ranked(self, X: list[Any], is_done: Any) -> list[Ranked]:
        """Return the best labellings of each sequence; their number doubles until `is_done(i, labellings)`."""
        results: list[Ranked] = [[] for _ in X]
        waiting, n_best = list(range(len(X))), min(_FIRST_BEST, int(self.max_labellings))
        while waiting:
            for first in range(0, len(waiting), _GROUP):
                group = waiting[first : first + _GROUP]
                for i, ranked in zip(group, self.crf.predict_kbest([X[i] for i in group], n_best), strict=True):
                    results[i] = [(labels.tolist(), float(np.exp(value))) for labels, value in ranked]
            is_last = n_best >= int(self.max_labellings)
            waiting = [i for i in waiting if not is_last and len(results[i]) == n_best and not is_done(i, results[i])]
            n_best = min(2 * n_best, int(self.max_labellings))
        return results


def _mass(ranked: Ranked) -> float:
    return sum(probability for _, probability in ranked)
