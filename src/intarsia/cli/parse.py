"""`intarsia parse`: train a parser of record strings, parse files, evaluate parses, label strings."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from intarsia.cli.output import check_folder_of, print_segment_table, warnings_on_stderr, write_json
from intarsia.exceptions import InvalidInputError

if TYPE_CHECKING:
    from intarsia.sequences import LabelledText, RecordParser

_Labelled = Annotated[
    str,
    typer.Argument(
        help="Labelled strings: parserator XML, AnyStyle XML, CoNLL, JSON Lines, CSV or Label Studio; - for stdin.",
        show_default=False,
    ),
]
_Texts = Annotated[
    str, typer.Argument(help="Strings, one in each line, or JSON Lines or CSV; - for stdin.", show_default=False)
]
_Model = Annotated[Path, typer.Option("--model", "-m", help="Model file (.npz).", show_default=False)]
_Format = Annotated[
    str, typer.Option("--format", help="auto, parserator, anystyle, conll, jsonl, csv or label_studio.")
]
_Fields = Annotated[
    list[str] | None,
    typer.Option("--field", help="Field that may occur (for CSV: column to use); repeat for several."),
]
_Column = Annotated[str | None, typer.Option(help="Column of a CSV file that holds the strings.", show_default=False)]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def train_command(
    file: _Labelled,
    model: _Model,
    form: _Format = "auto",
    field: _Fields = None,
    rule: Annotated[
        list[str] | None,
        typer.Option(help="Rule such as 'once(ZipCode)' or 'once(title, soft=True)'; repeat for several."),
    ] = None,
    tokenizer: Annotated[str, typer.Option(help="words, whitespace, usaddress or characters.")] = "words",
    gazetteer: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=FILE", help="Word list, one phrase in each line; repeat for several."),
    ] = None,
    l2: Annotated[str, typer.Option(help="L2 regularization, or auto: chosen on held-out strings.")] = "auto",
    window: Annotated[int, typer.Option(help="Features of words up to this distance.")] = 1,
    bio: Annotated[bool, typer.Option(help="Give the first word of a field its own label.")] = True,
    min_count: Annotated[int, typer.Option(help="Drop features that occur in fewer tokens.")] = 1,
    jobs: Annotated[int | None, typer.Option(help="Number of threads.")] = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    json: _Json = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show progress on stderr.")] = False,
) -> None:
    """Train a parser on labelled strings and save it.

    Example: `intarsia parse train labeled.xml --model addresses.npz --rule 'once(ZipCode)'`
    """
    from intarsia.sequences.parsing.record_parser import RecordParser
    from intarsia.sequences.parsing.rule_text import read_rule
    from intarsia.sequences.parsing.token_features import TokenFeatures

    start_time = time.perf_counter()
    check_folder_of(model)
    parser = RecordParser(
        rules=[read_rule(text) for text in rule or []],
        features=TokenFeatures(window=window),
        tokenizer=tokenizer,
        gazetteers=_read_gazetteers(gazetteer or []) or None,
        l2=_read_l2(l2),
        bio=bio,
        min_count=min_count,
        random_state=seed,
        n_jobs=jobs,
        verbose=verbose,
    )
    examples = _read_labelled(file, form, field)
    with warnings_on_stderr():
        parser.fit(examples)
    parser.save(model)
    seconds = time.perf_counter() - start_time
    if json:
        write_json({"file": str(model), "n": len(examples), "seconds": seconds, "l2": parser.l2_})
    else:
        typer.echo(
            f"{len(examples)} strings, {len(parser.fields_)} fields, {parser.crf_.weights_.size} weights, "
            f"l2 = {parser.l2_:g}; {parser.crf_.status_.name} after {parser.crf_.n_iter_} iterations, {seconds:.1f} s."
        )
        typer.echo(f"Model: {model}")


def predict_command(
    file: _Texts,
    model: _Model,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write; by default stdout. Compressed if it ends in .gz."),
    ] = None,
    to: Annotated[
        str | None, typer.Option(help="jsonl or csv; by default csv if the output ends in .csv.", show_default=False)
    ] = None,
    column: _Column = None,
    alternatives: Annotated[int, typer.Option(help="Number of other parses of each string (JSON Lines).")] = 0,
    jobs: Annotated[int | None, typer.Option(help="Number of threads.")] = None,
    json: _Json = False,
) -> None:
    """Parse the strings of a file: write fields with their probabilities as JSON Lines or CSV.

    JSON Lines have the text, the spans (field, start, end, text, probability) and the probability of the whole parse.
    CSV has a row for each string: the text, the probability of the whole parse, and two columns for each field, its
    text and its probability (the lowest, if a field is repeated).

    Example: `intarsia parse predict new.txt --model addresses.npz --output fields.csv`
    """
    import sys

    from intarsia._files.text_lines import written_text
    from intarsia.cli.parse_files import batches, read_texts, write_parses

    start_time = time.perf_counter()
    check_folder_of(output)
    if json and output is None:
        raise InvalidInputError(
            "--json needs --output, since stdout holds the JSON document. Pass a file with --output."
        )
    parser = _load(model, jobs)
    kind = to or ("csv" if output is not None and ".csv" in output.suffixes else "jsonl")
    n = 0
    with written_text(sys.stdout if output is None else output) as target:
        write = write_parses(target, kind, parser.fields_)
        for texts in batches(read_texts(file, column)):
            write(parser.parse_many(texts, alternatives))
            n += len(texts)
    seconds = time.perf_counter() - start_time
    if json:
        write_json({"file": str(output), "n": n, "seconds": seconds})
    elif output is not None:
        typer.echo(f"{n} strings in {seconds:.1f} s: {output}")


def evaluate_command(
    file: _Labelled,
    model: _Model,
    form: _Format = "auto",
    field: _Fields = None,
    jobs: Annotated[int | None, typer.Option(help="Number of threads.")] = None,
    json: _Json = False,
) -> None:
    """Evaluate a parser on labelled strings: precision, recall and F1 of fields, and the fraction of exact parses.

    Example: `intarsia parse evaluate test.xml --model addresses.npz --json`
    """
    parser = _load(model, jobs)
    scores = parser.evaluate(_read_labelled(file, form, field))
    if json:
        write_json(scores.as_dict())
        return
    print_segment_table(scores.by_label, scores.overall, ("field", "spans"))
    typer.echo(
        f"\n{scores.n} strings, {scores.n_tokens} tokens: {100 * scores.exact:.2f} % of the strings exactly right, "
        f"{100 * scores.accuracy:.2f} % of the tokens."
    )


def label_command(
    file: _Texts,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="JSON Lines file to which answers are added.", show_default=False)
    ],
    model: Annotated[Path | None, typer.Option("--model", "-m", help="Model that proposes the fields.")] = None,
    train: Annotated[
        Path | None, typer.Option(help="Labelled strings to which the parser is fitted together with the answers.")
    ] = None,
    field: Annotated[list[str] | None, typer.Option(help="Name of a field; repeat for several.")] = None,
    column: _Column = None,
    refit: Annotated[int, typer.Option(help="Fit the parser again after this many answers; 0 for never.")] = 10,
    json: Annotated[bool, typer.Option("--json", help="Print the next string to label as JSON, and end.")] = False,
) -> None:
    """Label strings one by one: the string of which the parser is least certain is proposed next.

    Answers are added to the file one by one; the same command continues where it ended. Enter accepts the proposal;
    `1=number 2-3=street 4=-` sets the fields of words; s skips the string, q ends.

    Example: `intarsia parse label new.txt --output answers.jsonl --model addresses.npz`
    """
    from intarsia.cli.parse_files import label_in_terminal, next_item, read_texts
    from intarsia.sequences.parsing.labelling import LabellingSession

    check_folder_of(output)
    texts = list(read_texts(file, column))
    if file == "-" and not json:
        raise InvalidInputError("stdin holds the strings, so it cannot hold answers. Pass a file, or --json.")
    with warnings_on_stderr():
        session = LabellingSession(
            texts,
            output,
            parser=None if model is None else _load(model, None),
            labelled=[] if train is None else _read_labelled(str(train), "auto", None),
            fields=field or [],
            refit_every=refit,
        )
    if json:
        write_json(next_item(session))
    else:
        label_in_terminal(session)
        typer.echo(f"{session.n_answers} answers in {output}.")


def _load(model: Path, jobs: int | None) -> RecordParser:
    from intarsia.sequences.parsing.record_parser import RecordParser

    parser = RecordParser.load(model)
    return parser.set_params(n_jobs=jobs)


def _read_labelled(file: str, form: str, fields: list[str] | None) -> list[LabelledText]:
    import sys

    from intarsia.sequences.parsing.labelled_files import read_labelled

    return read_labelled(sys.stdin.buffer if file == "-" else file, form, fields=fields or None)


def _read_l2(text: str) -> float | str:
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise InvalidInputError(f"--l2 {text}: expected a number or auto.") from None


def _read_gazetteers(pairs: list[str]) -> dict[str, list[str]]:
    """Read word lists from files that are given as NAME=FILE."""
    from intarsia._files.text_lines import read_lines

    lists: dict[str, list[str]] = {}
    for pair in pairs:
        name, equals, file = pair.partition("=")
        if not equals or not name or not file:
            raise InvalidInputError(f"--gazetteer {pair}: expected NAME=FILE, such as --gazetteer city=cities.txt.")
        lists[name] = [line.strip() for _, line in read_lines(file) if line.strip()]
    return lists
