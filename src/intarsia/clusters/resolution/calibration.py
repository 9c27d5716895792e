"""Turn scores of pairs into log odds that can be added, and estimate the log odds of pairs that were never compared.

Scores of record linkage programs are rarely calibrated: comparisons that depend on each other are counted twice, and
the prior is a guess. But records correct each other. If a and b both match c, then a and b are the same entity whatever
their own score says; if a matches c and b does not, they are different. So each pair has *indirect evidence*: the
scores of each of its records with the other members of the other record's cluster. The fraction of pairs with positive
indirect evidence, as a monotone function of the score, calibrates the score.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csgraph

from intarsia._core.error_context import errors_in
from intarsia._core.validation import FloatArray, IntArray, check_number
from intarsia._files.tables import TABLES, is_table_file, read_columns
from intarsia._kernels.isotonic import pool_violators
from intarsia._kernels.pair_evidence import sum_evidence
from intarsia.clusters.resolution.adjacency import neighbours
from intarsia.clusters.resolution.pair_columns import choose_pair_columns, in_type_of, kind_of_column
from intarsia.clusters.resolution.scored_pairs import ScoredPairs
from intarsia.exceptions import InvalidInputError

ABSENT = -0.1  # log odds of a pair without a score, where the data say nothing about it
_LABEL_COLUMNS = ("match", "is_match", "label", "same", "clerical_match_score")
_ROUNDS = 3
_QUANTILES = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98)
_CONVINCING = 0.8
_EXPLAINED = 0.95  # fraction of the agreement that scores as given explain if they need no other threshold
_PREFERENCE = 1.25
_RELIABLE = 0.5  # fraction of the agreement that scores must explain; otherwise the clusters are too uncertain
_CALIBRATED = 0.97  # of what calibrated scores explain is explained by scores as given, if they are calibrated already
_MANY_PAIRS = 1_000_000
_GIANT_FRACTION = 0.1  # of the records in one component
_MIN_PAIRS = 50  # of each kind with indirect evidence, or with a label
_LARGEST = 7.0  # log odds; no score is more certain than 1 in 1,000
_ABSENT_FRACTION = 0.1  # of the log odds of an absent pair: it was not compared, so it is weak evidence
_ORDER = 1e-3  # slope that keeps the order of scores with equal calibrated log odds


@dataclass(frozen=True, eq=False)
class Calibration:
    """How scores became log odds.

    Attributes
    ----------
    method : str
        "none", "agreement" (of records with the clusters of their partners), "competition" (of pairs for a record,
        where an entity has one record of each source) or "labels".
    scores, log_odds : float arrays
        Points of the monotone piecewise linear map from log odds as given to calibrated ones; empty if there is none.
    absent : float
        Log odds of a pair of records without a score.
    n_pairs : int
        Number of pairs that the map was fitted to.
    description : str
        What was done, for people.
    """

    method: str
    scores: FloatArray = field(repr=False)
    log_odds: FloatArray = field(repr=False)
    absent: float
    n_pairs: int
    description: str

    def __repr__(self) -> str:
        return f"Calibration(method={self.method!r}, absent={self.absent:.3g}, n_pairs={self.n_pairs})"

    def apply(self, scores: FloatArray) -> FloatArray:
        """Return the calibrated log odds of log odds as given."""
        if not self.scores.size:
            return scores
        return np.interp(scores, self.scores, self.log_odds) + _ORDER * scores


def calibrate_pairs(
    pairs: ScoredPairs,
    calibrate: Any,
    absent: float | str,
    cluster: Callable[[FloatArray, float], IntArray],
    source: IntArray | None = None,
) -> tuple[Calibration, FloatArray]:
    """Choose the calibration of the scores; return it and the calibrated log odds of the pairs.

    Parameters
    ----------
    pairs : ScoredPairs
        Records, pairs and their log odds as given.
    calibrate : None, "auto" or table
        None: log odds as given. "auto": by the agreement of records with the clusters of their partners, if enough
        pairs have such evidence. A table of labelled pairs: two ids and whether they match. "competition", if an entity
        has at most one record of each source: by the fraction of pairs that are the best for both of their records.
    absent : float or "auto"
        Log odds of a pair without a score, at most 0. "auto": a tenth of the log odds that a pair without a score is in
        one cluster, among the records that were compared with another member of the cluster.
    cluster : function (log odds of the pairs, absent) -> label of each record
        Quick clustering, as a start.
    source : int array, optional
        Source of each record, -1 where it is unknown.
    """
    if isinstance(absent, str):
        if absent != "auto":
            raise InvalidInputError(
                f"absent is {absent!r}; expected a number of at most 0, or 'auto'. Pass one of them."
            )
    else:
        check_number(absent, "absent", low=-np.inf, high=0.0, open_low=True)
    start = ABSENT if isinstance(absent, str) else float(absent)
    empty = np.empty(0)
    if calibrate is None:
        text = "scores are taken as log odds"
        return Calibration("none", empty, empty, start, 0, text), pairs.log_odds
    if not isinstance(calibrate, str) or is_table_file(calibrate):
        return _from_labels(pairs, calibrate, start)
    if calibrate == "competition" and source is not None:
        return _from_competition(pairs, start, source)
    if calibrate != "auto":
        raise InvalidInputError(
            f"calibrate is {calibrate!r}; expected None, 'auto', a table of labelled pairs, or 'competition' together "
            f"with source=. Pass one of them."
        )
    return _from_agreement(pairs, start, isinstance(absent, str), cluster)


def _from_agreement(
    pairs: ScoredPairs, absent: float, estimate_absent: bool, cluster: Callable[[FloatArray, float], IntArray]
) -> tuple[Calibration, FloatArray]:
    """Calibrate scores by the indirect evidence for each pair, in rounds: cluster, calibrate, cluster again."""
    empty = np.empty(0)
    adjacency = neighbours(pairs.pairs, len(pairs.ids))
    as_given = _one_round(pairs, pairs.log_odds, absent, estimate_absent, cluster, adjacency)
    if as_given is not None and as_given.explained_as_given >= _CALIBRATED * as_given.explained:
        n_pairs = as_given.calibration.n_pairs
        text = f"scores are taken as log odds, because they predict the agreement of {n_pairs:,} pairs well"
        return Calibration("none", empty, empty, as_given.calibration.absent, n_pairs, text), pairs.log_odds
    rounds = {0.0: as_given}
    if (
        as_given is None or as_given.explained < _EXPLAINED
    ):  # otherwise there is nothing that another threshold could explain
        for threshold in _thresholds(pairs):
            scores = pairs.log_odds - threshold
            rounds[threshold] = _one_round(pairs, scores, absent, estimate_absent, cluster, adjacency)
    if rounds[0.0] is None:  # no evidence at the scores as given: another threshold needs to be convincing
        rounds = {
            key: result for key, result in rounds.items() if result is not None and result.explained > _CONVINCING
        }
    # Much agreement to be informed about, and most of it explained: the first alone prefers clusters that are too
    # large, the second alone clusters that are too small. Scores as given are preferred to slightly better thresholds.
    merit = {
        key: result.information * result.explained**4 * (_PREFERENCE if key == 0.0 else 1.0)
        for key, result in rounds.items()
        if result is not None
    }
    best_round = rounds[max(merit, key=merit.__getitem__)] if merit else None
    if best_round is None:
        text = "scores are taken as log odds, because too few pairs have other pairs that agree or disagree with them"
        return Calibration("none", empty, empty, absent, 0, text), pairs.log_odds
    calibration = best_round.calibration
    if best_round.explained < _RELIABLE:
        text = "scores are taken as log odds, because pairs disagree too much with each other to calibrate them"
        return Calibration("none", empty, empty, absent, calibration.n_pairs, text), pairs.log_odds
    for _ in range(_ROUNDS - 1):
        log_odds = calibration.apply(pairs.log_odds)
        result = _one_round(pairs, log_odds, calibration.absent, estimate_absent, cluster, adjacency)
        if result is None:
            break
        calibration = result.calibration
    return calibration, calibration.apply(pairs.log_odds)


def _from_competition(pairs: ScoredPairs, absent: float, source: IntArray) -> tuple[Calibration, FloatArray]:
    """Calibrate scores by the fraction of pairs that are the best for both of their records."""
    is_best = best_for_both(pairs.pairs, pairs.log_odds, source)
    empty = np.empty(0)
    if min(is_best.sum(), (~is_best).sum()) < _MIN_PAIRS:
        text = "scores are taken as log odds, because too few pairs compete with each other"
        return Calibration("none", empty, empty, absent, 0, text), pairs.log_odds
    text = f"scores are calibrated by the competition of {len(is_best):,} pairs for the same records"
    points = fit_monotone(pairs.log_odds, is_best)
    calibration = Calibration("competition", *points, absent, len(is_best), text)
    return calibration, calibration.apply(pairs.log_odds)


def best_for_both(pairs: IntArray, scores: FloatArray, source: IntArray) -> NDArray[np.bool_]:
    """Return whether each pair has the highest score of both of its records with the source of the other.

    Pairs of records of the same source are never the best.

    Examples
    --------
    >>> best_for_both(np.array([[0, 2], [0, 3], [1, 3]]), np.array([2.0, 3.0, 1.0]), np.array([0, 0, 1, 1])).tolist()
    [False, True, False]
    """
    is_best = source[pairs[:, 0]] != source[pairs[:, 1]]
    n_sources = int(source.max(initial=-1)) + 2
    for side in (0, 1):
        key = pairs[:, side] * n_sources + source[pairs[:, 1 - side]] + 1
        # A record can be on either side of its pairs.
        other_key = pairs[:, 1 - side] * n_sources + source[pairs[:, side]] + 1
        highest = np.full((int(pairs.max(initial=-1)) + 1) * n_sources, -np.inf)
        np.maximum.at(highest, key, scores)
        np.maximum.at(highest, other_key, scores)
        is_best &= scores >= highest[key]
    return is_best


def _thresholds(pairs: ScoredPairs) -> list[float]:
    """Return further thresholds from which the calibration starts: quantiles of the scores.

    With many pairs, a threshold that connects a tenth of all records is left out: it is too low, and slow to try.
    """
    scores = pairs.log_odds
    if not len(scores):
        return []
    step = 1 if len(scores) <= _MANY_PAIRS else len(scores) // _MANY_PAIRS + 1
    thresholds = sorted({*np.quantile(scores[::step], _QUANTILES).tolist()} - {0.0})
    if step == 1:
        return thresholds
    return [threshold for threshold in thresholds if _largest_component(pairs, threshold) < _GIANT_FRACTION]


def _largest_component(pairs: ScoredPairs, threshold: float) -> float:
    """Return the fraction of the records in the largest component of the pairs above a threshold."""
    ends, n = pairs.pairs[pairs.log_odds > threshold], len(pairs.ids)
    graph = coo_array((np.ones(len(ends), dtype=bool), (ends[:, 0], ends[:, 1])), shape=(n, n))
    return float(np.bincount(csgraph.connected_components(graph, directed=False)[1]).max() / n)


@dataclass(frozen=True, eq=False)
class _Round:
    """Calibration from the clusters of one round, and how well scores predict which pairs agree with the clusters.

    Attributes
    ----------
    calibration : Calibration
        Monotone map of the scores.
    information : float
        Information of calibrated scores about the agreement, in nats, over all pairs.
    explained, explained_as_given : float
        The same as a fraction of the largest possible information, for calibrated scores and for scores as given.
    """

    calibration: Calibration
    information: float
    explained: float
    explained_as_given: float


def _one_round(
    pairs: ScoredPairs,
    log_odds: FloatArray,
    absent: float,
    estimate_absent: bool,
    cluster: Callable[[FloatArray, float], IntArray],
    adjacency: tuple[IntArray, IntArray, IntArray],
) -> _Round | None:
    """Cluster the records, and calibrate the scores by the agreement of pairs with the clusters.

    Return None if too few pairs agree or disagree.
    """
    if not len(pairs.pairs):
        return None
    labels = cluster(log_odds, absent)
    evidence, has_evidence, (n_inside, n_outside) = indirect_evidence(pairs.pairs, log_odds, labels, absent, adjacency)
    is_match = evidence[has_evidence] > 0
    n_matches, n_pairs = int(is_match.sum()), len(is_match)
    if min(n_matches, n_pairs - n_matches) < _MIN_PAIRS:
        return None
    scores = pairs.log_odds[has_evidence]
    points = fit_monotone(scores, is_match)
    if estimate_absent:
        rate = np.log((n_inside + 0.5) / (n_outside + 0.5))
        absent = float(np.clip(_ABSENT_FRACTION * rate, -1.0, -0.02))
    text = f"scores are calibrated by the agreement of {n_pairs:,} pairs with the other pairs of their records"
    calibration = Calibration("agreement", *points, absent, n_pairs, text)
    prior = n_matches / n_pairs
    entropy = -n_pairs * (prior * np.log(prior) + (1 - prior) * np.log1p(-prior))
    information, as_given = (
        float(entropy - np.logaddexp(0.0, np.where(is_match, -odds, odds)).sum())
        for odds in (np.interp(scores, *points), np.clip(scores, -_LARGEST, _LARGEST))
    )
    return _Round(calibration, information, max(information / entropy, 0.0), as_given / entropy)


def indirect_evidence(
    pairs: IntArray,
    log_odds: FloatArray,
    labels: IntArray,
    absent: float,
    adjacency: tuple[IntArray, IntArray, IntArray] | None = None,
) -> tuple[FloatArray, NDArray[np.bool_], tuple[float, float]]:
    """Return the evidence for each pair without its own score, and whether there is any.

    The evidence is the sum of the log odds of each record with the cluster of the other, without the other itself. The
    third value counts the pairs without a score: those within a cluster, and those of a record and a cluster that it
    does not belong to but was compared with. `adjacency` holds the neighbours of each record, if they are known.

    Examples
    --------
    >>> pairs = np.array([[0, 1], [0, 2], [1, 2]])
    >>> evidence = indirect_evidence(pairs, np.array([2.0, 3.0, -1.0]), np.zeros(3, int), 0.0)
    >>> evidence[0].tolist(), evidence[1].tolist()
    ([2.0, 1.0, 5.0], [True, True, True])
    """
    groups = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    size = np.bincount(groups)
    if adjacency is None:
        adjacency = neighbours(pairs, len(labels))
    evidence, n_others, n_inside, n_outside = sum_evidence(adjacency, log_odds, groups, size, absent)
    n_pairs_inside = float((size * (size - 1) / 2).sum() - n_inside / 2)
    return evidence, n_others > 0, (n_pairs_inside, float(n_outside))


def fit_monotone(scores: FloatArray, is_match: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
    """Fit the log odds of a match as a non-decreasing function of the score; return its points.

    Isotonic regression (pool adjacent violators), with half a match and half a non-match added to each block.

    Examples
    --------
    >>> scores, odds = fit_monotone(np.array([0.0, 1.0, 2.0, 3.0]), np.array([False, True, False, True]))
    >>> scores.tolist(), odds.round(2).tolist()
    ([0.0, 1.5, 3.0], [-1.1, 0.0, 1.1])
    """
    values, position, n_pairs = np.unique(scores, return_inverse=True, return_counts=True)
    blocks = np.vstack([np.bincount(position, is_match), n_pairs, values * n_pairs])
    matches, pairs, total = blocks[:, : pool_violators(blocks)]
    odds = np.log(matches + 0.5) - np.log(pairs - matches + 0.5)
    return total / pairs, np.clip(np.maximum.accumulate(odds), -_LARGEST, _LARGEST)


def _from_labels(pairs: ScoredPairs, table: Any, absent: float) -> tuple[Calibration, FloatArray]:
    """Calibrate scores by pairs with a known answer."""
    with errors_in("calibrate"):
        columns = read_columns(table)
        if columns is None:
            raise InvalidInputError(f"the labels are of type {type(table).__name__}. Pass None, 'auto', or {TABLES}.")
        columns = {str(name): values for name, values in columns.items()}
        if len(columns) < 3:
            raise InvalidInputError(
                f"the table has columns {list(columns)}; expected two ids and 'match'. Pass such a table."
            )
        label_name = next((name for name in _LABEL_COLUMNS if name in columns), list(columns)[-1])
        kinds = {name: kind_of_column(values) for name, values in columns.items()}
        ends = choose_pair_columns(kinds, None, [label_name])
        number = {name: k for k, name in enumerate(pairs.ids)}
        row_of = {(int(a), int(b)): row for row, (a, b) in enumerate(pairs.pairs)}
        rows, answers = [], []
        firsts, seconds = (in_type_of(names, pairs.ids) for names in ends.read_pairs(columns))
        for first, second, answer in zip(firsts, seconds, columns[label_name], strict=True):
            key = tuple(sorted((number.get(first, -1), number.get(second, -1))))
            if key in row_of:
                rows.append(row_of[key])
                answers.append(float(answer) > 0.5)
    n_matches = sum(answers)
    if min(n_matches, len(answers) - n_matches) < 5:
        raise InvalidInputError(
            f"calibrate has {n_matches} matches and {len(answers) - n_matches} non-matches among the scored pairs, "
            f"expected at least 5 of each. Label more pairs, or use calibrate=None."
        )
    text = f"scores are calibrated by {len(rows):,} labelled pairs"
    points = fit_monotone(pairs.log_odds[np.array(rows)], np.array(answers))
    calibration = Calibration("labels", *points, absent, len(rows), text)
    return calibration, calibration.apply(pairs.log_odds)
