import json

import pytest

from intarsia.cli import main
from intarsia_reproduction.benchmarks import bench_inference as bench
from intarsia_reproduction.benchmarks.measurement import bench_row

CONTRACT = {"workload", "ours_seconds", "peer", "peer_seconds", "ratio", "ours_quality", "peer_quality"}


@pytest.fixture
def rows(monkeypatch):
    """Replace the benchmark by two invented rows, since only the command is tested here."""
    invented = [
        bench_row(
            "a model",
            0.5,
            "somebody",
            2.0,
            comparison="same rule",
            stopping="50 sweeps",
            peer_finished=False,
            ours_quality=1e-9,
            peer_quality=float("inf"),
            quality_is="error",
        ),
        bench_row("another", 0.25, "nobody", comparison="quoted", stopping="unknown"),
    ]

    def measure(repeats, *, report, rows):
        report(f"measuring {repeats} times")
        rows += invented

    monkeypatch.setattr(bench, "bench_inference", measure)
    return invented


def run(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main(["bench", *arguments])
    return stopped.value.code


def test_one_json_document_on_stdout_and_progress_on_stderr(rows, capsys, tmp_path):
    file = tmp_path / "rows.json"
    assert run("inference", "--json", "--repeats", "3", "--output", str(file)) == 0
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert document.keys() == {"name", "rows"}
    assert document["name"] == "inference"
    assert all(row.keys() >= CONTRACT for row in document["rows"])
    assert document["rows"][0]["ratio"] == 4.0
    assert document["rows"][0]["peer_quality"] is None  # not finite
    assert document["rows"][1]["peer_seconds"] is document["rows"][1]["ratio"] is None
    assert json.loads(file.read_text()) == document
    assert "measuring 3 times" in err


def test_table(rows, capsys):
    assert run("inference") == 0
    out = capsys.readouterr().out
    assert "somebody" in out
    assert "> 4 x (stopped)" in out
    assert "In brackets: error." in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["inferense"], "Did you mean 'inference'?"),
        (["inference", "--output", "no/such/folder/rows.json"], "does not exist"),
    ],
)
def test_bad_input_is_one_line(rows, capsys, arguments, message):
    assert run(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert len(err.splitlines()) == 1


def test_repeats_must_be_positive(capsys):
    assert run("inference", "--repeats", "0") == 2
    assert "repeats" in capsys.readouterr().err
