"""`intarsia cluster`: train on known entities, resolve entities of records or scored pairs, evaluate the result."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from intarsia._core.error_context import errors_in
from intarsia.cli.cluster_files import read_table_file, write_table_file
from intarsia.cli.output import check_folder_of, print_clustering_scores, warnings_on_stderr, write_json
from intarsia.exceptions import InvalidInputError

if TYPE_CHECKING:
    from intarsia.clusters.entity_clusterer import EntityClusterer

_File = Annotated[
    Path, typer.Argument(help="Table of records: .csv, .tsv (plain or gz), .parquet.", show_default=False)
]
_Model = Annotated[Path, typer.Option("--model", "-m", help="Model file (.npz).", show_default=False)]
_Edges = Annotated[
    Path | None,
    typer.Option(help="Table of scored pairs of record ids, as exported by Splink or dedupe; replaces comparisons."),
]
_Jobs = Annotated[int | None, typer.Option(help="Number of threads.")]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def train_command(
    file: _File,
    model: _Model,
    entity: Annotated[
        str,
        typer.Option(
            help="Column with the true entity of each record; an empty cell is unlabelled.", show_default=False
        ),
    ],
    compare: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=NAME",
            help="Comparison of a column: exact, jaro_winkler, token_overlap, numeric or date; repeat for several. "
            "By default chosen from the data.",
        ),
    ] = None,
    block: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=COLUMN,...]",
            help="How to choose candidate pairs: shared_values=postcode, shared_tokens=title, "
            "sorted_neighbourhood=name or all_pairs; repeat for several.",
        ),
    ] = None,
    id_column: Annotated[str | None, typer.Option("--id", help="Column with the id of each record.")] = None,
    source: Annotated[
        str | None,
        typer.Option(help="Column with the source list of each record; an entity has at most one record of each list."),
    ] = None,
    edges: _Edges = None,
    json: _Json = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show progress on stderr.")] = False,
) -> None:
    """Train on records whose entities are known, and save the model.

    Example: `intarsia cluster train known.csv --entity person --compare name=jaro_winkler --model people.npz`
    """
    from intarsia.clusters.entity_clusterer import EntityClusterer

    start_time = time.perf_counter()
    check_folder_of(model)
    clusterer = EntityClusterer(
        _comparisons(compare), _blocking(block), id_column=id_column, source_column=source, verbose=verbose
    )
    records = read_table_file(file)
    entities = records.get(entity)
    with warnings_on_stderr():
        clusterer.fit(records, entity, edges=None if edges is None else read_table_file(edges))
    clusterer.save(model, notes={"entity": entity})
    seconds, n = time.perf_counter() - start_time, len(entities or ())
    if json:
        write_json({"file": str(model), "n": n, "seconds": seconds})
    else:
        _show_trained(clusterer, model, n, seconds)


def _show_trained(clusterer: EntityClusterer, model: Path, n: int, seconds: float) -> None:
    compared = ", ".join(f"{column} by {comparison.name}" for column, comparison in clusterer.comparisons_)
    typer.echo(f"{n} records, {compared or 'scored pairs'}; {clusterer.status_.name}, {seconds:.1f} s.")
    typer.echo(f"Model: {model}")


def predict_command(
    file: _File,
    model: _Model,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Table to write: .csv, .tsv or .parquet.", show_default=False)
    ],
    column: Annotated[str, typer.Option(help="Name of the added column.")] = "entity",
    pairs: Annotated[
        Path | None, typer.Option(help="Also write the candidate pairs with their match probabilities to this file.")
    ] = None,
    edges: _Edges = None,
    jobs: _Jobs = None,
    json: _Json = False,
) -> None:
    """Assign records to entities: write all rows in their order with an added column of entity numbers.

    Example: `intarsia cluster predict all.csv --model people.npz --output resolved.csv`
    """
    start_time = time.perf_counter()
    check_folder_of(output)
    check_folder_of(pairs)
    clusterer = _load(model, jobs)
    records = read_table_file(file)
    if column in records:
        raise InvalidInputError(f"{file.name} already has a column {column!r}. Pass another name with --column.")
    scored = None if edges is None else read_table_file(edges)
    predicted = clusterer.predict(records, edges=scored).tolist()
    write_table_file(output, {**records, column: predicted}, file, column)
    if pairs is not None:
        # The table of pairs has no source file whose column types must be preserved.
        write_table_file(pairs, clusterer.predict_pairs(records, edges=scored), Path("made.csv"), "probability")
    seconds = time.perf_counter() - start_time
    if json:
        write_json({"file": str(output), "n": len(predicted), "seconds": seconds})
    else:
        typer.echo(f"{len(predicted)} records, {len(set(predicted))} entities in {seconds:.1f} s: {output}")


def resolve_command(
    pairs: Annotated[
        Path,
        typer.Argument(
            help="Table of scored pairs, as exported by Splink or dedupe: .parquet, .csv or .tsv.", show_default=False
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="Table to write, with ids and entity: .parquet, .csv or .tsv.", show_default=False
        ),
    ],
    ids: Annotated[Path | None, typer.Option(help="Table with the ids of all records.")] = None,
    id_columns: Annotated[
        tuple[str, str] | None, typer.Option(metavar="LEFT RIGHT", help="Columns with the two ids, if not recognised.")
    ] = None,
    score: Annotated[str | None, typer.Option(help="Column with the score.")] = None,
    scale: Annotated[
        str, typer.Option(help="Meaning of the score: auto, match_weight, log_odds or probability.")
    ] = "auto",
    labels: Annotated[
        Path | None, typer.Option(help="Table of labelled pairs (two ids, match) that calibrate the scores.")
    ] = None,
    calibrate: Annotated[
        str | None,
        typer.Option(
            help="Calibrate the scores without labels: auto (by their agreement; can make right scores wrong) or "
            "competition (with --source). By default they are taken as they are."
        ),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            help="Table with id and source; an entity has at most one record of each source. By default the column "
            "source_dataset of the pairs, if no pair is within one."
        ),
    ] = None,
    must_link: Annotated[Path | None, typer.Option(help="Table of pairs of ids that are the same entity.")] = None,
    cannot_link: Annotated[Path | None, typer.Option(help="Table of pairs of ids that are not.")] = None,
    max_size: Annotated[int | None, typer.Option(help="Largest number of records of an entity.")] = None,
    time_limit: Annotated[float | None, typer.Option(help="Limit in seconds.")] = None,
    components: Annotated[
        Path | None, typer.Option(help="Also write score, bound and gap of each component to this file.")
    ] = None,
    json: _Json = False,
) -> None:
    """Group records into entities from scored pairs, without labels and without a threshold.

    Example: `intarsia cluster resolve pairs.parquet --output entities.parquet`
    """
    from intarsia._files.tables import table_file_kind
    from intarsia.cli.cluster_files import read_links_file
    from intarsia.clusters.resolution.resolve import resolve

    for path in (output, components):
        check_folder_of(path)
        if path is not None:
            table_file_kind(path)
    if calibrate is not None and labels is not None:
        raise InvalidInputError("--calibrate and --labels exclude each other. Pass one of them.")
    with warnings_on_stderr():
        resolution = resolve(
            pairs, ids, id_columns=id_columns, score_column=score, scale=scale, calibrate=labels or calibrate,
            source="auto" if source is None else source,
            must_link=read_links_file(must_link), cannot_link=read_links_file(cannot_link), max_size=max_size,
            time_limit=time_limit, verbose=not json,
        )  # fmt: skip
    for path, table in ((output, resolution.table), (components, resolution.components)):
        if path is not None:
            write_table_file(path, table, Path("made.csv"), "")
    if json:
        write_json(
            {
                "file": str(output), "n": resolution.n_records, "n_pairs": resolution.n_pairs,
                "n_entities": resolution.n_entities, "score": resolution.score, "bound": resolution.bound,
                "gap": resolution.gap, "status": resolution.status.name,
                "calibration": resolution.calibration.description, "absent": resolution.calibration.absent,
                "one_record_per_source": resolution.links.source is not None,
                "seconds": resolution.seconds,
            }
        )  # fmt: skip
    else:
        proof = "proven best" if resolution.proven else f"at most {100 * resolution.gap:.3g}% below the best"
        typer.echo(
            f"{resolution.n_records:,} records, {resolution.n_entities:,} entities from {resolution.n_pairs:,} pairs "
            f"in {resolution.seconds:.1f} s: {output}"
        )
        typer.echo(f"Score {resolution.score:.6g}, {proof}; {resolution.calibration.description}.")
        if resolution.links.source is not None:
            typer.echo("An entity has at most one record of each source.")


def evaluate_command(
    file: _File,
    entity: Annotated[str, typer.Option(help="Column with the true entity of each record.", show_default=False)],
    model: Annotated[Path | None, typer.Option("--model", "-m", help="Model to evaluate.")] = None,
    predicted: Annotated[
        str | None, typer.Option(help="Column with predicted entities, to evaluate without a model.")
    ] = None,
    edges: _Edges = None,
    jobs: _Jobs = None,
    json: _Json = False,
) -> None:
    """Evaluate predicted entities: pairwise, B-cubed, MUC and CEAF-e precision, recall and F1.

    Records without a true entity are ignored.

    Example: `intarsia cluster evaluate test.csv --entity person --model people.npz --json`
    """
    from intarsia.clusters.matcher import cluster_codes
    from intarsia.clusters.tables import read_table
    from intarsia.metrics import clustering_scores

    if (model is None) == (predicted is None):
        raise InvalidInputError("Pass either --model, or --predicted with a column of predicted entities.")
    with errors_in(file.name):
        records = read_table(read_table_file(file))
        truth = cluster_codes(records.column(entity), records.n_rows)
    clusters: Any
    if model is not None:
        clusters = _load(model, jobs).predict(records, edges=None if edges is None else read_table_file(edges))
    else:
        with errors_in(file.name):
            clusters = records.column(str(predicted))
    scores = clustering_scores(truth, clusters)
    if json:
        write_json(scores.as_dict())
        return
    print_clustering_scores(scores, "records")


def _load(model: Path, jobs: int | None) -> EntityClusterer:
    from intarsia.clusters.entity_clusterer import EntityClusterer

    clusterer = EntityClusterer.load(model)
    clusterer.set_params(n_jobs=jobs)
    return clusterer


def _comparisons(options: list[str] | None) -> dict[str, list[str]] | None:
    """Parse the options `--compare COLUMN=NAME`."""
    if not options:
        return None
    comparisons: dict[str, list[str]] = {}
    for option in options:
        column, equals, name = option.rpartition("=")
        if not equals or not column:
            raise InvalidInputError(f"--compare {option}: expected COLUMN=NAME, such as --compare name=jaro_winkler.")
        comparisons.setdefault(column, []).append(name)
    return comparisons


def _blocking(options: list[str] | None) -> list[Any] | None:
    """Parse the options `--block NAME[=COLUMN,...]`."""
    from intarsia.clusters.blocking import BLOCKINGS

    rules = []
    for option in options or []:
        name, _, columns = option.partition("=")
        rules.append(BLOCKINGS.resolve(name, {"columns": columns.split(",")} if columns else {}))
    return rules or None
