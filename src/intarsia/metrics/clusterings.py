"""How well records were gathered into entities: pairwise, B-cubed, MUC, CEAF-e, their CoNLL mean, adjusted Rand."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

from intarsia._core.html import ShownResult
from intarsia._core.validation import FloatArray, IntArray
from intarsia.exceptions import InvalidInputError
from intarsia.metrics.counts import is_hidden

Clustering = Mapping[Hashable, Any] | Iterable[Any]


@dataclass(frozen=True)
class Agreement:
    """Precision and recall of one way to compare two clusterings.

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
        """For JSON: `precision`, `recall` and `f1`."""
        return {"precision": self.precision, "recall": self.recall, "f1": self.f1}


@dataclass(frozen=True)
class ClusteringScores(ShownResult):
    """How a predicted clustering agrees with the true one; `clustering_scores` makes it.

    Attributes
    ----------
    pairwise, b_cubed, muc, ceaf_e : Agreement
        Precision, recall and F1 of each.
    adjusted_rand : float
        Rand index less what chance gives: 1 for equal clusterings, about 0 for unrelated ones.
    n_records, n_entities, n_predicted : int
        Records of the truth, entities of the truth, entities of the prediction.

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
    adjusted_rand: float
    n_records: int
    n_entities: int
    n_predicted: int

    @property
    def conll(self) -> float:
        """Mean F1 of MUC, B-cubed and CEAF-e."""
        return (self.muc.f1 + self.b_cubed.f1 + self.ceaf_e.f1) / 3

    def as_dict(self) -> dict[str, Any]:
        """For JSON: each agreement as a document of its own, `n_records` and `n_entities`, those of the truth."""
        return {
            "pairwise": self.pairwise.as_dict(),
            "b_cubed": self.b_cubed.as_dict(),
            "muc": self.muc.as_dict(),
            "ceaf_e": self.ceaf_e.as_dict(),
            "n_records": self.n_records,
            "n_entities": self.n_entities,
        }


def clustering_scores(true: Clustering, predicted: Clustering) -> ClusteringScores:
    r"""Agreement of a predicted clustering with the true one, by every measure that coreference and linkage use.

    With true clusters K, predicted clusters R and their common parts:

    * pairwise: share of the predicted pairs that are true, and of the true pairs that are predicted;
    * B-cubed (Bagga1998): mean over records of the share of its predicted cluster that is in its true cluster, and
      the other way round, every record with the same weight;
    * MUC (Vilain1995): links that are left, `sum(|K| - parts of K)` over `sum(|K| - 1)`, where a record that the other
      clustering lacks is a part of its own;
    * CEAF-e (Luo2005): clusters are matched one to one, so that `sum of 2 |K and R| / (|K| + |R|)` is largest; that
      sum by the number of true (recall) and of predicted (precision) clusters.

    The conventions are those of the reference scorer of coreference (Pradhan2014): records that one side lacks are
    neither dropped nor added to the other; records alone in their cluster count in B-cubed and CEAF-e as others do,
    and say nothing in MUC and in pairs; a quotient 0 / 0 is 0, so where no two records belong together MUC and
    pairwise F1 are 0 even for the right answer, while B-cubed and CEAF-e are 1.

    Work and memory grow with the number of records, not with its square: 100,000 records take a few seconds.

    Parameters
    ----------
    true, predicted : sequences of labels, or dicts from record to label
        Entity of each record. As sequences they have one label per record, in the same order; a true label None (or
        -1 among whole numbers) is not known, and the record is left out. As dicts each side may have records that the
        other lacks, as mentions in coreference; adjusted Rand is taken over those of both.

    Raises
    ------
    InvalidInputError
        Sequences of unequal length, a sequence and a dict, or a predicted label that is missing.

    Examples
    --------
    Five records: three of one entity, of which two were found together, and two of another.

    >>> scores = clustering_scores(["a", "a", "a", "b", "b"], [0, 0, 1, 2, 2])
    >>> scores.pairwise
    Agreement(precision=1.0, recall=0.5)
    >>> scores.b_cubed.recall == (2 / 3 + 2 / 3 + 1 / 3 + 1 + 1) / 5
    True
    """
    true_codes, predicted_codes = _codes(true, predicted)
    both = (true_codes >= 0) & (predicted_codes >= 0)
    n_true, n_predicted = int(true_codes.max(initial=-1)) + 1, int(predicted_codes.max(initial=-1)) + 1
    true_sizes = np.bincount(true_codes[true_codes >= 0], minlength=n_true)
    predicted_sizes = np.bincount(predicted_codes[predicted_codes >= 0], minlength=n_predicted)
    # Common records of each true and each predicted cluster that have any.
    common = coo_array(
        (np.ones(int(both.sum()), np.int64), (true_codes[both], predicted_codes[both])), shape=(n_true, n_predicted)
    ).tocsr()
    common.sum_duplicates()
    row = np.repeat(np.arange(n_true), np.diff(common.indptr))
    column, count = common.indices.astype(np.int64), common.data
    square = count.astype(np.float64) ** 2
    n_parts = true_sizes - np.bincount(row, count, n_true) + np.bincount(row, minlength=n_true)
    n_predicted_parts = predicted_sizes - np.bincount(column, count, n_predicted)
    n_predicted_parts = n_predicted_parts + np.bincount(column, minlength=n_predicted)
    matched = _best_match(row, column, 2 * count / (true_sizes[row] + predicted_sizes[column]), n_true, n_predicted)
    right_pairs = _n_pairs(count)
    return ClusteringScores(
        pairwise=Agreement(_share(right_pairs, _n_pairs(predicted_sizes)), _share(right_pairs, _n_pairs(true_sizes))),
        b_cubed=Agreement(
            _share(float((square / predicted_sizes[column]).sum()), int(predicted_sizes.sum())),
            _share(float((square / true_sizes[row]).sum()), int(true_sizes.sum())),
        ),
        muc=Agreement(
            _share(float((predicted_sizes - n_predicted_parts).sum()), int((predicted_sizes - 1).sum())),
            _share(float((true_sizes - n_parts).sum()), int((true_sizes - 1).sum())),
        ),
        ceaf_e=Agreement(_share(matched, n_predicted), _share(matched, n_true)),
        adjusted_rand=_adjusted_rand(common),
        n_records=int(true_sizes.sum()),
        n_entities=n_true,
        n_predicted=n_predicted,
    )


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _n_pairs(sizes: IntArray) -> int:
    return int((sizes.astype(np.int64) * (sizes.astype(np.int64) - 1) // 2).sum())


def _codes(true: Clustering, predicted: Clustering) -> tuple[IntArray, IntArray]:
    """Clusters as numbers from 0, record by record; -1 for a record that one side lacks."""
    if isinstance(true, Mapping) and isinstance(predicted, Mapping):
        records = list(dict.fromkeys([*true, *predicted]))
        missing = object()
        return (
            _numbered([true.get(record, missing) for record in records], missing, "true"),
            _numbered([predicted.get(record, missing) for record in records], missing, "predicted"),
        )
    if isinstance(true, Mapping) or isinstance(predicted, Mapping):
        raise InvalidInputError(
            "clustering_scores: one clustering is a dict and the other is not. Give two dicts, or two sequences."
        )
    left, right = _as_list(true), _as_list(predicted)
    if len(left) != len(right):
        raise InvalidInputError(
            f"clustering_scores: true has {len(left)} labels, but predicted has {len(right)}. Give one per record."
        )
    known = [k for k, label in enumerate(left) if not is_hidden(label)]
    return (
        _numbered([left[k] for k in known], None, "true"),
        _numbered([right[k] for k in known], _NOTHING, "predicted"),
    )


_NOTHING = object()


def _as_list(labels: Iterable[Any]) -> list[Any]:
    to_list = getattr(labels, "tolist", None) or getattr(labels, "to_list", None)
    return to_list() if to_list is not None else [v.item() if isinstance(v, np.generic) else v for v in labels]


def _numbered(labels: list[Any], missing: Any, name: str) -> IntArray:
    number: dict[Any, int] = {}
    codes = np.empty(len(labels), np.int64)
    for k, label in enumerate(labels):
        if label is missing:
            codes[k] = -1
        elif label is None or label != label:
            raise InvalidInputError(
                f"clustering_scores: {name} label {k} is missing. Give every record an entity, its own if it is alone."
            )
        else:
            codes[k] = number.setdefault(label, len(number))
    return codes


def _best_match(row: IntArray, column: IntArray, weight: FloatArray, n_rows: int, n_columns: int) -> float:
    """Largest total weight of a one-to-one matching of rows with columns.

    Every row also has a column of its own with weight 0, so that a matching of all rows exists; 1 is added to all
    weights, which changes every such matching alike, since entries that are 0 are no edges.
    """
    if not len(row):
        return 0.0
    rows = np.concatenate([row, np.arange(n_rows)])
    columns = np.concatenate([column, n_columns + np.arange(n_rows)])
    weights = np.concatenate([weight + 1.0, np.ones(n_rows)])
    graph = csr_array((weights, (rows, columns)), shape=(n_rows, n_columns + n_rows))
    chosen = min_weight_full_bipartite_matching(graph, maximize=True)
    return float(graph[chosen].sum() - n_rows)


def _adjusted_rand(common: csr_array) -> float:
    together, n = _n_pairs(common.data), int(common.sum())
    left, right = (_n_pairs(np.asarray(common.sum(axis=axis)).ravel()) for axis in (1, 0))
    every = n * (n - 1) // 2
    if left == right and (together == left):
        return 1.0
    expected = left * right / every
    return (together - expected) / ((left + right) / 2 - expected)
