"""Stochastic gradient descent and Adam over shuffled mini-batches, with recovery from steps that are too long."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, IntArray, check_number
from intarsia.learning.minimum import Objective, Part, Search, SummedObjective
from intarsia.learning.optimizer import Optimizer

Memory = dict[str, NDArray[Any]]
Slots = IntArray | slice
ALL = slice(None)

# After this many halvings of the step size the search has stalled.
MAX_HALVINGS = 50


class MiniBatch(Optimizer):
    """Base class of the mini-batch optimizers; an iteration is a pass over all data.

    Batches are shuffled for every pass, with a seed from `random_state` and the number of the pass. At the end of a
    pass the whole risk is computed, so that a pass costs two evaluations of all data; the point with the lowest risk is
    the result, never one worse than the start. After a pass that ends above the start, or at a value that is not
    finite, the search returns to the best point and continues with half the step size. Within a pass, the last step is
    halved until the value of the next batch is finite. Values that do not belong to the gradient (contrastive
    divergence) are not compared: the last point is the result.

    With sparse features of sequences, a step changes only the weights of features that occur in its batch, so that the
    time of a pass is proportional to the data, however many weights there are. The regularization of the steps that a
    weight has missed is applied at its next step.
    """

    takes_batches: ClassVar[bool] = True
    compares_values: ClassVar[bool] = False

    step_size: float
    batch_size: int
    max_iter: int
    decay: float

    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings; extended by subclasses."""
        name = type(self).__name__
        check_number(self.step_size, f"{name}: step_size", low=0.0, open_low=True, high=np.inf, open_high=True)
        check_number(self.batch_size, f"{name}: batch_size", low=1, integer=True)
        check_number(self.max_iter, f"{name}: max_iter", low=0, integer=True)
        check_number(self.decay, f"{name}: decay", low=0.0)
        check_number(self.tol, f"{name}: tol", low=0.0)

    @abstractmethod
    def _direction(self, gradient: FloatArray, memory: Memory, slots: Slots) -> FloatArray:
        """Return the step direction of the weights `slots` for their gradient; `memory` is updated in place."""

    def _catch_up(self, memory: Memory, slots: Slots, n_missed: IntArray) -> FloatArray | None:
        """Return the sum of the directions of the steps that these weights have missed; None if there is none."""
        return None

    def advance(self, search: Search) -> None:
        """Make one pass over all data."""
        point, memory, _ = self.epoch(search.objective, search.point, search.memory, search.random_state)
        value, gradient = search.evaluate(point)
        worse = search.by_value and value > search.rows[0][0]
        if worse or not _is_finite(value, gradient):
            memory = _with_half_step(memory)
            search.stalled = float(memory["scale"]) < 0.5**MAX_HALVINGS
            point = search.best_point
            value, gradient = search.evaluate(point)
        search.memory = memory
        search.accept(point, value, gradient)

    def epoch(
        self,
        objective: Objective,
        point: FloatArray,
        memory: Mapping[str, NDArray[Any]],
        random_state: int,
        after: Callable[[FloatArray], FloatArray] | None = None,
    ) -> tuple[FloatArray, Memory, float]:
        """Make one pass over the data; return the new point, new memory and the mean value of the batches.

        `after` is called with the point after every step and returns the point to continue from.
        """
        self.check_settings()
        point = np.array(point, dtype=np.float64)
        state = {"epochs": np.array(0), "scale": np.array(1.0)} | {
            name: np.array(array) for name, array in memory.items()
        }
        n_epochs, first_step = int(state["epochs"]), int(state.get("steps", np.array(0)))
        values: list[float] = []
        last_step: tuple[Slots, FloatArray] = (ALL, point.copy())  # indices and old values of the weights that changed
        squared_norm = float(point @ point)
        for batch in self._batches(objective, np.random.default_rng([random_state, n_epochs])):
            slots, n_missed = self._begin_step(state, batch, point.size)
            step_size = self._step_size(state)
            missed_update = None
            if n_missed is not None:  # all weights caught up at the end of the last pass
                missed_update = self._catch_up(state, slots, np.minimum(n_missed, state["steps"] - first_step) - 1)
            if missed_update is not None:
                squared_norm += _assign(point, slots, point[slots] - step_size * missed_update)
            value, gradient = _regularized(batch, point[slots], n_missed, squared_norm)
            for _ in range(MAX_HALVINGS):
                if _is_finite(value, gradient):
                    break
                state = _with_half_step(state)
                squared_norm += _assign(point, last_step[0], 0.5 * (last_step[1] + point[last_step[0]]))
                value, gradient = _regularized(batch, point[slots], n_missed, squared_norm)
            if not _is_finite(value, gradient):
                squared_norm += _assign(point, *last_step)
                continue
            values.append(value)
            old_weights = point[slots].copy()
            squared_norm += _assign(
                point, slots, old_weights - self._step_size(state) * self._direction(gradient, state, slots)
            )
            last_step = slots, old_weights
            if after is not None:
                last_step, point = (ALL, _undo_step(point, last_step)), after(point)
                squared_norm = float(point @ point)
        if "last" in state:
            missed_update = self._catch_up(state, ALL, state["steps"] - np.maximum(state["last"], first_step))
            point = point if missed_update is None else point - self._step_size(state) * missed_update
        state["epochs"] = np.array(n_epochs + 1)
        return point, state, float(np.mean(values)) if values else np.inf

    def _step_size(self, memory: Memory) -> float:
        """Return the current step size (learning rate)."""
        return self.step_size * float(memory["scale"]) / (1.0 + self.decay * int(memory["epochs"]))

    def _begin_step(self, memory: Memory, batch: Part, n_weights: int) -> tuple[Slots, IntArray | None]:
        """Return the weights that the step changes, and for each the number of steps since its last change."""
        if batch.slots is None:
            return ALL, None
        memory["steps"] = memory.get("steps", np.array(0)) + 1
        memory.setdefault("last", np.zeros(n_weights, dtype=np.int64))
        n_missed = memory["steps"] - memory["last"][batch.slots]
        memory["last"][batch.slots] = memory["steps"]
        return batch.slots, n_missed

    def _batches(self, objective: Objective, rng: np.random.Generator) -> Iterator[Part]:
        """Yield the batches one by one, so that only one is in memory."""
        if not isinstance(objective, SummedObjective):
            yield Part(objective)
            return
        order = rng.permutation(len(objective))
        n_batches = -(-len(objective) // int(self.batch_size))
        for indices in np.array_split(order, n_batches):
            yield objective.part(np.sort(indices))


def zeros_for(gradient: FloatArray, memory: Memory, slots: Slots) -> FloatArray:
    """Return zeros for all weights, of which `gradient` covers the weights `slots`."""
    return np.zeros_like(gradient) if isinstance(slots, slice) else np.zeros(memory["last"].size)


def _regularized(
    batch: Part, weights: FloatArray, n_missed: IntArray | None, squared_norm: float
) -> tuple[float, FloatArray]:
    """Compute value and gradient with the L2 penalty, which is applied for all steps that a weight has missed.

    `squared_norm` is that of all weights.
    """
    value, gradient = batch.objective(weights)
    if n_missed is None or batch.ridge == 0.0:
        return value, gradient
    return value + batch.ridge * squared_norm, gradient + 2.0 * batch.ridge * n_missed * weights


def _assign(point: FloatArray, slots: Slots, values: FloatArray) -> float:
    """Set the weights `slots`; return the change of the squared norm."""
    old = point[slots]
    change = float(values @ values) - float(old @ old)
    point[slots] = values
    return change


def _undo_step(point: FloatArray, last_step: tuple[Slots, FloatArray]) -> FloatArray:
    """Return all weights before the last step."""
    weights = point.copy()
    weights[last_step[0]] = last_step[1]
    return weights


def _is_finite(value: float, gradient: FloatArray) -> bool:
    return bool(np.isfinite(value) and np.isfinite(gradient).all())


def _with_half_step(memory: Memory) -> Memory:
    """Return the memory with half the step size and without the directions that led too far."""
    return {name: memory[name] for name in ("epochs", "steps", "last") if name in memory} | {
        "scale": 0.5 * memory["scale"]
    }


class SGD(MiniBatch):
    r"""Stochastic gradient descent (SGD) on mini-batches, with momentum.

    Choose it (or `Adam`, which needs less tuning of the learning rate) when there are so many data that a fraction of
    them already shows the direction, or when they arrive incrementally; otherwise `LBFGS` is faster and exact. With the
    gradient :math:`g_t` of a batch, momentum m and step size s in pass e,

    .. math:: v_t = m v_{t-1} + g_t, \qquad w_t = w_{t-1} - \frac{s}{1 + e \cdot \mathrm{decay}} v_t.

    An iteration is a pass over all data with one evaluation of the whole risk at its end; the point with the lowest
    risk is the result, never one worse than the start. A step to a point where the risk is not finite, and a pass that
    ends above the start, are undone and the step size is halved.

    Parameters
    ----------
    step_size : float
        Initial learning rate, relative to the gradient of the risk per variable.
    momentum : float in [0, 1)
        Fraction of the previous direction that is kept.
    batch_size : int
        Number of examples in a batch.
    max_iter : int
        Maximum number of passes over the data.
    decay : float
        Decay of the learning rate per pass; 0 keeps it constant.
    tol : float
        Converged when no entry of the gradient of the whole risk is larger in absolute value.

    Examples
    --------
    >>> import numpy as np
    >>> bowl = lambda x: (float(x @ x), 2.0 * x)
    >>> result = SGD(step_size=0.25, momentum=0.0, decay=0.0, max_iter=3).minimize(bowl, np.array([8.0]))
    >>> result.point, result.status.name               # each step halves x
    (array([1.]), 'MAX_ITER')
    """

    name: ClassVar[str] = "sgd"

    def __init__(
        self,
        *,
        step_size: float = 0.1,
        momentum: float = 0.9,
        batch_size: int = 8,
        max_iter: int = 100,
        decay: float = 0.01,
        tol: float = 1e-4,
    ) -> None:
        self.step_size = step_size
        self.momentum = momentum
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.decay = decay
        self.tol = tol

    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings."""
        super().check_settings()
        check_number(self.momentum, "SGD: momentum", low=0.0, high=1.0, open_high=True)

    def _direction(self, gradient: FloatArray, memory: Memory, slots: Slots) -> FloatArray:
        velocity = memory.setdefault("velocity", zeros_for(gradient, memory, slots))
        velocity[slots] = gradient + self.momentum * velocity[slots]
        return np.array(velocity[slots])

    def _catch_up(self, memory: Memory, slots: Slots, n_missed: IntArray) -> FloatArray | None:
        """Return the effect of momentum without a gradient: m + m^2 + ... + m^n_missed times the velocity."""
        if "velocity" not in memory:
            return None
        velocity, decay = memory["velocity"], self.momentum**n_missed
        total: FloatArray = velocity[slots] * self.momentum * (1.0 - decay) / (1.0 - self.momentum)
        velocity[slots] = velocity[slots] * decay
        return total


class Adam(MiniBatch):
    r"""Adam: stochastic gradient descent on mini-batches, with the step adapted to every weight.

    Choose it like `SGD`, and rather than `SGD` if features differ in scale. With the gradient :math:`g_t` of batch t,

    .. math:: m_t = \beta_1 m_{t-1} + (1 - \beta_1) g_t, \quad v_t = \beta_2 v_{t-1} + (1 - \beta_2) g_t^2, \quad
              w_t = w_{t-1} - s \frac{m_t / (1 - \beta_1^t)}{\sqrt{v_t / (1 - \beta_2^t)} + \epsilon},

    with the learning rate s divided by 1 + `decay` times the number of completed passes. With sparse features, t of a
    weight counts the batches in which its feature occurs; other batches change neither the weight nor its moments. The
    result, and the recovery from steps that are too long, are as in `SGD`.

    Parameters
    ----------
    step_size : float
        Initial learning rate: the length of a step in every weight.
    beta1, beta2 : float in [0, 1)
        Decay rates of the moving averages of the gradient and of its square.
    epsilon : float
        Small constant that keeps the quotient finite.
    batch_size : int
        Number of examples in a batch.
    max_iter : int
        Maximum number of passes over the data.
    decay : float
        Decay of the learning rate per pass; 0 keeps it constant.
    tol : float
        Converged when no entry of the gradient of the whole risk is larger in absolute value.

    References
    ----------
    Kingma2015, Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> bowl = lambda x: (float(x @ x), 2.0 * x)
    >>> result = Adam(step_size=0.5, max_iter=1).minimize(bowl, np.array([8.0, -1.0]))
    >>> result.point.round(6)                          # the first step has the same length in every weight
    array([ 7.5, -0.5])
    """

    name: ClassVar[str] = "adam"

    def __init__(
        self,
        *,
        step_size: float = 0.05,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        batch_size: int = 8,
        max_iter: int = 100,
        decay: float = 0.01,
        tol: float = 1e-4,
    ) -> None:
        self.step_size = step_size
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.decay = decay
        self.tol = tol

    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings."""
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
        scale = np.sqrt(square / (1.0 - self.beta2**count)) + self.epsilon
        direction: FloatArray = mean / (1.0 - self.beta1**count) / scale
        return direction
