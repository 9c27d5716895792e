"""Every command has a help text with a valid example."""

from __future__ import annotations

import re
import shlex

import pytest

from intarsia.cli import main
from intarsia.cli.app import program

PROGRAM = program()


def commands(group, words=()):
    """Yield the words of every command, including groups."""
    for name, command in sorted(group.commands.items()):
        yield (*words, name)
        if hasattr(command, "commands"):
            yield from commands(command, (*words, name))


def find(words):
    """Return a command and its arguments among the words."""
    command = PROGRAM
    while hasattr(command, "commands"):
        command, words = command.commands[words[0]], words[1:]
    return command, list(words)


ALL = list(commands(PROGRAM))
LEAVES = [words for words in ALL if len(words) > 1 or not hasattr(PROGRAM.commands[words[0]], "commands")]


def test_all_commands_are_tested():
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


def test_commands_are_grouped_by_purpose(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    out = capsys.readouterr().out
    headings = ["Start here", "Tasks", "Choosing a method", "Experiments"]
    assert sorted(headings, key=out.index) == headings
    assert "─ Commands ─" not in out  # the heading of commands without a group
    tasks = out[out.index("Tasks") : out.index("Choosing a method")]
    names = re.findall(r"^│ (\w+)", tasks, flags=re.M)
    assert names == ["infer", "tag", "parse", "cluster", "softlogic"]


@pytest.mark.parametrize("words", [words for words in ALL if words not in LEAVES], ids=" ".join)
def test_group_help_has_a_valid_example(words):
    examples = re.findall(r"`intarsia ([^`]+)`", PROGRAM.commands[words[0]].help)
    assert examples
    for example in examples:
        given = shlex.split(example)
        assert given[0] == words[0]
        command, arguments = find(given)
        command.make_context(command.name, arguments)


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_command_help_has_a_valid_example(words):
    command, _ = find(words)
    examples = re.findall(r"`(intarsia [^`]+)`", command.help.partition("Example")[2])
    assert examples
    for example in examples:
        _, *given = shlex.split(example)
        assert tuple(given[: len(words)]) == words
        found, arguments = find(given)
        assert found is command
        command.make_context(" ".join(words), arguments)  # raises for unknown options
