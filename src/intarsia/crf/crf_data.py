"""Data and labels of conditional random fields, after all checks, and their conversion to training examples."""

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
    has_observed_label,
    hidden_labels,
    observed_states,
    read_labels,
    weigh_classes,
    weights_of_states,
)
from intarsia.models.template_scores import Templates, TemplateScores

Classes = dict[str, NDArray[Any]]
"""Classes of each type of variable."""


@dataclass(frozen=True, eq=False)
class Data:
    """Examples after all checks, without their labels.

    Attributes
    ----------
    layouts : list of Layout
        Types and shapes of the labels of each example.
    types : TypeTable
        All types of variables and factors.
    score_maps : function
        Function that returns the feature maps of all examples from templates.
    """

    layouts: list[Layout]
    types: TypeTable
    score_maps: Callable[[Templates], list[TemplateScores]]

    @property
    def has_types(self) -> bool:
        """Whether the features and labels are dicts by type."""
        return any(layout.has_types for layout in self.layouts)


@dataclass(frozen=True, eq=False)
class Truth:
    """Labels of all examples as states by type, together with the classes."""

    states: list[dict[str, States]]
    classes: Classes

    def labelled(self, kind: str) -> bool:
        """Return whether some variable of a type has a label."""
        return any(has_observed_label(states[kind]) for states in self.states if kind in states)


class TrainingData(NamedTuple):
    """Training data of a fit: data and labels after all checks, and the examples built from them."""

    data: Data
    truth: Truth
    templates: Templates
    examples: list[Example]
    previous_templates: Templates | None
    """Templates of the weights from which a warm start continues."""


def find_truth(
    data: Data,
    y: Any,
    class_setting: Any,
    fitted_classes: Classes | None = None,
    expected_labels: Mapping[str, list[Any]] | None = None,
) -> Truth:
    """Convert labels to states; the classes are those of the fitted model, or the user's list, or those in y.

    With `expected_labels`, the labels of each type that expectations name, all labels of y may be hidden.
    """
    labels = _read_all_labels(data, y, expected_labels is not None)
    if data.has_types and class_setting is not None and not isinstance(class_setting, Mapping):
        raise InvalidInputError(
            f"classes must be a dict by type, because the variables have the types {list(data.types.n_features)}."
        )
    classes = {}
    for kind in data.types.n_features:
        classes_of_type = class_setting.get(kind) if data.has_types and class_setting is not None else class_setting
        with errors_in(f"type {kind!r}" if data.has_types else ""):
            if fitted_classes is not None:
                classes[kind] = fitted_classes[kind]
                if classes_of_type is not None and not np.array_equal(
                    check_classes(classes_of_type), fitted_classes[kind]
                ):
                    raise InvalidInputError(
                        f"classes are {list(classes_of_type)}, but the model has {fitted_classes[kind].tolist()}. Keep "
                        f"the classes, or fit again with warm_start=False."
                    )
            elif classes_of_type is not None:
                classes[kind] = check_classes(classes_of_type)
            else:
                labels_of_type = [example_labels[kind] for example_labels in labels if kind in example_labels]
                names = (expected_labels or {}).get(kind)
                if names:
                    labels_of_type.append(read_labels(names, (len(names),), "", "expectations"))
                classes[kind] = find_classes(labels_of_type)
    truth = _as_truth(labels, classes)
    if expected_labels is None and not any(truth.labelled(kind) for kind in classes):
        raise InvalidInputError("all labels are hidden. Label some of the variables.")
    return truth


def as_truth(data: Data, y: Any, classes: Classes) -> Truth:
    """Convert labels to states of these classes; all labels may be hidden."""
    return _as_truth(_read_all_labels(data, y), classes)


def observed_truth(data: Data, y: Any, classes: Classes) -> list[dict[str, NDArray[Any]]]:
    """Return the labels by type for comparison with predictions; see `observed_states`."""
    return [
        {kind: observed_states(labels[kind], classes[kind]) for kind in labels} for labels in _read_all_labels(data, y)
    ]


def _as_truth(labels: list[dict[str, Labels]], classes: Classes) -> Truth:
    return Truth(
        [
            {kind: as_states(example_labels[kind], classes[kind]) for kind in example_labels}
            for example_labels in labels
        ],
        classes,
    )


def _read_all_labels(data: Data, y: Any, may_be_missing: bool = False) -> list[dict[str, Labels]]:
    n = len(data.layouts)
    if may_be_missing and y is None:
        y = [None] * n
    if isinstance(y, (str, bytes, Mapping)) or not hasattr(y, "__len__") or len(y) != n:
        n_labels = len(y) if hasattr(y, "__len__") else type(y).__name__
        raise InvalidInputError(f"X has {n} examples, but y has {n_labels}. Pass labels for each example.")
    return [
        {kind: hidden_labels(shape, f"y[{i}]") for kind, shape in layout.shapes.items()}
        if may_be_missing and example_labels is None
        else _read_labels(example_labels, layout, f"y[{i}]")
        for i, (example_labels, layout) in enumerate(zip(y, data.layouts, strict=True))
    ]


def _read_labels(values: Any, layout: Layout, name: str) -> dict[str, Labels]:
    values_by_type = layout.split_by_type(values, name)
    labels = {}
    for kind, shape in layout.shapes.items():
        label_name = f"{name}[{kind!r}]" if layout.has_types else name
        if kind in values_by_type:
            labels[kind] = read_labels(values_by_type[kind], shape, layout.reasons[kind], label_name)
        else:
            labels[kind] = hidden_labels(shape, label_name)
    return labels


def make_examples(
    data: Data, truth: Truth, templates: Templates, sample_weight: Any, class_weight: Any
) -> list[Example]:
    """Return labelled examples with sample weights and class weights."""
    weights = check_sample_weight(sample_weight, len(data.layouts))
    by_class = _class_weights(truth, data.has_types, class_weight)
    examples = []
    for scores, states, weight in zip(data.score_maps(templates), truth.states, weights, strict=True):
        states_by_type = {kind: states[kind] for kind in templates.n_states if kind in states}
        variable_weights = None
        if by_class is not None:
            type_weights = [
                weights_of_states(type_states, by_class[kind]) for kind, type_states in states_by_type.items()
            ]
            variable_weights = np.concatenate([np.empty(0), *type_weights])
        examples.append(example(scores, _flat_states(states_by_type, templates), float(weight), variable_weights))
    return examples


def _flat_states(states: dict[str, States], templates: Templates) -> NDArray[Any]:
    """Return the labels of all variables of a graph: integers, or a flat mask of allowed states if there are sets."""
    if all(type_states.ndim == 1 for type_states in states.values()):
        return np.concatenate([np.empty(0, np.int64), *states.values()])
    flat = [np.empty(0, dtype=bool)]
    for kind, type_states in states.items():
        if type_states.ndim == 1:
            type_states = (type_states[:, None] == np.arange(templates.n_states[kind])) | (type_states < 0)[:, None]
        flat.append(type_states.reshape(-1))
    return np.concatenate(flat)


def _class_weights(truth: Truth, has_types: bool, class_weight: Any) -> dict[str, FloatArray] | None:
    if class_weight is None:
        return None
    by_type = has_types and isinstance(class_weight, Mapping)
    unknown = [kind for kind in class_weight if kind not in truth.classes] if by_type else []
    if unknown:
        raise InvalidInputError(
            f"class_weight has weights for type {unknown[0]!r}, but the types are {list(truth.classes)}. Pass "
            f"a dict type -> label -> weight."
        )
    weights_by_type = {}
    for kind, classes in truth.classes.items():
        setting = class_weight.get(kind) if by_type else class_weight
        weights = weigh_classes([states[kind] for states in truth.states if kind in states], classes, setting)
        weights_by_type[kind] = np.ones(classes.size) if weights is None else weights
    return weights_by_type
