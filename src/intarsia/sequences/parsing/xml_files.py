"""XML files of parserator and AnyStyle: strings in which each element of the second level is a labelled span."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any
from xml.parsers import expat
from xml.sax.saxutils import escape

from intarsia.exceptions import FileFormatError, InvalidInputError
from intarsia.sequences.parsing.labelled_text import LabelledText
from intarsia.sequences.parsing.tokens import tokenize

_XML_NAME = re.compile(r"[^\W\d][\w.-]*")
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_RECORD, _FIELD = 2, 3


class _Reader:
    """Handlers of the XML parser: they collect the text and the spans of each element below the root."""

    def __init__(self, name: str, merge: bool) -> None:
        self.name, self.merge = name, merge
        self.depth = 0
        self.records: list[tuple[str, list[Any], str]] = []
        self.text = ""
        self.spans: list[tuple[int, int, str]] = []
        self.start, self.line, self.field = 0, 0, ""
        self.after_field = False
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._open
        self.parser.EndElementHandler = self._close
        self.parser.CharacterDataHandler = self._add
        self.parser.EntityDeclHandler = self._refuse_entity

    def read(self, text: str) -> None:
        """Parse a document."""
        try:
            self.parser.Parse(text, True)
        except expat.ExpatError as error:
            reason = expat.errors.messages.get(error.code, "invalid")
            raise FileFormatError(
                f"{self.name}, line {error.lineno}, column {error.offset + 1}: invalid XML ({reason}). Correct the "
                f"file; write &amp; for an ampersand."
            ) from None

    def _open(self, element: str, attributes: dict[str, str]) -> None:
        self.depth += 1
        line = self.parser.CurrentLineNumber
        if self.depth > _FIELD:
            raise FileFormatError(
                f"{self.name}, line {line}: element {element!r} is inside the field {self.field!r}, so spans overlap. "
                f"Write one element after the other."
            )
        if self.depth == _RECORD:
            self.text, self.spans, self.line, self.after_field = "", [], line, False
        elif self.depth == _FIELD:
            if not self.merge and self.after_field and self.text and not self.text[-1].isspace():
                self.text += " "  # the fields of AnyStyle are separate words
            self.start, self.field = len(self.text), element

    def _close(self, element: str) -> None:
        if self.depth == _FIELD:
            self._close_field()
        elif self.depth == _RECORD:
            self.records.append((self.text.rstrip(), self.spans, f"{self.name}, line {self.line}"))
        self.depth -= 1

    def _close_field(self) -> None:
        # A space at the edge of an element does not belong to the field.
        value = self.text[self.start :]
        start = self.start + len(value) - len(value.lstrip())
        end = self.start + len(value.rstrip())
        if start < end:
            if self.merge and self.spans and self.spans[-1][2] == self.field:
                previous_start, previous_end, _ = self.spans[-1]
                if self.text[previous_end:start].isspace() or previous_end == start:
                    start = previous_start
                    self.spans.pop()
            self.spans.append((start, end, self.field))
        self.after_field = True

    def _add(self, data: str) -> None:
        """Add characters to the text; runs of white space become one space, because files are indented."""
        if self.depth < _RECORD:
            return
        pieces = re.sub(r"\s+", " ", data)
        if not self.text or self.text[-1] == " ":
            pieces = pieces.lstrip(" ")
        self.text += pieces

    def _refuse_entity(self, *_: Any) -> None:
        raise FileFormatError(
            f"{self.name}, line {self.parser.CurrentLineNumber}: entity declarations are not read, because they can "
            f"exhaust the memory. Remove the DOCTYPE."
        )


def read_xml(lines: Sequence[str], name: str, *, merge: bool) -> Iterator[tuple[str, list[Any], str]]:
    """Yield text, spans and place of each element below the root.

    Parameters
    ----------
    lines : list of str
        Lines of the file.
    name : str
        Name of the file for messages.
    merge : bool
        Whether neighbours with the same name are one span, as in parserator's files, where each token is an element.

    Examples
    --------
    >>> list(read_xml(["<all><x><a>one</a> <a>two</a></x></all>"], "x.xml", merge=True))
    [('one two', [(0, 7, 'a')], 'x.xml, line 1')]
    """
    reader = _Reader(name, merge)
    reader.read("\n".join(lines))
    yield from reader.records


def to_xml_lines(examples: Sequence[LabelledText]) -> Iterator[str]:
    """Yield the lines of an XML file of parserator.

    Examples
    --------
    >>> for line in to_xml_lines([LabelledText("12 Main St", [(3, 10, "street")])]):
    ...     print(line)
    <Collection>
      <String>12 <street>Main</street> <street>St</street></String>
    </Collection>
    """
    yield "<Collection>"
    for i, example in enumerate(examples):
        yield f"  <String>{_elements(example, i)}</String>"
    yield "</Collection>"


def _elements(example: LabelledText, i: int) -> str:
    """Return the text of an example with an element around each token of a span."""
    text, spans = example.text, example.spans
    invalid = _NOT_IN_XML.search(text)
    if invalid:
        raise InvalidInputError(
            f"labelled[{i}]: XML cannot contain the character {invalid.group()!r}. Remove it, or use format='jsonl'."
        )
    for (_, end, field), (start, _, next_field) in pairwise(spans):
        if field == next_field and not text[end:start].strip():
            raise InvalidInputError(
                f"labelled[{i}]: two spans of {field!r} with only white space between them would be read as one. Use "
                f"format='jsonl'."
            )
    pieces, position = [], 0
    for start, end, field in spans:
        if not _XML_NAME.fullmatch(field):
            raise InvalidInputError(
                f"labelled[{i}]: the field {field!r} cannot be the name of an XML element. Use format='jsonl'."
            )
        pieces.append(escape(text[position:start]))
        position = start
        for token in tokenize(text[start:end], "whitespace"):
            pieces.append(text[position : start + token.start])  # white space
            pieces.append(f"<{field}>{escape(token.text)}</{field}>")
            position = start + token.end
        pieces.append(text[position:end])
        position = end
    pieces.append(escape(text[position:]))
    return "".join(pieces)
