"""Properties of the mentions of a document, computed from the words: head, agreement, definiteness, quotations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from intarsia._core.validation import IntArray
from intarsia_reproduction.coreference import words as lexicon
from intarsia_reproduction.coreference.document import KINDS, Document, Mention

PRON, PROP, NOM = range(3)
NO_ARTICLE, THE, INDEFINITE, DEMONSTRATIVE, POSSESSED = range(5)


@dataclass(frozen=True, eq=False)
class MentionTable:
    """Properties of the mentions of a document in the order of the text, longer mentions first.

    Attributes
    ----------
    order : int array
        Index of each mention in the document.
    kind, person, number, gender, form, pronoun_class, article : int arrays
        Kind, agreement (0: unknown), form and class of pronouns, and article.
    category, head, string, first_word, last_word : int arrays
        Codes of the category (-1: unknown), head, words without articles, first and last word of content.
    sentence, start, end, rank : int arrays
        Position, and the number of mentions of the sentence before it.
    quotation, quotation_speaker : int arrays
        Quotation that contains the mention (-1: none), and the mention that speaks it (-1: unknown).
    speaker : int array
        Code of the annotated speaker (-1: none).
    content : list of frozensets
        Content words.
    heads, before, after : lists of str
        Head, and the words before and after the mention, in lower case.
    """

    order: IntArray
    kind: IntArray
    person: IntArray
    number: IntArray
    gender: IntArray
    form: IntArray
    pronoun_class: IntArray
    article: IntArray
    category: IntArray
    head: IntArray
    string: IntArray
    first_word: IntArray
    last_word: IntArray
    sentence: IntArray
    start: IntArray
    end: IntArray
    rank: IntArray
    quotation: IntArray
    quotation_speaker: IntArray
    speaker: IntArray
    content: list[frozenset[str]]
    heads: list[str]
    before: list[str]
    after: list[str]

    @property
    def n_mentions(self) -> int:
        """Number of mentions."""
        return self.order.size


def mention_table(document: Document) -> MentionTable:
    """Compute the properties of all mentions of a document.

    Examples
    --------
    >>> text = Document("a", [["Mrs.", "Lee", "lost", "her", "hat"]], [Mention(0, 3, 3), Mention(0, 0, 1)])
    >>> table = mention_table(text)
    >>> table.order.tolist(), table.gender.tolist(), table.heads
    ([1, 0], [2, 2], ['lee', 'her'])
    """
    positions = [(m.sentence, m.start, -m.end) for m in document.mentions]
    order = sorted(range(len(positions)), key=positions.__getitem__)
    mentions = [document.mentions[k] for k in order]
    words = [[word.lower() for word in document.words(mention)] for mention in mentions]
    heads = [_head(mention_words) for mention_words in words]
    kinds = [
        _guess_kind(document, mention) if mention.kind is None else KINDS.index(mention.kind) for mention in mentions
    ]
    facts = np.array(
        [_agreement(*item) for item in zip(mentions, words, heads, kinds, strict=True)], dtype=np.int64
    ).reshape(-1, 5)
    content_words = [[word for word in mention_words if word not in lexicon.SMALL_WORDS] for mention_words in words]
    sentence, start, end = (np.array([mention[k] for mention in mentions], dtype=np.int64) for k in range(3))
    quotation_of_word, n_quotations = _quotations(document)
    quotation = np.array([quotation_of_word[m.sentence][m.start] for m in mentions], dtype=np.int64)
    speakers = [None if document.speakers is None else document.speakers[m.sentence][m.start] for m in mentions]
    lower = [[word.lower() for word in sentence_words] for sentence_words in document.sentences]
    person, number, gender, form, pronoun_class = facts.T
    return MentionTable(
        order=np.array(order, dtype=np.int64),
        kind=np.array(kinds, dtype=np.int64),
        person=person,
        number=number,
        gender=gender,
        form=form,
        pronoun_class=pronoun_class,
        article=np.array([_article(mention_words) for mention_words in words], dtype=np.int64),
        category=_codes([mention.category for mention in mentions]),
        head=_codes(heads),
        string=_codes(
            [" ".join(content_list or all_words) for content_list, all_words in zip(content_words, words, strict=True)]
        ),
        first_word=_codes([_name_words(content_list)[0] if content_list else None for content_list in content_words]),
        last_word=_codes([content_list[-1] if content_list else None for content_list in content_words]),
        sentence=sentence,
        start=start,
        end=end,
        rank=np.arange(sentence.size) - np.searchsorted(sentence, sentence),
        quotation=quotation,
        quotation_speaker=_quotation_speakers(lower, quotation_of_word, n_quotations, mentions, quotation),
        speaker=_codes([None if name in (None, "", "-", "_") else name for name in speakers]),
        content=[frozenset(content_list) for content_list in content_words],
        heads=heads,
        before=[lower[m.sentence][m.start - 1] if m.start else "" for m in mentions],
        after=[lower[m.sentence][m.end + 1] if m.end + 1 < len(lower[m.sentence]) else "" for m in mentions],
    )


def _codes(values: Sequence[str | None]) -> IntArray:
    """Return an integer for each distinct string, -1 for None."""
    code_of: dict[str, int] = {}
    return np.array([-1 if v is None else code_of.setdefault(v, len(code_of)) for v in values], dtype=np.int64)


def _name_words(content_list: Sequence[str]) -> Sequence[str]:
    """Return the words of a name without titles, unless it has only titles."""
    return [word for word in content_list if word.rstrip(".") not in lexicon.TITLES] or content_list


def _head(words: Sequence[str]) -> str:
    """Return the last word before a preposition, a relative pronoun or a comma."""
    end = next((k for k, word in enumerate(words) if k > 0 and word in lexicon.HEAD_ENDS), len(words))
    head = words[end - 1]
    return words[end - 2] if head in ("'s", "'") and end > 1 else head


def _guess_kind(document: Document, mention: Mention) -> int:
    """Return the kind of a mention from its words: a pronoun, a name with capital letters, or a description."""
    words = document.words(mention)
    first = words[0].lower()
    if len(words) == 1 and first in lexicon.PRONOUNS:
        return PRON
    if mention.start == 0 and len(words) == 1:
        # The first word of a sentence has a capital letter anyway, so it must occur elsewhere.
        later_words = (word for sentence in document.sentences for word in sentence[1:])
        return PROP if first != words[0] and words[0] in later_words else NOM
    if first in lexicon.POSSESSIVES:
        return NOM
    start = int(first in ("the", "a", "an", "this", "that"))
    head = _head([word.lower() for word in words])
    return PROP if any(word.lower() == head and word[:1].isupper() for word in words[start:]) else NOM


def _agreement(mention: Mention, words: Sequence[str], head: str, kind: int) -> tuple[int, int, int, int, int]:
    """Return person, number, gender (0: unknown), and form and class of a pronoun."""
    no_pronoun = lexicon.N_PRONOUN_CLASSES
    if kind == PRON:
        word = next((w.rstrip(".") for w in words if w.rstrip(".") in lexicon.PRONOUNS), "")
        return (*lexicon.PRONOUNS.get(word, (0, 0, 0, 0)), lexicon.PRONOUN_CLASS.get(word, no_pronoun))
    bare = head.rstrip(".")
    looks_plural = bare in lexicon.PLURAL_HEADS or (
        kind == NOM and bare.endswith("s") and not bare.endswith(("ss", "us", "is")) and bare not in lexicon.GENDERS
    )
    end = next((k for k, word in enumerate(words) if k > 0 and word in lexicon.HEAD_ENDS), len(words))
    plural = looks_plural or "and" in words[:end]
    number = 0 if bare in lexicon.GROUPS else lexicon.PLURAL if plural else lexicon.SINGULAR
    candidates = [bare, *(word.rstrip(".") for word in words[:end])]
    gender = next((lexicon.GENDERS[word] for word in candidates if word in lexicon.GENDERS), 0)
    if mention.category not in (None, "PER", "PERSON"):
        gender = lexicon.THING
    return 3, number, gender, 0, no_pronoun


def _article(words: Sequence[str]) -> int:
    """Return the kind of the first word: article, demonstrative, possessive or none of these."""
    first = words[0]
    if first in lexicon.DEFINITE:
        return THE
    if first in lexicon.INDEFINITE:
        return INDEFINITE
    if first in lexicon.DEMONSTRATIVE:
        return DEMONSTRATIVE
    return POSSESSED if len(words) > 1 and (first in lexicon.POSSESSIVES or "'s" in words) else NO_ARTICLE


def _quotations(document: Document) -> tuple[list[IntArray], int]:
    """Return for each word the number of its quotation, -1 outside, and the number of quotations.

    A plain quotation mark opens a quotation if none is open. A quotation that is still open after ten sentences is
    taken to have ended with the sentence in which it began.
    """
    quotation_of_word = [np.full(len(words), -1, dtype=np.int64) for words in document.sentences]
    current, n_quotations, opening_sentence = -1, 0, 0
    for index, words in enumerate(document.sentences):
        if current >= 0 and index - opening_sentence > 10:
            for following_sentence in range(opening_sentence + 1, index):
                quotation_of_word[following_sentence][quotation_of_word[following_sentence] == current] = -1
            current = -1
        for position, word in enumerate(words):
            opens = word in lexicon.OPENING_QUOTES or (word in lexicon.EITHER_QUOTES and current < 0)
            closes = word in lexicon.CLOSING_QUOTES or (word in lexicon.EITHER_QUOTES and current >= 0)
            if opens:
                current, opening_sentence = n_quotations, index
                n_quotations += 1
            quotation_of_word[index][position] = current
            if closes and not opens:
                current = -1
    return quotation_of_word, n_quotations


def _quotation_speakers(
    lower: Sequence[Sequence[str]],
    quotation_of_word: Sequence[IntArray],
    n_quotations: int,
    mentions: Sequence[Mention],
    quotation: IntArray,
) -> IntArray:
    """Return for each mention in a quotation the mention that speaks it: the one beside a verb of speech, or -1."""
    speaker_of_quotation = np.full(n_quotations, -1, dtype=np.int64)
    by_sentence: dict[int, list[int]] = {}
    for k, mention in enumerate(mentions):
        by_sentence.setdefault(mention.sentence, []).append(k)
    for index, words in enumerate(lower):
        quotations = quotation_of_word[index]
        adjacent = np.unique(quotations[quotations >= 0])
        if index and quotation_of_word[index - 1].size and quotation_of_word[index - 1][-1] >= 0:
            adjacent = np.union1d(adjacent, quotation_of_word[index - 1][-1:])
        if not adjacent.size:
            continue
        outside = [k for k in by_sentence.get(index, []) if quotation[k] < 0 and not _is_possessive(mentions[k], lower)]
        best, best_distance = -1, 5
        for k in outside:
            beside = range(max(mentions[k].start - 2, 0), min(mentions[k].end + 3, len(words)))
            for position in beside:
                if words[position] in lexicon.SPEECH_VERBS and quotations[position] < 0:
                    gap = max(mentions[k].start - position, position - mentions[k].end)
                    if gap < best_distance:
                        best, best_distance = k, gap
        if best >= 0:
            unset = adjacent[speaker_of_quotation[adjacent] < 0]
            speaker_of_quotation[unset] = best
    return np.where(quotation >= 0, np.append(speaker_of_quotation, -1)[quotation], -1)


def _is_possessive(mention: Mention, lower: Sequence[Sequence[str]]) -> bool:
    """Return whether a mention is a possessive pronoun."""
    word = lower[mention.sentence][mention.start]
    return mention.start == mention.end and word in lexicon.POSSESSIVES
