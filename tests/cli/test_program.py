import json

import pytest

import intarsia
from intarsia.cli import main
from intarsia.inference import method_class, method_names
from intarsia.report.page_parts import Section
from intarsia.tour.tour import STOPS, Row, Stop


def call(capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    out, err = capsys.readouterr()
    return stopped.value.code, out, err


def test_version(capsys):
    assert call(capsys, "--version") == (0, f"intarsia {intarsia.__version__}\n", "")


@pytest.mark.parametrize("command", ["infer", "methods", "tour"])
def test_help_has_an_example(capsys, command):
    code, out, err = call(capsys, command, "--help")
    assert (code, err) == (0, "")
    assert f"Example: intarsia {command}" in " ".join(out.split())


@pytest.mark.parametrize("command", [[], ["infer"], ["methods"], ["tour"], ["bench"]])
def test_flags_show_no_type(capsys, command):
    code, out, _ = call(capsys, *command, "--help")
    assert code == 0
    assert "--help" in out
    assert "bool" not in out.lower()


def test_no_arguments_prints_help(capsys):
    code, out, err = call(capsys)
    assert code == 0
    assert "infer" in out
    assert err == ""


def test_methods_are_read_from_the_classes(capsys):
    code, out, _ = call(capsys, "methods", "--json")
    assert code == 0
    rows = json.loads(out)["methods"]
    assert [row["name"] for row in rows] == method_names()
    for row in rows:
        found = method_class(row["name"])
        assert row["class"] == found.__name__
        assert row["log_partition_is"] == found.log_partition_is
        assert row["gives_map"] == found.gives_map
    code, out, _ = call(capsys, "methods")
    assert all(name in out for name in method_names())


def test_tour(capsys, tmp_path):
    code, out, err = call(capsys, "tour", "--output", str(tmp_path / "deep" / "report"), "--json", "--seed", "1")
    assert (code, err) == (0, "")
    document = json.loads(out)
    found = {row["label"]: row["value"] for row in document["rows"]}
    assert {row["stop"] for row in document["rows"]} == set(STOPS)
    assert found["correct digits, chain with the codes"] > found["correct digits, chain"] + 5
    others = [found[f"wrong pixels, {fit}"] for fit in ("pseudo-likelihood", "independent")]
    assert found["wrong pixels, clique logistic"] < min(others) / 2
    assert found["perceptron on the diamond, parallel belief propagation"] == "fails"
    assert found["perceptron on the diamond, LP relaxation"] == "fits"
    assert found["members in the correct faction"] > 90
    assert found["B-cubed F1, EntityClusterer"] > found["B-cubed F1, connected components, best threshold"]
    page = (tmp_path / "deep" / "report" / "index.html").read_text(encoding="utf-8")
    assert all(f'<section id="{key}">' in page for key in STOPS)


def test_interrupted_tour_keeps_finished_stops(capsys, tmp_path, monkeypatch):
    def ended(seed, report):
        section = Section("one", "First", "Is it so?", [])
        yield Stop("one", "First", [Row("a", 1.0)], section, 0.1)
        raise KeyboardInterrupt

    monkeypatch.setattr("intarsia.tour.tour.run_tour", ended)
    code, out, err = call(capsys, "tour", "--output", str(tmp_path))
    assert code == 130
    assert "Traceback" not in err
    assert f"Report: {tmp_path / 'index.html'}" in "".join(out.splitlines())
    assert "First" in (tmp_path / "index.html").read_text(encoding="utf-8")


def test_tour_raises_if_the_folder_is_a_file(capsys, tmp_path):
    (tmp_path / "taken").write_text("")
    code, _, err = call(capsys, "tour", "--output", str(tmp_path / "taken"))
    assert code == 2
    assert err.count("\n") == 1


def test_tour_writes_nothing_without_output(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("intarsia.tour.tour.run_tour", lambda seed, report: iter(()))
    code, out, _ = call(capsys, "tour")
    assert code == 0
    assert "No file was written. Use --output FOLDER" in out
    code, out, _ = call(capsys, "tour", "--json")
    assert json.loads(out)["page"] is None
    assert list(tmp_path.iterdir()) == []
