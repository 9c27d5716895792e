"""Positions of a corpus whose labels expectations measure: states, classes, features and weights."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from intarsia._core.validation import FloatArray, IntArray
from intarsia.exceptions import InvalidInputError


@dataclass(frozen=True, eq=False)
class PositionsOfType:
    """Positions with the same classes and features: all positions of sequences, or variables of one type.

    Attributes
    ----------
    positions : (n,) int array
        Numbers of these positions in the corpus.
    example : (n,) int array
        Example of each position.
    classes : array
        Classes.
    features : (n, n_features) array or CSR
        Features of the positions.
    vocabulary : list of str, optional
        Names of the features; None if they have only column numbers.
    corpus : Positions
        All positions.
    """

    positions: IntArray
    example: IntArray
    classes: NDArray[Any]
    features: Any
    vocabulary: Sequence[str] | None
    corpus: Positions

    def state_of(self, label: Any, title: str) -> IntArray:
        """Return the state of a label at each position of the corpus, in the flat order of all states; -1 elsewhere."""
        names = self.classes.tolist()
        if label not in names:
            raise InvalidInputError(
                f"{title}: {label!r} is not among the labels {_shorten(names)}. Use one of these, or list it with "
                f"classes=."
            )
        states = np.full(self.corpus.n_positions, -1, dtype=np.int64)
        states[self.positions] = self.corpus.state_ptr[self.positions] + names.index(label)
        return states

    def covered(self, feature: Any, examples: Sequence[int] | None, title: str) -> IntArray:
        """Return the positions at which a feature occurs, in some of the examples."""
        mask = self._mask(feature, title)
        if examples is not None:
            mask = mask & np.isin(self.corpus.source[self.example], self._check_examples(examples, title))
        if not mask.any():
            raise InvalidInputError(
                f"{title} covers no position. Pass a feature and examples that occur together in X, or remove it."
            )
        return self.positions[mask]

    def _check_examples(self, examples: Sequence[int], title: str) -> IntArray:
        indices = np.asarray(examples)
        n = self.corpus.n_inputs
        if indices.ndim != 1 or not indices.size or indices.dtype.kind not in "iu":
            raise InvalidInputError(f"{title}: examples must be a list of indices of X, got {examples!r:.60}.")
        bad = (indices < 0) | (indices >= n)
        if bad.any():
            raise InvalidInputError(
                f"{title}: examples has {int(indices[np.argmax(bad)])}, but X has the indices 0 .. {n - 1}. Pass these."
            )
        return indices.astype(np.int64)

    def _mask(self, feature: Any, title: str) -> NDArray[np.bool_]:
        """Return the positions at which a feature is not 0."""
        if feature is None:
            return np.ones(self.positions.size, dtype=bool)
        if isinstance(feature, (list, tuple, np.ndarray)):
            return self._read_masks(feature, title)
        if isinstance(feature, str):
            column = self._column(feature, title)
        elif isinstance(feature, (int, np.integer)) and not isinstance(feature, bool):
            column = int(feature)
            if not 0 <= column < self.features.shape[1]:
                raise InvalidInputError(
                    f"{title}: feature {column} does not exist; features are 0 .. {self.features.shape[1] - 1}. Pass "
                    f"one of these columns."
                )
        else:
            raise InvalidInputError(
                f"{title}: a feature must be a name, a column or a list of boolean arrays, got "
                f"{type(feature).__name__}."
            )
        values = self.features[:, [column]]
        mask = np.asarray((values.toarray() if hasattr(values, "toarray") else values) != 0).reshape(-1)
        if not mask.any():
            raise InvalidInputError(f"{title}: feature {feature!r} is 0 at all positions of X. Use another feature.")
        return mask

    def _column(self, feature: str, title: str) -> int:
        if self.vocabulary is None:
            raise InvalidInputError(
                f"{title}: the features of X have no names, but the expectation names {feature!r}. Pass the number of "
                f"its column."
            )
        column = next((i for i, name in enumerate(self.vocabulary) if name == feature), None)
        if column is None:
            similar = difflib.get_close_matches(feature, self.vocabulary[:100_000], n=1)
            hint = f" Did you mean {similar[0]!r}?" if similar else ""
            raise InvalidInputError(
                f"{title}: feature {feature!r} never occurs in X, which has {len(self.vocabulary)} features.{hint} "
                f"Pass a name as in X (see vocabulary_ of a fitted model)."
            )
        return column

    def _read_masks(self, masks: Any, title: str) -> NDArray[np.bool_]:
        """Return masks of each example as one array."""
        corpus = self.corpus
        if len(masks) != corpus.n_inputs:
            raise InvalidInputError(
                f"{title}: there are {len(masks)} masks, but X has {corpus.n_inputs} examples. Pass a boolean array "
                f"for each."
            )
        flat = []
        for example, size in enumerate(np.bincount(self.example, minlength=corpus.source.size).tolist()):
            index = int(corpus.source[example])
            mask = np.asarray(masks[index])
            if mask.dtype != np.bool_ or mask.shape != (size,):
                raise InvalidInputError(
                    f"{title}: mask {index} has shape {mask.shape} and type {mask.dtype}, but X[{index}] has {size} "
                    f"positions. Pass one boolean for each."
                )
            flat.append(mask)
        return np.concatenate(flat)


@dataclass(frozen=True, eq=False)
class Positions:
    """All positions of a corpus, with their states one after the other in one flat vector.

    Attributes
    ----------
    example : (n_positions,) int array
        Example of each position.
    state_ptr : (n_positions + 1,) int array
        First state of each position in the flat vector, and the number of states.
    weight : (n_examples,) float array
        Weight of each example.
    source : (n_examples,) int array
        Index of each example in X.
    n_inputs : int
        Number of examples in X, including empty ones.
    tables : dict of str -> tuple
        For each type: numbers of its positions, classes, features and their names.
    """

    example: IntArray
    state_ptr: IntArray
    weight: FloatArray
    source: IntArray
    n_inputs: int
    tables: Mapping[str, tuple[IntArray, NDArray[Any], Any, Sequence[str] | None]]

    @property
    def n_positions(self) -> int:
        """Number of positions."""
        return self.example.size

    @property
    def n_states(self) -> int:
        """Number of states of all positions."""
        return int(self.state_ptr[-1])

    def view(self, kind: str | None, title: str) -> PositionsOfType:
        """Return the positions of a type; None if there is a single type."""
        if kind is None and len(self.tables) == 1:
            kind = next(iter(self.tables))
        if kind is None or kind not in self.tables:
            raise InvalidInputError(
                f"{title}: kind is {kind!r}, but the types of variables are {list(self.tables)}. Pass one of these."
            )
        positions, classes, features, vocabulary = self.tables[kind]
        return PositionsOfType(positions, self.example[positions], classes, features, vocabulary, self)

    def weight_of(self, rows: IntArray) -> float:
        """Return the weighted number of positions."""
        return float(self.weight[self.example[rows]].sum())

    def weight_of_examples(self, rows: IntArray) -> float:
        """Return the weighted number of examples that have one of the positions."""
        return float(self.weight[np.unique(self.example[rows])].sum())

    def split(self, rows: IntArray) -> dict[int, IntArray]:
        """Return the positions of each example."""
        rows = rows[np.argsort(self.example[rows], kind="stable")]
        examples, starts = np.unique(self.example[rows], return_index=True)
        return dict(zip(examples.tolist(), np.split(rows, starts[1:]), strict=True))

    def row(self, states: IntArray, value: float) -> sparse.csr_array:
        """Return coefficients of equal value at some states."""
        columns = np.sort(states)
        entries = (np.full(columns.size, value), (np.zeros(columns.size, dtype=np.int64), columns))
        return sparse.csr_array(entries, shape=(1, self.n_states))

    def others(self, rows: IntArray, named_states: Sequence[IntArray], value: float) -> sparse.csr_array:
        """Return coefficients of equal value at the states of some positions that are not named."""
        sizes = np.diff(self.state_ptr)[rows]
        starts = np.repeat(self.state_ptr[rows] - (np.cumsum(sizes) - sizes), sizes)
        excluded = np.concatenate([states[rows] for states in named_states])
        return self.row(np.setdiff1d(starts + np.arange(starts.size), excluded, assume_unique=True), value)

    def measurement(self, coefficients: Any, title: str) -> sparse.csr_array:
        """Return the coefficients that a user passed as one array per example."""
        if isinstance(coefficients, (str, bytes)) or not hasattr(coefficients, "__len__"):
            raise InvalidInputError(f"{title}: coefficients must be a list of arrays, got {coefficients!r:.60}.")
        if len(coefficients) != self.n_inputs:
            raise InvalidInputError(
                f"{title}: there are coefficients of {len(coefficients)} examples, but X has {self.n_inputs}. Pass an "
                f"array for each."
            )
        flat = np.zeros(self.n_states)
        bounds = np.searchsorted(self.example, np.arange(self.source.size + 1))
        for i, index in enumerate(self.source.tolist()):
            first, last = int(self.state_ptr[bounds[i]]), int(self.state_ptr[bounds[i + 1]])
            try:
                values = np.asarray(coefficients[index], dtype=np.float64)
            except (TypeError, ValueError):
                values = np.full(1, np.nan)
            if values.size != last - first or not np.isfinite(values).all():
                raise InvalidInputError(
                    f"{title}: coefficients[{index}] has shape {values.shape}, but X[{index}] has {last - first} "
                    f"states in all. Pass finite numbers, a row for each position and a column for each class."
                )
            flat[first:last] = values.reshape(-1)
        return sparse.csr_array(flat[None, :])


def _shorten(names: list[Any]) -> str:
    return str(names) if len(names) <= 20 else f"{str(names[:20])[:-1]}, ... ({len(names)} in all)]"
