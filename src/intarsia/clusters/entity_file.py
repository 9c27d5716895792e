"""Saving of a fitted `EntityClusterer` or `ThresholdClusterer` to a file, and loading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia._core.registry import Parts
from intarsia._core.validation import frozen
from intarsia._files.saved_model import Arrays, Content, course_from_file, course_to_file, finite_array
from intarsia._files.settings_json import saved_settings, settings_from_json, settings_to_json
from intarsia.clusters.blocking import BLOCKINGS
from intarsia.clusters.cluster_features.feature_world import feature_names
from intarsia.clusters.comparisons import COMPARISONS
from intarsia.clusters.entity_worlds import cluster_model, world_names
from intarsia.clusters.fellegi_sunter.levels import AgreementLevels
from intarsia.clusters.fellegi_sunter.pair_model import ColumnModel, FellegiSunter
from intarsia.clusters.matcher import PairMatcher

if TYPE_CHECKING:
    from intarsia.clusters.entity_clusterer import EntityClusterer
    from intarsia.clusters.threshold_clusterer import ThresholdClusterer

# Settings saved separately, because their keys are the names of columns.
COLUMN_SETTINGS = ("comparisons", "blocking")


_PARTS: Parts = {"comparisons": COMPARISONS, "blocking": BLOCKINGS}


def _is_unlabelled(model: EntityClusterer) -> bool:
    """Return whether a model was fitted without labels."""
    return not isinstance(model.matcher_, PairMatcher)


def _columns_to_file(model: EntityClusterer | ThresholdClusterer) -> dict[str, Any]:
    """Return the settings of columns and the comparisons that were used."""
    return {
        "given": saved_settings({name: getattr(model, name) for name in COLUMN_SETTINGS}, _PARTS),
        "comparisons": [
            [column, comparison.name, settings_to_json(comparison.get_params(deep=False))]
            for column, comparison in model.comparisons_
        ],
    }


def _columns_from_file(model: EntityClusterer | ThresholdClusterer, document: dict[str, Any]) -> None:
    """Put the settings of columns and the comparisons of a file into a new model."""
    column_settings = settings_from_json(document["given"], _PARTS)
    model.comparisons, model.blocking = (column_settings[name] for name in COLUMN_SETTINGS)
    model.comparisons_ = [
        (str(column), COMPARISONS.resolve(str(name), settings_from_json(settings, {})))
        for column, name, settings in document["comparisons"]
    ]


def unlabelled_to_file(model: EntityClusterer) -> Content:
    """Return the comparisons and the Fellegi-Sunter model, if there is one, as the content of a file."""
    document = _columns_to_file(model)
    if model.matcher_ is None:
        return document, {}
    matcher = model.matcher_
    columns = [{"values": list(column.counts), "n_present": column.n_present} for column in matcher.columns]
    arrays: Arrays = {}
    for k, column in enumerate(matcher.columns):
        counts = np.array(list(column.counts.values()), dtype=np.int64)
        arrays |= {f"m_{k}": column.m, f"u_{k}": column.u, f"counts_{k}": counts}
    return {**document, "prior": matcher.prior, "columns": columns}, arrays


def unlabelled_from_file(model: EntityClusterer, document: dict[str, Any], arrays: Arrays) -> None:
    """Put comparisons and Fellegi-Sunter model of a file into a new model."""
    _columns_from_file(model, document)
    model.matcher_ = None
    if "prior" not in document:
        return
    columns = []
    for k, (column, comparison) in enumerate(model.comparisons_):
        levels = AgreementLevels(column, comparison)
        m, u = (finite_array(arrays, f"{name}_{k}", (levels.n_levels,)) for name in ("m", "u"))
        values = [str(value) for value in document["columns"][k]["values"]]
        counts = dict(zip(values, arrays[f"counts_{k}"].tolist(), strict=True))
        if (m <= 0).any() or (u <= 0).any():
            raise ValueError("probabilities")
        columns.append(ColumnModel(levels, frozen(m), frozen(u), counts, int(document["columns"][k]["n_present"])))
    prior = float(document["prior"])
    if not 0.0 < prior < 1.0:
        raise ValueError("prior")
    model.matcher_ = FellegiSunter(prior, columns, bool(model.term_frequencies), model.history_, model.status_)


def matcher_to_file(model: EntityClusterer | ThresholdClusterer) -> Content:
    """Return the comparisons and the fitted matcher as the content of a file."""
    document = {**_columns_to_file(model), "intercept": model.matcher_.intercept}
    return document, {"matcher": model.matcher_.weights}


def matcher_from_file(
    model: EntityClusterer | ThresholdClusterer, document: dict[str, Any], arrays: Arrays
) -> tuple[str, ...]:
    """Put comparisons and matcher of a file into a new model; return the names of the features compared."""
    _columns_from_file(model, document)
    matcher, intercept = finite_array(arrays, "matcher", (arrays["matcher"].size,)), float(document["intercept"])
    names = tuple(name for column, comparison in model.comparisons_ for name in comparison.feature_names(column))
    if not np.isfinite(intercept) or (names and len(names) != matcher.size):
        raise ValueError("matcher")
    model.matcher_ = PairMatcher(frozen(matcher), intercept)
    return names


def entity_clusterer_to_file(model: EntityClusterer) -> Content:
    """Return the learned attributes of a fitted model, and its settings of columns, as the content of a file."""
    course, histories = course_to_file(model.n_iter_, model.status_, model.history_)
    matcher_document, matcher_arrays = unlabelled_to_file(model) if _is_unlabelled(model) else matcher_to_file(model)
    document = {
        **course,
        **matcher_document,
        "features": list(model.feature_names_),
        "weights": list(model.weights_),
        "decision": model.decision_,
        "shift": model.shift_,
        "performance": model.decision_performance_,
        "pairs_per_rule": model.pairs_per_rule_,
    }
    return document, {**histories, **matcher_arrays, "weights": np.array(list(model.weights_.values()))}


def entity_clusterer_from_file(model: EntityClusterer, document: dict[str, Any], arrays: Arrays) -> None:
    """Put the content of a file into a new model; all values are checked before use."""
    model.decision_, model.shift_ = str(document["decision"]), float(document["shift"])
    model.decision_performance_ = {str(name): float(value) for name, value in document["performance"].items()}
    model.pairs_per_rule_ = {str(rule): int(n) for rule, n in document["pairs_per_rule"].items()}
    model.feature_names_ = tuple(map(str, document["features"]))
    weights = finite_array(arrays, "weights", (len(document["weights"]),))
    model.weights_ = dict(zip(map(str, document["weights"]), weights.tolist(), strict=True))
    model.n_iter_, model.status_, model.history_ = course_from_file(document, arrays)
    if "prior" in document or not document["features"]:
        unlabelled_from_file(model, document, arrays)
        return
    names = matcher_from_file(model, document, arrays)
    if names not in ((), model.feature_names_) or len(model.feature_names_) != model.matcher_.weights.size:
        raise ValueError("features")
    pair_names = world_names(model.feature_names_, model.features)
    names_of_weights = feature_names(cluster_model(model.model, model.features), pair_names, model.cluster_features)
    if tuple(model.weights_) != names_of_weights:
        raise ValueError("weights")
