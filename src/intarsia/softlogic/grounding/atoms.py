"""Atoms of a ground model: the atom of each variable, and the values of observed atoms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, frozen
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.grounding.tables import AtomRows, ConstantTable, row_keys
from intarsia.softlogic.hinge.linear_rows import Index32
from intarsia.softlogic.language.syntax import Atom, Constant
from intarsia.softlogic.program import LATENT, OBSERVED, TARGET, TRUTH, Predicate, Program


@dataclass(frozen=True, eq=False, repr=False)
class AtomTable:
    """Atoms of the variables of a ground model.

    Attributes
    ----------
    predicates : tuple of Predicate
        All predicates of the program.
    start : tuple of int
        Predicate p has the variables from `start[p]` to `start[p + 1]`.
    arguments : tuple of int arrays (n_variables of p, n_arguments of p)
        Numbers of the constants that are the arguments of each variable.
    is_latent : bool array (n_variables,)
        Whether a variable is a latent atom (otherwise it is a target).
    truth : float array (n_variables,)
        True values; NaN where unknown.
    constants : ConstantTable
        Names of the constants by their numbers.
    observed : tuple of AtomRows
        Observed atoms of each predicate.
    truth_rows : tuple of AtomRows
        Atoms of each predicate that have a true value, without duplicates; some may not be variables.

    Examples
    --------
    >>> program = Program().predicate("Nice", 1).target("Nice", ["ann", "bob"]).truth("Nice", [("bob", 0.5)])
    >>> table, _ = number_atoms(program)
    >>> table.name(1), table.find("Nice", "bob"), table.truth.tolist()
    ("Nice('bob')", 1, [nan, 0.5])
    """

    predicates: tuple[Predicate, ...]
    start: tuple[int, ...]
    arguments: tuple[Index32, ...]
    is_latent: NDArray[np.bool_]
    truth: FloatArray
    constants: ConstantTable
    observed: tuple[AtomRows, ...]
    truth_rows: tuple[AtomRows, ...]

    def __len__(self) -> int:
        return self.start[-1]

    def atom(self, variable: int) -> Atom:
        """Return the atom of a variable."""
        if not 0 <= variable < len(self):
            raise InvalidInputError(
                f"AtomTable: variable must be at least 0 and less than {len(self)}, got {variable}."
            )
        p = int(np.searchsorted(self.start, variable, side="right")) - 1
        numbers = self.arguments[p][variable - self.start[p]]
        return Atom(self.predicates[p].name, tuple(Constant(self.constants.names[n]) for n in numbers))

    def name(self, variable: int) -> str:
        """Return the atom of a variable as a string."""
        return str(self.atom(variable))

    def find(self, predicate: str, *arguments: Any) -> int:
        """Return the number of the variable of an atom.

        Raises
        ------
        InvalidInputError
            The atom is neither a target nor latent.
        """
        p = self.predicate_index(predicate)
        numbers = np.array([[self.constants.find(str(name)) for name in arguments]], dtype=np.int32)
        matches = np.empty(0, dtype=np.int64)
        if numbers.size == self.predicates[p].n_arguments and (numbers >= 0).all():
            matches = np.flatnonzero((self.arguments[p] == numbers).all(axis=1))
        if not matches.size:
            atom = Atom(self.predicates[p].name, tuple(Constant(str(name)) for name in arguments))
            n = len(self.arguments[p])
            raise InvalidInputError(
                f"{atom} is neither a target nor latent and has no inferred value. {self.predicates[p].name} has {n} "
                f"such atoms{f', for instance {self.name(self.start[p])}' if n else ''}. Check predicate and arguments."
            )
        return self.start[p] + int(matches[0])

    def predicate_index(self, predicate: str) -> int:
        """Return the position of a predicate in `predicates`, ignoring case."""
        names = [entry.name.upper() for entry in self.predicates]
        if str(predicate).upper() not in names:
            raise InvalidInputError(
                f"predicate={predicate!r} is not known. Known: {', '.join(entry.name for entry in self.predicates)}."
            )
        return names.index(str(predicate).upper())

    def columns(self, predicate: str) -> list[list[str]]:
        """Return the arguments of the variables of a predicate, as a list of names for each argument."""
        names = self.constants.names
        return [[names[n] for n in column] for column in self.arguments[self.predicate_index(predicate)].T.tolist()]

    def variables(self, predicate: str) -> slice:
        """Return the range of the variables of a predicate."""
        p = self.predicate_index(predicate)
        return slice(self.start[p], self.start[p + 1])

    def truth_of(self, p: int, arguments: Index32) -> FloatArray:
        """Return the true values of atoms of predicate p; NaN where unknown."""
        return _look_up(self.truth_rows[p], arguments, len(self.constants))

    def unused_truth(self) -> list[str]:
        """Return a note for each predicate with true values of atoms that are no targets."""
        notes = []
        for p, predicate in enumerate(self.predicates):
            rows, targets = self.truth_rows[p], self.arguments[p][~self.is_latent[self.start[p] : self.start[p + 1]]]
            target_rows = AtomRows(targets, np.zeros(len(targets)))
            unused = np.flatnonzero(np.isnan(_look_up(target_rows, rows.arguments, len(self.constants))))
            if unused.size:
                first = Atom(
                    predicate.name, tuple(Constant(self.constants.names[n]) for n in rows.arguments[unused[0]])
                )
                notes.append(
                    f"{unused.size} of the {len(rows)} true values of {predicate.name} belong to atoms that are no "
                    f"targets, such as {first}, and are not used to learn. Add these atoms with Program.target, or "
                    f"remove them."
                )
        return notes

    def __repr__(self) -> str:
        return f"AtomTable({len(self)} variables, {int(self.is_latent.sum())} of them latent)"


def number_atoms(program: Program) -> tuple[AtomTable, list[AtomRows]]:
    """Number the variables of a program, and collect the observed atoms of each predicate.

    Raises
    ------
    InvalidInputError
        An atom occurs twice with different values, or in two roles, such as observed and target.
    """
    start, arguments, latent, truth, truth_rows, observed = [0], [], [], [], [], []
    for predicate in program.predicates:
        tables = [(role, rows) for role in (OBSERVED, TARGET, LATENT) for rows in program.data(predicate.name, role)]
        observed_rows, free, is_latent = _split_by_role(program, predicate, tables)
        observed.append(observed_rows)
        arguments.append(frozen(free))
        latent.append(is_latent)
        truth_rows.append(_unique_truth(program, predicate))
        truth.append(_look_up(truth_rows[-1], free, len(program.constants)))
        start.append(start[-1] + len(free))
    table = AtomTable(
        tuple(program.predicates),
        tuple(start),
        tuple(arguments),
        frozen(np.concatenate([np.empty(0, dtype=bool), *latent])),
        frozen(np.concatenate([np.empty(0), *truth])),
        program.constants,
        tuple(observed),
        tuple(truth_rows),
    )
    return table, observed


def _split_by_role(
    program: Program, predicate: Predicate, tables: list[tuple[str, AtomRows]]
) -> tuple[AtomRows, Index32, NDArray[np.bool_]]:
    """Return observed atoms, the arguments of the others and which are latent, in input order without duplicates."""
    empty = np.empty((0, predicate.n_arguments), dtype=np.int32)
    arguments = np.concatenate([empty, *(rows.arguments for _, rows in tables)])
    role_number = {OBSERVED: 0, TARGET: 1, LATENT: 2}
    role = np.concatenate(
        [np.empty(0, np.int8), *(np.full(len(rows), role_number[kind], np.int8) for kind, rows in tables)]
    )
    value = np.concatenate([np.empty(0), *(rows.values for _, rows in tables)])
    value[role != 0] = 0.0
    keys = row_keys(arguments, len(program.constants))
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    if len(first) < len(keys):
        first_row = first[inverse]
        clash = (role[first_row] != role) | (value[first_row] != value)
        if clash.any():
            row = int(np.argmax(clash))
            atom = Atom(predicate.name, tuple(Constant(program.constants.names[n]) for n in arguments[row]))
            first_role, second_role = ((OBSERVED, TARGET, LATENT)[role[k]] for k in (first_row[row], row))
            values = f"with values {value[first_row[row]]:g} and {value[row]:g}"
            difference = f"as {first_role} and as {second_role}" if first_role != second_role else values
            raise InvalidInputError(f"{atom} occurs twice in the data, {difference}. Remove one of the two rows.")
        keep = np.sort(first)
        arguments, role, value = arguments[keep], role[keep], value[keep]
    is_observed = role == 0
    return AtomRows(arguments[is_observed], value[is_observed]), arguments[~is_observed], role[~is_observed] == 2


def _unique_truth(program: Program, predicate: Predicate) -> AtomRows:
    """Return the atoms that have a true value, without duplicates; the last value counts."""
    tables = program.data(predicate.name, TRUTH)
    arguments = np.concatenate([np.empty((0, predicate.n_arguments), np.int32), *(rows.arguments for rows in tables)])
    values = np.concatenate([np.empty(0), *(rows.values for rows in tables)])
    _, last = np.unique(row_keys(arguments, len(program.constants))[::-1], return_index=True)
    keep = np.sort(len(values) - 1 - last)
    return AtomRows(arguments[keep], values[keep])


def _look_up(rows: AtomRows, arguments: Index32, n_constants: int) -> FloatArray:
    """Return the values of atoms in a table without duplicates; NaN where the table lacks the atom."""
    values = np.full(len(arguments), np.nan)
    if len(rows) and len(arguments):
        keys = row_keys(np.concatenate([arguments, rows.arguments]), n_constants)
        query_keys, table_keys = keys[: len(arguments)], keys[len(arguments) :]
        order = np.argsort(table_keys)
        position = order[np.minimum(np.searchsorted(table_keys, query_keys, sorter=order), len(table_keys) - 1)]
        hit = table_keys[position] == query_keys
        values[hit] = rows.values[position[hit]]
    return values
