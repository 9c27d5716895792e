"""Ordinary features for tagging words: what a word looks like, what stands around it, where it stands."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from intarsia._core.validation import check_number
from intarsia.exceptions import InvalidInputError


def word_shape(word: str) -> str:
    """Letters and digits of a word by kind: X upper case, x lower case, d digit; other characters stay.

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
    """Features of each word of one sequence, as names of indicators, made from the words around it.

    `[0]` stands for the word itself, `[-1]` for the one before. Always: `word[d]` for `d` up to `window` on either
    side, and `first` and `last` at the ends of the sequence. The rest is asked for.

    Parameters
    ----------
    words : list of str
        The sequence.
    pos : list of str, optional
        A part of speech, or another mark, for each word: adds `pos[d]` in the window, and the neighbouring two and
        three of them at most two words away.
    window : int
        How many words on either side are looked at; 0 for none.
    affixes : int
        Longest prefix and suffix; 0 for none.
    pairs : bool
        The word together with the one before and with the one after.
    looks : bool
        The word in lower case; its shape (`Xxx.`) and the shape without repetitions, this also of both neighbours;
        whether some or all characters are digits or punctuation; punctuation at its end.
    position : bool
        Tenth of the sequence in which the word stands.

    Returns
    -------
    list of lists of str
        One list for each word, ready for `SequenceVectorizer`.

    Examples
    --------
    >>> token_features(["In", "1999"], window=1, affixes=1, pairs=False, looks=False, position=False)
    [['word[0]=In', 'word[1]=1999', 'prefix=I', 'suffix=n', 'first'],
     ['word[-1]=In', 'word[0]=1999', 'prefix=1', 'suffix=9', 'last']]
    >>> token_features(["1999,"], window=0, affixes=0)[0]
    ['word[0]=1999,', 'lower=1999,', 'shape=dddd,', 'kind[0]=d,', 'digits=some', 'punctuation=some', 'ends=,',
     'tenth=0', 'first', 'last']
    """
    _check(words, pos, window, affixes)
    n = len(words)
    kinds = [_without_repetition(word_shape(word)) for word in words] if looks else []
    found = []
    for t, word in enumerate(words):
        features = [f"word[{d}]={words[t + d]}" for d in range(-min(window, t), min(window, n - 1 - t) + 1)]
        if pairs:
            features += [f"word[{d}]|word[{d + 1}]={words[t + d]}|{words[t + d + 1]}" for d in _spans(t, n, 2, 1)]
        for k in range(1, min(affixes, len(word)) + 1):
            features += [f"prefix={word[:k]}", f"suffix={word[-k:]}"]
        if looks:
            features += [f"lower={word.lower()}", f"shape={word_shape(word)}"]
            features += [f"kind[{d}]={kinds[t + d]}" for d in (-1, 0, 1) if 0 <= t + d < n]
            features += _characters(word)
        if pos is not None:
            features += _parts_of_speech(pos, t, window)
        if position:
            features.append(f"tenth={10 * t // n}")
        if t == 0:
            features.append("first")
        if t == n - 1:
            features.append("last")
        found.append(features)
    return found


def _spans(t: int, n: int, length: int, reach: int) -> range:
    """Where spans of `length` words begin, relative to `t`, that stay within `reach` of it and inside the sequence."""
    return range(max(-reach, -t), min(reach, n - 1 - t) - length + 2)


def _parts_of_speech(pos: Sequence[str], t: int, window: int) -> list[str]:
    features = [f"pos[{d}]={pos[t + d]}" for d in _spans(t, len(pos), 1, window)]
    for length in (2, 3):
        for d in _spans(t, len(pos), length, min(window, 2)):
            name = "|".join(f"pos[{k}]" for k in range(d, d + length))
            features.append(f"{name}={'|'.join(pos[t + d : t + d + length])}")
    return features


def _without_repetition(shape: str) -> str:
    return "".join(kind for kind, _ in groupby(shape))


def _characters(word: str) -> list[str]:
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


def _check(words: Any, pos: Any, window: Any, affixes: Any) -> None:
    check_number(window, "token_features: window", low=0, integer=True)
    check_number(affixes, "token_features: affixes", low=0, integer=True)
    if isinstance(words, str):
        raise InvalidInputError(f"token_features: words is {words!r:.60}; expected a list of words. Split it first.")
    for name, given in (("words", words), ("pos", pos or ())):
        for t, item in enumerate(given):
            if not isinstance(item, str):
                raise InvalidInputError(f"token_features: {name}[{t}] is {item!r:.60}; expected a string.")
    if pos is not None and len(pos) != len(words):
        raise InvalidInputError(
            f"token_features: pos has {len(pos)} entries, but words has {len(words)}. Give one for each word."
        )
