"""Do a learner and an inference method fit? What is proven, what usually works, and what is known to fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from intarsia._core.error_context import warn_caller
from intarsia.exceptions import CompatibilityWarning
from intarsia.inference import InferenceMethod
from intarsia.learning.examples import Example
from intarsia.learning.learner import Learner

GUARANTEED, HEURISTIC, FAILS, REFUSED = "guaranteed", "heuristic", "known to fail", "refused"
FOREST, LOOPS = "no loops", "loops"


@dataclass(frozen=True)
class Judgement:
    """What is known of a learner with an inference method.

    Attributes
    ----------
    level : {"guaranteed", "heuristic", "known to fail", "refused"}
        How well they fit.
    reason : str
        Why.
    reference : str
        Where that is shown; author-year key, or empty.
    """

    level: str
    reason: str
    reference: str = ""


def judge(learner: type[Learner], method: type[InferenceMethod], model: str = LOOPS) -> Judgement:
    """Say how a learner and an inference method fit, from what their classes declare.

    Parameters
    ----------
    learner : type
        Class of the learner; `learns_from` says what it reads of the inference.
    method : type
        Class of the inference method; `exact`, `proves_map`, `map_is`, `only_for`, `gives_map`,
        `gives_marginals` and `differentiable` say what it gives.
    model : {"no loops", "loops"}
        Kind of graph.

    Examples
    --------
    >>> from intarsia.inference.messages.belief_propagation import BeliefPropagation
    >>> from intarsia.learning.structured_perceptron import StructuredPerceptron
    >>> judge(StructuredPerceptron, BeliefPropagation).level
    'known to fail'
    >>> judge(StructuredPerceptron, BeliefPropagation, "no loops").level
    'guaranteed'
    """
    if method.only_for == FOREST and model == LOOPS:
        return Judgement(REFUSED, "it takes only graphs without loops")
    if not learner.asks_inference:
        if not method.gives_map:
            return Judgement(REFUSED, "it finds no best labelling")
        return Judgement(
            HEURISTIC, "the weights are learned without it: they rank neighbours, which need not be its own"
        )
    if learner.learns_from == "best labelling":
        return _judge_margin(method, model)
    return _judge_risk(method)


def _judge_margin(method: type[InferenceMethod], model: str) -> Judgement:
    if not method.gives_map:
        return Judgement(REFUSED, "it finds no best labelling")
    if method.exact or method.proves_map:
        limit = f", while weights keep the model {method.only_for}" if method.only_for not in ("", FOREST) else ""
        reason = f"the best labelling itself: finitely many mistakes on separable data{limit}"
        return Judgement(GUARANTEED, reason, "Collins2002")
    if method.map_is == "relaxed optimum":
        return Judgement(
            GUARANTEED,
            "the maximum over the local polytope, whose fractional vertices count as further labellings: finitely "
            "many mistakes on algorithmically separable data, and a bound on the risk otherwise",
            "Kulesza2007",
        )
    if method.map_is == "loopy fixed point":
        if model == FOREST:
            return Judgement(GUARANTEED, "without loops messages find the best labelling", "Pearl1988")
        return Judgement(
            FAILS,
            "evidence goes round loops and is counted twice, so that a step towards the truth can make the answers "
            "worse, pass after pass, although weights without mistakes exist",
            "Kulesza2007",
        )
    reason = "a labelling that need not be the best: a mistake may be the inference's, not the weights'"
    return Judgement(HEURISTIC, reason)


def _judge_risk(method: type[InferenceMethod]) -> Judgement:
    if not method.gives_marginals:
        return Judgement(REFUSED, "it gives no marginals")
    if method.differentiable:
        reason = "the gradient is that of the loss of these very answers, so steps lower what is measured"
        return Judgement(GUARANTEED, reason, "Domke2013")
    if method.exact:
        reason = "exact marginals are the gradient of the likelihood, which is concave"
        return Judgement(GUARANTEED, reason, "Lafferty2001")
    return Judgement(HEURISTIC, "no gradient rule for it; with a likelihood its marginals stand in for the exact ones")


def warn_if_known_to_fail(learner: Learner, method: InferenceMethod, examples: Sequence[Example]) -> None:
    """Warn before training where the pair is known to fail on such graphs."""
    looped = any(not one.form.graph.is_forest for one in examples)
    found = judge(type(learner), type(method), LOOPS if looped else FOREST)
    if found.level == FAILS:
        warn_caller(
            f"{type(learner).__name__} with {type(method).__name__} on graphs with loops is known to fail "
            f"({found.reference}): {found.reason}. Use inference='lp_relaxation', or an exact one such as "
            f"'integer_program'; to keep this inference, use learner='risk_minimizer'. intarsia.diagnose tells whether "
            f"it happens on these data.",
            CompatibilityWarning,
        )
