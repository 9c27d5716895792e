"""Which rules pull a variable up or down, and how hard."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from intarsia._html import ShownResult
from intarsia._validation import FloatArray, as_float_array
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.grounding import Grounding
from intarsia.softlogic.linear_rows import LinearRows

# A hinge this near to its corner is at it, for inference stops within a tolerance.
_CORNER = 1e-4


@dataclass(frozen=True)
class TermPull:
    """A ground term, or constraint, that an atom stands in.

    Attributes
    ----------
    text : str
        Its linear function of the variables; what was observed is in the constant.
    value : float
        The function's value: a hinge pulls where it is above 0.
    pull : float
        Minus the derivative of its weighted hinge in the atom: above 0 it pulls the atom up.
    """

    text: str
    value: float
    pull: float


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
        What its terms that are at the corner of a linear hinge can pull besides; there the derivative jumps.
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
    """Why an atom has its value: the pulls on it, by rule, and the constraints it stands in.

    Attributes
    ----------
    atom : str
        The atom.
    value : float
        Its value.
    rules : tuple of RulePull
        Hardest first.
    constraints : tuple of TermPull
        Hard constraints with this atom, their `pull` unknown (NaN), those that are tight first.

    Examples
    --------
    A linear rule of weight 2 pulls up by 2 where it is broken, a squared one of weight 3 down by 2 x 3 x 0.25:

    >>> from intarsia.softlogic import Program, ground
    >>> program = Program().predicate("P", 1).rule("2: P(X) = 1").rule("3: !P(X) ^2").target("P", ["a"])
    >>> found = explain(ground(program), [0.25], 0)
    >>> found.atom, found.value, [rule.pull for rule in found.rules]
    ("P('a')", 0.25, [2.0, -1.5])
    """

    atom: str
    value: float
    rules: tuple[RulePull, ...]
    constraints: tuple[TermPull, ...]

    def _facts(self) -> Iterable[tuple[str, Any]]:
        yield self.atom, self.value
        for rule in self.rules:
            yield rule.rule, f"pulls by {rule.pull:+.4g}; {rule.n_active} of {rule.n_terms} terms pull"
        for one in self.constraints:
            yield one.text, f"constraint, at {one.value:.4g}"

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
                    "terms": [{"text": t.text, "value": t.value, "pull": t.pull} for t in rule.terms],
                }
                for rule in self.rules
            ],
            "constraints": [{"text": c.text, "value": c.value} for c in self.constraints],
        }


def explain(grounding: Grounding, x: ArrayLike, variable: int, n_terms: int = 3) -> Explanation:
    """Tell which ground terms pull a variable, and how hard: the derivative of each weighted hinge, by rule.

    At the minimum the pulls on an atom inside (0, 1) that stands in no tight constraint add up to 0; where linear
    hinges are at their corner, to something that their `reserve` can balance.

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

    Examples
    --------
    A squared rule of weight 2 pulls up by 2 x 2 x (1 - 0.6), one of weight 1 down by 2 x 0.6.

    >>> from intarsia.softlogic import Program, ground
    >>> program = Program().predicate("P", 1).rule("2: P(X) = 1 ^2").rule("1: !P(X) ^2").target("P", ["a"])
    >>> found = explain(ground(program), [0.6], 0)
    >>> [(rule.rule, round(rule.pull, 4)) for rule in found.rules]
    [('2: P(X) = 1 ^2', 1.6), ('1: !P(X) ^2', -1.2)]
    >>> found.rules[0].terms[0].text
    "1 - P('a')"
    """
    mrf, atoms = grounding.mrf, grounding.atoms
    point = as_float_array(x, "explain: x")
    if point.shape != (mrf.n_variables,):
        raise InvalidInputError(f"explain: x has shape {point.shape}, expected ({mrf.n_variables},).")
    name = atoms.name(variable)
    rows, coef = _rows_with(mrf.terms, variable)
    values = _values(mrf.terms, rows, point)
    power, weight = mrf.power[rows], mrf.weight[rows]
    corner = (np.abs(values) <= _CORNER) & (power == 1)
    active = (values > 0.0) & ~corner
    slope = np.where(power == 2, 2.0 * values, 1.0)
    pull = np.where(active, -weight * slope * coef, 0.0)
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
                int(active[mine].sum()),
                tuple(
                    TermPull(_text(grounding, mrf.terms, int(rows[k])), float(values[k]), float(pull[k]))
                    for k in hardest
                ),
            )
        )
    rules.sort(key=lambda rule: (-abs(rule.pull), -rule.reserve))
    return Explanation(name, float(point[variable]), tuple(rules), _constraints(grounding, point, variable))


def _constraints(grounding: Grounding, point: FloatArray, variable: int) -> tuple[TermPull, ...]:
    found = []
    for given, sign in ((grounding.mrf.equalities, "="), (grounding.mrf.inequalities, "<=")):
        if given is None:
            continue
        rows, _ = _rows_with(given, variable)
        for row, value in zip(rows.tolist(), _values(given, rows, point).tolist(), strict=True):
            found.append(TermPull(f"{_text(grounding, given, row)} {sign} 0", value, float("nan")))
    return tuple(sorted(found, key=lambda constraint: -constraint.value if constraint.text.endswith("<= 0") else 0.0))


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
