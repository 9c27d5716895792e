"""Result of inference in a program: values of the atoms as tables and files, evaluation and explanations."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from intarsia._core.html import ShownResult
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray
from intarsia._files.atomic_file import make_folder, write_text
from intarsia._files.tables import TableKind, write_table
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.evaluation import evaluate
from intarsia.softlogic.explain import Explanation, explain
from intarsia.softlogic.grounding.ground import Grounding
from intarsia.softlogic.grounding.tables import common_columns
from intarsia.softlogic.program import LATENT, TARGET, Evaluation, Program


@dataclass(frozen=True, eq=False, repr=False)
class InferredAtoms(ShownResult):
    """Inferred values of the targets and latent atoms of a program.

    Attributes
    ----------
    grounding : Grounding
        The ground program.
    result : HingeResult
        Status, objective and bounds of the inference run.
    evaluations : tuple of Evaluation
        Evaluations that the program requests.
    backend : TableKind or None
        Kind of the tables that `table` returns; None for dicts of columns.
    program : Program, optional
        The program that was ground; explanations look up the data behind each term in it.

    Examples
    --------
    The minimum of 3 (1 - x)^2 + x^2 is at 3/4:

    >>> from intarsia.softlogic.program import Program
    >>> from intarsia.softlogic.soft_logic import SoftLogic
    >>> program = Program().predicate("P", 1).rule("3: P(X) = 1 ^2").rule("1: !P(X) ^2").target("P", ["a"])
    >>> inferred = SoftLogic(program).infer()
    >>> inferred, round(inferred.value("P", "a"), 3)
    (InferredAtoms(1 atoms of P), 0.75)
    >>> [(rule.rule, round(rule.force, 1)) for rule in inferred.explain("P", "a").rules]
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
        values: FloatArray = self.result.x
        return values

    def value(self, predicate: str, *arguments: Any) -> float:
        """Return the inferred value of an atom."""
        return float(self.x[self.grounding.atoms.find(predicate, *arguments)])

    def table(self, predicate: str) -> Any:
        """Return a table of the targets and latent atoms of a predicate: a column per argument, and `value`.

        Columns have the names and types of those in the tables of these atoms; `argument1`, ... where they had none.
        The table is a data frame of the same library as the input tables, or a dict of columns if there were none.
        """
        atoms = self.grounding.atoms
        names = atoms.columns(predicate)
        tables = [] if self.program is None else [
            rows for role in (TARGET, LATENT) for rows in self.program.data(predicate, role)
        ]  # fmt: skip
        columns: dict[str, Any] = {}
        for k, (column, (name, kind)) in enumerate(zip(names, common_columns(tables, len(names)), strict=True), 1):
            key = f"argument{k}" if name in ("", "value", *columns) else name
            columns[key] = np.array(list(map(int, column)), dtype=kind) if kind else column
        columns["value"] = self.x[atoms.variables(predicate)]
        return write_table(columns, self.backend)

    def tables(self) -> dict[str, Any]:
        """Return a dict from each predicate that has targets or latent atoms to its `table`."""
        return {name: self.table(name) for name in self.predicates}

    @property
    def predicates(self) -> list[str]:
        """Names of the predicates that have targets or latent atoms."""
        atoms = self.grounding.atoms
        return [p.name for p, arguments in zip(atoms.predicates, atoms.arguments, strict=True) if len(arguments)]

    def evaluate(self, evaluations: Iterable[Evaluation] | None = None) -> dict[str, dict[str, Any]]:
        """Return scores by predicate and evaluator; by default for the evaluations of the program (see `evaluate`)."""
        return evaluate(self.evaluations if evaluations is None else evaluations, self.grounding.atoms, self.x)

    def explain(self, predicate: str, *arguments: Any, n_terms: int = 3) -> Explanation:
        """Return which terms and constraints act on an atom, with which force and from which data (see `explain`)."""
        variable = self.grounding.atoms.find(predicate, *arguments)
        # If the constraints are infeasible, the multipliers diverge and mean nothing.
        multipliers = None if self.result.status is Status.INFEASIBLE else self.result.state.multipliers()
        return explain(self.grounding, self.x, variable, n_terms, multipliers=multipliers, program=self.program)

    def write(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write the atoms in PSL's format: a tab-separated file per predicate, with arguments and value.

        The name of a file is that of the predicate in capitals. The folder is created if needed. Each file is written
        completely before it replaces an existing one.

        Raises
        ------
        InvalidInputError
            A constant contains a tab or a line break, which the format cannot represent.
        """
        directory = make_folder(folder)
        files = []
        for name in self.predicates:
            atoms = self.grounding.atoms
            columns = atoms.columns(name)
            for column in columns:
                for constant in column:
                    if "\t" in constant or "\n" in constant:
                        raise InvalidInputError(
                            f"{name}: the constant {constant!r:.60} contains a tab or a line break, which a "
                            f"tab-separated file cannot hold. Use InferredAtoms.table instead, or rename the constant."
                        )
            values = map(repr, self.x[atoms.variables(name)].tolist())
            path = directory / f"{name.upper()}.txt"
            write_text(path, "".join("\t".join(fields) + "\n" for fields in zip(*columns, values, strict=True)))
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
