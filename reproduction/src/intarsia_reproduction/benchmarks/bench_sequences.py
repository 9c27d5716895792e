"""Speed of chain models beside CRFsuite and pytorch-crf: marginals, global preferences, and training.

Marginals are judged against messages in logarithms and whole arrays: nothing of that is shared with what is timed.
Rows of global preferences compare parts of this program with each other and are timed by what the processor spent on
them, so that a busy machine favours neither.
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
from intarsia_reproduction.benchmarks.sequence_training import chunking_task, letters_task, train_in_threads, train_rows
from intarsia_reproduction.workloads.sequence_workloads import long_chain, words_to_infer

_AT_LEAST = 2.0  # seconds given to a comparison of short runs, so that some of them are undisturbed
_WORDS = 5000
_SENTENCES = 8936  # all
_BATCH = 6877
_CHAIN = 1000
_TILTED = 200  # positions of the chain with a global preference
_ITERATIONS = 20
_ERROR_IS = "largest error of a marginal, against a pass in logarithms"
_CALLS_ARE = "calls of the oracle per iteration"


def bench_sequences(repeats: int = 5, *, report: Report | None = None, rows: list[Row] | None = None) -> list[Row]:
    """Rows of `intarsia bench sequences`; takes several minutes.

    Every row has the keys of the contract, see `bench_inference`; what needs a peer that is not installed is None, and
    without the CoNLL-2000 files their rows are left out.

    Parameters
    ----------
    repeats : int
        Timed runs of each program, taking turns after a warm-up; the fastest counts. Fits to the end are run once.
    report : callable, optional
        Is told in a line what is being measured.
    rows : list, optional
        To add rows to as they are measured, so that Ctrl-C leaves them.
    """
    check_number(repeats, "bench: repeats", low=1, integer=True)
    tell: Report = report or (lambda line: None)
    rows = [] if rows is None else rows
    letters = letters_task(_WORDS)
    with one_processor():
        tell("marginals of many words")
        rows.append(_many_words(repeats))
        tell("marginals of one long chain")
        rows += _one_chain(repeats)
        tell("global preferences")
        rows += [_preferences_of_words(repeats), _preference_of_chain(repeats)]
        rows += train_rows(letters, repeats, tell)
        try:
            chunks = chunking_task(_SENTENCES)
        except MissingDataError as missing:
            tell(f"left out: {missing}")
        else:
            rows += train_rows(chunks, repeats, tell)
            tell(f"{chunks.name}: chunks found")
            rows.append(chunk_row(chunk_sentences()))
    tell(f"{letters.name}: two workers")
    rows.append(train_in_threads(letters, repeats))
    return rows


# ---------------------------------------------------------------- marginals


def reference_marginals(batch: ChainBatch) -> FloatArray:
    """Marginals of positions, by messages in logarithms, all sequences at once; for batches of moderate size.

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
        own = np.flatnonzero(lengths > t)
        at, table = starts[own] + t, _tables_into(batch, own, t)
        forward[at] += logsumexp(forward[at - 1][:, :, None] + table, axis=1)
    for t in range(longest - 1, 0, -1):
        own = np.flatnonzero(lengths > t)
        at, table = starts[own] + t, _tables_into(batch, own, t)
        backward[at - 1] = logsumexp(table + (batch.nodes[at] + backward[at])[:, None, :], axis=2)
    both = forward + backward
    return np.asarray(np.exp(both - logsumexp(both, axis=1, keepdims=True)), dtype=np.float64)


def _tables_into(batch: ChainBatch, sequences: IntArray, t: int) -> FloatArray:
    """Tables of the steps into position t of some sequences."""
    if batch.has_table_per_step:
        return batch.transitions[batch.ptr[sequences] + t - 1 - sequences]
    return batch.transitions[None]


def _error(found: FloatArray, batch: ChainBatch) -> float:
    return float(np.abs(found - reference_marginals(batch)).max())


def _many_words(repeats: int) -> Row:
    """Marginals, expected transitions and log Z of all words in one call."""
    batch = words_to_infer(_BATCH)

    def ours() -> float:  # with the checks of a new batch
        return seconds_of(lambda: chain_marginals(ChainBatch(batch.nodes, batch.ptr, batch.transitions)))

    timed: dict[str, Callable[[], float]] = {"ours": ours}
    more: Row = {}
    with ExitStack() as stack:
        peer = find_peer("pytorch_crf")
        if peer is not None:
            stack.enter_context(peer)
            more["peer_version"] = peer.load(nodes=batch.nodes, ptr=batch.ptr, transitions=batch.transitions)["version"]
            timed["peer"] = lambda: float(peer.ask("infer")["seconds"])
        best = fastest_in_turns(timed, repeats, _AT_LEAST)
        if peer is not None:
            more["peer_quality"] = _error(peer.fetch("marginals"), batch)
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
        **more,
    )


def _one_chain(repeats: int) -> list[Row]:
    """A chain with a table for each step, beside CRFsuite with a single one; then both with the same single one."""
    batch = long_chain(_CHAIN)

    def ours() -> float:
        return seconds_of(lambda: chain_marginals(ChainBatch(batch.nodes, batch.ptr, batch.transitions)))

    timed: dict[str, Callable[[], float]] = {"steps": ours}
    more: Row = {}
    with ExitStack() as stack:
        peer = find_peer("crfsuite")
        same = batch
        if peer is not None:
            stack.enter_context(peer)
            more["peer_version"] = peer.hand("chain", unary=batch.nodes)["version"]
            same = ChainBatch(batch.nodes, batch.ptr, peer.fetch("transitions"))
            timed["one table"] = lambda: seconds_of(lambda: chain_marginals(same))
            timed["peer"] = lambda: float(peer.ask("infer", all=True)["seconds"])
            timed["peer pass"] = lambda: float(peer.ask("infer", all=False)["seconds"])
        best = fastest_in_turns(timed, repeats, _AT_LEAST)
        if peer is not None:
            more["peer_quality"] = _error(peer.fetch("marginals"), same)
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
            **more,
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
                ours_quality=_error(chain_marginals(same).nodes, same),
                quality_is=_ERROR_IS,
                **more,
            )
        )
    return rows


# ---------------------------------------------------------------- a global preference


class _NotedTree(Tree):
    """The oracle, which notes what it is asked."""

    asked: ClassVar[list[Problem]] = []

    def run(self, problem: Problem) -> Answer:
        """Note and answer."""
        _NotedTree.asked.append(problem)
        return super().run(problem)


def _preferences_of_words(repeats: int) -> Row:
    """Many words at once, none of which ends before the others: the oracle is a pass over all of them."""
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
    """One chain through `infer`, whose oracle is that of any tree."""
    batch = long_chain(_TILTED)
    graph = chain_graph(batch.n_positions, batch.n_labels)
    theta = graph.pack(batch.nodes, batch.transitions)
    energy = MeasuredEnergy(Count(0), Squared(1.0), psi=10.0)

    def search(oracle: Tree) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # so many iterations are asked for
            infer(graph, theta, BetheRDA(energy=energy, oracle=oracle, max_iter=_ITERATIONS, tol=0.0))

    _NotedTree.asked.clear()
    search(_NotedTree())
    calls = len(_NotedTree.asked)
    alone = replace(_NotedTree.asked[0], repeated=None)  # without what one call leaves to the next

    def ours() -> float:
        return processor_seconds(lambda: search(Tree())) / calls

    best = fastest_in_turns(
        {"ours": ours, "oracle": lambda: processor_seconds(lambda: Tree().run(alone))}, repeats, _AT_LEAST
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
