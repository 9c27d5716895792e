"""`intarsia bench sequences`: chain models, compared with CRFsuite and pytorch-crf.

Marginals, global preferences (energies) and training are measured. Marginals are compared with those of separate code,
in logarithms on whole arrays, which shares nothing with the code that is timed. Rows of global preferences compare two
steps of our own algorithm; they are timed in processor seconds, so that other processes do not distort the comparison.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import ClassVar

import numpy as np
from scipy.special import logsumexp

from intarsia._core.validation import FloatArray, IntArray, check_number
from intarsia.energies import Count, MeasuredEnergy, Squared
from intarsia.energies.binding.batch_energies import ChainEnergies
from intarsia.exceptions import ConvergenceWarning, MissingDataError
from intarsia.graph import chain_graph
from intarsia.graph.chains import ChainBatch
from intarsia.inference import infer
from intarsia.inference.chains.bethe_chains import by_length, project_chains
from intarsia.inference.chains.chain_inference import chain_marginals
from intarsia.inference.exact.tree import Tree
from intarsia.inference.method import Answer, Problem
from intarsia.inference.projection.bethe_rda import BetheRDA
from intarsia_reproduction.benchmarks.chunk_quality import chunk_row, chunk_sentences
from intarsia_reproduction.benchmarks.measurement import (
    Report,
    Row,
    bench_row,
    fastest_in_turns,
    one_processor,
    processor_seconds,
    seconds_of,
)
from intarsia_reproduction.benchmarks.peers import find_peer
from intarsia_reproduction.benchmarks.sequence_training import (
    chunking_task,
    l1_row,
    letters_task,
    train_in_threads,
    train_rows,
)
from intarsia_reproduction.workloads.sequence_workloads import long_chain, words_to_infer

_AT_LEAST = 2.0  # seconds over which short runs are repeated, so that some of them are undisturbed
_WORDS = 5000
_SENTENCES = 8936  # all
_L1_SENTENCES = 1060  # with 82,233 features
_BATCH = 6877
_CHAIN = 1000
_PREFERENCE_CHAIN = 200  # length of the chain with a global preference
_ITERATIONS = 20
_ERROR_IS = "largest error of a marginal, against a pass in logarithms"
_CALLS_ARE = "calls of the oracle per iteration"


def bench_sequences(repeats: int = 5, *, report: Report | None = None, rows: list[Row] | None = None) -> list[Row]:
    """Measure the rows of `intarsia bench sequences`; takes several minutes.

    Every row has the keys that `bench_inference` describes; values of a peer that is not installed are None, and
    without the CoNLL-2000 files their rows are omitted.

    Parameters
    ----------
    repeats : int
        Number of timed runs of each program, in turns after a warm-up; the fastest counts. Fits to convergence are run
        once.
    report : callable, optional
        Called with one line of text before each measurement.
    rows : list, optional
        List to which each row is appended once it is measured, so that Ctrl-C keeps the finished rows.
    """
    check_number(repeats, "bench: repeats", low=1, integer=True)
    log: Report = report or (lambda line: None)
    rows = [] if rows is None else rows
    letters = letters_task(_WORDS)
    with one_processor():
        log("marginals of many words")
        rows.append(_many_words(repeats))
        log("marginals of one long chain")
        rows += _one_chain(repeats)
        log("global preferences")
        rows += [_preferences_of_words(repeats), _preference_of_chain(repeats)]
        rows += train_rows(letters, repeats, log)
        try:
            chunks = chunking_task(_SENTENCES)
        except MissingDataError as missing:
            log(f"omitted: {missing}")
        else:
            rows += train_rows(chunks, repeats, log)
            log(f"{chunks.name}: F1 of chunks")
            rows.append(chunk_row(chunk_sentences()))
            log("L1 training")
            rows.append(l1_row(chunking_task(_L1_SENTENCES)))
    log(f"{letters.name}: two workers")
    rows.append(train_in_threads(letters, repeats))
    return rows


# ---------------------------------------------------------------- marginals


def reference_marginals(batch: ChainBatch) -> FloatArray:
    """Return the marginals of all positions, computed with log messages for all sequences at once.

    Examples
    --------
    Labellings 00, 01, 10, 11 of two positions have weights 2, 1, 3, 6:

    >>> batch = ChainBatch(np.log([[1, 3], [1, 1]]), [0, 2], np.log([[2, 1], [1, 2]]))
    >>> (12 * reference_marginals(batch)).round(12)
    array([[3., 9.],
           [5., 7.]])
    """
    lengths, starts = np.diff(batch.ptr), batch.ptr[:-1]
    forward, backward = batch.nodes.copy(), np.zeros_like(batch.nodes)
    longest = int(lengths.max(initial=0))
    for t in range(1, longest):
        longer = np.flatnonzero(lengths > t)
        positions, table = starts[longer] + t, _tables_into(batch, longer, t)
        forward[positions] += logsumexp(forward[positions - 1][:, :, None] + table, axis=1)
    for t in range(longest - 1, 0, -1):
        longer = np.flatnonzero(lengths > t)
        positions, table = starts[longer] + t, _tables_into(batch, longer, t)
        backward[positions - 1] = logsumexp(table + (batch.nodes[positions] + backward[positions])[:, None, :], axis=2)
    log_marginals = forward + backward
    return np.asarray(np.exp(log_marginals - logsumexp(log_marginals, axis=1, keepdims=True)), dtype=np.float64)


def _tables_into(batch: ChainBatch, sequences: IntArray, t: int) -> FloatArray:
    """Return the transition tables of the steps into position t of the given sequences."""
    if batch.has_table_per_step:
        return batch.transitions[batch.ptr[sequences] + t - 1 - sequences]
    return batch.transitions[None]


def _error(marginals: FloatArray, batch: ChainBatch) -> float:
    return float(np.abs(marginals - reference_marginals(batch)).max())


def _many_words(repeats: int) -> Row:
    """Measure marginals, expected transitions and log Z of all words in one call."""
    batch = words_to_infer(_BATCH)

    def ours() -> float:  # includes the validation of a new batch
        return seconds_of(lambda: chain_marginals(ChainBatch(batch.nodes, batch.ptr, batch.transitions)))

    timed: dict[str, Callable[[], float]] = {"ours": ours}
    peer_fields: Row = {}
    with ExitStack() as stack:
        peer = find_peer("pytorch_crf")
        if peer is not None:
            stack.enter_context(peer)
            peer_fields["peer_version"] = peer.load(nodes=batch.nodes, ptr=batch.ptr, transitions=batch.transitions)[
                "version"
            ]
            timed["peer"] = lambda: float(peer.ask("infer")["seconds"])
        best = fastest_in_turns(timed, repeats, _AT_LEAST)
        if peer is not None:
            peer_fields["peer_quality"] = _error(peer.fetch("marginals"), batch)
    return bench_row(
        f"{batch.n_sequences} words x {batch.n_labels} labels: marginals and log Z",
        best["ours"],
        "pytorch-crf with autograd, float32",
        best.get("peer"),
        comparison="same rule",
        stopping="exact marginals",
        wanted="ratio >= 5",
        ours_quality=_error(chain_marginals(batch).nodes, batch),
        quality_is=_ERROR_IS,
        **peer_fields,
    )


def _one_chain(repeats: int) -> list[Row]:
    """Measure a chain with a table for each step (CRFsuite has one for all steps), then both with the same table."""
    batch = long_chain(_CHAIN)

    def ours() -> float:
        return seconds_of(lambda: chain_marginals(ChainBatch(batch.nodes, batch.ptr, batch.transitions)))

    timed: dict[str, Callable[[], float]] = {"steps": ours}
    peer_fields: Row = {}
    with ExitStack() as stack:
        peer = find_peer("crfsuite")
        shared_batch = batch
        if peer is not None:
            stack.enter_context(peer)
            peer_fields["peer_version"] = peer.hand("chain", unary=batch.nodes)["version"]
            shared_batch = ChainBatch(batch.nodes, batch.ptr, peer.fetch("transitions"))
            timed["one table"] = lambda: seconds_of(lambda: chain_marginals(shared_batch))
            timed["peer"] = lambda: float(peer.ask("infer", all=True)["seconds"])
            timed["peer pass"] = lambda: float(peer.ask("infer", all=False)["seconds"])
        best = fastest_in_turns(timed, repeats, _AT_LEAST)
        if peer is not None:
            peer_fields["peer_quality"] = _error(peer.fetch("marginals"), shared_batch)
    name = f"chain of {batch.n_positions} x {batch.n_labels} labels"
    rows = [
        bench_row(
            f"{name}, a table per step: all marginals, log Z",
            best["steps"],
            "CRFsuite with one table",
            best.get("peer"),
            comparison="own rules",
            stopping="exact marginals, but of different models: CRFsuite has one table for all steps",
            wanted="ratio >= 3",
            ours_quality=_error(chain_marginals(batch).nodes, batch),
            quality_is=_ERROR_IS,
            **peer_fields,
        )
    ]
    if "peer" in best:
        rows.append(
            bench_row(
                f"{name}, one table for both: all marginals, log Z",
                best["one table"],
                "CRFsuite, messages alone",
                best["peer pass"],
                comparison="same rule",
                stopping="exact log Z; ours also reads all marginals",
                ours_quality=_error(chain_marginals(shared_batch).nodes, shared_batch),
                quality_is=_ERROR_IS,
                **peer_fields,
            )
        )
    return rows


# ---------------------------------------------------------------- a global preference


class _RecordingTree(Tree):
    """Inference oracle that records the problems it solves."""

    problems: ClassVar[list[Problem]] = []

    def run(self, problem: Problem) -> Answer:
        """Record the problem and solve it."""
        _RecordingTree.problems.append(problem)
        return super().run(problem)


def _preferences_of_words(repeats: int) -> Row:
    """Measure a global preference on many words of equal length, whose oracle is one pass over all of them."""
    words = words_to_infer(_BATCH)
    batch = words.subset(by_length(words.ptr)[0])
    longest = int(np.diff(batch.ptr).max())
    energies = ChainEnergies(MeasuredEnergy(Count(0), Squared(1.0)), list(range(batch.n_labels)), longest)
    method, psi = BetheRDA(max_iter=_ITERATIONS, tol=0.0), np.full((batch.n_sequences, 1), 10.0)
    calls: list[int] = []

    def oracle() -> float:
        return processor_seconds(
            lambda: chain_marginals(ChainBatch(batch.nodes, batch.ptr, batch.transitions), transitions=None)
        )

    def ours() -> float:
        return processor_seconds(lambda: calls.append(project_chains(batch, energies, psi, method).n_calls)) / calls[-1]

    best = fastest_in_turns({"ours": ours, "oracle": oracle}, repeats, _AT_LEAST)
    return bench_row(
        f"{batch.n_sequences} words x {batch.n_labels} labels: bethe_rda, by call of the oracle",
        best["ours"],
        "a call of its oracle",
        best["oracle"],
        comparison="ourselves",
        stopping="one call of the oracle",
        wanted="ratio >= 0.833",
        ours_quality=calls[-1] / _ITERATIONS,
        quality_is=_CALLS_ARE,
    )


def _preference_of_chain(repeats: int) -> Row:
    """Measure a global preference on one chain with `infer`, whose oracle is exact inference on trees."""
    batch = long_chain(_PREFERENCE_CHAIN)
    graph = chain_graph(batch.n_positions, batch.n_labels)
    theta = graph.pack(batch.nodes, batch.transitions)
    energy = MeasuredEnergy(Count(0), Squared(1.0), psi=10.0)

    def search(oracle: Tree) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the number of iterations is fixed
            infer(graph, theta, BetheRDA(energy=energy, oracle=oracle, max_iter=_ITERATIONS, tol=0.0))

    _RecordingTree.problems.clear()
    search(_RecordingTree())
    calls = len(_RecordingTree.problems)
    problem = replace(_RecordingTree.problems[0], repeated=None)  # without the state that one call leaves to the next

    def ours() -> float:
        return processor_seconds(lambda: search(Tree())) / calls

    best = fastest_in_turns(
        {"ours": ours, "oracle": lambda: processor_seconds(lambda: Tree().run(problem))}, repeats, _AT_LEAST
    )
    return bench_row(
        f"chain of {batch.n_positions} x {batch.n_labels} labels: bethe_rda, by call of the oracle",
        best["ours"],
        "a call of its oracle",
        best["oracle"],
        comparison="ourselves",
        stopping="one call of the oracle",
        wanted="ratio >= 0.833",
        ours_quality=calls / _ITERATIONS,
        quality_is=_CALLS_ARE,
    )
