"""The truncated log-partition function, and its gradient: what truncated likelihood and EM are made of."""

from __future__ import annotations

from intarsia._validation import FloatArray
from intarsia.gradients.free_energy import free_energy_found
from intarsia.gradients.truncated import TruncatedGradient
from intarsia.graph import FactorGraph
from intarsia.inference.method import InferenceMethod
from intarsia.inference.registry import resolve_method


def truncated_log_partition(
    graph: FactorGraph, theta: FloatArray, inference: str | InferenceMethod, n_iter: int
) -> tuple[float, FloatArray]:
    r"""Value :math:`\langle\theta, \mu_N\rangle + \tilde H(\mu_N)` of the marginals after N sweeps, with its gradient.

    This is what a truncated run says of log Z; the truncated likelihood of labels y is `theta @ statistics(y)` minus
    it, and truncated EM the difference of two, clamped and free. With too few sweeps it may lie below the score of y,
    so that the likelihood exceeds 1. At convergence the gradient is mu itself; before, there is a part through mu_N.

    Parameters
    ----------
    graph : FactorGraph
        In learning form.
    theta : (graph.n_theta,) array
        Scores.
    inference : str or InferenceMethod
        Mean field, belief propagation or tree-reweighted, at temperature 1.
    n_iter : int
        Sweeps.

    Returns
    -------
    value : float
        -inf when the model is infeasible.
    gradient : (graph.n_theta,) array

    References
    ----------
    Domke2013, section 7.3 (with plus, not minus, before the entropy).

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(3, 2)
    >>> value, gradient = truncated_log_partition(graph, graph.zeros(), "belief_propagation", 2)
    >>> round(value, 6), gradient[:2].tolist()                # 3 log 2
    (2.079442, [0.5, 0.5])
    """
    method = resolve_method(inference, {}) if isinstance(inference, str) else inference
    rule = TruncatedGradient(n_iter=n_iter)
    rule.check_fits(method)
    found = free_energy_found(rule, graph, theta, method)
    return found.value, found.gradient
