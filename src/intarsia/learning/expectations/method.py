"""Base class and registry of the methods that learn from expectations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from threadpoolctl import threadpool_limits

from intarsia._core.progress import fit_progress
from intarsia._core.registry import Registry
from intarsia._core.settings import Settings
from intarsia._core.validation import FloatArray
from intarsia.exceptions import InvalidInputError
from intarsia.learning.expectations.corpus import BoundExpectations, Corpus, ExpectationTable
from intarsia.learning.minimum import Minimum, Objective, Search, largest
from intarsia.learning.optimizer import Optimizer

# Slope at a probability of 0 of a penalty that is infinite there.
_STEEP = 1e50

Report = Callable[[int, float, float, float], None]


@dataclass(frozen=True, eq=False)
class ExpectationResult:
    """Fitted weights and the values of the expectations.

    Attributes
    ----------
    minimum : Minimum
        Weights, objective per position, status and history.
    table : ExpectationTable
        Row for each term of the expectations.
    """

    minimum: Minimum
    table: ExpectationTable


class ExpectationMethod(Settings, ABC):
    """Base class of methods that fit the weights of a model to expectations and to labels, if there are any."""

    name: ClassVar[str]
    """Name in the registry."""
    summary: ClassVar[str]
    """When to use the method, in one line."""

    @abstractmethod
    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings."""

    @abstractmethod
    def check_expectations(self, expectations: BoundExpectations) -> None:
        """Raise if the method does not support a penalty of the expectations."""

    @abstractmethod
    def learn(
        self,
        corpus: Corpus,
        expectations: BoundExpectations,
        l2: float,
        optimizer: Optimizer,
        start: FloatArray,
        report: Report | None = None,
    ) -> ExpectationResult:
        """Return weights fitted to the labels and expectations with L2 regularization, starting from `start`."""


def learn_from_expectations(
    method: ExpectationMethod,
    corpus: Corpus,
    expectations: BoundExpectations,
    settings: tuple[float, Optimizer, bool],
    start: FloatArray,
    title: str,
) -> ExpectationResult:
    """Run a method with the L2 regularization, optimizer and verbosity in `settings`, and show its progress."""
    l2, optimizer, verbose = settings
    # Steps of the dual are tiny, and several threads would take longer to start than to compute them.
    with threadpool_limits(1, user_api="blas"), fit_progress(title, verbose) as report:
        return method.learn(corpus, expectations, l2, optimizer, start, report)


def check_reachable(corpus: Corpus, expectations: BoundExpectations, *, clamped: bool) -> None:
    """Raise if a penalty is infinite for all weights, because no position can have the label."""
    values = expectations.values(corpus.moments(np.zeros(corpus.n_weights), clamped=clamped).marginals)
    steep = expectations.functions.derivative(np.zeros(values.size)) < -_STEEP
    impossible = (values <= 0.0) & steep & (expectations.psi > 0.0)
    if impossible.any():
        j = int(np.argmax(impossible))
        raise InvalidInputError(
            f"{expectations.names[j]} should be {expectations.low[j]:g}, but the labels or forbidden transitions "
            f"exclude it at all its positions. Set its target to 0, or allow the label."
        )


def minimize_with_report(
    optimizer: Optimizer, objective: Objective, start: FloatArray, report: Report | None
) -> Minimum:
    """Return the minimum of an objective, and report the progress of the search."""

    def watch(search: Search) -> None:
        if report is not None:
            norm, fraction = largest(search.gradient), search.n_iter / max(1, int(optimizer.max_iter))
            report(search.n_iter, search.value, norm, fraction)

    return optimizer.minimize(objective, start, watch=watch)


EXPECTATION_METHODS: Registry[ExpectationMethod] = Registry(
    "method",
    "intarsia.learning.expectations",
    {
        "posterior_regularization": "PosteriorRegularization",
        "generalized_expectation": "GeneralizedExpectation",
    },
    ExpectationMethod,  # type: ignore[type-abstract]
)
