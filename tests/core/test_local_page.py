"""The local page answers only requests with its key and host, and neither slow nor malformed requests stop it."""

from __future__ import annotations

import json
import socket
import threading
import urllib.error
import urllib.request

import pytest

from intarsia._core import local_page
from intarsia._core.local_page import LocalPage

LIMIT = 10_000_000
NAME = "127.0.0.1:80"  # a forwarded port has another number


@pytest.fixture
def server():
    active, most = [], []

    def count(document):
        active.append(1)
        most.append(len(active))
        threading.Event().wait(0.02)
        active.pop()
        return {"n": len(document), "most": max(most)}

    with LocalPage("<p>secret page</p>", {"/count": count}) as page:
        thread = threading.Thread(target=page.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield page
        page.shutdown()
        thread.join(10)
        assert not thread.is_alive()


def send(server, lines, body=b""):
    """Send a request over a bare socket; return the status and the content."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode() + body)
        head, _, content = b"".join(iter(lambda: connection.recv(65536), b"")).partition(b"\r\n\r\n")
    return int(head.split()[1]), content.decode()


def post(server, body, length=None):
    n = len(body) if length is None else length
    key = f"X-Key: {server.key}"
    return send(server, ["POST /count HTTP/1.0", f"Host: {NAME}", key, f"Content-Length: {n}"], body)


def test_the_address_opens_the_page(server):
    with urllib.request.urlopen(server.url, timeout=10) as response:
        assert response.read() == b"<p>secret page</p>"
        assert response.headers["Referrer-Policy"] == "no-referrer"


@pytest.mark.parametrize("path", ["/", "/count", "/none", "/?key=", "/?key=x", "/?key=%ff", "/?yek={key}", "//[?{key}"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_no_request_without_the_key_is_answered(server, path, method):
    status, text = send(server, [f"{method} {path.format(key=server.key)} HTTP/1.0", f"Host: {NAME}"])
    assert status == 403
    assert server.key not in text
    assert "secret" not in text


def test_keys_are_compared_in_constant_time(server, monkeypatch):
    compared = []
    monkeypatch.setattr(local_page.secrets, "compare_digest", lambda *keys: compared.append(keys))
    assert send(server, ["GET /?key=x HTTP/1.0", f"Host: {NAME}"])[0] == 403
    assert compared == [(b"x", server.key.encode())]


@pytest.mark.parametrize(
    ("host", "status"),
    [("127.0.0.1:8000", 200), ("localhost:1", 200), ("example.org", 403), ("127.0.0.1.example.org:80", 403), ("", 403)],
)
def test_only_the_names_of_this_computer_are_answered(server, host, status):
    """A web page whose name resolves to 127.0.0.1 sends its own name (DNS rebinding)."""
    assert send(server, [f"GET /?key={server.key} HTTP/1.0", f"Host: {host}"])[0] == status


def test_requests_up_to_the_limit_are_read(server):
    document = json.dumps([0] * 3).encode()
    assert post(server, document.ljust(LIMIT))[0] == 200
    status, text = post(server, b"", LIMIT + 1)  # refused although nothing was sent
    assert (status, json.loads(text)) == (
        400,
        {"error": "The request is malformed (10000001 bytes, at most 10000000)."},
    )
    assert post(server, b"", -1)[0] == 400


@pytest.mark.parametrize("body", [b"[" * 100_000, b"{", b"3", b"\xff", b"9" * 5000])
def test_malformed_documents_are_refused_without_a_traceback(server, body, capfd):
    status, text = post(server, body)
    assert status == 400
    assert json.loads(text)["error"].startswith("The request is malformed")
    assert capfd.readouterr().err == ""


def test_idle_and_broken_connections_do_not_hold_up_others(server, monkeypatch, capfd):
    address = ("127.0.0.1", server.server_port)
    with socket.create_connection(address) as idle, socket.create_connection(address) as slow:
        slow.sendall(
            f"POST /count HTTP/1.0\r\nHost: {NAME}\r\nX-Key: {server.key}\r\nContent-Length: 9\r\n\r\n[".encode()
        )
        with socket.create_connection(address) as broken:
            broken.sendall(b"GET / HT")
        for _ in range(3):
            assert post(server, b"[]")[0] == 200
        assert idle.fileno() >= 0
    assert capfd.readouterr().err == ""


def test_an_idle_connection_is_closed(server, monkeypatch):
    assert 1.0 < local_page._Handler.timeout <= 60.0
    monkeypatch.setattr(local_page._Handler, "timeout", 0.1)
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as idle:
        assert idle.recv(1) == b""


def test_functions_run_one_at_a_time(server):
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(post(server, b"[]")[1])) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert [json.loads(answer)["most"] for answer in answers] == [1] * 5


def test_finish_ends_the_server_after_the_response():
    with LocalPage("", {"/end": lambda _: page.finish() or {"ended": True}}) as page:
        thread = threading.Thread(target=page.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        request = urllib.request.Request(page.url.replace("/?", "/end?"))
        with urllib.request.urlopen(request, timeout=10) as response:
            assert json.load(response) == {"ended": True}
        thread.join(10)
        assert not thread.is_alive()
