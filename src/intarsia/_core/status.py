"""Status of a run, used by the results of all families."""

from __future__ import annotations

import enum


class Status(enum.Enum):
    """Status of a run: how it ended; `message` is the explanation for people.

    EXACT is a proof: log Z and marginals are right up to rounding, or no labelling has a higher score. CONVERGED means
    that the residual is at most `tol`, for every schedule and damping:

    * messages for marginals: no message is farther than `tol` from its undamped update, and the marginals of factors
      and variables differ by at most `tol` (or 1e-11, which is rounding);
    * messages for "map": no max-message is farther than `tol` from its undamped update;
    * mean field: a pass over all variables changes no marginal by more than `tol`;
    * sampling: no standard error of a variable's marginal is above `tol`, R-hat is at most `max_r_hat`, and a search
      found no unvisited mode that matters;
    * global energies: the marginals are within `tol` of a fixed point, or the objective of its lower bound;
    * relaxations: the bound is within `tol` of the relaxation's optimum, and the labelling is not proven best;
    * iterated conditional modes: no change of a single variable raises the score.

    A converged run of an approximate method may still be far from the exact answer: `log_partition_is` and the bounds
    say what is guaranteed.

    Examples
    --------
    >>> Status.TIME_LIMIT.message
    'stopped at time_limit'
    """

    EXACT = "the answer is exact"
    CONVERGED = "reached its tolerance"
    MAX_ITER = "stopped at max_iter before it reached its tolerance"
    STALLED = "stopped making progress before it reached its tolerance"
    TIME_LIMIT = "stopped at time_limit"
    INTERRUPTED = "interrupted; this is the best result so far"
    INFEASIBLE = "no assignment has a finite score"

    @property
    def message(self) -> str:
        """Explanation of the status for people."""
        return self.value
