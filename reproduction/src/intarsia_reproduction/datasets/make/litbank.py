"""Make `litbank/litbank_coref.jsonl.gz` from the folder `coref` of LitBank (https://github.com/dbamman/litbank).

`conll/NAME.conll` has the words and the entities: `(5|(2)` where two mentions start (the second has one word), `5)`
where one ends. `tsv/NAME.ann` has lines `MENTION`, name, sentence and word of start and end, text, category and kind.
"""

from __future__ import annotations

import json
from pathlib import Path

from intarsia.exceptions import InvalidInputError
from intarsia_reproduction.datasets.make.command import files_in, read_original, run, write_text

Span = tuple[int, int, int, int]


def make_litbank(original: Path, output: Path) -> None:
    """Write a JSON document per book, with mentions in the order of their first word, longer ones first."""
    lines = []
    for path in files_in(original / "conll", "*.conll"):
        kinds = _kinds(original / "tsv" / f"{path.stem}.ann")
        sentences, entities = _words_and_entities(path)
        unknown = [span for span, _ in entities if span not in kinds]
        if unknown:
            raise InvalidInputError(
                f"{path.name}: the mention {unknown[0]} is missing from {path.stem}.ann. Download both."
            )
        entities.sort(key=lambda item: (item[0][0], item[0][1], -item[0][2], -item[0][3]))
        mentions = [[*span, entity, *kinds[span]] for span, entity in entities]
        document = {"doc": path.stem, "sentences": sentences, "mentions": mentions}
        lines.append(json.dumps(document, ensure_ascii=False) + "\n")
    write_text(output / "litbank" / "litbank_coref.jsonl.gz", "".join(lines))


def _kinds(path: Path) -> dict[Span, tuple[str, str]]:
    """Return the kind and category of each mention."""
    kinds: dict[Span, tuple[str, str]] = {}
    for number, line in enumerate(read_original(path).split("\n"), 1):
        cells = line.rstrip("\r").split("\t")
        if cells[0] != "MENTION":
            continue
        if len(cells) != 9 or not all(cell.isdecimal() for cell in cells[2:6]):
            raise InvalidInputError(
                f"{path.name}, line {number}: {len(cells)} columns, expected 9, of which columns 3 to 6 are integers."
            )
        first, start, last, end = map(int, cells[2:6])
        kinds[first, start, last, end] = (cells[8], cells[7])
    return kinds


def _words_and_entities(path: Path) -> tuple[list[list[str]], list[tuple[Span, int]]]:
    """Return the words of each sentence, and span and entity of each mention in the order of their ends."""
    sentences: list[list[str]] = [[]]
    starts: dict[int, list[tuple[int, int]]] = {}
    entities: list[tuple[Span, int]] = []
    for number, line in enumerate(read_original(path).split("\n"), 1):
        cells = line.rstrip("\r").split("\t")
        if line.startswith("#"):
            continue
        if not line.strip():
            if sentences[-1]:
                sentences.append([])
            continue
        if len(cells) < 5:
            raise InvalidInputError(f"{path.name}, line {number}: {len(cells)} columns, expected words in the fourth.")
        position = (len(sentences) - 1, len(sentences[-1]))
        sentences[-1].append(cells[3])
        for mark in cells[-1].split("|"):
            if mark.strip("()").isdecimal():
                entity = int(mark.strip("()"))
                if mark.startswith("("):
                    starts.setdefault(entity, []).append(position)
                if mark.endswith(")"):
                    if not starts.get(entity):
                        raise InvalidInputError(
                            f"{path.name}, line {number}: a mention of entity {entity} ends but never starts. Download "
                            f"the file again."
                        )
                    entities.append(((*starts[entity].pop(), *position), entity))
    return [words for words in sentences if words], entities


if __name__ == "__main__":
    run(make_litbank, "folder coref with conll/ and tsv/ from https://github.com/dbamman/litbank")
