"""Gain of learned energies over the plain chain on five data sets and many splits, with a test for each split."""

from __future__ import annotations

import gzip
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from intarsia._files.array_file import write_npz
from intarsia.energies import Energy, at_most_one
from intarsia.exceptions import ConvergenceWarning, MissingDataError
from intarsia.models import token_features
from intarsia.sequences import ChainCRF
from intarsia_reproduction.datasets.location import data_folders
from intarsia_reproduction.experiment import Experiment, Finding, Task
from intarsia_reproduction.models.differences import difference_names, difference_values, finished

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The regularization is that of the README and was fixed before any figure was computed. The sizes were reduced after a
# look at the results of a few splits, because larger ones took too long; they were not chosen by the gain.
_L2 = 0.1
_N_TRAIN, _N_TEST, _N_SPLITS = 200, 300, 20
QUICK = (60, 60, 2)  # training and test sequences, splits
_N_SHUFFLES = 2000
_LEVEL = 0.05

_NAMES = {
    "citations": "UMass citations",
    "cora": "Cora references",
    "usaddress": "US addresses",
    "probablepeople": "names of people and companies",
    "conll2000": "CoNLL-2000 chunks",
}
_SIMPLE = "gain of keeping the first segment of each field"
_REPEATED = "sequences that repeat a field"
_FIGURES = ("plain F1", "gain", "from", "to", "splits better", "splits worse", _SIMPLE, _REPEATED)
# The first segments of each field are compared with the predictions of the plain chain and of that with energies.
_DIFFERENCES = {"first segments minus plain": "plain", "first segments minus energies": "energies"}

Tagged = tuple[list[list[str]], list[list[str]]]


def no_harm(quick: bool = False, data: Path | None = None) -> Experiment:
    """Return the experiment that compares a chain with `at_most_one` of every field with the plain chain.

    The quick version has two splits of 60 training and 60 test sequences.

    Examples
    --------
    >>> [task.key for task in no_harm().tasks]
    ['citations', 'cora', 'usaddress', 'probablepeople', 'conll2000', 'differences']
    """
    sizes = QUICK if quick else (_N_TRAIN, _N_TEST, _N_SPLITS)
    tasks = [
        Task(key, label, dict.fromkeys(_FIGURES), "per cent", partial(_run, key, data, sizes))
        for key, label in _NAMES.items()
    ]
    label = "paired differences in F1, with 95 % intervals over the splits"
    names = [f"{key}: {name}" for key in _NAMES for name in _DIFFERENCES]
    run = partial(_differences, tasks)
    tasks.append(Task("differences", label, difference_names(names), "per cent", run, separate=True))
    return Experiment(
        "no-harm",
        "Segment F1 of chains with learned energies minus that of plain chains",
        tasks,
        _figures,
        "20 random splits of each data set into 200 training and 300 test sequences",
        question="Can energies that nobody has tuned make a chain worse?",
    )


def read_sequences(key: str, data: Path | None) -> Tagged:
    """Return words and tags of a data set."""
    from intarsia_reproduction.datasets import load_conll2000, load_cora_ie, load_umass_citations

    if key == "citations":
        sequences = load_umass_citations(data).train
    elif key == "cora":
        sequences = load_cora_ie(data)
    elif key == "conll2000":
        sequences = load_conll2000(data).train
    else:
        files = {"usaddress": ["labeled"], "probablepeople": ["person_labeled", "company_labeled"]}[key]
        strings = [string for name in files for string in _read_strings(f"{key}/{name}.xml.gz", data)]
        return [words for words, _ in strings], [tags for _, tags in strings]
    return sequences.words, sequences.tags


def _read_strings(file: str, data: Path | None) -> list[tuple[list[str], list[str]]]:
    """Return words and labels of the strings in an XML file of parserator: one element for each word."""
    path = next((folder / file for folder in data_folders(data) if (folder / file).is_file()), None)
    if path is None:
        raise MissingDataError(
            f"no-harm: {file} is missing. It is published by DataMade at https://github.com/datamade; put it into the "
            f"folder of the data sets."
        )
    with gzip.open(path) as stream:
        root = ElementTree.fromstring(stream.read())
    strings = []
    for element in root:
        pairs = [((word.text or "").strip(), word.tag) for word in element]
        words, labels = [word for word, _ in pairs if word], [label for word, label in pairs if word]
        if words:
            strings.append((words, labels))
    return strings


def _run(key: str, data: Path | None, sizes: tuple[int, int, int], checkpoint: Path) -> Finding:
    """Run the splits that are not in the checkpoint, which is written after each split."""
    n_train, n_test, n_splits = sizes
    words, tags = read_sequences(key, data)
    n = min(n_train, len(words) // 2)
    rows: list[list[float]] = []
    if checkpoint.exists():
        with np.load(checkpoint) as archive:
            rows = archive["rows"].tolist()
    for split in range(len(rows), n_splits):
        order = np.random.default_rng(split).permutation(len(words))
        train, test = order[:n].tolist(), order[n : n + n_test].tolist()
        X, y = [token_features(words[i]) for i in train], [tags[i] for i in train]
        new, truth = [token_features(words[i]) for i in test], [tags[i] for i in test]
        rows.append(compare(X, y, new, truth, seed=split))
        write_npz(checkpoint, {"rows": np.array(rows)})
    results = np.array(rows)
    gain, p_value = results[:, 1] - results[:, 0], results[:, 2]
    half_width = 1.96 * gain.std(ddof=1) / np.sqrt(gain.size)
    values = {
        "plain F1": results[:, 0].mean(),
        "gain": gain.mean(),
        "from": gain.mean() - half_width,
        "to": gain.mean() + half_width,
        "splits better": float(((gain > 0) & (p_value < _LEVEL)).sum()),
        "splits worse": float(((gain < 0) & (p_value < _LEVEL)).sum()),
        _SIMPLE: float((results[:, 6] - results[:, 0]).mean()),
        _REPEATED: 100.0 * float(np.mean([repeats_field(labels) for labels in tags])),
    }
    settings: dict[str, Any] = {"l2": _L2, "training sequences": n, "splits": n_splits, "level": _LEVEL}
    settings |= {"worst split": float(gain.min()), "active energies": float(results[:, 5].mean())}
    settings |= {"seconds plain": float(results[:, 3].mean()), "seconds energies": float(results[:, 4].mean())}
    arrays = {"plain": results[:, 0], "energies": results[:, 1], "p_value": p_value, "active": results[:, 5]}
    arrays["first segments"] = results[:, 6]
    return Finding(values, min(n_test, len(words) - n), arrays, settings)


def _differences(tasks: list[Task], checkpoint: Path) -> Finding:
    """Compare the stored scores of the splits; older rows have none of the first segments."""
    findings = finished("no-harm", tasks, _NAMES, checkpoint.parent)
    values: dict[str, float] = {}
    for key in _NAMES:
        arrays = findings[key].arrays
        if "first segments" in arrays:
            for name, base in _DIFFERENCES.items():
                values |= difference_values(f"{key}: {name}", arrays["first segments"], arrays[base])
    return Finding(values, arrays["plain"].size)


def compare(X: Any, y: list[list[str]], new: Any, truth: list[list[str]], seed: int) -> list[float]:
    """Return F1 without and with energies, a p-value of their difference, seconds to fit, and active energies.

    The last figure is the F1 of a baseline: of the predictions without energies, the first segment of each field.
    """
    from time import perf_counter

    energies: list[Energy] = [at_most_one(kind) for kind in field_names(y)]
    counts, seconds = [], []
    for setting in (None, energies):
        crf = ChainCRF(l2=_L2, energies=setting)
        start = perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            crf.fit(X, y)
            predictions = crf.predict(new)
        seconds.append(perf_counter() - start)
        pairs = zip(truth, predictions, strict=True)
        counts.append(np.array([segment_counts(labels, list(path)) for labels, path in pairs], dtype=np.float64))
        if setting is None:
            pairs = zip(truth, predictions, strict=True)
            first = np.array([first_segment_counts(labels, list(path)) for labels, path in pairs], dtype=np.float64)
    n_active = sum(row.strength > 0 for row in crf.strengths_)
    plain, ours = counts
    return [_f1(plain), _f1(ours), p_value_of_difference(plain, ours, seed), *seconds, float(n_active), _f1(first)]


def field_names(y: Sequence[Sequence[str]]) -> list[str]:
    """Return the fields of a data set: labels without B- and I-, except O.

    Examples
    --------
    >>> field_names([["O", "B-title", "I-title"], ["ZipCode"]])
    ['ZipCode', 'title']
    """
    labels = {label for labels in y for label in labels} - {"O"}
    starts = {label for label in labels if not label.startswith("I-")}
    return sorted({label.removeprefix("B-") for label in starts})


def segments_of(labels: Sequence[str]) -> set[tuple[int, int, str]]:
    """Return first position, end and field of each segment; a run of equal labels without prefix is a segment.

    Examples
    --------
    >>> sorted(segments_of(["B-a", "I-a", "B-a", "O", "x", "x"]))
    [(0, 2, 'a'), (2, 3, 'a'), (4, 6, 'x')]
    """
    segments, start, previous = set(), 0, "O"
    for t, label in enumerate([*labels, "O"]):
        kind = label[2:] if label[:2] in ("B-", "I-") else label
        if t and (label.startswith("B-") or kind != previous):
            if previous != "O":
                segments.add((start, t, previous))
            start = t
        previous = kind
    return segments


def segment_counts(truth: Sequence[str], labels: Sequence[str]) -> tuple[int, int, int]:
    """Return the numbers of correct, true and predicted segments of a sequence."""
    true, predicted = segments_of(truth), segments_of(labels)
    return len(true & predicted), len(true), len(predicted)


def repeats_field(labels: Sequence[str]) -> bool:
    """Return whether a field has two segments or more.

    Examples
    --------
    >>> repeats_field(["B-a", "I-a", "O"]), repeats_field(["x", "y", "x"])
    (False, True)
    """
    segments = segments_of(labels)
    return len({field for _, _, field in segments}) < len(segments)


def first_segment_counts(truth: Sequence[str], labels: Sequence[str]) -> tuple[int, int, int]:
    """Return the numbers of correct, true and predicted segments if later segments of the same field are dropped.

    Examples
    --------
    >>> first_segment_counts(["B-a", "O", "B-a"], ["B-a", "O", "B-a"])
    (1, 2, 1)
    """
    true = segments_of(truth)
    first_of_field = {segment[2]: segment for segment in sorted(segments_of(labels), reverse=True)}
    return len(true & set(first_of_field.values())), len(true), len(first_of_field)


def _f1(counts: NDArray[np.float64]) -> float:
    correct, true, predicted = counts.sum(axis=0)
    return float(200.0 * correct / max(true + predicted, 1.0))


def p_value_of_difference(plain: NDArray[np.float64], ours: NDArray[np.float64], seed: int) -> float:
    """Return the p-value of a paired randomization test: both results of a sequence are exchanged at random.

    Examples
    --------
    >>> same = np.array([[1.0, 2.0, 2.0]] * 9)
    >>> p_value_of_difference(same, same, 0)
    1.0
    >>> p_value_of_difference(same, same + [[1.0, 0.0, 0.0]] * 9, 0) < 0.05
    True
    """
    rng, observed = np.random.default_rng(seed), abs(_f1(ours) - _f1(plain))
    differs = np.flatnonzero((plain != ours).any(axis=1))
    swap = rng.random((_N_SHUFFLES, differs.size)) < 0.5
    change = swap.astype(np.float64) @ (ours[differs] - plain[differs])
    totals = [plain.sum(axis=0) + change, ours.sum(axis=0) - change]
    first, second = (200.0 * total[:, 0] / np.maximum(total[:, 1] + total[:, 2], 1.0) for total in totals)
    return float((1 + (np.abs(second - first) >= observed - 1e-9).sum()) / (1 + _N_SHUFFLES))


def _figures(findings: dict[str, Finding]) -> dict[str, Figure]:
    """Plot the gain of every split, in ascending order, with a line for each data set."""
    from intarsia.report.line_plots import Line, LinePanel, plot_lines

    scored = {key: finding.arrays for key, finding in findings.items() if "plain" in finding.arrays}
    if not scored:
        return {}
    plot_line: Callable[..., Line] = partial(Line, dashes="", marker="o")
    lines = []
    for key, arrays in scored.items():
        gain = np.sort(arrays["energies"] - arrays["plain"])
        lines.append(plot_line(_NAMES[key], np.arange(1, gain.size + 1), gain.tolist()))
    figure = plot_lines(
        [LinePanel("splits, in ascending order of the gain", lines)],
        x_label="split",
        y_label="gain of segment F1 in per cent",
        title="Chains with learned energies, compared with plain chains",
    )
    return {"no-harm": figure}
