"""Build a factor graph step by step from named variables and factors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.validation import FloatArray, as_float_array, check_choice, check_number
from intarsia.exceptions import InvalidInputError
from intarsia.graph.factor_graph import FactorGraph
from intarsia.graph.factor_kinds import FactorKind


class GraphBuilder:
    """Builder of a factor graph (Markov random field) from named variables and factors.

    Add variables with `variable`, factors with `factor` and `constraint`, then call `build` to get a `FactorGraph` and
    its vector of log-potentials theta. Use it for models written by hand; for regular shapes use `grid_graph`,
    `chain_graph` or `from_edges`.

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
        """Add a variable and return its name.

        Parameters
        ----------
        name : str
            Name of the variable; must be unique.
        n_states : int
            Number of states, at least 1.
        scores : (n_states,) array, optional
            Log-potential of each state. Default: zero.
        """
        if name in self._index:
            raise InvalidInputError(f"GraphBuilder: variable {name!r} already exists. Use a unique name per variable.")
        check_number(n_states, f"GraphBuilder: n_states of {name!r}", low=1, integer=True)
        n_states = int(n_states)
        block = np.zeros(n_states) if scores is None else as_float_array(scores, f"scores of {name!r}").copy()
        if block.shape != (n_states,):
            raise InvalidInputError(
                f"GraphBuilder: variable {name!r} has {n_states} states but scores of shape {block.shape}. "
                f"Pass one score per state."
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
        """Add a factor over named variables and return its index.

        Parameters
        ----------
        scope : list of str
            Names of the variables that the factor joins.
        scores : array or float, optional
            Log-potentials with one axis per variable of the scope, or one weight for the parametric kinds. Default:
            zero.
        share_with : int, optional
            Index of an earlier factor whose table this factor uses too; then `scores` must not be passed.
        kind : str
            Name of a `FactorKind` in lower case, such as "table" or "potts".
        truncation : float
            Distance at which the truncated kinds level off.
        """
        if isinstance(scope, str):
            raise InvalidInputError(f"GraphBuilder.factor: scope is the string {scope!r}. Pass a list: [{scope!r}].")
        check_number(truncation, "GraphBuilder.factor: truncation", low=0)
        missing = [name for name in scope if name not in self._index]
        if missing:
            check_choice(missing[0], self._names, "GraphBuilder.factor: variable")
        self._scopes.append([self._index[name] for name in scope])
        factor_index = len(self._table_of_factor)
        if share_with is not None:
            if scores is not None or share_with not in range(factor_index):
                self._scopes.pop()
                raise InvalidInputError(
                    f"GraphBuilder.factor: share_with={share_with!r} must be the index of an earlier factor, and "
                    f"cannot be combined with scores. Drop one of the two arguments."
                )
            self._table_of_factor.append(self._table_of_factor[share_with])
            return factor_index
        kinds = {k.name.lower(): k for k in FactorKind}
        shape = tuple(self._n_states[v] for v in self._scopes[-1])
        try:
            factor_kind = kinds[check_choice(kind, kinds, "kind")]
            if factor_kind != FactorKind.TABLE:
                shape = (1,)
            table = (
                np.zeros(shape) if scores is None else as_float_array(scores, f"scores of factor {factor_index}").copy()
            )
            if factor_kind != FactorKind.TABLE:
                table = table.reshape(-1)
            if table.shape != shape:
                raise InvalidInputError(
                    f"GraphBuilder: factor {factor_index} over {list(scope)} needs scores of shape {shape}, "
                    f"got {table.shape}. Pass one axis per variable, or one weight for the parametric kinds."
                )
        except InvalidInputError:
            self._scopes.pop()
            raise
        self._table_of_factor.append(len(self._tables))
        self._tables.append(table)
        self._kinds.append(int(factor_kind))
        self._truncations.append(float(truncation))
        return factor_index

    def constraint(
        self, scope: Sequence[str], kind: str, *, max_active: int | None = None, weight: float = -np.inf
    ) -> int:
        """Add a logical constraint on binary variables and return its index as a factor.

        Parameters
        ----------
        scope : list of str
            Names of any number of binary variables; state 1 means "on".
        kind : str
            "exactly_one", "at_most_one" or "at_least_one" of the variables is on. "budget": at most `max_active`
            variables are on. "implies": the last variable is on if all the others are on. "xor_output": at most one of the other
            variables is on, and the last variable is on exactly if one of them is.
        max_active : int, optional
            Largest number of variables that may be on; required for "budget" and not allowed for other kinds.
        weight : float
            Score added where the constraint is violated: -inf to forbid violations, or a number of at most 0.

        Examples
        --------
        >>> builder = GraphBuilder()
        >>> names = [builder.variable(f"x{i}", 2, scores=[0.0, 1.0 + i]) for i in range(30)]
        >>> builder.constraint(names, "budget", max_active=2)
        0
        >>> import intarsia
        >>> intarsia.infer(*builder.build(), "lp_relaxation", task="map").assignment.nonzero()[0]
        array([28, 29])
        """
        n_variables = len(scope)
        kinds = {
            "exactly_one": (FactorKind.EXACTLY, 1),
            "at_most_one": (FactorKind.AT_MOST, 1),
            "at_least_one": (FactorKind.AT_LEAST, 1),
            "budget": (FactorKind.AT_MOST, max_active),
            # An output counts when it is off: "implies" forbids that all inputs are on while the output is off.
            "implies": (FactorKind.AT_MOST_OUTPUT, n_variables - 1),
            # Exactly one of these holds: the first input is on, the second is on, ..., the output is off.
            "xor_output": (FactorKind.EXACTLY_OUTPUT, 1),
        }
        factor_kind, limit = kinds[check_choice(kind, kinds, "GraphBuilder.constraint: kind")]
        if (max_active is None) == (kind == "budget"):
            raise InvalidInputError(
                f"GraphBuilder.constraint: max_active={max_active!r} with kind={kind!r}. Pass `max_active` for "
                f"kind='budget' and only there."
            )
        if factor_kind in (FactorKind.AT_MOST_OUTPUT, FactorKind.EXACTLY_OUTPUT) and n_variables < 2:
            raise InvalidInputError(
                f"GraphBuilder.constraint: {kind!r} needs at least one input and an output, got {list(scope)}."
            )
        check_number(limit, "GraphBuilder.constraint: max_active", low=0, integer=True)
        check_number(weight, "GraphBuilder.constraint: weight", low=-np.inf, high=0.0)
        not_binary = [name for name in scope if name in self._index and self._n_states[self._index[name]] != 2]
        if not_binary:
            raise InvalidInputError(
                f"GraphBuilder.constraint: variable {not_binary[0]!r} has {self._n_states[self._index[not_binary[0]]]} "
                f"states. Use only variables with two states in a constraint."
            )
        return self.factor(scope, weight, kind=factor_kind.name.lower(), truncation=float(limit))  # type: ignore[arg-type]

    def build(self) -> tuple[FactorGraph, FloatArray]:
        """Return the factor graph and its log-potentials theta."""
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
