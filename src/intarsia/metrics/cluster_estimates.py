"""How good is a clustering, with intervals: bootstrap over true entities, and estimates from a labelled sample.

Every measure is a ratio of two sums over true entities. What belongs to predicted clusters (the denominators of
precision) is shared among the entities of their records. So a sample of entities gives a sample of both sums
(Binette2023).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.special import ndtri

from intarsia._core.error_context import errors_from
from intarsia._core.html import ShownResult
from intarsia._core.validation import FloatArray, IntArray, as_float_array, as_generator, check_choice, check_number
from intarsia.exceptions import InvalidInputError
from intarsia.metrics.clusterings import (
    Clustering,
    best_matching,
    common_links,
    paired_codes,
    resolution_weight,
)

MEASURES = ("pairwise", "b_cubed", "muc", "ceaf_e", "ceaf_m", "lea")


@dataclass(frozen=True)
class Interval:
    """Value of a measure with a confidence interval.

    Examples
    --------
    >>> Interval(0.9, 0.85, 0.95).low
    0.85
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class MeasureIntervals:
    """Precision, recall and F1 of one measure, each with a confidence interval.

    Examples
    --------
    >>> half = Interval(0.5, 0.4, 0.6)
    >>> MeasureIntervals(half, half, half).f1.value
    0.5
    """

    precision: Interval
    recall: Interval
    f1: Interval


@dataclass(frozen=True)
class ClusteringIntervals(ShownResult):
    """Scores of a clustering with confidence intervals, as `clustering_intervals` and `estimate_scores` return them.

    Attributes
    ----------
    pairwise, b_cubed, muc, ceaf_e, ceaf_m, lea : MeasureIntervals or None
        Precision, recall and F1 under each measure; None if the measure cannot be estimated from a sample.
    level : float
        Probability with which an interval contains the value.
    n_entities : int
        Number of true entities that were used.

    Examples
    --------
    >>> intervals = clustering_intervals([1, 1, 2, 2, 3, 3], [1, 1, 2, 2, 3, 4], random_state=0)
    >>> round(intervals.pairwise.recall.value, 2), intervals.pairwise.recall.high
    (0.67, 1.0)
    """

    pairwise: MeasureIntervals | None
    b_cubed: MeasureIntervals | None
    muc: MeasureIntervals | None
    ceaf_e: MeasureIntervals | None
    ceaf_m: MeasureIntervals | None
    lea: MeasureIntervals | None
    level: float
    n_entities: int


@errors_from("clustering_intervals")
def clustering_intervals(
    true: Clustering,
    predicted: Clustering,
    *,
    level: float = 0.95,
    n_bootstrap: int = 1000,
    random_state: int | np.random.Generator | None = 0,
) -> ClusteringIntervals:
    """Score a clustering like `clustering_scores`, with confidence intervals by the bootstrap over true entities.

    Entities, not pairs or records, are drawn again: pairs of one entity are right or wrong together. The one-to-one
    matching of the CEAF measures is that of all entities.

    Parameters
    ----------
    true, predicted : sequences of labels
        Entity of each record, in the same order; a true label None is unknown, and its record is ignored.
    level : float
        Probability with which an interval should contain the value.
    n_bootstrap : int
        Number of samples.
    random_state : int or Generator
        Seed.

    Examples
    --------
    >>> true = [k // 3 for k in range(300)]
    >>> predicted = [(k // 3, k % 3 == 2 and k % 5 == 0) for k in range(300)]
    >>> f1 = clustering_intervals(true, predicted).b_cubed.f1
    >>> f1.low < f1.value < f1.high
    True
    """
    _check_level(level)
    check_number(n_bootstrap, "n_bootstrap", low=2, integer=True)
    if isinstance(true, Mapping) or isinstance(predicted, Mapping):
        raise InvalidInputError("the clusterings are dicts. Pass two sequences with one label per record.")
    true_codes, predicted_codes = paired_codes(true, predicted)
    terms = _terms_of_entities(true_codes, predicted_codes)
    n = len(next(iter(terms.values())))
    rng = as_generator(random_state)
    weights = rng.multinomial(n, np.full(n, 1.0 / max(n, 1)), size=int(n_bootstrap)) if n else np.ones((2, 0))
    tail = 50.0 * (1.0 - level)
    intervals = {}
    for name, table in terms.items():
        value = _ratios(table.sum(axis=0)[None])[0]
        samples = _ratios(weights @ table)
        low, high = np.percentile(samples, [tail, 100.0 - tail], axis=0)
        intervals[name] = MeasureIntervals(
            *(Interval(float(value[k]), float(low[k]), float(high[k])) for k in range(3))
        )
    return ClusteringIntervals(**intervals, level=float(level), n_entities=n)


@errors_from("estimate_scores")
def estimate_scores(
    predicted: Mapping[Hashable, Any],
    sample: Iterable[Iterable[Hashable]],
    *,
    sampling: str = "records",
    weights: Any = None,
    level: float = 0.95,
) -> ClusteringIntervals:
    """Estimate pairwise and B-cubed scores of a clustering from some true entities that were looked up completely.

    Draw records at random, find all records of the entity of each, and pass these entities. The estimates are ratios
    of weighted sums over the sampled entities, with standard errors by linearisation. They are unbiased up to terms of
    order 1 / n, however large the clustering is (Binette2023). MUC, CEAF and LEA need the complete truth and are None.

    Parameters
    ----------
    predicted : dict from record to label
        Predicted entity of every record, not only of those in the sample.
    sample : list of lists of records
        Complete true entities. An entity that was drawn twice is there twice.
    sampling : {"records", "entities"}
        Whether records were drawn with equal probability (large entities are then drawn more often, which is
        corrected), or entities.
    weights : float array, optional
        Inverse of the probability with which each entity was drawn, instead of `sampling`; for records that
        `records_to_label` chose.
    level : float
        Probability with which an interval should contain the value.

    Examples
    --------
    >>> predicted = {record: record // 4 for record in range(1000)}
    >>> sample = [[4 * k, 4 * k + 1, 4 * k + 2, 4 * k + 3] for k in range(40)] + [[400, 401]]
    >>> estimate = estimate_scores(predicted, sample)
    >>> estimate.pairwise.precision.low < estimate.pairwise.precision.value < 1.0
    True
    """
    _check_level(level)
    check_choice(sampling, ("records", "entities"), "sampling")
    entities = [list(entity) for entity in sample]
    if len(entities) < 2:
        raise InvalidInputError(f"sample has {len(entities)} entities, expected at least 2. Look up more entities.")
    for k, entity in enumerate(entities):
        unknown = next((record for record in entity if record not in predicted), None)
        if not entity or unknown is not None:
            reason = "is empty" if not entity else f"has record {unknown!r}, which has no predicted label"
            raise InvalidInputError(f"sample[{k}] {reason}. Pass records of `predicted`.")
        if len(set(entity)) < len(entity):
            raise InvalidInputError(f"sample[{k}] has a record twice. Pass each record once.")
    sizes = np.array([len(entity) for entity in entities], dtype=np.float64)
    if weights is None:
        inverse = 1.0 / sizes if sampling == "records" else np.ones(len(entities))
    else:
        inverse = as_float_array(weights, "weights")
        if inverse.shape != sizes.shape or not (inverse > 0).all() or not np.isfinite(inverse).all():
            raise InvalidInputError(
                f"weights has shape {inverse.shape}; expected a positive number for each of {len(entities)} entities. "
                f"Pass the inverse probabilities."
            )
    size_of_label: dict[Any, int] = {}
    for label in predicted.values():
        size_of_label[label] = size_of_label.get(label, 0) + 1
    pairwise, b_cubed = np.zeros((len(entities), 4)), np.zeros((len(entities), 4))
    for k, entity in enumerate(entities):
        predicted_size = np.array([size_of_label[predicted[record]] for record in entity], dtype=np.float64)
        count_of_label: dict[Any, int] = {}
        for record in entity:
            count_of_label[predicted[record]] = count_of_label.get(predicted[record], 0) + 1
        n_common = sum(count * (count - 1) / 2 for count in count_of_label.values())
        pairwise[k] = n_common, ((predicted_size - 1) / 2).sum(), n_common, len(entity) * (len(entity) - 1) / 2
        common = np.array([count_of_label[predicted[record]] for record in entity], dtype=np.float64)
        b_cubed[k] = (common / predicted_size).sum(), len(entity), (common / len(entity)).sum(), len(entity)
    quantile = float(ndtri(0.5 + level / 2))
    return ClusteringIntervals(
        pairwise=_linearised(pairwise, inverse, quantile),
        b_cubed=_linearised(b_cubed, inverse, quantile),
        muc=None,
        ceaf_e=None,
        ceaf_m=None,
        lea=None,
        level=float(level),
        n_entities=len(entities),
    )


@errors_from("records_to_label")
def records_to_label(
    predicted: Mapping[Hashable, Any],
    n: int,
    *,
    doubt: Mapping[Hashable, float] | None = None,
    random_state: int | np.random.Generator | None = 0,
) -> list[tuple[Hashable, float]]:
    """Choose the records whose entities should be looked up next, so that the intervals of `estimate_scores` narrow.

    A record is drawn with a probability proportional to its fraction of the pairs that are in doubt: the size of its
    predicted cluster times its doubt. Half of the probability is spread over all records, so that no weight explodes.

    Parameters
    ----------
    predicted : dict from record to label
        Predicted entity of every record.
    n : int
        Number of draws, with replacement.
    doubt : dict from record to number in [0, 1], optional
        1 minus the confidence of each record, for example of `resolve`; by default 1.
    random_state : int or Generator
        Seed.

    Returns
    -------
    List of (record, probability), one entry per draw; a record can be drawn twice. The probability is that of this
    record in a single draw, over all records of `predicted`: the probabilities of all records sum to 1, not those of
    the list. It is neither the probability that the record is in the sample of `n` draws, nor that its entity is
    correct. The weight of an entity for `estimate_scores` is the inverse of the sum of the probabilities of all its
    records, drawn or not.

    Examples
    --------
    >>> [(record, round(chance, 2)) for record, chance in records_to_label({"a": 1, "b": 1, "c": 2}, 2)]
    [('b', 0.37), ('a', 0.37)]
    """
    check_number(n, "n", low=1, integer=True)
    records = list(predicted)
    if not records:
        raise InvalidInputError("predicted is empty. Pass the predicted entity of every record.")
    size_of_label: dict[Any, int] = {}
    for label in predicted.values():
        size_of_label[label] = size_of_label.get(label, 0) + 1
    importance = np.array([size_of_label[predicted[record]] for record in records], dtype=np.float64)
    if doubt is not None:
        importance *= np.array([float(doubt.get(record, 1.0)) for record in records])
    share = importance / importance.sum() if importance.sum() > 0 else np.full(len(records), 1.0 / len(records))
    probability = 0.5 * share + 0.5 / len(records)
    draws = as_generator(random_state).choice(len(records), size=int(n), p=probability)
    return [(records[k], float(probability[k])) for k in draws]


def _check_level(level: float) -> None:
    """Raise unless the level is between 0 and 1."""
    check_number(level, "level", low=0.0, high=1.0, open_low=True, open_high=True)


def _terms_of_entities(true_codes: IntArray, predicted_codes: IntArray) -> dict[str, FloatArray]:
    """Return a table (n_entities, 4) for each measure: numerator and denominator of precision, and of recall."""
    n_true, n_predicted = int(true_codes.max(initial=-1)) + 1, int(predicted_codes.max(initial=-1)) + 1
    true_size = np.bincount(true_codes, minlength=n_true)
    predicted_size = np.bincount(predicted_codes, minlength=n_predicted)
    common = coo_array((np.ones(len(true_codes), np.int64), (true_codes, predicted_codes)), shape=(n_true, n_predicted))
    table = common.tocsr()
    table.sum_duplicates()
    row = np.repeat(np.arange(n_true), np.diff(table.indptr))
    column, count = table.indices.astype(np.int64), table.data.astype(np.float64)

    def by_entity(values: NDArray[Any]) -> FloatArray:
        return np.bincount(row, values, n_true).astype(np.float64)

    def shared(values: NDArray[Any]) -> FloatArray:
        """Spread a value of each predicted cluster over the entities of its records."""
        return by_entity(values[column] * count / predicted_size[column])

    pairs = by_entity(count * (count - 1) / 2)
    links = common_links(table.data, true_size[row], predicted_size[column])
    n_pieces_of_predicted = np.bincount(column, minlength=n_predicted)
    columns: dict[str, tuple[NDArray[Any], ...]] = {
        "pairwise": (
            pairs, shared(predicted_size * (predicted_size - 1) / 2.0), pairs, true_size * (true_size - 1) / 2.0
        ),
        "b_cubed": (
            by_entity(count**2 / predicted_size[column]), true_size.astype(float), by_entity(count**2) / true_size,
            true_size.astype(float),
        ),
        "muc": (
            shared((predicted_size - n_pieces_of_predicted).astype(float)), shared(predicted_size - 1.0),
            true_size - by_entity(np.ones(len(row))), true_size - 1.0,
        ),
        "lea": (
            shared(np.bincount(column, links * resolution_weight(predicted_size)[column], n_predicted)),
            true_size.astype(float), by_entity(links * resolution_weight(true_size)[row]), true_size.astype(float),
        ),
    }  # fmt: skip
    similarities = (2 * count / (true_size[row] + predicted_size[column]), count)
    for name, similarity in zip(("ceaf_e", "ceaf_m"), similarities, strict=True):
        entries = best_matching(row, column, similarity, n_true, n_predicted)
        matched = np.bincount(row[entries], similarity[entries], n_true)
        if name == "ceaf_e":
            columns[name] = (matched, shared(np.ones(n_predicted)), matched, np.ones(n_true))
        else:
            columns[name] = (matched, true_size.astype(float), matched, true_size.astype(float))
    return {name: np.column_stack(columns[name]) for name in MEASURES}


def _ratios(sums: FloatArray) -> FloatArray:
    """Return precision, recall and F1 of each row of numerators and denominators; 0 / 0 is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(sums[:, 1] > 0, sums[:, 0] / sums[:, 1], 0.0)
        recall = np.where(sums[:, 3] > 0, sums[:, 2] / sums[:, 3], 0.0)
        f1 = np.where(precision + recall > 0, 2 * precision * recall / (precision + recall), 0.0)
    return np.column_stack([precision, recall, f1])


def _linearised(terms: FloatArray, inverse: FloatArray, quantile: float) -> MeasureIntervals:
    """Return ratio estimates with intervals from the variance of their linear approximations."""
    weighted = terms * inverse[:, None]
    n = len(terms)
    mean = weighted.mean(axis=0)
    value = _ratios(mean[None])[0]
    deviations = np.zeros((n, 3))
    for k in range(2):
        if mean[2 * k + 1] > 0:
            deviations[:, k] = (weighted[:, 2 * k] - value[k] * weighted[:, 2 * k + 1]) / mean[2 * k + 1]
    total = value[0] + value[1]
    if total > 0:  # derivative of the harmonic mean
        deviations[:, 2] = 2 * (value[1] ** 2 * deviations[:, 0] + value[0] ** 2 * deviations[:, 1]) / total**2
    error = quantile * deviations.std(axis=0, ddof=1) / np.sqrt(n)
    return MeasureIntervals(
        *(
            Interval(float(value[k]), float(max(value[k] - error[k], 0.0)), float(min(value[k] + error[k], 1.0)))
            for k in range(3)
        )
    )
