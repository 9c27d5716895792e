"""`intarsia softlogic`: infer what a program of rules asks for, learn its weights, tell why an atom has its value."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from intarsia.cli.output import check_folder, check_folder_of, console, note, number, warnings_on_stderr, write_json
from intarsia.cli.running import parse_settings
from intarsia.exceptions import InvalidInputError

if TYPE_CHECKING:
    from intarsia.softlogic.explain import Explanation, TermPull
    from intarsia.softlogic.inferred import InferredAtoms
    from intarsia.softlogic.learning.learner import HingeLearner

_MOST_ATOMS = 20  # shown of a predicate

_Program = Annotated[
    Path, typer.Argument(help="PSL program: JSON or YAML of PSL 3, or rules of PSL 2 (.psl).", show_default=False)
]
_Data = Annotated[
    Path | None,
    typer.Option(
        help="Folder of the data files, by file name; by default their paths in the program. For rules of PSL 2: their "
        "data file, NAME-eval.data, say."
    ),
]
_Missing = Annotated[
    str, typer.Option(help="An atom that a rule needs and that is neither observed nor target: error, or zero.")
]
_Setting = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting of ConsensusADMM, such as tol=1e-6; may be repeated."),
]
_TimeLimit = Annotated[float | None, typer.Option(help="Seconds for the minimisation.")]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
_MOST_FACTS = 5


def infer_command(
    program: _Program,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Folder for the inferred atoms, a file for each predicate; by default none is written.",
        ),
    ] = None,
    data: _Data = None,
    missing: _Missing = "error",
    setting: _Setting = None,
    time_limit: _TimeLimit = None,
    json: _Json = False,
) -> None:
    """Infer the targets of a PSL program.

    With `--output` the atoms are written as PSL writes them: arguments and value, by tabs. Without it nothing is
    written, and the first atoms are shown.

    Example: `intarsia softlogic infer simple-acquaintances.json --output inferred-predicates`
    """
    check_folder(output)
    found = _inferred(program, data, missing, setting, time_limit)
    scores = found.evaluate()
    files = [] if output is None else found.write(output)
    result, grounding = found.result, found.grounding
    document = {
        "objective": result.objective,
        "n_atoms": grounding.mrf.n_variables,
        "n_terms": grounding.mrf.n_terms,
        "n_constraints": grounding.mrf.n_constraints,
        "max_violation": result.max_violation,
        "evaluations": scores,
        "converged": result.converged,
        "n_iter": result.n_iter,
        "ground_seconds": grounding.seconds,
        "solve_seconds": result.seconds,
        # With several predicates the folder, in which each has its file; null without --output.
        "atoms_file": None if output is None else str(files[0] if len(files) == 1 else output),
    }
    if json:
        write_json(document)
    else:
        _show_inferred(found, document, scores)
        for file in files:
            typer.echo(f"Atoms: {file}")
        if output is None:
            _show_atoms(found)
    if result.status.name == "INTERRUPTED":
        raise typer.Exit(130)


def _show_inferred(found: InferredAtoms, document: dict[str, Any], scores: Any) -> None:
    result, grounding = found.result, found.grounding
    _show_rules(found)
    typer.echo(
        f"\n{document['n_atoms']} atoms, {document['n_terms']} terms, {document['n_constraints']} constraints in "
        f"{grounding.seconds:.2f} s. Objective {number(result.objective, 8)}; {result.status.name} after "
        f"{result.n_iter} iterations, {result.seconds:.2f} s; constraints hold to {result.max_violation:.1g}."
    )
    for predicate, by_evaluator in scores.items():
        for evaluator, values in by_evaluator.items():
            told = ", ".join(f"{name} {number(value, 4)}" for name, value in values.items())
            typer.echo(f"{predicate}, {evaluator}: {told}")


def _show_atoms(found: InferredAtoms) -> None:
    """Print the first atoms of each predicate, and how to write all of them."""
    atoms = found.grounding.atoms
    for name in found.predicates:
        values = found.x[atoms.variables(name)]
        for k in range(min(_MOST_ATOMS, values.size)):
            constants = ", ".join(repr(str(column[k])) for column in atoms.columns(name))
            typer.echo(f"{name}({constants}) = {number(float(values[k]), 4)}")
        if values.size > _MOST_ATOMS:
            typer.echo(f"... and {values.size - _MOST_ATOMS} more atoms of {name}")
    typer.echo("Nothing was written; --output FOLDER writes all atoms.")


def learn_command(
    program: _Program,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File for the program with learned weights; by default none, weights are only shown."
        ),
    ] = None,
    learner: Annotated[str, typer.Option(help="Name of the learner.")] = "paired_dual",
    data: _Data = None,
    missing: _Missing = "error",
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A setting of the learner or its optimizer, such as max_iter=500; may repeat.",
        ),
    ] = None,
    json: _Json = False,
) -> None:
    """Learn the weights of a PSL program's rules from its truth, with the data of its learning phase.

    Example: `intarsia softlogic learn simple-acquaintances.json --learner pseudo_likelihood --output learned.json`
    """
    import time

    from intarsia.softlogic.files.psl import read_psl, write_learned
    from intarsia.softlogic.soft_logic import SoftLogic

    begun = time.perf_counter()
    chosen = _learner(learner, parse_settings(setting or []))
    check_folder_of(output)
    _check_data(data)
    with warnings_on_stderr() as shown:
        loaded = read_psl(program, phase="learn", data=data)
        model = SoftLogic(loaded, learner=chosen, missing=missing).fit()
    for line in loaded.notes:
        if line not in shown:
            note(line)
    if output is not None:
        write_learned(program, model.rules_, output, data)
        if output.resolve().parent != program.resolve().parent:
            note(f"{output.name}: paths of data files are relative to {program.parent}. Name their folder with --data.")
    learned = model.learned_
    document = {
        "file": None if output is None else str(output),
        "n": int(sum(rule.weight is not None for rule in loaded.rules)),
        "seconds": time.perf_counter() - begun,
        "learner": learner,
        "status": learned.status.name,
        "n_updates": learned.n_iter,
        "n_admm_iter": learned.n_admm_iter,
        "rules": model.rules_,
    }
    if json:
        write_json(document)
    else:
        for rule in model.rules_:
            typer.echo(rule)
        typer.echo(
            f"\n{learned.status.name} after {learned.n_iter} updates, {learned.n_admm_iter} iterations of inference, "
            f"{document['seconds']:.2f} s. "
            + ("Nothing was written; --output FILE writes the program." if output is None else f"Program: {output}")
        )
    if learned.status.name == "INTERRUPTED":
        raise typer.Exit(130)


def explain_command(
    program: _Program,
    atom: Annotated[
        str,
        typer.Argument(help="Target or latent atom, such as \"Knows('0', '7')\" or Knows(0,7).", show_default=False),
    ],
    terms: Annotated[int, typer.Option(help="How many single terms to list for each rule.")] = 3,
    data: _Data = None,
    missing: _Missing = "error",
    setting: _Setting = None,
    time_limit: _TimeLimit = None,
    json: _Json = False,
) -> None:
    """Infer a PSL program and show which ground terms and constraints pull an atom, how hard, and from which data.

    The pull is the weight times the slope of the hinge, or the multiplier of a hard constraint: above 0 it pulls the
    atom up, below 0 down. All pulls add up to 0, the hold of the bounds 0 and 1 included.

    Example: `intarsia softlogic explain simple-acquaintances.json "Knows(0, 7)"`
    """
    from intarsia._core.validation import check_number
    from intarsia.softlogic.language.rules import read_ground_atom
    from intarsia.softlogic.language.syntax import Constant

    check_number(terms, "--terms", low=0, integer=True)
    wanted = read_ground_atom(atom)
    found = _inferred(program, data, missing, setting, time_limit)
    explanation = found.explain(
        wanted.predicate, *(term.value for term in wanted.arguments if isinstance(term, Constant)), n_terms=terms
    )
    if json:
        write_json(explanation.as_dict())
        return
    _show_explanation(explanation)


def _inferred(
    path: Path, data: Path | None, missing: str, setting: list[str] | None, time_limit: float | None
) -> InferredAtoms:
    from intarsia._core.validation import check_choice
    from intarsia.softlogic.admm.consensus import ConsensusADMM
    from intarsia.softlogic.files.psl import read_psl
    from intarsia.softlogic.soft_logic import SoftLogic

    settings = parse_settings(setting or [])
    for key in settings:
        check_choice(key, ConsensusADMM._get_param_names(), "ConsensusADMM: setting")
    _check_data(data)
    with warnings_on_stderr() as shown:
        loaded = read_psl(path, data=data)
        found = SoftLogic(loaded, inference=ConsensusADMM(**settings), missing=missing).infer(time_limit=time_limit)
    for line in [*loaded.notes, *found.grounding.notes()]:
        if line not in shown:
            note(line)
    if not found.result.converged and found.result.note:
        note(found.result.note)
    return found


def _check_data(data: Path | None) -> None:
    if data is None or data.is_dir() or (data.suffix.lower() == ".data" and data.is_file()):
        return
    raise InvalidInputError(
        f"--data {data} is neither a folder nor a .data file. Give the folder that holds the data files, or, for "
        f"rules of PSL 2, their data file."
    )


def _learner(name: str, settings: dict[str, Any]) -> HingeLearner:
    """A learner whose optimizer has its settings from the same list."""
    from intarsia._core.validation import check_choice
    from intarsia.softlogic.learning.projected_subgradient import ProjectedSubgradient
    from intarsia.softlogic.learning.registry import HINGE_LEARNERS

    own = [key for key in HINGE_LEARNERS.get(name)._get_param_names() if key not in ("optimizer", "inference")]
    has_optimizer = "optimizer" in HINGE_LEARNERS.get(name)._get_param_names()
    of_optimizer = ProjectedSubgradient._get_param_names() if has_optimizer else []
    for key in settings:
        check_choice(key, [*own, *of_optimizer], f"{name}: setting")
    given = {key: value for key, value in settings.items() if key in own}
    if has_optimizer:
        given["optimizer"] = ProjectedSubgradient(**{key: value for key, value in settings.items() if key not in own})
    return HINGE_LEARNERS.get(name)(**given)


def _show_rules(found: InferredAtoms) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for title in ("groundings", "settled", "terms", "constraints", "rule"):
        table.add_column(title, justify="left" if title == "rule" else "right", overflow="fold")
    for report in found.grounding.reports:
        counts = (report.n_groundings, report.n_known + report.n_satisfied, report.n_terms, report.n_constraints)
        table.add_row(*map(str, counts), escape(report.rule))
    console().print(table)


def _show_explanation(explanation: Explanation) -> None:
    from rich.markup import escape
    from rich.table import Table

    typer.echo(f"{explanation.atom} = {number(explanation.value, 4)}\n")
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for title in ("pull", "reserve", "terms", "active", "rule and its hardest terms"):
        table.add_column(title, justify="left" if title.startswith("rule") else "right", overflow="fold")
    for rule in explanation.rules:
        cells: list[Any] = [f"{rule.pull:+.4g}", f"{rule.reserve:.4g}", rule.n_terms, rule.n_active, rule.rule]
        table.add_row(*(escape(str(cell)) for cell in cells), style="bold")
        for term in rule.terms:
            if term.pull:
                lines = [f"{term.text} = {term.value:.4g}", *_origin(term)]
                table.add_row(f"{term.pull:+.4g}", "", "", "", escape("\n  ".join(lines)))
    console().print(table)
    for constraint in explanation.constraints:
        force = "" if constraint.pull != constraint.pull else f", pulls by {constraint.pull:+.4g}"
        typer.echo(f"Constraint: {constraint.text} (left side {constraint.value:.2g}){force}")
        for line in [f"from {constraint.rule}", *_origin(constraint)]:
            typer.echo(f"  {line}")
    if explanation.bound:
        typer.echo(f"Bound: {round(explanation.value)} holds the atom by {explanation.bound:+.4g}")
    if explanation.imbalance == explanation.imbalance:
        typer.echo(f"Sum of all pulls: {explanation.imbalance:+.2g}")


def _origin(term: TermPull) -> list[str]:
    """Bindings and facts of a ground term, a line each."""
    lines = []
    if term.bindings:
        lines.append(", ".join(f"{name} = {constant!r}" for name, constant in term.bindings.items()))
    if term.facts:
        more = len(term.facts) - _MOST_FACTS
        listed = ", ".join(f"{atom} = {truth:.4g}" for atom, truth in term.facts[:_MOST_FACTS])
        lines.append(f"facts: {listed}" + (f" and {more} more" if more > 0 else ""))
    return lines
