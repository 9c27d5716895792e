"""`intarsia bench learning`: gradients through inference, compared with PGMax differentiated by JAX.

Both programs run ten sweeps of belief propagation and differentiate the univariate logistic loss of the marginals with
respect to all scores. Their schedules differ: our sweeps go forward and backward through the variables, PGMax updates
all messages at once. Therefore each gradient is compared with finite differences of its own schedule, in double
precision.
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
_AT_LEAST = 2.0  # seconds over which short runs are repeated, so that some of them are undisturbed
_AUTHOR = (100, 150)  # size of the image on which the author's program was timed
_AUTHOR_SECONDS = 1.7
_PGMAX_SIZE = (64, 64)
_WANTED = {2: 3.0, 8: 5.0}  # number of labels -> required ratio to PGMax
_LARGE = (200, 300, 8, 40)
_BATCH = (16, 100, 150)  # images, height, width
_METHODS = ("tree_reweighted", "belief_propagation", "mean_field")
_GRADIENT_ERROR = "relative error of the gradient, against finite differences of its own schedule in double precision"
_Shape = tuple[int, int, int, int]  # height, width, labels, sweeps
_MEMORY_IS = "bytes by which the first gradient makes a process grow that has its libraries and its model"


def bench_learning(repeats: int = 5, *, report: Report | None = None, rows: list[Row] | None = None) -> list[Row]:
    """Measure the rows of `intarsia bench learning`; takes a few minutes.

    Every row has the keys that `bench_inference` describes; values of a peer that is not installed are None.
    Peak memory is reported as a quality.

    Parameters
    ----------
    repeats : int
        Number of timed runs of each program, in turns after a warm-up; the fastest counts.
    report : callable, optional
        Called with one line of text before each measurement.
    rows : list, optional
        List to which each row is appended once it is measured, so that Ctrl-C keeps the finished rows.
    """
    check_number(repeats, "bench: repeats", low=1, integer=True)
    log: Report = report or (lambda line: None)
    rows = [] if rows is None else rows
    with one_processor(), kept_stacks():  # message stacks are reused between gradients, as in a fit
        log("the author's program")
        rows.append(_compare_with_author(repeats))
        for n_states in _WANTED:
            rows += _compare_with_pgmax(n_states, repeats, log)
        for n_states in _WANTED:
            log(f"backward pass, {n_states} labels")
            rows += [_backward_pass((*_PGMAX_SIZE, n_states, SWEEPS), method, repeats) for method in _METHODS]
        log("backward pass, a large image")
        rows += [_backward_pass(_LARGE, method, repeats) for method in _METHODS]
        log("memory of a large image")
        rows.append(_memory(*_LARGE, goal="process < 1.5e9"))
    log("two workers")
    rows.append(_two_workers(repeats))
    return rows


# ---------------------------------------------------------------- one gradient


@dataclass(frozen=True)
class _Labelled:
    """Grid model with random labels."""

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
        """Compute loss and gradient with the same call as a learner."""
        rule = TruncatedGradient(n_iter=SWEEPS)
        return rule.value_and_gradient(*self.model, self.truth, UnivariateLogistic(), method)

    def error_of(self, gradient: FloatArray, method: str, schedule: str) -> float:
        """Return the relative error of a gradient, estimated by central differences along random Gaussian directions.

        The squared component of a vector along such a direction has the squared length of the vector as expected value.
        """
        graph, theta = self.model
        rng = np.random.default_rng(203)

        def loss(scores: FloatArray) -> float:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # the number of sweeps is fixed
                result = infer(graph, scores, method, max_iter=SWEEPS, tol=0.0, schedule=schedule)
            return UnivariateLogistic().value_and_gradient(graph, np.asarray(result.mu), self.truth)[0]

        step, squares = 1e-5, []
        for _ in range(4):
            direction = rng.standard_normal(theta.size)
            slope = (loss(theta + step * direction) - loss(theta - step * direction)) / (2.0 * step)
            squares.append((gradient @ direction - slope) ** 2)
        return float(np.sqrt(np.mean(squares)) / np.linalg.norm(gradient))

    def hand_to(self, peer: Peer) -> None:
        peer.load(unary=self.workload.unary, edges=self.workload.edges, pair=self.workload.pair, labels=self.labels)


def _compare_with_author(repeats: int) -> Row:
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


def _compare_with_pgmax(n_states: int, repeats: int, log: Report) -> list[Row]:
    """Measure the seconds of one gradient in turns, then the memory of one in a fresh process each."""
    problem = _Labelled.of(*_PGMAX_SIZE, n_states)
    name = problem.workload.name
    log(f"{name}: belief propagation gradient compared with PGMax")
    timed: dict[str, Callable[[], float]] = {"ours": lambda: seconds_of(lambda: problem.gradient("belief_propagation"))}
    peer_fields: Row = {}
    with ExitStack() as stack:
        peer = find_peer("pgmax")
        if peer is not None:
            stack.enter_context(peer)
            problem.hand_to(peer)
            timed["peer"] = lambda: float(peer.ask("differentiate", n_iter=SWEEPS)["seconds"])
        best = fastest_in_turns(timed, repeats, _AT_LEAST)
        if peer is not None:
            peer_fields["peer_compile_seconds"] = peer.ask("differentiate", n_iter=SWEEPS)["compile_seconds"]
            peer_fields["peer_quality"] = problem.error_of(peer.fetch("gradient"), "belief_propagation", "parallel")
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
        **peer_fields,
    )
    log(f"{name}: memory compared with PGMax")
    return [speed, _memory(*_PGMAX_SIZE, n_states, SWEEPS, goal="quality <= peer / 4")]


# ---------------------------------------------------------------- backward pass


class _Stages:
    """Stages of a truncated gradient, timed separately; each stage needs the previous one."""

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


def _backward_pass(shape: _Shape, method: str, repeats: int) -> Row:
    """Measure the backward pass (loss to gradient) and the forward pass (scores to marginals)."""
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
        "the forward pass",
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
memory = dict(process={PEAK_BYTES}, loading=None)
for name in ("first", "again"):
    before = forget_peak()
    row_spans(read_only(np.zeros((1, 1))), np.empty(1), np.empty(1))
    if name == "first" and before is not None:
        memory["loading"] = max(0, peak_since() - before)
    start = time.perf_counter()
    rule = TruncatedGradient(n_iter=n_iter)
    result = rule.value_and_gradient(graph, theta, labels, UnivariateLogistic(), "belief_propagation")
    memory["seconds"] = time.perf_counter() - start
    memory[name] = None if before is None else max(0, peak_since() - before)
    memory["process"] = max(memory["process"], {PEAK_BYTES})
    del result
print(json.dumps(memory))
"""

_Memory = dict[str, float | None]


def _our_memory(shape: _Shape) -> _Memory:
    """Measure a fresh process that computes two gradients on a grid: its peak memory and its growth by each."""
    return in_fresh_process(_MEMORY_CODE.format(shape=shape))


def _peer_memory(shape: _Shape) -> _Memory | None:
    """Measure the memory of PGMax as `_our_memory` does; None if PGMax is not installed."""
    peer = find_peer("pgmax")
    if peer is None:
        return None
    height, width, n_states, n_iter = shape
    memory: _Memory = {}
    with peer:
        _Labelled.of(height, width, n_states).hand_to(peer)
        process = peer.ask("memory")["bytes"]
        for name in ("first", "again"):
            before = peer.ask("forget")["bytes"]
            memory["seconds"] = peer.ask("differentiate", n_iter=n_iter)["seconds"]
            peak = peer.ask("memory")["bytes"]
            memory[name] = None if before is None else max(0, peak - before)  # the counters of the system are not exact
            process = max(process, peak)
    return memory | {"process": process}


def _memory(height: int, width: int, n_states: int, n_iter: int, *, goal: str) -> Row:
    """Measure by how much the first gradient makes a fresh process grow that has loaded its libraries and its model.

    During this gradient JAX compiles, and we load kernels from disk. Also reported: the growth that is due to Numba,
    which loads pages of LLVM with the first kernel of a process (JAX starts when it receives the model); the growth by
    a second gradient of the same size, which loads and compiles nothing; and the peak memory of the whole process, most
    of which is libraries on both sides.
    """
    shape = height, width, n_states, n_iter
    _our_memory((3, 3, n_states, n_iter))  # fills the kernel cache
    ours, theirs = _our_memory(shape), _peer_memory(shape) or {}
    return bench_row(
        f"{height}x{width}, {n_states} labels: memory of a gradient, {n_iter} sweeps",
        ours["seconds"] or 0.0,
        "PGMax differentiated by JAX",
        theirs.get("seconds"),
        comparison="same rule",
        stopping=f"{n_iter} sweeps each",
        wanted=goal,
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
    """Measure one gradient of the risk with one worker and with two, and the largest difference of the gradients.

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
    """Compare one worker with two in a fresh process, in which linear algebra is limited to one thread."""
    measurement = in_fresh_process(_WORKERS_CODE.format(arguments=(*_BATCH, repeats)))
    n_images, height, width = _BATCH
    return bench_row(
        f"{n_images} images of {height}x{width}, 2 labels: gradient of the risk, n_jobs=2",
        measurement["two"],
        "Intarsia, n_jobs=1",
        measurement["one"],
        comparison="ourselves",
        stopping="one gradient each",
        wanted="ratio >= 1.7",
        ours_quality=measurement["difference"],
        quality_is="largest difference between the two gradients",
        processors=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
    )
