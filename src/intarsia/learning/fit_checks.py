"""What must hold of examples, loss, inference and gradient rule before a fit, and what is told after it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from intarsia._core.error_context import warn_caller
from intarsia._core.validation import FloatArray, as_float_array
from intarsia.exceptions import ConvergenceWarning, InvalidInputError, NotSupportedError
from intarsia.gradients import GradientRule
from intarsia.gradients.truncated import TruncatedGradient
from intarsia.inference import InferenceMethod
from intarsia.learning.examples import Example
from intarsia.learning.minimum import Minimum
from intarsia.learning.risk import Risk
from intarsia.losses import Loss, MarginalLoss
from intarsia.losses.likelihood import LogPartitionLoss


def check_labelled(examples: Sequence[Example]) -> None:
    """Raise where there is nothing to learn from, or the examples are not of one model."""
    if len(examples) == 0:
        raise InvalidInputError("RiskMinimizer: no examples. Give at least one labelled graph.")
    counts = [e.scores.n_weights for e in examples]
    if not any(e.n_labelled for e in examples):
        raise InvalidInputError(
            f"RiskMinimizer: all labels of the {len(examples)} examples are hidden. Label some variables."
        )
    if not any(e.mass > 0.0 for e in examples):
        raise InvalidInputError("RiskMinimizer: every labelled example has a weight of 0. Give some more than 0.")
    if len(set(counts)) > 1:
        odd = next(i for i, count in enumerate(counts) if count != counts[0])
        raise InvalidInputError(
            f"RiskMinimizer: example {odd} needs {counts[odd]} weights, but example 0 needs {counts[0]}. Give all "
            f"examples the same states and the same number of features."
        )


def check_fits(examples: Sequence[Example], loss: Loss, method: InferenceMethod, rule: GradientRule | None) -> None:
    """Raise where loss, inference and gradient rule do not fit each other, or the loss not the labels."""
    if rule is not None:
        rule.check_settings()
        rule.check_loss(loss)
        rule.check_fits(method)
    for one in examples:
        loss.check_fits(one.form.graph, method)
    if rule is not None and isinstance(loss, LogPartitionLoss):
        rule.check_fits(loss.methods(method)[0])  # the loss may have an inference of its own
    if isinstance(loss, MarginalLoss) and loss.uses_factors and not any(e.has_labelled_factor for e in examples):
        raise InvalidInputError(
            f"RiskMinimizer: {type(loss).__name__} reads labels of factors, but no factor has labels at all its "
            f"variables. Label neighbours, or use a loss of single variables such as 'univariate_logistic'."
        )


def check_start(start: FloatArray | None, n_weights: int) -> FloatArray:
    """Weights to begin with; 0 where none are given."""
    if start is None:
        return np.zeros(n_weights)
    weights = as_float_array(start, "RiskMinimizer: start")
    if weights.shape != (n_weights,) or not np.isfinite(weights).all():
        raise InvalidInputError(
            f"RiskMinimizer: start has shape {weights.shape}, but {n_weights} finite weights are needed. Give as many, "
            f"or None to begin at 0."
        )
    return weights


def hold_out(
    examples: Sequence[Example], share: float, rng: np.random.Generator
) -> tuple[list[Example], list[Example]]:
    """Examples to learn from, and a share of them at random for early stopping."""
    if len(examples) < 2:
        raise InvalidInputError(
            f"RiskMinimizer: validation_fraction={share} of a single example. Give more examples, or "
            f"validation_fraction=0."
        )
    order = rng.permutation(len(examples))
    cut = min(max(1, round(share * len(examples))), len(examples) - 1)
    held_out, rest = np.sort(order[:cut]), np.sort(order[cut:])
    return [examples[i] for i in rest], [examples[i] for i in held_out]


def check_validation(held_out: list[Example], loss: Loss, n_weights: int) -> None:
    """Raise where these examples cannot decide when to stop a fit of that loss."""
    if not loss.gradient_is_of_value:
        raise NotSupportedError(
            f"RiskMinimizer: early stopping compares values, but a lower one of {type(loss).__name__} is not "
            f"better. Give no validation examples and validation_fraction=0."
        )
    counts = {one.scores.n_weights for one in held_out}
    if counts != {n_weights}:
        raise InvalidInputError(
            f"RiskMinimizer: validation examples need {sorted(counts)} weights, but the others {n_weights}. "
            f"Give all the same features."
        )
    if not any(one.mass > 0.0 for one in held_out):
        raise InvalidInputError(
            f"RiskMinimizer: all labels of the {len(held_out)} validation examples are hidden. Hold out more, or "
            f"give some with labels."
        )


def warn_if_above_one(risk: Risk, found: Minimum) -> None:
    """Warn of a negative log-likelihood below 0, which too few sweeps make possible (Domke2013, section 7.3)."""
    loss = found.value - 0.5 * risk.ridge * float(found.point @ found.point)
    if isinstance(risk.loss, LogPartitionLoss) and isinstance(risk.rule, TruncatedGradient) and loss < 0.0:
        warn_caller(
            f"RiskMinimizer: the truncated likelihood exceeds 1 (its negative logarithm is {loss:.3g} per variable): "
            f"after {risk.rule.n_iter} sweeps log Z is far too low, and the fit made use of that. Raise n_iter of "
            f"TruncatedGradient, raise l2, or use a loss of marginals such as 'clique_logistic'.",
            ConvergenceWarning,
        )
