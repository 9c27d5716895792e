import json
import sys

import pytest

from intarsia.cli import main
from intarsia_reproduction.datasets import find_set, set_names


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Return a function that runs `intarsia data` with an empty cache: exit code, stdout, stderr."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("INTARSIA_DATA", raising=False)

    def call(*arguments):
        with pytest.raises(SystemExit) as stopped:
            main(["data", *map(str, arguments)])
        out, err = capsys.readouterr()
        return stopped.value.code, out, err

    return call


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "snakes.npz").touch()
    return folder


def test_one_json_document(run, folder):
    code, out, err = run("--data", folder, "--json")
    assert (code, err, out.count("\n")) == (0, "", 1)
    document = json.loads(out)
    assert [row["name"] for row in document["sets"]] == set_names()
    assert {row["name"]: row["found"] for row in document["sets"] if row["found"]} == {"snakes": str(folder)}
    for row in document["sets"]:
        entry = find_set(row["name"])
        assert row["home"] in row["how_to_obtain"]
        assert all(file in row["how_to_obtain"] for file in row["files"])
        assert row["files"] == list(entry.files)
        assert row["facts"] == entry.facts
    assert document["folders"][0] == str(folder)


def test_environment_variable_sets_the_folder(run, folder, monkeypatch):
    monkeypatch.setenv("INTARSIA_DATA", str(folder))
    rows = json.loads(run("--json")[1])["sets"]
    assert [row["name"] for row in rows if row["found"]] == ["snakes"]


@pytest.mark.parametrize("columns", [80, 200])
def test_table(run, folder, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    code, out, err = run("--data", folder)
    assert (code, err) == (0, "")
    for name in set_names():
        assert name in out
        assert find_set(name).home in out  # not wrapped, even in a narrow terminal
    assert "not found" in out
    assert f"1 of {len(set_names())} sets found." in out


def test_missing_data_sets_are_not_an_error(run):
    code, out, _ = run()
    assert code == 0
    assert f"0 of {len(set_names())} sets found." in out


def test_missing_folder_is_an_error(run, tmp_path):
    code, out, err = run("--data", tmp_path / "nowhere", "--json")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "nowhere' is not a folder" in err


def test_help_has_an_example(run):
    code, out, _ = run("--help")
    assert code == 0
    assert "Example: intarsia data" in " ".join(out.split())
