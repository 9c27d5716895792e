"""Features of the tokens of a reference: what ordinary word features do not see of how references are written."""

from __future__ import annotations

import re
from collections.abc import Sequence

from intarsia.models import token_features

_BRACKETS = "()[]{}.,;:\"'`*"
_QUOTES = ('"', "``", "''", "\u201c", "\u201d")
# Words that tell of what a reference consists, wherever they stand in it.
_TELLING = ("in", "proc", "proceedings", "eds", "ed", "thesis", "university", "press", "report", "vol", "pp")
# Words after which other fields are to be expected than before.
_TURNING = ("in", "eds", "ed", "vol", "pp", "proc")
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
    """Coarse kind of a token: year, range of pages, initial, number of so many digits, capitalised and so on.

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
    """The token in lower case, without brackets and marks around it, with 0 for every digit."""
    return re.sub(r"\d", "0", token.strip(_BRACKETS).lower()) or token


def _stretches(tokens: Sequence[str]) -> list[range]:
    """For each token, the stretch between punctuation marks in which it stands."""
    ends = [t + 1 for t, token in enumerate(tokens) if token == "." or token[-1] in ",;:"]
    found: list[range] = []
    first = 0
    for end in [*ends, len(tokens)]:
        found += [range(first, end)] * (end - first)
        first = end
    return found


def _quoted(tokens: Sequence[str]) -> list[str]:
    """Whether each token stands before, inside or after quotation marks."""
    n, found = 0, []
    for token in tokens:
        was_open = n % 2
        n += sum(map(token.count, _QUOTES))
        found.append("before" if n == 0 else "inside" if was_open or n % 2 else "after")
    return found


def reference_features(tokens: Sequence[str]) -> list[list[str]]:
    """Features of each token of one reference: those of `token_features`, and how the reference is built.

    Kinds of the tokens around, the stretch between two punctuation marks and its neighbours, quotation marks, where
    the first year stands, how many numbers and ordinary words came before and come after, and what the whole reference
    contains (each together with the kind of the token). No list of names, journals or publishers.

    Examples
    --------
    >>> found = reference_features(["J.", "Tafel", "Phys", ".", "45A", "(1973)"])[1]
    >>> [name for name in found if name.startswith(("kind", "stretch=", "year="))]
    ['kind[-1]=X.', 'kind[0]=Xx', 'kind[1]=Xx', 'kinds[-1]=initial', 'kinds[0]=Word', 'kinds[1]=Word', 'kinds[2]=.',
     'kinds[3]=digits', 'stretch=initial|Word|Word|.', 'year=before']
    """
    n = len(tokens)
    found = token_features(tokens, affixes=4)
    kinds, cores, stretches = [token_kind(token) for token in tokens], [_core(t) for t in tokens], _stretches(tokens)
    about = _whole(kinds, cores, tokens)
    quoted = _quoted(tokens)
    first_year = next((t for t, kind in enumerate(kinds) if kind.startswith("year")), None)
    n_words = kinds.count("word")
    words = numbers = 0
    turned: list[str] = []
    for t, features in enumerate(found):
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
        features += [f"from the end={min(n - 1 - t, 9)}", f"from the start={min(t, 9)}", *turned]
        if cores[t] in _TURNING:
            turned = sorted({*turned, f"after {cores[t]}"})
        features += [f"{fact}|{kind}" for fact in about]
    return found


def _of_stretch(kinds: list[str], cores: list[str], stretches: list[range], t: int) -> list[str]:
    own = stretches[t]
    made = [
        f"stretch length={min(len(own), 8)}|{min(t - own.start, 3)}",
        "stretch=" + "|".join(kinds[i] for i in own[:5]),
        f"stretch begins={cores[own.start]}",
        f"stretch ends={cores[max(own.stop - 2, own.start)]}",
    ]
    for name, at in (("last stretch", own.start - 1), ("next stretch", own.stop)):
        if 0 <= at < len(kinds):
            other = stretches[at]
            made += [f"{name}=" + "|".join(kinds[i] for i in other[:3]), f"{name} begins={cores[other.start]}"]
    return made


def _whole(kinds: list[str], cores: list[str], tokens: Sequence[str]) -> list[str]:
    """What the whole reference is like."""
    n = len(kinds)
    years = [t for t, kind in enumerate(kinds) if kind.startswith("year")]
    about = [
        "begins " + "-".join(kinds[:3]),
        f"year at {5 * years[0] // n}" if years else "no year",
        f"length {min(n // 8, 6)}",
    ]
    if any(mark in token for token in tokens for mark in _QUOTES):
        about.append("has quotes")
    present = set(cores)
    return about + [f"has {word}" for word in _TELLING if word in present]
