"""Comparison of the derivatives of an energy with finite differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from intarsia._core.validation import FloatArray, as_generator, check_number
from intarsia.energies import Energy
from intarsia.exceptions import InvalidInputError
from intarsia.graph import FactorGraph

_STEP = 1e-4


def check_energy(
    energy: Energy,
    graph: FactorGraph,
    names: Sequence[Any] | None = None,
    *,
    tol: float = 1e-5,
    n_points: int = 3,
    random_state: int | np.random.Generator | None = 0,
) -> float:
    """Compare the derivatives of an energy with finite differences, at marginals of random models.

    Use it before training with an energy of your own (`FunctionEnergy`, or a subclass of `Energy`): a wrong derivative
    does not raise, but learning then ends at wrong weights. It checks the gradient in mu and the Hessian, along random
    directions.

    Parameters
    ----------
    energy : Energy
        Energy to check.
    graph : FactorGraph
        Graph on which it is evaluated.
    names : sequence, optional
        Names of the states, if the energy refers to labels by name.
    tol : float
        Largest error, relative to the size of the derivative.
    n_points : int
        Number of random models.
    random_state : int, Generator or None
        Seed of the random models and directions.

    Returns
    -------
    float
        Largest relative error.

    Raises
    ------
    InvalidInputError
        If a derivative is wrong; the message names it, with its value and that of the finite difference.

    Examples
    --------
    >>> import intarsia
    >>> from intarsia.energies import FunctionEnergy
    >>> from intarsia.testing import check_energy
    >>> graph = intarsia.chain_graph(3, 2)
    >>> check_energy(FunctionEnergy(lambda mu, graph: mu @ mu, lambda mu, graph: 2 * mu), graph) < 1e-6
    True
    >>> check_energy(FunctionEnergy(lambda mu, graph: mu @ mu, lambda mu, graph: mu), graph)
    Traceback (most recent call last):
        ...
    intarsia.exceptions.InvalidInputError: check_energy: `derivative` of FunctionEnergy is wrong: ...
    """
    if not isinstance(energy, Energy):
        raise InvalidInputError(f"check_energy: energy must be an Energy, got {type(energy).__name__}. Pass one.")
    check_number(tol, "check_energy: tol", low=0.0, open_low=True)
    check_number(n_points, "check_energy: n_points", low=1, integer=True)
    rng = as_generator(random_state)
    worst = 0.0
    for _ in range(int(n_points)):
        mu, other = (_random_marginals(graph, rng) for _ in range(2))
        for name, claimed, difference, scale in _compare(energy, graph, names, mu, other - mu, rng):
            error = abs(claimed - difference) / max(scale, 1e-3)
            if not error <= tol:
                raise InvalidInputError(
                    f"check_energy: `{name}` of {type(energy).__name__} is wrong: along a random direction it is "
                    f"{claimed:.8g}, but finite differences are {difference:.8g}. Correct `{name}`; at a kink, pass "
                    f"another random_state."
                )
            worst = max(worst, error)
    return worst


Comparison = tuple[str, float, float, float]
"""Name of a derivative, its value along a direction, that of finite differences, and the scale of both."""


def _random_marginals(graph: FactorGraph, rng: np.random.Generator) -> FloatArray:
    """Return the marginals of a mixture of random labellings, which every energy can read."""
    shares = rng.dirichlet(np.ones(8))
    labellings = [rng.integers(0, graph.n_states) for _ in shares]
    return np.sum([share * graph.statistics(y) for share, y in zip(shares, labellings, strict=True)], axis=0)


def _compare(
    energy: Energy,
    graph: FactorGraph,
    names: Sequence[Any] | None,
    mu: FloatArray,
    direction: FloatArray,
    rng: np.random.Generator,
) -> Iterator[Comparison]:
    """Yield the derivatives of an energy at mu along a direction, each with finite differences."""
    bound = energy.bind(graph, names)
    gradient = bound.gradient(mu)
    yield (
        "derivative", float(gradient @ direction), _difference(lambda t: bound.value(mu + t * direction)),
        float(np.abs(gradient) @ np.abs(direction)),
    )  # fmt: skip
    probe = rng.standard_normal(mu.size)
    readings = bound.read(mu)
    product = bound.spread(bound.hessian_product(readings, bound.read(direction)), mu.size)
    yield (
        "hessian_vector", float(product @ probe),
        _difference(lambda t: float(bound.gradient(mu + t * direction) @ probe)),
        float(np.abs(product) @ np.abs(probe)),
    )  # fmt: skip


def _difference(function: Callable[[float], float]) -> float:
    """Return the derivative at 0 by central differences of fourth order."""
    first, second, third, fourth = (function(shift * _STEP) for shift in (-2.0, -1.0, 1.0, 2.0))
    return (8.0 * (third - second) - (fourth - first)) / (12.0 * _STEP)
