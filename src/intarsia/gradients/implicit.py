"""Implicit differentiation: the gradient at convergence from one sparse linear system."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import block_array, coo_array, csc_array, diags_array

from intarsia._core.validation import FloatArray, IntArray
from intarsia.gradients.back_propagation import ConvergedRule, FixedPoint
from intarsia.gradients.free_energy import factor_weights, state_positions
from intarsia.gradients.rule import GradientResult
from intarsia.graph import FactorGraph

# A marginal below this counts as 0; its gradient would be no larger.
ZERO = 1e-14
# Hard zeros may leave redundant constraints. This shift of the diagonal makes the system regular, and iterative
# refinement of the solution removes its effect.
SHIFT = 1e-8
N_REFINEMENTS = 4


class ImplicitGradient(ConvergedRule):
    r"""Implicit differentiation: gradient of a loss of converged marginals from the optimality conditions.

    Choose it to check other rules, or for small graphs with slow convergence: the sparse factorization costs more than
    sweeps on large grids. At the optimum of :math:`\langle\theta,\mu\rangle + \tilde H(\mu)` subject to :math:`B\mu =
    d`, with D the Hessian of the entropy,

    .. math:: \begin{pmatrix} D & B^T \\ B & 0 \end{pmatrix}
              \begin{pmatrix} dL/d\theta \\ \lambda \end{pmatrix} = \begin{pmatrix} -dQ/d\mu \\ 0 \end{pmatrix}.

    The usual closed form inverts D, which is singular at leaves under belief propagation and at the corners of a grid
    with rho = 1/2; this system is not. Redundant constraints and entries of probability 0 are removed. Mean field has
    no linear constraints and is not supported.

    Parameters
    ----------
    tol : float
        Inference runs until no message changes by more, for at most its `max_iter` sweeps.

    References
    ----------
    Domke2013, section 5.

    Examples
    --------
    >>> import numpy as np
    >>> from intarsia.graph import chain_graph
    >>> class FirstState:
    ...     needs, uses_factors = "marginals", False
    ...     def value_and_gradient(self, graph, mu, labels):
    ...         return mu[0], np.eye(mu.size)[0]
    >>> graph = chain_graph(2, 2)
    >>> result = ImplicitGradient().value_and_gradient(graph, graph.zeros(), None, FirstState(), "belief_propagation")
    >>> result.gradient[:2].round(6).tolist()
    [0.25, -0.25]
    """

    name: ClassVar[str] = "implicit"
    summary: ClassVar[str] = "converged inference on small graphs; a check of other rules"
    differentiates: ClassVar[tuple[str, ...]] = ("belief_propagation", "tree_reweighted")

    def __init__(self, *, tol: float = 1e-13) -> None:
        self.tol = tol

    def _pull_back(self, point: FixedPoint) -> GradientResult:
        rho = factor_weights(point.graph, point.inference)
        gradient = OptimalityConditions(point.graph, rho, point.mu).solve(point.slope)
        return GradientResult(point.value, gradient, point.mu, point.loop.status, point.loop.n_iter)


class OptimalityConditions:
    """Differentiated optimality conditions of converged marginals, factorized once for any number of gradients.

    Parameters
    ----------
    graph : FactorGraph
        Graph in learning form.
    rho : (n_factors,) array
        Weights of the factors; 1 for belief propagation.
    mu : (n_theta,) array
        Converged marginals.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(1, 2)
    >>> OptimalityConditions(graph, np.empty(0), np.array([0.5, 0.5])).solve(np.array([1.0, 0.0])).round(9)
    array([ 0.25, -0.25])
    """

    def __init__(self, graph: FactorGraph, rho: FloatArray, mu: FloatArray) -> None:
        from scipy.sparse.linalg import splu

        self.graph = graph
        possible = mu > ZERO
        # On the constraints H~ = sum_i (1 - sum_c rho_c) H(mu_i) + sum_c rho_c H(mu_c): a diagonal Hessian.
        variable_curvature = 1.0 - np.bincount(graph.scope_idx, rho[graph.factor_of_pair], minlength=graph.n_variables)
        curvature = np.concatenate(
            [np.repeat(variable_curvature, graph.n_states), np.repeat(rho, np.diff(graph.table_ptr))]
        )  # D = -curvature / mu
        self._entries = entries = np.flatnonzero(possible)
        self._scale = np.sqrt(mu[entries])  # unknowns in units of sqrt(mu), which removes mu from the diagonal
        matrix = _constraints(graph, mu, possible)[:, entries] @ diags_array(self._scale)
        self._n_rows = matrix.shape[0]
        shift = 0.0 if possible.all() else SHIFT
        # At the entries that are not 0, theta + grad H + B^T lambda = 0.
        self._system = block_array([[diags_array(-curvature[entries]), matrix.T], [matrix, None]], format="csc")
        shifts = np.concatenate([np.zeros(entries.size), np.full(self._n_rows, shift)])
        self._factor = splu(csc_array(self._system - diags_array(shifts)))

    def solve(self, slope: FloatArray) -> FloatArray:
        """Return the gradient in theta that belongs to the gradient `slope` in mu; 0 at impossible states."""
        entries, scale = self._entries, self._scale
        target = np.concatenate([-scale * slope[entries], np.zeros(self._n_rows)])
        solution = self._factor.solve(target)
        for _ in range(N_REFINEMENTS):
            solution += self._factor.solve(target - self._system @ solution)
        gradient = self.graph.zeros()
        gradient[entries] = scale * solution[: entries.size]
        return gradient


def _constraints(graph: FactorGraph, mu: FloatArray, possible: NDArray[np.bool_]) -> csc_array:
    """Return the rows of B: every variable sums to 1, and factors agree with their variables.

    Of the last axis of a factor all rows are used; of any other axis the row of its most probable state is redundant.
    Rows of states without probability are empty and removed.
    """
    split = int(graph.variable_ptr[-1])
    rows: list[IntArray] = [np.repeat(np.arange(graph.n_variables), graph.n_states)]
    columns: list[IntArray] = [np.arange(split)]
    signs: list[FloatArray] = [np.ones(split)]
    n_rows = graph.n_variables
    entry = np.arange(split, graph.n_theta)
    factor = np.repeat(np.arange(graph.n_factors), np.diff(graph.table_ptr))
    likeliest = np.zeros(split, dtype=bool)
    for v in range(graph.n_variables):
        start = int(graph.variable_ptr[v])
        likeliest[start + int(mu[start : int(graph.variable_ptr[v + 1])].argmax())] = True
    for axis, position in enumerate(state_positions(graph, factor)):
        has_axis = position >= 0
        key = factor[has_axis] * split + position[has_axis]  # a row for each factor and state
        distinct_keys, row = np.unique(key, return_inverse=True)
        state = distinct_keys % max(split, 1)
        included = possible[state] if axis == 0 else possible[state] & ~likeliest[state]
        number = np.where(included, n_rows + np.cumsum(included) - 1, -1)
        n_rows += int(included.sum())
        in_row = included[row]
        rows += [number[row][in_row], number[included]]
        columns += [entry[has_axis][in_row], state[included]]
        signs += [np.ones(int(in_row.sum())), np.full(int(included.sum()), -1.0)]
    cells = (np.concatenate(rows), np.concatenate(columns))
    return csc_array(coo_array((np.concatenate(signs), cells), shape=(n_rows, graph.n_theta)))
