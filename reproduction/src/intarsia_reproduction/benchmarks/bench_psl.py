"""Rows of `intarsia bench softlogic` beside PSL: grounding, answers, and the most probable state, in one run.

Both read the same files. Seconds are those of the processor, of all threads that a program starts. Grounding is what
PSL logs as such, which is without loading and indexing its tables; ours includes the filling of the database.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from intarsia._core.validation import FloatArray
from intarsia.exceptions import IntarsiaError, MissingDataError
from intarsia.softlogic import (
    AtomTable,
    ConsensusADMM,
    Grounding,
    HingeLossMRF,
    HingeResult,
    Program,
    RuleReport,
    evaluate,
    ground,
    read_psl,
)
from intarsia_reproduction.benchmarks.measurement import (
    PEAK_BYTES,
    Report,
    Row,
    bench_row,
    fastest_in_turns,
    in_fresh_process,
    one_processor,
    processor_seconds,
)
from intarsia_reproduction.benchmarks.peers import Peer, find_peer
from intarsia_reproduction.workloads.psl_programs import (
    ProgramFiles,
    acquaintances_program,
    clause_program,
    members_program,
    trust_program,
)
from intarsia_reproduction.workloads.softlogic_workloads import hinge_workload

_TURNS = 3  # at most: a run of PSL takes seconds
_JOIN = (1011, 100, 20_000)  # groups, people in each, people: 10,008,900 rows
_JOIN_BYTES = 8e9
_STEPS = (0.1, 1.0, 10.0, 30.0, 100.0)  # of PSL's ADMM; 1 is its default
_PSL_ITERATIONS = 25_000  # its default limit; a run that counts more was stopped by it
_TIMES = 20.0  # how many times faster than PSL we mean to find the most probable state
_WITHIN = 1e-3
# What PSL's evaluators call their scores, and what ours do.
_SCORES = {
    "Accuracy": "accuracy",
    "F1": "f1",
    "Positive Class Precision": "precision",
    "Positive Class Recall": "recall",
    "MAE": "mae",
    "MSE": "mse",
}
_SCORE = re.compile(r"([A-Z][A-Za-z0-9 ]*): (-?\d[-+.\dE]*)")


def psl_rows(repeats: int, tell: Report) -> list[Row]:
    """All rows beside PSL, whose columns are None when it is not installed; takes a quarter of an hour with it.

    Programs whose data set is not there are left out, and `tell` is told so.

    Parameters
    ----------
    repeats : int
        Timed runs of each program, three at most; the join and PSL on w5_small are run once.
    tell : callable
        Is told in a line what is being measured.
    """
    programs: dict[str, Callable[[], ProgramFiles]] = {
        "simple_acquaintances": acquaintances_program,
        "Epinions, 20 rules": trust_program,
    }
    rows: list[Row] = []
    with one_processor(), tempfile.TemporaryDirectory() as folder:
        for name, program in programs.items():
            tell(f"{name} beside PSL")
            try:
                rows += beside_psl(name, program().write(Path(folder)), repeats)
            except MissingDataError as missing:
                tell(f"left out: {missing}")
        tell("a join of ten million rows beside PSL")
        rows.append(_join(Path(folder)))
        tell(f"w5_small beside PSL with steps {', '.join(f'{step:g}' for step in _STEPS)}, minutes each")
        rows.append(_clauses(hinge_workload("w5_small"), Path(folder), repeats))
    return rows


def run_psl(peer: Peer, program: Path, **options: Any) -> Row:
    """One run of PSL with one thread; its options are spelled with `_` for `.` here.

    Raises
    ------
    IntarsiaError
        It failed; the message is its own.
    """
    settings = {"parallel.numthreads": 1, "random.seed": 1}
    settings |= {name.replace("_", "."): value for name, value in options.items()}
    answer = peer.ask("run", program=str(program), options=settings)
    if "failed" in answer:
        raise IntarsiaError(f"PSL failed on {program.name}: {answer['failed']}")
    return answer


def psl_scores(evaluations: Sequence[str]) -> dict[str, float]:
    """The scores in what PSL's evaluators say, by our names.

    Examples
    --------
    >>> psl_scores(["Evaluator: DiscreteEvaluator, Predicate: KNOWS, Results -- Accuracy: 0.915254, F1: 0.933333"])
    {'accuracy': 0.915254, 'f1': 0.933333}
    """
    found: dict[str, float] = {}
    for text in evaluations:
        for name, value in _SCORE.findall(text.partition("Results -- ")[2]):
            if name in _SCORES:
                found[_SCORES[name]] = float(value)
    return found


# ---------------------------------------------------------------- programs


def beside_psl(name: str, path: Path, repeats: int) -> list[Row]:
    """Grounding the program of a file, and what is found for its targets, by both."""
    program = read_psl(path)
    groundings: list[Grounding] = []
    results: list[HingeResult] = []
    answers: list[Row] = []
    timed: dict[str, Callable[[], float]] = {
        "ground": lambda: processor_seconds(lambda: groundings.append(ground(program))),
        "solve": lambda: processor_seconds(lambda: results.append(ConsensusADMM().solve(groundings[-1].mrf))),
    }
    values = None
    with ExitStack() as stack:
        peer = find_peer("psl")
        if peer is not None:
            stack.enter_context(peer)
            timed["peer"] = lambda: _kept(answers, run_psl(peer, path))["ground_seconds"]
        best = fastest_in_turns(timed, min(repeats, _TURNS))
        if peer is not None:
            values = _in_our_order(groundings[-1].atoms, peer.fetch("arguments"), peer.fetch("values"))
    return [
        _grounding_row(name, best, groundings[-1], answers),
        _answer_row(name, best["solve"], program, groundings[-1], results[-1], answers, values),
    ]


def _kept(answers: list[Row], answer: Row) -> Row:
    answers.append(answer)
    return answer


def _grounding_row(name: str, best: dict[str, float], grounding: Grounding, answers: list[Row]) -> Row:
    kept = [report.n_terms + report.n_constraints for report in grounding.reports]
    more: Row = {}
    if answers:
        theirs = [n_terms for _, n_terms in answers[-1]["rules"]]
        more = {
            "peer_quality": sum(theirs),
            "peer_terms": theirs,
            "same_terms": same_terms(grounding.reports, theirs),
            "peer_load_seconds": min(answer["load_seconds"] for answer in answers),
        }
    return bench_row(
        f"{name}: grounding",
        best["ground"],
        "PSL",
        best.get("peer"),
        comparison="same rule",
        stopping="all ground terms",
        wanted="ratio >= 1",
        ours_quality=sum(kept),
        quality_is="ground terms",
        ours_terms=kept,
        ours_with_targets=[report.n_groundings - report.n_constant for report in grounding.reports],
        **more,
    )


def same_terms(reports: Sequence[RuleReport], theirs: Sequence[int]) -> bool:
    """Whether PSL has as many terms of every rule as we do, or as there are groundings with a target.

    The latter where truth values between 0 and 1 satisfy a clause together but none does alone, which only we notice,
    and where a hard rule says the same twice, which only we leave out.

    Examples
    --------
    >>> from intarsia.softlogic import Program, ground
    >>> program = Program().predicate("P", 1).predicate("Q", 1).rule("1: P(A) & P(B) & Q(A) -> Q(B)").target("Q", ["a"])
    >>> reports = ground(program.observe("P", [("a", 0.5)])).reports
    >>> reports[0].n_terms, same_terms(reports, [1]), same_terms(reports, [2])
    (0, True, False)
    """
    return len(reports) == len(theirs) and all(
        n_theirs in (report.n_terms + report.n_constraints, report.n_groundings - report.n_constant)
        for report, n_theirs in zip(reports, theirs, strict=True)
    )


def _answer_row(
    name: str,
    seconds: float,
    program: Program,
    grounding: Grounding,
    result: HingeResult,
    answers: list[Row],
    values: FloatArray | None,
) -> Row:
    ours_scores = {
        key: value
        for by_evaluator in evaluate(program.evaluations, grounding.atoms, result.x).values()
        for found in by_evaluator.values()
        for key, value in found.items()
        if key in _SCORES.values()
    }
    more: Row = {}
    if values is not None:
        objective = grounding.mrf.objective(values)
        scores = psl_scores(answers[-1]["evaluations"])
        more = {
            "peer_quality": objective,
            "same_objective": bool(abs(objective - result.objective) <= _WITHIN * result.objective),
            "largest_difference": float(np.abs(values - result.x).max(initial=0.0)),
            "peer_max_violation": grounding.mrf.max_violation(values),
            "peer_scores": scores,
            "same_scores": scores.keys() == ours_scores.keys()
            and all(abs(scores[key] - ours_scores[key]) <= _WITHIN for key in scores),
        }
    return bench_row(
        f"{name}: inference, without grounding",
        seconds,
        "PSL",
        min((float(answer["solve_seconds"]) for answer in answers[1:]), default=None),
        comparison="own rules",
        stopping="each at its own default tolerance",
        wanted="same objective and scores within 1e-3",
        ours_quality=result.objective,
        quality_is="objective, the weighted sum of hinges",
        ours_max_violation=result.max_violation,
        ours_scores=ours_scores,
        **more,
    )


def _in_our_order(atoms: AtomTable, arguments: Any, values: FloatArray) -> FloatArray:
    """Values of PSL's targets as values of our variables; for programs with one open predicate."""
    of_atom = dict(zip(map(tuple, arguments.tolist()), values.tolist(), strict=True))
    names = [
        names
        for predicate, table in zip(atoms.predicates, atoms.arguments, strict=True)
        if len(table)
        for names in zip(*atoms.columns(predicate.name), strict=True)
    ]
    return np.array([of_atom[name] for name in names])


# ---------------------------------------------------------------- a large join


_JOIN_CODE = f"""
import json, resource, sys, time
from pathlib import Path
from intarsia_reproduction.workloads.psl_programs import members_program
from intarsia.softlogic import ground, read_psl
small = Path({{folder}}, "small")
small.mkdir(exist_ok=True)
ground(read_psl(members_program(2, 3, 10).write(small)))
program = read_psl({{path}})
start = time.process_time()
found = ground(program)
seconds = time.process_time() - start
print(json.dumps(dict(seconds=seconds, terms=found.mrf.n_terms, bytes={PEAK_BYTES})))
"""


def _join(folder: Path) -> Row:
    """Grounding one rule with millions of rows, all of which are kept, in a fresh process each."""
    path = members_program(*_JOIN).write(folder)
    ours = in_fresh_process(_JOIN_CODE.format(folder=json.dumps(str(folder)), path=json.dumps(str(path))))
    seconds, more = None, {}
    peer = find_peer("psl")
    if peer is not None:
        with peer:
            try:
                answer = run_psl(peer, path, inference_skip=True)
                seconds = float(answer["ground_seconds"])
                more = {
                    "peer_quality": answer["bytes"],
                    "peer_terms": sum(n_terms for _, n_terms in answer["rules"]),
                    "peer_load_seconds": answer["load_seconds"],
                }
            except IntarsiaError as failed:  # such as memory that does not suffice
                more = {"peer_failed": str(failed)}
    n_groups, size, _ = _JOIN
    return bench_row(
        f"grounding a join of {n_groups * size * (size - 1):,} rows",
        ours["seconds"],
        "PSL",
        seconds,
        comparison="same rule",
        stopping="all ground terms",
        wanted=f"ratio >= 1, quality < {_JOIN_BYTES:g}",
        ours_quality=ours["bytes"],
        quality_is="largest memory of the process, bytes",
        ours_terms=ours["terms"],
        **more,
    )


# ---------------------------------------------------------------- the most probable state


def _clauses(model: HingeLossMRF, folder: Path, repeats: int) -> Row:
    """PSL with each of its steps until it stops; then both, each until its first point as good as PSL's best.

    As good means within 1e-3 of the lowest objective that PSL reports on its way with any step.
    """
    runs: dict[float, Row] = {}
    with ExitStack() as stack:
        peer = find_peer("psl")
        if peer is not None:
            stack.enter_context(peer)
            path = clause_program(model).write(folder)
            for step in _STEPS:
                runs[step] = _solved_by_psl(peer, path, model, step)
    lowest = min(run["lowest"] for run in runs.values()) if runs else _optimum(model)
    target = (1.0 + _WITHIN) * lowest
    solver, result = _loosest(model, target)
    best = fastest_in_turns({"ours": lambda: processor_seconds(lambda: solver.solve(model))}, repeats)
    more: Row = {}
    seconds = converged = None
    if runs:
        step, (objective, seconds) = min(
            ((step, first_below(run["curve"], target)) for step, run in runs.items()), key=lambda one: one[1][1]
        )
        converged = bool(runs[step]["iterations"] <= _PSL_ITERATIONS)
        more = {
            "peer_quality": objective,
            "peer_step": step,
            "same_terms": all(run["terms"] == model.n_terms for run in runs.values()),
            "peer_by_step": [{key: run[key] for key in run if key != "curve"} for run in runs.values()],
        }
    return bench_row(
        f"w5_small, {model.n_terms:,} hinges: to within {_WITHIN:g} of "
        + ("the best that PSL reaches" if runs else "the optimum"),
        best["ours"],
        "PSL, the best of its steps",
        seconds,
        comparison="same rule",
        stopping=f"within {_WITHIN:g} of the lowest objective of PSL's runs",
        peer_finished=converged,
        wanted=f"ratio >= {_TIMES:g}",
        ours_quality=result.objective,
        quality_is="objective, the weighted sum of hinges",
        objective_wanted=target,
        ours_tol=solver.tol,
        ours_iterations=result.n_iter,
        **more,
    )


def _solved_by_psl(peer: Peer, path: Path, model: HingeLossMRF, step: float) -> Row:
    answer = run_psl(peer, path, admmreasoner_stepsize=step, runtime_log_level="TRACE")
    values = np.empty(model.n_variables)
    values[peer.fetch("arguments")[:, 0].astype(np.int64)] = peer.fetch("values")
    return {
        "step": step,
        "objective": model.objective(values),
        "lowest": min(objective for _, objective, _ in answer["curve"]),
        "iterations": answer["n_iter"],
        "seconds": answer["solve_seconds"],
        "terms": sum(n_terms for _, n_terms in answer["rules"]),
        "curve": answer["curve"],
    }


def first_below(curve: Sequence[Sequence[float]], target: float) -> tuple[float, float]:
    """Objective and seconds of the first point (iteration, objective, seconds) at most `target`; infinite if none is.

    Examples
    --------
    >>> first_below([(0, 9.0, 0.1), (50, 7.0, 0.2), (100, 5.0, 0.3)], 7.5)
    (7.0, 0.2)
    """
    return next(((objective, seconds) for _, objective, seconds in curve if objective <= target), (np.inf, np.inf))


def _optimum(model: HingeLossMRF) -> float:
    return float(ConsensusADMM(tol=1e-6, max_iter=100_000).solve(model).objective)


def _loosest(model: HingeLossMRF, target: float) -> tuple[ConsensusADMM, HingeResult]:
    """Our solver with the loosest tolerance, of 1, 1/2, 1/4, ..., with which it stops at an objective so low."""
    tol = 1.0
    while True:
        solver = ConsensusADMM(tol=tol)
        result = solver.solve(model)
        if result.objective <= target or tol < 1e-8:
            return solver, result
        tol /= 2.0
