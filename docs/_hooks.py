"""What the pages take from the code when the site is built, so that it cannot rot, and formulas without a network.

* `{{ methods }}` becomes the choosing table, `{{ abilities NAME }}` the facts about one method: class attributes.
  `{{ losses }}`, `{{ gradients }}`, `{{ optimizers }}`, `{{ data_sets }}` and `{{ experiments }}` likewise.
* `{{ compatibility }}` becomes the table learner x inference of what is known.
* `{{ results NAME }}` becomes the rows of `intarsia reproduce NAME` beside the paper's, and pictures, from what lies
  in `results/NAME` now; a row that was never run says so. `{{ bench NAME }}` becomes the rows of `intarsia bench NAME`.
* `{{ gallery }}` becomes a picture, a few words and the code of each program in `examples/`.
* `{{ references }}` becomes the list of `references.bib`; author-year keys anywhere in the text link to it.
* Formulas become MathML at build time: no script, no font, nothing to download when a page is read.
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
    """One row per method of the registry."""
    from intarsia.inference.registry import method_class, method_names

    rows = [
        "| method | choose it for | marginals | MAP | samples | k best | log Z | largest factor | cost |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in method_names():
        found = method_class(name)
        rows.append(
            f"| [`{name}`]({prefix}{name}.md) | {found.summary} | {_TICK[found.gives_marginals]} "
            f"| {_TICK[found.gives_map]} | {_TICK[found.gives_samples]} | {_TICK[found.gives_best]} "
            f"| {found.log_partition_is or '–'} | {found.max_scope or 'any'} | {found.cost} |"
        )
    return "\n".join(rows)


def abilities(name: str) -> str:
    """Facts about one method, in two columns."""
    from intarsia.inference.registry import method_class

    found = method_class(name)
    gives = [
        word
        for ability, word in (
            ("gives_marginals", "marginals"),
            ("gives_map", "MAP"),
            ("gives_samples", "samples"),
            ("gives_best", "k best labellings"),
        )
        if getattr(found, ability)
    ]
    facts = {
        "name, class": f'`"{name}"`, `intarsia.{found.__name__}`',
        "choose it for": found.summary,
        "gives": ", ".join(gives),
        "log Z": found.log_partition_is or "none",
        "largest factor": str(found.max_scope or "any"),
        "cost": found.cost,
    }
    return "\n".join(["| | |", "|---|---|", *(f"| **{key}** | {value} |" for key, value in facts.items())])


def losses_table() -> str:
    """One row per loss of the registry."""
    from intarsia.losses import DirectLoss
    from intarsia.losses.registry import LOSSES

    rows = [
        "| loss | choose it for | needs | reads factors | hidden labels, sets | weights of variables | gradient |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in LOSSES.names:
        found = LOSSES.get(name)
        own = ["its own"] if issubclass(found, DirectLoss) else []
        rows.append(
            f"| [`{name}`](#{_anchor(found)}) | {found.summary} | {found.needs} | {_TICK[found.uses_factors]} "
            f"| {_TICK[found.handles_hidden]} | {_TICK[found.takes_weights]} "
            f"| {', '.join([*own, *_rules_for(name)])} |"
        )
    return "\n".join(rows)


def gradients_table() -> str:
    """One row per gradient rule of the registry."""
    from intarsia.gradients.registry import GRADIENTS

    methods = _differentiable()
    rows = [
        f"| rule | choose it for | {' | '.join(f'`{name}`' for name in methods)} |",
        "|---|---|" + "---|" * len(methods),
    ]
    for name in GRADIENTS.names:
        found = GRADIENTS.get(name)
        ticks = " | ".join(_TICK[method in found.differentiates] for method in methods)
        rows.append(f"| [`{name}`](#{_anchor(found)}) | {found.summary} | {ticks} |")
    return "\n".join(rows)


def optimizers_table() -> str:
    """One row per optimiser of the registry."""
    from intarsia.learning.registry import OPTIMIZERS

    rows = ["| optimiser | class | steps on batches, `partial_fit` |", "|---|---|---|"]
    for name in OPTIMIZERS.names:
        found = OPTIMIZERS.get(name)
        rows.append(f"| `{name}` | [`{found.__name__}`](#{_anchor(found)}) | {_TICK[found.takes_batches]} |")
    return "\n".join(rows)


def data_sets_table() -> str:
    """One row per data set that has a loader."""
    from intarsia_reproduction.datasets import find_set, set_names

    rows = ["| set | what | loader | published by |", "|---|---|---|---|"]
    rows += [
        f"| `{entry.name}` | {entry.description} | `{entry.loader}` | [{entry.publisher}]({entry.home}) |"
        for entry in map(find_set, set_names())
        if entry.loader
    ]
    return "\n".join(rows)


def experiments_table() -> str:
    """One row per experiment of `intarsia reproduce`."""
    from intarsia_reproduction.experiment import EXPERIMENTS, load_experiment

    rows = ["| name | what it asks | table, figure | data |", "|---|---|---|---|"]
    rows += [
        f"| `{made.name}` | {made.question} | {made.title} | {made.data} |"
        for made in map(load_experiment, EXPERIMENTS)
    ]
    return "\n".join(rows)


def compatibility_table() -> str:
    """One row per inference method and kind of graph, a column per learner, and the reasons below."""
    from intarsia.diagnostics.compatibility import compatibility
    from intarsia.learning.registry import LEARNERS

    pairs, reasons = compatibility(), dict[str, int]()
    rows = [f"| inference | graph | {' | '.join(f'`{name}`' for name in LEARNERS.names)} |"]
    rows.append("|---|---|" + "---|" * len(LEARNERS.names))
    for method, model in dict.fromkeys((pair.inference, pair.model) for pair in pairs):
        cells = []
        for pair in pairs:
            if (pair.inference, pair.model) == (method, model):
                found = pair.judgement
                told = f"{found.reason}{f' ({found.reference})' if found.reference else ''}"
                cells.append(f"{found.level} [{reasons.setdefault(told, len(reasons) + 1)}]")
        rows.append(f"| `{method}` | {model} | {' | '.join(cells)} |")
    return "\n".join([*rows, "", *(f"{number}. {told}." for told, number in reasons.items())])


def _anchor(found: type) -> str:
    return f"{found.__module__}.{found.__name__}"


def _differentiable() -> list[str]:
    """Inference methods that some rule differentiates, in the order of the choosing table."""
    from intarsia.gradients.registry import GRADIENTS
    from intarsia.inference.registry import method_names

    able = {method for name in GRADIENTS.names for method in GRADIENTS.get(name).differentiates}
    return [name for name in method_names() if name in able]


def _rules_for(loss: str) -> list[str]:
    from intarsia.gradients.registry import GRADIENTS
    from intarsia.losses.registry import LOSSES

    return [f"`{name}`" for name in GRADIENTS.names if GRADIENTS.resolve(name).fits_loss(LOSSES.resolve(loss))]


# ---------------------------------------------------------------- results of `intarsia reproduce`


def results(name: str, to_root: str = "../") -> str:
    """A row for each task, every figure beside the paper's, then the pictures: from what lies in `results/NAME`."""
    from intarsia_reproduction.experiment import load_experiment, load_findings

    folder = DOCS / "results" / name
    experiment = load_experiment(name)  # knows all tasks, also those that were never run
    found = load_findings(experiment.tasks, folder)
    stored = folder / f"{name}-rows.json"
    rows = json.loads(stored.read_text(encoding="utf-8"))["rows"] if stored.exists() else []
    kept = {row["label"]: row for row in [*rows, *experiment.rows(found)] if row["ours"] is not None}
    printed = any(figure is not None for task in experiment.tasks for figure in task.paper.values())
    figures = list(dict.fromkeys(figure for task in experiment.tasks for figure in task.paper))
    columns = figures
    if printed:
        columns = [f"{column}: {whose}" if column else whose for column in columns for whose in ("paper", "ours")]
    table = [f"| row | {' | '.join(columns)} | n | time |", "|---|" + "---|" * (len(columns) + 2)]
    for task in experiment.tasks:
        cells, last = [], None
        for figure in figures:
            row = kept.get(f"{task.label}, {figure}" if figure else task.label)
            last = row or last
            cells += [_figure(task.paper.get(figure), task.significant)] if printed else []
            missing = "–" if figure not in task.paper or task.key in found else "*not run*"
            at_least = "> " if row is not None and figure in row["settings"].get("lower_bounds", []) else ""
            cells.append(missing if row is None else at_least + _figure(row["ours"], task.significant))
        about = ["–", "–"] if last is None else [f"{last['n']:,}", _duration(last["seconds"])]
        told = "" if last is None or last["status"] in ("done", "not run") else f" ({last['status']})"
        table.append(f"| {' | '.join([task.label + told, *cells, *about])} |")
    pictures = [
        f"![{experiment.title}: {path.stem.replace('_', ' ')}]({to_root}results/{name}/{path.name})"
        for path in sorted(folder.glob("*.png"))
    ]
    command = f"intarsia reproduce {name} --output FOLDER"
    about = f"Unit: {experiment.tasks[0].unit}. Data: {experiment.data}. Run it: `{command}`."
    return "\n\n".join([about, "\n".join(table), *pictures])


def bench(name: str) -> str:
    """Rows of `intarsia bench NAME` as they lie in `results/bench_NAME.json`; unequal stopping rules in italics."""
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
    told = sorted({row["quality_is"] for row in rows if "quality_is" in row})
    return "\n".join(table) + f"\n\nQuality: {'; '.join(told)}. Measure it: `intarsia bench {name}`."


def past_one_machine_table() -> str:
    """What `reproduction/past_one_machine.py` measured."""
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
        f"{document['processors']} processors, which was busy with other work (load "
        f"{document['load']:.0f}), so that seconds tell little; each was run once before to compile. Parts travel "
        f"once; a round is one evaluation, or one question. Measure it: `python reproduction/past_one_machine.py FILE`."
    )


def _short(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}g}"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _figure(value: float | None, significant: int | None = None) -> str:
    """Error rates with three decimals, what is tiny with an exponent; or a number of significant digits."""
    if value is None:
        return "–"
    if significant is not None:
        return _short(value, significant)
    return f"{value:.1e}" if 0 < abs(value) < 5e-4 else f"{value:.3f}"


# ---------------------------------------------------------------- examples


def gallery() -> str:
    """Title and text from the docstring of each example, its picture, and its code to open."""
    parts = []
    for path in sorted((DOCS.parent / "examples").glob("*.py")):
        code = path.read_text(encoding="utf-8")
        title, told = (ast.get_docstring(ast.parse(code)) or "").split("\n", 1)
        words = re.sub(r"\s+", " ", told.split("\n    ")[0]).strip()  # what is indented is how to run it
        words = re.sub(r"docs/([\w/]+\.md)", lambda match: f"[{page_title(match[1])}]({match[1]})", words)
        shown = "\n".join(f"    {line}".rstrip() for line in code.splitlines())
        parts += [
            f"## {title.rstrip('.?')} {{ #{path.stem} }}",
            words,
            f"![{title.rstrip('.')}](images/gallery/{path.stem}.png)",
            f'??? example "examples/{path.name}"\n    ```python\n{shown}\n    ```',
        ]
    return "\n\n".join(parts)


def page_title(page: str) -> str:
    """First heading of a page."""
    return (DOCS / page).read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("# ")


# ---------------------------------------------------------------- references


def bibliography() -> dict[str, dict[str, str]]:
    """Entries of references.bib: key -> fields."""
    entries = {}
    text = (DOCS / "references.bib").read_text(encoding="utf-8")
    for key, body in re.findall(r"^@\w+\{(\w+),\n(.*?)^\}", text, flags=re.M | re.S):
        entries[key] = dict(re.findall(r"^\s*(\w+)\s*=\s*\{(.*)\},?$", body, flags=re.M))
    return entries


def references_list() -> str:
    """The bibliography as a Markdown list with an anchor per key."""
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
    """Make each known author-year key a link, outside code, formulas, headings and other links."""
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
    latex = unescape(match[3]).strip().replace(r"\setminus", r"\backslash")  # a sign that every font has
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
    content = _FORMULA.sub(_to_mathml, html)
    if page.file.src_uri == "references.md":
        return content
    return _link_citations(content, "../" * page.file.src_uri.count("/"))
