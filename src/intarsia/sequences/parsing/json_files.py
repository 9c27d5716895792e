"""JSON files of labelled strings: JSON Lines in the spellings of spaCy, Prodigy and doccano, and Label Studio."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from intarsia._files.json_text import read_json_text
from intarsia.exceptions import FileFormatError
from intarsia.sequences.parsing.labelled_text import LabelledText

_TEXT_KEYS = ("text", "data")
_SPAN_KEYS = ("spans", "entities", "labels", "label", "annotations")
_START_KEYS, _END_KEYS, _FIELD_KEYS = ("start", "start_offset"), ("end", "end_offset"), ("label", "field", "labels")
Record = tuple[str, list[Any], str]


def to_json_line(example: LabelledText) -> str:
    """Return a labelled string as a line of a JSON Lines file.

    Examples
    --------
    >>> to_json_line(LabelledText("12 Main St", [(0, 2, "number")]))
    '{"text": "12 Main St", "spans": [[0, 2, "number"]]}'
    """
    return json.dumps({"text": example.text, "spans": [list(span) for span in example.spans]}, ensure_ascii=False)


def read_json_lines(lines: Sequence[str], name: str) -> Iterator[Record]:
    """Yield text, spans and place of each line of a JSON Lines file; blank lines are skipped.

    Examples
    --------
    >>> list(read_json_lines(['{"text": "12 Main", "label": [[0, 2, "number"]]}'], "x.jsonl"))
    [('12 Main', [(0, 2, 'number')], 'x.jsonl, line 1')]
    """
    for number, line in enumerate(lines, 1):
        if line.strip():
            item = read_json_text(line, name, "Write one JSON object in each line.", partial(_place_in_line, number))
            yield _record(item, f"{name}, line {number}")


def _place_in_line(number: int, index: int) -> tuple[int, int]:
    """Return line and column of a character of the line with this number."""
    return number, index + 1


def read_json_array(lines: Sequence[str], name: str) -> Iterator[Record]:
    """Yield text, spans and place of each task of a Label Studio export (JSON or JSON-MIN).

    Tasks without a finished annotation are skipped; of several annotations the first is read.

    Examples
    --------
    >>> task = '[{"text": "12 Main", "label": [{"start": 0, "end": 2, "labels": ["number"]}]}]'
    >>> list(read_json_array([task], "x.json"))
    [('12 Main', [(0, 2, 'number')], 'x.json, line 1')]
    """
    content = "\n".join(lines)
    items = read_json_text(content, name, "Export the project again as JSON.")
    if not isinstance(items, list):
        raise FileFormatError(f"{name}, line 1: expected a list of tasks, got {type(items).__name__}.")
    decoder = json.JSONDecoder()
    position = content.index("[") + 1
    line = 1 + content.count("\n", 0, position)
    for item in items:
        start = position
        while content[position] in " \t\r\n,":
            position += 1
        line += content.count("\n", start, position)
        _, end = decoder.raw_decode(content, position)
        place = f"{name}, line {line}"
        line += content.count("\n", position, end)
        position = end
        if isinstance(item, dict) and isinstance(item.get("annotations"), list) and "data" in item:
            yield from _label_studio(item, place)
        else:
            yield _record(item, place)


def _label_studio(task: dict[str, Any], place: str) -> Iterator[Record]:
    """Yield the text and the spans of a task of Label Studio, if it has a finished annotation."""
    annotations = [
        annotation
        for annotation in task["annotations"]
        if isinstance(annotation, dict) and not annotation.get("was_cancelled")
    ]
    if not annotations:
        return
    results = annotations[0].get("result")
    if not isinstance(results, list):
        raise FileFormatError(f"{place}: expected a list as 'result' of the annotation. Export the project again.")
    texts = task["data"]
    if isinstance(texts, dict):
        strings = [value for value in texts.values() if isinstance(value, str)]
        texts = texts.get("text", strings[0] if len(strings) == 1 else None)
    if not isinstance(texts, str):
        raise FileFormatError(f"{place}: expected a string as 'text' in 'data'. Export a project that labels text.")
    values = [
        result["value"]
        for result in results
        if isinstance(result, dict) and isinstance(result.get("value"), dict) and "start" in result["value"]
    ]
    yield texts, [_span(value, texts, place) for value in values], place


def _record(item: Any, place: str) -> Record:
    """Return text, spans and place of one object."""
    if isinstance(item, list) and len(item) == 2 and isinstance(item[0], str) and isinstance(item[1], dict):
        item = {"text": item[0], **item[1]}  # training data of spaCy
    if not isinstance(item, dict):
        raise FileFormatError(f"{place}: expected an object with 'text' and 'spans', got {item!r:.60}.")
    text = next((item[key] for key in _TEXT_KEYS if isinstance(item.get(key), str)), None)
    if text is None:
        raise FileFormatError(f"{place}: expected a string as 'text', got the keys {list(item)!r:.60}.")
    spans = next((item[key] for key in _SPAN_KEYS if item.get(key) is not None), None)
    if not isinstance(spans, list):
        raise FileFormatError(
            f"{place}: expected a list of spans as 'spans' (or 'label', 'labels', 'entities'), got {spans!r:.60}. "
            f"Write [] if the string has no fields."
        )
    return text, [_span(span, text, place) for span in spans], place


def _span(span: Any, text: str, place: str) -> Any:
    """Return (start, end, field) of a span in any spelling; a list is checked later."""
    if isinstance(span, list):
        return tuple(span)
    if not isinstance(span, dict):
        raise FileFormatError(f"{place}: a span must be a list [start, end, field] or an object, got {span!r:.60}.")
    start, end, field = (
        next((span[key] for key in keys if key in span), None) for keys in (_START_KEYS, _END_KEYS, _FIELD_KEYS)
    )
    if isinstance(field, list):
        if len(field) != 1:
            raise FileFormatError(f"{place}: a span must have one label, got {field!r:.60}.")
        field = field[0]
    value = span.get("text")
    if isinstance(value, str) and isinstance(start, int) and isinstance(end, int) and text[start:end] != value:
        start, end = _from_utf16(start, end, text, value, place)
    return start, end, field


def _from_utf16(start: int, end: int, text: str, value: str, place: str) -> tuple[int, int]:
    """Return offsets in characters for offsets in UTF-16 units, which browsers count; raise if they do not match."""
    units = text.encode("utf-16-le")
    before, inside = units[: 2 * start], units[2 * start : 2 * end]
    if inside == value.encode("utf-16-le"):
        first = len(before.decode("utf-16-le", errors="replace"))
        return first, first + len(value)
    raise FileFormatError(
        f"{place}: the text from {start} to {end} is {text[start:end]!r:.60}, but the span says {value!r:.60}. Export "
        f"the file again, or correct the offsets."
    )
