"""Stochastic gradient descent and Adam: passes over shuffled batches, with recovery from steps that went too far."""

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

# A step that had to be halved more often than this cannot be mended by halving.
MAX_HALVINGS = 50


class MiniBatch(Optimizer):
    """Base of the optimisers that step after every batch; an iteration is a pass over all data.

    Batches are drawn anew for every pass, from the seed and the number of the pass. At its end the whole risk is
    computed, so a pass costs two evaluations of all data; the point with the lowest is what comes back, never one worse
    than the start. After a pass that ends above the start, or at a value that is not finite, the search goes back to
    the best point and goes on with half the step. So it does within a pass, back to the last batch that was finite.
    Values that do not belong to the gradient (contrastive divergence) are not compared: the last point comes back.

    Of sequences with sparse features, a step moves only the weights of features that occur in its batch, so a pass
    takes time in proportion to the data, however many weights there are. The penalty of the steps that a weight has
    missed is made up for at the next one that moves it.
    """

    takes_batches: ClassVar[bool] = True
    compares_values: ClassVar[bool] = False

    step_size: float
    batch_size: int
    max_iter: int
    decay: float

    def check_settings(self) -> None:
        """Raise for settings that cannot be meant; extended by subclasses."""
        here = type(self).__name__
        check_number(self.step_size, f"{here}: step_size", low=0.0, open_low=True, high=np.inf, open_high=True)
        check_number(self.batch_size, f"{here}: batch_size", low=1, integer=True)
        check_number(self.max_iter, f"{here}: max_iter", low=0, integer=True)
        check_number(self.decay, f"{here}: decay", low=0.0)
        check_number(self.tol, f"{here}: tol", low=0.0)

    @abstractmethod
    def _direction(self, gradient: FloatArray, memory: Memory, slots: Slots) -> FloatArray:
        """What a step of 1 subtracts from the weights `slots`, given their gradient; `memory` is changed in place."""

    def _catch_up(self, memory: Memory, slots: Slots, missed: IntArray) -> FloatArray | None:
        """What the steps that these weights have missed would have subtracted, per length; None for nothing."""
        return None

    def advance(self, search: Search) -> None:
        """One pass over all data."""
        point, memory, _ = self.epoch(search.objective, search.point, search.memory, search.random_state)
        value, gradient = search.evaluate(point)
        worse = search.by_value and value > search.rows[0][0]
        if worse or not _finite(value, gradient):
            memory = _halved(memory)
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
        """One pass over the data: new point, new memory, and the mean value of the batches on the way.

        `after` is called with the point after every step, and gives the one to go on from.
        """
        self.check_settings()
        point = np.array(point, dtype=np.float64)
        kept = {"epochs": np.array(0), "scale": np.array(1.0)} | {name: np.array(one) for name, one in memory.items()}
        n_epochs, begun = int(kept["epochs"]), int(kept.get("steps", np.array(0)))
        values: list[float] = []
        last_step: tuple[Slots, FloatArray] = (ALL, point.copy())  # weights that moved, and where they were
        square = float(point @ point)
        for part in self._pieces(objective, np.random.default_rng([random_state, n_epochs])):
            slots, missed = self._begin_step(kept, part, point.size)
            length = self._length(kept)
            late = None
            if missed is not None:  # at the end of a pass all weights have caught up
                late = self._catch_up(kept, slots, np.minimum(missed, kept["steps"] - begun) - 1)
            if late is not None:
                square += _move(point, slots, point[slots] - length * late)
            value, gradient = _penalised(part, point[slots], missed, square)
            for _ in range(MAX_HALVINGS):
                if _finite(value, gradient):
                    break
                kept = _halved(kept)
                square += _move(point, last_step[0], 0.5 * (last_step[1] + point[last_step[0]]))
                value, gradient = _penalised(part, point[slots], missed, square)
            if not _finite(value, gradient):
                square += _move(point, *last_step)
                continue
            values.append(value)
            before = point[slots].copy()
            square += _move(point, slots, before - self._length(kept) * self._direction(gradient, kept, slots))
            last_step = slots, before
            if after is not None:
                last_step, point = (ALL, _before(point, last_step)), after(point)
                square = float(point @ point)
        if "last" in kept:
            late = self._catch_up(kept, ALL, kept["steps"] - np.maximum(kept["last"], begun))
            point = point if late is None else point - self._length(kept) * late
        kept["epochs"] = np.array(n_epochs + 1)
        return point, kept, float(np.mean(values)) if values else np.inf

    def _length(self, memory: Memory) -> float:
        return self.step_size * float(memory["scale"]) / (1.0 + self.decay * int(memory["epochs"]))

    def _begin_step(self, memory: Memory, part: Part, n_weights: int) -> tuple[Slots, IntArray | None]:
        """Which weights the step is for, and for how many steps each was not moved, this one included."""
        if part.slots is None:
            return ALL, None
        memory["steps"] = memory.get("steps", np.array(0)) + 1
        memory.setdefault("last", np.zeros(n_weights, dtype=np.int64))
        missed = memory["steps"] - memory["last"][part.slots]
        memory["last"][part.slots] = memory["steps"]
        return part.slots, missed

    def _pieces(self, objective: Objective, rng: np.random.Generator) -> Iterator[Part]:
        """Batches, one after the other: all at once would take the memory of all."""
        if not isinstance(objective, SummedObjective):
            yield Part(objective)
            return
        order = rng.permutation(len(objective))
        n_batches = -(-len(objective) // int(self.batch_size))
        for indices in np.array_split(order, n_batches):
            yield objective.part(np.sort(indices))


def zeros_for(gradient: FloatArray, memory: Memory, slots: Slots) -> FloatArray:
    """An array of 0 for all weights, of which `gradient` belongs to some."""
    return np.zeros_like(gradient) if isinstance(slots, slice) else np.zeros(memory["last"].size)


def _penalised(part: Part, weights: FloatArray, missed: IntArray | None, square: float) -> tuple[float, FloatArray]:
    """Value and gradient with the penalty, which counts for all steps that a weight has missed.

    `square` is that of all weights.
    """
    value, gradient = part.objective(weights)
    if missed is None or part.ridge == 0.0:
        return value, gradient
    return value + part.ridge * square, gradient + 2.0 * part.ridge * missed * weights


def _move(point: FloatArray, slots: Slots, values: FloatArray) -> float:
    """Set some weights; returns by how much the sum of all squares grows."""
    old = point[slots]
    grown = float(values @ values) - float(old @ old)
    point[slots] = values
    return grown


def _before(point: FloatArray, last_step: tuple[Slots, FloatArray]) -> FloatArray:
    """All weights as they were before the last step."""
    found = point.copy()
    found[last_step[0]] = last_step[1]
    return found


def _finite(value: float, gradient: FloatArray) -> bool:
    return bool(np.isfinite(value) and np.isfinite(gradient).all())


def _halved(memory: Memory) -> Memory:
    """With half the step, and nothing of the directions that led too far."""
    return {name: memory[name] for name in ("epochs", "steps", "last") if name in memory} | {
        "scale": 0.5 * memory["scale"]
    }


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
    step_size : float
        Length of a step, relative to the gradient of the risk per variable.
    momentum : float in [0, 1)
        Share of the last direction that is kept.
    batch_size : int
        Examples in a batch.
    max_iter : int
        Most passes over the data.
    decay : float
        How fast steps get shorter; 0 keeps their length.
    tol : float
        Converged when no entry of the whole risk's gradient is larger.

    Examples
    --------
    >>> import numpy as np
    >>> bowl = lambda x: (float(x @ x), 2.0 * x)
    >>> found = SGD(step_size=0.25, momentum=0.0, decay=0.0, max_iter=3).minimize(bowl, np.array([8.0]))
    >>> found.point, found.status.name                 # each step halves x
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
    step_size : float
        Length of a step in every weight, at first.
    beta1, beta2 : float in [0, 1)
        Shares of the earlier mean gradient and mean square that are kept.
    epsilon : float
        Keeps the quotient finite.
    batch_size : int
        Examples in a batch.
    max_iter : int
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
    >>> found = Adam(step_size=0.5, max_iter=1).minimize(bowl, np.array([8.0, -1.0]))
    >>> found.point.round(6)                           # the first step has the same length in every weight
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
