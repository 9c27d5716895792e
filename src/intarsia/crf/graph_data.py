"""Input graphs of `GraphCRF`: features, edges and factors, checked, with their types of variables and factors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from intarsia._core.validation import IntArray, as_int_array
from intarsia.exceptions import InvalidInputError
from intarsia.models.feature_matrix import check_features
from intarsia.models.template_scores import Templates


@dataclass(frozen=True, eq=False)
class Factors:
    """Factors of one type in a graph: the variables that each factor joins, and its features.

    Parameters
    ----------
    scopes : (n, k) int array
        One row per factor: the variables that it joins, each as an index within its type.
    features : (n, q) array or sparse matrix, optional
        Features, one row per factor. Default: one constant feature.
    types : str or tuple of k str, optional
        Type of the variables in each column, or one type for all columns. Not needed if there is only one type of
        variables.

    Examples
    --------
    >>> Factors([[0, 0], [1, 0]], types=("word", "topic"))          # words 0 and 1 with topic 0
    Factors(scopes=[[0, 0], [1, 0]], features=None, types=('word', 'topic'))
    """

    scopes: Any
    features: Any = None
    types: str | Sequence[str] | None = None


@dataclass(frozen=True, eq=False)
class GraphInstance:
    """Graph with features: an element of X for `GraphCRF`.

    For one type of variables and pairwise edges, pass `node_features`, `edges` and `edge_features`. In general there
    may be several types of variables, each with separate states and features, and several types of factors, each of
    which joins any number of variables and has separate weights.

    Parameters
    ----------
    node_features : (n, p) array or sparse matrix, or dict of str -> such
        Features, one row per variable; a dict by type if there are several types. A single type is called "node".
    edges : (m, 2) int array, optional
        Pairs of variables, if there is a single type of variables. They are factors of a type called "edge".
    edge_features : (m, q) array or sparse matrix, optional
        Features, one row per edge. Default: one constant feature.
    factors : dict of str -> Factors, optional
        Factors by type. An array is read as `Factors(array)`, a tuple as `Factors(*tuple)`.

    Examples
    --------
    >>> simple = GraphInstance([[0.5], [1.0], [2.0]], edges=[[0, 1], [1, 2]])
    >>> general = GraphInstance(
    ...     {"word": [[0.5], [1.0], [2.0]], "topic": [[1.0, 0.0]]},
    ...     factors={
    ...         "follows": Factors([[0, 1], [1, 2]], types="word"),
    ...         "about": Factors([[0, 0], [1, 0], [2, 0]], types=("word", "topic")),
    ...     },
    ... )
    """

    node_features: Any
    edges: Any = None
    edge_features: Any = None
    factors: Mapping[str, Any] | None = None


@dataclass(frozen=True, eq=False)
class TypedFactors:
    """Factors of one type in a graph, after all checks."""

    scopes: IntArray
    features: Any
    types: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class TypedGraph:
    """Graph instance after all checks; `has_types` if the user passed features by type."""

    node_features: dict[str, Any]
    factors: dict[str, TypedFactors]
    has_types: bool

    @property
    def n_variables(self) -> dict[str, int]:
        """Number of variables of each type."""
        return {kind: int(features.shape[0]) for kind, features in self.node_features.items()}


@dataclass(frozen=True)
class TypeTable:
    """Types of a model with all fields of `Templates` that follow from the features; the numbers of states do not."""

    n_features: dict[str, int] = field(default_factory=dict)
    scopes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    n_factor_features: dict[str, int] = field(default_factory=dict)


def read_graphs(X: Any) -> list[TypedGraph]:
    """Read the graphs of X and check each of them separately."""
    if isinstance(X, (str, bytes, Mapping, GraphInstance)) or not hasattr(X, "__len__"):
        raise InvalidInputError(
            f"X must be a list of graphs, got {type(X).__name__}. Pass a list of GraphInstance or of tuples "
            f"(node_features, edges)."
        )
    if len(X) == 0:
        raise InvalidInputError("X is empty. Pass at least one graph.")
    return [_read_graph(instance, f"X[{i}]") for i, instance in enumerate(X)]


def _read_graph(instance: Any, name: str) -> TypedGraph:
    if isinstance(instance, tuple) and 1 <= len(instance) <= 3:
        instance = GraphInstance(*instance)
    if not isinstance(instance, GraphInstance):
        raise InvalidInputError(
            f"{name} is of type {type(instance).__name__}. Pass a GraphInstance, or a tuple (node_features, edges) or "
            f"(node_features, edges, edge_features)."
        )
    has_types = isinstance(instance.node_features, Mapping)
    nodes = dict(instance.node_features) if has_types else {"node": instance.node_features}
    if not nodes:
        raise InvalidInputError(f"{name}: node_features is empty. Pass features of at least one type of variables.")
    feature_name = {kind: f"node_features[{kind!r}]" if has_types else "node_features" for kind in nodes}
    features = {kind: check_features(matrix, f"{name}: {feature_name[kind]}") for kind, matrix in nodes.items()}
    factors: dict[str, Any] = dict(instance.factors or {})
    if instance.edges is not None:
        if "edge" in factors:
            raise InvalidInputError(f"{name} has both edges and factors of type 'edge'. Pass only one of them.")
        if len(nodes) > 1:
            raise InvalidInputError(
                f"{name} has edges, but {len(nodes)} types of variables: {list(nodes)}. Pass "
                f"factors={{'edge': Factors(edges, edge_features, types=(..., ...))}}."
            )
        edges = np.asarray(instance.edges)
        factors["edge"] = Factors(edges.reshape(0, 2) if edges.size == 0 else edges, instance.edge_features)
    elif instance.edge_features is not None:
        raise InvalidInputError(f"{name} has edge_features but no edges. Pass edges too.")
    counts = {kind: int(matrix.shape[0]) for kind, matrix in features.items()}
    factors_by_type = {}
    for factor_type, raw_factors in factors.items():
        factor_name = "edges" if factor_type == "edge" and instance.edges is not None else f"factors[{factor_type!r}]"
        typed_factors = _read_factors(raw_factors, counts, f"{name}: {factor_name}")
        if typed_factors is not None:
            factors_by_type[factor_type] = typed_factors
    return TypedGraph(features, factors_by_type, has_types)


def _read_factors(factors: Any, counts: dict[str, int], name: str) -> TypedFactors | None:
    """Read the factors of one type; return None for an empty list whose number of columns cannot be inferred."""
    if isinstance(factors, tuple) and 1 <= len(factors) <= 3:
        factors = Factors(*factors)
    elif not isinstance(factors, Factors):
        factors = Factors(factors)
    scopes = as_int_array(factors.scopes, name)
    if scopes.size == 0 and scopes.ndim < 2:
        if factors.types is None or isinstance(factors.types, str):
            return None
        scopes = scopes.reshape(0, len(factors.types))
    if scopes.ndim != 2 or scopes.shape[1] == 0:
        raise InvalidInputError(
            f"{name} has scopes of shape {scopes.shape}, expected (n, k): one row per factor with the k variables "
            f"that it joins."
        )
    types = _check_types(factors.types, scopes.shape[1], counts, name)
    sizes = np.array([counts.get(kind, 0) for kind in types])
    invalid = (scopes < 0) | (scopes >= sizes)
    if invalid.any():
        row, column = (int(index) for index in np.argwhere(invalid)[0])
        raise InvalidInputError(
            f"{name}[{row}] names variable {scopes[row, column]} of type {types[column]!r}, but there are "
            f"{sizes[column]}, counted from 0. Use indices of existing variables."
        )
    for a in range(len(types)):
        for b in range(a):
            is_repeated = (scopes[:, a] == scopes[:, b]) & (types[a] == types[b])
            if is_repeated.any():
                row = int(np.argmax(is_repeated))
                raise InvalidInputError(
                    f"{name}[{row}] joins variable {scopes[row, a]} of type {types[a]!r} to itself. Use each variable "
                    f"once per factor; put features of a single variable into node_features."
                )
    if factors.features is None:
        return TypedFactors(scopes, np.ones((len(scopes), 1)), types)
    features = check_features(factors.features, f"{name}: features", len(scopes), f"there are {len(scopes)} factors")
    return TypedFactors(scopes, features, types)


def _check_types(types: Any, width: int, counts: dict[str, int], name: str) -> tuple[str, ...]:
    if types is None:
        if len(counts) > 1:
            raise InvalidInputError(
                f"{name} does not specify which of the types {list(counts)} its {width} variables have. Pass "
                f"Factors(scopes, features, types=(...))."
            )
        return tuple(counts) * width
    if not isinstance(types, (str, list, tuple)):
        raise InvalidInputError(f"{name} has types={types!r}. Pass the name of a type, or a tuple of {width} names.")
    type_names = (types,) * width if isinstance(types, str) else tuple(types)
    if len(type_names) != width:
        raise InvalidInputError(
            f"{name} joins {width} variables, but has {len(type_names)} types: {type_names}. Pass one type per "
            f"variable."
        )
    return type_names


def find_types(graphs: list[TypedGraph], templates: Templates | None = None) -> TypeTable:
    """Return all types in order of occurrence; raise for types that are not in `templates` of a fitted model."""
    table = TypeTable()
    if templates is not None:
        table = TypeTable(dict(templates.n_features), dict(templates.scopes), dict(templates.n_factor_features))
    for i, graph in enumerate(graphs):
        example_name = f"X[{i}]"
        for kind, features in graph.node_features.items():
            _check_n_features(
                table.n_features, kind, int(features.shape[1]), f"{example_name}: variables of type", templates
            )
        for name, factors in graph.factors.items():
            if table.scopes.setdefault(name, factors.types) != factors.types:
                raise InvalidInputError(
                    f"{example_name}: factors {name!r} join {factors.types}, but others of that type join "
                    f"{table.scopes[name]}. Use another name for them."
                )
            width = int(factors.features.shape[1])
            _check_n_features(table.n_factor_features, name, width, f"{example_name}: factors", templates)
    for name, types in table.scopes.items():
        unknown = [kind for kind in types if kind not in table.n_features]
        if unknown:
            raise InvalidInputError(
                f"factors {name!r} join variables of type {unknown[0]!r}, but the types are {list(table.n_features)}. "
                f"Use one of these, or add node_features of that type."
            )
    return table


def _check_n_features(
    widths: dict[str, int], name: str, width: int, description: str, templates: Templates | None
) -> None:
    if templates is not None and name not in widths:
        raise InvalidInputError(
            f"{description} {name!r} are new to the model, which was fitted to {list(widths)}. Use only these types."
        )
    if widths.setdefault(name, width) != width:
        raise InvalidInputError(
            f"{description} {name!r} have {width} features, but the model has {widths[name]}. Use the same features "
            f"for all of a type."
        )
