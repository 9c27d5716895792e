"""The `EntityClusterer` estimator: entity resolution (record linkage, deduplication) of tables of records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from intarsia._core.error_context import entry_point
from intarsia._core.html import ShownEstimator
from intarsia._core.registry import NamedParts, Parts
from intarsia._core.settings import Settings, check_fitted
from intarsia._core.status import Status
from intarsia._core.transaction import SettingsOfFit, transaction
from intarsia._core.validation import IntArray, check_choice, check_n_jobs, check_number
from intarsia._files.saved_model import Arrays, Content, SavedModel
from intarsia._files.tables import table_kind, write_table
from intarsia.clusters.blocking import Blocking
from intarsia.clusters.cluster_features.cluster_feature import CLUSTER_FEATURES, ClusterFeature
from intarsia.clusters.cluster_features.feature_world import written_features
from intarsia.clusters.cluster_model import CLUSTER_MODELS, ClusterModel
from intarsia.clusters.comparisons import ColumnComparisons, Comparison
from intarsia.clusters.decoding import DECODERS
from intarsia.clusters.entity_file import COLUMN_SETTINGS, entity_clusterer_from_file, entity_clusterer_to_file
from intarsia.clusters.linkage.fitting import fit_with_labels, fit_without_labels
from intarsia.clusters.linkage.inputs import is_table, read_labels, read_model_input
from intarsia.clusters.linkage.prediction import (
    LAST_CALLS,
    LastCall,
    PreparedPairs,
    predict_entities,
    predict_pair_table,
    prepare_pairs,
)
from intarsia.clusters.linkage.resolved import resolve_edges
from intarsia.clusters.linkage.stored_input import ENGINES, StoredInput, fit_stored, open_stored_input, prepare_stored
from intarsia.clusters.matcher import PairMatcher, cluster_codes
from intarsia.clusters.partition import METRICS, MetricFunction, PartitionMetric
from intarsia.clusters.resolution.explanations import EntityExplanation, PairExplanation
from intarsia.learning.registry import LEARNERS
from intarsia.learning.sample_rank import SampleRank
from intarsia.metrics.clusterings import clustering_scores
from intarsia.worlds.decoder import Decoder

FEATURES = ("match", "all")
# Settings that decide which features the learned weights belong to.
MODEL_SETTINGS = ("comparisons", "features", "model", "cluster_features")


class EntityClusterer(NamedParts, SavedModel, ShownEstimator, Settings):
    """Entity resolution: cluster the rows of a table that describe the same person, paper or thing.

    Entity resolution is also called record linkage or deduplication. Candidate pairs (`blocking`) are compared column
    by column (`comparisons`). Every input row gets an entity, in the same order.

    *Without labels*, `fit(records)` estimates the log odds that a pair matches by EM (Fellegi-Sunter, as Splink does),
    and `predict` searches the clustering with the highest total log odds (`resolve`). *With labels*, a logistic
    regression computes the log odds, and `SampleRank` learns the weights of a model that scores whole clusterings; a
    single wrong link does not chain two entities together. On entities that training did not see, the learned ranking
    is compared with `resolve` and with greedy merging, and the best of them is used (`decision_`).

    *Two tables* are linked by `fit(left, right)`: only pairs across the tables are candidates. Instead of comparisons,
    pairs scored by another program such as Splink or dedupe can be passed (`edges=`), to `predict` also without a fit.

    Parameters
    ----------
    comparisons : dict of str -> comparison, or list of them, optional
        How the values of each column are compared: "exact", "jaro_winkler", "token_overlap", "numeric", "date",
        "embedding", or objects with settings. By default `fit` guesses a comparison from the values of each column.
    blocking : str, Blocking or list of them, optional
        Blocking rules that select the candidate pairs; by default pairs that share a rare word in a text column.
    learner : SampleRank, optional
        Learner of the weights; by default SampleRank with a small learning rate, starting from the log odds.
    model : ClusterModel, optional
        Features of a clustering. By default: sum of the log odds and number of pairs within clusters, number of pairs
        within clusters that were not candidates, mean, minimum and maximum log odds of each cluster, and number of
        clusters.
    features : {"match", "all"}
        Pair features available to `model`: "match" (log odds) and "pair" (constant 1); with "all" also the features
        of the comparisons.
    cluster_features : list of ClusterFeature
        With labels: further features of clusters, such as `Span("year")`, or ones of your own.
    metric : {"b_cubed_f1", "pairwise_f1", "pair_accuracy"}, PartitionMetric or function
        Performance metric by which SampleRank ranks neighbouring clusterings.
    id_column : str, optional
        Column with the ids that links and edges refer to; by default row numbers from 0.
    source_column : str, optional
        Column with the source of each record, such as the name of a list without duplicates: an entity never has two
        records of the same source.
    one_to_one : bool
        Whether an entity has at most one record of each of two tables; set it to False if a table has duplicates.
    term_frequencies : bool
        Without labels: whether agreement on a rare value counts more than agreement on a frequent one.
    edge_ids, edge_scores : pair of str, list of str, optional
        Columns of `edges` with ids and scores; by default the names that Splink and others use.
    l2 : float
        L2 regularization of the logistic regression: `l2 / 2 |w|^2` is added to its summed loss.
    decoder : str or Decoder, optional
        Search algorithm of `predict`: "hill_climbing", "metropolis_hastings", "agglomeration" or an object with
        settings. By default training with labels chooses between hill climbing under the learned weights, `resolve`
        and greedy merging.
    engine : {"auto", "memory", "duckdb"}
        Where records are compared without labels: in memory, or in a temporary DuckDB database, with the same result.
        "auto" uses the database from 50,000 records on, if it can compute all comparisons and blocking rules.
    n_jobs : int, optional
        Number of threads over components; results do not depend on it.
    random_state : int, Generator or None
        Seed of `predict` and `predict_pairs`.
    verbose : bool
        Whether `fit` shows its progress on a terminal.

    Attributes
    ----------
    weights_ : dict of str -> float
        Weight of each feature of a clustering.
    matcher_ : PairMatcher or FellegiSunter
        Model of the log odds of a pair: logistic regression, or without labels m and u probabilities (`parameters`).
    decision_ : str
        How clusters are decided: "ranking" (learned weights), "resolve" or "agglomeration" (greedy merging).
    decision_performance_ : dict of str -> float
        Metric of each way on held-out entities, or on the training data if they have few entities; empty without
        labels and with a `decoder`.
    feature_names_ : tuple of str
        Names of the features of a pair.
    pairs_per_rule_ : dict of str -> int
        Number of candidate pairs of each blocking rule; a pair can be selected by several rules.
    comparisons_ : list of (str, Comparison)
        Columns and their comparisons; empty after a fit with edges.
    history_, status_, n_iter_
        Convergence of the learner, or of EM.

    Notes
    -----
    Records with the label None or -1 are unlabelled; training with labels ignores the pairs of such a record.

    References
    ----------
    Rohanimanesh2009, Fellegi1969.

    Examples
    --------
    >>> names = ["Ann Lee", "Anne Lee", "Bob Ray", "Bob Rays", "Eve Fox", "Eva Fox"]
    >>> records = {"name": names, "town": ["Rye", "Rye", "Ayr", "Ayr", "Ely", "Ely"]}
    >>> clusterer = EntityClusterer(comparisons={"name": "jaro_winkler", "town": "exact"}, blocking="all_pairs")
    >>> clusterer = clusterer.fit(records, ["a", "a", "b", "b", "e", "e"])
    >>> clusterer.predict({"name": ["Tom Poe", "Tim Orr", "Tom Po"], "town": ["Rye", "Ayr", "Rye"]})
    array([0, 1, 0])

    Without labels, and with two tables:

    >>> from intarsia.datasets import make_customers
    >>> customers = make_customers(200, max_copies=2, random_state=0)
    >>> entity = EntityClusterer().fit_predict(customers.columns)
    >>> round(clustering_scores(customers.entity, entity).pairwise.f1, 2)
    1.0
    >>> left, right = ({name: values[k::2] for name, values in customers.columns.items()} for k in (0, 1))
    >>> entity = EntityClusterer().fit_predict(left, right)  # entities of the left rows, then of the right ones
    >>> len(entity) == len(customers), bool(len(set(entity.tolist())) < len(entity))
    (True, True)
    """

    _model_settings: SettingsOfFit | None = None
    comparisons_: list[tuple[str, Comparison]]
    feature_names_: tuple[str, ...]
    matcher_: Any
    weights_: dict[str, float]
    decision_: str
    shift_: float
    decision_performance_: dict[str, float]
    pairs_per_rule_: dict[str, int]
    history_: Any
    status_: Status
    n_iter_: int

    def __init__(
        self,
        comparisons: ColumnComparisons | None = None,
        blocking: str | Blocking | Sequence[str | Blocking] | None = None,
        learner: str | SampleRank | None = None,
        *,
        model: ClusterModel | None = None,
        features: str = "match",
        cluster_features: Sequence[ClusterFeature] = (),
        metric: str | PartitionMetric | MetricFunction = "b_cubed_f1",
        id_column: str | None = None,
        source_column: str | None = None,
        one_to_one: bool = True,
        term_frequencies: bool = True,
        edge_ids: tuple[str, str] | None = None,
        edge_scores: Sequence[str] | None = None,
        l2: float = 1.0,
        decoder: str | Decoder | None = None,
        engine: str = "auto",
        n_jobs: int | None = None,
        random_state: int | np.random.Generator | None = 0,
        verbose: bool = False,
    ) -> None:
        self.comparisons = comparisons
        self.blocking = blocking
        self.learner = learner
        self.model = model
        self.features = features
        self.cluster_features = cluster_features
        self.metric = metric
        self.id_column = id_column
        self.source_column = source_column
        self.one_to_one = one_to_one
        self.term_frequencies = term_frequencies
        self.edge_ids = edge_ids
        self.edge_scores = edge_scores
        self.l2 = l2
        self.decoder = decoder
        self.engine = engine
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ---------------------------------------------------------------- learning

    @entry_point
    @transaction
    def fit(
        self, X: Any, y: Any = None, *, right: Any = None, matches: Any = None, edges: Any = None
    ) -> EntityClusterer:
        """Learn from records, with or without known entities, or from two tables to be linked.

        Parameters
        ----------
        X : table, dict of columns, or list of dicts
            One row per record; with `edges` a list of ids is enough.
        y : sequence, name of a column, or table; optional
            Entity of each record, None or -1 where it is unknown; of two tables, entities of the left and of the right
            rows. A table is the right one: `fit(left, right)` is `fit(left, right=right)`.
        right : table, optional
            Second table.
        matches : list of pairs of ids, or table, optional
            With two tables: id of the left and of the right record of each known match, instead of `y`. Records that
            are in no pair have no match.
        edges : table, optional
            Scored pairs of ids, instead of comparisons.
        """
        self.check_settings()
        if right is None and is_table(y):
            right, y = y, None
        LAST_CALLS.pop(self, None)
        if y is None and matches is None and edges is None:
            with open_stored_input(self, X, right) as stored_input:
                if stored_input is not None:
                    return self._fit_stored(stored_input)
        inputs = read_model_input(self, X, right, edges, reads_columns=isinstance(y, str))
        labels, label_column = read_labels(y, inputs, matches)
        self.notes_ = None
        if labels is None:
            fit_without_labels(self, inputs, edges)
        else:
            fit_with_labels(self, inputs, labels, label_column, edges)
        self._model_settings = SettingsOfFit(self, MODEL_SETTINGS)
        return self

    @transaction
    def _fit_stored(self, stored_input: StoredInput) -> EntityClusterer:
        """Learn from records in a database, without labels."""
        self.notes_ = None
        fit_stored(self, stored_input)
        self._model_settings = SettingsOfFit(self, MODEL_SETTINGS)
        return self

    # ---------------------------------------------------------------- prediction

    @entry_point
    def predict(
        self,
        X: Any,
        right: Any = None,
        *,
        edges: Any = None,
        must_link: Sequence[Any] = (),
        cannot_link: Sequence[Any] = (),
    ) -> IntArray:
        """Predict the entity of each record as integers from 0 by first occurrence, in the order of the input.

        With `edges` and without labels, the answer is that of `resolve`; this needs no fit.

        Parameters
        ----------
        X, right, edges
            As in `fit`. With two tables the entities of the left rows come first, then those of the right rows.
        must_link, cannot_link : lists of pairs of ids
            Pairs known to be the same entity, and pairs known to be different entities; with two tables the first id
            is of the left table.

        Examples
        --------
        >>> edges = {"unique_id_l": ["a", "b", "c"], "unique_id_r": ["b", "c", "d"], "match_weight": [9.0, -8.0, 7.0]}
        >>> EntityClusterer().predict(["a", "b", "c", "d"], edges=edges)
        array([0, 0, 1, 1])
        """
        if edges is not None and not isinstance(getattr(self, "matcher_", None), PairMatcher):
            self.check_settings()
            entities = resolve_edges(self, X, right, edges, must_link, cannot_link)
        else:
            entities = predict_entities(self, self._prepare(X, right, edges, must_link, cannot_link))
        LAST_CALLS[self] = LastCall((X, right, edges, must_link, cannot_link))
        return entities

    @entry_point
    def fit_predict(
        self, X: Any, y: Any = None, *, right: Any = None, matches: Any = None, edges: Any = None
    ) -> IntArray:
        """Fit to the records and predict their entities, also of those whose entity is unknown."""
        if right is None and is_table(y):
            right, y = y, None
        if y is None and matches is None and edges is None:
            self.check_settings()
            with open_stored_input(self, X, right) as stored_input:  # records are compared only once
                if stored_input is not None:
                    self._fit_stored(stored_input)
                    entities = predict_entities(self, prepare_stored(stored_input, self.matcher_, (), ()))
                    LAST_CALLS[self] = LastCall((X, right, None, (), ()))
                    return entities
        return self.fit(X, y, right=right, matches=matches, edges=edges).predict(X, right, edges=edges)

    @entry_point
    def predict_pairs(
        self,
        X: Any,
        right: Any = None,
        *,
        edges: Any = None,
        must_link: Sequence[Any] = (),
        cannot_link: Sequence[Any] = (),
        n_samples: int = 200,
        temperature: float = 1.0,
    ) -> Any:
        """Return the candidate pairs with the probability that both records belong to the same entity.

        Clusterings are sampled from `exp(score / temperature)` by Metropolis-Hastings, starting from the clustering of
        `predict`. The probability of a pair is the fraction of the samples in which both records are in one cluster.
        Unlike the log odds of `matcher_`, it takes all other records into account.

        Parameters
        ----------
        X, right, edges, must_link, cannot_link
            As in `predict`.
        n_samples : int
            Number of clusterings sampled for each component; probabilities are multiples of `1 / n_samples`.
        temperature : float
            Divisor of the score: above 1, probabilities are less extreme. SampleRank determines the scale of the
            weights only roughly, so check the calibration on known pairs before using the probabilities.

        Returns
        -------
        table of the same kind as X, or dict
            Columns `id1`, `id2` (with two tables the left and the right id) and `probability`, in the order of the
            rows. If rows are equal in all compared columns, only the first is paired with other records; the copies
            are paired with it, with probability 1.

        Examples
        --------
        >>> records = {"name": ["Ann Lee", "Anne Lee", "Bob Ray", "Bob Rays", "Eve Fox", "Eva Fox"]}
        >>> clusterer = EntityClusterer({"name": "jaro_winkler"}, blocking="all_pairs")
        >>> clusterer = clusterer.fit(records, ["a", "a", "b", "b", "e", "e"])
        >>> pairs = clusterer.predict_pairs({"name": ["Tom Poe", "Tim Orr", "Tom Po"]})
        >>> pairs["id1"], pairs["id2"], pairs["probability"][1] > pairs["probability"][0]
        ([0, 0, 1], [1, 2, 2], True)
        """
        check_number(n_samples, "n_samples", low=1, integer=True)
        check_number(temperature, "temperature", low=0.0, open_low=True)
        pairs = self._prepare(X, right, edges, must_link, cannot_link)
        return write_table(predict_pair_table(self, pairs, int(n_samples), float(temperature)), table_kind(X))

    @entry_point
    def explain(
        self, first: Any, second: Any = None, *, X: Any = None, right: Any = None, edges: Any = None,
        must_link: Sequence[Any] = (), cannot_link: Sequence[Any] = (),
    ) -> PairExplanation | EntityExplanation:  # fmt: skip
        """Explain the log odds of two records, or the entity of a record, as contributions that add up.

        The score of an entity is a sum over the comparisons of all its pairs and, with labels, over the features of
        clusters. The result also has the cheapest split and the nearest other entity. `as_dict()` gives JSON, and
        `intarsia.report.plot_explanation` a picture.

        Parameters
        ----------
        first, second : ids
            Two records, or one to explain its entity. Ids are those of `id_column`, or row numbers. With two tables
            the first is of the left and the second of the right table; an entity is named by ("left", id) or
            ("right", id), or by the id alone if only one table has it.
        X, right, edges, must_link, cannot_link
            As in `predict`; by default those of the last prediction, which are not saved with the model.

        Examples
        --------
        >>> from intarsia.datasets import make_customers
        >>> customers = make_customers(200, random_state=0)
        >>> clusterer = EntityClusterer()
        >>> entity = clusterer.fit_predict(customers.columns)
        >>> first, second = (entity == entity[0]).nonzero()[0][:2].tolist()
        >>> clusterer.explain(first, second).same_entity
        True
        """
        from intarsia.clusters.linkage.explaining import explain_records

        return explain_records(self, first, second, (X, right, edges, must_link, cannot_link))

    @entry_point
    def score(self, X: Any, y: Any, *, right: Any = None, edges: Any = None) -> float:
        """Return the B-cubed F1 of the predicted entities; records whose entity is unknown are ignored."""
        predicted = self.predict(X, right, edges=edges)
        labels = read_labels(y, read_model_input(self, X, right, edges, reads_columns=isinstance(y, str)))[0]
        return clustering_scores(cluster_codes(labels, len(predicted)), predicted).b_cubed.f1

    # ---------------------------------------------------------------- files

    _settings_apart = COLUMN_SETTINGS
    _needs_labels = False
    _parts: ClassVar[Parts] = {
        "learner": LEARNERS,
        "decoder": DECODERS,
        "model": CLUSTER_MODELS,
        "cluster_features": CLUSTER_FEATURES,
    }

    def _to_file(self) -> Content:
        return entity_clusterer_to_file(self)

    def _from_file(self, document: dict[str, Any], arrays: Arrays) -> None:
        entity_clusterer_from_file(self, document, arrays)
        self._model_settings = SettingsOfFit(self, MODEL_SETTINGS)

    def check_settings(self) -> None:
        """Raise if a setting is invalid."""
        check_choice(self.features, FEATURES, "features")
        check_choice(self.engine, ENGINES, "engine")
        check_number(self.l2, "l2", low=0.0, open_low=True)
        check_n_jobs(self.n_jobs, "n_jobs")
        written_features(self.cluster_features)
        if isinstance(self.metric, str):
            check_choice(self.metric, METRICS, "metric")

    def _prepare(
        self, X: Any, right: Any, edges: Any, must_link: Sequence[Any], cannot_link: Sequence[Any]
    ) -> PreparedPairs:
        """Return records with candidate pairs, the log odds of the pairs, and the constraints."""
        check_fitted(self, "weights_")
        if self._model_settings is not None:
            self._model_settings.check(self)
        return prepare_pairs(self, X, right, edges, must_link, cannot_link)
