"""`intarsia bench parsers`: fields of addresses and names, compared with usaddress and probablepeople.

Both programs are trained on the same strings of datamade's training data, and evaluated on the others. Every fifth
string is a test string. The peer is trained with the settings of parserator. Ours is trained twice: with the tokens and
features of the peer, so that only the model differs, and as `RecordParser` with its default settings. No setting was
chosen on the test strings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from intarsia import ChainCRF, RecordParser
from intarsia._core.validation import check_number
from intarsia._files.atomic_file import temporary_folder
from intarsia.exceptions import MissingDataError
from intarsia.metrics import find_segments
from intarsia.sequences import LabelledText, Token, once, read_labelled
from intarsia.sequences.parsing.labelled_text import tags_of, trimmed
from intarsia_reproduction.benchmarks.measurement import (
    Report,
    Row,
    bench_row,
    fastest_in_turns,
    in_fresh_process,
    one_processor,
    processor_seconds,
)
from intarsia_reproduction.benchmarks.peers import Peer, find_peer
from intarsia_reproduction.datasets.location import data_folders

_TEST = 5  # every fifth string is a test string
_TIMED = 200
_BOOTSTRAPS = 2000
_F1 = "F1 of exact fields on test strings"
_STOPPING = "each until its own stopping rule"


@dataclass(frozen=True)
class _Task:
    """Data set and the peer that is trained on it."""

    name: str
    module: str
    file: str
    once: tuple[str, ...]  # fields that must not be repeated


_TASKS = (
    _Task(
        "US addresses",
        "usaddress",
        "usaddress/labeled.xml.gz",
        ("AddressNumber", "PlaceName", "StateName", "ZipCode"),
    ),
    _Task(
        "names of persons",
        "probablepeople",
        "probablepeople/person_labeled.xml.gz",
        ("SuffixGenerational", "Nickname"),
    ),
    _Task(
        "names of companies",
        "probablepeople",
        "probablepeople/company_labeled.xml.gz",
        ("CorporationLegalType",),
    ),
)


def bench_parsers(repeats: int = 5, *, report: Report | None = None, rows: list[Row] | None = None) -> list[Row]:
    """Measure the rows of `intarsia bench parsers`; takes some minutes.

    Every row has the keys that `bench_inference` describes; values of a peer that is not installed are None. Times are
    processor seconds of one thread.

    Parameters
    ----------
    repeats : int
        Number of timed runs of each program; the fastest counts.
    report : callable, optional
        Called with one line of text before each measurement.
    rows : list, optional
        List to which each row is appended once it is measured, so that Ctrl-C keeps the finished rows.
    """
    check_number(repeats, "bench: repeats", low=1, integer=True)
    log: Report = report or (lambda line: None)
    rows = [] if rows is None else rows
    with one_processor():
        for task in _TASKS:
            log(task.name)
            with ExitStack() as stack:
                peer = find_peer("parserator")
                side = None if peer is None else _Parserator(stack.enter_context(peer), task)
                rows += _compare(task, side, repeats)
    return rows


class _Parserator:
    """Connection to a trained parser of datamade."""

    def __init__(self, peer: Peer, task: _Task) -> None:
        self._peer, self._module = peer, task.module
        self.version = str(peer.ask("load", module=task.module)["version"])

    def inputs(self, examples: Sequence[LabelledText]) -> _Inputs:
        """Return the tokens and features of the peer, with the true labels."""
        answer = self._peer.ask("features", texts=[example.text for example in examples])
        tokens = [_located(example.text, words) for example, words in zip(examples, answer["tokens"], strict=True)]
        return _Inputs(examples, tokens, answer["features"])

    def train(self, inputs: _Inputs) -> dict[str, Any]:
        """Train the peer; strings without tokens are left out."""
        pairs = [(t, y) for t, y in zip(inputs.tokens, inputs.labels(bio=False), strict=True) if t]
        words = [[token.text for token in tokens] for tokens, _ in pairs]
        return self._peer.ask("train", tokens=words, labels=[labels for _, labels in pairs])

    def labels(self, texts: list[str]) -> list[list[str]]:
        """Return the predicted labels of the tokens of each text."""
        labels: list[list[str]] = self._peer.ask("parse", texts=texts)["labels"]
        return labels

    def seconds(self, texts: list[str]) -> float:
        """Return the processor seconds to parse the texts one by one."""
        return float(self._peer.ask("seconds", texts=texts, repeats=1)["seconds"])

    def n_repeated(self, texts: list[str]) -> int:
        """Return the number of texts for which the peer raises RepeatedLabelError."""
        return int(self._peer.ask("repeats", texts=texts)["n"])

    def start(self, text: str) -> tuple[float, int]:
        """Return processor seconds and peak memory of a fresh process that parses a text."""
        answer = self._peer.ask("start", module=self._module, text=text)
        return float(answer["seconds"]), int(answer["bytes"])


@dataclass(frozen=True)
class _Inputs:
    """Tokens and features of the peer for some labelled strings."""

    examples: Sequence[LabelledText]
    tokens: list[list[Token]]
    features: list[Any]

    def labels(self, *, bio: bool) -> list[list[str]]:
        """Return the true label of each token."""
        pairs = zip(self.examples, self.tokens, strict=True)
        return [tags_of(example.text, tokens, example.spans, bio=bio)[0] for example, tokens in pairs]

    def spans(self, labels: Sequence[Sequence[str]], scheme: str) -> list[set[tuple[int, int, str]]]:
        """Return the character spans of predicted labels."""
        return [
            {
                (*trimmed(example.text, tokens[first].start, tokens[last - 1].end), str(field))
                for first, last, field in find_segments(row, scheme)
            }
            for example, tokens, row in zip(self.examples, self.tokens, labels, strict=True)
        ]


def _located(text: str, words: Sequence[str]) -> list[Token]:
    """Return the tokens of a text at their offsets; words are substrings of the text in their order."""
    tokens, position = [], 0
    for word in words:
        start = text.index(word, position)
        position = start + len(word)
        tokens.append(Token(word, start, position))
    return tokens


def read_task(file: str) -> tuple[list[LabelledText], list[LabelledText]]:
    """Return training and test strings of a file of datamade."""
    for folder in data_folders():
        if (folder / file).exists():
            examples = read_labelled(folder / file, "parserator")
            return (
                [example for i, example in enumerate(examples) if i % _TEST],
                [example for i, example in enumerate(examples) if i % _TEST == 0],
            )
    raise MissingDataError(
        f"{file} is missing. Download the training data of https://github.com/datamade/{file.partition('/')[0]} and "
        f"put it into a folder of INTARSIA_DATA."
    )


def _compare(task: _Task, peer: _Parserator | None, repeats: int) -> list[Row]:
    """Return the rows of one data set."""
    train, test = read_task(task.file)
    texts = [example.text for example in test]
    true = [{(*trimmed(e.text, a, b), field) for a, b, field in e.spans} for e in test]
    parser = RecordParser(tokenizer="usaddress")
    seconds = processor_seconds(lambda: parser.fit(train))
    spans = [
        {(*trimmed(text, a, b), field) for a, b, field in row}
        for text, row in zip(texts, parser.predict(texts), strict=True)
    ]
    rows = []
    theirs: list[set[tuple[int, int, str]]] | None = None
    peer_fields: Row = {}
    peer_seconds = None
    if peer is not None:
        inputs, held_out = peer.inputs(train), peer.inputs(test)
        training = peer.train(inputs)
        peer_seconds = float(training["seconds"])
        theirs = held_out.spans(peer.labels(texts), "runs")
        peer_fields = {
            "peer_version": peer.version,
            "peer_quality": f1(true, theirs),
            "peer_exact": exact(true, theirs),
        }
        crf = ChainCRF(scheme="bio", l2="auto")
        pairs = [(x, y) for x, y in zip(inputs.features, inputs.labels(bio=True), strict=True) if x]
        crf_seconds = processor_seconds(lambda: crf.fit([x for x, _ in pairs], [y for _, y in pairs]))
        crf_spans = held_out.spans([labels.tolist() for labels in crf.predict(held_out.features)], "conll")
        rows.append(
            bench_row(
                f"{task.name}: training with the features of {task.module}",
                crf_seconds,
                f"{task.module}, trained by parserator",
                peer_seconds,
                comparison="own rules",
                stopping="ours chooses l2 by cross-validation, the peer has fixed settings",
                ours_quality=f1(true, crf_spans),
                quality_is=_F1,
                wanted="quality at least that of the peer",
                ours_exact=exact(true, crf_spans),
                difference_interval=interval(true, crf_spans, theirs),
                n_train=len(train),
                n_test=len(test),
                **peer_fields,
            )
        )
    rows.append(
        bench_row(
            f"{task.name}: training RecordParser, default features",
            seconds,
            f"{task.module}, trained by parserator",
            peer_seconds,
            comparison="own rules",
            stopping="ours chooses l2 by cross-validation, the peer has fixed settings",
            ours_quality=f1(true, spans),
            quality_is=_F1,
            ours_exact=exact(true, spans),
            difference_interval=None if theirs is None else interval(true, spans, theirs),
            n_train=len(train),
            n_test=len(test),
            **peer_fields,
        )
    )
    rows += _speed(task, parser, peer, texts, repeats)
    rows.append(_validity(task, parser, train, texts, true, peer))
    return rows


def _speed(task: _Task, parser: RecordParser, peer: _Parserator | None, texts: list[str], repeats: int) -> list[Row]:
    """Return the rows of time per string, and of time and memory of a fresh process."""
    timed_texts = texts[:_TIMED]
    timed: dict[str, Callable[[], float]] = {
        "tag": lambda: processor_seconds(lambda: [parser.tag(text) for text in timed_texts]),
        "parse": lambda: processor_seconds(lambda: [parser.parse(text) for text in timed_texts]),
    }
    if peer is not None:
        timed["peer"] = lambda: peer.seconds(timed_texts)
    best = {name: seconds / len(timed_texts) for name, seconds in fastest_in_turns(timed, repeats).items()}
    rows = [
        bench_row(
            f"{task.name}: one string, {result}",
            best[name],
            f"{task.module}.parse",
            best.get("peer"),
            comparison="own rules",
            stopping="each with its own features",
            n_strings=len(timed_texts),
        )
        for name, result in (("tag", "fields"), ("parse", "fields, probabilities and three alternatives"))
    ]
    with temporary_folder() as folder:
        path = Path(folder, "model.npz")
        parser.save(path)
        code = _START.format(path=str(path), text=texts[0])
        ours = min((in_fresh_process(code) for _ in range(repeats)), key=lambda answer: float(answer["seconds"]))
        size = path.stat().st_size
    theirs = None if peer is None else min(peer.start(texts[0]) for _ in range(repeats))
    rows.append(
        bench_row(
            f"{task.name}: fresh process that loads a model and parses a string",
            float(ours["seconds"]),
            f"import {task.module} and parse",
            None if theirs is None else theirs[0],
            comparison="own rules",
            stopping="one string",
            ours_peak_bytes=int(ours["bytes"]),
            peer_peak_bytes=None if theirs is None else theirs[1],
            ours_model_bytes=size,
        )
    )
    return rows


_START = """
import json, time
import intarsia
parser = intarsia.load({path!r})
parser.tag({text!r})
seconds = time.process_time()
with open("/proc/self/status") as file:
    peak = next(1024 * int(line.split()[1]) for line in file if line.startswith("VmHWM"))
print(json.dumps({{"seconds": seconds, "bytes": peak}}))
"""


def _validity(
    task: _Task,
    parser: RecordParser,
    train: list[LabelledText],
    texts: list[str],
    true: list[set[tuple[int, int, str]]],
    peer: _Parserator | None,
) -> Row:
    """Return the row of strings with a repeated field, with rules and without."""
    ruled = RecordParser(tokenizer="usaddress", l2=parser.l2_, rules=[once(field) for field in task.once]).fit(train)
    seconds = processor_seconds(lambda: [ruled.tag(text) for text in texts])
    plain_seconds = processor_seconds(lambda: [parser.tag(text) for text in texts])
    n_repeated = {
        name: sum(bool(set(model.tag(text).repeated) & set(task.once)) for text in texts)
        for name, model in (("plain", parser), ("ruled", ruled))
    }
    spans = [
        {(*trimmed(text, a, b), field) for a, b, field in row}
        for text, row in zip(texts, ruled.predict(texts), strict=True)
    ]
    return bench_row(
        f"{task.name}: test strings parsed with once({', '.join(task.once)})",
        seconds,
        "the same without rules",
        plain_seconds,
        comparison="ourselves",
        stopping="all test strings",
        ours_quality=f1(true, spans),
        quality_is=_F1,
        wanted="no repeated field",
        n_repeated=n_repeated["ruled"],
        n_repeated_without_rules=n_repeated["plain"],
        n_errors_of_peer=None if peer is None else peer.n_repeated(texts),
        n_strings=len(texts),
    )


def f1(true: Sequence[set[Any]], predicted: Sequence[set[Any]]) -> float:
    """Return the F1 of spans.

    Examples
    --------
    >>> f1([{1, 2}, {3}], [{1}, {3, 4}])
    0.6666666666666666
    """
    n_true, n_predicted, n_correct = _counts(true, predicted).sum(axis=0).tolist()
    return 2 * n_correct / (n_true + n_predicted) if n_true + n_predicted else 0.0


def exact(true: Sequence[set[Any]], predicted: Sequence[set[Any]]) -> float:
    """Return the fraction of strings of which all spans are correct.

    Examples
    --------
    >>> exact([{1, 2}, {3}], [{1}, {3}])
    0.5
    """
    return float(np.mean([a == b for a, b in zip(true, predicted, strict=True)]))


def interval(true: Sequence[set[Any]], ours: Sequence[set[Any]], theirs: Sequence[set[Any]]) -> list[float]:
    """Return the 95 % bootstrap interval, over strings, of the F1 of ours minus that of theirs.

    Examples
    --------
    >>> interval([{1}, {2}], [{1}, {2}], [{1}, {2}])
    [0.0, 0.0]
    """
    a, b = _counts(true, ours), _counts(true, theirs)
    rng = np.random.default_rng(0)
    differences = []
    for _ in range(_BOOTSTRAPS):
        rows = rng.integers(len(a), size=len(a))
        x, y = a[rows].sum(axis=0), b[rows].sum(axis=0)
        differences.append(2 * x[2] / (x[0] + x[1]) - 2 * y[2] / (y[0] + y[1]))
    return [float(np.quantile(differences, q)) for q in (0.025, 0.975)]


def _counts(true: Sequence[set[Any]], predicted: Sequence[set[Any]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array([[len(a), len(b), len(a & b)] for a, b in zip(true, predicted, strict=True)], dtype=np.int64)
