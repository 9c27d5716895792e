"""Records of which several describe the same entity: citations, made-up persons."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from intarsia._validation import IntArray, frozen
from intarsia.datasets.location import require
from intarsia.datasets.plain_tables import read_csv_columns
from intarsia.exceptions import FileFormatError, InvalidInputError

# The file numbers its columns; these are what they hold.
_CORA_COLUMNS = (
    "constant", "label", "authors", "volume", "title", "institution", "venue", "address", "publisher", "year", "pages",
    "editor", "note", "month",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class EntityRecords:
    """A table of records and the entity of each.

    Attributes
    ----------
    columns : dict of str -> list of str or None
        The table, column by column; None where nothing is known. `pandas.DataFrame(columns)` makes a data frame.
    entity : (n_records,) int array
        Number of the entity of each record, from 0 in the order of appearance.
    ids : list of str
        A name for each record, different from all others.

    Examples
    --------
    >>> two = EntityRecords({"name": ["ann", "anne"]}, np.array([0, 0]), ["r0", "r1"])
    >>> len(two), two.n_entities
    (2, 1)
    """

    columns: dict[str, list[str | None]]
    entity: IntArray
    ids: list[str]

    def __len__(self) -> int:
        return len(self.entity)

    @property
    def n_entities(self) -> int:
        """Number of entities."""
        return int(self.entity.max(initial=-1)) + 1

    def take(self, rows: IntArray) -> EntityRecords:
        """The records of these rows, with their numbers of entities as they were.

        Examples
        --------
        >>> three = EntityRecords({"name": ["ann", "bob", "anne"]}, np.array([0, 1, 0]), ["a", "b", "c"])
        >>> three.take(np.array([0, 2])).columns
        {'name': ['ann', 'anne']}
        """
        return EntityRecords(
            {name: [values[k] for k in rows] for name, values in self.columns.items()},
            frozen(self.entity[rows]),
            [self.ids[k] for k in rows],
        )


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
