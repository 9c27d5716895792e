"""`intarsia bench serving`: sentences tagged one at a time, and the start of a process that only tags.

Both sides have the same weights: CRFsuite reads the model that `write_crfsuite_model` writes. Both get the sentences as
lists of lists of strings.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from intarsia._core.validation import check_number
from intarsia._files.atomic_file import run_program, temporary_folder, write_text
from intarsia.models.tokens import token_features
from intarsia.sequences import ChainCRF, load_tagger, write_crfsuite_model
from intarsia_reproduction.benchmarks.measurement import (
    ONE_THREAD,
    Report,
    Row,
    bench_row,
    fastest_in_turns,
    in_fresh_process,
    one_processor,
)
from intarsia_reproduction.benchmarks.peers import Peer, find_peer
from intarsia_reproduction.datasets.tagged_text import load_conll2000

_PEER = "CRFsuite"
_SIZES = (500, 4000)  # training sentences of a small and of a large model
_N_TEST = 300
_EQUAL = "fraction of sentences with the labels of ChainCRF.predict"
_MEMORY = "peak memory of the process, MB"
_END = """
import json, time
seconds = time.process_time()
status = open("/proc/self/status").read()
print(json.dumps({"seconds": seconds, "megabytes": int(status.split("VmHWM:")[1].split()[0]) / 1024}))
"""
_OUR_START = "from intarsia.sequences import load_tagger\nload_tagger({model!r}).predict_single({x!r})\n"
_PEER_START = "import pycrfsuite\ntagger = pycrfsuite.Tagger()\ntagger.open({model!r})\ntagger.tag({x!r})\n"


def bench_serving(repeats: int = 5, *, report: Report | None = None, rows: list[Row] | None = None) -> list[Row]:
    """Measure the rows of `intarsia bench serving`; takes a minute and needs the CoNLL-2000 files.

    Parameters
    ----------
    repeats : int
        Number of timed runs of each program, in turns after a warm-up; the fastest counts.
    report : callable, optional
        Called with one line of text before each measurement.
    rows : list, optional
        List to which each row is appended once it is measured.
    """
    check_number(repeats, "bench: repeats", low=1, integer=True)
    log: Report = report or (lambda line: None)
    rows = [] if rows is None else rows
    sentences = load_conll2000()
    X, X_test = (
        [token_features(*columns) for columns in zip(subset.words[:n], (subset.pos or [])[:n], strict=True)]
        for subset, n in ((sentences.train, max(_SIZES)), (sentences.test, _N_TEST))
    )
    with temporary_folder() as folder, one_processor(), ExitStack() as stack:
        peer = find_peer("crfsuite")
        if peer is not None:
            stack.enter_context(peer)
        for size in _SIZES:
            log(f"a model of {size} sentences")
            crf = ChainCRF(l2=1.0, ends=False).fit(X[:size], sentences.train.tags[:size])
            paths = Path(folder, f"{size}.npz"), Path(folder, f"{size}.crfsuite")
            crf.save(paths[0])
            write_crfsuite_model(paths[1], crf)
            name = f"model of {size} sentences, {crf.weights_.size} weights"
            rows.append(_one_at_a_time(name, crf, paths, X_test, peer, repeats))
            rows.append(_start(name, paths, X_test[0], peer, repeats))
        log("a model with L1 regularization")
        sparse = ChainCRF(l1=1.0, ends=False).fit(X, sentences.train.tags[: max(_SIZES)])
        rows.append(_size(sparse, paths[0], repeats))
    return rows


def _one_at_a_time(
    name: str, crf: ChainCRF, paths: tuple[Path, Path], X: list[Any], peer: Peer | None, repeats: int
) -> Row:
    """Measure the seconds of one sentence, tagged by a call of its own."""
    tagger = load_tagger(paths[0])
    expected = [labels.tolist() for labels in crf.predict(X)]
    labels: list[Any] = []

    def ours() -> float:
        start = time.perf_counter()
        labels[:] = [tagger.predict_single(x) for x in X]
        return (time.perf_counter() - start) / len(X)

    timed: dict[str, Callable[[], float]] = {"ours": ours}
    peer_fields: Row = {}
    if peer is not None:
        write_text(paths[1].parent / "X.json", json.dumps(X))
        request = {"model": str(paths[1]), "file": str(paths[1].parent / "X.json")}
        peer_fields["peer_version"] = peer.ask("open", **request)["version"]
        timed["peer"] = lambda: float(peer.ask("tag_each")["seconds"]) / len(X)
    best = fastest_in_turns(timed, repeats, 2.0)
    if peer is not None:
        peer_fields["peer_quality"] = _fraction(peer.ask("tag_each", labels=True)["labels"], expected)
    return bench_row(
        f"{name}: a sentence, one at a time",
        best["ours"],
        _PEER,
        best.get("peer"),
        comparison="same rule",
        stopping="exact labelling",
        wanted="ratio >= 1",
        ours_quality=_fraction([tags.tolist() for tags in labels], expected),
        quality_is=_EQUAL,
        **peer_fields,
    )


def _fraction(labels: list[Any], expected: list[Any]) -> float:
    return sum(a == b for a, b in zip(labels, expected, strict=True)) / len(expected)


def _size(sparse: ChainCRF, dense_path: Path, repeats: int) -> Row:
    """Measure the loading of a model with L1 regularization, and the sizes of its file and of that of a dense model."""
    path = dense_path.with_name("sparse.npz")
    sparse.save(path)

    def loading() -> float:
        start = time.perf_counter()
        load_tagger(path)
        return time.perf_counter() - start

    n_weights, n_nonzero = sparse.weights_.size, int((sparse.weights_ != 0).sum())
    return bench_row(
        f"model of {max(_SIZES)} sentences with l1=1.0, {n_nonzero} of {n_weights} weights are not 0: load the file",
        fastest_in_turns({"ours": loading}, repeats, 2.0)["ours"],
        wanted="no zeros in the file",
        ours_quality=path.stat().st_size / 1e6,
        quality_is=f"size of the file, MB ({dense_path.stat().st_size / 1e6:.1f} MB without L1)",
    )


def _start(name: str, paths: tuple[Path, Path], x: Any, peer: Peer | None, repeats: int) -> Row:
    """Measure processor seconds and memory of a fresh process that imports, loads the model and tags a sentence."""
    code = _OUR_START.format(model=str(paths[0]), x=x) + _END
    runs = [in_fresh_process(code) for _ in range(repeats + 1)]
    peer_runs: list[dict[str, Any]] = []
    if peer is not None:
        command = [str(peer.python), "-c", _PEER_START.format(model=str(paths[1]), x=x) + _END]
        for _ in runs:
            run = run_program(command, env={**os.environ, **ONE_THREAD}, check=True)
            peer_runs.append(json.loads(run.stdout))
    return bench_row(
        f"{name}: fresh process, first sentence, processor seconds",
        min(run["seconds"] for run in runs),
        _PEER,
        min((run["seconds"] for run in peer_runs), default=None),
        comparison="same rule",
        stopping="one sentence",
        wanted="at most 0.3 s, 60 MB",
        ours_quality=min(run["megabytes"] for run in runs),
        peer_quality=min((run["megabytes"] for run in peer_runs), default=None),
        quality_is=_MEMORY,
    )
