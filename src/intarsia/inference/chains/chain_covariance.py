"""Derivatives of the marginals of chains: products of their covariance matrix with a vector."""

from __future__ import annotations

import numpy as np

from intarsia._core.validation import FloatArray, read_only
from intarsia._kernels.chain_covariance import multiply_covariances
from intarsia.graph.chains import ChainBatch
from intarsia.inference.chains.forward_backward import ChainPass

_MAX_BYTES = 2**26  # marginals of steps that are stored at a time


def covariance_product(
    batch: ChainBatch,
    node_vector: FloatArray,
    step_vector: FloatArray | None = None,
    *,
    table_per_step: bool = False,
) -> tuple[FloatArray, FloatArray]:
    r"""Compute the exact gradient in the scores of :math:`\langle v, \mu \rangle`, a linear function of the marginals.

    The Jacobian of the marginals is the covariance matrix of the label indicators, which is symmetric, so this is also
    the derivative of the marginals in the direction v. It costs two more passes over the positions, with labels squared
    operations each. The gradient of a sequence without possible labelling is 0.

    Parameters
    ----------
    batch : ChainBatch
        The sequences.
    node_vector : (n_positions, n_labels) float array
        Coefficients v of the marginals of labels.
    step_vector : (n_steps, n_labels, n_labels) float array, optional
        Coefficients v of the marginals of steps; 0 by default.
    table_per_step : bool
        Whether to return the gradient of every step, or the sum over all steps.

    Returns
    -------
    nodes : (n_positions, n_labels) float array
        Gradient in the scores of labels.
    steps : (n_labels, n_labels) or (n_steps, n_labels, n_labels) float array
        Gradient in the scores of transitions.

    Examples
    --------
    A single position with probabilities 1/4 and 3/4: the covariance of label 0 with itself is 1/4 times 3/4.

    >>> batch = ChainBatch(np.log([[1, 3]]), [0, 1], np.zeros((2, 2)))
    >>> covariance_product(batch, np.array([[1.0, 0.0]]))[0]
    array([[ 0.1875, -0.1875]])
    """
    k = batch.n_labels
    nodes = np.zeros(batch.nodes.shape)
    steps = np.zeros((max(batch.n_steps, 1) if table_per_step else 1, k, k))
    no_vector = read_only(np.zeros((1, k, k)))
    for first, last in _ranges(batch):
        chunk = batch.part(first, last)
        a, b = int(batch.ptr[first]), int(batch.ptr[last])
        step_range = slice(a - first, b - last)
        marginals = ChainPass(chunk).marginals(transitions="steps")
        joint = np.zeros((1, k, k)) if marginals.transitions is None else marginals.transitions
        vector = no_vector if step_vector is None or not chunk.n_steps else read_only(step_vector[step_range])
        longest = int(np.diff(chunk.ptr).max(initial=0))
        multiply_covariances(
            chunk.ptr, marginals.nodes, joint, read_only(node_vector[a:b]), vector, np.empty((longest, k)),
            np.empty((longest + 1, k)), nodes[a:b], steps[step_range] if table_per_step and chunk.n_steps else steps,
        )  # fmt: skip
    return nodes, steps[: batch.n_steps] if table_per_step else steps[0]


def _ranges(batch: ChainBatch) -> list[tuple[int, int]]:
    """Return ranges of sequences whose marginals of steps need about `_MAX_BYTES` each."""
    if not batch.n_sequences:
        return []
    n_bytes = 8 * batch.n_labels**2 * batch.ptr
    number = n_bytes[:-1] // _MAX_BYTES
    starts = np.flatnonzero(np.diff(number, prepend=-1))
    ends = np.append(starts[1:], batch.n_sequences)
    return [(int(first), int(last)) for first, last in zip(starts, ends, strict=True)]
