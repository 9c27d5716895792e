"""Saving and loading of `SoftLogic` models: predicates and rules as text, data as numbers of constants."""

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
from intarsia.softlogic.grounding.tables import AtomRows, common_columns
from intarsia.softlogic.language.rules import read_rule
from intarsia.softlogic.language.syntax import Rule
from intarsia.softlogic.learning.learner import LearnedWeights
from intarsia.softlogic.program import ROLES, Evaluation, Program


def soft_logic_to_file(program: Program, result: LearnedWeights | None) -> Content:
    """Return the file content of a program with its data, and of the learned weights."""
    document, arrays = _program_to_file(program)
    if result is not None:
        document["learned"], histories = course_to_file(result.n_iter, result.status, result.history)
        document["learned"]["n_admm_iter"] = int(result.n_admm_iter)
        arrays |= {**histories, "weights": result.weights, "latent": result.latent}
    return document, arrays


def soft_logic_from_file(document: dict[str, Any], arrays: Arrays) -> tuple[Program, LearnedWeights | None]:
    """Return the program and the learned weights of a file, after checking its content."""
    program = _program_from_file(document, arrays)
    if "learned" not in document:
        return program, None
    weights = finite_array(arrays, "weights", (len(program.rules),))
    if (weights < 0.0).any():
        raise ValueError("weights")
    n_iter, status, history = course_from_file(document["learned"], arrays)
    latent = finite_array(arrays, "latent", (arrays["latent"].size,))
    return program, LearnedWeights(weights, status, n_iter, int(document["learned"]["n_admm_iter"]), latent, history)


def _program_to_file(program: Program) -> Content:
    """Return the file content of a program."""
    evaluations = [[item.predicate, item.evaluator, dict(item.options)] for item in program.evaluations]
    for name, value in (("options", program.options), ("evaluations", evaluations), ("notes", program.notes)):
        check_json(value, f"{name} of the program")
    for rule in program.rules:
        if _rule(rule.text, rule.weight, program.dialect) != rule:
            raise InvalidInputError(
                f"the rule {rule.text!r:.120} differs from its text, so it cannot be saved. Create it with read_rule."
            )
    document: dict[str, Any] = {
        "dialect": program.dialect,
        "predicates": [[item.name, item.n_arguments, item.closed, item.types] for item in program.predicates],
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
                key = f"data_{len(document['data'])}"
                document["data"].append([predicate.name, role, common_columns(tables, predicate.n_arguments)])
                arrays[f"{key}_arguments"] = np.concatenate([rows.arguments for rows in tables])
                arrays[f"{key}_values"] = np.concatenate([rows.values for rows in tables])
    return document, arrays


def _program_from_file(document: dict[str, Any], arrays: Arrays) -> Program:
    """Return the program of a file, after checking its content."""
    program = Program(dialect=document["dialect"])
    for name, n_arguments, closed, types in document["predicates"]:
        if closed not in (None, True, False):
            raise ValueError("closed")
        program.predicate(name, n_arguments, closed, types)
    for text, weight in document["rules"]:
        program.rule(_rule(text, weight, program.dialect))
    constants = document["constants"]
    if not all(isinstance(name, str) for name in constants) or len(set(constants)) != len(constants):
        raise ValueError("constants")
    program.constants.numbers(constants, "constants")
    program.evaluations = [Evaluation(str(name), str(kind), options) for name, kind, options in document["evaluations"]]
    program.options, program.notes = dict(document["options"]), [str(note) for note in document["program_notes"]]
    program.backend = (
        None if document["backend"] is None else TableKind(str(document["backend"][0]), bool(document["backend"][1]))
    )
    for k, (name, role, columns) in enumerate(document["data"]):
        arguments = index_array(arrays, f"data_{k}_arguments", len(constants))
        values = finite_array(arrays, f"data_{k}_values", (len(arguments),))
        if arguments.shape != (len(values), program.find_predicate(name).n_arguments):
            raise ValueError("arguments")
        if (values < 0.0).any() or (values > 1.0).any():
            raise ValueError("values")
        described = tuple((str(column), np.dtype(kind).str if kind else "") for column, kind in columns)
        is_integer = [not kind or np.dtype(kind).kind in "iu" for _, kind in described]
        if len(described) != arguments.shape[1] or not all(is_integer):
            raise ValueError("columns")
        program.add_rows(name, role, AtomRows(arguments.astype(np.int32), values, described))
    return program


def _rule(text: str, weight: float | None, dialect: str) -> Rule:
    """Parse a rule and set its weight, which may differ from that in the text."""
    rule = read_rule(text, dialect=dialect)
    if (rule.weight is None) != (weight is None) or (weight is not None and not 0.0 <= float(weight) < np.inf):
        raise ValueError("weight")
    return replace(rule, weight=weight)
