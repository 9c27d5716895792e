"""What a reproduction of a paper's table is: tasks that each give some figures, kept on disk one by one."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia._core.status import Status
from intarsia._core.validation import check_choice
from intarsia.exceptions import FileFormatError, InvalidInputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

# Each is a module of this folder, `-` being `_`, with one function of the same name: (quick, data) -> Experiment.
EXPERIMENTS = (
    "misspecification",
    "perturbation",
    "denoising",
    "horses",
    "backgrounds",
    "truncation",
    "collective",
    "birds",
    "separability",
    "margin",
    "chunking",
    "citations",
    "ocr",
    "groups",
    "trust",
    "faces",
    "entities",
    "samplerank",
    "wrong-cluster",
)


@dataclass(frozen=True, eq=False)
class Finding:
    """What one task found.

    Attributes
    ----------
    values : dict of float
        Figures by name, such as "test error".
    n : int
        Number of cases behind them.
    arrays : dict of arrays
        What the figures are drawn from.
    settings : dict
        All that is needed to repeat it; JSON types only. A "note" among them becomes the status of its rows, and
        "lower_bounds" names values that are lower bounds, since what was timed did not finish.
    seconds : float
        How long it took; set by whoever runs the task.
    """

    values: dict[str, float]
    n: int
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class Task:
    """One fit or one measurement: the smallest piece that can be resumed.

    Attributes
    ----------
    key : str
        Names its files; letters, digits, `-` and `_`.
    label : str
        Begins the labels of its rows.
    paper : dict of float or None
        The paper's figure under the name of each value; None where it prints none.
    unit : str
        Of all its values.
    run : function
        From the name of a file that it may use as a checkpoint to what it found.
    required : bool
        Whether a full run includes it; the others are run when they are named.
    significant : int, optional
        Digits that tables show of its values; by default three decimals.
    """

    key: str
    label: str
    paper: Mapping[str, float | None]
    unit: str
    run: Callable[[Path], Finding]
    required: bool = True
    significant: int | None = None


@dataclass(frozen=True, eq=False)
class Experiment:
    """The tasks behind a table or figure, what they ask, and how it is drawn from what has been found so far."""

    name: str
    title: str
    tasks: list[Task]
    figures: Callable[[dict[str, Finding]], dict[str, Figure]]
    data: str
    question: str

    def rows(self, found: Mapping[str, Finding]) -> list[dict[str, Any]]:
        """One row for each figure of each task; `ours` is None where the task has not been run."""
        rows = []
        for task in self.tasks:
            finding = found.get(task.key)
            for name, paper in task.paper.items():
                rows.append(
                    {
                        "label": f"{task.label}, {name}" if name else task.label,
                        "paper": paper,
                        "ours": None if finding is None else finding.values.get(name),
                        "unit": task.unit,
                        "significant": task.significant,
                        "n": None if finding is None else finding.n,
                        "seconds": None if finding is None else finding.seconds,
                        "status": "not run" if finding is None else finding.settings.get("note", "done"),
                        "settings": {} if finding is None else finding.settings,
                    }
                )
        return rows


def load_experiment(name: str, quick: bool = False, data: Path | None = None) -> Experiment:
    """Return the experiment of this name, made for full or for quick runs.

    Examples
    --------
    >>> load_experiment("perturbation", quick=True).name
    'perturbation'
    """
    check_choice(name, EXPERIMENTS, "reproduce")
    module = name.replace("-", "_")
    experiment: Experiment = getattr(import_module(f"intarsia_reproduction.experiments.{module}"), module)(
        quick=quick, data=data
    )
    return experiment


def choose_tasks(experiment: Experiment, only: str | None) -> list[Task]:
    """Tasks whose key or label contains this text; by default those required of a full run."""
    if only is None:
        return [task for task in experiment.tasks if task.required]
    wanted = [task for task in experiment.tasks if only in task.key or only in task.label]
    if not wanted:
        keys = ", ".join(task.key for task in experiment.tasks)
        raise InvalidInputError(f"reproduce {experiment.name}: no task matches {only!r}. There are: {keys}.")
    return wanted


def run_tasks(tasks: Iterable[Task], folder: Path, report: Callable[[str], None] | None = None) -> dict[str, Finding]:
    """Run the tasks that have no file in `folder` yet, and keep each as soon as it is done.

    A task whose settings say that its fit was interrupted is not done: Ctrl-C ends the run, and the next goes on there.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> task = Task("pi", "a circle", {"": 3.1416}, "ratio", lambda checkpoint: Finding({"": 3.14}, 1))
    >>> with TemporaryDirectory() as folder:
    ...     first = run_tasks([task], Path(folder))["pi"].values
    ...     again = load_findings([task], Path(folder))["pi"].values
    >>> first == again == {"": 3.14}
    True
    """
    found = load_findings(tasks := list(tasks), folder)
    for task in tasks:
        if task.key in found:
            continue
        if report is not None:
            report(f"{task.label} ...")
        checkpoint = folder / f"{task.key}.checkpoint.npz"
        start = time.perf_counter()
        finding = task.run(checkpoint)
        if finding.settings.get("status") == Status.INTERRUPTED.name:
            raise KeyboardInterrupt  # an estimator keeps its best after Ctrl-C; here the checkpoint does, to go on from
        seconds = time.perf_counter() - start
        kept = Finding(finding.values, finding.n, finding.arrays, finding.settings, seconds)
        save_finding(task.key, kept, folder)
        checkpoint.unlink(missing_ok=True)
        found[task.key] = kept
        if report is not None:
            figures = ", ".join(f"{name} {value:.4g}" for name, value in finding.values.items())
            report(f"{task.label}: {figures} ({seconds:.0f} s)")
    return found


def save_finding(key: str, finding: Finding, folder: Path) -> None:
    """Write arrays, then the JSON that makes the task count as done; a crash between the two leaves it undone."""
    if finding.arrays:
        partial = folder / f"{key}.partial.npz"
        np.savez_compressed(partial, **finding.arrays)  # type: ignore[arg-type]
        os.replace(partial, folder / f"{key}.npz")
    document = {
        "values": {name: float(value) for name, value in finding.values.items()},
        "n": int(finding.n),
        "seconds": float(finding.seconds),
        "settings": finding.settings,
        "arrays": sorted(finding.arrays),
    }
    partial = folder / f"{key}.partial.json"
    partial.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    os.replace(partial, folder / f"{key}.json")


def load_findings(tasks: Iterable[Task], folder: Path) -> dict[str, Finding]:
    """What earlier runs left in this folder, by the keys of the tasks."""
    found = {}
    for task in tasks:
        path = folder / f"{task.key}.json"
        if path.exists():
            found[task.key] = _read(path)
    return found


def _read(path: Path) -> Finding:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        arrays: dict[str, NDArray[Any]] = {}
        beside = path.with_suffix(".npz")
        if document["arrays"] and beside.exists():
            with np.load(beside, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in document["arrays"]}
        return Finding(document["values"], document["n"], arrays, document["settings"], document["seconds"])
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise FileFormatError(
            f"{path}: not a result of `intarsia reproduce` ({error}). Delete it to run the task anew."
        ) from None
