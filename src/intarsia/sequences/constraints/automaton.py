"""Deterministic automata that read a labelling position by position and accept it, reject it or charge a penalty."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from intarsia._core.validation import FloatArray, IntArray
from intarsia.sequences.constraints.labels import Kind, begins_segment, continues_segment, field_of, kinds_of

# A state of an automaton under construction: any hashable value.
State = Hashable
# Next state and score of a step; None rejects the labelling.
Step = tuple[State, float] | None


@dataclass(frozen=True, eq=False)
class Automaton:
    """Deterministic automaton over the labels of a sequence, with state 0 at the start.

    Attributes
    ----------
    step : (n_states, n_symbols) int array
        Next state; -1 rejects the labelling.
    final : (n_states,) float array
        Score of a sequence that ends in the state: 0, -inf (rejected), or minus a penalty.
    symbols : (n_kinds, n_labels) int array
        Symbol of each label, for each kind of position.
    kinds : (length,) int array, optional
        Kind of each position; by default all are of kind 0.
    scores : (n_states, n_symbols) float array, optional
        Score of each step, such as minus a penalty; by default 0.
    """

    step: IntArray
    final: FloatArray
    symbols: IntArray
    kinds: IntArray | None = None
    scores: FloatArray | None = None

    @property
    def n_states(self) -> int:
        """Number of states."""
        return self.step.shape[0]

    @property
    def step_scores(self) -> FloatArray:
        """Score of each step, 0 by default."""
        return np.zeros(self.step.shape) if self.scores is None else self.scores

    def score(self, states: Sequence[int]) -> float:
        """Return the total score of a labelling, given as columns of the scores of a chain; -inf if it is rejected."""
        state, total = 0, 0.0
        for t, label in enumerate(states):
            symbol = self.symbols[0 if self.kinds is None else self.kinds[t], label]
            total += float(self.step_scores[state, symbol])
            state = int(self.step[state, symbol])
            if state < 0:
                return -np.inf
        return total + float(self.final[state])

    def with_penalty(self) -> Automaton:
        """Return an automaton that charges 1 for a rejected labelling, instead of rejecting it."""
        n, n_symbols = self.step.shape
        step = np.vstack([np.where(self.step < 0, n, self.step), np.full((1, n_symbols), n)])
        final = np.append(np.where(self.final == -np.inf, -1.0, self.final), -1.0)
        scores = None if self.scores is None else np.vstack([self.scores, np.zeros((1, n_symbols))])
        return replace(self, step=step, final=final, scores=scores)

    def scaled(self, factor: float) -> Automaton:
        """Return the automaton with its penalties multiplied by a factor."""
        return replace(self, final=factor * self.final, scores=factor * self.step_scores)


def build_automaton(
    n_symbols: int,
    start: State,
    advance: Callable[[Any, int], Step],
    final: Callable[[Any], float],
    symbols: IntArray,
    kinds: IntArray | None = None,
    max_depth: int | None = None,
) -> Automaton:
    """Return the automaton with the states that can be reached from `start`.

    Parameters
    ----------
    n_symbols : int
        Number of symbols.
    start : hashable
        Start state.
    advance : function
        (state, symbol) -> (next state, score), or None where the labelling is rejected.
    final : function
        State -> score of a sequence that ends in it.
    symbols, kinds : int arrays
        As in `Automaton`.
    max_depth : int, optional
        Length of the sequence, for automata that count without limit: only states that are reached by so many
        symbols are included.
    """
    index, order, depths = {start: 0}, [start], [0]
    rows: list[list[int]] = []
    score_rows: list[list[float]] = []
    for i, state in enumerate(order):  # grows while it is read
        row, score_row = [], []
        for symbol in range(n_symbols):
            result = None if depths[i] == max_depth else advance(state, symbol)
            if result is None:
                row.append(-1)
                score_row.append(0.0)
                continue
            if result[0] not in index:
                index[result[0]] = len(order)
                order.append(result[0])
                depths.append(depths[i] + 1)
            row.append(index[result[0]])
            score_row.append(result[1])
        rows.append(row)
        score_rows.append(score_row)
    scores = np.array(score_rows, dtype=np.float64)
    return Automaton(
        np.array(rows, dtype=np.int64),
        np.array([final(state) for state in order], dtype=np.float64),
        np.atleast_2d(symbols),
        kinds,
        scores if scores.any() else None,
    )


def count_automaton(
    classes: Sequence[Any], field: Any, minimum: int, maximum: int | None, is_soft: bool = False
) -> Automaton:
    """Return the automaton that bounds the number of segments; if soft, it charges 1 for each segment out of bounds."""
    limit = minimum if maximum is None else maximum

    def advance(state: tuple[int, bool], kind: int) -> Step:
        n, is_inside = state
        penalty = 0.0
        if begins_segment(kind, is_inside):
            n += 1
            if n > limit and maximum is not None:
                if not is_soft:
                    return None
                penalty = -1.0
            n = min(n, limit)
        return (n, continues_segment(kind)), penalty

    def final(state: tuple[int, bool]) -> float:
        shortage = max(minimum - state[0], 0)
        return float(-shortage) if is_soft or not shortage else -np.inf

    return build_automaton(len(Kind), (0, False), advance, final, kinds_of(classes, field))


def order_automaton(classes: Sequence[Any], order: Sequence[Any]) -> Automaton:
    """Return the automaton that rejects a field after a later field of the order."""
    rank = {field: i + 1 for i, field in enumerate(order)}
    symbols = np.array([rank.get(field_of(label)[0], 0) for label in classes], dtype=np.int64)

    def advance(last: int, symbol: int) -> Step:
        return None if 0 < symbol < last else (max(last, symbol), 0.0)

    return build_automaton(len(order) + 1, 0, advance, lambda last: 0.0, symbols)


def occurrence_automaton(
    classes: Sequence[Any], fields: tuple[Any, Any], accepts: Callable[[bool, bool], bool]
) -> Automaton:
    """Return the automaton that accepts a labelling by which of two fields occur in it."""
    symbols = np.array([_occurrence(field_of(label)[0], fields) for label in classes], dtype=np.int64)

    def final(occurred: int) -> float:
        return 0.0 if accepts(bool(occurred & 1), bool(occurred & 2)) else -np.inf

    return build_automaton(4, 0, lambda occurred, symbol: (occurred | symbol, 0.0), final, symbols)


def _occurrence(field: Any, fields: tuple[Any, Any]) -> int:
    return (1 if field == fields[0] else 0) + (2 if field == fields[1] else 0)


def each_side_automaton(inner: Automaton, classes: Sequence[Any], separator: Any) -> Automaton:
    """Return the automaton that applies another one to each part between segments of a separator."""
    border = kinds_of(classes, separator)
    n_kinds = len(Kind)

    def advance(state: tuple[int, bool, bool], symbol: int) -> Step:
        inner_state, has_separator, is_inside = state
        inner_symbol, kind = divmod(symbol, n_kinds)
        if kind != Kind.OTHER:
            if begins_segment(kind, is_inside):
                if inner_state < 0 or inner.final[inner_state] == -np.inf:
                    return None
                inner_state = 0
            return (inner_state, True, continues_segment(kind)), 0.0
        inner_state = int(inner.step[inner_state, inner_symbol]) if inner_state >= 0 else -1
        return None if inner_state < 0 and has_separator else ((inner_state, has_separator, False), 0.0)

    def final(state: tuple[int, bool, bool]) -> float:
        return float(inner.final[state[0]]) if state[1] else 0.0

    n_symbols = inner.step.shape[1] * n_kinds
    return build_automaton(n_symbols, (0, False, False), advance, final, inner.symbols * n_kinds + border, inner.kinds)


def when_automaton(inner: Automaton, classes: Sequence[Any], field: Any) -> Automaton:
    """Return the automaton that applies another one to labellings in which a field occurs."""
    condition = (kinds_of(classes, field) != Kind.OTHER).astype(np.int64)

    def advance(state: tuple[int, bool], symbol: int) -> Step:
        inner_symbol, is_field = divmod(symbol, 2)
        inner_state = int(inner.step[state[0], inner_symbol]) if state[0] >= 0 else -1
        occurred = state[1] or bool(is_field)
        return None if inner_state < 0 and occurred else ((inner_state, occurred), 0.0)

    def final(state: tuple[int, bool]) -> float:
        return float(inner.final[state[0]]) if state[1] else 0.0

    n_symbols = inner.step.shape[1] * 2
    return build_automaton(n_symbols, (0, False), advance, final, inner.symbols * 2 + condition, inner.kinds)


def fixed_automaton(
    classes: Sequence[Any], labels: Mapping[int, Sequence[Any]], length: int, is_soft: bool = False
) -> Automaton:
    """Return the automaton that rejects other labels at some positions, or charges 1 for each of them if soft."""
    kinds, rows = np.zeros(length, dtype=np.int64), [np.zeros(len(classes), dtype=np.int64)]
    for position, expected_labels in labels.items():
        kinds[position] = len(rows)
        rows.append(
            np.array(
                [not all(label == e or field_of(label)[0] == e for e in expected_labels) for label in classes], np.int64
            )
        )

    def advance(state: int, is_other: int) -> Step:
        if is_other and not is_soft:
            return None
        return 0, -float(is_other)

    return build_automaton(2, 0, advance, lambda state: 0.0, np.array(rows), kinds)


def dictionary_automaton(
    classes: Sequence[Any], field: Any, words: Sequence[str], phrases: Collection[tuple[str, ...]]
) -> Automaton:
    """Return the automaton that accepts segments of a field whose words are one of the phrases."""
    present = set(words)
    relevant = [phrase for phrase in phrases if present.issuperset(phrase)]
    prefixes = {phrase[:i] for phrase in relevant for i in range(len(phrase) + 1)}
    complete = set(relevant)
    vocabulary = {word: i + 1 for i, word in enumerate(sorted({word for phrase in relevant for word in phrase}))}
    names = ["", *vocabulary]  # word 0 is not in any phrase
    n_kinds, kinds = len(Kind), kinds_of(classes, field)
    symbols = np.where(kinds == Kind.OTHER, 0, kinds + n_kinds * np.arange(len(names))[:, None])

    def advance(prefix: tuple[str, ...], symbol: int) -> Step:
        word, kind = divmod(symbol, n_kinds)
        if begins_segment(kind, bool(prefix)) or kind == Kind.OTHER:
            if prefix and prefix not in complete:
                return None
            prefix = ()
        if kind == Kind.OTHER:
            return (), 0.0
        prefix = (*prefix, names[word])
        if not word or prefix not in prefixes:
            return None
        if continues_segment(kind):
            return prefix, 0.0
        return ((), 0.0) if prefix in complete else None

    def final(prefix: tuple[str, ...]) -> float:
        return 0.0 if not prefix or prefix in complete else -np.inf

    word_of = np.array([vocabulary.get(word, 0) for word in words], dtype=np.int64)
    return build_automaton(n_kinds * len(names), (), advance, final, symbols, word_of)
