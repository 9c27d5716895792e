"""`intarsia infer`: compute log Z, marginals or the best assignment of a UAI model."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from intarsia.cli.output import check_folder_of, console, marginal_lists, note, number, warnings_on_stderr, write_json
from intarsia.cli.running import Request, load_request, parse_settings, run

if TYPE_CHECKING:
    from rich.console import Console

    from intarsia.inference.result import InferenceResult

ROWS_SHOWN = 20
STATES_SHOWN = 8


def infer_command(
    file: Annotated[Path, typer.Argument(help="Model in UAI format, plain or gz.", show_default=False)],
    task: Annotated[
        str, typer.Option(help="pr (log partition function), mar (marginals) or map (most probable assignment).")
    ] = "mar",
    method: Annotated[
        str,
        typer.Option(help="Name from `intarsia methods`. auto: exact if affordable, otherwise approximate."),
    ] = "auto",
    evidence: Annotated[Path | None, typer.Option(help="Observed states, a UAI evidence file.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    max_iter: Annotated[int | None, typer.Option(help="Maximum number of sweeps of an iterative method.")] = None,
    tol: Annotated[float | None, typer.Option(help="Convergence tolerance: largest change of a message.")] = None,
    damping: Annotated[float | None, typer.Option(help="Fraction of the old message to keep, in [0, 1).")] = None,
    temperature: Annotated[float | None, typer.Option(help="Weight T of the entropy: <theta, mu> + T H(mu).")] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(help="Seconds. Iterative methods return their current result; exact methods raise an error."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed.")] = None,
    n_samples: Annotated[int, typer.Option(help="Number of samples to draw, with methods that give samples.")] = 0,
    n_best: Annotated[int, typer.Option(help="Number of best assignments, with methods that give n-best.")] = 0,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Another setting of the method; repeat for several."),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Save a plot: an image for grids, bars otherwise.")] = None,
    compare: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Compare several methods side by side; `all` for every method."),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Save the result in the UAI competition's format.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show progress on stderr.")] = False,
) -> None:
    """Compute log Z, marginals or the most probable (MAP) assignment of a UAI model.

    Example: `intarsia infer model.uai --task mar --evidence model.uai.evid --json`

    Example: `intarsia infer model.uai --compare mean_field,belief_propagation,tree_reweighted`
    """
    check_folder_of(plot)
    check_folder_of(output)
    common = {"max_iter": max_iter, "tol": tol, "damping": damping, "temperature": temperature}
    settings = {key: value for key, value in common.items() if value is not None} | parse_settings(setting or [])
    with warnings_on_stderr():
        request = load_request(
            file, evidence, task,
            settings=settings, n_samples=n_samples, n_best=n_best, time_limit=time_limit, seed=seed, verbose=verbose,
        )  # fmt: skip
    if compare is not None:
        from intarsia.cli.compare import compare_methods

        if plot is not None or output is not None or n_samples or n_best:
            note("--plot, --output, --n-samples and --n-best have no effect with --compare.")
            request.n_samples = request.n_best = 0
        compare_methods(file, request, compare, json)
        return
    with warnings_on_stderr():
        result = run(request, method)
    if output is not None:
        _write_output(output, result, request.task)
    if plot is not None:
        _write_plot(plot, result)
    if json:
        write_json(as_document(result, request.task))
    else:
        _show(console(), file, request, result)
        for path, title in ((output, "Result"), (plot, "Plot")):
            if path is not None and path.exists():
                typer.echo(f"{title}: {path}")


def as_document(result: InferenceResult, task: str) -> dict[str, Any]:
    """Return the fields of a result as the JSON document of `intarsia infer`."""
    best = task == "map"
    document: dict[str, Any] = {
        "method": result.method.name,
        "task": task,
        "log_partition": None if best else result.log_partition,
        "log_partition_is": None if best else result.log_partition_is,
        "marginals": marginal_lists(result) if task == "mar" else None,
        "assignment": result.assignment.tolist() if best and result.assignment is not None else None,
        "score": result.score if best else None,
        "converged": result.converged,
        "status": result.status.name,
        "n_iter": result.n_iter,
        "seconds": result.seconds,
    }
    if result.samples is not None:
        document["samples"] = result.samples.tolist()
    if result.best is not None and result.best_scores is not None:
        document |= {"best": result.best.tolist(), "best_scores": result.best_scores.tolist()}
    return document


def _write_output(path: Path, result: InferenceResult, task: str) -> None:
    from intarsia.graph.uai_solution import write_uai_solution

    if result.status.name == "INFEASIBLE" and task != "pr":
        note(f"{path} was not written: {result.status.message}.")
        return
    write_uai_solution(path, result, task)


def _write_plot(path: Path, result: InferenceResult) -> None:
    from intarsia.report.plots import plot_marginals, save_figure

    if result.mu is None:
        note(f"{path} was not written: {result.status.message}.")
        return
    save_figure(plot_marginals(result), path)


def _show(out: Console, file: Path, request: Request, result: InferenceResult) -> None:
    """Print a result for people: facts, marginals or assignment, samples."""
    from rich.table import Table

    graph = request.graph
    facts = Table.grid(padding=(0, 2))
    observed = f", {len(request.evidence)} observed" if request.evidence else ""
    facts.add_row("model", f"{file.name}: {graph.n_variables} variables{observed}, {graph.n_factors} factors")
    facts.add_row("method", f"{'auto chose ' if result.chosen_by_auto else ''}{result.method.name}")
    facts.add_row("status", f"{result.status.name}: {result.status.message}")
    if request.task == "map":
        bound = f" (at most {number(result.upper_bound, 10)})" if math.isfinite(result.upper_bound) else ""
        facts.add_row("score", f"{number(result.score, 10)}{bound}")
    elif result.log_partition is not None:
        facts.add_row("log Z", f"{number(result.log_partition, 10)} ({result.log_partition_is})")
    sweeps = f", {result.n_iter} sweeps, residual {result.residual:.1e}" if result.n_iter else ""
    facts.add_row("time", f"{result.seconds:.3g} s{sweeps}")
    if result.note:
        facts.add_row("note", result.note)
    out.print(facts)
    if request.task == "mar" and result.mu is not None:
        out.print(_marginal_table(result))
    if request.task == "map" and result.assignment is not None:
        states = result.assignment.tolist()
        rest = f" ... {len(states) - 100} more (--json or --output gives all)" if len(states) > 100 else ""
        out.print(f"assignment {' '.join(map(str, states[:100]))}{rest}", markup=False)
    for title, rows, scores in (("sample", result.samples, None), ("best", result.best, result.best_scores)):
        if rows is not None:
            for k, row in enumerate(rows[:ROWS_SHOWN].tolist()):
                score = f" ({number(float(scores[k]), 10)})" if scores is not None else ""
                out.print(f"{title} {k}{score}: {' '.join(map(str, row[:60]))}{' ...' if len(row) > 60 else ''}")


def _marginal_table(result: InferenceResult) -> Any:
    """Return a table of the marginals of the first variables and states."""
    from rich.table import Table

    graph = result.graph
    n_shown = min(graph.n_variables, ROWS_SHOWN)
    width = min(int(graph.n_states[:n_shown].max(initial=0)), STATES_SHOWN)
    n_hidden = graph.n_variables - n_shown
    caption = f"{n_hidden} more variables; --json or --output gives all" if n_hidden else None
    table = Table("variable", *(f"P({k})" for k in range(width)), caption=caption, caption_justify="left")
    if int(graph.n_states[:n_shown].max(initial=0)) > width:
        table.add_column("...")
    for column in table.columns[1:]:
        column.justify = "right"
    for v in range(n_shown):
        block = result.marginals(v).tolist()
        cells = [f"{p:.4f}" for p in block[:width]] + [""] * (width - len(block))
        table.add_row(str(v), *cells, *(["..."] if len(block) > width else []))
    return table
