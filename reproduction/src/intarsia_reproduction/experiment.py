"""Reproductions of a paper's table: tasks that each compute some figures and store them on disk one by one."""

from __future__ import annotations

import json
import platform
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import intarsia
from intarsia._core.status import Status
from intarsia._core.validation import check_choice
from intarsia._files.array_file import write_npz
from intarsia._files.atomic_file import remove, run_program, write_text
from intarsia.exceptions import FileFormatError, InvalidInputError
from intarsia_reproduction.code_versions import code_fingerprint

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

# Each name is a module in `experiments` with `_` for `-`, and has a function of this name: (quick, data) -> Experiment.
# Experiments in a folder of their own.
_FOLDERS = {
    "resolve": "linkage.resolve",
    "coreference": "linkage.coreference",
    "decoders": "linkage.decoders",
    "expectations": "weak_labels.expectations",
    "through_projection": "projections.through_projection",
    "flow_intervals": "walkers.flow_intervals",
}
EXPERIMENTS = (
    "misspecification",
    "perturbation",
    "denoising",
    "horses",
    "backgrounds",
    "truncation",
    "collective",
    "birds",
    "flow-intervals",
    "separability",
    "margin",
    "chunking",
    "citations",
    "ocr",
    "groups",
    "trust",
    "faces",
    "entities",
    "resolve",
    "samplerank",
    "coreference",
    "wrong-cluster",
    "decoders",
    "no-harm",
    "expectations",
    "through-projection",
)


NOT_RECORDED = "not recorded"


@dataclass(frozen=True, eq=False)
class Finding:
    """Results of one task.

    Attributes
    ----------
    values : dict of float
        Figures by name, such as "test error".
    n : int
        Number of cases from which they were computed.
    arrays : dict of arrays
        Data of the plots.
    settings : dict
        Settings needed to repeat the task, as JSON types. A "note" becomes the status of its rows, and "lower_bounds"
        names values that are lower bounds, because the program that was timed did not finish.
    seconds : float
        Duration, set by the function that runs the task.
    origin : dict of str
        Commit and fingerprint ("code") of the code, versions of Python and the libraries, set by the function that runs
        the task; empty for results that were stored before these were recorded.
    """

    values: dict[str, float]
    n: int
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    origin: dict[str, str] = field(default_factory=dict)

    @property
    def commit(self) -> str:
        """Abbreviated commit of the code that computed the results; "not recorded" for old results."""
        commit, *changes = self.origin.get("commit", NOT_RECORDED).split("+")
        return "+".join([commit if commit == NOT_RECORDED else commit[:7], *changes])

    @property
    def unmoved(self) -> tuple[int, int]:
        """Numbers of fits that made 0 iterations, so that their weights are those they started from, and of all."""
        iterations = self.settings.get("iterations of folds", [self.settings.get("iterations", 1)])
        is_fit = self.settings.get("max_iter") != 0  # otherwise the start itself is the result
        return (iterations.count(0) if is_fit else 0), len(iterations)

    @property
    def status(self) -> str:
        """How the task ended, as in its rows."""
        ended = self.settings.get("status", "CONVERGED")
        note = self.settings.get("note", "done" if ended == "CONVERGED" else ended)
        n_unmoved, n = self.unmoved
        return f"{note}; {n_unmoved} of {n} fits made 0 iterations" if n_unmoved else str(note)


@dataclass(frozen=True, eq=False)
class Task:
    """One fit or one measurement, the smallest unit that can be resumed.

    Attributes
    ----------
    key : str
        Name of its files: letters, digits, `-` and `_`.
    label : str
        First words of the labels of its rows.
    paper : dict of float or None
        Figure of the paper for each value by name; None where the paper has none.
    unit : str
        Unit of all its values.
    run : function
        Function of a path, which it may use for a checkpoint, that returns the results.
    required : bool
        Whether a full run includes it; other tasks run only if they are named.
    significant : int, optional
        Number of significant digits in tables; by default three decimals.
    separate : bool
        Whether its figures have a table of their own, because they are not columns of the main table.
    """

    key: str
    label: str
    paper: Mapping[str, float | None]
    unit: str
    run: Callable[[Path], Finding]
    required: bool = True
    significant: int | None = None
    separate: bool = False


@dataclass(frozen=True, eq=False)
class Experiment:
    """Tasks behind a table or figure, the question they answer, and a function that draws the finished results."""

    name: str
    title: str
    tasks: list[Task]
    figures: Callable[[dict[str, Finding]], dict[str, Figure]]
    data: str
    question: str

    def rows(self, findings: Mapping[str, Finding]) -> list[dict[str, Any]]:
        """Return one row for each figure of each task; `ours` is None where the task has not been run."""
        rows = []
        for task in self.tasks:
            finding = findings.get(task.key)
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
                        "status": "not run" if finding is None else finding.status,
                        "settings": {} if finding is None else finding.settings,
                        "origin": {} if finding is None else finding.origin,
                        "commit": None if finding is None else finding.commit,
                    }
                )
        return rows


def load_experiment(name: str, quick: bool = False, data: Path | None = None) -> Experiment:
    """Return the experiment of this name, for a full or a quick run.

    Examples
    --------
    >>> load_experiment("perturbation", quick=True).name
    'perturbation'
    """
    check_choice(name, EXPERIMENTS, "reproduce")
    module = name.replace("-", "_")
    experiment: Experiment = getattr(
        import_module(f"intarsia_reproduction.experiments.{_FOLDERS.get(module, module)}"), module
    )(quick=quick, data=data)
    return experiment


def choose_tasks(experiment: Experiment, only: str | None) -> list[Task]:
    """Return the tasks whose whole key or label matches a pattern with `*`; by default those of a full run."""
    if only is None:
        return [task for task in experiment.tasks if task.required]
    matching = [
        task
        for task in experiment.tasks
        if any(name == only or fnmatchcase(name, only) for name in (task.key, task.label))
    ]
    if not matching:
        keys = ", ".join(task.key for task in experiment.tasks)
        raise InvalidInputError(
            f"reproduce {experiment.name}: no task is named {only!r}. Use one of: {keys}; `*` stands for "
            f"any text, as in '{experiment.tasks[0].key[:3]}*'."
        )
    return matching


def run_tasks(tasks: Iterable[Task], folder: Path, report: Callable[[str], None] | None = None) -> dict[str, Finding]:
    """Run the tasks that have no file in `folder` yet, and store each result as soon as it is computed.

    A task whose fit was interrupted is not stored: Ctrl-C ends the run, and the next run continues from the checkpoint.

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
    findings = load_findings(tasks := list(tasks), folder)
    # Before the runs: files may change during hours of work.
    origins = {task.key: {**record_origin(), "code": code_fingerprint(task.run)} for task in tasks}
    for task in tasks:
        if task.key in findings:
            continue
        if report is not None:
            report(f"{task.label} ...")
        checkpoint = folder / f"{task.key}.checkpoint.npz"
        start = time.perf_counter()
        finding = task.run(checkpoint)
        if finding.settings.get("status") == Status.INTERRUPTED.name:
            # An estimator returns its best weights after Ctrl-C; here the next run continues from the checkpoint.
            raise KeyboardInterrupt
        seconds = time.perf_counter() - start
        timed = replace(finding, seconds=seconds, origin=origins[task.key])
        save_finding(task.key, timed, folder)
        remove(checkpoint)
        findings[task.key] = timed
        if report is not None:
            figures = ", ".join(f"{name} {value:.4g}" for name, value in finding.values.items())
            report(f"{task.label}: {figures} ({seconds:.0f} s)")
    return findings


@cache
def record_origin() -> dict[str, str]:
    """Return the commit of the code, and the versions of Python and of the libraries that compute the figures.

    The commit ends in "+changes" if a tracked Python file differs from it, and is "not recorded" outside a repository.

    Examples
    --------
    >>> sorted(record_origin())
    ['commit', 'intarsia', 'numba', 'numpy', 'python', 'scikit-learn', 'scipy']
    """
    versions = {name: version(name) for name in ("numpy", "scipy", "numba", "scikit-learn")}
    return {"commit": _commit(), "python": platform.python_version(), "intarsia": intarsia.__version__, **versions}


def _commit() -> str:
    def git(*arguments: str) -> str:
        command = ["git", "-C", str(Path(__file__).parent), *arguments]
        return run_program(command, check=True).stdout.strip()

    try:
        changed = git("diff", "--name-only", "HEAD", "--", ":/*.py")
        return git("rev-parse", "HEAD") + ("+changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return NOT_RECORDED


def save_finding(key: str, finding: Finding, folder: Path) -> None:
    """Write the arrays, then the JSON file that marks the task as done; a crash in between leaves it not done.

    A result whose fit made 0 iterations is refused: its row would show the weights that the fit started from.
    """
    n_unmoved, n = finding.unmoved
    if n_unmoved:
        raise InvalidInputError(
            f"{key}: {n_unmoved} of {n} fits made 0 iterations, so their weights are those they started from. The "
            f"result is not stored. Use a smaller tol of the optimizer, or another start."
        )
    if finding.arrays:
        write_npz(folder / f"{key}.npz", finding.arrays, compressed=True)
    document = {
        "values": {name: float(value) for name, value in finding.values.items()},
        "n": int(finding.n),
        "seconds": float(finding.seconds),
        "settings": finding.settings,
        "arrays": sorted(finding.arrays),
        "origin": finding.origin,
    }
    document["checksum"] = _checksum(document)
    write_text(folder / f"{key}.json", json.dumps(document, indent=1) + "\n")


def _checksum(document: dict[str, Any]) -> str:
    """Return a checksum of the figures and settings of a stored result; its origin and the checksum do not count."""
    content = {key: value for key, value in document.items() if key not in ("origin", "checksum")}
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def is_edited(path: Path) -> bool:
    """Return whether a stored result was edited after it was computed; False for results without a checksum.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "pi.json")
    ...     save_finding("pi", Finding({"": 3.0}, 1), Path(folder))
    ...     before = is_edited(path)
    ...     size = path.write_text(path.read_text().replace("3.0", "3.14"))
    ...     before, is_edited(path)
    (False, True)
    """
    document = json.loads(path.read_text(encoding="utf-8"))
    return "checksum" in document and document["checksum"] != _checksum(document)


def load_findings(tasks: Iterable[Task], folder: Path) -> dict[str, Finding]:
    """Return the stored results of earlier runs in a folder, by the keys of the tasks."""
    findings = {}
    for task in tasks:
        path = folder / f"{task.key}.json"
        if path.exists():
            findings[task.key] = _read(path)
    return findings


def _read(path: Path) -> Finding:
    """Read one stored result."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        arrays: dict[str, NDArray[Any]] = {}
        arrays_path = path.with_suffix(".npz")
        if document["arrays"] and arrays_path.exists():
            with np.load(arrays_path, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in document["arrays"]}
        figures, settings = document["values"], document["settings"]
        return Finding(figures, document["n"], arrays, settings, document["seconds"], document.get("origin", {}))
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise FileFormatError(
            f"{path}: not a result of `intarsia reproduce` ({error}). Delete it to run the task again."
        ) from None
