"""Scores in blocks, each the product of features and of a weight matrix that all its rows share."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from intarsia._core.validation import FloatArray, IntArray, as_float_array
from intarsia.exceptions import InvalidInputError
from intarsia.graph import FactorGraph

# Products of at most this many multiplications are serial in OpenBLAS. Large ones would start threads inside those that
# work on the examples, where they wait for each other; small ones also keep features in single precision from being
# copied whole.
SERIAL_PRODUCT = 2**18


@dataclass(frozen=True, eq=False)
class Block:
    """Features of one kind of variable or factor, and how weights become the entries of its tables.

    Attributes
    ----------
    name : str
        What the weights are called in messages.
    features : (n, q) array or CSR array
        A row for each variable or factor.
    n_entries : int
        Entries of one table.
    row_of : int array (n_entries,), optional
        Row of the weights that each entry takes; by default each has its own.
    """

    name: str
    features: Any
    n_entries: int
    row_of: IntArray | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the weights."""
        rows = self.n_entries if self.row_of is None else int(self.row_of.max(initial=-1)) + 1
        return rows, int(self.features.shape[1])

    @property
    def n_scores(self) -> int:
        """Number of entries in all tables."""
        return int(self.features.shape[0]) * self.n_entries

    def write_scores(self, weights: FloatArray, out: FloatArray) -> None:
        """Write all tables, flat."""
        if self.row_of is not None:
            single = np.empty((self.features.shape[0], self.shape[0]))
            _multiply(self.features, weights, single)
            np.take(single, self.row_of, axis=1, out=out.reshape(-1, self.n_entries))
        else:
            _multiply(self.features, weights, out.reshape(-1, self.n_entries))

    def pull_back(self, slope: FloatArray) -> FloatArray:
        """Gradient in the weights from one in the tables, flat."""
        tables = slope.reshape(-1, self.n_entries)
        if self.row_of is not None:
            tables = tables @ (self.row_of[:, None] == np.arange(self.shape[0])).astype(np.float64)
        if _is_sparse(self.features):
            return np.asarray(self.features.T @ tables).T.reshape(-1)
        found = np.zeros(self.shape)
        for part in _parts(self.features, self.shape[0]):
            found += tables[part].T @ self.features[part].astype(np.float64, copy=False)
        return found.reshape(-1)


def _is_sparse(features: Any) -> bool:
    return bool(sparse.issparse(features))


def _multiply(features: Any, weights: FloatArray, out: FloatArray) -> None:
    """Write the product of the features and the transposed weights."""
    if _is_sparse(features):
        out[:] = features @ weights.T
        return
    for part in _parts(features, weights.shape[0]):
        np.matmul(features[part].astype(np.float64, copy=False), weights.T, out=out[part])


def _parts(features: Any, n_rows: int) -> list[slice]:
    """Rows of dense features that are multiplied at a time."""
    n, width = features.shape
    size = min(max(SERIAL_PRODUCT // max(width * n_rows, 1), 64), 4096)
    return [slice(at, at + size) for at in range(0, n, size)]


class BlockScores(ABC):  # noqa: B024  # subclasses differ in how blocks are made, which is their constructor
    """Base of the maps whose theta is a sequence of blocks; the weights are their matrices in C order, one by one."""

    def __init__(self, graph: FactorGraph, blocks: list[Block]) -> None:
        self.graph = graph
        self.blocks = blocks

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Shapes of the weight matrices."""
        return tuple(block.shape for block in self.blocks)

    @cached_property
    def n_weights(self) -> int:
        """Length of the flat vector of weights."""
        return sum(rows * columns for rows, columns in self.shapes)

    def split(self, weights: FloatArray) -> tuple[FloatArray, ...]:
        """The weight matrices, as views of the flat weights."""
        here = type(self).__name__
        flat = as_float_array(weights, f"{here}: weights")
        if flat.shape != (self.n_weights,):
            needed = ", ".join(f"{block.name} {block.shape}" for block in self.blocks)
            raise InvalidInputError(
                f"{here}: weights have shape {flat.shape}, but {needed} need ({self.n_weights},). Make them with join."
            )
        found, at = [], 0
        for rows, columns in self.shapes:
            found.append(flat[at : at + rows * columns].reshape(rows, columns))
            at += rows * columns
        return tuple(found)

    def join(self, *matrices: Any) -> FloatArray:
        """Flat weights of the matrices, one for each block."""
        here = type(self).__name__
        if len(matrices) != len(self.blocks):
            raise InvalidInputError(
                f"{here}: {len(matrices)} matrices, but there are weights of "
                f"{', '.join(block.name for block in self.blocks)}. Give one for each."
            )
        parts = [np.empty(0)]
        for given, block in zip(matrices, self.blocks, strict=True):
            matrix = as_float_array(given, f"{here}: {block.name}")
            if matrix.shape != block.shape:
                raise InvalidInputError(
                    f"{here}: {block.name} has shape {matrix.shape}, but these features need {block.shape}."
                )
            parts.append(matrix.reshape(-1))
        return np.concatenate(parts)

    def theta(self, weights: FloatArray) -> FloatArray:
        """Scores of the graph for these weights."""
        theta, at = self.graph.zeros(), 0
        for block, matrix in zip(self.blocks, self.split(weights), strict=True):
            block.write_scores(matrix, theta[at : at + block.n_scores])
            at += block.n_scores
        return theta

    def pull_back(self, gradient: FloatArray) -> FloatArray:
        """Gradient in the flat weights from one in theta: the adjoint of `theta`."""
        here = type(self).__name__
        slope = as_float_array(gradient, f"{here}: gradient")
        if slope.shape != (self.graph.n_theta,):
            raise InvalidInputError(
                f"{here}: the gradient has shape {slope.shape}, but this graph needs ({self.graph.n_theta},)."
            )
        parts, at = [np.empty(0)], 0
        for block in self.blocks:
            parts.append(block.pull_back(slope[at : at + block.n_scores]))
            at += block.n_scores
        return np.concatenate(parts)

    def __repr__(self) -> str:
        weights = "".join(f", {block.name} {block.shape}" for block in self.blocks)
        return f"{type(self).__name__}({self.graph!r}{weights})"
