"""llms.txt links to every page, by section, in the format of llmstxt.org."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def made():
    spec = importlib.util.spec_from_file_location("make_llms", DOCS / "make_llms.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_llms_txt_matches_the_navigation():
    assert (DOCS / "llms.txt").read_text(encoding="utf-8") == made().llms_text(), "run: python docs/make_llms.py"


def test_every_page_has_a_link_and_a_line():
    text = (DOCS / "llms.txt").read_text(encoding="utf-8")
    links = re.findall(r"^- \[[^]]+\]\(([\w/]+)\.html\): \S.{9,}$", text, flags=re.M)
    assert sorted(links) == sorted(page.relative_to(DOCS).with_suffix("").as_posix() for page in DOCS.rglob("*.md"))


def test_links_point_to_existing_pages():
    assert all((DOCS / page).is_file() for page in made().LINES)


def test_shape():
    lines = (DOCS / "llms.txt").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "# Intarsia"
    assert lines[2].startswith("> ")
    kinds = ("# ", "## ", "> ", "- [")
    listed = lines[lines.index("## Start here") :]
    assert all(not line or line.startswith(kinds) for line in listed)  # only sections and links follow the summary
