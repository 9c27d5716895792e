"""Self-contained HTML page: no network access, no external scripts, readable on phones and in dark mode."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from html import escape
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from intarsia._files.atomic_file import make_folder, write_text
from intarsia._version import __version__
from intarsia.report.page_parts import Section

# The browser must not fetch anything, whatever the page contains.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def render_page(title: str, lead: str, sections: Sequence[Section]) -> str:
    """Return the page as HTML text.

    Parameters
    ----------
    title, lead : str
        Heading and introduction.
    sections : list of Section
        Sections in their order.

    Examples
    --------
    >>> page = render_page("A report", "Introduction.", [Section("one", "First", "Does it work?", [])])
    >>> page.count("<section"), '<a href="#one">First</a>' in page
    (1, True)
    """
    links = "".join(f'<li><a href="#{escape(section.key)}">{escape(section.title)}</a></li>' for section in sections)
    body = "\n".join(section.html() for section in sections)
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
    """Write the page to a file; the file appears when it is complete."""
    make_folder(Path(path).parent)
    write_text(path, render_page(title, lead, sections))


def _asset(name: str) -> str:
    return (files("intarsia.report") / "assets" / name).read_text(encoding="utf-8")


_LIBRARIES = ("numpy", "scipy", "numba", "scikit-learn")


def versions() -> str:
    """Return the versions of the libraries that computed the numbers.

    Examples
    --------
    >>> versions().startswith("intarsia ")
    True
    """
    packages = [f"intarsia {__version__}", f"Python {platform.python_version()}"]
    return ", ".join(packages + [f"{name} {version(name)}" for name in _LIBRARIES])
