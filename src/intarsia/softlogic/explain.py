"""Which rules and constraints pull a variable up or down, and how hard."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.html import ShownResult
from intarsia._core.validation import FloatArray, IntArray, as_float_array
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.explain_groundings import GroundingSources, Source
from intarsia.softlogic.grounding.ground import Grounding
from intarsia.softlogic.hinge.linear_rows import LinearRows
from intarsia.softlogic.program import Program

# A hinge this near to its corner is at it, for inference stops within a tolerance.
_CORNER = 1e-4
# A value this near to 0 or 1 is at the bound.
_BOUND = 1e-4


@dataclass(frozen=True)
class TermPull:
    """A ground term, or constraint, that an atom stands in.

    Attributes
    ----------
    text : str
        Its linear function of the variables; what was observed is in the constant.
    value : float
        The function's value: a hinge pulls where it is above 0, an inequality where it is 0.
    pull : float
        The force on the atom: minus the derivative of the weighted hinge, or minus the multiplier of the constraint
        times the coefficient. Above 0 it pulls the atom up. NaN where it needs multipliers that were not given.
    rule : str
        The rule it was ground from.
    bindings : dict of str to str
        The constant of each variable of the rule; empty if no program was given.
    facts : tuple of (str, float)
        Observed atoms that went into the constant, with their truth; atoms that are not in the data have truth 0.
    """

    text: str
    value: float
    pull: float
    rule: str = ""
    bindings: dict[str, str] = field(default_factory=dict)
    facts: tuple[tuple[str, float], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "text": self.text,
            "value": self.value,
            "pull": self.pull,
            "bindings": self.bindings,
            "facts": [{"atom": atom, "truth": truth} for atom, truth in self.facts],
        }


@dataclass(frozen=True)
class RulePull:
    """All ground terms of a rule that an atom stands in.

    Attributes
    ----------
    rule : str
        The rule.
    pull : float
        Sum over its terms.
    reserve : float
        How much its terms that are at the corner of a linear hinge can pull at most; there the derivative jumps. With
        multipliers `pull` holds how much they do pull, without them they count as 0.
    n_terms, n_active : int
        Its terms with this atom, and those of them that pull.
    terms : tuple of TermPull
        The hardest pulls, hardest first.
    """

    rule: str
    pull: float
    reserve: float
    n_terms: int
    n_active: int
    terms: tuple[TermPull, ...]


@dataclass(frozen=True)
class Explanation(ShownResult):
    """Why an atom has its value: the forces on it, by rule, and those of the constraints and of the bounds 0 and 1.

    At the optimum all forces add up to 0.

    Attributes
    ----------
    atom : str
        The atom.
    value : float
        Its value.
    rules : tuple of RulePull
        Hardest first.
    constraints : tuple of TermPull
        Hard constraints with this atom, hardest first.
    bound : float
        The force with which the bound 0 holds the atom up, or the bound 1 holds it down; 0 between them.
    imbalance : float
        Sum of all forces, that of the bound included: 0 at the optimum, up to the tolerance of inference. NaN where
        multipliers are needed and were not given.

    Examples
    --------
    A linear rule of weight 2 pulls up by 2 where it is broken, a squared one of weight 3 down by 2 x 3 x 0.25:

    >>> from intarsia.softlogic.program import Program
    >>> from intarsia.softlogic.grounding.ground import ground
    >>> program = Program().predicate("P", 1).rule("2: P(X) = 1").rule("3: !P(X) ^2").target("P", ["a"])
    >>> found = explain(ground(program), [0.25], 0)
    >>> found.atom, found.value, [rule.pull for rule in found.rules], found.imbalance
    ("P('a')", 0.25, [2.0, -1.5], 0.5)
    """

    atom: str
    value: float
    rules: tuple[RulePull, ...]
    constraints: tuple[TermPull, ...]
    bound: float
    imbalance: float

    def _facts(self) -> Iterable[tuple[str, Any]]:
        yield self.atom, self.value
        for rule in self.rules:
            yield rule.rule, f"pulls by {rule.pull:+.4g}; {rule.n_active} of {rule.n_terms} terms pull"
        for constraint in self.constraints:
            yield (
                f"{constraint.rule}: {constraint.text}",
                f"constraint, at {constraint.value:.4g}, {_force(constraint)}",
            )
        if self.bound:
            yield f"bound {round(self.value)}", f"holds by {self.bound:+.4g}"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "atom": self.atom,
            "value": self.value,
            "rules": [
                {
                    "rule": rule.rule,
                    "pull": rule.pull,
                    "reserve": rule.reserve,
                    "n_terms": rule.n_terms,
                    "n_active": rule.n_active,
                    "terms": [term.as_dict() for term in rule.terms],
                }
                for rule in self.rules
            ],
            "constraints": [{"rule": constraint.rule, **constraint.as_dict()} for constraint in self.constraints],
            "bound": self.bound,
            "imbalance": self.imbalance,
        }


def explain(
    grounding: Grounding,
    x: ArrayLike,
    variable: int,
    n_terms: int = 3,
    *,
    multipliers: ArrayLike | None = None,
    program: Program | None = None,
) -> Explanation:
    """Compute which ground terms and constraints pull a variable, and how hard.

    The force of a hinge is minus the derivative of its weighted value. A linear hinge at its corner, and a constraint,
    have the force that their multiplier gives. At the optimum all forces on an atom inside (0, 1) add up to 0; at a
    bound the bound holds against what remains.

    Parameters
    ----------
    grounding : Grounding
        The ground program.
    x : float array (n_variables,)
        A point, such as the inferred values.
    variable : int
        The variable; `grounding.atoms.find("Knows", "ann", "bob")`.
    n_terms : int
        How many single terms to list for each rule.
    multipliers : float array (n_terms + n_constraints,), optional
        Multipliers of all terms, equalities and inequalities at `x`, such as `result.state.multipliers()`. Without
        them forces of constraints are NaN.
    program : Program, optional
        The program that was ground, to look up the constants of each term's variables and the facts in its constant.

    Examples
    --------
    A squared rule of weight 2 pulls up by 2 x 2 x (1 - 0.6), one of weight 1 down by 2 x 0.6.

    >>> from intarsia.softlogic.program import Program
    >>> from intarsia.softlogic.grounding.ground import ground
    >>> program = Program().predicate("P", 1).rule("2: P(X) = 1 ^2").rule("1: !P(X) ^2").target("P", ["a"])
    >>> found = explain(ground(program), [0.6], 0, program=program)
    >>> [(rule.rule, round(rule.pull, 4)) for rule in found.rules]
    [('2: P(X) = 1 ^2', 1.6), ('1: !P(X) ^2', -1.2)]
    >>> found.rules[0].terms[0].text, found.rules[0].terms[0].bindings
    ("1 - P('a')", {'X': 'a'})
    """
    mrf = grounding.mrf
    point = as_float_array(x, "explain: x")
    if point.shape != (mrf.n_variables,):
        raise InvalidInputError(f"explain: x has shape {point.shape}, expected ({mrf.n_variables},).")
    duals = None if multipliers is None else as_float_array(multipliers, "explain: multipliers")
    n_rows = mrf.n_terms + mrf.n_constraints
    if duals is not None and duals.shape != (n_rows,):
        raise InvalidInputError(f"explain: multipliers has shape {duals.shape}, expected ({n_rows},): one per row.")
    name = grounding.atoms.name(variable)
    with ExitStack() as stack:
        sources = None if program is None else stack.enter_context(GroundingSources(program, grounding))
        maker = _Forces(grounding, point, duals, variable, sources)
        rules = maker.rules(n_terms)
        constraints = maker.constraints()
    total = sum(rule.pull for rule in rules) + sum(constraint.pull for constraint in constraints)
    if duals is None and any(rule.reserve for rule in rules):
        total = float("nan")
    value = float(point[variable])
    held = (value <= _BOUND and total < 0.0) or (value >= 1.0 - _BOUND and total > 0.0)
    return Explanation(name, value, rules, constraints, -total if held else 0.0, 0.0 if held else total)


@dataclass(frozen=True)
class _Forces:
    """Forces on one variable at a point."""

    grounding: Grounding
    point: FloatArray
    multipliers: FloatArray | None
    variable: int
    sources: GroundingSources | None

    def rules(self, n_terms: int) -> tuple[RulePull, ...]:
        mrf = self.grounding.mrf
        rows, coef = _rows_with(mrf.terms, self.variable)
        values = _values(mrf.terms, rows, self.point)
        power, weight = mrf.power[rows], mrf.weight[rows]
        corner = (np.abs(values) <= _CORNER) & (power == 1)
        active = (values > 0.0) & ~corner
        force = np.where(active, weight * np.where(power == 2, 2.0 * values, 1.0), 0.0)
        if self.multipliers is not None:
            force = np.where(corner, np.clip(self.multipliers[rows], 0.0, weight), force)
        pull = -force * coef + 0.0  # no minus zeros
        group = np.zeros(len(rows), dtype=np.int64) if mrf.term_group is None else mrf.term_group[rows]
        rules = []
        for g in np.unique(group).tolist():
            mine = np.flatnonzero(group == g)
            hardest = mine[np.argsort(-np.abs(pull[mine]), kind="stable")][:n_terms]
            rules.append(
                RulePull(
                    mrf.name_of_group(g),
                    float(pull[mine].sum()),
                    float(np.abs(weight * coef)[mine][corner[mine]].sum()),
                    len(mine),
                    int((pull[mine] != 0.0).sum()),
                    self._pulls(mrf.terms, g, rows[hardest], values[hardest], pull[hardest], ""),
                )
            )
        return tuple(sorted(rules, key=lambda rule: (-abs(rule.pull), -rule.reserve)))

    def constraints(self) -> tuple[TermPull, ...]:
        mrf = self.grounding.mrf
        first = mrf.n_terms
        pulls: list[TermPull] = []
        for constraints, groups, sign in (
            (mrf.equalities, mrf.equality_group, " = 0"),
            (mrf.inequalities, mrf.inequality_group, " <= 0"),
        ):
            if constraints is None:
                continue
            rows, coef = _rows_with(constraints, self.variable)
            values = _values(constraints, rows, self.point)
            pull = np.full(len(rows), np.nan)
            if self.multipliers is not None:
                force = self.multipliers[first + rows]
                if sign == " <= 0":
                    force = np.where(values < -_CORNER, 0.0, np.maximum(force, 0.0))
                pull = -force * coef + 0.0
            group = np.zeros(len(rows), dtype=np.int64) if groups is None else groups[rows]
            for g in np.unique(group).tolist():
                mine = np.flatnonzero(group == g)
                pulls += self._pulls(constraints, g, rows[mine], values[mine], pull[mine], sign)
            first += constraints.n_rows
        return tuple(
            sorted(pulls, key=lambda c: (-np.nan_to_num(abs(c.pull)), 0.0 if c.text.endswith(" = 0") else -c.value))
        )

    def _pulls(
        self, linear: LinearRows, group: int, rows: IntArray, values: FloatArray, pull: FloatArray, sign: str
    ) -> tuple[TermPull, ...]:
        rule = self.grounding.mrf.name_of_group(group)
        sources = {} if self.sources is None else self.sources.of_rows(group, linear, rows.tolist(), self.variable)
        nothing = Source({}, ())
        return tuple(
            TermPull(
                _text(self.grounding, linear, row) + sign,
                float(value),
                float(force),
                rule,
                sources.get(row, nothing).bindings,
                sources.get(row, nothing).facts,
            )
            for row, value, force in zip(rows.tolist(), values, pull, strict=True)
        )


def _force(constraint: TermPull) -> str:
    return "force unknown" if np.isnan(constraint.pull) else f"holds by {constraint.pull:+.4g}"


def _rows_with(rows: LinearRows, variable: int) -> tuple[np.ndarray[Any, np.dtype[np.int64]], FloatArray]:
    """Rows in which a variable stands, and its coefficients there."""
    entries = np.flatnonzero(rows.idx == variable)
    return np.searchsorted(rows.ptr, entries, side="right") - 1, rows.coef[entries]


def _values(rows: LinearRows, which: np.ndarray[Any, np.dtype[np.int64]], point: FloatArray) -> FloatArray:
    return rows.values(point)[which] if which.size else np.empty(0)


def _text(grounding: Grounding, rows: LinearRows, row: int) -> str:
    """A linear function in words: `1 - P('a') + 2 Q('b')`."""
    part = slice(int(rows.ptr[row]), int(rows.ptr[row + 1]))
    pieces = [(float(rows.const[row]), "")] if rows.const[row] or part.start == part.stop else []
    for variable, coef in zip(rows.idx[part].tolist(), rows.coef[part].tolist(), strict=True):
        pieces.append((coef, grounding.atoms.name(variable)))
    text = ""
    for k, (number, atom) in enumerate(pieces):
        sign = ("-" if number < 0 else "") if k == 0 else (" - " if number < 0 else " + ")
        size = f"{abs(number):g}"
        text += sign + (size if not atom else atom if size == "1" else f"{size} {atom}")
    return text
