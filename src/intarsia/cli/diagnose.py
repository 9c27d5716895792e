"""`intarsia diagnose`: whether a learner and an inference method fit, on the user's own labelled graphs."""

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
        str, typer.Argument(help="A JSON file of labelled graphs; or diamond, triangle.", show_default=False)
    ],
    learner: Annotated[
        str, typer.Option(help="structured_perceptron, structured_svm, risk_minimizer or sample_rank.")
    ] = "structured_perceptron",
    inference: Annotated[str, typer.Option(help="A name from `intarsia methods`.")] = "lp_relaxation",
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of the inference; may be repeated."),
    ] = None,
    n_examples: Annotated[int, typer.Option(help="Graphs that are looked at, at random.")] = 20,
    n_passes: Annotated[int, typer.Option(help="Passes of the learner.")] = 20,
    time_limit: Annotated[float, typer.Option(help="Seconds for each exact answer.")] = 5.0,
    seed: Annotated[int, typer.Option(help="Seed of the sample.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Write a picture.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Whether a learner and an inference fit on these data.

    The file holds a list of graphs: `[{"node_features": [[...], ...], "edges": [[0, 1], ...], "labels": [...]}, ...]`,
    and edge_features, if there are any; -1 or null is a hidden label. The two counterexamples are built in.

    Example: `intarsia diagnose diamond --inference belief_propagation --set schedule=parallel`

    Example: `intarsia diagnose graphs.json --learner structured_svm --plot diagnosis.png`
    """
    from intarsia.diagnostics import diagnose_examples
    from intarsia.inference.registry import METHODS

    check_folder_of(plot)
    method = METHODS.resolve(inference, parse_settings(setting or []))
    with warnings_on_stderr():
        found = diagnose_examples(
            load_examples(data), learner, method,
            n_examples=n_examples, n_passes=n_passes, time_limit=time_limit, random_state=seed,
        )  # fmt: skip
    if plot is not None:
        from intarsia.report.diagnosis_plots import plot_diagnosis
        from intarsia.report.plots import save_figure

        save_figure(plot_diagnosis(found), plot)
    if json:
        write_json(found.to_dict())
        return
    typer.echo(str(found))
    if plot is not None:
        typer.echo(f"Picture: {plot}")


def load_examples(data: str) -> list[Example]:
    """Labelled graphs of a JSON file, or of one of the built-in counterexamples."""
    if data in BUILT_IN and not Path(data).exists():
        from intarsia.datasets.counterexamples import diamond_examples, triangle_examples

        return diamond_examples() if data == "diamond" else triangle_examples()
    if not Path(data).exists():
        raise InvalidInputError(
            f"diagnose: {data!r} is no file, and not built in. Built in: {', '.join(map(repr, BUILT_IN))}."
        )
    graphs, labels = _read_graphs(Path(data))
    from intarsia.crf.graph_crf import GraphCRF

    return GraphCRF().examples(graphs, labels)


def _read_graphs(path: Path) -> tuple[list[Any], list[Any]]:
    """Graphs and labels of a JSON file."""
    from intarsia._files.json_text import read_json_text
    from intarsia.crf.graph_data import GraphInstance
    from intarsia.exceptions import FileFormatError

    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path}: byte {error.start + 1} is not UTF-8. Save the file as UTF-8.") from None
    document = read_json_text(text, str(path), "Give a list of graphs, see --help.")
    if not isinstance(document, list) or not document:
        raise FileFormatError(f"{path}: expected a list of graphs, got {type(document).__name__}. See --help.")
    graphs, labels = [], []
    for i, entry in enumerate(document):
        if not isinstance(entry, dict) or not {"node_features", "labels"} <= set(entry) <= _KEYS:
            got = sorted(entry) if isinstance(entry, dict) else type(entry).__name__
            raise FileFormatError(
                f"{path}, graph {i}: expected node_features, labels and perhaps edges, edge_features, got {got}."
            )
        graphs.append(GraphInstance(entry["node_features"], entry.get("edges"), entry.get("edge_features")))
        labels.append(entry["labels"])
    return graphs, labels
