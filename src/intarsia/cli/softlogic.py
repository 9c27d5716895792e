"""`intarsia softlogic`: run PSL programs, learn the weights of their rules, explain inferred values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from intarsia.cli.output import check_folder, check_folder_of, console, note, number, warnings_on_stderr, write_json
from intarsia.cli.running import parse_settings
from intarsia.exceptions import InvalidInputError

if TYPE_CHECKING:
    from intarsia.softlogic.explain import Explanation, TermForce
    from intarsia.softlogic.inferred import InferredAtoms
    from intarsia.softlogic.learning.learner import HingeLearner

_MAX_ATOMS = 20  # printed for each predicate

_Program = Annotated[
    Path, typer.Argument(help="PSL program: PSL 3 JSON or YAML, or a PSL 2 rule file (.psl).", show_default=False)
]
_Data = Annotated[
    Path | None,
    typer.Option(
        help="Folder of the data files; by default the paths in the program. For PSL 2 rules: the .data file, such "
        "as NAME-eval.data."
    ),
]
_Missing = Annotated[
    str, typer.Option(help="How to treat atoms that are neither observed nor targets: error, or zero (false).")
]
_Setting = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Setting of ConsensusADMM, such as tol=1e-6; repeat for several."),
]
_TimeLimit = Annotated[float | None, typer.Option(help="Seconds for the optimization.")]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
_MAX_FACTS = 5  # printed for each ground term


def infer_command(
    program: _Program,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Folder for the inferred atoms, one file per predicate. By default no file is written.",
        ),
    ] = None,
    data: _Data = None,
    missing: _Missing = "error",
    setting: _Setting = None,
    time_limit: _TimeLimit = None,
    json: _Json = False,
) -> None:
    """Infer the values of the target atoms of a PSL program (MAP inference by ADMM).

    With `--output`, atoms are written in PSL's format: arguments and value, separated by tabs. Without it, the first
    atoms are printed and no file is written.

    Example: `intarsia softlogic infer simple-acquaintances.json --output inferred-predicates`
    """
    check_folder(output)
    inferred = _inferred(program, data, missing, setting, time_limit)
    scores = inferred.evaluate()
    files = [] if output is None else inferred.write(output)
    result, grounding = inferred.result, inferred.grounding
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
        # The folder if there are several predicates (one file each); null without --output.
        "atoms_file": None if output is None else str(files[0] if len(files) == 1 else output),
    }
    if json:
        write_json(document)
    else:
        _show_inferred(inferred, document, scores)
        for file in files:
            typer.echo(f"Atoms: {file}")
        if output is None:
            _show_atoms(inferred)


def _show_inferred(inferred: InferredAtoms, document: dict[str, Any], scores: Any) -> None:
    result, grounding = inferred.result, inferred.grounding
    _show_rules(inferred)
    typer.echo(
        f"\n{document['n_atoms']} atoms, {document['n_terms']} terms, {document['n_constraints']} constraints in "
        f"{grounding.seconds:.2f} s. Objective {number(result.objective, 8)}; {result.status.name} after "
        f"{result.n_iter} iterations, {result.seconds:.2f} s; constraints hold to {result.max_violation:.1g}."
    )
    for predicate, by_evaluator in scores.items():
        for evaluator, values in by_evaluator.items():
            values_text = ", ".join(f"{name} {number(value, 4)}" for name, value in values.items())
            typer.echo(f"{predicate}, {evaluator}: {values_text}")


def _show_atoms(inferred: InferredAtoms) -> None:
    """Print the first atoms of each predicate and how to write all of them."""
    atoms = inferred.grounding.atoms
    for name in inferred.predicates:
        values = inferred.x[atoms.variables(name)]
        for k in range(min(_MAX_ATOMS, values.size)):
            constants = ", ".join(repr(str(column[k])) for column in atoms.columns(name))
            typer.echo(f"{name}({constants}) = {number(float(values[k]), 4)}")
        if values.size > _MAX_ATOMS:
            typer.echo(f"... and {values.size - _MAX_ATOMS} more atoms of {name}")
    typer.echo("No file was written. Use --output FOLDER to write all atoms.")


def learn_command(
    program: _Program,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File for the program with learned weights. By default the weights are only printed."
        ),
    ] = None,
    learner: Annotated[str, typer.Option(help="Learner, such as paired_dual or pseudo_likelihood.")] = "paired_dual",
    data: _Data = None,
    missing: _Missing = "error",
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Setting of the learner or its optimizer, such as max_iter=500; repeat for several.",
        ),
    ] = None,
    validation: Annotated[
        float | None,
        typer.Option(
            metavar="FRACTION",
            help="Fraction of the true values to hold out, such as 0.1; learning stops where their score is best.",
        ),
    ] = None,
    scoring: Annotated[
        str, typer.Option(help="Score of --validation: neg_mean_squared_error, auroc, auprc or auprc_negative.")
    ] = "neg_mean_squared_error",
    json: _Json = False,
) -> None:
    """Learn the rule weights of a PSL program from the truth files of its learning phase.

    Example: `intarsia softlogic learn simple-acquaintances.json --learner pseudo_likelihood --output learned.json`
    """
    import time

    from intarsia.softlogic.files.psl import read_psl, write_learned
    from intarsia.softlogic.soft_logic import SoftLogic

    start_time = time.perf_counter()
    hinge_learner = _learner(learner, parse_settings(setting or []))
    check_folder_of(output)
    _check_data(data)
    with warnings_on_stderr() as messages:
        loaded = read_psl(program, phase="learn", data=data)
        model = SoftLogic(loaded, learner=hinge_learner, missing=missing).fit(validation=validation, scoring=scoring)
    for line in loaded.notes:
        if line not in messages:
            note(line)
    if output is not None:
        write_learned(program, model.rules_, output, data)
        if output.resolve().parent != program.resolve().parent:
            note(
                f"{output.name}: paths of data files are relative to {program.parent}. Pass their folder with --data "
                f"when you use this program."
            )
    learning = model.learning_result_
    document = {
        "file": None if output is None else str(output),
        "n": int(sum(rule.weight is not None for rule in loaded.rules)),
        "seconds": time.perf_counter() - start_time,
        "learner": learner,
        "status": learning.status.name,
        "n_updates": learning.n_iter,
        "n_admm_iter": learning.n_admm_iter,
        "rules": model.rules_,
    }
    if json:
        write_json(document)
    else:
        for rule in model.rules_:
            typer.echo(rule)
        typer.echo(
            f"\n{learning.status.name} after {learning.n_iter} updates and {learning.n_admm_iter} ADMM iterations, "
            f"{document['seconds']:.2f} s."
        )
        typer.echo(f"Program: {output}" if output else "No file was written. Use --output FILE to write the program.")


def explain_command(
    program: _Program,
    atom: Annotated[
        str,
        typer.Argument(help="Target or latent atom, such as \"Knows('0', '7')\" or Knows(0,7).", show_default=False),
    ],
    terms: Annotated[int, typer.Option(help="Number of ground terms to list for each rule.")] = 3,
    data: _Data = None,
    missing: _Missing = "error",
    setting: _Setting = None,
    time_limit: _TimeLimit = None,
    json: _Json = False,
) -> None:
    """Explain the inferred value of an atom: which ground rules pull it up or down, how strongly, from which data.

    The pull of a term is its weight times the slope of its hinge; that of a hard constraint is its multiplier. A
    positive pull raises the value, a negative one lowers it. All pulls, those of the bounds 0 and 1 included, sum to 0.

    Example: `intarsia softlogic explain simple-acquaintances.json "Knows(0, 7)"`
    """
    from intarsia._core.validation import check_number
    from intarsia.softlogic.language.rules import read_ground_atom
    from intarsia.softlogic.language.syntax import Constant

    check_number(terms, "--terms", low=0, integer=True)
    ground_atom = read_ground_atom(atom)
    inferred = _inferred(program, data, missing, setting, time_limit)
    explanation = inferred.explain(
        ground_atom.predicate,
        *(term.value for term in ground_atom.arguments if isinstance(term, Constant)),
        n_terms=terms,
    )
    if json:
        write_json(explanation.as_dict())
        return
    _show_explanation(explanation)


def _inferred(
    path: Path, data: Path | None, missing: str, setting: list[str] | None, time_limit: float | None
) -> InferredAtoms:
    """Read a program and infer its targets; notes and warnings go to stderr."""
    from intarsia._core.validation import check_choice
    from intarsia.softlogic.admm.consensus import ConsensusADMM
    from intarsia.softlogic.files.psl import read_psl
    from intarsia.softlogic.soft_logic import SoftLogic

    settings = parse_settings(setting or [])
    for key in settings:
        check_choice(key, ConsensusADMM._get_param_names(), "ConsensusADMM: setting")
    _check_data(data)
    with warnings_on_stderr() as messages:
        loaded = read_psl(path, data=data)
        inferred = SoftLogic(loaded, inference=ConsensusADMM(**settings), missing=missing).infer(time_limit=time_limit)
    for line in [*loaded.notes, *inferred.grounding.notes()]:
        if line not in messages:
            note(line)
    if not inferred.result.converged and inferred.result.note:
        note(inferred.result.note)
    return inferred


def _check_data(data: Path | None) -> None:
    """Raise unless `data` is a folder or a .data file."""
    if data is None or data.is_dir() or (data.suffix.lower() == ".data" and data.is_file()):
        return
    raise InvalidInputError(
        f"--data {data} is neither a folder nor a .data file. Pass the folder of the data files or, for PSL 2 rules, "
        f"the .data file."
    )


def _learner(name: str, settings: dict[str, Any]) -> HingeLearner:
    """Return the learner, with the settings of its optimizer taken from the same list."""
    from intarsia._core.validation import check_choice
    from intarsia.softlogic.learning.projected_subgradient import ProjectedSubgradient
    from intarsia.softlogic.learning.registry import HINGE_LEARNERS

    names = [key for key in HINGE_LEARNERS.get(name)._get_param_names() if key not in ("optimizer", "inference")]
    has_optimizer = "optimizer" in HINGE_LEARNERS.get(name)._get_param_names()
    of_optimizer = ProjectedSubgradient._get_param_names() if has_optimizer else []
    for key in settings:
        check_choice(key, [*names, *of_optimizer], f"{name}: setting")
    parameters = {key: value for key, value in settings.items() if key in names}
    if has_optimizer:
        parameters["optimizer"] = ProjectedSubgradient(
            **{key: value for key, value in settings.items() if key not in names}
        )
    return HINGE_LEARNERS.get(name)(**parameters)


def _show_rules(inferred: InferredAtoms) -> None:
    """Print a table with the numbers of groundings, terms and constraints of each rule."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for title in ("groundings", "trivial", "terms", "constraints", "rule"):
        table.add_column(title, justify="left" if title == "rule" else "right", overflow="fold")
    for report in inferred.grounding.reports:
        counts = (report.n_groundings, report.n_constant + report.n_satisfied, report.n_terms, report.n_constraints)
        table.add_row(*map(str, counts), escape(report.rule))
    console().print(table)


def _show_explanation(explanation: Explanation) -> None:
    """Print the forces of rules, terms, constraints and bounds on an atom."""
    from rich.markup import escape
    from rich.table import Table

    typer.echo(f"{explanation.atom} = {number(explanation.value, 4)}\n")
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for title in ("force", "reserve", "terms", "active", "rule and its strongest terms"):
        table.add_column(title, justify="left" if title.startswith("rule") else "right", overflow="fold")
    for rule in explanation.rules:
        cells: list[Any] = [f"{rule.force:+.4g}", f"{rule.reserve:.4g}", rule.n_terms, rule.n_active, rule.rule]
        table.add_row(*(escape(str(cell)) for cell in cells), style="bold")
        for term in rule.terms:
            if term.force:
                lines = [f"{term.text} = {term.value:.4g}", *_origin(term)]
                table.add_row(f"{term.force:+.4g}", "", "", "", escape("\n  ".join(lines)))
    console().print(table)
    for constraint in explanation.constraints:
        force = "" if constraint.force != constraint.force else f", force {constraint.force:+.4g}"
        typer.echo(f"Constraint: {constraint.text} (left side {constraint.value:.2g}){force}")
        for line in [f"from {constraint.rule}", *_origin(constraint)]:
            typer.echo(f"  {line}")
    if explanation.bound:
        typer.echo(f"Bound: {round(explanation.value)} holds the atom with a force of {explanation.bound:+.4g}")
    if explanation.imbalance == explanation.imbalance:
        typer.echo(f"Sum of all pulls: {explanation.imbalance:+.2g}")


def _origin(term: TermForce) -> list[str]:
    """Return the variable bindings and the facts of a ground term as lines of text."""
    lines = []
    if term.bindings:
        lines.append(", ".join(f"{name} = {constant!r}" for name, constant in term.bindings.items()))
    if term.facts:
        n_hidden = len(term.facts) - _MAX_FACTS
        facts = ", ".join(f"{atom} = {value:.4g}" for atom, value in term.facts[:_MAX_FACTS])
        lines.append(f"facts: {facts}" + (f" and {n_hidden} more" if n_hidden > 0 else ""))
    return lines
