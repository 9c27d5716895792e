"""The atoms of a ground model: which one each variable is, and the values of those that are known."""

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
    """Which atom each variable of a ground model is.

    Attributes
    ----------
    predicates : tuple of Predicate
        All predicates of the program.
    start : tuple of int
        Variables of predicate p are those from `start[p]` to `start[p + 1]`.
    arguments : tuple of int arrays (n_variables of p, n_arguments of p)
        Numbers of their constants.
    is_latent : bool array (n_variables,)
        Whether a variable is latent, not a target.
    truth : float array (n_variables,)
        The true values, NaN where none was given.
    constants : ConstantTable
        Names of the numbers.
    observed : tuple of AtomRows
        Atoms of each predicate that are observed.
    truth_rows : tuple of AtomRows
        Atoms of each predicate whose true value was given, each once; some may be no variables.

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
        """The atom of a variable."""
        if not 0 <= variable < len(self):
            raise InvalidInputError(f"AtomTable: there is no variable {variable}, only {len(self)}, numbered from 0.")
        p = int(np.searchsorted(self.start, variable, side="right")) - 1
        numbers = self.arguments[p][variable - self.start[p]]
        return Atom(self.predicates[p].name, tuple(Constant(self.constants.names[n]) for n in numbers))

    def name(self, variable: int) -> str:
        """The atom of a variable as a text."""
        return str(self.atom(variable))

    def find(self, predicate: str, *arguments: Any) -> int:
        """The variable of an atom.

        Raises
        ------
        InvalidInputError
            The atom is neither target nor latent.
        """
        p = self.predicate_index(predicate)
        numbers = np.array([[self.constants.find(str(name)) for name in arguments]], dtype=np.int32)
        found = np.empty(0, dtype=np.int64)
        if numbers.size == self.predicates[p].n_arguments and (numbers >= 0).all():
            found = np.flatnonzero((self.arguments[p] == numbers).all(axis=1))
        if not found.size:
            atom = Atom(self.predicates[p].name, tuple(Constant(str(name)) for name in arguments))
            n = len(self.arguments[p])
            raise InvalidInputError(
                f"{atom} is neither a target nor latent. There are {n} such atoms of {self.predicates[p].name}"
                f"{f', for instance {self.name(self.start[p])}' if n else ''}."
            )
        return self.start[p] + int(found[0])

    def predicate_index(self, predicate: str) -> int:
        """The place of a predicate in `predicates`."""
        names = [known.name.upper() for known in self.predicates]
        if str(predicate).upper() not in names:
            raise InvalidInputError(
                f"predicate={predicate!r} is not known. Known: {', '.join(known.name for known in self.predicates)}."
            )
        return names.index(str(predicate).upper())

    def columns(self, predicate: str) -> list[list[str]]:
        """Names of the arguments of a predicate's variables, a list for each argument."""
        names = self.constants.names
        return [[names[n] for n in column] for column in self.arguments[self.predicate_index(predicate)].T.tolist()]

    def variables(self, predicate: str) -> slice:
        """Where the variables of a predicate stand."""
        p = self.predicate_index(predicate)
        return slice(self.start[p], self.start[p + 1])

    def truth_of(self, p: int, arguments: Index32) -> FloatArray:
        """True values of atoms of predicate p, NaN where none was given."""
        return _matched(self.truth_rows[p], arguments, len(self.constants))

    def __repr__(self) -> str:
        return f"AtomTable({len(self)} variables, {int(self.is_latent.sum())} of them latent)"


def number_atoms(program: Program) -> tuple[AtomTable, list[AtomRows]]:
    """Number the variables of a program, and gather the observed atoms of each predicate.

    Raises
    ------
    InvalidInputError
        An atom is given twice with different truth values, or as observed and as target.
    """
    start, arguments, latent, truth, truth_rows, observed = [0], [], [], [], [], []
    for predicate in program.predicates:
        tables = [(role, rows) for role in (OBSERVED, TARGET, LATENT) for rows in program.data(predicate.name, role)]
        known, free, is_latent = _separated(program, predicate, tables)
        observed.append(known)
        arguments.append(frozen(free))
        latent.append(is_latent)
        truth_rows.append(_each_once(program, predicate))
        truth.append(_matched(truth_rows[-1], free, len(program.constants)))
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


def _separated(
    program: Program, predicate: Predicate, tables: list[tuple[str, AtomRows]]
) -> tuple[AtomRows, Index32, NDArray[np.bool_]]:
    """Observed atoms, arguments of the others and which are latent; each once, in the order given."""
    empty = np.empty((0, predicate.n_arguments), dtype=np.int32)
    everything = np.concatenate([empty, *(rows.arguments for _, rows in tables)])
    number = {OBSERVED: 0, TARGET: 1, LATENT: 2}
    role = np.concatenate([np.empty(0, np.int8), *(np.full(len(rows), number[kind], np.int8) for kind, rows in tables)])
    value = np.concatenate([np.empty(0), *(rows.values for _, rows in tables)])
    value[role != 0] = 0.0
    keys = row_keys(everything, len(program.constants))
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    if len(first) < len(keys):
        other = first[inverse]
        clash = (role[other] != role) | (value[other] != value)
        if clash.any():
            row = int(np.argmax(clash))
            atom = Atom(predicate.name, tuple(Constant(program.constants.names[n]) for n in everything[row]))
            before, now = ((OBSERVED, TARGET, LATENT)[role[k]] for k in (other[row], row))
            values = f"with truth {value[other[row]]:g} and {value[row]:g}"
            how = f"as {before} and as {now}" if before != now else values
            raise InvalidInputError(f"{atom} is given twice, {how}. Say it once.")
        keep = np.sort(first)
        everything, role, value = everything[keep], role[keep], value[keep]
    known = role == 0
    return AtomRows(everything[known], value[known]), everything[~known], role[~known] == 2


def _each_once(program: Program, predicate: Predicate) -> AtomRows:
    """Atoms whose true value was given; the last value counts."""
    tables = program.data(predicate.name, TRUTH)
    arguments = np.concatenate([np.empty((0, predicate.n_arguments), np.int32), *(rows.arguments for rows in tables)])
    values = np.concatenate([np.empty(0), *(rows.values for rows in tables)])
    _, last = np.unique(row_keys(arguments, len(program.constants))[::-1], return_index=True)
    keep = np.sort(len(values) - 1 - last)
    return AtomRows(arguments[keep], values[keep])


def _matched(rows: AtomRows, arguments: Index32, n_constants: int) -> FloatArray:
    """Values of atoms in a table of distinct ones, NaN where it has none."""
    values = np.full(len(arguments), np.nan)
    if len(rows) and len(arguments):
        keys = row_keys(np.concatenate([arguments, rows.arguments]), n_constants)
        wanted, listed = keys[: len(arguments)], keys[len(arguments) :]
        order = np.argsort(listed)
        at = order[np.minimum(np.searchsorted(listed, wanted, sorter=order), len(listed) - 1)]
        hit = listed[at] == wanted
        values[hit] = rows.values[at[hit]]
    return values
