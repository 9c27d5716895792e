"""Tokenizers of record strings: tokens with character offsets, chosen by name so that a file can store the choice."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Any, NamedTuple

from intarsia._core.validation import check_choice
from intarsia.exceptions import InvalidInputError


class Token(NamedTuple):
    """Token of a string: its text and where it starts and ends.

    Examples
    --------
    >>> Token("Main", 4, 8).end
    8
    """

    text: str
    start: int
    end: int


# Apostrophes inside a word (O'Hare, rock’n’roll) belong to it.
_ASCII_WORDS = re.compile(r"[A-Za-z0-9_]+(?:'[A-Za-z0-9_]+)*|[!-~]")
_NOT_BLANK = re.compile(r"\S+")
# Parentheses before a word and punctuation after it stay with it; a number sign or an ampersand is a token.
_WITH_PUNCTUATION = re.compile(r"\(*\b[^\s,;#&()]+[.,;)]*|[#&]")
_APOSTROPHES = "'\u2019\u02bc"


def _split_words(text: str) -> list[Token]:
    """Return words (letters, digits, marks, underscores) and single other characters that are not blank."""
    if text.isascii():
        return _matches(_ASCII_WORDS, text)
    tokens: list[Token] = []
    start = -1
    for i, character in enumerate(text):
        kind = unicodedata.category(character)
        is_letter = kind[0] in "LN" or character == "_"
        # Accents and invisible joiners continue a word but do not begin one.
        is_inside = start >= 0 and (
            kind[0] == "M" or kind == "Cf" or (character in _APOSTROPHES and _is_letter(text[i + 1 : i + 2]))
        )
        if is_letter or is_inside:
            start = i if start < 0 else start
            continue
        if start >= 0:
            tokens.append(Token(text[start:i], start, i))
            start = -1
        if not character.isspace() and kind not in ("Cc", "Cf"):
            tokens.append(Token(character, i, i + 1))
    if start >= 0:
        tokens.append(Token(text[start:], start, len(text)))
    return tokens


def _is_letter(character: str) -> bool:
    return character != "" and (character == "_" or unicodedata.category(character)[0] in "LN")


def _split_blanks(text: str) -> list[Token]:
    """Return the longest pieces without white space."""
    return _matches(_NOT_BLANK, text)


def _split_with_punctuation(text: str) -> list[Token]:
    """Return words with the punctuation that follows them, as usaddress and probablepeople do."""
    return _matches(_WITH_PUNCTUATION, text)


def _split_characters(text: str) -> list[Token]:
    """Return single characters that are not blank, with the accents that follow them."""
    tokens: list[Token] = []
    for i, character in enumerate(text):
        if tokens and tokens[-1].end == i and unicodedata.category(character)[0] == "M":
            last = tokens[-1]
            tokens[-1] = Token(text[last.start : i + 1], last.start, i + 1)
        elif not character.isspace():
            tokens.append(Token(character, i, i + 1))
    return tokens


def _matches(pattern: re.Pattern[str], text: str) -> list[Token]:
    return [Token(match.group(), *match.span()) for match in pattern.finditer(text)]


_TOKENIZERS: dict[str, Callable[[str], list[Token]]] = {
    "words": _split_words,
    "whitespace": _split_blanks,
    "usaddress": _split_with_punctuation,
    "characters": _split_characters,
}


def tokenizer_names() -> list[str]:
    """Return the names of the tokenizers, the valid values of `RecordParser(tokenizer=...)`.

    Examples
    --------
    >>> tokenizer_names()
    ['words', 'whitespace', 'usaddress', 'characters']
    """
    return list(_TOKENIZERS)


def find_tokenizer(name: str) -> Callable[[str], list[Token]]:
    """Return the tokenizer with this name; raise if there is none."""
    return _TOKENIZERS[check_choice(name, _TOKENIZERS, "tokenizer")]


def tokenize(text: str, tokenizer: str = "words") -> list[Token]:
    """Split a string into tokens with character offsets, so that ``text[token.start:token.end] == token.text``.

    Parameters
    ----------
    text : str
        The string.
    tokenizer : {"words", "whitespace", "usaddress", "characters"}
        "words": words (letters, digits, accents; apostrophes inside) and single punctuation marks. "whitespace": pieces
        between white space. "usaddress": words with the punctuation after them, as usaddress and probablepeople split
        strings; punctuation that follows no word is dropped. "characters": single characters, for scripts without
        spaces.

    Raises
    ------
    InvalidInputError
        If the text is not a string, or contains bytes that are not text.

    Examples
    --------
    >>> [token.text for token in tokenize("12 St. John's Rd, #4")]
    ['12', 'St', '.', "John's", 'Rd', ',', '#', '4']
    >>> tokenize("12 St. John's Rd, #4", "usaddress")[3]
    Token(text='Rd,', start=14, end=17)
    """
    return find_tokenizer(tokenizer)(check_text(text, "text"))


def check_text(text: Any, name: str) -> str:
    """Return the text; raise if it is not a string, or contains bytes that could not be decoded."""
    if not isinstance(text, str):
        remedy = "Decode it with text.decode('utf-8')." if isinstance(text, bytes) else "Pass a string."
        raise InvalidInputError(f"{name} must be a string, got {type(text).__name__} {text!r:.60}. {remedy}")
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InvalidInputError(
                f"{name} contains {text[error.start]!r} at position {error.start}, a byte that is not text. Decode the "
                f"bytes with the right encoding, or replace them with errors='replace'."
            ) from None
    return text


def check_texts(texts: Any, name: str = "X") -> list[str]:
    """Return a list of strings; raise for a single string, which would be read as a list of characters."""
    if isinstance(texts, (str, bytes)):
        raise InvalidInputError(f"{name} must be a list of strings, got a single string. Pass [text].")
    try:
        items = list(texts)
    except TypeError:
        raise InvalidInputError(f"{name} must be a list of strings, got {type(texts).__name__}.") from None
    return [check_text(text, f"{name}[{i}]") for i, text in enumerate(items)]
