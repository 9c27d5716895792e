"""Any function of the marginals that comes with its gradient."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from intarsia._core.validation import FloatArray, check_choice, check_number
from intarsia.energies.binding.bound_energy import READS, BoundEnergy, check_psi
from intarsia.energies.binding.label_index import LabelIndex
from intarsia.energies.energy import Energy
from intarsia.exceptions import InvalidInputError
from intarsia.graph import FactorGraph


class FunctionEnergy(Energy):
    """Strength times a function of your own.

    Parameters
    ----------
    function : callable
        `function(mu, graph)` returns a number.
    derivative : callable
        `derivative(mu, graph)` returns its gradient, shaped like mu.
    convex, smooth : bool
        What is true of it; the methods choose their guarantees by it.
    lipschitz : float, optional
        Constant of smoothness relative to the negative entropy, if known.
    floor : float
        A lower bound, if known.
    reads : {"variables", "tables"}
        Which blocks of mu it looks at.
    psi : float
        Strength.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(2, 2)
    >>> square = FunctionEnergy(lambda mu, graph: 0.5 * mu @ mu, lambda mu, graph: mu, convex=True, psi=2.0)
    >>> square.bind(graph).value(graph.statistics([0, 1]))      # three ones: two states and a pair
    3.0
    """

    def __init__(
        self,
        function: Callable[[FloatArray, FactorGraph], float],
        derivative: Callable[[FloatArray, FactorGraph], FloatArray],
        *,
        convex: bool = False,
        smooth: bool = True,
        lipschitz: float | None = None,
        floor: float = -np.inf,
        reads: str = "tables",
        psi: float = 1.0,
    ) -> None:
        self.function = function
        self.derivative = derivative
        self.convex = convex  # type: ignore[misc]
        self.smooth = smooth
        self.lipschitz = lipschitz
        self.floor = floor
        self.reads = reads
        self.psi = psi

    def bind_index(self, index: LabelIndex) -> BoundEnergy:
        """The function on that graph."""
        check_choice(self.reads, READS[:2], "FunctionEnergy: reads")
        check_number(self.psi, "FunctionEnergy: psi", low=0.0, high=1e200)
        for key in ("function", "derivative"):
            if not callable(getattr(self, key)):
                raise InvalidInputError(f"FunctionEnergy: {key} must be callable, taking mu and the graph.")
        return _BoundFunction(self, index.graph)


class _BoundFunction(BoundEnergy):
    """A function on one graph."""

    def __init__(self, settings: FunctionEnergy, graph: FactorGraph) -> None:
        self.graph = graph
        self.settings = settings
        self.psi = check_psi(float(settings.psi), 1)  # type: ignore[arg-type]
        self.convex, self.smooth, self.reads = bool(settings.convex), bool(settings.smooth), settings.reads
        self.describe()

    def describe(self) -> None:
        """The lower bound scales with psi."""
        self.floor = float(self.psi[0] * self.settings.floor) if self.psi[0] > 0 else 0.0

    @property
    def lipschitz(self) -> float | None:
        """The given constant times psi."""
        given = self.settings.lipschitz
        return None if given is None else float(self.psi[0]) * float(given)

    def parts(self, mu: FloatArray) -> FloatArray:
        """Value of the function."""
        return np.array([float(self.settings.function(mu, self.graph))])

    def gradient(self, mu: FloatArray) -> FloatArray:
        """Its gradient times psi."""
        return self.psi[0] * self._slope(mu)

    def psi_gradient(self, mu: FloatArray, direction: FloatArray) -> FloatArray:
        """`<slope, direction>`."""
        return np.array([self._slope(mu) @ direction])

    def _slope(self, mu: FloatArray) -> FloatArray:
        slope = np.asarray(self.settings.derivative(mu, self.graph), dtype=np.float64)
        if slope.shape != mu.shape:
            raise InvalidInputError(
                f"FunctionEnergy: derivative returned shape {slope.shape}, but mu has shape {mu.shape}."
            )
        return slope
