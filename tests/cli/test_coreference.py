"""`intarsia coreference`: train, predict and evaluate on files."""

from __future__ import annotations

import json

import pytest

from intarsia.cli.app import main
from intarsia.coreference import read_conll2012, write_conll2012
from intarsia.datasets import load_tales


@pytest.fixture
def run(capsys):
    def call(*arguments):
        with pytest.raises(SystemExit) as stop:
            main(["coreference", *map(str, arguments)])
        captured = capsys.readouterr()
        return stop.value.code, captured.out, captured.err

    return call


def test_train_predict_evaluate(run, tmp_path):
    tales = load_tales()
    write_conll2012(tmp_path / "train.conll", tales[:-3])
    write_conll2012(tmp_path / "test.conll.gz", tales[-3:])
    code, out, _ = run("train", tmp_path / "train.conll", "-m", tmp_path / "m.npz", "--json")
    assert code == 0
    assert json.loads(out).keys() == {"file", "n", "seconds"}
    code, out, _ = run(
        "predict", tmp_path / "test.conll.gz", "-m", tmp_path / "m.npz", "-o", tmp_path / "predicted.conll"
    )
    assert code == 0
    assert "3 documents" in out
    assert [document.name for document in read_conll2012(tmp_path / "predicted.conll")] == [t.name for t in tales[-3:]]
    code, by_model, _ = run("evaluate", tmp_path / "test.conll.gz", "-m", tmp_path / "m.npz", "--json")
    assert code == 0
    code, by_file, _ = run(
        "evaluate", tmp_path / "test.conll.gz", "--predicted", tmp_path / "predicted.conll", "--json"
    )
    assert json.loads(by_model)["conll"] == pytest.approx(json.loads(by_file)["conll"])
    code, out, _ = run("evaluate", tmp_path / "test.conll.gz", "-m", tmp_path / "m.npz")
    assert "mentions of" in out


def test_errors_are_one_line(run, tmp_path):
    (tmp_path / "bad.conll").write_text("no columns\n", encoding="utf-8")
    code, _, err = run("train", tmp_path / "bad.conll", "-m", tmp_path / "m.npz")
    assert code == 2
    assert "bad.conll, line 1" in err
    code, _, err = run("evaluate", tmp_path / "bad.conll")
    assert code == 2
    assert "--predicted" in err
