"""Labelling: the least certain string comes first, answers survive crashes, and the page's server checks requests."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request

import pytest
from tests.sequences.parsing.generated import addresses

from intarsia import RecordParser
from intarsia.exceptions import FileFormatError, InvalidInputError
from intarsia.sequences import read_labelled
from intarsia.sequences.parsing.labelling import LabellingSession
from intarsia.sequences.parsing.labelling_server import LabellingServer

POOL = addresses(30, seed=5)
TEXTS = [example.text for example in POOL]


@pytest.fixture(scope="module")
def parser():
    return RecordParser(l2=1.0).fit(addresses(12, seed=9))


def test_the_least_certain_string_is_proposed(parser, tmp_path):
    session = LabellingSession(TEXTS, tmp_path / "answers.jsonl", parser=parser)
    order = []
    while (proposal := session.propose()) is not None:
        order.append(proposal.probability)
        assert proposal.probability == pytest.approx(parser.parse(proposal.text).probability)
        assert proposal.spans == parser.predict([proposal.text])[0]
        session.answer(proposal.index, proposal.spans)
    assert order == sorted(order)
    assert len(order) == len(set(TEXTS))


def test_answers_are_read_back_and_the_session_resumes(tmp_path):
    path = tmp_path / "answers.jsonl"
    session = LabellingSession(TEXTS, path, fields=["number"], refit_every=0)
    for k in range(3):
        session.answer(session.propose().index, POOL[k].spans)
    assert read_labelled(path) == POOL[:3]
    again = LabellingSession(TEXTS, path, refit_every=0)
    assert (again.n_answers, again.n_waiting) == (3, len(TEXTS) - 3)
    assert again.propose().text == TEXTS[3]
    assert set(again.fields) == {span[2] for example in POOL[:3] for span in example.spans}


def test_a_line_that_a_crash_left_incomplete_is_removed(tmp_path):
    path = tmp_path / "answers.jsonl"
    session = LabellingSession(TEXTS, path, refit_every=0)
    session.answer(0, POOL[0].spans)
    with path.open("a") as file:
        file.write('{"text": "12 Ma')
    again = LabellingSession(TEXTS, path, refit_every=0)
    assert again.n_answers == 1
    again.answer(1, POOL[1].spans)
    assert read_labelled(path) == POOL[:2]


def test_a_file_of_another_kind_is_not_overwritten(tmp_path):
    path = tmp_path / "letter.txt"
    path.write_text("Dear reader")
    with pytest.raises(FileFormatError, match=r"letter.txt is not a JSON Lines file"):
        LabellingSession(TEXTS, path)
    assert path.read_text() == "Dear reader"


def test_invalid_answers_change_nothing(tmp_path):
    path = tmp_path / "answers.jsonl"
    session = LabellingSession(TEXTS, path, refit_every=0)
    with pytest.raises(InvalidInputError, match="is not inside the text"):
        session.answer(0, [(0, 1000, "number")])
    with pytest.raises(InvalidInputError, match="has an answer already, or does not exist"):
        session.answer(1000, [])
    assert not path.exists()
    session.answer(0, [])
    with pytest.raises(InvalidInputError, match="has an answer already"):
        session.answer(0, [])


def test_a_parser_is_fitted_to_the_answers(tmp_path):
    session = LabellingSession(TEXTS, tmp_path / "answers.jsonl", parser=RecordParser(l2=0.1), refit_every=10)
    assert session.propose().probability is None
    for k in range(6):
        session.answer(k, POOL[k].spans)
    assert session.propose().spans
    assert 0.0 < session.propose().probability < 1.0


def test_skipped_and_blank_strings_are_not_proposed(tmp_path):
    session = LabellingSession(["", "a b", "a b", "c"], tmp_path / "answers.jsonl")
    assert session.texts == ["a b", "c"]
    session.skip(session.propose().index)
    assert session.propose().text == "c"
    session.skip(1)
    assert session.propose() is None
    assert session.n_waiting == 2


# ---------------------------------------------------------------- the page


@pytest.fixture
def server(parser, tmp_path):
    with LabellingServer(LabellingSession(TEXTS, tmp_path / "answers.jsonl", parser=parser)) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        try:
            yield running
        finally:
            running.shutdown()
            thread.join()


def call(server, path, body=None, key=None, host=None):
    """Return status and content of a request."""
    headers = {"X-Key": server.key if key is None else key}
    if host is not None:
        headers["Host"] = host
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(server.url.partition("/?")[0] + path, data=data, headers=headers)
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_the_page_needs_nothing_from_the_network(server):
    status, page = call(server, "/")
    assert status == 200
    assert "src=" not in page
    assert "http" not in page


def test_label_a_string_over_http(server):
    item = json.loads(call(server, "/next")[1])
    proposal = server.session.propose()
    assert item["text"] == proposal.text
    assert "".join(t["text"] for t in item["tokens"]) == item["text"].replace(" ", "")
    status, answer = call(server, "/answer", {"index": item["index"], "labels": item["labels"]})
    assert (status, json.loads(answer)) == (200, {"n_answers": 1})
    (stored,) = read_labelled(server.session.path)
    assert (stored.text, list(stored.spans)) == (proposal.text, proposal.spans)
    assert json.loads(call(server, "/next")[1])["text"] != item["text"]


def test_neighbours_with_the_same_number_are_one_span(server):
    item = json.loads(call(server, "/next")[1])
    n = len(item["tokens"])
    labels = [["a", 1], ["a", 1], ["a", 2], *([None] * (n - 3))]
    assert call(server, "/answer", {"index": item["index"], "labels": labels})[0] == 200
    ends = [(t["start"], t["end"]) for t in item["tokens"]]
    assert read_labelled(server.session.path)[0].spans == (
        (ends[0][0], ends[1][1], "a"),
        (ends[2][0], ends[2][1], "a"),
    )


def test_skip_over_http(server):
    item = json.loads(call(server, "/next")[1])
    assert call(server, "/skip", {"index": item["index"]})[0] == 200
    assert json.loads(call(server, "/next")[1])["index"] != item["index"]
    assert not server.session.path.exists()


def test_requests_of_other_pages_are_refused(server):
    item = json.loads(call(server, "/next")[1])
    answer = {"index": item["index"], "labels": item["labels"]}
    assert call(server, "/answer", answer, key="wrong")[0] == 403
    assert call(server, "/next", key="")[0] == 403
    assert not server.session.path.exists()


@pytest.mark.parametrize(
    "body",
    [
        b"no json",
        b"[]",
        {"index": 0},
        {"index": 0, "labels": []},
        {"index": -1, "labels": []},
        {"index": "x", "labels": []},
        {"index": 0, "labels": [3] * 50},
    ],
)
def test_malformed_requests(server, body):
    status, answer = call(server, "/answer", body)
    assert status == 400
    assert json.loads(answer)["error"]
    assert call(server, "/nowhere", {"index": 0, "labels": []})[0] == 404
    assert call(server, "/nowhere")[0] == 404


def test_at_the_end_there_is_no_text(server):
    for i in range(len(server.session.texts)):
        server.session.skip(i)
    assert json.loads(call(server, "/next")[1])["text"] is None
