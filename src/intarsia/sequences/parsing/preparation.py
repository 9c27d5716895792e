"""Function from a text to its tokens and their features, which a parser makes from its settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from intarsia.exceptions import InvalidInputError
from intarsia.sequences.parsing.token_features import TokenFeatures, plain
from intarsia.sequences.parsing.tokens import Token, find_tokenizer


class Preparation:
    """Function from a text to its tokens and features; it is pickled as its settings.

    Parameters
    ----------
    tokenizer : str
        Name of a tokenizer.
    features : TokenFeatures or callable
        Feature templates, or a function from words to features.
    gazetteers : dict of lists, optional
        Named word lists.

    Raises
    ------
    InvalidInputError
        If a setting is invalid.

    Examples
    --------
    >>> prepare = Preparation("words", list, None)
    >>> prepare("Main St")[1]
    ['Main', 'St']
    """

    def __init__(
        self,
        tokenizer: str,
        features: TokenFeatures | Callable[[list[str]], list[Any]],
        gazetteers: Mapping[str, Iterable[str]] | None,
    ) -> None:
        self._settings = (tokenizer, features, gazetteers)
        self._split = find_tokenizer(tokenizer)
        self._extract: Callable[[Sequence[Token]], list[Any]] = (
            features.extractor(gazetteers, tokenizer) if isinstance(features, TokenFeatures) else self._call
        )

    def __call__(self, text: str) -> tuple[list[Token], list[Any]]:
        """Return the tokens of a text, and the features of each token."""
        tokens = self._split(text)
        return tokens, self._extract(tokens) if tokens else []

    def __reduce__(self) -> Any:
        """Return the class and the settings; stored features of words are not pickled."""
        return Preparation, self._settings

    def _call(self, tokens: Sequence[Token]) -> list[Any]:
        function: Any = self._settings[1]
        rows = list(function([token.text for token in tokens]))
        if len(rows) != len(tokens):
            raise InvalidInputError(
                f"features() must return the features of each token, got {len(rows)} items for {len(tokens)} tokens."
            )
        return rows


def plain_words(tokens: Sequence[Token]) -> list[str]:
    """Return the words of tokens as rules compare them with phrases: without punctuation after a word.

    Examples
    --------
    >>> plain_words([Token("Oslo,", 0, 5)])
    ['oslo']
    """
    return [plain(token.text) for token in tokens]
