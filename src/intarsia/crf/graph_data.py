"""Graphs with features as the graph model takes them: checked, with their types of variables and of factors."""

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
    """Factors of one type in one graph: which variables each of them joins, and its features.

    Parameters
    ----------
    scopes : (n, k) int array
        A row for each factor: the variables it joins, each counted from 0 within its type.
    features : (n, q) array or sparse matrix, optional
        A row for each factor; by default one constant feature.
    types : str or tuple of k str, optional
        Type of the variables in each column, or one for all. Not needed where there is only one type of variable.

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
    """One graph with features: an element of X for `GraphCRF`.

    With one type of variable and edges between pairs, three arrays say everything. In general there are several types
    of variables, each with its own states and features, and several types of factors, each joining any number of
    variables and having its own weights.

    Parameters
    ----------
    node_features : (n, p) array or sparse matrix, or dict of str -> such
        A row for each variable; a dict by type where there are several. The only type is called "node".
    edges : (m, 2) int array, optional
        Pairs of variables, where there is one type of variable. The same as factors of a type called "edge".
    edge_features : (m, q) array or sparse matrix, optional
        A row for each edge; by default one constant feature.
    factors : dict of str -> Factors, optional
        Factors by type. An array stands for `Factors(array)`, a tuple for `Factors(*tuple)`.

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
    """Factors of one type, checked."""

    scopes: IntArray
    features: Any
    types: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class TypedGraph:
    """A graph instance, checked; `named` where its variables came by type."""

    node_features: dict[str, Any]
    factors: dict[str, TypedFactors]
    named: bool

    @property
    def n_variables(self) -> dict[str, int]:
        """Number of variables of each type."""
        return {kind: int(features.shape[0]) for kind, features in self.node_features.items()}


@dataclass(frozen=True)
class TypeTable:
    """All types of a model with what the data tell of them: everything of `Templates` but the states."""

    n_features: dict[str, int] = field(default_factory=dict)
    scopes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    n_factor_features: dict[str, int] = field(default_factory=dict)


def read_graphs(X: Any) -> list[TypedGraph]:
    """Graphs of X, each checked on its own."""
    if isinstance(X, (str, bytes, Mapping, GraphInstance)) or not hasattr(X, "__len__"):
        raise InvalidInputError(
            f"X must be a list of graphs, got {type(X).__name__}. Give a list of GraphInstance or of tuples "
            f"(node_features, edges)."
        )
    if len(X) == 0:
        raise InvalidInputError("X is empty. Give at least one graph.")
    return [_read_graph(given, f"X[{i}]") for i, given in enumerate(X)]


def _read_graph(given: Any, place: str) -> TypedGraph:
    if isinstance(given, tuple) and 1 <= len(given) <= 3:
        given = GraphInstance(*given)
    if not isinstance(given, GraphInstance):
        raise InvalidInputError(
            f"{place} is of type {type(given).__name__}. Give a GraphInstance, or a tuple (node_features, edges) or "
            f"(node_features, edges, edge_features)."
        )
    named = isinstance(given.node_features, Mapping)
    nodes = dict(given.node_features) if named else {"node": given.node_features}
    if not nodes:
        raise InvalidInputError(f"{place}: node_features is empty. Give features of at least one type of variable.")
    spell = {kind: f"node_features[{kind!r}]" if named else "node_features" for kind in nodes}
    features = {kind: check_features(matrix, f"{place}: {spell[kind]}") for kind, matrix in nodes.items()}
    factors: dict[str, Any] = dict(given.factors or {})
    if given.edges is not None:
        if "edge" in factors:
            raise InvalidInputError(f"{place} has edges and factors named 'edge'. Give one of them.")
        if len(nodes) > 1:
            raise InvalidInputError(
                f"{place} has edges, but {len(nodes)} types of variables: {list(nodes)}. Give "
                f"factors={{'edge': Factors(edges, edge_features, types=(..., ...))}}."
            )
        edges = np.asarray(given.edges)
        factors["edge"] = Factors(edges.reshape(0, 2) if edges.size == 0 else edges, given.edge_features)
    elif given.edge_features is not None:
        raise InvalidInputError(f"{place} has edge_features but no edges.")
    counts = {kind: int(matrix.shape[0]) for kind, matrix in features.items()}
    read = {}
    for name, one in factors.items():
        spelled = "edges" if name == "edge" and given.edges is not None else f"factors[{name!r}]"
        found = _read_factors(one, counts, f"{place}: {spelled}")
        if found is not None:
            read[name] = found
    return TypedGraph(features, read, named)


def _read_factors(given: Any, counts: dict[str, int], name: str) -> TypedFactors | None:
    """Factors of one type, or None for an empty list that does not tell how many variables they would join."""
    if isinstance(given, tuple) and 1 <= len(given) <= 3:
        given = Factors(*given)
    elif not isinstance(given, Factors):
        given = Factors(given)
    scopes = as_int_array(given.scopes, name)
    if scopes.size == 0 and scopes.ndim < 2:
        if given.types is None or isinstance(given.types, str):
            return None
        scopes = scopes.reshape(0, len(given.types))
    if scopes.ndim != 2 or scopes.shape[1] == 0:
        raise InvalidInputError(
            f"{name} has scopes of shape {scopes.shape}, expected (n, k): a row for each factor with the k variables "
            f"it joins."
        )
    types = _check_types(given.types, scopes.shape[1], counts, name)
    sizes = np.array([counts.get(kind, 0) for kind in types])
    bad = (scopes < 0) | (scopes >= sizes)
    if bad.any():
        row, column = (int(at) for at in np.argwhere(bad)[0])
        raise InvalidInputError(
            f"{name}[{row}] names variable {scopes[row, column]} of type {types[column]!r}, but there are "
            f"{sizes[column]}, counted from 0."
        )
    for a in range(len(types)):
        for b in range(a):
            twice = (scopes[:, a] == scopes[:, b]) & (types[a] == types[b])
            if twice.any():
                row = int(np.argmax(twice))
                raise InvalidInputError(
                    f"{name}[{row}] joins variable {scopes[row, a]} of type {types[a]!r} to itself. Name each "
                    f"variable once; what concerns one variable alone belongs to its own features."
                )
    if given.features is None:
        return TypedFactors(scopes, np.ones((len(scopes), 1)), types)
    features = check_features(given.features, f"{name}: features", len(scopes), f"there are {len(scopes)} factors")
    return TypedFactors(scopes, features, types)


def _check_types(given: Any, width: int, counts: dict[str, int], name: str) -> tuple[str, ...]:
    if given is None:
        if len(counts) > 1:
            raise InvalidInputError(
                f"{name} does not say which of the types {list(counts)} its {width} variables have. Give "
                f"Factors(scopes, features, types=(...))."
            )
        return tuple(counts) * width
    if not isinstance(given, (str, list, tuple)):
        raise InvalidInputError(f"{name} has types={given!r}. Give the name of a type, or a tuple of {width} names.")
    types = (given,) * width if isinstance(given, str) else tuple(given)
    if len(types) != width:
        raise InvalidInputError(f"{name} joins {width} variables, but has {len(types)} types: {types}.")
    return types


def find_types(graphs: list[TypedGraph], known: Templates | None = None) -> TypeTable:
    """All types in the order in which they come up; those of `known` only, where a model is fitted already."""
    table = TypeTable()
    if known is not None:
        table = TypeTable(dict(known.n_features), dict(known.scopes), dict(known.n_factor_features))
    for i, graph in enumerate(graphs):
        here = f"X[{i}]"
        for kind, features in graph.node_features.items():
            _agree(table.n_features, kind, int(features.shape[1]), f"{here}: variables of type", known)
        for name, factors in graph.factors.items():
            if table.scopes.setdefault(name, factors.types) != factors.types:
                raise InvalidInputError(
                    f"{here}: factors {name!r} join {factors.types}, but others of that name join "
                    f"{table.scopes[name]}. Give them another name."
                )
            width = int(factors.features.shape[1])
            _agree(table.n_factor_features, name, width, f"{here}: factors", known)
    for name, types in table.scopes.items():
        strange = [kind for kind in types if kind not in table.n_features]
        if strange:
            raise InvalidInputError(
                f"factors {name!r} join variables of type {strange[0]!r}, but the types are {list(table.n_features)}."
            )
    return table


def _agree(widths: dict[str, int], name: str, width: int, what: str, known: Templates | None) -> None:
    if known is not None and name not in widths:
        raise InvalidInputError(f"{what} {name!r} are new to the model. It was fitted to {list(widths)}.")
    if widths.setdefault(name, width) != width:
        raise InvalidInputError(
            f"{what} {name!r} have {width} features, but the model has {widths[name]}. Give all of a type the same "
            f"features."
        )
