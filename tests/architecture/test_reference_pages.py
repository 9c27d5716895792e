"""Public names are in the reference, results are on pages, and pages name only existing files."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from tests.architecture.test_names import PUBLIC

from intarsia._core.settings import Settings
from intarsia_reproduction.commands.bench import _BENCHMARKS
from intarsia_reproduction.experiment import EXPERIMENTS, load_experiment

ROOT = Path(__file__).parents[2]
PAGES = {page: page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").rglob("*.md"))}
EVERYTHING = "\n".join(PAGES.values())
OF_ALL_PAPERS = ROOT / "docs" / "papers" / "not_reproduced.md"
# Experiments of our own, which are in no paper.
OUR_OWN = {"coreference", "through_projection", "collective_woodcocks"}
PAPERS = sorted(
    page for page in (ROOT / "docs" / "papers").glob("*.md") if page != OF_ALL_PAPERS and page.stem not in OUR_OWN
)


def test_every_public_name_has_a_reference():
    named = {name.rpartition(".")[2] for name in re.findall(r"^::: (\S+)", EVERYTHING, flags=re.M)}
    for listed in re.findall(r"^      members: \[(.*)\]$", EVERYTHING, flags=re.M):
        named |= set(listed.split(", "))
    named |= set(re.findall(r"^        - (\w+)$", EVERYTHING, flags=re.M))
    # The top-level package, and in the subpackages every class with settings.
    public = {name for name, value in PUBLIC.items() if "." not in name or _has_settings(value)}
    assert sorted(name for name in public if name.rpartition(".")[2] not in named) == []


def _has_settings(value: object) -> bool:
    return inspect.isclass(value) and issubclass(value, Settings) and not inspect.isabstract(value)


def test_getting_started_pages_have_the_same_steps():
    steps = ["A complete example", "Install", "When to use it", "Save and load", "Problems and solutions", "Next"]
    pages = [text for page, text in PAGES.items() if page.parent.name == "start"]
    assert len(pages) == 6
    for text in pages:
        headings = re.findall(r"^## (.*)$", text, flags=re.M)
        assert [heading for heading in headings if heading in steps] == steps
        assert "![" in text  # a picture
        question = text.split("\n\n")[1]
        assert question.startswith("How do I ")
        # The first block runs by itself and its output is shown.
        first = re.search(r"^```python\n(.*?)^```\n\n```text\n", text, flags=re.M | re.S)
        assert first
        assert first.start() == text.index("```python")
        assert len(first[1].splitlines()) <= 30


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_is_shown(name):
    assert f"{{{{ results {name} }}}}" in EVERYTHING


@pytest.mark.parametrize("name", list(_BENCHMARKS))
def test_every_benchmark_is_among_the_peers(name):
    assert f"{{{{ bench {name} }}}}" in PAGES[ROOT / "docs" / "peers.md"]


@pytest.mark.parametrize("page", PAPERS, ids=lambda page: page.stem)
def test_paper_pages_have_all_sections(page):
    text = PAGES[page]
    assert re.search(r"^# .*\(\w+\d{4}\)$", text, flags=re.M)
    for heading in ("Where it is", "Departures", "Checked", "Results"):
        assert re.search(rf"^## {heading}", text, flags=re.M), heading
    assert "{{ results " in text


def test_page_of_all_papers_links_to_every_paper_with_its_baselines():
    text = PAGES[OF_ALL_PAPERS]
    for heading in ("Where a simple baseline is better", "What did not reproduce", "What was not run"):
        assert re.search(rf"^## {heading}", text, flags=re.M), heading
    with_baselines = {name for name in EXPERIMENTS if any("baseline" in t.label for t in load_experiment(name).tasks)}
    assert {"ocr", "trust", "faces", "groups", "samplerank", "horses", "backgrounds"} <= with_baselines
    assert all(f"{{{{ value {name} " in text for name in with_baselines)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT / "docs")))
def test_files_named_on_pages_exist(page):
    for path in re.findall(r"`(\w+/[\w/]+\.py)`", PAGES[page]):
        if "my_method" not in path:
            found = [ROOT / path, ROOT / "src" / "intarsia" / path]
            assert any(one.is_file() for one in found), f"{page.name} names {path}"
