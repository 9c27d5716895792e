"""Scores of a clustering against the true entities: pairwise, B-cubed, MUC, CEAF-e, CEAF-m, LEA and adjusted Rand."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

from intarsia._core.error_context import errors_from
from intarsia._core.html import ShownResult
from intarsia._core.validation import FloatArray, IntArray
from intarsia.exceptions import InvalidInputError
from intarsia.metrics.counts import is_hidden

Clustering = Mapping[Hashable, Any] | Iterable[Any]


@dataclass(frozen=True)
class Agreement:
    """Precision and recall of a predicted clustering under one measure.

    Examples
    --------
    >>> Agreement(precision=0.5, recall=1.0).f1 == 2 / 3
    True
    """

    precision: float
    recall: float

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 where both are 0."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total > 0 else 0.0

    def as_dict(self) -> dict[str, float]:
        """Return `precision`, `recall` and `f1` as a dict for JSON."""
        return {"precision": self.precision, "recall": self.recall, "f1": self.f1}


@dataclass(frozen=True)
class ClusteringScores(ShownResult):
    """Scores of a predicted clustering against the true one, as `clustering_scores` returns them.

    Attributes
    ----------
    pairwise, b_cubed, muc, ceaf_e, ceaf_m, lea : Agreement
        Precision, recall and F1 under each measure.
    adjusted_rand : float
        Rand index corrected for chance: 1 for equal clusterings, about 0 for unrelated ones.
    n_records, n_entities, n_predicted : int
        Number of records with a true entity, of true entities and of predicted entities.

    Examples
    --------
    >>> scores = clustering_scores([1, 1, 2, 2], [5, 5, 6, 6])
    >>> scores.conll, scores.n_entities
    (1.0, 2)
    """

    pairwise: Agreement
    b_cubed: Agreement
    muc: Agreement
    ceaf_e: Agreement
    ceaf_m: Agreement
    lea: Agreement
    adjusted_rand: float
    n_records: int
    n_entities: int
    n_predicted: int

    @property
    def conll(self) -> float:
        """Mean F1 of MUC, B-cubed and CEAF-e."""
        return (self.muc.f1 + self.b_cubed.f1 + self.ceaf_e.f1) / 3

    def as_dict(self) -> dict[str, Any]:
        """Return a dict for JSON: a dict for each measure, and `n_records` and `n_entities` of the true clustering."""
        return {
            "pairwise": self.pairwise.as_dict(),
            "b_cubed": self.b_cubed.as_dict(),
            "muc": self.muc.as_dict(),
            "ceaf_e": self.ceaf_e.as_dict(),
            "ceaf_m": self.ceaf_m.as_dict(),
            "lea": self.lea.as_dict(),
            "n_records": self.n_records,
            "n_entities": self.n_entities,
        }


@errors_from("clustering_scores")
def clustering_scores(true: Clustering, predicted: Clustering) -> ClusteringScores:
    r"""Score a predicted clustering against the true one by the measures of coreference and entity resolution.

    With true clusters K and predicted clusters R:

    * pairwise: the fraction of the predicted pairs of records that are true (precision), and the fraction of the true
      pairs that are predicted (recall);
    * B-cubed (Bagga1998): for each record, the fraction of its predicted cluster that is in its true cluster
      (precision), and the fraction of its true cluster that is in its predicted cluster (recall), averaged over the
      records with equal weights;
    * MUC (Vilain1995): links of K that the prediction preserves, `sum(|K| - pieces of K)` over `sum(|K| - 1)`, where
      a piece is the intersection of K with a predicted cluster, and a record that the other clustering lacks is a
      piece by itself;
    * CEAF-e (Luo2005): clusters are matched one to one to maximise `sum of 2 |K and R| / (|K| + |R|)`; the sum is
      divided by the number of true (recall) and of predicted (precision) clusters;
    * CEAF-m (Luo2005): the same with `sum of |K and R|`, divided by the number of true and of predicted records;
    * LEA (Moosavi2016): for each true cluster, the fraction of its pairs that the prediction preserves, averaged with
      weights |K| (recall); the same for each predicted cluster (precision). A singleton has one link to itself.

    The conventions are those of the reference scorer of coreference (Pradhan2014). Records that only one clustering
    has are neither dropped nor added to the other. Singletons count in B-cubed and CEAF-e like any other record and
    do not count in MUC and in pairs. A ratio 0 / 0 is 0: if all true clusters are singletons, MUC and pairwise F1 are
    0 even for a perfect prediction, while B-cubed and CEAF-e are 1.

    Time and memory grow with the number of records, not with its square: 100,000 records take a few seconds.

    Parameters
    ----------
    true, predicted : sequences of labels, or dicts from record to label
        Entity of each record. Two sequences have one label per record, in the same order; a true label None (or the
        integer -1) is unknown, and its record is ignored. Of two dicts, each may have records that the other lacks,
        like mentions in coreference; adjusted Rand is then computed on the records of both.

    Raises
    ------
    InvalidInputError
        If the sequences differ in length, if only one argument is a dict, or if a predicted label is missing.

    Examples
    --------
    Five records: three belong to one entity, of which the prediction joins two; the other two are predicted correctly.

    >>> scores = clustering_scores(["a", "a", "a", "b", "b"], [0, 0, 1, 2, 2])
    >>> scores.pairwise
    Agreement(precision=1.0, recall=0.5)
    >>> scores.b_cubed.recall == (2 / 3 + 2 / 3 + 1 / 3 + 1 + 1) / 5
    True
    """
    true_codes, predicted_codes = paired_codes(true, predicted)
    in_both = (true_codes >= 0) & (predicted_codes >= 0)
    n_true, n_predicted = int(true_codes.max(initial=-1)) + 1, int(predicted_codes.max(initial=-1)) + 1
    true_sizes = np.bincount(true_codes[true_codes >= 0], minlength=n_true)
    predicted_sizes = np.bincount(predicted_codes[predicted_codes >= 0], minlength=n_predicted)
    # Number of common records for each pair of a true and a predicted cluster that overlap.
    common = coo_array(
        (np.ones(int(in_both.sum()), np.int64), (true_codes[in_both], predicted_codes[in_both])),
        shape=(n_true, n_predicted),
    ).tocsr()
    common.sum_duplicates()
    row = np.repeat(np.arange(n_true), np.diff(common.indptr))
    column, count = common.indices.astype(np.int64), common.data
    square = count.astype(np.float64) ** 2
    n_true_pieces = true_sizes - np.bincount(row, count, n_true) + np.bincount(row, minlength=n_true)
    n_predicted_pieces = predicted_sizes - np.bincount(column, count, n_predicted)
    n_predicted_pieces = n_predicted_pieces + np.bincount(column, minlength=n_predicted)
    matching_score = _best_matching_score(
        row, column, 2 * count / (true_sizes[row] + predicted_sizes[column]), n_true, n_predicted
    )
    member_score = _best_matching_score(row, column, count.astype(np.float64), n_true, n_predicted)
    links = common_links(count, true_sizes[row], predicted_sizes[column])
    n_correct_pairs = _n_pairs(count)
    return ClusteringScores(
        pairwise=Agreement(
            _ratio(n_correct_pairs, _n_pairs(predicted_sizes)), _ratio(n_correct_pairs, _n_pairs(true_sizes))
        ),
        b_cubed=Agreement(
            _ratio(float((square / predicted_sizes[column]).sum()), int(predicted_sizes.sum())),
            _ratio(float((square / true_sizes[row]).sum()), int(true_sizes.sum())),
        ),
        muc=Agreement(
            _ratio(float((predicted_sizes - n_predicted_pieces).sum()), int((predicted_sizes - 1).sum())),
            _ratio(float((true_sizes - n_true_pieces).sum()), int((true_sizes - 1).sum())),
        ),
        ceaf_e=Agreement(_ratio(matching_score, n_predicted), _ratio(matching_score, n_true)),
        ceaf_m=Agreement(_ratio(member_score, int(predicted_sizes.sum())), _ratio(member_score, int(true_sizes.sum()))),
        lea=Agreement(
            _ratio(float((links * resolution_weight(predicted_sizes)[column]).sum()), int(predicted_sizes.sum())),
            _ratio(float((links * resolution_weight(true_sizes)[row]).sum()), int(true_sizes.sum())),
        ),
        adjusted_rand=_adjusted_rand(common),
        n_records=int(true_sizes.sum()),
        n_entities=n_true,
        n_predicted=n_predicted,
    )


def common_links(count: IntArray, true_size: IntArray, predicted_size: IntArray) -> FloatArray:
    """Return the number of common links of overlapping clusters; two equal singletons have one."""
    links = count * (count - 1) / 2.0
    return np.where((true_size == 1) & (predicted_size == 1), 1.0, links)


def resolution_weight(sizes: IntArray) -> FloatArray:
    """Return the size of each cluster divided by its number of links, a singleton having one."""
    return sizes / np.maximum(sizes * (sizes - 1) / 2.0, 1.0)


def _ratio(numerator: float, denominator: float) -> float:
    """Return the ratio of two numbers, 0 where the denominator is 0."""
    return numerator / denominator if denominator else 0.0


def _n_pairs(sizes: IntArray) -> int:
    """Return the number of pairs of records within clusters of these sizes."""
    return int((sizes.astype(np.int64) * (sizes.astype(np.int64) - 1) // 2).sum())


def paired_codes(true: Clustering, predicted: Clustering) -> tuple[IntArray, IntArray]:
    """Return the cluster of each record as an integer from 0, for both clusterings; -1 where one lacks the record."""
    if isinstance(true, Mapping) and isinstance(predicted, Mapping):
        records = list(dict.fromkeys([*true, *predicted]))
        marker = object()
        return (
            _label_codes([true.get(record, marker) for record in records], marker, "true"),
            _label_codes([predicted.get(record, marker) for record in records], marker, "predicted"),
        )
    if isinstance(true, Mapping) or isinstance(predicted, Mapping):
        raise InvalidInputError("one clustering is a dict and the other is not. Pass two dicts, or two sequences.")
    true_labels, predicted_labels = _as_list(true), _as_list(predicted)
    if len(true_labels) != len(predicted_labels):
        raise InvalidInputError(
            f"true has {len(true_labels)} labels, but predicted has {len(predicted_labels)}. Pass one label per record."
        )
    labelled = [k for k, label in enumerate(true_labels) if not is_hidden(label)]
    return (
        _label_codes([true_labels[k] for k in labelled], None, "true"),
        _label_codes([predicted_labels[k] for k in labelled], _NO_MARKER, "predicted"),
    )


_NO_MARKER = object()


def _as_list(labels: Iterable[Any]) -> list[Any]:
    """Return the labels of an array, a column of a table or an iterable as a list of Python values."""
    to_list = getattr(labels, "tolist", None) or getattr(labels, "to_list", None)
    return to_list() if to_list is not None else [v.item() if isinstance(v, np.generic) else v for v in labels]


def _label_codes(labels: list[Any], marker: Any, name: str) -> IntArray:
    """Number the labels from 0 in order of appearance; the object `marker` gets -1."""
    code_of_label: dict[Any, int] = {}
    codes = np.empty(len(labels), np.int64)
    for k, label in enumerate(labels):
        if label is marker:
            codes[k] = -1
        elif label is None or label != label:
            raise InvalidInputError(
                f"{name} label {k} is missing. Pass an entity for every record; a singleton has its own label."
            )
        else:
            codes[k] = code_of_label.setdefault(label, len(code_of_label))
    return codes


def _best_matching_score(row: IntArray, column: IntArray, weight: FloatArray, n_rows: int, n_columns: int) -> float:
    """Return the largest total weight of a one-to-one matching of rows with columns."""
    return float(weight[best_matching(row, column, weight, n_rows, n_columns)].sum())


def best_matching(row: IntArray, column: IntArray, weight: FloatArray, n_rows: int, n_columns: int) -> IntArray:
    """Return the entries of the one-to-one matching of rows with columns that has the largest total weight.

    Every row also gets an extra column with weight 0, so that a matching of all rows exists. 1 is added to all
    weights, because the solver takes entries of 0 for missing edges; this shifts every full matching equally.
    """
    if not len(row):
        return np.empty(0, dtype=np.int64)
    rows = np.concatenate([row, np.arange(n_rows)])
    columns = np.concatenate([column, n_columns + np.arange(n_rows)])
    weights = np.concatenate([weight + 1.0, np.ones(n_rows)])
    shape = (n_rows, n_columns + n_rows)
    matched = min_weight_full_bipartite_matching(csr_array((weights, (rows, columns)), shape=shape), maximize=True)
    entry_of = csr_array((np.arange(1, len(row) + 1), (row, column)), shape=shape)
    entries = np.asarray(entry_of[matched]).ravel()
    return entries[entries > 0].astype(np.int64) - 1


def _adjusted_rand(common: csr_array) -> float:
    """Return the adjusted Rand index from the contingency table of two clusterings."""
    n_common_pairs, n_records = _n_pairs(common.data), int(common.sum())
    n_true_pairs, n_predicted_pairs = (_n_pairs(np.asarray(common.sum(axis=axis)).ravel()) for axis in (1, 0))
    n_all_pairs = n_records * (n_records - 1) // 2
    if n_true_pairs == n_predicted_pairs and (n_common_pairs == n_true_pairs):
        return 1.0
    expected = n_true_pairs * n_predicted_pairs / n_all_pairs
    return (n_common_pairs - expected) / ((n_true_pairs + n_predicted_pairs) / 2 - expected)
