"""Reader for PSL programs: rules, predicates, options, and data files for learning, validation and inference."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from intarsia._core.validation import check_choice
from intarsia._files.atomic_file import write_text
from intarsia.exceptions import FileFormatError, InvalidInputError, NotSupportedError
from intarsia.softlogic.evaluation import EVALUATOR_OPTIONS
from intarsia.softlogic.files.atoms import read_atom_file, typed_names
from intarsia.softlogic.files.documents import PHASES, read_document, read_text, typed
from intarsia.softlogic.files.options import evaluation_options, flag, notes_on_options, relaxed
from intarsia.softlogic.grounding.tables import ARGUMENT_TYPES, rows_of_columns
from intarsia.softlogic.language.rules import read_rules
from intarsia.softlogic.program import LATENT, OBSERVED, TARGET, TRUTH, Evaluation, Program

_ROLE_OF_KEY = {"observations": OBSERVED, "targets": TARGET, "latent": LATENT, "truth": TRUTH}
_TOP_KEYS = ("rules", "predicates", "options", *PHASES)
# Keys of the declaration of a predicate; its data and evaluations are read separately.
_DECLARING_KEYS = ("name", "type", "types", "arity", "force-open", "closed")
_NEURAL_KEYS = ("model", "models", "modeltype")
# Validation uses the rules of learning, with other data.
_RULES_OF_PHASE = {"infer": "infer", "learn": "learn", "validation": "learn"}


def read_psl(path: str | os.PathLike[str], phase: str = "infer", data: str | os.PathLike[str] | None = None) -> Program:
    r"""Read a PSL program with its data files.

    A program is a JSON or YAML file of PSL 3 (YAML needs PyYAML: `pip install 'intarsia[psl]'`), or a rule file of
    PSL 2 with its data file. JSON may use the extensions of PSL's parser: comments (`//`, `#`, `/* */`), single quotes,
    trailing commas. Predicates with targets or latent atoms are open, other predicates are closed. Paths of data files
    are relative to the file that contains them. The options of evaluators, `runtime.db.intids`, `inference.relax` and
    `runtime.inference.clearrules` are used; `program.notes` lists other options that would change a result in PSL.

    Parameters
    ----------
    path : path
        Program file, such as `model.json`, `model.yaml`, or `model.psl`.
    phase : {"infer", "learn", "validation"}
        Phase whose data files are read, if the program separates them.
    data : path, optional
        Folder that contains all data files; only the last component of their paths is used. For a rule file of PSL 2,
        its data file, such as `model-eval.data`; by default `model-eval.data` (for learning `model-learn.data`) or
        `model.data` in the folder of the rules.

    Returns
    -------
    Program
        The program, with `dialect="psl"`.

    Raises
    ------
    FileFormatError
        The file is not JSON or YAML, or not a program, or a data file is malformed. The message names file and line.
    InvalidInputError
        A rule is malformed or uses an unknown predicate, or a data file does not exist.
    NotSupportedError
        A predicate is a neural network or an external function.
    MissingDependencyError
        The program is in YAML and PyYAML is not installed.

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
    Program(1 predicates, 1 rules, 0 observed atoms, 1 targets, dialect='psl')
    """
    check_choice(phase, PHASES, "phase")
    file, folder = Path(path), None if data is None else Path(data)
    document = read_document(file, phase, _data_file_of_psl2(folder))
    return _Loader(document, file, phase, None if _data_file_of_psl2(folder) else folder).program()


def write_learned(
    path: str | os.PathLike[str],
    rules: Sequence[str],
    output: str | os.PathLike[str],
    data: str | os.PathLike[str] | None = None,
) -> None:
    """Write a copy of a program as JSON in which the rules are replaced, including those for learning.

    Comments are lost; the paths of data files are unchanged, relative to the program.

    Parameters
    ----------
    path : path
        The program that was read with `phase="learn"`.
    rules : sequence of str
        New rules, as many as the program has and in the same order.
    output : path
        File to write.
    data : path, optional
        Data file or folder, as for `read_psl`.

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
    source = Path(path)
    document = read_document(source, "learn", _data_file_of_psl2(None if data is None else Path(data)))
    remaining = list(rules)
    program = _Loader(document, source, "learn", None).with_predicates()
    for section in (document, document.get("learn", {})):
        texts = list(_rules_of(section.get("rules", []), source, "rules"))
        n_earlier = len(program.rules)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # duplicate rules; the reader has already warned about them
            for place, text in texts:
                program.rule(text, place)
        n = (
            len(program.rules) - n_earlier
        )  # duplicate rules count once, a filter with alternatives counts several times
        if texts:
            section["rules"], remaining = remaining[:n], remaining[n:]
    write_text(output, json.dumps(document, indent=4, ensure_ascii=False) + "\n")


def _data_file_of_psl2(data: Path | None) -> Path | None:
    """Return the path if it is a data file of PSL 2."""
    return data if data is not None and data.suffix.lower() == ".data" else None


class _Loader:
    """Conversion of a document in PSL 3's format to a program."""

    def __init__(self, document: dict[str, Any], path: Path, phase: str, data: Path | None) -> None:
        self._document = document
        self._path = path
        self._phase = phase
        self._data = data
        self._program = Program(dialect="psl")
        self._types: dict[str, list[str]] = {}

    def with_predicates(self) -> Program:
        """Return a program with the predicates only, without rules and data."""
        self._program.options = self._options()
        for key, entry in self._entries().items():
            self._declare(str(key), entry)
        return self._program

    def _entries(self) -> dict[str, Any]:
        """Return the entry of each predicate in the document."""
        entries: dict[str, Any] = typed(self._document.get("predicates", {}), dict, f"{self._path.name}: predicates")
        return entries

    def program(self) -> Program:
        """Return the complete program."""
        program, name = self._program, self._path.name
        for key in self._document:
            if key not in _TOP_KEYS:
                program.notes.append(f"{name}: {key!r:.60} is not used.")
        program.options = self._options()
        place = f"{name}: options"
        program.notes += notes_on_options(program.options, self._phase, place)
        entries = self._entries()
        names = {key: self._declare(str(key), entry) for key, entry in entries.items()}
        for key, predicate in names.items():
            self._fill(predicate, entries[key], f"{name}: predicates, {key}")
        rules = list(self._rules())
        texts = [text for _, text in rules]
        if self._phase == "infer":
            texts = relaxed(texts, program.options, place)
        for (place, _), text in zip(rules, texts, strict=True):
            program.rule(text, place)
        self._note_learning(entries)
        return program

    # ---------------------------------------------------------------- options and rules

    def _section(self, phase: str) -> dict[str, Any]:
        """Return the section of a phase in the document."""
        section: dict[str, Any] = typed(self._document.get(phase, {}), dict, f"{self._path.name}: {phase}")
        return section

    def _options(self) -> dict[str, Any]:
        """Return the common options and those of the phase."""
        phase = _RULES_OF_PHASE[self._phase]
        common = typed(self._document.get("options", {}), dict, f"{self._path.name}: options")
        return {
            **common,
            **typed(self._section(phase).get("options", {}), dict, f"{self._path.name}: {phase}, options"),
        }

    def _rules(self) -> Iterator[tuple[str, str]]:
        """Yield the common rules and those of the phase, each with its place in the file."""
        location, phase = self._path.name, _RULES_OF_PHASE[self._phase]
        cleared = flag(self._program.options, "runtime.inference.clearrules", False, f"{location}: options")
        if not (cleared and phase == "infer"):
            yield from _rules_of(self._document.get("rules", []), self._path, "rules")
        yield from _rules_of(self._section(phase).get("rules", []), self._path, f"{phase}, rules")
        if self._section("validation").get("rules"):
            self._program.notes.append(f"{location}: validation, rules are not used, as in PSL.")

    def _note_learning(self, entries: dict[str, Any]) -> None:
        """Add a note if PSL would learn the weights before inference."""
        option = self._program.options.get("runtime.learn")
        has_learning_data = any(
            isinstance(entry, dict) and isinstance(entry.get(key), dict) and entry[key].get("learn")
            for entry in entries.values()
            for key in _ROLE_OF_KEY
        )
        learns = flag({"runtime.learn": option}, "runtime.learn", False, self._path.name) if option is not None else (
            has_learning_data or bool(self._section("learn"))
        )  # fmt: skip
        if self._phase == "infer" and learns:
            self._program.notes.append(
                f"{self._path.name}: PSL would first learn the weights from the data under 'learn'; here the written "
                f"weights are used. Learn them with SoftLogic.fit on phase='learn', or with 'intarsia softlogic learn'."
            )

    # ---------------------------------------------------------------- predicates

    def _declare(self, key: str, entry: Any) -> str:
        """Declare a predicate from a key such as `Knows/2`, or `Knows` with an arity or types, and return its name."""
        where = f"{self._path.name}: predicates, {key}"
        typed(entry, dict, where)
        self._refuse_functions(entry, where)
        name, slash, arity = key.partition("/")
        types = [str(item) for item in typed(entry.get("types") or [], list, f"{where}, types")]
        sizes = {
            "the name": _arity(arity, where) if slash else None,
            "'arity'": _arity(entry["arity"], where) if entry.get("arity") is not None else None,
            "'types'": len(types) or None,
        }
        stated = {source: size for source, size in sizes.items() if size is not None}
        if not stated:
            raise FileFormatError(
                f"{self._path.name}: predicates: expected a name and its number of arguments, such as Knows/2, got "
                f"{key!r:.60}. Write the key in this form, or add 'arity'."
            )
        if len(set(stated.values())) > 1:
            sources = ", ".join(f"{source} has {size}" for source, size in stated.items())
            raise FileFormatError(f"{where}: the numbers of arguments differ: {sources}. Make them agree.")
        n_arguments = next(iter(stated.values()))
        default = "UniqueIntID" if flag(self._program.options, "runtime.db.intids", False, where) else "UniqueStringID"
        for item in types:
            check_choice(item, ARGUMENT_TYPES, f"{where}, types")
        self._types[name.upper()] = types or [default] * n_arguments
        try:
            self._program.predicate(name, n_arguments, self._closed(entry, where), self._types[name.upper()])
        except InvalidInputError as error:
            raise FileFormatError(f"{self._path.name}: {error}") from None
        return name

    def _closed(self, entry: dict[str, Any], place: str) -> bool | None:
        """Return False (open) if the entry lists targets, even in an empty file; None if data may still be added."""
        if "closed" in entry:
            return bool(entry["closed"])
        has_targets = any(
            self._data_of_phase(entry[key], f"{place}, {key}") for key in ("targets", "latent") if key in entry
        )
        return False if has_targets or flag(entry, "force-open", False, place) else None

    def _refuse_functions(self, entry: dict[str, Any], place: str) -> None:
        """Raise if the values of a predicate come from a neural network or an external function."""
        kind = str(entry.get("type") or "StandardPredicate").rpartition(".")[2]
        if kind == "DeepPredicate" or any(entry.get(key) for key in _NEURAL_KEYS):
            raise NotSupportedError(
                f"{place}: its values come from a neural network, which is not supported. Run the network first and "
                f"pass its outputs as observations."
            )
        if entry.get("function") or kind in ("ExternalFunctionalPredicate", "FunctionalPredicate"):
            raise NotSupportedError(
                f"{place}: its values come from an external function ({entry.get('function') or kind!s:.80}), which is "
                f"not supported. Compute the values and pass them as observations."
            )
        if kind != "StandardPredicate":
            raise FileFormatError(f"{place}: type {entry['type']!r:.60} is not known. Expected 'StandardPredicate'.")

    # ---------------------------------------------------------------- data

    def _fill(self, predicate: str, entry: dict[str, Any], place: str) -> None:
        """Add the data and evaluations of a predicate."""
        for key, value in entry.items():
            if key in _ROLE_OF_KEY:
                self._add_data(predicate, _ROLE_OF_KEY[key], value, f"{place}, {key}")
            elif key == "evaluations":
                for item in typed(value or [], list, f"{place}, {key}"):
                    evaluation = _evaluation(predicate, item, f"{place}, {key}", self._program.options)
                    self._program.evaluations.append(evaluation)
                    self._program.notes += [
                        f"{place}, {key}: option {option!r:.60} of {evaluation.evaluator} is not used."
                        for option in evaluation.options
                        if not option.endswith(EVALUATOR_OPTIONS)
                    ]
            elif (key != "options" or value) and key not in _DECLARING_KEYS and key not in _NEURAL_KEYS:
                self._program.notes.append(f"{place}: {key!r:.60} is not used.")

    def _add_data(self, predicate: str, role: str, value: Any, place: str) -> None:
        """Add data of a predicate from data files and from rows in the document."""
        types, constants = self._types[predicate.upper()], self._program.constants
        inline = []
        for item in self._data_of_phase(value, place):
            if isinstance(item, str):
                rows = read_atom_file(self._data_file(item, place), len(types), constants, types)
                self._program.add_rows(predicate, role, rows)
            else:
                inline.append([_as_string(field, place) for field in typed(item, list, place)])
        for number, fields in enumerate(inline, 1):
            if len(fields) not in (len(types), len(types) + 1):
                raise FileFormatError(
                    f"{place}, row {number}: {len(fields)} fields; expected {len(types)} arguments and optionally a "
                    f"value in [0, 1]."
                )
        for with_truth in (False, True):
            rows_of_fields = [fields for fields in inline if (len(fields) > len(types)) == with_truth]
            if rows_of_fields:
                columns = [list(column) for column in zip(*rows_of_fields, strict=True)]
                names = [typed_names(column, kind, place) for column, kind in zip(columns, types, strict=False)]
                values = columns[-1] if with_truth else None
                self._program.add_rows(predicate, role, rows_of_columns(names, values, constants, place))

    def _data_of_phase(self, value: Any, place: str) -> list[Any]:
        """Return the data for all phases and those of the phase."""
        if isinstance(value, str):
            return [value]
        if isinstance(value, dict):
            for key in value:
                check_choice(key, (*PHASES, "all"), place)
            sources = [value.get("all", []), value.get(self._phase, [])]
            return [
                item for data in sources for item in ([data] if isinstance(data, str) else typed(data, list, place))
            ]
        return list(typed(value or [], list, place))

    def _data_file(self, name: str, place: str) -> Path:
        """Return the path of a data file; raise if it does not exist."""
        # PSL writes paths with slashes; programs from Windows may have backslashes.
        last = name.replace("\\", "/").rpartition("/")[2]
        path = self._path.parent / name if self._data is None else self._data / last
        if not path.is_file():
            raise InvalidInputError(
                f"{place}: the data file {path} does not exist. Paths are relative to the program. Correct the path, "
                f"or pass the folder of the files with --data (data= in Python)."
            )
        return path


def _rules_of(rules: Any, path: Path, location: str) -> Iterator[tuple[str, str]]:
    """Yield the rules of a list, or of a rule file, each with its place."""
    if isinstance(rules, str):
        file = path.parent / rules
        if not file.is_file():
            raise InvalidInputError(
                f"{path.name}: {location}: the rule file {file} does not exist. Correct the path, or list the rules."
            )
        for number, rule in enumerate(read_rules(read_text(file), file.name, "psl"), 1):
            yield f"{file.name}, rule {number}", rule.text
        return
    for number, item in enumerate(typed(rules or [], list, f"{path.name}: {location}"), 1):
        place = f"{path.name}: {location}, number {number}"
        if isinstance(item, dict) and "rule" not in item:
            raise FileFormatError(f"{place}: expected a string, got an object {item!r:.60}. Put the rule in quotes.")
        yield place, typed(item["rule"] if isinstance(item, dict) else item, str, place)


def _arity(value: Any, place: str) -> int:
    """Return the number of arguments as an integer."""
    text = str(value)
    if isinstance(value, bool) or not text.isascii() or not text.isdigit() or len(text) > 3:
        raise FileFormatError(f"{place}: the number of arguments must be an integer of at least 1, got {value!r:.40}.")
    return int(text)


def _as_string(value: Any, place: str) -> str:
    """Return a constant or value in the document as a string, spelled as in PSL."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, int, float)):
        return str(value)
    raise FileFormatError(f"{place}: expected strings and numbers in a row, got {value!r:.40}.")


def _evaluation(predicate: str, item: Any, place: str, options: dict[str, Any]) -> Evaluation:
    """Return an evaluation from its entry in the document."""
    entry = {"evaluator": item} if isinstance(item, str) else typed(item, dict, place)
    name = typed(entry.get("evaluator"), str, f"{place}: evaluator")
    own_options = typed(entry.get("options") or {}, dict, f"{place}: options")
    return Evaluation(predicate, name.rpartition(".")[2], {**evaluation_options(options), **own_options})
