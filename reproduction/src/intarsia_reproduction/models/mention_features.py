"""Passages of annotated books, and features of pairs of mentions for coreference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import IntArray
from intarsia.clusters import PairFeatures, dense_pair_features
from intarsia.exceptions import InvalidInputError
from intarsia_reproduction.datasets import CoreferenceText, Mention

BoolArray = NDArray[np.bool_]

MIN_MENTIONS, MAX_MENTIONS = (
    20,
    115,
)  # smallest and largest number of mentions of a passage, as in the paper's documents

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
_LINKS = frozenset(_PREPOSITIONS.split())  # the head is the word before the first of these

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
COLUMNS = ("person", "number", "gender", "category", "kind", "word", "name", "description")


@dataclass(frozen=True, eq=False)
class Passage:
    """Mentions of consecutive sentences, with the features of all pairs of mentions.

    Attributes
    ----------
    name : str
        Name of the book.
    pairs : PairFeatures
        Features of pairs of mentions, named by `NAMES`.
    entity : int array (n_mentions,)
        True entity of each mention.
    columns : dict of str -> list
        Properties of each mention, None where unknown (see `mention_columns`), for features of clusters.
    """

    name: str
    pairs: PairFeatures
    entity: IntArray
    columns: dict[str, list[str | None]] = field(default_factory=dict)


def cut_passage(
    text: CoreferenceText, rng: np.random.Generator, min_mentions: int = MIN_MENTIONS, max_mentions: int = MAX_MENTIONS
) -> CoreferenceText:
    """Draw consecutive sentences of a text that have `min_mentions` to `max_mentions` mentions.

    Examples
    --------
    >>> ann = [Mention(s, 0, 0, 0, "PROP", "PER") for s in range(9)]
    >>> text = CoreferenceText("a", [["Ann"]] * 9, ann)
    >>> passage = cut_passage(text, np.random.default_rng(0), min_mentions=2, max_mentions=4)
    >>> 2 <= len(passage.mentions) <= 4, len(passage.sentences) == len(passage.mentions), passage.mentions[0].sentence
    (True, True, 0)
    """
    counts = np.bincount([mention.sentence for mention in text.mentions], minlength=len(text.sentences))
    mention_ptr = np.concatenate([[0], np.cumsum(counts)])  # number of mentions before each sentence
    for limit in (
        int(rng.integers(min_mentions, max_mentions + 1)),
        max_mentions,
    ):  # sentences may be too long for the first
        # For each first sentence, the end of the longest passage with at most `limit` mentions.
        ends = np.searchsorted(mention_ptr, mention_ptr[:-1] + limit, side="right") - 1
        candidates = np.flatnonzero((mention_ptr[ends] - mention_ptr[:-1] >= min_mentions) & (counts > 0))
        if candidates.size:
            break
    else:
        raise InvalidInputError(
            f"{text.name}: no consecutive sentences have {min_mentions} to {max_mentions} mentions. Use a longer text."
        )
    first = int(rng.choice(candidates))
    end = int(ends[first])
    mentions = [m._replace(sentence=m.sentence - first) for m in text.mentions if first <= m.sentence < end]
    return CoreferenceText(text.name, text.sentences[first:end], mentions)


def cut_passages(
    texts: Sequence[CoreferenceText], n_passages: int, random_state: int = 0, max_mentions: int = MAX_MENTIONS
) -> tuple[list[Passage], list[Passage]]:
    """Draw a passage from each of `n_passages` books, and as many from other books for learning weights.

    Examples
    --------
    >>> ann = [Mention(s, 0, 0, s % 2, "PROP", "PER") for s in range(40)]
    >>> texts = [CoreferenceText(name, [["Ann"]] * 40, ann) for name in "abcde"]
    >>> test, train = cut_passages(texts, 2, max_mentions=30)
    >>> len({passage.name for passage in test + train}), test[0].pairs.names == NAMES
    (4, True)
    """
    texts = cut_texts(texts, 2 * n_passages, random_state, max_mentions)
    passages = [Passage(text.name, mention_features(text), text.entity, mention_columns(text)) for text in texts]
    return passages[:n_passages], passages[n_passages:]


def cut_texts(
    texts: Sequence[CoreferenceText], n_texts: int, random_state: int = 0, max_mentions: int = MAX_MENTIONS
) -> list[CoreferenceText]:
    """Draw a passage from each of `n_texts` books.

    Examples
    --------
    >>> ann = [Mention(s, 0, 0, s % 2, "PROP", "PER") for s in range(40)]
    >>> texts = [CoreferenceText(name, [["Ann"]] * 40, ann) for name in "abcde"]
    >>> [20 <= len(text.mentions) <= 30 for text in cut_texts(texts, 2, max_mentions=30)]
    [True, True]
    """
    rng = np.random.default_rng(random_state)
    books = rng.permutation(len(texts))[:n_texts]
    return [cut_passage(texts[int(book)], rng, max_mentions=max_mentions) for book in books]


def mention_features(text: CoreferenceText) -> PairFeatures:
    """Return the features of all pairs of mentions: words, heads, agreement of pronouns, categories, distance.

    Examples
    --------
    >>> mentions = [Mention(0, 0, 0, 0, "PROP", "PER"), Mention(0, 2, 2, 0, "PRON", "PER")]
    >>> pairs = mention_features(CoreferenceText("a", [["Lady", "lost", "her", "way"]], mentions))
    >>> [name for name, value in zip(pairs.names, pairs.values[0], strict=True) if value]
    ['one', 'pronoun agrees with words', 'same sentence', 'next agreeing mention']
    """
    mentions = text.mentions
    words = [[word.lower() for word in text.words(mention)] for mention in mentions]
    kind = np.array([mention.kind for mention in mentions])
    pronoun, name, description = kind == "PRON", kind == "PROP", kind == "NOM"
    person, number, gender = np.array([_agreement(*pair) for pair in zip(mentions, words, strict=True)]).T
    content = [frozenset(mention_words) - _SMALL for mention_words in words]
    sentence = np.array([mention.sentence for mention in mentions])

    shared = np.array([[len(a & b) for b in content] for a in content], dtype=np.float64)
    either = np.array([[len(a | b) for b in content] for a in content], dtype=np.float64)
    same_head = _equal([_head(mention_words) for mention_words in words])
    same_words = _equal([" ".join(word for word in mention_words if word not in _SMALL) for mention_words in words])
    distance = np.abs(sentence[:, None] - sentence)
    other_category = ~_equal([mention.category for mention in mentions])

    no_pronoun = _both(~pronoun)
    one_pronoun = pronoun[:, None] ^ pronoun
    other_gender, other_number, other_person = (_unlike(codes) for codes in (gender, number, person))
    disagree = other_gender | other_number | other_person
    known_gender = (gender[:, None] > 0) & (gender > 0)
    third = (person[:, None] == 3) & (person == 3)
    columns = {
        "one": np.ones(shared.shape),
        "same words": no_pronoun & same_words,
        "same head": no_pronoun & same_head,
        "shared words": no_pronoun * shared / np.maximum(either, 1.0),
        "names share a word": _both(name) & (shared > 0),
        "names share no word": _both(name) & (shared == 0),
        "descriptions of other heads": _both(description) & ~same_head,
        "name and description of other heads": (
            (name[:, None] & description | description[:, None] & name) & ~same_head
        ),
        "pronouns agree": _both(pronoun) & ~disagree,
        "pronouns disagree": _both(pronoun) & disagree,
        "first persons": _both(pronoun & (person == 1) & (number == _SINGULAR)),
        "pronoun agrees with words": one_pronoun & third & known_gender & ~disagree,
        "pronoun disagrees with words": one_pronoun & disagree,
        "pronoun, words of unknown gender": one_pronoun & third & ~known_gender & ~disagree,
        "categories differ": other_category,
        "numbers differ": other_number,
        "one within the other": _within(mentions),
        "same sentence": distance == 0,
        "log sentences apart": np.log1p(distance),
        "next agreeing mention": _next_agreeing(disagree | other_category),
    }
    return dense_pair_features(np.stack([columns[column].astype(np.float64) for column in NAMES], axis=-1), NAMES)


def mention_columns(text: CoreferenceText) -> dict[str, list[str | None]]:
    """Return properties of each mention, None where unknown: agreement, category, kind, and words by kind.

    Examples
    --------
    >>> mentions = [Mention(0, 0, 1, 0, "PROP", "PER"), Mention(0, 3, 3, 0, "PRON", "PER")]
    >>> columns = mention_columns(CoreferenceText("a", [["Lady", "Jane", "lost", "her", "way"]], mentions))
    >>> columns["gender"], columns["name"], columns["word"]
    (['2', '2'], ['jane', None], ['jane', None])
    """
    columns: dict[str, list[str | None]] = {name: [] for name in COLUMNS}
    for mention in text.mentions:
        words = [word.lower() for word in text.words(mention)]
        person, number, gender = (str(code) if code else None for code in _agreement(mention, words))
        head = None if mention.kind == "PRON" else _head(words)
        values = {
            "person": person, "number": number, "gender": gender, "category": mention.category, "kind": mention.kind,
            "word": head, "name": head if mention.kind == "PROP" else None,
            "description": head if mention.kind == "NOM" else None,
        }  # fmt: skip
        for name, value in values.items():
            columns[name].append(value)
    return columns


def _agreement(mention: Mention, words: list[str]) -> tuple[int, int, int]:
    """Return the person, number and gender of a mention; 0 is unknown."""
    if mention.kind == "PRON":
        return _PRONOUNS.get(" ".join(words), (0, 0, 0))
    head = _head(words)
    looks_plural = head in _PLURALS or (head.endswith("s") and not head.endswith("ss"))
    plural = "and" in words or (mention.kind == "NOM" and looks_plural)
    gender = next((_GENDERS[word.rstrip(".")] for word in words if word.rstrip(".") in _GENDERS), 0)
    return 3, _PLURAL if plural else _SINGULAR, gender if mention.category == "PER" else _THING


def _head(words: list[str]) -> str:
    """Return the last word before a preposition, a relative pronoun or a comma."""
    end = next((k for k, word in enumerate(words) if k > 0 and (word in _LINKS or word == ",")), len(words))
    return words[end - 1]


def _equal(values: Sequence[str]) -> BoolArray:
    array = np.array(values)
    return np.asarray(array[:, None] == array)


def _both(flags: BoolArray) -> BoolArray:
    return np.asarray(flags[:, None] & flags)


def _unlike(codes: IntArray) -> BoolArray:
    """Return whether the codes of two mentions are known and differ."""
    return np.asarray((codes[:, None] != codes) & (codes[:, None] > 0) & (codes > 0))


def _within(mentions: Sequence[Mention]) -> BoolArray:
    spans = np.array([[mention.sentence, mention.start, mention.end] for mention in mentions])
    sentence, start, end = spans.T
    inside = (sentence[:, None] == sentence) & (start[:, None] >= start) & (end[:, None] <= end)
    return np.asarray(inside | inside.T)


def _next_agreeing(disagree: BoolArray) -> BoolArray:
    """Return whether one mention is the last before the other that agrees with it."""
    is_next = np.zeros(disagree.shape, dtype=bool)
    for j in range(1, len(disagree)):
        earlier = np.flatnonzero(~disagree[j, :j])
        if earlier.size:
            is_next[earlier[-1], j] = is_next[j, earlier[-1]] = True
    return is_next
