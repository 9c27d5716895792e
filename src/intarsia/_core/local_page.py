"""Server of one web page on this computer alone, without access to the network."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from intarsia._core.validation import check_number
from intarsia.exceptions import IntarsiaError, InvalidInputError

_LARGEST_REQUEST = 10_000_000


class LocalPage(HTTPServer):
    """Server of a page at http://127.0.0.1, and of the functions that its script calls with JSON documents.

    Requests need the key that is in the page. The key and the check of the Host header keep other web pages in the same
    browser from sending requests.

    Parameters
    ----------
    page : str
        HTML of the page; `__KEY__` is replaced by the key, which the script sends in the header X-Key.
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
        self.page = page.replace("__KEY__", self.key).encode("utf-8")
        self.calls = calls

    @property
    def url(self) -> str:
        """Address of the page."""
        return f"http://127.0.0.1:{self.server_port}/"


class _Handler(BaseHTTPRequestHandler):
    """Requests: the page by GET, the functions by POST, or by GET with an empty document."""

    server: LocalPage

    def do_GET(self) -> None:
        """Send the page, or the result of a function."""
        if self.path == "/" and self._is_local():
            self._send(HTTPStatus.OK, self.server.page, "text/html")
        elif self.path != "/":
            self._call(dict)

    def do_POST(self) -> None:
        """Call a function and send its result."""
        self._call(self._document)

    def _document(self) -> Any:
        """Read the JSON document of a request."""
        length = int(self.headers.get("Content-Length", ""))
        if not 0 <= length <= _LARGEST_REQUEST:
            raise ValueError(length)
        return json.loads(self.rfile.read(length) or b"{}")

    def _call(self, read: Callable[[], Any]) -> None:
        """Call the function of the path with a document, and send its result or the error."""
        if not self._is_local():
            return
        call = self.server.calls.get(self.path)
        if call is None:
            self._send_json(HTTPStatus.NOT_FOUND, {"error": f"There is no {self.path[:60]}. Open /."})
            return
        if not self._has_key():
            return
        try:
            answer = call(read())
        except IntarsiaError as error:
            self._send_json(HTTPStatus.BAD_REQUEST, {"error": str(error)})
        except (ValueError, TypeError, LookupError) as error:
            self._send_json(HTTPStatus.BAD_REQUEST, {"error": f"The request is malformed ({error})."})
        else:
            self._send_json(HTTPStatus.OK, answer)

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
