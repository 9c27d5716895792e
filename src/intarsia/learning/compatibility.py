"""Known results on pairs of learner and inference method: proven, heuristic, or known to fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from intarsia._core.error_context import warn_caller
from intarsia.exceptions import CompatibilityWarning
from intarsia.inference import InferenceMethod
from intarsia.learning.examples import Example
from intarsia.learning.learner import Learner

if TYPE_CHECKING:
    pass

GUARANTEED, HEURISTIC, FAILS, REFUSED = "guaranteed", "heuristic", "known to fail", "refused"
FOREST, LOOPS = "no loops", "loops"
LAYER = "torch_layer"
"""Name of `intarsia.torch.MarginalLayer` in the compatibility table, where it takes the place of a learner."""


@dataclass(frozen=True)
class Penalty:
    """Known result on a learner with an inference method.

    Attributes
    ----------
    level : {"guaranteed", "heuristic", "known to fail", "refused"}
        How well they work together.
    reason : str
        Reason for that level.
    reference : str
        Author-year key of the publication that shows it, or an empty string.
    """

    level: str
    reason: str
    reference: str = ""


def judge(learner: type[Learner], method: type[InferenceMethod], model: str = LOOPS) -> Penalty:
    """Return the known result on a learner with an inference method, from what their classes declare.

    Parameters
    ----------
    learner : type
        Class of the learner; `learns_from` states which result of the inference it uses.
    method : type
        Class of the inference method; `exact`, `proves_map`, `map_is`, `limited_to`, `gives_map`, `gives_marginals` and
        `differentiable` state its guarantees.
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
    if method.limited_to == FOREST and model == LOOPS:
        return Penalty(REFUSED, "it takes only graphs without loops")
    if not learner.asks_inference:
        if not method.gives_map:
            return Penalty(REFUSED, "it finds no best labelling")
        return Penalty(
            HEURISTIC,
            "the weights are learned without it: they rank neighbouring labellings, not those that it returns",
        )
    if learner.learns_from == "best labelling":
        return _judge_margin(method, model)
    return _judge_risk(method)


def _judge_margin(method: type[InferenceMethod], model: str) -> Penalty:
    """Return the known result for a learner that compares the truth with the best labelling."""
    if not method.gives_map:
        return Penalty(REFUSED, "it finds no best labelling")
    if method.exact or method.proves_map:
        limit = f", while weights keep the model {method.limited_to}" if method.limited_to not in ("", FOREST) else ""
        reason = f"it finds the best labelling: finitely many mistakes on separable data{limit}"
        return Penalty(GUARANTEED, reason, "Collins2002")
    if method.map_is == "relaxed optimum":
        return Penalty(
            GUARANTEED,
            "it maximizes over the local polytope, whose fractional vertices count as further labellings: finitely "
            "many mistakes on algorithmically separable data, and a bound on the risk otherwise",
            "Kulesza2007",
        )
    if method.map_is == "loopy fixed point":
        if model == FOREST:
            return Penalty(GUARANTEED, "without loops, messages find the best labelling", "Pearl1988")
        return Penalty(
            FAILS,
            "messages pass around loops and count evidence twice, so that a step towards the truth can make the "
            "predictions worse, pass after pass, although weights without mistakes exist",
            "Kulesza2007",
        )
    reason = "its labelling need not be the best: a mistake may come from the inference, not from the weights"
    return Penalty(HEURISTIC, reason)


def _judge_risk(method: type[InferenceMethod]) -> Penalty:
    """Return the known result for a learner that minimizes a loss of marginals."""
    if not method.gives_marginals:
        return Penalty(REFUSED, "it computes no marginals")
    if method.differentiable:
        reason = "the gradient is that of the loss of these marginals, so that steps lower the measured loss"
        return Penalty(GUARANTEED, reason, "Domke2013")
    if method.exact:
        reason = "exact marginals are the gradient of the likelihood, which is concave"
        return Penalty(GUARANTEED, reason, "Lafferty2001")
    return Penalty(HEURISTIC, "it has no gradient rule; with a likelihood its marginals replace the exact ones")


def judge_layer(method: type[InferenceMethod], model: str = LOOPS) -> Penalty:
    """Return the known result on an inference method inside a network, as the layer `intarsia.torch.MarginalLayer`.

    Examples
    --------
    >>> from intarsia.inference.messages.belief_propagation import BeliefPropagation
    >>> from intarsia.inference.sampling.gibbs import Gibbs
    >>> judge_layer(BeliefPropagation).level, judge_layer(Gibbs).level
    ('guaranteed', 'refused')
    """
    if method.limited_to == FOREST and model == LOOPS:
        return Penalty(REFUSED, "it takes only graphs without loops")
    if not method.gives_marginals:
        return Penalty(REFUSED, "it computes no marginals")
    if method.exact:
        reason = "the backward pass multiplies by the covariance of the statistics, which is exact"
        return Penalty(GUARANTEED, reason, "Wainwright2008")
    if method.differentiable:
        return Penalty(GUARANTEED, "the backward pass is the gradient of these marginals", "Domke2013")
    if method.name.startswith("bethe_"):
        reason = "the backward pass solves the optimality conditions of the projection, for theta and for psi"
        return Penalty(GUARANTEED, reason, "Vilnis2015")
    return Penalty(REFUSED, "it has no gradient rule")


def judge_energies(method: type[InferenceMethod]) -> Penalty:
    """Return the known result on learning the weights psi of energies with the projection that predicts.

    Examples
    --------
    >>> from intarsia.inference.projection.bethe_dual import BetheDual
    >>> judge_energies(BetheDual).level
    'heuristic'
    """
    from intarsia.inference.projection.bethe_projection import BetheProjection

    if not issubclass(method, BetheProjection):
        return Penalty(REFUSED, "it takes no energies")
    return Penalty(
        HEURISTIC,
        "the slopes of the energies are constants in its gradient, although they change with the weights; the "
        "point with the lowest risk is returned, which may be the start",
        "Vilnis2015",
    )


def warn_if_known_to_fail(learner: Learner, method: InferenceMethod, examples: Sequence[Example]) -> None:
    """Warn before training if this learner is known to fail with this inference on such graphs."""
    has_loops = any(not example.form.graph.is_forest for example in examples)
    judgement = judge(type(learner), type(method), LOOPS if has_loops else FOREST)
    if judgement.level == FAILS:
        warn_caller(
            f"{type(learner).__name__} with {type(method).__name__} on graphs with loops is known to fail "
            f"({judgement.reference}): {judgement.reason}. Use inference='lp_relaxation', or an exact method such as "
            f"'integer_program'; to keep this inference, use learner='risk_minimizer'. intarsia.diagnose shows whether "
            f"it happens on your data.",
            CompatibilityWarning,
        )
