"""Options of PSL programs: options that are used, and notes on those that would change a result in PSL."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from intarsia.exceptions import FileFormatError
from intarsia.softlogic.language.rules import read_rule

_EVALUATION = ("eval.", "discreteevaluator.", "continuousevaluator.", "aucevaluator.", "categoricalevaluator.")
# Options for storage, logging and output, which do not change a result.
_WITHOUT_EFFECT = (
    "runtime.db.", "runtime.log.", "runtime.help", "runtime.version", "runtime.output.", "runtime.inference.output.",
    "runtime.inference.commit", "runtime.learn.output.", "runtime.relativebasepath", "parallel.", "random.seed",
    "atomstore.", "memorytermstore.", "memoryvariabletermstore.", "streamingtermstore.", "rdbmsdatabase.", "postgres.",
    "runtimestats.", "grounding.", "inference.normalize", "executablereasoner.",
)  # fmt: skip
_USED = ("inference.relax", "runtime.inference.clearrules", "runtime.inference", "runtime.learn", "runtime.validation")
_SOLVERS = ("admmreasoner.", "sgd.", "duallcqp.", "reasoner.")
_LEARNERS = ("gradientdescent.", "weightlearning.", "minimizer.", "pairedduallearner.", "gpp", "gridsearch.", "search.",
             "continuousrandomgridsearch.", "guidedrandomgridsearch.", "randomgridsearch.", "hyperband.")  # fmt: skip


def flag(options: Mapping[str, Any], key: str, default: bool, place: str) -> bool:
    """Return the value of a boolean option.

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
    """Return the options of a program that its evaluators use.

    Examples
    --------
    >>> evaluation_options({"eval.closetruth": True, "runtime.log.level": "INFO"})
    {'eval.closetruth': True}
    """
    return {key: value for key, value in options.items() if key.startswith(_EVALUATION)}


def notes_on_options(options: Mapping[str, Any], phase: str, place: str) -> list[str]:
    """Return notes on the options that PSL would use and that are ignored.

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
                notes.append(f"{begin}: ConsensusADMM computes the optimum, to a proven tolerance.")
        elif key == "runtime.learn.method":
            notes.append(f"{begin}: choose the learner with learner= (--learner), such as 'perceptron'.")
        elif key == "inference.initialvalue":
            notes.append(f"{begin}: inference starts at 1/2, and the optimum does not depend on the start.")
        elif key == "runtime.inference.output.groundrules":
            notes.append(f"{begin}: use InferredAtoms.explain to list the ground rules of an atom.")
        elif key == "inference.skip":
            if flag(options, key, False, place):
                notes.append(f"{begin}: the optimum is computed, as PSL does without it.")
        elif key == "pam.throw":
            if not flag(options, key, True, place):
                notes.append(f"{begin}: pass missing='zero' (--missing zero) to treat missing atoms as false.")
        elif key.startswith("inference.relax") and phase != "infer":
            notes.append(f"{begin} in learning: hard rules stay hard.")
        elif not key.startswith((*_EVALUATION, *_WITHOUT_EFFECT, *_USED, *_SOLVERS, *_LEARNERS)):
            notes.append(f"{begin}.")
    if solvers:
        notes.append(
            f"{place}: {_shortened(solvers)}: settings of PSL's solvers are not used. Set those of ConsensusADMM."
        )
    if learners:
        notes.append(f"{place}: {_shortened(learners)}: settings of PSL's learners are not used. Set learner= instead.")
    return notes


def relaxed(texts: Sequence[str], options: Mapping[str, Any], place: str) -> list[str]:
    """Return the texts of rules, with weights for hard rules if the option `inference.relax` is true.

    PSL divides the weights by the largest (unless `inference.normalize` is false), then gives hard rules the weight
    `inference.relax.multiplier` times the largest weight, at least 1, and squares them unless
    `inference.relax.squared` is false. This function leaves the weights unchanged and scales those of hard rules
    accordingly.

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


def _shortened(names: list[str]) -> str:
    """Return the first three names and the number of the others."""
    n_others = len(names) - 3
    return ", ".join(names[:3]) + (f" and {n_others} more" if n_others > 0 else "")
