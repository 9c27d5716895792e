"""The estimator that others end with: log odds of pairs, and connected components at the best threshold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from intarsia._core.error_context import entry_point
from intarsia._core.html import ShownEstimator
from intarsia._core.registry import NamedParts
from intarsia._core.transaction import SettingsOfFit, transaction
from intarsia._core.validation import IntArray
from intarsia._files.saved_model import Arrays, Content, SavedModel, number_to_json
from intarsia.clusters.blocking import Blocking
from intarsia.clusters.comparisons import Declared, resolve_comparisons
from intarsia.clusters.components import best_threshold, connected_components
from intarsia.clusters.entity_file import COLUMN_SETTINGS, matcher_from_file, matcher_to_file
from intarsia.clusters.matcher import cluster_codes, fit_matcher
from intarsia.clusters.record_pairs import RecordPairs, compared_records, guess_comparisons
from intarsia.clusters.tables import read_table
from intarsia.metrics.clusterings import clustering_scores


class ThresholdClusterer(NamedParts, SavedModel, ShownEstimator, BaseEstimator):  # type: ignore[misc]
    """Connected components of the pairs whose log odds reach a threshold: the one that did best where it was learned.

    Comparisons, blocking and logistic regression are those of `EntityClusterer`, and how pairs become entities is not:
    this is the bar it must pass. Components take every link at its word, and one wrong link joins two entities. Rows
    that are the same are records of their own here, so that blocking and regression count each of them.

    Parameters
    ----------
    comparisons, blocking, l2
        As in `EntityClusterer`.
    metric : {"b_cubed", "pairwise"}
        F1 by which the threshold is chosen.

    Attributes
    ----------
    threshold_ : float
        Log odds from which a pair is a link.
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
        comparisons: Declared | None = None,
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
        """Learn log odds and threshold from records whose entities are known (None and -1: not known)."""
        table = read_table(X)
        truth = cluster_codes(y, table.n_rows)
        declared = guess_comparisons(table) if self.comparisons is None else self.comparisons
        self.comparisons_ = resolve_comparisons(declared)
        found = self._pairs_of(table)
        self.matcher_ = fit_matcher(found.values, found.pairs, truth, float(self.l2))
        odds = self.matcher_.log_odds(found.values)
        self.threshold_ = best_threshold(found.n_records, found.pairs, odds, truth, self.metric)[0]
        self._model_settings = SettingsOfFit(self, ("comparisons",))
        return self

    @entry_point
    def predict(self, X: Any) -> IntArray:
        """Number of the component of each record, in the order of the input."""
        check_is_fitted(self, "threshold_")
        if self._model_settings is not None:
            self._model_settings.check(self)
        found = self._pairs_of(X)
        odds = self.matcher_.log_odds(found.values)
        return connected_components(found.n_records, found.pairs, odds, self.threshold_)

    @entry_point
    def score(self, X: Any, y: Any) -> float:
        """B-cubed F1 of the components; records whose cluster is not known are left out."""
        predicted = self.predict(X)
        return clustering_scores(cluster_codes(y, len(predicted)), predicted).b_cubed.f1

    _learned = "threshold_"
    _settings_apart = COLUMN_SETTINGS

    def _to_file(self) -> Content:
        about, arrays = matcher_to_file(self)
        return {**about, "threshold": number_to_json(self.threshold_)}, arrays

    def _from_file(self, about: dict[str, Any], arrays: Arrays) -> None:
        if not matcher_from_file(self, about, arrays):
            raise ValueError("comparisons")
        self.threshold_ = np.inf if about["threshold"] is None else float(about["threshold"])
        self._model_settings = SettingsOfFit(self, ("comparisons",))

    def _pairs_of(self, records: Any) -> RecordPairs:
        """Every row is a record, so that the threshold is chosen by what is counted."""
        table = read_table(records)
        rows = np.arange(table.n_rows).tolist()
        return compared_records(table, self.comparisons_, self.blocking, None, rows)
