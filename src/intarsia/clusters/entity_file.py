"""A fitted `EntityClusterer` as a file, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia._validation import frozen
from intarsia.clusters.blocking import BLOCKINGS
from intarsia.clusters.cluster_model import ClusterModel
from intarsia.clusters.comparisons import COMPARISONS
from intarsia.clusters.entity_worlds import cluster_model, world_names
from intarsia.clusters.matcher import PairMatcher
from intarsia.learning.saved_model import Arrays, Content, course_from_file, course_to_file, finite_array
from intarsia.learning.settings_json import saved_settings, settings_from_json, settings_to_json

if TYPE_CHECKING:
    from intarsia.clusters.entity_clusterer import EntityClusterer

# Settings that stand apart, since columns may be called anything.
APART = ("comparisons", "blocking", "model")


class _Parts(dict[str, Any]):
    """Whatever the column is called, an object in it is a comparison or a blocking."""

    def __missing__(self, key: str) -> Any:
        return _part


def _part(name: str, settings: dict[str, Any]) -> Any:
    return COMPARISONS.resolve(name, settings) if name in COMPARISONS.names else BLOCKINGS.resolve(name, settings)


def entity_clusterer_to_file(model: EntityClusterer, where: str) -> Content:
    """What a fitted model has learned, and its settings of columns."""
    course, histories = course_to_file(model.n_iter_, model.status_, model.history_)
    given = {"comparisons": model.comparisons, "blocking": model.blocking}
    features = None if model.model is None else model.model.get_params(deep=False)
    about = {
        **course,
        "given": saved_settings(given, _Parts(), where),
        "model": None if features is None else saved_settings(features, {}, where),
        "comparisons": [
            [column, comparison.name, settings_to_json(comparison.get_params(deep=False), where)]
            for column, comparison in model.comparisons_
        ],
        "features": list(model.feature_names_),
        "weights": list(model.weights_),
        "intercept": model.matcher_.intercept,
    }
    weights = np.array(list(model.weights_.values()))
    return about, {**histories, "weights": weights, "matcher": model.matcher_.weights}


def entity_clusterer_from_file(model: EntityClusterer, about: dict[str, Any], arrays: Arrays) -> None:
    """Put what a file holds into a new model; everything is checked before it is used."""
    given = settings_from_json(about["given"], _Parts())
    model.comparisons, model.blocking = given["comparisons"], given["blocking"]
    if about["model"] is not None:
        model.model = ClusterModel(**settings_from_json(about["model"], {}))
    model.comparisons_ = [
        (str(column), COMPARISONS.resolve(str(name), settings_from_json(given, {})))
        for column, name, given in about["comparisons"]
    ]
    model.feature_names_ = tuple(map(str, about["features"]))
    named = tuple(name for column, comparison in model.comparisons_ for name in comparison.feature_names(column))
    matcher = finite_array(arrays, "matcher", (len(model.feature_names_),))
    weights = finite_array(arrays, "weights", (len(about["weights"]),))
    if model.comparisons_ and named != model.feature_names_:
        raise ValueError("features")
    if not np.isfinite(float(about["intercept"])):
        raise ValueError("intercept")
    model.matcher_ = PairMatcher(frozen(matcher), float(about["intercept"]))
    model.weights_ = dict(zip(map(str, about["weights"]), weights.tolist(), strict=True))
    table = cluster_model(model.model, model.features).table(world_names(model.feature_names_, model.features))
    if tuple(model.weights_) != table.names:
        raise ValueError("weights")
    model.n_iter_, model.status_, model.history_ = course_from_file(about, arrays)
