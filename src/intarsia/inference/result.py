"""Result type of all inference methods: the solution, its guarantees, and how the run went."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from intarsia._core.html import ShownResult
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, IntArray
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.graph import FactorGraph


@dataclass(frozen=True, eq=False, repr=False)
class InferenceResult(ShownResult):
    """Result of `intarsia.infer`, the same type for every method.

    Attributes
    ----------
    graph : FactorGraph
        Graph passed to `infer`; all arrays are in its layout.
    method : object
        Settings object of the method that ran.
    task : {"marginals", "map"}
        Task passed to `infer`.
    mu : float array (n_theta,) or None
        Marginals (expected statistics) of all variables and tables. For "map", the statistics of `assignment`, or the
        optimum of a relaxation where `integral` is False. None if the model is infeasible.
    assignment : int array (n_variables,) or None
        Labelling: the best labelling of the search for "map", the most probable state of each variable for "marginals".
    score : float
        Score of `assignment`; -inf if there is no assignment.
    integral : bool or None
        For "map", whether `mu` holds the statistics of `assignment`; False if a relaxation ended at a fractional point.
        None for "marginals" and for infeasible models.
    log_partition : float or None
        Log Z (log partition function) according to the method: its optimal `<theta, mu> + T H(mu)`. None for "map".
    log_partition_is : str or None
        Guarantee of *this run* on log Z: "exact", "upper bound", "lower bound" or "estimate".
    lower_bound, upper_bound : float
        Bounds on log Z for "marginals", on the best score for "map"; infinite where no bound is available.
    status : Status
        How the run ended, such as CONVERGED or MAX_ITER.
    residual : float
        Quantity that is compared with `tol` (see `Status`); 0 for exact methods. For message passing it is the last
        undamped change of a message or, once that is small, the difference between marginals of factors and variables.
    n_iter : int
        Number of sweeps; 0 for exact methods.
    history : dict of float arrays
        One value per sweep (per round of sweeps for sampling methods); `residual` is always present for them.
    seconds : float
        Wall time of the run, including compilation.
    samples : int array (n_samples, n_variables) or None
        Samples from the model, if requested with `n_samples`.
    best, best_scores : arrays (n_best, n_variables) and (n_best,) or None
        Labellings with the highest scores in descending order, if requested with `n_best`.
    mu_error : float array or None
        Monte Carlo standard error of `mu`, for sampling methods.
    r_hat : float or None
        Largest split R-hat (convergence diagnostic of the chains) over the states of variables, for sampling methods.
    messages : float array or None
        Internal state of the method (messages, multipliers or a basis), used by `warm_start`.
    tilted_theta : float array (n_theta,) or None
        With a global energy, the scores of the model that has the marginals `mu`: theta minus a (sub)gradient of the
        energy. `assignment` (for "map"), `samples`, `best` and `best_scores` belong to this model. None for others.
    note : str
        Further remarks on this run, for people to read.
    observed : dict
        Fixed states by index of the variable: evidence, and the only state of variables that have one state.
    chosen_by_auto : bool
        Whether `method="auto"` chose the method.

    Examples
    --------
    >>> import intarsia
    >>> graph = intarsia.chain_graph(2, 2)
    >>> result = intarsia.infer(graph, graph.pack(tables=[[[1.0, 0.0], [0.0, 1.0]]]), "brute_force")
    >>> result.marginals(0)
    array([0.5, 0.5])
    >>> result.factor_marginals(0).round(4)
    array([[0.3655, 0.1345],
           [0.1345, 0.3655]])
    """

    graph: FactorGraph
    method: Any
    task: str
    status: Status
    mu: FloatArray | None = None
    assignment: IntArray | None = None
    score: float = -np.inf
    integral: bool | None = None
    log_partition: float | None = None
    log_partition_is: str | None = None
    lower_bound: float = -np.inf
    upper_bound: float = np.inf
    residual: float = 0.0
    n_iter: int = 0
    history: dict[str, FloatArray] = field(default_factory=dict)
    seconds: float = 0.0
    samples: IntArray | None = None
    best: IntArray | None = None
    best_scores: FloatArray | None = None
    mu_error: FloatArray | None = None
    r_hat: float | None = None
    messages: FloatArray | None = None
    tilted_theta: FloatArray | None = None
    note: str = ""
    observed: dict[int, int] = field(default_factory=dict)
    chosen_by_auto: bool = False
    _single_factors: Callable[[int], FloatArray] | None = None

    @property
    def converged(self) -> bool:
        """Whether the status is EXACT or CONVERGED; `Status` describes what this means for each kind of method."""
        return self.status in (Status.EXACT, Status.CONVERGED)

    def marginals(self, variable: int | str) -> FloatArray:
        """Return the marginal distribution of a variable, by index or name."""
        return self.graph.variable(self._require_mu(), variable)

    def factor_marginals(self, factor: int) -> FloatArray:
        """Return the joint marginal of one factor as an array with one axis per variable of its scope.

        If factors share tables or tables are parametric, the first call runs the method again with a separate table
        for each factor.
        """
        mu = self._require_mu()
        table = int(self.graph.table_of_factor[factor]) if 0 <= factor < self.graph.n_factors else -1
        if table < 0:
            raise InvalidInputError(
                f"factor_marginals: factor {factor} does not exist. Pass an index in 0..{self.graph.n_factors - 1}."
            )
        shared = int((self.graph.table_of_factor == table).sum()) > 1
        if not shared and not self.graph.table_kind[table]:
            return self.graph.table(mu, table)
        if self._single_factors is not None:
            return self._single_factors(factor)
        if self.integral is not False:  # mu holds the statistics of a labelling
            joint = np.zeros(self.graph.factor_shape(factor))
            joint[tuple(self.assignment[self.graph.scope(factor)])] = 1.0  # type: ignore[index]
            return joint
        raise NotSupportedError(
            f"factor_marginals: factor {factor} shares its table in a graph with constraints, so its marginal is not "
            f"available separately. Give the factor a table of its own."
        )

    def _require_mu(self) -> FloatArray:
        """Return `mu`; raise if the result has no marginals."""
        if self.mu is None:
            raise NotSupportedError(f"This result holds no marginals: {self.status.message}. Check `status` first.")
        return self.mu

    def __repr__(self) -> str:
        method = f"auto chose {self.method.name}" if self.chosen_by_auto else type(self.method).__name__
        parts = [f"{method}, {self.task}", self.status.name]
        if self.log_partition is not None:
            parts.append(f"log Z {self.log_partition:.6g} ({self.log_partition_is})")
        if self.task == "map":
            parts.append(f"score {self.score:.6g}")
            if np.isfinite(self.upper_bound):
                parts.append(f"upper bound {self.upper_bound:.6g}")
        if self.n_iter:
            parts.append(f"{self.n_iter} sweeps, residual {self.residual:.1e}")
        parts.append(f"{self.seconds:.3g} s")
        return f"InferenceResult({'; '.join(parts)})"
