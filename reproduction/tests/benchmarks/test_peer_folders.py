"""Folders in which peers are searched: the configured folder, else the working directory and the checkout."""

from __future__ import annotations

import pytest

from intarsia_reproduction.benchmarks import peers


@pytest.fixture
def environment(tmp_path):
    """Return the name of a peer with a script in the checkout, and a folder with an environment for it."""
    name = next(path.stem for path in sorted((peers.checkout() / "reproduction" / "peers").glob("*.py")))
    python = tmp_path / ".venv-peers" / name / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    return name, tmp_path


@pytest.mark.skipif(peers.os.name == "nt", reason="environments have another layout")
def test_variable_sets_the_folder(environment, monkeypatch):
    name, folder = environment
    monkeypatch.setenv(peers.VARIABLE, str(folder / ".venv-peers"))
    assert peers.peer_folders() == [folder / ".venv-peers"]
    assert peers.find_peer(name).name == name


@pytest.mark.skipif(peers.os.name == "nt", reason="environments have another layout")
def test_without_variable_the_working_directory_is_first(environment, monkeypatch):
    name, folder = environment
    monkeypatch.delenv(peers.VARIABLE, raising=False)
    monkeypatch.chdir(folder)
    assert peers.peer_folders()[0] == folder / ".venv-peers"
    assert peers.find_peer(name)._command[0] == str(folder / ".venv-peers" / name / "bin" / "python")


def test_only_the_configured_folder_is_searched(tmp_path, monkeypatch):
    monkeypatch.setenv(peers.VARIABLE, str(tmp_path))
    assert peers.find_peer("psl") is None


def test_every_script_has_a_list_of_requirements():
    folder = peers.checkout() / "reproduction" / "peers"
    for script in folder.glob("*.py"):
        assert script.with_suffix(".txt").is_file(), script.name
