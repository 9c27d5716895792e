"""CoNLL files: one line per token with columns, and a blank line between sequences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from intarsia._files.text_lines import Source, read_lines, source_name, written_text
from intarsia.exceptions import FileFormatError, InvalidInputError

# Other Unicode spaces, such as the thin space inside a French number, belong to the token.
_BLANKS = re.compile("[ \t]+")


def read_conll(
    source: Source, *, separator: str | None = None, comment: str | None = None
) -> Iterator[tuple[list[str], ...]]:
    r"""Read the sequences of a CoNLL file, one at a time, each as a tuple of columns.

    Every line must have the same number of columns. Lines may end in CR LF; the last line needs no line end; several
    blank lines count as one; gzip files are detected by their content.

    Parameters
    ----------
    source : path or open stream
        The file, in UTF-8.
    separator : str, optional
        String between columns, such as a tab if tokens contain spaces. By default any number of spaces and tabs.
    comment : str, optional
        Lines that start with this string are skipped. By default no line is skipped, because "#" can be a token (as in
        the CoNLL-2000 data); CoNLL-U files need "#".

    Yields
    ------
    tuple of lists of str
        The columns of one sequence.

    Raises
    ------
    FileFormatError
        If a line has another number of columns than the first line or an empty column, or is not UTF-8.

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
                f"{name}, line {number}: {len(row)} columns, but line {first} has {width}. Write the same number of "
                f"columns for each token{', or set separator= and comment=' if separator is None else ''}."
            )
        if not all(row):
            raise FileFormatError(
                f"{name}, line {number}: column {row.index('') + 1} is empty. Write a placeholder such as _ for an "
                f"empty value."
            )
        rows.append(row)
    if rows:
        yield tuple(map(list, zip(*rows, strict=True)))


def write_conll(target: Source, sequences: Iterable[Sequence[Sequence[str]]], *, separator: str = " ") -> int:
    """Write sequences of columns to a CoNLL file and return their number.

    The file is created after all sequences are written, so that it is never incomplete.

    Parameters
    ----------
    target : path or open text stream
        A path that ends in .gz is written as a gzip file.
    sequences : iterable of tuples of lists of str
        Sequences as `read_conll` yields them; the columns of a sequence have equal length, at least 1.
    separator : str
        String between columns. With a space, cells must not contain spaces or tabs, and the file is read without
        `separator=`. With another separator, cells must not contain it, and the file is read with this `separator=`.

    Raises
    ------
    InvalidInputError
        If a sequence cannot be written so that it is read back unchanged; the message names sequence and token.

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
    invalid = re.compile("[ \t\r\n]" if separator == " " else f"{re.escape(separator)}|[\r\n]")
    width = n = 0
    with written_text(target) as file:
        for k, columns in enumerate(sequences):
            width = width or len(columns)
            if len(columns) != width:
                raise InvalidInputError(
                    f"write_conll: sequence {k} has {len(columns)} columns, but sequence 0 has {width}. Pass the same "
                    f"columns for every sequence."
                )
            lengths = {len(column) for column in columns}
            if len(lengths) != 1 or 0 in lengths:
                raise InvalidInputError(
                    f"write_conll: the columns of sequence {k} have lengths {[len(column) for column in columns]}; "
                    f"expected equal lengths of at least 1. Remove empty sequences, which this format cannot contain."
                )
            for t, row in enumerate(zip(*columns, strict=True)):
                for cell in row:
                    if not isinstance(cell, str) or not cell.strip(" \t") or invalid.search(cell):
                        raise InvalidInputError(
                            f"write_conll: token {t} of sequence {k} has {cell!r:.60}; expected a string that is not "
                            f"blank and contains neither the separator {separator!r} nor a line end."
                        )
                file.write(separator.join(row) + "\n")
            file.write("\n")
            n += 1
    return n


def _check_separator(separator: str | None) -> None:
    if separator is not None and (not isinstance(separator, str) or not separator or "\n" in separator):
        raise InvalidInputError(
            f"separator must be a string such as a tab, or None for spaces and tabs, got {separator!r}."
        )
