"""The handwriting experiment on synthetic words: rows, checkpoints of folds, and the figure."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia import infer
from intarsia.energies import DistanceToSet
from intarsia.graph import chain_graph
from intarsia.sequences import ChainCRF
from intarsia_reproduction.experiment import load_experiment, load_findings, run_tasks
from intarsia_reproduction.experiments.ocr import ocr
from intarsia_reproduction.models.word_energies import WordPieces

WORDS = ["abca", "bcab", "cab", "bac"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write a data set of noisy letters, with each word several times in every fold."""
    rng = np.random.default_rng(0)
    patterns = rng.random((26, 128)) < 0.3
    words = [word for _ in range(3) for word in WORDS for _ in range(10)]
    letters = np.array([ord(letter) - 97 for word in words for letter in word])
    pixels = patterns[letters] ^ (rng.random((letters.size, 128)) < 0.42)
    data = tmp_path_factory.mktemp("data")
    np.savez(
        data / "ocr_letters.npz",
        pixels_packed=np.packbits(pixels, axis=1),
        letter=letters.astype(np.uint8),
        word_start=np.concatenate([[0], np.cumsum([len(word) for word in words])]),
        word_fold=np.tile(np.arange(10), len(words) // 10).astype(np.uint8),
    )
    return data


@pytest.fixture(scope="module")
def run(folder, tmp_path_factory):
    experiment = ocr(quick=True, data=folder)
    results = tmp_path_factory.mktemp("results")
    return experiment, run_tasks(experiment.tasks, results), results


def test_dictionary_energies_raise_the_accuracy(run):
    _, findings, _ = run
    accuracy = {key: finding.values[""] for key, finding in findings.items()}
    assert 50.0 < accuracy["base"] < accuracy["positional"] <= 100.0
    assert accuracy["base"] < accuracy["positional_mm"]
    assert accuracy["unigram"] >= accuracy["base"]
    assert accuracy["classifier"] > 20.0
    assert accuracy["lookup"] >= accuracy["positional"]
    assert accuracy["exact"] == accuracy["lookup"]  # a large psi
    assert accuracy["joint"] >= accuracy["base"]
    assert accuracy["descent"] <= accuracy["starts"] == accuracy["exact"]
    assert {finding.n for finding in findings.values()} == {sum(len(word) for word in WORDS) * 3}


def test_readers_of_unknown_words_differ_on_the_word_that_is_missing(run):
    _, findings, _ = run
    values = {key: findings[key].values for key in findings if key.startswith("mixed")}
    assert len(values) == 8
    assert values["mixed-lookup"]["unknown words"] < 100.0  # the look-up cannot read the word
    assert values["mixed-lookup"]["known words"] >= values["mixed-chain"]["known words"]
    assert {finding.settings["unknown letters"] for key, finding in findings.items() if key in values} <= {9, 12}
    n_known = 42 - findings["mixed-cap"].settings["unknown letters"]
    mean = (n_known * values["mixed-cap"]["known words"] + (42 - n_known) * values["mixed-cap"]["unknown words"]) / 42
    assert values["mixed-cap"][""] == pytest.approx(mean)
    assert len(findings["mixed-cap"].settings["psi, scale of transitions, by letter, cap"]) == 1


@pytest.mark.parametrize("psi", [0.3, 1.0, 4.0])
def test_minimum_over_words_is_the_lowest_of_projections_from_many_starts(psi):
    """The library's projection started at each word is an independent way to the global minimum of Eq. 2."""
    rng = np.random.default_rng(0)
    words = [(0, 1, 2), (2, 1, 0), (1, 1, 1), (0, 2)]
    y = [np.array(words[i]) for i in rng.integers(0, 4, 40)]
    crf = ChainCRF(l2=0.5).fit([np.eye(3)[word] + 0.8 * rng.standard_normal((len(word), 3)) for word in y], y)
    X = [rng.standard_normal((3, 3)) for _ in range(8)]
    minima = WordPieces(crf, X, words).minima(psi)
    energy = DistanceToSet(words, positional=True, strength=psi)
    for x, minimum in zip(X, minima.tolist(), strict=True):
        graph, theta = chain_scores(crf, x)
        values = []
        for word in words[:3]:
            start = theta.copy()
            start[3 * np.arange(3) + np.array(word)] += 100.0
            near = infer(graph, start, "tree").mu
            bound = energy.bind(graph, [0, 1, 2])
            for _ in range(50):  # a minimum of linear functions: repeat the tangent of the nearest word
                near = infer(graph, theta - bound.gradient(near), "tree").mu
            result = infer(graph, theta - bound.gradient(near), "tree")
            values.append(-result.log_partition + bound.value(near) - bound.gradient(near) @ near)
        assert minimum == pytest.approx(min(values), abs=1e-8)


def chain_scores(crf, x):
    """Return the graph and the scores of one sequence."""
    from intarsia.sequences.chain_data import ChainScores, make_data

    data = make_data(*crf.vectorizer_.transform_stacked([x]), None)
    batch = ChainScores(data, crf.layout_, crf.constraints_).batch(crf.weights_, 0, 1)
    graph = chain_graph(len(x), 3)
    nodes = batch.nodes.copy()
    nodes[0] += batch.start
    nodes[-1] += batch.end
    return graph, graph.pack(nodes, np.tile(batch.transitions, (len(x) - 1, 1, 1)))


def test_rows_have_the_figures_of_the_paper(run):
    experiment, findings, _ = run
    rows = experiment.rows(findings)
    assert [row["paper"] for row in rows if row["paper"]] == [84.93, 94.01, 94.96, 98.26, 98.83, 86.06]
    assert all(row["status"] == "done" for row in rows)
    assert load_experiment("ocr", quick=True).name == "ocr"


def test_finished_folds_are_read_from_the_checkpoint(folder, tmp_path):
    task = ocr(data=folder).tasks[0]
    assert task.key == "base"
    checkpoint = tmp_path / "base.checkpoint.npz"
    np.savez(checkpoint, right=np.full(10, 7.0), total=np.full(10, 10.0), first=np.zeros(1, np.int64), done=10)
    assert task.run(checkpoint).values[""] == pytest.approx(70.0)  # all folds are finished


def test_the_figure_shows_misread_words(run):
    experiment, _, results = run
    figures = experiment.figures(load_findings(experiment.tasks, results))
    assert list(figures) == ["ocr-words"]
    readings = "".join(axes.get_xlabel() for axes in figures["ocr-words"].axes)
    assert "2-gram" in readings
    assert "positional (MM)" in readings
    assert experiment.figures({}) == {}
