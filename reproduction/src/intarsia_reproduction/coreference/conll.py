"""Read and write coreference documents in the columns of CoNLL-2012, which the official scorer reads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from intarsia._core.error_context import errors_from
from intarsia._core.validation import IntArray
from intarsia._files.text_lines import Source, read_lines, source_name, written_text
from intarsia.exceptions import FileFormatError, InvalidInputError
from intarsia_reproduction.coreference.document import Document, Mention

_BEGIN = re.compile(r"#begin document \(?(?P<name>.*?)\)?(?:; part (?P<part>\d+))?\s*$")
_MARK = re.compile(r"(\()?(\d+)(\))?$")
# Columns of CoNLL-2012: document, part, word number, word, part of speech, parse, lemma, frameset, sense, speaker,
# named entity, any number of predicate arguments, coreference.
_WORD, _SPEAKER, _FEWEST = 3, 9, 5


@dataclass
class _Reading:
    """Words, speakers and mentions of a document while it is read."""

    name: str
    part_number: int
    line: int
    sentences: list[list[str]] = field(default_factory=list)
    speakers: list[list[str]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    starts: dict[int, list[int]] = field(default_factory=dict)
    spans: list[tuple[Mention, int]] = field(default_factory=list)

    def end_sentence(self, place: str) -> None:
        """Store the sentence; raise if a mention is still open."""
        for entity, starts in self.starts.items():
            if starts:
                raise FileFormatError(
                    f"{place}: a mention of entity {entity} begins with word {starts[-1]} of the sentence, but does "
                    f"not end in it. Close it with '{entity})'."
                )
        if self.words:
            self.sentences.append(self.words)
            self.speakers.append(self.names)
            self.words, self.names = [], []

    def add_word(self, cells: list[str], place: str) -> None:
        """Add the word of a line, and open and close the mentions of its last column."""
        position = len(self.words)
        self.words.append(cells[_WORD])
        self.names.append(cells[_SPEAKER] if len(cells) > _SPEAKER + 1 else "-")
        if cells[-1] in ("-", "_", "*"):
            return
        for text in cells[-1].split("|"):
            mark = _MARK.fullmatch(text)
            if mark is None or not (mark[1] or mark[3]):
                raise FileFormatError(
                    f"{place}: the last column is {cells[-1]!r:.40}; expected marks such as '(5', '5)' and '(5)' with "
                    f"'|' between them, or '-'."
                )
            entity = int(mark[2])
            if mark[1]:
                self.starts.setdefault(entity, []).append(position)
            if mark[3]:
                if not self.starts.get(entity):
                    raise FileFormatError(
                        f"{place}: a mention of entity {entity} ends, but none is open. Open it with '({entity}'."
                    )
                start = self.starts[entity].pop()
                self.spans.append((Mention(len(self.sentences), start, position), entity))

    def document(self) -> Document:
        """Return the finished document, with mentions in the order of the text."""
        spans = sorted(dict.fromkeys(self.spans), key=lambda item: (item[0].sentence, item[0].start, -item[0].end))
        # A span can belong to one entity only; the files of CoNLL-2012 repeat few spans, of which the first counts.
        entity_of: dict[Mention, int] = {}
        for mention, entity in spans:
            entity_of.setdefault(mention, entity)
        has_speakers = any(name not in ("-", "_", "") for names in self.speakers for name in names)
        speakers = self.speakers if has_speakers else None
        return Document(
            self.name, self.sentences, list(entity_of), list(entity_of.values()), speakers, self.part_number
        )


@errors_from("read_conll2012")
def read_conll2012(source: Source) -> list[Document]:
    r"""Read documents with coreference in the columns of CoNLL-2012, plain or gzip.

    Words are read from column 4, speakers from column 10 and mentions from the last column, where `(5` begins a mention
    of entity 5, `5)` ends one, and `(5)` is a mention of one word. Columns are separated by spaces or tabs. The files
    of the folder `coref/conll` of LitBank have these columns too. Each part of a document becomes a document.

    Parameters
    ----------
    source : path or open file
        File to read.

    Raises
    ------
    FileFormatError
        A line is malformed; the message names the line.

    Examples
    --------
    >>> import io
    >>> lines = ["#begin document (a); part 000", "a 0 0 Ann NNP * - - - - * (4)", "", "#end document"]
    >>> document, = read_conll2012(io.StringIO("\n".join(lines)))
    >>> document.name, document.sentences, document.mentions[0].start, document.entities
    ('a', [['Ann']], 0, [4])
    """
    name = source_name(source)
    documents: list[Document] = []
    reading: _Reading | None = None
    for number, line in read_lines(source):
        place = f"{name}, line {number}"
        if line.startswith("#begin document"):
            if reading is not None:
                raise FileFormatError(f"{place}: the document of line {reading.line} has no '#end document'. Add it.")
            match = _BEGIN.match(line)
            reading = _Reading(match["name"], int(match["part"] or 0), number) if match else _Reading(line, 0, number)
        elif line.startswith("#end document"):
            if reading is None:
                raise FileFormatError(f"{place}: no document is open. Write '#begin document (NAME)'.")
            reading.end_sentence(place)
            documents.append(reading.document())
            reading = None
        elif not line.strip():
            if reading is not None:
                reading.end_sentence(place)
        elif not line.startswith("#"):
            if reading is None:
                raise FileFormatError(f"{place}: this line is in no document. Write '#begin document' before it.")
            cells = line.split("\t") if "\t" in line else line.split()
            if len(cells) < _FEWEST:
                raise FileFormatError(
                    f"{place}: {len(cells)} columns; expected at least {_FEWEST}, the word in column 4 and coreference "
                    f"in the last."
                )
            reading.add_word([cell.strip() for cell in cells], place)
    if reading is not None:
        raise FileFormatError(f"{name}: the document of line {reading.line} has no '#end document'. Add it.")
    if not documents:
        raise FileFormatError(f"{name}: no document. Expected lines '#begin document (NAME); part 000'.")
    return documents


@errors_from("write_conll2012")
def write_conll2012(
    target: Source,
    documents: Iterable[Document],
    clusters: Sequence[Sequence[int] | IntArray] | None = None,
    *,
    singletons: bool = True,
) -> None:
    """Write documents in the columns of CoNLL-2012, with predicted clusters for the official scorer.

    Pass the documents that `read_conll2012` returned, so that names and parts are those of the key file. Columns
    without information hold "-".

    Parameters
    ----------
    target : path or open file
        File to write; gzip if the name ends in .gz.
    documents : list of Document
        Documents.
    clusters : list of integer sequences, optional
        Cluster of each mention of each document, as `CoreferenceResolver.predict` returns them; by default the
        entities of the documents.
    singletons : bool
        Whether to write clusters of one mention; the key files of CoNLL-2012 have none, those of LitBank do.

    Examples
    --------
    >>> import io
    >>> file = io.StringIO()
    >>> text = Document("a", [["Ann", "lost", "her", "hat"]], [Mention(0, 0, 0), Mention(0, 2, 2)])
    >>> write_conll2012(file, [text], [[5, 5]])
    >>> [line.split()[-1] for line in file.getvalue().splitlines()[1:5]]
    ['(0)', '-', '(0)', '-']
    """
    documents = list(documents)
    if clusters is not None and len(clusters) != len(documents):
        raise InvalidInputError(
            f"there are {len(documents)} documents, but clusters of {len(clusters)}. Pass one list for each document."
        )
    # All is checked before the first line is written.
    columns = [
        _coreference_column(document if clusters is None else document.with_entities(list(clusters[k])), singletons)
        for k, document in enumerate(documents)
    ]
    with written_text(target) as file:
        for document, marks in zip(documents, columns, strict=True):
            file.write(f"#begin document ({document.name}); part {document.part_number:03d}\n")
            for index, words in enumerate(document.sentences):
                speakers = ["-"] * len(words) if document.speakers is None else document.speakers[index]
                for position, word in enumerate(words):
                    cells = [
                        document.name,
                        str(document.part_number),
                        str(position),
                        word,
                        *("-" * 5),
                        speakers[position],
                    ]
                    file.write("\t".join([*cells, "*", marks[index][position]]) + "\n")
                file.write("\n")
            file.write("#end document\n")


def _coreference_column(document: Document, singletons: bool) -> list[list[str]]:
    """Return the last column: the marks of each word of each sentence."""
    if document.entities is None:
        raise InvalidInputError(f"document {document.name!r} has no entities. Pass clusters=.")
    for k, words in enumerate(document.sentences):
        bad = next((word for word in words if not word or any(c.isspace() for c in word)), None)
        if bad is not None:
            raise InvalidInputError(
                f"document {document.name!r}: the word {bad!r} of sentence {k} is empty or has a space in it. Replace "
                f"it, because spaces separate columns."
            )
    number_of = {entity: k for k, entity in enumerate(dict.fromkeys(document.entities))}
    labels = [number_of[entity] for entity in document.entities]
    n_mentions = {label: labels.count(label) for label in number_of.values()}
    opened: list[list[list[tuple[int, str]]]] = [[[] for _ in words] for words in document.sentences]
    closed: list[list[list[tuple[int, str]]]] = [[[] for _ in words] for words in document.sentences]
    for (sentence, start, end, *_), label in zip(document.mentions, labels, strict=True):
        if singletons or n_mentions[label] > 1:
            if start == end:
                opened[sentence][start].append((0, f"({label})"))
            else:
                # Longer mentions open first and close last, so that mentions of one entity can be nested.
                opened[sentence][start].append((start - end, f"({label}"))
                closed[sentence][end].append((end - start, f"{label})"))
    return [
        [
            "|".join(mark for _, mark in sorted(closing) + sorted(opening)) or "-"
            for opening, closing in zip(*row, strict=True)
        ]
        for row in zip(opened, closed, strict=True)
    ]
