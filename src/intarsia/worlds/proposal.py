"""Parametrised proposal distributions J(Y; lambda), which the cross-entropy method fits to its best samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray
from intarsia.exceptions import NotSupportedError
from intarsia.worlds.log_linear_choice import minimize_small

_MAX_ITER = 100  # iterations of L-BFGS in `fit`
_IMPOSSIBLE = -1e10  # stands for the logarithm of 0, so that the optimizer stays finite


class Proposal(ABC):
    r"""Abstract base of parametrised proposal distributions :math:`J(Y; \lambda)` for `cem_optimize`.

    Define `initial` (the parameters :math:`\lambda_0`), `sample`, and one of `log_probability` and `fit`. With
    `log_probability` alone the parameters are fitted by L-BFGS with numerical derivatives, which is slow for more than
    some dozen parameters; families with a closed form override `fit`.
    `intarsia.testing.check_proposal` tests a class of your own.

    Examples
    --------
    A biased coin with success probability :math:`1 / (1 + e^{-\lambda})`, with the objective to toss many heads:

    >>> class Coin(Proposal):
    ...     def initial(self):
    ...         return np.zeros(1)
    ...
    ...     def sample(self, parameters, rng):
    ...         return rng.random(5) < 1.0 / (1.0 + np.exp(-parameters[0]))
    ...
    ...     def log_probability(self, parameters, sample):
    ...         return float(sample.sum() * parameters[0] - 5 * np.logaddexp(0.0, parameters[0]))
    >>> from intarsia.worlds import cem_optimize
    >>> result = cem_optimize(Coin(), lambda tosses: tosses.sum(), n_samples=50, random_state=0)
    >>> result.best.tolist(), bool(result.parameters[0] > 3.0)
    ([True, True, True, True, True], True)
    """

    l2: ClassVar[float] = 1e-3
    """Regularization of the numerical `fit`, which keeps the parameters finite if all elite samples are equal."""

    @abstractmethod
    def initial(self) -> FloatArray:
        """Return the parameters to start from, a vector."""

    @abstractmethod
    def sample(self, parameters: FloatArray, rng: np.random.Generator) -> Any:
        """Return a random Y."""

    def log_probability(self, parameters: FloatArray, sample: Any) -> float:
        """Return the log-probability (or log-density) of Y."""
        raise NotSupportedError(
            f"{type(self).__name__} defines neither log_probability nor fit. Define "
            f"log_probability(parameters, sample), or fit(parameters, elites, weights) in closed form."
        )

    def sample_many(self, parameters: FloatArray, rng: np.random.Generator, size: int) -> Sequence[Any] | NDArray[Any]:
        """Return several random samples; override it if they can be drawn together."""
        return [self.sample(parameters, rng) for _ in range(size)]

    def fit(self, parameters: FloatArray, elites: Sequence[Any], weights: FloatArray) -> FloatArray:
        r"""Return the parameters under which the elite samples are most probable (Rohanimanesh2009, Eq. 2).

        By default :math:`\sum_k w_k \log J(Y_k; \lambda) - \frac{l_2}{2} |\lambda|^2` is maximised numerically.

        Parameters
        ----------
        parameters : float array
            Current parameters.
        elites : sequence
            Elite samples.
        weights : float array
            Weight of each elite sample; they sum to 1.
        """

        def negative(point: FloatArray) -> float:
            values = np.array([self.log_probability(point, elite) for elite in elites], dtype=np.float64)
            return float(-weights @ np.maximum(values, _IMPOSSIBLE) + 0.5 * self.l2 * point @ point)

        return minimize_small(negative, parameters, _MAX_ITER)
