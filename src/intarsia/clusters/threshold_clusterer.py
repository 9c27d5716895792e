"""The `ThresholdClusterer` estimator: connected components of matching pairs, a baseline of entity resolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from intarsia._core.error_context import entry_point
from intarsia._core.html import ShownEstimator
from intarsia._core.registry import NamedParts
from intarsia._core.settings import Settings, check_fitted
from intarsia._core.transaction import SettingsOfFit, transaction
from intarsia._core.validation import IntArray
from intarsia._files.saved_model import Arrays, Content, SavedModel, number_to_json
from intarsia.clusters.blocking import Blocking
from intarsia.clusters.comparisons import ColumnComparisons, resolve_comparisons
from intarsia.clusters.components import best_threshold, connected_components
from intarsia.clusters.entity_file import COLUMN_SETTINGS, matcher_from_file, matcher_to_file
from intarsia.clusters.matcher import cluster_codes, fit_matcher
from intarsia.clusters.record_pairs import RecordPairs, compared_records, guess_comparisons
from intarsia.clusters.tables import read_table
from intarsia.metrics.clusterings import clustering_scores


class ThresholdClusterer(NamedParts, SavedModel, ShownEstimator, Settings):
    """Baseline of entity resolution: connected components of the pairs whose log odds reach a learned threshold.

    Comparisons, blocking and logistic regression are those of `EntityClusterer`; only the step from pairs to entities
    differs, which makes this estimator the baseline to compare it with. A single wrong link joins two
    entities. The threshold is the best one on the training records. Equal rows are separate records, so that blocking
    and regression count each of them.

    Parameters
    ----------
    comparisons, blocking, l2
        As in `EntityClusterer`.
    metric : {"b_cubed", "pairwise"}
        Metric whose F1 the threshold maximises.

    Attributes
    ----------
    threshold_ : float
        Smallest log odds of a link.
    comparisons_, matcher_
        As in `EntityClusterer`.

    Examples
    --------
    >>> records = {"name": ["Ann Lee", "Anne Lee", "Bob Ray", "Bob Rays"]}
    >>> baseline = ThresholdClusterer({"name": "jaro_winkler"}, "all_pairs").fit(records, [0, 0, 1, 1])
    >>> baseline.predict({"name": ["Tom Poe", "Eva Fox", "Tom Po"]})
    array([0, 1, 0])
    """

    _model_settings: SettingsOfFit | None = None

    def __init__(
        self,
        comparisons: ColumnComparisons | None = None,
        blocking: str | Blocking | Sequence[str | Blocking] | None = None,
        *,
        metric: str = "b_cubed",
        l2: float = 1.0,
    ) -> None:
        self.comparisons = comparisons
        self.blocking = blocking
        self.metric = metric
        self.l2 = l2

    @entry_point
    @transaction
    def fit(self, X: Any, y: Any) -> ThresholdClusterer:
        """Learn log odds and threshold from records whose entities are known (None or -1: unknown)."""
        table = read_table(X)
        truth = cluster_codes(y, table.n_rows)
        comparisons = guess_comparisons(table) if self.comparisons is None else self.comparisons
        self.comparisons_ = resolve_comparisons(comparisons)
        record_pairs = self._pairs_of(table)
        self.matcher_ = fit_matcher(record_pairs.values, record_pairs.pairs, truth, float(self.l2))
        odds = self.matcher_.log_odds(record_pairs.values)
        self.threshold_ = best_threshold(record_pairs.n_records, record_pairs.pairs, odds, truth, self.metric)[0]
        self._model_settings = SettingsOfFit(self, ("comparisons",))
        return self

    @entry_point
    def predict(self, X: Any) -> IntArray:
        """Predict the connected component of each record as an integer, in the order of the input."""
        check_fitted(self, "threshold_")
        if self._model_settings is not None:
            self._model_settings.check(self)
        record_pairs = self._pairs_of(X)
        odds = self.matcher_.log_odds(record_pairs.values)
        return connected_components(record_pairs.n_records, record_pairs.pairs, odds, self.threshold_)

    @entry_point
    def score(self, X: Any, y: Any) -> float:
        """Return the B-cubed F1 of the components; records whose entity is unknown are ignored."""
        predicted = self.predict(X)
        return clustering_scores(cluster_codes(y, len(predicted)), predicted).b_cubed.f1

    _learned = "threshold_"
    _settings_apart = COLUMN_SETTINGS

    def _to_file(self) -> Content:
        document, arrays = matcher_to_file(self)
        return {**document, "threshold": number_to_json(self.threshold_)}, arrays

    def _from_file(self, document: dict[str, Any], arrays: Arrays) -> None:
        if not matcher_from_file(self, document, arrays):
            raise ValueError("comparisons")
        self.threshold_ = np.inf if document["threshold"] is None else float(document["threshold"])
        self._model_settings = SettingsOfFit(self, ("comparisons",))

    def _pairs_of(self, records: Any) -> RecordPairs:
        """Return the records with their compared pairs; equal rows stay separate records."""
        table = read_table(records)
        rows = np.arange(table.n_rows).tolist()
        return compared_records(table, self.comparisons_, self.blocking, None, rows)
