"""Labelling: the least certain string comes first, and answers survive crashes."""

from __future__ import annotations

import pytest
from tests.sequences.parsing.generated import addresses

from intarsia import RecordParser
from intarsia.exceptions import FileFormatError, InvalidInputError
from intarsia.sequences import read_labelled
from intarsia.sequences.parsing.labelling import LabellingSession

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
