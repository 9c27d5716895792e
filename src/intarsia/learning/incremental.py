"""A schedule that learns from few examples first and from all of them last."""

from __future__ import annotations

from typing import ClassVar

from sklearn.base import BaseEstimator

from intarsia._validation import check_number


class Incremental(BaseEstimator):  # type: ignore[misc]
    """Stages of a fit: at first few examples and many iterations, then twice the examples and half the iterations.

    Every stage begins where the last one ended, and its examples contain those of the last. All stages cost about the
    same, so many iterations are had for the price of few on all data; the last stage sees all examples.

    Parameters
    ----------
    n_start : int
        Examples in the first stage.
    max_iter : int
        Most iterations in the first stage, whatever the optimiser's own limit.

    References
    ----------
    Domke2013, section 8.4.

    Examples
    --------
    >>> Incremental(n_start=32, max_iter=1000).stages(100)
    [(32, 1000), (64, 500), (100, 250)]
    """

    name: ClassVar[str] = "incremental"

    def __init__(self, *, n_start: int = 32, max_iter: int = 1000) -> None:
        self.n_start = n_start
        self.max_iter = max_iter

    def check_settings(self) -> None:
        """Raise InvalidInputError for settings that cannot be meant."""
        check_number(self.n_start, "Incremental: n_start", low=1, integer=True)
        check_number(self.max_iter, "Incremental: max_iter", low=1, integer=True)

    def stages(self, n_examples: int) -> list[tuple[int, int]]:
        """Number of examples and most iterations of each stage."""
        self.check_settings()
        found = [(min(int(self.n_start), n_examples), int(self.max_iter))]
        while found[-1][0] < n_examples:
            found.append((min(2 * found[-1][0], n_examples), max(1, found[-1][1] // 2)))
        return found
