"""`intarsia coreference`: train on annotated documents, resolve the mentions of others, evaluate the clusters."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from intarsia.cli.output import check_folder_of, print_clustering_scores, warnings_on_stderr, write_json
from intarsia.exceptions import InvalidInputError

if TYPE_CHECKING:
    from intarsia.coreference import Document

_File = Annotated[
    Path,
    typer.Argument(
        help="Documents with mentions: columns of CoNLL-2012 (plain or gz), or LitBank's folder of .ann files.",
        show_default=False,
    ),
]
_Model = Annotated[Path, typer.Option("--model", "-m", help="Model file (.npz).", show_default=False)]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def train_command(
    file: _File,
    model: _Model,
    l2: Annotated[float, typer.Option(help="Regularization of the weights.")] = 1.0,
    json: _Json = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show progress on stderr.")] = False,
) -> None:
    """Train on documents whose entities are annotated, and save the model.

    Example: `intarsia coreference train train.conll --model coreference.npz`
    """
    from intarsia.coreference import CoreferenceResolver

    start_time = time.perf_counter()
    check_folder_of(model)
    documents = read_documents(file)
    resolver = CoreferenceResolver(l2=l2, verbose=verbose)
    with warnings_on_stderr():
        resolver.fit(documents)
    resolver.save(model)
    seconds, n = time.perf_counter() - start_time, len(documents)
    if json:
        write_json({"file": str(model), "n": n, "seconds": seconds})
    else:
        n_mentions = sum(document.n_mentions for document in documents)
        typer.echo(f"{n} documents, {n_mentions} mentions; {resolver.status_.name}, {seconds:.1f} s.")
        typer.echo(f"Model: {model}")


def predict_command(
    file: _File,
    model: _Model,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to write, in columns of CoNLL-2012.", show_default=False)
    ],
    singletons: Annotated[bool, typer.Option(help="Whether to write clusters of one mention.")] = True,
    json: _Json = False,
) -> None:
    """Group the mentions of documents into entities, and write them for the official scorer of CoNLL-2012.

    Mentions are read from the last column; the entities there are ignored.

    Example: `intarsia coreference predict test.conll --model coreference.npz --output predicted.conll`
    """
    from intarsia.coreference import CoreferenceResolver, write_conll2012

    start_time = time.perf_counter()
    check_folder_of(output)
    resolver = CoreferenceResolver.load(model)
    documents = read_documents(file)
    clusters = resolver.predict(documents)
    write_conll2012(output, documents, clusters, singletons=singletons)
    seconds, n = time.perf_counter() - start_time, len(documents)
    if json:
        write_json({"file": str(output), "n": n, "seconds": seconds})
    else:
        n_entities = sum(len(set(labels.tolist())) for labels in clusters)
        typer.echo(f"{n} documents, {n_entities} entities in {seconds:.1f} s: {output}")


def evaluate_command(
    file: _File,
    model: Annotated[Path | None, typer.Option("--model", "-m", help="Model to evaluate.")] = None,
    predicted: Annotated[
        Path | None, typer.Option(help="File with predicted clusters, to evaluate without a model.")
    ] = None,
    json: _Json = False,
) -> None:
    """Evaluate predicted clusters of mentions: MUC, B-cubed, CEAF-e and other measures, and the CoNLL score.

    Example: `intarsia coreference evaluate test.conll --model coreference.npz --json`
    """
    from intarsia.coreference import CoreferenceResolver, score_clusters, score_documents

    if (model is None) == (predicted is None):
        raise InvalidInputError("Pass either --model, or --predicted with a file of predicted clusters.")
    documents = read_documents(file)
    if model is not None:
        scores = score_clusters(documents, CoreferenceResolver.load(model).predict(documents))
    else:
        scores = score_documents(documents, read_documents(Path(str(predicted))))
    if json:
        write_json({**scores.as_dict(), "conll": scores.conll})
    else:
        print_clustering_scores(scores, "mentions")


def read_documents(file: Path) -> list[Document]:
    """Read documents of CoNLL-2012, or of LitBank if the path is a folder or ends in .ann."""
    from intarsia.coreference import read_conll2012, read_litbank

    return read_litbank(file) if file.is_dir() or file.suffix == ".ann" else read_conll2012(file)
