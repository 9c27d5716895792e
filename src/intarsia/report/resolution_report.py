"""Waterfall picture of an explanation, and the HTML report of a run of `resolve`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from intarsia._core.error_context import errors_from, errors_in
from intarsia._core.validation import check_number
from intarsia._files.tables import TABLES, read_columns
from intarsia.clusters.resolution.pair_columns import in_type_of
from intarsia.clusters.resolution.splits import EntityGraph
from intarsia.exceptions import InvalidInputError
from intarsia.report.line_plots import COLOURS, Line
from intarsia.report.page import versions, write_page
from intarsia.report.page_parts import Curves, Part, Section, Table, Words
from intarsia.report.plots import INK, QUIET

if TYPE_CHECKING:
    from intarsia.clusters.resolution.confidence import Confidence
    from intarsia.clusters.resolution.explanations import Explanation
    from intarsia.clusters.resolution.resolve import Resolution

_BINS = 60
_IDS_SHOWN = 6


def plot_explanation(explanation: Explanation, *, max_bars: int = 15) -> Figure:
    """Draw an explanation as a waterfall: each bar adds its contribution, and the last one is the sum.

    Parameters
    ----------
    explanation : PairExplanation or EntityExplanation
        Result of `Resolution.explain`.
    max_bars : int
        Largest number of contributions; the smallest ones are summed.

    Examples
    --------
    >>> from intarsia.clusters import resolve
    >>> resolution = resolve({"id1": ["a", "a", "b"], "id2": ["b", "c", "c"], "log_odds": [3.0, 2.0, -1.0]})
    >>> figure = plot_explanation(resolution.explain("a"))
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ["'a' - 'b'", "'a' - 'c'", "'b' - 'c'", 'sum']
    """
    check_number(max_bars, "max_bars", low=2, integer=True)
    contributions = explanation.shown_contributions(int(max_bars))
    steps = np.array([item.log_odds for item in contributions])
    ends = np.cumsum(steps)
    starts = ends - steps
    names = [item.name if len(item.name) <= 40 else item.name[:39] + "…" for item in contributions] + ["sum"]
    figure = Figure(figsize=(7.0, 1.1 + 0.32 * len(names)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    rows = np.arange(len(names))
    colours = [COLOURS[0] if step >= 0 else COLOURS[1] for step in steps]
    axes.barh(rows[:-1], steps, left=starts, color=colours, height=0.7)
    axes.barh(rows[-1:], [explanation.total], color=INK, height=0.7)
    for row, end in enumerate(ends):
        axes.plot([end, end], [row - 0.35, row + 1.35], color=QUIET, linewidth=0.8)
    for row, value in enumerate([*steps, explanation.total]):
        right = max(starts[row], ends[row]) if row < len(steps) else max(explanation.total, 0.0)
        axes.annotate(
            f"{value:+.2f}", (right, row), (4, 0), textcoords="offset points", va="center", fontsize=8, color=INK
        )
    axes.axvline(0.0, color=QUIET, linewidth=0.8)
    axes.set_yticks(rows, names, fontsize=8.5)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_xlabel("log odds", fontsize=9, color=INK)
    axes.set_title(explanation.title, loc="left", fontsize=10, color=INK)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(colors=INK, labelsize=8.5, length=2.5)
    return figure


@errors_from("report_resolution")
def report_resolution(
    resolution: Resolution,
    path: str | os.PathLike[str],
    *,
    edges: Any = None,
    truth: Any = None,
    confidence: Confidence | None = None,
    title: str = "Entity resolution",
    n_rows: int = 30,
) -> None:
    """Write the report of a run of `resolve` as one HTML file that needs no network.

    It shows how the scores were calibrated, the sizes of the entities, the components with the largest gaps and the
    entities that a small change of the scores would split or join.

    Parameters
    ----------
    resolution : Resolution
        Result of `resolve`.
    path : path
        File to write.
    edges : table, optional
        The table of pairs again: its column `match_key` counts the pairs of each blocking rule of Splink.
    truth : dict or table, optional
        True entity of records, as a dict id -> entity or a table with an id and an entity: the recall of the blocking
        and of the result.
    confidence : Confidence, optional
        Result of `resolution.confidence()`: the page then lists the entities with the lowest confidence.
    title : str
        Heading of the page.
    n_rows : int
        Largest number of rows of a table.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from intarsia.clusters import resolve
    >>> resolution = resolve({"id1": ["a", "a", "b"], "id2": ["b", "c", "c"], "log_odds": [3.0, 2.0, -1.0]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report_resolution(resolution, Path(folder, "report.html"))
    ...     "Most doubtful entities" in Path(folder, "report.html").read_text(encoding="utf-8")
    True
    """
    check_number(n_rows, "n_rows", low=1, integer=True)
    entities = None if truth is None else _true_entities(resolution, truth)
    sections = [_summary(resolution), _blocking(resolution, edges, entities), _scores(resolution)]
    sections += [_sizes(resolution), _gaps(resolution, int(n_rows)), _doubts(resolution, int(n_rows), confidence)]
    lead = (
        f"{resolution.n_records:,} records, {resolution.n_pairs:,} scored pairs, {resolution.n_entities:,} entities. "
        f"{resolution.calibration.description[:1].upper()}{resolution.calibration.description[1:]}."
    )
    write_page(path, title, lead, sections)


def _summary(resolution: Resolution) -> Section:
    """Return the totals of a run."""
    sizes = np.bincount(resolution.labels) if len(resolution.labels) else np.zeros(1)
    rows = [
        ["records", resolution.n_records],
        ["entities", resolution.n_entities],
        ["entities of one record", int((sizes == 1).sum())],
        ["records of the largest entity", int(sizes.max())],
        ["scored pairs", resolution.n_pairs],
        ["score (total log odds within entities)", resolution.score],
        ["upper bound of the score", resolution.bound],
        ["gap, relative", resolution.gap],
        ["log odds of a pair without a score", resolution.calibration.absent],
    ]
    facts = {"Time": f"{resolution.seconds:.2f} s", "Versions": versions()}
    return Section("summary", "Summary", "How many entities are there?", [Table(["quantity", "value"], rows)], facts)


def _blocking(resolution: Resolution, edges: Any, truth: Mapping[int, Any] | None) -> Section:
    """Return the pairs of each blocking rule, and the recall where the truth is available."""
    parts: list[Part] = [Words(f"{resolution.n_pairs:,} pairs of records were compared.")]
    if edges is not None:
        with errors_in("edges"):
            columns = read_columns(edges)
        if columns is None:
            raise InvalidInputError(f"edges are of type {type(edges).__name__}. Pass {TABLES}.")
        if "match_key" in columns:
            rules, counts = np.unique(np.array([str(key) for key in columns["match_key"]]), return_counts=True)
            rows = [[rule, int(count)] for rule, count in zip(rules, counts, strict=True)]
            parts.append(Table(["blocking rule (match_key)", "pairs"], rows, "First rule that produced each pair"))
        else:
            parts.append(Words("The table of pairs has no column match_key, so the rules are unknown."))
    if truth is not None:
        parts.append(_recall(resolution, truth))
    return Section("blocking", "Blocking", "Which pairs were compared, and which were missed?", parts)


def _recall(resolution: Resolution, truth: Mapping[int, Any]) -> Table:
    """Return the recall and precision of the compared pairs and of the entities, over records with a true entity."""
    records = np.array(sorted(truth), dtype=np.int64)
    codes = np.full(resolution.n_records, -1, dtype=np.int64)
    codes[records] = np.unique([str(truth[int(record)]) for record in records], return_inverse=True)[1]
    pairs = resolution.pairs.pairs
    pairs = pairs[(codes[pairs] >= 0).all(axis=1)]
    is_true = codes[pairs[:, 0]] == codes[pairs[:, 1]]
    n_true = _n_pairs(codes[records])
    true_and_joined = np.unique(
        np.column_stack([codes[records], resolution.labels[records]]), axis=0, return_inverse=True
    )[1]
    n_joined, n_both = _n_pairs(resolution.labels[records]), _n_pairs(true_and_joined.ravel())
    rows = [
        [
            "compared pairs",
            len(pairs),
            int(is_true.sum()),
            _ratio(is_true.sum(), n_true),
            _ratio(is_true.sum(), len(pairs)),
        ],
        ["pairs within entities", n_joined, n_both, _ratio(n_both, n_true), _ratio(n_both, n_joined)],
    ]
    caption = f"{len(records):,} records with a true entity, {n_true:,} true pairs"
    return Table(["pairs", "number", "true", "recall", "precision"], rows, caption)


def _ratio(count: float, total: float) -> float | None:
    return float(count) / float(total) if total else None


def _n_pairs(groups: Any) -> int:
    """Return the number of pairs of records in the same group."""
    sizes = np.unique(groups, return_counts=True)[1].astype(np.int64)
    return int((sizes * (sizes - 1) // 2).sum())


def _scores(resolution: Resolution) -> Section:
    """Return the histogram of the scores before and after the calibration, and the calibration curve."""
    before = resolution.pairs.log_odds
    after = resolution.log_odds
    if not len(before):
        return Section("scores", "Scores", "How sure are the scores?", [Words("There are no scored pairs.")])
    low, high = (float(edge) for edge in (min(before.min(), after.min()), max(before.max(), after.max())))
    bins = np.linspace(low, high if high > low else low + 1.0, _BINS + 1)
    lines = [Line("as given", *_histogram(before, bins))]
    parts: list[Part] = []
    if resolution.calibration.method != "none":
        lines.append(Line("calibrated", *_histogram(after, bins)))
    parts.append(Curves(lines, "log odds", "number of pairs", "Histogram of the log odds of all scored pairs"))
    if resolution.calibration.method != "none":
        grid = np.linspace(before.min(), before.max(), 200)
        curve = [
            Line("as given", grid, grid, dashes="--"),
            Line("calibrated", grid, resolution.calibration.apply(grid)),
        ]
        parts.append(Curves(curve, "log odds as given", "log odds that are counted", "Calibration"))
    return Section("scores", "Scores", "What do the scores mean?", parts)


def _histogram(values: Any, bins: Any) -> tuple[Any, Any]:
    """Return the outline of a histogram."""
    counts = np.histogram(values, bins)[0].astype(float)
    return np.repeat(bins, 2), np.concatenate([[0.0], np.repeat(counts, 2), [0.0]])


def _sizes(resolution: Resolution) -> Section:
    """Return the number of entities of each size."""
    sizes, counts = np.unique(np.unique(resolution.labels, return_counts=True)[1], return_counts=True)
    rows = [[int(size), int(count), int(size * count)] for size, count in zip(sizes, counts, strict=True)]
    table = Table(["records of an entity", "entities", "records"], rows)
    return Section("sizes", "Sizes of entities", "How large are the entities?", [table])


def _gaps(resolution: Resolution, n_rows: int) -> Section:
    """Return the components whose clustering is least certain to be the best one."""
    columns = read_columns(resolution.components) or {}
    gaps = np.asarray(columns["gap"], dtype=float)
    order = [int(row) for row in np.argsort(-gaps, kind="stable")[:n_rows] if gaps[row] > 0]
    if not order:
        text = "All components are solved: no clustering has a higher score."
        return Section("gaps", "Largest gaps", "Is there a better clustering?", [Words(text)])
    names = ["component", "n_records", "n_entities", "score", "bound", "gap", "seconds"]
    table = Table(names, [[_plain(columns[name][row]) for name in names] for row in order])
    text = f"{int((gaps > 0).sum()):,} of {len(gaps):,} components are not proven optimal."
    return Section("gaps", "Largest gaps", "Is there a better clustering?", [Words(text), table])


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _confidences(resolution: Resolution, confidence: Confidence, n_rows: int) -> Table:
    """Return the entities with the lowest mean confidence of their records, and the least certain record of each."""
    columns = read_columns(confidence.records) or {}
    values = np.asarray(columns["confidence"], dtype=float)
    if len(values) != resolution.n_records:
        raise InvalidInputError(
            f"confidence has {len(values)} records, but the resolution has {resolution.n_records}. Pass the result of "
            f"its own method confidence()."
        )
    ids, labels = resolution.pairs.entity_names, resolution.labels
    entities, entity_of = np.unique(labels, return_inverse=True)
    n_records = np.bincount(entity_of)
    mean = np.bincount(entity_of, values) / np.maximum(n_records, 1)
    rows = []
    for entity in np.argsort(mean, kind="stable")[:n_rows]:
        members = np.flatnonzero(entity_of == entity)
        weakest = members[np.argmin(values[members])]
        rows.append(
            [ids[entities[entity]], int(n_records[entity]), float(mean[entity]), ids[weakest], float(values[weakest])]
        )
    names = ["entity", "records", "mean confidence", "least certain record", "its confidence"]
    return Table(names, rows, "Entities by the posterior probability of their records")


def _doubts(resolution: Resolution, n_rows: int, confidence: Confidence | None) -> Section:
    """Return the entities of low confidence or with the cheapest splits, and pairs of entities nearly joined."""
    graph, ids = EntityGraph(resolution), resolution.pairs.entity_names
    costs = graph.split_costs()
    n_records = graph.n_records()
    splits = []
    for entity in np.argsort(costs, kind="stable")[:n_rows]:
        split = graph.cheapest_split(int(entity))
        if split is None:
            break
        nodes = graph.nodes(int(entity))
        records = np.flatnonzero(resolution.labels == graph.first_record[entity])
        second = np.isin(graph.node_of[records], nodes[split.side])
        sides = [_listed([ids[record] for record in records[mask]]) for mask in (~second, second)]
        splits.append([ids[graph.first_record[entity]], int(n_records[entity]), float(split.cost), *sides])
    pairs, gains = graph.join_gains()
    joins = [
        [
            *(ids[graph.first_record[entity]] for entity in pairs[row]),
            *n_records[pairs[row]].tolist(),
            -float(gains[row]),
        ]
        for row in np.argsort(-gains, kind="stable")[:n_rows]
    ]
    parts: list[Part] = [] if confidence is None else [_confidences(resolution, confidence, n_rows)]
    parts.append(Words("Log odds that the score loses. A cost near 0 is a decision that could go either way."))
    if splits:
        parts.append(Table(["entity", "records", "cost of the split", "first side", "second side"], splits, "Splits"))
    if joins:
        names = ["entity", "other entity", "records", "records of the other", "cost of joining"]
        parts.append(Table(names, joins, "Pairs of entities; constraints may forbid to join them"))
    return Section("doubts", "Most doubtful entities", "Which decisions deserve a look?", parts)


def _listed(names: list[Any]) -> str:
    """Return a short list of ids."""
    text = ", ".join(map(str, names[:_IDS_SHOWN]))
    return text if len(names) <= _IDS_SHOWN else f"{text} and {len(names) - _IDS_SHOWN} others"


def _true_entities(resolution: Resolution, truth: Any) -> dict[int, Any]:
    """Return the true entity of each record by number; records without one are left out."""
    number = {name: k for k, name in enumerate(resolution.pairs.ids)}
    items: Any
    id_names = {"id", "unique_id", *resolution.pairs.columns.record}
    if isinstance(truth, Mapping) and not id_names & set(truth):
        items = truth.items()
    else:
        with errors_in("truth"):
            columns = read_columns(truth)
        if columns is None or len(columns) < 2:
            raise InvalidInputError(f"truth is of type {type(truth).__name__}. Pass a dict id -> entity, or {TABLES}.")
        with errors_in("truth"):
            ids = in_type_of(resolution.pairs.columns.read_records(columns), number)
        label = next(name for name in ("entity", "cluster", *columns) if name in columns and name not in id_names)
        items = zip(ids, columns[label], strict=True)
    entities = {number[name]: entity for name, entity in items if name in number and entity is not None}
    if not entities:
        raise InvalidInputError("truth has no id of the scored pairs. Use the same ids in true_and_joined.")
    return entities
