"""Records of which several describe the same entity: citations, made-up persons."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np

from intarsia._core.validation import IntArray, frozen
from intarsia._files.plain_tables import read_csv_columns
from intarsia.datasets.customers import EntityRecords
from intarsia.exceptions import FileFormatError, InvalidInputError
from intarsia_reproduction.datasets.location import require

# The file numbers its columns; these are what they hold.
_CORA_COLUMNS = (
    "constant", "label", "authors", "volume", "title", "institution", "venue", "address", "publisher", "year", "pages",
    "editor", "note", "month",
)  # fmt: skip


def load_cora_citations(data: str | os.PathLike[str] | None = None) -> EntityRecords:
    """1,295 citations of 112 papers, each written in several ways, from `er_cora/cora_1295.csv.gz`.

    The file is CSV with numbers as names of the columns: a constant, the label of the paper, then authors, volume,
    title, institution, venue, address, publisher, year, pages, editor, note and month.

    Parameters
    ----------
    data : path, optional
        Folder to look in first; by default the one named by INTARSIA_DATA, then the user's cache.

    Raises
    ------
    MissingDataError
        The file is not there; the message says where it comes from.
    FileFormatError
        The file is damaged.

    Examples
    --------
    >>> citations = load_cora_citations()       # doctest: +SKIP
    >>> len(citations), citations.n_entities, citations.columns["year"][0]        # doctest: +SKIP
    (1295, 112, '1995,')
    """
    (path,) = require("cora_citations", data)
    found = list(read_csv_columns(path).values())
    if len(found) != len(_CORA_COLUMNS):
        raise FileFormatError(f"{path.name}: {len(found)} columns, expected {len(_CORA_COLUMNS)}. Get the file again.")
    columns = dict(zip(_CORA_COLUMNS, found, strict=True))
    del columns["constant"]
    labels = columns.pop("label")
    return EntityRecords(columns, _numbered(labels, path), [f"citation-{k}" for k in range(len(labels))])


def load_febrl(number: int = 1, data: str | os.PathLike[str] | None = None) -> EntityRecords:
    """Made-up persons with misspelt copies, from `febrl/dataset1.csv.gz`, `dataset2.csv.gz` or `dataset3.csv.gz`.

    The first has 1,000 records, one copy of each person; the second 5,000, up to five copies of some; the third
    5,000, up to five copies of most. The files are CSV; `rec_id` is `rec-<person>-org` or `rec-<person>-dup-<copy>`.

    Parameters
    ----------
    number : {1, 2, 3}
        Which of the three.
    data : path, optional
        Folder to look in first; by default the one named by INTARSIA_DATA, then the user's cache.

    Raises
    ------
    MissingDataError
        A file is not there; the message says where it comes from.
    FileFormatError
        The file is damaged.

    Examples
    --------
    >>> persons = load_febrl(1)       # doctest: +SKIP
    >>> len(persons), persons.n_entities, persons.columns["surname"][0]        # doctest: +SKIP
    (1000, 500, 'waller')
    """
    if number not in (1, 2, 3):
        raise InvalidInputError(f"load_febrl: number must be 1, 2 or 3, got {number!r}.")
    path = require("febrl", data)[number - 1]
    columns = read_csv_columns(path)
    names = columns.pop("rec_id", None)
    if names is None:
        raise FileFormatError(f"{path.name}: there is no column 'rec_id'. Get the file again.")
    persons: list[str | None] = []
    for k, name in enumerate(names):
        found = re.fullmatch(r"rec-(\d+)-(org|dup-\d+)", name or "")
        if found is None:
            raise FileFormatError(
                f"{path.name}: rec_id of record {k} is {name!r}; expected rec-<number>-org or -dup-<k>."
            )
        persons.append(found[1])
    return EntityRecords(columns, _numbered(persons, path), [str(name) for name in names])


def _numbered(labels: list[str | None], path: Path) -> IntArray:
    number: dict[str, int] = {}
    found = np.empty(len(labels), np.int64)
    for k, label in enumerate(labels):
        if label is None:
            raise FileFormatError(f"{path.name}: record {k} has no label of its entity. Get the file again.")
        found[k] = number.setdefault(label, len(number))
    return frozen(found)
