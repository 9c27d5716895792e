"""Peers are found in the folder that is configured, else beside the working directory or in the checkout."""

from __future__ import annotations

import pytest

from intarsia_reproduction.benchmarks import peers


@pytest.fixture
def environment(tmp_path):
    """A folder with the environment of one peer whose script is in the checkout."""
    name = next(path.stem for path in sorted((peers.checkout() / "reproduction" / "peers").glob("*.py")))
    python = tmp_path / ".venv-peers" / name / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    return name, tmp_path


@pytest.mark.skipif(peers.os.name == "nt", reason="environments have another layout")
def test_the_variable_names_the_folder(environment, monkeypatch):
    name, folder = environment
    monkeypatch.setenv(peers.VARIABLE, str(folder / ".venv-peers"))
    assert peers.peer_folders() == [folder / ".venv-peers"]
    assert peers.find_peer(name).name == name


@pytest.mark.skipif(peers.os.name == "nt", reason="environments have another layout")
def test_without_it_the_working_directory_comes_first(environment, monkeypatch):
    name, folder = environment
    monkeypatch.delenv(peers.VARIABLE, raising=False)
    monkeypatch.chdir(folder)
    assert peers.peer_folders()[0] == folder / ".venv-peers"
    assert peers.find_peer(name)._command[0] == str(folder / ".venv-peers" / name / "bin" / "python")


def test_a_configured_folder_without_the_peer_is_not_searched_further(tmp_path, monkeypatch):
    monkeypatch.setenv(peers.VARIABLE, str(tmp_path))
    assert peers.find_peer("psl") is None


def test_the_checkout_holds_scripts_and_lists():
    folder = peers.checkout() / "reproduction" / "peers"
    for script in folder.glob("*.py"):
        assert script.with_suffix(".txt").is_file(), script.name
