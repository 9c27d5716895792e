"""The one answer type: what was found, how far it can be trusted, how it was reached."""

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
    """What `intarsia.infer` returns, whatever the method.

    Attributes
    ----------
    graph : FactorGraph
        The graph that was given; everything here is in its layout.
    method : object
        The settings object that ran.
    task : {"marginals", "map"}
        What was asked.
    mu : float array (n_theta,) or None
        Expected statistics. For "map", the statistics of `assignment`, or the optimum of a relaxation where `integral`
        is False. None when the model is infeasible.
    assignment : int array (n_variables,) or None
        The labelling: the best one found for "map", the most probable state of each variable for "marginals".
    score : float
        Score of `assignment`; -inf when there is none.
    integral : bool or None
        For "map", whether `mu` is the statistics of `assignment`; False where a relaxation ended at a fractional point.
        None for "marginals" and for infeasible models.
    log_partition : float or None
        Value of the objective `<theta, mu> + T H(mu)`, the method's log Z; None for "map".
    log_partition_is : str or None
        What *this run* guarantees of it: "exact", "upper bound", "lower bound" or "estimate".
    lower_bound, upper_bound : float
        On log Z for "marginals", on the best score for "map"; infinite where nothing is known.
    status : Status
        How the run ended.
    residual : float
        The quantity that is compared with `tol`, see `Status`; 0 for exact methods. For messages it is the last change
        without damping, or how far the marginals of factors and variables differ once that change is small enough.
    n_iter : int
        Sweeps made; 0 for exact methods.
    history : dict of float arrays
        One value per sweep (per round of sweeps for sampling methods), at least `residual`.
    seconds : float
        Wall time of the run, compilation included.
    samples : int array (n_samples, n_variables) or None
        Draws from the model, when asked for.
    best, best_scores : arrays (n_best, n_variables) and (n_best,) or None
        The labellings with the highest scores in falling order, when asked for.
    mu_error : float array or None
        Monte-Carlo standard error of `mu`, for sampling methods.
    r_hat : float or None
        Largest split R-hat over the variables' states, for sampling methods.
    messages : float array or None
        State of the method (messages, multipliers or a basis), for `warm_start`.
    tilted_theta : float array (n_theta,) or None
        Under a global energy, the scores of the model whose marginals `mu` are: theta less a slope of the energy.
        `assignment` (for "map"), `samples`, `best` and `best_scores` are those of this model. None for other methods.
    note : str
        Anything else worth knowing of this run, in words.
    observed : dict
        States that were known, by evidence or because a variable has only one, by index of the variable.
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
        """Whether the run ended EXACT or CONVERGED; see `Status` for what that means for each kind of method."""
        return self.status in (Status.EXACT, Status.CONVERGED)

    def marginals(self, variable: int | str) -> FloatArray:
        """Marginal distribution of one variable, by index or name."""
        return self.graph.variable(self._require_mu(), variable)

    def factor_marginals(self, factor: int) -> FloatArray:
        """Joint marginal of one factor, also where its table is shared; an axis per variable of its scope.

        The first request about a graph with shared or parametric tables runs the method once more with a table
        for each factor.
        """
        mu = self._require_mu()
        table = int(self.graph.table_of_factor[factor]) if 0 <= factor < self.graph.n_factors else -1
        if table < 0:
            raise InvalidInputError(
                f"factor_marginals: there is no factor {factor}; they are numbered 0..{self.graph.n_factors - 1}."
            )
        shared = int((self.graph.table_of_factor == table).sum()) > 1
        if not shared and not self.graph.table_kind[table]:
            return self.graph.table(mu, table)
        if self._single_factors is not None:
            return self._single_factors(factor)
        if self.integral is not False:  # statistics of a labelling
            joint = np.zeros(self.graph.factor_shape(factor))
            joint[tuple(self.assignment[self.graph.scope(factor)])] = 1.0  # type: ignore[index]
            return joint
        raise NotSupportedError(
            f"factor_marginals: the result does not hold those of factor {factor} apart, as the graph has constraints. "
            f"Give it a table of its own."
        )

    def _require_mu(self) -> FloatArray:
        if self.mu is None:
            raise NotSupportedError(f"This result holds no marginals: {self.status.message}.")
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
