"""Documents with mentions of entities, the input of `CoreferenceResolver`."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from intarsia._core.validation import IntArray
from intarsia.clusters.matcher import cluster_codes
from intarsia.exceptions import InvalidInputError

KINDS = ("PRON", "PROP", "NOM")


class Mention(NamedTuple):
    """Mention of an entity: the words from `start` to `end` (inclusive) of one sentence.

    `kind` is "PROP" for a name, "NOM" for a description, "PRON" for a pronoun; None: it is guessed from the words.
    `category` is the type of the entity, such as "PER" for persons; None: unknown.

    Examples
    --------
    >>> Mention(sentence=0, start=3, end=4, kind="PROP").end
    4
    """

    sentence: int
    start: int
    end: int
    kind: str | None = None
    category: str | None = None


@dataclass(frozen=True, eq=False)
class Document:
    """Text split into sentences and words, with its mentions.

    Parameters
    ----------
    name : str
        Name of the document.
    sentences : list of lists of str
        Words of each sentence.
    mentions : list of Mention
        Mentions, in any order; they can be nested.
    entities : list, optional
        Entity of each mention: any hashable label, None where it is unknown. `fit` and `score` need it.
    speakers : list of lists of str, optional
        Speaker of each word, "-" or "" where there is none, as in column 10 of CoNLL-2012.
    part_number : int
        Number of the part, for documents that CoNLL-2012 splits into parts.

    Examples
    --------
    >>> text = Document("a", [["Ann", "lost", "her", "hat", "."]], [Mention(0, 0, 0), Mention(0, 2, 2)], [7, 7])
    >>> text.words(text.mentions[1]), text.n_mentions
    (['her'], 2)
    """

    name: str
    sentences: Sequence[Sequence[str]]
    mentions: Sequence[Mention]
    entities: Sequence[Hashable] | None = None
    speakers: Sequence[Sequence[str]] | None = None
    part_number: int = 0

    def __post_init__(self) -> None:
        """Check that all mentions lie in the text, and that entities and speakers match."""
        for k, mention in enumerate(self.mentions):
            n_words = len(self.sentences[mention.sentence]) if 0 <= mention.sentence < len(self.sentences) else 0
            if not 0 <= mention.start <= mention.end < n_words:
                raise InvalidInputError(
                    f"document {self.name!r}: mention {k} covers words {mention.start} to {mention.end} of sentence "
                    f"{mention.sentence}, which has {n_words} words. Pass indices from 0; `end` is the last word."
                )
            if mention.kind is not None and mention.kind not in KINDS:
                raise InvalidInputError(
                    f"document {self.name!r}: mention {k} has kind {mention.kind!r}. Use 'PRON', 'PROP', 'NOM' or None."
                )
        spans = [mention[:3] for mention in self.mentions]
        if len(set(spans)) < len(spans):
            repeated = next(span for k, span in enumerate(spans) if span in spans[:k])
            raise InvalidInputError(
                f"document {self.name!r}: two mentions cover words {repeated[1]} to {repeated[2]} of sentence "
                f"{repeated[0]}. Remove one of them."
            )
        if self.entities is not None and len(self.entities) != len(self.mentions):
            raise InvalidInputError(
                f"document {self.name!r}: there are {len(self.mentions)} mentions, but {len(self.entities)} entities. "
                f"Pass one entity per mention, None where it is unknown."
            )
        lengths = [len(words) for words in self.sentences]
        if self.speakers is not None and [len(names) for names in self.speakers] != lengths:
            raise InvalidInputError(f"document {self.name!r}: speakers do not match the words. Pass one per word.")

    @property
    def n_mentions(self) -> int:
        """Number of mentions."""
        return len(self.mentions)

    def words(self, mention: Mention) -> list[str]:
        """Return the words of a mention."""
        return list(self.sentences[mention.sentence][mention.start : mention.end + 1])

    def with_entities(self, entities: Sequence[Hashable] | None) -> Document:
        """Return a copy of the document with other entities, for example predicted ones.

        Examples
        --------
        >>> text = Document("a", [["Ann", "smiled"]], [Mention(0, 0, 0)])
        >>> text.with_entities([3]).entities
        [3]
        """
        return replace(self, entities=entities)


def entity_codes(document: Document) -> IntArray:
    """Return the entity of each mention as an integer from 0, -1 where it is unknown; raise if there are none."""
    if document.entities is None:
        raise InvalidInputError(
            f"document {document.name!r} has no entities. Pass Document(..., entities=[...]), or y with a list of "
            f"entities for each document."
        )
    if not document.mentions:
        return cluster_codes([0], 1)[:0]
    return cluster_codes(document.entities, document.n_mentions)
