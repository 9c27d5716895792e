"""Tables in the terminal: no number is cut off if labels are long or the terminal is narrow."""

from __future__ import annotations

import pytest

from intarsia.cli.output import show_table


@pytest.mark.parametrize("width", [60, 80, 200])
def test_long_labels_are_folded_and_numbers_are_whole(monkeypatch, capsys, width):
    monkeypatch.setenv("COLUMNS", str(width))
    label = "a row with a label that is far longer than the terminal is wide, " * 3
    show_table(
        "A table", ["row", "paper", "ours", "commit"], [[label, "0.123456", "-0.654321", "abc1234"]], [False], []
    )
    text = capsys.readouterr().out
    for word in ("0.123456", "-0.654321", "abc1234", "paper", "ours", "commit"):
        assert word in text
    assert max(map(len, text.splitlines())) <= width
    assert "".join(label.split()) in "".join(line[: width - 30].strip() for line in text.splitlines()).replace(" ", "")


def test_a_second_column_of_labels_is_folded_too(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "60")
    label = "a quantity with a long name " * 3
    show_table(
        "A table", ["system", "quantity", "result", "unit"], [["a system", label, "0.125", "fraction"]], [True], []
    )
    lines = capsys.readouterr().out.splitlines()
    assert any("0.125" in line and "fraction" in line for line in lines)
    assert max(map(len, lines)) <= 60
