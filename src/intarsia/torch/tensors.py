"""Conversion between PyTorch tensors and NumPy arrays, with checks that name the first invalid entry."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from intarsia._core.validation import LARGEST_SCORE, FloatArray, IntArray
from intarsia.exceptions import InvalidInputError


def read_tensor(tensor: Any, name: str, shape: tuple[int | None, ...]) -> FloatArray:
    """Return the values of a floating-point tensor as float64, without gradient; raise for a wrong type or shape.

    Parameters
    ----------
    tensor : Tensor
        Tensor on the CPU.
    name : str
        Name of the argument, for messages.
    shape : tuple of int or None
        Expected shape; None for any size.
    """
    check_tensor(tensor, name)
    if not tensor.dtype.is_floating_point:
        raise InvalidInputError(
            f"{name} has dtype {tensor.dtype}, expected a floating-point tensor. Convert it with {name}.float()."
        )
    check_shape(tensor, name, shape)
    return np.ascontiguousarray(tensor.detach().to(torch.float64).numpy())


def check_tensor(tensor: Any, name: str) -> None:
    """Raise unless the argument is a dense tensor on the CPU."""
    if not isinstance(tensor, torch.Tensor):
        raise InvalidInputError(
            f"{name} must be a torch.Tensor, got {type(tensor).__name__}. Convert it with torch.as_tensor({name})."
        )
    if tensor.device.type != "cpu":
        raise InvalidInputError(
            f"{name} is on device {tensor.device}, but Intarsia computes on the CPU. Pass {name}.cpu()."
        )
    if tensor.layout != torch.strided:
        raise InvalidInputError(f"{name} is a sparse tensor, expected a dense one. Pass {name}.to_dense().")


def check_shape(tensor: Any, name: str, shape: tuple[int | None, ...]) -> None:
    """Raise unless the shape of a tensor is as expected; None stands for any size."""
    sizes = tuple(tensor.shape)
    if len(sizes) != len(shape) or any(n is not None and n != size for n, size in zip(shape, sizes, strict=True)):
        expected = ", ".join("*" if n is None else str(n) for n in shape)
        raise InvalidInputError(
            f"{name} has shape {sizes}, expected ({expected}{',' if len(shape) == 1 else ''}), where * is any size. "
            f"Check the output of the network."
        )


def check_scores(values: FloatArray, name: str) -> None:
    """Raise if a score is NaN, +inf or too large; -inf marks an impossible state."""
    if not values.size or (values.max() <= LARGEST_SCORE and values.min() >= -LARGEST_SCORE):
        return
    bad = ~(values <= LARGEST_SCORE) | ((values < -LARGEST_SCORE) & (values > -np.inf))
    if bad.any():
        _raise_first(values, bad, name, f"Scores must be at most {LARGEST_SCORE:g}; -inf forbids a state")


def check_finite(values: FloatArray, name: str, low: float = -np.inf, high: float = np.inf) -> None:
    """Raise if a value is NaN, infinite or outside an interval."""
    bad = ~(np.isfinite(values) & (values >= low) & (values <= high))
    if bad.any():
        span = "finite" if (low, high) == (-np.inf, np.inf) else f"in [{low:g}, {high:g}]"
        _raise_first(values, bad, name, f"Values must be {span}")


def _raise_first(values: FloatArray, bad: Any, name: str, rule: str) -> None:
    """Raise an error that names the first invalid entry."""
    position = np.unravel_index(int(np.argmax(bad)), values.shape)
    subscript = ", ".join(str(int(i)) for i in position)
    raise InvalidInputError(
        f"{name}[{subscript}] is {values[position]}. {rule}. If the network returns NaN, lower the learning rate or "
        f"clip its gradients."
    )


def read_integers(values: Any, name: str, shape: tuple[int | None, ...]) -> IntArray:
    """Return an integer tensor as an int64 array; raise for another type or shape."""
    check_tensor(values, name)
    if values.dtype.is_floating_point or values.dtype.is_complex or values.dtype == torch.bool:
        raise InvalidInputError(f"{name} has dtype {values.dtype}, expected integers. Convert it with {name}.long().")
    check_shape(values, name, shape)
    return np.ascontiguousarray(values.detach().to(torch.int64).numpy())


def as_tensor(values: Any, like: torch.Tensor) -> torch.Tensor:
    """Return an array as a tensor of the floating-point type of another tensor."""
    return torch.from_numpy(np.ascontiguousarray(values)).to(like.dtype)


def reduce_values(values: torch.Tensor, reduction: str, n_units: int) -> torch.Tensor:
    """Return all values ("none"), their sum, or their sum divided by the number of units ("mean"); 0 for no units."""
    if reduction == "none":
        return values
    total = values.sum()
    return total if reduction == "sum" else total / max(n_units, 1)
