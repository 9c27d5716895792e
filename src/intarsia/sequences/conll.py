"""CoNLL files: a line for each token, a column for each thing known of it, a blank line between sequences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from intarsia._files.text_lines import Source, read_lines, source_name, written_text
from intarsia.exceptions import FileFormatError, InvalidInputError

# Only these separate: other blanks of Unicode, such as the one inside a French number, belong to the token.
_BLANKS = re.compile("[ \t]+")


def read_conll(
    source: Source, *, separator: str | None = None, comment: str | None = None
) -> Iterator[tuple[list[str], ...]]:
    r"""Sequences of a file in CoNLL columns, one at a time, each as a tuple of columns.

    Every line has the same number of columns. Lines may end in CR LF, the last one in nothing; several blank lines
    count as one; gzip files are told by their content.

    Parameters
    ----------
    source : path or open stream
        The file, in UTF-8.
    separator : str, optional
        What stands between columns, such as a tab where tokens hold spaces. By default any number of spaces and tabs.
    comment : str, optional
        Lines that begin with this are left out. By default none are, since "#" is a word as well (it is in the
        CoNLL-2000 data); CoNLL-U files need "#".

    Yields
    ------
    tuple of lists of str
        The columns of one sequence.

    Raises
    ------
    FileFormatError
        A line has another number of columns than the first, an empty column, or is not UTF-8.

    Examples
    --------
    >>> import io
    >>> for words, tags in read_conll(io.StringIO("the B-NP\ncat I-NP\n\nsleeps B-VP\n")):
    ...     print(words, tags)
    ['the', 'cat'] ['B-NP', 'I-NP']
    ['sleeps'] ['B-VP']
    """
    _check_separator(separator)
    name = source_name(source)
    rows: list[list[str]] = []
    first = width = 0
    for number, line in read_lines(source):
        if comment and line.startswith(comment):
            continue
        if not line.strip(" \t"):
            if rows:
                yield tuple(map(list, zip(*rows, strict=True)))
                rows = []
            continue
        row = _BLANKS.split(line.strip(" \t")) if separator is None else line.split(separator)
        if not first:
            first, width = number, len(row)
        if len(row) != width:
            raise FileFormatError(
                f"{name}, line {number}: {len(row)} columns, but line {first} has {width}. Give each token the same "
                f"number of columns{'; separator= and comment= say how lines are read' if separator is None else ''}."
            )
        if not all(row):
            raise FileFormatError(
                f"{name}, line {number}: column {row.index('') + 1} is empty. Write a mark such as _ where there is "
                f"nothing to say."
            )
        rows.append(row)
    if rows:
        yield tuple(map(list, zip(*rows, strict=True)))


def write_conll(target: Source, sequences: Iterable[Sequence[Sequence[str]]], *, separator: str = " ") -> int:
    """Write sequences, each given as its columns, and return how many; the file appears when all are written.

    Parameters
    ----------
    target : path or open text stream
        A path that ends in .gz is written as a gzip file.
    sequences : iterable of tuples of lists of str
        As `read_conll` yields them; columns of a sequence have the same length, at least 1.
    separator : str
        Between columns. With a space, cells hold neither spaces nor tabs, and the file is read without `separator=`;
        with anything else, cells do not hold it, and the file is read with the same `separator=`.

    Raises
    ------
    InvalidInputError
        What is given could not be read back: the message names sequence and token.

    Examples
    --------
    >>> import sys
    >>> write_conll(sys.stdout, [(["the", "cat"], ["B-NP", "I-NP"]), (["sleeps"], ["B-VP"])])
    the B-NP
    cat I-NP
    <BLANKLINE>
    sleeps B-VP
    <BLANKLINE>
    2
    """
    _check_separator(separator)
    refused = re.compile("[ \t\r\n]" if separator == " " else f"{re.escape(separator)}|[\r\n]")
    width = n = 0
    with written_text(target) as file:
        for k, columns in enumerate(sequences):
            width = width or len(columns)
            if len(columns) != width:
                raise InvalidInputError(
                    f"write_conll: sequence {k} has {len(columns)} columns, but sequence 0 has {width}. Give the same "
                    f"columns everywhere."
                )
            lengths = {len(column) for column in columns}
            if len(lengths) != 1 or 0 in lengths:
                raise InvalidInputError(
                    f"write_conll: the columns of sequence {k} have lengths {[len(column) for column in columns]}; "
                    f"expected the same, at least 1. An empty sequence cannot be written in this format."
                )
            for t, row in enumerate(zip(*columns, strict=True)):
                for cell in row:
                    if not isinstance(cell, str) or not cell.strip(" \t") or refused.search(cell):
                        raise InvalidInputError(
                            f"write_conll: token {t} of sequence {k} has {cell!r:.60}; expected a string that is not "
                            f"blank and holds neither the separator {separator!r} nor the end of a line."
                        )
                file.write(separator.join(row) + "\n")
            file.write("\n")
            n += 1
    return n


def _check_separator(separator: str | None) -> None:
    if separator is not None and (not isinstance(separator, str) or not separator or "\n" in separator):
        raise InvalidInputError(f"separator must be a string such as a tab, or None for any blanks, got {separator!r}.")
