"""Whether inference under energies converged, counted over many examples and reported once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from intarsia._core.error_context import warn_caller
from intarsia.exceptions import ConvergenceWarning


class ProjectionReport(NamedTuple):
    """Number of examples, how many of them did not converge, and the largest residual of these."""

    n: int
    n_failed: int
    residual: float


def warn_unless_all_converged(reports: Iterable[ProjectionReport], noun: str, method: Any) -> None:
    """Warn once for all examples whose inference under energies did not converge.

    Examples
    --------
    >>> import warnings
    >>> from intarsia import BetheRDA
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     reports = [ProjectionReport(3, 0, 0.0), ProjectionReport(4, 2, 0.02)]
    ...     warn_unless_all_converged(reports, "sequences", BetheRDA(max_iter=40))
    >>> str(caught[0].message).partition(":")[0]
    'inference under the energies did not converge for 2 of 7 sequences'
    """
    listed = list(reports)
    n_failed = sum(report.n_failed for report in listed)
    if n_failed == 0:
        return
    residual = max(report.residual for report in listed)
    name = type(method).__name__
    other = "" if name == "BetheMirrorDescent" else ", or use projection='bethe_mirror_descent'"
    warn_caller(
        f"inference under the energies did not converge for {n_failed} of "
        f"{sum(report.n for report in listed)} {noun}: residual up to {residual:.2e} against tol={method.tol:g} after "
        f"{method.max_iter} iterations. Raise max_iter or tol, such as projection={name}(max_iter="
        f"{10 * int(method.max_iter)}){other}.",
        ConvergenceWarning,
    )
