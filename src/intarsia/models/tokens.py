"""Standard features for sequence tagging: the shape of a word, the words around it, and its position."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from intarsia._core.validation import check_number
from intarsia.exceptions import InvalidInputError


def word_shape(word: str) -> str:
    """Return the shape of a word: X for upper case, x for lower case, d for digits; other characters are unchanged.

    Examples
    --------
    >>> word_shape("McDonald-24")
    'XxXxxxxx-dd'
    """
    kinds = []
    for letter in word:
        if letter.isupper():
            kinds.append("X")
        elif letter.isdigit():
            kinds.append("d")
        elif letter.isalpha():
            kinds.append("x")
        else:
            kinds.append(letter)
    return "".join(kinds)


def token_features(
    words: Sequence[str],
    pos: Sequence[str] | None = None,
    *,
    window: int = 2,
    affixes: int = 3,
    pairs: bool = True,
    looks: bool = True,
    position: bool = True,
) -> list[list[str]]:
    """Compute indicator features, as strings, for each word of a sequence from the word and its neighbours.

    `[0]` refers to the word itself and `[-1]` to the previous word. The features always include `word[d]` for `d` up to
    `window` on either side, and `first` and `last` at the ends of the sequence. The arguments add others.

    Parameters
    ----------
    words : list of str
        Words of the sequence.
    pos : list of str, optional
        Part of speech, or another tag, of each word. Adds `pos[d]` in the window, and pairs and triples of neighbouring
        tags at most two words away.
    window : int
        Number of words on either side to include; 0 for none.
    affixes : int
        Length of the longest prefix and suffix; 0 for none.
    pairs : bool
        Whether to add the word combined with the previous and with the next word.
    looks : bool
        Whether to add the word in lower case, its shape (`Xxx.`), the shapes without repetitions of the word and its
        neighbours, whether some or all characters are digits or punctuation, and punctuation at the end.
    position : bool
        Whether to add the tenth of the sequence in which the word occurs.

    Returns
    -------
    list of lists of str
        One list of features per word, as `SequenceVectorizer` accepts.

    Examples
    --------
    >>> token_features(["In", "1999"], window=1, affixes=1, pairs=False, looks=False, position=False)
    [['word[0]=In', 'word[1]=1999', 'prefix=I', 'suffix=n', 'first'],
     ['word[-1]=In', 'word[0]=1999', 'prefix=1', 'suffix=9', 'last']]
    >>> token_features(["1999,"], window=0, affixes=0)[0]
    ['word[0]=1999,', 'lower=1999,', 'shape=dddd,', 'kind[0]=d,', 'digits=some', 'punctuation=some', 'ends=,',
     'tenth=0', 'first', 'last']
    """
    _check_arguments(words, pos, window, affixes)
    n = len(words)
    kinds = [_without_repetition(word_shape(word)) for word in words] if looks else []
    feature_lists = []
    for t, word in enumerate(words):
        features = [f"word[{d}]={words[t + d]}" for d in range(-min(window, t), min(window, n - 1 - t) + 1)]
        if pairs:
            features += [f"word[{d}]|word[{d + 1}]={words[t + d]}|{words[t + d + 1]}" for d in _span_starts(t, n, 2, 1)]
        for k in range(1, min(affixes, len(word)) + 1):
            features += [f"prefix={word[:k]}", f"suffix={word[-k:]}"]
        if looks:
            features += [f"lower={word.lower()}", f"shape={word_shape(word)}"]
            features += [f"kind[{d}]={kinds[t + d]}" for d in (-1, 0, 1) if 0 <= t + d < n]
            features += _character_features(word)
        if pos is not None:
            features += _pos_features(pos, t, window)
        if position:
            features.append(f"tenth={10 * t // n}")
        if t == 0:
            features.append("first")
        if t == n - 1:
            features.append("last")
        feature_lists.append(features)
    return feature_lists


def _span_starts(t: int, n: int, length: int, reach: int) -> range:
    """Return the starts, relative to `t`, of spans of `length` words within `reach` of it and inside the sequence."""
    return range(max(-reach, -t), min(reach, n - 1 - t) - length + 2)


def _pos_features(pos: Sequence[str], t: int, window: int) -> list[str]:
    features = [f"pos[{d}]={pos[t + d]}" for d in _span_starts(t, len(pos), 1, window)]
    for length in (2, 3):
        for d in _span_starts(t, len(pos), length, min(window, 2)):
            name = "|".join(f"pos[{k}]" for k in range(d, d + length))
            features.append(f"{name}={'|'.join(pos[t + d : t + d + length])}")
    return features


def _without_repetition(shape: str) -> str:
    return "".join(kind for kind, _ in groupby(shape))


def _character_features(word: str) -> list[str]:
    features = []
    n_digits = sum(map(str.isdigit, word))
    n_marks = len(word) - sum(map(str.isalnum, word))
    if n_digits:
        features.append("digits=all" if n_digits == len(word) else "digits=some")
    if n_marks:
        features.append("punctuation=all" if n_marks == len(word) else "punctuation=some")
        if not word[-1].isalnum():
            features.append(f"ends={word[-1]}")
    return features


def _check_arguments(words: Any, pos: Any, window: Any, affixes: Any) -> None:
    check_number(window, "token_features: window", low=0, integer=True)
    check_number(affixes, "token_features: affixes", low=0, integer=True)
    if isinstance(words, str):
        raise InvalidInputError(f"token_features: words is {words!r:.60}; expected a list of words. Split it first.")
    for name, items in (("words", words), ("pos", pos or ())):
        for t, item in enumerate(items):
            if not isinstance(item, str):
                raise InvalidInputError(f"token_features: {name}[{t}] is {item!r:.60}; expected a string.")
    if pos is not None and len(pos) != len(words):
        raise InvalidInputError(
            f"token_features: pos has {len(pos)} entries, but words has {len(words)}. Pass one per word."
        )
