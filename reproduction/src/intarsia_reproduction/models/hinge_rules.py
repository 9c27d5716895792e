"""Grounded implications as arrays: what the experiments with hinge-loss models write their rules in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.validation import FloatArray, IntArray
from intarsia.softlogic import HingeLossMRF, LinearRows


@dataclass(frozen=True, eq=False)
class Literal:
    """A variable for each grounding of a rule, or one minus it."""

    variable: ArrayLike
    positive: bool = True

    def negated(self) -> Literal:
        """Its opposite."""
        return Literal(self.variable, not self.positive)


@dataclass(frozen=True, eq=False)
class GroundRules:
    """Hinges `coef . x[idx] + const` of equal length, one a row, with the weight that each shares."""

    idx: IntArray
    coef: FloatArray
    const: FloatArray
    group: IntArray


def implies(body: Sequence[Literal], head: Literal, group: ArrayLike, given: ArrayLike = 1.0) -> GroundRules:
    """Distances to satisfaction of `given & body -> head` in Lukasiewicz logic, for arrays of groundings.

    Parameters
    ----------
    body : sequence of Literal
        What must hold, all variables of one length.
    head : Literal
        What follows.
    group : int or int array
        The weight of each grounding.
    given : float or float array
        Truth of what is observed in the body; 1 if nothing is.

    Examples
    --------
    For observed truth 3/4, z -> !y is broken by 3/4 + z - 1 - (1 - y):

    >>> rule = implies([Literal([0])], Literal([1], positive=False), group=0, given=0.75)
    >>> rule.coef, rule.const
    (array([[1., 1.]]), array([-1.25]))
    """
    literals = [*body, head]
    columns = [np.asarray(one.variable, dtype=np.int64).reshape(-1) for one in literals]
    n = columns[0].size
    # A literal in the body counts with its truth, the head with minus its truth; 1 - x moves the 1 to the constant.
    side = np.array([1.0] * len(body) + [-1.0])
    positive = np.array([one.positive for one in literals])
    coef = side * np.where(positive, 1.0, -1.0)
    const = np.broadcast_to(np.asarray(given, dtype=np.float64), (n,)) - len(body) + side[~positive].sum()
    groups = np.broadcast_to(np.asarray(group, dtype=np.int64), (n,))
    return GroundRules(np.stack(columns, axis=1), np.broadcast_to(coef, (n, coef.size)), const, groups)


def assemble(n_variables: int, rules: Sequence[GroundRules], names: Sequence[str], power: int = 2) -> HingeLossMRF:
    """All rules as one model with weights 1; groundings that nothing can break are left out.

    Examples
    --------
    >>> assemble(2, [implies([Literal([0])], Literal([1]), 0)], ["z -> y"]).objective([1.0, 0.25])
    0.5625
    """
    parts = []
    for rule in rules:
        matters = np.maximum(rule.coef, 0.0).sum(axis=1) + rule.const > 0.0
        parts.append(GroundRules(rule.idx[matters], rule.coef[matters], rule.const[matters], rule.group[matters]))
    lengths = np.concatenate([np.full(len(part.const), part.idx.shape[1]) for part in parts])
    rows = LinearRows(
        np.concatenate([[0], np.cumsum(lengths)]),
        np.concatenate([part.idx.reshape(-1) for part in parts]).astype(np.int32),
        np.concatenate([part.coef.reshape(-1) for part in parts]),
        np.concatenate([part.const for part in parts]),
    )
    group = np.concatenate([part.group for part in parts])
    weight, powers = np.ones(rows.n_rows), np.full(rows.n_rows, power, dtype=np.int8)
    return HingeLossMRF(n_variables, rows, weight, powers, term_group=group.astype(np.int32), group_names=tuple(names))
