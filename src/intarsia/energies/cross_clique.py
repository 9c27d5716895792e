"""Cliques that the graph does not have, scored through products of the variables' marginals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.validation import FloatArray, as_float_array, check_number
from intarsia.energies.binding.bound_energy import BoundEnergy, check_psi
from intarsia.energies.binding.label_index import LabelIndex
from intarsia.energies.energy import Energy
from intarsia.exceptions import InvalidInputError
from intarsia.graph import FactorGraph


class CrossCliqueEnergy(Energy):
    r"""Structured mean field: cliques left out of the graph, with products of marginals in their place; not convex.

    .. math:: L(\mu) = - \psi \sum_c \langle \theta_c, \bigotimes_{n \in c} \mu_n \rangle

    (Vilnis2015 Eq. 9.) With a graph that has no factors at all this is plain mean field; with a tree it keeps the
    tree's dependencies exact. Use `bethe_mirror_descent`, which descends at every step.

    Parameters
    ----------
    cliques : list of (variables, table)
        Variables by index or name, and the scores of their joint states; finite.
    psi : float
        Strength; 1 is the model itself.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(3, 2)
    >>> ends = CrossCliqueEnergy([((0, 2), [[1.0, 0.0], [0.0, 1.0]])]).bind(graph)
    >>> ends.value(graph.statistics([1, 0, 1])), ends.value(graph.statistics([1, 0, 0]))
    (-1.0, 0.0)
    """

    convex: ClassVar[bool] = False

    def __init__(self, cliques: Sequence[tuple[Sequence[int | str], ArrayLike]], *, psi: float = 1.0) -> None:
        self.cliques = cliques
        self.psi = psi

    def bind_index(self, index: LabelIndex) -> BoundEnergy:
        """The cliques on that graph."""
        graph = index.graph
        check_number(self.psi, "CrossCliqueEnergy: psi", low=0.0, high=1e200)
        members = []
        for c, (variables, scores) in enumerate(self.cliques):
            scope = [graph.variable_index(v) for v in variables]
            table = as_float_array(scores, f"CrossCliqueEnergy: cliques[{c}]")
            expected = tuple(int(graph.n_states[v]) for v in scope)
            if table.shape != expected or len(set(scope)) != len(scope):
                raise InvalidInputError(
                    f"CrossCliqueEnergy: cliques[{c}] has a table of shape {table.shape} for variables {scope}, whose "
                    f"states number {expected}. Give an axis per variable, each variable once."
                )
            if not np.isfinite(table).all():
                raise InvalidInputError(
                    f"CrossCliqueEnergy: cliques[{c}] has a score that is not finite. Put hard constraints into the "
                    f"graph."
                )
            members.append((scope, table))
        return _CrossCliques(graph, members, float(self.psi))  # type: ignore[arg-type]


class _CrossCliques(BoundEnergy):
    """The cliques of one graph."""

    convex = False
    smooth = True
    reads = "variables"

    def __init__(self, graph: FactorGraph, cliques: list[tuple[list[int], FloatArray]], psi: float) -> None:
        self.graph = graph
        self.cliques = cliques
        self.psi = check_psi(psi, 1)
        self.describe()

    def describe(self) -> None:
        """Products of marginals never score more than the largest entry."""
        self.floor = -float(self.psi[0]) * sum(float(table.max()) for _, table in self.cliques)

    @property
    def lipschitz(self) -> float | None:
        """Per clique of k variables, k (k - 1) / 2 times the range of its scores.

        Second derivatives join two variables of a clique at a time and are contractions of its table; half the range
        bounds them on differences that sum to 0, and Pinsker's inequality bounds those by the divergence.
        """
        return float(self.psi[0]) * sum(
            0.5 * len(scope) * (len(scope) - 1) * float(table.max() - table.min()) for scope, table in self.cliques
        )

    def parts(self, mu: FloatArray) -> FloatArray:
        """Minus the expected score under products of marginals."""
        return np.array([-sum(float(_contract(self._blocks(scope, mu), table, -1)) for scope, table in self.cliques)])

    def gradient(self, mu: FloatArray) -> FloatArray:
        """Minus each table contracted with all marginals but one."""
        return self.psi[0] * self._slope(mu)

    def psi_gradient(self, mu: FloatArray, direction: FloatArray) -> FloatArray:
        """`<slope, direction>`."""
        return np.array([self._slope(mu) @ direction])

    def _slope(self, mu: FloatArray) -> FloatArray:
        made = np.zeros(self.graph.n_theta)
        for scope, table in self.cliques:
            blocks = self._blocks(scope, mu)
            for axis, v in enumerate(scope):
                self.graph.variable(made, v)[:] -= _contract(blocks, table, axis)
        return made

    def _blocks(self, scope: list[int], mu: FloatArray) -> list[FloatArray]:
        return [self.graph.variable(mu, v) for v in scope]


def _contract(blocks: list[FloatArray], table: FloatArray, keep: int) -> FloatArray:
    """Table summed against the marginals of every axis but one (-1: of every axis)."""
    left = table
    for axis in range(len(blocks) - 1, -1, -1):
        if axis != keep:
            left = np.tensordot(left, blocks[axis], axes=(axis, 0))
    return np.asarray(left)
