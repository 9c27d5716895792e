"""Training of chain models beside CRFsuite, to the same objective on the same features.

The objective is judged by a formula of its own, in logarithms and whole arrays, at the weights that either side found:
nothing of it is shared with what is timed.
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
from intarsia_reproduction.benchmarks.measurement import Report, Row, bench_row, fastest_in_turns
from intarsia_reproduction.benchmarks.peers import Peer, find_peer
from intarsia_reproduction.datasets.tagged_text import load_conll2000
from intarsia_reproduction.workloads.sequence_workloads import words_to_learn

C2 = 1.0
CLOSE = 1e-6  # relative distance from the lowest objective at which a fit has arrived
_STEPS = 10  # iterations of a fit whose seconds per iteration are told
_MOST = 1000  # iterations of a fit to the end, at most
# Gradients at which fits to the end are ended, far closer to the minimum than `CLOSE`: CRFsuite's is the norm relative
# to that of the weights, ours the largest entry per position.
_TIGHT, _OUR_TIGHT = 5e-4, 3e-8
_OBJECTIVE_IS = "objective at the weights found, by a formula of its own"
_PEER = "CRFsuite"


@dataclass(frozen=True, eq=False)
class TrainingTask:
    """Labelled sequences, and what is wanted of a fit to them.

    Attributes
    ----------
    name : str
        What they are.
    examples : ChainExamples
        Data, labels, and which weights there are; no scores of first and last labels, which CRFsuite does not have.
    wanted, wanted_in_threads : float
        How many times faster than CRFsuite we mean to be, with one thread and with two.
    """

    name: str
    examples: ChainExamples
    wanted: float
    wanted_in_threads: float

    def fit(self, max_iter: int, tol: float, n_jobs: int = 1) -> Minimum:
        """Fit from 0."""
        learner = MaximumLikelihood(l2=2.0 * C2, n_jobs=n_jobs, optimizer=LBFGS(max_iter=max_iter, tol=tol))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # so many iterations are asked for
            return learner.minimize(self.examples, np.zeros(self.examples.layout.n_weights))

    def hand_to(self, peer: Peer) -> dict[str, Any]:
        """Give the peer the same features and labels."""
        data = self.examples.data
        rows = sparse.csr_array(data.matrix)
        return peer.load(
            row_ptr=rows.indptr,
            columns=rows.indices,
            ptr=data.ptr,
            labels=self.examples.truth.states,
            every_pair=self.examples.layout.pair_label is None,
        )

    def objective(self, states: FloatArray, transitions: FloatArray) -> float:
        """Negative log-likelihood + c2 times the squared weights, as CRFsuite and we minimise it.

        `states` are weights (n_features, n_labels). All sequences at once, position by position.
        """
        data, labels = self.examples.data, self.examples.truth.states
        scores = np.asarray(data.matrix @ states)
        size = float((states * states).sum() + (transitions * transitions).sum())
        own = scores[np.arange(labels.size), labels].sum()
        later = np.ones(labels.size, dtype=bool)
        later[data.ptr[:-1]] = False
        own += transitions[labels[:-1][later[1:]], labels[later]].sum()
        alpha = scores[data.ptr[:-1]]
        for t in range(1, int(data.lengths.max())):
            longer = np.flatnonzero(data.lengths > t)
            into = logsumexp(alpha[longer][:, :, None] + transitions, axis=1)
            alpha[longer] = into + scores[data.ptr[longer] + t]
        return float(logsumexp(alpha, axis=1).sum() - own + C2 * size)


def letters_task(n_words: int) -> TrainingTask:
    """Words of binary pictures of letters, dense features with weights for all labels."""
    made = words_to_learn(n_words)
    pictures = np.split(made.pixels.astype(np.float64), made.ptr[1:-1])
    examples = _examples(pictures, np.split(made.labels, made.ptr[1:-1]), "all")
    return TrainingTask(f"{n_words} words of letters, 128 binary features", examples, 2.0, 4.0)


def chunking_task(n_sentences: int) -> TrainingTask:
    """Sentences of CoNLL-2000 with ordinary features of words, weights for the labels that occur with them.

    Raises
    ------
    MissingDataError
        The files are not there.
    """
    train = load_conll2000().train
    words, tags, pos = train.words[:n_sentences], train.tags[:n_sentences], train.pos or []
    features = [token_features(*pair) for pair in zip(words, pos[:n_sentences], strict=True)]
    examples = _examples(features, tags, "observed")
    return TrainingTask(f"CoNLL-2000, {len(words)} sentences, features of words", examples, 2.0, 2.0)


def _examples(X: Any, y: Any, weights: str) -> ChainExamples:
    crf = ChainCRF(weights=weights, ends=False)
    return prepare_fit(crf, X, y, None, None, None, None).examples


def train_rows(task: TrainingTask, repeats: int, tell: Report) -> list[Row]:
    """Seconds of an iteration in turns, then seconds until the objective is the lowest of both within `CLOSE`."""
    with ExitStack() as stack:
        peer = _start(task, stack)
        tell(f"{task.name}: iterations")
        rows = [_iterations(task, peer, repeats, 1, task.wanted)]
        tell(f"{task.name}: to the end")
        rows.append(_to_the_end(task, peer))
    return rows


def train_in_threads(task: TrainingTask, repeats: int) -> Row:
    """Seconds of an iteration with two threads."""
    with ExitStack() as stack:
        return _iterations(task, _start(task, stack), repeats, 2, task.wanted_in_threads)


def _start(task: TrainingTask, stack: ExitStack) -> Peer | None:
    peer = find_peer("crfsuite")
    if peer is not None:
        stack.enter_context(peer)
        task.hand_to(peer)
    return peer


def _iterations(task: TrainingTask, peer: Peer | None, repeats: int, n_jobs: int, wanted: float) -> Row:
    """Of the iterations after the first, in which line searches differ."""
    evaluations = {}

    def ours() -> float:
        history = task.fit(_STEPS, 0.0, n_jobs).history
        evaluations["ours"] = float(history["evaluations"][-1] - history["evaluations"][1])
        return float(history["seconds"][-1] - history["seconds"][1]) / (_STEPS - 1)

    def theirs() -> float:
        found = peer.ask("train", c2=C2, max_iterations=_STEPS, epsilon=1e-12) if peer is not None else {}
        evaluations["peer"] = float(sum(found["evaluations"][1:]))
        return float(found["seconds"][-1] - found["seconds"][0]) / (_STEPS - 1)

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
        wanted=f"ratio >= {wanted:g}",
        ours_evaluations=evaluations["ours"] / (_STEPS - 1),
        peer_evaluations=evaluations["peer"] / (_STEPS - 1) if "peer" in evaluations else None,
        n_weights=task.examples.layout.n_weights,
        processors=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
    )


def _to_the_end(task: TrainingTask, peer: Peer | None) -> Row:
    """Both are run beyond what is asked, and timed where they first are as low as the lower of them, within `CLOSE`."""
    layout, mass = task.examples.layout, task.examples.mass
    theirs = None
    if peer is not None:
        theirs = peer.ask("train", c2=C2, max_iterations=_MOST, epsilon=_TIGHT)
    ours = task.fit(_MOST, _OUR_TIGHT)
    losses = ours.history["risk"] * mass
    lowest = min(losses.min(), min(theirs["losses"]) if theirs is not None else np.inf)
    mine = _arrival(losses, lowest)
    weights = layout.unpack(ours.point)
    more: Row = {}
    seconds = arrived = None
    if peer is not None and theirs is not None:
        at = _arrival(np.array(theirs["losses"]), lowest)
        feature, label, weight = peer.fetch("weights").T
        states = np.zeros((layout.n_features, layout.n_labels))
        states[feature.astype(int), label.astype(int)] = weight
        seconds, arrived = theirs["seconds"][at], bool(theirs["losses"][at] <= lowest * (1.0 + CLOSE))
        more = {
            "peer_quality": task.objective(states, peer.fetch("transitions")),
            "peer_iterations": at + 1,
            "peer_excess": theirs["losses"][at] / lowest - 1.0,
        }
    return bench_row(
        f"{task.name}: to the lowest objective within {CLOSE:g}",
        float(ours.history["seconds"][mine]),
        _PEER,
        seconds,
        comparison="same rule",
        stopping=f"objective within {CLOSE:g} of the lowest of both",
        peer_finished=arrived,
        wanted=f"ratio >= {task.wanted:g}",
        ours_quality=task.objective(layout.state_matrix(ours.point), weights.transitions),
        quality_is=_OBJECTIVE_IS,
        ours_iterations=mine,
        ours_excess=losses[mine] / lowest - 1.0,
        **more,
    )


def _arrival(losses: FloatArray, lowest: float) -> int:
    """Where they first are as low as that within `CLOSE`; the last, if they never are."""
    low = np.flatnonzero(losses <= lowest * (1.0 + CLOSE))
    return int(low[0]) if low.size else len(losses) - 1
