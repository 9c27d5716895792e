import json
from dataclasses import replace

import pytest
from matplotlib.figure import Figure

from intarsia.cli import main
from intarsia.exceptions import MissingDataError
from intarsia.report.line_plots import Line, LinePanel, plot_lines
from intarsia_reproduction import experiment as reproduction
from intarsia_reproduction.experiment import Experiment, Finding, Task

CONTRACT = {"label", "paper", "ours", "unit", "n", "seconds"}


@pytest.fixture
def made(monkeypatch):
    """Replace the experiments by one with two rows, the second not required; return the list of tasks that run."""
    calls = []

    def run(key):
        def find(checkpoint):
            calls.append(key)
            return Finding({"test error": 0.25}, 8)

        return find

    tasks = [
        Task(key, f"row {key}", {"test error": 0.2}, "error rate", run(key), required=key == "a") for key in ("a", "b")
    ]
    experiment = Experiment("made", "Made up", tasks, lambda found: {"marginals": Figure()}, "none", "Why?")
    monkeypatch.setattr(reproduction, "load_experiment", lambda name, quick, data: experiment)
    return calls


def run(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main(["reproduce", *arguments])
    return stopped.value.code


def test_rows_as_one_json_document(made, capsys, tmp_path):
    assert run("made", "--json", "--output", str(tmp_path / "out")) == 0
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert document.keys() == {"name", "rows", "data"}
    assert all(row.keys() >= CONTRACT for row in document["rows"])
    assert [row["ours"] for row in document["rows"]] == [0.25, None]
    assert "row a" in err
    assert (tmp_path / "out" / "marginals.png").exists()
    assert json.loads((tmp_path / "out" / "made-rows.json").read_text()) == document


def test_second_run_resumes(made, tmp_path, capsys):
    run("made", "--output", str(tmp_path))
    run("made", "--output", str(tmp_path), "--only", "b")
    assert made == ["a", "b"]
    assert "not run" not in capsys.readouterr().out.split("Made up")[-1]


def test_draw_runs_nothing(made, tmp_path, capsys):
    assert run("made", "--draw", "--output", str(tmp_path)) == 0
    assert made == []
    assert "not run" in capsys.readouterr().out


def test_bad_arguments_are_one_line(made, tmp_path, capsys):
    file = tmp_path / "file"
    file.write_text("")
    assert run("made", "--output", str(file)) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert run("made", "--output", str(tmp_path), "--only", "zebra") == 2
    assert "Use one of: a, b" in capsys.readouterr().err


def test_unknown_names_and_missing_data(tmp_path, capsys, monkeypatch):
    assert run("denoise", "--output", str(tmp_path)) == 2
    assert "denoising" in capsys.readouterr().err
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert run("horses", "--quick", "--data", str(tmp_path), "--output", str(tmp_path / "out")) == 2
    err = capsys.readouterr().err
    assert "weizmann" in err
    assert "Traceback" not in err


def test_all_experiments_on_one_page(made, tmp_path, capsys, monkeypatch):
    def load(name, quick, data):
        if name == "lost":
            raise MissingDataError("no pictures of cats here")
        return loaded("made", quick, data)

    loaded = reproduction.load_experiment
    monkeypatch.setattr(reproduction, "load_experiment", load)
    monkeypatch.setattr(reproduction, "EXPERIMENTS", ("made", "lost"))
    arguments = ("--all", "--quick", "--output", str(tmp_path / "out"), "--report", str(tmp_path / "page"))
    assert run(*arguments) == 0
    out, err = capsys.readouterr()
    assert "lost is skipped: no pictures of cats here" in err
    page = tmp_path / "page" / "index.html"
    assert str(page) in out
    text = page.read_text(encoding="utf-8")
    assert "row a" in text
    assert "no pictures of cats here" in text
    assert "Small version" in text
    assert (tmp_path / "out" / "made-quick" / "a.json").exists()
    assert run(*arguments, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document.keys() == {"name", "experiments", "left_out"}
    assert made == ["a"]  # the second command found all results


def test_curves_on_the_page_have_their_values(made, tmp_path, monkeypatch):
    def figures(found):
        line, points = Line("ours", [1, 2], [0.5, 0.125]), Line("a point", [0], [0.5], dashes="", marker="o")
        return {
            name: plot_lines([LinePanel(name, [line_of_panel])], x_label="x", y_label="y")
            for name, line_of_panel in (("curve", line), ("dots", points))
        }

    drawn = replace(reproduction.load_experiment("made", False, None), figures=figures)
    monkeypatch.setattr(reproduction, "load_experiment", lambda name, quick, data: drawn)
    assert run("made", "--output", str(tmp_path / "out"), "--report", str(tmp_path / "page")) == 0
    text = (tmp_path / "page" / "index.html").read_text(encoding="utf-8")
    assert '"y":[0.5,0.125]' in text
    assert text.count('<div class="curves">') == 1
    assert text.count("<img ") == 1  # points have category names, which only the image shows
    assert {path.name for path in (tmp_path / "out").glob("*.png")} == {"curve.png", "dots.png"}


def test_ctrl_c_writes_the_page_of_finished_results(made, tmp_path, capsys, monkeypatch):
    def load(name, quick, data):
        if name == "made":
            return loaded("made", quick, data)

        def find(checkpoint):
            if name == "lost":
                raise MissingDataError("no pictures of cats here")
            raise KeyboardInterrupt

        task = Task("x", "row x", {"": 1.0}, "ratio", find)
        return Experiment(name, f"The {name} one", [task], lambda found: {}, "none", "Why?")

    loaded = reproduction.load_experiment
    monkeypatch.setattr(reproduction, "load_experiment", load)
    monkeypatch.setattr(reproduction, "EXPERIMENTS", ("made", "lost", "ended", "never"))
    arguments = ("--all", "--output", str(tmp_path / "out"), "--report", str(tmp_path / "page"))
    assert run(*arguments) == 130
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    assert str(tmp_path / "page" / "index.html") in out
    text = (tmp_path / "page" / "index.html").read_text(encoding="utf-8")
    assert "row a" in text
    assert "The ended one" in text
    assert "The never one" not in text
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["ended", "made"]  # no empty folders


@pytest.mark.parametrize("arguments", [(), ("made", "--all"), ("--all", "--only", "a")])
def test_one_name_or_all(made, arguments, capsys):
    assert run(*arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_nothing_is_written_without_output(made, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("made") == 0
    out = capsys.readouterr().out
    assert "0.25" in out
    assert "Rows: not saved. Use --output FOLDER" in out
    assert "Picture:" not in out
    assert run("made", "--json") == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["ours"] == 0.25
    assert list(tmp_path.iterdir()) == []
    assert made == ["a", "a"]


def test_report_alone_has_the_pictures(made, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("made", "--report", "page") == 0
    assert "<img " in (tmp_path / "page" / "index.html").read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["page"]


def test_output_says_where(made, tmp_path, capsys):
    assert run("made", "--output", str(tmp_path / "out")) == 0
    assert f"Rows: {tmp_path / 'out'}" in capsys.readouterr().out


def test_draw_needs_the_folder_of_an_earlier_run(made, capsys):
    assert run("made", "--draw") == 2
    assert "--output" in capsys.readouterr().err
