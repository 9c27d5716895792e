"""PSL 3 programs as files: JSON with comments, rules, predicates, and data files for learning and for inference."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from intarsia._json_text import read_json_text
from intarsia._validation import check_choice
from intarsia.exceptions import FileFormatError, InvalidInputError, TooLargeError
from intarsia.softlogic.atom_files import read_atom_file
from intarsia.softlogic.program import LATENT, OBSERVED, TARGET, TRUTH, Evaluation, Program

PHASES = ("infer", "learn")
_ROLE_OF_KEY = {"observations": OBSERVED, "targets": TARGET, "latent": LATENT, "truth": TRUTH}
_TOP_KEYS = ("rules", "predicates", "options", *PHASES)
# Types and models say how PSL stores atoms or where neural networks are; neither changes what rules mean.
_IGNORED_KEYS = ("types", "options", "models")
_MOST_BYTES = 100_000_000
_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


def read_psl(path: str | os.PathLike[str], phase: str = "infer", data: str | os.PathLike[str] | None = None) -> Program:
    r"""A program from a PSL 3 file: JSON with `//` comments, in which data files are named by their paths.

    Predicates with targets (or latent atoms) are open, others closed. Paths are relative to the program. A path that
    leads nowhere is looked for by its last part beside the program, since examples move without their folders; a note
    in `program.notes` says so. Options of PSL are kept in `program.options` and not used.

    Parameters
    ----------
    path : path
        The JSON file.
    phase : {"infer", "learn"}
        Which of the data files to read, where the program tells them apart.
    data : path, optional
        Folder in which all data files are, by the last part of their paths.

    Raises
    ------
    FileFormatError
        The file is no JSON, or not a program; a data file does not follow its format. File and line are named.
    InvalidInputError
        A rule cannot be read or names an unknown predicate; a data file does not exist.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "targets.txt").write_text("ann\tbob\n")
    ...     _ = Path(folder, "model.json").write_text('''{
    ...         "rules": ["1: !Knows(A, B) ^2"],  // nobody knows anybody
    ...         "predicates": {"Knows/2": {"targets": ["targets.txt"]}}
    ...     }''')
    ...     program = read_psl(Path(folder, "model.json"))
    >>> program
    Program(1 predicates, 1 rules, 0 observed atoms, 1 targets)
    """
    check_choice(phase, PHASES, "phase")
    where = Path(path)
    document = _read_json(where)
    return _Loader(document, where, phase, None if data is None else Path(data)).program()


def write_learned(path: str | os.PathLike[str], rules: Sequence[str], output: str | os.PathLike[str]) -> None:
    """Write the program of a file with other rules in place of its own, those for learning among them.

    Comments are lost; paths of data files stay as they are, relative to the program.

    Parameters
    ----------
    path : path
        The program that was read with `phase="learn"`.
    rules : sequence of str
        As many as it has, in their order.
    output : path
        File to write.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text = '{"rules": ["1: !Knows(A, B) ^2"], "predicates": {"Knows/2": {}}}'
    ...     _ = Path(folder, "model.json").write_text(text)
    ...     write_learned(Path(folder, "model.json"), ["0.5: !Knows(A, B) ^2"], Path(folder, "learned.json"))
    ...     read_psl(Path(folder, "learned.json")).rules[0].weight
    0.5
    """
    document = _read_json(Path(path))
    left = list(rules)
    for part in (document, document.get("learn", {})):
        n = len(part.get("rules", []))
        if n:
            part["rules"], left = left[:n], left[n:]
    Path(output).write_text(json.dumps(document, indent=4, ensure_ascii=False) + "\n", encoding="utf-8")


class _Loader:
    def __init__(self, document: dict[str, Any], path: Path, phase: str, data: Path | None) -> None:
        self._document = document
        self._path = path
        self._phase = phase
        self._data = data
        self._program = Program()
        self._moved: list[str] = []

    def program(self) -> Program:
        program, name = self._program, self._path.name
        for key in self._document:
            if key not in _TOP_KEYS:
                program.notes.append(f"{name}: {key!r:.60} is not used.")
        program.options = dict(_typed(self._document.get("options", {}), dict, f"{name}: options"))
        entries = _typed(self._document.get("predicates", {}), dict, f"{name}: predicates")
        declared = {key: self._declare(key) for key in entries}
        for key, predicate in declared.items():
            self._fill(predicate, entries[key], f"{name}: predicates, {key}")
        for where, text in self._rules():
            program.rule(text, where)
        if self._moved:
            program.notes.append(
                f"{name}: {len(self._moved)} data files, such as {self._moved[0]}, are not where the program says; "
                f"files of the same names beside the program were read."
            )
        return program

    def _declare(self, key: str) -> str:
        """Declare the predicate of a key such as `Knows/2`."""
        predicate, slash, arity = key.rpartition("/")
        if not slash or not arity.isascii() or not arity.isdigit() or len(arity) > 3:
            raise FileFormatError(
                f"{self._path.name}: predicates: expected a name and its number of arguments, such as Knows/2, got "
                f"{key!r:.60}."
            )
        try:
            self._program.predicate(predicate, int(arity))
        except InvalidInputError as error:
            raise FileFormatError(f"{self._path.name}: {error}") from None
        return predicate

    def _fill(self, predicate: str, entry: Any, where: str) -> None:
        for key, value in _typed(entry, dict, where).items():
            if key in _ROLE_OF_KEY:
                self._add_data(predicate, _ROLE_OF_KEY[key], value, f"{where}, {key}")
            elif key == "evaluations":
                for item in _typed(value, list, f"{where}, {key}"):
                    self._program.evaluations.append(_evaluation(predicate, item, f"{where}, {key}"))
            elif key not in _IGNORED_KEYS:
                self._program.notes.append(f"{where}: {key!r:.60} is not used.")

    def _add_data(self, predicate: str, role: str, value: Any, where: str) -> None:
        found = self._program.find_predicate(predicate)
        inline = []
        for item in self._of_phase(value, where):
            if isinstance(item, str):
                rows = read_atom_file(self._data_file(item, where), found.n_arguments, self._program.constants)
                self._program.add_rows(predicate, role, rows)
            else:
                inline.append(tuple(_typed(item, list, where)))
        if inline:
            method = {OBSERVED: self._program.observe, TARGET: self._program.target, LATENT: self._program.latent,
                      TRUTH: self._program.truth}[role]  # fmt: skip
            method(predicate, inline)

    def _of_phase(self, value: Any, where: str) -> list[Any]:
        """Files of both phases, and of the one that is wanted."""
        if isinstance(value, str):
            return [value]
        if isinstance(value, dict):
            for key in value:
                check_choice(key, (*PHASES, "all"), where)
            parts = [value.get("all", []), value.get(self._phase, [])]
            return [item for part in parts for item in ([part] if isinstance(part, str) else _typed(part, list, where))]
        return list(_typed(value, list, where))

    def _data_file(self, given: str, where: str) -> Path:
        # PSL writes paths with slashes; files that came from elsewhere may have the other kind.
        last = given.replace("\\", "/").rpartition("/")[2]
        if self._data is not None:
            path = self._data / last
        else:
            path = self._path.parent / given
            beside = self._path.parent / last
            if not path.is_file() and beside.is_file():
                self._moved.append(given)
                path = beside
        if not path.is_file():
            raise InvalidInputError(
                f"{where}: the data file {path} does not exist. Paths are relative to the program; name the folder of "
                f"the files with --data (data= in Python) if they are elsewhere."
            )
        return path

    def _rules(self) -> Iterator[tuple[str, str]]:
        """Rules of both phases, and of the one that is wanted."""
        sources = [(self._document.get("rules", []), "rules")]
        of_phase = _typed(self._document.get(self._phase, {}), dict, f"{self._path.name}: {self._phase}")
        sources.append((of_phase.get("rules", []), f"{self._phase}, rules"))
        for listed, where in sources:
            for number, item in enumerate(_typed(listed, list, f"{self._path.name}: {where}"), 1):
                place = f"{self._path.name}: {where}, number {number}"
                yield place, _typed(item.get("rule") if isinstance(item, dict) else item, str, place)


def _evaluation(predicate: str, item: Any, where: str) -> Evaluation:
    if isinstance(item, str):
        return Evaluation(predicate, item.rpartition(".")[2])
    entry = _typed(item, dict, where)
    name = _typed(entry.get("evaluator"), str, f"{where}: evaluator")
    return Evaluation(predicate, name.rpartition(".")[2], entry.get("options"))


def _read_json(path: Path) -> dict[str, Any]:
    size = path.stat().st_size
    if size > _MOST_BYTES:
        raise TooLargeError(f"{path.name}: {size} bytes are more than a program should have. Put data into files.")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path.name}: byte {error.start + 1} is not UTF-8. Save the file as UTF-8.") from None
    # Comments become blanks of the same shape, so that lines and columns stay.
    document = read_json_text(_COMMENT.sub(_blanked, text), path.name, "Check commas and quotes.")
    return _typed(document, dict, path.name)


def _blanked(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith('"') else re.sub(r"[^\n]", " ", match[0])


def _typed(value: Any, kind: type[Any], where: str) -> Any:
    names: dict[Any, str] = {dict: "an object", list: "a list", str: "a text"}
    if not isinstance(value, kind):
        raise FileFormatError(f"{where}: expected {names[kind]}, got {type(value).__name__} {value!r:.40}.")
    return value
