"""The join that a rule asks for, as a query over generated names with bound numbers."""

from __future__ import annotations

from intarsia.softlogic.constants import ARGUMENT_TYPES
from intarsia.softlogic.grounding_database import GroundingDatabase
from intarsia.softlogic.syntax import Atom, Comparison, Condition, Constant, Literal, Term

_SIGNS = {"==": "=", "!=": "<>"}


class Terms:
    """Where the value of each term stands in a query: a column for a variable, a bound number for a constant."""

    def __init__(self, database: GroundingDatabase, prefix: str = "c") -> None:
        self.database = database
        self.bound: dict[str, float] = {}
        self.place: dict[str, str] = {}
        # Of variables whose type is declared: whether their constants are ordered by number.
        self.by_number: dict[str, bool] = {}
        self._prefix = prefix

    def column(self, term: Term) -> str:
        """The column of a variable, or a name for the number of a constant."""
        if isinstance(term, Constant):
            return self._bind(self.database.program.constants.find(term.value))
        return self.place[term.name]

    def _bind(self, value: float) -> str:
        name = f"{self._prefix}{len(self.bound)}"
        self.bound[name] = value
        return f"${name}"

    def comparison(self, comparison: Comparison) -> str:
        """A condition on two terms."""
        if comparison.operator in _SIGNS:
            left, right = self.column(comparison.left), self.column(comparison.right)
            # Two constants that no data name are both bound as -1, so their names decide.
            if isinstance(comparison.left, Constant) and isinstance(comparison.right, Constant):
                same = comparison.left.value == comparison.right.value
                return f"{left} >= -1 AND {right} >= -1 AND {str(same == (comparison.operator == '==')).upper()}"
            return f"{left} {_SIGNS[comparison.operator]} {right}"
        by_number = self._orders_by_number(comparison)
        return " < ".join(self._rank(term, by_number) for term in comparison.arguments)

    def _orders_by_number(self, comparison: Comparison) -> bool:
        """Whether `%` compares numbers: as the types of its variables say, or else as the dialect does."""
        names = [term.name for term in comparison.arguments if not isinstance(term, Constant)]
        types = [self.by_number[name] for name in names if name in self.by_number]
        return all(types) if types else self.database.program.dialect == "plain"

    def _rank(self, term: Term, by_number: bool) -> str:
        if isinstance(term, Constant):
            return self._bind(self.database.program.constants.rank(term.value, by_number))
        return f"(SELECT rank FROM {self.database.ranks(by_number)} WHERE number = {self.place[term.name]})"

    def matches(self, alias: str, atom: Atom) -> list[str]:
        """Conditions under which a row of a predicate's table is an atom; variables met first get their place there."""
        conditions = []
        types = self.database.program.find_predicate(atom.predicate).types
        for k, term in enumerate(atom.arguments):
            column = f"{alias}.a{k}"
            if not isinstance(term, Constant) and term.name not in self.place:
                self.place[term.name] = column
                if types is not None:
                    self.by_number[term.name] = ARGUMENT_TYPES[types[k]]
            else:
                conditions.append(f"{column} = {self.column(term)}")
        return conditions

    def condition(self, condition: Condition | Literal) -> str:
        """A filter: an atom of a closed predicate holds where its truth is above 0."""
        if isinstance(condition, Condition):
            sign = " AND " if condition.operator == "&" else " OR "
            return f"({sign.join(self.condition(part) for part in condition.parts)})"
        if isinstance(condition.atom, Comparison):
            made = self.comparison(condition.atom)
        else:
            inside = " AND ".join([*self.matches("f", condition.atom), "f.hi > 0"])
            made = f"EXISTS (SELECT 1 FROM {self.database.table(condition.atom.predicate)} AS f WHERE {inside})"
        return f"NOT ({made})" if condition.negated else made


class JoinQuery(Terms):
    """Atoms joined on the variables they share.

    Examples
    --------
    >>> from intarsia.softlogic import Program
    >>> from intarsia.softlogic.syntax import Variable
    >>> program = Program().predicate("Knows", 2).observe("Knows", [("a", "b"), ("b", "c")])
    >>> with GroundingDatabase(program) as database:
    ...     query = JoinQuery(database)
    ...     _ = query.join(Atom("Knows", (Variable("A"), Variable("B"))))
    ...     _ = query.join(Atom("Knows", (Variable("B"), Variable("C"))))
    ...     print(query.source)
    FROM t0 AS j0 JOIN t0 AS j1 ON j1.a0 = j0.a1 WHERE TRUE
    """

    def __init__(self, database: GroundingDatabase) -> None:
        super().__init__(database)
        self._joins: list[str] = []
        self._conditions: list[str] = []

    def join(self, atom: Atom) -> str:
        """Add an atom that must be in its table; returns what its row is called."""
        alias = f"j{len(self._joins)}"
        table = f"{self.database.table(atom.predicate)} AS {alias}"
        conditions = self.matches(alias, atom)
        if not self._joins:
            self._conditions += conditions
            self._joins.append(table)
        elif conditions:
            self._joins.append(f"JOIN {table} ON {' AND '.join(conditions)}")
        else:
            self._joins.append(f"CROSS JOIN {table}")
        return alias

    def look_up(self, atom: Atom) -> str:
        """Add an atom whose row is empty if it is not in its table."""
        if not self._joins:
            self._joins.append("(SELECT 0 AS atom) AS j0")
        alias = f"j{len(self._joins)}"
        conditions = self.matches(alias, atom)
        self._joins.append(f"LEFT JOIN {self.database.table(atom.predicate)} AS {alias} ON {' AND '.join(conditions)}")
        return alias

    def compare(self, comparison: Literal) -> None:
        """Keep what meets a comparison, or does not if it is negated."""
        self._conditions.append(self.condition(comparison))

    @property
    def source(self) -> str:
        """Everything from FROM on."""
        return f"FROM {' '.join(self._joins)} WHERE {' AND '.join(self._conditions) or 'TRUE'}"
