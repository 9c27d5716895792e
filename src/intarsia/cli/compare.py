"""`intarsia infer --compare`: run several methods side by side, with the exact answer if it is affordable."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from intarsia.cli.output import (
    difference,
    log_partition_text,
    note,
    number,
    seconds,
    show_table,
    warnings_on_stderr,
    write_json,
)
from intarsia.cli.running import Request, run, settings_by_method
from intarsia.exceptions import IntarsiaError, InvalidInputError

if TYPE_CHECKING:
    from intarsia.inference.result import InferenceResult

EXACT = "junction_tree"


def compare_methods(file: Path, request: Request, names: str, json: bool) -> None:
    """Run the methods one after another and print a row for each; a method that raises has its error in the row."""
    from intarsia.inference import method_class, method_names

    ability = "gives_map" if request.task == "map" else "gives_marginals"
    if names.strip() == "all":
        methods = [name for name in method_names() if getattr(method_class(name), ability)]
        if request.task == "pr":
            methods = [name for name in methods if method_class(name).log_partition_is is not None]
    else:
        methods = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    if not methods:
        raise InvalidInputError(
            f"--compare {names!r} contains no method. Pass names from `intarsia methods`, such as --compare "
            f"mean_field,tree_reweighted, or `all`."
        )
    for name in methods:
        method_class(name)  # raises for an unknown name before any work is done
    settings = settings_by_method([*methods, EXACT], request.settings)
    exact = _run_exact(request, settings[EXACT])
    rows = []
    interrupted = False
    for name in methods:
        if name == EXACT and exact is not None:
            rows.append(_row(name, exact, exact))
            continue
        try:
            with warnings_on_stderr(f"{name}: "):
                result = run(request, name, settings[name])
        except IntarsiaError as error:
            rows.append(_row(name, None, exact) | {"error": str(error)})
            continue
        rows.append(_row(name, result, exact))
        interrupted = result.status.name == "INTERRUPTED"
        if interrupted:
            break
    if json:
        document = None if exact is None else _answer(exact) | {"method": EXACT, "seconds": exact.seconds}
        write_json({"file": str(file), "task": request.task, "exact": document, "rows": rows})
    else:
        _show(file, request, exact, rows)
    if interrupted:
        raise typer.Exit(130)


def _run_exact(request: Request, settings: dict[str, Any]) -> InferenceResult | None:
    """Return the exact result, or None with a note on stderr if it is not affordable."""
    try:
        return run(request, EXACT, settings)
    except InvalidInputError:  # junction_tree has almost no settings, so this input is invalid for every method
        raise
    except IntarsiaError as error:
        note(f"no exact result to compare with: {error}")
        return None


def _answer(result: InferenceResult) -> dict[str, Any]:
    return {
        "log_partition": result.log_partition,
        "log_partition_is": result.log_partition_is,
        "score": result.score,
    }


def _row(name: str, result: InferenceResult | None, exact: InferenceResult | None) -> dict[str, Any]:
    """Return the row of a method, with its differences from the exact marginals."""
    row: dict[str, Any] = dict.fromkeys(
        ("method", "log_partition", "log_partition_is", "max_marginal_difference", "mean_marginal_difference", "score",
         "converged", "status", "n_iter", "seconds", "error")
    )  # fmt: skip
    row["method"] = name
    if result is None:
        return row
    row |= _answer(result) | {
        "converged": result.converged,
        "status": result.status.name,
        "n_iter": result.n_iter,
        "seconds": result.seconds,
    }
    if exact is not None and result.task == "marginals" and result.mu is not None and exact.mu is not None:
        n_variable_entries = int(result.graph.variable_ptr[-1])
        differences = abs(result.mu[:n_variable_entries] - exact.mu[:n_variable_entries])
        row["max_marginal_difference"] = float(differences.max(initial=0.0))
        row["mean_marginal_difference"] = float(differences.mean()) if n_variable_entries else 0.0
    return row


def _show(file: Path, request: Request, exact: InferenceResult | None, rows: list[dict[str, Any]]) -> None:
    """Print the comparison as a table, with errors as notes below."""
    marginals = request.task != "map"
    columns = ["log Z", "max\nerror", "mean\nerror"] if marginals else []
    cells = []
    if exact is not None:
        leading_cells = (
            [log_partition_text(exact.log_partition, exact.log_partition_is, 7), "", ""] if marginals else []
        )
        cells.append(["exact", *leading_cells, number(exact.score, 7), seconds(exact.seconds), exact.status.name])
    for row in rows:
        leading_cells = []
        if marginals:
            leading_cells = [log_partition_text(row["log_partition"], row["log_partition_is"], 7)]
            leading_cells += [difference(row[key]) for key in ("max_marginal_difference", "mean_marginal_difference")]
        cells.append(
            [
                row["method"],
                *leading_cells,
                number(row["score"], 7),
                seconds(row["seconds"]),
                row["status"] or "error",
            ]
        )
    show_table(
        f"{file.name}: {request.graph.n_variables} variables, {request.graph.n_factors} factors",
        ["method", *columns, "score", "time\n(s)", "status"],
        cells,
        [exact is not None and k == 0 for k in range(len(cells))],
        [f"{row['method']}: {row['error']}" for row in rows if row["error"]],
    )
