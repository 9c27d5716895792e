"""Saving and loading of `GridCRF` and `GraphCRF`: settings, types and labels as JSON, weights as arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia._files.saved_model import (
    Arrays,
    Content,
    course_from_file,
    course_to_file,
    finite_array,
    labels_from_json,
    number_from_json,
    number_to_json,
)
from intarsia.models.template_scores import Templates

if TYPE_CHECKING:
    from intarsia.crf.crf import CRF

# Largest number of integers in memory to find the equal cells of a symmetric table.
_MAX_SYMMETRIC_CELLS = 2 * 10**7


def crf_to_file(crf: CRF) -> Content:
    """Return the content of the file of a fitted model: metadata and arrays."""
    templates, has_types = crf.templates_, isinstance(crf.classes_, dict)
    classes = crf.classes_ if has_types else {next(iter(templates.n_states)): crf.classes_}
    course, histories = course_to_file(crf.n_iter_, crf.status_, crf.history_)
    metadata = {
        **course,
        # Lists of pairs, because the order of the types is that of the weights.
        "classes": [[name, labels.tolist()] for name, labels in classes.items()],
        "named": has_types,
        "n_features": [[name, int(n)] for name, n in templates.n_features.items()],
        "scopes": [[name, list(kinds)] for name, kinds in templates.scopes.items()],
        "n_factor_features": [[name, int(n)] for name, n in templates.n_factor_features.items()],
        "symmetric": sorted(templates.symmetric),
        "risk": number_to_json(crf.risk_),
    }
    return metadata, {**histories, "weights": crf.weights_, "initial_weights": crf.initial_weights_}


def crf_from_file(crf: CRF, metadata: dict[str, Any], arrays: Arrays) -> None:
    """Restore a model from the content of a file, which is checked before it is used."""
    classes = {str(name): labels_from_json(labels) for name, labels in metadata["classes"]}
    templates = Templates(
        {name: labels.size for name, labels in classes.items()},
        _counts(metadata["n_features"]),
        {str(name): tuple(map(str, kinds)) for name, kinds in metadata["scopes"]},
        _counts(metadata["n_factor_features"]),
        frozenset(map(str, metadata["symmetric"])),
    )
    if list(templates.n_features) != list(classes) or list(templates.n_factor_features) != list(templates.scopes):
        raise ValueError("types")
    _check_sizes(templates, arrays["weights"].size)
    crf.weights_, crf.initial_weights_ = (
        finite_array(arrays, name, (templates.n_weights,)) for name in ("weights", "initial_weights")
    )
    crf.templates_ = templates
    crf.classes_ = classes if metadata["named"] else next(iter(classes.values()))
    crf.n_iter_, crf.status_, crf.history_ = course_from_file(metadata, arrays)
    crf.risk_ = number_from_json(metadata["risk"])


def _check_sizes(templates: Templates, n_weights: int) -> None:
    """Raise if the declared sizes exceed the stored weights, before memory of that size is allocated."""
    sizes = [float(n * templates.n_features[name]) for name, n in templates.n_states.items()]
    for name, n in templates.n_factor_features.items():
        shape = templates.table_shape(name)
        cells = float(np.prod(shape, dtype=float))
        if name not in templates.symmetric:
            sizes.append(cells * n)
        elif len(shape) * cells > max(_MAX_SYMMETRIC_CELLS, 4 * n_weights):  # several cells share a weight
            raise ValueError("symmetric")
    if sum(sizes) > n_weights:
        raise ValueError("weights")


def _counts(pairs: Any) -> dict[str, int]:
    counts = {str(name): int(n) for name, n in pairs}
    if any(n < 0 for n in counts.values()):
        raise ValueError("counts")
    return counts
