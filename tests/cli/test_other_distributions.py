"""Commands of other distributions come through entry points; without them the program says how to install them."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import EntryPoint

import pytest

from intarsia.cli.app import app, main, program

MODULE = import_module("intarsia.cli.app")  # the package has the program itself under this name


@pytest.fixture
def entries(monkeypatch):
    """Declared entry points; the program is put together again before and after the test."""
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
def test_what_is_not_installed_says_how_to_install_it(entries, arguments, capsys):
    assert run(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "pip install intarsia-reproduction" in err
    assert "pip install -e reproduction" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("name", ["reproduce", "bench", "data"])
def test_help_lists_it_all_the_same(entries, name, capsys):
    assert run(name, "--help") == 0
    assert "intarsia-reproduction" in capsys.readouterr().out


def test_a_declared_command_is_run(entries):
    entries.append(EntryPoint("version-of-python", "platform:python_version", "intarsia.commands"))
    entries.append(EntryPoint("nobody", "no_such_module:command", "somebody.else"))
    assert "version-of-python" in program().commands
    assert "nobody" not in program().commands
