"""Features of the tokens of a reference that describe its structure, in addition to common word features."""

from __future__ import annotations

import re
from collections.abc import Sequence

from intarsia.models import token_features

_BRACKETS = "()[]{}.,;:\"'`*"
_QUOTES = ('"', "``", "''", "\u201c", "\u201d")
# Words that indicate the kind of a reference, at any position.
_INDICATORS = ("in", "proc", "proceedings", "eds", "ed", "thesis", "university", "press", "report", "vol", "pp")
# Words after which other fields are expected than before.
_SEPARATORS = ("in", "eds", "ed", "vol", "pp", "proc")
_KINDS = (
    ("url", re.compile(r"https?:.*|ftp:.*|www\..*|.*@.*")),
    ("eprint", re.compile(r".*(arxiv|hep-|astro-ph|gr-qc|cond-mat|quant-ph|math[./]).*", re.IGNORECASE)),
    ("year", re.compile(r"(18|19|20)\d\d[a-z]?")),
    ("range", re.compile(r"[A-Za-z]?\d+[-\u2013#]+[A-Za-z]?\d+")),
    ("initial", re.compile(r"[A-Z](\.?-?[A-Z])?")),
    ("roman", re.compile(r"[IVXLC]+")),
    ("capitals", re.compile(r"([A-Z]\.?-?)+")),
)


def token_kind(token: str) -> str:
    """Return the coarse kind of a token: year, page range, initial, number of digits, capitalized and so on.

    Examples
    --------
    >>> [token_kind(token) for token in ("(1993)", "61--205", "J.", "47", "Montroll", "of", "phenomena", ",")]
    ['year()', 'range', 'initial', 'number2', 'Word', 'of', 'word', ',']
    """
    core = token.strip(_BRACKETS)
    if not any(map(str.isalnum, token)):
        return token[:2]
    for kind, pattern in _KINDS:
        if pattern.fullmatch(core):
            return f"{kind}()" if kind == "year" and token[0] == "(" else kind
    if core.isdigit():
        return f"number{min(len(core), 5)}"
    if any(map(str.isdigit, core)):
        return "digits"
    if token[0].isupper():
        return "Word"
    return "word" if len(token) > 3 else token


def _core(token: str) -> str:
    """Return the token in lower case, without surrounding brackets and marks, with 0 for every digit."""
    return re.sub(r"\d", "0", token.strip(_BRACKETS).lower()) or token


def _stretches(tokens: Sequence[str]) -> list[range]:
    """Return, for each token, the range of tokens between the punctuation marks around it."""
    ends = [t + 1 for t, token in enumerate(tokens) if token == "." or token[-1] in ",;:"]
    stretches: list[range] = []
    first = 0
    for end in [*ends, len(tokens)]:
        stretches += [range(first, end)] * (end - first)
        first = end
    return stretches


def _quoted(tokens: Sequence[str]) -> list[str]:
    """Return whether each token is before, inside or after quotation marks."""
    n_marks, positions = 0, []
    for token in tokens:
        was_open = n_marks % 2
        n_marks += sum(map(token.count, _QUOTES))
        positions.append("before" if n_marks == 0 else "inside" if was_open or n_marks % 2 else "after")
    return positions


def reference_features(tokens: Sequence[str]) -> list[list[str]]:
    """Return the features of each token of a reference: those of `token_features`, and the structure of the reference.

    The structure consists of the kinds of nearby tokens, the stretch between two punctuation marks and its neighbours,
    quotation marks, the position of the first year, the numbers of numbers and ordinary words before and after, and
    properties of the whole reference (each combined with the kind of the token). No list of names, journals or
    publishers is used.

    Examples
    --------
    >>> features = reference_features(["J.", "Tafel", "Phys", ".", "45A", "(1973)"])[1]
    >>> [name for name in features if name.startswith(("kind", "stretch=", "year="))]
    ['kind[-1]=X.', 'kind[0]=Xx', 'kind[1]=Xx', 'kinds[-1]=initial', 'kinds[0]=Word', 'kinds[1]=Word', 'kinds[2]=.',
     'kinds[3]=digits', 'stretch=initial|Word|Word|.', 'year=before']
    """
    n = len(tokens)
    all_features = token_features(tokens, affixes=4)
    kinds, cores, stretches = [token_kind(token) for token in tokens], [_core(t) for t in tokens], _stretches(tokens)
    properties = _whole(kinds, cores, tokens)
    quoted = _quoted(tokens)
    first_year = next((t for t, kind in enumerate(kinds) if kind.startswith("year")), None)
    n_words = kinds.count("word")
    words = numbers = 0
    after_separators: list[str] = []
    for t, features in enumerate(all_features):
        kind = kinds[t]
        features += [f"core[{d}]={cores[t + d]}" for d in (-1, 0, 1) if 0 <= t + d < n]
        features += [f"kinds[{d}]={kinds[t + d]}" for d in range(-3, 4) if 0 <= t + d < n]
        for first in (-2, -1, 0):
            around = "|".join(kinds[t + d] if 0 <= t + d < n else "#" for d in range(first, first + 3))
            features.append(f"three[{first}]={around}")
        features += _of_stretch(kinds, cores, stretches, t)
        features.append(f"quoted={quoted[t]}")
        if first_year is not None:
            features.append("year=" + ("before" if t < first_year else "at" if t == first_year else "after"))
        features += [f"numbers={min(numbers, 4)}|{kind}", f"words={min(words, 3)}|{kind}"]
        words += kind == "word"
        numbers += kind.startswith(("number", "range", "digits"))
        features.append(f"words to come={min(n_words - words, 3)}|{kind}")
        features += [f"from the end={min(n - 1 - t, 9)}", f"from the start={min(t, 9)}", *after_separators]
        if cores[t] in _SEPARATORS:
            after_separators = sorted({*after_separators, f"after {cores[t]}"})
        features += [f"{fact}|{kind}" for fact in properties]
    return all_features


def _of_stretch(kinds: list[str], cores: list[str], stretches: list[range], t: int) -> list[str]:
    stretch = stretches[t]
    features = [
        f"stretch length={min(len(stretch), 8)}|{min(t - stretch.start, 3)}",
        "stretch=" + "|".join(kinds[i] for i in stretch[:5]),
        f"stretch begins={cores[stretch.start]}",
        f"stretch ends={cores[max(stretch.stop - 2, stretch.start)]}",
    ]
    for name, neighbour in (("last stretch", stretch.start - 1), ("next stretch", stretch.stop)):
        if 0 <= neighbour < len(kinds):
            other = stretches[neighbour]
            features += [f"{name}=" + "|".join(kinds[i] for i in other[:3]), f"{name} begins={cores[other.start]}"]
    return features


def _whole(kinds: list[str], cores: list[str], tokens: Sequence[str]) -> list[str]:
    """Return properties of the whole reference."""
    n = len(kinds)
    years = [t for t, kind in enumerate(kinds) if kind.startswith("year")]
    properties = [
        "begins " + "-".join(kinds[:3]),
        f"year at {5 * years[0] // n}" if years else "no year",
        f"length {min(n // 8, 6)}",
    ]
    if any(mark in token for token in tokens for mark in _QUOTES):
        properties.append("has quotes")
    present = set(cores)
    return properties + [f"has {word}" for word in _INDICATORS if word in present]
