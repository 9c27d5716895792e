"""Scores in blocks, each the product of features and of a weight matrix that all its rows share."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from intarsia._validation import FloatArray, IntArray, as_float_array
from intarsia.exceptions import InvalidInputError
from intarsia.graph import FactorGraph


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

    def scores(self, weights: FloatArray) -> FloatArray:
        """All tables, flat."""
        found = np.asarray(self.features @ weights.T)
        return (found if self.row_of is None else found[:, self.row_of]).reshape(-1)

    def pull_back(self, slope: FloatArray) -> FloatArray:
        """Gradient in the weights from one in the tables, flat."""
        tables = slope.reshape(-1, self.n_entries)
        if self.row_of is not None:
            tables = tables @ (self.row_of[:, None] == np.arange(self.shape[0])).astype(np.float64)
        return np.asarray(self.features.T @ tables).T.reshape(-1)


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
            theta[at : at + block.n_scores] = block.scores(matrix)
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
