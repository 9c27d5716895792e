"""Tables on documentation pages come from the code and from stored results, never from the paper."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

from intarsia.gradients.registry import GRADIENTS
from intarsia.inference.registry import method_names
from intarsia.learning.registry import OPTIMIZERS
from intarsia.losses.registry import LOSSES
from intarsia_reproduction.benchmarks.measurement import bench_row
from intarsia_reproduction.code_versions import code_fingerprint
from intarsia_reproduction.commands.bench import _BENCHMARKS
from intarsia_reproduction.experiment import EXPERIMENTS, Finding, Task, load_experiment, save_finding

DOCS = Path(__file__).parents[2] / "docs"
MOST_BYTES_OF_PICTURES = 8_000_000


@pytest.fixture
def hooks():
    spec = importlib.util.spec_from_file_location("hooks", DOCS / "_hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("table", "names"),
    [
        ("methods_table", method_names()),
        ("losses_table", LOSSES.names),
        ("gradients_table", GRADIENTS.names),
        ("optimizers_table", OPTIMIZERS.names),
    ],
)
def test_every_registry_name_has_a_row(hooks, table, names):
    lines = getattr(hooks, table)().splitlines()
    assert len(lines) == len(names) + 2
    assert len({line.count("|") for line in lines}) == 1  # equal numbers of cells in all rows
    for line, name in zip(lines[2:], names, strict=True):
        assert f"`{name}`" in line.split("|")[1]


def test_losses_table_lists_incompatible_methods(hooks):
    rows = {row.split("`")[1]: row for row in hooks.losses_table().splitlines()[2:]}
    assert "`truncated`" in rows["likelihood"]
    assert "`implicit`" not in rows["likelihood"]
    assert rows["pseudo_likelihood"].rstrip(" |").endswith("its own")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_rows_without_results_say_so(hooks, name, tmp_path, monkeypatch):
    monkeypatch.setattr(hooks, "DOCS", tmp_path)
    tasks = load_experiment(name).tasks
    text = hooks.results(name)
    assert text.count("*not run*") == sum(len(hooks._figures_of(task)) for task in tasks)
    assert all(f"| {task.label} |" in text for task in tasks)
    assert "![" not in text


def test_results_are_shown_beside_the_paper(hooks, tmp_path, monkeypatch):
    monkeypatch.setattr(hooks, "DOCS", tmp_path)
    folder = tmp_path / "results" / "denoising"
    folder.mkdir(parents=True)
    tasks = load_experiment("denoising").tasks
    task = next(task for task in tasks if task.key == "n1_25-clique_logistic")
    save_finding(task.key, Finding({"train error": 0.25, "test error": 0.5}, 7, seconds=240.0), folder)
    (folder / "some_picture.png").write_bytes(b"")
    text = hooks.results("denoising")
    assert f"| {task.label} | 0.132 | 0.250 | 0.126 | 0.500 | 7 | 4 min | not recorded |" in text
    assert text.count("*not run*") == sum(len(hooks._figures_of(other)) for other in tasks if other.key != task.key)
    assert "(../results/denoising/some_picture.png)" in text


def test_partial_results_and_notes(hooks, tmp_path, monkeypatch):
    monkeypatch.setattr(hooks, "DOCS", tmp_path)
    for name, key, finding in (
        (
            "collective",
            "s10k-solver",
            Finding({"processor s": 400.0}, 1, settings={"note": "stopped", "lower_bounds": ["processor s"]}),
        ),
        ("birds", "flows", Finding({"misfit": 0.25}, 52)),
    ):
        (tmp_path / "results" / name).mkdir(parents=True)
        save_finding(key, finding, tmp_path / "results" / name)
    text = hooks.results("collective")
    row = "| s = 10k, interior point (Clarabel) (stopped) | 93 | > 400 |"
    assert row in text
    assert "| collective model, all weeks seen | 0.250 | 52 | 0 s | not recorded |" in hooks.results("birds")


def test_rows_name_the_commit_that_computed_them(hooks, tmp_path, monkeypatch):
    monkeypatch.setattr(hooks, "DOCS", tmp_path)
    (tmp_path / "results" / "birds").mkdir(parents=True)
    origin = {"commit": "0123456789abcdef+changes"}
    save_finding("flows", Finding({"misfit": 0.25}, 52, origin=origin), tmp_path / "results" / "birds")
    assert "| 0.250 | 52 | 0 s | 0123456+changes |" in hooks.results("birds")
    task = next(task for task in load_experiment("birds").tasks if task.key == "flows")
    for code, text in ((code_fingerprint(task.run), ""), ("0123", " (older code)")):
        finding = Finding({"misfit": 0.25}, 52, origin={**origin, "code": code})
        save_finding("flows", finding, tmp_path / "results" / "birds")
        assert f"| 0.250 | 52 | 0 s | 0123456+changes{text} |" in hooks.results("birds")


def test_intervals_are_shown_in_brackets(hooks, tmp_path, monkeypatch):
    monkeypatch.setattr(hooks, "DOCS", tmp_path)
    (tmp_path / "results" / "birds").mkdir(parents=True)
    values = {"misfit": 0.25, "misfit, low": 0.2, "misfit, high": 0.3}
    save_finding("flows", Finding(values, 52), tmp_path / "results" / "birds")
    assert "| 0.250 (0.200 to 0.300) | 52 | 0 s | not recorded |" in hooks.results("birds")


def test_rows_of_a_benchmark(hooks, tmp_path, monkeypatch):
    monkeypatch.setattr(hooks, "DOCS", tmp_path)
    assert "Not measured yet" in hooks.bench("made")
    (tmp_path / "results").mkdir()
    rows = [
        bench_row(
            "a grid",
            0.5,
            "somebody",
            2.0,
            comparison="same rule",
            stopping="50 sweeps",
            wanted="ratio >= 3",
            ours_quality=1.0,
            quality_is="error",
        ),
        bench_row("a stop", 0.5, "somebody", 2.0, comparison="own rules", stopping="ours", peer_finished=False),
        bench_row("another", 0.25),
    ]
    (tmp_path / "results" / "bench_made.json").write_text(json.dumps({"name": "made", "rows": rows}))
    text = hooks.bench("made")
    assert "| a grid | 0.5 | somebody | 2 | 4 | 50 sweeps | ratio >= 3 | 1 | – |" in text
    assert "| a stop | 0.5 | somebody | 2 | > 4 x (stopped) | *ours* | – | – | – |" in text
    assert "| another | 0.25 | – | – | – | – | – | – | – |" in text
    assert "Quality: error." in text
    assert "whole call" not in text


def test_whole_calls_of_a_benchmark_have_their_own_table(hooks, tmp_path, monkeypatch):
    monkeypatch.setattr(hooks, "DOCS", tmp_path)
    (tmp_path / "results").mkdir()
    whole = {"ours_whole_seconds": 1.0, "peer_whole_seconds": 3.5, "whole_ratio": 3.5, "whole_wanted": "ratio >= 3"}
    row = bench_row("a grid", 0.5, "somebody", 2.0, comparison="same rule", stopping="50 sweeps", **whole)
    (tmp_path / "results" / "bench_made.json").write_text(json.dumps({"name": "made", "rows": [row]}))
    assert "| a grid | 1 | somebody | 3.5 | 3.5 | ratio >= 3 |" in hooks.bench("made")


def test_every_placeholder_has_a_table(hooks):
    for page in sorted(DOCS.rglob("*.md")):
        for word, name in re.findall(r"\{\{ (\w+)(?: (\w+))? \}\}", page.read_text(encoding="utf-8")):
            known = {"abilities": method_names(), "results": EXPERIMENTS, "bench": list(_BENCHMARKS)}
            known |= {"unfinished": EXPERIMENTS, "unmoved": EXPERIMENTS}
            assert name in known[word] if name else word in {"methods", *hooks._TABLES}, f"{page.name}: {word} {name}"


def test_stored_figures_in_sentences(hooks, tmp_path, monkeypatch):
    monkeypatch.setattr(hooks, "DOCS", tmp_path)
    (tmp_path / "results" / "trust").mkdir(parents=True)
    for key, score in (("em", 0.25), ("naive", 0.125)):
        save_finding(key, Finding({"": score, "the score": 0.5}, 8), tmp_path / "results" / "trust")
    text = 'from {{ value trust em }} to {{ value trust em "the score" .0% }}, {{ gain trust em naive "" .3f }}'
    assert hooks.fill_values(text) == "from 0.250 to 50%, +0.125"
    assert hooks.fill_values("{{ value trust primal }}, {{ gain trust em primal }}") == "*not run*, *not run*"
    with pytest.raises(KeyError):
        hooks.fill_values('{{ value trust em "another" }}')


def test_rows_without_a_fit_are_listed(hooks, tmp_path, monkeypatch):
    """Rows that did not converge, and those whose fits returned their start, cannot be missing from a sentence."""
    monkeypatch.setattr(hooks, "DOCS", tmp_path)
    folder = tmp_path / "results" / "horses"
    folder.mkdir(parents=True)
    rows = {
        "independent": {"status": "CONVERGED", "iterations": 9, "note": "CONVERGED, 9 iterations"},
        "trw-10-smooth_50": {"status": "MAX_ITER", "iterations": 300, "note": "MAX_ITER, 300 iterations"},
        "trw-20-smooth_50": {"status": "CONVERGED", "iterations of folds": [3, 0, 0], "note": "3 of 3 folds converged"},
    }
    for key, settings in rows.items():
        document = {"values": {"test error": 0.5}, "n": 1, "seconds": 0.0, "settings": settings, "arrays": []}
        (folder / f"{key}.json").write_text(json.dumps(document))
    unfinished, unmoved = hooks.fill_values("{{ unfinished horses }}|{{ unmoved horses }}").split("|")
    assert unfinished == "*TRW, 10 sweeps, smooth class. alpha = 50* (MAX_ITER, 300 iterations)"
    end = "(3 of 3 folds converged; 2 of 3 fits made 0 iterations)"
    assert unmoved == f"*TRW, 20 sweeps, smooth class. alpha = 50* {end}"
    assert f"| TRW, 20 sweeps, smooth class. alpha = 50 {end} |" in hooks.results("horses")


@pytest.mark.parametrize("page", sorted((DOCS / "papers").glob("*.md")), ids=lambda page: page.stem)
def test_every_figure_in_a_sentence_belongs_to_a_task(hooks, page):
    text = page.read_text(encoding="utf-8")
    for name, key, figure in re.findall(r'\{\{ value ([\w-]+) ([\w-]+)(?: "([^"]*)")?[^}]*\}\}', text):
        tasks = {task.key: task for task in load_experiment(name).tasks}
        without_end = re.sub(", (low|high)$", "", figure)  # the ends of an interval belong to its figure
        stored = json.loads((DOCS / "results" / name / f"{key}.json").read_text(encoding="utf-8"))["values"]
        assert {figure, without_end} & (set(tasks[key].paper) | set(stored))
    for name, row, figure in re.findall(r'\{\{ interval ([\w-]+) ([\w-]+) "([^"]*)"[^}]*\}\}', text):
        tasks = {task.key for task in load_experiment(name).tasks}
        assert {"intervals", row} <= tasks
        bases = ("boosting", "independent", "smoothing", "surrogate", "univariate logistic", "TRW")
        assert figure in {"test error", *(f"minus {base}" for base in bases)}
    assert not re.search(r"\{\{ (value|gain|interval|unfinished|unmoved)", hooks.fill_values(text))


def test_figures_with_intervals(hooks, tmp_path, monkeypatch):
    monkeypatch.setattr(hooks, "DOCS", tmp_path)
    folder = tmp_path / "results" / "horses"
    folder.mkdir(parents=True)
    values = {}
    for row, figure, triple in (
        ("independent", "test error", (0.125, 0.1, 0.15)),
        ("trw-10-surrogate", "test error", (0.1, 0.05, 0.2)),
        ("trw-10-surrogate", "minus independent", (-0.025, -0.03, -0.02)),
    ):
        values |= {f"{row}: {figure}{end}": x for end, x in zip(("", ", low", ", high"), triple, strict=True)}
    save_finding("intervals", Finding(values, 128), folder)
    text = hooks.results("horses")
    assert "| test error | minus independent |" in text
    assert "| independent (logistic regression) | 0.125 (0.100 to 0.150) | – |" in text
    assert "| TRW, 10 sweeps, surrogate likelihood | 0.100 (0.050 to 0.200) | -0.025 (-0.030 to -0.020) |" in text
    sentence = '{{ interval horses trw-10-surrogate "minus independent" +.2f }}, {{ interval horses piecewise "no" }}'
    assert hooks.fill_values(sentence) == "-0.03 (-0.03 to -0.02), *not run*"


def test_pictures_stay_small():
    pictures = [path for path in sorted(DOCS.rglob("*")) if path.suffix in {".png", ".svg"}]
    assert pictures
    assert sum(path.stat().st_size for path in pictures) < MOST_BYTES_OF_PICTURES


def test_rows_with_other_figures_have_a_table_of_their_own(hooks):
    """A baseline with some of the figures is in the table of the methods; the ends of intervals are no columns."""
    tasks = [
        Task(key, key, dict.fromkeys(figures), "", lambda _: Finding({}, 1))
        for key, figures in (
            ("ours", ("error", "low", "high", "risk", "risk, low", "risk, high")),
            ("speed", ("seconds",)),
            ("baseline", ("error",)),
        )
    ]
    assert [(figures, [task.key for task in members]) for figures, members in hooks._grouped(tasks)] == [
        (["error", "risk"], ["ours", "baseline"]),
        (["seconds"], ["speed"]),
    ]
