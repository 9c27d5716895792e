"""`intarsia bench`: compare speed, memory and quality with other libraries in one run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from intarsia.cli.output import check_folder_of, console, note, number, save_json, write_json

# Name -> function in the module of the same name in `benchmarks`; it takes (repeats, report=, rows=) and adds rows.
_BENCHMARKS = {
    "inference": "bench_inference",
    "learning": "bench_learning",
    "sequences": "bench_sequences",
    "collective": "bench_collective",
    "map": "bench_map",
    "softlogic": "bench_softlogic",
    "clusters": "bench_clusters",
    "parsers": "bench_parsers",
    "resolve": "bench_resolve",
    "records": "bench_records",
    "start": "bench_start",
    "serving": "bench_serving",
    "torch": "bench_torch",
}


def bench_command(
    name: Annotated[
        str,
        typer.Argument(
            help="Benchmark: inference, learning, sequences, collective, map, softlogic, clusters, parsers, resolve, "
            "records, start, serving or torch.",
            show_default=False,
        ),
    ],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    repeats: Annotated[int, typer.Option(help="Number of timed runs of each program; the fastest counts.")] = 5,
    output: Annotated[Path | None, typer.Option(help="Also write the JSON document to this file.")] = None,
) -> None:
    """Compare speed, memory and quality with other libraries; takes a few minutes.

    Peers run in the environments that `reproduction/setup_peers.py` creates; the columns of a missing peer stay empty.
    Ctrl-C ends the benchmark; the rows measured so far are printed and written.

    Example: `intarsia bench inference --json --output docs/results/bench_inference.json`
    """
    from importlib import import_module

    from intarsia._core.validation import check_choice

    check_choice(name, _BENCHMARKS, "bench")
    check_folder_of(output)
    function = _BENCHMARKS[name]
    rows: list[dict[str, Any]] = []
    ended = False
    try:
        getattr(import_module(f"intarsia_reproduction.benchmarks.{function}"), function)(
            repeats, report=note, rows=rows
        )
    except KeyboardInterrupt:
        if not rows:
            raise
        ended = True
    document = {"name": name, "rows": rows}
    if output is not None:
        save_json(output, document)
    if json:
        write_json(document)
    else:
        _show(rows)
        if output is not None:
            typer.echo(f"Rows: {output}")
    if ended:
        raise typer.Exit(130)


def _show(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    from intarsia_reproduction.benchmarks.measurement import ratio_text

    table = Table("workload", show_lines=True)
    for heading in ("ours, s", "peer, s", "ratio"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("required", no_wrap=True)
    for row in rows:
        peer = f"\nvs {row['peer']}" if row["peer"] else ""
        table.add_row(
            f"{row['workload']}{peer}",
            _figures(row["ours_seconds"], row["ours_quality"]),
            _figures(row["peer_seconds"], row["peer_quality"]),
            ratio_text(row),
            row.get("wanted", "-"),
        )
    console().print(table)
    qualities = {row["quality_is"] for row in rows if "quality_is" in row}
    if qualities:
        typer.echo(f"In brackets: {'; '.join(sorted(qualities))}.")


def _figures(seconds: float | None, quality: float | None) -> str:
    """Format the seconds, with the quality below in brackets."""
    return number(seconds, digits=3) + ("" if quality is None else f"\n({number(quality, digits=2)})")
