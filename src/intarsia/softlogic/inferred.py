"""What inference found for the atoms of a program: tables, files, scores, and why."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intarsia._core.html import ShownResult
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray
from intarsia._files.atomic_file import replaced_file
from intarsia._files.tables import TableKind, write_table
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.evaluation import evaluate
from intarsia.softlogic.explain import Explanation, explain
from intarsia.softlogic.grounding.ground import Grounding
from intarsia.softlogic.program import Evaluation, Program


@dataclass(frozen=True, eq=False, repr=False)
class InferredAtoms(ShownResult):
    """Values of the targets and latent atoms of a program.

    Attributes
    ----------
    grounding : Grounding
        The ground program.
    result : HingeResult
        What inference tells of its run.
    backend : TableKind or None
        The kind of table that `table` gives; None for dicts of columns.
    program : Program, optional
        The program that was ground, so that explanations can name the data behind each term.

    Examples
    --------
    3 (1 - x)^2 + x^2 is least at 3/4:

    >>> from intarsia.softlogic.program import Program
    >>> from intarsia.softlogic.soft_logic import SoftLogic
    >>> program = Program().predicate("P", 1).rule("3: P(X) = 1 ^2").rule("1: !P(X) ^2").target("P", ["a"])
    >>> found = SoftLogic(program).infer()
    >>> found, round(found.value("P", "a"), 3)
    (InferredAtoms(1 atoms of P), 0.75)
    >>> [(rule.rule, round(rule.pull, 1)) for rule in found.explain("P", "a").rules]
    [('3: P(X) = 1 ^2', 1.5), ('1: !P(X) ^2', -1.5)]
    """

    grounding: Grounding
    result: Any
    evaluations: tuple[Evaluation, ...] = ()
    backend: TableKind | None = None
    program: Program | None = None

    @property
    def x(self) -> FloatArray:
        """Values of the variables, in the order of `grounding.atoms`."""
        found: FloatArray = self.result.x
        return found

    def value(self, predicate: str, *arguments: Any) -> float:
        """The value of one atom."""
        return float(self.x[self.grounding.atoms.find(predicate, *arguments)])

    def table(self, predicate: str) -> Any:
        """Targets and latent atoms of a predicate: columns `argument1`, ... and `value`.

        A data frame of the kind in which data came, or a dict of columns if they came in none.
        """
        atoms = self.grounding.atoms
        columns: dict[str, Any] = {f"argument{k}": column for k, column in enumerate(atoms.columns(predicate), 1)}
        columns["value"] = self.x[atoms.variables(predicate)]
        return write_table(columns, self.backend)

    def tables(self) -> dict[str, Any]:
        """`table` of every predicate that has targets or latent atoms."""
        return {name: self.table(name) for name in self.predicates}

    @property
    def predicates(self) -> list[str]:
        """Predicates that have targets or latent atoms."""
        atoms = self.grounding.atoms
        return [p.name for p, arguments in zip(atoms.predicates, atoms.arguments, strict=True) if len(arguments)]

    def evaluate(self, evaluations: Iterable[Evaluation] | None = None) -> dict[str, dict[str, Any]]:
        """Scores by predicate and evaluator: those that the program asks for, or those given (see `evaluate`)."""
        return evaluate(self.evaluations if evaluations is None else evaluations, self.grounding.atoms, self.x)

    def explain(self, predicate: str, *arguments: Any, n_terms: int = 3) -> Explanation:
        """Which terms and constraints pull an atom, how hard, and from which data (see `explain`)."""
        variable = self.grounding.atoms.find(predicate, *arguments)
        # Where constraints contradict each other there is nothing that their multipliers could tend to.
        multipliers = None if self.result.status is Status.INFEASIBLE else self.result.state.multipliers()
        return explain(self.grounding, self.x, variable, n_terms, multipliers=multipliers, program=self.program)

    def write(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write the atoms as PSL does: a file for each predicate, named like it in capitals; arguments, tab, value.

        The folder is made if needed; a file appears when it is complete.

        Raises
        ------
        InvalidInputError
            A constant holds a tab or an end of line, which such files cannot have.
        """
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        files = []
        for name in self.predicates:
            atoms = self.grounding.atoms
            columns = atoms.columns(name)
            for column in columns:
                for constant in column:
                    if "\t" in constant or "\n" in constant:
                        raise InvalidInputError(
                            f"{name}: the constant {constant!r:.60} holds a tab or an end of line, which a file of "
                            f"atoms cannot have. Take the table instead."
                        )
            values = map(repr, self.x[atoms.variables(name)].tolist())
            path = place / f"{name.upper()}.txt"
            with replaced_file(path) as beside, open(beside, "x", encoding="utf-8", newline="\n") as file:
                file.writelines("\t".join(fields) + "\n" for fields in zip(*columns, values, strict=True))
            files.append(path)
        return files

    def _facts(self) -> Iterable[tuple[str, Any]]:
        for name in self.predicates:
            values = self.x[self.grounding.atoms.variables(name)]
            yield name, f"{len(values)} atoms, from {values.min():.3g} to {values.max():.3g}, mean {values.mean():.3g}"
        yield from self.result._facts()
        yield from (("note", note) for note in self.grounding.notes())

    def __repr__(self) -> str:
        return (
            f"InferredAtoms({self.grounding.mrf.n_variables} atoms of {', '.join(self.predicates) or 'no predicate'})"
        )
