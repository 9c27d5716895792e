"""`intarsia diagnose`: check whether a learner and an inference method work together on labelled graphs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from intarsia.cli.output import check_folder_of, warnings_on_stderr, write_json
from intarsia.cli.running import parse_settings
from intarsia.exceptions import InvalidInputError

if TYPE_CHECKING:
    from intarsia.learning.examples import Example

BUILT_IN = ("diamond", "triangle")
_KEYS = {"node_features", "edges", "edge_features", "labels"}


def diagnose_command(
    data: Annotated[
        str,
        typer.Argument(
            help="JSON file of labelled graphs, or a built-in example: diamond, triangle.", show_default=False
        ),
    ],
    learner: Annotated[
        str, typer.Option(help="Learner: structured_perceptron, structured_svm, risk_minimizer or sample_rank.")
    ] = "structured_perceptron",
    inference: Annotated[str, typer.Option(help="Inference method, a name from `intarsia methods`.")] = "lp_relaxation",
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Setting of the inference method; repeat for several."),
    ] = None,
    n_examples: Annotated[int, typer.Option(help="Number of graphs to sample at random.")] = 20,
    n_passes: Annotated[int, typer.Option(help="Number of passes of the learner over the graphs.")] = 20,
    time_limit: Annotated[float, typer.Option(help="Seconds for each exact inference.")] = 5.0,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Save a plot of the checks.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Check whether a learner and an inference method work together on your data.

    The verdict is "fits" only if the error on held-out graphs is lower than by guessing the most frequent label.

    The file holds a list of graphs: `[{"node_features": [[...], ...], "edges": [[0, 1], ...], "labels": [...]}, ...]`,
    with optional edge_features; -1 or null marks a hidden label. Two counterexamples from a paper are built in.

    Example: `intarsia diagnose diamond --inference belief_propagation --set schedule=parallel`

    Example: `intarsia diagnose graphs.json --learner structured_svm --plot diagnosis.png`
    """
    from intarsia.diagnostics import diagnose_examples
    from intarsia.inference.registry import METHODS

    check_folder_of(plot)
    method = METHODS.resolve(inference, parse_settings(setting or []))
    with warnings_on_stderr():
        diagnosis = diagnose_examples(
            load_examples(data), learner, method,
            n_examples=n_examples, n_passes=n_passes, time_limit=time_limit, random_state=seed,
        )  # fmt: skip
    if plot is not None:
        from intarsia.report.diagnosis_plots import plot_diagnosis
        from intarsia.report.plots import save_figure

        save_figure(plot_diagnosis(diagnosis), plot)
    if json:
        write_json(diagnosis.to_dict())
        return
    typer.echo(str(diagnosis))
    if plot is not None:
        typer.echo(f"Plot: {plot}")


def load_examples(data: str) -> list[Example]:
    """Read labelled graphs from a JSON file, or return a built-in counterexample."""
    if data in BUILT_IN and not Path(data).exists():
        from intarsia.datasets.counterexamples import diamond_examples, triangle_examples

        # Several copies of each example, so that some can be held out.
        return 5 * (diamond_examples() if data == "diamond" else triangle_examples())
    if not Path(data).exists():
        raise InvalidInputError(
            f"diagnose: {data!r} is neither a file nor a built-in example. Pass a JSON file or one of: "
            f"{', '.join(map(repr, BUILT_IN))}."
        )
    graphs, labels = _read_graphs(Path(data))
    from intarsia.crf.graph_crf import GraphCRF

    return GraphCRF().examples(graphs, labels)


def _read_graphs(path: Path) -> tuple[list[Any], list[Any]]:
    """Read graphs and labels from a JSON file."""
    from intarsia._files.json_text import read_json_text
    from intarsia._files.packed_file import check_regular
    from intarsia.crf.graph_data import GraphInstance
    from intarsia.exceptions import FileFormatError

    check_regular(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path}: byte {error.start + 1} is not UTF-8. Save the file as UTF-8.") from None
    document = read_json_text(text, str(path), "Write a list of graphs, see `intarsia diagnose --help`.")
    if not isinstance(document, list) or not document:
        raise FileFormatError(
            f"{path}: expected a list of graphs, got {type(document).__name__}. See `intarsia diagnose --help`."
        )
    graphs, labels = [], []
    for i, entry in enumerate(document):
        if not isinstance(entry, dict) or not {"node_features", "labels"} <= set(entry) <= _KEYS:
            keys = sorted(entry) if isinstance(entry, dict) else type(entry).__name__
            raise FileFormatError(
                f"{path}, graph {i}: expected the keys node_features and labels, and optionally edges, edge_features; "
                f"got {keys}. See `intarsia diagnose --help`."
            )
        graphs.append(GraphInstance(entry["node_features"], entry.get("edges"), entry.get("edge_features")))
        labels.append(entry["labels"])
    return graphs, labels
