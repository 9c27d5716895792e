"""A `SoftLogic` model as a file, and back: predicates and rules as text, data as numbers of constants."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from intarsia._files.saved_model import (
    Arrays,
    Content,
    check_json,
    course_from_file,
    course_to_file,
    finite_array,
    index_array,
)
from intarsia._files.tables import TableKind
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.grounding.tables import AtomRows
from intarsia.softlogic.language.rules import read_rule
from intarsia.softlogic.language.syntax import Rule
from intarsia.softlogic.learning.learner import LearnedWeights
from intarsia.softlogic.program import ROLES, Evaluation, Program


def soft_logic_to_file(program: Program, learned: LearnedWeights | None) -> Content:
    """A program with its data, and what was learned."""
    about, arrays = _program_to_file(program)
    if learned is not None:
        about["learned"], histories = course_to_file(learned.n_iter, learned.status, learned.history)
        about["learned"]["n_admm_iter"] = int(learned.n_admm_iter)
        arrays |= {**histories, "weights": learned.weights, "latent": learned.latent}
    return about, arrays


def soft_logic_from_file(about: dict[str, Any], arrays: Arrays) -> tuple[Program, LearnedWeights | None]:
    """What `soft_logic_to_file` was given; everything is checked before it is used."""
    program = _program_from_file(about, arrays)
    if "learned" not in about:
        return program, None
    weights = finite_array(arrays, "weights", (len(program.rules),))
    if (weights < 0.0).any():
        raise ValueError("weights")
    n_iter, status, history = course_from_file(about["learned"], arrays)
    latent = finite_array(arrays, "latent", (arrays["latent"].size,))
    return program, LearnedWeights(weights, status, n_iter, int(about["learned"]["n_admm_iter"]), latent, history)


def _program_to_file(program: Program) -> Content:
    evaluations = [[one.predicate, one.evaluator, dict(one.options)] for one in program.evaluations]
    for name, value in (("options", program.options), ("evaluations", evaluations), ("notes", program.notes)):
        check_json(value, f"{name} of the program")
    for rule in program.rules:
        if _rule(rule.text, rule.weight, program.dialect) != rule:
            raise InvalidInputError(
                f"the rule {rule.text!r:.120} does not say what its text says. Make it with read_rule."
            )
    about: dict[str, Any] = {
        "dialect": program.dialect,
        "predicates": [[one.name, one.n_arguments, one.closed, one.types] for one in program.predicates],
        "rules": [[rule.text, rule.weight] for rule in program.rules],
        "constants": program.constants.names,
        "evaluations": evaluations,
        "options": program.options,
        "program_notes": program.notes,
        "backend": None if program.backend is None else [program.backend.name, program.backend.lazy],
        "data": [],
    }
    arrays: Arrays = {}
    for predicate in program.predicates:
        for role in ROLES:
            tables = program.data(predicate.name, role)
            if tables:
                place = f"data_{len(about['data'])}"
                about["data"].append([predicate.name, role])
                arrays[f"{place}_arguments"] = np.concatenate([rows.arguments for rows in tables])
                arrays[f"{place}_values"] = np.concatenate([rows.values for rows in tables])
    return about, arrays


def _program_from_file(about: dict[str, Any], arrays: Arrays) -> Program:
    program = Program(dialect=about["dialect"])
    for name, n_arguments, closed, types in about["predicates"]:
        if closed not in (None, True, False):
            raise ValueError("closed")
        program.predicate(name, n_arguments, closed, types)
    for text, weight in about["rules"]:
        program.rule(_rule(text, weight, program.dialect))
    constants = about["constants"]
    if not all(isinstance(name, str) for name in constants) or len(set(constants)) != len(constants):
        raise ValueError("constants")
    program.constants.numbers(constants, "constants")
    program.evaluations = [Evaluation(str(name), str(kind), options) for name, kind, options in about["evaluations"]]
    program.options, program.notes = dict(about["options"]), [str(note) for note in about["program_notes"]]
    program.backend = (
        None if about["backend"] is None else TableKind(str(about["backend"][0]), bool(about["backend"][1]))
    )
    for k, (name, role) in enumerate(about["data"]):
        arguments = index_array(arrays, f"data_{k}_arguments", len(constants))
        values = finite_array(arrays, f"data_{k}_values", (len(arguments),))
        if arguments.shape != (len(values), program.find_predicate(name).n_arguments):
            raise ValueError("arguments")
        if (values < 0.0).any() or (values > 1.0).any():
            raise ValueError("values")
        program.add_rows(name, role, AtomRows(arguments.astype(np.int32), values))
    return program


def _rule(text: str, weight: float | None, dialect: str) -> Rule:
    """A rule of a text, with a weight that may be another than the text's."""
    rule = read_rule(text, dialect=dialect)
    if (rule.weight is None) != (weight is None) or (weight is not None and not 0.0 <= float(weight) < np.inf):
        raise ValueError("weight")
    return replace(rule, weight=weight)
