"""Contract of layers: checks that the layers of this package pass, and that a user's own layer can join."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.autograd import gradcheck

from intarsia._core.error_context import errors_from
from intarsia.exceptions import IntarsiaError, InvalidInputError


@errors_from("check_layer")
def check_layer(layer: nn.Module, *inputs: torch.Tensor, tolerance: float = 1e-5) -> None:
    """Check that a layer behaves as PyTorch users expect; raise an error that names the first failed check.

    Use it in the tests of a layer of your own: one line checks gradients in double precision (`gradcheck`), single
    precision, batches of any size (each example alone, none at all), tensors that are not contiguous, `no_grad`, NaN,
    wrong shapes, copies and saved states.

    Parameters
    ----------
    layer : Module
        Layer whose inputs and output have the batch as first axis. The check runs on a copy.
    *inputs : Tensor
        Inputs in double precision, with at least two examples, at which the layer is differentiable.
    tolerance : float
        Absolute and relative tolerance of gradients and of single precision.

    Raises
    ------
    InvalidInputError
        A check fails; the message names it.

    Examples
    --------
    >>> from intarsia.torch import ChainLayer
    >>> check_layer(ChainLayer(3), torch.randn(2, 4, 3, dtype=torch.float64))
    >>> class Wrong(nn.Module):
    ...     def forward(self, scores):
    ...         return scores.detach() ** 2 + 0.0 * scores
    >>> check_layer(Wrong(), torch.ones(2, 3, dtype=torch.float64))    # doctest: +ELLIPSIS
    Traceback (most recent call last):
    intarsia.exceptions.InvalidInputError: check_layer: Wrong failed 'gradient in double precision': ...
    """
    if not inputs or any(x.dtype != torch.float64 or x.ndim == 0 or len(x) < 2 for x in inputs):
        raise InvalidInputError("the inputs must be float64 tensors with at least two examples. Pass such tensors.")
    precise = copy.deepcopy(layer).double()
    fixed = tuple(x.detach().clone() for x in inputs)
    with torch.no_grad():
        expected = precise(*fixed)
    check = _Check(type(layer).__name__, precise, fixed, expected, tolerance)
    for name, function in _CHECKS.items():
        try:
            function(check)
        except _Failed as error:
            raise InvalidInputError(f"{check.name} failed {name!r}: {error}") from None


class _Failed(Exception):
    """A check of a layer failed."""


class _Check:
    """A layer in double precision, its inputs and its output."""

    def __init__(self, name: str, layer: nn.Module, inputs: Any, expected: torch.Tensor, tolerance: float) -> None:
        self.name, self.layer, self.inputs, self.expected, self.tolerance = name, layer, inputs, expected, tolerance

    def compare(self, output: Any, problem: str, expected: torch.Tensor | None = None) -> None:
        """Fail unless an output has the expected shape and values."""
        target = self.expected if expected is None else expected
        if not isinstance(output, torch.Tensor) or output.shape != target.shape:
            raise _Failed(f"{problem} has shape {tuple(getattr(output, 'shape', ()))}, not {tuple(target.shape)}.")
        if not torch.allclose(output.to(torch.float64), target, rtol=self.tolerance, atol=self.tolerance):
            difference = float((output.to(torch.float64) - target).abs().max())
            raise _Failed(f"{problem} differs from the output in double precision by {difference:.2g}.")


def _gradient(check: _Check) -> None:
    parameters = [p for p in check.layer.parameters() if p.requires_grad]
    inputs = tuple(x.clone().requires_grad_() for x in check.inputs)

    def function(*arguments: torch.Tensor) -> Any:
        """Return the output; parameters are changed in place by gradcheck."""
        return check.layer(*arguments[: len(inputs)])

    try:
        gradcheck(function, (*inputs, *parameters), rtol=check.tolerance, atol=check.tolerance)
    except RuntimeError as error:
        raise _Failed(" ".join(str(error).split())[:400]) from None


def _single_precision(check: _Check) -> None:
    layer = copy.deepcopy(check.layer).float()
    inputs = tuple(x.float().requires_grad_() for x in check.inputs)
    output = layer(*inputs)
    if output.dtype != torch.float32:
        raise _Failed(f"the output of float32 inputs has dtype {output.dtype}. Return the dtype of the input.")
    check.compare(output.detach(), "the output")
    output.sum().backward()
    for k, x in enumerate(inputs):
        if x.grad is None or x.grad.dtype != torch.float32 or not torch.isfinite(x.grad).all():
            raise _Failed(f"the gradient of input {k} is missing, not finite or not float32.")


def _examples_alone(check: _Check) -> None:
    for k in range(len(check.expected)):
        output = check.layer(*(x[k : k + 1] for x in check.inputs))
        check.compare(output.detach(), f"the output of example {k} alone", check.expected[k : k + 1])


def _empty_batch(check: _Check) -> None:
    inputs = tuple(x[:0].clone().requires_grad_() for x in check.inputs)
    output = check.layer(*inputs)
    check.compare(output.detach(), "the output of an empty batch", check.expected[:0])
    output.sum().backward()
    if any(x.grad is not None and x.grad.shape != x.shape for x in inputs):
        raise _Failed("the gradient of an empty batch has the wrong shape.")


def _not_contiguous(check: _Check) -> None:
    inputs = tuple(torch.stack([x, x], dim=-1)[..., 0] for x in check.inputs)
    check.compare(check.layer(*inputs).detach(), "the output of inputs that are not contiguous")


def _without_gradient(check: _Check) -> None:
    with torch.no_grad():
        output = check.layer(*check.inputs)
    if output.requires_grad:
        raise _Failed("the output under torch.no_grad requires a gradient.")
    check.compare(output, "the output under torch.no_grad")


def _invalid_numbers(check: _Check) -> None:
    for k in range(len(check.inputs)):
        inputs = [x.clone() for x in check.inputs]
        inputs[k].view(-1)[0] = float("nan")
        _must_raise(partial(check.layer, *inputs), f"NaN in input {k}")


def _wrong_shape(check: _Check) -> None:
    for k in range(len(check.inputs)):
        inputs = list(check.inputs)
        inputs[k] = inputs[k][..., None].expand(*inputs[k].shape, 2)
        _must_raise(partial(check.layer, *inputs), f"a further axis of input {k}")


def _must_raise(call: Callable[[], Any], problem: str) -> None:
    """Fail unless a call raises an error of Intarsia or a ValueError."""
    try:
        call()
    except (IntarsiaError, ValueError):
        return
    except Exception as error:
        raise _Failed(f"{problem} raised {type(error).__name__}. Raise a ValueError that says what to do.") from None
    raise _Failed(f"{problem} raised no error. Check the inputs and raise a ValueError that says what to do.")


def _copies(check: _Check) -> None:
    check.compare(copy.deepcopy(check.layer)(*check.inputs).detach(), "the output of a deep copy")
    file = io.BytesIO()
    torch.save(check.layer.state_dict(), file)
    file.seek(0)
    other = copy.deepcopy(check.layer)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(1.0)
    other.load_state_dict(torch.load(file, weights_only=True))
    check.compare(other(*check.inputs).detach(), "the output after saving and loading the state")


_CHECKS: dict[str, Callable[[_Check], None]] = {
    "gradient in double precision": _gradient,
    "single precision": _single_precision,
    "each example alone": _examples_alone,
    "empty batch": _empty_batch,
    "inputs that are not contiguous": _not_contiguous,
    "no gradient required": _without_gradient,
    "NaN": _invalid_numbers,
    "wrong shape": _wrong_shape,
    "copies and saved states": _copies,
}
