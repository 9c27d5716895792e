"""Checked data and labels of many examples, made into what learners take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from intarsia._core.error_context import errors_in
from intarsia._core.validation import FloatArray, check_sample_weight
from intarsia.crf.graph_data import TypeTable
from intarsia.exceptions import InvalidInputError
from intarsia.learning.examples import Example, example
from intarsia.models.labelling import (
    Labels,
    Layout,
    States,
    as_states,
    check_classes,
    find_classes,
    hidden_labels,
    observed_states,
    read_labels,
    tells_something,
    weigh_classes,
    weights_of_states,
)
from intarsia.models.template_scores import Templates, TemplateScores

Classes = dict[str, NDArray[Any]]
"""Classes of each type of variable."""


@dataclass(frozen=True, eq=False)
class Data:
    """Checked examples without their labels.

    Attributes
    ----------
    layouts : list of Layout
        Variables of each example.
    types : TypeTable
        All types of variables and factors.
    score_maps : function
        From templates to the maps of all examples.
    """

    layouts: list[Layout]
    types: TypeTable
    score_maps: Callable[[Templates], list[TemplateScores]]

    @property
    def named(self) -> bool:
        """Whether variables come by type."""
        return any(layout.named for layout in self.layouts)


@dataclass(frozen=True, eq=False)
class Truth:
    """Labels of all examples as states, by type, with the classes."""

    states: list[dict[str, States]]
    classes: Classes

    def labelled(self, kind: str) -> bool:
        """Whether some variable of the type has a label."""
        return any(tells_something(one[kind]) for one in self.states if kind in one)


class Prepared(NamedTuple):
    """What one fit learns from: data and labels as they were read, and examples made from them."""

    data: Data
    truth: Truth
    templates: Templates
    examples: list[Example]
    known: Templates | None
    """Form of the weights to go on from, in a warm start."""


def find_truth(data: Data, y: Any, given: Any, known: Classes | None = None) -> Truth:
    """Labels as states; the classes are those of the model if there is one, else those given or found."""
    labels = _read_all_labels(data, y)
    if data.named and given is not None and not isinstance(given, Mapping):
        raise InvalidInputError(
            f"classes must be a dict by type, since there are the types {list(data.types.n_features)}."
        )
    classes = {}
    for kind in data.types.n_features:
        asked = given.get(kind) if data.named and given is not None else given
        with errors_in(f"type {kind!r}" if data.named else ""):
            if known is not None:
                classes[kind] = known[kind]
                if asked is not None and not np.array_equal(check_classes(asked), known[kind]):
                    raise InvalidInputError(
                        f"classes are {list(asked)}, but the model has {known[kind].tolist()}. Keep the classes, "
                        f"or fit anew with warm_start=False."
                    )
            elif asked is not None:
                classes[kind] = check_classes(asked)
            else:
                classes[kind] = find_classes([one[kind] for one in labels if kind in one])
    truth = _as_truth(labels, classes)
    if not any(truth.labelled(kind) for kind in classes):
        raise InvalidInputError("all labels are hidden. Label some variables.")
    return truth


def as_truth(data: Data, y: Any, classes: Classes) -> Truth:
    """Labels as states of known classes; all may be hidden."""
    return _as_truth(_read_all_labels(data, y), classes)


def observed_truth(data: Data, y: Any, classes: Classes) -> list[dict[str, NDArray[Any]]]:
    """Labels to compare predictions with, by type; see `observed_states`."""
    return [{kind: observed_states(one[kind], classes[kind]) for kind in one} for one in _read_all_labels(data, y)]


def _as_truth(labels: list[dict[str, Labels]], classes: Classes) -> Truth:
    return Truth([{kind: as_states(one[kind], classes[kind]) for kind in one} for one in labels], classes)


def _read_all_labels(data: Data, y: Any) -> list[dict[str, Labels]]:
    n = len(data.layouts)
    if isinstance(y, (str, bytes, Mapping)) or not hasattr(y, "__len__") or len(y) != n:
        found = len(y) if hasattr(y, "__len__") else type(y).__name__
        raise InvalidInputError(f"X has {n} examples, but y has {found}. Give labels for each.")
    return [
        _read_labels(given, layout, f"y[{i}]") for i, (given, layout) in enumerate(zip(y, data.layouts, strict=True))
    ]


def _read_labels(given: Any, layout: Layout, name: str) -> dict[str, Labels]:
    parts = layout.parts(given, name)
    found = {}
    for kind, shape in layout.shapes.items():
        here = f"{name}[{kind!r}]" if layout.named else name
        if kind in parts:
            found[kind] = read_labels(parts[kind], shape, layout.reasons[kind], here)
        else:
            found[kind] = hidden_labels(shape, here)
    return found


def make_examples(
    data: Data, truth: Truth, templates: Templates, sample_weight: Any, class_weight: Any
) -> list[Example]:
    """Labelled examples with their weights and those of their variables."""
    weights = check_sample_weight(sample_weight, len(data.layouts))
    by_class = _class_weights(truth, data.named, class_weight)
    made = []
    for scores, states, weight in zip(data.score_maps(templates), truth.states, weights, strict=True):
        ordered = {kind: states[kind] for kind in templates.n_states if kind in states}
        each = None
        if by_class is not None:
            parts = [weights_of_states(part, by_class[kind]) for kind, part in ordered.items()]
            each = np.concatenate([np.empty(0), *parts])
        made.append(example(scores, _flat_states(ordered, templates), float(weight), each))
    return made


def _flat_states(states: dict[str, States], templates: Templates) -> NDArray[Any]:
    """Labels of all variables of a graph: whole numbers, or flat booleans if there are sets."""
    if all(part.ndim == 1 for part in states.values()):
        return np.concatenate([np.empty(0, np.int64), *states.values()])
    flat = [np.empty(0, dtype=bool)]
    for kind, part in states.items():
        if part.ndim == 1:
            part = (part[:, None] == np.arange(templates.n_states[kind])) | (part < 0)[:, None]
        flat.append(part.reshape(-1))
    return np.concatenate(flat)


def _class_weights(truth: Truth, named: bool, class_weight: Any) -> dict[str, FloatArray] | None:
    if class_weight is None:
        return None
    by_type = named and isinstance(class_weight, Mapping)
    strange = [kind for kind in class_weight if kind not in truth.classes] if by_type else []
    if strange:
        raise InvalidInputError(
            f"class_weight has weights for type {strange[0]!r}, but the types are {list(truth.classes)}. Give "
            f"a dict of type -> label -> weight."
        )
    found = {}
    for kind, classes in truth.classes.items():
        asked = class_weight.get(kind) if by_type else class_weight
        weights = weigh_classes([one[kind] for one in truth.states if kind in one], classes, asked)
        found[kind] = np.ones(classes.size) if weights is None else weights
    return found
