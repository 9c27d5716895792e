"""`intarsia data`: list the data sets of the experiments, their folders and how to obtain them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from intarsia.cli.output import console, write_json


def data_command(
    data: Annotated[
        Path | None, typer.Option(help="Folder to search first; by default the folder in INTARSIA_DATA.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """List the data sets of the experiments: what each contains, where it is on this machine, how to obtain it.

    Example: `intarsia data --data ~/data`
    """
    from intarsia_reproduction.datasets import data_folders

    folders = data_folders(data)
    rows = data_rows(data)
    if json:
        write_json({"sets": rows, "folders": [str(folder) for folder in folders]})
        return
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for title in ("set", "content", "folder"):
        table.add_column(title, no_wrap=title == "set", overflow="fold")
    for row in rows:
        table.add_row(row["name"], row["what"], escape(row["found"] or "not found"))
    console().print(table)
    typer.echo("\nHow to obtain them:")
    # The addresses are not in the table, since a wrapped address cannot be copied.
    for row in rows:
        typer.echo(f"  {row['name']}: {row['how_to_obtain']}")
    searched = " and ".join(map(str, folders))
    typer.echo(f"\n{sum(row['found'] is not None for row in rows)} of {len(rows)} sets found. Searched {searched}.")


def data_rows(data: Path | None = None) -> list[dict[str, Any]]:
    """Return one row per data set, with the folder that contains all its files or None."""
    from intarsia_reproduction.datasets import find_set, locate, set_names

    rows = []
    for name in set_names():
        entry, folder = find_set(name), locate(name, data)
        rows.append(
            {
                "name": name,
                "what": entry.description,
                "found": None if folder is None else str(folder),
                "files": list(entry.files),
                "publisher": entry.publisher,
                "home": entry.home,
                "facts": entry.facts,
                "loader": entry.loader or None,
                "how_to_obtain": entry.how_to_obtain,
            }
        )
    return rows
