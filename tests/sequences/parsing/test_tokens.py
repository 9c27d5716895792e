"""Tokenizers: offsets point into the text, and strings of any script are split without losing characters."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.exceptions import InvalidInputError
from intarsia.sequences.parsing import tokenize
from intarsia.sequences.parsing.tokens import check_texts, tokenizer_names

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@pytest.mark.parametrize("tokenizer", tokenizer_names())
@given(text=TEXT)
def test_offsets_point_into_the_text_in_order(tokenizer, text):
    tokens = tokenize(text, tokenizer)
    assert all(text[token.start : token.end] == token.text != "" for token in tokens)
    assert all(first.end <= second.start for first, second in pairwise(tokens))


@given(text=TEXT)
def test_words_lose_no_visible_character(text):
    covered = {i for token in tokenize(text) for i in range(token.start, token.end)}
    assert all(not text[i].isalnum() for i in set(range(len(text))) - covered)


@given(text=st.text(st.characters(max_codepoint=127), max_size=40))
def test_the_ascii_pattern_and_the_unicode_scan_agree(text):
    n = len(text)
    scanned = [token for token in tokenize(text + " \u00e9") if token.start < n]
    assert scanned == tokenize(text)


def test_whitespace_splits_as_str_split():
    text = " a\u3000bc \t d\n"
    assert [token.text for token in tokenize(text, "whitespace")] == text.split()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Müller-Straße 5", ["Müller", "-", "Straße", "5"]),
        ("cafe\u0301", ["cafe\u0301"]),
        ("हिन्दी", ["हिन्दी"]),
        ("O’Hare", ["O’Hare"]),
        ("दिल्ली 110001", ["दिल्ली", "110001"]),
        ("a\x00b", ["a", "b"]),
        ("", []),
        (" \n\t", []),
        ("\u200b", []),
    ],
)
def test_words_of_many_scripts(text, words):
    assert [token.text for token in tokenize(text)] == words


def test_characters_keep_their_accents():
    assert [token.text for token in tokenize("東京e\u0301 1", "characters")] == ["東", "京", "e\u0301", "1"]


def test_usaddress_splits_as_usaddress_does():
    # The pattern of usaddress 0.5.16, without its line end after a token.
    pattern = re.compile(r"\(*\b[^\s,;#&()]+[.,;)\n]*|[#&]")
    for text in ["ab. cd,ef ", "#abc", "12 (rear) Main St., Apt. #4 & B;", "(((a) b", "&, ;x"]:
        assert [token.text for token in tokenize(text, "usaddress")] == pattern.findall(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"abc", r"text must be a string, got bytes b'abc'. Decode it"),
        (None, r"text must be a string, got NoneType None. Pass a string"),
        (b"caf\xe9".decode("utf-8", errors="surrogateescape"), r"at position 3, a byte that is not text"),
    ],
)
def test_text_that_is_not_text_is_an_error(text, message):
    with pytest.raises(InvalidInputError, match=message):
        tokenize(text)


def test_a_single_string_is_not_a_list_of_strings():
    with pytest.raises(InvalidInputError, match=r"X must be a list of strings, got a single string. Pass \[text\]"):
        check_texts("abc")
    with pytest.raises(InvalidInputError, match=r"X\[1\] must be a string, got int 3"):
        check_texts(["a", 3])


def test_an_unknown_tokenizer_is_named():
    with pytest.raises(InvalidInputError, match=r"tokenizer='word' is not known.*'words'"):
        tokenize("a", "word")
