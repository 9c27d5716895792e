"""The files that PSL programs are written in: JSON and YAML of PSL 3, rule files with YAML data files of PSL 2."""

from __future__ import annotations

import bisect
import os
import re
from itertools import accumulate
from operator import itemgetter
from pathlib import Path
from typing import Any

from intarsia._files.json_text import read_json_text
from intarsia.exceptions import FileFormatError, InvalidInputError, MissingDependencyError, TooLargeError

PHASES = ("infer", "learn", "validation")
PARTITIONS = ("observations", "targets", "truth")
_MOST_BYTES = 100_000_000
_DEEPEST = 100
# PSL 2 keeps the phases in files of their own; these are the endings that its examples have.
_ENDINGS = {"infer": "-eval", "learn": "-learn", "validation": "-validation"}


def read_document(path: Path, phase: str, data: Path | None) -> dict[str, Any]:
    """Read a program as the object that PSL 3 has in its JSON.

    Parameters
    ----------
    path : path
        JSON, YAML (`.yaml`, `.yml`), or the rules of PSL 2 (`.psl`).
    phase : {"infer", "learn", "validation"}
        Phase whose data file belongs to the rules, for PSL 2.
    data : path, optional
        The data file of PSL 2.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "model.json").write_text("{'rules': ['1: !P(X)',]} # all of it")
    ...     read_document(Path(folder, "model.json"), "infer", None)
    {'rules': ['1: !P(X)']}
    """
    suffix = path.suffix.lower()
    if suffix == ".psl":
        return _read_psl2(path, phase, data)
    if suffix == ".data":
        raise InvalidInputError(
            f"{path.name} names data, but no rules. Read the rule file and name this one as its data: "
            f"read_psl('model.psl', data={path.name!r})."
        )
    text = read_text(path)
    document = _read_yaml(text, path.name) if suffix in (".yaml", ".yml") else read_lenient_json(text, path.name)
    checked: dict[str, Any] = typed(document, dict, path.name)
    return checked


def read_text(path: Path) -> str:
    """Content of a file of rules or of a program, which must be UTF-8."""
    size = path.stat().st_size
    if size > _MOST_BYTES:
        raise TooLargeError(f"{path.name}: {size} bytes are more than a program should have. Put data into files.")
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path.name}: byte {error.start + 1} is not UTF-8. Save the file as UTF-8.") from None


def typed(value: Any, kind: type[Any], place: str) -> Any:
    """Return the value, or refuse it if it is of another type.

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
    """Content of YAML in which every scalar is a string, so that `no` and `01` stay the names they are."""
    try:
        import yaml
    except ImportError:
        raise MissingDependencyError(
            f"{name} needs PyYAML to be read. Install it with: pip install 'intarsia[psl]'"
        ) from None
    # The time that PyYAML takes grows with the square of the brackets that are open at once.
    depths = accumulate((1 if bracket in "[{" else -1 for bracket in re.findall(r"[\[\]{}]", text)), initial=0)
    if max(depths) > _DEEPEST:
        raise FileFormatError(f"{name}: too many brackets inside each other. Check them.")
    try:
        return yaml.load(text, Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"
        raise FileFormatError(f"{name}{place}: no YAML ({error.problem}). Check indentation and quotes.") from None
    except (yaml.YAMLError, ValueError) as error:
        raise FileFormatError(f"{name}: no YAML ({error!s:.80}). Save it as YAML in UTF-8.") from None
    except RecursionError:
        raise FileFormatError(f"{name}: too many brackets inside each other. Check them.") from None


# ---------------------------------------------------------------- PSL 2


def _read_psl2(path: Path, phase: str, data: Path | None) -> dict[str, Any]:
    """Rules of PSL 2 and its data file as a program of PSL 3."""
    source = _data_of_rules(path, phase, data)
    document = typed(_read_yaml(read_text(source), source.name), dict, source.name)
    for key in document:
        if key not in ("predicates", *PARTITIONS):
            raise FileFormatError(
                f"{source.name}: {key!r:.60} is not known. Expected: predicates, {', '.join(PARTITIONS)}."
            )
    declared = typed(document.get("predicates", {}), dict, f"{source.name}: predicates")
    entries = {key: _declaration(value, f"{source.name}: predicates, {key}") for key, value in declared.items()}
    by_name = {key.partition("/")[0].upper(): entry for key, entry in entries.items()}
    for partition in PARTITIONS:
        files_of = typed(document.get(partition) or {}, dict, f"{source.name}: {partition}")
        for name, files in files_of.items():
            if name.upper() not in by_name:
                raise FileFormatError(
                    f"{source.name}: {partition}: {name!r:.60} is not declared under 'predicates'. Declare it as "
                    f"'{name:.60}/2: closed', say."
                )
            items = [files] if isinstance(files, str) else typed(files, list, f"{source.name}: {partition}, {name}")
            where = f"{source.name}: {partition}, {name}"
            moved = [_moved(typed(item, str, where), source.parent, path.parent) for item in items]
            by_name[name.upper()].setdefault(partition, []).extend(moved)
    return {"rules": path.name, "predicates": entries}


def _data_of_rules(path: Path, phase: str, data: Path | None) -> Path:
    if data is not None:
        return data
    names = [f"{path.stem}{_ENDINGS[phase]}.data", f"{path.stem}.data"]
    for name in names:
        if (path.parent / name).is_file():
            return path.parent / name
    raise InvalidInputError(
        f"{path.name}: no data file for these rules: neither {names[0]} nor {names[1]} is beside them. Name it with "
        f"--data (data= in Python)."
    )


def _moved(file: str, source: Path, target: Path) -> str:
    """A path that was relative to one folder, relative to another."""
    return file if source == target or os.path.isabs(file) else os.path.relpath(source / file, target)


def _declaration(value: Any, place: str) -> dict[str, Any]:
    """A predicate of PSL 2 in the words of PSL 3; `closed` is our own addition to them."""
    entry: dict[str, Any] = {}
    for item in value if isinstance(value, list) else [value]:
        if item in ("open", "closed"):
            entry["closed"] = item == "closed"
        elif item == "block":
            continue  # how PSL stores atoms
        elif isinstance(item, dict) and set(item) <= {"types", "implementation", "modeltype", "config"}:
            renamed: dict[str, str] = {"implementation": "function", "modeltype": "model", "config": "options"}
            entry |= {renamed.get(str(key), str(key)): content for key, content in item.items()}
        else:
            raise FileFormatError(f"{place}: expected 'open' or 'closed', and perhaps types, got {item!r:.60}.")
    if "closed" not in entry and "function" not in entry:
        raise FileFormatError(f"{place}: neither 'open' nor 'closed'. Add one of them.")
    return entry


# JSON as PSL's own reader takes it.
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
    r"""Read JSON with the additions that PSL allows.

    These are comments (`//`, `#` and `/* */`), strings in single quotes, a comma after the last item of a list or an
    object, and numbers that begin with zeros or a plus sign. Nothing else is added: names need their quotes.

    Parameters
    ----------
    text : str
        Content of a file.
    location : str
        Name of the file, for messages.

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
    intarsia.exceptions.FileFormatError: model.json, line 2, column 2: no JSON (Expecting ',' delimiter). Check ...
    """
    strict, places = _strict(text)

    def original(at: int) -> tuple[int, int]:
        begin, begin_in_text = places[bisect.bisect_right(places, at, key=itemgetter(0)) - 1]
        place = begin_in_text + at - begin
        return text.count("\n", 0, place) + 1, place - text.rfind("\n", 0, place)

    return read_json_text(strict, location, "Check commas and quotes.", original)


def _strict(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The text as strict JSON, and pairs of corresponding places in it and in the original."""
    pieces: list[str] = []
    places = [(0, 0)]
    length = 0
    before, comma = "", -1  # last token that is not blank; index of a comma that may be the last of its list
    for match in _TOKEN.finditer(text):
        kind, piece = match.lastgroup, match[0]
        if kind == "blank":
            piece = " " * len(piece)
        else:
            if piece in "]}" and comma >= 0:
                pieces[comma] = " "
            comma = len(pieces) if piece == "," and before not in ("", "[", "{", ",", ":") else -1
            before = piece
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
    """A quote or an escape inside a string, as strict JSON writes it."""
    if match[0] == '"':
        return '\\"'
    return "'" if match[1] == "'" else match[0]
