"""Texts with a tag for each word: chunks of newspaper sentences, fields of references."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from intarsia.exceptions import FileFormatError
from intarsia.sequences.conll import read_conll
from intarsia_reproduction.datasets.location import require


@dataclass(frozen=True, eq=False)
class TaggedSequences:
    """Sequences of words with their tags.

    Attributes
    ----------
    words, tags : lists of lists of str
        One tag for each word, in IOB2: B- and I- before the label, O outside.
    pos : list of lists of str, optional
        Parts of speech, where the set has them.
    paths : list of lists of str, optional
        Nested fields from the outermost to the innermost, such as `authors/person/person-last`, where the set has them.

    Examples
    --------
    >>> len(TaggedSequences([["the", "cat"]], [["B-NP", "I-NP"]]))
    1
    """

    words: list[list[str]]
    tags: list[list[str]]
    pos: list[list[str]] | None = None
    paths: list[list[str]] | None = None

    def __len__(self) -> int:
        return len(self.words)


@dataclass(frozen=True, eq=False)
class TaggedParts:
    """The parts of a set as published.

    Attributes
    ----------
    train, test : TaggedSequences
        To learn from and to test on.
    dev : TaggedSequences, optional
        To choose settings on, where the set has such a part.

    Examples
    --------
    >>> some = TaggedSequences([["the", "cat"]], [["B-NP", "I-NP"]])
    >>> TaggedParts(train=some, test=some).dev is None
    True
    """

    train: TaggedSequences
    test: TaggedSequences
    dev: TaggedSequences | None = None


def load_conll2000(data: str | os.PathLike[str] | None = None) -> TaggedParts:
    """Newspaper sentences with parts of speech and chunks, from `conll2000/train.txt.gz` and `conll2000/test.txt.gz`.

    The files hold word, part of speech and chunk tag in CoNLL columns. There is no part for choosing settings.

    Parameters
    ----------
    data : path, optional
        Folder to look in first; by default the one named by INTARSIA_DATA, then the user's cache.

    Raises
    ------
    MissingDataError
        A file is not there; the message says where it comes from.
    FileFormatError
        A file is damaged.

    Examples
    --------
    >>> sentences = load_conll2000()       # doctest: +SKIP
    >>> len(sentences.train), sentences.train.words[0][:3]        # doctest: +SKIP
    (8936, ['Confidence', 'in', 'the'])
    """
    train, test = require("conll2000", data)
    return TaggedParts(*(_read(path, ("words", "pos", "tags")) for path in (train, test)))


def load_umass_citations(data: str | os.PathLike[str] | None = None) -> TaggedParts:
    """References of papers with nested fields, from `umass_citation/training.tsv.gz`, `dev.tsv.gz`, `testing.tsv.gz`.

    The files hold token, tag of the innermost field and path of the fields, separated by tabs. What belongs to an
    outer field only bears its label: the "and" between two persons is `B-authors`.

    Parameters
    ----------
    data : path, optional
        Folder to look in first; by default the one named by INTARSIA_DATA, then the user's cache.

    Raises
    ------
    MissingDataError
        A file is not there; the message says where it comes from.
    FileFormatError
        A file is damaged.

    Examples
    --------
    >>> citations = load_umass_citations()       # doctest: +SKIP
    >>> len(citations.train), len(citations.dev), len(citations.test)        # doctest: +SKIP
    (1457, 660, 367)
    """
    tables = [path for path in require("umass_citation", data) if path.name.endswith(".tsv.gz")]
    train, dev, test = (_read(path, ("words", "tags", "paths"), "\t") for path in tables)
    return TaggedParts(train, test, dev)


def load_cora_ie(data: str | os.PathLike[str] | None = None) -> TaggedSequences:
    """References of papers with 13 fields, from `cora_ie/cora_ie.tsv.gz`: token and tag, separated by a tab.

    There is no published split.

    Parameters
    ----------
    data : path, optional
        Folder to look in first; by default the one named by INTARSIA_DATA, then the user's cache.

    Raises
    ------
    MissingDataError
        A file is not there; the message says where it comes from.
    FileFormatError
        A file is damaged.

    Examples
    --------
    >>> references = load_cora_ie()       # doctest: +SKIP
    >>> references.words[0][:2], references.tags[0][:2]        # doctest: +SKIP
    (['A.', 'Cau,'], ['B-author', 'I-author'])
    """
    path, _ = require("cora_ie", data)
    return _read(path, ("words", "tags"), "\t")


def _read(path: Path, columns: tuple[str, ...], separator: str | None = None) -> TaggedSequences:
    found: dict[str, list[list[str]]] = {column: [] for column in columns}
    for sequence in read_conll(path, separator=separator):
        if len(sequence) != len(columns):
            raise FileFormatError(
                f"{path.name}: {len(sequence)} columns, expected {len(columns)} ({', '.join(columns)}). Get the file "
                f"again."
            )
        for column, values in zip(columns, sequence, strict=True):
            found[column].append(values)
    return TaggedSequences(**found)
