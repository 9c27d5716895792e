"""Rows of `intarsia bench softlogic` that compare with PSL (probabilistic soft logic): grounding and inference.

Both programs read the same files. Times are processor seconds of all threads. The grounding time of PSL is the one it
logs, without loading and indexing its tables; ours includes filling the database.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from intarsia._core.validation import FloatArray
from intarsia._files.atomic_file import temporary_folder
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

_TURNS = 3  # maximum number of timed runs, since a run of PSL takes seconds
_JOIN = (1011, 100, 20_000)  # groups, people in each, people: 10,008,900 rows
_JOIN_BYTES = 8e9
_STEPS = (0.1, 1.0, 10.0, 30.0, 100.0)  # step sizes of PSL's ADMM; 1 is its default
_PSL_ITERATIONS = 25_000  # default limit of PSL; a run that reports more iterations was stopped by it
_REQUIRED_RATIO = 20.0  # required ratio to PSL for the most probable state
_WITHIN = 1e-3
# Names of scores in PSL's evaluators -> our names.
_SCORES = {
    "Accuracy": "accuracy",
    "F1": "f1",
    "Positive Class Precision": "precision",
    "Positive Class Recall": "recall",
    "MAE": "mae",
    "MSE": "mse",
}
_SCORE = re.compile(r"([A-Z][A-Za-z0-9 ]*): (-?\d[-+.\dE]*)")


def psl_rows(repeats: int, log: Report) -> list[Row]:
    """Measure all rows that compare with PSL; takes a quarter of an hour if PSL is installed.

    Without PSL its columns are None. Programs whose data set is missing are omitted, which `log` reports.

    Parameters
    ----------
    repeats : int
        Number of timed runs of each program, at most three; the join and PSL on w5_small are run once.
    log : callable
        Called with one line of text before each measurement.
    """
    programs: dict[str, Callable[[], ProgramFiles]] = {
        "simple_acquaintances": acquaintances_program,
        "Epinions, 20 rules": trust_program,
    }
    rows: list[Row] = []
    with one_processor(), temporary_folder() as folder:
        for name, program in programs.items():
            log(f"{name} compared with PSL")
            try:
                rows += compare_with_psl(name, program().write(Path(folder)), repeats)
            except MissingDataError as missing:
                log(f"omitted: {missing}")
        log("a join of ten million rows compared with PSL")
        rows.append(_join(Path(folder)))
        log(f"w5_small compared with PSL with steps {', '.join(f'{step:g}' for step in _STEPS)}, minutes each")
        rows.append(_clauses(hinge_workload("w5_small"), Path(folder), repeats))
    return rows


def run_psl(peer: Peer, program: Path, **options: Any) -> Row:
    """Run PSL once with one thread; in the names of `options`, `_` stands for the `.` of PSL's options.

    Raises
    ------
    IntarsiaError
        PSL failed; the error contains its message.
    """
    settings = {"parallel.numthreads": 1, "random.seed": 1}
    settings |= {name.replace("_", "."): value for name, value in options.items()}
    answer = peer.ask("run", program=str(program), options=settings)
    if "failed" in answer:
        raise IntarsiaError(f"PSL failed on {program.name}: {answer['failed']}. Run PSL on {program} to see its log.")
    return answer


def psl_scores(evaluations: Sequence[str]) -> dict[str, float]:
    """Return the scores in the output of PSL's evaluators, by our names.

    Examples
    --------
    >>> psl_scores(["Evaluator: DiscreteEvaluator, Predicate: KNOWS, Results -- Accuracy: 0.915254, F1: 0.933333"])
    {'accuracy': 0.915254, 'f1': 0.933333}
    """
    scores: dict[str, float] = {}
    for text in evaluations:
        for name, value in _SCORE.findall(text.partition("Results -- ")[2]):
            if name in _SCORES:
                scores[_SCORES[name]] = float(value)
    return scores


# ---------------------------------------------------------------- programs


def compare_with_psl(name: str, path: Path, repeats: int) -> list[Row]:
    """Ground and solve the program of a file with both programs; return a row for each step."""
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
            timed["peer"] = lambda: _appended(answers, run_psl(peer, path))["ground_seconds"]
        best = fastest_in_turns(timed, min(repeats, _TURNS))
        if peer is not None:
            values = _in_our_order(groundings[-1].atoms, peer.fetch("arguments"), peer.fetch("values"))
    return [
        _grounding_row(name, best, groundings[-1], answers),
        _answer_row(name, best["solve"], program, groundings[-1], results[-1], answers, values),
    ]


def _appended(answers: list[Row], answer: Row) -> Row:
    answers.append(answer)
    return answer


def _grounding_row(name: str, best: dict[str, float], grounding: Grounding, answers: list[Row]) -> Row:
    our_terms = [report.n_terms + report.n_constraints for report in grounding.reports]
    peer_fields: Row = {}
    if answers:
        peer_terms = [n_terms for _, n_terms in answers[-1]["rules"]]
        peer_fields = {
            "peer_quality": sum(peer_terms),
            "peer_terms": peer_terms,
            "same_terms": same_terms(grounding.reports, peer_terms),
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
        ours_quality=sum(our_terms),
        quality_is="ground terms",
        ours_terms=our_terms,
        ours_with_targets=[report.n_groundings - report.n_constant for report in grounding.reports],
        **peer_fields,
    )


def same_terms(reports: Sequence[RuleReport], peer_terms: Sequence[int]) -> bool:
    """Return whether PSL has, for every rule, as many terms as we do or as there are groundings with a target.

    The two numbers differ where several values in [0, 1] satisfy a clause together but none does alone, and where two
    groundings of a hard rule are equal: we omit such terms, PSL does not.

    Examples
    --------
    >>> from intarsia.softlogic import Program, ground
    >>> program = Program().predicate("P", 1).predicate("Q", 1).rule("1: P(A) & P(B) & Q(A) -> Q(B)").target("Q", ["a"])
    >>> reports = ground(program.observe("P", [("a", 0.5)])).reports
    >>> reports[0].n_terms, same_terms(reports, [1]), same_terms(reports, [2])
    (0, True, False)
    """
    return len(reports) == len(peer_terms) and all(
        n_peer_terms in (report.n_terms + report.n_constraints, report.n_groundings - report.n_constant)
        for report, n_peer_terms in zip(reports, peer_terms, strict=True)
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
    our_scores = {
        key: value
        for by_evaluator in evaluate(program.evaluations, grounding.atoms, result.x).values()
        for scores_by_name in by_evaluator.values()
        for key, value in scores_by_name.items()
        if key in _SCORES.values()
    }
    peer_fields: Row = {}
    if values is not None:
        objective = grounding.mrf.objective(values)
        scores = psl_scores(answers[-1]["evaluations"])
        peer_fields = {
            "peer_quality": objective,
            "same_objective": bool(abs(objective - result.objective) <= _WITHIN * result.objective),
            "largest_difference": float(np.abs(values - result.x).max(initial=0.0)),
            "peer_max_violation": grounding.mrf.max_violation(values),
            "peer_scores": scores,
            "same_scores": scores.keys() == our_scores.keys()
            and all(abs(scores[key] - our_scores[key]) <= _WITHIN for key in scores),
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
        ours_scores=our_scores,
        **peer_fields,
    )


def _in_our_order(atoms: AtomTable, arguments: Any, values: FloatArray) -> FloatArray:
    """Return the values of PSL's targets in the order of our variables; for programs with one open predicate."""
    value_of_atom = dict(zip(map(tuple, arguments.tolist()), values.tolist(), strict=True))
    names = [
        names
        for predicate, table in zip(atoms.predicates, atoms.arguments, strict=True)
        if len(table)
        for names in zip(*atoms.columns(predicate.name), strict=True)
    ]
    return np.array([value_of_atom[name] for name in names])


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
grounding = ground(program)
seconds = time.process_time() - start
print(json.dumps(dict(seconds=seconds, terms=grounding.mrf.n_terms, bytes={PEAK_BYTES})))
"""


def _join(folder: Path) -> Row:
    """Measure grounding of one rule with millions of rows, all of which become terms, in a fresh process each."""
    path = members_program(*_JOIN).write(folder)
    ours = in_fresh_process(_JOIN_CODE.format(folder=json.dumps(str(folder)), path=json.dumps(str(path))))
    seconds, peer_fields = None, {}
    peer = find_peer("psl")
    if peer is not None:
        with peer:
            try:
                answer = run_psl(peer, path, inference_skip=True)
                seconds = float(answer["ground_seconds"])
                peer_fields = {
                    "peer_quality": answer["bytes"],
                    "peer_terms": sum(n_terms for _, n_terms in answer["rules"]),
                    "peer_load_seconds": answer["load_seconds"],
                }
            except IntarsiaError as error:  # for example, not enough memory
                peer_fields = {"peer_failed": str(error)}
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
        **peer_fields,
    )


# ---------------------------------------------------------------- the most probable state


def _clauses(model: HingeLossMRF, folder: Path, repeats: int) -> Row:
    """Run PSL with each step size until it stops, then time both until they are as good as the best run of PSL.

    "As good" means within 1e-3 of the lowest objective that PSL reports in any iteration with any step size.
    """
    runs: dict[float, Row] = {}
    with ExitStack() as stack:
        peer = find_peer("psl")
        if peer is not None:
            stack.enter_context(peer)
            path = clause_program(model).write(folder)
            for step in _STEPS:
                runs[step] = _solve_by_psl(peer, path, model, step)
    lowest = min(run["lowest"] for run in runs.values()) if runs else _optimum(model)
    target = (1.0 + _WITHIN) * lowest
    solver, result = _loosest(model, target)
    best = fastest_in_turns({"ours": lambda: processor_seconds(lambda: solver.solve(model))}, repeats)
    peer_fields: Row = {}
    seconds = converged = None
    if runs:
        step, (objective, seconds) = min(
            ((step, first_below(run["curve"], target)) for step, run in runs.items()), key=lambda item: item[1][1]
        )
        converged = bool(runs[step]["iterations"] <= _PSL_ITERATIONS)
        peer_fields = {
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
        wanted=f"ratio >= {_REQUIRED_RATIO:g}",
        ours_quality=result.objective,
        quality_is="objective, the weighted sum of hinges",
        objective_wanted=target,
        ours_tol=solver.tol,
        ours_iterations=result.n_iter,
        **peer_fields,
    )


def _solve_by_psl(peer: Peer, path: Path, model: HingeLossMRF, step: float) -> Row:
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
    """Return objective and seconds of the first (iteration, objective, seconds) at most `target`, else infinity.

    Examples
    --------
    >>> first_below([(0, 9.0, 0.1), (50, 7.0, 0.2), (100, 5.0, 0.3)], 7.5)
    (7.0, 0.2)
    """
    return next(((objective, seconds) for _, objective, seconds in curve if objective <= target), (np.inf, np.inf))


def _optimum(model: HingeLossMRF) -> float:
    return float(ConsensusADMM(tol=1e-6, max_iter=100_000).solve(model).objective)


def _loosest(model: HingeLossMRF, target: float) -> tuple[ConsensusADMM, HingeResult]:
    """Return our solver with the loosest tolerance (1, 1/2, 1/4, ...) whose objective is at most `target`."""
    tol = 1.0
    while True:
        solver = ConsensusADMM(tol=tol)
        result = solver.solve(model)
        if result.objective <= target or tol < 1e-8:
            return solver, result
        tol /= 2.0
