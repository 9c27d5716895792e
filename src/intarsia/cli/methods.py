"""`intarsia methods`: list the inference methods with the abilities that each class declares."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from intarsia.cli.output import console, write_json

_ABILITIES = {
    "gives_marginals": "marginals",
    "gives_map": "MAP",
    "gives_samples": "samples",
    "gives_best": "n-best",
}


def methods_command(json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False) -> None:
    """List the inference methods: when to use each, what it computes, what it guarantees.

    Example: `intarsia methods`
    """
    rows = method_rows()
    if json:
        write_json({"methods": rows})
        return
    from rich.table import Table

    limited = any(row["max_scope"] is not None for row in rows)
    table = Table(show_lines=True)
    table.add_column("method", no_wrap=True)
    for title in ("use it for", "gives", "log Z is", *(["scope"] if limited else []), "cost"):
        table.add_column(title)
    for row in rows:
        gives = ", ".join(words for key, words in _ABILITIES.items() if row[key])
        scope = ["any" if row["max_scope"] is None else f"<= {row['max_scope']}"] if limited else []
        table.add_row(row["name"], row["summary"], gives, row["log_partition_is"] or "-", *scope, row["cost"])
    console().print(table)


def method_rows() -> list[dict[str, Any]]:
    """Return one row per registered method, read from its class attributes."""
    from intarsia.inference import method_class, method_names

    rows = []
    for name in method_names():
        method = method_class(name)
        row: dict[str, Any] = {"name": name, "class": method.__name__, "summary": method.summary, "exact": method.exact}
        row |= {key: getattr(method, key) for key in _ABILITIES}
        row |= {
            "log_partition_is": method.log_partition_is,
            "differentiable": method.differentiable,
            "max_scope": method.max_scope,
            "cost": method.cost,
            "settings": {key: repr(value) for key, value in method().get_params().items()},
        }
        rows.append(row)
    return rows
