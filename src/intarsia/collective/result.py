"""Result of the inference of walkers and flows from noisy counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from intarsia._core.html import ShownResult
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray
from intarsia.collective.oracle import Messages, WalkOracle
from intarsia.exceptions import InvalidInputError, NotSupportedError


@dataclass(frozen=True, eq=False, repr=False)
class CollectiveResult(ShownResult):
    """Walkers and flows inferred by `infer_flows`.

    Attributes
    ----------
    marginals : float array (T, s) or None
        Distribution of a walker over the cells at each step; None if no path is possible.
    n_walkers : float
        Total number of walkers.
    objective : float
        Minimised objective `w (-<theta, n> - H(n)) + sum f(n)`; +inf if no path is possible.
    lower_bound : float
        Lower bound on the objective of any numbers of walkers; -inf if there is none (model weight 0).
    status : Status
        How the run ended.
    residual : float
        Gap between objective and lower bound, divided by 1 + |objective|; for exact counts the largest error as a
        fraction of the walkers; for a model weight of 0 the last relative decrease of the objective.
    n_iter : int
        Number of iterations.
    history : dict of float arrays
        Per iteration: "objective", "lower_bound", "residual", "oracle_calls", "seconds".
    seconds : float
        Wall time.
    tilt : float array or None
        Numbers subtracted from the scores of the observed cells and moves to fit the counts (exponential tilting); used
        by `warm_start`.

    Examples
    --------
    >>> import numpy as np
    >>> from intarsia.collective.infer_flows import infer_flows
    >>> result = infer_flows(np.log([[0.9, 0.1], [0.1, 0.9]]), [[8, 2], [5, 5]], noise="exact", tol=1e-10)
    >>> result.flows(0).sum(axis=1).round(6), result.flows(0).sum(axis=0).round(6)
    (array([8., 2.]), array([5., 5.]))
    """

    marginals: FloatArray | None
    n_walkers: float
    objective: float
    lower_bound: float
    status: Status
    residual: float
    n_iter: int
    history: dict[str, FloatArray] = field(default_factory=dict)
    seconds: float = 0.0
    tilt: FloatArray | None = None
    _messages: Messages | None = None
    _oracle: WalkOracle | None = None

    @property
    def converged(self) -> bool:
        """Whether the tolerance was reached."""
        return self.status in (Status.EXACT, Status.CONVERGED)

    @property
    def walkers(self) -> FloatArray:
        """Expected number of walkers in each cell at each step, (T, s)."""
        if self.marginals is None:
            raise NotSupportedError(f"This result holds no marginals: {self.status.message}. Check `status` first.")
        return self.n_walkers * self.marginals

    def flows(self, step: int) -> Any:
        """Return the expected number of walkers on each move from `step` to the next, as an array (s, s) or CSR array.

        Sparse tables give a CSR array. In a tree, the moves are those that lead to `step + 1`. The flows are computed
        on request from the messages, which need no more memory than the marginals.
        """
        messages, oracle = self._require()
        n = oracle.tables.table_of_step.size
        if not -n <= step < n:
            raise InvalidInputError(f"flows: step is {step}, but moves start at steps 0..{n - 1}. Pass one of these.")
        return oracle.tables.matrix(self.n_walkers * oracle.flow(messages, step % n))

    def sum_of_flows(self, table: int = 0) -> Any:
        """Return the expected number of uses of each move, summed over the steps that share a table."""
        messages, oracle = self._require()
        n = len(oracle.tables.theta)
        if not 0 <= table < n:
            raise InvalidInputError(f"sum_of_flows: table is {table}, but tables are 0..{n - 1}. Pass one of these.")
        return oracle.tables.matrix(self.n_walkers * oracle.sum_of_flows(messages, table))

    def _require(self) -> tuple[Messages, WalkOracle]:
        """Return messages and oracle; raise if the result has none."""
        if self._messages is None or self._oracle is None:
            raise NotSupportedError(f"This result holds no flows: {self.status.message}. Check `status` first.")
        return self._messages, self._oracle

    def __repr__(self) -> str:
        shape = "nothing" if self.marginals is None else f"{self.marginals.shape[0]} x {self.marginals.shape[1]} cells"
        return (
            f"CollectiveResult({shape}; {self.status.name}; objective {self.objective:.8g}, residual "
            f"{self.residual:.1e}; {self.n_iter} iterations, {self.seconds:.3g} s)"
        )
