"""Functions from a text to its tokens and their features, which a parser makes from its settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from intarsia.exceptions import InvalidInputError
from intarsia.sequences.parsing.token_features import TokenFeatures, plain
from intarsia.sequences.parsing.tokens import Token, find_tokenizer

Preparation = Callable[[str], tuple[list[Token], list[Any]]]


def make_preparation(
    tokenizer: str,
    features: TokenFeatures | Callable[[list[str]], list[Any]],
    gazetteers: Mapping[str, Iterable[str]] | None,
) -> Preparation:
    """Check tokenizer, features and word lists; return the function from a text to its tokens and features.

    Examples
    --------
    >>> prepare = make_preparation("words", list, None)
    >>> prepare("Main St")[1]
    ['Main', 'St']
    """
    split = find_tokenizer(tokenizer)
    if isinstance(features, TokenFeatures):
        extract = features.extractor(gazetteers, tokenizer)

        def prepare_with_templates(text: str) -> tuple[list[Token], list[Any]]:
            tokens = split(text)
            return tokens, extract(tokens)

        return prepare_with_templates
    function = features

    def prepare(text: str) -> tuple[list[Token], list[Any]]:
        tokens = split(text)
        rows = list(function([token.text for token in tokens])) if tokens else []
        if len(rows) != len(tokens):
            raise InvalidInputError(
                f"features() must return the features of each token, got {len(rows)} items for {len(tokens)} tokens."
            )
        return tokens, rows

    return prepare


def plain_words(tokens: Sequence[Token]) -> list[str]:
    """Return the words of tokens as rules compare them with phrases: without punctuation after a word.

    Examples
    --------
    >>> plain_words([Token("Oslo,", 0, 5)])
    ['oslo']
    """
    return [plain(token.text) for token in tokens]
