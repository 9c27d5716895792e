"""`intarsia tag`: train a tagger on a file, tag others with it, count how well it does."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from intarsia.cli.output import check_folder_of, console, warnings_on_stderr, write_json
from intarsia.cli.running import parse_settings
from intarsia.cli.tag_files import TagFile, check_kind, read_tag_file
from intarsia.exceptions import InvalidInputError

if TYPE_CHECKING:
    from intarsia.sequences.chain_crf import ChainCRF

_File = Annotated[Path, typer.Argument(help="CoNLL columns or CRFsuite features, plain or gz.", show_default=False)]
_Model = Annotated[Path, typer.Option("--model", "-m", help="File of the model, npz.", show_default=False)]
_Format = Annotated[
    str, typer.Option("--format", help="conll (word, further columns, tag), crfsuite, or auto: told by the first line.")
]
_Separator = Annotated[str | None, typer.Option(help="Between columns; by default any blanks.")]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def train_command(
    file: _File,
    model: _Model,
    form: _Format = "auto",
    separator: _Separator = None,
    dev: Annotated[Path | None, typer.Option(help="File of the same format for early stopping.")] = None,
    learner: Annotated[
        str, typer.Option(help="maximum_likelihood, averaged_perceptron, passive_aggressive or arow.")
    ] = "maximum_likelihood",
    l1: Annotated[float | None, typer.Option(help="Weight of the absolute values, CRFsuite's c1.")] = None,
    l2: Annotated[
        float | None, typer.Option(help="Precision of a Gaussian prior: l2/2 times the squares; CRFsuite's c2 is l2/2.")
    ] = None,
    max_iter: Annotated[int | None, typer.Option(help="Most iterations, or passes over the data.")] = None,
    scheme: Annotated[
        str | None, typer.Option(help="bio or bioes: forbid pairs of tags that it excludes.", show_default=False)
    ] = None,
    min_count: Annotated[int, typer.Option(help="Features of fewer tokens are left out.")] = 1,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any other setting of the learner; may be repeated."),
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Threads.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed for everything random.")] = None,
    json: _Json = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show progress on stderr.")] = False,
) -> None:
    """Train a tagger on a file of tagged sequences and save it.

    Example: `intarsia tag train train.txt --model chunker.npz --scheme bio --l2 1.0`
    """
    from intarsia.sequences.chain_crf import ChainCRF
    from intarsia.sequences.chain_learner import CHAIN_LEARNERS

    began = time.perf_counter()
    check_folder_of(model)
    separator = _unescaped(separator)
    settings = parse_settings(setting or [])
    # Settings of the optimiser, as optimizer__tol, are known only when it is.
    inner = {key: settings.pop(key) for key in list(settings) if "__" in key}
    chosen = CHAIN_LEARNERS.resolve(learner, settings)
    if max_iter is not None:
        inner[_limit(chosen)] = max_iter
    try:
        chosen.set_params(**inner)
    except ValueError as error:
        raise InvalidInputError(f"--set: {error}") from None
    crf = ChainCRF(
        learner=chosen, l1=l1, l2=l2, scheme=scheme, min_count=min_count, n_jobs=jobs, random_state=seed,
        verbose=verbose,
    )  # fmt: skip
    train = _labelled(read_tag_file(file, form, separator), file)
    n_columns = len(train.columns[0]) if train.columns else None
    validation = None
    if dev is not None:
        held_out = _labelled(read_tag_file(dev, train.format, separator, n_columns), dev)
        validation = (held_out.features, held_out.labels)
    with warnings_on_stderr():
        crf.fit(train.features, train.labels, sample_weight=train.weights, validation=validation)
    crf.save(model, notes={"format": train.format, "columns": n_columns, "separator": separator})
    seconds = time.perf_counter() - began
    if json:
        write_json({"file": str(model), "n": len(train.features), "seconds": seconds})
    else:
        n_tokens = sum(map(len, train.features))
        typer.echo(
            f"{len(train.features)} sequences, {n_tokens} tokens, {len(crf.classes_)} labels, {crf.weights_.size} "
            f"weights; {crf.status_.name} after {crf.n_iter_} iterations, {seconds:.1f} s."
        )
        typer.echo(f"Model: {model}")
    if crf.status_.name == "INTERRUPTED":
        raise typer.Exit(130)


def predict_command(
    file: _File,
    model: _Model,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; by default stdout. Packed if it ends in .gz.")
    ] = None,
    form: _Format = "auto",
    separator: _Separator = None,
    jobs: Annotated[int | None, typer.Option(help="Threads.")] = None,
    json: _Json = False,
) -> None:
    """Tag the sequences of a file: its columns with the tag after them, or a tag in each line for CRFsuite's format.

    A column of tags in the file, or the labels of CRFsuite's format, are not looked at.

    Example: `intarsia tag predict new.txt --model chunker.npz --output tagged.txt`
    """
    import sys

    from intarsia.sequences import write_conll

    began = time.perf_counter()
    check_folder_of(output)
    if json and output is None:
        raise InvalidInputError("--json needs --output, since stdout is for the document. Give a file.")
    crf, given, chosen = _load(file, model, form, separator)
    crf.set_params(n_jobs=jobs)
    labels = [one.tolist() for one in crf.predict(given.features)]
    rows = [(*columns, tags) for columns, tags in zip(given.columns or [()] * len(labels), labels, strict=True)]
    # Labels of CRFsuite's files may hold spaces.
    n = write_conll(
        sys.stdout if output is None else output, rows, separator=chosen or (" " if given.columns else "\t")
    )
    seconds = time.perf_counter() - began
    if json:
        write_json({"file": str(output), "n": n, "seconds": seconds})
    elif output is not None:
        typer.echo(f"{n} sequences in {seconds:.1f} s: {output}")


def evaluate_command(
    file: _File,
    model: _Model,
    form: _Format = "auto",
    separator: _Separator = None,
    segments: Annotated[
        str,
        typer.Option(help="How tags make segments: conll (B-, I-, ...), runs, tokens, or auto: conll if tags look so."),
    ] = "auto",
    outside: Annotated[str, typer.Option(help="Tag of what belongs to no segment.")] = "O",
    jobs: Annotated[int | None, typer.Option(help="Threads.")] = None,
    json: _Json = False,
) -> None:
    """Precision, recall and F1 of the segments that a tagger finds in a tagged file, counted as conlleval counts.

    Example: `intarsia tag evaluate test.txt --model chunker.npz --json`
    """
    from intarsia.metrics import segment_scores

    crf, given, _ = _load(file, model, form, separator)
    crf.set_params(n_jobs=jobs)
    truth = _labelled(given, file).labels or []
    predicted = [one.tolist() for one in crf.predict(given.features)]
    scheme = segments
    if segments == "auto":
        seen = {tag for tags in (*truth, *predicted) for tag in tags}
        scheme = "conll" if all(tag == outside or _has_prefix(tag) for tag in seen) else "tokens"
    scores = segment_scores(truth, predicted, scheme=scheme, outside=outside)
    if json:
        write_json(scores.as_dict())
        return
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for title in ("label", "precision", "recall", "F1", "segments"):
        table.add_column(title, justify="left" if title == "label" else "right")
    rows: list[tuple[str, Any]] = [(str(label), counts) for label, counts in scores.by_label.items()]
    for label, counts in [*sorted(rows, key=lambda row: row[0]), ("all", scores.overall)]:
        shares = (counts.precision, counts.recall, counts.f1)
        table.add_row(escape(label), *(f"{100 * share:.2f}" for share in shares), str(counts.n_true))
    console().print(table)
    typer.echo(f"\n{scores.n} sequences, {scores.n_tokens} tokens, accuracy {100 * scores.accuracy:.2f}.")


def _load(file: Path, model: Path, form: str, separator: str | None) -> tuple[ChainCRF, TagFile, str | None]:
    """The model, the file as the model wants it, and the separator of columns."""
    from intarsia.sequences.chain_crf import ChainCRF

    crf = ChainCRF.load(model)
    if crf.vocabulary_ is None or crf.layout_.n_edge_features:
        raise InvalidInputError(f"{model.name} was not trained on files: its features have no names. Use it in Python.")
    notes = crf.notes_ if isinstance(crf.notes_, dict) else {}
    chosen = _unescaped(separator) if separator is not None else notes.get("separator")
    columns = notes.get("columns")
    asked = str(notes["format"]) if form == "auto" and notes.get("format") else form
    given = read_tag_file(file, asked, chosen, columns if isinstance(columns, int) else None)
    check_kind(given, notes, file)
    return crf, given, chosen


def _unescaped(separator: str | None) -> str | None:
    """A tab as people write it on a command line."""
    return None if separator is None else separator.replace("\\t", "\t")


def _labelled(found: TagFile, file: Path) -> TagFile:
    if found.labels is None:
        raise InvalidInputError(f"{file.name} has no column of tags. Put the tag into the last column.")
    return found


def _limit(learner: Any) -> str:
    """Name of the setting that bounds the iterations of a learner."""
    return "max_iter" if "max_iter" in learner.get_params(deep=False) else "optimizer__max_iter"


def _has_prefix(tag: str) -> bool:
    return len(tag) > 2 and tag[1] == "-" and tag[0] in "BIESLU"
