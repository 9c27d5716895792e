"""Labels by name or state: where in mu their probabilities stand."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from intarsia._core.validation import IntArray, check_choice
from intarsia.exceptions import InvalidInputError
from intarsia.graph import FactorGraph, FactorKind

Label = Hashable
# Prefixes that open a segment, and those that go on with it.
_OPENING = ("B-", "S-", "U-")


class LabelIndex:
    """Finds the entries of mu that belong to a label, a transition or the start of a segment.

    Parameters
    ----------
    graph : FactorGraph
        Whose mu is meant.
    names : sequence, optional
        Names of the states, one list for all variables or one list per variable. Without names a label is the
        number of its state.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> index = LabelIndex(chain_graph(3, 2), ["noun", "verb"])
    >>> index.positions("verb")
    array([1, 3, 5])
    """

    def __init__(self, graph: FactorGraph, names: Sequence[Any] | None = None) -> None:
        self.graph = graph
        self._shared: dict[Label, int] | None = None
        self._each: list[dict[Label, int]] | None = None
        if names is None:
            return
        listed = list(names)
        if listed and isinstance(listed[0], (list, tuple, np.ndarray)):
            if len(listed) != graph.n_variables:
                raise InvalidInputError(
                    f"names lists the labels of {len(listed)} variables, but the graph has {graph.n_variables}. "
                    f"Give one list per variable, or one for all."
                )
            for v, (own, k) in enumerate(zip(listed, graph.n_states.tolist(), strict=True)):
                if len(own) != k:
                    raise InvalidInputError(f"names[{v}] holds {len(own)} labels, but variable {v} has {k} states.")
            self._each = [{_plain(name): s for s, name in enumerate(own)} for own in listed]
            return
        wrong = np.flatnonzero(graph.n_states != len(listed))
        if wrong.size:
            v = int(wrong[0])
            raise InvalidInputError(
                f"names holds {len(listed)} labels, but variable {v} has {graph.n_states[v]} states. "
                f"Give one name per state, or a list per variable."
            )
        self._shared = {_plain(name): s for s, name in enumerate(listed)}

    @property
    def known(self) -> list[Label]:
        """All names, in the order of their first appearance; states where there are no names."""
        if self._shared is not None:
            return list(self._shared)
        if self._each is not None:
            return list(dict.fromkeys(name for own in self._each for name in own))
        return list(range(int(self.graph.n_states.max(initial=0))))

    def has(self, label: Label) -> bool:
        """Whether some variable has this label."""
        return bool((self._lookup(_plain(label)) >= 0).any())

    def states(self, label: Label) -> IntArray:
        """State of the label at each variable, -1 where there is none; an unknown label is refused."""
        found = self._lookup(_plain(label))
        if found.size and not (found >= 0).any():
            check_choice(str(label), [str(name) for name in self.known], "label")
            raise InvalidInputError(f"label={label!r} is not known: names are compared with their type.")
        return found

    def _lookup(self, label: Label) -> IntArray:
        n = self.graph.n_variables
        if self._shared is not None and label in self._shared:
            return np.full(n, self._shared[label])
        if self._each is not None:
            found = np.array([own.get(label, -1) for own in self._each], dtype=np.int64)
            if (found >= 0).any():
                return found
        if isinstance(label, int) and label >= 0:
            return np.where(label < self.graph.n_states, label, -1)
        return np.full(n, -1)

    def positions(self, label: Label) -> IntArray:
        """Entries of the variables' blocks that hold the label's probability, one per variable that has it."""
        states = self.states(label)
        has = np.flatnonzero(states >= 0)
        return self.graph.variable_ptr[has] + states[has]

    def transitions(self, source: Label, target: Label) -> IntArray:
        """Entries of the tables over two variables that hold the pair (source, target), one per table."""
        graph = self.graph
        first = graph.first_factor_of_table
        width = np.diff(graph.scope_ptr)[first]
        tables = np.flatnonzero(width == 2)
        odd = tables[graph.table_kind[tables] != FactorKind.TABLE]
        if odd.size:
            raise InvalidInputError(
                f"table {int(odd[0])} has one weight for all pairs of states, so transitions cannot be told apart. "
                f"Use kind='table'."
            )
        a = graph.scope_idx[graph.scope_ptr[first[tables]]]
        b = graph.scope_idx[graph.scope_ptr[first[tables]] + 1]
        from_state, to_state = self.states(source)[a], self.states(target)[b]
        has = (from_state >= 0) & (to_state >= 0)
        return (graph.table_ptr[tables] + from_state * graph.n_states[b] + to_state)[has]

    def opening(self, label: Label) -> list[Label]:
        """Labels that open a segment of this kind (B-x, S-x, U-x); none where segments have no such marks."""
        return [name for prefix in _OPENING if self.has(name := f"{prefix}{label}")]

    def body(self, label: Label) -> Label:
        """The one label of a kind of segments without marks: the name itself, or I-x."""
        return f"I-{label}" if not self.has(label) and self.has(f"I-{label}") else label


def _plain(name: Any) -> Label:
    """NumPy's scalars as Python's, so that they are found in a dict."""
    return name.item() if isinstance(name, np.generic) else name


def segment_kinds(names: Sequence[Any]) -> list[str]:
    """Kinds of segments among labels: what follows B-, I-, E-, S-, U-, L-; labels without marks stand for themselves.

    Examples
    --------
    >>> segment_kinds(["O", "B-title", "I-title", "B-year"])
    ['title', 'year']
    >>> segment_kinds(["author", "year"])
    ['author', 'year']
    """
    labels = [str(name) for name in names]
    marked = [name for name in labels if len(name) > 2 and name[1] == "-" and name[0] in "BIESUL"]
    return list(dict.fromkeys(name[2:] for name in marked)) if marked else labels
