"""Rules bound to the labels of a model: fast checks of many labellings, and the automata of a sequence."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.error_context import warn_caller
from intarsia._core.validation import IntArray
from intarsia.exceptions import InvalidInputError
from intarsia.sequences.constraints.automaton import Automaton
from intarsia.sequences.constraints.labels import field_of
from intarsia.sequences.constraints.rule import Rule
from intarsia.sequences.constraints.trellis import Automata

# Automata of stationary rules are made for lengths that are powers of two, from this one on.
_SHORTEST = 64

Tokens = Sequence[str] | None


class RuleSet:
    """Hard rules for label sequences with known classes.

    Parameters
    ----------
    rules : sequence of Rule
        Hard rules; see `check_rules`.
    classes : sequence
        All labels, in the order of the columns of the scores.
    """

    def __init__(self, rules: Sequence[Rule], classes: Any) -> None:
        self.rules = list(rules)
        self.labels = classes
        self.classes = [label.item() if isinstance(label, np.generic) else label for label in classes]
        self._stationary = [i for i, rule in enumerate(self.rules) if rule.is_stationary]
        self._others = [i for i, rule in enumerate(self.rules) if not rule.is_stationary]
        self._automata: dict[tuple[int, int, bool], Automaton] = {}
        self._sets: dict[tuple[int, bool], Automata] = {}

    def is_for(self, require: Any, classes: Any) -> bool:
        """Return whether the rules and the classes are these very objects."""
        rules = [require] if isinstance(require, Rule) else require
        return classes is self.labels and isinstance(rules, (list, tuple)) and list(rules) == self.rules

    @property
    def needs_tokens(self) -> bool:
        """Whether a rule reads the tokens."""
        return any(rule.needs_tokens for rule in self.rules)

    @property
    def is_stationary(self) -> bool:
        """Whether the automata of all sequences of equal length are equal."""
        return not self._others

    def automata(self, length: int, tokens: Tokens = None, is_penalty: bool = False) -> Automata:
        """Return the automaton of each rule for a sequence; with `is_penalty`, violations are charged instead."""
        if self.is_stationary:
            return self._stationary_set(length, is_penalty)
        return Automata([self._automaton(i, length, tokens, is_penalty) for i in range(len(self.rules))])

    def _stationary_set(self, length: int, is_penalty: bool = False) -> Automata:
        """Return the automata of the stationary rules, which sequences of similar length share."""
        key = _size(length), is_penalty
        if key not in self._sets:
            self._sets[key] = Automata([self._automaton(i, length, None, is_penalty) for i in self._stationary])
        return self._sets[key]

    def _automaton(self, i: int, length: int, tokens: Tokens, is_penalty: bool) -> Automaton:
        rule = self.rules[i]
        make = rule.penalty_automaton if is_penalty else rule.automaton
        if not rule.is_stationary:
            return make(self.classes, length, tokens)
        key = i, _size(length), is_penalty
        if key not in self._automata:
            self._automata[key] = make(self.classes, key[1])
        return self._automata[key]

    def violated(self, ptr: IntArray, states: IntArray, tokens: Sequence[Tokens] | None = None) -> NDArray[np.bool_]:
        """Return whether each labelling violates a rule.

        Parameters
        ----------
        ptr : (n_sequences + 1,) int array
            First position of each sequence, followed by the number of positions.
        states : (n_positions,) int array
            Labels as columns of the scores.
        tokens : sequence, optional
            Tokens of each sequence.
        """
        result = np.zeros(ptr.size - 1, dtype=np.bool_)
        if self._stationary:
            # Automata for the number of all positions also fit each sequence.
            scores = self._stationary_set(int(ptr[-1])).scores(ptr, states, len(self.classes))
            if scores.any():
                result |= scores.any(axis=1)
        for s in range(ptr.size - 1 if self._others else 0):
            labels = [self.classes[y] for y in states[ptr[s] : ptr[s + 1]].tolist()]
            sequence_tokens = None if tokens is None else tokens[s]
            result[s] |= not all(self.rules[i].check(labels, sequence_tokens) for i in self._others)
        return result


def _size(length: int) -> int:
    """Return the length for which automata are made: sequences of similar length share them."""
    return max(_SHORTEST, 1 << (length - 1).bit_length())


def check_rules(require: Any, name: str = "require") -> list[Rule]:
    """Return hard rules as a list; raise if an entry is not a rule, or is soft."""
    if require is None:
        return []
    rules = [require] if isinstance(require, Rule) else require
    if isinstance(rules, (str, bytes, dict)) or not isinstance(rules, Sequence):
        raise InvalidInputError(
            f"{name} must be a list of rules such as [once('ZipCode')], got {type(require).__name__}."
        )
    for i, rule in enumerate(rules):
        if not isinstance(rule, Rule):
            raise InvalidInputError(
                f"{name}[{i}] is a {type(rule).__name__}, not a rule. Pass rules such as once('ZipCode') of "
                f"intarsia.sequences."
            )
        if rule.soft:
            raise InvalidInputError(
                f"{name}[{i}] is {rule!r}, a soft rule, but {name} takes hard rules. Remove soft=True, or pass "
                f"rule.energy() in energies=[...]."
            )
    return list(rules)


def warn_of_unknown_fields(rules: Sequence[Rule], classes: Sequence[Any]) -> None:
    """Warn if a rule names a field that no label has, which is usually a typo."""
    fields = {field_of(label)[0] for label in classes} | set(classes)
    for rule in rules:
        for field in rule.fields:
            if field not in fields:
                nearest = difflib.get_close_matches(str(field), [str(name) for name in fields], 1)
                hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
                warn_caller(
                    f"{rule!r} names the field {field!r}, but no label has it, so it never occurs.{hint}",
                    UserWarning,
                )
