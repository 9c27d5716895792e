"""From a program to a hinge-loss Markov random field: every rule applied to all data that it fits."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import check_choice
from intarsia.softlogic.grounding.atoms import AtomTable
from intarsia.softlogic.grounding.joins import RuleJoin, has_sums
from intarsia.softlogic.grounding.query import GroundingDatabase
from intarsia.softlogic.grounding.rows import (
    GroundRows,
    RowCollector,
    distinct,
    is_violable,
    negative,
    select,
    taken_as_satisfied,
)
from intarsia.softlogic.grounding.sums import RuleSums
from intarsia.softlogic.hinge.linear_rows import LinearRows
from intarsia.softlogic.hinge.mrf import HingeLossMRF
from intarsia.softlogic.language.syntax import ArithmeticRule, Rule
from intarsia.softlogic.program import Program

MISSING = ("error", "zero")


@dataclass(frozen=True)
class RuleReport:
    """What became of one rule.

    Attributes
    ----------
    rule : str
        Its text.
    is_hard : bool
        Whether it is a constraint.
    n_groundings : int
        Ways to fill in its variables.
    n_terms, n_constraints : int
        Hinges and hard constraints made of them. A weighted equality gives two hinges; equal constraints are kept
        once.
    n_known : int
        Groundings without a variable; they are left out.
    n_broken : int
        Those of them that observations alone break.
    n_satisfied : int
        Groundings that hold whatever the variables are; they are left out.
    n_missing : int
        Groundings with an atom that is neither observed nor target, taken as false (`missing="zero"`).
    missing : tuple of str
        Some of these atoms.
    n_skipped : int
        Hinges and constraints that PSL leaves out though they can be broken, such as `3 * P(X) <= 1`; with
        `dialect="psl"` only.
    seconds : float
        Time taken.

    Examples
    --------
    Bob's being known is observed, so that one of the two groundings has no variable; the observation breaks the rule.

    >>> program = (
    ...     Program()
    ...     .predicate("Friend", 1)
    ...     .predicate("Known", 1)
    ...     .rule("Friend(A) -> Known(A) .")
    ...     .observe("Friend", ["ann", "bob"])
    ...     .observe("Known", [("bob", 0.0)])
    ...     .target("Known", ["ann"])
    ... )
    >>> report = ground(program).reports[0]
    >>> report.n_groundings, report.n_constraints, report.n_known, report.n_broken
    (2, 1, 1, 1)
    >>> report.notes()
    ["rule 'Friend(A) -> Known(A) .' is hard but broken by observations alone in 1 groundings."]
    """

    rule: str
    is_hard: bool
    n_groundings: int
    n_terms: int
    n_constraints: int
    n_known: int
    n_broken: int
    n_satisfied: int
    n_missing: int
    missing: tuple[str, ...]
    n_skipped: int
    seconds: float

    def notes(self) -> list[str]:
        """Sentences on what may not have been meant."""
        found = []
        rule = f"rule {self.rule!r:.120}"
        if not self.n_groundings:
            found.append(f"{rule} grounds to nothing: no data fit it.")
        elif not self.n_terms + self.n_constraints:
            found.append(f"{rule} asks nothing of the targets: all its {self.n_groundings} groundings are settled.")
        if self.is_hard and self.n_broken:
            found.append(f"{rule} is hard but broken by observations alone in {self.n_broken} groundings.")
        if self.n_missing:
            found.append(
                f"{rule}: {self.n_missing} groundings have atoms that are neither observed nor targets and count as "
                f"false, such as {', '.join(self.missing)}."
            )
        if self.n_skipped:
            found.append(
                f"{rule}: {self.n_skipped} groundings with a single atom are left out, as in PSL, which takes them as "
                f"satisfied whatever the coefficient is. Use dialect='plain' to keep them."
            )
        return found


@dataclass(frozen=True, eq=False, repr=False)
class Grounding:
    """A ground program.

    Attributes
    ----------
    mrf : HingeLossMRF
        The model; its groups are the program's rules.
    atoms : AtomTable
        Which atom each variable is.
    reports : tuple of RuleReport
        One for each rule.
    seconds : float
        Time taken.

    Examples
    --------
    >>> program = Program().predicate("P", 1).rule("2: P(X) = 1").rule("1: !P(X) ^2").target("P", ["a", "b"])
    >>> found = ground(program)
    >>> found.mrf.n_terms, found.mrf.weight.tolist(), found.atoms.name(1)
    (4, [2.0, 2.0, 1.0, 1.0], "P('b')")
    >>> [report.n_terms for report in found.reports], found.notes()
    ([2, 2], [])
    """

    mrf: HingeLossMRF
    atoms: AtomTable
    reports: tuple[RuleReport, ...]
    seconds: float

    def notes(self) -> list[str]:
        """Sentences on what may not have been meant, over all rules."""
        return [note for report in self.reports for note in report.notes()]

    def __repr__(self) -> str:
        return f"Grounding({self.mrf!r}, {self.seconds:.2f} s)"


def ground(program: Program, missing: str = "error") -> Grounding:
    """Apply the rules of a program to its data: a hinge-loss Markov random field over its targets and latent atoms.

    A logical rule is a clause; each way to fill in its variables gives a hinge, 1 minus the sum of its literals' truth
    (Łukasiewicz' logic). The literals that are negated in the clause are joined on the variables they share (positive
    ones of the body, negated ones of the head); the others are looked up. An arithmetic rule joins all its atoms. Joins
    are done by DuckDB and fetched piece by piece, so that the ground model and not the join is what fills memory.
    Groundings without a variable, and those that hold whatever the variables are, are counted and left out.

    Parameters
    ----------
    program : Program
        Predicates, rules and data.
    missing : {"error", "zero"}
        What to do about an atom of an open predicate that a rule needs and that is neither observed nor target:
        refuse, as PSL does, or take it as false.

    Raises
    ------
    InvalidInputError
        An atom is missing, is given twice, or a grounding divides by zero.

    References
    ----------
    Bach2015, section 2.

    Examples
    --------
    Two people like chess, one of them with truth 0.8. The rule's hinge is 1 + 0.8 - 1 - Knows: it pulls towards 0.8.

    >>> program = (
    ...     Program()
    ...     .predicate("Likes", 2)
    ...     .predicate("Knows", 2)
    ...     .rule("1: Likes(A, X) & Likes(B, X) & (A != B) -> Knows(A, B) ^2")
    ...     .observe("Likes", [("ann", "chess"), ("bob", "chess", 0.8)])
    ...     .target("Knows", [("ann", "bob"), ("bob", "ann")])
    ... )
    >>> found = ground(program)
    >>> found.mrf.terms.coef.tolist(), found.mrf.terms.const.tolist()
    ([-1.0, -1.0], [0.8, 0.8])
    >>> found.atoms.name(0), found.reports[0].n_groundings
    ("Knows('ann', 'bob')", 2)
    """
    check_choice(missing, MISSING, "missing")
    began = time.perf_counter()
    rules = program.rules
    terms, equalities, inequalities = RowCollector(), RowCollector(), RowCollector()
    reports = []
    with GroundingDatabase(program) as database:
        for number, rule in enumerate(rules):
            start = time.perf_counter()
            source = (
                RuleSums(database, rule)
                if isinstance(rule, ArithmeticRule) and has_sums(rule)
                else RuleJoin(database, rule, missing)
            )
            n_kept = n_terms = n_constraints = n_skipped = 0
            hard: list[LinearRows] = []
            is_equality = isinstance(rule, ArithmeticRule) and rule.relation == "=" and rule.weight is None
            for ground_rows in source.rows():
                sides = _sides(ground_rows, rule, program.dialect)
                n_kept += int(np.logical_or.reduce([side.violable | side.skipped for side in sides]).sum())
                if is_equality:
                    hard.append(ground_rows.rows)
                    continue
                n_skipped += sum(int(side.skipped.sum()) for side in sides)
                for side in sides:
                    kept = select(side.rows, side.violable)
                    if rule.weight is None:
                        hard.append(kept)
                    else:
                        n_terms += terms.add(kept, number)
            for rows in _joined(hard):
                if is_equality:
                    kept = distinct(select(rows, np.diff(rows.ptr) > 0), both_signs=True)
                    n_constraints += equalities.add(kept, number)
                else:
                    n_constraints += inequalities.add(distinct(rows, both_signs=False), number)
            counts = source.counts
            reports.append(
                RuleReport(
                    rule.text,
                    rule.weight is None,
                    counts.n_groundings,
                    n_terms,
                    n_constraints,
                    counts.n_known,
                    counts.n_broken,
                    counts.n_groundings - counts.n_known - n_kept,
                    counts.n_missing,
                    tuple(counts.missing),
                    n_skipped,
                    time.perf_counter() - start,
                )
            )
        mrf = _assembled(rules, database.n_variables, terms, equalities, inequalities)
        return Grounding(mrf, database.atoms, tuple(reports), time.perf_counter() - began)


class _Side(NamedTuple):
    """Rows that must not exceed 0: which of them can, and which of these PSL leaves out."""

    rows: LinearRows
    violable: NDArray[np.bool_]
    skipped: NDArray[np.bool_]


def _sides(ground_rows: GroundRows, rule: Rule, dialect: str) -> list[_Side]:
    rows, single = ground_rows
    relation = rule.relation if isinstance(rule, ArithmeticRule) else "<="
    signed = [rows] if relation == "<=" else [negative(rows)] if relation == ">=" else [rows, negative(rows)]
    sides = []
    for side in signed:
        violable = is_violable(side)
        skipped = taken_as_satisfied(side, single) if dialect == "psl" else np.zeros(side.n_rows, dtype=bool)
        sides.append(_Side(side, violable & ~skipped, skipped))
    return sides


def _joined(parts: list[LinearRows]) -> list[LinearRows]:
    """Rows of all pieces together, so that equal ones meet."""
    collector = RowCollector()
    for rows in parts:
        collector.add(rows, 0)
    return [collector.together()[0]] if collector.rows else []


def _assembled(
    rules: list[Rule], n_variables: int, terms: RowCollector, equalities: RowCollector, inequalities: RowCollector
) -> HingeLossMRF:
    weights = np.array([0.0 if rule.weight is None else rule.weight for rule in rules])
    powers = np.array([2 if rule.squared else 1 for rule in rules], dtype=np.int8)
    rows, group = terms.together()
    weight, power = weights[group], powers[group]
    for array in (weight, power, group):
        # Nobody else holds them, so the model need not copy them.
        array.flags.writeable = False
    equal, equal_group = equalities.together()
    below, below_group = inequalities.together()
    return HingeLossMRF(
        n_variables,
        rows,
        weight,
        power,
        group,
        equal if equal.n_rows else None,
        below if below.n_rows else None,
        equal_group if equal.n_rows else None,
        below_group if below.n_rows else None,
        tuple(rule.text for rule in rules),
    )
