"""Relational data: trust between people, citations between papers with topics, a small PSL program."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from intarsia._core.validation import IntArray, frozen
from intarsia._files.plain_tables import LARGEST_NUMBER, read_tab_columns
from intarsia._files.text_lines import read_lines
from intarsia.exceptions import FileFormatError
from intarsia_reproduction.datasets.location import require

Rows = list[tuple[tuple[str, ...], float]]


@dataclass(frozen=True, eq=False)
class TrustNetwork:
    """Statements of trust and distrust between users.

    Attributes
    ----------
    pairs : (n_pairs, 2) int array
        Users, numbered from 0; the first user rates the second.
    trust : (n_pairs,) bool array
        True for trust, False for distrust.
    n_users : int
        Number of users.

    Examples
    --------
    >>> network = TrustNetwork(np.array([[0, 1], [1, 0], [2, 1]]), np.array([True, True, False]), n_users=3)
    >>> network.pairs[~network.trust].tolist()                  # user 2 distrusts user 1
    [[2, 1]]
    """

    pairs: IntArray
    trust: NDArray[np.bool_]
    n_users: int


@dataclass(frozen=True, eq=False)
class LinkedDocuments:
    """Papers with their words, topics and citations.

    Attributes
    ----------
    words : (n_documents, n_words) sparse array
        1 where a paper contains a word.
    links : (n_links, 2) int array
        Pairs of papers, numbered from 0, of which one cites the other.
    topic : (n_documents,) int array
        Topic of each paper, as an index into `topic_names`.
    topic_names : list of str
        Names of the topics.
    ids : list of str
        Identifiers of the papers in the published set.

    Examples
    --------
    One of two citations connects papers of the same topic:

    >>> words = csr_array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    >>> links, topic = np.array([[0, 1], [1, 2]]), np.array([0, 0, 1])
    >>> papers = LinkedDocuments(words, links, topic, ["Theory", "Genetics"], ["a", "b", "c"])
    >>> (papers.topic[papers.links[:, 0]] == papers.topic[papers.links[:, 1]]).tolist()
    [True, False]
    """

    words: csr_array
    links: IntArray
    topic: IntArray
    topic_names: list[str]
    ids: list[str]


@dataclass(frozen=True, eq=False)
class AcquaintancesProgram:
    """PSL program about who knows whom, with data about 25 people.

    Attributes
    ----------
    rules : list of str
        Rules in the language of PSL.
    observations, targets, truth : dict of str -> list of (names, value)
        Observed atoms, target atoms and true values, for each predicate; targets have value NaN.
    model_file : Path
        Published program; the paths in it refer to the published collection.

    Examples
    --------
    Two people like chess, one of them less; the target is whether the first knows the second:

    >>> pair = ("ann", "bob")
    >>> program = AcquaintancesProgram(
    ...     rules=["1: Likes(A, X) & Likes(B, X) & (A != B) -> Knows(A, B)"],
    ...     observations={"Likes": [(("ann", "chess"), 1.0), (("bob", "chess"), 0.8)]},
    ...     targets={"Knows": [(pair, float("nan"))]},
    ...     truth={"Knows": [(pair, 1.0)]},
    ...     model_file=Path("model.json"),
    ... )
    >>> [names for names, value in program.observations["Likes"] if value < 1.0]
    [('bob', 'chess')]
    >>> dict(program.truth["Knows"])[program.targets["Knows"][0][0]]
    1.0
    """

    rules: list[str]
    observations: dict[str, Rows]
    targets: dict[str, Rows]
    truth: dict[str, Rows]
    model_file: Path


def load_epinions(data: str | os.PathLike[str] | None = None) -> TrustNetwork:
    """Load 8,675 statements of trust or distrust between 2,000 users, from `psl_uai13/epinions/trusts.txt.gz`.

    Each line has two users, numbered from 1, and 1 for trust or 0 for distrust, separated by tabs; `knows.txt.gz` has
    the same pairs.

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
    >>> network = load_epinions()       # doctest: +SKIP
    >>> network.n_users, len(network.pairs), int((~network.trust).sum())        # doctest: +SKIP
    (2000, 8675, 701)
    """
    trusts, knows = require("epinions", data)
    first, second, value = read_tab_columns(trusts, (int, int, int))
    pairs = np.array([first, second], dtype=np.int64).T.reshape(-1, 2)
    known_pairs = np.array(read_tab_columns(knows, (int, int, int))[:2], dtype=np.int64).T.reshape(-1, 2)
    if not np.array_equal(np.unique(pairs, axis=0), np.unique(known_pairs, axis=0)):
        raise FileFormatError(f"{knows.name}: expected the same pairs as in {trusts.name}. Download both files again.")
    if not set(value) <= {0, 1} or pairs.min(initial=1) < 1:
        raise FileFormatError(
            f"{trusts.name}: expected users numbered from 1, and values 0 or 1. Download the file again."
        )
    return TrustNetwork(frozen(pairs - 1), frozen(np.array(value, dtype=bool)), int(pairs.max(initial=0)))


def load_linked_documents(name: str = "cora", data: str | os.PathLike[str] | None = None) -> LinkedDocuments:
    """Load papers with words, topics and citations: `psl_uai13/cora` (2,708 papers) or `psl_uai13/citeseer` (3,312).

    The files are separated by tabs and number papers, topics and words from 1: `.ids` name and number, `.labels`
    number and topic, `.links` two numbers, `.words` number and words as `word:1`; `labels.txt` names the topics.

    Parameters
    ----------
    name : {"cora", "citeseer"}
        Name of the collection.
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
    >>> papers = load_linked_documents("cora")       # doctest: +SKIP
    >>> papers.words.shape, len(papers.links), papers.topic_names[2]        # doctest: +SKIP
    ((2708, 1433), 5429, 'Neural_Networks')
    """
    ids_file, labels_file, links_file, words_file, names_file = require(f"{name}_topics", data)
    topic_numbers, topic_names = read_tab_columns(names_file, (int, str))
    id_names, id_numbers = read_tab_columns(ids_file, (str, int))
    n = len(id_numbers)
    ids = [""] * n
    for id_name, number in zip(id_names, _zero_based(id_numbers, n, ids_file), strict=True):
        ids[number] = id_name
    documents, topics = read_tab_columns(labels_file, (int, int))
    topic = np.full(n, -1, dtype=np.int64)
    topic[_zero_based(documents, n, labels_file)] = _zero_based(topics, len(topic_names), labels_file)
    if sorted(topic_numbers) != list(range(1, len(topic_names) + 1)) or (topic < 0).any():
        raise FileFormatError(
            f"{labels_file.name}: a paper has no topic, or a topic has no name. Download the files again."
        )
    links = np.array(read_tab_columns(links_file, (int, int)), dtype=np.int64).T.reshape(-1, 2)
    _zero_based(links.ravel().tolist(), n, links_file)
    documents, word_lists = read_tab_columns(words_file, (int, _word_numbers))
    lengths = [len(words) for words in word_lists]
    row = np.repeat(_zero_based(documents, n, words_file), lengths)
    column = np.array([word for words in word_lists for word in words], dtype=np.int64)
    shape = (n, int(column.max(initial=0)))
    words = csr_array((np.ones(len(column)), (row, column - 1)), shape=shape)
    return LinkedDocuments(words, frozen(links - 1), frozen(topic), topic_names, ids)


def load_simple_acquaintances(data: str | os.PathLike[str] | None = None) -> AcquaintancesProgram:
    """Load a small program of probabilistic soft logic (PSL) with data and true values, from `simple_acquaintances`.

    `model.json` lists, for each predicate, files with observations, targets and true values; they must be in the same
    folder.

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
    >>> program = load_simple_acquaintances()       # doctest: +SKIP
    >>> len(program.rules), len(program.targets["Knows"]), program.truth["Knows"][0]        # doctest: +SKIP
    (6, 118, (('0', '1'), 1.0))
    """
    model_file = require("simple_acquaintances", data)[0]
    tables: dict[str, dict[str, Rows]] = {"observations": {}, "targets": {}, "truth": {}}
    try:
        program: Any = json.loads(model_file.read_text(encoding="utf-8"))
        rules = [str(rule) for rule in program["rules"]]
        for predicate, files in program["predicates"].items():
            name, _, arity = predicate.partition("/")
            for role, table in tables.items():
                for file_name in files.get(role, []):
                    rows = _read_atoms(model_file.parent / Path(file_name).name, int(arity))
                    table.setdefault(name, []).extend(rows)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(
            f"{model_file.name}: expected a JSON document with 'rules' and 'predicates'. Download it again."
        ) from None
    return AcquaintancesProgram(rules, **tables, model_file=model_file)


def _read_atoms(path: Path, arity: int) -> Rows:
    """Read names and value of each line; a missing value is 1 for an observation and NaN for a target."""
    if not path.is_file():
        raise FileFormatError(
            f"{path.name} is listed in model.json but missing from its folder. Download all files again."
        )
    default = float("nan") if "target" in path.name else 1.0
    rows: Rows = []
    for number, line in read_lines(path):
        if line.strip():
            cells = line.split("\t")
            try:
                value = float(cells[arity]) if len(cells) > arity else default
            except ValueError:
                raise FileFormatError(
                    f"{path.name}, line {number}: expected a number after {arity} names, got {cells[arity]!r:.40}."
                ) from None
            if not arity <= len(cells) <= arity + 1:
                raise FileFormatError(f"{path.name}, line {number}: {len(cells)} columns, expected {arity} names.")
            rows.append((tuple(cells[:arity]), value))
    return rows


def _word_numbers(cell: str) -> list[int]:
    """Return the word numbers 3 and 17 of a cell `3:1 17:1`."""
    words = [int(pair.partition(":")[0]) for pair in cell.split()]
    if any(not 1 <= word <= LARGEST_NUMBER for word in words):
        raise ValueError(cell)
    return words


def _zero_based(numbers: list[int], n: int, path: Path) -> IntArray:
    """Return numbers from 1 to n as indices from 0."""
    values = np.array(numbers, dtype=np.int64)
    outside = np.flatnonzero((values < 1) | (values > n))
    if outside.size:
        raise FileFormatError(f"{path.name}: number {values[outside[0]]} is outside 1 to {n}. Download the file again.")
    return values - 1
