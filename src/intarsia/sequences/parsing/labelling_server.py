"""Local web page for labelling strings: a server on this computer alone, without access to the network."""

from __future__ import annotations

import json
import secrets
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.resources import files
from typing import Any

from intarsia.exceptions import InvalidInputError
from intarsia.sequences.parsing.labelled_text import Span, token_fields
from intarsia.sequences.parsing.labelling import LabellingSession
from intarsia.sequences.parsing.tokens import Token, tokenize

_LARGEST_REQUEST = 10_000_000


class LabellingServer(HTTPServer):
    """Server of the labelling page at http://127.0.0.1; requests need the key that is in the page.

    The key and the check of the Host header keep other web pages in the same browser from sending answers.

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
        super().__init__(("127.0.0.1", port), _Handler)
        self.session = session
        self.key = secrets.token_urlsafe(16)

    @property
    def url(self) -> str:
        """Address of the page."""
        return f"http://127.0.0.1:{self.server_port}/"


class _Handler(BaseHTTPRequestHandler):
    """Requests: the page, the next string, an answer, and a string to skip."""

    server: LabellingServer

    def do_GET(self) -> None:
        """Send the page or the next string."""
        if not self._is_local():
            return
        if self.path == "/":
            page = (files("intarsia.sequences.parsing") / "labelling_page.html").read_text(encoding="utf-8")
            self._send(HTTPStatus.OK, page.replace("__KEY__", self.server.key).encode("utf-8"), "text/html")
        elif self.path == "/next" and self._has_key():
            self._send_json(HTTPStatus.OK, next_item(self.server.session))
        elif self.path != "/next":
            self._send_json(HTTPStatus.NOT_FOUND, {"error": f"There is no {self.path}. Open /."})

    def do_POST(self) -> None:
        """Store an answer, or skip a string."""
        if not self._is_local() or not self._has_key():
            return
        try:
            length = int(self.headers.get("Content-Length", ""))
            if not 0 <= length <= _LARGEST_REQUEST:
                raise ValueError(length)
            request = json.loads(self.rfile.read(length))
            index = request["index"]
            if self.path == "/answer":
                self.server.session.answer(index, spans_from_labels(self.server.session, index, request["labels"]))
            elif self.path == "/skip":
                self.server.session.skip(index)
            else:
                self._send_json(HTTPStatus.NOT_FOUND, {"error": f"There is no {self.path}."})
                return
        except InvalidInputError as error:
            self._send_json(HTTPStatus.BAD_REQUEST, {"error": str(error)})
        except (ValueError, TypeError, LookupError) as error:
            self._send_json(HTTPStatus.BAD_REQUEST, {"error": f"The request is malformed ({error})."})
        else:
            self._send_json(HTTPStatus.OK, {"n_answers": self.server.session.n_answers})

    def _is_local(self) -> bool:
        """Return whether the request names this server; another name may be an attack by a web page."""
        host = self.headers.get("Host", "").rpartition(":")[0]
        if host in ("127.0.0.1", "localhost"):
            return True
        self._send_json(HTTPStatus.FORBIDDEN, {"error": f"Open {self.server.url} on this computer."})
        return False

    def _has_key(self) -> bool:
        if secrets.compare_digest(self.headers.get("X-Key", "").encode(), self.server.key.encode()):
            return True
        self._send_json(HTTPStatus.FORBIDDEN, {"error": "The key is missing. Reload the page."})
        return False

    def _send_json(self, status: HTTPStatus, document: Any) -> None:
        self._send(status, json.dumps(document).encode("utf-8"), "application/json")

    def _send(self, status: HTTPStatus, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Frame-Options", "DENY")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Write no log, because the terminal shows the address of the page."""


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
