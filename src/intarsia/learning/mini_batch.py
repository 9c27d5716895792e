"""What SGD and Adam share: passes over shuffled batches, and what is done when a step went too far."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from intarsia._validation import FloatArray, IntArray, check_number
from intarsia.learning.minimum import Objective, Part, SummedObjective
from intarsia.learning.optimizer import Optimizer
from intarsia.learning.search import Search

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

    limit_name: ClassVar[str] = "max_epochs"
    takes_batches: ClassVar[bool] = True
    compares_values: ClassVar[bool] = False

    step: float
    batch_size: int
    max_epochs: int
    decay: float

    def check_settings(self) -> None:
        """Raise for settings that cannot be meant; extended by subclasses."""
        here = type(self).__name__
        check_number(self.step, f"{here}: step", low=0.0, open_low=True, high=np.inf, open_high=True)
        check_number(self.batch_size, f"{here}: batch_size", low=1, integer=True)
        check_number(self.max_epochs, f"{here}: max_epochs", low=0, integer=True)
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
        for part in self._parts(objective, np.random.default_rng([random_state, n_epochs])):
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
        return self.step * float(memory["scale"]) / (1.0 + self.decay * int(memory["epochs"]))

    def _begin_step(self, memory: Memory, part: Part, n_weights: int) -> tuple[Slots, IntArray | None]:
        """Which weights the step is for, and for how many steps each was not moved, this one included."""
        if part.slots is None:
            return ALL, None
        memory["steps"] = memory.get("steps", np.array(0)) + 1
        memory.setdefault("last", np.zeros(n_weights, dtype=np.int64))
        missed = memory["steps"] - memory["last"][part.slots]
        memory["last"][part.slots] = memory["steps"]
        return part.slots, missed

    def _parts(self, objective: Objective, rng: np.random.Generator) -> Iterator[Part]:
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
