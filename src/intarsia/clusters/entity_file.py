"""Saving of a fitted `EntityClusterer` or `ThresholdClusterer` to a file, and loading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia._core.registry import Parts
from intarsia._core.validation import frozen
from intarsia._files.saved_model import Arrays, Content, course_from_file, course_to_file, finite_array
from intarsia._files.settings_json import saved_settings, settings_from_json, settings_to_json
from intarsia.clusters.blocking import BLOCKINGS
from intarsia.clusters.comparisons import COMPARISONS
from intarsia.clusters.entity_worlds import cluster_model, world_names
from intarsia.clusters.matcher import PairMatcher

if TYPE_CHECKING:
    from intarsia.clusters.entity_clusterer import EntityClusterer
    from intarsia.clusters.threshold_clusterer import ThresholdClusterer

# Settings saved separately, because their keys are the names of columns.
COLUMN_SETTINGS = ("comparisons", "blocking")


_PARTS: Parts = {"comparisons": COMPARISONS, "blocking": BLOCKINGS}


def matcher_to_file(model: EntityClusterer | ThresholdClusterer) -> Content:
    """Return the comparisons and the fitted matcher as the content of a file."""
    column_settings = {name: getattr(model, name) for name in COLUMN_SETTINGS}
    document = {
        "given": saved_settings(column_settings, _PARTS),
        "comparisons": [
            [column, comparison.name, settings_to_json(comparison.get_params(deep=False))]
            for column, comparison in model.comparisons_
        ],
        "intercept": model.matcher_.intercept,
    }
    return document, {"matcher": model.matcher_.weights}


def matcher_from_file(
    model: EntityClusterer | ThresholdClusterer, document: dict[str, Any], arrays: Arrays
) -> tuple[str, ...]:
    """Put comparisons and matcher of a file into a new model; return the names of the features compared."""
    column_settings = settings_from_json(document["given"], _PARTS)
    model.comparisons, model.blocking = (column_settings[name] for name in COLUMN_SETTINGS)
    model.comparisons_ = [
        (str(column), COMPARISONS.resolve(str(name), settings_from_json(settings, {})))
        for column, name, settings in document["comparisons"]
    ]
    matcher, intercept = finite_array(arrays, "matcher", (arrays["matcher"].size,)), float(document["intercept"])
    names = tuple(name for column, comparison in model.comparisons_ for name in comparison.feature_names(column))
    if not np.isfinite(intercept) or (names and len(names) != matcher.size):
        raise ValueError("matcher")
    model.matcher_ = PairMatcher(frozen(matcher), intercept)
    return names


def entity_clusterer_to_file(model: EntityClusterer) -> Content:
    """Return the learned attributes of a fitted model, and its settings of columns, as the content of a file."""
    course, histories = course_to_file(model.n_iter_, model.status_, model.history_)
    matcher_document, matcher_arrays = matcher_to_file(model)
    document = {**course, **matcher_document, "features": list(model.feature_names_), "weights": list(model.weights_)}
    return document, {**histories, **matcher_arrays, "weights": np.array(list(model.weights_.values()))}


def entity_clusterer_from_file(model: EntityClusterer, document: dict[str, Any], arrays: Arrays) -> None:
    """Put the content of a file into a new model; all values are checked before use."""
    names = matcher_from_file(model, document, arrays)
    model.feature_names_ = tuple(map(str, document["features"]))
    if names not in ((), model.feature_names_) or len(model.feature_names_) != model.matcher_.weights.size:
        raise ValueError("features")
    weights = finite_array(arrays, "weights", (len(document["weights"]),))
    model.weights_ = dict(zip(map(str, document["weights"]), weights.tolist(), strict=True))
    table = cluster_model(model.model, model.features).table(world_names(model.feature_names_, model.features))
    if tuple(model.weights_) != table.names:
        raise ValueError("weights")
    model.n_iter_, model.status_, model.history_ = course_from_file(document, arrays)
