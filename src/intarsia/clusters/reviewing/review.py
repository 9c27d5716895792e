"""Review the most doubtful decisions of a clustering on a web page of this computer."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import webbrowser
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from intarsia._core.error_context import errors_from, errors_in
from intarsia._core.local_page import LocalPage
from intarsia._core.validation import check_choice, check_number
from intarsia._files.tables import TABLES, read_columns
from intarsia.clusters.resolution.resolve import Resolution, resolve
from intarsia.clusters.reviewing.answers import ANSWERS, UNDONE, AnswerLog, Answers, as_id
from intarsia.clusters.reviewing.questions import Question, choose_questions
from intarsia.exceptions import InvalidInputError

_OTHERS_SHOWN = 4
_RANKED_PAIRS = 20_000  # up to which questions are ranked again after each answer
_RANKING_SECONDS = 0.5


class ReviewSession:
    """Questions of a review, the records that they show, and the answers so far.

    Parameters
    ----------
    resolution : Resolution
        Clustering to review.
    records : table
        Records with their ids.
    path : path
        JSON Lines file of answers; a review continues where it stopped.
    id_column : str, optional
        Column of `records` with the ids; by default "unique_id", "id" or "record_id".
    columns : list of str, optional
        Columns to show; by default all.
    n_questions : int
        Largest number of questions.

    Examples
    --------
    >>> import tempfile
    >>> resolution = resolve({"id1": ["a"], "id2": ["b"], "log_odds": [0.2]}, calibrate=None)
    >>> records = {"id": ["a", "b"], "name": ["Ann Lee", "Anne Lee"]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     session = ReviewSession(resolution, records, Path(folder, "answers.jsonl"))
    ...     question = session.next_question()
    ...     session.answer("a", "b", "same")
    ...     session.next_question()["question"]
    >>> question["rows"]
    [{'column': 'name', 'first': [['Ann', True], [' Lee', False]], 'second': [['Anne', True], [' Lee', False]]}]
    """

    def __init__(
        self,
        resolution: Resolution,
        records: Any,
        path: str | os.PathLike[str],
        *,
        id_column: str | None = None,
        columns: Sequence[str] | None = None,
        n_questions: int = 200,
    ) -> None:
        check_number(n_questions, "n_questions", low=1, integer=True)
        self._columns, self._row_of = _read_records(resolution, records, id_column, columns)
        missing = [name for name in resolution.pairs.ids if str(name) not in self._row_of]
        if missing:
            raise InvalidInputError(
                f"records have no id {missing[0]!r:.60}, which the pairs contain ({len(missing):,} of "
                f"{resolution.n_records:,} ids are missing). Pass all records, or name their ids with id_column=."
            )
        target = Path(path)
        if not target.absolute().parent.is_dir():
            raise InvalidInputError(f"there is no folder {target.parent}. Create it, or pass another path.")
        self.log = AnswerLog(target)
        self._resolution, self._n_questions = resolution, int(n_questions)
        self._question_of_pair: dict[frozenset[Any], Question] = {}
        self.questions: list[Question] = []
        self._rank(resolution)
        if len(self.log):
            self.rank_again()

    def _rank(self, resolution: Resolution) -> None:
        """Choose the questions about a resolution; earlier questions may still be answered."""
        self.questions = choose_questions(resolution, self._n_questions)
        self._question_of_pair |= {frozenset((item.first, item.second)): item for item in self.questions}

    def rank_again(self) -> None:
        """Resolve again with the answers as constraints and choose the questions again, if there are few pairs."""
        first = self._resolution
        if first.n_pairs > _RANKED_PAIRS:
            return
        answers, ids, source = self.log.answers(), first.pairs.ids, first.links.source
        links = [
            [*(tuple(ids[end] for end in pair) for pair in earlier.tolist()), *pairs]
            for earlier, pairs in ((first.links.must, answers.must_link), (first.links.cannot, answers.cannot_link))
        ]
        try:
            resolution = resolve(
                replace(first.pairs, log_odds=first.log_odds, kind=None),
                calibrate=None,
                absent=first.calibration.absent,
                source=None if source is None else {ids[k]: int(source[k]) for k in np.flatnonzero(source >= 0)},
                must_link=links[0],
                cannot_link=links[1],
                max_size=int(first.problem.max_size),
                time_limit=_RANKING_SECONDS,
            )
        except InvalidInputError:  # answers contradict a constraint or name other records: the ranking stays
            return
        self._rank(resolution)

    def waiting(self) -> list[Question]:
        """Return the questions whose answer neither was given nor follows from other answers."""
        return [
            item
            for item in self.questions
            if (item.first, item.second) not in self.log and not self.log.implied(item.first, item.second)
        ]

    def next_question(self, document: Any = None) -> dict[str, Any]:
        """Return the next question for the page: both records, column by column, with the differences marked."""
        waiting = self.waiting()
        counts = {"n_answers": len(self.log), "n_waiting": len(waiting)}
        if not waiting:
            return {"question": None, **counts}
        item = waiting[0]
        texts = {
            "split": f"They are in one entity. If they are different, it is split into {_sizes(item)} records",
            "join": f"They are in two entities. If they are the same, these {_sizes(item)} records are joined",
            "pair": "Their score does not say whether they are the same",
        }
        return {
            "question": {"first": item.first, "second": item.second},
            "reason": f"{texts[item.kind]} (cost in log odds: {item.cost:.2f}).",
            "rows": self._compared(item.first, item.second),
            "others": [[self._summary(name) for name in side[1 : 1 + _OTHERS_SHOWN]] for side in item.sides],
            "n_others": [len(side) - 1 for side in item.sides],
            **counts,
        }

    def answer(self, first: Any, second: Any, answer: str) -> None:
        """Store the answer about a pair; raise if it contradicts other answers."""
        check_choice(answer, [name for name in ANSWERS if name != UNDONE], "answer")
        if frozenset((first, second)) not in self._question_of_pair:
            raise InvalidInputError(
                f"{first!r:.40} and {second!r:.40} are not in question. Pass a pair of the questions."
            )
        self.log.add(first, second, answer)
        self.rank_again()

    def undo(self) -> None:
        """Take back the last answer."""
        self.log.undo()
        self.rank_again()

    def _compared(self, first: Any, second: Any) -> list[dict[str, Any]]:
        """Return the values of two records in each column, with the differences marked."""
        rows = [self._row_of[str(name)] for name in (first, second)]
        compared = []
        for name, values in self._columns.items():
            pieces = mark_differences(*(_text(values[row]) for row in rows))
            compared.append({"column": name, "first": pieces[0], "second": pieces[1]})
        return compared

    def _summary(self, name: Any) -> str:
        """Return a record in one line."""
        row = self._row_of[str(name)]
        return ", ".join(text for text in (_text(values[row]) for values in self._columns.values()) if text)


def mark_differences(first: str, second: str) -> tuple[list[list[Any]], list[list[Any]]]:
    """Return two strings as pieces, each with whether it differs from the other string; words are compared.

    Examples
    --------
    >>> mark_differences("12 Main St", "12 Main Road")
    ([['12 Main ', False], ['St', True]], [['12 Main ', False], ['Road', True]])
    """
    words = [re.findall(r"\w+|\s+|[^\w\s]", text) for text in (first, second)]
    pieces: tuple[list[list[Any]], list[list[Any]]] = ([], [])
    for kind, a, b, c, d in difflib.SequenceMatcher(None, words[0], words[1], autojunk=False).get_opcodes():
        for side, text in enumerate(("".join(words[0][a:b]), "".join(words[1][c:d]))):
            if text:
                pieces[side].append([text, kind != "equal"])
    return pieces


@errors_from("review")
def review(
    edges: Any,
    records: Any,
    path: str | os.PathLike[str],
    *,
    id_column: str | None = None,
    columns: Sequence[str] | None = None,
    n_questions: int = 200,
    port: int = 0,
    open_browser: bool = True,
    on_start: Callable[[str], None] | None = None,
) -> Answers:
    """Ask about the most doubtful decisions on a web page of this computer, and return the answers.

    The page shows two records side by side with their differences marked; the keys s, d, u and z mean same, different,
    unsure and undo. The first questions are those whose answer changes most record pairs: the cheapest split of an
    entity, entities that are nearly joined, pairs with log odds near 0. Answers are added to a file one by one; a
    review of the same file continues where it stopped. It returns when no question is open, and ends with "Finish" on
    the page or Ctrl-C.

    Parameters
    ----------
    edges : Resolution or table
        Result of `resolve`, or a table of scored pairs, which is resolved first.
    records : table
        All records with their ids.
    path : path
        JSON Lines file of answers.
    id_column : str, optional
        Column of `records` with the ids; by default "unique_id", "id" or "record_id".
    columns : list of str, optional
        Columns to show; by default all.
    n_questions : int
        Largest number of questions.
    port : int
        Port of the page; 0 for a free one.
    open_browser : bool
        Whether to open the page in a browser.
    on_start : function of str, optional
        Called with the address of the page before it is served.

    Returns
    -------
    Answers
        `must_link`, `cannot_link` and `labels` for `resolve(..., must_link=, cannot_link=, calibrate=)`.

    Examples
    --------
    A review whose questions are all answered returns at once; otherwise a page opens.

    >>> import tempfile
    >>> edges = {"id1": ["a"], "id2": ["b"], "log_odds": [0.2]}
    >>> people = {"id": ["a", "b"], "name": ["Ann Lee", "Anne Lee"]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "answers.jsonl")
    ...     _ = path.write_text('{"id1": "a", "id2": "b", "answer": "different"}')
    ...     answers = review(edges, people, path)
    >>> resolve(edges, must_link=answers.must_link, cannot_link=answers.cannot_link).table["entity"]
    ['a', 'b']
    """
    resolution = edges if isinstance(edges, Resolution) else resolve(edges)
    session = ReviewSession(resolution, records, path, id_column=id_column, columns=columns, n_questions=n_questions)
    if not session.waiting():
        return session.log.answers()
    with ReviewPage(session, port) as server:
        if on_start is not None:
            on_start(server.url)
        if open_browser:
            webbrowser.open(server.url)
        with contextlib.suppress(KeyboardInterrupt):  # every answer is in the file already
            server.serve_forever(poll_interval=0.1)
    return session.log.answers()


class ReviewPage(LocalPage):
    """Server of the page of a review.

    Parameters
    ----------
    session : ReviewSession
        Questions and answers.
    port : int
        Port, or 0 for a free one.
    """

    def __init__(self, session: ReviewSession, port: int = 0) -> None:
        page = (files("intarsia.clusters.reviewing") / "review_page.html").read_text(encoding="utf-8")
        calls = {"/next": session.next_question, "/answer": self._answer, "/undo": self._undo, "/finish": self._finish}
        super().__init__(page, calls, port)
        self.session = session

    def _answer(self, document: Any) -> dict[str, Any]:
        """Store an answer, and return the next question."""
        self.session.answer(as_id(document["first"]), as_id(document["second"]), document["answer"])
        return self.session.next_question()

    def _undo(self, document: Any) -> dict[str, Any]:
        """Take back the last answer, and return the next question."""
        self.session.undo()
        return self.session.next_question()

    def _finish(self, document: Any) -> dict[str, Any]:
        """End the server after this response."""
        self.finish()
        return {"n_answers": len(self.session.log)}


def _read_records(
    resolution: Resolution, records: Any, id_column: str | None, columns: Sequence[str] | None
) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the columns to show, and the row of each id as a string."""
    with errors_in("records"):
        table = read_columns(records)
        if table is None:
            raise InvalidInputError(f"the records are of type {type(records).__name__}. Pass {TABLES}.")
        table = {str(name): values for name, values in table.items()}
        if not table:
            raise InvalidInputError("the table has no columns. Pass the records with their ids.")
        if id_column is not None:
            check_choice(id_column, table, "id_column")
        id_columns = resolution.pairs.columns
        row_of: dict[str, int] = {}
        for row, value in enumerate(id_columns.read_records(table, id_column)):
            key = str(value)
            if key in row_of:
                raise InvalidInputError(
                    f"rows {row_of[key]} and {row} have the same id {key!r:.60}. Remove one of them, or name another "
                    f"column with id_column=."
                )
            row_of[key] = row
        column_names = columns or [name for name in table if name not in id_columns.record_names(table, id_column)]
        return {check_choice(name, table, "column"): list(table[name]) for name in column_names}, row_of


def _text(value: Any) -> str:
    """Return a value as text; a missing value is empty."""
    return "" if value is None or value != value else str(value)


def _sizes(question: Question) -> str:
    return " and ".join(str(len(side)) for side in question.sides)
