"""Files of taggers as sequences of features with labels: CoNLL columns or CRFsuite's feature format."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intarsia.exceptions import FileFormatError, InvalidInputError

FORMATS = ("auto", "conll", "crfsuite")
# A colon alone is a part of speech.
_FEATURE = re.compile(r".=|.:[-+.\d]")


@dataclass
class TagFile:
    """Sequences of a file.

    Attributes
    ----------
    format : str
        "conll" or "crfsuite".
    features : list of lists
        Features of each token of each sequence, as `ChainCRF` takes them.
    labels : list of lists of str, or None
        The last column; None where the file has no labels.
    weights : list of float
        Weights of the sequences.
    columns : list of tuples of lists of str
        What a CoNLL file holds beside the labels.
    """

    format: str
    features: list[Any]
    labels: list[list[str]] | None
    weights: list[float]
    columns: list[tuple[list[str], ...]]


def read_tag_file(path: Path, form: str, separator: str | None, n_columns: int | None = None) -> TagFile:
    """Read a file; `n_columns` is how many columns of features a model wants, if there is one already."""
    from intarsia._core.validation import check_choice

    check_choice(form, FORMATS, "--format")
    kind = _guess(path) if form == "auto" else form
    found = _read_crfsuite(path) if kind == "crfsuite" else _read_conll(path, separator, n_columns)
    if not found.features:
        raise FileFormatError(f"{path.name}: no sequence in it. Give a line for each token.")
    return found


def _guess(path: Path) -> str:
    """CRFsuite's if what stands after a tab in the first line is a feature: it has a value, by = or a colon."""
    from intarsia._files.text_lines import read_lines

    for _, line in read_lines(path):
        if line.strip(" \t"):
            features = line.split("\t")[1:]
            return "crfsuite" if line.startswith("@weight:") or any(map(_FEATURE.search, features)) else "conll"
    return "conll"


def _read_crfsuite(path: Path) -> TagFile:
    from intarsia.sequences import read_crfsuite

    found = list(read_crfsuite(path))
    return TagFile(
        "crfsuite", [one.features for one in found], [one.labels for one in found], [one.weight for one in found], []
    )


def _read_conll(path: Path, separator: str | None, n_columns: int | None) -> TagFile:
    from intarsia.sequences import read_conll

    sequences = list(read_conll(path, separator=separator))
    width = len(sequences[0]) if sequences else 0
    if n_columns is None and width == 1:
        raise FileFormatError(
            f"{path.name}: only one column. Give at least two, word and tag, or name the separator with --separator."
        )
    wanted = n_columns or max(width - 1, 1)
    if width and width not in (wanted, wanted + 1):
        raise FileFormatError(
            f"{path.name}: {width} columns, but the model was trained with {wanted} and a tag. Give the same columns."
        )
    columns = [sequence[:wanted] for sequence in sequences]
    labels = [sequence[wanted] for sequence in sequences] if width > wanted else None
    return TagFile("conll", [_features(one) for one in columns], labels, [1.0] * len(columns), columns)


def _features(columns: tuple[list[str], ...]) -> list[list[str]]:
    """Features of words; the second column is taken as parts of speech, further ones as marks of the token."""
    from intarsia.models.tokens import token_features

    words, pos = columns[0], columns[1] if len(columns) > 1 else None
    found = token_features(words, pos)
    for c, column in enumerate(columns[2:], 2):
        for t, features in enumerate(found):
            features += [f"column{c}[{d}]={column[t + d]}" for d in (-1, 0, 1) if 0 <= t + d < len(column)]
    return found


def check_kind(found: TagFile, notes: Any, path: Path) -> None:
    """Raise if a file is not of the format that the model was trained with."""
    trained = notes.get("format") if isinstance(notes, dict) else None
    if trained is not None and trained != found.format:
        raise InvalidInputError(
            f"{path.name} is read as {found.format}, but the model was trained on {trained}. Give --format {trained}, "
            f"or such a file."
        )
