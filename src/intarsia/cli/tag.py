"""`intarsia tag`: train a sequence tagger on a file, tag other files, evaluate the tags."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from intarsia.cli.output import check_folder_of, print_segment_table, warnings_on_stderr, write_json
from intarsia.cli.running import parse_settings
from intarsia.cli.tag_files import TagFile, check_kind, read_tag_file
from intarsia.exceptions import InvalidInputError

if TYPE_CHECKING:
    from intarsia.sequences.chain_crf import ChainCRF
    from intarsia.sequences.serving.tagger import Tagger

# Compiled code is faster for larger files, although it takes longer to load.
_MOST_TOKENS = 50_000

_File = Annotated[
    Path, typer.Argument(help="Sequences: CoNLL columns or CRFsuite features, plain or gz.", show_default=False)
]
_Model = Annotated[Path, typer.Option("--model", "-m", help="Model file (.npz).", show_default=False)]
_Format = Annotated[
    str,
    typer.Option(
        "--format", help="conll (word, further columns, tag), crfsuite, or auto (detected from the first line)."
    ),
]
_Separator = Annotated[str | None, typer.Option(help="Column separator; by default any white space.")]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def train_command(
    file: _File,
    model: _Model,
    form: _Format = "auto",
    separator: _Separator = None,
    dev: Annotated[Path | None, typer.Option(help="Development file of the same format, for early stopping.")] = None,
    learner: Annotated[
        str, typer.Option(help="Learner: maximum_likelihood, averaged_perceptron, passive_aggressive or arow.")
    ] = "maximum_likelihood",
    l1: Annotated[float | None, typer.Option(help="L1 regularization: l1 times |w|; CRFsuite's c1.")] = None,
    l2: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER|auto",
            help="L2 regularization: l2/2 times |w|^2; CRFsuite's c2 is l2/2. auto: chosen by cross-validation.",
        ),
    ] = None,
    max_iter: Annotated[int | None, typer.Option(help="Maximum number of iterations (passes over the data).")] = None,
    scheme: Annotated[
        str | None,
        typer.Option(help="bio or bioes: forbid tag transitions that the scheme excludes.", show_default=False),
    ] = None,
    min_count: Annotated[int, typer.Option(help="Drop features that occur in fewer tokens.")] = 1,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Another setting of the learner; repeat for several."),
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Number of threads.")] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed.")] = None,
    json: _Json = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show progress on stderr.")] = False,
) -> None:
    """Train a tagger on a file of tagged sequences and save it.

    Example: `intarsia tag train train.txt --model chunker.npz --scheme bio --l2 1.0`
    """
    from intarsia.sequences.chain_crf import ChainCRF
    from intarsia.sequences.chain_learner import CHAIN_LEARNERS

    start_time = time.perf_counter()
    check_folder_of(model)
    separator = _unescaped(separator)
    settings = parse_settings(setting or [])
    # Settings of the optimizer, such as optimizer__tol, can be checked only when the learner exists.
    nested_settings = {key: settings.pop(key) for key in list(settings) if "__" in key}
    chain_learner = CHAIN_LEARNERS.resolve(learner, settings)
    if max_iter is not None:
        nested_settings[_limit(chain_learner)] = max_iter
    try:
        chain_learner.set_params(**nested_settings)
    except ValueError as error:
        raise InvalidInputError(f"--set: {error} Pass settings of {learner}.") from None
    crf = ChainCRF(
        learner=chain_learner, l1=l1, l2=_regularization(l2), scheme=scheme, min_count=min_count, n_jobs=jobs,
        random_state=seed, verbose=verbose,
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
    seconds = time.perf_counter() - start_time
    if json:
        write_json({"file": str(model), "n": len(train.features), "seconds": seconds})
    else:
        n_tokens = sum(map(len, train.features))
        typer.echo(
            f"{len(train.features)} sequences, {n_tokens} tokens, {len(crf.classes_)} labels, {crf.weights_.size} "
            f"weights; {crf.status_.name} after {crf.n_iter_} iterations, {seconds:.1f} s."
        )
        if l2 == "auto":
            typer.echo(f"l2={crf.l2_:.3g} has the best cross-validated score.")
        typer.echo(f"Model: {model}")


def _regularization(text: str | None) -> float | str | None:
    """Return the value of --l2: a number, "auto" or None."""
    if text is None or text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise InvalidInputError(
            f"--l2: expected a number or auto, got {text!r:.60}. Pass for example --l2 1.0."
        ) from None


def predict_command(
    file: _File,
    model: _Model,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write; by default stdout. Compressed if it ends in .gz."),
    ] = None,
    form: _Format = "auto",
    separator: _Separator = None,
    jobs: Annotated[int | None, typer.Option(help="Number of threads.")] = None,
    json: _Json = False,
) -> None:
    """Tag the sequences of a file: write its columns with an added column of tags.

    For CRFsuite files only the tags are written, one per line. Tags that are already in the file are ignored.

    Example: `intarsia tag predict new.txt --model chunker.npz --output tagged.txt`
    """
    import sys

    from intarsia.sequences import write_conll

    start_time = time.perf_counter()
    check_folder_of(output)
    if json and output is None:
        raise InvalidInputError(
            "--json needs --output, since stdout holds the JSON document. Pass a file with --output."
        )
    tagger, data, column_separator = _load(file, model, form, separator, jobs)
    labels = [tags.tolist() for tags in tagger.predict(data.features)]
    rows = [(*columns, tags) for columns, tags in zip(data.columns or [()] * len(labels), labels, strict=True)]
    # Labels in CRFsuite files may contain spaces.
    n = write_conll(
        sys.stdout if output is None else output, rows, separator=column_separator or (" " if data.columns else "\t")
    )
    seconds = time.perf_counter() - start_time
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
        typer.Option(
            help="How tags form segments: conll (B-, I-, ... prefixes), runs (equal neighbours), tokens, or auto "
            "(conll if all tags have prefixes, else tokens)."
        ),
    ] = "auto",
    outside: Annotated[str, typer.Option(help="Tag of tokens outside all segments.")] = "O",
    jobs: Annotated[int | None, typer.Option(help="Number of threads.")] = None,
    json: _Json = False,
) -> None:
    """Evaluate a tagger on a tagged file: precision, recall and F1 of segments, counted as conlleval does.

    Example: `intarsia tag evaluate test.txt --model chunker.npz --json`
    """
    from intarsia.metrics import segment_scores

    tagger, data, _ = _load(file, model, form, separator, jobs)
    truth = _labelled(data, file).labels or []
    predicted = [tags.tolist() for tags in tagger.predict(data.features)]
    scheme = segments
    if segments == "auto":
        all_tags = {tag for tags in (*truth, *predicted) for tag in tags}
        scheme = "conll" if all(tag == outside or _has_prefix(tag) for tag in all_tags) else "tokens"
    scores = segment_scores(truth, predicted, scheme=scheme, outside=outside)
    if json:
        write_json(scores.as_dict())
        return
    print_segment_table(scores.by_label, scores.overall, ("label", "segments"))
    typer.echo(f"\n{scores.n} sequences, {scores.n_tokens} tokens, accuracy {100 * scores.accuracy:.2f}.")


def _load(
    file: Path, model: Path, form: str, separator: str | None, jobs: int | None
) -> tuple[ChainCRF | Tagger, TagFile, str | None]:
    """Return the model, the file in the format of the model, and the column separator.

    The model is a `Tagger`, which starts faster, unless the file is large or the model needs a `ChainCRF`.
    """
    from intarsia.exceptions import NotSupportedError
    from intarsia.sequences import load_tagger

    tagger: ChainCRF | Tagger
    try:
        tagger = load_tagger(model)
    except NotSupportedError:
        tagger = _load_chain_crf(model, jobs)
    if tagger.vocabulary_ is None:
        raise InvalidInputError(
            f"{model.name} was not trained on files: its features have no names. Load it in Python with ChainCRF.load."
        )
    notes = tagger.notes_ if isinstance(tagger.notes_, dict) else {}
    column_separator = _unescaped(separator) if separator is not None else notes.get("separator")
    columns = notes.get("columns")
    file_format = str(notes["format"]) if form == "auto" and notes.get("format") else form
    data = read_tag_file(file, file_format, column_separator, columns if isinstance(columns, int) else None)
    check_kind(data, notes, file)
    if sum(map(len, data.features)) > _MOST_TOKENS:
        tagger = _load_chain_crf(model, jobs)
    return tagger, data, column_separator


def _load_chain_crf(model: Path, jobs: int | None) -> ChainCRF:
    from intarsia.sequences.chain_crf import ChainCRF

    crf = ChainCRF.load(model)
    if crf.layout_.n_edge_features:
        raise InvalidInputError(
            f"{model.name} was not trained on files: it has features of steps. Load it in Python with ChainCRF.load."
        )
    return crf.set_params(n_jobs=jobs)


def _unescaped(separator: str | None) -> str | None:
    """Replace a typed backslash-t by a tab."""
    return None if separator is None else separator.replace("\\t", "\t")


def _labelled(data: TagFile, file: Path) -> TagFile:
    """Return the data; raise if the file has no tags."""
    if data.labels is None:
        raise InvalidInputError(f"{file.name} has no column of tags. Put the tag into the last column.")
    return data


def _limit(learner: Any) -> str:
    """Return the name of the setting that limits the number of iterations of a learner."""
    return "max_iter" if "max_iter" in learner.get_params(deep=False) else "optimizer__max_iter"


def _has_prefix(tag: str) -> bool:
    return len(tag) > 2 and tag[1] == "-" and tag[0] in "BIESLU"
