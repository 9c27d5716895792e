"""Exact inference with a distance to known words: the minimum over all words instead of a local one (Vilnis2015)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray
from intarsia.graph.chains import ChainBatch
from intarsia.inference.chains.chain_inference import chain_log_partition, viterbi
from intarsia.sequences import ChainCRF
from intarsia.sequences.chain_data import ChainScores, make_data


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

    Examples
    --------
    The second letter is unclear; the dictionary decides, unless its word is too improbable.

    >>> X = [np.eye(2)[[0, 1]], np.eye(2)[[1, 0]], np.eye(2)[[0, 0]]]
    >>> crf = ChainCRF(l2=1.0).fit(X, [[0, 1], [1, 0], [0, 0]])
    >>> pieces = WordPieces(crf, [np.array([[1.0, 0.0], [0.5, 0.5]])], [(0, 1), (1, 1)])
    >>> pieces.predict(psi=20.0)[0].tolist(), pieces.predict(psi=20.0, cap=0.0)[0].tolist()
    ([0, 1], [0, 0])
    """

    def __init__(self, crf: ChainCRF, X: Sequence[FloatArray], dictionary: Sequence[tuple[int, ...]]) -> None:
        data = make_data(*crf.vectorizer_.transform_stacked(X), None)
        self._batch = ChainScores(data, crf.layout_, crf.constraints_).batch(crf.weights_, 0, data.source_index.size)
        self._classes = crf.classes_
        position = {label: k for k, label in enumerate(crf.classes_.tolist())}
        words: dict[int, list[list[int]]] = {}
        for word in dictionary:
            if all(letter in position for letter in word):
                words.setdefault(len(word), []).append([position[letter] for letter in word])
        self._words = [words.get(int(n), []) for n in np.diff(self._batch.ptr)]
        self._owner = np.repeat(np.arange(len(self._words)), [len(candidates) for candidates in self._words])

    def predict(self, psi: float, cap: float = np.inf) -> list[NDArray[np.int64]]:
        """Return the best labelling of each sequence under the model tilted towards its best word.

        Parameters
        ----------
        psi : float
            Weight of the distance.
        cap : float
            Largest value of the energy; sequences whose best word costs more are labelled by the chain alone.
        """
        best_words = self._minimize(psi, cap)[1]
        states, _ = viterbi(self._tilt(self._batch, best_words, psi))
        return [self._classes[states[a:b]] for a, b in zip(self._batch.ptr[:-1], self._batch.ptr[1:], strict=True)]

    def minima(self, psi: float, cap: float = np.inf) -> FloatArray:
        """Return the minimum of the objective (Eq. 2) of each sequence."""
        return self._minimize(psi, cap)[0]

    def _minimize(self, psi: float, cap: float) -> tuple[FloatArray, list[list[int] | None]]:
        """Return the minimum of the objective of each sequence, and its word; None if no word is the best."""
        value = -chain_log_partition(self._batch) + cap
        best_words: list[list[int] | None] = [None] * len(self._words)
        if self._owner.size:
            letters = [word for candidates in self._words for word in candidates]
            tilted = self._tilt(self._batch.subset(self._owner), letters, psi)
            lengths = np.array([len(word) for word in letters])
            pieces = -chain_log_partition(tilted) + 2.0 * psi * lengths
            for piece, owner, word in zip(pieces.tolist(), self._owner.tolist(), letters, strict=True):
                if piece < value[owner]:
                    value[owner], best_words[owner] = piece, word
        return value, best_words

    def _tilt(self, batch: ChainBatch, words: Sequence[list[int] | None], psi: float) -> ChainBatch:
        """Return the batch with 2 psi added to the scores of the letters of a word for each sequence."""
        nodes = batch.nodes.copy()
        for first, word in zip(batch.ptr[:-1].tolist(), words, strict=True):
            if word is not None:
                nodes[first + np.arange(len(word)), word] += 2.0 * psi
        return batch.with_scores(nodes, batch.transitions)
