"""Local web page for labelling strings: a server on this computer alone, without access to the network."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from intarsia._core.local_page import LocalPage
from intarsia.exceptions import InvalidInputError
from intarsia.sequences.parsing.labelled_text import Span, token_fields
from intarsia.sequences.parsing.labelling import LabellingSession
from intarsia.sequences.parsing.tokens import Token, tokenize


class LabellingServer(LocalPage):
    """Server of the labelling page at http://127.0.0.1; requests need the key of its address.

    Parameters
    ----------
    session : LabellingSession
        Strings and answers.
    port : int
        Port, or 0 for a free one.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with LabellingServer(LabellingSession(["12 Main St"], Path(folder, "a.jsonl"))) as server:
    ...         server.url.startswith("http://127.0.0.1:")
    True
    """

    def __init__(self, session: LabellingSession, port: int = 0) -> None:
        page = (files("intarsia.sequences.parsing") / "labelling_page.html").read_text(encoding="utf-8")
        calls = {"/next": lambda _: next_item(session), "/answer": self._answer, "/skip": self._skip}
        super().__init__(page, calls, port)
        self.session = session

    def _answer(self, document: Any) -> dict[str, int]:
        """Store an answer."""
        index = document["index"]
        self.session.answer(index, spans_from_labels(self.session, index, document["labels"]))
        return {"n_answers": self.session.n_answers}

    def _skip(self, document: Any) -> dict[str, int]:
        """Skip a string."""
        self.session.skip(document["index"])
        return {"n_answers": self.session.n_answers}


def next_item(session: LabellingSession) -> dict[str, Any]:
    """Return the next string for the page: its tokens, a label for each of them, and counts; text None at the end.

    A label is None, or a list of the field and the number of its span.
    """
    counts = {"n_answers": session.n_answers, "n_waiting": session.n_waiting, "fields": session.fields}
    proposal = session.propose()
    if proposal is None:
        return {"text": None, "probability": None, "tokens": [], "labels": [], **counts}
    tokens = tokenize(proposal.text, session.tokenizer)
    index = token_fields(tokens, proposal.spans)
    return {
        "index": proposal.index,
        "text": proposal.text,
        "tokens": [token._asdict() for token in tokens],
        "labels": [None if k < 0 else [proposal.spans[k][2], k + 1] for k in index],
        "probability": proposal.probability,
        **counts,
    }


def spans_from_labels(session: LabellingSession, index: int, labels: Any) -> list[Span]:
    """Return the spans of the labels that the page sends: neighbours with the same number are one span."""
    if not isinstance(index, int) or not 0 <= index < len(session.texts):
        raise InvalidInputError(f"index must be the number of a string, got {index!r:.20}.")
    tokens: list[Token] = tokenize(session.texts[index], session.tokenizer)
    if not isinstance(labels, list) or len(labels) != len(tokens):
        raise InvalidInputError(f"labels must have an entry for each of the {len(tokens)} tokens.")
    spans: list[Span] = []
    previous = None
    for token, label in zip(tokens, labels, strict=True):
        if label is not None:
            field, number = label
            if previous is not None and previous == [field, number]:
                spans[-1] = (spans[-1][0], token.end, field)
            else:
                spans.append((token.start, token.end, field))
        previous = label
    return spans
