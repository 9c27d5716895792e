"""Feature map of graphs with several types of variables and factors, with one shared weight matrix per type."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from intarsia._core.validation import FloatArray, IntArray
from intarsia.exceptions import InvalidInputError
from intarsia.graph import FactorGraph
from intarsia.models.block_scores import Block, BlockScores
from intarsia.models.feature_matrix import check_features


@dataclass(frozen=True)
class Templates:
    """Types of variables and factors (clique templates), with their numbers of states and features.

    Attributes
    ----------
    n_states, n_features : dict of str -> int
        Number of states and of features of each type of variable, in the order of the variables in a graph.
    scopes : dict of str -> tuple of str
        For each type of factor, the types of the variables that it joins, in the order of the factors in a graph.
    n_factor_features : dict of str -> int
        Number of features of each type of factor.
    symmetric : frozenset of str
        Types of factors whose tables are invariant under permutations of their variables.

    Examples
    --------
    >>> templates = Templates(
    ...     {"word": 2, "topic": 3}, {"word": 4, "topic": 1}, {"about": ("word", "topic")}, {"about": 2}
    ... )
    >>> templates.n_weights                  # 2 x 4 for words, 3 x 1 for topics, (2 x 3) x 2 for factors
    23
    """

    n_states: Mapping[str, int]
    n_features: Mapping[str, int]
    scopes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    n_factor_features: Mapping[str, int] = field(default_factory=dict)
    symmetric: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for name in self.symmetric:
            types = self.scopes.get(name, ())
            if len(set(types)) != 1:
                reason = f"it joins {types}" if name in self.scopes else f"the factors are {list(self.scopes)}"
                raise InvalidInputError(
                    f"Templates: symmetric contains {name!r}, but {reason}. List only factors that join variables of "
                    f"the same type."
                )

    def table_shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of the tables of a type of factor."""
        return tuple(self.n_states[kind] for kind in self.scopes[name])

    def row_of(self, name: str) -> IntArray | None:
        """Return the row of the weights that each entry of a table uses; None if every entry has a separate row."""
        if name not in self.symmetric:
            return None
        shape = self.table_shape(name)
        states = np.sort(np.indices(shape).reshape(len(shape), -1), axis=0)
        _, rows = np.unique(np.ravel_multi_index(tuple(states), shape), return_inverse=True)
        return np.asarray(rows.reshape(-1), dtype=np.int64)

    @property
    def n_node_weights(self) -> int:
        """Number of weights of variables, which precede the weights of factors."""
        return sum(self.n_states[kind] * self.n_features[kind] for kind in self.n_states)

    @property
    def n_weights(self) -> int:
        """Length of the flat vector of weights."""
        return self._empty_map().n_weights

    def unpack(self, weights: FloatArray) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
        """Return the weights of each type of variables and of factors, one row per state or joint state in C order."""
        scores = self._empty_map()
        matrices = [
            matrix if block.row_of is None else matrix[block.row_of]
            for block, matrix in zip(scores.blocks, scores.split(weights), strict=True)
        ]
        names = [*self.n_states, *self.scopes]
        n_types = len(self.n_states)
        return dict(zip(names[:n_types], matrices[:n_types], strict=True)), dict(
            zip(names[n_types:], matrices[n_types:], strict=True)
        )

    def _empty_map(self) -> TemplateScores:
        return TemplateScores(self, template_graph(self, {}, {}), {}, {})


def template_graph(templates: Templates, n_variables: Mapping[str, int], scopes: Mapping[str, IntArray]) -> FactorGraph:
    """Build a graph with variables and factors ordered by type and a separate table for each factor.

    Parameters
    ----------
    templates : Templates
        Types of variables and factors.
    n_variables : dict of str -> int
        Number of variables of each type; 0 for a missing type.
    scopes : dict of str -> (n, k) int array
        For each type of factor, the variables that each factor joins, as indices within their type.

    Examples
    --------
    >>> templates = Templates({"a": 2, "b": 3}, {"a": 1, "b": 1}, {"ab": ("a", "b")}, {"ab": 1})
    >>> template_graph(templates, {"a": 2, "b": 1}, {"ab": np.array([[1, 0]])}).scope(0)
    array([1, 2])
    """
    counts = np.array([n_variables.get(kind, 0) for kind in templates.n_states], dtype=np.int64)
    offset = dict(zip(templates.n_states, (np.cumsum(counts) - counts).tolist(), strict=True))
    widths, indices = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for name, kinds in templates.scopes.items():
        scope = scopes.get(name)
        if scope is not None and scope.size:
            indices.append((scope + np.array([offset[kind] for kind in kinds])).reshape(-1))
            widths.append(np.full(len(scope), len(kinds)))
    n_states = np.repeat(np.array(list(templates.n_states.values()), dtype=np.int64), counts)
    scope_ptr = np.concatenate([[0], np.cumsum(np.concatenate(widths))]).astype(np.int64)
    return FactorGraph(n_states, scope_ptr, np.concatenate(indices).astype(np.int64))


class TemplateScores(BlockScores):
    r"""Linear feature map from weights to the log-potentials theta of a graph with typed variables and factors.

    With features :math:`u_i` of a variable of type t and :math:`v_c` of a factor of type s,

    .. math:: \theta_i = F_t u_i, \qquad \theta_c = G_s v_c,

    where :math:`F_t` has a row for each state and :math:`G_s` has a row for each joint state, in C order. The weights
    are one flat vector: the matrices of the types of variables, then those of the types of factors, each in C order.
    `theta` is the forward pass and `pull_back` the backward pass of a gradient.

    Parameters
    ----------
    templates : Templates
        Types of variables and factors, shared by all examples of a model.
    graph : FactorGraph
        Graph with variables and factors ordered by type, as built by `template_graph`.
    node_features, factor_features : dict of str -> (n, q) array or sparse matrix
        Features by type, one row per variable or factor of the type. A missing type has no variables or factors.

    Raises
    ------
    InvalidInputError
        If features are mismatched with the templates or the graph, or are not finite.

    References
    ----------
    Domke2013, section 8.1, for one type of variable and of edge.

    Examples
    --------
    >>> import numpy as np
    >>> templates = Templates({"a": 2, "b": 3}, {"a": 1, "b": 1}, {"ab": ("a", "b")}, {"ab": 1})
    >>> graph = template_graph(templates, {"a": 1, "b": 1}, {"ab": np.array([[0, 0]])})
    >>> scores = TemplateScores(templates, graph, {"a": [[2.0]], "b": [[1.0]]}, {"ab": [[10.0]]})
    >>> scores.theta(np.arange(11.0)).tolist()
    [0.0, 2.0, 2.0, 3.0, 4.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0]
    """

    def __init__(
        self,
        templates: Templates,
        graph: FactorGraph,
        node_features: Mapping[str, Any],
        factor_features: Mapping[str, Any],
    ) -> None:
        self.templates = templates
        blocks = []
        for kind, n_states in templates.n_states.items():
            features = _features(node_features, kind, templates.n_features[kind])
            blocks.append(Block(kind, features, n_states))
        for name in templates.scopes:
            features = _features(factor_features, name, templates.n_factor_features[name])
            blocks.append(Block(name, features, math.prod(templates.table_shape(name)), templates.row_of(name)))
        super().__init__(graph, blocks)
        n_scores = sum(block.n_scores for block in blocks)
        if n_scores != graph.n_theta:
            raise InvalidInputError(
                f"TemplateScores: the features yield {n_scores} scores, but the graph has {graph.n_theta}. Pass one "
                f"row per variable and factor, and build the graph with template_graph."
            )

    def without_factors(self) -> TemplateScores:
        """Return the feature map of the variables alone, without factors."""
        templates = Templates(self.templates.n_states, self.templates.n_features)
        features = {block.name: block.features for block in self.blocks[: len(templates.n_states)]}
        counts = {name: int(matrix.shape[0]) for name, matrix in features.items()}
        return TemplateScores(templates, template_graph(templates, counts, {}), features, {})


def _features(features_by_type: Mapping[str, Any], name: str, width: int) -> Any:
    if name not in features_by_type:
        return np.empty((0, width))
    features = check_features(features_by_type[name], f"TemplateScores: features of {name!r}")
    if features.shape[1] != width:
        raise InvalidInputError(
            f"TemplateScores: {name!r} has {features.shape[1]} features, but the templates need {width}."
        )
    return features
