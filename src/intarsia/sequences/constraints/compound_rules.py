"""Rules that contain another rule, fix labels at positions, or read the tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from intarsia._core.registry import Parts
from intarsia._core.validation import check_number
from intarsia.exceptions import InvalidInputError
from intarsia.sequences.constraints.automaton import (
    Automaton,
    dictionary_automaton,
    each_side_automaton,
    fixed_automaton,
    when_automaton,
)
from intarsia.sequences.constraints.labels import field_of, segments_of
from intarsia.sequences.constraints.rule import RULES, Field, Rule, check_field, check_rule, check_strength


class RuleAboutRule(Rule):
    """Rule that says where another rule, `rule`, holds."""

    _parts: ClassVar[Parts] = {"rule": RULES}

    rule: Rule

    @property
    def is_stationary(self) -> bool:
        """Whether positions and tokens have no effect on the inner rule."""
        return self.rule.is_stationary

    @property
    def needs_tokens(self) -> bool:
        """Whether the inner rule reads the tokens."""
        return self.rule.needs_tokens


@dataclass(frozen=True, repr=False)
class EachSideRule(RuleAboutRule):
    """Rule for the parts of a sequence around a field; created by `each_side`."""

    rule: Rule
    around: Field
    soft: bool = False
    strength: float | None = None

    def __post_init__(self) -> None:
        check_rule(self.rule, "each_side")
        check_field(self.around, "each_side: around")
        if _contains_fixed(self.rule):
            raise InvalidInputError(
                "each_side: fixed({...}) counts positions of the whole sequence, so it cannot hold on each side. Pass "
                "fixed separately."
            )
        check_strength(self, "each_side")

    @property
    def fields(self) -> tuple[Field, ...]:
        """Fields of the rule, and the field that separates the parts."""
        return (*self.rule.fields, self.around)

    def check(self, labels: Sequence[Any], tokens: Sequence[str] | None = None) -> bool:
        """Return whether the rule holds in every part between segments of `around`, if there are such segments."""
        n, borders = len(labels), [run for run in segments_of(labels) if run.field == self.around]
        if not borders:
            return True
        starts, ends = [0, *(run.end for run in borders)], [*(run.start for run in borders), n]
        return all(
            self.rule.check(labels[a:b], None if tokens is None else tokens[a:b])
            for a, b in zip(starts, ends, strict=True)
        )

    def automaton(self, classes: Sequence[Any], length: int, tokens: Sequence[str] | None = None) -> Automaton:
        """Return the automaton of the rule, which starts again after each segment of `around`."""
        return each_side_automaton(self.rule.automaton(classes, length, tokens), classes, self.around)

    def __repr__(self) -> str:
        return self._call("each_side", self.rule, around=self.around)


@dataclass(frozen=True, repr=False)
class WhenRule(RuleAboutRule):
    """Rule with a condition; created by `when`."""

    field: Field
    rule: Rule
    soft: bool = False
    strength: float | None = None

    def __post_init__(self) -> None:
        check_field(self.field, "when: a")
        check_rule(self.rule, "when")
        check_strength(self, "when")

    @property
    def fields(self) -> tuple[Field, ...]:
        """Field of the condition, and the fields of the rule."""
        return (self.field, *self.rule.fields)

    def check(self, labels: Sequence[Any], tokens: Sequence[str] | None = None) -> bool:
        """Return whether the rule holds, or the field does not occur."""
        return all(field_of(label)[0] != self.field for label in labels) or self.rule.check(labels, tokens)

    def automaton(self, classes: Sequence[Any], length: int, tokens: Sequence[str] | None = None) -> Automaton:
        """Return the automaton of the rule, extended by whether the field has occurred."""
        return when_automaton(self.rule.automaton(classes, length, tokens), classes, self.field)

    def __repr__(self) -> str:
        return self._call("when", self.field, self.rule)


@dataclass(frozen=True, repr=False)
class FixedRule(Rule):
    """Labels at some positions; created by `fixed`."""

    labels: tuple[tuple[int, Any], ...]
    soft: bool = False
    strength: float | None = None

    def __post_init__(self) -> None:
        for position, label in self.labels:
            check_number(position, "fixed: position", low=-(2**62), high=2**62, integer=True)
            if label is None:
                raise InvalidInputError(f"fixed: the label of position {position} is None. Leave the position out.")
        check_strength(self, "fixed")

    @property
    def fields(self) -> tuple[Field, ...]:
        """Fields of the fixed labels."""
        return tuple(dict.fromkeys(field_of(label)[0] for _, label in self.labels))

    def at(self, length: int) -> dict[int, list[Any]]:
        """Return the labels of each position of a sequence; positions outside the sequence are ignored."""
        result: dict[int, list[Any]] = {}
        for position, label in self.labels:
            index = position + length if position < 0 else position
            if 0 <= index < length:
                result.setdefault(index, []).append(label)
        return result

    def violation(self, labels: Sequence[Any], tokens: Sequence[str] | None = None) -> float:
        """Return the number of positions that have another label."""
        positions = self.at(len(labels)).items()
        return float(sum(not all(matches(labels[t], label) for label in fixed_labels) for t, fixed_labels in positions))

    def check(self, labels: Sequence[Any], tokens: Sequence[str] | None = None) -> bool:
        """Return whether the positions have these labels."""
        return self.violation(labels) == 0.0

    def automaton(self, classes: Sequence[Any], length: int, tokens: Sequence[str] | None = None) -> Automaton:
        """Return the automaton with one state, which rejects other labels at the positions."""
        return fixed_automaton(classes, self.at(length), length)

    def penalty_automaton(self, classes: Sequence[Any], length: int, tokens: Sequence[str] | None = None) -> Automaton:
        """Return the automaton that charges 1 for each position with another label."""
        return fixed_automaton(classes, self.at(length), length, is_soft=True)

    def __repr__(self) -> str:
        return self._call("fixed", dict(self.labels))


@dataclass(frozen=True, repr=False)
class DictionaryRule(Rule):
    """Dictionary of the tokens of a field; created by `one_of`."""

    field: Field
    phrases: tuple[tuple[str, ...], ...]
    ignore_case: bool = True
    soft: bool = False
    strength: float | None = None

    def __post_init__(self) -> None:
        check_field(self.field, "one_of: field")
        check_strength(self, "one_of")

    @property
    def fields(self) -> tuple[Field, ...]:
        """Field whose tokens are in the dictionary."""
        return (self.field,)

    @property
    def needs_tokens(self) -> bool:
        """Whether the rule reads the tokens, which is always so."""
        return True

    def word(self, token: Any) -> str:
        """Return a token in the form in which it is compared."""
        return str(token).casefold() if self.ignore_case else str(token)

    @cached_property
    def phrase_set(self) -> frozenset[tuple[str, ...]]:
        """Phrases in the form in which they are compared."""
        return frozenset(tuple(map(self.word, phrase)) for phrase in self.phrases)

    @cached_property
    def _phrases_by_word(self) -> dict[str, list[tuple[str, ...]]]:
        """Phrases by their first word."""
        phrases: dict[str, list[tuple[str, ...]]] = {}
        for phrase in self.phrase_set:
            phrases.setdefault(phrase[0], []).append(phrase)
        return phrases

    def read_tokens(self, tokens: Sequence[str] | None, length: int) -> list[str]:
        """Return the tokens of a sequence in the form in which they are compared, or raise if there are none."""
        if tokens is None:
            raise InvalidInputError(
                f"{self!r} reads the tokens, but there are none. Pass tokens=, one string for each position."
            )
        if len(tokens) != length:
            raise InvalidInputError(
                f"{self!r}: there are {len(tokens)} tokens for {length} positions. Pass one token for each position."
            )
        return [self.word(token) for token in tokens]

    def check(self, labels: Sequence[Any], tokens: Sequence[str] | None = None) -> bool:
        """Return whether the tokens of each segment of the field are a phrase of the dictionary."""
        words = self.read_tokens(tokens, len(labels))
        runs = [run for run in segments_of(labels) if run.field == self.field]
        return all(tuple(words[run.start : run.end]) in self.phrase_set for run in runs)

    def automaton(self, classes: Sequence[Any], length: int, tokens: Sequence[str] | None = None) -> Automaton:
        """Return the automaton that stores the words of the current segment."""
        words = self.read_tokens(tokens, length)
        phrases = [phrase for word in set(words) for phrase in self._phrases_by_word.get(word, ())]
        return dictionary_automaton(classes, self.field, words, phrases)

    def __repr__(self) -> str:
        phrases = [" ".join(phrase) for phrase in self.phrases[:5]]
        names = repr(phrases) if len(self.phrases) <= 5 else f"{repr(phrases)[:-1]}, ... ({len(self.phrases)} in all)]"
        case = "" if self.ignore_case else ", ignore_case=False"
        return f"one_of({self.field!r}, {names}{case})"


def _contains_fixed(rule: Rule) -> bool:
    inner = getattr(rule, "rule", None)
    return isinstance(rule, FixedRule) or (isinstance(inner, Rule) and _contains_fixed(inner))


def matches(label: Any, expected: Any) -> bool:
    """Return whether a label is the expected label, or a tag of the expected field."""
    return bool(label == expected) or bool(field_of(label)[0] == expected)
