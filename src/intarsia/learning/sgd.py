"""Stochastic gradient descent with momentum."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from intarsia._validation import FloatArray, IntArray, check_number
from intarsia.learning.mini_batch import Memory, MiniBatch, Slots, zeros_for


class SGD(MiniBatch):
    r"""Minimum by steps against the gradient of small batches, with momentum.

    Choose it (or `Adam`, which needs less care with the step) when the data are so many that a part of them already
    tells the direction, or when they come bit by bit; otherwise `LBFGS` is faster and exact. With the gradient
    :math:`g_t` of a batch, momentum m and step s in pass e,

    .. math:: v_t = m v_{t-1} + g_t, \qquad w_t = w_{t-1} - \frac{s}{1 + e \cdot \mathrm{decay}} v_t.

    An iteration is a pass over all data with one evaluation of the whole risk at its end; the point with the lowest is
    the result, never one worse than the start. A step to where the risk is not finite, and a pass that ends above the
    start, are taken back and the step is halved.

    Parameters
    ----------
    step : float
        Length of a step, relative to the gradient of the risk per variable.
    momentum : float in [0, 1)
        Share of the last direction that is kept.
    batch_size : int
        Examples in a batch.
    max_epochs : int
        Most passes over the data.
    decay : float
        How fast steps get shorter; 0 keeps their length.
    tol : float
        Converged when no entry of the whole risk's gradient is larger.

    Examples
    --------
    >>> import numpy as np
    >>> bowl = lambda x: (float(x @ x), 2.0 * x)
    >>> found = SGD(step=0.25, momentum=0.0, decay=0.0, max_epochs=3).minimize(bowl, np.array([8.0]))
    >>> found.point, found.status.name                 # each step halves x
    (array([1.]), 'MAX_ITER')
    """

    name: ClassVar[str] = "sgd"

    def __init__(
        self,
        *,
        step: float = 0.1,
        momentum: float = 0.9,
        batch_size: int = 8,
        max_epochs: int = 100,
        decay: float = 0.01,
        tol: float = 1e-4,
    ) -> None:
        self.step = step
        self.momentum = momentum
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.decay = decay
        self.tol = tol

    def check_settings(self) -> None:
        """Raise for settings that cannot be meant."""
        super().check_settings()
        check_number(self.momentum, "SGD: momentum", low=0.0, high=1.0, open_high=True)

    def _direction(self, gradient: FloatArray, memory: Memory, slots: Slots) -> FloatArray:
        velocity = memory.setdefault("velocity", zeros_for(gradient, memory, slots))
        velocity[slots] = gradient + self.momentum * velocity[slots]
        return np.array(velocity[slots])

    def _catch_up(self, memory: Memory, slots: Slots, missed: IntArray) -> FloatArray | None:
        """Momentum goes on without a gradient: m + m^2 + ... + m^missed times the velocity."""
        if "velocity" not in memory:
            return None
        velocity, rest = memory["velocity"], self.momentum**missed
        total: FloatArray = velocity[slots] * self.momentum * (1.0 - rest) / (1.0 - self.momentum)
        velocity[slots] = velocity[slots] * rest
        return total
