"""Explanations of inferred values: the forces of rules and constraints on a variable."""

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

# A hinge this close to its corner counts as being at the corner, because inference stops within a tolerance.
_CORNER = 1e-4
# A value this close to 0 or 1 counts as being at the bound.
_BOUND = 1e-4


@dataclass(frozen=True)
class TermForce:
    """Force of a ground term or constraint on an atom.

    Attributes
    ----------
    text : str
        Linear function of the variables; observed values are part of its constant.
    value : float
        Value of the function. A hinge acts if it is above 0, an inequality if it is 0.
    force : float
        Force on the atom: minus the derivative of the weighted hinge, or minus the multiplier of the constraint times
        the coefficient. A positive force raises the value of the atom. NaN if it depends on multipliers that were not
        passed.
    rule : str
        The rule that was ground.
    bindings : dict of str to str
        Constant of each variable of the rule; empty if no program was passed.
    facts : tuple of (str, float)
        Observed atoms that are part of the constant, with their values; atoms that are not in the data have value 0.
    """

    text: str
    value: float
    force: float
    rule: str = ""
    bindings: dict[str, str] = field(default_factory=dict)
    facts: tuple[tuple[str, float], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the content as a dict that can be written as JSON."""
        return {
            "text": self.text,
            "value": self.value,
            "force": self.force,
            "bindings": self.bindings,
            "facts": [{"atom": atom, "truth": truth} for atom, truth in self.facts],
        }


@dataclass(frozen=True)
class RuleForce:
    """Total force of the ground terms of a rule on an atom.

    Attributes
    ----------
    rule : str
        The rule.
    force : float
        Sum of the forces of its terms.
    reserve : float
        Largest possible force of its linear hinges that are at their corner, where the derivative jumps. With
        multipliers `force` includes their actual force; without multipliers it counts as 0.
    n_terms, n_active : int
        Number of its terms with this atom, and number of these terms whose force is not 0.
    terms : tuple of TermForce
        Terms with the largest forces, in descending order.
    """

    rule: str
    force: float
    reserve: float
    n_terms: int
    n_active: int
    terms: tuple[TermForce, ...]


@dataclass(frozen=True)
class Explanation(ShownResult):
    """Explanation of the value of an atom: the forces of rules, constraints and the bounds 0 and 1 on it.

    At the optimum the forces sum to 0.

    Attributes
    ----------
    atom : str
        The atom.
    value : float
        Its value.
    rules : tuple of RuleForce
        Forces of the rules, largest first.
    constraints : tuple of TermForce
        Forces of the hard constraints with this atom, largest first.
    bound : float
        Force of the bound: positive at the bound 0, negative at the bound 1, and 0 between them.
    imbalance : float
        Sum of all forces, including that of the bound: 0 at the optimum, up to the tolerance of inference. NaN if
        multipliers are needed and were not passed.

    Examples
    --------
    A violated linear rule of weight 2 pulls up with force 2, a squared rule of weight 3 down with force 2 x 3 x 0.25:

    >>> from intarsia.softlogic.program import Program
    >>> from intarsia.softlogic.grounding.ground import ground
    >>> program = Program().predicate("P", 1).rule("2: P(X) = 1").rule("3: !P(X) ^2").target("P", ["a"])
    >>> explanation = explain(ground(program), [0.25], 0)
    >>> explanation.atom, explanation.value, [rule.force for rule in explanation.rules], explanation.imbalance
    ("P('a')", 0.25, [2.0, -1.5], 0.5)
    """

    atom: str
    value: float
    rules: tuple[RuleForce, ...]
    constraints: tuple[TermForce, ...]
    bound: float
    imbalance: float

    def _facts(self) -> Iterable[tuple[str, Any]]:
        yield self.atom, self.value
        for rule in self.rules:
            yield rule.rule, f"force {rule.force:+.4g} from {rule.n_active} of {rule.n_terms} terms"
        for constraint in self.constraints:
            yield (
                f"{constraint.rule}: {constraint.text}",
                f"constraint, value {constraint.value:.4g}, {_force(constraint)}",
            )
        if self.bound:
            yield f"bound {round(self.value)}", f"force {self.bound:+.4g}"

    def as_dict(self) -> dict[str, Any]:
        """Return the content as a dict that can be written as JSON."""
        return {
            "atom": self.atom,
            "value": self.value,
            "rules": [
                {
                    "rule": rule.rule,
                    "force": rule.force,
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
    """Compute the forces of ground terms and constraints on a variable.

    Use it to see which rules determine an inferred value. The force of a hinge is minus the derivative of its weighted
    value. The force of a constraint, and of a linear hinge at its corner, follows from its multiplier. At the optimum
    the forces on an atom inside (0, 1) sum to 0; at 0 or 1 the bound balances the remaining force.

    Parameters
    ----------
    grounding : Grounding
        The ground program.
    x : float array (n_variables,)
        Values of all variables, such as the inferred values.
    variable : int
        Number of the variable, such as `grounding.atoms.find("Knows", "ann", "bob")`.
    n_terms : int
        Largest number of single terms to list for each rule.
    multipliers : float array (n_terms + n_constraints,), optional
        Multipliers of all terms, equalities and inequalities at `x`, such as `result.state.multipliers()`. Without
        multipliers the forces of constraints are NaN.
    program : Program, optional
        The program that was ground. If passed, each term lists the constants of the rule's variables and the observed
        atoms in its constant.

    Raises
    ------
    InvalidInputError
        An array has the wrong shape, or the variable does not exist.

    Examples
    --------
    A squared rule of weight 2 pulls up with force 2 x 2 x (1 - 0.6), one of weight 1 down with force 2 x 0.6.

    >>> from intarsia.softlogic.program import Program
    >>> from intarsia.softlogic.grounding.ground import ground
    >>> program = Program().predicate("P", 1).rule("2: P(X) = 1 ^2").rule("1: !P(X) ^2").target("P", ["a"])
    >>> explanation = explain(ground(program), [0.6], 0, program=program)
    >>> [(rule.rule, round(rule.force, 4)) for rule in explanation.rules]
    [('2: P(X) = 1 ^2', 1.6), ('1: !P(X) ^2', -1.2)]
    >>> explanation.rules[0].terms[0].text, explanation.rules[0].terms[0].bindings
    ("1 - P('a')", {'X': 'a'})
    """
    mrf = grounding.mrf
    point = as_float_array(x, "explain: x")
    if point.shape != (mrf.n_variables,):
        raise InvalidInputError(
            f"explain: x has shape {point.shape}, expected ({mrf.n_variables},): a value per variable."
        )
    duals = None if multipliers is None else as_float_array(multipliers, "explain: multipliers")
    n_rows = mrf.n_terms + mrf.n_constraints
    if duals is not None and duals.shape != (n_rows,):
        raise InvalidInputError(
            f"explain: multipliers has shape {duals.shape}, expected ({n_rows},). Pass one per term and constraint."
        )
    name = grounding.atoms.name(variable)
    with ExitStack() as stack:
        sources = None if program is None else stack.enter_context(GroundingSources(program, grounding))
        forces = _Forces(grounding, point, duals, variable, sources)
        rules = forces.rules(n_terms)
        constraints = forces.constraints()
    total = sum(rule.force for rule in rules) + sum(constraint.force for constraint in constraints)
    if duals is None and any(rule.reserve for rule in rules):
        total = float("nan")
    value = float(point[variable])
    at_bound = (value <= _BOUND and total < 0.0) or (value >= 1.0 - _BOUND and total > 0.0)
    return Explanation(name, value, rules, constraints, -total if at_bound else 0.0, 0.0 if at_bound else total)


@dataclass(frozen=True)
class _Forces:
    """Computation of the forces on a variable at a point."""

    grounding: Grounding
    point: FloatArray
    multipliers: FloatArray | None
    variable: int
    sources: GroundingSources | None

    def rules(self, n_terms: int) -> tuple[RuleForce, ...]:
        """Return the force of each rule, with its largest terms."""
        mrf = self.grounding.mrf
        rows, coef = _rows_with(mrf.terms, self.variable)
        values = _values(mrf.terms, rows, self.point)
        power, weight = mrf.power[rows], mrf.weight[rows]
        corner = (np.abs(values) <= _CORNER) & (power == 1)
        active = (values > 0.0) & ~corner
        force = np.where(active, weight * np.where(power == 2, 2.0 * values, 1.0), 0.0)
        if self.multipliers is not None:
            force = np.where(corner, np.clip(self.multipliers[rows], 0.0, weight), force)
        pull = -force * coef + 0.0  # adding 0 turns -0.0 into 0.0
        group = np.zeros(len(rows), dtype=np.int64) if mrf.term_group is None else mrf.term_group[rows]
        rules = []
        for g in np.unique(group).tolist():
            members = np.flatnonzero(group == g)
            largest = members[np.argsort(-np.abs(pull[members]), kind="stable")][:n_terms]
            rules.append(
                RuleForce(
                    mrf.name_of_group(g),
                    float(pull[members].sum()),
                    float(np.abs(weight * coef)[members][corner[members]].sum()),
                    len(members),
                    int((pull[members] != 0.0).sum()),
                    self._pulls(mrf.terms, g, rows[largest], values[largest], pull[largest], ""),
                )
            )
        return tuple(sorted(rules, key=lambda rule: (-abs(rule.force), -rule.reserve)))

    def constraints(self) -> tuple[TermForce, ...]:
        """Return the force of each constraint."""
        mrf = self.grounding.mrf
        first = mrf.n_terms
        pulls: list[TermForce] = []
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
                members = np.flatnonzero(group == g)
                pulls += self._pulls(constraints, g, rows[members], values[members], pull[members], sign)
            first += constraints.n_rows
        return tuple(
            sorted(pulls, key=lambda c: (-np.nan_to_num(abs(c.force)), 0.0 if c.text.endswith(" = 0") else -c.value))
        )

    def _pulls(
        self, linear: LinearRows, group: int, rows: IntArray, values: FloatArray, pull: FloatArray, sign: str
    ) -> tuple[TermForce, ...]:
        """Return the forces of single rows of a rule, with the data behind them if known."""
        rule = self.grounding.mrf.name_of_group(group)
        sources = {} if self.sources is None else self.sources.of_rows(group, linear, rows.tolist(), self.variable)
        unknown = Source({}, ())
        return tuple(
            TermForce(
                _text(self.grounding, linear, row) + sign,
                float(value),
                float(force),
                rule,
                sources.get(row, unknown).bindings,
                sources.get(row, unknown).facts,
            )
            for row, value, force in zip(rows.tolist(), values, pull, strict=True)
        )


def _force(constraint: TermForce) -> str:
    """Return the force of a constraint as text for people."""
    return "force unknown" if np.isnan(constraint.force) else f"force {constraint.force:+.4g}"


def _rows_with(rows: LinearRows, variable: int) -> tuple[np.ndarray[Any, np.dtype[np.int64]], FloatArray]:
    """Return the rows that contain a variable, and its coefficients there."""
    entries = np.flatnonzero(rows.idx == variable)
    return np.searchsorted(rows.ptr, entries, side="right") - 1, rows.coef[entries]


def _values(rows: LinearRows, indices: np.ndarray[Any, np.dtype[np.int64]], point: FloatArray) -> FloatArray:
    """Return the values of selected rows at a point."""
    return rows.values(point)[indices] if indices.size else np.empty(0)


def _text(grounding: Grounding, rows: LinearRows, row: int) -> str:
    """Return a linear function as a string, such as `1 - P('a') + 2 Q('b')`."""
    entries = slice(int(rows.ptr[row]), int(rows.ptr[row + 1]))
    summands = [(float(rows.const[row]), "")] if rows.const[row] or entries.start == entries.stop else []
    for variable, coef in zip(rows.idx[entries].tolist(), rows.coef[entries].tolist(), strict=True):
        summands.append((coef, grounding.atoms.name(variable)))
    text = ""
    for k, (number, atom) in enumerate(summands):
        sign = ("-" if number < 0 else "") if k == 0 else (" - " if number < 0 else " + ")
        size = f"{abs(number):g}"
        text += sign + (size if not atom else atom if size == "1" else f"{size} {atom}")
    return text
