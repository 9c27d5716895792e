"""Passages cut from annotated books, and what tells whether two mentions in a passage name the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import IntArray
from intarsia.clusters import PairFeatures, dense_pair_features
from intarsia.exceptions import InvalidInputError
from intarsia_reproduction.datasets import CoreferenceText, Mention

BoolArray = NDArray[np.bool_]

LEAST, MOST = 20, 115  # mentions of a passage, as of the paper's documents

# Person, number and gender of pronouns: 0 is unknown.
_MALE, _FEMALE, _THING = 1, 2, 3
_SINGULAR, _PLURAL = 1, 2
_PRONOUNS = {
    word: kind
    for words, kind in (
        ("i me my mine myself", (1, _SINGULAR, 0)),
        ("we us our ours ourselves", (1, _PLURAL, 0)),
        ("you your yours yourself yourselves thou thee thy thine thyself ye yeh yer", (2, 0, 0)),
        ("he him his himself", (3, _SINGULAR, _MALE)),
        ("she her hers herself", (3, _SINGULAR, _FEMALE)),
        ("it its itself", (3, _SINGULAR, _THING)),
        ("they them their theirs themselves 'em", (3, _PLURAL, 0)),
    )
    for word in words.split()
}
_MEN = (
    "mr sir man boy lord king prince father uncle brother son husband gentleman captain master fellow lad monsieur "
    "grandfather nephew count duke baron emperor priest parson"
)
_WOMEN = (
    "mrs miss ms madam lady woman girl queen princess mother aunt sister daughter wife madame mistress maid "
    "grandmother niece countess duchess widow nurse governess"
)
_GENDERS = dict.fromkeys(_MEN.split(), _MALE) | dict.fromkeys(_WOMEN.split(), _FEMALE)
_PLURAL_HEADS = "men women children people folk boys girls friends parents ladies gentlemen"
_PREPOSITIONS = "of in at on from with who whom which that to for by near"
_FUNCTION_WORDS = "the a an this that these those my your his her its our their some any no every and of"
_PLURALS, _SMALL = frozenset(_PLURAL_HEADS.split()), frozenset(_FUNCTION_WORDS.split())
_LINKS = frozenset(_PREPOSITIONS.split())  # the head stands before the first of these

NAMES = (
    "one",
    "same words",
    "same head",
    "shared words",
    "names share a word",
    "names share no word",
    "descriptions of other heads",
    "name and description of other heads",
    "pronouns agree",
    "pronouns disagree",
    "first persons",
    "pronoun agrees with words",
    "pronoun disagrees with words",
    "pronoun, words of unknown gender",
    "categories differ",
    "numbers differ",
    "one within the other",
    "same sentence",
    "log sentences apart",
    "next agreeing mention",
)


@dataclass(frozen=True, eq=False)
class Passage:
    """Mentions of some consecutive sentences, with the features of all their pairs.

    Attributes
    ----------
    name : str
        Name of the book.
    pairs : PairFeatures
        Features of pairs of mentions, named by `NAMES`.
    entity : int array (n_mentions,)
        The truth.
    """

    name: str
    pairs: PairFeatures
    entity: IntArray


def cut_passage(
    text: CoreferenceText, rng: np.random.Generator, least: int = LEAST, most: int = MOST
) -> CoreferenceText:
    """Some consecutive sentences of a text with `least` to `most` mentions, the number and the place drawn at random.

    Examples
    --------
    >>> ann = [Mention(s, 0, 0, 0, "PROP", "PER") for s in range(9)]
    >>> text = CoreferenceText("a", [["Ann"]] * 9, ann)
    >>> part = cut_passage(text, np.random.default_rng(0), least=2, most=4)
    >>> 2 <= len(part.mentions) <= 4, len(part.sentences) == len(part.mentions), part.mentions[0].sentence
    (True, True, 0)
    """
    counts = np.bincount([mention.sentence for mention in text.mentions], minlength=len(text.sentences))
    before = np.concatenate([[0], np.cumsum(counts)])  # mentions before each sentence
    for wanted in (int(rng.integers(least, most + 1)), most):  # sentences may be too long for the first
        # for each first sentence the last one with which no more than wanted are in
        ends = np.searchsorted(before, before[:-1] + wanted, side="right") - 1
        fits = np.flatnonzero((before[ends] - before[:-1] >= least) & (counts > 0))
        if fits.size:
            break
    else:
        raise InvalidInputError(
            f"{text.name}: no consecutive sentences have {least} to {most} mentions. Take a longer text."
        )
    first = int(rng.choice(fits))
    last = int(ends[first])
    chosen = [m._replace(sentence=m.sentence - first) for m in text.mentions if first <= m.sentence < last]
    return CoreferenceText(text.name, text.sentences[first:last], chosen)


def cut_passages(
    texts: Sequence[CoreferenceText], n_passages: int, random_state: int = 0, most: int = MOST
) -> tuple[list[Passage], list[Passage]]:
    """Passages of so many books, one from each, and as many of other books to learn weights from.

    Examples
    --------
    >>> ann = [Mention(s, 0, 0, s % 2, "PROP", "PER") for s in range(40)]
    >>> texts = [CoreferenceText(name, [["Ann"]] * 40, ann) for name in "abcde"]
    >>> chosen, others = cut_passages(texts, 2, most=30)
    >>> len({passage.name for passage in chosen + others}), chosen[0].pairs.names == NAMES
    (4, True)
    """
    rng = np.random.default_rng(random_state)
    books = rng.permutation(len(texts))[: 2 * n_passages]
    found = []
    for book in books:
        part = cut_passage(texts[int(book)], rng, most=most)
        found.append(Passage(part.name, mention_features(part), part.entity))
    return found[:n_passages], found[n_passages:]


def mention_features(text: CoreferenceText) -> PairFeatures:
    """Features of all pairs of mentions of a text: words, heads, agreement of pronouns, categories, distance.

    Examples
    --------
    >>> mentions = [Mention(0, 0, 0, 0, "PROP", "PER"), Mention(0, 2, 2, 0, "PRON", "PER")]
    >>> found = mention_features(CoreferenceText("a", [["Lady", "lost", "her", "way"]], mentions))
    >>> [name for name, value in zip(found.names, found.values[0], strict=True) if value]
    ['one', 'pronoun agrees with words', 'same sentence', 'next agreeing mention']
    """
    mentions = text.mentions
    words = [[word.lower() for word in text.words(mention)] for mention in mentions]
    kind = np.array([mention.kind for mention in mentions])
    told, name, described = kind == "PRON", kind == "PROP", kind == "NOM"
    person, number, gender = np.array([_agreement(*both) for both in zip(mentions, words, strict=True)]).T
    content = [frozenset(each) - _SMALL for each in words]
    sentence = np.array([mention.sentence for mention in mentions])

    shared = np.array([[len(a & b) for b in content] for a in content], dtype=np.float64)
    either = np.array([[len(a | b) for b in content] for a in content], dtype=np.float64)
    same_head = _equal([_head(each) for each in words])
    same_words = _equal([" ".join(word for word in each if word not in _SMALL) for each in words])
    apart = np.abs(sentence[:, None] - sentence)
    category = ~_equal([mention.category for mention in mentions])

    plain = _both(~told)  # neither is a pronoun
    mixed = told[:, None] ^ told
    other_gender, other_number, other_person = (_unlike(codes) for codes in (gender, number, person))
    unlike = other_gender | other_number | other_person
    known = (gender[:, None] > 0) & (gender > 0)
    third = (person[:, None] == 3) & (person == 3)
    columns = {
        "one": np.ones(shared.shape),
        "same words": plain & same_words,
        "same head": plain & same_head,
        "shared words": plain * shared / np.maximum(either, 1.0),
        "names share a word": _both(name) & (shared > 0),
        "names share no word": _both(name) & (shared == 0),
        "descriptions of other heads": _both(described) & ~same_head,
        "name and description of other heads": (name[:, None] & described | described[:, None] & name) & ~same_head,
        "pronouns agree": _both(told) & ~unlike,
        "pronouns disagree": _both(told) & unlike,
        "first persons": _both(told & (person == 1) & (number == _SINGULAR)),
        "pronoun agrees with words": mixed & third & known & ~unlike,
        "pronoun disagrees with words": mixed & unlike,
        "pronoun, words of unknown gender": mixed & third & ~known & ~unlike,
        "categories differ": category,
        "numbers differ": other_number,
        "one within the other": _within(mentions),
        "same sentence": apart == 0,
        "log sentences apart": np.log1p(apart),
        "next agreeing mention": _next_agreeing(unlike | category),
    }
    return dense_pair_features(np.stack([columns[each].astype(np.float64) for each in NAMES], axis=-1), NAMES)


def _agreement(mention: Mention, words: list[str]) -> tuple[int, int, int]:
    """Person, number and gender; 0 is unknown."""
    if mention.kind == "PRON":
        return _PRONOUNS.get(" ".join(words), (0, 0, 0))
    head = _head(words)
    looks_plural = head in _PLURALS or (head.endswith("s") and not head.endswith("ss"))
    plural = "and" in words or (mention.kind == "NOM" and looks_plural)
    gender = next((_GENDERS[word.rstrip(".")] for word in words if word.rstrip(".") in _GENDERS), 0)
    return 3, _PLURAL if plural else _SINGULAR, gender if mention.category == "PER" else _THING


def _head(words: list[str]) -> str:
    """The last word before a preposition, a relative pronoun or a comma."""
    end = next((k for k, word in enumerate(words) if k > 0 and (word in _LINKS or word == ",")), len(words))
    return words[end - 1]


def _equal(values: Sequence[str]) -> BoolArray:
    given = np.array(values)
    return np.asarray(given[:, None] == given)


def _both(flags: BoolArray) -> BoolArray:
    return np.asarray(flags[:, None] & flags)


def _unlike(codes: IntArray) -> BoolArray:
    """Whether two known codes differ."""
    return np.asarray((codes[:, None] != codes) & (codes[:, None] > 0) & (codes > 0))


def _within(mentions: Sequence[Mention]) -> BoolArray:
    place = np.array([[mention.sentence, mention.start, mention.end] for mention in mentions])
    sentence, start, end = place.T
    inside = (sentence[:, None] == sentence) & (start[:, None] >= start) & (end[:, None] <= end)
    return np.asarray(inside | inside.T)


def _next_agreeing(unlike: BoolArray) -> BoolArray:
    """Whether one is the last mention before the other that could be the same."""
    found = np.zeros(unlike.shape, dtype=bool)
    for j in range(1, len(unlike)):
        before = np.flatnonzero(~unlike[j, :j])
        if before.size:
            found[before[-1], j] = found[j, before[-1]] = True
    return found
