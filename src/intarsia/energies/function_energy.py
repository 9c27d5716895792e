"""Energy defined by a Python function of the marginals and its gradient."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.validation import FloatArray, check_choice
from intarsia.energies.binding.bound_energy import READS, BoundEnergy
from intarsia.energies.binding.label_index import LabelIndex
from intarsia.energies.energy import Energy, check_weight
from intarsia.exceptions import InvalidInputError


class FunctionEnergy(Energy):
    """Weight psi times a function that you write in Python.

    Use it to try an idea. The function runs once per sequence and step, and a model with it cannot be saved.
    `intarsia.testing.check_energy` compares its derivatives with finite differences.

    Parameters
    ----------
    function : callable
        `function(mu, graph)` returns a number.
    derivative : callable
        `derivative(mu, graph)` returns its gradient, with the shape of mu.
    convex, smooth : bool
        Properties of the function; the inference methods rely on them.
    lipschitz : float, optional
        Constant of smoothness relative to the negative entropy, if known.
    floor : float
        Lower bound of the function, if known.
    reads : {"variables", "tables"}
        Blocks of mu that the function reads.
    hessian_vector : callable, optional
        `hessian_vector(mu, graph, v)` returns the Hessian times v, for gradients through projections. By default it is
        a central difference of `derivative`, with about 8 correct digits.
    psi : float
        Weight psi of the energy.
    strength : float, optional
        Fixed weight psi, which is not learned.
    title : str, optional
        Name of the energy in tables such as `strengths_`.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(2, 2)
    >>> square = FunctionEnergy(lambda mu, graph: 0.5 * mu @ mu, lambda mu, graph: mu, convex=True, psi=2.0)
    >>> square.bind(graph).value(graph.statistics([0, 1]))      # three entries are 1: two states and one pair
    3.0
    """

    def __init__(
        self,
        function: Callable[..., float],
        derivative: Callable[..., FloatArray],
        *,
        convex: bool = False,
        smooth: bool = True,
        lipschitz: float | None = None,
        floor: float = -np.inf,
        reads: str = "tables",
        hessian_vector: Callable[..., FloatArray] | None = None,
        psi: float = 1.0,
        strength: float | None = None,
        title: str | None = None,
    ) -> None:
        self.function = function
        self.derivative = derivative
        self.convex = convex  # type: ignore[misc]
        self.smooth = smooth
        self.lipschitz = lipschitz
        self.floor = floor
        self.reads = reads
        self.hessian_vector = hessian_vector
        self.psi = psi
        self.strength = strength
        self.title = title

    def bind_index(self, index: LabelIndex) -> BoundEnergy:
        """Return the energy of the function on the graph of the index."""
        check_choice(self.reads, READS[:2], "FunctionEnergy: reads")
        check_weight(self, 1e200)
        for key in ("function", "derivative", "hessian_vector"):
            if not callable(getattr(self, key)) and not (key == "hessian_vector" and self.hessian_vector is None):
                raise InvalidInputError(
                    f"FunctionEnergy: {key} must be callable with the arguments mu and graph, got "
                    f"{type(getattr(self, key)).__name__}. Pass a function."
                )
        return _BoundFunction(self, index)


class _BoundFunction(BoundEnergy):
    """Function of the marginals of one graph."""

    def __init__(self, settings: FunctionEnergy, index: LabelIndex) -> None:
        self.settings = settings
        super().__init__(
            index.layout, float(settings.weight), reads=settings.reads, convex=bool(settings.convex),
            smooth=bool(settings.smooth), floor=float(settings.floor),
            lipschitz=np.nan if settings.lipschitz is None else float(settings.lipschitz),
        )  # fmt: skip

    def evaluate(self, readings: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the function and its gradient at every row, one call each."""
        function, graph = self.settings.function, self.graph
        values = np.array([float(function(mu, graph)) for mu in readings])
        derivative = self.settings.derivative
        slopes = np.array([_check_shape(derivative(mu, graph), mu, "derivative") for mu in readings])
        return values[:, None], slopes.reshape(readings.shape)

    def hessian_product(self, readings: FloatArray, direction: FloatArray) -> FloatArray:
        """Return psi times the Hessian of the function times the direction."""
        function = self.settings.hessian_vector
        if function is None:
            return super().hessian_product(readings, direction)
        product = function(readings, self.graph, direction)
        return float(self.psi[0]) * _check_shape(product, readings, "hessian_vector")


def _check_shape(values: ArrayLike, expected: FloatArray, name: str) -> FloatArray:
    """Return the output of a user's function as an array, or raise if its shape or its values are invalid."""
    result = np.asarray(values, dtype=np.float64)
    if result.shape != expected.shape:
        raise InvalidInputError(
            f"FunctionEnergy: {name} returned shape {result.shape}, but mu has shape {expected.shape}. Make it "
            f"return one number for each entry."
        )
    return result
