"""One self-contained HTML page: no network, no script from elsewhere, readable on a phone and in the dark."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from html import escape
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from intarsia._files.atomic_file import replaced_file
from intarsia._version import __version__
from intarsia.report.page_parts import Section

# Nothing may be fetched, whatever the page holds.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def render_page(title: str, lead: str, sections: Sequence[Section]) -> str:
    """The page as text.

    Parameters
    ----------
    title, lead : str
        Heading and first sentences.
    sections : list of Section
        In their order.

    Examples
    --------
    >>> page = render_page("A report", "One thing.", [Section("one", "First", "Is it so?", [])])
    >>> page.count("<section"), '<a href="#one">First</a>' in page
    (1, True)
    """
    links = "".join(f'<li><a href="#{escape(one.key)}">{escape(one.title)}</a></li>' for one in sections)
    body = "\n".join(one.html() for one in sections)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="data:,">\n<style>\n{_asset("page.css")}</style>\n'
        f"</head>\n<body>\n<header><h1>{escape(title)}</h1><p>{escape(lead)}</p><nav><ul>{links}</ul></nav></header>\n"
        f"<main>\n{body}\n</main>\n<footer>Intarsia {__version__}</footer>\n"
        f"<script>\n{_asset('page.js')}</script>\n</body>\n</html>\n"
    )


def write_page(path: str | os.PathLike[str], title: str, lead: str, sections: Sequence[Section]) -> None:
    """Write the page; it appears when all is written."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with replaced_file(target) as beside:
        beside.write_text(render_page(title, lead, sections), encoding="utf-8")


def _asset(name: str) -> str:
    return (files("intarsia.report") / "assets" / name).read_text(encoding="utf-8")


_LIBRARIES = ("numpy", "scipy", "numba", "scikit-learn")


def versions() -> str:
    """Versions of what computed the numbers.

    Examples
    --------
    >>> versions().startswith("intarsia ")
    True
    """
    told = [f"intarsia {__version__}", f"Python {platform.python_version()}"]
    return ", ".join(told + [f"{name} {version(name)}" for name in _LIBRARIES])
