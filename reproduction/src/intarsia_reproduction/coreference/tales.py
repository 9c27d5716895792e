"""Twelve short tales with coreference, written for the examples of `CoreferenceResolver`."""

from __future__ import annotations

from importlib.resources import files

from intarsia_reproduction.coreference.document import Document, Mention


def load_tales() -> list[Document]:
    """Load twelve short tales with the entities of their mentions, which come with this distribution.

    Kinds and categories of the mentions are not annotated, so that `CoreferenceResolver` guesses them.

    Examples
    --------
    >>> tales = load_tales()
    >>> len(tales), tales[0].name, tales[0].words(tales[0].mentions[0])
    (12, 'the lost ring', ['Mrs.', 'Hill'])
    """
    text = (files("intarsia_reproduction.coreference") / "tales.txt").read_text(encoding="utf-8")
    return [_read_tale(*tale.strip().split("\n")) for tale in text.split("\n\n")[1:]]


def _read_tale(title: str, *lines: str) -> Document:
    """Read a tale: a title after `# `, and a sentence per line with marked mentions."""
    sentences: list[list[str]] = []
    mentions: list[tuple[Mention, str]] = []
    for line in lines:
        words: list[str] = []
        opened: list[tuple[str, int]] = []
        for token in line.replace("]", " ]").split():
            if token.startswith("["):
                opened.append((token[1:], len(words)))
            elif token == "]":
                entity, start = opened.pop()
                # An empty mention such as `[a]` marks the word before it.
                start = min(start, len(words) - 1)
                mentions.append((Mention(len(sentences), start, len(words) - 1), entity))
            else:
                words.append(token)
        sentences.append(words)
    mentions.sort(key=lambda item: (item[0].sentence, item[0].start, -item[0].end))
    return Document(
        title.removeprefix("# "), sentences, [mention for mention, _ in mentions], [entity for _, entity in mentions]
    )
