"""Speed, memory and quality of gradients through inference beside PGMax differentiated by JAX, all in one run.

Both sides do ten sweeps of belief propagation and differentiate the univariate logistic loss of the marginals in all
scores, but not by the same schedule: our sweeps go forward and backward through the variables, PGMax updates all
messages at once. So each gradient is judged against finite differences of its own schedule, in double precision.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from intarsia._core.validation import FloatArray, IntArray, check_number
from intarsia.exceptions import ConvergenceWarning
from intarsia.gradients import GradientResult
from intarsia.gradients.message_stack import kept_stacks
from intarsia.gradients.reversal import Reversal, reversal_of
from intarsia.gradients.truncated import TruncatedGradient
from intarsia.graph import FactorGraph
from intarsia.inference import infer
from intarsia.inference.registry import METHODS
from intarsia.losses import TrainingLabels, UnivariateLogistic, training_labels
from intarsia_reproduction.benchmarks.measurement import (
    PEAK_BYTES,
    Report,
    Row,
    bench_row,
    fastest_in_turns,
    in_fresh_process,
    one_processor,
    seconds_of,
)
from intarsia_reproduction.benchmarks.peers import Peer, find_peer
from intarsia_reproduction.workloads.workloads import GridWorkload, grid_workload

SWEEPS = 10
_AT_LEAST = 2.0  # seconds given to a comparison of short runs, so that some of them are undisturbed
_AUTHOR = (100, 150)  # image on which the author's program was timed
_AUTHOR_SECONDS = 1.7
_BESIDE_PGMAX = (64, 64)
_WANTED = {2: 3.0, 8: 5.0}  # labels -> how many times faster than PGMax we mean to be
_LARGE = (200, 300, 8, 40)
_BATCH = (16, 100, 150)  # images, height, width
_METHODS = ("tree_reweighted", "belief_propagation", "mean_field")
_GRADIENT_ERROR = "relative error of the gradient, against finite differences of its own schedule in double precision"
_Shape = tuple[int, int, int, int]  # height, width, labels, sweeps
_MEMORY_IS = "bytes by which the first gradient makes a process grow that has its libraries and its model"


def bench_learning(repeats: int = 5, *, report: Report | None = None, rows: list[Row] | None = None) -> list[Row]:
    """Rows of `intarsia bench learning`; takes a few minutes.

    Every row has the keys of the contract, see `bench_inference`; what needs a peer that is not installed is None.
    Peaks of memory are qualities here.

    Parameters
    ----------
    repeats : int
        Timed runs of each program, taking turns after a warm-up; the fastest counts.
    report : callable, optional
        Is told in a line what is being measured.
    rows : list, optional
        To add rows to as they are measured, so that Ctrl-C leaves them.
    """
    check_number(repeats, "bench: repeats", low=1, integer=True)
    tell: Report = report or (lambda line: None)
    rows = [] if rows is None else rows
    with one_processor(), kept_stacks():  # as a fit computes gradients
        tell("the author's program")
        rows.append(_beside_author(repeats))
        for n_states in _WANTED:
            rows += _beside_pgmax(n_states, repeats, tell)
        for n_states in _WANTED:
            tell(f"way back, {n_states} labels")
            rows += [_way_back((*_BESIDE_PGMAX, n_states, SWEEPS), method, repeats) for method in _METHODS]
        tell("way back, a large image")
        rows += [_way_back(_LARGE, method, repeats) for method in _METHODS]
        tell("memory of a large image")
        rows.append(_memory(*_LARGE, wanted="process < 1.5e9"))
    tell("two workers")
    rows.append(_two_workers(repeats))
    return rows


# ---------------------------------------------------------------- one gradient


@dataclass(frozen=True)
class _Labelled:
    """A grid whose labels are drawn at random."""

    workload: GridWorkload
    labels: IntArray

    @staticmethod
    def of(height: int, width: int, n_states: int) -> _Labelled:
        workload = grid_workload(f"{height}x{width}, {n_states} labels", height, width, n_states, seed=201)
        return _Labelled(workload, np.random.default_rng(202).integers(0, n_states, height * width))

    @cached_property
    def model(self) -> tuple[FactorGraph, FloatArray]:
        return self.workload.model()

    @cached_property
    def truth(self) -> TrainingLabels:
        return training_labels(self.model[0], self.labels)

    def gradient(self, method: str) -> GradientResult:
        """The whole call, as a learner makes it."""
        rule = TruncatedGradient(n_iter=SWEEPS)
        return rule.value_and_gradient(*self.model, self.truth, UnivariateLogistic(), method)

    def error_of(self, gradient: FloatArray, method: str, schedule: str) -> float:
        """Relative error of a gradient, from central differences of the loss along a few Gaussian directions.

        Along such a direction the square of an error's component is, on average, the square of its length.
        """
        graph, theta = self.model
        rng = np.random.default_rng(203)

        def loss(scores: FloatArray) -> float:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # few sweeps are asked for, converged or not
                found = infer(graph, scores, method, max_iter=SWEEPS, tol=0.0, schedule=schedule)
            return UnivariateLogistic().value_and_gradient(graph, np.asarray(found.mu), self.truth)[0]

        step, squares = 1e-5, []
        for _ in range(4):
            direction = rng.standard_normal(theta.size)
            slope = (loss(theta + step * direction) - loss(theta - step * direction)) / (2.0 * step)
            squares.append((gradient @ direction - slope) ** 2)
        return float(np.sqrt(np.mean(squares)) / np.linalg.norm(gradient))

    def hand_to(self, peer: Peer) -> None:
        peer.load(unary=self.workload.unary, edges=self.workload.edges, pair=self.workload.pair, labels=self.labels)


def _beside_author(repeats: int) -> Row:
    problem = _Labelled.of(*_AUTHOR, 2)
    best = fastest_in_turns(
        {"ours": lambda: seconds_of(lambda: problem.gradient("tree_reweighted"))}, repeats, _AT_LEAST
    )
    return bench_row(
        f"{problem.workload.name}: tree-reweighted gradient, {SWEEPS} sweeps",
        best["ours"],
        "Domke's C++ program (quoted, not measured in this run)",
        _AUTHOR_SECONDS,
        comparison="quoted",
        stopping=f"ours after {SWEEPS} sweeps; another machine",
        wanted="ratio >= 10",
        ours_quality=problem.error_of(
            problem.gradient("tree_reweighted").gradient, "tree_reweighted", "forward_backward"
        ),
        quality_is=_GRADIENT_ERROR,
    )


def _beside_pgmax(n_states: int, repeats: int, tell: Report) -> list[Row]:
    """Seconds of one gradient in turns; then the memory of one in a fresh process each."""
    problem = _Labelled.of(*_BESIDE_PGMAX, n_states)
    name = problem.workload.name
    tell(f"{name}: belief propagation gradient beside PGMax")
    timed: dict[str, Callable[[], float]] = {"ours": lambda: seconds_of(lambda: problem.gradient("belief_propagation"))}
    more: Row = {}
    with ExitStack() as stack:
        peer = find_peer("pgmax")
        if peer is not None:
            stack.enter_context(peer)
            problem.hand_to(peer)
            timed["peer"] = lambda: float(peer.ask("differentiate", n_iter=SWEEPS)["seconds"])
        best = fastest_in_turns(timed, repeats, _AT_LEAST)
        if peer is not None:
            more["peer_compile_seconds"] = peer.ask("differentiate", n_iter=SWEEPS)["compile_seconds"]
            more["peer_quality"] = problem.error_of(peer.fetch("gradient"), "belief_propagation", "parallel")
    speed = bench_row(
        f"{name}: belief propagation gradient, {SWEEPS} sweeps",
        best["ours"],
        "PGMax differentiated by JAX",
        best.get("peer"),
        comparison="same rule",
        stopping=f"{SWEEPS} sweeps each",
        wanted=f"ratio >= {_WANTED[n_states]:g}",
        ours_quality=problem.error_of(
            problem.gradient("belief_propagation").gradient, "belief_propagation", "forward_backward"
        ),
        quality_is=_GRADIENT_ERROR,
        **more,
    )
    tell(f"{name}: memory beside PGMax")
    return [speed, _memory(*_BESIDE_PGMAX, n_states, SWEEPS, wanted="quality <= peer / 4")]


# ---------------------------------------------------------------- the way back


class _Stages:
    """A truncated gradient in pieces that are timed apart; each piece needs the one before."""

    def __init__(self, problem: _Labelled, method: str, n_iter: int) -> None:
        self.graph, self.theta = problem.model
        self.n_iter = n_iter
        self.method = METHODS.resolve(method, {})
        self.truth = problem.truth
        self.run: Reversal
        self.mu: FloatArray
        self.slope: FloatArray

    def prepare(self) -> None:
        self.run = reversal_of(self.graph, self.theta, self.method)

    def forward(self) -> None:
        self.run.forward(self.n_iter)

    def marginals(self) -> None:
        self.mu = np.asarray(self.run.marginals(UnivariateLogistic.uses_factors))

    def judge(self) -> None:
        self.slope = UnivariateLogistic().value_and_gradient(self.graph, self.mu, self.truth)[1]

    def pull(self) -> None:
        self.run.pull_beliefs(self.mu, self.slope, False)

    def back(self) -> None:
        self.run.back()

    def finish(self) -> None:
        self.run.gradient()


def _way_back(shape: _Shape, method: str, repeats: int) -> Row:
    """The reverse pass, from the loss to the gradient, beside the forward pass, from the scores to the marginals."""
    height, width, n_states, n_iter = shape
    problem = _Labelled.of(height, width, n_states)
    stages = _Stages(problem, method, n_iter)

    def timer(stage: Callable[[], None]) -> Callable[[], float]:
        return lambda: seconds_of(stage)

    names = ("prepare", "forward", "marginals", "judge", "pull", "back", "finish")
    best = fastest_in_turns({name: timer(getattr(stages, name)) for name in names}, repeats, _AT_LEAST / 2)
    return bench_row(
        f"{problem.workload.name}: {method}, {n_iter} sweeps back",
        best["pull"] + best["back"] + best["finish"],
        "the way forward",
        best["prepare"] + best["forward"] + best["marginals"],
        comparison="ourselves",
        stopping=f"{n_iter} sweeps each",
        wanted="ratio >= 0.333",
        sweeps_ratio=best["forward"] / best["back"],
    )


# ---------------------------------------------------------------- memory


_MEMORY_CODE = f"""
import gc, json, resource, sys, time
import numpy as np
import intarsia
from intarsia._kernels.chain_vectors import row_spans
from intarsia._core.validation import read_only
from intarsia_reproduction.benchmarks.measurement import forget_peak, peak_since
from intarsia.gradients.truncated import TruncatedGradient
from intarsia.losses import UnivariateLogistic, training_labels
height, width, n_states, n_iter = {{shape}}
rng = np.random.default_rng(201)
graph = intarsia.grid_graph(height, width, n_states)
theta = rng.standard_normal(graph.n_theta)
labels = training_labels(graph, rng.integers(0, n_states, graph.n_variables))
found = dict(process={PEAK_BYTES}, loading=None)
for name in ("first", "again"):
    before = forget_peak()
    row_spans(read_only(np.zeros((1, 1))), np.empty(1), np.empty(1))
    if name == "first" and before is not None:
        found["loading"] = max(0, peak_since() - before)
    start = time.perf_counter()
    rule = TruncatedGradient(n_iter=n_iter)
    result = rule.value_and_gradient(graph, theta, labels, UnivariateLogistic(), "belief_propagation")
    found["seconds"] = time.perf_counter() - start
    found[name] = None if before is None else max(0, peak_since() - before)
    found["process"] = max(found["process"], {PEAK_BYTES})
    del result
print(json.dumps(found))
"""

_Memory = dict[str, float | None]


def _our_memory(shape: _Shape) -> _Memory:
    """Of a fresh process that computes two gradients on a grid: its peak, and by how much each made it grow."""
    return in_fresh_process(_MEMORY_CODE.format(shape=shape))


def _peer_memory(shape: _Shape) -> _Memory | None:
    """The same of PGMax."""
    peer = find_peer("pgmax")
    if peer is None:
        return None
    height, width, n_states, n_iter = shape
    found: _Memory = {}
    with peer:
        _Labelled.of(height, width, n_states).hand_to(peer)
        process = peer.ask("memory")["bytes"]
        for name in ("first", "again"):
            before = peer.ask("forget")["bytes"]
            found["seconds"] = peer.ask("differentiate", n_iter=n_iter)["seconds"]
            peak = peer.ask("memory")["bytes"]
            found[name] = None if before is None else max(0, peak - before)  # its counters are not exact
            process = max(process, peak)
    return found | {"process": process}


def _memory(height: int, width: int, n_states: int, n_iter: int, *, wanted: str) -> Row:
    """By how much the first gradient makes a fresh process grow, its libraries and its model being there.

    JAX compiles in it, and we load kernels from disk. Told too: how much of it is Numba, which loads the rest of itself
    and pages of LLVM with the first kernel of a process, whatever that is (JAX starts when it is handed the model); the
    growth by a second gradient of the same size, which loads and compiles nothing; and the largest memory of the whole
    process, most of which is libraries on either side.
    """
    shape = height, width, n_states, n_iter
    _our_memory((3, 3, n_states, n_iter))  # compiles what is not on disk yet
    ours, theirs = _our_memory(shape), _peer_memory(shape) or {}
    return bench_row(
        f"{height}x{width}, {n_states} labels: memory of a gradient, {n_iter} sweeps",
        ours["seconds"] or 0.0,
        "PGMax differentiated by JAX",
        theirs.get("seconds"),
        comparison="same rule",
        stopping=f"{n_iter} sweeps each",
        wanted=wanted,
        ours_quality=ours["first"],
        peer_quality=theirs.get("first"),
        quality_is=_MEMORY_IS,
        ours_loading_bytes=ours["loading"],
        ours_again_bytes=ours["again"],
        peer_again_bytes=theirs.get("again"),
        ours_process_bytes=ours["process"],
        peer_process_bytes=theirs.get("process"),
    )


# ---------------------------------------------------------------- workers


def time_workers(n_images: int, height: int, width: int, repeats: int) -> dict[str, float]:
    """Seconds of one gradient of the risk of some images, by one worker and by two, and how far the gradients differ.

    Examples
    --------
    >>> sorted(time_workers(2, 3, 3, repeats=1))
    ['difference', 'one', 'two']
    """
    from intarsia.crf.image_data import direction_indicators
    from intarsia.learning import RiskMinimizer, example
    from intarsia.models import LinearScores

    rng = np.random.default_rng(204)
    graph = GridWorkload.model(grid_workload("batch", height, width, 2, seed=205))[0]
    edges = direction_indicators(height, width, 4)
    examples = [
        example(
            LinearScores(graph, rng.standard_normal((height * width, 3)), edges), rng.integers(0, 2, height * width)
        )
        for _ in range(n_images)
    ]
    weights = 0.3 * rng.standard_normal(examples[0].scores.n_weights)
    risks = {
        name: RiskMinimizer(loss="univariate_logistic", gradient=TruncatedGradient(n_iter=SWEEPS), n_jobs=n_jobs).risk(
            examples, "tree_reweighted"
        )
        for name, n_jobs in (("one", 1), ("two", 2))
    }

    def timer(name: str) -> Callable[[], float]:
        return lambda: seconds_of(lambda: risks[name](weights))

    best = fastest_in_turns({name: timer(name) for name in risks}, repeats, 2.0 * _AT_LEAST)
    gradients = [risk(weights)[1] for risk in risks.values()]
    return best | {"difference": float(np.abs(gradients[0] - gradients[1]).max())}


_WORKERS_CODE = """
import json
from intarsia_reproduction.benchmarks.bench_learning import time_workers
print(json.dumps(time_workers{arguments}))
"""


def _two_workers(repeats: int) -> Row:
    """In a process of its own, since that is where linear algebra can be held to one thread."""
    found = in_fresh_process(_WORKERS_CODE.format(arguments=(*_BATCH, repeats)))
    n_images, height, width = _BATCH
    return bench_row(
        f"{n_images} images of {height}x{width}, 2 labels: gradient of the risk, n_jobs=2",
        found["two"],
        "Intarsia, n_jobs=1",
        found["one"],
        comparison="ourselves",
        stopping="one gradient each",
        wanted="ratio >= 1.7",
        ours_quality=found["difference"],
        quality_is="largest difference between the two gradients",
        processors=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
    )
