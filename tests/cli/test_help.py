"""Every command says what it does, with an example that the command would take."""

from __future__ import annotations

import re
import shlex

import pytest
import typer

from intarsia.cli import main
from intarsia.cli.app import app

PROGRAM = typer.main.get_command(app)


def commands(group, words=()):
    """Words of every command, those of groups among them."""
    for name, command in sorted(group.commands.items()):
        yield (*words, name)
        if hasattr(command, "commands"):
            yield from commands(command, (*words, name))


def find(words):
    """A command, and which of the words are its arguments."""
    command = PROGRAM
    while hasattr(command, "commands"):
        command, words = command.commands[words[0]], words[1:]
    return command, list(words)


ALL = list(commands(PROGRAM))
LEAVES = [words for words in ALL if len(words) > 1 or not hasattr(PROGRAM.commands[words[0]], "commands")]


def test_all_commands_are_walked():
    assert {words[0] for words in ALL} == set(PROGRAM.commands)
    assert ("softlogic", "learn") in LEAVES


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_help(capsys, words):
    for flag in ("--help", "-h"):
        with pytest.raises(SystemExit) as stopped:
            main([*words, flag])
        out, err = capsys.readouterr()
        assert (stopped.value.code, err) == (0, "")
        assert "Usage: intarsia " + " ".join(words) in " ".join(out.split())


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_help_has_an_example_that_the_command_takes(words):
    command, _ = find(words)
    examples = re.findall(r"`(intarsia [^`]+)`", command.help.partition("Example")[2])
    assert examples
    for example in examples:
        _, *given = shlex.split(example)
        assert tuple(given[: len(words)]) == words
        found, arguments = find(given)
        assert found is command
        command.make_context(" ".join(words), arguments)  # raises for options that are not there
