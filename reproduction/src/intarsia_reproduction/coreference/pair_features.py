"""Features of a mention and a possible antecedent, as a sparse matrix with a row per pair."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from intarsia._core.validation import IntArray
from intarsia_reproduction.coreference import words as lexicon
from intarsia_reproduction.coreference.document import Document
from intarsia_reproduction.coreference.mentions import PRON, PROP, MentionTable, mention_table

BoolArray = NDArray[np.bool_]

_SENTENCES = (0, 1, 2, 4, 8, 16)
_MENTIONS = (1, 2, 4, 8, 16, 32)
_BETWEEN = (0, 1, 2, 4, 8)
_COUNTS = (1, 2, 4, 8, 16)
_KIND_NAMES = ("pronoun", "name", "description")
_ARTICLES = ("no article", "the", "indefinite", "demonstrative", "possessive")
_CLASSES = ("I", "we", "you", "he", "she", "it", "they", "who", "one", "no pronoun")


@dataclass(frozen=True, eq=False)
class AntecedentPairs:
    """Mentions of a document with their candidate antecedents and features.

    Attributes
    ----------
    table : MentionTable
        Properties of the mentions.
    antecedent, mention : int arrays (n_pairs,)
        Earlier and later mention of each pair, as rows of the table; sorted by the later mention, nearest first.
    ptr : int array (n_mentions + 1,)
        Pairs ptr[j]..ptr[j + 1] - 1 are those of mention j.
    features : CSR array (n_pairs, n_features)
        Features of the pairs.
    new_features : CSR array (n_mentions, n_new_features)
        Features of beginning a new entity.
    """

    table: MentionTable
    antecedent: IntArray
    mention: IntArray
    ptr: IntArray
    features: Any
    new_features: Any


def antecedent_pairs(document: Document, max_distance: int) -> AntecedentPairs:
    """Return the candidate antecedents of each mention with their features.

    Candidates are the `max_distance` mentions before a mention and, unless it is a pronoun, all earlier names and
    descriptions that share a content word with it.

    Examples
    --------
    >>> from intarsia_reproduction.coreference.document import Mention
    >>> text = Document("a", [["Ann", "lost", "her", "hat"]], [Mention(0, 0, 0), Mention(0, 2, 2)])
    >>> pairs = antecedent_pairs(text, 10)
    >>> pairs.antecedent.tolist(), pairs.mention.tolist(), pairs.features.shape[1] == len(PAIR_FEATURES)
    ([0], [1], True)
    """
    table = mention_table(document)
    antecedent, mention = _candidates(table, max_distance)
    ptr = np.searchsorted(mention, np.arange(table.n_mentions + 1)).astype(np.int64)
    kinds = table.kind[antecedent] * len(_KIND_NAMES) + table.kind[mention]
    columns = [column for _, column in _pair_columns(table, antecedent, mention)]
    features = _conjoin(columns, kinds, len(_KIND_NAMES) ** 2)
    new_features = _conjoin([column for _, column in _new_columns(table)], table.kind, len(_KIND_NAMES))
    return AntecedentPairs(table, antecedent, mention, ptr, features, new_features)


def _candidates(table: MentionTable, max_distance: int) -> tuple[IntArray, IntArray]:
    """Return antecedent and mention of all candidate pairs, by mention and from the nearest antecedent on."""
    antecedents, mentions = [], []
    by_word: dict[str, list[int]] = {}
    for j in range(table.n_mentions):
        near = range(max(j - max_distance, 0), j)
        candidates = set(near)
        if table.kind[j] != PRON:
            for word in table.content[j]:
                candidates.update(by_word.get(word, ()))
                by_word.setdefault(word, []).append(j)
        antecedents.extend(sorted(candidates, reverse=True))
        mentions.extend([j] * len(candidates))
    return np.array(antecedents, dtype=np.int64), np.array(mentions, dtype=np.int64)


def _bucket(values: IntArray, bounds: tuple[int, ...]) -> IntArray:
    """Return the number of the interval of each value: up to the first bound, up to the second, and so on."""
    return np.searchsorted(np.array(bounds), values, side="left")


def _pair_columns(t: MentionTable, i: IntArray, j: IntArray) -> Iterator[tuple[str, BoolArray]]:
    """Yield name and values of each base feature of the pairs of antecedents i and mentions j."""
    words = t.kind != PRON
    both_words = words[i] & words[j]
    one_pronoun = words[i] ^ words[j]
    both_pronouns = ~words[i] & ~words[j]
    names = (t.kind[i] == PROP) & (t.kind[j] == PROP)
    same_head, same_string = t.head[i] == t.head[j], t.string[i] == t.string[j]
    shared = np.zeros(i.size, dtype=np.int64)
    sizes = np.array([len(content) for content in t.content], dtype=np.int64)
    rows = np.flatnonzero(both_words)
    shared[rows] = [len(t.content[a] & t.content[b]) for a, b in zip(i[rows], j[rows], strict=True)]
    smaller, larger = np.minimum(sizes[i], sizes[j]), np.maximum(sizes[i], sizes[j])
    contained = both_words & (shared == smaller) & (smaller > 0)

    def compare(codes: IntArray) -> tuple[BoolArray, BoolArray]:
        """Return whether both codes are known and equal, and whether they are known and different."""
        both_known = (codes[i] > 0) & (codes[j] > 0)
        return both_known & (codes[i] == codes[j]), both_known & (codes[i] != codes[j])

    (same_gender, other_gender), (same_number, other_number), (same_person, other_person) = map(
        compare, (t.gender, t.number, t.person)
    )
    same_category, other_category = compare(t.category + 1)
    disagree = other_gender | other_number | other_category

    yield "bias", np.ones(i.size, dtype=bool)
    yield "same words", both_words & same_string
    yield "same head", both_words & same_head
    yield "same head, other words", both_words & same_head & ~same_string
    yield "all words of one in the other", contained & ~same_string
    yield "share a word", both_words & (shared > 0)
    yield "share no word", both_words & (shared == 0)
    yield "share half of the words", both_words & (2 * shared >= larger) & (shared > 0)
    yield "same last word", both_words & (t.last_word[i] == t.last_word[j]) & (t.last_word[i] >= 0)
    yield "same first word", both_words & (t.first_word[i] == t.first_word[j]) & (t.first_word[i] >= 0)
    yield "names of other genders", names & other_gender
    yield "one within the other", _within(t, i, j)
    for label, (is_equal, is_other) in {
        "gender": (same_gender, other_gender),
        "number": (same_number, other_number),
        "person": (same_person, other_person),
        "category": (same_category, other_category),
    }.items():
        yield f"same {label}", is_equal
        yield f"other {label}", is_other
    yield "pronoun disagrees", (one_pronoun | both_pronouns) & disagree
    yield "same pronoun", both_pronouns & (t.head[i] == t.head[j])
    yield "same form of pronoun", both_pronouns & (t.form[i] == t.form[j])
    yield "reflexive", (t.form[j] == lexicon.REFLEXIVE) & (t.sentence[i] == t.sentence[j])

    gap = t.sentence[j] - t.sentence[i]
    for k in range(len(_SENTENCES) + 1):
        yield f"sentences apart {k}", _bucket(gap, _SENTENCES) == k
    steps = _bucket(j - i, _MENTIONS)
    for k in range(len(_MENTIONS) + 1):
        yield f"mentions apart {k}", steps == k
    between = _bucket(_agreeing_between(t, i, j, disagree | (other_person & both_pronouns)), _BETWEEN)
    for k in range(len(_BETWEEN) + 1):
        yield f"agreeing mentions between {k}", ~disagree & (between == k)
    adjacent = (gap == 0) & (t.start[j] - t.end[i] == 2)
    comma = np.array([after == "," for after in t.after], dtype=bool)
    copula = np.array([after in lexicon.COPULAS for after in t.after], dtype=bool)
    yield "apposition", adjacent & comma[i] & both_words
    yield "copula", (gap == 0) & copula[i] & (t.start[j] - t.end[i] <= 4) & (t.start[j] > t.end[i])
    prepositions = np.array([before in lexicon.HEAD_ENDS for before in t.before], dtype=bool)
    yield "both first of their sentences", (t.rank[i] == 0) & (t.rank[j] == 0)
    yield "antecedent first of its sentence", t.rank[i] == 0
    yield "antecedent after preposition", prepositions[i]
    yield "same rank in the next sentence", (t.rank[i] == t.rank[j]) & (gap == 1)
    count = np.bincount(t.head[t.kind != PRON], minlength=int(t.head.max(initial=0)) + 1) if t.n_mentions else t.head
    salience = _bucket(count[t.head[i]] if i.size else i, _COUNTS)
    for k in range(len(_COUNTS) + 1):
        yield f"uses of the antecedent's head {k}", words[i] & (salience == k)
    for k, label in enumerate(_ARTICLES):
        yield f"antecedent {label}", words[i] & (t.article[i] == k)
        yield f"mention {label}", words[j] & (t.article[j] == k)
    has_head, has_string = _seen_before(t.head, words), _seen_before(t.string, words)
    yield "mention has earlier head", words[j] & has_head[j]
    yield "mention has earlier words", words[j] & has_string[j]
    yield "mention has earlier words, these are others", both_words & has_string[j] & ~same_string
    yield from _quotation_columns(t, i, j, gap)
    pronoun_pair = t.pronoun_class[i] * len(_CLASSES) + t.pronoun_class[j]
    for first, first_class in enumerate(_CLASSES):
        for second, second_class in enumerate(_CLASSES[:-1]):
            yield f"{first_class} before {second_class}", pronoun_pair == first * len(_CLASSES) + second


def _quotation_columns(t: MentionTable, i: IntArray, j: IntArray, gap: IntArray) -> Iterator[tuple[str, BoolArray]]:
    """Yield the features of quotations and speakers."""
    inside_i, inside_j = t.quotation[i] >= 0, t.quotation[j] >= 0
    same_quotation = inside_i & (t.quotation[i] == t.quotation[j])
    first, second = t.person == 1, t.person == 2
    both_first, both_second = first[i] & first[j], second[i] & second[j]
    first_second = (first[i] & second[j]) | (second[i] & first[j])
    yield "both outside quotations", ~inside_i & ~inside_j
    yield "same quotation", same_quotation
    yield "other quotations", inside_i & inside_j & ~same_quotation
    yield "one inside a quotation", inside_i ^ inside_j
    for label, have_persons in (
        ("first persons", both_first),
        ("second persons", both_second),
        ("I and you", first_second),
    ):
        yield f"{label}, same quotation", have_persons & same_quotation
        yield f"{label}, next quotation", have_persons & (t.quotation[j] == t.quotation[i] + 1) & inside_i
        yield f"{label}, other quotations", have_persons & inside_i & inside_j & ~same_quotation
        yield f"{label}, no quotation", have_persons & ~inside_i & ~inside_j
        yield f"{label}, one inside", have_persons & (inside_i ^ inside_j)
    speaks_j, speaks_i = t.quotation_speaker[j] == i, t.quotation_speaker[i] == j
    yield "speaker and I", (speaks_j & first[j]) | (speaks_i & first[i])
    yield "speaker and you", (speaks_j & second[j]) | (speaks_i & second[i])
    yield "speaker and third person", (speaks_j & ~first[j] & ~second[j]) | (speaks_i & ~first[i] & ~second[i])
    speaker_i, speaker_j = t.quotation_speaker[i], t.quotation_speaker[j]
    speakers_known = (speaker_i >= 0) & (speaker_j >= 0)
    same_speaker = speakers_known & (t.string[speaker_i] == t.string[speaker_j])
    yield "first persons, same speaker", both_first & same_speaker
    yield "first persons, other speakers", both_first & speakers_known & ~same_speaker
    yield "I and you, same speaker", first_second & same_speaker
    yield "I and you, other speakers", first_second & speakers_known & ~same_speaker
    annotated = (t.speaker[i] >= 0) & (t.speaker[j] >= 0)
    equal = annotated & (t.speaker[i] == t.speaker[j])
    for label, have_persons in (
        ("first persons", both_first),
        ("second persons", both_second),
        ("I and you", first_second),
    ):
        yield f"{label}, same annotated speaker", have_persons & equal
        yield f"{label}, other annotated speaker", have_persons & annotated & ~equal


def _within(t: MentionTable, i: IntArray, j: IntArray) -> BoolArray:
    """Return whether one mention contains the other."""
    return np.asarray((t.sentence[i] == t.sentence[j]) & (t.start[j] <= t.end[i]))


def _agreeing_between(t: MentionTable, i: IntArray, j: IntArray, disagree: BoolArray) -> IntArray:
    """Return the number of nearer candidates of mention j that agree with it; pairs are sorted from the nearest on."""
    agree = (~disagree).astype(np.int64)
    before = np.concatenate([[0], np.cumsum(agree)])[:-1]
    first = np.searchsorted(j, j, side="left")
    return before - before[first] if j.size else before


def _seen_before(codes: IntArray, selected: BoolArray) -> BoolArray:
    """Return for each mention whether an earlier selected mention has the same code."""
    earlier_codes: set[int] = set()
    result = np.zeros(codes.size, dtype=bool)
    for k, code in enumerate(codes.tolist()):
        if selected[k]:
            result[k] = code in earlier_codes
            earlier_codes.add(code)
    return result


def _new_columns(t: MentionTable) -> Iterator[tuple[str, BoolArray]]:
    """Yield name and values of each base feature of beginning a new entity."""
    words = t.kind != PRON
    has_head, has_string = _seen_before(t.head, words), _seen_before(t.string, words)
    yield "bias", np.ones(t.n_mentions, dtype=bool)
    for k, label in enumerate(_ARTICLES):
        yield label, words & (t.article == k)
    yield "head seen before", words & has_head
    yield "head not seen before", words & ~has_head
    yield "words seen before", words & has_string
    yield "head seen before with other words", words & has_head & ~has_string
    for k, label in enumerate(_CLASSES[:-1]):
        yield label, t.pronoun_class == k
    yield "plural", t.number == lexicon.PLURAL
    yield "thing", t.gender == lexicon.THING
    yield "in a quotation", t.quotation >= 0
    yield "first person in a quotation", (t.quotation >= 0) & (t.person == 1)
    yield "second person in a quotation", (t.quotation >= 0) & (t.person == 2)
    for limit in (1, 5, 20):
        yield f"among the first {limit} mentions", np.arange(t.n_mentions) < limit


def _conjoin(columns: list[BoolArray], combination: IntArray, n_combinations: int) -> Any:
    """Return a CSR array of the columns, and of the columns for each combination of kinds."""
    rows_of_column = [np.flatnonzero(column) for column in columns]
    rows = np.concatenate(rows_of_column)
    column = np.repeat(np.arange(len(columns)), [len(rows) for rows in rows_of_column])
    conjoined = len(columns) * (1 + combination[rows]) + column
    indices = (np.concatenate([rows, rows]), np.concatenate([column, conjoined]))
    shape = (combination.size, len(columns) * (1 + n_combinations))
    return csr_array((np.ones(2 * rows.size), indices), shape=shape)


_NO_MENTIONS, _NO_PAIRS = mention_table(Document("", [], [])), np.empty(0, dtype=np.int64)
_BASE_NAMES = tuple(name for name, _ in _pair_columns(_NO_MENTIONS, _NO_PAIRS, _NO_PAIRS))
_NEW_NAMES = tuple(name for name, _ in _new_columns(_NO_MENTIONS))
# Names of the columns: each base feature, and each base feature for the kinds of antecedent and mention.
PAIR_FEATURES: tuple[str, ...] = (
    *_BASE_NAMES,
    *(f"{name} ({first}, {second})" for first in _KIND_NAMES for second in _KIND_NAMES for name in _BASE_NAMES),
)
NEW_FEATURES: tuple[str, ...] = (*_NEW_NAMES, *(f"{name} ({kind})" for kind in _KIND_NAMES for name in _NEW_NAMES))
