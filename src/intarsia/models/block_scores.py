"""Scores in blocks, each of which is the product of a feature matrix and a weight matrix."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from intarsia._core.validation import FloatArray, IntArray, as_float_array
from intarsia.exceptions import InvalidInputError
from intarsia.graph import FactorGraph
from intarsia.models.feature_matrix import is_sparse

# OpenBLAS computes products of at most this many multiplications in one thread. Larger products would start threads
# inside the threads that process examples, which would wait for each other. Small products also avoid a full copy of
# features in single precision.
SERIAL_PRODUCT = 2**18


@dataclass(frozen=True, eq=False)
class Block:
    """Features of one type of variables or factors, and the rule that maps weights to the entries of their tables.

    Attributes
    ----------
    name : str
        Name of the weights in messages.
    features : (n, q) array or CSR array
        Features, one row per variable or factor.
    n_entries : int
        Number of entries of one table.
    row_of : int array (n_entries,), optional
        Row of the weights that each entry uses; by default every entry has a separate row.
    """

    name: str
    features: Any
    n_entries: int
    row_of: IntArray | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the weight matrix."""
        rows = self.n_entries if self.row_of is None else int(self.row_of.max(initial=-1)) + 1
        return rows, int(self.features.shape[1])

    @property
    def n_scores(self) -> int:
        """Number of entries in all tables."""
        return int(self.features.shape[0]) * self.n_entries

    def write_scores(self, weights: FloatArray, out: FloatArray) -> None:
        """Compute the scores of all tables and write them to the flat array `out`."""
        if self.row_of is not None:
            single = np.empty((self.features.shape[0], self.shape[0]))
            _multiply(self.features, weights, single)
            np.take(single, self.row_of, axis=1, out=out.reshape(-1, self.n_entries))
        else:
            _multiply(self.features, weights, out.reshape(-1, self.n_entries))

    def pull_back(self, slope: FloatArray) -> FloatArray:
        """Return the flat gradient with respect to the weights from that with respect to the tables."""
        tables = slope.reshape(-1, self.n_entries)
        if self.row_of is not None:
            tables = tables @ (self.row_of[:, None] == np.arange(self.shape[0])).astype(np.float64)
        if is_sparse(self.features):
            return np.asarray(self.features.T @ tables).T.reshape(-1)
        gradient = np.zeros(self.shape)
        for rows in _row_slices(self.features, self.shape[0]):
            gradient += tables[rows].T @ self.features[rows].astype(np.float64, copy=False)
        return gradient.reshape(-1)


def _multiply(features: Any, weights: FloatArray, out: FloatArray) -> None:
    """Write the product of the features and the transposed weights to `out`."""
    if is_sparse(features):
        out[:] = features @ weights.T
        return
    for rows in _row_slices(features, weights.shape[0]):
        np.matmul(features[rows].astype(np.float64, copy=False), weights.T, out=out[rows])


def _row_slices(features: Any, n_rows: int) -> list[slice]:
    """Return slices of rows of dense features, each small enough for a serial product."""
    n, width = features.shape
    size = min(max(SERIAL_PRODUCT // max(width * n_rows, 1), 64), 4096)
    return [slice(start, start + size) for start in range(0, n, size)]


class BlockScores(ABC):  # noqa: B024  # subclasses differ only in their constructor, which makes the blocks
    """Base class of feature maps whose theta consists of blocks.

    The flat weights are the concatenated weight matrices of the blocks, each in C order.
    """

    def __init__(self, graph: FactorGraph, blocks: list[Block]) -> None:
        self.graph = graph
        self.blocks = blocks

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Shape of each weight matrix."""
        return tuple(block.shape for block in self.blocks)

    @cached_property
    def n_weights(self) -> int:
        """Length of the flat vector of weights."""
        return sum(rows * columns for rows, columns in self.shapes)

    def split(self, weights: FloatArray) -> tuple[FloatArray, ...]:
        """Return the weight matrices as views of the flat weights."""
        class_name = type(self).__name__
        flat = as_float_array(weights, f"{class_name}: weights")
        if flat.shape != (self.n_weights,):
            expected = ", ".join(f"{block.name} {block.shape}" for block in self.blocks)
            raise InvalidInputError(
                f"{class_name}: weights have shape {flat.shape}, but {expected} need ({self.n_weights},). Use join to "
                f"concatenate weight matrices."
            )
        matrices, start = [], 0
        for rows, columns in self.shapes:
            matrices.append(flat[start : start + rows * columns].reshape(rows, columns))
            start += rows * columns
        return tuple(matrices)

    def join(self, *matrices: Any) -> FloatArray:
        """Return flat weights from weight matrices, one per block."""
        class_name = type(self).__name__
        if len(matrices) != len(self.blocks):
            raise InvalidInputError(
                f"{class_name}: got {len(matrices)} matrices, but there are weights of "
                f"{', '.join(block.name for block in self.blocks)}. Pass one matrix for each."
            )
        flat_matrices = [np.empty(0)]
        for values, block in zip(matrices, self.blocks, strict=True):
            matrix = as_float_array(values, f"{class_name}: {block.name}")
            if matrix.shape != block.shape:
                raise InvalidInputError(
                    f"{class_name}: {block.name} has shape {matrix.shape}, but these features need {block.shape}."
                )
            flat_matrices.append(matrix.reshape(-1))
        return np.concatenate(flat_matrices)

    def theta(self, weights: FloatArray) -> FloatArray:
        """Return the scores theta of the graph for these weights."""
        theta, start = self.graph.zeros(), 0
        for block, matrix in zip(self.blocks, self.split(weights), strict=True):
            block.write_scores(matrix, theta[start : start + block.n_scores])
            start += block.n_scores
        return theta

    def pull_back(self, gradient: FloatArray) -> FloatArray:
        """Return the gradient with respect to the flat weights from that with respect to theta."""
        class_name = type(self).__name__
        theta_gradient = as_float_array(gradient, f"{class_name}: gradient")
        if theta_gradient.shape != (self.graph.n_theta,):
            raise InvalidInputError(
                f"{class_name}: the gradient has shape {theta_gradient.shape}, but this graph needs "
                f"({self.graph.n_theta},)."
            )
        gradients, start = [np.empty(0)], 0
        for block in self.blocks:
            gradients.append(block.pull_back(theta_gradient[start : start + block.n_scores]))
            start += block.n_scores
        return np.concatenate(gradients)

    def __repr__(self) -> str:
        weights = "".join(f", {block.name} {block.shape}" for block in self.blocks)
        return f"{type(self).__name__}({self.graph!r}{weights})"
