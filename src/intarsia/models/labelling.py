"""Conversion of user labels to states: integers or strings, hidden (unlabelled) ones, sets of allowed labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, as_int_array
from intarsia.exceptions import InvalidInputError

BoolArray = NDArray[np.bool_]
States = NDArray[Any]
"""States of n variables: integers (n,) with -1 for hidden, or booleans (n, n_classes) of the allowed classes."""


@dataclass(frozen=True)
class Layout:
    """Expected labels of an example: their shape for each type of variable, and the reason for the shape.

    Attributes
    ----------
    shapes : dict of str -> tuple of int
        Shape of the labels of each type.
    reasons : dict of str -> str
        Explanation of the shape, for messages.
    has_types : bool
        Whether labels are a dict by type; otherwise there is a single type and labels are a plain array.
    """

    shapes: dict[str, tuple[int, ...]]
    reasons: dict[str, str]
    has_types: bool = False

    def split_by_type(self, y: Any, name: str) -> dict[str, Any]:
        """Return the labels by type; the labels of a missing type are hidden."""
        if not self.has_types:
            if isinstance(y, Mapping):
                raise InvalidInputError(
                    f"{name} is a dict with keys {list(y)}, but the variables have no types. Pass one array of labels."
                )
            return dict.fromkeys(self.shapes, y)
        if not isinstance(y, Mapping):
            raise InvalidInputError(
                f"{name} is of type {type(y).__name__}, but there are several types of variables. Pass a dict with "
                f"labels for each of {list(self.shapes)}."
            )
        unknown = [kind for kind in y if kind not in self.shapes]
        if unknown:
            raise InvalidInputError(
                f"{name} has labels of {unknown[0]!r}, but the types are {list(self.shapes)}. Use these as keys."
            )
        return {kind: y[kind] for kind in self.shapes if kind in y}

    def join_types(self, parts: Mapping[str, Any]) -> Any:
        """Return values by type in the form of labels: a dict if there are types, else the only value."""
        return {kind: parts[kind] for kind in self.shapes} if self.has_types else parts[next(iter(self.shapes))]


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels of the variables of one type in one example, before the classes are determined.

    Attributes
    ----------
    name : str
        Name of the labels in messages.
    shape : tuple of int
        Shape in which the user passed them.
    values : (n,) array
        Integers, booleans or strings; undefined for hidden labels and sets.
    hidden : (n,) bool array
        Mask of the hidden (unlabelled) variables.
    sets : dict of int -> frozenset
        Set of allowed labels of some variables, by position.
    allowed : (n, n_classes) bool array, optional
        Allowed classes of each variable; if set, the other fields are not used.
    """

    name: str
    shape: tuple[int, ...]
    values: NDArray[Any]
    hidden: BoolArray
    sets: dict[int, frozenset[Any]]
    allowed: BoolArray | None = None

    @property
    def single(self) -> BoolArray:
        """Mask of the variables with exactly one label."""
        is_single = ~self.hidden
        is_single[list(self.sets)] = False
        return is_single

    def describe(self, position: int) -> str:
        """Return the name of one label in messages, such as ``y[0][3]``."""
        return f"{self.name}{[int(p) for p in np.unravel_index(position, self.shape)]}"


def read_labels(labels: Any, shape: tuple[int, ...], reason: str, name: str) -> Labels:
    """Read the labels of one example and type, with all checks that do not need the classes."""
    try:
        array = np.asarray(labels)
    except ValueError:
        raise InvalidInputError(f"{name} is a ragged list, but {reason}; use -1 or None for a hidden label.") from None
    n = int(np.prod(shape))
    no_mask = np.zeros(n, dtype=bool)
    if array.dtype.kind == "b" and array.ndim == len(shape) + 1 and array.shape[:-1] == shape:
        return Labels(name, shape, np.empty(0, np.int64), no_mask, {}, array.reshape(n, array.shape[-1]))
    if array.shape != shape:
        raise InvalidInputError(f"{name} has shape {array.shape} but {reason}; use -1 for a hidden label.")
    flat = array.reshape(-1)
    if array.dtype.kind == "U" and not isinstance(labels, np.ndarray):
        # NumPy converts mixed lists to strings, so check the original objects.
        _check_one_kind(np.asarray(labels, dtype=object).reshape(-1), shape, name)
    if array.dtype.kind == "O":
        return _read_objects(flat, shape, name)
    if array.dtype.kind in "bU":
        return Labels(name, shape, flat, no_mask, {})
    if array.dtype.kind == "f" and np.isnan(flat).any():
        raise _nan_label_error(Labels(name, shape, flat, no_mask, {}), int(np.argmax(np.isnan(flat))))
    integers = flat if array.dtype.kind in "iu" else as_int_array(flat, name)
    return Labels(name, shape, integers, integers == -1, {})


def hidden_labels(shape: tuple[int, ...], name: str) -> Labels:
    """Return labels that are all hidden."""
    n = int(np.prod(shape))
    return Labels(name, shape, np.full(n, -1), np.ones(n, dtype=bool), {})


def _read_objects(flat: NDArray[Any], shape: tuple[int, ...], name: str) -> Labels:
    """Read labels that include None or sets."""
    hidden = np.array([value is None for value in flat], dtype=bool)
    sets = {i: frozenset(value) for i, value in enumerate(flat) if isinstance(value, (set, frozenset))}
    raw_labels = Labels(name, shape, flat, hidden, sets)
    single = np.flatnonzero(raw_labels.single)
    _check_one_kind(flat, shape, name)
    are_strings = bool(single.size) and isinstance(flat[single[0]], str)
    values = np.full(
        flat.size, "" if are_strings else -1, dtype=f"U{max(map(len, flat[single]))}" if are_strings else np.int64
    )
    try:
        values[single] = flat[single]
    except OverflowError:
        raise InvalidInputError(f"{name}: a label exceeds 64 bits. Use integers counted from 0, or strings.") from None
    if not are_strings:
        hidden[single] = values[single] == -1
    return Labels(name, shape, values, hidden, sets)


_KIND_NAMES = {str: "a string", int: "an integer"}


def _kind_of(label: Any) -> type | None:
    """Return the kind of a label, str or int (also for booleans), or None if the value is not a label."""
    if isinstance(label, str):
        return str
    return int if isinstance(label, (int, np.integer, np.bool_)) else None


def _check_one_kind(flat: NDArray[Any], shape: tuple[int, ...], name: str) -> None:
    """Raise unless all labels, including those in sets, are strings, or all are integers."""
    kinds = {type(value) for value in flat}
    if kinds == {str} or kinds == {int}:  # the common case
        return
    labels = Labels(name, shape, flat, np.zeros(flat.size, dtype=bool), {})
    first: tuple[type, str, Any] | None = None
    for i, value in enumerate(flat):
        members = value if isinstance(value, (set, frozenset)) else [value]
        for label in members:
            if value is None:
                continue
            if isinstance(label, (float, np.floating)) and np.isnan(label):
                raise _nan_label_error(labels, i)
            kind = _kind_of(label)
            message_start = f"{labels.describe(i)} {'has' if members is value else 'is'} {label!r}"
            if kind is None:
                raise InvalidInputError(
                    f"{message_start}, of type {type(label).__name__}, but labels must be strings or integers. Use "
                    f"None for a hidden label, or a frozenset of allowed labels."
                )
            if first is None:
                first = kind, labels.describe(i), label
            elif kind is not first[0]:
                raise InvalidInputError(
                    f"{message_start}, {_KIND_NAMES[kind]}, but {first[1]} is {first[2]!r}, {_KIND_NAMES[first[0]]}. "
                    f"Use one kind of label for all, such as strings."
                )


def _nan_label_error(labels: Labels, position: int) -> InvalidInputError:
    return InvalidInputError(
        f"{labels.describe(position)} is NaN, which is not a label. Use None (with strings) or -1 (with integers) for "
        f"a hidden label; in pandas, y.where(y.notna(), None)."
    )


def check_classes(classes: Any) -> NDArray[Any]:
    """Return the classes that the user listed as an array, or raise unless they are two or more distinct labels.

    Examples
    --------
    >>> check_classes(["sky", "grass"]).tolist()
    ['sky', 'grass']
    """
    labels = np.asarray(classes)
    if labels.dtype.kind == "O" and all(isinstance(label, str) for label in labels.reshape(-1)):
        labels = labels.astype(str)
    if labels.dtype.kind not in "bU":
        labels = as_int_array(labels, "classes")
    if labels.ndim != 1 or np.unique(labels).size != labels.size or (labels.dtype.kind == "i" and (labels < 0).any()):
        raise InvalidInputError(
            f"classes must be distinct strings, or distinct integers of at least 0, got {_format_classes(labels)}."
        )
    _check_at_least_two(labels)
    return labels


def find_classes(labels: list[Labels]) -> NDArray[Any]:
    """Return the sorted classes that occur in the labels; for boolean labels, 0 .. length of their last axis - 1."""
    occurring: list[NDArray[Any]] = []
    _check_same_kind(labels)
    for example in labels:
        is_complete = example.allowed is None and not example.sets and not example.hidden.any()
        single = example.values if is_complete else _single_values(example)
        occurring += [np.unique(single)] if single.size else []
        occurring += [np.array(sorted(members, key=str)) for members in example.sets.values() if members]
    widths = [example.allowed.shape[1] for example in labels if example.allowed is not None]
    if widths and not occurring:
        classes = np.arange(widths[0])
    else:
        if not occurring:
            raise InvalidInputError(
                "all labels are hidden. Label some of the variables, or list the classes with classes=."
            )
        are_strings = [array.dtype.kind == "U" for array in occurring]
        if widths and all(are_strings):
            raise InvalidInputError(
                "some labels are strings and others are booleans (n, n_classes). List the classes of the last axis "
                "with classes=."
            )
        classes = np.unique(np.concatenate(occurring))
        if all(are_strings) and "-1" in classes:
            raise InvalidInputError(
                "'-1' is among the strings. Use None for a hidden label; if '-1' is a class, pass classes=."
            )
        if classes.dtype.kind != "U":
            classes = _check_numbers(classes, any(bool(example.hidden.any()) for example in labels))
        if widths:
            classes = np.arange(max(widths[0], int(classes.max()) + 1))
    _check_at_least_two(classes)
    return classes


def _check_same_kind(labels: list[Labels]) -> None:
    """Raise if the labels of different examples are of different kinds."""
    first: tuple[type, str, Any] | None = None
    for example in labels:
        if example.allowed is not None:
            continue
        position = int(np.argmax(example.single)) if example.single.any() else next(iter(example.sets), -1)
        if position < 0:
            continue
        label = example.values[position] if position not in example.sets else next(iter(example.sets[position]), None)
        kind = _kind_of(label)
        if kind is None:
            continue
        value = label.item() if isinstance(label, np.generic) else label
        if first is None:
            first = kind, example.describe(position), value
        elif kind is not first[0]:
            raise InvalidInputError(
                f"{example.describe(position)} is {value!r}, {_KIND_NAMES[kind]}, but {first[1]} is {first[2]!r}, "
                f"{_KIND_NAMES[first[0]]}. Use one kind of label for all, such as strings."
            )


def _single_values(labels: Labels) -> NDArray[Any]:
    return labels.values[labels.single] if labels.allowed is None else labels.values


def _check_numbers(classes: NDArray[Any], any_hidden: bool) -> NDArray[Any]:
    if classes.dtype.kind not in "bui":
        raise InvalidInputError(f"labels must be integers or strings, got {_format_classes(classes)}.")
    if classes.tolist() == [1] and any_hidden:
        raise InvalidInputError(
            "the labels are -1 and 1, but -1 means hidden. Use 0 and 1 for two classes; if the labels -1 are "
            "hidden, pass classes=[0, 1]."
        )
    return classes if classes.dtype.kind == "b" else classes[classes >= 0].astype(np.int64)


def _check_at_least_two(classes: NDArray[Any]) -> None:
    if classes.size < 2:
        raise InvalidInputError(
            f"the classes are {_format_classes(classes)}. Pass labels of at least two classes, or list them with "
            f"classes=."
        )


def as_states(labels: Labels, classes: NDArray[Any]) -> States:
    """Return the index of the class of each label, -1 for hidden; or a mask of allowed classes if there are sets."""
    k = classes.size
    if labels.allowed is not None:
        if labels.allowed.shape[1] != k:
            raise InvalidInputError(
                f"{labels.name} is a mask over {labels.allowed.shape[1]} classes, but there are {k}: "
                f"{_format_classes(classes)}. Pass one column per class."
            )
        empty = ~labels.allowed.any(axis=1)
        if empty.any():
            raise _empty_set_error(labels, int(np.argmax(empty)))
        return labels.allowed
    single = labels.single
    positions, is_unknown = _positions(labels, classes)
    if is_unknown.any():
        v = int(np.argmax(is_unknown))
        raise _unknown_label(labels, v, labels.values[v], classes)
    states: States = np.where(single, positions, -1)
    if not labels.sets:
        return states
    index_of_class = {label: c for c, label in enumerate(classes.tolist())}
    allowed = (states[:, None] == np.arange(k)) | labels.hidden[:, None]
    for v, members in labels.sets.items():
        if not members:
            raise _empty_set_error(labels, v)
        for label in members:
            if label not in index_of_class:
                raise _unknown_label(labels, v, label, classes)
            allowed[v, index_of_class[label]] = True
    return allowed


def _positions(labels: Labels, classes: NDArray[Any]) -> tuple[NDArray[Any], BoolArray]:
    """Return the index of the class of each label, and a mask of the single labels that are not among the classes."""
    if (labels.values.dtype.kind == "U") != (classes.dtype.kind == "U"):
        return np.zeros(labels.values.size, dtype=np.int64), labels.single
    order = np.argsort(classes, kind="stable")
    insertion = np.searchsorted(classes, labels.values, sorter=order).clip(max=classes.size - 1)
    positions = order[insertion]
    return positions, (classes[positions] != labels.values) & labels.single


def observed_states(labels: Labels, classes: NDArray[Any]) -> NDArray[Any]:
    """Return the index of the class of each single label, for comparison with predictions.

    It is -1 where the label is hidden or a set, and the number of classes for a label that is not among the classes, so
    that no prediction matches it. Raises if labels and classes are of different kinds.

    Examples
    --------
    >>> labels = read_labels(["b", None, "new"], (3,), "", "y[0]")
    >>> observed_states(labels, np.array(["a", "b"])).tolist()
    [1, -1, 2]
    """
    if labels.allowed is not None:
        return single_states(as_states(labels, classes))
    positions, is_unknown = _positions(labels, classes)
    if is_unknown.any() and (labels.values.dtype.kind == "U") != (classes.dtype.kind == "U"):
        v = int(np.argmax(is_unknown))
        raise _unknown_label(labels, v, labels.values[v], classes)
    states = np.where(labels.single, np.where(is_unknown, classes.size, positions), -1)
    index_of_class = {label: c for c, label in enumerate(classes.tolist())}
    for v, members in labels.sets.items():
        if not members:
            raise _empty_set_error(labels, v)
        if len(members) == 1:
            states[v] = index_of_class.get(next(iter(members)), classes.size)
    return states


def _unknown_label(labels: Labels, position: int, label: Any, classes: NDArray[Any]) -> InvalidInputError:
    value = repr(label.item() if isinstance(label, np.generic) else label)
    hidden_label = "None" if classes.dtype.kind == "U" else "-1"
    verb = "has" if position in labels.sets else "is"
    return InvalidInputError(
        f"{labels.describe(position)} {verb} {value}, but the classes are {_format_classes(classes)}. Use "
        f"{hidden_label} for a hidden label, and list rare classes with classes=."
    )


def _empty_set_error(labels: Labels, position: int) -> InvalidInputError:
    return InvalidInputError(f"{labels.describe(position)} allows no class. Allow all classes for a hidden label.")


def single_states(states: States) -> NDArray[Any]:
    """Return the state of each variable, -1 where it is hidden or a set of several states."""
    if states.ndim == 1:
        return states
    return np.where(states.sum(axis=1) == 1, states.argmax(axis=1), -1)


def allowed_states(states: States, n_classes: int) -> BoolArray:
    """Return a mask (n, n_classes) of the possible states; a hidden label allows all.

    Examples
    --------
    >>> allowed_states(np.array([1, -1]), 2).tolist()
    [[False, True], [True, True]]
    """
    if states.ndim == 2:
        return states
    return np.asarray((states[:, None] == np.arange(n_classes)) | (states < 0)[:, None])


def has_observed_label(states: States) -> bool:
    """Return whether some label is not hidden."""
    return bool((states != -1).any() if states.ndim == 1 else not states.all())


def weigh_classes(states: list[States], classes: NDArray[Any], class_weight: Any) -> FloatArray | None:
    """Return the weight of each class: from a dict (default 1), inverse to its frequency ("balanced"), or None.

    Examples
    --------
    >>> import numpy as np
    >>> weigh_classes([np.array([0, 0, 0, 1, -1])], np.array([0, 1]), "balanced").round(3).tolist()
    [0.667, 2.0]
    """
    if class_weight is None:
        return None
    weights = np.ones(classes.size)
    if isinstance(class_weight, str) and class_weight == "balanced":
        counts = np.zeros(classes.size)
        for example in states:
            single = single_states(example)
            counts += np.bincount(single[single >= 0], minlength=classes.size)
        occurs = counts > 0
        weights[occurs] = counts.sum() / (occurs.sum() * counts[occurs])
        return weights
    if not isinstance(class_weight, Mapping):
        raise InvalidInputError(
            f"class_weight must be None, 'balanced' or a dict label -> weight, got {class_weight!r}."
        )
    index_of_class = {label: c for c, label in enumerate(classes.tolist())}
    for label, weight in class_weight.items():
        if label not in index_of_class:
            raise InvalidInputError(
                f"class_weight has a weight for {label!r}, but the classes are {_format_classes(classes)}. Use these "
                f"as keys."
            )
        if not isinstance(weight, (int, float, np.integer, np.floating)) or not 0 <= weight < np.inf:
            raise InvalidInputError(
                f"class_weight of {label!r} is {weight!r}, but weights must be finite numbers of at least 0."
            )
        weights[index_of_class[label]] = weight
    return weights


def weights_of_states(states: States, weights: FloatArray) -> FloatArray:
    """Return the weight of each variable: that of its class, the mean over a set of classes, 1 if hidden."""
    if states.ndim == 2:
        return np.asarray(states @ weights / states.sum(axis=1))
    return np.where(states < 0, 1.0, weights[states])


def _format_classes(classes: NDArray[Any]) -> str:
    values = classes.tolist()
    return str(values) if classes.size <= 20 else f"{str(values[:20])[:-1]}, ... ({classes.size} in all)]"
