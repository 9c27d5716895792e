"""Strings and parses of the command `intarsia parse`: read them, write them, label them in the terminal."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import typer

from intarsia._files.json_text import read_json_text
from intarsia._files.plain_tables import read_csv_rows
from intarsia._files.text_lines import read_lines, source_name
from intarsia.exceptions import FileFormatError, InvalidInputError

if TYPE_CHECKING:
    from intarsia.sequences import Parse
    from intarsia.sequences.parsing.labelled_text import Span
    from intarsia.sequences.parsing.labelling import LabellingSession, Proposal

_BATCH = 1000
_ASSIGNMENT = re.compile(r"(\d+)(?:-(\d+))?=(\S+)")


def read_texts(file: str, column: str | None) -> Iterator[str]:
    """Yield the strings of a file: lines, the key "text" of JSON Lines, or a column of a CSV file; - is stdin."""
    source: Any = sys.stdin.buffer if file == "-" else file
    suffixes = [] if file == "-" else Path(file).suffixes
    if column is not None or ".csv" in suffixes or ".tsv" in suffixes:
        header, rows = read_csv_rows(source, "\t" if ".tsv" in suffixes else ",")
        if column is None or column not in header:
            raise FileFormatError(
                f"{source_name(source)}: pass the column of the strings with --column, one of {', '.join(header)}."
            )
        yield from (row[header.index(column)] for row in rows)
        return
    for number, line in read_lines(source):
        if ".jsonl" in suffixes:
            if line.strip():
                yield _text_of(line, f"{source_name(source)}, line {number}")
        else:
            yield line


def _text_of(line: str, place: str) -> str:
    item = read_json_text(line, place, "Write one JSON object in each line.")
    text = item.get("text") if isinstance(item, dict) else item
    if not isinstance(text, str):
        raise FileFormatError(f'{place}: expected a string, or an object with a string as "text".')
    return text


def batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield the strings in lists, so that a long stream is parsed while it is read."""
    batch: list[str] = []
    for text in texts:
        batch.append(text)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def write_parses(target: IO[str], kind: str, fields: list[str]) -> Callable[[list[Parse]], None]:
    """Return the function that writes parses to a stream as JSON Lines or CSV rows."""
    if kind == "jsonl":

        def write_lines(parses: list[Parse]) -> None:
            target.writelines(json.dumps(parse.as_dict(), ensure_ascii=False) + "\n" for parse in parses)

        return write_lines
    if kind != "csv":
        raise InvalidInputError(f"--to {kind}: expected jsonl or csv.")
    writer = csv.writer(target, lineterminator="\n")
    columns = [name for field in fields for name in (field, f"{field} probability")]
    writer.writerow(["text", "probability", *columns])

    def write_rows(parses: list[Parse]) -> None:
        for parse in parses:
            values = parse.fields()
            row: list[Any] = [parse.text, parse.probability]
            for field in fields:
                probabilities = [span.probability for span in parse.spans if span.field == field]
                row += [values.get(field, ""), min(probabilities, default="")]
            writer.writerow(row)

    return write_rows


def next_item(session: LabellingSession) -> dict[str, Any]:
    """Return the next string: its tokens, a label for each of them, and counts; text None at the end.

    A label is None, or a list of the field and the number of its span.
    """
    from intarsia.sequences.parsing.labelled_text import token_fields
    from intarsia.sequences.parsing.tokens import tokenize

    counts = {"n_answers": session.n_answers, "n_waiting": session.n_waiting, "fields": session.fields}
    proposal = session.propose()
    if proposal is None:
        return {"text": None, "probability": None, "tokens": [], "labels": [], **counts}
    tokens = tokenize(proposal.text, session.tokenizer)
    index = token_fields(tokens, proposal.spans)
    return {
        "index": proposal.index,
        "text": proposal.text,
        "tokens": [token._asdict() for token in tokens],
        "labels": [None if k < 0 else [proposal.spans[k][2], k + 1] for k in index],
        "probability": proposal.probability,
        **counts,
    }


def spans_from_labels(tokens: list[dict[str, Any]], labels: list[Any]) -> list[Span]:
    """Return the spans of labelled tokens: neighbours with the same label are one span.

    Examples
    --------
    >>> tokens = [{"start": 0, "end": 2}, {"start": 3, "end": 7}, {"start": 8, "end": 10}]
    >>> spans_from_labels(tokens, [["number", 1], ["street", 2], ["street", 2]])
    [(0, 2, 'number'), (3, 10, 'street')]
    """
    spans: list[Span] = []
    previous = None
    for token, label in zip(tokens, labels, strict=True):
        if label is not None and label == previous:
            spans[-1] = (spans[-1][0], token["end"], label[0])
        elif label is not None:
            spans.append((token["start"], token["end"], label[0]))
        previous = label
    return spans


def label_in_terminal(session: LabellingSession) -> None:
    """Show the least certain string with numbered words and proposed fields; read corrections until the user ends."""
    typer.echo("Enter accepts; 1=number 2-3=street 4=- sets fields of words; s skips, q ends.")
    while (proposal := session.propose()) is not None:
        item = next_item(session)
        labels = list(item["labels"])
        while True:
            _show(proposal, item, labels, session)
            line = _read_line()
            if line == "q":
                return
            if line == "s":
                session.skip(proposal.index)
                break
            if line == "":
                session.answer(proposal.index, spans_from_labels(item["tokens"], labels))
                break
            try:
                labels = assign(labels, line)
            except InvalidInputError as error:
                typer.echo(str(error))
    typer.echo("Nothing is left to label.")


def _read_line() -> str:
    line = sys.stdin.readline()
    return line.strip() if line else "q"


def assign(labels: list[Any], line: str) -> list[Any]:
    """Return the labels of words after assignments such as `1=number 2-3=street 4=-`; words are numbered from 1.

    Examples
    --------
    >>> assign([None, None, None], "1=number 2-3=street")
    [['number', 1], ['street', 2], ['street', 2]]
    """
    result = list(labels)
    for piece in line.split():
        match = _ASSIGNMENT.fullmatch(piece)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if match is None or not 1 <= first <= last <= len(labels):
            raise InvalidInputError(
                f"{piece!r}: expected words and a field, such as 1=number or 2-3=street, with words from 1 to "
                f"{len(labels)}."
            )
        number = 1 + max((label[1] for label in result if label is not None), default=0)
        label = None if match[3] == "-" else [match[3], number]
        result[first - 1 : last] = [label] * (last - first + 1)
    return result


def _show(proposal: Proposal, item: dict[str, Any], labels: list[Any], session: LabellingSession) -> None:
    """Print the string, and a line for each word with its number and field."""
    certainty = "" if proposal.probability is None else f", probability {100 * proposal.probability:.1f} %"
    typer.echo(f"\n{session.n_answers} labelled, {session.n_waiting} to go{certainty}\n{proposal.text}")
    previous = None
    for number, (token, label) in enumerate(zip(item["tokens"], labels, strict=True), 1):
        field = "-" if label is None else f"{'  ' if label == previous else ''}{label[0]}"
        typer.echo(f"{number:4}  {token['text']:<24} {field}")
        previous = label
