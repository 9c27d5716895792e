"""File of answers about pairs of records: must-links, cannot-links and labels; contradictions are named."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from intarsia._core.error_context import errors_from
from intarsia._files.atomic_file import append_line
from intarsia._files.json_text import read_json_text
from intarsia._files.text_lines import read_lines
from intarsia.exceptions import FileFormatError, InvalidInputError

SAME, DIFFERENT, UNSURE, UNDONE = "same", "different", "unsure", "undone"
ANSWERS = (SAME, DIFFERENT, UNSURE, UNDONE)


@dataclass(frozen=True)
class Answers:
    """Answers of a review, as arguments of `resolve`.

    Attributes
    ----------
    must_link, cannot_link : lists of pairs of ids
        Pairs answered "same" and "different".
    labels : dict of columns
        "id1", "id2" and "match" (1 or 0) of these pairs, for `calibrate=`.
    unsure : list of pairs of ids
        Pairs answered "unsure".

    Examples
    --------
    >>> Answers([("a", "b")], [("a", "c")]).labels
    {'id1': ['a', 'a'], 'id2': ['b', 'c'], 'match': [1, 0]}
    """

    must_link: list[tuple[Any, Any]]
    cannot_link: list[tuple[Any, Any]]
    unsure: list[tuple[Any, Any]] = field(default_factory=list)

    @property
    def labels(self) -> dict[str, list[Any]]:
        """Answered pairs as a table of labelled pairs."""
        pairs = [*self.must_link, *self.cannot_link]
        return {
            "id1": [first for first, _ in pairs],
            "id2": [second for _, second in pairs],
            "match": [1] * len(self.must_link) + [0] * len(self.cannot_link),
        }


@errors_from("read_answers")
def read_answers(path: str | os.PathLike[str]) -> Answers:
    r"""Read the answers of a review; a later answer about a pair replaces an earlier one.

    Parameters
    ----------
    path : path
        JSON Lines file that `review` wrote: "id1", "id2" and "answer" in each line.

    Raises
    ------
    FileFormatError
        A line is malformed.
    InvalidInputError
        Answers contradict each other; the message lists them.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "answers.jsonl")
    ...     _ = path.write_text('{"id1": 1, "id2": 2, "answer": "same"}\n{"id1": 3, "id2": 2, "answer": "different"}')
    ...     answers = read_answers(path)
    >>> answers.must_link, answers.cannot_link
    ([(1, 2)], [(3, 2)])
    """
    log = AnswerLog(Path(path), must_exist=True)
    return log.answers()


class AnswerLog:
    """Answers in the order they were given, written to a file line by line.

    Parameters
    ----------
    path : Path
        File; its answers are read first.
    must_exist : bool
        Whether to raise if there is no such file.
    """

    def __init__(self, path: Path, *, must_exist: bool = False) -> None:
        self.path = path
        self._answer_of: dict[frozenset[Any], tuple[Any, Any, str]] = {}
        if path.exists() or must_exist:
            self._read()

    def _read(self) -> None:
        """Read all answers of the file."""
        if not self.path.is_file():
            raise InvalidInputError(f"there is no file {self.path}. Check the path.")
        for number, line in read_lines(self.path):
            if not line.strip():
                continue
            location = f"{self.path.name}, line {number}"
            document = read_json_text(line, self.path.name, "Correct or delete this line.", _in_line(number))
            if not isinstance(document, dict) or not {"id1", "id2", "answer"} <= set(document):
                raise FileFormatError(f"{location}: expected 'id1', 'id2' and 'answer'. Correct or delete this line.")
            first, second, answer = as_id(document["id1"]), as_id(document["id2"]), document["answer"]
            if answer not in ANSWERS or not all(_is_id(name) for name in (first, second)) or first == second:
                raise FileFormatError(
                    f"{location}: expected two different ids and an answer of {', '.join(ANSWERS)}, got "
                    f"{line.strip()!r:.80}. Correct or delete this line."
                )
            self._store(first, second, answer)
        for first, second, answer in self._answer_of.values():
            if answer == DIFFERENT:
                self._check(first, second, answer, f"{self.path.name}: ")

    def _store(self, first: Any, second: Any, answer: str) -> None:
        key = frozenset((first, second))
        self._answer_of.pop(key, None)
        if answer != UNDONE:
            self._answer_of[key] = (first, second, answer)

    def add(self, first: Any, second: Any, answer: str) -> None:
        """Check an answer, append it to the file, and only then store it."""
        if not all(_is_id(name) for name in (first, second)):
            raise InvalidInputError(f"ids {first!r:.40}, {second!r:.40}: expected strings or numbers. Use such ids.")
        self._check(first, second, answer)
        append_line(self.path, json.dumps({"id1": first, "id2": second, "answer": answer}))
        self._store(first, second, answer)

    def undo(self) -> tuple[Any, Any] | None:
        """Take back the last answer; return its pair, or None if there is no answer."""
        if not self._answer_of:
            return None
        first, second, _ = next(reversed(self._answer_of.values()))
        self.add(first, second, UNDONE)
        return first, second

    def answers(self) -> Answers:
        """Return the answers as links and labels."""
        by_answer: dict[str, list[tuple[Any, Any]]] = {SAME: [], DIFFERENT: [], UNSURE: []}
        for first, second, answer in self._answer_of.values():
            by_answer[answer].append((first, second))
        return Answers(by_answer[SAME], by_answer[DIFFERENT], by_answer[UNSURE])

    def __len__(self) -> int:
        return len(self._answer_of)

    def __contains__(self, pair: tuple[Any, Any]) -> bool:
        return frozenset(pair) in self._answer_of

    def implied(self, first: Any, second: Any) -> str:
        """Return the answer that follows from the others: "same", "different", or an empty string."""
        group_of = self._groups()
        groups = frozenset((group_of.get(first, first), group_of.get(second, second)))
        if len(groups) == 1:
            return SAME
        separated_groups = {
            frozenset((group_of.get(a, a), group_of.get(b, b)))
            for a, b, answer in self._answer_of.values()
            if answer == DIFFERENT
        }
        return DIFFERENT if groups in separated_groups else ""

    def _groups(self) -> dict[Any, Any]:
        """Return a common record for all records that "same" answers join."""
        group_of: dict[Any, Any] = {}
        members: dict[Any, list[Any]] = {}
        for a, b, answer in self._answer_of.values():
            if answer == SAME:
                target, source = (group_of.get(record, record) for record in (a, b))
                if target != source:
                    absorbed_records = members.pop(source, [source])
                    members.setdefault(target, [target]).extend(absorbed_records)
                    group_of.update(dict.fromkeys([target, *absorbed_records], target))
        return group_of

    def _chain(self, start: Any, end: Any, without: frozenset[Any] = frozenset()) -> list[Any]:
        """Return the shortest chain of records answered "same" from one record to another; empty if there is none."""
        neighbours: dict[Any, list[Any]] = {}
        for key, (a, b, answer) in self._answer_of.items():
            if answer == SAME and key != without:
                neighbours.setdefault(a, []).append(b)
                neighbours.setdefault(b, []).append(a)
        previous = {start: start}
        queue = deque([start])
        while queue:
            record = queue.popleft()
            if record == end:
                chain = [record]
                while chain[-1] != start:
                    chain.append(previous[chain[-1]])
                return chain[::-1]
            for other in neighbours.get(record, []):
                if other not in previous:
                    previous[other] = record
                    queue.append(other)
        return []

    def _check(self, first: Any, second: Any, answer: str, prefix: str = "") -> None:
        """Raise if an answer contradicts the others."""
        key = frozenset((first, second))
        if answer == DIFFERENT:
            chain = self._chain(first, second, without=key)
            if chain:
                raise InvalidInputError(
                    f"{prefix}{first!r} and {second!r} are answered as different, but as the same by "
                    f"{_joined(chain)}. Change one of these answers."
                )
        if answer == SAME:
            for a, b, other in self._answer_of.values():
                if other != DIFFERENT or frozenset((a, b)) == key:
                    continue
                for x, y in ((a, b), (b, a)):
                    before, after = self._chain(x, first, without=key), self._chain(second, y, without=key)
                    if before and after:
                        raise InvalidInputError(
                            f"{prefix}{first!r} and {second!r} are answered as the same, so that "
                            f"{_joined(before + after)}, but {x!r} and {y!r} are answered as different. "
                            f"Change one of these answers."
                        )


def _in_line(number: int) -> Callable[[int], tuple[int, int]]:
    """Return the function that converts an index into a line to the number of the line and the column."""
    return lambda index: (number, index + 1)


def _joined(chain: Iterable[Any]) -> str:
    return " = ".join(map(repr, chain))


def as_id(value: Any) -> Any:
    """Return an id from JSON: a table and an id are a list there."""
    return tuple(value) if isinstance(value, list) else value


def _is_id(value: Any) -> bool:
    if isinstance(value, tuple):
        return len(value) == 2 and all(isinstance(item, (str, int, float)) for item in value)
    return isinstance(value, (str, int, float))
