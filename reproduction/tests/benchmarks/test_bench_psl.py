"""Rows that compare with PSL, tested with a fake peer, and with PSL itself if it is installed."""

import numpy as np
import pytest
from reproduction.tests.benchmarks.bench_contract import CONTRACT

from intarsia.exceptions import IntarsiaError, MissingDataError
from intarsia.softlogic import ConsensusADMM, ground, read_psl
from intarsia_reproduction.benchmarks import bench_psl as bench
from intarsia_reproduction.benchmarks.peers import find_peer
from intarsia_reproduction.workloads.psl_programs import (
    ProgramFiles,
    acquaintances_program,
    clause_program,
    members_program,
)
from intarsia_reproduction.workloads.softlogic_workloads import clause_model

needs_psl = pytest.mark.skipif(find_peer("psl") is None, reason="PSL is not installed; see reproduction/README.md")


class FakePeer:
    """Peer that returns answers from a list; values and arguments are by default those of the program in `knows`."""

    def __init__(self, answers, values=(0.6, 0.5), arguments=(("bob", "ann"), ("ann", "bob"))):
        self.answers, self.requests = list(answers), []
        self.arrays = {"values": np.array(values), "arguments": np.array(arguments)}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def ask(self, do, **arguments):
        self.requests.append((do, arguments))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def fetch(self, name):
        return self.arrays[name]


def answer(**fields):
    return {"load_seconds": 0.5, "ground_seconds": 2.0, "solve_seconds": 3.0, "n_iter": 7, "evaluations": []} | fields


def knows(tmp_path):
    """Write a program in which each of two atoms prefers 0.9 with weight 2 and 0 with weight 1."""
    program = ProgramFiles(["2: Likes(A, X) & Likes(B, X) & (A != B) -> Knows(A, B) ^2", "1: !Knows(A, B) ^2"])
    program.add("Likes", "observations", [("ann", "chess"), ("bob", "chess")], np.array([1.0, 0.9]))
    program.add("Knows", "targets", [("ann", "bob"), ("bob", "ann")])
    program.add("Knows", "truth", [("ann", "bob"), ("bob", "ann")], np.array([1.0, 0.0]))
    program.evaluate("Knows", "DiscreteEvaluator")
    return program.write(tmp_path)


def use(monkeypatch, peer):
    monkeypatch.setattr(bench, "find_peer", lambda name: peer)


def check(rows):
    for row in rows:
        assert row.keys() >= CONTRACT
        assert row["ours_seconds"] > 0
        if row["peer_seconds"] is None:
            assert row["ratio"] is row["peer_quality"] is None
        else:
            assert row["ratio"] == pytest.approx(row["peer_seconds"] / row["ours_seconds"])


def test_answers_are_compared_in_our_order_and_by_our_objective(monkeypatch, tmp_path):
    runs = [answer(rules=[["1", 2], ["2", 2]], ground_seconds=g, solve_seconds=s) for g, s in ((1, 1), (4, 8), (5, 6))]
    runs[-1]["evaluations"] = ["Evaluator: DiscreteEvaluator, Predicate: KNOWS, Results -- Accuracy: 0.5, F1: 0.666667"]
    peer = FakePeer(runs)
    use(monkeypatch, peer)
    grounding, inference = rows = bench.compare_with_psl("knows", knows(tmp_path), repeats=2)
    check(rows)
    assert grounding["peer_seconds"] == 4  # the first run warms up
    assert inference["peer_seconds"] == 6
    assert grounding["ours_terms"] == grounding["peer_terms"] == [2, 2]
    assert grounding["same_terms"]
    # 2 (0.9 - x)^2 + x^2 at 0.6 and at 0.5; both are 0.54 at the best.
    assert inference["ours_quality"] == pytest.approx(1.08, rel=1e-4)
    assert inference["peer_quality"] == pytest.approx(0.54 + 0.57)
    assert not inference["same_objective"]
    assert inference["largest_difference"] == pytest.approx(0.1, abs=1e-2)
    assert inference["peer_scores"] == {"accuracy": 0.5, "f1": 0.666667}
    assert inference["ours_scores"]["accuracy"] == 0.5
    assert not inference["same_scores"]  # PSL did not report precision and recall
    options = peer.requests[0][1]["options"]
    assert options == {"parallel.numthreads": 1, "random.seed": 1}


def test_different_numbers_of_terms_are_reported(monkeypatch, tmp_path):
    use(monkeypatch, FakePeer([answer(rules=[["1", 2], ["2", 3]])]))
    assert not bench.compare_with_psl("knows", knows(tmp_path), repeats=1)[0]["same_terms"]


def test_error_of_psl_is_reported(tmp_path):
    with pytest.raises(IntarsiaError, match=r"PSL failed on program\.json: no such rule"):
        bench.run_psl(FakePeer([{"failed": "no such rule"}]), tmp_path / "program.json")


def test_time_to_the_lowest_objective_of_any_step_size(monkeypatch, tmp_path):
    model = clause_model(30, 60, seed=1)
    optimum = ConsensusADMM(tol=1e-8).solve(model).objective
    rng = np.random.default_rng(0)
    order, x = rng.permutation(30), rng.random(30)
    curves = {
        0.1: [[0, 9 * optimum, 0.1], [50, 3 * optimum, 0.4]],
        1.0: [[0, 9 * optimum, 0.1], [50, 1.1 * optimum, 7.0], [100, 2.0 * optimum, 9.0]],  # the last is not the best
        10.0: [[0, 9 * optimum, 0.1], [50, 1.1005 * optimum, 6.0]],  # as good, and earlier
    }
    monkeypatch.setattr(bench, "_STEPS", tuple(curves))
    peer = FakePeer(
        [answer(rules=[["all", model.n_terms]], curve=curve) for curve in curves.values()],
        x[order], order[:, None].astype(str),
    )  # fmt: skip
    use(monkeypatch, peer)
    row = bench._clauses(model, tmp_path, repeats=1)
    check([row])
    assert row["objective_wanted"] == pytest.approx(1.001 * 1.1 * optimum)
    assert (row["peer_seconds"], row["peer_step"]) == (6.0, 10.0)
    assert row["ours_quality"] <= row["objective_wanted"]
    assert row["same_terms"]
    assert [run["step"] for run in row["peer_by_step"]] == list(curves)
    assert row["peer_by_step"][0]["objective"] == pytest.approx(model.objective(x))
    assert [request[1]["options"]["admmreasoner.stepsize"] for request in peer.requests] == list(curves)


def test_join_that_is_too_large_for_psl_is_reported(monkeypatch, tmp_path):
    use(monkeypatch, FakePeer([{"failed": "Java heap space"}]))
    monkeypatch.setattr(bench, "_JOIN", (2, 3, 10))
    monkeypatch.setattr(bench, "in_fresh_process", lambda code: {"seconds": 1.0, "terms": 12, "bytes": 5})
    row = bench._join(tmp_path)
    check([row])
    assert "Java heap space" in row["peer_failed"]
    assert row["workload"] == "grounding a join of 12 rows"


def test_without_peer_and_data(monkeypatch):
    def absent():
        raise MissingDataError("not there")

    use(monkeypatch, None)
    monkeypatch.setattr(bench, "acquaintances_program", absent)
    monkeypatch.setattr(bench, "trust_program", lambda: members_program(2, 3, 10))
    monkeypatch.setattr(bench, "_JOIN", (2, 3, 10))
    monkeypatch.setattr(bench, "in_fresh_process", lambda code: {"seconds": 1.0, "terms": 12, "bytes": 5})
    monkeypatch.setattr(bench, "hinge_workload", lambda name: clause_model(30, 60, seed=1))
    lines = []
    rows = bench.psl_rows(1, lines.append)
    check(rows)
    assert "omitted: not there" in lines
    assert len(rows) == 2 + 1 + 1
    assert all(row["peer_seconds"] is None for row in rows)
    assert rows[-1]["ours_quality"] <= rows[-1]["objective_wanted"]


@pytest.mark.parametrize("seed", [1, 2])
def test_clause_program_grounds_to_its_model(tmp_path, seed):
    model = clause_model(30, 90, seed)
    grounding = ground(read_psl(clause_program(model).write(tmp_path)))
    positions = [grounding.atoms.find("X", i) for i in range(30)]
    assert grounding.mrf.n_terms == model.n_terms
    for x in np.random.default_rng(seed).random((5, 30)):
        assert grounding.mrf.objective(x[np.argsort(positions)]) == pytest.approx(model.objective(x))


def test_all_members_of_a_group_are_paired(tmp_path):
    grounding = ground(read_psl(members_program(3, 4, 9).write(tmp_path)))
    assert grounding.mrf.n_terms == 3 * 4 * 3


@pytest.mark.slow
@needs_psl
def test_psl_grounds_and_infers_the_same(tmp_path):
    grounding, inference = rows = bench.compare_with_psl("knows", knows(tmp_path), repeats=1)
    check(rows)
    assert grounding["peer_terms"] == [2, 2]
    assert inference["peer_quality"] == pytest.approx(1.08, rel=1e-3)
    assert inference["same_objective"]
    assert inference["same_scores"]


@pytest.mark.slow
@needs_psl
def test_psl_solves_the_model_of_clauses(monkeypatch, tmp_path):
    monkeypatch.setattr(bench, "_STEPS", (1.0,))
    model = clause_model(30, 60, seed=1)
    row = bench._clauses(model, tmp_path, repeats=1)
    check([row])
    assert row["same_terms"]
    run = row["peer_by_step"][0]
    assert run["objective"] == pytest.approx(ConsensusADMM(tol=1e-8).solve(model).objective, rel=0.02)


@pytest.mark.slow
@pytest.mark.data
@needs_psl
def test_psl_agrees_on_simple_acquaintances(tmp_path):
    grounding, inference = bench.compare_with_psl("acquaintances", acquaintances_program().write(tmp_path), repeats=1)
    assert grounding["same_terms"]
    assert inference["same_objective"]
    assert inference["same_scores"]
    assert inference["peer_scores"].keys() == {"accuracy", "precision", "recall", "f1"}
