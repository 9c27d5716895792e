from __future__ import annotations

import json

import pytest

from intarsia.cli import main


@pytest.fixture
def run(capsys):
    def call(*arguments):
        with pytest.raises(SystemExit) as stopped:
            main(["diagnose", *map(str, arguments)])
        out, err = capsys.readouterr()
        return stopped.value.code, out, err

    return call


@pytest.fixture
def graphs(tmp_path):
    path = tmp_path / "graphs.json"
    one = {"node_features": [[1.0], [-1.0], [1.0]], "edges": [[0, 1], [1, 2], [0, 2]], "labels": [1, 0, 1]}
    other = {"node_features": [[-1.0], [-1.0], [1.0]], "edges": [[0, 1], [1, 2], [0, 2]], "labels": [0, 0, -1]}
    path.write_text(json.dumps([one, other] * 5))
    return path


def test_the_diamond_fails_with_parallel_belief_propagation(run):
    code, out, _ = run("diamond", "--inference", "belief_propagation", "--set", "schedule=parallel", "--json")
    assert code == 0
    document = json.loads(out)
    assert document["verdict"] == "fails"
    assert {"verdict", "reasons", "checks"} <= set(document)


def test_file_and_plot(run, graphs, tmp_path):
    code, out, _ = run(graphs, "--plot", tmp_path / "picture.png", "--n-passes", 5)
    assert code == 0
    assert out.startswith("StructuredPerceptron with LPRelaxation: fits.")
    assert (tmp_path / "picture.png").stat().st_size > 1000


def test_invalid_files_give_one_line(run, tmp_path):
    bad = tmp_path / "bad.json"
    for text, message in [
        ("{", "invalid JSON"),
        ("{}", "expected a list of graphs, got dict"),
        ('[{"labels": [1]}]', "graph 0: expected the keys node_features"),
        ('[{"node_features": [[1], [2]], "labels": [1]}]', "X[0] has 2 variables"),
    ]:
        bad.write_text(text)
        code, out, err = run(bad)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert message in err
    code, _, err = run(tmp_path / "missing.json")
    assert code == 2
    assert "missing.json" in err
    code, _, err = run("diamond", "--inference", "lp_relaxaton")
    assert code == 2
    assert "Did you mean 'lp_relaxation'" in err


def test_unknown_data_name_gives_one_line(run):
    code, _, err = run("diamon")
    assert code == 2
    assert (
        "'diamon' is neither a file nor a built-in example. Pass a JSON file or one of: 'diamond', 'triangle'." in err
    )
