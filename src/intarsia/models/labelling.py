"""Labels as users give them, turned into states: whole numbers or strings, hidden ones, sets of allowed labels."""

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
"""Of n variables: whole numbers (n,) with -1 for hidden, or booleans (n, n_classes) of what is allowed."""


@dataclass(frozen=True)
class Layout:
    """Which variables one example has: for each type the shape in which labels come, and what says so.

    Attributes
    ----------
    shapes : dict of str -> tuple of int
        Shape of the labels of each type.
    reasons : dict of str -> str
        What the shape follows from, for messages.
    named : bool
        Whether labels come as a dict by type, or plainly, of the only type.
    """

    shapes: dict[str, tuple[int, ...]]
    reasons: dict[str, str]
    named: bool = False

    def parts(self, y: Any, name: str) -> dict[str, Any]:
        """Labels by type; a type that is left out is hidden."""
        if not self.named:
            if isinstance(y, Mapping):
                raise InvalidInputError(
                    f"{name} is a dict of {list(y)}, but the variables have no named types. Give one array of labels."
                )
            return dict.fromkeys(self.shapes, y)
        if not isinstance(y, Mapping):
            raise InvalidInputError(
                f"{name} is of type {type(y).__name__}, but there are several types of variables. Give a dict with "
                f"labels of each of {list(self.shapes)}."
            )
        unknown = [kind for kind in y if kind not in self.shapes]
        if unknown:
            raise InvalidInputError(f"{name} has labels of {unknown[0]!r}, but the types are {list(self.shapes)}.")
        return {kind: y[kind] for kind in self.shapes if kind in y}

    def whole(self, parts: Mapping[str, Any]) -> Any:
        """Answers by type in the form in which labels come."""
        return {kind: parts[kind] for kind in self.shapes} if self.named else parts[next(iter(self.shapes))]


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels of the variables of one type in one example, before it is known which classes there are.

    Attributes
    ----------
    name : str
        How messages call them.
    shape : tuple of int
        As they were given.
    values : (n,) array
        Whole numbers, booleans or strings; without meaning where hidden or a set.
    hidden : (n,) bool array
        Where nothing is known.
    sets : dict of int -> frozenset
        Allowed labels at some places.
    allowed : (n, n_classes) bool array, optional
        Which classes are allowed, instead of all others.
    """

    name: str
    shape: tuple[int, ...]
    values: NDArray[Any]
    hidden: BoolArray
    sets: dict[int, frozenset[Any]]
    allowed: BoolArray | None = None

    @property
    def single(self) -> BoolArray:
        """Where there is one label."""
        found = ~self.hidden
        found[list(self.sets)] = False
        return found

    def place(self, at: int) -> str:
        """How messages call one variable."""
        return f"{self.name}{[int(p) for p in np.unravel_index(at, self.shape)]}"


def read_labels(given: Any, shape: tuple[int, ...], reason: str, name: str) -> Labels:
    """Labels of one example and type, checked as far as possible without the classes."""
    try:
        array = np.asarray(given)
    except ValueError:
        raise InvalidInputError(f"{name} is a ragged list, but {reason}; use -1 or None for a hidden one.") from None
    n = int(np.prod(shape))
    nothing = np.zeros(n, dtype=bool)
    if array.dtype.kind == "b" and array.ndim == len(shape) + 1 and array.shape[:-1] == shape:
        return Labels(name, shape, np.empty(0, np.int64), nothing, {}, array.reshape(n, array.shape[-1]))
    if array.shape != shape:
        raise InvalidInputError(f"{name} has shape {array.shape} but {reason}; use -1 for a hidden label.")
    flat = array.reshape(-1)
    if array.dtype.kind == "U" and not isinstance(given, np.ndarray):
        _check_one_kind(np.asarray(given, dtype=object).reshape(-1), shape, name)  # before NumPy made them alike
    if array.dtype.kind == "O":
        return _read_objects(flat, shape, name)
    if array.dtype.kind in "bU":
        return Labels(name, shape, flat, nothing, {})
    if array.dtype.kind == "f" and np.isnan(flat).any():
        raise _is_nan(Labels(name, shape, flat, nothing, {}), int(np.argmax(np.isnan(flat))))
    whole = flat if array.dtype.kind in "iu" else as_int_array(flat, name)
    return Labels(name, shape, whole, whole == -1, {})


def hidden_labels(shape: tuple[int, ...], name: str) -> Labels:
    """Labels of variables of which nothing is known."""
    n = int(np.prod(shape))
    return Labels(name, shape, np.full(n, -1), np.ones(n, dtype=bool), {})


def _read_objects(flat: NDArray[Any], shape: tuple[int, ...], name: str) -> Labels:
    """Labels among which are None or sets."""
    hidden = np.array([value is None for value in flat], dtype=bool)
    sets = {i: frozenset(value) for i, value in enumerate(flat) if isinstance(value, (set, frozenset))}
    found = Labels(name, shape, flat, hidden, sets)
    single = np.flatnonzero(found.single)
    _check_one_kind(flat, shape, name)
    texts = bool(single.size) and isinstance(flat[single[0]], str)
    values = np.full(flat.size, "" if texts else -1, dtype=f"U{max(map(len, flat[single]))}" if texts else np.int64)
    try:
        values[single] = flat[single]
    except OverflowError:
        raise InvalidInputError(f"{name}: a label has more than 64 bits. Number the classes from 0 on.") from None
    if not texts:
        hidden[single] = values[single] == -1
    return Labels(name, shape, values, hidden, sets)


_KINDS = {str: "a string", int: "an integer"}


def _kind_of(label: Any) -> type | None:
    """Kind of a label, which all labels must share; booleans count as integers. None for what is no label."""
    if isinstance(label, str):
        return str
    return int if isinstance(label, (int, np.integer, np.bool_)) else None


def _check_one_kind(flat: NDArray[Any], shape: tuple[int, ...], name: str) -> None:
    """Raise unless all labels, those in sets too, are strings, or all are integers."""
    kinds = {type(value) for value in flat}
    if kinds == {str} or kinds == {int}:  # nearly always
        return
    named = Labels(name, shape, flat, np.zeros(flat.size, dtype=bool), {})
    first: tuple[type, str, Any] | None = None
    for i, value in enumerate(flat):
        members = value if isinstance(value, (set, frozenset)) else [value]
        for label in members:
            if value is None:
                continue
            if isinstance(label, (float, np.floating)) and np.isnan(label):
                raise _is_nan(named, i)
            kind = _kind_of(label)
            shown = f"{named.place(i)} {'has' if members is value else 'is'} {label!r}"
            if kind is None:
                raise InvalidInputError(
                    f"{shown}, of type {type(label).__name__}, but labels are strings or whole numbers, None where "
                    f"hidden, or a frozenset of allowed ones."
                )
            if first is None:
                first = kind, named.place(i), label
            elif kind is not first[0]:
                raise InvalidInputError(
                    f"{shown}, {_KINDS[kind]}, but {first[1]} is {first[2]!r}, {_KINDS[first[0]]}. Use one kind of "
                    f"label for all, such as strings."
                )


def _is_nan(labels: Labels, at: int) -> InvalidInputError:
    return InvalidInputError(
        f"{labels.place(at)} is NaN, which is no label. Use None (with strings) or -1 (with whole numbers) where the "
        f"label is hidden; in pandas, y.where(y.notna(), None)."
    )


def check_classes(given: Any) -> NDArray[Any]:
    """Classes that the user names, in the order given: at least two, all different; whole numbers from 0 on or strings.

    Examples
    --------
    >>> check_classes(["sky", "grass"]).tolist()
    ['sky', 'grass']
    """
    found = np.asarray(given)
    if found.dtype.kind == "O" and all(isinstance(label, str) for label in found.reshape(-1)):
        found = found.astype(str)
    if found.dtype.kind not in "bU":
        found = as_int_array(found, "classes")
    if found.ndim != 1 or np.unique(found).size != found.size or (found.dtype.kind == "i" and (found < 0).any()):
        raise InvalidInputError(
            f"classes must be different strings, or different whole numbers from 0 on, got {_brief(found)}."
        )
    _check_several(found)
    return found


def find_classes(labels: list[Labels]) -> NDArray[Any]:
    """Classes that occur in the labels, sorted; with boolean labels, 0 up to their last axis."""
    seen: list[NDArray[Any]] = []
    _check_same_kind(labels)
    for one in labels:
        single = one.values if one.allowed is None and not one.sets and not one.hidden.any() else _shown(one)
        seen += [np.unique(single)] if single.size else []
        seen += [np.array(sorted(members, key=str)) for members in one.sets.values() if members]
    widths = [one.allowed.shape[1] for one in labels if one.allowed is not None]
    if widths and not seen:
        found = np.arange(widths[0])
    else:
        if not seen:
            raise InvalidInputError(
                "all labels are hidden. Label some, or name the classes with classes= if they shall stay so."
            )
        texts = [array.dtype.kind == "U" for array in seen]
        if widths and all(texts):
            raise InvalidInputError(
                "some labels are strings and others are booleans (n, n_classes). Name the classes of their "
                "last axis with classes=."
            )
        found = np.unique(np.concatenate(seen))
        if all(texts) and "-1" in found:
            raise InvalidInputError(
                "'-1' is among the strings. Use None for a hidden label; if it is a class, give classes=."
            )
        if found.dtype.kind != "U":
            found = _check_numbers(found, any(bool(one.hidden.any()) for one in labels))
        if widths:
            found = np.arange(max(widths[0], int(found.max()) + 1))
    _check_several(found)
    return found


def _check_same_kind(labels: list[Labels]) -> None:
    """Raise where the labels of different examples are of different kinds."""
    first: tuple[type, str, Any] | None = None
    for one in labels:
        if one.allowed is not None:
            continue
        at = int(np.argmax(one.single)) if one.single.any() else next(iter(one.sets), -1)
        if at < 0:
            continue
        label = one.values[at] if at not in one.sets else next(iter(one.sets[at]), None)
        kind = _kind_of(label)
        if kind is None:
            continue
        shown = label.item() if isinstance(label, np.generic) else label
        if first is None:
            first = kind, one.place(at), shown
        elif kind is not first[0]:
            raise InvalidInputError(
                f"{one.place(at)} is {shown!r}, {_KINDS[kind]}, but {first[1]} is {first[2]!r}, {_KINDS[first[0]]}. "
                f"Use one kind of label for all, such as strings."
            )


def _shown(one: Labels) -> NDArray[Any]:
    return one.values[one.single] if one.allowed is None else one.values


def _check_numbers(found: NDArray[Any], any_hidden: bool) -> NDArray[Any]:
    if found.dtype.kind not in "bui":
        raise InvalidInputError(f"labels are whole numbers or strings, got {_brief(found)}.")
    if found.tolist() == [1] and any_hidden:
        raise InvalidInputError(
            "the labels are -1 and 1, and -1 means hidden. Use 0 and 1 for two classes; if all the "
            "rest is hidden indeed, give classes=[0, 1]."
        )
    return found if found.dtype.kind == "b" else found[found >= 0].astype(np.int64)


def _check_several(found: NDArray[Any]) -> None:
    if found.size < 2:
        raise InvalidInputError(
            f"the classes are {_brief(found)}. Give labels of at least two, or name them with classes=."
        )


def as_states(labels: Labels, classes: NDArray[Any]) -> States:
    """Position of each label among the classes, -1 for hidden; or booleans of what is allowed, if there are sets."""
    k = classes.size
    if labels.allowed is not None:
        if labels.allowed.shape[1] != k:
            raise InvalidInputError(
                f"{labels.name} allows among {labels.allowed.shape[1]} classes, but there are {k}: {_brief(classes)}."
            )
        empty = ~labels.allowed.any(axis=1)
        if empty.any():
            raise _allows_none(labels, int(np.argmax(empty)))
        return labels.allowed
    single = labels.single
    at, wrong = _positions(labels, classes)
    if wrong.any():
        v = int(np.argmax(wrong))
        raise _outside(labels, v, labels.values[v], classes)
    states: States = np.where(single, at, -1)
    if not labels.sets:
        return states
    position = {label: c for c, label in enumerate(classes.tolist())}
    allowed = (states[:, None] == np.arange(k)) | labels.hidden[:, None]
    for v, members in labels.sets.items():
        if not members:
            raise _allows_none(labels, v)
        for label in members:
            if label not in position:
                raise _outside(labels, v, label, classes)
            allowed[v, position[label]] = True
    return allowed


def _positions(labels: Labels, classes: NDArray[Any]) -> tuple[NDArray[Any], BoolArray]:
    """Position of each label among the classes, and which single labels are none of them."""
    if (labels.values.dtype.kind == "U") != (classes.dtype.kind == "U"):
        return np.zeros(labels.values.size, dtype=np.int64), labels.single
    order = np.argsort(classes, kind="stable")
    near = np.searchsorted(classes, labels.values, sorter=order).clip(max=classes.size - 1)
    at = order[near]
    return at, (classes[at] != labels.values) & labels.single


def observed_states(labels: Labels, classes: NDArray[Any]) -> NDArray[Any]:
    """Position of each single label among the classes, to be compared with predictions.

    It is -1 where the label is hidden or one of several, and the number of classes for a label that is none of them:
    no prediction is right there. Labels of another kind than the classes are refused.

    Examples
    --------
    >>> labels = read_labels(["b", None, "new"], (3,), "", "y[0]")
    >>> observed_states(labels, np.array(["a", "b"])).tolist()
    [1, -1, 2]
    """
    if labels.allowed is not None:
        return single_states(as_states(labels, classes))
    at, wrong = _positions(labels, classes)
    if wrong.any() and (labels.values.dtype.kind == "U") != (classes.dtype.kind == "U"):
        v = int(np.argmax(wrong))
        raise _outside(labels, v, labels.values[v], classes)
    states = np.where(labels.single, np.where(wrong, classes.size, at), -1)
    position = {label: c for c, label in enumerate(classes.tolist())}
    for v, members in labels.sets.items():
        if not members:
            raise _allows_none(labels, v)
        if len(members) == 1:
            states[v] = position.get(next(iter(members)), classes.size)
    return states


def _outside(labels: Labels, at: int, label: Any, classes: NDArray[Any]) -> InvalidInputError:
    shown = repr(label.item() if isinstance(label, np.generic) else label)
    kind = "None" if classes.dtype.kind == "U" else "-1"
    inside = "has" if at in labels.sets else "is"
    return InvalidInputError(
        f"{labels.place(at)} {inside} {shown}, but the classes are {_brief(classes)}. Use {kind} for a hidden label; "
        f"name classes that are rare with classes=."
    )


def _allows_none(labels: Labels, at: int) -> InvalidInputError:
    return InvalidInputError(f"{labels.place(at)} allows no class. Allow all of them where the label is hidden.")


def single_states(states: States) -> NDArray[Any]:
    """State of each variable, -1 where it is not a single one."""
    if states.ndim == 1:
        return states
    return np.where(states.sum(axis=1) == 1, states.argmax(axis=1), -1)


def tells_something(states: States) -> bool:
    """Whether some label is not hidden."""
    return bool((states != -1).any() if states.ndim == 1 else not states.all())


def weigh_classes(states: list[States], classes: NDArray[Any], class_weight: Any) -> FloatArray | None:
    """Weight of each class: None, as given in a dict (1 for the rest), or inverse to how often it occurs.

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
        for one in states:
            single = single_states(one)
            counts += np.bincount(single[single >= 0], minlength=classes.size)
        some = counts > 0
        weights[some] = counts.sum() / (some.sum() * counts[some])
        return weights
    if not isinstance(class_weight, Mapping):
        raise InvalidInputError(
            f"class_weight must be None, 'balanced' or a dict of label -> weight, got {class_weight!r}."
        )
    position = {label: c for c, label in enumerate(classes.tolist())}
    for label, weight in class_weight.items():
        if label not in position:
            raise InvalidInputError(f"class_weight has a weight of {label!r}, but the classes are {_brief(classes)}.")
        if not isinstance(weight, (int, float, np.integer, np.floating)) or not 0 <= weight < np.inf:
            raise InvalidInputError(
                f"class_weight of {label!r} is {weight!r}. Weights are finite numbers of at least 0."
            )
        weights[position[label]] = weight
    return weights


def weights_of_states(states: States, weights: FloatArray) -> FloatArray:
    """Weight of each variable: that of its class, the mean over a set, 1 where hidden."""
    if states.ndim == 2:
        return np.asarray(states @ weights / states.sum(axis=1))
    return np.where(states < 0, 1.0, weights[states])


def _brief(classes: NDArray[Any]) -> str:
    shown = classes.tolist()
    return str(shown) if classes.size <= 20 else f"{str(shown[:20])[:-1]}, ... ({classes.size} in all)]"
