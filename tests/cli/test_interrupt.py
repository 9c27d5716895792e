"""Ctrl-C in the middle of a command: exit code 130, no traceback, and the results so far are kept."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import intarsia
from intarsia.cli import main
from intarsia.tour.tour import STOPS
from intarsia_reproduction.benchmarks import bench_inference
from intarsia_reproduction.benchmarks.measurement import bench_row

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of another kind")

# The function named first prints a line and waits at its k-th call, so that the signal arrives there on any
# machine. The signal handler is reset, since a shell may have disabled it for children.
SCRIPT = """
import importlib, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
where, number = sys.argv.pop(1).split("#")
module, _, name = where.partition(":")
owner = importlib.import_module(module)
*path, last = name.split(".")
for part in path:
    owner = getattr(owner, part)
original, calls = getattr(owner, last), 0
is_property = isinstance(original, property)
original = original.fget if is_property else original
def waits(*arguments, **more):
    global calls
    calls += 1
    if calls == int(number):
        print("here", file=sys.stderr, flush=True)
        time.sleep(60)
    return original(*arguments, **more)
setattr(owner, last, property(waits) if is_property else waits)
from intarsia.cli import main
main()
"""


def interrupted(where, *arguments):
    """Return exit status, stdout and stderr of the program after a signal at a given call."""
    command = [sys.executable, "-c", SCRIPT, where, *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        before = []
        while (line := process.stderr.readline()) and line != "here\n":
            before.append(line)
        assert line, "".join(before)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=50)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, err
    assert "Traceback" not in err
    return out, err


def quiet(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    assert stopped.value.code == 0


@pytest.fixture
def words(tmp_path):
    """Write tags that no weights predict correctly, so that the perceptron never stops by itself."""
    (tmp_path / "words.txt").write_text("a N\na V\n\nb V\nb N\n\na V\n", encoding="utf-8")
    return tmp_path / "words.txt"


@pytest.fixture
def people(tmp_path):
    """Write similar names of different people, so that every pass of learning changes the weights."""
    names = ["Ann Lee", "Anne Lee", "Bob Ray", "Bob Rays", "Eve Fox", "Eva Fox"]
    lines = ["name,person", *(f"{name},p{k % 3}" for k, name in enumerate(names))]
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path / "people.csv"


@pytest.fixture
def program(tmp_path):
    document = {
        "rules": ["1: Likes(A, X) & Likes(B, X) & (A != B) -> Knows(A, B) ^2", "1: !Knows(A, B) ^2"],
        "predicates": {
            "Likes/2": {"observations": [["ann", "chess"], ["bob", "chess"]]},
            "Knows/2": {"targets": [["ann", "bob"], ["bob", "ann"]], "truth": [["ann", "bob", 1], ["bob", "ann", 1]]},
        },
    }
    (tmp_path / "model.json").write_text(json.dumps(document), encoding="utf-8")
    return tmp_path / "model.json"


def test_infer(tmp_path):
    graph = intarsia.grid_graph(6, 6, 2)
    intarsia.write_uai(tmp_path / "m.uai", graph, np.random.default_rng(0).standard_normal(graph.n_theta))
    out, _ = interrupted(
        "intarsia.inference.method:Clock.expired#3", "infer", tmp_path / "m.uai", "--method", "belief_propagation",
        "--max-iter", 10**9, "--tol", 0, "--task", "mar", "--json",
    )  # fmt: skip
    document = json.loads(out)
    assert document["status"] == "INTERRUPTED"
    assert np.allclose([sum(one) for one in document["marginals"]], 1.0)


def test_tag_train(words, tmp_path, capsys):
    out, err = interrupted(
        "intarsia.sequences.online_learners:OnlineLearner._pass#3", "tag", "train", words, "-m", tmp_path / "m.npz",
        "--learner", "averaged_perceptron", "--max-iter", 10**6,
    )  # fmt: skip
    assert "INTERRUPTED after 2 iterations" in out
    assert "intarsia: interrupted." in err
    quiet("tag", "predict", words, "-m", tmp_path / "m.npz", "-o", tmp_path / "tagged.txt")
    assert len((tmp_path / "tagged.txt").read_text().split()) == 2 * 5


def test_tag_predict_keeps_the_existing_file(words, tmp_path, capsys):
    quiet("tag", "train", words, "-m", tmp_path / "m.npz", "--max-iter", 3)
    (tmp_path / "tagged.txt").write_text("as it was")
    interrupted(
        "intarsia.sequences.serving.tagger:Tagger._labels#1", "tag", "predict", words,
        "-m", tmp_path / "m.npz", "-o", tmp_path / "tagged.txt",
    )  # fmt: skip
    assert (tmp_path / "tagged.txt").read_text() == "as it was"
    assert not list(tmp_path.glob("*.part"))


def test_cluster_train(people, tmp_path, capsys):
    out, _ = interrupted(
        "intarsia.learning.sample_rank:SampleRank._visit#2", "cluster", "train", people, "-m", tmp_path / "m.npz",
        "--entity", "person",
    )  # fmt: skip
    assert "INTERRUPTED" in out
    quiet("cluster", "predict", people, "-m", tmp_path / "m.npz", "-o", tmp_path / "out.csv")
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 7


def test_softlogic_infer(program, tmp_path):
    out, _ = interrupted(
        "intarsia.softlogic.admm.run:AdmmRun._record#1",
        "softlogic",
        "infer",
        program,
        "-o",
        tmp_path / "found",
        "--json",
    )
    document = json.loads(out)
    assert not document["converged"]
    values = [float(line.split("\t")[-1]) for line in (tmp_path / "found" / "KNOWS.txt").read_text().splitlines()]
    assert len(values) == 2
    assert all(0.0 <= value <= 1.0 for value in values)


def test_softlogic_learn(program, tmp_path):
    out, _ = interrupted(
        "intarsia.softlogic.learning.side_run:SideRun.advance#9", "softlogic",
        "learn", program, "-o", tmp_path / "learned.json",
        "--json",
    )  # fmt: skip
    assert json.loads(out)["status"] == "INTERRUPTED"
    assert len(intarsia.read_psl(tmp_path / "learned.json").rules) == 2


def test_reproduce_resumes(tmp_path):
    folder = tmp_path / "rows"
    out, _ = interrupted(
        "intarsia_reproduction.experiment:save_finding#2", "reproduce", "separability", "--quick", "--output", folder,
        "--report", tmp_path / "page", "--json",
    )  # fmt: skip
    done = sorted(path.name for path in folder.glob("*.json") if path.name != "separability-rows.json")
    assert len(done) == 1
    assert json.loads((folder / done[0]).read_text())["values"]
    rows = json.loads(out)["rows"]
    assert 0 < sum(row["ours"] is not None for row in rows) < len(rows)
    assert "separability" in (tmp_path / "page" / "index.html").read_text(encoding="utf-8")


def test_diagnose_gives_no_verdict():
    out, _ = interrupted("intarsia.learning.structured_perceptron:StructuredPerceptron._pass#3", "diagnose", "diamond")
    assert out == ""


@pytest.mark.parametrize(
    ("where", "n"),
    [("intarsia.learning.lbfgs:LBFGS.advance#3", 0), ("intarsia.learning.sample_rank:SampleRank._visit#2", 4)],
)
def test_tour_stops_when_a_fit_is_interrupted_and_shows_what_is_finished(where, n, tmp_path):
    out, err = interrupted(where, "tour", "--json", "--output", tmp_path)
    assert " of 5: " not in err  # no further stop
    stops = dict.fromkeys(row["stop"] for row in json.loads(out)["rows"]) if n else {}
    assert list(stops) == list(STOPS)[:n]
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"] * (n > 0)


def test_parse_train_saves_no_half_model(tmp_path):
    lines = [f"<S><A>{k}</A> <B>{'abcdef'[k % 6]}</B></S>" for k in range(12)]
    (tmp_path / "names.xml").write_text("<C>" + "".join(lines) + "</C>")
    interrupted(
        "intarsia.learning.lbfgs:LBFGS.advance#3", "parse", "train", tmp_path / "names.xml", "-m", tmp_path / "m.npz"
    )
    assert not (tmp_path / "m.npz").exists()


def test_softlogic_explain(program):
    out, _ = interrupted(
        "intarsia.softlogic.admm.run:AdmmRun._record#1", "softlogic", "explain", program, "Knows(ann, bob)"
    )
    assert out == ""


def test_bench_prints_and_writes_finished_rows(monkeypatch, capsys, tmp_path):
    def measure(repeats, *, report, rows):
        rows.append(bench_row("a model", 0.5, "somebody", 2.0, comparison="same rule", stopping="50 sweeps"))
        raise KeyboardInterrupt

    monkeypatch.setattr(bench_inference, "bench_inference", measure)
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "inference", "--json", "--output", str(tmp_path / "rows.json")])
    out, err = capsys.readouterr()
    assert stopped.value.code == 130
    assert "Traceback" not in err
    assert json.loads(out)["rows"][0]["ratio"] == 4.0
    assert json.loads((tmp_path / "rows.json").read_text()) == json.loads(out)
