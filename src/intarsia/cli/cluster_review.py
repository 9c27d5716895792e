"""`intarsia cluster review`: answer questions about doubtful entities on a web page of this computer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from intarsia.cli.output import check_folder_of, write_json


def review_command(
    file: Annotated[
        Path, typer.Argument(help="Table of records: .csv, .tsv (plain or gz), .parquet.", show_default=False)
    ],
    edges: Annotated[
        Path, typer.Option(help="Table of scored pairs of record ids, as exported by Splink.", show_default=False)
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="JSON Lines file to which answers are added.", show_default=False)
    ],
    id_column: Annotated[str | None, typer.Option("--id", help="Column with the id of each record.")] = None,
    column: Annotated[list[str] | None, typer.Option(help="Column to show; repeat for several.")] = None,
    questions: Annotated[int, typer.Option(help="Largest number of questions.")] = 200,
    port: Annotated[int, typer.Option(help="Port of the page; 0 for a free one.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    json: Annotated[bool, typer.Option("--json", help="Print the number of answers as JSON at the end.")] = False,
) -> None:
    """Review the entities of scored pairs: answer same, different or unsure where the answer changes most.

    Answers are added to the file one by one; the same command continues where it ended.

    Example: `intarsia cluster review people.csv --edges pairs.parquet --output answers.jsonl`
    """
    from intarsia.clusters.reviewing.review import review

    check_folder_of(output)
    answers = review(
        edges,
        file,
        output,
        id_column=id_column,
        columns=column or None,
        n_questions=questions,
        port=port,
        open_browser=browser,
        on_start=lambda url: typer.echo(
            f"Open {url} in a browser of this computer; press Ctrl-C here to end.", err=True
        ),
    )
    counts = {"same": len(answers.must_link), "different": len(answers.cannot_link), "unsure": len(answers.unsure)}
    if json:
        write_json({"file": str(output), **counts})
    else:
        typer.echo(f"{', '.join(f'{count} {name}' for name, count in counts.items())}: {output}")
    raise typer.Exit  # Ctrl-C is the way to end a review
