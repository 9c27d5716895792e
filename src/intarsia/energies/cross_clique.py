"""Cliques that are not in the graph, scored by products of the marginals of their variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.validation import FloatArray, as_float_array
from intarsia.energies.binding.bound_energy import BoundEnergy
from intarsia.energies.binding.label_index import LabelIndex
from intarsia.energies.energy import Energy, check_weight
from intarsia.exceptions import InvalidInputError
from intarsia.graph import FactorGraph


class CrossCliqueEnergy(Energy):
    r"""Structured mean field: cliques that are not in the graph, scored by products of marginals; not convex.

    .. math:: L(\mu) = - \psi \sum_c \langle \theta_c, \bigotimes_{n \in c} \mu_n \rangle

    (Vilnis2015 Eq. 9.) On a graph without factors this is plain mean field; on a tree, the dependencies of the tree
    stay exact. Use `bethe_mirror_descent`, which lowers the objective at every step.

    Parameters
    ----------
    cliques : list of (variables, table)
        Variables by index or name, and the finite scores of their joint states.
    psi : float
        Weight psi of the energy; 1 is the model itself.
    strength : float, optional
        Fixed weight psi, which is not learned.
    title : str, optional
        Name of the energy in tables such as `strengths_`.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(3, 2)
    >>> ends = CrossCliqueEnergy([((0, 2), [[1.0, 0.0], [0.0, 1.0]])]).bind(graph)
    >>> ends.value(graph.statistics([1, 0, 1])), ends.value(graph.statistics([1, 0, 0]))
    (-1.0, 0.0)
    """

    convex: ClassVar[bool] = False

    def __init__(
        self,
        cliques: Sequence[tuple[Sequence[int | str], ArrayLike]],
        *,
        psi: float = 1.0,
        strength: float | None = None,
        title: str | None = None,
    ) -> None:
        self.cliques = cliques
        self.psi = psi
        self.strength = strength
        self.title = title

    def bind_index(self, index: LabelIndex) -> BoundEnergy:
        """Return the energy of the cliques on the graph of the index."""
        graph = index.graph
        psi = check_weight(self, 1e200)
        cliques = []
        for c, (variables, scores) in enumerate(self.cliques):
            scope = [graph.variable_index(v) for v in variables]
            table = as_float_array(scores, f"CrossCliqueEnergy: cliques[{c}]")
            expected = tuple(int(graph.n_states[v]) for v in scope)
            if table.shape != expected or len(set(scope)) != len(scope):
                raise InvalidInputError(
                    f"CrossCliqueEnergy: the table of cliques[{c}] has shape {table.shape}, but variables {scope} have "
                    f"{expected} states. Pass a table with one axis per variable, and each variable once."
                )
            if not np.isfinite(table).all():
                raise InvalidInputError(
                    f"CrossCliqueEnergy: cliques[{c}] has a score that is not finite. Add hard constraints to the "
                    f"graph instead."
                )
            cliques.append((scope, table))
        return _CrossCliques(graph, cliques, psi)


class _CrossCliques(BoundEnergy):
    """Energy of the cliques on one graph.

    Products of marginals never score more than the largest entry of the table. Second derivatives involve two
    variables of a clique at a time and are contractions of its table. Half the range of the table bounds them on
    differences that sum to 0, and Pinsker's inequality bounds these differences by the divergence. So `lipschitz` is
    k (k - 1) / 2 times the range of the scores, for each clique of k variables.
    """

    def __init__(self, graph: FactorGraph, cliques: list[tuple[list[int], FloatArray]], psi: float) -> None:
        self.cliques = cliques
        super().__init__(
            graph, psi, reads="variables", convex=False,
            floor=-sum(float(table.max()) for _, table in cliques),
            lipschitz=sum(
                0.5 * len(scope) * (len(scope) - 1) * float(table.max() - table.min()) for scope, table in cliques
            ),
        )  # fmt: skip

    def evaluate(self, readings: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return minus the expected scores under products of marginals, and their gradients."""
        values, slopes = np.zeros((len(readings), 1)), np.zeros(readings.shape)
        for i, mu in enumerate(readings):
            for scope, table in self.cliques:
                blocks = [self.graph.variable(mu, v) for v in scope]
                values[i, 0] -= float(_contract(blocks, table, -1))
                for axis, v in enumerate(scope):
                    self.graph.variable(slopes[i], v)[:] -= _contract(blocks, table, axis)
        return values, slopes

    def hessian_product(self, readings: FloatArray, direction: FloatArray) -> FloatArray:
        """Return the change of the gradient if the marginals of one other variable of a clique change."""
        product = np.zeros(readings.size)
        for scope, table in self.cliques:
            blocks = [self.graph.variable(readings, v) for v in scope]
            for changed, v in enumerate(scope):
                factors = [*blocks]
                factors[changed] = self.graph.variable(direction, v)
                for axis, w in enumerate(scope):
                    if axis != changed:
                        self.graph.variable(product, w)[:] -= _contract(factors, table, axis)
        return float(self.psi[0]) * product


def _contract(blocks: list[FloatArray], table: FloatArray, skip: int) -> FloatArray:
    """Sum a table against the marginals of every axis except `skip` (-1: of every axis)."""
    result = table
    for axis in range(len(blocks) - 1, -1, -1):
        if axis != skip:
            result = np.tensordot(result, blocks[axis], axes=(axis, 0))
    return np.asarray(result)
