"""Programs of probabilistic soft logic, built in Python: predicates, rules and data."""

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

# Roles of an atom in the data.
OBSERVED, TARGET, LATENT, TRUTH = "observed", "target", "latent", "truth"
ROLES = (OBSERVED, TARGET, LATENT, TRUTH)
_NAME = re.compile(r"[^\W\d][\w$]*|\$[\w$]*")


@dataclass(frozen=True)
class Predicate:
    """A predicate: the name of a relation and its number of arguments.

    Attributes
    ----------
    name : str
        Name as declared. Names are case-insensitive: rules may write `KNOWS` or `Knows`.
    n_arguments : int
        Number of arguments.
    closed : bool or None
        True: atoms that are not observed are false. False: atoms that are neither observed nor targets are missing.
        None: closed unless there are targets or latent atoms.
    types : tuple of str or None
        PSL's type of each argument, such as "UniqueIntID" or "UniqueStringID". The type decides how `A % B` orders
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
    """A request to evaluate the inferred values of a predicate with a named evaluator.

    Attributes
    ----------
    predicate : str
        Name of the predicate.
    evaluator : str
        Name of the evaluator; see `evaluator_names`.
    options : dict
        Options of the evaluator; see `evaluate`.

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
    """A program of probabilistic soft logic: predicates, rules and data.

    Every method that adds something returns the program, so calls can be chained. Declare predicates before the rules
    and data that use them. Observed atoms have fixed values in [0, 1]. Inference computes the values of targets and
    latent atoms; only targets can have a true value to learn from. Predicate names are case-insensitive, as in PSL.

    A rule that is added twice counts once, with its first weight, and a warning is issued. Two rules are equal if they
    differ only in their weight or in the order of a clause's literals: `A -> B` and `!B -> !A` are equal.

    Parameters
    ----------
    dialect : {"plain", "psl"}
        How rules are parsed. "plain": arithmetic has the usual order of operations, `|X|` counts the atoms of a sum, a
        filter with `|` holds where either side holds, and `A % B` orders integers by number. "psl": all of these are
        exactly as in PSL; `docs/guide/rules.md` has a table of the differences.
    connection : DuckDB connection, optional
        If passed, a string in place of a table is the name of a table or view of this connection. DuckDB replaces
        strings by integers, so only the integers and the distinct strings are copied to Python. Copies of the program
        have no connection.

    Raises
    ------
    InvalidInputError
        A rule is malformed, uses an unknown predicate (the message suggests the nearest name) or the wrong number of
        arguments; the columns of a table do not match its predicate; a value is outside [0, 1]; the dialect is unknown.

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
                f"Program: connection must be a DuckDB connection, got {type(connection).__name__}. Pass the result of "
                f"duckdb.connect()."
            )
        self.connection = connection
        self.constants = ConstantTable()
        self.evaluations: list[Evaluation] = []
        self.options: dict[str, Any] = {}
        self.notes: list[str] = []
        self.backend: TableKind | None = None  # the library of the first input table, used for output tables
        self._predicates: dict[str, Predicate] = {}
        self._rules: dict[Hashable, Rule] = {}
        self._data: dict[str, dict[str, list[AtomRows]]] = {}
        self._modules: dict[str, Any] = {}

    # ---------------------------------------------------------------- contents

    @property
    def dialect(self) -> str:
        """Dialect in which rules are parsed: "plain" or "psl"."""
        return self._dialect

    @property
    def predicates(self) -> list[Predicate]:
        """Predicates in order of declaration."""
        return list(self._predicates.values())

    @property
    def rules(self) -> list[Rule]:
        """Rules in the order in which they were added, which is also the order of the groups of the ground model."""
        return list(self._rules.values())

    @property
    def modules(self) -> dict[str, Any]:
        """Modules of the neural predicates, by the name of the predicate."""
        return {self._predicates[key].name: module for key, module in self._modules.items()}

    def find_predicate(self, name: str) -> Predicate:
        """Return the predicate with this name, ignoring case; raise with the nearest name if there is none."""
        key = str(name).upper()
        if key not in self._predicates:
            try:
                check_choice(str(name), [predicate.name for predicate in self.predicates], "predicate")
            except InvalidInputError as error:
                raise InvalidInputError(str(error)) from None
        return self._predicates[key]

    def data(self, predicate: str, role: str) -> list[AtomRows]:
        """Return the tables of a predicate in a role, one for each call that added data."""
        return self._data[self.find_predicate(predicate).name.upper()][role]

    def n_atoms(self, role: str) -> int:
        """Return the number of rows added in a role: "observed", "target", "latent" or "truth"."""
        return sum(len(rows) for tables in self._data.values() for rows in tables[role])

    def is_closed(self, predicate: Predicate) -> bool:
        """Return whether the atoms of a predicate that are not observed are false."""
        if predicate.closed is not None:
            return predicate.closed
        return not any(len(rows) for role in (TARGET, LATENT) for rows in self.data(predicate.name, role))

    # ---------------------------------------------------------------- building

    def predicate(
        self,
        name: str,
        n_arguments: int,
        closed: bool | None = None,
        types: Sequence[str] | None = None,
        *,
        module: Any = None,
    ) -> Program:
        """Declare a predicate.

        Parameters
        ----------
        name : str
            Letters, digits, `_` and `$`; the first character is not a digit.
        n_arguments : int
            Number of arguments, at least 1.
        closed : bool, optional
            Whether atoms that are not observed are false; see `Predicate`.
        types : sequence of str, optional
            PSL's type of each argument; see `Predicate`.
        module : callable, optional
            A neural network (`torch.nn.Module`) that computes the values of the atoms of this predicate, a neural
            predicate. Add its atoms with `observe`, without values. `intarsia.torch.NeuralProgram` runs and trains
            such programs.
        """
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidInputError(
                f"predicate {name!r:.60}: a name must consist of letters, digits, '_' and '$' and must not begin with "
                f"a digit. Choose another name."
            )
        check_number(n_arguments, f"predicate {name}: n_arguments", low=1, high=100, integer=True)
        key = name.upper()
        new = Predicate(name, int(n_arguments), closed, _check_types(types, name, int(n_arguments)))
        old = self._predicates.get(key)
        if old is not None and old != new:
            raise InvalidInputError(
                f"predicate {name} is already declared as {old.name} with {old.n_arguments} arguments, "
                f"closed={old.closed} and types={old.types}; names are case-insensitive. Choose another "
                f"name, or declare it once."
            )
        if module is not None and (not callable(module) or closed):
            problem = "cannot be closed" if callable(module) else f"must be callable, got {type(module).__name__}"
            raise InvalidInputError(
                f"predicate {name}: a module {problem}. Pass a torch.nn.Module, and leave `closed` at its default."
            )
        self._predicates[key] = new
        self._data.setdefault(key, {role: [] for role in ROLES})
        if module is not None:
            self._modules[key] = module
        return self

    def rule(self, rule: str | Rule, place: str = "rule") -> Program:
        """Add a rule, as a string in PSL's rule language or as returned by `read_rule`.

        With `dialect="psl"` a filter with `|` adds a rule for each alternative, as in PSL.

        Parameters
        ----------
        rule : str or Rule
            The rule.
        place : str
            Where the rule comes from, for error messages.
        """
        new = rule if isinstance(rule, (LogicalRule, ArithmeticRule)) else read_rule(rule, place, self._dialect)
        self._add_rules([new], place)
        return self

    def rules_from(self, path: str | os.PathLike[str]) -> Program:
        """Add the rules of a file, such as the `.psl` file of a PSL program.

        A rule may span several lines. `//` and `#` begin a comment, `/* */` enclose one. Declare the predicates first.
        If any rule is invalid, no rule is added.

        Parameters
        ----------
        path : path
            Path of a UTF-8 text file.

        Raises
        ------
        FileFormatError
            The file is not UTF-8.
        InvalidInputError
            A rule is invalid (the message names file, line and column), or the file does not exist or has no rules.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "knows.psl").write_text('''
        ...         // By default nobody knows anybody.
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
            raise InvalidInputError(f"Program.rules_from: the file {file} does not exist. Check the path.")
        try:
            text = file.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise FileFormatError(
                f"{file.name}: byte {error.start + 1} is not valid UTF-8. Save the file as UTF-8."
            ) from None
        rules = read_rules(text, file.name, self._dialect)
        if not rules:
            raise InvalidInputError(f"{file.name}: the file has no rules. Write at least one rule into it.")
        self._add_rules(rules, file.name)
        return self

    def _add_rules(self, rules: Sequence[Rule], name: str) -> None:
        """Check all rules, then add them; of equal rules only the first is stored."""
        for rule in rules:
            for atom in rule.atoms:
                self._check_atom(atom, f"{name} {rule.text!r:.200}")
        for rule in rules:
            alternatives: Sequence[Rule] = [rule]
            if self._dialect == "psl" and isinstance(rule, ArithmeticRule):
                with errors_in(f"{name} {rule.text!r:.200}"):
                    alternatives = split_filters(rule)
            for alternative in alternatives:
                first = self._rules.setdefault(rule_key(alternative), alternative)
                if first is not alternative:
                    self._warn_of_duplicate(alternative, first, name)

    def _warn_of_duplicate(self, rule: Rule, first: Rule, name: str) -> None:
        """Warn that a rule is already in the program."""
        weight = "" if first.weight is None else f" with weight {first.weight:g}"
        note = (
            f"{name} {rule.text!r:.120} is already in the program as {first.text!r:.120} and counts once{weight}, "
            f"as in PSL. Remove one of the two rules."
        )
        self.notes.append(note)
        warn_caller(note, UserWarning)

    def observe(self, predicate: str, table: Any) -> Program:
        """Add observed atoms; an additional last column holds their values in [0, 1], which are 1 without it.

        The module of a neural predicate computes the values of its atoms, in the order in which they are added.
        """
        return self._add(predicate, OBSERVED, table)

    def target(self, predicate: str, table: Any) -> Program:
        """Add target atoms, whose values are inferred; an additional column of values is ignored."""
        return self._add(predicate, TARGET, table)

    def latent(self, predicate: str, table: Any) -> Program:
        """Add latent atoms: they are inferred together with the targets, and never have a true value."""
        return self._add(predicate, LATENT, table)

    def truth(self, predicate: str, table: Any) -> Program:
        """Add the true values of targets, which learning and evaluation use."""
        return self._add(predicate, TRUTH, table)

    def add_rows(self, predicate: str, role: str, rows: AtomRows) -> Program:
        """Add atoms whose arguments are numbers of constants in `self.constants`."""
        declaration = self.find_predicate(predicate)
        if declaration.closed and role in (TARGET, LATENT) and len(rows):
            raise InvalidInputError(
                f"{declaration.name} is closed, so it cannot have {role} atoms. Declare it with closed=False, or "
                f"add the atoms with Program.observe."
            )
        if declaration.name.upper() in self._modules:
            if role != OBSERVED:
                raise InvalidInputError(
                    f"{declaration.name} has a module, which computes the values of its atoms, so it cannot have "
                    f"{role} atoms. Add its atoms with Program.observe; infer a second predicate from it by a rule."
                )
            role = LATENT  # grounding treats their values as unknown
        self._data[declaration.name.upper()][role].append(rows)
        return self

    def without_data(self) -> Program:
        """Return a new program with the same predicates, rules, evaluations and options, and no data.

        Examples
        --------
        >>> program = Program().predicate("Knows", 2).rule("1: !Knows(A, B)").target("Knows", [("ann", "bob")])
        >>> program.without_data()
        Program(1 predicates, 1 rules, 0 observed atoms, 0 targets)
        """
        bare = Program(dialect=self._dialect, connection=self.connection)
        bare._predicates, bare._rules = dict(self._predicates), dict(self._rules)
        bare._data = {key: {role: [] for role in ROLES} for key in self._predicates}
        bare._modules = dict(self._modules)
        bare.evaluations, bare.options = list(self.evaluations), dict(self.options)
        return bare

    def _add(self, predicate: str, role: str, table: Any) -> Program:
        """Read a table of atoms and add its rows in a role."""
        declaration = self.find_predicate(predicate)
        method = {OBSERVED: "observe"}.get(role, role)
        place = f"Program.{method}({declaration.name})"
        if self.connection is not None and isinstance(table, str) and not is_table_file(table):
            table, rows = read_connected(self.connection, table, declaration.n_arguments, self.constants, place)
        else:
            rows = read_table(table, declaration.n_arguments, self.constants, place)
        if self.backend is None:
            self.backend = table_kind(table)
        return self.add_rows(predicate, role, rows)

    def _check_atom(self, atom: Atom, place: str) -> None:
        """Raise if the predicate of an atom is unknown or has another number of arguments."""
        try:
            declaration = self.find_predicate(atom.predicate)
        except InvalidInputError as error:
            message = f"{place}: {error}"
            raise InvalidInputError(message) from None
        if len(atom.arguments) != declaration.n_arguments:
            raise InvalidInputError(
                f"{place}: {atom} has {len(atom.arguments)} arguments, but {declaration.name} is declared with "
                f"{declaration.n_arguments}. Write {declaration.n_arguments} arguments, or change the declaration."
            )

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "connection": None}  # a connection cannot leave its process

    def __repr__(self) -> str:
        n_latent = self.n_atoms(LATENT)
        return (
            f"Program({len(self._predicates)} predicates, {len(self._rules)} rules, {self.n_atoms(OBSERVED)} observed "
            f"atoms, {self.n_atoms(TARGET)} targets{f', {n_latent} latent' if n_latent else ''}"
            f"{'' if self._dialect == 'plain' else f', dialect={self._dialect!r}'})"
        )


def _check_types(types: Sequence[str] | None, name: str, n_arguments: int) -> tuple[str, ...] | None:
    """Check PSL's types of the arguments of a predicate and return them as a tuple."""
    if types is None:
        return None
    if isinstance(types, str) or len(types) != n_arguments:
        raise InvalidInputError(
            f"predicate {name}: types={types!r:.80}, expected a list of {n_arguments} type names. Pass one type per "
            f"argument."
        )
    return tuple(check_choice(type_name, ARGUMENT_TYPES, f"predicate {name}: type") for type_name in types)
