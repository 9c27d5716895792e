"""A fitted `EntityClusterer` as a file, and back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia._validation import frozen
from intarsia.clusters.blocking import BLOCKINGS
from intarsia.clusters.cluster_model import ClusterModel
from intarsia.clusters.comparisons import COMPARISONS
from intarsia.clusters.decoding import DECODERS
from intarsia.clusters.entity_worlds import cluster_model, world_names
from intarsia.clusters.matcher import PairMatcher
from intarsia.exceptions import InvalidInputError
from intarsia.inference.result import Status
from intarsia.learning.model_file import (
    check_notes,
    damaged,
    read_model,
    settings_from_json,
    settings_to_json,
    write_model,
)
from intarsia.learning.registry import resolve_learner

if TYPE_CHECKING:
    from intarsia.clusters.entity_clusterer import EntityClusterer

KIND = "EntityClusterer"


class _Parts(dict[str, Any]):
    """Whatever the column is called, an object in it is a comparison or a blocking."""

    def __missing__(self, key: str) -> Any:
        return _part


def _part(name: str, settings: dict[str, Any]) -> Any:
    return COMPARISONS.resolve(name, settings) if name in COMPARISONS.names else BLOCKINGS.resolve(name, settings)


def save_entity_clusterer(model: EntityClusterer, path: str | os.PathLike[str], notes: Any) -> None:
    """Write a fitted model."""
    where = "EntityClusterer.save"
    check_notes(notes, where)
    settings = model.get_params(deep=False)
    given = {name: settings.pop(name) for name in ("comparisons", "blocking")}
    cluster_features = settings.pop("model")
    about = {
        # Apart, since columns may be called anything.
        "given": settings_to_json(given, where),
        "settings": settings_to_json(settings, where),
        "model": None if cluster_features is None else settings_to_json(cluster_features.get_params(deep=False), where),
        "comparisons": [
            [column, comparison.name, settings_to_json(comparison.get_params(deep=False), where)]
            for column, comparison in model.comparisons_
        ],
        "features": list(model.feature_names_),
        "weights": list(model.weights_),
        "intercept": model.matcher_.intercept,
        "n_iter": int(model.n_iter_),
        "status": model.status_.name,
        "history": sorted(model.history_),
        "notes": notes,
    }
    arrays = {"weights": np.array(list(model.weights_.values())), "matcher": model.matcher_.weights}
    write_model(path, KIND, about, arrays | {f"history_{name}": values for name, values in model.history_.items()})


def load_entity_clusterer(cls: type[EntityClusterer], path: str | os.PathLike[str]) -> EntityClusterer:
    """The model of a file; everything in it is checked before it is used."""
    about, arrays = read_model(path, KIND)
    try:
        return _restore(cls, about, arrays)
    except (InvalidInputError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        raise damaged(path) from None


def _restore(cls: type[EntityClusterer], about: dict[str, Any], arrays: dict[str, Any]) -> EntityClusterer:
    settings = settings_from_json(about["settings"], {"learner": resolve_learner, "decoder": DECODERS.resolve})
    settings |= settings_from_json(about["given"], _Parts())
    if about["model"] is not None:
        settings["model"] = ClusterModel(**settings_from_json(about["model"], {}))
    model = cls(**settings)
    model.comparisons_ = [
        (str(column), COMPARISONS.resolve(str(name), settings_from_json(given, {})))
        for column, name, given in about["comparisons"]
    ]
    model.feature_names_ = tuple(map(str, about["features"]))
    named = tuple(name for column, comparison in model.comparisons_ for name in comparison.feature_names(column))
    matcher, weights = (arrays[name].astype(np.float64) for name in ("matcher", "weights"))
    if model.comparisons_ and named != model.feature_names_:
        raise ValueError("features")
    if matcher.shape != (len(model.feature_names_),) or weights.shape != (len(about["weights"]),):
        raise ValueError("weights")
    if not (np.isfinite(matcher).all() and np.isfinite(weights).all() and np.isfinite(float(about["intercept"]))):
        raise ValueError("weights")
    model.matcher_ = PairMatcher(frozen(matcher), float(about["intercept"]))
    model.weights_ = dict(zip(map(str, about["weights"]), weights.tolist(), strict=True))
    table = cluster_model(model.model, model.features).table(world_names(model.feature_names_, model.features))
    if tuple(model.weights_) != table.names:
        raise ValueError("weights")
    model.history_ = {name: arrays[f"history_{name}"].astype(np.float64) for name in about["history"]}
    model.n_iter_, model.status_, model.notes_ = int(about["n_iter"]), Status[about["status"]], about["notes"]
    return model
