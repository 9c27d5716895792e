"""Fitting of an `EntityClusterer`: without labels by EM, with labels by logistic regression and SampleRank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia._core.status import Status
from intarsia._core.validation import as_generator
from intarsia.clusters.blocking import SharedTokens
from intarsia.clusters.cluster_model import ClusterModel
from intarsia.clusters.comparisons import Comparison, resolve_comparisons
from intarsia.clusters.components import read_links
from intarsia.clusters.decoding import DECODERS
from intarsia.clusters.entity_worlds import TrainedWeights, cluster_model, default_decoder, guarded_metric, world_names
from intarsia.clusters.fellegi_sunter.doubts import check_blocking, check_matcher
from intarsia.clusters.fellegi_sunter.pair_model import FellegiSunter, fit_fellegi_sunter
from intarsia.clusters.linkage.inputs import ClustererInput
from intarsia.clusters.linkage.resolved import RESOLVED_WEIGHTS
from intarsia.clusters.linkage.training import RANKING, RESOLVE, Decision, Training, choose_decision, train
from intarsia.clusters.matcher import cluster_codes
from intarsia.clusters.record_pairs import (
    RecordPairs,
    blocking_rules,
    compared_records,
    guess_comparisons,
    scored_records,
)
from intarsia.clusters.resolution.scored_pairs import read_scored_pairs
from intarsia.clusters.tables import Table, read_table
from intarsia.exceptions import InvalidInputError
from intarsia.learning.registry import LEARNERS
from intarsia.learning.sample_rank import SampleRank
from intarsia.worlds.decoder import Decoder

if TYPE_CHECKING:
    from intarsia.clusters.entity_clusterer import EntityClusterer


def fit_without_labels(model: EntityClusterer, inputs: ClustererInput, edges: Any) -> None:
    """Estimate the log odds of pairs by EM; scored pairs need no estimation."""
    if edges is not None:
        model.comparisons_ = []
        read_scored_pairs(edges, id_columns=model.edge_ids)
        store_unlabelled(model, (), None, {})
        return
    model.comparisons_ = one_per_column(resolved_comparisons(model, inputs.records, None))
    record_pairs = candidate_pairs(model, inputs, None, inputs.separating_keys(model.id_column))
    matcher = fit_fellegi_sunter(
        inputs.records,
        model.comparisons_,
        record_pairs.values,
        record_pairs.pairs,
        record_pairs.record_of,
        as_generator(model.random_state),
        side=inputs.side,
        term_frequencies=model.term_frequencies,
    )
    store_unlabelled(model, record_pairs.names, matcher, record_pairs.pairs_per_rule)
    if check_matcher(matcher) or model.blocking is not None:
        return
    (rule,) = blocking_rules(model.comparisons_, None)
    if isinstance(rule, SharedTokens):
        first, names = record_pairs.first_row, rule.named()
        log_odds = matcher.log_odds(inputs.records, record_pairs.values, first[record_pairs.pairs])
        records = Table({name: [inputs.records.column(name)[row] for row in first] for name in names}, len(first))
        check_blocking(rule.shares_words(records, record_pairs.pairs[log_odds > 0.0]), names)


def one_per_column(comparisons: Sequence[tuple[str, Comparison]]) -> list[tuple[str, Comparison]]:
    """Return the first comparison of each column: those of one column depend on each other, which EM excludes."""
    return list({column: (column, item) for column, item in reversed(comparisons)}.values())[::-1]


def store_unlabelled(
    model: EntityClusterer, names: tuple[str, ...], matcher: FellegiSunter | None, pairs_per_rule: dict[str, int]
) -> None:
    """Store the result of a fit without labels; `matcher` is None if pairs were already scored."""
    model.weights_, model.decision_, model.decision_performance_ = dict(RESOLVED_WEIGHTS), RESOLVE, {}
    model.shift_, model.feature_names_, model.matcher_ = 0.0, names, matcher
    model.pairs_per_rule_ = pairs_per_rule
    model.history_, model.status_, model.n_iter_ = {}, Status.EXACT, 0
    if matcher is not None:
        model.history_, model.status_ = matcher.history, matcher.status
        model.n_iter_ = len(matcher.history["log_likelihood"])


def fit_with_labels(
    model: EntityClusterer, inputs: ClustererInput, labels: Any, label_column: str | None, edges: Any
) -> None:
    """Fit log odds of pairs and weights of clusterings to known entities, and choose how clusters are decided."""
    if edges is None:
        model.comparisons_ = resolved_comparisons(model, inputs.records, label_column)
        codes = cluster_codes(labels, inputs.records.n_rows)
        # Equal rows of different entities stay separate records: the matcher must learn from such pairs.
        keys = inputs.separating_keys(model.id_column)
        record_pairs = candidate_pairs(
            model, inputs, None, codes.tolist() if keys is None else list(zip(codes, keys, strict=True))
        )
    else:
        model.comparisons_ = []
        record_pairs = candidate_pairs(model, inputs, edges)
        codes = cluster_codes(labels, len(record_pairs.ids))
    truth = codes[record_pairs.first_row]
    model.feature_names_, model.pairs_per_rule_ = record_pairs.names, record_pairs.pairs_per_rule
    source = read_links(record_pairs, (), (), inputs.sources).source
    training = Training(
        cluster_model(model.model, model.features),
        model.features,
        guarded_metric(model.metric),
        _resolved_learner(model),
        float(model.l2),
        _resolved_decoder(model),
        model.cluster_features,
    )
    trained = train(record_pairs, truth, source, training)
    decision = Decision(RANKING, 0.0, {})
    if model.decoder is None:
        decision = choose_decision(record_pairs, truth, source, training, trained)
    model.matcher_ = trained.matcher
    model.weights_ = dict(zip(trained.names, trained.weights.tolist(), strict=True))
    model.decision_, model.shift_, model.decision_performance_ = decision.way, decision.shift, decision.performance
    result = trained.result
    model.history_, model.status_, model.n_iter_ = result.history, result.status, result.n_iter


def trained_weights(model: EntityClusterer, record_pairs: RecordPairs) -> TrainedWeights:
    """Return the learned weights with the model that they belong to."""
    is_unlabelled = isinstance(model.matcher_, FellegiSunter)
    features_of_clusters = (
        ClusterModel(within=["match"]) if is_unlabelled else cluster_model(model.model, model.features)
    )
    return TrainedWeights(
        np.array(list(model.weights_.values())),
        features_of_clusters,
        world_names(record_pairs.names, "match" if is_unlabelled else model.features),
        _resolved_decoder(model),
        "match" if is_unlabelled else model.features,
        tuple(model.weights_),
        () if is_unlabelled else model.cluster_features,
        record_pairs.columns,
    )


def resolved_comparisons(
    model: EntityClusterer, table: Table | None, label_column: str | None
) -> list[tuple[str, Comparison]]:
    """Return the comparisons of the settings, or guess them from all columns except ids, sources and labels."""
    comparisons = model.comparisons
    if comparisons is None:
        if table is None or table.n_rows == 0:
            raise InvalidInputError("there are no records. Pass records with known entities.")
        excluded = [name for name in (model.id_column, model.source_column, label_column) if name is not None]
        comparisons = guess_comparisons(table, excluded)
    return resolve_comparisons(comparisons)


def _resolved_learner(model: EntityClusterer) -> SampleRank:
    """Return the learner of the settings, or SampleRank with a small learning rate."""
    if model.learner is None:
        return SampleRank(
            step_size=0.01, temperature=0.0, n_proposals=20, max_iter=2, random_state=0, verbose=model.verbose
        )
    learner = LEARNERS.resolve(model.learner)
    if not isinstance(learner, SampleRank):
        raise InvalidInputError(
            f"learner is a {type(learner).__name__}, but only SampleRank can learn clusterings. Pass SampleRank()."
        )
    return learner


def _resolved_decoder(model: EntityClusterer) -> Decoder:
    """Return the decoder of the settings, or hill climbing along candidate pairs."""
    return default_decoder() if model.decoder is None else DECODERS.resolve(model.decoder)


def feature_columns(model: EntityClusterer) -> list[str]:
    """Return the columns that features of clusters read, each once."""
    return list(dict.fromkeys(name for item in model.cluster_features for name in item.columns))


def candidate_pairs(
    model: EntityClusterer, inputs: ClustererInput, edges: Any, separating_keys: Sequence[Any] | None = None
) -> RecordPairs:
    """Return the records and their candidate pairs, compared or read from edges."""
    names = feature_columns(model)
    if edges is not None:
        scored = scored_records(inputs.records, edges, model.id_column, model.edge_ids, model.edge_scores)
        if not names:
            return scored
        table = read_table(inputs.records)
        return replace(scored, columns={name: table.column(name) for name in names})
    return compared_records(
        inputs.records,
        model.comparisons_,
        model.blocking,
        model.id_column,
        separating_keys,
        ids=inputs.ids,
        side=inputs.side,
        feature_columns=names,
    )
