"""Hooks of mkdocs that fill pages with tables from the code, so that they cannot become outdated, and render formulas.

* `{{ methods }}` becomes the table of inference methods, `{{ abilities NAME }}` the properties of one method, from
  class attributes. `{{ losses }}`, `{{ gradients }}`, `{{ optimizers }}`, `{{ data_sets }}` and `{{ experiments }}`
  become similar tables.
* `{{ compatibility }}` becomes the table of known results for each learner and inference method.
* `{{ results NAME }}` becomes the rows of `intarsia reproduce NAME` with the values of the paper, and the figures, from
  the files in `results/NAME`; rows that were never run are marked. `{{ bench NAME }}` becomes the rows of
  `intarsia bench NAME`.
* `{{ gallery }}` becomes a picture, a description and the code of each program in `examples/`.
* `{{ references }}` becomes the list of `references.bib`; author-year keys in the text become links to it.
* Formulas become MathML at build time, so that pages need no script, font or download.
"""

from __future__ import annotations

import ast
import json
import re
from html import unescape
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
_TICK = {True: "yes", False: "–"}


# ---------------------------------------------------------------- tables from class attributes


def methods_table(prefix: str = "guide/") -> str:
    """Return a table with one row per inference method."""
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
    """Return a table of the properties of one inference method."""
    from intarsia.inference.registry import method_class

    method = method_class(name)
    gives = [
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
        "gives": ", ".join(gives),
        "log Z": method.log_partition_is or "none",
        "largest factor": str(method.max_scope or "any"),
        "cost": method.cost,
    }
    return "\n".join(["| | |", "|---|---|", *(f"| **{key}** | {value} |" for key, value in facts.items())])


def losses_table() -> str:
    """Return a table with one row per loss."""
    from intarsia.losses import DirectLoss
    from intarsia.losses.registry import LOSSES

    rows = [
        "| loss | choose it for | needs | reads factors | hidden labels, sets | weights of variables | gradient |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in LOSSES.names:
        loss = LOSSES.get(name)
        direct_gradient = ["its own"] if issubclass(loss, DirectLoss) else []
        rows.append(
            f"| [`{name}`](#{_anchor(loss)}) | {loss.summary} | {loss.needs} | {_TICK[loss.uses_factors]} "
            f"| {_TICK[loss.handles_hidden]} | {_TICK[loss.takes_weights]} "
            f"| {', '.join([*direct_gradient, *_rules_for(name)])} |"
        )
    return "\n".join(rows)


def gradients_table() -> str:
    """Return a table with one row per gradient rule."""
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
    """Return a table with one row per optimiser."""
    from intarsia.learning.registry import OPTIMIZERS

    rows = ["| optimiser | class | steps on batches, `partial_fit` |", "|---|---|---|"]
    for name in OPTIMIZERS.names:
        optimizer = OPTIMIZERS.get(name)
        rows.append(
            f"| `{name}` | [`{optimizer.__name__}`](#{_anchor(optimizer)}) | {_TICK[optimizer.takes_batches]} |"
        )
    return "\n".join(rows)


def data_sets_table() -> str:
    """Return a table with one row per data set that has a loader."""
    from intarsia_reproduction.datasets import find_set, set_names

    rows = ["| set | what | loader | published by |", "|---|---|---|---|"]
    rows += [
        f"| `{entry.name}` | {entry.description} | `{entry.loader}` | [{entry.publisher}]({entry.home}) |"
        for entry in map(find_set, set_names())
        if entry.loader
    ]
    return "\n".join(rows)


def experiments_table() -> str:
    """Return a table with one row per experiment of `intarsia reproduce`."""
    from intarsia_reproduction.experiment import EXPERIMENTS, load_experiment

    rows = ["| name | what it asks | table, figure | data |", "|---|---|---|---|"]
    rows += [
        f"| `{experiment.name}` | {experiment.question} | {experiment.title} | {experiment.data} |"
        for experiment in map(load_experiment, EXPERIMENTS)
    ]
    return "\n".join(rows)


def compatibility_table() -> str:
    """Return a table with a row per inference method and kind of graph and a column per learner, and the reasons."""
    from intarsia.diagnostics.compatibility import compatibility
    from intarsia.learning.registry import LEARNERS

    pairs, reasons = compatibility(), dict[str, int]()
    rows = [f"| inference | graph | {' | '.join(f'`{name}`' for name in LEARNERS.names)} |"]
    rows.append("|---|---|" + "---|" * len(LEARNERS.names))
    for method, model in dict.fromkeys((pair.inference, pair.model) for pair in pairs):
        cells = []
        for pair in pairs:
            if (pair.inference, pair.model) == (method, model):
                judgement = pair.judgement
                reason = f"{judgement.reason}{f' ({judgement.reference})' if judgement.reference else ''}"
                cells.append(f"{judgement.level} [{reasons.setdefault(reason, len(reasons) + 1)}]")
        rows.append(f"| `{method}` | {model} | {' | '.join(cells)} |")
    return "\n".join([*rows, "", *(f"{number}. {reason}." for reason, number in reasons.items())])


def _anchor(cls: type) -> str:
    return f"{cls.__module__}.{cls.__name__}"


def _differentiable() -> list[str]:
    """Return the inference methods that a gradient rule can differentiate, in the order of `methods_table`."""
    from intarsia.gradients.registry import GRADIENTS
    from intarsia.inference.registry import method_names

    differentiable = {method for name in GRADIENTS.names for method in GRADIENTS.get(name).differentiates}
    return [name for name in method_names() if name in differentiable]


def _rules_for(loss: str) -> list[str]:
    """Return the gradient rules that can be used with a loss."""
    from intarsia.gradients.registry import GRADIENTS
    from intarsia.losses.registry import LOSSES

    return [f"`{name}`" for name in GRADIENTS.names if GRADIENTS.resolve(name).fits_loss(LOSSES.resolve(loss))]


# ---------------------------------------------------------------- results of `intarsia reproduce`


def results(name: str, to_root: str = "../") -> str:
    """Return a table with a row per task, our values beside those of the paper, and the figures in `results/NAME`."""
    from intarsia_reproduction.experiment import load_experiment, load_findings

    folder = DOCS / "results" / name
    experiment = load_experiment(name)  # lists all tasks, including those that were never run
    findings = load_findings(experiment.tasks, folder)
    rows_file = folder / f"{name}-rows.json"
    rows = json.loads(rows_file.read_text(encoding="utf-8"))["rows"] if rows_file.exists() else []
    row_of_label = {row["label"]: row for row in [*rows, *experiment.rows(findings)] if row["ours"] is not None}
    has_paper_values = any(figure is not None for task in experiment.tasks for figure in task.paper.values())
    figures = list(dict.fromkeys(figure for task in experiment.tasks for figure in task.paper))
    columns = figures
    if has_paper_values:
        columns = [f"{column}: {whose}" if column else whose for column in columns for whose in ("paper", "ours")]
    table = [f"| row | {' | '.join(columns)} | n | time |", "|---|" + "---|" * (len(columns) + 2)]
    for task in experiment.tasks:
        cells, last = [], None
        for figure in figures:
            row = row_of_label.get(f"{task.label}, {figure}" if figure else task.label)
            last = row or last
            cells += [_figure(task.paper.get(figure), task.significant)] if has_paper_values else []
            missing = "–" if figure not in task.paper or task.key in findings else "*not run*"
            at_least = "> " if row is not None and figure in row["settings"].get("lower_bounds", []) else ""
            cells.append(missing if row is None else at_least + _figure(row["ours"], task.significant))
        size_and_time = ["–", "–"] if last is None else [f"{last['n']:,}", _duration(last["seconds"])]
        status = "" if last is None or last["status"] in ("done", "not run") else f" ({last['status']})"
        table.append(f"| {' | '.join([task.label + status, *cells, *size_and_time])} |")
    pictures = [
        f"![{experiment.title}: {path.stem.replace('_', ' ')}]({to_root}results/{name}/{path.name})"
        for path in sorted(folder.glob("*.png"))
    ]
    command = f"intarsia reproduce {name} --output FOLDER"
    description = f"Unit: {experiment.tasks[0].unit}. Data: {experiment.data}. Run it: `{command}`."
    return "\n\n".join([description, "\n".join(table), *pictures])


def bench(name: str) -> str:
    """Return the rows in `results/bench_NAME.json` as a table; unequal stopping rules are in italics."""
    from intarsia_reproduction.benchmarks.measurement import check_row, ratio_text

    path = DOCS / "results" / f"bench_{name}.json"
    if not path.exists():
        return f"*Not measured yet.* Measure it: `intarsia bench {name}`."
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    for row in rows:
        check_row(row)
    table = [
        "| workload | ours, s | peer | peer, s | ratio | each stops | wanted | quality: ours | peer |",
        "|---|" + "---|" * 8,
    ]
    for row in rows:
        cells = [row["workload"], _short(row["ours_seconds"]), row["peer"] or "–", _short(row["peer_seconds"])]
        stops = row["stopping"] or "–"
        cells += [ratio_text(row), f"*{stops}*" if row["comparison"] == "own rules" else stops, row.get("wanted", "–")]
        cells += [_short(row["ours_quality"], 9), _short(row["peer_quality"], 9)]
        table.append(f"| {' | '.join(cells)} |")
    qualities = sorted({row["quality_is"] for row in rows if "quality_is" in row})
    return "\n".join(table) + f"\n\nQuality: {'; '.join(qualities)}. Measure it: `intarsia bench {name}`."


def past_one_machine_table() -> str:
    """Return the measurements of `reproduction/past_one_machine.py` as a table."""
    document = json.loads((DOCS / "results" / "past_one_machine.json").read_text(encoding="utf-8"))
    table = [
        "| work | here, s | cluster, s | parts, MB | a round, MB | rounds | a round, s | differs by |",
        "|---|" + "---|" * 7,
    ]
    for row in document["rows"]:
        cells = [
            row["work"],
            _short(row["here_seconds"]),
            _short(row["there_seconds"]),
            _short(row["part_bytes"] / 1e6),
        ]
        cells += [_short(row["round_bytes"] / 1e6), str(row["rounds"]), _short(row["round_seconds"])]
        table.append(f"| {' | '.join([*cells, _short(row['difference'], 2)])} |")
    return "\n".join(table) + (
        f"\n\nOne thread here beside a dask cluster of {document['workers']} processes on the same machine of "
        f"{document['processors']} processors. The machine was busy with other work (load {document['load']:.0f}), so "
        f"seconds are only indicative; each was run once before to compile. Data are sent once; a round is one "
        f"evaluation or one request. Measure it: `python reproduction/past_one_machine.py FILE`."
    )


def _short(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}g}"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _figure(value: float | None, significant: int | None = None) -> str:
    """Format a value with the given significant digits, else with three decimals, or an exponent if it is tiny."""
    if value is None:
        return "–"
    if significant is not None:
        return _short(value, significant)
    return f"{value:.1e}" if 0 < abs(value) < 5e-4 else f"{value:.3f}"


# ---------------------------------------------------------------- examples


def gallery() -> str:
    """Return title and description of each example from its docstring, with its picture and its code."""
    sections = []
    for path in sorted((DOCS.parent / "examples").glob("*.py")):
        code = path.read_text(encoding="utf-8")
        title, text = (ast.get_docstring(ast.parse(code)) or "").split("\n", 1)
        description = re.sub(r"\s+", " ", text.split("\n    ")[0]).strip()  # the indented lines say how to run it
        description = re.sub(r"docs/([\w/]+\.md)", lambda match: f"[{page_title(match[1])}]({match[1]})", description)
        indented_code = "\n".join(f"    {line}".rstrip() for line in code.splitlines())
        sections += [
            f"## {title.rstrip('.?')} {{ #{path.stem} }}",
            description,
            f"![{title.rstrip('.')}](images/gallery/{path.stem}.png)",
            f'??? example "examples/{path.name}"\n    ```python\n{indented_code}\n    ```',
        ]
    return "\n\n".join(sections)


def page_title(page: str) -> str:
    """Return the first heading of a page."""
    return (DOCS / page).read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("# ")


# ---------------------------------------------------------------- references


def bibliography() -> dict[str, dict[str, str]]:
    """Return the entries of references.bib as key -> fields."""
    entries = {}
    text = (DOCS / "references.bib").read_text(encoding="utf-8")
    for key, body in re.findall(r"^@\w+\{(\w+),\n(.*?)^\}", text, flags=re.M | re.S):
        entries[key] = dict(re.findall(r"^\s*(\w+)\s*=\s*\{(.*)\},?$", body, flags=re.M))
    return entries


def references_list() -> str:
    """Return the bibliography as a Markdown list with an anchor per key."""
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
    """Turn author-year keys into links, except in code, formulas, headings and other links."""
    keys = "|".join(sorted(bibliography(), key=len, reverse=True))
    depth = 0
    pieces = re.split(r"(<[^>]+>)", content)
    for k, piece in enumerate(pieces):
        if piece.startswith("<"):
            tag = re.match(r"</?(a|code|pre|math|h[1-6]|nav)\b", piece)
            if tag:
                depth += -1 if piece.startswith("</") else 1
        elif depth == 0:
            pieces[k] = re.sub(rf"\b({keys})\b", rf'<a href="{to_root}references.html#\1">\1</a>', piece)
    return "".join(pieces)


# ---------------------------------------------------------------- formulas

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', flags=re.S)


def _to_mathml(match: re.Match[str]) -> str:
    """Return the MathML of a formula."""
    from latex2mathml.converter import convert

    display = match[2] == "["
    latex = unescape(match[3]).strip().replace(r"\setminus", r"\backslash")  # a character that every font has
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
    "gallery": gallery,
    "past_one_machine": past_one_machine_table,
    "references": references_list,
}


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replace the placeholders of a page by tables."""
    to_guide = "" if page.file.src_uri.startswith("guide/") else "guide/"
    markdown = markdown.replace("{{ methods }}", methods_table(to_guide))
    to_root = "../" * page.file.src_uri.count("/")
    for word, make in _TABLES.items():
        if f"{{{{ {word} }}}}" in markdown:
            markdown = markdown.replace(f"{{{{ {word} }}}}", make())
    markdown = re.sub(r"\{\{ results ([\w-]+) \}\}", lambda match: results(match[1], to_root), markdown)
    markdown = re.sub(r"\{\{ bench (\w+) \}\}", lambda match: bench(match[1]), markdown)
    return re.sub(r"\{\{ abilities (\w+) \}\}", lambda match: abilities(match[1]), markdown)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Convert formulas to MathML and link citations in a rendered page."""
    content = _FORMULA.sub(_to_mathml, html)
    if page.file.src_uri == "references.md":
        return content
    return _link_citations(content, "../" * page.file.src_uri.count("/"))
