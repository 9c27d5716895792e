"""Settings of the two inference methods of collective models."""

from __future__ import annotations

from abc import ABC
from typing import Any, ClassVar

from intarsia._core.registry import Registry
from intarsia._core.settings import Settings
from intarsia._core.validation import check_number
from intarsia.collective.search import DualAscent, MirrorDescent, Search


class FlowMethod(Settings, ABC):
    """Abstract base of the inference methods of `infer_flows`.

    Parameters
    ----------
    max_iter : int
        Maximum number of iterations.
    tol : float
        Stop when the residual (see `CollectiveResult`) is at most this.

    Examples
    --------
    >>> issubclass(FlowDual, FlowMethod)
    True
    """

    search: ClassVar[type[Search]]

    def __init__(self, *, max_iter: int = 2000, tol: float = 1e-8) -> None:
        self.max_iter = max_iter
        self.tol = tol

    def check(self) -> None:
        """Raise if a setting is out of range."""
        check_number(self.max_iter, "max_iter", low=0, integer=True)
        check_number(self.tol, "tol", low=0.0)


class FlowDual(FlowMethod):
    """L-BFGS on the dual problem: fast and accurate, for all noise models.

    Examples
    --------
    >>> from intarsia.collective import CollectiveChain
    >>> CollectiveChain(inference=FlowDual(tol=1e-5)).fit([[3.0, 5.0], [4.0, 4.0]]).status_.name
    'CONVERGED'
    """

    search = DualAscent


class FlowMirrorDescent(FlowMethod):
    """Mirror descent on the flows (Vilnis2015 Algorithm 4); needs only slopes of the noise, so not for exact counts.

    Examples
    --------
    >>> from intarsia.collective import infer_flows
    >>> infer_flows([[0.0, 0.0], [0.0, 0.0]], [[6, 4], [4, 6]], method=FlowMirrorDescent(tol=1e-4)).status.name
    'CONVERGED'
    """

    search = MirrorDescent


FLOW_METHODS: Registry[Any] = Registry(
    "flow method",
    "intarsia.collective",
    {"dual": "flow_methods:FlowDual", "mirror_descent": "flow_methods:FlowMirrorDescent"},
    FlowMethod,
)
