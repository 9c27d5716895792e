"""Base class and registry of the methods that learn from expectations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from intarsia._core.registry import Registry
from intarsia._core.settings import Settings
from intarsia._core.validation import FloatArray
from intarsia.learning.expectations.corpus import BoundExpectations, Corpus, ExpectationTable
from intarsia.learning.minimum import Minimum, Objective, Search, largest
from intarsia.learning.optimizer import Optimizer

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
