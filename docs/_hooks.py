"""Hooks of mkdocs: tables generated from the code and from stored results, and formulas that need no network.

* `{{ methods }}` becomes the table of inference methods, `{{ abilities NAME }}` the facts about one method, both from
  class attributes; likewise `{{ losses }}`, `{{ gradients }}`, `{{ optimizers }}`, `{{ data_sets }}` and
  `{{ experiments }}`.
* `{{ compatibility }}` becomes the table learner x inference of `intarsia.diagnostics.compatibility`.
* `{{ results NAME }}` becomes the rows of `intarsia reproduce NAME` beside those of the paper, and the pictures, from
  `results/NAME`; rows without a result are marked. `{{ bench NAME }}` becomes the rows of `intarsia bench NAME`.
  `{{ resolve }}` becomes the tables of `intarsia reproduce resolve`, with a column for each set of records.
* `{{ value NAME KEY "FIGURE" FORMAT }}` becomes a stored figure of a task, `{{ gain NAME KEY BASE "FIGURE" FORMAT }}`
  the difference of two tasks; figure and format (`.3f`) may be omitted. `{{ interval NAME ROW "FIGURE" FORMAT }}`
  becomes a figure of a row of the task "intervals", with its interval. `{{ unfinished NAME }}` becomes the list of
  rows whose fits did not converge, `{{ unmoved NAME }}` that of rows with fits that made 0 iterations.
* `{{ world_compatibility }}` becomes the rows of that table for worlds.
* `{{ gallery }}` becomes a picture, a short text and the code of each program in `examples/`.
* `{{ references }}` becomes the list of `references.bib`; author-year keys in the text become links to it.
* Formulas become MathML at build time, so that a page loads no script and no font.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Sequence
from html import unescape
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
_TICK = {True: "yes", False: "–"}


# ---------------------------------------------------------------- tables from class attributes


def methods_table(prefix: str = "guide/") -> str:
    """Return a table with a row for each inference method."""
    from intarsia.inference.registry import method_class, method_names

    rows = [
        "| method | choose it for | marginals | MAP | samples | k best | log Z | largest factor | cost |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in method_names():
        method = method_class(name)
        rows.append(
            f"| [`{name}`]({prefix}{name}.md) | {method.summary} | {_TICK[method.gives_marginals]} "
            f"| {_TICK[method.gives_map]} | {_TICK[method.gives_samples]} | {_TICK[method.gives_best]} "
            f"| {method.log_partition_is or '–'} | {method.max_scope or 'any'} | {method.cost} |"
        )
    return "\n".join(rows)


def abilities(name: str) -> str:
    """Return the facts about an inference method in two columns."""
    from intarsia.inference.registry import method_class

    method = method_class(name)
    results = [
        word
        for ability, word in (
            ("gives_marginals", "marginals"),
            ("gives_map", "MAP"),
            ("gives_samples", "samples"),
            ("gives_best", "k best labellings"),
        )
        if getattr(method, ability)
    ]
    facts = {
        "name, class": f'`"{name}"`, `intarsia.{method.__name__}`',
        "choose it for": method.summary,
        "results": ", ".join(results),
        "log Z": method.log_partition_is or "none",
        "largest factor": str(method.max_scope or "any"),
        "cost": method.cost,
    }
    return "\n".join(["| | |", "|---|---|", *(f"| **{key}** | {value} |" for key, value in facts.items())])


def losses_table() -> str:
    """Return a table with a row for each loss."""
    from intarsia.losses import DirectLoss
    from intarsia.losses.registry import LOSSES

    rows = [
        "| loss | choose it for | needs | uses factors | hidden labels, label sets | weights of variables | gradient |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in LOSSES.names:
        loss = LOSSES.get(name)
        built_in = ["its own"] if issubclass(loss, DirectLoss) else []
        rows.append(
            f"| [`{name}`](#{_anchor(loss)}) | {loss.summary} | {loss.needs} | {_TICK[loss.uses_factors]} "
            f"| {_TICK[loss.handles_hidden]} | {_TICK[loss.takes_weights]} "
            f"| {', '.join([*built_in, *_rules_for(name)])} |"
        )
    return "\n".join(rows)


def gradients_table() -> str:
    """Return a table with a row for each gradient rule."""
    from intarsia.gradients.registry import GRADIENTS

    methods = _differentiable()
    rows = [
        f"| rule | choose it for | {' | '.join(f'`{name}`' for name in methods)} |",
        "|---|---|" + "---|" * len(methods),
    ]
    for name in GRADIENTS.names:
        rule = GRADIENTS.get(name)
        ticks = " | ".join(_TICK[method in rule.differentiates] for method in methods)
        rows.append(f"| [`{name}`](#{_anchor(rule)}) | {rule.summary} | {ticks} |")
    return "\n".join(rows)


def optimizers_table() -> str:
    """Return a table with a row for each optimiser."""
    from intarsia.learning.registry import OPTIMIZERS

    rows = ["| optimiser | class | mini-batches, `partial_fit` |", "|---|---|---|"]
    for name in OPTIMIZERS.names:
        optimizer = OPTIMIZERS.get(name)
        rows.append(
            f"| `{name}` | [`{optimizer.__name__}`](#{_anchor(optimizer)}) | {_TICK[optimizer.takes_batches]} |"
        )
    return "\n".join(rows)


def data_sets_table() -> str:
    """Return a table with a row for each data set that has a loader."""
    from intarsia_reproduction.datasets import find_set, set_names

    rows = ["| data set | contents | loader | published by |", "|---|---|---|---|"]
    rows += [
        f"| `{entry.name}` | {entry.description} | `{entry.loader}` | [{entry.publisher}]({entry.home}) |"
        for entry in map(find_set, set_names())
        if entry.loader
    ]
    return "\n".join(rows)


def experiments_table() -> str:
    """Return a table with a row for each experiment of `intarsia reproduce`."""
    from intarsia_reproduction.experiment import EXPERIMENTS, load_experiment

    rows = ["| name | question | table, figure | data |", "|---|---|---|---|"]
    rows += [
        f"| `{experiment.name}` | {experiment.question} | {experiment.title} | {experiment.data} |"
        for experiment in map(load_experiment, EXPERIMENTS)
    ]
    return "\n".join(rows)


def compatibility_table() -> str:
    """Return a table with a row for each inference method and kind of graph, a column for each learner, and reasons."""
    from intarsia.diagnostics.compatibility import compatibility

    pairs = [pair for pair in compatibility() if pair.model != "worlds"]  # these have a table of their own
    reasons = dict[str, int]()
    learners = list(dict.fromkeys(pair.learner for pair in pairs))
    rows = [f"| inference | graph | {' | '.join(f'`{name}`' for name in learners)} |"]
    rows.append("|---|---|" + "---|" * len(learners))
    for method, model in dict.fromkeys((pair.inference, pair.model) for pair in pairs):
        cells = []
        for pair in pairs:
            if (pair.inference, pair.model) == (method, model):
                judgement = pair.judgement
                text = f"{judgement.reason}{f' ({judgement.reference})' if judgement.reference else ''}"
                cells.append(f"{judgement.level} [{reasons.setdefault(text, len(reasons) + 1)}]")
        rows.append(f"| `{method}` | {model} | {' | '.join(cells)} |")
    return "\n".join([*rows, "", *(f"{number}. {text}." for text, number in reasons.items())])


def world_compatibility_table() -> str:
    """Return a table with a row for each method that searches or samples a world, after learning by SampleRank."""
    from intarsia.diagnostics.compatibility import compatibility
    from intarsia.diagnostics.world_compatibility import WORLDS

    rows = ["| method | with `SampleRank` | reason |", "|---|---|---|"]
    for pair in compatibility("sample_rank"):
        if pair.model == WORLDS:
            reference = f" ({pair.judgement.reference})" if pair.judgement.reference else ""
            rows.append(f"| `{pair.inference}` | {pair.judgement.level} | {pair.judgement.reason}{reference} |")
    return "\n".join(rows)


def _anchor(cls: type) -> str:
    return f"{cls.__module__}.{cls.__name__}"


def _differentiable() -> list[str]:
    """Return the inference methods that have a gradient rule, in the order of the table of methods."""
    from intarsia.gradients.registry import GRADIENTS
    from intarsia.inference.registry import method_names

    differentiable = {method for name in GRADIENTS.names for method in GRADIENTS.get(name).differentiates}
    return [name for name in method_names() if name in differentiable]


def _rules_for(loss: str) -> list[str]:
    from intarsia.gradients.registry import GRADIENTS
    from intarsia.losses.registry import LOSSES

    return [f"`{name}`" for name in GRADIENTS.names if GRADIENTS.resolve(name).fits_loss(LOSSES.resolve(loss))]


# ---------------------------------------------------------------- results of `intarsia reproduce`


def results(name: str, to_root: str = "../") -> str:
    """Return a table of an experiment beside the figures of the paper, and its pictures, from `results/NAME`."""
    from intarsia_reproduction.experiment import NOT_RECORDED, load_experiment, load_findings
    from intarsia_reproduction.table_status import CURRENT, NO_CODE, code_state, load_accepted

    folder = DOCS / "results" / name
    accepted = load_accepted(folder.parent)
    experiment = load_experiment(name)  # includes the tasks that were never run
    findings = load_findings(experiment.tasks, folder)
    rows_by_label = {row["label"]: row for row in experiment.rows(findings) if row["ours"] is not None}
    tables = []
    for figures, tasks in _grouped([task for task in experiment.tasks if not task.separate]):
        published = {name for task in tasks for name, figure in task.paper.items() if figure is not None}
        columns = []
        for figure in figures:
            sources = ("paper", "ours") if figure in published else ("",)
            columns += [": ".join(text for text in (figure, source) if text) for source in sources]
        table = [f"| row | {' | '.join(columns)} | n | time | commit |", "|---|" + "---|" * (len(columns) + 3)]
        for task in tasks:
            cells, last = [], None
            for figure in figures:
                row = rows_by_label.get(f"{task.label}, {figure}" if figure else task.label)
                last = row or last
                cells += [_figure(task.paper.get(figure), task.significant)] if figure in published else []
                missing = "–" if figure not in task.paper or task.key in findings else "*not run*"
                at_least = "> " if row is not None and figure in row["settings"].get("lower_bounds", []) else ""
                interval = _interval(task, findings.get(task.key), figure)
                cells.append(missing if row is None else at_least + _figure(row["ours"], task.significant) + interval)
            size_and_time = ["–", "–", "–"]
            if last is not None:
                commit = last.get("commit") or NOT_RECORDED
                if task.key in findings and commit != NOT_RECORDED:
                    state = code_state(f"{name}/{task.key}", task, findings[task.key], accepted)
                    commit += "" if state in (CURRENT, NO_CODE) else f" ({state})"
                size_and_time = [f"{last['n']:,}", _duration(last["seconds"]), commit]
            status = "" if last is None or last["status"] in ("done", "not run") else f" ({last['status']})"
            table.append(f"| {' | '.join([task.label + status, *cells, *size_and_time])} |")
        tables.append("\n".join(table))
    pictures = [
        f"![{experiment.title}: {path.stem.replace('_', ' ')}]({to_root}results/{name}/{path.name})"
        for path in sorted(folder.glob("*.png"))
    ]
    command = f"intarsia reproduce {name} --output FOLDER"
    caption = f"Unit: {experiment.tasks[0].unit}. Data: {experiment.data}. Run it: `{command}`."
    labels = {task.key: task.label for task in experiment.tasks}
    separate_tables = [
        _separate_table(task, findings.get(task.key), labels) for task in experiment.tasks if task.separate
    ]
    return "\n\n".join([caption, *tables, *separate_tables, *pictures])


def _grouped(tasks: Sequence[Any]) -> list[tuple[list[str], list[Any]]]:
    """Return tables as lists of figures and of tasks: a task is in the first table that has all of its figures."""
    figures_of = [_figures_of(task) for task in tasks]
    widest = [figures for figures in figures_of if not any(set(figures) < set(other) for other in figures_of)]
    groups: dict[frozenset[str], tuple[list[str], list[Any]]] = {}
    for figures in widest:
        groups.setdefault(frozenset(figures), (figures, []))
    for task, figures in zip(tasks, figures_of, strict=True):
        next(members for names, (_, members) in groups.items() if names.issuperset(figures)).append(task)
    return list(groups.values())


def _figures_of(task: Any) -> list[str]:
    """Return the figures of a task without the ends of intervals, which are shown beside their figure."""
    ends = {end for figure in task.paper for end in _ends(task, figure)}
    return [figure for figure in task.paper if figure not in ends]


def _ends(task: Any, figure: str) -> list[str]:
    """Return the names of the ends of the interval of a figure; those of the first figure may have no prefix."""
    has_short_names = "low" in task.paper and figure == next(iter(task.paper))
    return [end if has_short_names else f"{figure}, {end}" for end in ("low", "high")]


def _interval(task: Any, finding: Any, figure: str) -> str:
    """Return the interval of a figure in brackets; empty if none is stored."""
    ends = _ends(task, figure)
    if finding is None or any(end not in finding.values for end in ends):
        return ""
    low, high = (_figure(finding.values[end], task.significant) for end in ends)
    return f" ({low} to {high})"


def _separate_table(task: Any, finding: Any, labels: dict[str, str]) -> str:
    """Return a table with a row for each figure of one task; figures with intervals are columns of their row."""
    details = "not run" if finding is None else f"{_duration(finding.seconds)}, commit {finding.commit}"
    if finding is not None and task.key in ("intervals", "differences"):
        return _interval_table(finding.values, labels, f"{task.label} ({details})")
    rows = [f"| {task.label} | {task.unit} ({details}) |", "|---|---|"]
    for figure in _figures_of(task):
        cell = "*not run*" if finding is None else _figure(finding.values.get(figure), task.significant)
        rows.append(f"| {figure} | {cell}{_interval(task, finding, figure)} |")
    return "\n".join(rows)


def _interval_table(values: dict[str, float], labels: dict[str, str], heading: str) -> str:
    """Return a table with a row for each row of the experiment, and a column for each figure with its interval."""
    figures = [figure.rpartition(": ") for figure in values if not figure.endswith((", low", ", high"))]
    columns = list(dict.fromkeys(column for _, _, column in figures))
    table = [f"| {heading} | {' | '.join(columns)} |", "|---|" + "---|" * len(columns)]
    for row in dict.fromkeys(row for row, _, _ in figures):
        cells = [_with_interval(values, f"{row}: {column}", ".3f") or "–" for column in columns]
        table.append(f"| {labels.get(row, row)} | {' | '.join(cells)} |")
    return "\n".join(table)


def _with_interval(values: dict[str, float], figure: str, digits: str) -> str | None:
    """Return a figure with its interval as text; None if it is missing."""
    if figure not in values:
        return None
    centre, low, high = (f"{values[figure + end]:{digits}}" for end in ("", ", low", ", high"))
    return f"{centre} ({low} to {high})"


def interval(name: str, row: str, figure: str, digits: str = ".3f") -> str:
    """Return a figure of a row with its 95 % interval, from the task "intervals" of an experiment."""
    path = DOCS / "results" / name / "intervals.json"
    values = json.loads(path.read_text(encoding="utf-8"))["values"] if path.exists() else {}
    return _with_interval(values, f"{row}: {figure}", digits) or "*not run*"


def unfinished(name: str) -> str:
    """Return the rows of an experiment with fits that did not converge, and how they ended."""
    return _listed_rows(name, lambda finding: finding.settings.get("status", "CONVERGED") != "CONVERGED")


def unmoved(name: str) -> str:
    """Return the rows of an experiment with fits that made 0 iterations, and how many did."""
    return _listed_rows(name, lambda finding: finding.unmoved[0] > 0)


def _listed_rows(name: str, is_listed: Any) -> str:
    from intarsia_reproduction.experiment import load_experiment, load_findings

    tasks = load_experiment(name).tasks
    findings = load_findings(tasks, DOCS / "results" / name)
    rows = [
        f"*{task.label}* ({findings[task.key].status})"
        for task in tasks
        if task.key in findings and is_listed(findings[task.key])
    ]
    return "; ".join(rows) or "none"


def value(name: str, key: str, figure: str = "", digits: str = ".3f") -> str:
    """Return a stored figure of a task as text."""
    figure_value = _stored_value(name, key, figure)
    return "*not run*" if figure_value is None else f"{figure_value:{digits}}"


def gain(name: str, key: str, base: str, figure: str = "", digits: str = ".2f") -> str:
    """Return the difference of the stored figures of two tasks as text with a sign."""
    figure_value, base_value = _stored_value(name, key, figure), _stored_value(name, base, figure)
    return "*not run*" if figure_value is None or base_value is None else f"{figure_value - base_value:+{digits}}"


def _stored_value(name: str, key: str, figure: str) -> float | None:
    """Return a figure of a task; None if the task was not run."""
    path = DOCS / "results" / name / f"{key}.json"
    return float(json.loads(path.read_text(encoding="utf-8"))["values"][figure]) if path.exists() else None


_VALUE = re.compile(r'\{\{ value ([\w-]+) ([\w-]+)(?: "([^"]*)")?(?: ([.\w%]+))? \}\}')
_WITH_INTERVAL = re.compile(r'\{\{ interval ([\w-]+) ([\w-]+) "([^"]*)"(?: ([.+\w%]+))? \}\}')
_LISTED = re.compile(r"\{\{ (unfinished|unmoved) ([\w-]+) \}\}")
_GAIN = re.compile(r'\{\{ gain ([\w-]+) ([\w-]+) ([\w-]+)(?: "([^"]*)")?(?: ([.\w%]+))? \}\}')


def fill_values(markdown: str) -> str:
    """Replace `{{ value ... }}`, `{{ interval ... }}` and `{{ gain ... }}` by stored figures, and lists of rows."""
    lists = {"unfinished": unfinished, "unmoved": unmoved}
    markdown = _LISTED.sub(lambda match: lists[match[1]](match[2]), markdown)
    markdown = _WITH_INTERVAL.sub(lambda match: interval(match[1], match[2], match[3], match[4] or ".3f"), markdown)
    markdown = _VALUE.sub(lambda match: value(match[1], match[2], match[3] or "", match[4] or ".3f"), markdown)
    return _GAIN.sub(lambda match: gain(match[1], match[2], match[3], match[4] or "", match[5] or ".2f"), markdown)


def bench(name: str) -> str:
    """Return the rows of `results/bench_NAME.json` as a table, with unequal stopping rules in italics."""
    from intarsia_reproduction.benchmarks.measurement import check_row, ratio_text

    path = DOCS / "results" / f"bench_{name}.json"
    if not path.exists():
        return f"*Not measured yet.* Measure it: `intarsia bench {name}`."
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    for row in rows:
        check_row(row)
    table = [
        "| workload | ours, s | peer | peer, s | ratio | stopping rule | target | quality: ours | quality: peer |",
        "|---|" + "---|" * 8,
    ]
    for row in rows:
        cells = [row["workload"], _short(row["ours_seconds"]), row["peer"] or "–", _short(row["peer_seconds"])]
        stops = row["stopping"] or "–"
        cells += [ratio_text(row), f"*{stops}*" if row["comparison"] == "own rules" else stops, row.get("wanted", "–")]
        cells += [_short(row["ours_quality"], 9), _short(row["peer_quality"], 9)]
        table.append(f"| {' | '.join(cells)} |")
    qualities = sorted({row["quality_is"] for row in rows if "quality_is" in row})
    text = "\n".join(table) + _whole_calls(rows) + _record_sizes(rows)
    return text + f"\n\nQuality: {'; '.join(qualities)}. Measure it: `intarsia bench {name}`."


def _record_sizes(rows: list[dict[str, Any]]) -> str:
    """Return a table of wall time, memory, precision and recall of rows of whole tables; empty if there are none."""
    measured = [row for row in rows if "ours_wall_seconds" in row]
    if not measured:
        return ""
    table = [
        "\n\nThe seconds above are those of the processor, over all threads. Wall time on a busy machine, memory and "
        "quality:\n",
        "| records | candidate pairs of all rules | wall, s | peak memory, GB | precision | recall |",
        "|---|" + "---|" * 5,
    ]
    for row in measured:
        cells = [f"{row['n_records']:,}", f"{row['n_pairs']:,}", _short(row["ours_wall_seconds"])]
        cells += [f"{row['ours_peak_bytes'] / 1e9:.1f}", f"{row['ours_precision']:.4f}", f"{row['ours_recall']:.4f}"]
        table.append(f"| {' | '.join(cells)} |")
    return "\n".join(table)


def _whole_calls(rows: list[dict[str, Any]]) -> str:
    """Return a table of the rows of a benchmark that also measured whole calls; empty if there are none."""
    measured = [row for row in rows if row.get("whole_ratio") is not None]
    if not measured:
        return ""
    table = [
        "\n\nThe seconds of belief propagation above are those of the sweeps alone. Whole calls, of which ours also "
        "checks its input and computes all factor marginals, log Z and the labels:\n",
        "| workload, whole call | ours, s | peer | peer, s | ratio | target |",
        "|---|" + "---|" * 5,
    ]
    for row in measured:
        cells = [row["workload"], _short(row["ours_whole_seconds"]), row["peer"], _short(row["peer_whole_seconds"])]
        cells += [_short(row["whole_ratio"]), row.get("whole_wanted", "–")]
        table.append(f"| {' | '.join(cells)} |")
    return "\n".join(table)


def conformal_coverage_table() -> str:
    """Return the measurements of `reproduction/conformal_coverage.py` as tables."""
    document = json.loads((DOCS / "results" / "conformal_coverage.json").read_text(encoding="utf-8"))
    alphas = document["settings"]["alphas"]
    n_splits = document["settings"]["n_splits"]
    table = [
        "| data set | sets | " + " | ".join(f"{1 - alpha:.0%}" for alpha in alphas) + " | in band | splits in band |",
        "|---|---|" + "---|" * (len(alphas) + 2),
    ]
    for entry in document["data_sets"]:
        for unit in dict.fromkeys(row["unit"] for row in entry["rows"]):
            rows = [row for row in entry["rows"] if row["unit"] == unit]
            cells = [entry["name"], unit, *(f"{row['coverage']:.3f}" for row in rows)]
            cells.append(f"{sum(row['mean_in_band'] for row in rows)} of {len(rows)}")
            inside = [row["splits_in_band"] for row in rows if row["splits_in_band"] is not None]
            cells.append(f"{sum(inside) / len(inside):.0%}" if inside else "")
            table.append(f"| {' | '.join(cells)} |")
    errors = [
        "| data set | temperature | tokens | segments | sequences | not listed | drift: p | drift: coverage |",
        "|---|" + "---|" * 7,
    ]
    for entry in document["data_sets"]:
        cells = [entry["name"], f"{entry['temperature']:.2f}"]
        cells += [f"{before:.3f} -> {after:.3f}" for before, after in entry["calibration_error"].values()]
        cells += [f"{entry['unlisted']:.1%}", f"{entry['drift']['p_value']:.1g}", f"{entry['drift']['coverage']:.3f}"]
        errors.append(f"| {' | '.join(cells)} |")
    return "\n".join(table) + (
        f"\n\nMean coverage over {n_splits} random divisions of the sequences that the model has not seen into two "
        f"halves, calibration and test. The band of the mean (99 %) follows from the beta-binomial distribution of the "
        f"covered test sequences; the last column is the fraction of the single divisions inside their 95 % band. For "
        f"`labelling, never empty` and `labels by position` only the lower side is guaranteed and tested.\n\n"
        + "\n".join(errors)
        + "\n\nExpected calibration error on the test half before and after `calibrate` on the other half; "
        f"fraction of true labellings that are not among the {document['settings']['max_labellings']} best; and drift: "
        "words in lower case without punctuation at their ends, with the p-value of the check and the coverage of 90 % "
        "sets of all labels. Where the drift changes little (usaddress), it is not flagged and the coverage holds. "
        "Calibration does not help everywhere: one number cannot correct tokens and sequences at once. Measure it: "
        "`python reproduction/conformal_coverage.py FILE`."
    )


def resolve_table() -> str:
    """Return the results of `intarsia reproduce resolve`: tables of F1, and of seconds and gaps, by set."""
    from intarsia_reproduction.experiment import load_experiment, load_findings

    experiment = load_experiment("resolve")
    findings = load_findings(experiment.tasks, DOCS / "results" / "resolve")
    methods, sets = dict[str, str](), dict[str, str]()
    for task in experiment.tasks:
        set_key, method_key = task.key.split("-", 1)
        sets[set_key], methods[method_key] = task.label.split(": ", 1)

    def table(cell: Any) -> str:
        rows = [f"| clustering | {' | '.join(sets.values())} |", "|---|" + "---|" * len(sets)]
        for method, label in methods.items():
            cells = [findings.get(f"{key}-{method}") for key in sets]
            rows.append(f"| {label} | {' | '.join('–' if finding is None else cell(finding) for finding in cells)} |")
        return "\n".join(rows)

    def quality(finding: Any) -> str:
        return f"{finding.values['pairwise F1']:.3f}, {finding.values['B-cubed F1']:.3f}"

    def cost(finding: Any) -> str:
        gap = finding.values.get("gap")
        return _short(finding.values["processor s"], 2) + ("" if gap is None else f" (gap {100 * gap:.2g} %)")

    sizes = [findings.get(f"{key}-resolve") for key in sets]
    counts = "; ".join(
        f"{label} {finding.n:,} and {finding.settings['n_pairs']:,}"
        for label, finding in zip(sets.values(), sizes, strict=True)
        if finding is not None
    )
    return (
        f"Pairwise F1, B-cubed F1:\n\n{table(quality)}\n\nProcessor seconds of the clustering:\n\n{table(cost)}\n\n"
        f"Records and scored pairs: {counts}. Run it: `intarsia reproduce resolve --output FOLDER`."
    )


def _short(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}g}"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _figure(value: float | None, significant: int | None = None) -> str:
    """Format a figure with three decimals, with an exponent if it is tiny, or with a number of significant digits."""
    if value is None:
        return "–"
    if significant is not None:
        return _short(value, significant)
    return f"{value:.1e}" if 0 < abs(value) < 5e-4 else f"{value:.3f}"


# ---------------------------------------------------------------- examples


def gallery() -> str:
    """Return a section for each example: title and text of its docstring, its picture and its code."""
    parts = []
    for path in sorted((DOCS.parent / "examples").glob("*.py")):
        code = path.read_text(encoding="utf-8")
        title, text = (ast.get_docstring(ast.parse(code)) or "").split("\n", 1)
        words = re.sub(r"\s+", " ", text.split("\n    ")[0]).strip()  # the indented lines show how to run it
        words = re.sub(r"docs/([\w/]+\.md)", lambda match: f"[{page_title(match[1])}]({match[1]})", words)
        indented_code = "\n".join(f"    {line}".rstrip() for line in code.splitlines())
        parts += [
            f"## {title.rstrip('.?')} {{ #{path.stem} }}",
            words,
            f"![{title.rstrip('.')}](images/gallery/{path.stem}.png)",
            f'??? example "examples/{path.name}"\n    ```python\n{indented_code}\n    ```',
        ]
    return "\n\n".join(parts)


def page_title(page: str) -> str:
    """Return the first heading of a page."""
    return (DOCS / page).read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("# ")


# ---------------------------------------------------------------- references


def bibliography() -> dict[str, dict[str, str]]:
    """Return the entries of references.bib as a dict from key to fields."""
    entries = {}
    text = (DOCS / "references.bib").read_text(encoding="utf-8")
    for key, body in re.findall(r"^@\w+\{(\w+),\n(.*?)^\}", text, flags=re.M | re.S):
        entries[key] = dict(re.findall(r"^\s*(\w+)\s*=\s*\{(.*)\},?$", body, flags=re.M))
    return entries


def references_list() -> str:
    """Return the bibliography as a Markdown list with an anchor for each key."""
    lines = []
    for key, entry in sorted(bibliography().items()):
        where = entry.get("journal") or entry.get("booktitle") or entry.get("publisher", "")
        link = f" [doi:{entry['doi']}](https://doi.org/{entry['doi']})" if "doi" in entry else ""
        authors = entry["author"].replace(" and ", "; ").rstrip(".")
        lines.append(
            f'* <span id="{key}">**{key}**</span>: {authors}. {entry["title"]}. {where}, {entry["year"]}.{link}'
        )
    return "\n".join(lines)


def _link_citations(content: str, to_root: str) -> str:
    """Make each author-year key of the bibliography a link, except in code, formulas, headings and links."""
    keys = "|".join(sorted(bibliography(), key=len, reverse=True))
    depth = 0
    parts = re.split(r"(<[^>]+>)", content)
    for k, part in enumerate(parts):
        if part.startswith("<"):
            tag = re.match(r"</?(a|code|pre|math|h[1-6]|nav)\b", part)
            if tag:
                depth += -1 if part.startswith("</") else 1
        elif depth == 0:
            parts[k] = re.sub(rf"\b({keys})\b", rf'<a href="{to_root}references.html#\1">\1</a>', part)
    return "".join(parts)


# ---------------------------------------------------------------- formulas

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', flags=re.S)


def _to_mathml(match: re.Match[str]) -> str:
    from latex2mathml.converter import convert

    display = match[2] == "["
    latex = unescape(match[3]).strip().replace(r"\setminus", r"\backslash")  # every font has this sign
    mathml = convert(latex, display="block" if display else "inline")
    return f'<div class="formula">{mathml}</div>' if display else mathml


# ---------------------------------------------------------------- events of mkdocs

_TABLES = {
    "losses": losses_table,
    "gradients": gradients_table,
    "optimizers": optimizers_table,
    "data_sets": data_sets_table,
    "experiments": experiments_table,
    "compatibility": compatibility_table,
    "world_compatibility": world_compatibility_table,
    "gallery": gallery,
    "resolve": resolve_table,
    "conformal_coverage": conformal_coverage_table,
    "references": references_list,
}


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    to_guide = "" if page.file.src_uri.startswith("guide/") else "guide/"
    markdown = markdown.replace("{{ methods }}", methods_table(to_guide))
    to_root = "../" * page.file.src_uri.count("/")
    for word, make in _TABLES.items():
        if f"{{{{ {word} }}}}" in markdown:
            markdown = markdown.replace(f"{{{{ {word} }}}}", make())
    markdown = re.sub(r"\{\{ results ([\w-]+) \}\}", lambda match: results(match[1], to_root), markdown)
    markdown = fill_values(markdown)
    markdown = re.sub(r"\{\{ bench (\w+) \}\}", lambda match: bench(match[1]), markdown)
    return re.sub(r"\{\{ abilities (\w+) \}\}", lambda match: abilities(match[1]), markdown)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    content = _FORMULA.sub(_to_mathml, html)
    if page.file.src_uri == "references.md":
        return content
    return _link_citations(content, "../" * page.file.src_uri.count("/"))
