"""Differentiable functions of chain scores: log Z, negative log-likelihood, and marginals of labels and steps."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from intarsia._core.error_context import errors_from
from intarsia._core.validation import FloatArray, IntArray
from intarsia.exceptions import InvalidInputError
from intarsia.graph.chains import ChainBatch
from intarsia.inference.chains.chain_covariance import covariance_product
from intarsia.inference.chains.chain_inference import chain_log_partition, chain_marginals, path_scores
from intarsia.torch.padding import Padding
from intarsia.torch.tensors import as_tensor, check_tensor

_Gradients = tuple[torch.Tensor | None, ...]


class _Expectations(NamedTuple):
    """Weighted expected label indicators, in the shapes of the four score arguments."""

    nodes: FloatArray
    transitions: FloatArray


def _expectations(batch: ChainBatch, weight: FloatArray) -> tuple[FloatArray, _Expectations]:
    """Return log Z, and its gradient in the scores with a weight for each sequence."""
    if batch.has_table_per_step:
        result = chain_marginals(batch, transitions="steps")
        step_weight = np.repeat(weight, np.diff(batch.ptr) - 1)[:, None, None]
        transitions = step_weight * np.asarray(result.transitions)
    else:
        result = chain_marginals(batch, sequence_weight=weight)
        transitions = np.asarray(result.transitions)
    nodes = result.nodes if (weight == 1.0).all() else result.nodes * np.repeat(weight, np.diff(batch.ptr))[:, None]
    return result.log_partition, _Expectations(nodes, transitions)


def _subtract_indicators(batch: ChainBatch, labels: IntArray, weight: FloatArray, from_: _Expectations) -> None:
    """Subtract the weighted indicators of a complete labelling in place."""
    k, n = batch.n_labels, batch.n_positions
    lengths = np.diff(batch.ptr)
    from_.nodes[np.arange(n), labels] -= np.repeat(weight, lengths)
    is_last = np.zeros(n, dtype=bool)
    is_last[batch.ptr[1:] - 1] = True
    before = np.flatnonzero(~is_last)
    step_weight = np.repeat(weight, lengths - 1)
    if batch.has_table_per_step:
        from_.transitions[np.arange(before.size), labels[before], labels[before + 1]] -= step_weight
    else:
        pairs = labels[before] * k + labels[before + 1]
        from_.transitions[...] -= np.bincount(pairs, step_weight, minlength=k * k).reshape(k, k)


class _Shape(NamedTuple):
    """Padding and the four score tensors, from which the types of gradients are read."""

    padding: Padding
    scores: torch.Tensor
    transitions: torch.Tensor
    start: torch.Tensor | None
    end: torch.Tensor | None

    def gradients(self, expected: _Expectations) -> _Gradients:
        """Return expectations as gradients of the four arguments."""
        padding, ptr = self.padding, self.padding.ptr
        transitions = expected.transitions if self.transitions.ndim == 2 else padding.pad_steps(expected.transitions)
        return (
            as_tensor(padding.pad(expected.nodes), self.scores),
            as_tensor(transitions, self.transitions),
            None if self.start is None else as_tensor(expected.nodes[ptr[:-1]].sum(axis=0), self.start),
            None if self.end is None else as_tensor(expected.nodes[ptr[1:] - 1].sum(axis=0), self.end),
        )


class LogLikelihoodTerms(Function):
    """Log Z of every sequence, minus the log of the total weight of the labellings that the labels allow.

    Without labels only log Z. The gradient is expected indicators under the model, minus those given the labels.
    """

    @staticmethod
    def forward(
        ctx: Any, scores: Any, transitions: Any, start: Any, end: Any, padding: Padding, labels: Any
    ) -> torch.Tensor:
        """Compute the values, and the gradient for equal weights of all sequences if it will be needed."""
        ctx.shape = _Shape(padding, scores.detach(), transitions.detach(), start, end)
        ctx.batch, ctx.labels = padding.batch(scores, transitions, start, end), labels
        ctx.unit = None
        if any(ctx.needs_input_grad):
            values, ctx.unit = LogLikelihoodTerms._evaluate(ctx, np.ones(ctx.batch.n_sequences))
        else:
            values = chain_log_partition(ctx.batch)
            if labels is not None:
                values = values - LogLikelihoodTerms._clamped_values(ctx)
        return as_tensor(padding.by_sequence(values), scores)

    @staticmethod
    def _clamped(ctx: Any) -> ChainBatch:
        """Return the batch in which hidden positions may have every label, and others only their own."""
        allowed = ctx.labels[:, None] < 0
        return ctx.batch.restricted(allowed | (ctx.labels[:, None] == np.arange(ctx.batch.n_labels)))

    @staticmethod
    def _clamped_values(ctx: Any) -> FloatArray:
        if ctx.labels.size and ctx.labels.min() < 0:
            return chain_log_partition(LogLikelihoodTerms._clamped(ctx))
        return path_scores(ctx.batch, ctx.labels)

    @staticmethod
    def _evaluate(ctx: Any, weight: FloatArray) -> tuple[FloatArray, _Expectations]:
        """Return values and the gradient of their weighted sum."""
        values, expected = _expectations(ctx.batch, weight)
        if ctx.labels is None:
            return values, expected
        if ctx.labels.size and ctx.labels.min() < 0:
            clamped_values, clamped = _expectations(LogLikelihoodTerms._clamped(ctx), weight)
            expected = _Expectations(expected.nodes - clamped.nodes, expected.transitions - clamped.transitions)
            return values - clamped_values, expected
        _subtract_indicators(ctx.batch, ctx.labels, weight, expected)
        return values - path_scores(ctx.batch, ctx.labels), expected

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> _Gradients:
        """Return expectations, weighted by the gradient of each value."""
        weight = gradient.detach().to(torch.float64).numpy()[ctx.shape.padding.used]
        if weight.size and (weight == weight[0]).all():
            unit = ctx.unit
            expected = _Expectations(weight[0] * unit.nodes, weight[0] * unit.transitions)
        else:
            expected = LogLikelihoodTerms._evaluate(ctx, np.ascontiguousarray(weight))[1]
        return (*ctx.shape.gradients(expected), None, None)


class Marginals(Function):
    """Marginals of labels (batch, time, labels), and of steps (batch, time - 1, labels, labels) if requested."""

    @staticmethod
    def forward(
        ctx: Any, scores: Any, transitions: Any, start: Any, end: Any, padding: Padding, with_steps: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Run the forward-backward algorithm."""
        ctx.shape = _Shape(padding, scores.detach(), transitions.detach(), start, end)
        ctx.batch, ctx.with_steps = padding.batch(scores, transitions, start, end), with_steps
        result = chain_marginals(ctx.batch, transitions="steps" if with_steps else None)
        nodes = as_tensor(padding.pad(result.nodes), scores)
        if result.transitions is None:
            steps = scores.new_zeros(0)
            ctx.mark_non_differentiable(steps)
        else:
            steps = as_tensor(padding.pad_steps(result.transitions), scores)
        return nodes, steps

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, node_gradient: torch.Tensor, step_gradient: torch.Tensor) -> _Gradients:
        """Multiply the covariance of the indicators by the gradients of the marginals."""
        padding = ctx.shape.padding
        vector = padding.flatten(node_gradient.detach().to(torch.float64).numpy())
        step_vector = None
        if ctx.with_steps:
            step_vector = padding.flatten_steps(step_gradient.detach().to(torch.float64).numpy())
        expected = covariance_product(
            ctx.batch,
            np.ascontiguousarray(vector),
            None if step_vector is None else np.ascontiguousarray(step_vector),
            table_per_step=ctx.batch.has_table_per_step,
        )
        return (*ctx.shape.gradients(_Expectations(*expected)), None, None)


def padding_of(scores: Any, mask: Any, lengths: Any) -> Padding:
    """Return the padding of scores (batch, time, labels)."""
    check_tensor(scores, "scores")
    if scores.ndim != 3:
        raise InvalidInputError(
            f"scores has shape {tuple(scores.shape)}, expected (batch, time, labels). For a single sequence pass "
            f"scores[None]."
        )
    return Padding(scores.shape[0], scores.shape[1], mask, lengths)


@errors_from("chain_log_z")
def chain_log_z(
    scores: torch.Tensor,
    transitions: torch.Tensor,
    start: torch.Tensor | None = None,
    end: torch.Tensor | None = None,
    *,
    mask: torch.Tensor | None = None,
    lengths: torch.Tensor | None = None,
) -> torch.Tensor:
    """Compute log Z of every sequence, with gradients in all scores; use it if a network computes the transitions.

    `ChainLayer` is easier where transitions are parameters.

    Parameters
    ----------
    scores : Tensor (batch, time, labels)
        Scores of labels.
    transitions : Tensor (labels, labels) or (batch, time - 1, labels, labels)
        Scores of transitions: for all steps, or for each.
    start, end : Tensor (labels,), optional
        Scores of the first and the last label.
    mask, lengths : Tensor, optional
        Positions that belong to a sequence, as in `ChainLayer.forward`.

    Returns
    -------
    Tensor (batch,)
        -inf for sequences without a possible labelling, 0 for empty sequences.

    Examples
    --------
    Two positions with two labels have four labellings of score 0:

    >>> chain_log_z(torch.zeros(1, 2, 2), torch.zeros(2, 2)).exp()
    tensor([4.])
    """
    return LogLikelihoodTerms.apply(scores, transitions, start, end, padding_of(scores, mask, lengths), None)


@errors_from("chain_probabilities")
def chain_probabilities(
    scores: torch.Tensor,
    transitions: torch.Tensor,
    start: torch.Tensor | None = None,
    end: torch.Tensor | None = None,
    *,
    mask: torch.Tensor | None = None,
    lengths: torch.Tensor | None = None,
) -> torch.Tensor:
    """Compute the marginals of labels (batch, time, labels), with exact gradients in all scores.

    The arguments are those of `chain_log_z`; marginals are 0 in the padding.

    Examples
    --------
    >>> table = torch.tensor([[1.0, 0.0], [0.0, 1.0]])                # equal neighbours are preferred
    >>> scores = torch.tensor([[[2.0, 0.0], [0.0, 0.0]]])
    >>> [round(value, 4) for value in chain_probabilities(scores, table)[0, 1].tolist()]
    [0.676, 0.324]
    """
    return Marginals.apply(scores, transitions, start, end, padding_of(scores, mask, lengths), False)[0]
