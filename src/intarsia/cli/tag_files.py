"""Read files for taggers into sequences of features and labels: CoNLL columns or CRFsuite's feature format."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intarsia.exceptions import FileFormatError, InvalidInputError

FORMATS = ("auto", "conll", "crfsuite")
# A feature has a value after "=" or ":". A colon alone is a part of speech.
_FEATURE = re.compile(r".=|.:[-+.\d]")


@dataclass
class TagFile:
    """Sequences of features and labels, read from a file.

    Attributes
    ----------
    format : str
        "conll" or "crfsuite".
    features : list of lists
        Features of each token of each sequence, in the form that `ChainCRF.fit` accepts.
    labels : list of lists of str, or None
        The last column; None where the file has no labels.
    weights : list of float
        Weights of the sequences.
    columns : list of tuples of lists of str
        Columns of a CoNLL file other than the labels.
    """

    format: str
    features: list[Any]
    labels: list[list[str]] | None
    weights: list[float]
    columns: list[tuple[list[str], ...]]


def read_tag_file(path: Path, form: str, separator: str | None, n_columns: int | None = None) -> TagFile:
    """Read a file; `n_columns` is the number of feature columns of an existing model."""
    from intarsia._core.validation import check_choice

    check_choice(form, FORMATS, "--format")
    kind = _detect_format(path) if form == "auto" else form
    data = _read_crfsuite(path) if kind == "crfsuite" else _read_conll(path, separator, n_columns)
    if not data.features:
        raise FileFormatError(f"{path.name}: the file has no sequence. Write one line for each token.")
    return data


def _detect_format(path: Path) -> str:
    """Return "crfsuite" if the first line has, after a tab, a feature with a value (= or colon); else "conll"."""
    from intarsia._files.text_lines import read_lines

    for _, line in read_lines(path):
        if line.strip(" \t"):
            features = line.split("\t")[1:]
            return "crfsuite" if line.startswith("@weight:") or any(map(_FEATURE.search, features)) else "conll"
    return "conll"


def _read_crfsuite(path: Path) -> TagFile:
    from intarsia.sequences import read_crfsuite

    sequences = list(read_crfsuite(path))
    return TagFile(
        "crfsuite",
        [sequence.features for sequence in sequences],
        [sequence.labels for sequence in sequences],
        [sequence.weight for sequence in sequences],
        [],
    )


def _read_conll(path: Path, separator: str | None, n_columns: int | None) -> TagFile:
    """Read a file in CoNLL format; the column after the features holds the labels."""
    from intarsia.sequences import read_conll

    sequences = list(read_conll(path, separator=separator))
    width = len(sequences[0]) if sequences else 0
    if n_columns is None and width == 1:
        raise FileFormatError(
            f"{path.name}: only one column. Write at least two, word and tag, or pass the separator with --separator."
        )
    n_features = n_columns or max(width - 1, 1)
    if width and width not in (n_features, n_features + 1):
        raise FileFormatError(
            f"{path.name}: {width} columns, but the model was trained with {n_features} columns and a tag. Pass a file "
            f"with the same columns."
        )
    columns = [sequence[:n_features] for sequence in sequences]
    labels = [sequence[n_features] for sequence in sequences] if width > n_features else None
    return TagFile("conll", [_features(sequence) for sequence in columns], labels, [1.0] * len(columns), columns)


def _features(columns: tuple[list[str], ...]) -> list[list[str]]:
    """Compute the features of a sentence: words, parts of speech (second column), values of further columns."""
    from intarsia.models.tokens import token_features

    words, pos = columns[0], columns[1] if len(columns) > 1 else None
    features = token_features(words, pos)
    for c, column in enumerate(columns[2:], 2):
        for t, token in enumerate(features):
            token += [f"column{c}[{d}]={column[t + d]}" for d in (-1, 0, 1) if 0 <= t + d < len(column)]
    return features


def check_kind(data: TagFile, notes: Any, path: Path) -> None:
    """Raise if a file does not have the format that the model was trained on."""
    trained = notes.get("format") if isinstance(notes, dict) else None
    if trained is not None and trained != data.format:
        raise InvalidInputError(
            f"{path.name} was read as {data.format}, but the model was trained on {trained}. Pass --format {trained}, "
            f"or a file in that format."
        )
