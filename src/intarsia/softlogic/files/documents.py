"""File formats of PSL programs: JSON and YAML of PSL 3, rule files with YAML data files of PSL 2."""

from __future__ import annotations

import bisect
import os
import re
from itertools import accumulate
from operator import itemgetter
from pathlib import Path
from typing import Any

from intarsia._files.json_text import read_json_text
from intarsia._files.packed_file import check_regular
from intarsia.exceptions import FileFormatError, InvalidInputError, MissingDependencyError, TooLargeError

PHASES = ("infer", "learn", "validation")
PARTITIONS = ("observations", "targets", "truth")
_MAX_BYTES = 100_000_000
_MAX_DEPTH = 100
_MAX_ALIASED = 1_000_000  # characters that the aliases of a YAML file may repeat
# PSL 2 has a data file for each phase; its examples use these endings.
_ENDINGS = {"infer": "-eval", "learn": "-learn", "validation": "-validation"}


def read_document(path: Path, phase: str, data: Path | None) -> dict[str, Any]:
    """Read a program and return it in the JSON format of PSL 3.

    Parameters
    ----------
    path : path
        JSON file, YAML file (`.yaml`, `.yml`), or rule file of PSL 2 (`.psl`).
    phase : {"infer", "learn", "validation"}
        Phase whose data file is read, for PSL 2.
    data : path, optional
        Data file of PSL 2.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "model.json").write_text("{'rules': ['1: !P(X)',]} # the program")
    ...     read_document(Path(folder, "model.json"), "infer", None)
    {'rules': ['1: !P(X)']}
    """
    suffix = path.suffix.lower()
    if not path.is_file():
        raise InvalidInputError(f"there is no file {path}. Check the path of the program.")
    if suffix == ".psl":
        return _read_psl2(path, phase, data)
    if suffix == ".data":
        raise InvalidInputError(
            f"{path.name} is a data file without rules. Pass the rule file, with this file as its data: "
            f"read_psl('model.psl', data={path.name!r})."
        )
    text = read_text(path)
    document = _read_yaml(text, path.name) if suffix in (".yaml", ".yml") else read_lenient_json(text, path.name)
    program: dict[str, Any] = typed(document, dict, path.name)
    return program


def read_text(path: Path) -> str:
    """Read a UTF-8 file of rules or of a program."""
    check_regular(path)
    size = path.stat().st_size
    if size > _MAX_BYTES:
        raise TooLargeError(
            f"{path.name}: a program must have at most {_MAX_BYTES} bytes, got {size}. Put data into files."
        )
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileFormatError(
            f"{path.name}: byte {error.start + 1} is not valid UTF-8. Save the file as UTF-8."
        ) from None


def typed(value: Any, kind: type[Any], place: str) -> Any:
    """Return the value, or raise if it is of another type.

    Examples
    --------
    >>> typed([], list, "model.json: rules")
    []
    """
    names: dict[Any, str] = {dict: "an object", list: "a list", str: "a string"}
    if not isinstance(value, kind):
        raise FileFormatError(f"{place}: expected {names[kind]}, got {type(value).__name__} {value!r:.40}.")
    return value


def _read_yaml(text: str, name: str) -> Any:
    """Parse YAML with every scalar as a string, so that `no` and `01` are not converted."""
    try:
        import yaml
    except ImportError:
        raise MissingDependencyError(
            f"{name}: reading YAML needs PyYAML. Install it with: pip install 'intarsia[psl]'"
        ) from None
    # The time of PyYAML grows with the square of the nesting depth of brackets.
    depths = accumulate((1 if bracket in "[{" else -1 for bracket in re.findall(r"[\[\]{}]", text)), initial=0)
    if max(depths) > _MAX_DEPTH:
        raise FileFormatError(f"{name}: too many brackets inside each other. Check them.")
    try:
        document = yaml.load(text, Loader=yaml.BaseLoader)
        if _length(document, {}) > _MAX_ALIASED + len(text):
            raise TooLargeError(
                f"{name}: its aliases repeat more than {_MAX_ALIASED} characters. Write the program without aliases."
            )
        return document
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"
        raise FileFormatError(
            f"{name}{place}: malformed YAML ({error.problem}). Check indentation and quotes."
        ) from None
    except (yaml.YAMLError, ValueError) as error:
        raise FileFormatError(f"{name}: malformed YAML ({error!s:.80}). Save it as YAML in UTF-8.") from None
    except RecursionError:
        raise FileFormatError(f"{name}: too many brackets inside each other. Check them.") from None


def _length(value: Any, lengths: dict[int, int]) -> int:
    """Return the number of characters and items of a YAML value with its aliases written out."""
    if value is None or isinstance(value, str):
        return 1 + len(value or "")
    if id(value) not in lengths:
        items = [*value, *value.values()] if isinstance(value, dict) else value
        lengths[id(value)] = 1 + sum(_length(item, lengths) for item in items)
    return lengths[id(value)]


# ---------------------------------------------------------------- PSL 2


def _read_psl2(path: Path, phase: str, data: Path | None) -> dict[str, Any]:
    """Read rules of PSL 2 and their data file, and return them in the format of PSL 3."""
    source = _data_of_rules(path, phase, data)
    document = typed(_read_yaml(read_text(source), source.name), dict, source.name)
    for key in document:
        if key not in ("predicates", *PARTITIONS):
            raise FileFormatError(
                f"{source.name}: {key!r:.60} is not known. Expected: predicates, {', '.join(PARTITIONS)}."
            )
    declarations = typed(document.get("predicates", {}), dict, f"{source.name}: predicates")
    entries = {key: _declaration(value, f"{source.name}: predicates, {key}") for key, value in declarations.items()}
    by_name = {key.partition("/")[0].upper(): entry for key, entry in entries.items()}
    for partition in PARTITIONS:
        files_of = typed(document.get(partition) or {}, dict, f"{source.name}: {partition}")
        for name, files in files_of.items():
            if name.upper() not in by_name:
                raise FileFormatError(
                    f"{source.name}: {partition}: {name!r:.60} is not declared under 'predicates'. Declare it, for "
                    f"example as '{name:.60}/2: closed'."
                )
            items = [files] if isinstance(files, str) else typed(files, list, f"{source.name}: {partition}, {name}")
            where = f"{source.name}: {partition}, {name}"
            paths = [_relocated(typed(item, str, where), source.parent, path.parent) for item in items]
            by_name[name.upper()].setdefault(partition, []).extend(paths)
    return {"rules": path.name, "predicates": entries}


def _data_of_rules(path: Path, phase: str, data: Path | None) -> Path:
    """Return the path of the data file of a rule file."""
    if data is not None:
        return data
    names = [f"{path.stem}{_ENDINGS[phase]}.data", f"{path.stem}.data"]
    for name in names:
        if (path.parent / name).is_file():
            return path.parent / name
    raise InvalidInputError(
        f"{path.name}: the rules have no data file: neither {names[0]} nor {names[1]} is in their folder. Pass it with "
        f"--data (data= in Python)."
    )


def _relocated(file: str, source: Path, target: Path) -> str:
    """Convert a path relative to the folder `source` to one relative to the folder `target`."""
    return file if source == target or os.path.isabs(file) else os.path.relpath(source / file, target)


def _declaration(value: Any, place: str) -> dict[str, Any]:
    """Convert the declaration of a predicate in PSL 2 to that of PSL 3, extended by `closed`."""
    entry: dict[str, Any] = {}
    for item in value if isinstance(value, list) else [value]:
        if item in ("open", "closed"):
            entry["closed"] = item == "closed"
        elif item == "block":
            continue  # affects only how PSL stores atoms
        elif isinstance(item, dict) and set(item) <= {"types", "implementation", "modeltype", "config"}:
            renamed: dict[str, str] = {"implementation": "function", "modeltype": "model", "config": "options"}
            entry |= {renamed.get(str(key), str(key)): content for key, content in item.items()}
        else:
            raise FileFormatError(f"{place}: expected 'open' or 'closed', and optionally types, got {item!r:.60}.")
    if "closed" not in entry and "function" not in entry:
        raise FileFormatError(f"{place}: the declaration has neither 'open' nor 'closed'. Add one of them.")
    return entry


# Tokens of JSON with the extensions of PSL's parser.
_TOKEN = re.compile(
    r"""
    (?P<string>"(?:[^"\\]|\\.)*")
  | (?P<single>'(?:[^'\\]|\\.)*')
  | (?P<blank>\s+|//[^\n]*|\#[^\n]*|/\*.*?\*/)
  | (?P<number>[+-]?\d[\w.+-]*)
  | (?P<word>\w+)
  | (?P<other>.)
    """,
    re.DOTALL | re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(.)|\"", re.DOTALL)
_NUMBER = re.compile(r"\+?(-?)0*(\d.*)", re.DOTALL)


def read_lenient_json(text: str, location: str) -> Any:
    r"""Read JSON with the extensions that PSL allows.

    The extensions are comments (`//`, `#` and `/* */`), strings in single quotes, a comma after the last item of a list
    or an object, and numbers that begin with zeros or a plus sign. Keys must still be quoted.

    Parameters
    ----------
    text : str
        Content of a file.
    location : str
        Name of the file in error messages.

    Raises
    ------
    FileFormatError
        The text is not JSON; the message has the line and the column in `text`.

    Examples
    --------
    >>> read_lenient_json("{'arity': +02, # two\n 'rules': ['1: !P(X)',]}", "model.json")
    {'arity': 2, 'rules': ['1: !P(X)']}
    >>> read_lenient_json("{'a': 1 // one\n 'b': 2}", "model.json")
    Traceback (most recent call last):
        ...
    intarsia.exceptions.FileFormatError: model.json, line 2, column 2: ... (Expecting ',' delimiter). Check ...
    """
    strict, places = _strict(text)

    def original(position: int) -> tuple[int, int]:
        """Return line and column in `text` of a position in the strict JSON."""
        begin, begin_in_text = places[bisect.bisect_right(places, position, key=itemgetter(0)) - 1]
        place = begin_in_text + position - begin
        return text.count("\n", 0, place) + 1, place - text.rfind("\n", 0, place)

    return read_json_text(strict, location, "Check commas and quotes.", original)


def _strict(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Convert to strict JSON; return it with pairs of corresponding positions in it and in the original."""
    pieces: list[str] = []
    places = [(0, 0)]
    length = 0
    previous, comma = "", -1  # last token that is not blank; index of a comma that may be a trailing comma
    for match in _TOKEN.finditer(text):
        kind, piece = match.lastgroup, match[0]
        if kind == "blank":
            piece = " " * len(piece)
        else:
            if piece in "]}" and comma >= 0:
                pieces[comma] = " "
            comma = len(pieces) if piece == "," and previous not in ("", "[", "{", ",", ":") else -1
            previous = piece
            if kind in ("string", "single"):
                piece = '"' + _ESCAPE.sub(_escaped, piece[1:-1]) + '"'
            elif kind == "number":
                piece = _NUMBER.sub(r"\1\2", piece)
        pieces.append(piece)
        length += len(piece)
        if len(piece) != match.end() - match.start():
            places.append((length, match.end()))
    return "".join(pieces), places


def _escaped(match: re.Match[str]) -> str:
    """Return a quote or an escape inside a string in the form of strict JSON."""
    if match[0] == '"':
        return '\\"'
    return "'" if match[1] == "'" else match[0]
