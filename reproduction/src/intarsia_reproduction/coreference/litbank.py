"""Read coreference documents in the format of LitBank: a brat file of annotations beside a file with the text."""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from pathlib import Path

from intarsia._core.error_context import errors_from
from intarsia._files.text_lines import read_lines
from intarsia.exceptions import FileFormatError
from intarsia_reproduction.coreference.document import KINDS, Document, Mention

_TYPE = re.compile(rf"({'|'.join(KINDS)})_(\w+)$")


@errors_from("read_litbank")
def read_litbank(path: str | os.PathLike[str]) -> list[Document]:
    r"""Read the documents of LitBank's folder `coref/brat`, or one of them.

    The text `NAME.txt` has a sentence per line and a space between words. In `NAME.ann` a line such as
    `T1<tab>PROP_PER 36 47<tab>Mary Lennox` gives kind and category of the characters 36 to 46, and
    `T9<tab>MARY_LENNOX-0 36 47<tab>Mary Lennox` its entity. Spans that have no entity (appositions and predicates)
    are not mentions, as in the other formats of LitBank. Use `read_conll2012` for the folder `coref/conll`.

    Parameters
    ----------
    path : path
        Folder with `.ann` and `.txt` files, or one `.ann` file.

    Raises
    ------
    FileFormatError
        A file is malformed or missing; the message names file and line.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.txt").write_text("Ann lost her hat .")
    ...     _ = Path(folder, "a.ann").write_text(
    ...         "T1\tPROP_PER 0 3\tAnn\nT2\tANN-0 0 3\tAnn\nT3\tANN-0 9 12\ther\n")
    ...     document, = read_litbank(folder)
    >>> document.mentions[0], document.entities
    (Mention(sentence=0, start=0, end=0, kind='PROP', category='PER'), ['ANN-0', 'ANN-0'])
    """
    source = Path(path)
    files = sorted(source.glob("*.ann")) if source.is_dir() else [source]
    if not files:
        raise FileFormatError(f"{source}: no file ends in .ann. Pass the folder coref/brat of LitBank.")
    return [_read_document(file) for file in files]


def _read_document(path: Path) -> Document:
    """Read the annotations and the text of a document."""
    text = path.with_suffix(".txt")
    if path.suffix != ".ann" or not path.exists() or not text.exists():
        missing = path if path.suffix != ".ann" or not path.exists() else text
        raise FileFormatError(f"{missing}: expected a file NAME.ann with NAME.txt beside it. Download both.")
    sentences, starts, ends = _read_words(text)
    kinds: dict[tuple[int, int], tuple[str, str]] = {}
    entities: dict[tuple[int, int], str] = {}
    for number, line in read_lines(path):
        if not line.startswith("T"):
            continue
        place = f"{path.name}, line {number}"
        cells = line.split("\t")
        label, *span = cells[1].split() if len(cells) > 1 else [""]
        if len(span) != 2 or not all(offset.isdecimal() for offset in span):
            raise FileFormatError(
                f"{place}: expected an identifier, a tab, and a label with two offsets such as 'PROP_PER 36 47'. Spans "
                f"of several pieces are not supported."
            )
        first, last = int(span[0]), int(span[1]) - 1
        words = (bisect_right(starts, first) - 1, bisect_right(starts, last) - 1)
        if not 0 <= first <= last or words[1] < 0 or last > ends[-1]:
            raise FileFormatError(f"{place}: characters {span[0]} to {span[1]} are not in {text.name}. Download both.")
        kind = _TYPE.match(label)
        if kind is None:
            entities[words] = label
        else:
            kinds[words] = (kind[1], kind[2])
    mentions, labels = [], []
    position = [(index, k) for index, words in enumerate(sentences) for k in range(len(words))]
    for (first, last), label in sorted(entities.items(), key=lambda item: (item[0][0], -item[0][1])):
        (sentence, start), (last_sentence, end) = position[first], position[last]
        if sentence != last_sentence:
            raise FileFormatError(
                f"{path.name}: a mention of {label} reaches from sentence {sentence} to {last_sentence}. Split it."
            )
        mentions.append(Mention(sentence, start, end, *kinds.get((first, last), (None, None))))
        labels.append(label)
    return Document(path.stem, sentences, mentions, labels)


def _read_words(path: Path) -> tuple[list[list[str]], list[int], list[int]]:
    """Return the words of each sentence, and the first and last character of each word."""
    sentences, starts, ends = [], [], []
    offset = 0
    for _, line in read_lines(path):
        words = []
        for match in re.finditer(r"[^ ]+", line):
            words.append(match[0])
            starts.append(offset + match.start())
            ends.append(offset + match.end() - 1)
        offset += len(line) + 1
        if words:
            sentences.append(words)
    if not sentences:
        raise FileFormatError(f"{path.name}: no words. Download the file again.")
    return sentences, starts, ends
