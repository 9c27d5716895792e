"""Checks of stored results: a cheap row of each table is computed again and compared with the stored one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from intarsia.exceptions import MissingDataError
from intarsia_reproduction.experiment import Experiment, Finding, load_experiment, load_findings

# The task that is computed again, for each experiment that has one of a few seconds.
CHEAP_TASKS = {
    "collective": "s625",
    "birds": "interpolation",
    "separability": "bound-triangle",
    "ocr": "classifier",
    "groups": "karate",
    "trust": "log-odds",
    "faces": "ridge",
    "entities": "febrl1-16",
    "samplerank": "antecedents",
    "wrong-cluster": "truth-random",
    "expectations": "words-dictionary",
}
TOLERANCE = 1e-3  # relative; numerical libraries of other machines round differently

EQUAL, DIFFERENT = "equal", "different"
NO_CHEAP_ROW, NO_RESULT, NO_DATA = "no cheap row", "not stored", "no data"


@dataclass(frozen=True)
class CheckedRow:
    """A figure that was computed again.

    Attributes
    ----------
    name, row : str
        Experiment, and label of the row; empty if the experiment has no row that can be checked.
    stored_value, computed_value : float or None
        Stored figure, and the figure computed now.
    status : str
        "equal" or "different"; "no cheap row" if every row of the table takes minutes, "not stored" if the row has no
        stored result, "no data" if its data are not on this machine.
    seconds : float
        Duration.
    """

    name: str
    row: str
    stored_value: float | None
    computed_value: float | None
    status: str
    seconds: float = 0.0


def check_results(names: Iterable[str], root: Path, data: Path | None = None) -> list[CheckedRow]:
    """Compute a cheap row of each experiment again and compare its figures with those stored in `root/NAME`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     [row.status for row in check_results(["birds", "horses"], Path(folder))]
    ['not stored', 'no cheap row']
    """
    return [row for name in names for row in _check(name, root / name, data)]


def _check(name: str, folder: Path, data: Path | None) -> list[CheckedRow]:
    if name not in CHEAP_TASKS:
        return [CheckedRow(name, "", None, None, NO_CHEAP_ROW)]
    experiment = load_experiment(name, data=data)
    task = next(task for task in experiment.tasks if task.key == CHEAP_TASKS[name])
    finding = load_findings([task], folder).get(task.key)
    if finding is None:
        return [CheckedRow(name, task.label, None, None, NO_RESULT)]
    start = time.perf_counter()
    try:
        figures = _PARTIAL.get(name, _all_figures)(experiment, finding, data)
    except MissingDataError:
        return [CheckedRow(name, task.label, None, None, NO_DATA)]
    seconds = time.perf_counter() - start
    rows = []
    for figure, (stored_value, computed_value) in figures.items():
        label = f"{task.label}, {figure}" if figure else task.label
        status = (
            EQUAL if abs(computed_value - stored_value) <= TOLERANCE * max(abs(stored_value), TOLERANCE) else DIFFERENT
        )
        rows.append(CheckedRow(name, label, stored_value, computed_value, status, seconds))
    return rows


def _all_figures(experiment: Experiment, finding: Finding, data: Path | None) -> dict[str, tuple[float, float]]:
    """Run the whole task, and return the stored and the new figures."""
    task = next(task for task in experiment.tasks if task.key == CHEAP_TASKS[experiment.name])
    with TemporaryDirectory() as folder:
        computed = task.run(Path(folder) / "checkpoint.npz")
    return {name: (value, computed.values.get(name, np.nan)) for name, value in finding.values.items()}


def _last_fold(experiment: Experiment, finding: Finding, data: Path | None) -> dict[str, tuple[float, float]]:
    """Run the last of ten folds, from a checkpoint with the stored accuracies of the others."""
    task = next(task for task in experiment.tasks if task.key == CHEAP_TASKS[experiment.name])
    accuracy = finding.arrays["accuracy"]
    right = np.append(accuracy[:-1] / 100.0, 0.0)
    with TemporaryDirectory() as folder:
        checkpoint = Path(folder) / "checkpoint.npz"
        first = finding.arrays["first_fold"]
        np.savez(checkpoint, right=right, total=np.ones(right.size), first=first, done=right.size - 1)
        computed = task.run(checkpoint)
    return {"last fold": (float(accuracy[-1]), float(computed.arrays["accuracy"][-1]))}


def _objective(experiment: Experiment, finding: Finding, data: Path | None) -> dict[str, tuple[float, float]]:
    """Solve the smallest collective model, and compare its objective with that of the stored interior-point run."""
    from intarsia_reproduction.benchmarks.bench_collective import comparable, solve
    from intarsia_reproduction.workloads.collective_workloads import migration

    workload = migration(int(finding.settings["n_cells"]))
    return {"objective": (finding.settings["solver"]["objective"], comparable(solve(workload).objective, workload))}


def _first_passage(experiment: Experiment, finding: Finding, data: Path | None) -> dict[str, tuple[float, float]]:
    """Compute the two probabilities of the first passage and seed; random divisions use no learned weights."""
    from intarsia.clusters import AdaptiveSplitMerge
    from intarsia_reproduction.datasets import load_litbank
    from intarsia_reproduction.experiments.samplerank import ADAPTIVE, UNIFORM
    from intarsia_reproduction.experiments.wrong_cluster import probability_of_wrong
    from intarsia_reproduction.models.mention_features import NAMES, cut_passages

    passages = cut_passages(load_litbank(data), finding.arrays[ADAPTIVE].shape[1], random_state=0)[0]
    proposer = AdaptiveSplitMerge(beta=1.0, n_samples=100, max_iter=10, tol=0.0, allocation="random")
    computed = probability_of_wrong(passages[0], np.zeros(len(NAMES)), proposer, np.random.default_rng(0), True)
    return {
        f"{name}, first passage": (float(finding.arrays[name][0, 0]), value)
        for name, value in zip((ADAPTIVE, UNIFORM), computed, strict=True)
    }


# Experiments whose cheap task is computed in part; the others run the whole task.
_PARTIAL: dict[str, Callable[[Experiment, Finding, Path | None], dict[str, tuple[float, float]]]] = {
    "ocr": _last_fold,
    "collective": _objective,
    "wrong-cluster": _first_passage,
}
