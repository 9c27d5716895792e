"""What the pages take from the code when the site is built, so that it cannot rot, and formulas without a network.

* `{{ methods }}` becomes the choosing table, `{{ abilities NAME }}` the facts about one method: class attributes.
* `{{ references }}` becomes the list of `references.bib`; author-year keys anywhere in the text link to it.
* Formulas become MathML at build time: no script, no font, nothing to download when a page is read.
"""

from __future__ import annotations

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


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    to_guide = "" if page.file.src_uri.startswith("guide/") else "guide/"
    markdown = markdown.replace("{{ methods }}", methods_table(to_guide))
    markdown = markdown.replace("{{ references }}", references_list())
    return re.sub(r"\{\{ abilities (\w+) \}\}", lambda match: abilities(match[1]), markdown)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    content = _FORMULA.sub(_to_mathml, html)
    if page.file.src_uri == "references.md":
        return content
    return _link_citations(content, "../" * page.file.src_uri.count("/"))
