"""Padded batches of sequences: from tensors (batch, time, ...) to flat batches of chains, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, IntArray
from intarsia.exceptions import InvalidInputError
from intarsia.graph.chains import ChainBatch
from intarsia.torch.tensors import check_scores, check_shape, check_tensor, read_integers, read_tensor


class Padding:
    """Lengths of the sequences of a padded batch (batch, time), from a mask or from lengths; all full by default.

    Sequences of length 0 are allowed: they take part in no computation, and have log Z = 0.

    Parameters
    ----------
    n_sequences, n_steps : int
        Sizes of the padded batch: number of sequences, and positions of the longest.
    mask : bool tensor (batch, time), optional
        True for the positions of a sequence, which must come first.
    lengths : int tensor (batch,), optional
        Number of positions of each sequence, instead of a mask.
    """

    def __init__(self, n_sequences: int, n_steps: int, mask: Any = None, lengths: Any = None) -> None:
        self.n_sequences, self.n_steps = n_sequences, n_steps
        self.lengths = self._read(mask, lengths)
        self.used: IntArray = np.flatnonzero(self.lengths)
        self.full = bool(self.lengths.size == 0 or self.lengths.min() == n_steps)
        self.inside: NDArray[np.bool_] = np.arange(n_steps) < self.lengths[:, None]
        self.ptr: IntArray = np.concatenate([[0], np.cumsum(self.lengths[self.used])]).astype(np.int64)

    def _read(self, mask: Any, lengths: Any) -> IntArray:
        """Return the checked lengths of the sequences."""
        n, n_steps = self.n_sequences, self.n_steps
        if mask is not None and lengths is not None:
            raise InvalidInputError("mask and lengths are both set. Pass one of them.")
        if lengths is not None:
            values = read_integers(torch.as_tensor(lengths), "lengths", (n,))
            bad = (values < 0) | (values > n_steps)
            if bad.any():
                s = int(np.argmax(bad))
                raise InvalidInputError(f"lengths[{s}] is {values[s]}. Pass lengths from 0 to {n_steps}.")
            return values
        if mask is None:
            return np.full(n, n_steps, dtype=np.int64)
        check_tensor(mask, "mask")
        check_shape(mask, "mask", (n, n_steps))
        if mask.dtype not in (torch.bool, torch.uint8):
            raise InvalidInputError(f"mask has dtype {mask.dtype}, expected torch.bool. Convert it with mask.bool().")
        inside = mask.detach().bool().numpy()
        values = inside.sum(axis=1, dtype=np.int64)
        bad = (np.arange(n_steps) < values[:, None]) != inside
        if bad.any():
            s, t = np.argwhere(bad)[0]
            raise InvalidInputError(
                f"mask[{s}] has {values[s]} positions but not at the front: position {t} is {bool(inside[s, t])}. "
                f"Put all positions of a sequence first and the padding last."
            )
        return values

    def flatten(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the rows of all positions that belong to a sequence."""
        return values.reshape(-1, *values.shape[2:]) if self.full else values[self.inside]

    def flatten_steps(self, tables: NDArray[Any]) -> NDArray[Any]:
        """Return the tables of all steps from a position to the next, from (batch, time - 1, ...)."""
        return tables[self.inside[:, 1:]]

    def pad(self, rows: NDArray[Any], fill: float = 0.0) -> NDArray[Any]:
        """Return rows of positions as a padded array (batch, time, ...)."""
        if self.full:
            return rows.reshape(self.n_sequences, self.n_steps, *rows.shape[1:])
        padded = np.full((self.n_sequences, self.n_steps, *rows.shape[1:]), fill, dtype=rows.dtype)
        padded[self.inside] = rows
        return padded

    def pad_steps(self, tables: FloatArray) -> FloatArray:
        """Return tables of steps as a padded array (batch, time - 1, ...), 0 outside of sequences."""
        padded = np.zeros((self.n_sequences, max(self.n_steps - 1, 0), *tables.shape[1:]))
        padded[self.inside[:, 1:]] = tables
        return padded

    def by_sequence(self, values: FloatArray) -> FloatArray:
        """Return values of the sequences that are not empty as values of all sequences, 0 for empty ones."""
        all_values = np.zeros(self.n_sequences)
        all_values[self.used] = values
        return all_values

    def batch(self, scores: Any, transitions: Any, start: Any, end: Any) -> ChainBatch:
        """Return the sequences that are not empty as a batch of chains; raise for invalid scores or shapes."""
        n_labels = scores.shape[-1]
        nodes = self.flatten(read_tensor(scores, "scores", (None, None, None)))
        check_scores(nodes, "scores, outside of padding,")
        if n_labels == 0:
            raise InvalidInputError("scores has no labels: its last axis has size 0. Pass at least one label.")
        check_tensor(transitions, "transitions")
        if transitions.ndim == 2:
            tables = read_tensor(transitions, "transitions", (n_labels, n_labels))
        else:
            shape = (self.n_sequences, max(self.n_steps - 1, 0), n_labels, n_labels)
            tables = self.flatten_steps(read_tensor(transitions, "transitions", shape))
        check_scores(tables, "transitions")
        ends = []
        for tensor, name in ((start, "start"), (end, "end")):
            ends.append(None if tensor is None else read_tensor(tensor, name, (n_labels,)))
            if ends[-1] is not None:
                check_scores(ends[-1], name)
        return ChainBatch(nodes, self.ptr, np.ascontiguousarray(tables), *ends)

    def labels(self, labels: Any, n_labels: int) -> IntArray:
        """Return the labels of all positions that belong to a sequence; raise for labels out of range."""
        values: IntArray = self.flatten(read_integers(labels, "labels", (self.n_sequences, self.n_steps)))
        bad = (values < -1) | (values >= n_labels)
        if bad.any():
            row, position = np.argwhere(self.inside)[int(np.argmax(bad))]
            raise InvalidInputError(
                f"labels[{row}, {position}] is {values[bad][0]}. Pass labels from 0 to {n_labels - 1}, or -1 for a "
                f"hidden (unlabelled) position."
            )
        return values
