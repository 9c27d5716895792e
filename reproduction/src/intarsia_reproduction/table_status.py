"""State of stored tables: which rows are missing, and which were computed by code that has changed since."""

from __future__ import annotations

import ast
import json
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from intarsia._files.atomic_file import run_program
from intarsia.exceptions import FileFormatError
from intarsia_reproduction.code_versions import code_definitions, code_fingerprint, definitions_in, tree_text
from intarsia_reproduction.experiment import NOT_RECORDED, Finding, Task, is_edited, load_experiment, load_findings

ACCEPTED_FILE = "accepted_changes.json"

CURRENT = "current code"
CHANGED = "older code"
ACCEPTED = "older code, accepted"
NO_CODE = "code not recorded"


@dataclass(frozen=True)
class TableStatus:
    """Keys of the rows of a table by their state.

    Attributes
    ----------
    name : str
        Experiment.
    missing : list of str
        Rows of a full run that have no stored result.
    current, changed, accepted : list of str
        Rows whose recorded code is that of today, has changed since, or has changed in a way that was accepted.
    no_code : list of str
        Rows that were stored before the code was recorded.
    probably_changed : list of str
        Those of `no_code` whose code in the commit that computed or stored them differs from that of today.
    no_commit : list of str
        Rows that were stored before the commit was recorded.
    fingerprints : dict of str -> str
        Fingerprints of today's code of the rows in `changed`, for `accepted_changes.json`.
    edited : list of str
        Rows whose figures or settings were edited after they had been computed.
    """

    name: str
    missing: list[str] = field(default_factory=list)
    current: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    accepted: list[str] = field(default_factory=list)
    no_code: list[str] = field(default_factory=list)
    probably_changed: list[str] = field(default_factory=list)
    no_commit: list[str] = field(default_factory=list)
    fingerprints: dict[str, str] = field(default_factory=dict)
    edited: list[str] = field(default_factory=list)

    @property
    def n_stored(self) -> int:
        """Number of rows that have a stored result."""
        return len(self.current) + len(self.changed) + len(self.accepted) + len(self.no_code)


def table_status(names: Iterable[str], root: Path) -> list[TableStatus]:
    """Return the state of each table whose results are stored in `root/NAME`; nothing is computed again.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     [(table.name, table.n_stored) for table in table_status(["birds"], Path(folder))]
    [('birds', 0)]
    """
    accepted = load_accepted(root)
    return [_status(name, root / name, accepted) for name in names]


def _status(name: str, folder: Path, accepted: Mapping[str, str]) -> TableStatus:
    table = TableStatus(name)
    tasks = load_experiment(name).tasks
    findings = load_findings(tasks, folder)
    rows_by_state = {
        CURRENT: table.current, CHANGED: table.changed, ACCEPTED: table.accepted, NO_CODE: table.no_code
    }  # fmt: skip
    for task in tasks:
        finding = findings.get(task.key)
        if finding is None:
            if task.required:
                table.missing.append(task.key)
            continue
        state = code_state(f"{name}/{task.key}", task, finding, accepted)
        rows_by_state[state].append(task.key)
        if state == CHANGED:
            table.fingerprints[task.key] = code_fingerprint(task.run)
        if is_edited(folder / f"{task.key}.json"):
            table.edited.append(task.key)
        if finding.commit == NOT_RECORDED:
            table.no_commit.append(task.key)
        if state == NO_CODE and _differs_from_commit(task, finding, folder / f"{task.key}.json"):
            table.probably_changed.append(task.key)
    return table


def code_state(row: str, task: Task, finding: Finding, accepted: Mapping[str, str]) -> str:
    """Return whether the code of a stored row is that of today: one of the four states of this module.

    Parameters
    ----------
    row : str
        "NAME/KEY".
    task, finding : Task, Finding
        The task as it is today, and its stored result.
    accepted : dict of str -> str
        Fingerprints under which rows were accepted, see `load_accepted`.

    Examples
    --------
    >>> task = Task("pi", "a circle", {"": 3.14}, "ratio", lambda checkpoint: Finding({"": 3.14}, 1))
    >>> code_state("circles/pi", task, Finding({"": 3.14}, 1, origin={"code": "0123"}), {})
    'older code'
    """
    if "code" not in finding.origin:
        return NO_CODE
    fingerprint = code_fingerprint(task.run)
    if finding.origin["code"] == fingerprint:
        return CURRENT
    return ACCEPTED if accepted.get(row) == fingerprint else CHANGED


def load_accepted(root: Path) -> dict[str, str]:
    """Return the fingerprints of today under which rows of older code were accepted, by "NAME/KEY".

    The file `accepted_changes.json` lists them with the reasons why the change of the code cannot change the row:
    `{"rows": [{"row": "NAME/KEY", "code": FINGERPRINT, "reason": TEXT}]}`.
    """
    path = root / ACCEPTED_FILE
    if not path.exists():
        return {}
    try:
        rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["rows"]
        if any(not row["reason"].strip() for row in rows):
            raise ValueError("a row has no reason")
        return {row["row"]: row["code"] for row in rows}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FileFormatError(
            f'{path}: expected {{"rows": [{{"row": "NAME/KEY", "code": ..., "reason": ...}}]}} ({error}). Correct '
            f"it, or run the rows again."
        ) from None


def _differs_from_commit(task: Task, finding: Finding, path: Path) -> bool:
    """Return whether the code of a row in the commit that computed or stored it differs from that of today.

    Outside a repository nothing is known and the result is False.
    """
    commit = finding.origin.get("commit", NOT_RECORDED).split("+")[0]
    if commit == NOT_RECORDED:
        commit = _git(path.parent, "log", "-1", "--format=%H", "--", path.name).strip()
    if not commit:
        return False
    definitions = code_definitions(task.run)
    return any(_definitions_at(commit, file).get(name, "") != text for (file, name), text in definitions.items()
               if "<lambda>" not in name)  # fmt: skip


@cache
def _definitions_at(commit: str, path: Path) -> dict[str, str]:
    """Return the syntax trees of the functions and classes of a file in a commit; empty if it did not exist."""
    source = _git(path.parent, "show", f"{commit}:./{path.name}")
    return {name: tree_text(node) for name, node in definitions_in(ast.parse(source)).items()}


def _git(folder: Path, *arguments: str) -> str:
    """Return the output of git; empty if it fails."""
    try:
        command = ["git", "-C", str(folder), *arguments]
        return run_program(command, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""
