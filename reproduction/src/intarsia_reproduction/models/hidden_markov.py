"""Hidden Markov model of words, fitted by expectation maximization (Baum-Welch): the baseline without any labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from intarsia.graph.chains import ChainBatch
from intarsia.inference.chains.chain_inference import chain_marginals, viterbi


class HiddenMarkovModel:
    """Hidden Markov model with categorical emissions, by EM from random parameters.

    Parameters
    ----------
    n_states : int
        Number of hidden states.
    n_iter : int
        Rounds of EM.
    smoothing : float
        Pseudo-count of every word, transition and first state.
    seed : int
        Seed of the initial parameters.

    Examples
    --------
    Other seeds end in other local optima.

    >>> model = HiddenMarkovModel(2, n_iter=20, seed=0).fit([["a", "b"] * 5, ["b", "a"] * 5])
    >>> states = model.predict([["a", "b", "a"]])[0]
    >>> bool(states[0] == states[2] != states[1])
    True
    """

    def __init__(self, n_states: int, n_iter: int = 50, smoothing: float = 0.1, seed: int = 0) -> None:
        self.n_states, self.n_iter, self.smoothing, self.seed = n_states, n_iter, smoothing, seed

    def fit(self, sequences: Sequence[Sequence[str]]) -> HiddenMarkovModel:
        """Fit the parameters to words; `log_likelihood_` holds the log-likelihood before each round."""
        rng, k = np.random.default_rng(self.seed), self.n_states
        vocabulary = sorted({word for words in sequences for word in words})
        self.index_ = {word: i for i, word in enumerate(vocabulary)}
        n_words = len(vocabulary) + 1  # the last one stands for unknown words
        self.emissions_ = rng.dirichlet(np.ones(n_words), size=k)
        self.transitions_, self.start_ = rng.dirichlet(np.ones(k), size=k), rng.dirichlet(np.ones(k))
        words = np.concatenate([self._numbers(sequence) for sequence in sequences])
        self.log_likelihood_: list[float] = []
        for _ in range(self.n_iter):
            batch = self._batch(sequences)
            result = chain_marginals(batch)
            self.log_likelihood_.append(float(result.log_partition.sum()))
            counts = np.zeros((n_words, k))
            np.add.at(counts, words, result.nodes)
            self.emissions_ = _normalized(counts.T + self.smoothing)
            self.transitions_ = _normalized(np.asarray(result.transitions) + self.smoothing)
            self.start_ = _normalized(result.nodes[batch.ptr[:-1]].sum(axis=0) + self.smoothing)
        return self

    def predict(self, sequences: Sequence[Sequence[str]]) -> list[NDArray[np.int64]]:
        """Return the most probable states of each sequence."""
        batch = self._batch(sequences)
        return np.split(viterbi(batch)[0], batch.ptr[1:-1])

    def _numbers(self, sequence: Sequence[str]) -> NDArray[np.int64]:
        return np.array([self.index_.get(word, len(self.index_)) for word in sequence], dtype=np.int64)

    def _batch(self, sequences: Sequence[Sequence[str]]) -> ChainBatch:
        words = np.concatenate([self._numbers(sequence) for sequence in sequences])
        ptr = np.concatenate([[0], np.cumsum([len(sequence) for sequence in sequences])])
        logs = (np.log(self.emissions_).T[words], ptr, np.log(self.transitions_), np.log(self.start_))
        return ChainBatch(*logs)


def _normalized(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(counts / counts.sum(axis=-1, keepdims=True))
