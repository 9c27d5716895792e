"""The estimator for records: comparisons, log odds of pairs, weights by ranking, entities by search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from intarsia._core.error_context import entry_point
from intarsia._core.html import ShownEstimator
from intarsia._core.registry import NamedParts, Parts
from intarsia._core.transaction import SettingsOfFit, transaction
from intarsia._core.validation import FloatArray, IntArray, as_generator, check_choice, check_n_jobs, check_number
from intarsia._core.worker_threads import run_by_workers
from intarsia._files.saved_model import Arrays, Content, SavedModel
from intarsia._files.tables import table_kind, write_table
from intarsia.clusters.blocking import Blocking
from intarsia.clusters.cluster_model import CLUSTER_MODELS, ClusterModel
from intarsia.clusters.comparisons import Comparison, Declared, resolve_comparisons
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
from intarsia.clusters.matcher import cluster_codes, first_numbers, fit_matcher
from intarsia.clusters.partition import METRICS, MetricFunction, PartitionMetric
from intarsia.clusters.record_pairs import RecordPairs, compared_records, guess_comparisons, scored_records
from intarsia.clusters.tables import Table, read_table, record_ids
from intarsia.exceptions import IntarsiaError, InvalidInputError
from intarsia.learning.registry import LEARNERS
from intarsia.learning.sample_rank import SampleRank
from intarsia.metrics.clusterings import clustering_scores

FEATURES = ("match", "all")
# Settings that decide which features the learned weights belong to.
MODEL_SETTINGS = ("comparisons", "features", "model")


class EntityClusterer(NamedParts, SavedModel, ShownEstimator, BaseEstimator):  # type: ignore[misc]
    """Records into entities: which rows of a table describe the same person, paper or thing.

    Candidate pairs (`blocking`) are compared column by column (`comparisons`); logistic regression makes log odds of
    each pair; `SampleRank` learns how these, and what they say of a whole cluster, weigh against each other; `predict`
    merges clusters while the score grows and then climbs by splits, merges and moves, so that a single wrong link does
    not chain two entities together as it does in connected components. Every row of the input has an entity in the
    output, in the same order.

    Instead of comparisons, pairs may come scored from another program (`edges=`), such as Splink or dedupe.

    Parameters
    ----------
    comparisons : dict of str -> comparison, or list of them, optional
        How values of each column are compared: "exact", "jaro_winkler", "token_overlap", "numeric", "date",
        "embedding", or objects with settings. By default guessed from what `fit` sees in the columns.
    blocking : str, Blocking or list of them, optional
        Which pairs are candidates: by default those that share a rare word in a column compared as text.
    learner : SampleRank, optional
        How weights are learned; by default with short steps from the log odds on.
    model : ClusterModel, optional
        Features of a clustering; by default sums of the log odds and numbers of pairs within clusters, number of
        pairs that were no candidates, mean, least and greatest log odds of each cluster, number of clusters.
    features : {"match", "all"}
        Pair features that `model` can name: "match" (log odds) and "pair" (1), or the comparisons' as well.
    metric : {"b_cubed_f1", "pairwise_f1", "pair_accuracy"}, PartitionMetric or function
        Performance by which neighbours are ranked.
    id_column : str, optional
        Column with the ids by which links and edges name records; by default their numbers from 0.
    source_column : str, optional
        Column that says which list a record is from: no entity has two records of one list.
    edge_ids, edge_scores : pair of str, list of str, optional
        Columns of `edges`; by default as Splink and others call them.
    l2 : float
        Precision of the prior of the logistic regression: `l2 / 2 |w|^2` beside its summed loss.
    decoder : str or Decoder, optional
        How `predict` searches: "hill_climbing", "metropolis_hastings", "agglomeration" or an object with settings; by
        default a climb of 20 proposals for each record, along candidate pairs.
    n_jobs : int, optional
        Threads over components; results do not depend on it.
    random_state : int, Generator or None
        Seed of `predict` and `predict_pairs`.
    verbose : bool
        Show progress of the fit on a terminal.

    Attributes
    ----------
    weights_ : dict of str -> float
        Weight of each feature of a clustering.
    matcher_ : PairMatcher
        Log odds of a pair from its features.
    feature_names_ : tuple of str
        Features of a pair.
    comparisons_ : list of (str, Comparison)
        What is compared; empty where edges were given.
    history_, status_, n_iter_
        Of the learner.

    Notes
    -----
    Labels None and -1 are not known; pairs with such a record are left out of the fit.

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
        comparisons: Declared | None = None,
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
            A row for each record; with `edges` a list of ids will do.
        y : sequence, or name of a column
            Entity of each record; None and -1 where it is not known.
        edges : table, optional
            Scored pairs, by ids, instead of comparisons.
        """
        self._check_settings()
        column = y if isinstance(y, str) else None
        records = read_table(X) if edges is None or column is not None else X
        clusters = y if column is None else records.column(column)
        if edges is None:
            self.comparisons_ = self._declared(records, column)
            codes = cluster_codes(clusters, records.n_rows)
            # Rows of different entities stay apart, also where they are the same: they show what a likeness is worth.
            found = self._pairs_of(records, None, codes.tolist())
        else:
            self.comparisons_ = []
            found = self._pairs_of(records, edges)
            codes = cluster_codes(clusters, len(found.ids))
        truth = codes[found.first_row]
        self.feature_names_ = found.names
        self.matcher_ = fit_matcher(found.values, found.pairs, truth, float(self.l2))
        model, columns = cluster_model(self.model, self.features), world_names(found.names, self.features)
        world = make_world(found, self._world_values(found), columns, model, truth, self._guarded_metric())
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
        """Number of the entity of each record, in the order of the input, from 0 by first occurrence.

        Parameters
        ----------
        X, edges
            As in `fit`.
        must_link, cannot_link : lists of pairs of ids
            What is known to be, and not to be, the same entity.
        """
        found, parts = self._run(decode_batch, X, edges, must_link, cannot_link)
        labels = np.empty(found.n_records, dtype=np.int64)
        for batch, entity in parts:
            labels[batch.records] = batch.records[entity]  # so that numbers of different batches do not meet
        return first_numbers(labels[found.record_of])

    @entry_point
    def fit_predict(self, X: Any, y: Any, *, edges: Any = None) -> IntArray:
        """`fit`, then `predict` of the same records: entities also for those whose cluster is not known."""
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
        """Candidate pairs with the probability that both are one entity.

        Clusterings are sampled from `exp(score / temperature)` by Metropolis-Hastings, beginning with what `predict`
        finds; the probability is the share of the samples in which the two are together. Unlike the log odds of
        `matcher_`, it heeds all other records.

        Parameters
        ----------
        X, edges, must_link, cannot_link
            As in `predict`.
        n_samples : int
            Clusterings sampled of each component; probabilities are multiples of its inverse.
        temperature : float
            Divides the score: above 1 probabilities are less sure. Ranking fixes the scale of the weights only
            roughly, so compare with known pairs before probabilities are taken as such.

        Returns
        -------
        table of the kind that X came in, or dict
            Columns `id1`, `id2` and `probability`, in the order of the rows. Of rows that are the same in all that is
            compared, only the first is paired with others, and the rest with it, with probability 1.

        Examples
        --------
        >>> records = {"name": ["Ann Lee", "Anne Lee", "Bob Ray", "Bob Rays", "Eve Fox", "Eva Fox"]}
        >>> clusterer = EntityClusterer({"name": "jaro_winkler"}, blocking="all_pairs")
        >>> clusterer = clusterer.fit(records, ["a", "a", "b", "b", "e", "e"])
        >>> found = clusterer.predict_pairs({"name": ["Tom Poe", "Tim Orr", "Tom Po"]})
        >>> found["id1"], found["id2"], found["probability"][1] > found["probability"][0]
        ([0, 0, 1], [1, 2, 2], True)
        """
        check_number(n_samples, "n_samples", low=1, integer=True)
        check_number(temperature, "temperature", low=0.0, open_low=True)
        work = partial(sample_batch, n_samples=int(n_samples), temperature=float(temperature))
        found, parts = self._run(work, X, edges, must_link, cannot_link)
        probability = np.zeros(len(found.pairs))
        for batch, share in parts:
            probability[batch.rows] = share
        copies = np.setdiff1d(np.arange(len(found.ids)), found.first_row)
        ends = np.concatenate(
            [
                found.first_row[found.pairs],
                np.column_stack([found.first_row[found.record_of[copies]], copies]),
            ]
        )
        probability = np.concatenate([probability, np.ones(len(copies))])
        order = np.lexsort((ends[:, 1], ends[:, 0]))
        pairs = {
            "id1": [found.ids[row] for row in ends[order, 0]],
            "id2": [found.ids[row] for row in ends[order, 1]],
            "probability": probability[order].tolist(),
        }
        return write_table(pairs, table_kind(X))

    @entry_point
    def score(self, X: Any, y: Any, *, edges: Any = None) -> float:
        """B-cubed F1 of the entities found; records whose cluster is not known are left out."""
        records = read_table(X) if isinstance(y, str) else X
        predicted = self.predict(records, edges=edges)
        truth = cluster_codes(records.column(y) if isinstance(y, str) else y, len(predicted))
        return clustering_scores(truth, predicted).b_cubed.f1

    # ---------------------------------------------------------------- files

    _settings_apart = COLUMN_SETTINGS
    _parts: ClassVar[Parts] = {"learner": LEARNERS, "decoder": DECODERS, "model": CLUSTER_MODELS}

    def _to_file(self) -> Content:
        return entity_clusterer_to_file(self)

    def _from_file(self, about: dict[str, Any], arrays: Arrays) -> None:
        entity_clusterer_from_file(self, about, arrays)
        self._model_settings = SettingsOfFit(self, MODEL_SETTINGS)

    # ---------------------------------------------------------------- parts

    def _check_settings(self) -> None:
        check_choice(self.features, FEATURES, "features")
        check_number(self.l2, "l2", low=0.0, open_low=True)
        check_n_jobs(self.n_jobs, "n_jobs")
        if isinstance(self.metric, str):
            check_choice(self.metric, METRICS, "metric")

    def _declared(self, table: Table, label_column: str | None) -> list[tuple[str, Comparison]]:
        """Comparisons as they were given, or guessed from all columns that are not ids, sources or labels."""
        declared = self.comparisons
        if declared is None:
            if table.n_rows == 0:
                raise InvalidInputError("there are no records. Give some with known clusters.")
            apart = [name for name in (self.id_column, self.source_column, label_column) if name is not None]
            declared = guess_comparisons(table, apart)
        return resolve_comparisons(declared)

    def _resolved_learner(self) -> SampleRank:
        if self.learner is None:
            return SampleRank(
                step_size=0.01, temperature=0.0, n_proposals=20, max_iter=2, random_state=0, verbose=self.verbose
            )
        learner = LEARNERS.resolve(self.learner)
        if not isinstance(learner, SampleRank):
            raise InvalidInputError(f"learner is a {type(learner).__name__}, which needs inference. Give SampleRank().")
        return learner

    def _guarded_metric(self) -> str | PartitionMetric | MetricFunction:
        """The metric; an error in a function of the user's is told as one."""
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
                    f"and the present cluster of each record, and must return a number."
                ) from error

        return guarded if callable(metric) else metric

    def _pairs_of(self, records: Any, edges: Any, apart: Sequence[Any] | None = None) -> RecordPairs:
        if edges is not None:
            return scored_records(records, edges, self.id_column, self.edge_ids, self.edge_scores)
        return compared_records(records, self.comparisons_, self.blocking, self.id_column, apart)

    def _world_values(self, found: RecordPairs) -> FloatArray:
        odds = self.matcher_.log_odds(found.values)
        more = found.values if self.features == "all" else found.values[:, :0]
        return np.column_stack([odds, more, np.ones(len(odds))])

    def _run(
        self, work: Callable[..., Any], records: Any, edges: Any, must_link: Sequence[Any], cannot_link: Sequence[Any]
    ) -> tuple[RecordPairs, list[tuple[Batch, Any]]]:
        """Records, and each batch with its answer."""
        check_is_fitted(self, "weights_")
        self._check_settings()
        if self._model_settings is not None:
            self._model_settings.check(self)
        if edges is None and not self.comparisons_:
            raise InvalidInputError("the model was fitted to edges, so edges= is needed here too.")
        if edges is None or self.source_column is not None:
            records = read_table(records)
        sources = None if self.source_column is None else records.column(self.source_column)
        apart = None if edges is not None else self._kept_apart(records, sources, cannot_link)
        found = self._pairs_of(records, edges, apart)
        if found.names != self.feature_names_:
            raise InvalidInputError(
                f"pairs have the features {', '.join(found.names)}; fitted were "
                f"{', '.join(self.feature_names_)}. Give the same columns as to fit."
            )
        links = read_links(found, must_link, cannot_link, sources)
        values, names = self._world_values(found), world_names(found.names, self.features)
        batches = split_into_batches(found, links, values[:, 0])
        streams = as_generator(self.random_state).spawn(len(batches))
        trained = TrainedWeights(
            np.array(list(self.weights_.values())),
            cluster_model(self.model, self.features),
            names,
            default_decoder() if self.decoder is None else DECODERS.resolve(self.decoder),
        )
        calls = [
            partial(work, batch, values[batch.rows], trained, rng) for batch, rng in zip(batches, streams, strict=True)
        ]
        answers = run_by_workers(calls, self.n_jobs)
        return found, list(zip(batches, answers, strict=True))

    def _kept_apart(
        self, records: Table, sources: Sequence[Any] | None, cannot_link: Sequence[Any]
    ) -> list[Any] | None:
        """Something different for rows that may not be one record, even where they are the same."""
        if sources is None and not len(cannot_link):
            return None
        ids = record_ids(records, self.id_column)
        if sources is not None:
            return ids
        named = {end for pair in cannot_link for end in pair}
        return [name if name in named else None for name in ids]
