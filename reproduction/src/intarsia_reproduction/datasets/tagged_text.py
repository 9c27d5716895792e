"""Sequences with a tag for each word: chunks of newspaper sentences, fields of bibliographic references."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from intarsia.exceptions import FileFormatError
from intarsia.sequences.conll import read_conll
from intarsia_reproduction.datasets.location import require


@dataclass(frozen=True, eq=False)
class TaggedSequences:
    """Sequences of words with one tag per word.

    Attributes
    ----------
    words, tags : lists of lists of str
        Words and tags, in the IOB2 scheme: B- or I- before the label, O outside.
    pos : list of lists of str, optional
        Part-of-speech tags, if the data set has them.
    paths : list of lists of str, optional
        Nested fields from the outermost to the innermost, such as `authors/person/person-last`, if the data set has
        them.

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
    """Published split of a data set.

    Attributes
    ----------
    train, test : TaggedSequences
        Training and test sequences.
    dev : TaggedSequences, optional
        Development sequences for choosing hyperparameters, if the data set has them.

    Examples
    --------
    >>> sequences = TaggedSequences([["the", "cat"]], [["B-NP", "I-NP"]])
    >>> TaggedParts(train=sequences, test=sequences).dev is None
    True
    """

    train: TaggedSequences
    test: TaggedSequences
    dev: TaggedSequences | None = None


def load_conll2000(data: str | os.PathLike[str] | None = None) -> TaggedParts:
    """Load newspaper sentences with chunks, from `conll2000/train.txt.gz` and `conll2000/test.txt.gz`.

    The files have CoNLL columns: word, part-of-speech tag and chunk tag. There is no development set.

    Parameters
    ----------
    data : path, optional
        Folder to search first; by default the folder in INTARSIA_DATA. The user's cache folder is searched last.

    Raises
    ------
    MissingDataError
        A file is missing; the message says where to obtain it.
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
    """Load references with nested fields, from `umass_citation/training.tsv.gz`, `dev.tsv.gz` and `testing.tsv.gz`.

    The files have three columns, separated by tabs: token, tag of the innermost field and path of the fields. A token
    that belongs to an outer field only has its label: the "and" between two persons is `B-authors`.

    Parameters
    ----------
    data : path, optional
        Folder to search first; by default the folder in INTARSIA_DATA. The user's cache folder is searched last.

    Raises
    ------
    MissingDataError
        A file is missing; the message says where to obtain it.
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
    """Load references with 13 fields, from `cora_ie/cora_ie.tsv.gz`: token and tag, separated by a tab.

    There is no published split.

    Parameters
    ----------
    data : path, optional
        Folder to search first; by default the folder in INTARSIA_DATA. The user's cache folder is searched last.

    Raises
    ------
    MissingDataError
        A file is missing; the message says where to obtain it.
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
    sequences: dict[str, list[list[str]]] = {column: [] for column in columns}
    for sequence in read_conll(path, separator=separator):
        if len(sequence) != len(columns):
            raise FileFormatError(
                f"{path.name}: {len(sequence)} columns, expected {len(columns)} ({', '.join(columns)}). Download the "
                f"file again."
            )
        for column, values in zip(columns, sequence, strict=True):
            sequences[column].append(values)
    return TaggedSequences(**sequences)
