"""Adam: stochastic gradient descent with a step of its own for every weight."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from intarsia._validation import FloatArray, check_number
from intarsia.learning.mini_batch import Memory, MiniBatch, Slots, zeros_for


class Adam(MiniBatch):
    r"""Minimum by steps of batches whose length is adapted to every weight.

    Choose it as `SGD`, and before it where features differ in scale. With the gradient :math:`g_t` of batch t,

    .. math:: m_t = \beta_1 m_{t-1} + (1 - \beta_1) g_t, \quad v_t = \beta_2 v_{t-1} + (1 - \beta_2) g_t^2, \quad
              w_t = w_{t-1} - s \frac{m_t / (1 - \beta_1^t)}{\sqrt{v_t / (1 - \beta_2^t)} + \epsilon},

    with the step s divided by 1 + `decay` times the number of passes made. With sparse features, t of a weight counts
    the batches in which its feature occurs; other batches change neither the weight nor its means. What comes back, and
    what happens after a step that went too far, are as in `SGD`.

    Parameters
    ----------
    step : float
        Length of a step in every weight, at first.
    beta1, beta2 : float in [0, 1)
        Shares of the earlier mean gradient and mean square that are kept.
    epsilon : float
        Keeps the quotient finite.
    batch_size : int
        Examples in a batch.
    max_epochs : int
        Most passes over the data.
    decay : float
        How fast steps get shorter; 0 keeps their length.
    tol : float
        Converged when no entry of the whole risk's gradient is larger.

    References
    ----------
    Kingma2015, Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> bowl = lambda x: (float(x @ x), 2.0 * x)
    >>> found = Adam(step=0.5, max_epochs=1).minimize(bowl, np.array([8.0, -1.0]))
    >>> found.point.round(6)                           # the first step has the same length in every weight
    array([ 7.5, -0.5])
    """

    name: ClassVar[str] = "adam"

    def __init__(
        self,
        *,
        step: float = 0.05,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        batch_size: int = 8,
        max_epochs: int = 100,
        decay: float = 0.01,
        tol: float = 1e-4,
    ) -> None:
        self.step = step
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.decay = decay
        self.tol = tol

    def check_settings(self) -> None:
        """Raise for settings that cannot be meant."""
        super().check_settings()
        check_number(self.beta1, "Adam: beta1", low=0.0, high=1.0, open_high=True)
        check_number(self.beta2, "Adam: beta2", low=0.0, high=1.0, open_high=True)
        check_number(self.epsilon, "Adam: epsilon", low=0.0, open_low=True)

    def _direction(self, gradient: FloatArray, memory: Memory, slots: Slots) -> FloatArray:
        for name in ("count", "mean", "square"):
            if name not in memory:
                memory[name] = zeros_for(gradient, memory, slots)
        count = memory["count"][slots] + 1.0
        mean = self.beta1 * memory["mean"][slots] + (1.0 - self.beta1) * gradient
        square = self.beta2 * memory["square"][slots] + (1.0 - self.beta2) * gradient**2
        memory["count"][slots], memory["mean"][slots], memory["square"][slots] = count, mean, square
        size = np.sqrt(square / (1.0 - self.beta2**count)) + self.epsilon
        direction: FloatArray = mean / (1.0 - self.beta1**count) / size
        return direction
