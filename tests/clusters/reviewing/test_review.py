"""Questions are ordered by value, answers are stored and checked, the page answers requests with its key alone."""

from __future__ import annotations

import json
import math
import re
import socket
import threading
import urllib.error
import urllib.request

import pytest

from intarsia.clusters import read_answers, resolve, review
from intarsia.clusters.reviewing import review as review_module
from intarsia.clusters.reviewing.questions import choose_questions
from intarsia.clusters.reviewing.review import ReviewPage, ReviewSession, mark_differences
from intarsia.exceptions import FileFormatError, InvalidInputError

# Two triangles, a doubtful bridge between them, and a pair that is nearly undecided.
EDGES = {
    "id1": ["a", "a", "b", "c", "d", "d", "e", "g"],
    "id2": ["b", "c", "c", "d", "e", "f", "f", "h"],
    "log_odds": [4.0, 4.0, 4.0, 0.5, 4.0, 4.0, 4.0, 0.3],
}
RECORDS = {"id": list("abcdefgh"), "name": [f"Person {letter}" for letter in "abcdefgh"], "age": [None, *range(7)]}


def resolution(**settings):
    return resolve(EDGES, calibrate=None, absent=-0.1, **settings)


def session(path, **settings):
    return ReviewSession(resolution(), RECORDS, path, **settings)


def test_the_first_question_decides_most_pairs():
    questions = choose_questions(resolution(), 10)
    first = questions[0]
    assert (first.kind, {first.first, first.second}) == ("join", {"c", "d"})
    cost = -(0.5 - 0.1 * 8)
    assert first.cost == pytest.approx(cost)
    assert first.value == pytest.approx(9 / (1 + math.exp(cost)))
    assert {first.sides[0][0], first.sides[1][0]} == {"c", "d"}
    assert (questions[1].kind, questions[1].first, questions[1].second) == ("split", "g", "h")
    assert [item.value for item in questions] == sorted((item.value for item in questions), reverse=True)
    assert len({frozenset((item.first, item.second)) for item in questions}) == len(questions)


def test_forbidden_joins_are_not_asked():
    questions = choose_questions(resolution(cannot_link=[("a", "f")]), 10)
    assert "join" not in {item.kind for item in questions}


def test_answers_change_the_clustering(tmp_path):
    path = tmp_path / "answers.jsonl"
    current = session(path)
    current.answer("c", "d", "same")
    current.answer("g", "h", "different")
    answers = read_answers(path)
    assert answers.labels == {"id1": ["c", "g"], "id2": ["d", "h"], "match": [1, 0]}
    entities = resolution(must_link=answers.must_link, cannot_link=answers.cannot_link).table["entity"]
    assert entities == ["a"] * 6 + ["g", "h"]


def test_a_review_resumes_and_undoes(tmp_path):
    path = tmp_path / "answers.jsonl"
    current = session(path)
    n_waiting = len(current.waiting())
    current.answer("c", "d", "unsure")
    assert len(session(path).waiting()) == n_waiting - 1
    again = session(path)
    assert again.next_question()["n_answers"] == 1
    assert again.log.undo() == ("c", "d")
    assert again.log.undo() is None
    assert len(session(path).waiting()) == n_waiting
    assert read_answers(path).labels["match"] == []


def test_implied_answers_are_not_asked(tmp_path):
    current = session(tmp_path / "answers.jsonl")
    asked = {frozenset((item.first, item.second)) for item in current.questions}
    assert {frozenset("ab"), frozenset("ac"), frozenset("bc")} <= asked
    current.answer("a", "b", "same")
    current.answer("b", "c", "different")
    assert current.log.implied("a", "c") == "different"
    assert frozenset("ac") not in {frozenset((item.first, item.second)) for item in current.waiting()}


def test_contradictions_are_named(tmp_path):
    path = tmp_path / "answers.jsonl"
    current = session(path)
    current.answer("a", "b", "same")
    current.answer("b", "c", "same")
    before = path.read_text()
    with pytest.raises(InvalidInputError, match=r"'a' and 'c' are answered as different, .* by 'a' = 'b' = 'c'"):
        current.answer("a", "c", "different")
    assert path.read_text() == before
    current.log.undo()
    current.answer("a", "c", "different")
    with pytest.raises(InvalidInputError, match=r"'b' and 'c' are answered as the same, so that .*'a' and 'c'"):
        current.answer("b", "c", "same")
    path.write_text(before + '{"id1": "c", "id2": "a", "answer": "different"}\n')
    with pytest.raises(InvalidInputError, match=r"read_answers: answers\.jsonl: 'c' and 'a' are answered as different"):
        read_answers(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            '{"id1": "a", "id2": "b", "answer": "same"}\n{"id1": "a", "i',
            "answers.jsonl, line 2, column 14: invalid JSON",
        ),
        ('{"id1": "a"}\n', "line 1: expected 'id1', 'id2' and 'answer'"),
        ('{"id1": "a", "id2": "b", "answer": "yes"}\n', "line 1: expected two different ids and an answer of same"),
        ('{"id1": "a", "id2": "a", "answer": "same"}\n', "line 1: expected two different ids"),
    ],
)
def test_malformed_answers_are_named(tmp_path, content, message):
    path = tmp_path / "answers.jsonl"
    path.write_text(content)
    with pytest.raises(FileFormatError, match=message):
        read_answers(path)
    with pytest.raises(FileFormatError, match=message):
        review(resolution(), RECORDS, path, open_browser=False)
    assert path.read_text() == content


def test_bad_input_is_named(tmp_path):
    path = tmp_path / "answers.jsonl"
    for arguments, settings, message in [
        (({"id": ["a"]}, path), {}, "records have no id 'b', which the pairs contain \\(7 of 8 ids are missing\\)"),
        ((3, path), {}, "records are of type int"),
        (({"id": list("aabcdefgh")}, path), {}, "rows 0 and 1 have the same id 'a'"),
        ((RECORDS, path), {"id_column": "nam"}, "Did you mean 'name'"),
        ((RECORDS, path), {"columns": ["agee"]}, "Did you mean 'age'"),
        ((RECORDS, tmp_path / "none" / "a.jsonl"), {}, "there is no folder"),
        ((RECORDS, path), {"n_questions": 0}, "n_questions must be an integer"),
        ((RECORDS, path), {"port": 70000}, "port must be an integer"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            review(resolution(), *arguments, open_browser=False, **settings)
    with pytest.raises(InvalidInputError, match="there is no file"):
        read_answers(tmp_path / "none.jsonl")
    assert not path.exists()


def test_a_port_in_use_is_named(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(InvalidInputError, match=f"port {port} of this computer cannot be used"):
            review(resolution(), RECORDS, tmp_path / "a.jsonl", port=port, open_browser=False)


def test_ids_of_a_text_file_match_numbers():
    edges = {"id1": [1], "id2": [2], "log_odds": [0.1]}
    records = {"unique_id": ["1", "2"], "name": ["x y", "x z"]}
    current = ReviewSession(resolve(edges), records, "answers.jsonl")
    assert current.next_question()["question"] == {"first": 1, "second": 2}


@pytest.mark.parametrize(("first", "second"), [("12 Main St", "12 main Street"), ("", "x"), ("a-b", "a b"), ("é", "é")])
def test_marked_pieces_join_to_the_strings(first, second):
    pieces = mark_differences(first, second)
    assert tuple("".join(text for text, _ in side) for side in pieces) == (first, second)
    assert any(differs for side in pieces for _, differs in side) == (first != second)


@pytest.fixture
def page(tmp_path):
    """Serve a review; yield a function that sends a request, and the file of answers."""
    path = tmp_path / "answers.jsonl"
    with ReviewPage(session(path)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()

        def send(name, document=None, headers=None):
            data = None if document is None else json.dumps(document).encode()
            usual = {"X-Key": server.key, "Content-Type": "application/json"}
            address = server.url.partition("?")[0] + name
            request = urllib.request.Request(address, data, usual if headers is None else headers)
            try:
                with urllib.request.urlopen(request, timeout=10) as response:
                    return response.status, response.read().decode()
            except urllib.error.HTTPError as error:
                return error.code, error.read().decode()

        yield send, path
        server.shutdown()
        thread.join(10)
        assert not thread.is_alive()


def test_the_page_and_its_requests(page):
    send, path = page
    status, text = send("")
    assert status == 200
    assert not re.findall(r"https?://", text)
    status, text = send("next", {})
    question = json.loads(text)
    assert question["question"] == {"first": "c", "second": "d"}
    assert question["n_others"] == [2, 2]
    status, text = send("answer", {**question["question"], "answer": "same"})
    assert status == 200
    assert json.loads(text)["n_answers"] == 1
    assert read_answers(path).must_link == [("c", "d")]
    assert json.loads(send("undo", {})[1])["n_answers"] == 0
    assert json.loads(send("finish", {})[1]) == {"n_answers": 0}


def test_wrong_requests_are_refused(page):
    send, path = page
    pair = {"first": "c", "second": "d", "answer": "same"}
    assert send("answer", pair, {})[0] == 403  # no key
    assert send("answer", pair, {"X-Key": "x"})[0] == 403
    assert send("none", {})[0] == 404
    assert send("none")[0] == 404
    for document in (
        {"first": "c"},
        [1],
        {**pair, "first": [[]]},
        {**pair, "answer": "perhaps"},
        {**pair, "second": "zz"},
    ):
        status, text = send("answer", document)
        assert status == 400
        assert json.loads(text)["error"]
    assert not path.exists()


def test_review_ends_when_the_page_is_finished(tmp_path):
    def answer_and_finish(url):
        def run():
            address, key = url.split("?key=")
            for name, document in (("answer", {"first": "c", "second": "d", "answer": "different"}), ("finish", {})):
                request = urllib.request.Request(address + name, json.dumps(document).encode(), {"X-Key": key})
                urllib.request.urlopen(request, timeout=10).read()

        threading.Thread(target=run, daemon=True).start()

    answers = review({**EDGES}, RECORDS, tmp_path / "a.jsonl", open_browser=False, on_start=answer_and_finish)
    assert answers.cannot_link == [("c", "d")]


def test_nothing_to_ask_returns_at_once(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"id1": "a", "id2": "b", "answer": "same"}\n')
    edges = {"id1": ["a"], "id2": ["b"], "log_odds": [0.1]}
    assert review(edges, RECORDS, path, open_browser=False).must_link == [("a", "b")]
    empty = {"id1": [], "id2": [], "log_odds": []}
    assert review(empty, RECORDS, tmp_path / "b.jsonl", open_browser=False).labels["match"] == []


def test_questions_are_ranked_again_after_each_answer(tmp_path, monkeypatch):
    """That b and c are the same joins two entities, and makes the split of the new entity a question."""
    edges = {
        "id1": ["a", "c", "b", "a", "b"],
        "id2": ["b", "d", "c", "d", "d"],
        "log_odds": [5.0, 6.0, -1.0, -0.5, -0.6],
    }
    records = {"id": list("abcd"), "name": ["Ann", "Anne", "Bob", "Bobby"]}
    resolution = resolve(edges, calibrate=None, absent=0.0)
    session = ReviewSession(resolution, records, tmp_path / "answers.jsonl")
    before = [(item.kind, item.first, item.second) for item in session.questions]
    assert before[0] == ("join", "a", "d")
    session.answer("a", "d", "same")
    after = [(item.kind, item.first, item.second) for item in session.questions]
    assert after != before
    assert "join" not in {kind for kind, *_ in after}
    assert session.waiting()
    resumed = ReviewSession(resolution, records, tmp_path / "answers.jsonl")
    assert [(item.kind, item.first, item.second) for item in resumed.questions] == after
    session.undo()
    assert [(item.kind, item.first, item.second) for item in session.questions] == before
    monkeypatch.setattr(review_module, "_RANKED_PAIRS", 4)
    session.answer("a", "d", "same")
    assert [(item.kind, item.first, item.second) for item in session.questions] == before
