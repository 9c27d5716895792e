"""Terminal output of the commands: one JSON document or tables on stdout, notes and warnings on stderr."""

from __future__ import annotations

import json
import math
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from intarsia.exceptions import InvalidInputError

if TYPE_CHECKING:
    from rich.console import Console

    from intarsia.inference.result import InferenceResult
    from intarsia.metrics import ClusteringScores, PrecisionRecall


def write_json(document: Any) -> None:
    """Write one JSON document to stdout; numbers that are not finite become null."""
    sys.stdout.write(json.dumps(finite(document), allow_nan=False) + "\n")


def save_json(path: Path, document: Any) -> None:
    """Write one JSON document to a file; numbers that are not finite become null."""
    from intarsia._files.atomic_file import write_text

    write_text(path, json.dumps(finite(document), indent=1, allow_nan=False) + "\n")


def finite(value: Any) -> Any:
    """Return a copy of a document with null in place of every number that JSON cannot represent."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


def note(message: str) -> None:
    """Write one line to stderr."""
    typer.echo(f"intarsia: {' '.join(message.split())}", err=True)


def print_segment_table(
    by_label: Mapping[Any, PrecisionRecall], overall: PrecisionRecall, names: tuple[str, str]
) -> None:
    """Print precision, recall and F1 of each label in per cent, and of all labels.

    `names` are the titles of the first and of the last column, such as ("label", "segments").
    """
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for title in (names[0], "precision", "recall", "F1", names[1]):
        table.add_column(title, justify="left" if title == names[0] else "right")
    rows = sorted(((str(label), counts) for label, counts in by_label.items()), key=lambda row: row[0])
    for label, counts in [*rows, ("all", overall)]:
        fractions = (counts.precision, counts.recall, counts.f1)
        table.add_row(escape(label), *(f"{100 * fraction:.2f}" for fraction in fractions), str(counts.n_true))
    console().print(table)


def print_clustering_scores(scores: ClusteringScores, units: str) -> None:
    """Print precision, recall and F1 of a clustering under each measure; `units` names what was clustered."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for title in ("measure", "precision", "recall", "F1"):
        table.add_column(title, justify="left" if title == "measure" else "right")
    for name in ("pairwise", "b_cubed", "muc", "ceaf_e", "ceaf_m", "lea"):
        measure = getattr(scores, name)
        table.add_row(name, *(f"{100 * fraction:.2f}" for fraction in (measure.precision, measure.recall, measure.f1)))
    console().print(table)
    typer.echo(
        f"\n{scores.n_records} {units} of {scores.n_entities} entities, {scores.n_predicted} predicted; CoNLL mean "
        f"{100 * scores.conll:.2f}, adjusted Rand {scores.adjusted_rand:.4f}."
    )


@contextmanager
def warnings_on_stderr(prefix: str = "") -> Iterator[list[str]]:
    """Print each UserWarning of a block (such as ConvergenceWarning) as one line on stderr; others pass unchanged.

    After the block, the list that the context manager returned holds the messages.
    """
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield messages
    for entry in caught:
        if issubclass(entry.category, UserWarning):
            messages.append(str(entry.message))
            note(f"{prefix}{entry.message}")
        else:
            warnings.warn_explicit(entry.message, entry.category, entry.filename, entry.lineno)


def console() -> Console:
    """Return a console on stdout, 140 columns wide when the output goes to a file or another program."""
    from rich.console import Console

    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(highlight=False, width=140 if piped else None)


def check_folder_of(path: Path | None) -> None:
    """Raise an error before any work is done if a file cannot be written because its folder does not exist."""
    if path is not None and not path.parent.is_dir():
        raise InvalidInputError(f"{path}: the folder {path.parent} does not exist. Create it first.")
    if path is not None and path.is_dir():
        raise InvalidInputError(f"{path} is a folder. Pass the name of a file.")


def check_folder(path: Path | None) -> None:
    """Raise an error before any work is done if a folder cannot be created because a file has its name."""
    if path is not None and path.exists() and not path.is_dir():
        raise NotADirectoryError(20, "is a file. Pass a folder", str(path))


def number(value: float | None, digits: int = 6) -> str:
    """Format a number for a table."""
    if value is None or math.isnan(value):
        return "-"
    return f"{value:.{digits}g}"


def difference(value: float | None) -> str:
    """Format a difference between probabilities for a table; rounding errors are shown as `<1e-9`."""
    return "-" if value is None else "<1e-9" if value < 1e-9 else f"{value:.2g}"


def seconds(value: float | None) -> str:
    """Format a time for a table."""
    return "-" if value is None else "<0.01" if value < 0.01 else f"{value:.2f}"


def marginal_lists(result: InferenceResult) -> list[list[float]] | None:
    """Return the marginals of all variables as nested lists, or None if the result has none."""
    if result.mu is None:
        return None
    return [result.marginals(v).tolist() for v in range(result.graph.n_variables)]


_SIGN = {"exact": "=", "upper bound": "<=", "lower bound": ">=", "estimate": "~"}


def log_partition_text(value: float | None, kind: str | None, digits: int = 7) -> str:
    """Format log Z with its guarantee as a sign: `<= 831.9` is an upper bound, `~` an estimate.

    Examples
    --------
    >>> log_partition_text(831.91394, "upper bound")
    '<= 831.9139'
    """
    return "-" if value is None else f"{_SIGN.get(kind or '', '~')} {number(value, digits)}"


_NARROWEST_LABEL = 14  # columns of a terminal that labels of rows have at least


def show_table(title: str, columns: list[str], rows: list[list[str]], bold: list[bool], notes: list[str]) -> None:
    """Print a table, with notes below; first and last column hold text, others numbers.

    On a narrow terminal columns of labels are folded, so that no number is cut off.
    """
    from rich.markup import escape
    from rich.table import Table

    # A box would cost columns, and numbers would wrap on a terminal that is 80 columns wide.
    table = Table(box=None, title=escape(title), title_justify="left", padding=(0, 2, 0, 0), pad_edge=False)
    for k, column in enumerate(columns):
        justify: Literal["left", "right"] = "left" if k in (0, len(columns) - 1) else "right"
        cells = [row[k] for row in rows]
        is_label = k == 0 or any(" " in cell for cell in cells)
        width = min(max(map(len, [column, *cells])), _NARROWEST_LABEL) if is_label else None
        table.add_column(
            column, justify=justify, overflow="fold", no_wrap=not is_label, vertical="bottom", min_width=width
        )
    for row, strong in zip(rows, bold, strict=True):
        table.add_row(*map(escape, row), style="bold" if strong else None)
    out = console()
    out.print(table)
    out.print()
    for line in notes:
        out.print(line, markup=False)
