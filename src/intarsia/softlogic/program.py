"""A program of soft logic: predicates, rules and data, said in Python."""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intarsia._core.error_context import errors_in, warn_caller
from intarsia._core.validation import check_choice, check_number
from intarsia._files.tables import TableKind, is_table_file, table_kind
from intarsia.exceptions import FileFormatError, InvalidInputError
from intarsia.softlogic.grounding.tables import ARGUMENT_TYPES, AtomRows, ConstantTable, read_connected, read_table
from intarsia.softlogic.language.forms import rule_key, split_filters
from intarsia.softlogic.language.rules import read_rule, read_rules
from intarsia.softlogic.language.syntax import DIALECTS, ArithmeticRule, Atom, LogicalRule, Rule

# What data say of an atom.
OBSERVED, TARGET, LATENT, TRUTH = "observed", "target", "latent", "truth"
ROLES = (OBSERVED, TARGET, LATENT, TRUTH)
_NAME = re.compile(r"[^\W\d][\w$]*|\$[\w$]*")


@dataclass(frozen=True)
class Predicate:
    """A relation between things.

    Attributes
    ----------
    name : str
        As it was declared; rules may spell it in other letters (`KNOWS`, `Knows`).
    n_arguments : int
        How many things it relates.
    closed : bool or None
        True: atoms that are not observed are false. False: atoms that are neither observed nor targets are missing.
        None: closed unless there are targets or latent atoms.
    types : tuple of str or None
        PSL's name of the type of each argument, such as "UniqueIntID" or "UniqueStringID". They say how `A % B` orders
        constants; see `Program`.

    Examples
    --------
    >>> Predicate("Knows", 2)
    Predicate(name='Knows', n_arguments=2, closed=None, types=None)
    """

    name: str
    n_arguments: int
    closed: bool | None = None
    types: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Evaluation:
    """An evaluator that a program asks for.

    Examples
    --------
    >>> Evaluation("Knows", "DiscreteEvaluator").options
    {}
    """

    predicate: str
    evaluator: str
    options: Mapping[str, Any]

    def __init__(self, predicate: str, evaluator: str, options: Mapping[str, Any] | None = None) -> None:
        object.__setattr__(self, "predicate", predicate)
        object.__setattr__(self, "evaluator", evaluator)
        object.__setattr__(self, "options", dict(options or {}))


class Program:
    """Predicates, rules and data of a soft-logic model; every method returns the program, so that calls can be chained.

    Declare predicates before the rules and data that use them. Atoms that are observed have fixed truth values;
    targets and latent atoms are what inference finds, and only targets have a truth to learn from. Predicate names
    may be spelled in other letters than declared, as in PSL.

    A rule that is added twice counts once, with the weight it came with first, and a warning says so. Two rules are the
    same if they differ in weight only, or in the order of a clause's literals: `A -> B` and `!B -> !A` are one rule.

    Parameters
    ----------
    dialect : {"plain", "psl"}
        How rules are read. "plain": arithmetic has the usual order of operations, `|X|` counts the atoms of a sum, a
        filter with `|` holds where either side does, and `A % B` orders integers by number. "psl": all of these are
        exactly as in PSL; `docs/guide/rules.md` has a table of the differences.
    connection : DuckDB connection, optional
        Then a text in place of a table names a table or view of it. DuckDB replaces names by numbers, so that texts of
        the rows are never copied to Python: only the names that are different, and the numbers. Copies of the program
        have no connection.

    Raises
    ------
    InvalidInputError
        A rule cannot be read, names an unknown predicate (the nearest is named) or gives it another number of
        arguments; a table does not fit its predicate; a truth value is outside [0, 1]; the dialect is unknown.

    Warns
    -----
    UserWarning
        A rule is already in the program.

    Examples
    --------
    >>> program = (
    ...     Program()
    ...     .predicate("Likes", 2)
    ...     .predicate("Knows", 2)
    ...     .rule("1: Likes(A, X) & Likes(B, X) & (A != B) -> Knows(A, B) ^2")
    ...     .rule("Knows(A, B) = Knows(B, A) .")
    ...     .observe("Likes", [("ann", "chess"), ("bob", "chess", 0.8)])
    ...     .target("Knows", [("ann", "bob"), ("bob", "ann")])
    ... )
    >>> program
    Program(2 predicates, 2 rules, 2 observed atoms, 2 targets)
    """

    def __init__(self, *, dialect: str = "plain", connection: Any = None) -> None:
        self._dialect = check_choice(dialect, DIALECTS, "Program: dialect")
        if connection is not None and not (hasattr(connection, "table") and hasattr(connection, "sql")):
            raise InvalidInputError(
                f"Program: connection is a {type(connection).__name__}, expected one that duckdb.connect() gives."
            )
        self.connection = connection
        self.constants = ConstantTable()
        self.evaluations: list[Evaluation] = []
        self.options: dict[str, Any] = {}
        self.notes: list[str] = []
        self.backend: TableKind | None = None  # answers come back as tables of the kind that questions came in
        self._predicates: dict[str, Predicate] = {}
        self._rules: dict[Hashable, Rule] = {}
        self._data: dict[str, dict[str, list[AtomRows]]] = {}

    # ---------------------------------------------------------------- what there is

    @property
    def dialect(self) -> str:
        """How rules are read: "plain" or "psl"."""
        return self._dialect

    @property
    def predicates(self) -> list[Predicate]:
        """Predicates in the order of their declaration."""
        return list(self._predicates.values())

    @property
    def rules(self) -> list[Rule]:
        """Rules in their order; the groups of the ground model are numbered like them."""
        return list(self._rules.values())

    def find_predicate(self, name: str) -> Predicate:
        """The predicate of a name, in any spelling; an unknown one raises with the nearest."""
        key = str(name).upper()
        if key not in self._predicates:
            try:
                check_choice(str(name), [known.name for known in self.predicates], "predicate")
            except InvalidInputError as error:
                raise InvalidInputError(str(error)) from None
        return self._predicates[key]

    def data(self, predicate: str, role: str) -> list[AtomRows]:
        """Tables of one predicate, one for each time that data were given."""
        return self._data[self.find_predicate(predicate).name.upper()][role]

    def n_atoms(self, role: str) -> int:
        """How many rows were given as "observed", "target", "latent" or "truth"."""
        return sum(len(rows) for tables in self._data.values() for rows in tables[role])

    def is_closed(self, predicate: Predicate) -> bool:
        """Whether atoms of a predicate that are not observed are false."""
        if predicate.closed is not None:
            return predicate.closed
        return not any(len(rows) for role in (TARGET, LATENT) for rows in self.data(predicate.name, role))

    # ---------------------------------------------------------------- building

    def predicate(
        self, name: str, n_arguments: int, closed: bool | None = None, types: Sequence[str] | None = None
    ) -> Program:
        """Declare a predicate.

        Parameters
        ----------
        name : str
            Letters, digits, `_` and `$`, beginning with none of the digits.
        n_arguments : int
            At least 1.
        closed : bool, optional
            See `Predicate`.
        types : sequence of str, optional
            PSL's name of the type of each argument; see `Predicate`.
        """
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidInputError(
                f"predicate {name!r:.60}: a name consists of letters, digits, '_' and '$' and begins with no digit. "
                f"Choose another."
            )
        check_number(n_arguments, f"predicate {name}: n_arguments", low=1, high=100, integer=True)
        key = name.upper()
        new = Predicate(name, int(n_arguments), closed, _check_types(types, name, int(n_arguments)))
        old = self._predicates.get(key)
        if old is not None and old != new:
            raise InvalidInputError(
                f"predicate {name}: it is already declared with {old.n_arguments} arguments as {old.name}, perhaps "
                f"with other types. Names that differ in capital letters only are the same."
            )
        self._predicates[key] = new
        self._data.setdefault(key, {role: [] for role in ROLES})
        return self

    def rule(self, rule: str | Rule, place: str = "rule") -> Program:
        """Add a rule, as a string in PSL's language or as returned by `read_rule`.

        With `dialect="psl"` a filter with `|` adds a rule for each alternative, as in PSL.
        """
        new = rule if isinstance(rule, (LogicalRule, ArithmeticRule)) else read_rule(rule, place, self._dialect)
        self._add_rules([new], place)
        return self

    def rules_from(self, path: str | os.PathLike[str]) -> Program:
        """Add the rules of a file, such as the `.psl` file of a PSL program.

        Rules follow each other and may span lines; `//` and `#` begin comments, and `/* */` enclose them. Their
        predicates must be declared before. Either all rules are added or, if one of them is invalid, none.

        Parameters
        ----------
        path : path
            A UTF-8 text file.

        Raises
        ------
        FileFormatError
            The file is not UTF-8.
        InvalidInputError
            A rule is invalid: the message names file, line and column. Or the file does not exist or has no rules.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "knows.psl").write_text('''
        ...         // Nobody knows anybody, at first.
        ...         1: !Knows(A, B) ^2
        ...         Knows(A, B)
        ...             = Knows(B, A) .
        ...     ''')
        ...     program = Program(dialect="psl").predicate("Knows", 2).rules_from(Path(folder, "knows.psl"))
        >>> program
        Program(1 predicates, 2 rules, 0 observed atoms, 0 targets, dialect='psl')
        """
        file = Path(path)
        if not file.is_file():
            raise InvalidInputError(f"Program.rules_from: there is no file {file}. Check the path.")
        try:
            text = file.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise FileFormatError(
                f"{file.name}: byte {error.start + 1} is not UTF-8. Save the file as UTF-8."
            ) from None
        rules = read_rules(text, file.name, self._dialect)
        if not rules:
            raise InvalidInputError(f"{file.name}: there is no rule in the file. Write rules one after the other.")
        self._add_rules(rules, file.name)
        return self

    def _add_rules(self, rules: Sequence[Rule], name: str) -> None:
        """Check all rules, then add them; of equal ones the first stays."""
        for rule in rules:
            for atom in rule.atoms:
                self._check_atom(atom, f"{name} {rule.text!r:.200}")
        for rule in rules:
            separate: Sequence[Rule] = [rule]
            if self._dialect == "psl" and isinstance(rule, ArithmeticRule):
                with errors_in(f"{name} {rule.text!r:.200}"):
                    separate = split_filters(rule)
            for each in separate:
                first = self._rules.setdefault(rule_key(each), each)
                if first is not each:
                    self._warn_of_repetition(each, first, name)

    def _warn_of_repetition(self, rule: Rule, first: Rule, name: str) -> None:
        weight = "" if first.weight is None else f" with weight {first.weight:g}"
        note = (
            f"{name} {rule.text!r:.120} is already in the program as {first.text!r:.120} and counts once{weight}, "
            f"as in PSL. Leave one of them out."
        )
        self.notes.append(note)
        warn_caller(note, UserWarning)

    def observe(self, predicate: str, table: Any) -> Program:
        """Add atoms whose truth is known; a last column has their truth values, which are 1 without it."""
        return self._add(predicate, OBSERVED, table)

    def target(self, predicate: str, table: Any) -> Program:
        """Add atoms whose truth is asked for; a column of truth values is not looked at."""
        return self._add(predicate, TARGET, table)

    def latent(self, predicate: str, table: Any) -> Program:
        """Add atoms that are neither known nor asked for, but whose truth takes part."""
        return self._add(predicate, LATENT, table)

    def truth(self, predicate: str, table: Any) -> Program:
        """Add the true values of targets, to learn from and to evaluate with."""
        return self._add(predicate, TRUTH, table)

    def add_rows(self, predicate: str, role: str, rows: AtomRows) -> Program:
        """Add atoms that were read before, with numbers from this program's constants."""
        found = self.find_predicate(predicate)
        if found.closed and role in (TARGET, LATENT) and len(rows):
            raise InvalidInputError(
                f"{found.name} is closed, so it has no {role} atoms. Declare it with closed=False, or observe them."
            )
        self._data[found.name.upper()][role].append(rows)
        return self

    def without_data(self) -> Program:
        """A new program with the same predicates, rules, evaluations and options, and no data.

        Examples
        --------
        >>> program = Program().predicate("Knows", 2).rule("1: !Knows(A, B)").target("Knows", [("ann", "bob")])
        >>> program.without_data()
        Program(1 predicates, 1 rules, 0 observed atoms, 0 targets)
        """
        bare = Program(dialect=self._dialect, connection=self.connection)
        bare._predicates, bare._rules = dict(self._predicates), dict(self._rules)
        bare._data = {key: {role: [] for role in ROLES} for key in self._predicates}
        bare.evaluations, bare.options = list(self.evaluations), dict(self.options)
        return bare

    def _add(self, predicate: str, role: str, table: Any) -> Program:
        found = self.find_predicate(predicate)
        method = {OBSERVED: "observe"}.get(role, role)
        place = f"Program.{method}({found.name})"
        if self.connection is not None and isinstance(table, str) and not is_table_file(table):
            table, rows = read_connected(self.connection, table, found.n_arguments, self.constants, place)
        else:
            rows = read_table(table, found.n_arguments, self.constants, place)
        if self.backend is None:
            self.backend = table_kind(table)
        return self.add_rows(predicate, role, rows)

    def _check_atom(self, atom: Atom, place: str) -> None:
        try:
            found = self.find_predicate(atom.predicate)
        except InvalidInputError as error:
            raise InvalidInputError(f"{place}: {error}") from None
        if len(atom.arguments) != found.n_arguments:
            raise InvalidInputError(
                f"{place}: {atom} has {len(atom.arguments)} arguments, but {found.name} was declared with "
                f"{found.n_arguments}."
            )

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "connection": None}  # a connection belongs to its process

    def __repr__(self) -> str:
        n_latent = self.n_atoms(LATENT)
        return (
            f"Program({len(self._predicates)} predicates, {len(self._rules)} rules, {self.n_atoms(OBSERVED)} observed "
            f"atoms, {self.n_atoms(TARGET)} targets{f', {n_latent} latent' if n_latent else ''}"
            f"{'' if self._dialect == 'plain' else f', dialect={self._dialect!r}'})"
        )


def _check_types(types: Sequence[str] | None, name: str, n_arguments: int) -> tuple[str, ...] | None:
    """PSL's names of the types of a predicate's arguments."""
    if types is None:
        return None
    if isinstance(types, str) or len(types) != n_arguments:
        raise InvalidInputError(
            f"predicate {name}: types={types!r:.80}, expected {n_arguments} names of types, one for each argument."
        )
    return tuple(check_choice(each, ARGUMENT_TYPES, f"predicate {name}: type") for each in types)
