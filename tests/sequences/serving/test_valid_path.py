"""Tests of the best valid labelling by NumPy against enumeration, and of a loaded parser that needs no Numba."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest

from intarsia.sequences import LabelledText, RecordParser, each_side, exactly_once, fixed, in_order, needs, once, one_of
from intarsia.sequences.serving.valid_path import best_valid_path

CLASSES = ["O", "B-x", "I-x", "B-y"]
TOKENS = ["p", "q", "p", "r", "q"]
RULES = [
    [once("x")],
    [once("x"), once("y")],
    [exactly_once("x"), in_order("y", "x")],
    [needs("x", "y"), once("y")],
    [fixed({1: "B-x"}), once("x")],
    [one_of("x", ["p", "p q"]), exactly_once("y")],
    [each_side(once("x"), "y")],
]


@pytest.mark.parametrize("rules", RULES, ids=repr)
def test_best_valid_labelling_is_that_of_enumeration(rules) -> None:
    rng = np.random.default_rng(0)
    for length in (1, 2, 4, 5):
        tokens = TOKENS[:length]
        active = [rule for rule in rules if length > 1 or "fixed" not in repr(rule)]
        for _ in range(15):
            nodes, table = 3 * rng.standard_normal((length, 4)), 2 * rng.standard_normal((4, 4))
            table[0, 2] = -np.inf
            automata = [rule.automaton(CLASSES, length, tokens) for rule in active]
            best, expected = -np.inf, None
            for y in itertools.product(range(4), repeat=length):
                if all(rule.check([CLASSES[i] for i in y], tokens) for rule in active):
                    score = nodes[np.arange(length), list(y)].sum() + sum(table[a, b] for a, b in itertools.pairwise(y))
                    if score > best:
                        best, expected = score, list(y)
            assert best_valid_path(nodes, table, automata) == expected


def test_large_searches_are_left_to_the_caller() -> None:
    automaton = once("x").automaton(["O", "x"], 3)
    nodes = np.array([[0.0, 2.0], [1.0, 0.0], [0.0, 3.0]])
    table = np.array([[0.0, 0.0], [0.0, -9.0]])
    assert best_valid_path(nodes, table, [automaton], max_size=3) is None
    assert best_valid_path(nodes, table, [automaton]) == [0, 0, 1]


def test_a_loaded_parser_obeys_rules_without_numba(tmp_path) -> None:
    texts = [f"{i} Oak St {9000 + i}" for i in range(10, 40)]
    spans = [[(0, 2, "number"), (3, 9, "street"), (10, 14, "zip")] for _ in texts]
    parser = RecordParser(l2=0.1, rules=[once("zip"), once("street")]).fit(
        [LabelledText(*pair) for pair in zip(texts, spans, strict=True)]
    )
    text = "12 Oak St 9013 9014 Elm St 9015"
    plain = RecordParser(l2=0.1).fit(texts, spans)
    assert plain.tag(text).repeated
    parser.save(tmp_path / "parser.npz")
    code = (
        "import sys\nfrom intarsia import load\n"
        f"print(dict(load({str(tmp_path / 'parser.npz')!r}).tag({text!r})))\n"
        "print([name for name in ('numba', 'scipy') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == [str(dict(parser.tag(text))), "[]"]
