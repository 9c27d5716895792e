"""Exact inference with a distance to known words: the minimum over all words instead of a local one (Vilnis2015)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray
from intarsia.graph.chains import ChainBatch
from intarsia.inference.chains.chain_inference import chain_log_partition, chain_marginals, sample_paths, viterbi
from intarsia.sequences import ChainCRF
from intarsia.sequences.chain_data import ChainScores, make_data

_MAX_STEPS = 20


class WordPieces:
    r"""Chain scores of sequences, and of all dictionary words of their lengths.

    The positional energy (Eq. 22) is :math:`\psi \min_i d_i(\mu)` with distances that are linear in the marginals. The
    minimum of the objective (Eq. 2) is therefore the smallest of one convex minimum for each word i, which a single
    forward-backward pass computes: add :math:`2 \psi` to the scores of the letters of word i. Inference started at one
    point finds the minimum of one word only. With a `cap` c, the energy is :math:`\min(\psi \min_i d_i, c)`, which has
    one more piece: no word, at the cost c. Then words that are not in the dictionary can be read.

    Parameters
    ----------
    crf : ChainCRF
        Fitted chain without energies.
    X : list of float arrays
        Features of the sequences.
    dictionary : list of tuples
        Known words as labels.
    transition_scale : float
        Factor of the scores of transitions and of first and last letters. Those are learned from known words only, so
        a smaller factor can be better for other words.

    Examples
    --------
    The second letter is unclear; the dictionary decides, unless its word is too improbable.

    >>> X = [np.eye(2)[[0, 1]], np.eye(2)[[1, 0]], np.eye(2)[[0, 0]]]
    >>> crf = ChainCRF(l2=1.0).fit(X, [[0, 1], [1, 0], [0, 0]])
    >>> pieces = WordPieces(crf, [np.array([[1.0, 0.0], [0.5, 0.5]])], [(0, 1), (1, 1)])
    >>> pieces.predict(psi=20.0)[0].tolist(), pieces.predict(psi=20.0, cap=0.0)[0].tolist()
    ([0, 1], [0, 0])
    """

    def __init__(
        self,
        crf: ChainCRF,
        X: Sequence[FloatArray],
        dictionary: Sequence[tuple[int, ...]],
        transition_scale: float = 1.0,
    ) -> None:
        data = make_data(*crf.vectorizer_.transform_stacked(X), None)
        batch = ChainScores(data, crf.layout_, crf.constraints_).batch(crf.weights_, 0, data.source_index.size)
        start, end = (None if ends is None else transition_scale * ends for ends in (batch.start, batch.end))
        self._batch = ChainBatch(batch.nodes, batch.ptr, transition_scale * batch.transitions, start, end)
        self._classes = crf.classes_
        position = {label: k for k, label in enumerate(crf.classes_.tolist())}
        words: dict[int, list[list[int]]] = {}
        for word in dictionary:
            if all(letter in position for letter in word):
                words.setdefault(len(word), []).append([position[letter] for letter in word])
        self._words = [words.get(int(n), []) for n in np.diff(self._batch.ptr)]
        self._owner = np.repeat(np.arange(len(self._words)), [len(candidates) for candidates in self._words])
        self._letters = [word for candidates in self._words for word in candidates]

    def predict(self, psi: float, cap: float = np.inf) -> list[NDArray[np.int64]]:
        """Return the best labelling of each sequence under the model tilted towards its best word.

        Parameters
        ----------
        psi : float
            Weight of the distance.
        cap : float
            Largest value of the energy; sequences whose best word costs more are labelled by the chain alone.
        """
        return self._read(self._minimize(psi, cap)[1], psi)

    def minima(self, psi: float, cap: float = np.inf) -> FloatArray:
        """Return the minimum of the objective (Eq. 2) of each sequence."""
        return self._minimize(psi, cap)[0]

    def _minimize(self, psi: float, cap: float) -> tuple[FloatArray, list[list[int] | None]]:
        """Return the minimum of the objective of each sequence, and its word; None if no word is the best."""
        value = -chain_log_partition(self._batch) + cap
        best_words: list[list[int] | None] = [None] * len(self._words)
        if self._owner.size:
            pieces = self._values(self._owner, self._letters, psi)
            for piece, owner, word in zip(pieces.tolist(), self._owner.tolist(), self._letters, strict=True):
                if piece < value[owner]:
                    value[owner], best_words[owner] = piece, word
        return value, best_words

    def read(self, psi: float) -> tuple[list[NDArray[np.int64]], FloatArray]:
        """Return the labellings of `predict` without a cap, and the excess of the minimum over that of the chain alone.

        The excess is infinite if no word has the length. The energy with a cap reads a dictionary word where the excess
        is below the cap. For large psi it is minus the log-probability of the best word.
        """
        value, best_words = self._minimize(psi, np.inf)
        return self._read(best_words, psi), value + chain_log_partition(self._batch)

    def read_freely(self) -> list[NDArray[np.int64]]:
        """Return the best labelling of each sequence under the chain alone."""
        return self._read([None] * len(self._words), 0.0)

    def descend(self, psi: float, n_stages: int = 1, n_starts: int = 1, seed: int = 0) -> list[NDArray[np.int64]]:
        """Return the best labelling of each sequence at the lowest local minimum that several descents find.

        A step tilts the model towards the word that is nearest to the present marginals: a step of Algorithm 4 with
        an unlimited step size, which never increases the objective since the energy is concave. The first descent
        starts at the marginals of the chain, the others at labellings sampled from it, without stages, because descents
        with a small weight end at the same word.

        Parameters
        ----------
        psi : float
            Weight of the distance.
        n_stages : int
            Number of weights that the first descent uses one after the other, each twice the previous; the last is psi.
        n_starts : int
            Number of descents.
        seed : int
            Seed of the sampled labellings.
        """
        batch, n_sequences = self._batch, len(self._words)
        value, best_words = np.full(n_sequences, np.inf), list[list[int] | None]([None] * n_sequences)
        samples = sample_paths(batch, max(n_starts - 1, 0), seed)
        for start in range(n_starts if self._owner.size else 0):
            nodes = (
                np.eye(batch.n_labels)[samples[start - 1]] if start else chain_marginals(batch, transitions=None).nodes
            )
            words = self._nearest(nodes)
            for stage_psi in psi * 0.5 ** np.arange(1 if start else n_stages)[::-1]:
                for _ in range(_MAX_STEPS):
                    previous = words
                    words = self._nearest(chain_marginals(self._tilt(batch, words, stage_psi), transitions=None).nodes)
                    if words == previous:
                        break
            indices = np.array([s for s, word in enumerate(words) if word is not None])
            values = self._values(indices, [word for word in words if word is not None], psi)
            for s, local_minimum in zip(indices.tolist(), values.tolist(), strict=True):
                if local_minimum < value[s]:
                    value[s], best_words[s] = local_minimum, words[s]
        return self._read(best_words, psi)

    def _nearest(self, nodes: FloatArray) -> list[list[int] | None]:
        """Return the word of each sequence with the largest expected number of equal letters; None without words."""
        words: list[list[int] | None] = [None] * len(self._words)
        best = np.full(len(self._words), -1.0)
        first = self._batch.ptr[:-1]
        for owner, word in zip(self._owner.tolist(), self._letters, strict=True):
            agreement = float(nodes[first[owner] + np.arange(len(word)), word].sum())
            if agreement > best[owner]:
                best[owner], words[owner] = agreement, word
        return words

    def _values(self, owners: NDArray[np.int64], words: Sequence[list[int]], psi: float) -> FloatArray:
        """Return the minimum of the objective whose energy is the distance to one word, for pairs of both."""
        tilted = self._tilt(self._batch.subset(owners), words, psi)
        return -chain_log_partition(tilted) + 2.0 * psi * np.array([len(word) for word in words])

    def _read(self, words: Sequence[list[int] | None], psi: float) -> list[NDArray[np.int64]]:
        """Return the best labelling of each sequence under the model tilted towards its word, if it has one."""
        states, _ = viterbi(self._tilt(self._batch, words, psi))
        return [self._classes[states[a:b]] for a, b in zip(self._batch.ptr[:-1], self._batch.ptr[1:], strict=True)]

    def _tilt(self, batch: ChainBatch, words: Sequence[list[int] | None], psi: float) -> ChainBatch:
        """Return the batch with 2 psi added to the scores of the letters of a word for each sequence."""
        nodes = batch.nodes.copy()
        has_word = np.repeat([word is not None for word in words], np.diff(batch.ptr))
        letters = np.array([letter for word in words if word is not None for letter in word], dtype=np.int64)
        nodes[np.flatnonzero(has_word), letters] += 2.0 * psi
        return batch.with_scores(nodes, batch.transitions)


def look_up(crf: ChainCRF, X: Sequence[FloatArray], dictionary: Sequence[tuple[int, ...]]) -> list[NDArray[np.int64]]:
    """Return the dictionary word with the highest score of the chain; the chain's labels if no word has the length."""
    position = {label: k for k, label in enumerate(crf.classes_.tolist())}
    by_length: dict[int, list[tuple[int, ...]]] = {}
    for word in dictionary:
        if all(letter in position for letter in word):
            by_length.setdefault(len(word), []).append(word)
    predicted = crf.predict(X)
    for j, x in enumerate(X):
        candidates = by_length.get(len(x))
        if candidates:
            scores = crf.sequence_log_probability([x] * len(candidates), [np.array(word) for word in candidates])
            predicted[j] = np.array(candidates[int(np.argmax(scores))])
    return predicted
