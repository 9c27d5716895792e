"""Server of one web page on this computer alone, without access to the network."""

from __future__ import annotations

import contextlib
import json
import secrets
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from intarsia._core.validation import check_number
from intarsia.exceptions import IntarsiaError, InvalidInputError

_LARGEST_REQUEST = 10_000_000


class LocalPage(ThreadingHTTPServer):
    """Server of a page at http://127.0.0.1, and of the functions that its script calls with JSON documents.

    Every request needs the key, which only `url` contains: other users of this computer can connect to the port, and
    other web pages in the same browser can send requests, but they do not know it. Functions run one at a time.

    Parameters
    ----------
    page : str
        HTML of the page; its script sends the key of its own address in the header X-Key.
    calls : dict of path -> function
        Functions that take the document of a request (empty for GET) and return a document.
    port : int
        Port, or 0 for a free one.

    Examples
    --------
    >>> with LocalPage("<p>A page</p>", {"/add": lambda document: {"sum": document["a"] + document["b"]}}) as server:
    ...     server.url.startswith("http://127.0.0.1:")
    True
    """

    def __init__(self, page: str, calls: Mapping[str, Callable[[Any], Any]], port: int = 0) -> None:
        check_number(port, "port", low=0, high=65535, integer=True)
        try:
            super().__init__(("127.0.0.1", int(port)), _Handler)
        except OSError as error:
            raise InvalidInputError(
                f"port {port} of this computer cannot be used ({error.strerror}). Pass another port, or 0 for a free "
                f"one."
            ) from None
        self.key = secrets.token_urlsafe(16)
        self.page = page.encode("utf-8")
        self.calls = calls
        self.lock = threading.Lock()
        self.finished = False

    @property
    def url(self) -> str:
        """Address of the page, with the key."""
        return f"http://127.0.0.1:{self.server_port}/?key={self.key}"

    def finish(self) -> None:
        """End the server after the response to the current request."""
        self.finished = True


class _Handler(BaseHTTPRequestHandler):
    """Requests: the page by GET, the functions by POST, or by GET with an empty document."""

    server: LocalPage
    timeout = 10.0  # seconds without a byte after which a connection is closed

    def handle(self) -> None:
        """Handle one request; a browser may close the connection at any time."""
        with contextlib.suppress(ConnectionError):
            super().handle()

    def do_GET(self) -> None:
        """Send the page, or the result of a function."""
        self._respond(dict)

    def do_POST(self) -> None:
        """Call a function and send its result."""
        self._respond(self._document)

    def _document(self) -> Any:
        """Read the JSON document of a request."""
        length = int(self.headers.get("Content-Length", ""))
        if not 0 <= length <= _LARGEST_REQUEST:
            raise ValueError(f"{length} bytes, at most {_LARGEST_REQUEST}")
        return json.loads(self.rfile.read(length) or b"{}")

    def _respond(self, read: Callable[[], Any]) -> None:
        """Send the page, or call the function of the path with a document and send its result or the error."""
        path, _, query = self.path.partition("?")
        if not self._is_allowed(query):
            return
        if path == "/" and self.command == "GET":
            self._send(HTTPStatus.OK, self.server.page, "text/html")
            return
        call = self.server.calls.get(path)
        if call is None:
            self._send_json(HTTPStatus.NOT_FOUND, {"error": f"There is no {path[:60]}. Open /."})
            return
        try:
            document = read()
            with self.server.lock:
                answer = call(document)
        except IntarsiaError as error:
            self._send_json(HTTPStatus.BAD_REQUEST, {"error": str(error)})
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            self._send_json(HTTPStatus.BAD_REQUEST, {"error": f"The request is malformed ({error})."})
        else:
            self._send_json(HTTPStatus.OK, answer)
            if self.server.finished:
                self.server.shutdown()

    def _is_allowed(self, query: str) -> bool:
        """Return whether the request names this server and has the key; send an error otherwise.

        Another name may be an attack by a web page whose name was resolved to this computer.
        """
        key = self.headers.get("X-Key") or parse_qs(query).get("key", [""])[0]
        is_local = self.headers.get("Host", "").partition(":")[0] in ("127.0.0.1", "localhost")
        if is_local and secrets.compare_digest(key.encode(), self.server.key.encode()):
            return True
        address = f"http://127.0.0.1:{self.server.server_port}/?key=..."
        self._send_json(
            HTTPStatus.FORBIDDEN,
            {"error": f"The key is missing. Open the complete address, {address}, on this computer."},
        )
        return False

    def _send_json(self, status: HTTPStatus, document: Any) -> None:
        self._send(status, json.dumps(document).encode("utf-8"), "application/json")

    def _send(self, status: HTTPStatus, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Frame-Options", "DENY")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Write no log, because the terminal shows the address of the page."""
