"""A fitted `EntityClusterer` as a file, and back."""

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

# Settings that stand apart, since columns may be called anything.
COLUMN_SETTINGS = ("comparisons", "blocking")


_PARTS: Parts = {"comparisons": COMPARISONS, "blocking": BLOCKINGS}


def matcher_to_file(model: EntityClusterer | ThresholdClusterer) -> Content:
    """What is compared, and the log odds learned from it."""
    given = {name: getattr(model, name) for name in COLUMN_SETTINGS}
    about = {
        "given": saved_settings(given, _PARTS),
        "comparisons": [
            [column, comparison.name, settings_to_json(comparison.get_params(deep=False))]
            for column, comparison in model.comparisons_
        ],
        "intercept": model.matcher_.intercept,
    }
    return about, {"matcher": model.matcher_.weights}


def matcher_from_file(
    model: EntityClusterer | ThresholdClusterer, about: dict[str, Any], arrays: Arrays
) -> tuple[str, ...]:
    """Put it into a new model; return the names of the features compared."""
    given = settings_from_json(about["given"], _PARTS)
    model.comparisons, model.blocking = (given[name] for name in COLUMN_SETTINGS)
    model.comparisons_ = [
        (str(column), COMPARISONS.resolve(str(name), settings_from_json(settings, {})))
        for column, name, settings in about["comparisons"]
    ]
    matcher, intercept = finite_array(arrays, "matcher", (arrays["matcher"].size,)), float(about["intercept"])
    named = tuple(name for column, comparison in model.comparisons_ for name in comparison.feature_names(column))
    if not np.isfinite(intercept) or (named and len(named) != matcher.size):
        raise ValueError("matcher")
    model.matcher_ = PairMatcher(frozen(matcher), intercept)
    return named


def entity_clusterer_to_file(model: EntityClusterer) -> Content:
    """What a fitted model has learned, and its settings of columns."""
    course, histories = course_to_file(model.n_iter_, model.status_, model.history_)
    compared, matcher = matcher_to_file(model)
    about = {**course, **compared, "features": list(model.feature_names_), "weights": list(model.weights_)}
    return about, {**histories, **matcher, "weights": np.array(list(model.weights_.values()))}


def entity_clusterer_from_file(model: EntityClusterer, about: dict[str, Any], arrays: Arrays) -> None:
    """Put what a file holds into a new model; everything is checked before it is used."""
    named = matcher_from_file(model, about, arrays)
    model.feature_names_ = tuple(map(str, about["features"]))
    if named not in ((), model.feature_names_) or len(model.feature_names_) != model.matcher_.weights.size:
        raise ValueError("features")
    weights = finite_array(arrays, "weights", (len(about["weights"]),))
    model.weights_ = dict(zip(map(str, about["weights"]), weights.tolist(), strict=True))
    table = cluster_model(model.model, model.features).table(world_names(model.feature_names_, model.features))
    if tuple(model.weights_) != table.names:
        raise ValueError("weights")
    model.n_iter_, model.status_, model.history_ = course_from_file(about, arrays)
