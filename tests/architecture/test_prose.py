"""Paths, names and numbers in the documentation agree with the code."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from intarsia.gradients import TruncatedGradient
from intarsia.gradients.message_stack import KEPT_BYTES

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "intarsia"
PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "docs" / "extending.md"]
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
# Names of the worked example.
INVENTED = ("my_method", "FAMILY")


def paths_named(text: str) -> list[str]:
    """Return the strings in backticks or links that look like paths of the repository."""
    quoted = re.findall(r"`([\w./]+)`", text) + re.findall(r"\]\(([\w./]+)(?:#[\w-]+)?\)", text)
    quoted = [path for path in quoted if "/" in path or re.search(r"\.(py|pyi|md|bib|yml|toml|txt)$", path)]
    return [path for path in quoted if not any(word in path for word in INVENTED)]


@every_page
def test_paths_exist(page):
    named = paths_named(page.read_text(encoding="utf-8"))
    assert len(named) > 8
    for path in named:
        assert any((base / path).exists() for base in (ROOT, SOURCE, page.parent)), f"{page.name} names {path}"


@every_page
def test_constants_are_in_the_file_named_beside_them(page):
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`(_?[A-Z][A-Z_]+)` of\s+`([\w/]+)\.py`", text)
    assert named
    for constant, path in named:
        module = path.replace("/", ".")
        module = module if path.startswith("tests/") else f"intarsia.{module}"
        assert hasattr(importlib.import_module(module), constant), f"{path}.py has no {constant}"


def test_wrong_paths_are_detected():
    text = (
        "See `inference/registry.py`, `losses/`, [there](docs/nowhere.md#part), `inference/FAMILY/my_method.py`, `l2`."
    )
    assert paths_named(text) == ["inference/registry.py", "losses/", "docs/nowhere.md"]


def test_memory_of_the_truncated_gradient_is_as_documented():
    page = (ROOT / "docs" / "guide" / "gradients.md").read_text(encoding="utf-8")
    for text in (TruncatedGradient.__doc__, page):
        (megabytes,) = re.findall(r"more\s+than (\d+) MB", text)
        assert int(megabytes) * 10**6 == KEPT_BYTES
