"""Records with known entities for comparing clustering methods: public sets, and two synthetic product catalogues."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

from intarsia._core.validation import check_choice, check_number, frozen
from intarsia._files.plain_tables import read_csv_columns
from intarsia._files.tables import read_columns
from intarsia.datasets import make_customers
from intarsia.datasets.customers import EntityRecords
from intarsia_reproduction.datasets import load_cora_citations, load_febrl, require

Column = list[str | None]

_KINDS = ("camera", "headphones", "keyboard", "monitor", "printer", "router", "speaker", "tablet")
_BRANDS = ("Acorn", "Belmont", "Corvus", "Delphin", "Elster", "Fjord", "Garnet", "Hollis", "Ibex", "Juno")
_COLOURS = ("black", "white", "silver", "blue", "red")
_EXTRAS = ("new", "wireless", "compact", "with case", "pro", "bundle", "refurbished", "2 year warranty")


def linkage_records(name: str, data: str | os.PathLike[str] | None = None) -> tuple[str, EntityRecords]:
    """Return the records of a set, with the columns that the Splink model of this set compares, and the model's name.

    Parameters
    ----------
    name : {"cora", "febrl1", "febrl2", "febrl3", "historical", "fake", "sites", "customers", "products"}
        Name of the set.
    data : path, optional
        Folder of the files; by default the folder in INTARSIA_DATA.

    Examples
    --------
    >>> model, records = linkage_records("products")
    >>> model, len(records), sorted(set(records.columns["source_dataset"]))
    ('products', 2374, ['shop', 'supplier'])
    """
    check_choice(name, _SETS, "name")
    model, load = _SETS[name]
    return model, load(None if data is None else Path(data))


def make_products(n_products: int = 1500, random_state: int = 0) -> EntityRecords:
    """Generate two catalogues of products with different titles and prices; neither lists a product twice.

    Products come in families: the same brand and kind, models that differ in one digit, several colours. So the most
    similar product of the other catalogue is often a sibling, and only one of them can be right. Three fifths of the
    products are in both catalogues, a fifth in each one alone.

    Parameters
    ----------
    n_products : int
        Number of products.
    random_state : int
        Seed.

    Returns
    -------
    EntityRecords
        Columns `title`, `code`, `brand`, `kind`, `colour`, `price` and `source_dataset`, which is "shop" or "supplier".

    Examples
    --------
    >>> products = make_products(10)
    >>> products.n_entities, products.columns["title"][:2]
    (10, ['Ibex router black refurbished', 'Ibex router black new'])
    """
    check_number(n_products, "make_products: n_products", low=1, integer=True)
    rng = np.random.default_rng(random_state)
    rows: list[dict[str, str | None]] = []
    entity: list[int] = []
    for product in range(n_products):
        if product % 5 == 0:  # a new family of five siblings
            brand, kind = str(rng.choice(_BRANDS)), str(rng.choice(_KINDS))
            letters = "".join(rng.choice(list("ABCDEFGHIJKL"), 2))
            number, price, colours = int(rng.integers(10, 99)), float(rng.uniform(20, 900)), rng.choice(_COLOURS, 2)
        model = f"{letters}{number}{2 * (product % 5)}"
        colour = str(colours[product % 2])
        price_of_model = price * (1 + 0.04 * (product % 5))
        place = rng.random()
        for source in (["shop"] if place < 0.8 else []) + (["supplier"] if place >= 0.2 else []):
            rows.append(_listing(source, brand, kind, model, colour, price_of_model, rng))
            entity.append(product)
    numbers = np.unique(entity, return_inverse=True)[1]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return EntityRecords(columns, frozen(numbers.astype(np.int64)), [f"product-{k}" for k in range(len(rows))])


def _listing(
    source: str, brand: str, kind: str, model: str, colour: str, price: float, rng: np.random.Generator
) -> dict[str, str | None]:
    """Return the row of a product in one catalogue; the supplier has looser titles, typos and missing values."""
    if source == "shop":
        title, code = f"{brand} {kind} {model} {colour}", model
        amount = price
    else:
        words = [brand if rng.random() < 0.85 else "", model if rng.random() < 0.7 else "", kind, colour]
        words += [str(rng.choice(_EXTRAS))] if rng.random() < 0.6 else []
        title = " ".join(word for word in words if word)
        code = model
        if rng.random() < 0.3:
            position = int(rng.integers(len(model)))
            code = model[:position] + str(rng.integers(10)) + model[position + 1 :]
        amount = price * float(rng.normal(1.0, 0.03))
    is_supplier = source == "supplier"
    return {
        "title": title,
        "code": None if is_supplier and rng.random() < 0.3 else code,
        "brand": brand,
        "kind": kind,
        "colour": colour,
        "price": f"{amount:.2f}",
        "source_dataset": source,
    }


def _words(values: Column) -> Column:
    """Return values in lower case, with letters, digits and single spaces only; None where nothing remains."""
    return [" ".join(re.sub(r"[^a-z0-9 ]", " ", (value or "").lower()).split()) or None for value in values]


def _word(values: Column, position: int) -> Column:
    """Return the word at a position of each value."""
    return [None if value is None else value.split()[position] for value in values]


def _start(values: Column, n_letters: int) -> Column:
    """Return the first letters of each value."""
    return [None if value is None else value[:n_letters] for value in values]


def _citations(data: Path | None) -> EntityRecords:
    records = load_cora_citations(data)
    columns = {name: _words(records.columns[name]) for name in ("authors", "title", "venue", "pages")}
    years = [re.search(r"\d{4}", value or "") for value in records.columns["year"]]
    columns |= {
        "year": [None if year is None else year[0] for year in years],
        "title_start": _start(columns["title"], 12),
        "title_end": _word(columns["title"], -1),
        "first_author": _word(columns["authors"], 0),
    }
    return EntityRecords(columns, records.entity, records.ids)


def _sites(data: Path | None) -> EntityRecords:
    (path,) = require("dedupe_sites", data)
    table = read_csv_columns(path)
    name, address = _words(table["Site name"]), _words(table["Address"])
    columns = {
        "name": name,
        "address": address,
        "phone": table["Phone"],
        "zip": _start(table["Zip"], 5),
        "house": _word(address, 0),
        "name_start": _start(name, 8),
        "address_start": _start(address, 10),
    }
    return _numbered(columns, table["True Id"])


def _fake(data: Path | None) -> EntityRecords:
    table = read_csv_columns(require("splink_persons", data)[1])
    return _numbered(
        {name: table[name] for name in ("first_name", "surname", "dob", "city", "email")}, table["cluster"]
    )


def _historical(data: Path | None) -> EntityRecords:
    table = read_columns(require("splink_persons", data)[0]) or {}
    names = ("first_name", "surname", "dob", "postcode_fake", "birth_place", "occupation")
    columns = {name: [None if value is None else str(value) for value in table[name]] for name in names}
    return _numbered(columns, list(table["cluster"]))


def _numbered(columns: dict[str, Column], labels: list[str | None]) -> EntityRecords:
    """Return records whose entities are numbered."""
    numbers = np.unique(np.array(labels, dtype=str), return_inverse=True)[1]
    return EntityRecords(columns, frozen(numbers.astype(np.int64)), [str(k) for k in range(len(labels))])


_SETS: dict[str, tuple[str, Callable[[Path | None], EntityRecords]]] = {
    "cora": ("citations", _citations),
    "febrl1": ("persons", lambda data: load_febrl(1, data)),
    "febrl2": ("persons", lambda data: load_febrl(2, data)),
    "febrl3": ("persons", lambda data: load_febrl(3, data)),
    "historical": ("historical", _historical),
    "fake": ("fake", _fake),
    "sites": ("sites", _sites),
    "customers": (
        "customers", lambda data: make_customers(1000, 8, typos=3.0, missing=0.3, random_state=7)
    ),
    "products": ("products", lambda data: make_products()),
}  # fmt: skip
