"""Prediction of an `EntityClusterer`: candidate pairs with log odds and constraints, and the entity of each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from intarsia._core.settings import check_fitted
from intarsia._core.validation import FloatArray, IntArray, as_generator
from intarsia.clusters.components import Links, read_links
from intarsia.clusters.fellegi_sunter.pair_model import FellegiSunter
from intarsia.clusters.linkage.fitting import candidate_pairs, trained_weights
from intarsia.clusters.linkage.inputs import read_model_input
from intarsia.clusters.linkage.resolved import pair_table, resolve_records, sampled_probabilities
from intarsia.clusters.linkage.stored_input import open_stored_input, prepare_stored
from intarsia.clusters.linkage.training import RANKING, RESOLVE, Decision, decide
from intarsia.clusters.partition import canonical_labels
from intarsia.clusters.record_pairs import RecordPairs
from intarsia.clusters.resolution.calibration import ABSENT
from intarsia.exceptions import InvalidInputError

if TYPE_CHECKING:
    from intarsia.clusters.entity_clusterer import EntityClusterer

PreparedPairs = tuple[RecordPairs, FloatArray, Links]


class LastCall:
    """Arguments of the last prediction, for `explain`.

    Attributes
    ----------
    arguments : tuple
        X, right, edges, must_link, cannot_link.
    data : object
        Data of earlier explanations of this call.
    """

    def __init__(self, arguments: tuple[Any, ...] | None = None) -> None:
        self.arguments = arguments
        self.data: Any = None


# Last prediction of each model; outside of the models, which predictions do not change and which are saved without.
LAST_CALLS: WeakKeyDictionary[EntityClusterer, LastCall] = WeakKeyDictionary()


def prepare_pairs(
    model: EntityClusterer, X: Any, right: Any, edges: Any, must_link: Sequence[Any], cannot_link: Sequence[Any]
) -> PreparedPairs:
    """Return records with candidate pairs, the log odds of the pairs, and the constraints."""
    check_fitted(model, "weights_")
    model.check_settings()
    if edges is None and not model.comparisons_:
        raise InvalidInputError("the model was fitted to edges. Pass edges= here too.")
    if edges is not None and isinstance(model.matcher_, FellegiSunter):
        raise InvalidInputError("the model was fitted to records. Drop edges=, or use predict or resolve.")
    if isinstance(model.matcher_, FellegiSunter):
        with open_stored_input(model, X, right, cannot_link, model.comparisons_) as stored_input:
            if stored_input is not None:
                return prepare_stored(stored_input, model.matcher_, must_link, cannot_link)
    inputs = read_model_input(model, X, right, edges, reads_columns=False)
    must, cannot = inputs.links(must_link, "must_link"), inputs.links(cannot_link, "cannot_link")
    separating_keys = None if edges is not None else inputs.separating_keys(model.id_column, cannot)
    record_pairs = candidate_pairs(model, inputs, edges, separating_keys)
    if record_pairs.names != model.feature_names_:
        raise InvalidInputError(
            f"pairs have the features {', '.join(record_pairs.names)}, but the model was fitted to "
            f"{', '.join(model.feature_names_)}. Pass the same columns as to fit."
        )
    links = read_links(record_pairs, must, cannot, inputs.sources)
    if isinstance(model.matcher_, FellegiSunter):
        rows = record_pairs.first_row[record_pairs.pairs]
        return record_pairs, model.matcher_.log_odds(inputs.records, record_pairs.values, rows), links
    return record_pairs, model.matcher_.log_odds(record_pairs.values), links


def predict_entities(model: EntityClusterer, pairs: PreparedPairs) -> IntArray:
    """Return the entity of each row, as integers from 0 by first occurrence."""
    return canonical_labels(entities_of_records(model, pairs)[pairs[0].record_of])


def decided_way(model: EntityClusterer) -> str:
    """Return how entities are decided: by `resolve`, by the learned ranking or by greedy merging."""
    if isinstance(model.matcher_, FellegiSunter):
        return RESOLVE
    return model.decision_ if model.decoder is None else RANKING


def entities_of_records(model: EntityClusterer, pairs: PreparedPairs) -> IntArray:
    """Return the entity of each distinct record, as any integers."""
    record_pairs, log_odds, links = pairs
    if isinstance(model.matcher_, FellegiSunter):
        return resolve_records(record_pairs, log_odds, links).labels
    decision = Decision(decided_way(model), model.shift_, {})
    rng = as_generator(model.random_state)
    return decide(record_pairs, log_odds, links, decision, trained_weights(model, record_pairs), rng, model.n_jobs)


def predict_pair_table(
    model: EntityClusterer, pairs: PreparedPairs, n_samples: int, temperature: float
) -> dict[str, list[Any]]:
    """Return the candidate pairs with the sampled probability that both records belong to the same entity."""
    record_pairs, log_odds, links = pairs
    trained = trained_weights(model, record_pairs)
    if isinstance(model.matcher_, FellegiSunter):
        trained = replace(trained, weights=np.array([1.0, ABSENT]))
    probability = sampled_probabilities(
        record_pairs, log_odds, links, trained, as_generator(model.random_state), model.n_jobs,
        n_samples=n_samples, temperature=temperature,
    )  # fmt: skip
    return pair_table(record_pairs, probability)
