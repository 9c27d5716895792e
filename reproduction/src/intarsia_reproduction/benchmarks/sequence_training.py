"""Training of chain models (linear-chain CRFs), compared with CRFsuite: same features, same objective.

The objective at the weights of both sides is computed by separate code, in logarithms on whole arrays, which shares
nothing with the code that is timed.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import logsumexp

from intarsia._core.validation import FloatArray
from intarsia.exceptions import ConvergenceWarning
from intarsia.learning import LBFGS, Minimum
from intarsia.models.tokens import token_features
from intarsia.sequences import ChainCRF, MaximumLikelihood
from intarsia.sequences.chain_data import ChainExamples
from intarsia.sequences.chain_learner import prepare_fit
from intarsia_reproduction.benchmarks.measurement import Report, Row, bench_row, fastest_in_turns, processor_seconds
from intarsia_reproduction.benchmarks.peers import Peer, find_peer
from intarsia_reproduction.datasets.tagged_text import load_conll2000
from intarsia_reproduction.workloads.sequence_workloads import words_to_learn

C1 = C2 = 1.0  # coefficients of the L1 and the L2 penalty
CLOSE = 1e-6  # relative distance from the lowest objective at which the time of a fit is taken
_STEPS = 10  # iterations of a fit whose seconds per iteration are reported
_MAX_ITERATIONS = 1000  # maximum number of iterations of a fit to convergence
# Gradients at which fits to convergence stop, far closer to the minimum than `CLOSE`: for CRFsuite the norm relative to
# the norm of the weights, for us the largest entry per position.
_PEER_TOL, _OUR_TOL = 5e-4, 3e-8
# Stopping rule of CRFsuite for OWL-QN, which is its default: relative gradient, or relative decrease in 10 iterations.
_L1_TOL = 1e-5
_OBJECTIVE_IS = "objective at the weights found, by a formula of its own"
_PEER = "CRFsuite"


@dataclass(frozen=True, eq=False)
class TrainingTask:
    """Labelled sequences to train on, and the required speed.

    Attributes
    ----------
    name : str
        Description of the sequences.
    examples : ChainExamples
        Data, labels and layout of the weights; without scores of first and last labels, which CRFsuite does not have.
    required_ratio, required_ratio_in_threads : float
        Required ratio of CRFsuite's seconds to ours, with one thread and with two.
    """

    name: str
    examples: ChainExamples
    required_ratio: float
    required_ratio_in_threads: float

    def fit(self, max_iter: int, tol: float, n_jobs: int = 1) -> Minimum:
        """Fit the weights, starting from 0."""
        learner = MaximumLikelihood(l2=2.0 * C2, n_jobs=n_jobs, optimizer=LBFGS(max_iter=max_iter, tol=tol))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the number of iterations is fixed
            return learner.minimize(self.examples, np.zeros(self.examples.layout.n_weights))

    def send_to(self, peer: Peer) -> dict[str, Any]:
        """Send the features and labels to the peer."""
        data = self.examples.data
        rows = sparse.csr_array(data.matrix)
        return peer.load(
            row_ptr=rows.indptr,
            columns=rows.indices,
            ptr=data.ptr,
            labels=self.examples.truth.states,
            every_pair=self.examples.layout.pair_label is None,
        )

    def objective(self, states: FloatArray, transitions: FloatArray, c1: float = 0.0, c2: float = C2) -> float:
        """Return the negative log-likelihood + c1 * sum(abs(w)) + c2 * sum(w**2), which both programs minimize.

        `states` are weights (n_features, n_labels). All sequences are processed at once, position by position.
        """
        data, labels = self.examples.data, self.examples.truth.states
        scores = np.asarray(data.matrix @ states)
        penalty = sum(c1 * float(np.abs(w).sum()) + c2 * float((w * w).sum()) for w in (states, transitions))
        score = scores[np.arange(labels.size), labels].sum()
        has_previous = np.ones(labels.size, dtype=bool)
        has_previous[data.ptr[:-1]] = False
        score += transitions[labels[:-1][has_previous[1:]], labels[has_previous]].sum()
        alpha = scores[data.ptr[:-1]]
        for t in range(1, int(data.lengths.max())):
            longer = np.flatnonzero(data.lengths > t)
            incoming = logsumexp(alpha[longer][:, :, None] + transitions, axis=1)
            alpha[longer] = incoming + scores[data.ptr[longer] + t]
        return float(logsumexp(alpha, axis=1).sum() - score + penalty)


def letters_task(n_words: int) -> TrainingTask:
    """Return the task of words of binary letter images: dense features, with weights for all labels."""
    words = words_to_learn(n_words)
    pictures = np.split(words.pixels.astype(np.float64), words.ptr[1:-1])
    examples = _examples(pictures, np.split(words.labels, words.ptr[1:-1]), "all")
    return TrainingTask(f"{n_words} words of letters, 128 binary features", examples, 2.0, 4.0)


def chunking_task(n_sentences: int) -> TrainingTask:
    """Return the task of CoNLL-2000 sentences: word features, with weights for the labels that occur with them.

    Raises
    ------
    MissingDataError
        The files are missing.
    """
    train = load_conll2000().train
    words, tags, pos = train.words[:n_sentences], train.tags[:n_sentences], train.pos or []
    features = [token_features(*pair) for pair in zip(words, pos[:n_sentences], strict=True)]
    examples = _examples(features, tags, "observed")
    return TrainingTask(f"CoNLL-2000, {len(words)} sentences, features of words", examples, 2.0, 2.0)


def _examples(X: Any, y: Any, weights: str) -> ChainExamples:
    crf = ChainCRF(weights=weights, ends=False)
    return prepare_fit(crf, X, y, None, None, None, None).examples


def train_rows(task: TrainingTask, repeats: int, log: Report) -> list[Row]:
    """Measure the seconds per iteration, then the seconds until the objective is within `CLOSE` of the lowest."""
    with ExitStack() as stack:
        peer = _start(task, stack)
        log(f"{task.name}: iterations")
        rows = [_iterations(task, peer, repeats, 1, task.required_ratio)]
        log(f"{task.name}: to convergence")
        rows.append(_to_lowest_objective(task, peer))
    return rows


def train_in_threads(task: TrainingTask, repeats: int) -> Row:
    """Measure the seconds per iteration with two threads."""
    with ExitStack() as stack:
        return _iterations(task, _start(task, stack), repeats, 2, task.required_ratio_in_threads)


def _start(task: TrainingTask, stack: ExitStack) -> Peer | None:
    peer = find_peer("crfsuite")
    if peer is not None:
        stack.enter_context(peer)
        task.send_to(peer)
    return peer


def _iterations(task: TrainingTask, peer: Peer | None, repeats: int, n_jobs: int, required_ratio: float) -> Row:
    """Measure the seconds per iteration; the first iteration, whose line searches differ, does not count."""
    evaluations = {}

    def ours() -> float:
        history = task.fit(_STEPS, 0.0, n_jobs).history
        evaluations["ours"] = float(history["evaluations"][-1] - history["evaluations"][1])
        return float(history["seconds"][-1] - history["seconds"][1]) / (_STEPS - 1)

    def theirs() -> float:
        training = peer.ask("train", c2=C2, max_iterations=_STEPS, epsilon=1e-12) if peer is not None else {}
        evaluations["peer"] = float(sum(training["evaluations"][1:]))
        return float(training["seconds"][-1] - training["seconds"][0]) / (_STEPS - 1)

    timed: dict[str, Callable[[], float]] = {"ours": ours}
    if peer is not None:
        timed["peer"] = theirs
    best = fastest_in_turns(timed, repeats)
    return bench_row(
        f"{task.name}: an iteration of L-BFGS{', n_jobs=2' if n_jobs == 2 else ''}",
        best["ours"],
        _PEER,
        best.get("peer"),
        comparison="same rule",
        stopping=f"{_STEPS} iterations each",
        wanted=f"ratio >= {required_ratio:g}",
        ours_evaluations=evaluations["ours"] / (_STEPS - 1),
        peer_evaluations=evaluations["peer"] / (_STEPS - 1) if "peer" in evaluations else None,
        n_weights=task.examples.layout.n_weights,
        processors=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
    )


def _to_lowest_objective(task: TrainingTask, peer: Peer | None) -> Row:
    """Run both to convergence; the time of each ends when it first is within `CLOSE` of the lowest objective."""
    layout, mass = task.examples.layout, task.examples.mass
    training = None
    if peer is not None:
        training = peer.ask("train", c2=C2, max_iterations=_MAX_ITERATIONS, epsilon=_PEER_TOL)
    ours = task.fit(_MAX_ITERATIONS, _OUR_TOL)
    losses = ours.history["risk"] * mass
    lowest = min(losses.min(), min(training["losses"]) if training is not None else np.inf)
    our_iteration = _arrival(losses, lowest)
    weights = layout.unpack(ours.point)
    peer_fields: Row = {}
    seconds = is_close = None
    if peer is not None and training is not None:
        peer_iteration = _arrival(np.array(training["losses"]), lowest)
        seconds, is_close = (
            training["seconds"][peer_iteration],
            bool(training["losses"][peer_iteration] <= lowest * (1.0 + CLOSE)),
        )
        peer_fields = {
            "peer_quality": task.objective(*_peer_weights(task, peer)),
            "peer_iterations": peer_iteration + 1,
            "peer_excess": training["losses"][peer_iteration] / lowest - 1.0,
        }
    return bench_row(
        f"{task.name}: to the lowest objective within {CLOSE:g}",
        float(ours.history["seconds"][our_iteration]),
        _PEER,
        seconds,
        comparison="same rule",
        stopping=f"objective within {CLOSE:g} of the lowest of both",
        peer_finished=is_close,
        wanted=f"ratio >= {task.required_ratio:g}",
        ours_quality=task.objective(layout.state_matrix(ours.point), weights.transitions),
        quality_is=_OBJECTIVE_IS,
        ours_iterations=our_iteration,
        ours_excess=losses[our_iteration] / lowest - 1.0,
        **peer_fields,
    )


def l1_row(task: TrainingTask) -> Row:
    """Measure the processor seconds of fits with an L1 penalty alone, each program to its default convergence."""
    layout = task.examples.layout
    learner = MaximumLikelihood(l1=C1, l2=0.0, n_jobs=1)
    fits: list[Minimum] = []
    with ExitStack() as stack:
        peer = _start(task, stack)
        timed: dict[str, Callable[[], float]] = {
            "ours": lambda: processor_seconds(
                lambda: fits.append(learner.minimize(task.examples, np.zeros(layout.n_weights)))
            )
        }
        training: dict[str, Any] = {}
        if peer is not None:

            def theirs() -> float:
                settings = {"c1": C1, "c2": 0.0, "max_iterations": _MAX_ITERATIONS}
                training.update(peer.ask("train", **settings, epsilon=_L1_TOL, delta=_L1_TOL))
                return float(training["processor_seconds"])

            timed["peer"] = theirs
        best = fastest_in_turns(timed, 1)
        peer_fields: Row = {}
        if peer is not None:
            states, transitions = _peer_weights(task, peer)
            peer_fields = {
                "peer_quality": task.objective(states, transitions, C1, 0.0),
                "peer_iterations": len(training["losses"]),
                "peer_nonzero": int(np.count_nonzero(states) + np.count_nonzero(transitions)),
            }
    point = fits[-1].point
    return bench_row(
        f"{task.name}: L1 training on {layout.n_features} features, processor seconds",
        best["ours"],
        f"{_PEER}, OWL-QN",
        best.get("peer"),
        comparison="own rules",
        stopping="each to its default convergence",
        ours_quality=task.objective(layout.state_matrix(point), layout.unpack(point).transitions, C1, 0.0),
        quality_is=_OBJECTIVE_IS,
        ours_iterations=fits[-1].n_iter,
        ours_nonzero=int(np.count_nonzero(point)),
        ours_status=fits[-1].status.name,
        **peer_fields,
    )


def _peer_weights(task: TrainingTask, peer: Peer) -> tuple[FloatArray, FloatArray]:
    """Return the weights of features (n_features, n_labels) and of transitions of the last model of the peer."""
    feature, label, weight = peer.fetch("weights").T
    states = np.zeros((task.examples.layout.n_features, task.examples.layout.n_labels))
    states[feature.astype(int), label.astype(int)] = weight
    return states, peer.fetch("transitions")


def _arrival(losses: FloatArray, lowest: float) -> int:
    """Return the first iteration whose loss is within `CLOSE` of the lowest; the last iteration if there is none."""
    low = np.flatnonzero(losses <= lowest * (1.0 + CLOSE))
    return int(low[0]) if low.size else len(losses) - 1
