"""The `EntityClusterer` estimator: entity resolution (record linkage, deduplication) of tables of records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from intarsia._core.error_context import entry_point
from intarsia._core.html import ShownEstimator
from intarsia._core.registry import NamedParts, Parts
from intarsia._core.settings import Settings, check_fitted
from intarsia._core.transaction import SettingsOfFit, transaction
from intarsia._core.validation import FloatArray, IntArray, as_generator, check_choice, check_n_jobs, check_number
from intarsia._core.worker_threads import run_by_workers
from intarsia._files.saved_model import Arrays, Content, SavedModel
from intarsia._files.tables import table_kind, write_table
from intarsia.clusters.blocking import Blocking
from intarsia.clusters.cluster_model import CLUSTER_MODELS, ClusterModel
from intarsia.clusters.comparisons import ColumnComparisons, Comparison, resolve_comparisons
from intarsia.clusters.components import Batch, read_links, split_into_batches
from intarsia.clusters.decoding import DECODERS, Decoder
from intarsia.clusters.entity_file import COLUMN_SETTINGS, entity_clusterer_from_file, entity_clusterer_to_file
from intarsia.clusters.entity_worlds import (
    MATCH,
    TrainedWeights,
    cluster_model,
    decode_batch,
    default_decoder,
    make_world,
    sample_batch,
    world_names,
)
from intarsia.clusters.matcher import cluster_codes, fit_matcher
from intarsia.clusters.partition import METRICS, MetricFunction, PartitionMetric, canonical_labels
from intarsia.clusters.record_pairs import RecordPairs, compared_records, guess_comparisons, scored_records
from intarsia.clusters.tables import Table, read_table, record_ids
from intarsia.exceptions import IntarsiaError, InvalidInputError
from intarsia.learning.registry import LEARNERS
from intarsia.learning.sample_rank import SampleRank
from intarsia.metrics.clusterings import clustering_scores

FEATURES = ("match", "all")
# Settings that decide which features the learned weights belong to.
MODEL_SETTINGS = ("comparisons", "features", "model")


class EntityClusterer(NamedParts, SavedModel, ShownEstimator, Settings):
    """Entity resolution: cluster the rows of a table that describe the same person, paper or thing.

    Entity resolution is also called record linkage or deduplication. Candidate pairs (`blocking`) are compared column
    by column (`comparisons`), and a logistic regression computes the log odds that a pair matches. `SampleRank` then
    learns the weights of a model that scores whole clusterings. `predict` merges clusters greedily while the score
    grows, and improves the result by splits, merges and moves of single records. A single wrong link therefore does
    not chain two entities together, as it does with connected components. Every input row gets an entity, in the same
    order.

    Instead of comparisons, pairs scored by another program such as Splink or dedupe can be passed (`edges=`).

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
    metric : {"b_cubed_f1", "pairwise_f1", "pair_accuracy"}, PartitionMetric or function
        Performance metric by which SampleRank ranks neighbouring clusterings.
    id_column : str, optional
        Column with the ids that links and edges refer to; by default row numbers from 0.
    source_column : str, optional
        Column with the source of each record, such as the name of a list without duplicates: an entity never has two
        records of the same source.
    edge_ids, edge_scores : pair of str, list of str, optional
        Columns of `edges` with ids and scores; by default the names that Splink and others use.
    l2 : float
        L2 regularization of the logistic regression: `l2 / 2 |w|^2` is added to its summed loss.
    decoder : str or Decoder, optional
        Search algorithm of `predict`: "hill_climbing", "metropolis_hastings", "agglomeration" or an object with
        settings; by default hill climbing with at most 20 proposals per record, along candidate pairs.
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
    matcher_ : PairMatcher
        Logistic regression that computes the log odds of a pair.
    feature_names_ : tuple of str
        Names of the features of a pair.
    comparisons_ : list of (str, Comparison)
        Columns and their comparisons; empty after a fit with edges.
    history_, status_, n_iter_
        Convergence of the learner.

    Notes
    -----
    Records with the label None or -1 are unlabelled; `fit` ignores the pairs of such a record.

    References
    ----------
    Rohanimanesh2009.

    Examples
    --------
    >>> names = ["Ann Lee", "Anne Lee", "Bob Ray", "Bob Rays", "Eve Fox", "Eva Fox"]
    >>> records = {"name": names, "town": ["Rye", "Rye", "Ayr", "Ayr", "Ely", "Ely"]}
    >>> clusterer = EntityClusterer(comparisons={"name": "jaro_winkler", "town": "exact"}, blocking="all_pairs")
    >>> clusterer = clusterer.fit(records, ["a", "a", "b", "b", "e", "e"])
    >>> clusterer.predict({"name": ["Tom Poe", "Tim Orr", "Tom Po"], "town": ["Rye", "Ayr", "Rye"]})
    array([0, 1, 0])
    """

    _model_settings: SettingsOfFit | None = None

    def __init__(
        self,
        comparisons: ColumnComparisons | None = None,
        blocking: str | Blocking | Sequence[str | Blocking] | None = None,
        learner: str | SampleRank | None = None,
        *,
        model: ClusterModel | None = None,
        features: str = "match",
        metric: str | PartitionMetric | MetricFunction = "b_cubed_f1",
        id_column: str | None = None,
        source_column: str | None = None,
        edge_ids: tuple[str, str] | None = None,
        edge_scores: Sequence[str] | None = None,
        l2: float = 1.0,
        decoder: str | Decoder | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.Generator | None = 0,
        verbose: bool = False,
    ) -> None:
        self.comparisons = comparisons
        self.blocking = blocking
        self.learner = learner
        self.model = model
        self.features = features
        self.metric = metric
        self.id_column = id_column
        self.source_column = source_column
        self.edge_ids = edge_ids
        self.edge_scores = edge_scores
        self.l2 = l2
        self.decoder = decoder
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ---------------------------------------------------------------- learning

    @entry_point
    @transaction
    def fit(self, X: Any, y: Any, *, edges: Any = None) -> EntityClusterer:
        """Learn from records whose entities are known.

        Parameters
        ----------
        X : table, dict of columns, or list of dicts
            One row per record; with `edges` a list of ids is enough.
        y : sequence, or name of a column
            Entity of each record; None or -1 where it is unknown.
        edges : table, optional
            Scored pairs of ids, instead of comparisons.
        """
        self._check_settings()
        label_column = y if isinstance(y, str) else None
        records = read_table(X) if edges is None or label_column is not None else X
        clusters = y if label_column is None else records.column(label_column)
        if edges is None:
            self.comparisons_ = self._resolved_comparisons(records, label_column)
            codes = cluster_codes(clusters, records.n_rows)
            # Equal rows of different entities stay separate records: the matcher must learn from such pairs.
            record_pairs = self._pairs_of(records, None, codes.tolist())
        else:
            self.comparisons_ = []
            record_pairs = self._pairs_of(records, edges)
            codes = cluster_codes(clusters, len(record_pairs.ids))
        truth = codes[record_pairs.first_row]
        self.feature_names_ = record_pairs.names
        self.matcher_ = fit_matcher(record_pairs.values, record_pairs.pairs, truth, float(self.l2))
        model, columns = cluster_model(self.model, self.features), world_names(record_pairs.names, self.features)
        world = make_world(
            record_pairs, self._world_values(record_pairs), columns, model, truth, self._guarded_metric()
        )
        start = np.zeros(world.n_weights)
        names = list(world.feature_names)
        for name, value in ((f"within {MATCH}", 1.0), ("absent", -1.0)):
            if name in names:
                start[names.index(name)] = value
        learner = self._resolved_learner()
        result = learner.fit_worlds([world], start, title="EntityClusterer")
        self.weights_ = dict(zip(names, result.point.tolist(), strict=True))
        self.history_, self.status_, self.n_iter_ = result.history, result.status, result.n_iter
        self.notes_ = None
        self._model_settings = SettingsOfFit(self, MODEL_SETTINGS)
        return self

    # ---------------------------------------------------------------- prediction

    @entry_point
    def predict(
        self, X: Any, *, edges: Any = None, must_link: Sequence[Any] = (), cannot_link: Sequence[Any] = ()
    ) -> IntArray:
        """Predict the entity of each record as integers from 0 by first occurrence, in the order of the input.

        Parameters
        ----------
        X, edges
            As in `fit`.
        must_link, cannot_link : lists of pairs of ids
            Pairs known to be the same entity, and pairs known to be different entities.
        """
        record_pairs, results = self._run(decode_batch, X, edges, must_link, cannot_link)
        labels = np.empty(record_pairs.n_records, dtype=np.int64)
        for batch, clusters in results:
            labels[batch.records] = batch.records[clusters]  # numbers that are unique over all batches
        return canonical_labels(labels[record_pairs.record_of])

    @entry_point
    def fit_predict(self, X: Any, y: Any, *, edges: Any = None) -> IntArray:
        """Fit to the records and predict their entities, also of those whose entity is unknown."""
        return self.fit(X, y, edges=edges).predict(X, edges=edges)

    @entry_point
    def predict_pairs(
        self,
        X: Any,
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
        X, edges, must_link, cannot_link
            As in `predict`.
        n_samples : int
            Number of clusterings sampled for each component; probabilities are multiples of `1 / n_samples`.
        temperature : float
            Divisor of the score: above 1, probabilities are less extreme. SampleRank determines the scale of the
            weights only roughly, so check the calibration on known pairs before using the probabilities.

        Returns
        -------
        table of the same kind as X, or dict
            Columns `id1`, `id2` and `probability`, in the order of the rows. If rows are equal in all compared
            columns, only the first is paired with other records; the copies are paired with it, with probability 1.

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
        work = partial(sample_batch, n_samples=int(n_samples), temperature=float(temperature))
        record_pairs, results = self._run(work, X, edges, must_link, cannot_link)
        probability = np.zeros(len(record_pairs.pairs))
        for batch, fractions in results:
            probability[batch.rows] = fractions
        copies = np.setdiff1d(np.arange(len(record_pairs.ids)), record_pairs.first_row)
        ends = np.concatenate(
            [
                record_pairs.first_row[record_pairs.pairs],
                np.column_stack([record_pairs.first_row[record_pairs.record_of[copies]], copies]),
            ]
        )
        probability = np.concatenate([probability, np.ones(len(copies))])
        order = np.lexsort((ends[:, 1], ends[:, 0]))
        pairs = {
            "id1": [record_pairs.ids[row] for row in ends[order, 0]],
            "id2": [record_pairs.ids[row] for row in ends[order, 1]],
            "probability": probability[order].tolist(),
        }
        return write_table(pairs, table_kind(X))

    @entry_point
    def score(self, X: Any, y: Any, *, edges: Any = None) -> float:
        """Return the B-cubed F1 of the predicted entities; records whose entity is unknown are ignored."""
        records = read_table(X) if isinstance(y, str) else X
        predicted = self.predict(records, edges=edges)
        truth = cluster_codes(records.column(y) if isinstance(y, str) else y, len(predicted))
        return clustering_scores(truth, predicted).b_cubed.f1

    # ---------------------------------------------------------------- files

    _settings_apart = COLUMN_SETTINGS
    _parts: ClassVar[Parts] = {"learner": LEARNERS, "decoder": DECODERS, "model": CLUSTER_MODELS}

    def _to_file(self) -> Content:
        return entity_clusterer_to_file(self)

    def _from_file(self, document: dict[str, Any], arrays: Arrays) -> None:
        entity_clusterer_from_file(self, document, arrays)
        self._model_settings = SettingsOfFit(self, MODEL_SETTINGS)

    # ---------------------------------------------------------------- settings and shared steps

    def _check_settings(self) -> None:
        check_choice(self.features, FEATURES, "features")
        check_number(self.l2, "l2", low=0.0, open_low=True)
        check_n_jobs(self.n_jobs, "n_jobs")
        if isinstance(self.metric, str):
            check_choice(self.metric, METRICS, "metric")

    def _resolved_comparisons(self, table: Table, label_column: str | None) -> list[tuple[str, Comparison]]:
        """Return the comparisons of the settings, or guess them from all columns except ids, sources and labels."""
        comparisons = self.comparisons
        if comparisons is None:
            if table.n_rows == 0:
                raise InvalidInputError("there are no records. Pass records with known entities.")
            excluded = [name for name in (self.id_column, self.source_column, label_column) if name is not None]
            comparisons = guess_comparisons(table, excluded)
        return resolve_comparisons(comparisons)

    def _resolved_learner(self) -> SampleRank:
        """Return the learner of the settings, or SampleRank with a small learning rate."""
        if self.learner is None:
            return SampleRank(
                step_size=0.01, temperature=0.0, n_proposals=20, max_iter=2, random_state=0, verbose=self.verbose
            )
        learner = LEARNERS.resolve(self.learner)
        if not isinstance(learner, SampleRank):
            raise InvalidInputError(
                f"learner is a {type(learner).__name__}, but only SampleRank can learn clusterings. Pass SampleRank()."
            )
        return learner

    def _guarded_metric(self) -> str | PartitionMetric | MetricFunction:
        """Return the metric; an exception in a user's function is raised as InvalidInputError."""
        metric = self.metric
        if isinstance(metric, (str, PartitionMetric)):
            return metric

        def guarded(truth: IntArray, labels: IntArray) -> float:
            try:
                return float(metric(truth, labels))
            except IntarsiaError:
                raise
            except Exception as error:
                raise InvalidInputError(
                    f"metric raised {type(error).__name__}: {error}. It is called with the true "
                    f"and the current cluster of each record, and must return a number."
                ) from error

        return guarded if callable(metric) else metric

    def _pairs_of(self, records: Any, edges: Any, separating_keys: Sequence[Any] | None = None) -> RecordPairs:
        """Return the records and their candidate pairs, compared or read from edges."""
        if edges is not None:
            return scored_records(records, edges, self.id_column, self.edge_ids, self.edge_scores)
        return compared_records(records, self.comparisons_, self.blocking, self.id_column, separating_keys)

    def _world_values(self, record_pairs: RecordPairs) -> FloatArray:
        """Return the pair features of a world: log odds, those of the comparisons if used, and the constant 1."""
        odds = self.matcher_.log_odds(record_pairs.values)
        comparison_values = record_pairs.values if self.features == "all" else record_pairs.values[:, :0]
        return np.column_stack([odds, comparison_values, np.ones(len(odds))])

    def _run(
        self,
        process_batch: Callable[..., Any],
        records: Any,
        edges: Any,
        must_link: Sequence[Any],
        cannot_link: Sequence[Any],
    ) -> tuple[RecordPairs, list[tuple[Batch, Any]]]:
        """Apply a function to each batch of records; return the records, and each batch with its result."""
        check_fitted(self, "weights_")
        self._check_settings()
        if self._model_settings is not None:
            self._model_settings.check(self)
        if edges is None and not self.comparisons_:
            raise InvalidInputError("the model was fitted to edges. Pass edges= here too.")
        if edges is None or self.source_column is not None:
            records = read_table(records)
        sources = None if self.source_column is None else records.column(self.source_column)
        separating_keys = None if edges is not None else self._separating_keys(records, sources, cannot_link)
        record_pairs = self._pairs_of(records, edges, separating_keys)
        if record_pairs.names != self.feature_names_:
            raise InvalidInputError(
                f"pairs have the features {', '.join(record_pairs.names)}, but the model was fitted to "
                f"{', '.join(self.feature_names_)}. Pass the same columns as to fit."
            )
        links = read_links(record_pairs, must_link, cannot_link, sources)
        values, names = self._world_values(record_pairs), world_names(record_pairs.names, self.features)
        batches = split_into_batches(record_pairs, links, values[:, 0])
        streams = as_generator(self.random_state).spawn(len(batches))
        trained = TrainedWeights(
            np.array(list(self.weights_.values())),
            cluster_model(self.model, self.features),
            names,
            default_decoder() if self.decoder is None else DECODERS.resolve(self.decoder),
        )
        calls = [
            partial(process_batch, batch, values[batch.rows], trained, rng)
            for batch, rng in zip(batches, streams, strict=True)
        ]
        results = run_by_workers(calls, self.n_jobs)
        return record_pairs, list(zip(batches, results, strict=True))

    def _separating_keys(
        self, records: Table, sources: Sequence[Any] | None, cannot_link: Sequence[Any]
    ) -> list[Any] | None:
        """Return a key for each row such that rows with different keys are never treated as one record."""
        if sources is None and not len(cannot_link):
            return None
        ids = record_ids(records, self.id_column)
        if sources is not None:
            return ids
        linked_ids = {end for pair in cannot_link for end in pair}
        return [name if name in linked_ids else None for name in ids]
