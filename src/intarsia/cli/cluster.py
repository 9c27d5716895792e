"""`intarsia cluster`: learn which records are one entity, find the entities of other files, count how well it goes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from intarsia._core.error_context import errors_in
from intarsia.cli.cluster_files import read_table_file, write_table_file
from intarsia.cli.output import check_folder_of, console, warnings_on_stderr, write_json
from intarsia.exceptions import InvalidInputError

if TYPE_CHECKING:
    from intarsia.clusters.entity_clusterer import EntityClusterer

_File = Annotated[Path, typer.Argument(help="Records: .csv, .tsv (plain or gz) or .parquet.", show_default=False)]
_Model = Annotated[Path, typer.Option("--model", "-m", help="File of the model, npz.", show_default=False)]
_Edges = Annotated[
    Path | None, typer.Option(help="Scored pairs by id, as Splink or dedupe export them, instead of comparisons.")
]
_Jobs = Annotated[int | None, typer.Option(help="Threads.")]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def train_command(
    file: _File,
    model: _Model,
    entity: Annotated[
        str, typer.Option(help="Column with the entity of each record; empty cells are not known.", show_default=False)
    ],
    compare: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=NAME",
            help="exact, jaro_winkler, token_overlap, numeric, date; may be repeated. By default guessed.",
        ),
    ] = None,
    block: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=COLUMN,...]",
            help="Candidate pairs: shared_values=postcode, shared_tokens=title, sorted_neighbourhood=name, all_pairs.",
        ),
    ] = None,
    id_column: Annotated[str | None, typer.Option("--id", help="Column with the ids of the records.")] = None,
    source: Annotated[
        str | None, typer.Option(help="Column with the list a record is from: at most one of each in an entity.")
    ] = None,
    edges: _Edges = None,
    json: _Json = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show progress on stderr.")] = False,
) -> None:
    """Learn from records whose entities are known, and save the model.

    Example: `intarsia cluster train known.csv --entity person --compare name=jaro_winkler --model people.npz`
    """
    from intarsia.clusters.entity_clusterer import EntityClusterer

    began = time.perf_counter()
    check_folder_of(model)
    clusterer = EntityClusterer(
        _comparisons(compare), _blocking(block), id_column=id_column, source_column=source, verbose=verbose
    )
    records = read_table_file(file)
    known = records.get(entity)
    with warnings_on_stderr():
        clusterer.fit(records, entity, edges=None if edges is None else read_table_file(edges))
    clusterer.save(model, notes={"entity": entity})
    seconds, n = time.perf_counter() - began, len(known or ())
    if json:
        write_json({"file": str(model), "n": n, "seconds": seconds})
    else:
        _show_trained(clusterer, model, n, seconds)
    if clusterer.status_.name == "INTERRUPTED":
        raise typer.Exit(130)


def _show_trained(clusterer: EntityClusterer, model: Path, n: int, seconds: float) -> None:
    compared = ", ".join(f"{column} by {comparison.name}" for column, comparison in clusterer.comparisons_)
    typer.echo(f"{n} records, {compared or 'scored pairs'}; {clusterer.status_.name}, {seconds:.1f} s.")
    typer.echo(f"Model: {model}")


def predict_command(
    file: _File,
    model: _Model,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to write: .csv, .tsv or .parquet.", show_default=False)
    ],
    column: Annotated[str, typer.Option(help="Name of the column that is added.")] = "entity",
    pairs: Annotated[Path | None, typer.Option(help="Write candidate pairs with their probabilities here.")] = None,
    edges: _Edges = None,
    jobs: _Jobs = None,
    json: _Json = False,
) -> None:
    """Write the records of a file, every row in its order, with a column that numbers their entities.

    Example: `intarsia cluster predict all.csv --model people.npz --output resolved.csv`
    """
    began = time.perf_counter()
    check_folder_of(output)
    check_folder_of(pairs)
    clusterer = _load(model, jobs)
    records = read_table_file(file)
    if column in records:
        raise InvalidInputError(f"{file.name} has a column {column!r} already. Give another name by --column.")
    scored = None if edges is None else read_table_file(edges)
    found = clusterer.predict(records, edges=scored).tolist()
    write_table_file(output, {**records, column: found}, file, column)
    if pairs is not None:
        # No column of theirs was in a file, so none has a type to keep.
        write_table_file(pairs, clusterer.predict_pairs(records, edges=scored), Path("made.csv"), "probability")
    seconds = time.perf_counter() - began
    if json:
        write_json({"file": str(output), "n": len(found), "seconds": seconds})
    else:
        typer.echo(f"{len(found)} records, {len(set(found))} entities in {seconds:.1f} s: {output}")


def evaluate_command(
    file: _File,
    entity: Annotated[str, typer.Option(help="Column with the true entity of each record.", show_default=False)],
    model: Annotated[Path | None, typer.Option("--model", "-m", help="Model whose entities are counted.")] = None,
    predicted: Annotated[str | None, typer.Option(help="Column with entities already found, without a model.")] = None,
    edges: _Edges = None,
    jobs: _Jobs = None,
    json: _Json = False,
) -> None:
    """Pairwise, B-cubed, MUC and CEAF-e precision, recall and F1; records without a true entity are left out.

    Example: `intarsia cluster evaluate test.csv --entity person --model people.npz --json`
    """
    from intarsia.clusters.matcher import cluster_codes
    from intarsia.clusters.tables import read_table
    from intarsia.metrics import clustering_scores

    if (model is None) == (predicted is None):
        raise InvalidInputError("Give either --model, or --predicted for a column of entities already found.")
    with errors_in(file.name):
        records = read_table(read_table_file(file))
        truth = cluster_codes(records.column(entity), records.n_rows)
    found: Any
    if model is not None:
        found = _load(model, jobs).predict(records, edges=None if edges is None else read_table_file(edges))
    else:
        with errors_in(file.name):
            found = records.column(str(predicted))
    scores = clustering_scores(truth, found)
    if json:
        write_json(scores.as_dict())
        return
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for title in ("measure", "precision", "recall", "F1"):
        table.add_column(title, justify="left" if title == "measure" else "right")
    for name in ("pairwise", "b_cubed", "muc", "ceaf_e"):
        one = getattr(scores, name)
        table.add_row(name, *(f"{100 * share:.2f}" for share in (one.precision, one.recall, one.f1)))
    console().print(table)
    typer.echo(
        f"\n{scores.n_records} records of {scores.n_entities} entities, {scores.n_predicted} found; CoNLL mean "
        f"{100 * scores.conll:.2f}, adjusted Rand {scores.adjusted_rand:.4f}."
    )


def _load(model: Path, jobs: int | None) -> EntityClusterer:
    from intarsia.clusters.entity_clusterer import EntityClusterer

    clusterer = EntityClusterer.load(model)
    clusterer.set_params(n_jobs=jobs)
    return clusterer


def _comparisons(given: list[str] | None) -> dict[str, list[str]] | None:
    if not given:
        return None
    found: dict[str, list[str]] = {}
    for word in given:
        column, equals, name = word.rpartition("=")
        if not equals or not column:
            raise InvalidInputError(
                f"--compare {word}: expected column=comparison, such as --compare name=jaro_winkler."
            )
        found.setdefault(column, []).append(name)
    return found


def _blocking(given: list[str] | None) -> list[Any] | None:
    from intarsia.clusters.blocking import BLOCKINGS

    found = []
    for word in given or []:
        name, _, columns = word.partition("=")
        found.append(BLOCKINGS.resolve(name, {"columns": columns.split(",")} if columns else {}))
    return found or None
