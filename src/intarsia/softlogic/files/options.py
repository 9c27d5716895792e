"""Options of PSL programs: those that are used, and sentences on those that would change the result in PSL."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from intarsia.exceptions import FileFormatError
from intarsia.softlogic.language.rules import read_rule

_EVALUATION = ("eval.", "discreteevaluator.", "continuousevaluator.", "aucevaluator.", "categoricalevaluator.")
# How PSL stores, logs and writes; none of it changes a result.
_WITHOUT_MEANING = (
    "runtime.db.", "runtime.log.", "runtime.help", "runtime.version", "runtime.output.", "runtime.inference.output.",
    "runtime.inference.commit", "runtime.learn.output.", "runtime.relativebasepath", "parallel.", "random.seed",
    "atomstore.", "memorytermstore.", "memoryvariabletermstore.", "streamingtermstore.", "rdbmsdatabase.", "postgres.",
    "runtimestats.", "grounding.", "inference.normalize", "inference.initialvalue", "executablereasoner.",
)  # fmt: skip
_USED = ("inference.relax", "runtime.inference.clearrules", "runtime.inference", "runtime.learn", "runtime.validation")
_SOLVERS = ("admmreasoner.", "sgd.", "duallcqp.", "reasoner.")
_LEARNERS = ("gradientdescent.", "weightlearning.", "minimizer.", "pairedduallearner.", "gpp", "gridsearch.", "search.",
             "continuousrandomgridsearch.", "guidedrandomgridsearch.", "randomgridsearch.", "hyperband.")  # fmt: skip


def flag(options: Mapping[str, Any], key: str, default: bool, place: str) -> bool:
    """An option that is true or false.

    Examples
    --------
    >>> flag({"inference.relax": "true"}, "inference.relax", False, "model.json: options")
    True
    """
    value = str(options.get(key, default)).lower()
    if value not in ("true", "false"):
        raise FileFormatError(f"{place}: {key} must be true or false, got {options[key]!r:.40}.")
    return value == "true"


def evaluation_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a program that its evaluators read.

    Examples
    --------
    >>> evaluation_options({"eval.closetruth": True, "runtime.log.level": "INFO"})
    {'eval.closetruth': True}
    """
    return {key: value for key, value in options.items() if key.startswith(_EVALUATION)}


def notes_on_options(options: Mapping[str, Any], phase: str, place: str) -> list[str]:
    """Sentences on the options that PSL would use and we do not.

    Examples
    --------
    >>> notes_on_options({"inference.skip": "true"}, "infer", "model.json: options")
    ["model.json: options: inference.skip='true' is not used: the optimum is computed, as PSL does without it."]
    """
    notes = []
    solvers = [key for key in options if key.startswith(_SOLVERS)]
    learners = [key for key in options if key.startswith(_LEARNERS)]
    for key, value in options.items():
        begin = f"{place}: {key}={value!r:.80} is not used"
        if key == "runtime.inference.method":
            if not str(value).endswith("ADMMInference"):
                notes.append(f"{begin}: the optimum is found by ConsensusADMM, to a proven tolerance.")
        elif key == "runtime.learn.method":
            notes.append(f"{begin}: choose how weights are learned with learner= (--learner), such as 'perceptron'.")
        elif key == "inference.skip":
            if flag(options, key, False, place):
                notes.append(f"{begin}: the optimum is computed, as PSL does without it.")
        elif key == "pam.throw":
            if not flag(options, key, True, place):
                notes.append(
                    f"{begin}: pass missing='zero' (--missing zero) to take missing atoms as false, as it says."
                )
        elif key.startswith("inference.relax") and phase != "infer":
            notes.append(f"{begin} in learning: hard rules stay hard.")
        elif not key.startswith((*_EVALUATION, *_WITHOUT_MEANING, *_USED, *_SOLVERS, *_LEARNERS)):
            notes.append(f"{begin}.")
    if solvers:
        notes.append(
            f"{place}: {_listed(solvers)}: settings of PSL's solvers are not used. See ConsensusADMM for its own."
        )
    if learners:
        notes.append(f"{place}: {_listed(learners)}: settings of PSL's learners are not used. See learner= for ours.")
    return notes


def relaxed(texts: Sequence[str], options: Mapping[str, Any], place: str) -> list[str]:
    """Texts of rules of which the hard ones are weighted, where the option `inference.relax` asks for it.

    PSL divides the weights by the largest (unless `inference.normalize` is false), then gives hard rules
    `inference.relax.multiplier` times the largest weight, at least 1, and squares them unless
    `inference.relax.squared` is false. Here the weights stay as they are, and those of hard rules follow them.

    Examples
    --------
    >>> relaxed(["2: !P(X)", "P(X) = 1 ."], {"inference.relax": True}, "model.json: options")
    ['2: !P(X)', '200: P(X) = 1 ^2']
    """
    if not flag(options, "inference.relax", False, place):
        return list(texts)
    rules = [read_rule(text, dialect="psl") for text in texts]
    key = "inference.relax.multiplier"
    try:
        multiplier = float(options.get(key, 100.0))
    except (TypeError, ValueError):
        multiplier = math.nan
    if not 0.0 <= multiplier < math.inf:
        raise FileFormatError(f"{place}: {key} must be a number of at least 0, got {options[key]!r:.40}.")
    largest = max((rule.weight for rule in rules if rule.weight is not None), default=0.0)
    unit = largest if flag(options, "inference.normalize", True, place) and largest > 0.0 else 1.0
    weight = unit * max(1.0, multiplier * largest / unit)
    power = " ^2" if flag(options, "inference.relax.squared", True, place) else ""
    return [
        f"{weight:.17g}: {rule.text.rstrip().removesuffix('.').rstrip()}{power}" if rule.weight is None else rule.text
        for rule in rules
    ]


def _listed(names: list[str]) -> str:
    more = len(names) - 3
    return ", ".join(names[:3]) + (f" and {more} more" if more > 0 else "")
