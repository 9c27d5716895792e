"""Every table has a baseline, and the page on what did not reproduce mentions each table in which a baseline wins."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from intarsia_reproduction.experiment import EXPERIMENTS, load_experiment, load_findings

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "papers" / "not_reproduced.md"
# Words in the keys of rows of simple methods; "baseline" in a label says the same.
SIMPLE = (
    "boosting|(^|-)logistic|ridge|propagation|lookup|interpolation|nearest|^mean$|independent|greedy|antecedents|log-odds"
    "|user-effects|tags-regression|restarted|classifier|baseline|dictionary|majority"
)
_CLUSTERINGS = "components|links|complete|average"


@dataclass(frozen=True)
class Rows:
    """A figure of which rows of simple methods are compared with the others, within groups of rows."""

    figure: str
    lower_is_better: bool = False
    ours: str = "."  # pattern of the keys of our rows
    simple: str = SIMPLE
    group: str = "^"  # pattern whose first group names the rows that are compared


@dataclass(frozen=True)
class Columns:
    """Two figures of the same rows."""

    ours: str
    simple: str
    rows: str = "."


# The comparisons in each table, or the reason why it has none.
TABLES: dict[str, list[Rows | Columns] | str] = {
    "misspecification": "every row compares losses of one model with the exact answer, the best that any method can do",
    "perturbation": "errors of two derivatives of one function against finite differences; nothing is learned",
    "denoising": [Rows("test error", True, "^n[15]", group=r"^(n[\d_]+)-")],
    "horses": [Rows("test error", True, "trw|mnf|pseudo|piecewise")],
    "backgrounds": [Rows("test error", True, "trw|mnf|pseudo|piecewise")],
    "truncation": "every row is a gradient of the same risk",
    "collective": "rows are solvers of one convex problem; the interior-point solver is the peer",
    "birds": [Rows(weeks, True, "model") for weeks in ("every second week", "three weeks in four")],
    "flow-intervals": "coverage of intervals, whose target is their level",
    "separability": "facts about small models, whose value the paper states",
    "margin": [Rows("test error", True, "perceptron|svm|likelihood|clique", group=r"^(words-ten|words|snakes-\d+)-")],
    "chunking": [Rows("F1")],
    "citations": [Rows("F1", ours="energies|printed", simple="^chain")],
    "ocr": [Rows("", simple=f"{SIMPLE}|base$|chain$", group="^(held-out-|mixed-|)")],
    "groups": [Rows("AuPR", ours="primal|em|paired|naive"), Rows("accuracy", group="^(karate|camps)")],
    "trust": [Rows("AuPR of distrust", ours="primal|em|paired|naive")],
    "faces": [Rows("variance explained", ours="primal|em|paired|naive|full$", simple="ridge$"),
              Rows("variance explained", ours="^full$", simple="ridge-full")],
    "entities": [Columns("B-cubed F1, ours", "B-cubed F1, agglomeration", "mean")],
    "resolve": [Rows("pairwise F1", ours="resolve", simple=f"{SIMPLE}|{_CLUSTERINGS}", group="^([a-z0-9]+)-")],
    "samplerank": [Rows("pairwise F1", ours="passes"), Rows("B-cubed F1", ours="passes")],
    "coreference": [Rows("CoNLL score", ours="resolver|ranking", group="^(passages|books)-(?!gain|fold)")],
    "wrong-cluster": [Columns("adaptive", "uniform")],
    "decoders": [Rows("best clustering found")],
    "no-harm": [Columns("gain", "gain of keeping the first segment of each field")],
    "expectations": [Rows("accuracy", ours="gener|words$", simple=f"{SIMPLE}|em$|hmm|few", group="^([a-z]+)-")],
    "through-projection": [Rows("score in per cent", simple=f"{SIMPLE}|chain", group="^(ocr|citations)-")],
}  # fmt: skip


def compare(tasks, findings, item):
    """Return "group: best simple row" for each group of rows in which the best simple row is better than ours."""
    if isinstance(item, Columns):
        rows = [(key, finding.values) for key, finding in findings.items() if re.search(item.rows, key)]
        pairs = [(key, values[item.ours], values[item.simple]) for key, values in rows if item.simple in values]
        return len(pairs), [f"{key}: {item.simple}" for key, ours, simple in pairs if simple > ours]
    labels = {task.key: task.label for task in tasks}
    groups: dict[str, dict[bool, dict[str, float]]] = {}
    for key, finding in findings.items():
        match = re.search(item.group, key)
        if match and item.figure in finding.values:
            is_simple = bool(re.search(item.simple, key) or "baseline" in labels[key])
            if is_simple or re.search(item.ours, key):
                group = groups.setdefault(match[1] if match.groups() else "", {True: {}, False: {}})
                group[is_simple][key] = finding.values[item.figure] * (-1.0 if item.lower_is_better else 1.0)
    wins, n = [], 0
    for name, group in groups.items():
        if group[True] and group[False]:
            n += 1
            best = max(group[True], key=group[True].__getitem__)
            if group[True][best] > max(group[False].values()):
                wins.append(f"{name}: {best}")
    return n, wins


def test_every_table_is_listed():
    assert set(TABLES) == set(EXPERIMENTS)


@pytest.mark.parametrize("name", [name for name, items in TABLES.items() if not isinstance(items, str)])
def test_tables_in_which_a_simple_baseline_wins_are_on_the_page(name):
    tasks = load_experiment(name).tasks
    findings = load_findings(tasks, DOCS / "results" / name)
    if name == "margin" and not any(re.search(SIMPLE, task.key) for task in tasks):
        pytest.skip("margin: no row of a simple method")
    wins = []
    for item in TABLES[name]:
        n, better = compare(tasks, findings, item)
        assert n, f"{name}: no stored row of a simple baseline beside ours, {item}"
        wins += better
    is_mentioned = re.search(rf"\{{\{{ (value|gain|interval) {name} ", PAGE.read_text(encoding="utf-8"))
    assert not wins or is_mentioned, f"{name}: {wins} are better than ours; add a sentence to {PAGE.name}"


@pytest.mark.parametrize(
    ("name", "bound", "trivial", "page"),
    [
        ("samplerank", "Theorem 2", "pairs ranked", "samplerank_adaptive_proposals.md"),
        ("separability", "bound of Theorem 2", 1.0, "structured_learning_approximate_inference.md"),
    ],
)
def test_bounds_that_say_nothing_are_called_vacuous(name, bound, trivial, page):
    findings = load_findings(load_experiment(name).tasks, DOCS / "results" / name)
    rows = [finding.values for finding in findings.values() if bound in finding.values]
    is_vacuous = [values[bound] >= (values[trivial] if isinstance(trivial, str) else trivial) for values in rows]
    assert not any(is_vacuous) or "vacuous" in (DOCS / "papers" / page).read_text(encoding="utf-8")
