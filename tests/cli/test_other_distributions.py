"""Commands of other distributions are entry points; without them the program prints how to install them."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import EntryPoint

import pytest

from intarsia.cli.app import app, main, program

MODULE = import_module("intarsia.cli.app")  # `intarsia.cli.app` is also the name of the Typer object


@pytest.fixture
def entries(monkeypatch):
    """Return a list of entry points; the program is rebuilt before and after the test."""
    declared: list[EntryPoint] = []
    monkeypatch.setattr(MODULE, "entry_points", lambda group: [e for e in declared if e.group == group])
    registered = list(app.registered_commands)
    program.cache_clear()
    yield declared
    app.registered_commands[:] = registered
    program.cache_clear()


def run(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    return stopped.value.code


@pytest.mark.parametrize("arguments", [("reproduce", "denoising", "--quick"), ("bench", "map", "--json"), ("data",)])
def test_missing_distribution_prints_installation_command(entries, arguments, capsys):
    assert run(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "pip install intarsia-reproduction" in err
    assert "pip install -e reproduction" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("name", ["reproduce", "bench", "data"])
def test_help_lists_commands_of_a_missing_distribution(entries, name, capsys):
    assert run(name, "--help") == 0
    assert "intarsia-reproduction" in capsys.readouterr().out


def test_entry_point_command_is_run(entries):
    entries.append(EntryPoint("version-of-python", "platform:python_version", "intarsia.commands"))
    entries.append(EntryPoint("nobody", "no_such_module:command", "somebody.else"))
    assert "version-of-python" in program().commands
    assert "nobody" not in program().commands
