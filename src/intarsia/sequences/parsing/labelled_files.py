"""Read labelled strings from the files of other tools, and write them: one function for all formats."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from intarsia._core.error_context import errors_from
from intarsia._core.validation import check_choice
from intarsia._files.plain_tables import read_csv_rows
from intarsia._files.text_lines import Source, read_lines, source_name, written_text
from intarsia.exceptions import FileFormatError, InvalidInputError
from intarsia.sequences.parsing.json_files import read_json_array, read_json_lines, to_json_line
from intarsia.sequences.parsing.labelled_text import LabelledText, check_labelled, check_spans
from intarsia.sequences.parsing.xml_files import read_xml, to_xml_lines

FORMATS = ("parserator", "anystyle", "conll", "jsonl", "csv", "label_studio")
# A text, its spans before they are checked, and where they stand in the file.
Record = tuple[str, list[Any], str]


@errors_from("read_labelled")
def read_labelled(
    source: Source, format: str = "auto", *, fields: Sequence[str] | None = None, separator: str | None = None
) -> list[LabelledText]:
    r"""Read labelled strings from a file, plain or gzip, for `RecordParser.fit` and `evaluate`.

    Parameters
    ----------
    source : path or open stream
        The file, in UTF-8.
    format : str
        "auto" detects the format from the content and the name of the file. The formats are:

        * "parserator": XML of parserator, usaddress and probablepeople: an element for each string, in it an element
          for each token. Neighbours with the same name are one span.
        * "anystyle": XML of AnyStyle: `dataset`, `sequence`, an element for each field.
        * "conll": a line for each token with the token first and the tag last, and a blank line between strings. Tags
          with prefixes (B-, I-, E-, S-) or without; O is outside. The text is the tokens joined with spaces.
        * "jsonl": a JSON object in each line, ``{"text": ..., "spans": [[start, end, field], ...]}``. The key of the
          spans can also be label, labels or entities (doccano, spaCy), spans can be objects with start, end (or
          start_offset, end_offset) and label, and a line can be ``[text, {"entities": [...]}]``.
        * "csv": a header with the names of the fields, a row for each string. The text is the cells that are not
          empty, joined with a space in the order of the columns. A name that ends in .tsv means tabs.
        * "label_studio": JSON or JSON-MIN export of Label Studio.
    fields : list of str, optional
        Fields that may occur; another one is an error. For "csv", the columns to use, in this order.
    separator : str, optional
        Separator of the columns of "conll" (by default spaces and tabs) and "csv" (by default a comma).

    Returns
    -------
    labelled : list of LabelledText
        Texts with character offsets of their fields.

    Raises
    ------
    FileFormatError
        If the file cannot be read, or a span is unknown, overlaps another or is outside its text. The message names the
        file and the line.

    Examples
    --------
    >>> import io
    >>> xml = "<all><x><number>12</number> <street>Main</street> <street>St</street></x></all>"
    >>> read_labelled(io.StringIO(xml))
    [LabelledText(text='12 Main St', spans=((0, 2, 'number'), (3, 10, 'street')))]
    >>> read_labelled(io.StringIO('{"text": "12 Main St", "spans": [[0, 2, "number"]]}\n'))
    [LabelledText(text='12 Main St', spans=((0, 2, 'number'),))]
    >>> read_labelled(io.StringIO("number,street\n12,Main St\n"), "csv")[0].spans
    ((0, 2, 'number'), (3, 10, 'street'))
    """
    check_choice(format, ("auto", *FORMATS), "format")
    _check_fields(fields)
    name = source_name(source)
    lines = [line for _, line in read_lines(source)]
    kind = _detected(lines, source, name) if format == "auto" else format
    examples = []
    for text, spans, place in _READERS[kind](lines, name, separator, fields):
        try:
            examples.append(LabelledText(text, check_spans(text, spans, fields)))
        except InvalidInputError as error:
            raise FileFormatError(f"{place}: {error} Correct the file.") from None
    return examples


@errors_from("write_labelled")
def write_labelled(target: Source, labelled: Iterable[LabelledText], format: str = "jsonl") -> int:
    r"""Write labelled strings to a file that appears when it is complete, and return their number.

    Parameters
    ----------
    target : path or open text stream
        A path that ends in .gz is written as a gzip file.
    labelled : list of LabelledText
        Texts with spans.
    format : {"jsonl", "parserator"}
        "jsonl" keeps everything. "parserator" has an element for each token, as usaddress needs it for training; two
        spans of a field with only white space between them would be read as one span and raise an error, and runs of
        white space become one space.

    Examples
    --------
    >>> import sys
    >>> write_labelled(sys.stdout, [LabelledText("12 Main St", [(0, 2, "number"), (3, 10, "street")])])
    {"text": "12 Main St", "spans": [[0, 2, "number"], [3, 10, "street"]]}
    1
    """
    check_choice(format, ("jsonl", "parserator"), "format")
    examples = check_labelled(labelled)
    with written_text(target) as file:
        if format == "jsonl":
            file.writelines(to_json_line(example) + "\n" for example in examples)
        else:
            file.writelines(line + "\n" for line in to_xml_lines(examples))
    return len(examples)


def _check_fields(fields: Any) -> None:
    if fields is not None and (
        isinstance(fields, str) or not all(isinstance(field, str) and field for field in fields)
    ):
        raise InvalidInputError(f"fields must be a list of names, got {fields!r:.60}.")


def _detected(lines: list[str], source: Source, name: str) -> str:
    """Return the format of a file, from its first characters and then from its name."""
    first = next((line.lstrip() for line in lines if line.strip()), "")
    if first.startswith("<"):
        text = "\n".join(lines[:50])
        return "anystyle" if "<dataset" in text or "<sequence" in text else "parserator"
    if first.startswith("{"):
        return "jsonl"
    if first.startswith("["):
        return "jsonl" if first[1:].lstrip().startswith('"') else "label_studio"
    suffixes = Path(source).suffixes if isinstance(source, (str, os.PathLike)) else []
    if any(suffix in (".csv", ".tsv") for suffix in suffixes):
        return "csv"
    if (
        not first
        or any(suffix in (".conll", ".bio", ".iob") for suffix in suffixes)
        or all(len(line.split()) >= 2 for line in lines[:50] if line.strip())
    ):
        return "conll"
    raise FileFormatError(
        f"{name}: the format of the file cannot be detected. Pass format=, one of {', '.join(map(repr, FORMATS))}."
    )


def _read_conll(lines: list[str], name: str, separator: str | None, fields: Sequence[str] | None) -> Iterator[Record]:
    """Yield the strings of CoNLL columns."""
    from intarsia.metrics.segments import find_segments
    from intarsia.sequences.conll import read_conll

    number = 0
    try:
        for columns in read_conll(io.StringIO("\n".join(lines)), separator=separator):
            while not lines[number].strip(" \t"):
                number += 1
            place = f"{name}, line {number + 1}"
            number += len(columns[0])
            if len(columns) < 2:
                raise FileFormatError(f"{place}: one column; expected the token first and its tag last.")
            words, tags = columns[0], columns[-1]
            starts = [0]
            for word in words:
                starts.append(starts[-1] + len(word) + 1)
            has_prefixes = all(tag == "O" or (tag[1:2] == "-" and tag[0] in "BIESLU") for tag in tags)
            segments = find_segments(tags, "conll" if has_prefixes else "runs")
            yield " ".join(words), [(starts[a], starts[b] - 1, field) for a, b, field in segments], place
    except FileFormatError as error:
        raise FileFormatError(str(error).replace("input, line", f"{name}, line", 1)) from None


def _read_csv(lines: list[str], name: str, separator: str | None, fields: Sequence[str] | None) -> Iterator[Record]:
    """Yield the strings of a CSV file: cells joined with a space, in the order of the columns."""
    delimiter = separator or ("\t" if ".tsv" in name else ",")
    try:
        header, rows = read_csv_rows(io.StringIO("\n".join(lines)), delimiter)
    except FileFormatError as error:
        raise FileFormatError(str(error).replace("input, line", f"{name}, line", 1)) from None
    if fields is None and "text" in header:
        raise FileFormatError(
            f"{name}, line 1: there is a column 'text', but the text is the cells of the fields joined with spaces. "
            f"Pass fields= with the columns that are fields, in their order."
        )
    columns = list(range(len(header)))
    if fields is not None:
        missing = [field for field in fields if field not in header]
        if missing:
            raise FileFormatError(f"{name}, line 1: there is no column {missing[0]!r}. Use columns of {header}.")
        columns = [header.index(field) for field in fields]
    for k, row in enumerate(rows):
        text, spans = "", []
        for column in columns:
            cell = " ".join(row[column].split())
            if cell:
                start = len(text) + 1 if text else 0
                text = f"{text} {cell}" if text else cell
                spans.append((start, len(text), header[column]))
        yield text, spans, f"{name}, row {k + 1} after the header"


_READERS: dict[str, Callable[[list[str], str, str | None, Sequence[str] | None], Iterable[Record]]] = {
    "parserator": lambda lines, name, separator, fields: read_xml(lines, name, merge=True),
    "anystyle": lambda lines, name, separator, fields: read_xml(lines, name, merge=False),
    "conll": _read_conll,
    "jsonl": lambda lines, name, separator, fields: read_json_lines(lines, name),
    "csv": _read_csv,
    "label_studio": lambda lines, name, separator, fields: read_json_array(lines, name),
}
