"""Generated customer records with typos: data for entity resolution without a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from intarsia._core.validation import IntArray, as_generator, check_number, frozen


@dataclass(frozen=True, eq=False)
class EntityRecords:
    """Table of records and the entity of each record.

    Attributes
    ----------
    columns : dict of str -> list of str or None
        Table by columns; None where a value is missing. `pandas.DataFrame(columns)` makes a data frame.
    entity : (n_records,) int array
        Number of the entity of each record, from 0 in the order of appearance.
    ids : list of str
        Unique name of each record.

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
        """Return the records of the given rows; the numbers of their entities stay the same.

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


_FIRST = (
    "Anna", "Elizabeth", "Maria", "Margaret", "Katherine", "Sofia", "Julia", "Laura", "Christina", "Barbara",
    "Thomas", "William", "Robert", "Alexander", "Michael", "Daniel", "Frederick", "Benjamin", "Samuel", "Edward",
)  # fmt: skip
_SHORT = {
    "Elizabeth": "Liz", "Margaret": "Maggie", "Katherine": "Kate", "Christina": "Tina", "Barbara": "Barb",
    "Thomas": "Tom", "William": "Bill", "Robert": "Bob", "Alexander": "Alex", "Michael": "Mike", "Daniel": "Dan",
    "Frederick": "Fred", "Benjamin": "Ben", "Samuel": "Sam", "Edward": "Ed",
}  # fmt: skip
_LAST_BEGIN = ("Har", "Win", "Ash", "Black", "Whit", "Gold", "Stan", "Brad", "Thorn", "Ken", "Mar", "Hol", "Wes", "El")
_LAST_END = ("ley", "ton", "wood", "field", "worth", "man", "ford", "well", "burn", "more", "son", "by")
_STREET = ("Mill", "Church", "Station", "Park", "Garden", "River", "Castle", "Market", "Orchard", "Bridge", "Queen")
_ROAD = (("Street", "St"), ("Road", "Rd"), ("Lane", "Ln"), ("Avenue", "Ave"))
_CITY = (
    ("Ashbourne", "101"), ("Brightwater", "204"), ("Castleford", "318"), ("Dunmore", "427"), ("Eastvale", "532"),
    ("Fairhaven", "615"), ("Greenwick", "740"), ("Hillsborough", "853"),
)  # fmt: skip
_SOURCES = ("shop", "web", "phone", "fair", "app", "partner", "letter", "club")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_DIGITS = "0123456789"


def make_customers(
    n_entities: int = 100,
    max_copies: int = 3,
    typos: float = 1.0,
    missing: float = 0.05,
    random_state: int | np.random.Generator | None = 0,
) -> EntityRecords:
    """Generate records of customers for entity resolution: each person has 1 to `max_copies` records with typos.

    A copy may have letters dropped, doubled, swapped or replaced, mistyped digits, short forms of names and streets,
    and empty values. The records of a person have different values of `source`, so that linkage with at most one record
    per source can be tried. Rows are in random order.

    Parameters
    ----------
    n_entities : int
        Number of people.
    max_copies : int
        Maximum number of records of one person, 1 to 8.
    typos : float
        Mean number of typos in each record of a person except the first.
    missing : float
        Probability that a value of such a record is empty.
    random_state : int, Generator or None
        Random seed.

    Returns
    -------
    EntityRecords
        Columns `first_name`, `last_name`, `street`, `city`, `postcode`, `birth_date` (ISO), `email`, `phone`, `source`.

    Examples
    --------
    >>> customers = make_customers(50)
    >>> customers.n_entities, list(customers.columns)[:3]
    (50, ['first_name', 'last_name', 'street'])
    >>> make_customers(50).columns == customers.columns
    True
    """
    check_number(n_entities, "make_customers: n_entities", low=0, integer=True)
    check_number(max_copies, "make_customers: max_copies", low=1, high=len(_SOURCES), integer=True)
    check_number(typos, "make_customers: typos", low=0)
    check_number(missing, "make_customers: missing", low=0, high=1)
    rng = as_generator(random_state)
    rows: list[dict[str, str | None]] = []
    entity: list[int] = []
    for person in range(n_entities):
        first = _person(rng)
        sources = rng.permutation(_SOURCES)
        for copy in range(int(rng.integers(1, max_copies + 1))):
            row = dict(first) if copy == 0 else _copy(first, typos, missing, rng)
            row["source"] = str(sources[copy])
            rows.append(row)
            entity.append(person)
    order = rng.permutation(len(rows))
    names = [*_person(np.random.default_rng(0)), "source"]
    columns = {name: [rows[k][name] for k in order] for name in names}
    return EntityRecords(
        columns,
        frozen(np.array(entity, dtype=np.int64)[order]),
        [f"c{k:0{len(str(len(rows)))}d}" for k in range(len(rows))],
    )


def _person(rng: np.random.Generator) -> dict[str, str | None]:
    """Generate a person with all values."""
    first, last = _pick(_FIRST, rng), _pick(_LAST_BEGIN, rng) + _pick(_LAST_END, rng)
    city, code = _CITY[int(rng.integers(len(_CITY)))]
    birth = np.datetime64("1940-01-01") + int(rng.integers(0, 24_000))
    return {
        "first_name": first,
        "last_name": last,
        "street": f"{rng.integers(1, 200)} {_pick(_STREET, rng)} {_ROAD[int(rng.integers(len(_ROAD)))][0]}",
        "city": city,
        "postcode": f"{code}{rng.integers(0, 100):02d}",
        "birth_date": str(birth),
        "email": f"{first}.{last}{rng.integers(0, 100)}@example.org".lower(),
        "phone": "0" + "".join(_pick(_DIGITS, rng) for _ in range(9)),
    }


def _copy(
    person: dict[str, str | None], typos: float, missing: float, rng: np.random.Generator
) -> dict[str, str | None]:
    """Return a copy of a person's values with typos, short forms and missing values."""
    row = dict(person)
    if rng.random() < typos / 4:
        row["first_name"] = _SHORT.get(str(row["first_name"]), f"{str(row['first_name'])[0]}.")
    if rng.random() < typos / 4:
        for long, short in _ROAD:
            row["street"] = str(row["street"]).replace(long, short)
    for _ in range(int(rng.poisson(typos))):
        name = _pick(list(row), rng)
        row[name] = _with_typo(str(row[name]), rng)
    return {name: None if rng.random() < missing else value for name, value in row.items()}


def _with_typo(text: str, rng: np.random.Generator) -> str:
    """Return the text with one character dropped, doubled, replaced, or swapped with the next."""
    position = int(rng.integers(len(text)))
    kind = int(rng.integers(4))
    character = _pick(_DIGITS if text[position].isdigit() else _LETTERS, rng)
    if kind == 0 and len(text) > 1:
        return text[:position] + text[position + 1 :]
    if kind == 1:
        return text[: position + 1] + text[position:]
    if kind == 2 and position + 1 < len(text):
        return text[:position] + text[position + 1] + text[position] + text[position + 2 :]
    return text[:position] + character + text[position + 1 :]


def _pick(choices: Sequence[str], rng: np.random.Generator) -> str:
    return choices[int(rng.integers(len(choices)))]
