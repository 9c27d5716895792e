import json

import pytest

import intarsia
from intarsia.cli import main
from intarsia.inference import method_class, method_names


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


def test_without_arguments_there_is_help(capsys):
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
    code, out, _ = call(capsys, "tour", "--output", str(tmp_path / "deep" / "tour"), "--json", "--seed", "1")
    assert code == 0
    found = json.loads(out)
    rows = {row["method"]: row for row in found["rows"]}
    assert next(iter(rows)) == "junction_tree"
    assert set(rows) == set(method_names())
    exact = rows["junction_tree"]["log_partition"]
    assert rows["mean_field"]["log_partition"] <= exact <= rows["tree_reweighted"]["log_partition"]
    assert rows["icm"]["map_score"] <= rows["junction_tree"]["map_score"]
    assert rows["junction_tree"]["pixels_wrong"] < found["model"]["pixels_wrong_before"]
    assert (tmp_path / "deep" / "tour" / "inference.png").read_bytes().startswith(b"\x89PNG")


def test_tour_refuses_a_file_as_folder(capsys, tmp_path):
    (tmp_path / "taken").write_text("")
    code, _, err = call(capsys, "tour", "--output", str(tmp_path / "taken"))
    assert code == 2
    assert err.count("\n") == 1
