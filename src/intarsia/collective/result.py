"""What is found out about many walkers from noisy counts of them."""

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
    """What `infer_flows` returns.

    Attributes
    ----------
    marginals : float array (T, s) or None
        Distribution of a walker over the cells at each step; None when no path is possible.
    n_walkers : float
        Walkers in all.
    objective : float
        `w (-<theta, n> - H(n)) + sum f(n)`, what is minimised; +inf when nothing is possible.
    lower_bound : float
        No numbers of walkers have a smaller objective; -inf where nothing is known (a model weight of 0).
    status : Status
        How the run ended.
    residual : float
        Gap between the two over 1 + |objective|; for exact counts the largest error as a share of the walkers; for a
        model weight of 0 the last relative fall of the objective.
    n_iter : int
        Iterations made.
    history : dict of float arrays
        Per iteration: "objective", "lower_bound", "residual", "oracle_calls", "seconds".
    seconds : float
        Wall time.
    tilt : float array or None
        What the counts take from the scores of cells and moves that were observed; for `warm_start`.

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
            raise NotSupportedError(f"This result holds no marginals: {self.status.message}.")
        return self.n_walkers * self.marginals

    def flows(self, step: int) -> Any:
        """Expected number of walkers on each move from `step` to the next: an array (s, s), or CSR for sparse tables.

        In a tree, on each move that leads to `step + 1`. Computed on request from the messages, which take no more
        room than the marginals.
        """
        messages, oracle = self._require()
        n = oracle.tables.table_of_step.size
        if not -n <= step < n:
            raise InvalidInputError(f"flows: there is no move from step {step}; moves leave steps 0..{n - 1}.")
        return oracle.tables.matrix(self.n_walkers * oracle.flow(messages, step % n))

    def sum_of_flows(self, table: int = 0) -> Any:
        """Expected number of uses of each move, summed over the steps that share a table."""
        messages, oracle = self._require()
        n = len(oracle.tables.theta)
        if not 0 <= table < n:
            raise InvalidInputError(f"sum_of_flows: there is no table {table}; they are 0..{n - 1}.")
        return oracle.tables.matrix(self.n_walkers * oracle.sum_of_flows(messages, table))

    def _require(self) -> tuple[Messages, WalkOracle]:
        if self._messages is None or self._oracle is None:
            raise NotSupportedError(f"This result holds no flows: {self.status.message}.")
        return self._messages, self._oracle

    def __repr__(self) -> str:
        shape = "nothing" if self.marginals is None else f"{self.marginals.shape[0]} x {self.marginals.shape[1]} cells"
        return (
            f"CollectiveResult({shape}; {self.status.name}; objective {self.objective:.8g}, residual "
            f"{self.residual:.1e}; {self.n_iter} iterations, {self.seconds:.3g} s)"
        )
