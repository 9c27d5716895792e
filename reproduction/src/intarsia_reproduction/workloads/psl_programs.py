"""Programs for timing PSL and Intarsia, written as PSL's files, so that both read identical input."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from intarsia._core.validation import FloatArray
from intarsia._files.atomic_file import write_text
from intarsia.softlogic import HingeLossMRF
from intarsia_reproduction.datasets import load_epinions, load_simple_acquaintances
from intarsia_reproduction.models.soft_rules.trust_rules import BALANCE

_VARIABLES = "ABC"


@dataclass
class ProgramFiles:
    """Rules and data of a PSL program, to be written to files.

    Examples
    --------
    >>> import tempfile
    >>> from intarsia.softlogic import read_psl
    >>> program = ProgramFiles(["1: !Nice(A)"])
    >>> program.add("Nice", "targets", [("ann",), ("bob",)])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     read_psl(program.write(Path(folder)))
    Program(1 predicates, 1 rules, 0 observed atoms, 2 targets, dialect='psl')
    """

    rules: list[str]
    _predicates: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    _files: dict[str, str] = field(default_factory=dict)

    def add(
        self, predicate: str, role: str, rows: Iterable[Sequence[object]], values: FloatArray | None = None
    ) -> None:
        """Add a file of atoms as "observations", "targets" or "truth"; observed atoms have value 1 by default."""
        names = [[str(name) for name in row] for row in rows]
        lines = names if values is None else [[*row, repr(v)] for row, v in zip(names, values.tolist(), strict=True)]
        file = f"{predicate}_{role}.txt".lower()
        self._predicates.setdefault(f"{predicate}/{len(names[0])}", {})[role] = [file]
        self._files[file] = "".join("\t".join(line) + "\n" for line in lines)

    def evaluate(self, predicate: str, evaluator: str) -> None:
        """Add an evaluator of a predicate that has truth."""
        entry = next(entry for key, entry in self._predicates.items() if key.partition("/")[0] == predicate)
        entry.setdefault("evaluations", []).append(evaluator)

    def write(self, folder: Path) -> Path:
        """Write all files into a folder, and return the path of the program."""
        for name, text in self._files.items():
            write_text(folder / name, text)
        path = folder / "program.json"
        write_text(path, json.dumps({"rules": self.rules, "predicates": self._predicates}))
        return path


def acquaintances_program(data: str | os.PathLike[str] | None = None) -> ProgramFiles:
    """Return the published program `simple_acquaintances` with its data files."""
    published = load_simple_acquaintances(data)
    program = ProgramFiles(published.rules)
    for role, tables in (
        ("observations", published.observations),
        ("targets", published.targets),
        ("truth", published.truth),
    ):
        for predicate, rows in tables.items():
            values = None if role == "targets" else np.array([value for _, value in rows])
            program.add(predicate, role, [names for names, _ in rows], values)
    program.evaluate("Knows", "DiscreteEvaluator")
    return program


def trust_program(data: str | os.PathLike[str] | None = None) -> ProgramFiles:
    """Return structural balance among users of Epinions (Huang2013): 20 rules; 1/8 of the statements are targets."""
    network = load_epinions(data)
    others = network.pairs[:, 0] != network.pairs[:, 1]
    pairs, trust = network.pairs[others], network.trust[others].astype(np.float64)
    is_target = np.random.default_rng(0).permutation(len(pairs)) % 8 == 0
    program = ProgramFiles([rule.replace("w:", "1:", 1) for rule in BALANCE])
    program.add("Knows", "observations", pairs.tolist())
    program.add("Average", "observations", [("all",)], trust[~is_target].mean(keepdims=True))
    program.add("Trusts", "observations", pairs[~is_target].tolist(), trust[~is_target])
    program.add("Trusts", "targets", pairs[is_target].tolist())
    program.add("Trusts", "truth", pairs[is_target].tolist(), trust[is_target])
    for evaluator in ("DiscreteEvaluator", "ContinuousEvaluator"):
        program.evaluate("Trusts", evaluator)
    return program


def members_program(n_groups: int, group_size: int, n_people: int, seed: int = 504) -> ProgramFiles:
    """Return a program with one rule whose join has `n_groups * group_size * (group_size - 1)` ground rules.

    Examples
    --------
    >>> members_program(2, 3, 10).rules
    ['1: Member(P, G) & Member(Q, G) & (P != Q) & Votes(P) -> Votes(Q) ^2']
    """
    rng = np.random.default_rng(seed)
    program = ProgramFiles(["1: Member(P, G) & Member(Q, G) & (P != Q) & Votes(P) -> Votes(Q) ^2"])
    rows = [(p, g) for g in range(n_groups) for p in rng.choice(n_people, size=group_size, replace=False).tolist()]
    program.add("Member", "observations", rows)
    program.add("Votes", "targets", [(p,) for p in range(n_people)])
    return program


def clause_program(model: HingeLossMRF) -> ProgramFiles:
    """Return a program that grounds to this model of `softlogic_workloads`: a rule for each weight, power and signs.

    Rows with one entry are priors, `x <= t` or `x >= t`; the others are clauses, whose relation has a last argument
    that distinguishes equal clauses. Variable i is the atom `X(i)`.

    Examples
    --------
    >>> from intarsia.softlogic import LinearRows
    >>> model = HingeLossMRF(2, LinearRows([0, 2], [0, 1], [1.0, -1.0], [0.0]), [0.5], 2)  # 0.5 max(0, x0 - x1)^2
    >>> clause_program(model).rules
    ['0.5: Clause0(A, B, K) & X(A) -> X(B) ^2']
    """
    terms = model.terms
    groups: dict[tuple[float, int, int, int], list[int]] = {}
    for row in range(terms.n_rows):
        signs = terms.coef[terms.ptr[row] : terms.ptr[row + 1]]
        # A literal that is negated in the clause has coefficient 1.
        key = float(model.weight[row]), int(model.power[row]), int((signs > 0).sum()), int((signs < 0).sum())
        groups.setdefault(key, []).append(row)
    program = ProgramFiles([])
    for number, ((weight, power, n_negated, n_plain), rows) in enumerate(sorted(groups.items())):
        suffix = " ^2" if power == 2 else ""
        if n_negated + n_plain == 1:
            relation, sign = ("<=", -1.0) if n_negated else (">=", 1.0)
            program.rules.append(f"{weight:g}: X(A) {relation} Prior{number}(A){suffix}")
            entries_of_priors = terms.ptr[rows]
            program.add(
                f"Prior{number}",
                "observations",
                terms.idx[entries_of_priors][:, None].tolist(),
                sign * terms.const[rows],
            )
            continue
        names = _VARIABLES[: n_negated + n_plain]
        atoms = [f"X({name})" for name in names]
        if n_plain:
            body, head = atoms[:n_negated], " | ".join(atoms[n_negated:])
        else:
            body, head = atoms[:-1], f"!{atoms[-1]}"
        body.insert(0, f"Clause{number}({', '.join(names)}, K)")
        program.rules.append(f"{weight:g}: {' & '.join(body)} -> {head}{suffix}")
        tables = []
        for row in rows:
            entries = slice(terms.ptr[row], terms.ptr[row + 1])
            order = np.argsort(-terms.coef[entries], kind="stable")
            tables.append([*terms.idx[entries][order].tolist(), row])
        program.add(f"Clause{number}", "observations", tables)
    program.add("X", "targets", [(i,) for i in range(model.n_variables)])
    return program
