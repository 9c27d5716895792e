"""LitBank: coreference of persons, places and things in works of fiction."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from intarsia._core.validation import IntArray
from intarsia._files.text_lines import read_lines
from intarsia.exceptions import FileFormatError
from intarsia_reproduction.datasets.location import require

KINDS = ("PROP", "NOM", "PRON")


class Mention(NamedTuple):
    """Mention of an entity: the words from `start` to `end` (inclusive) of one sentence.

    `kind` is PROP for a name, NOM for a description, PRON for a pronoun; `category` is PER for persons, FAC for
    buildings, LOC and GPE for places, VEH for vehicles, ORG for organisations.

    Examples
    --------
    >>> Mention(sentence=0, start=3, end=4, entity=7, kind="PROP", category="PER").entity
    7
    """

    sentence: int
    start: int
    end: int
    entity: int
    kind: str
    category: str


@dataclass(frozen=True, eq=False)
class CoreferenceText:
    """Text split into sentences, with its mentions.

    Attributes
    ----------
    name : str
        Name of the text.
    sentences : list of lists of str
        Words of each sentence.
    mentions : list of Mention
        Mentions in the order of the text; they can be nested.

    Examples
    --------
    >>> text = CoreferenceText("a", [["Ann", "smiled", "."]], [Mention(0, 0, 0, 5, "PROP", "PER")])
    >>> text.words(text.mentions[0]), text.entity
    (['Ann'], array([5]))
    """

    name: str
    sentences: list[list[str]]
    mentions: list[Mention]

    @property
    def entity(self) -> IntArray:
        """Entity of each mention, as an array."""
        return np.array([mention.entity for mention in self.mentions], dtype=np.int64)

    def words(self, mention: Mention) -> list[str]:
        """Return the words of a mention."""
        return self.sentences[mention.sentence][mention.start : mention.end + 1]


def load_litbank(data: str | os.PathLike[str] | None = None) -> list[CoreferenceText]:
    """Load 100 excerpts of fiction with 29,103 mentions of 7,927 entities, from `litbank/litbank_coref.jsonl.gz`.

    Each line of the file is a JSON document with `doc`, `sentences` (lists of words) and `mentions`: lists of
    sentence, first word, sentence of the last word, last word, entity, kind and category.

    Parameters
    ----------
    data : path, optional
        Folder to search first; by default the folder in INTARSIA_DATA. The user's cache folder is searched last.

    Raises
    ------
    MissingDataError
        The file is missing; the message says where to obtain it.
    FileFormatError
        The file is damaged.

    Examples
    --------
    >>> texts = load_litbank()       # doctest: +SKIP
    >>> len(texts), texts[0].words(texts[0].mentions[0])        # doctest: +SKIP
    (100, ['Chancery'])
    """
    (path,) = require("litbank", data)
    return [_read_text(line, path, number) for number, line in read_lines(path) if line.strip()]


def _read_text(line: str, path: Path, number: int) -> CoreferenceText:
    place = f"{path.name}, line {number}"
    try:
        document: Any = json.loads(line)
        sentences = [[str(word) for word in words] for words in document["sentences"]]
        mentions = []
        for sentence, start, last_sentence, end, entity, kind, category in document["mentions"]:
            mention = Mention(int(sentence), int(start), int(end), int(entity), str(kind), str(category))
            inside = 0 <= mention.sentence < len(sentences) and sentence == last_sentence
            if not inside or not 0 <= mention.start <= mention.end < len(sentences[mention.sentence]):
                raise FileFormatError(
                    f"{place}: words {start} to {end} of sentence {sentence}, a mention, are not in the text. "
                    f"Download the file again."
                )
            if kind not in KINDS or mention.entity < 0:
                raise FileFormatError(
                    f"{place}: a mention has kind {kind!r:.20} and entity {entity!r:.20}, expected one of "
                    f"{', '.join(KINDS)} and an integer from 0 on."
                )
            mentions.append(mention)
        return CoreferenceText(str(document["doc"]), sentences, mentions)
    except FileFormatError:
        raise
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise FileFormatError(
            f"{place}: expected a JSON document with 'doc', 'sentences' and 'mentions'. Download the file again."
        ) from None
