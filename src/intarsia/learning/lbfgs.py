"""L-BFGS that begins anew where a search direction is bad, and always gives back the best point it met."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import daxpy

from intarsia._validation import FloatArray, check_number
from intarsia.learning.line_search import Trial, wolfe_step
from intarsia.learning.minimum import Objective, SummedObjective
from intarsia.learning.optimizer import Optimizer
from intarsia.learning.search import Search, largest, rounding

# Not SciPy's: that one can neither hand out its state nor take it back, so a fit that was killed would lose the
# curvature it had gathered and go on another way.

# A search that for so many iterations lowers neither the value nor the gradient has nothing more to give.
MAX_IDLE = 10


class LBFGS(Optimizer):
    r"""Minimum of a smooth function by L-BFGS, begun anew from the best point on a bad search direction.

    Choose it when all data fit in one evaluation, which is the rule here. The function need not be convex, and may be
    infinite or NaN away from the start: such a step counts as too long. The direction is
    :math:`-H \nabla f` with H from the last `memory` steps and changes of gradient by the two-loop recursion; the step
    satisfies the strong Wolfe conditions, and rarely costs more than one evaluation. Where the function knows a rough
    inverse Hessian (`SummedObjective.precondition`), H begins with it. All of its state are arrays, so
    that a search which was broken off goes on exactly as it would have. Ctrl-C ends it and keeps the best point.

    Parameters
    ----------
    max_iter : int
        Most iterations, over all restarts.
    tol : float
        Converged when no entry of the gradient is larger, and in each of the last three iterations the predicted
        decrease :math:`\frac12 g^\top H g` was at most `tol` times the value. A small gradient alone says little: with
        a weak penalty the function is flat, and a gradient of 1e-5 may be ten percent above the minimum. H misses some
        of the curvature, so the true distance from the minimum of a convex function is larger than predicted, up to 50
        times on the chain models of the tests; CONVERGED means within 100 `tol` of the minimum, relative to the value
        there (0.001 by default).
    memory : int
        Pairs of steps and changes of gradient that shape the direction.

    References
    ----------
    Liu1989; Domke2013, section 8.4, for the restarts.

    Examples
    --------
    >>> import numpy as np
    >>> found = LBFGS().minimize(lambda x: (float(x @ x), 2.0 * x), np.array([3.0, 4.0]))
    >>> found.status.name, float(found.history["risk"][0])
    ('CONVERGED', 25.0)
    """

    name: ClassVar[str] = "lbfgs"

    def __init__(self, *, max_iter: int = 1000, tol: float = 1e-5, memory: int = 10) -> None:
        self.max_iter = max_iter
        self.tol = tol
        self.memory = memory

    def check_settings(self) -> None:
        """Raise for settings that cannot be meant."""
        check_number(self.max_iter, "LBFGS: max_iter", low=0, integer=True)
        check_number(self.tol, "LBFGS: tol", low=0.0)
        check_number(self.memory, "LBFGS: memory", low=1, integer=True)

    def advance(self, search: Search) -> None:
        """One step; where none can be found, once more from the best point without what was gathered."""
        found = self._step(search)
        if found is None:
            search.n_restarts += 1
            search.memory = {}
            # Anew, since a function that misled the search may have given a wrong gradient.
            search.accept(search.best_point, *search.evaluate(search.best_point))
            found = self._step(search)
        if found is None:
            search.stalled = True
            return
        self._remember(search, found)
        gained = search.value - found.value > rounding(found.value) or largest(found.gradient) < search.best_norm
        idle = 0 if gained else int(search.memory.get("idle", np.array(0))) + 1
        search.memory["idle"] = np.array(idle)
        search.stalled = idle >= MAX_IDLE
        search.accept(found.point, found.value, found.gradient)

    def _step(self, search: Search) -> Trial | None:
        scale = precondition_of(search.objective)
        scaled = scale(search.gradient)
        length = float(search.gradient @ scaled)  # the square of the gradient, in the metric of the preconditioner
        if not np.isfinite(length) or length <= 0.0:
            return None
        if not has_pairs(search.memory):
            return wolfe_step(search, -scaled, 1.0 / np.sqrt(length))
        direction = lbfgs_direction(search.gradient, search.memory, scale)
        search.predict(direction, float(self.tol))
        return wolfe_step(search, direction, 1.0)

    def settled(self, search: Search) -> bool:
        """Whether the curvature promises no further decrease."""
        return search.settled(float(self.tol))

    def _remember(self, search: Search, found: Trial) -> None:
        remember_pair(search.memory, (found.point, search.point), (found.gradient, search.gradient), int(self.memory))


def remember_pair(
    memory: dict[str, NDArray[Any]],
    points: tuple[FloatArray, FloatArray],
    gradients: tuple[FloatArray, FloatArray],
    most: int,
) -> None:
    """Add a step and the change of gradient along it, each from new to old, to the `most` latest ones.

    They take turns in the rows of a ring, of which one is free: to move them would take longer than to use them.
    "curvature" are their products, "count" is how many there have been.
    """
    if "ring" not in memory:
        shape = (most + 1, points[0].size)
        memory |= {"ring": np.empty((2, *shape)), "curvature": np.ones(shape[0]), "count": np.array(0)}
    count = int(memory["count"])
    at = count % (most + 1)
    step, change = memory["ring"][:, at]
    np.subtract(*points, out=step)
    np.subtract(*gradients, out=change)
    curvature = float(step @ change)
    if curvature <= 1e-12 * np.linalg.norm(step) * np.linalg.norm(change):
        return  # nothing to learn from
    memory["curvature"][at], memory["count"] = curvature, np.array(count + 1)


def has_pairs(memory: Mapping[str, NDArray[Any]]) -> bool:
    """Whether there is a pair that shapes the direction."""
    return "count" in memory and int(memory["count"]) > 0


def precondition_of(objective: Objective) -> Callable[[FloatArray], FloatArray]:
    """What the objective knows of its inverse Hessian; for a plain function nothing."""
    return objective.precondition if isinstance(objective, SummedObjective) else lambda gradient: gradient


def lbfgs_direction(
    gradient: FloatArray,
    memory: Mapping[str, NDArray[Any]],
    scale: Callable[[FloatArray], FloatArray] = lambda gradient: gradient,
) -> FloatArray:
    """Minus the gradient times the inverse Hessian that the remembered pairs imply (Liu1989, two-loop recursion).

    The recursion begins with `scale`, times the number that fits the last pair.
    """
    (steps, changes), curvature = memory["ring"], memory["curvature"]
    count, n_rows = int(memory["count"]), len(curvature)
    rows = [i % n_rows for i in range(max(0, count + 1 - n_rows), count)]  # from the oldest to the latest
    turned = -gradient
    along = np.zeros(n_rows)
    for i in reversed(rows):
        along[i] = (steps[i] @ turned) / curvature[i]
        turned = daxpy(changes[i], turned, a=-along[i])  # in place, and without an array in between
    last = changes[rows[-1]]
    turned = scale(turned) * (curvature[rows[-1]] / (last @ scale(last)))
    for i in rows:
        turned = daxpy(steps[i], turned, a=along[i] - (changes[i] @ turned) / curvature[i])
    return turned
