"""Entity resolution data: records of which several describe the same entity (citations, synthetic persons)."""

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

# The columns of the file have numbers as names; these are their contents.
_CORA_COLUMNS = (
    "constant", "label", "authors", "volume", "title", "institution", "venue", "address", "publisher", "year", "pages",
    "editor", "note", "month",
)  # fmt: skip


def load_cora_citations(data: str | os.PathLike[str] | None = None) -> EntityRecords:
    """Load 1,295 citations of 112 papers, each written in several ways, from `er_cora/cora_1295.csv.gz`.

    The file is CSV with numbers as column names. The columns are a constant, the label of the paper, authors, volume,
    title, institution, venue, address, publisher, year, pages, editor, note and month.

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
    >>> citations = load_cora_citations()       # doctest: +SKIP
    >>> len(citations), citations.n_entities, citations.columns["year"][0]        # doctest: +SKIP
    (1295, 112, '1995,')
    """
    (path,) = require("cora_citations", data)
    values = list(read_csv_columns(path).values())
    if len(values) != len(_CORA_COLUMNS):
        raise FileFormatError(
            f"{path.name}: {len(values)} columns, expected {len(_CORA_COLUMNS)}. Download the file again."
        )
    columns = dict(zip(_CORA_COLUMNS, values, strict=True))
    del columns["constant"]
    labels = columns.pop("label")
    return EntityRecords(columns, _number_labels(labels, path), [f"citation-{k}" for k in range(len(labels))])


def load_febrl(number: int = 1, data: str | os.PathLike[str] | None = None) -> EntityRecords:
    """Load synthetic persons with misspelt copies, from `febrl/dataset1.csv.gz` to `febrl/dataset3.csv.gz`.

    The first has 1,000 records, one copy of each person; the second 5,000, up to five copies of some; the third
    5,000, up to five copies of most. The files are CSV; `rec_id` is `rec-<person>-org` or `rec-<person>-dup-<copy>`.

    Parameters
    ----------
    number : {1, 2, 3}
        Number of the data set.
    data : path, optional
        Folder to search first; by default the folder in INTARSIA_DATA. The user's cache folder is searched last.

    Raises
    ------
    MissingDataError
        A file is missing; the message says where to obtain it.
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
        raise FileFormatError(
            f"{path.name}: expected a column 'rec_id', got {', '.join(columns)}. Download the file again."
        )
    persons: list[str | None] = []
    for k, name in enumerate(names):
        match = re.fullmatch(r"rec-(\d+)-(org|dup-\d+)", name or "")
        if match is None:
            raise FileFormatError(
                f"{path.name}: rec_id of record {k} is {name!r}; expected rec-<number>-org or -dup-<k>."
            )
        persons.append(match[1])
    return EntityRecords(columns, _number_labels(persons, path), [str(name) for name in names])


def _number_labels(labels: list[str | None], path: Path) -> IntArray:
    number_of: dict[str, int] = {}
    numbers = np.empty(len(labels), np.int64)
    for k, label in enumerate(labels):
        if label is None:
            raise FileFormatError(f"{path.name}: record {k} has no label of its entity. Download the file again.")
        numbers[k] = number_of.setdefault(label, len(number_of))
    return frozen(numbers)
