"""Predictions of a fitted chain model in a process that imports neither Numba nor SciPy nor scikit-learn."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from intarsia._core.error_context import entry_point
from intarsia._core.predictions import PredictionList
from intarsia._core.validation import LARGEST_SCORE, FloatArray, IntArray, check_choice, check_number, too_large
from intarsia._files.model_file import DAMAGED_FILE_ERRORS, damaged, read_model
from intarsia._files.saved_model import Arrays, finite_array, index_rows, labels_from_json, names_from_arrays
from intarsia.exceptions import FileFormatError, InvalidInputError, NotSupportedError
from intarsia.models.feature_matrix import FeatureRows, check_features
from intarsia.models.labelling import as_states, read_labels
from intarsia.models.sequence_features import check_kinds, read_rows
from intarsia.sequences.serving.chain_arrays import allowed_labels, best_path, best_paths, log_partition, marginals
from intarsia.sequences.serving.feature_index import FeatureIndex

if TYPE_CHECKING:
    from intarsia.sequences.chain_crf import ChainCRF


class SequenceScores(NamedTuple):
    """Scores of one sequence: of labels at positions, of transitions, and of first and last labels; -inf forbids.

    Attributes
    ----------
    nodes : (T, n_classes) float array
        Scores of the labels at each position.
    transitions : (n_classes, n_classes) float array
        Scores of a label (row) followed by another (column).
    start, end : (n_classes,) float arrays
        Scores of the first and of the last label.

    Examples
    --------
    >>> scores = SequenceScores(np.zeros((2, 2)), np.eye(2), np.array([1.0, 0.0]), np.zeros(2))
    >>> scores.joined()[0]
    array([[1., 0.],
           [0., 0.]])
    """

    nodes: FloatArray
    transitions: FloatArray
    start: FloatArray
    end: FloatArray

    def joined(self) -> tuple[FloatArray, FloatArray]:
        """Return `nodes` with the scores of the first and last label added, and `transitions`."""
        nodes = self.nodes.copy()
        nodes[0] += self.start
        nodes[-1] += self.end
        return nodes, self.transitions


class Tagger:
    """Fitted linear-chain CRF that only predicts, for web services, functions in the cloud and command-line programs.

    It is made from a file of `ChainCRF.save` by `load_tagger`, and has the prediction methods of `ChainCRF` with the
    same results: labels are equal, probabilities agree to rounding. It needs NumPy alone: a process that loads and
    predicts starts in about a tenth of a second. The features of a sequence are looked up in a hash table, and weights
    of 0 are not stored, so that the time of a prediction does not depend on the size of the model. `ChainCRF` is faster
    for thousands of sequences at once, and needed for models with energies, features of steps or required constraints.

    Attributes
    ----------
    classes_ : array (n_classes,)
        Labels.
    vocabulary_ : list of str, or None
        Names of the features; None if X are arrays.
    n_features_ : int
        Number of features.
    notes_ : object
        Notes that were passed to `save`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from intarsia import ChainCRF
    >>> from intarsia.sequences import load_tagger
    >>> X = [[["sun"], ["rain"], ["rain"]], [["rain"], ["sun"]]]
    >>> crf = ChainCRF(l2=0.2).fit(X, [["good", "bad", "bad"], ["bad", "good"]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     crf.save(Path(folder, "weather.npz"))
    ...     tagger = load_tagger(Path(folder, "weather.npz"))
    >>> tagger.predict_single([["rain"], ["sun"]]).tolist()
    ['bad', 'good']
    >>> tagger.predict_marginals([[["rain"], ["sun"]]])[0].round(2).tolist()
    [[0.9, 0.1], [0.17, 0.83]]
    """

    def __init__(self, fields: dict[str, Any], arrays: Arrays, decode: str = "map") -> None:
        _check_supported(fields)
        self.classes_: NDArray[Any] = labels_from_json(fields["classes"])
        self.decode = check_choice(decode, ("map", "marginals"), "decode")
        k, n_features = self.classes_.size, int(fields["n_features"])
        if k < 2 or n_features < 0:
            raise ValueError("classes")
        self.n_features_, self.notes_ = n_features, fields.get("notes")
        self._index: FeatureIndex | None = None
        if fields["n_names"] is not None:
            self._index = FeatureIndex(*names_from_arrays(arrays, "vocabulary"))
            if not self._index.size == fields["n_names"] == n_features:
                raise ValueError("vocabulary")
            self._string_tokens = bool(fields["string_tokens"])
        # Arrays that are not needed any more are released, so that the memory of a process that loads stays small.
        _release(arrays, "vocabulary_text", "vocabulary_ptr")
        ptr, labels = (
            index_rows(arrays, "pair_ptr", "pair_label", k)
            if fields["by_pair"]
            else (k * np.arange(n_features + 1), np.tile(np.arange(k), n_features))
        )
        label_of_weight = labels.astype(np.int32)
        del labels
        _release(arrays, "pair_ptr", "pair_label")
        ends = 2 * k if fields["ends"] else 0
        weights = finite_array(arrays, "weights", (label_of_weight.size + k * k + ends,))
        _release(arrays, "weights")
        largest = max(weights.max(initial=0.0), -weights.min(initial=0.0))
        if ptr.size != n_features + 1 or largest * max(n_features, 1) > LARGEST_SCORE:
            raise ValueError("weights")
        states, others = np.split(weights, [label_of_weight.size])
        start, end = others[k * k :].reshape(2, k) if ends else np.zeros((2, k))
        # Scores without positions, which `_replace(nodes=...)` adds for each sequence.
        self._free = SequenceScores(np.empty((0, k)), others[: k * k].reshape(k, k), start, end)
        self._scores = self._free._replace(
            transitions=self._free.transitions + _forbidden(arrays, "transitions", (k, k)),
            start=start + _forbidden(arrays, "start", (k,)),
            end=end + _forbidden(arrays, "end", (k,)),
        )
        self._is_constrained = not all(np.isfinite(scores).all() for scores in self._scores)
        self._set_features(ptr, label_of_weight, states)

    def _set_features(self, ptr: IntArray, labels: NDArray[np.int32], states: FloatArray) -> None:
        """Store the weights of features: a table for arrays, otherwise rows of the weights that are not 0."""
        if self._index is None:
            self._table = np.zeros((self.n_features_, self.classes_.size))
            self._table[np.repeat(np.arange(self.n_features_), np.diff(ptr)), labels] = states
            return
        is_stored = states != 0.0
        n_before = np.concatenate([np.zeros(1, np.int32), is_stored.cumsum(dtype=np.int32)])
        # Unknown features have an empty row.
        self._row_start = np.append(n_before[ptr], n_before[-1:])
        self._n_weights = np.diff(self._row_start)
        self._label_of_weight, self._weights = labels[is_stored], states[is_stored]

    @classmethod
    def from_model(cls, crf: ChainCRF) -> Tagger:
        """Return a tagger with the weights of a fitted `ChainCRF`, without a file.

        Examples
        --------
        >>> from intarsia import ChainCRF
        >>> crf = ChainCRF(l2=0.2).fit([[["sun"], ["rain"]]], [["good", "bad"]])
        >>> Tagger.from_model(crf).predict_single([["sun"]]).tolist()
        ['good']
        """
        crf._check_usable()
        return cls(*crf._to_file(), decode=crf.decode)

    @entry_point
    def predict_single(self, x: Any, *, allowed: Any = None) -> NDArray[Any]:
        """Return the labels of one sequence; the result is `predict([x])[0]`.

        Parameters
        ----------
        x : sequence
            A list of lists of strings, a list of dicts, or an array (T, n_features), as in `fit`.
        allowed : optional
            Allowed labels of the positions: labels, None or -1 if hidden, frozensets, or a boolean array.
        """
        return self._labels(next(self._all_scores([x], None if allowed is None else [allowed])))

    @entry_point
    def predict(self, X: Any, *, allowed: Any = None) -> list[NDArray[Any]]:
        """Return the labels of each sequence: the most probable labelling, or as `decode` says.

        Parameters
        ----------
        X : list of sequences
            Sequences in a format that `fit` accepts. Unknown features are ignored.
        allowed : list, optional
            Known labels: for each sequence None, or labels as y in `fit` (labels, None or -1, frozensets).

        Raises
        ------
        InvalidInputError
            If `allowed` excludes every labelling of a sequence. If forbidden transitions alone do, they are ignored
            for that sequence.
        """
        return PredictionList([self._labels(scores) for scores in self._all_scores(X, allowed)])

    def _labels(self, scores: SequenceScores | None) -> NDArray[Any]:
        """Return the labels of a sequence from its scores, which are None if it is empty."""
        if scores is None:
            return self.classes_[:0]
        if self.decode == "marginals":
            return np.asarray(self.classes_[marginals(*self._possible(scores)).argmax(axis=1)])
        path, score = best_path(*scores.joined())
        if score == -np.inf:
            path, _ = best_path(*self._possible(scores))
        return np.asarray(self.classes_[path])

    @entry_point
    def predict_marginals(self, X: Any, *, allowed: Any = None) -> list[FloatArray]:
        """Return the posterior marginals of each sequence, (T, n_classes) arrays; arguments as in `predict`."""
        return [
            np.zeros((0, self.classes_.size)) if scores is None else marginals(*self._possible(scores))
            for scores in self._all_scores(X, allowed)
        ]

    @entry_point
    def predict_kbest(self, X: Any, k: int, *, allowed: Any = None) -> list[list[tuple[NDArray[Any], float]]]:
        """Return the k best labellings of each sequence with their log-probabilities, the best first.

        A sequence with fewer than k possible labellings has fewer results. `decode` has no effect.
        """
        check_number(k, "k", low=1, high=2**31, integer=True)
        results: list[list[tuple[NDArray[Any], float]]] = []
        for scores in self._all_scores(X, allowed):
            if scores is None:
                results.append([(self.classes_[:0], 0.0)])
                continue
            nodes, transitions = self._possible(scores)
            total = log_partition(nodes, transitions)
            ranked = best_paths(nodes, transitions, int(k))
            results.append([(self.classes_[path], score - total) for path, score in ranked])
        return results

    @entry_point
    def sequence_log_probability(self, X: Any, y: Any) -> FloatArray:
        """Return the log-probability of the labels of each sequence; hidden labels and sets are summed over."""
        plain = list(self._all_scores(X, None))
        _check_length(y, len(plain), "y")
        result = np.zeros(len(plain))
        for i, scores in enumerate(plain):
            if scores is not None:
                nodes, transitions = scores.joined()
                clamped = np.where(self._mask(y[i], nodes.shape[0], i, "y"), nodes, -np.inf)
                value = log_partition(clamped, transitions)
                # The difference of two sums may exceed 0 by rounding.
                result[i] = min(value - log_partition(nodes, transitions), 0.0) if value > -np.inf else -np.inf
        return result

    @entry_point
    def scores(self, x: Any) -> SequenceScores:
        """Return the scores of one sequence, on which other algorithms can work.

        Parameters
        ----------
        x : sequence
            A sequence that is not empty, as in `predict_single`.
        """
        scores = next(self._all_scores([x], None))
        if scores is None:
            raise InvalidInputError("the sequence is empty and has no scores. Pass at least one position.")
        return scores

    # ---------------------------------------------------------------- scores of sequences

    def _all_scores(self, X: Any, allowed: Any) -> Iterator[SequenceScores | None]:
        """Yield the scores of each sequence, with -inf for labels that are not allowed; None if it is empty."""
        nodes_of_all: Iterable[FloatArray] = (
            self._nodes_of_arrays(X) if self._index is None else self._nodes_of_names(X, self._index)
        )
        if allowed is not None:
            nodes_of_all = list(nodes_of_all)
            _check_length(allowed, len(nodes_of_all), "allowed")
        for i, nodes in enumerate(nodes_of_all):
            if not nodes.shape[0]:
                yield None
                continue
            if allowed is not None and allowed[i] is not None:
                mask = self._mask(allowed[i], nodes.shape[0], i, "allowed")
                nodes = np.where(mask, nodes, -np.inf)
                scores = self._scores._replace(nodes=nodes)
                if not mask.all() and best_path(*scores.joined())[1] == -np.inf:
                    raise InvalidInputError(
                        f"allowed[{i}] excludes every labelling of X[{i}] that forbidden= and scheme= permit. Allow "
                        f"more labels for this sequence."
                    )
            yield self._scores._replace(nodes=nodes)

    def _nodes_of_names(self, X: Any, index: FeatureIndex) -> Iterator[FloatArray]:
        """Yield the scores (T, n_classes) of the labels of each sequence of named features."""
        rows, ptr, _ = read_rows(check_kinds(X, False)[1], index.columns, self._string_tokens)
        for i, (first, last) in enumerate(pairwise(ptr.tolist())):
            nodes = self._sums(rows, first, last)
            # Indicator features have bounded scores.
            yield _checked_scores(nodes, i) if rows.values.size else nodes

    def _sums(self, rows: FeatureRows, first: int, last: int) -> FloatArray:
        """Return the sums of the weights of the features of rows `first` .. `last` - 1, times their values."""
        k, row_ptr = self.classes_.size, rows.row_ptr[first : last + 1]
        a, b = int(row_ptr[0]), int(row_ptr[-1])
        columns = rows.columns[a:b]
        n_weights = self._n_weights[columns]
        ends = n_weights.cumsum()
        # Each entry is repeated for every weight of its feature; `shift` leads from a repetition to its weight.
        shift = self._row_start[columns] - ends + n_weights
        cell = np.repeat(np.arange(0, (last - first) * k, k), row_ptr[1:] - row_ptr[:-1])
        slot = np.arange(ends[-1] if ends.size else 0) + shift.repeat(n_weights)
        weights = self._weights[slot]
        if rows.values.size:
            weights = weights * rows.values[a:b].repeat(n_weights)
        cells = cell.repeat(n_weights) + self._label_of_weight[slot]
        sums = np.bincount(cells, weights, (last - first) * k)
        return sums.astype(np.float64, copy=False).reshape(last - first, k)  # sums of nothing are integers

    def _nodes_of_arrays(self, X: Any) -> Iterator[FloatArray]:
        """Yield the scores (T, n_classes) of the labels of each array of features."""
        for i, sequence in enumerate(check_kinds(X, True)[1]):
            if isinstance(sequence, (list, tuple)) and not sequence:
                yield np.zeros((0, self.classes_.size))
                continue
            features = check_features(sequence, f"X[{i}]")
            if features.shape[1] != self.n_features_:
                raise InvalidInputError(
                    f"X[{i}] has {features.shape[1]} columns, but the training set had {self.n_features_}. Use the "
                    f"same features in all sequences."
                )
            yield _checked_scores(np.asarray(features @ self._table, dtype=np.float64), i)

    def _possible(self, scores: SequenceScores) -> tuple[FloatArray, FloatArray]:
        """Return the joined scores; without forbidden transitions if those exclude every labelling."""
        if self._is_constrained and best_path(*scores.joined())[1] == -np.inf:
            return self._free._replace(nodes=scores.nodes).joined()
        return scores.joined()

    def _mask(self, labels: Any, length: int, i: int, name: str) -> NDArray[np.bool_]:
        """Return which labels (T, n_classes) are possible at each position of sequence i."""
        if isinstance(labels, (str, bytes)) or labels is None:
            raise InvalidInputError(
                f"{name}[{i}] is {labels!r:.60}; expected one label for each of the {length} positions of X[{i}]. If X "
                f"is a single sequence, pass [X] and [{name}]."
            )
        reason = f"X[{i}] has {length} positions. Pass one label for each"
        states = as_states(read_labels(labels, (length,), reason, f"{name}[{i}]"), self.classes_)
        return allowed_labels(states, self.classes_.size)

    @property
    def vocabulary_(self) -> list[str] | None:
        """Names of the features; None if X are arrays."""
        return None if self._index is None else self._index.names()

    def __repr__(self) -> str:
        return f"Tagger({self.n_features_} features, {self.classes_.size} labels)"


def _check_supported(fields: dict[str, Any]) -> None:
    """Raise if the model needs more than the scores of a chain."""
    settings = dict(fields.get("settings", {"dict": []})["dict"])
    reason = ""
    if "energy_length" in fields:
        reason = "energies"
    elif int(fields["n_edge_features"]):
        reason = "features of steps (edge_features=)"
    elif settings.get("require"):
        reason = "required constraints (require=)"
    if reason:
        raise NotSupportedError(f"the model has {reason}, which a tagger cannot apply. Load it with intarsia.load.")


def _release(arrays: Arrays, *names: str) -> None:
    for name in names:
        arrays.pop(name, None)


def _forbidden(arrays: Arrays, name: str, shape: tuple[int, ...]) -> FloatArray:
    """Return -inf where a label or transition is forbidden, and 0 elsewhere."""
    mask = arrays[f"forbidden_{name}"]
    if mask.shape != shape or mask.dtype.kind != "b":
        raise ValueError(name)
    return np.where(mask, -np.inf, 0.0)


def _checked_scores(nodes: FloatArray, i: int) -> FloatArray:
    """Return the scores of sequence i if they are in range."""
    if too_large(nodes) or bool(np.isnan(nodes).any()):
        raise InvalidInputError(
            f"X[{i}] has scores beyond {LARGEST_SCORE:g}, because values of its features are too large. Rescale the "
            f"features as in fit."
        )
    return nodes


def _check_length(labels: Any, n_sequences: int, name: str) -> None:
    if isinstance(labels, (str, bytes, dict)) or not hasattr(labels, "__len__") or len(labels) != n_sequences:
        size = len(labels) if hasattr(labels, "__len__") else type(labels).__name__
        raise InvalidInputError(
            f"X has {n_sequences} sequences, but {name} has {size}. Pass labels for each sequence. If X is a single "
            f"sequence, pass [X]."
        )


def load_tagger(path: str | os.PathLike[str]) -> Tagger:
    """Load a fitted `ChainCRF` for predictions alone, without importing Numba, SciPy or scikit-learn.

    Loading never runs code from the file. Use `intarsia.load` instead to fit the model further, or to evaluate it.

    Parameters
    ----------
    path : path
        File that `ChainCRF.save` wrote.

    Raises
    ------
    FileFormatError
        The file is damaged, not a `ChainCRF`, or written by a newer version.
    NotSupportedError
        The model has energies, features of steps or required constraints.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from intarsia import ChainCRF
    >>> crf = ChainCRF(l2=0.2).fit([[["sun"], ["rain"]]], [["good", "bad"]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     crf.save(Path(folder, "weather.npz"))
    ...     load_tagger(Path(folder, "weather.npz")).predict_single([["rain"]]).tolist()
    ['bad']
    """
    fields, arrays = read_model(path, "ChainCRF")
    try:
        return Tagger(fields, arrays, dict(fields["settings"]["dict"])["decode"])
    except NotSupportedError as error:
        message = f"load_tagger: {path}: {error}"
        raise NotSupportedError(message) from None
    except FileFormatError:
        raise
    except DAMAGED_FILE_ERRORS:
        raise damaged(path) from None
