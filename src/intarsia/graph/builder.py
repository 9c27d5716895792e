"""Put a model together by name: variables, states, factors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.validation import FloatArray, as_float_array, check_choice, check_number
from intarsia.exceptions import InvalidInputError
from intarsia.graph.factor_graph import FactorGraph
from intarsia.graph.factor_kinds import FactorKind


class GraphBuilder:
    """Collects named variables and factors, then gives a `FactorGraph` and its theta.

    Examples
    --------
    >>> builder = GraphBuilder()
    >>> rain = builder.variable("rain", 2, scores=[0.0, -1.0])
    >>> wet = builder.variable("wet", 2)
    >>> builder.factor(["rain", "wet"], [[1.0, 0.0], [0.0, 2.0]])
    0
    >>> graph, theta = builder.build()
    >>> graph.score(theta, [1, 1])
    1.0
    """

    def __init__(self) -> None:
        self._names: list[str] = []
        self._index: dict[str, int] = {}
        self._n_states: list[int] = []
        self._variable_scores: list[FloatArray] = []
        self._scopes: list[list[int]] = []
        self._table_of_factor: list[int] = []
        self._tables: list[FloatArray] = []
        self._kinds: list[int] = []
        self._truncations: list[float] = []

    def variable(self, name: str, n_states: int, scores: ArrayLike | None = None) -> str:
        """Add a variable and return its name; `scores` are its own log-potentials (default zero)."""
        if name in self._index:
            raise InvalidInputError(f"GraphBuilder: there is a variable {name!r} already. Names must be unique.")
        check_number(n_states, f"GraphBuilder: n_states of {name!r}", low=1, integer=True)
        n_states = int(n_states)
        block = np.zeros(n_states) if scores is None else as_float_array(scores, f"scores of {name!r}").copy()
        if block.shape != (n_states,):
            raise InvalidInputError(
                f"GraphBuilder: variable {name!r} has {n_states} states but scores of shape {block.shape}. "
                f"Give one score per state."
            )
        self._index[name] = len(self._names)
        self._names.append(name)
        self._n_states.append(n_states)
        self._variable_scores.append(block)
        return name

    def factor(
        self,
        scope: Sequence[str],
        scores: ArrayLike | None = None,
        *,
        share_with: int | None = None,
        kind: str = "table",
        truncation: float = np.inf,
    ) -> int:
        """Add a factor over named variables and return its number.

        `scores` has an axis per variable of the scope, or is a single weight for the parametric kinds; with
        `share_with` the factor uses the table of that earlier factor instead.
        """
        if isinstance(scope, str):
            raise InvalidInputError(f"GraphBuilder.factor: scope is the text {scope!r}. Give a list: [{scope!r}].")
        check_number(truncation, "GraphBuilder.factor: truncation", low=0)
        missing = [name for name in scope if name not in self._index]
        if missing:
            check_choice(missing[0], self._names, "GraphBuilder.factor: variable")
        self._scopes.append([self._index[name] for name in scope])
        number = len(self._table_of_factor)
        if share_with is not None:
            if scores is not None or share_with not in range(number):
                self._scopes.pop()
                raise InvalidInputError(
                    f"GraphBuilder.factor: share_with={share_with!r} must be the number of an earlier factor, "
                    f"and then scores are not given again."
                )
            self._table_of_factor.append(self._table_of_factor[share_with])
            return number
        kinds = {k.name.lower(): k for k in FactorKind}
        shape = tuple(self._n_states[v] for v in self._scopes[-1])
        try:
            which = kinds[check_choice(kind, kinds, "kind")]
            if which != FactorKind.TABLE:
                shape = (1,)
            table = np.zeros(shape) if scores is None else as_float_array(scores, f"scores of factor {number}").copy()
            if which != FactorKind.TABLE:
                table = table.reshape(-1)
            if table.shape != shape:
                raise InvalidInputError(
                    f"GraphBuilder: factor {number} over {list(scope)} needs scores of shape {shape}, "
                    f"got {table.shape}. Give an axis per variable, or one weight for the parametric kinds."
                )
        except InvalidInputError:
            self._scopes.pop()
            raise
        self._table_of_factor.append(len(self._tables))
        self._tables.append(table)
        self._kinds.append(int(which))
        self._truncations.append(float(truncation))
        return number

    def constraint(self, scope: Sequence[str], kind: str, *, most: int | None = None, weight: float = -np.inf) -> int:
        """Add a constraint on binary variables and return its number as a factor.

        Parameters
        ----------
        scope : list of str
            Names of the variables, any number of them; state 1 is "on".
        kind : str
            "exactly_one", "at_most_one", "at_least_one"; "budget", where at most `most` are on; "implies", where the
            last is on if all the others are; "xor_output", where the last is on if exactly one of the others is, off if
            none is, and more than one cannot be on.
        most : int, optional
            For "budget".
        weight : float
            Score where the constraint is violated: -inf to forbid it, or at most 0.

        Examples
        --------
        >>> builder = GraphBuilder()
        >>> names = [builder.variable(f"x{i}", 2, scores=[0.0, 1.0 + i]) for i in range(30)]
        >>> builder.constraint(names, "budget", most=2)
        0
        >>> import intarsia
        >>> intarsia.infer(*builder.build(), "lp_relaxation", task="map").assignment.nonzero()[0]
        array([28, 29])
        """
        width = len(scope)
        meanings = {
            "exactly_one": (FactorKind.EXACTLY, 1),
            "at_most_one": (FactorKind.AT_MOST, 1),
            "at_least_one": (FactorKind.AT_LEAST, 1),
            "budget": (FactorKind.AT_MOST, most),
            "implies": (FactorKind.AT_MOST_OUTPUT, width - 1),  # not all inputs on and the output off
            "xor_output": (FactorKind.EXACTLY_OUTPUT, 1),  # inputs on, and the output off: exactly one of these
        }
        which, number = meanings[check_choice(kind, meanings, "GraphBuilder.constraint: kind")]
        if (most is None) == (kind == "budget"):
            raise InvalidInputError(f"GraphBuilder.constraint: most={most!r} with kind={kind!r}. Give it for a budget.")
        if which in (FactorKind.AT_MOST_OUTPUT, FactorKind.EXACTLY_OUTPUT) and width < 2:
            raise InvalidInputError(
                f"GraphBuilder.constraint: {kind!r} needs an input and an output, got {list(scope)}."
            )
        check_number(number, "GraphBuilder.constraint: most", low=0, integer=True)
        check_number(weight, "GraphBuilder.constraint: weight", low=-np.inf, high=0.0)
        many = [name for name in scope if name in self._index and self._n_states[self._index[name]] != 2]
        if many:
            raise InvalidInputError(
                f"GraphBuilder.constraint: variable {many[0]!r} has {self._n_states[self._index[many[0]]]} states. "
                f"Constraints count binary variables."
            )
        return self.factor(scope, weight, kind=which.name.lower(), truncation=float(number))  # type: ignore[arg-type]

    def build(self) -> tuple[FactorGraph, FloatArray]:
        """Return the graph and its theta."""
        graph = FactorGraph(
            np.array(self._n_states, dtype=np.int64),
            np.concatenate([[0], np.cumsum([len(scope) for scope in self._scopes])]).astype(np.int64),
            np.array([v for scope in self._scopes for v in scope], dtype=np.int64),
            np.array(self._table_of_factor, dtype=np.int64),
            np.array(self._kinds, dtype=np.int64),
            np.array(self._truncations),
            names=tuple(self._names),
        )
        blocks = [block.reshape(-1) for block in (*self._variable_scores, *self._tables)]
        return graph, graph.check_theta(np.concatenate(blocks) if blocks else np.empty(0))
