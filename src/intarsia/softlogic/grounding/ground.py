"""Grounding: apply the rules of a program to its data, which gives a hinge-loss Markov random field."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import check_choice, check_number
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
    """Report on the grounding of a rule.

    Attributes
    ----------
    rule : str
        Text of the rule.
    is_hard : bool
        Whether the rule is a hard constraint.
    n_groundings : int
        Number of groundings: substitutions of constants for the variables of the rule.
    n_terms, n_constraints : int
        Number of hinges and hard constraints that result. A weighted equality gives two hinges; duplicate constraints
        are removed.
    n_constant : int
        Number of groundings without target or latent atoms; they are omitted.
    n_violated : int
        Number of these groundings that the observations violate.
    n_satisfied : int
        Number of groundings that are satisfied for all values of the variables; they are omitted.
    n_missing : int
        Number of groundings with an atom that is neither observed nor target and counts as false (`missing="zero"`).
    missing : tuple of str
        Examples of these atoms.
    n_skipped : int
        Number of hinges and constraints that PSL omits although they can be violated, such as `3 * P(X) <= 1`; only
        with `dialect="psl"`.
    seconds : float
        Wall time.

    Examples
    --------
    Known(bob) is observed to be false, so one of the two groundings has no variable, and it violates the rule.

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
    >>> report.n_groundings, report.n_constraints, report.n_constant, report.n_violated
    (2, 1, 1, 1)
    >>> report.notes()
    ["rule 'Friend(A) -> Known(A) .' is hard, but the observations alone violate 1 of its groundings."]
    """

    rule: str
    is_hard: bool
    n_groundings: int
    n_terms: int
    n_constraints: int
    n_constant: int
    n_violated: int
    n_satisfied: int
    n_missing: int
    missing: tuple[str, ...]
    n_skipped: int
    seconds: float

    def notes(self) -> list[str]:
        """Return warnings about a rule that may not do what its author intended."""
        notes = []
        rule = f"rule {self.rule!r:.120}"
        if not self.n_groundings:
            notes.append(f"{rule} has no groundings: no data match it.")
        elif not self.n_terms + self.n_constraints:
            notes.append(
                f"{rule} has no effect on the targets: all {self.n_groundings} groundings are fixed or satisfied."
            )
        if self.is_hard and self.n_violated:
            notes.append(f"{rule} is hard, but the observations alone violate {self.n_violated} of its groundings.")
        if self.n_missing:
            notes.append(
                f"{rule}: {self.n_missing} groundings contain atoms that are neither observed nor targets and count as "
                f"false, such as {', '.join(self.missing)}."
            )
        if self.n_skipped:
            notes.append(
                f"{rule}: {self.n_skipped} groundings with a single atom are omitted, as in PSL, which treats them as "
                f"satisfied for every coefficient. Use dialect='plain' to keep them."
            )
        return notes


@dataclass(frozen=True, eq=False, repr=False)
class Grounding:
    """Result of grounding a program: a hinge-loss Markov random field and its atoms.

    Attributes
    ----------
    mrf : HingeLossMRF
        The model; its groups are the rules of the program.
    atoms : AtomTable
        Atom of each variable.
    reports : tuple of RuleReport
        A report for each rule.
    seconds : float
        Wall time.

    Examples
    --------
    >>> program = Program().predicate("P", 1).rule("2: P(X) = 1").rule("1: !P(X) ^2").target("P", ["a", "b"])
    >>> grounding = ground(program)
    >>> grounding.mrf.n_terms, grounding.mrf.weight.tolist(), grounding.atoms.name(1)
    (4, [2.0, 2.0, 1.0, 1.0], "P('b')")
    >>> [report.n_terms for report in grounding.reports], grounding.notes()
    ([2, 2], [])
    """

    mrf: HingeLossMRF
    atoms: AtomTable
    reports: tuple[RuleReport, ...]
    seconds: float

    def notes(self) -> list[str]:
        """Return warnings about rules that may not do what their author intended."""
        return [note for report in self.reports for note in report.notes()]

    def __repr__(self) -> str:
        return f"Grounding({self.mrf!r}, {self.seconds:.2f} s)"


def ground(program: Program, missing: str = "error", max_groundings: float = 1e9) -> Grounding:
    """Ground a program: turn rules and data into a hinge-loss Markov random field over targets and latent atoms.

    A logical rule is a clause. Each substitution of constants for its variables gives a hinge: 1 minus the sum of the
    values of its literals (Łukasiewicz logic). Literals that are negated in the clause (positive literals of the body,
    negated literals of the head) are joined on their common variables; the other literals are looked up. An arithmetic
    rule joins all its atoms. DuckDB computes the joins, which are fetched in batches, so memory is needed for the
    ground model but not for the whole join. Groundings without variables, and groundings that are satisfied for
    all values of the variables, are counted and omitted.

    Parameters
    ----------
    program : Program
        Predicates, rules and data.
    missing : {"error", "zero"}
        How to treat atoms of open predicates that a rule needs and that are neither observed nor targets: raise an
        error, as PSL does, or treat them as false.
    max_groundings : float
        Largest number of groundings of a rule, estimated from the sizes of its tables before it is grounded.

    Returns
    -------
    Grounding
        The model, the atoms of its variables, and a report for each rule.

    Raises
    ------
    InvalidInputError
        An atom is missing or occurs twice in the data, or a grounding divides by zero.
    TooLargeError
        A rule would have more groundings than `max_groundings`.

    References
    ----------
    Bach2015, section 2.

    Examples
    --------
    Two people like chess, one of them with value 0.8. The hinge is max(0, 1 + 0.8 - 1 - Knows), which pulls Knows up to
    0.8.

    >>> program = (
    ...     Program()
    ...     .predicate("Likes", 2)
    ...     .predicate("Knows", 2)
    ...     .rule("1: Likes(A, X) & Likes(B, X) & (A != B) -> Knows(A, B) ^2")
    ...     .observe("Likes", [("ann", "chess"), ("bob", "chess", 0.8)])
    ...     .target("Knows", [("ann", "bob"), ("bob", "ann")])
    ... )
    >>> grounding = ground(program)
    >>> grounding.mrf.terms.coef.tolist(), grounding.mrf.terms.const.tolist()
    ([-1.0, -1.0], [0.8, 0.8])
    >>> grounding.atoms.name(0), grounding.reports[0].n_groundings
    ("Knows('ann', 'bob')", 2)
    """
    check_choice(missing, MISSING, "missing")
    check_number(max_groundings, "max_groundings", low=0.0)
    start = time.perf_counter()
    rules = program.rules
    terms, equalities, inequalities = RowCollector(), RowCollector(), RowCollector()
    reports = []
    with GroundingDatabase(program) as database:
        for number, rule in enumerate(rules):
            rule_start = time.perf_counter()
            source = (
                RuleSums(database, rule, max_groundings)
                if isinstance(rule, ArithmeticRule) and has_sums(rule)
                else RuleJoin(database, rule, missing, max_groundings)
            )
            n_violable = n_terms = n_constraints = n_skipped = 0
            hard: list[LinearRows] = []
            is_equality = isinstance(rule, ArithmeticRule) and rule.relation == "=" and rule.weight is None
            for ground_rows in source.rows():
                sides = _sides(ground_rows, rule, program.dialect)
                n_violable += int(np.logical_or.reduce([side.violable | side.skipped for side in sides]).sum())
                if is_equality:
                    hard.append(ground_rows.rows)
                    continue
                n_skipped += sum(int(side.skipped.sum()) for side in sides)
                for side in sides:
                    violable_rows = select(side.rows, side.violable)
                    if rule.weight is None:
                        hard.append(violable_rows)
                    else:
                        n_terms += terms.add(violable_rows, number)
            for rows in _concatenated(hard):
                if is_equality:
                    violable_rows = distinct(select(rows, np.diff(rows.ptr) > 0), both_signs=True)
                    n_constraints += equalities.add(violable_rows, number)
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
                    counts.n_constant,
                    counts.n_violated,
                    counts.n_groundings - counts.n_constant - n_violable,
                    counts.n_missing,
                    tuple(counts.missing),
                    n_skipped,
                    time.perf_counter() - rule_start,
                )
            )
        mrf = _build_model(rules, database.n_variables, terms, equalities, inequalities)
        return Grounding(mrf, database.atoms, tuple(reports), time.perf_counter() - start)


class _Side(NamedTuple):
    """Rows that must not exceed 0, which of them can, and which of these PSL omits."""

    rows: LinearRows
    violable: NDArray[np.bool_]
    skipped: NDArray[np.bool_]


def _sides(ground_rows: GroundRows, rule: Rule, dialect: str) -> list[_Side]:
    """Return the rows of a rule as inequalities `row <= 0`; an equality gives two."""
    rows, single = ground_rows
    relation = rule.relation if isinstance(rule, ArithmeticRule) else "<="
    signed = [rows] if relation == "<=" else [negative(rows)] if relation == ">=" else [rows, negative(rows)]
    sides = []
    for side in signed:
        violable = is_violable(side)
        skipped = taken_as_satisfied(side, single) if dialect == "psl" else np.zeros(side.n_rows, dtype=bool)
        sides.append(_Side(side, violable & ~skipped, skipped))
    return sides


def _concatenated(batches: list[LinearRows]) -> list[LinearRows]:
    """Return the rows of all batches as at most one object, so that duplicates can be removed."""
    collector = RowCollector()
    for rows in batches:
        collector.add(rows, 0)
    return [collector.together()[0]] if collector.rows else []


def _build_model(
    rules: list[Rule], n_variables: int, terms: RowCollector, equalities: RowCollector, inequalities: RowCollector
) -> HingeLossMRF:
    """Assemble the hinge-loss Markov random field from the rows of all rules."""
    weights = np.array([0.0 if rule.weight is None else rule.weight for rule in rules])
    powers = np.array([2 if rule.squared else 1 for rule in rules], dtype=np.int8)
    rows, group = terms.together()
    weight, power = weights[group], powers[group]
    for array in (weight, power, group):
        # No other code has a reference to these arrays, so the model need not copy them.
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
