"""Ground implications as arrays, in which the experiments with hinge-loss MRFs write their rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.validation import FloatArray, IntArray
from intarsia.softlogic import HingeLossMRF, LinearRows


@dataclass(frozen=True, eq=False)
class Literal:
    """A variable for each grounding of a rule, or its negation (one minus the variable)."""

    variable: ArrayLike
    positive: bool = True

    def negated(self) -> Literal:
        """Return the negated literal."""
        return Literal(self.variable, not self.positive)


@dataclass(frozen=True, eq=False)
class GroundRules:
    """Hinges `coef . x[idx] + const` of equal length, one per row, with the index of the weight of each."""

    idx: IntArray
    coef: FloatArray
    const: FloatArray
    group: IntArray


def implies(body: Sequence[Literal], head: Literal, group: ArrayLike, observed: ArrayLike = 1.0) -> GroundRules:
    """Return the distances to satisfaction of `observed & body -> head` in Lukasiewicz logic, for all groundings.

    Parameters
    ----------
    body : sequence of Literal
        Conditions; their variables have equal lengths.
    head : Literal
        Conclusion.
    group : int or int array
        Index of the weight of each grounding.
    observed : float or float array
        Value in [0, 1] of the observed atoms of the body; 1 if there are none.

    Examples
    --------
    With the observed value 3/4, the distance to satisfaction of z -> !y is 3/4 + z - 1 - (1 - y):

    >>> rule = implies([Literal([0])], Literal([1], positive=False), group=0, observed=0.75)
    >>> rule.coef, rule.const
    (array([[1., 1.]]), array([-1.25]))
    """
    literals = [*body, head]
    columns = [np.asarray(literal.variable, dtype=np.int64).reshape(-1) for literal in literals]
    n = columns[0].size
    # A literal of the body adds its value, the head subtracts its value; the 1 of 1 - x goes to the constant.
    side = np.array([1.0] * len(body) + [-1.0])
    positive = np.array([literal.positive for literal in literals])
    coef = side * np.where(positive, 1.0, -1.0)
    const = np.broadcast_to(np.asarray(observed, dtype=np.float64), (n,)) - len(body) + side[~positive].sum()
    groups = np.broadcast_to(np.asarray(group, dtype=np.int64), (n,))
    return GroundRules(np.stack(columns, axis=1), np.broadcast_to(coef, (n, coef.size)), const, groups)


def assemble(n_variables: int, rules: Sequence[GroundRules], names: Sequence[str], power: int = 2) -> HingeLossMRF:
    """Return all rules as one model with weights 1, without groundings that are always satisfied.

    Examples
    --------
    >>> assemble(2, [implies([Literal([0])], Literal([1]), 0)], ["z -> y"]).objective([1.0, 0.25])
    0.5625
    """
    blocks = []
    for rule in rules:
        mask = np.maximum(rule.coef, 0.0).sum(axis=1) + rule.const > 0.0
        blocks.append(GroundRules(rule.idx[mask], rule.coef[mask], rule.const[mask], rule.group[mask]))
    lengths = np.concatenate([np.full(len(block.const), block.idx.shape[1]) for block in blocks])
    rows = LinearRows(
        np.concatenate([[0], np.cumsum(lengths)]),
        np.concatenate([block.idx.reshape(-1) for block in blocks]).astype(np.int32),
        np.concatenate([block.coef.reshape(-1) for block in blocks]),
        np.concatenate([block.const for block in blocks]),
    )
    group = np.concatenate([block.group for block in blocks])
    weight, powers = np.ones(rows.n_rows), np.full(rows.n_rows, power, dtype=np.int8)
    return HingeLossMRF(n_variables, rows, weight, powers, term_group=group.astype(np.int32), group_names=tuple(names))
