"""Feature templates of tokens: words, affixes, shapes, digits, punctuation, window, position and word lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from intarsia._core.registry import Registry
from intarsia._core.settings import Settings
from intarsia._core.validation import check_number
from intarsia.exceptions import InvalidInputError
from intarsia.sequences.parsing.tokens import Token, find_tokenizer

# Features of tokens that occur again are looked up; the table is cleared when it has this many tokens.
_MAX_STORED_TOKENS = 50_000
# Longer words have the features of this length.
_LONGEST = 10
Extract = Callable[[Sequence[Token]], list[list[str]]]


class TokenFeatures(Settings):
    """Features of the tokens of a string, for `RecordParser(features=...)`.

    Each token has its features as strings such as ``lower=main``, those of its neighbours with their distance in front
    (``-1:lower=n``), and its position. Every setting can be saved to a file. For other features, pass a function from
    the list of words to a list of features for each word instead.

    Parameters
    ----------
    word, lower : bool
        The word itself; the word in lower case, without punctuation after it.
    prefixes, suffixes : tuple of int
        Lengths of the prefixes and suffixes of the word in lower case.
    length : bool
        Number of characters, up to 10.
    shape : bool
        Letters replaced by X or x and digits by d, with runs shortened: ``McKay-12`` has ``XxXx-d``.
    digits : bool
        Whether the token has digits, and how many if it is a number; a number then has no features of its word.
    punctuation : bool
        Whether the token is punctuation, ends in punctuation, or contains it.
    window : int
        Features of the tokens up to this distance are added.
    bigrams : bool
        Pairs of the token and each of its two neighbours in lower case.
    position : int
        Positions up to this number, counted from the start and from the end, are features; 0 for none.
    gazetteers : bool
        Features of the named word lists of the parser: whether a phrase of the list begins or continues at the token.

    Examples
    --------
    >>> features = TokenFeatures(prefixes=(), suffixes=(2,), window=0, bigrams=False)
    >>> features.of("12 Main St.")[1]
    ['bias', 'word=Main', 'lower=main', 'suffix=in', 'length=4', 'shape=Xx', 'start=1', 'end=2']
    """

    def __init__(
        self,
        *,
        word: bool = True,
        lower: bool = True,
        prefixes: Sequence[int] = (1, 2, 3),
        suffixes: Sequence[int] = (1, 2, 3),
        length: bool = True,
        shape: bool = True,
        digits: bool = True,
        punctuation: bool = True,
        window: int = 1,
        bigrams: bool = True,
        position: int = 4,
        gazetteers: bool = True,
    ) -> None:
        self.word = word
        self.lower = lower
        self.prefixes = prefixes
        self.suffixes = suffixes
        self.length = length
        self.shape = shape
        self.digits = digits
        self.punctuation = punctuation
        self.window = window
        self.bigrams = bigrams
        self.position = position
        self.gazetteers = gazetteers

    def of(
        self, text: str, tokenizer: str = "words", gazetteers: Mapping[str, Iterable[str]] | None = None
    ) -> list[list[str]]:
        """Return the features of each token of a string, to see what a parser learns from.

        Parameters
        ----------
        text : str
            The string.
        tokenizer : str
            Name of a tokenizer, see `tokenize`.
        gazetteers : dict of word lists, optional
            Named lists of words or phrases.
        """
        tokens = find_tokenizer(tokenizer)(text)
        return self.extractor(gazetteers, tokenizer)(tokens)

    def extractor(self, gazetteers: Mapping[str, Iterable[str]] | None, tokenizer: str) -> Extract:
        """Check the settings and return the function from tokens to features."""
        check_number(self.window, "window", low=0, high=10, integer=True)
        check_number(self.position, "position", low=0, high=1000, integer=True)
        for name in ("prefixes", "suffixes"):
            for length in getattr(self, name):
                check_number(length, name, low=1, high=100, integer=True)
        phrases = read_gazetteers(gazetteers, tokenizer) if self.gazetteers else {}
        return _Extractor(self, phrases).extract


# Phrases of word lists as tuples of words in lower case, with the names of their lists.
Phrases = dict[tuple[str, ...], list[str]]


def read_gazetteers(gazetteers: Any, tokenizer: str) -> Phrases:
    """Return the phrases of named word lists, split into words by the tokenizer.

    Examples
    --------
    >>> read_gazetteers({"city": ["New York", "Boston"]}, "words")
    {('new', 'york'): ['city'], ('boston',): ['city']}
    """
    phrases: Phrases = {}
    if gazetteers is None:
        return phrases
    if not isinstance(gazetteers, Mapping):
        raise InvalidInputError(f"gazetteers must be a dict name -> list of phrases, got {gazetteers!r:.60}.")
    split = find_tokenizer(tokenizer)
    for name, words in gazetteers.items():
        if isinstance(words, (str, bytes)) or not isinstance(words, Iterable):
            raise InvalidInputError(f"gazetteers[{name!r}] must be a list of strings, got {words!r:.60}.")
        for phrase in words:
            if not isinstance(phrase, str):
                raise InvalidInputError(f"gazetteers[{name!r}] must contain strings, got {phrase!r:.60}.")
            key = tuple(plain(token.text) for token in split(phrase))
            names = phrases.setdefault(key, [])
            if name not in names:
                names.append(str(name))
    phrases.pop((), None)
    return phrases


def plain(word: str) -> str:
    """Return a word in lower case without punctuation after it; punctuation alone stays.

    Examples
    --------
    >>> plain("St.,"), plain(",")
    ('st', ',')
    """
    return word.lower().rstrip(".,;:)") or word


class _Extractor:
    """Function from tokens to features under some settings; features of a word are computed once."""

    def __init__(self, settings: TokenFeatures, phrases: Phrases) -> None:
        self._settings = settings
        self._phrases = phrases
        self._longest = max(map(len, phrases), default=0)
        self._shifts = [shift for shift in range(-settings.window, settings.window + 1) if shift]
        self._features_of_word: dict[str, dict[int, list[str]]] = {}

    def extract(self, tokens: Sequence[Token]) -> list[list[str]]:
        """Return the features of each token."""
        settings = self._settings
        words = [self._of_word(token.text) for token in tokens]
        lower = [token.text.lower() for token in tokens] if settings.bigrams else []
        lists = self._in_lists(tokens)
        n = len(tokens)
        rows = []
        for t in range(n):
            row = words[t][0].copy()
            for shift in self._shifts:
                neighbour = t + shift
                if 0 <= neighbour < n:
                    row += words[neighbour][shift]
                    row += [f"{shift}:{name}" for name in lists[neighbour]]
            row += lists[t]
            if settings.bigrams:
                if t:
                    row.append(f"-1|0={lower[t - 1]}|{lower[t]}")
                if t + 1 < n:
                    row.append(f"0|1={lower[t]}|{lower[t + 1]}")
            if settings.position:
                row.append(f"start={min(t, settings.position)}")
                row.append(f"end={min(n - 1 - t, settings.position)}")
            rows.append(row)
        return rows

    def _of_word(self, word: str) -> dict[int, list[str]]:
        """Return the features of a word, for each distance at which they can stand."""
        features = self._features_of_word.get(word)
        if features is None:
            names = _word_features(word, self._settings)
            features = {shift: [f"{shift}:{name}" for name in names] for shift in self._shifts}
            features[0] = ["bias", *names]
            if len(self._features_of_word) >= _MAX_STORED_TOKENS:
                self._features_of_word.clear()
            self._features_of_word[word] = features
        return features

    def _in_lists(self, tokens: Sequence[Token]) -> list[list[str]]:
        """Return for each token the word lists of which a phrase begins (B) or continues (I); the longest phrase wins.

        Phrases of one list do not overlap: they are read from left to right.
        """
        names: list[list[str]] = [[] for _ in tokens]
        if not self._phrases:
            return names
        words = [plain(token.text) for token in tokens]
        covered: dict[str, int] = {}
        for t in range(len(words)):
            for length in range(min(self._longest, len(words) - t), 0, -1):
                for name in self._phrases.get(tuple(words[t : t + length]), ()):
                    if covered.get(name, 0) <= t:
                        covered[name] = t + length
                        names[t].append(f"list=B-{name}")
                        for inside in range(t + 1, t + length):
                            names[inside].append(f"list=I-{name}")
        return names


def _word_features(word: str, settings: TokenFeatures) -> list[str]:
    """Return the features that depend on a word alone."""
    names = []
    lower = plain(word)
    # The digits of a number are of little use; how many there are is a feature.
    if not (settings.digits and lower.isdigit()):
        if settings.word:
            names.append(f"word={word}")
        if settings.lower:
            names.append(f"lower={lower}")
        names += [f"prefix={lower[:length]}" for length in settings.prefixes if len(lower) > length]
        names += [f"suffix={lower[-length:]}" for length in settings.suffixes if len(lower) > length]
    if settings.length:
        names.append(f"length={min(len(lower), _LONGEST)}")
    if settings.shape:
        names.append(f"shape={_shape(word)}")
    n_digits = sum(map(str.isdigit, word))
    if settings.digits and n_digits:
        names.append(f"digits={min(n_digits, _LONGEST)}" if lower.isdigit() else "some_digits")
    if settings.punctuation and not word.isalnum():
        if not any(map(str.isalnum, word)):
            names.append("punctuation")
        else:
            names.append("inner_punctuation" if word[-1].isalnum() else f"ends_in={word[-1]}")
    return names


def _shape(word: str) -> str:
    """Return the shape of a word: X, x and d for letters and digits, with runs shortened to one character."""
    shape: list[str] = []
    for character in word:
        if character.isdigit():
            kind = "d"
        elif character.isalpha():
            kind = "X" if character.isupper() else "x"
        else:
            kind = character
        if not shape or shape[-1] != kind:
            shape.append(kind)
    return "".join(shape)


FEATURES = Registry("features", "intarsia.sequences.parsing", {"token_features": "TokenFeatures"}, TokenFeatures)
