"""Sequences for timing Intarsia and its peers: fixed seeds, identical on every machine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, IntArray
from intarsia.graph.chains import ChainBatch

N_LETTERS = 26
_SHORTEST, _LONGEST, _MEAN = 3, 14, 7.6  # lengths as in the OCR data set of handwritten words


def word_lengths(n_words: int, seed: int = 202) -> IntArray:
    """Draw word lengths from 3 to 14 letters, binomial with mean 7.6.

    Examples
    --------
    >>> word_lengths(5).tolist()
    [7, 7, 9, 8, 7]
    """
    rng = np.random.default_rng(seed)
    chance = (_MEAN - _SHORTEST) / (_LONGEST - _SHORTEST)
    return np.asarray(_SHORTEST + rng.binomial(_LONGEST - _SHORTEST, chance, size=n_words))


def _starts(lengths: IntArray) -> IntArray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def words_to_infer(n_words: int = 6877, n_labels: int = N_LETTERS) -> ChainBatch:
    """Draw `w2_batch`: N(0, 1) scores of the letters of many words, and one transition table.

    Examples
    --------
    >>> words_to_infer(10)
    ChainBatch(10 sequences, 78 positions, 26 labels)
    """
    rng = np.random.default_rng(203)
    lengths = word_lengths(n_words)
    nodes = rng.standard_normal((int(lengths.sum()), n_labels))
    return ChainBatch(nodes, _starts(lengths), rng.standard_normal((n_labels, n_labels)))


def long_chain(n_positions: int = 1000, n_labels: int = N_LETTERS) -> ChainBatch:
    """Draw `w2_chain`: N(0, 1) scores of one sequence, with a transition table for each step.

    Examples
    --------
    >>> long_chain(5)
    ChainBatch(1 sequences, 5 positions, 26 labels, a table per step)
    """
    rng = np.random.default_rng(201)
    nodes = rng.standard_normal((n_positions, n_labels))
    tables = rng.standard_normal((n_positions - 1, n_labels, n_labels))
    return ChainBatch(nodes, np.array([0, n_positions]), tables)


@dataclass(frozen=True, eq=False)
class LabelledWords:
    """Words whose letters are binary images, stacked in one array.

    Attributes
    ----------
    pixels : (n_letters, n_pixels) uint8 array
        Pixels of each letter, 0 or 1.
    ptr : (n_words + 1,) int array
        Index of the first letter of each word.
    labels : (n_letters,) int array
        Label of each letter.
    """

    pixels: NDArray[np.uint8]
    ptr: IntArray
    labels: IntArray


def words_to_learn(n_words: int = 5000, n_labels: int = N_LETTERS, n_pixels: int = 128) -> LabelledWords:
    """Draw `w3_ocr`: labels of a sparse Markov chain, with noisy binary images of the letters.

    Each pixel is flipped with probability 1/4. The images of letters 2j and 2j + 1 are almost equal, so that only the
    neighbouring letters distinguish them.

    Examples
    --------
    >>> words = words_to_learn(3)
    >>> words.pixels.shape, words.ptr.tolist()
    ((29, 128), [0, 9, 17, 29])
    """
    rng = np.random.default_rng(301)
    ptr = _starts(word_lengths(n_words, seed=302))
    transitions: FloatArray = rng.dirichlet(np.full(n_labels, 0.15), size=n_labels)
    initial: FloatArray = rng.dirichlet(np.full(n_labels, 0.5))
    pictures = rng.random((n_labels, n_pixels)) < 0.3
    for letter in range(0, n_labels, 2):
        shared = rng.random(n_pixels) < 0.85
        pictures[letter + 1] = np.where(shared, pictures[letter], pictures[letter + 1])
    labels = np.empty(int(ptr[-1]), dtype=np.int64)
    pixels = np.empty((labels.size, n_pixels), dtype=np.uint8)
    for a, b in zip(ptr[:-1].tolist(), ptr[1:].tolist(), strict=True):
        labels[a] = rng.choice(n_labels, p=initial)
        for t in range(a + 1, b):
            labels[t] = rng.choice(n_labels, p=transitions[labels[t - 1]])
        pixels[a:b] = pictures[labels[a:b]] ^ (rng.random((b - a, n_pixels)) < 0.25)
    return LabelledWords(pixels, ptr, labels)
