"""How estimators and results look in a notebook: a small table of text, whatever they hold."""

from __future__ import annotations

import dataclasses
from html.parser import HTMLParser

import numpy as np
import pytest
from tests.contracts.saved_models import CLASSES, KINDS, make

import intarsia
from intarsia import ChainCRF, GraphCRF, Program, SoftLogic, Status, chain_graph, diagnose, infer
from intarsia._core.html import ShownResult, brief, html_table
from intarsia.clusters import Clustering
from intarsia.metrics import clustering_scores

HOSTILE = "<script>alert('x')</script>&<img src=x onerror=y>"


class Reader(HTMLParser):
    """Tags, attributes and the text of cells."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.styles, self.cells = set(), set(), set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attributes}
        self.styles |= {part for name, value in attributes if name == "style" for part in value.split(";")}
        if tag in ("th", "td", "caption"):
            self.cells.append("")

    def handle_data(self, data):
        self.cells[-1] += data


def read(shown):
    """Rows of the table that a notebook would show, after a check that it is only a table."""
    text = shown._repr_html_()
    page = Reader(text)
    assert page.tags <= {"table", "caption", "tbody", "tr", "th", "td"}
    assert page.attributes <= {"style", "scope"}
    # The colours of the page around it, nothing from the net.
    assert {style.partition(":")[2] for style in page.styles if "color" in style} == {"inherit"}
    assert {style.partition(":")[2] for style in page.styles if "background" in style} == {"transparent"}
    assert not [style for style in page.styles if "url" in style or "#" in style]
    assert len(text) < 20_000
    title, *cells = page.cells
    return title, list(zip(cells[::2], cells[1::2], strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_estimators(kind):
    one = CLASSES[kind]
    new = one(Program()) if kind == "SoftLogic" else one()
    title, rows = read(new)
    assert title == kind
    assert dict(rows)["fitted"] == "not yet"
    assert kind == "SoftLogic" or dict(rows)["settings"] == "all default"
    model = make(kind)
    title, rows = read(model)
    assert title == kind
    assert "fitted" not in dict(rows)
    if hasattr(model, "status_"):
        assert dict(rows)["status_"] == f"{model.status_.name}: {model.status_.message}"
    # Notebooks ask for this first; scikit-learn's would carry scripts.
    assert model._repr_mimebundle_(include=None) == {"text/plain": repr(model), "text/html": model._repr_html_()}
    assert repr(model).startswith(f"{kind}(")
    assert "array([" not in model._repr_html_()


def test_settings_are_those_that_were_changed():
    rows = dict(read(ChainCRF(min_count=3, learner="arow"))[1])
    assert rows == {"min_count": "3", "learner": "arow", "fitted": "not yet"}


def test_hostile_labels_are_text():
    crf = ChainCRF(classes=[HOSTILE, "O"]).fit([[["a"], [HOSTILE]]], [[HOSTILE, "O"]])
    text = crf._repr_html_()
    assert "<script" not in text
    assert "<img" not in text
    assert HOSTILE in dict(read(crf)[1])["classes"]
    program = Program().predicate("P", 1).rule(f'1: P("{HOSTILE}")').target("P", [HOSTILE])
    found = SoftLogic(program).infer()
    assert "<script" not in found.explain("P", HOSTILE)._repr_html_()
    assert "<script>alert" in read(found.explain("P", HOSTILE))[1][0][0]
    assert "<script" not in html_table(HOSTILE, [(HOSTILE, {HOSTILE: [HOSTILE]})])


def test_results_say_how_they_ended():
    graph = chain_graph(2, 2)
    result = infer(graph, graph.pack(tables=[[[1.0, 0.0], [0.0, 1.0]]]), "brute_force")
    rows = dict(read(result)[1])
    # log(2 e + 2), by hand
    assert rows["log_partition"] == f"{np.log(2 * np.e + 2):.6g}"
    assert rows["log_partition_is"] == "exact"
    assert rows["status"] == "EXACT: the answer is exact"
    assert rows["assignment"] == "0, 0"
    assert "samples" not in rows
    assert repr(result).startswith("InferenceResult(BruteForce, marginals; EXACT;")
    best = infer(graph, graph.pack(tables=[[[1.0, 0.0], [0.0, 3.0]]]), "brute_force", task="map")
    rows = dict(read(best)[1])
    assert (rows["task"], rows["score"], rows["assignment"]) == ("map", "3", "1, 1")
    assert "log_partition" not in rows


def test_results_of_rules():
    """2 (1 - x)^2 + x^2 is least at 2/3."""
    program = Program().predicate("P", 1).predicate("Q", 1).rule("2: Q(X) -> P(X) ^2").rule("1: !P(X) ^2")
    program.target("P", ["a", "b"]).observe("Q", ["a", "b"])
    found = SoftLogic(program).infer()
    title, rows = read(found)
    assert title == "InferredAtoms"
    assert rows[0] == ("P", "2 atoms, from 0.667 to 0.667, mean 0.667")
    assert dict(rows)["status"].startswith("CONVERGED: ")
    assert dict(read(found.result)[1])["objective"] == dict(rows)["objective"]
    rows = dict(read(found.explain("P", "a"))[1])
    assert rows["P('a')"] == "0.666667"
    assert rows["2: Q(X) -> P(X) ^2"].startswith("force +1.333 from 1 of 1 terms")


def test_clusterings_and_their_scores():
    found = Clustering(np.array([0, 0, 1]), 2.0, 100, 3, 0.1, np.array([2.0]))
    assert dict(read(found)[1])["state"] == "0, 0, 1"
    rows = dict(read(clustering_scores([1, 1, 2, 2], [5, 5, 6, 6]))[1])
    assert rows["n_entities"] == "2"
    walkers = make("CollectiveChain").result_
    assert dict(read(walkers)[1])["marginals"] == "float64 array (4, 4)"


def test_diagnosis():
    X = [([[1.0], [-1.0], [1.0]], [[0, 1], [1, 2], [0, 2]]), ([[-1.0], [-1.0], [1.0]], [[0, 1], [1, 2], [0, 2]])]
    found = diagnose(
        GraphCRF(learner="structured_perceptron", inference="lp_relaxation"), X * 5, 5 * [[1, 0, 1], [0, 0, 1]]
    )
    title, rows = read(found)
    assert title == "Diagnosis"
    assert rows[0] == ("StructuredPerceptron with LPRelaxation", "fits")
    assert [one.name for one in found.checks] == [name for name, _ in rows[-len(found.checks) :]]


def test_large_things_stay_small():
    @dataclasses.dataclass
    class Large(ShownResult):
        array: object
        listed: list
        text: str
        nested: dict
        empty: str = ""
        nothing: object = None
        bound: float = np.inf
        _own: int = 1

    class Loud:
        def __repr__(self):
            raise AssertionError("never printed")

    large = Large(np.zeros((10**6, 3)), [1] * 10**6, "x" * 10**6, {"a": [[[1]]], "b": Loud(), "c": np.arange(10**6)})
    rows = dict(read(large)[1])
    assert rows["array"] == "float64 array (1000000, 3)"
    assert rows["listed"] == "list of 1000000"
    assert len(rows["text"]) == 200
    assert rows["nested"] == "a: list of 1, b: Loud, c: int64 array (1000000,)"
    assert set(rows) == {"array", "listed", "text", "nested"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "True"), (None, "None"), (1 / 3, "0.333333"), (np.float32(0.5), "0.5"), (10**7, "10000000"),
        ([], "none"),
        (np.array([]), "none"), (Status.CONVERGED, "CONVERGED: reached its tolerance"), (np.int64(3), "3"),
        ((1, "a"), "1, a"), (intarsia.learning.LBFGS(max_iter=3), "LBFGS(max_iter=3)"), (np.array(["<b>"]), "<b>"),
        (np.array(2.5), "float64 array ()"),
    ],
)  # fmt: skip
def test_brief(value, text):
    assert brief(value) == text
