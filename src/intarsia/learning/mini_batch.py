"""What SGD and Adam share: passes over shuffled batches, and what is done when a step went too far."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from intarsia._validation import FloatArray, check_number
from intarsia.learning.minimum import Objective, SummedObjective
from intarsia.learning.optimizer import Optimizer
from intarsia.learning.search import Search

Memory = dict[str, NDArray[Any]]

# A step that had to be halved more often than this cannot be mended by halving.
MAX_HALVINGS = 50


class MiniBatch(Optimizer):
    """Base of the optimisers that step after every batch; an iteration is a pass over all data.

    Batches are drawn anew for every pass, from the seed and the number of the pass. At its end the whole risk is
    computed, so a pass costs two evaluations of all data; the point with the lowest is what comes back, never one worse
    than the start. After a pass that ends above the start, or at a value that is not finite, the search goes back to
    the best point and goes on with half the step. So it does within a pass, back to the last batch that was finite.
    Values that do not belong to the gradient (contrastive divergence) are not compared: the last point comes back.
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
    def _direction(self, gradient: FloatArray, memory: Memory) -> FloatArray:
        """What a step of 1 subtracts, from this gradient and what `memory` holds of earlier ones."""

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
        kept = {"epochs": np.array(0), "scale": np.array(1.0), **memory}
        n_epochs = int(kept["epochs"])
        values = []
        safe = point
        for batch in self._batches(objective, np.random.default_rng([random_state, n_epochs])):
            value, gradient = batch(point)
            for _ in range(MAX_HALVINGS):
                if _finite(value, gradient):
                    break
                kept, point = _halved(kept), 0.5 * (safe + point)
                value, gradient = batch(point)
            if not _finite(value, gradient):
                point = safe
                continue
            values.append(value)
            safe = point
            length = self.step * float(kept["scale"]) / (1.0 + self.decay * n_epochs)
            point = point - length * self._direction(gradient, kept)
            point = point if after is None else after(point)
        kept["epochs"] = np.array(n_epochs + 1)
        return point, kept, float(np.mean(values)) if values else np.inf

    def _batches(self, objective: Objective, rng: np.random.Generator) -> list[Objective]:
        if not isinstance(objective, SummedObjective):
            return [objective]
        order = rng.permutation(len(objective))
        n_batches = -(-len(objective) // int(self.batch_size))
        return [objective.subset(np.sort(part)) for part in np.array_split(order, n_batches)]


def _finite(value: float, gradient: FloatArray) -> bool:
    return bool(np.isfinite(value) and np.isfinite(gradient).all())


def _halved(memory: Memory) -> Memory:
    """With half the step, and nothing of the directions that led too far."""
    return {"epochs": memory["epochs"], "scale": 0.5 * memory["scale"]}
