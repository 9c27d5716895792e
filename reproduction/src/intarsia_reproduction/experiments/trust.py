"""Trust between users of Epinions: structural balance with two latent attributes per user (Bach2015, section 4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, IntArray
from intarsia.softlogic import EntropyPair, HingeLossMRF, SurrogateByRole
from intarsia.softlogic.hinge.conditioning import condition
from intarsia_reproduction.experiment import Experiment, Finding, Task
from intarsia_reproduction.models.baselines import user_effects, user_log_odds
from intarsia_reproduction.models.hinge_rules import GroundRules, Literal, assemble, implies
from intarsia_reproduction.models.latent_learning import (
    Comparison,
    Fold,
    Predictor,
    area_under_precision,
    draw_curves,
    method_tasks,
    run_method,
    with_interval,
)

_SIGNS = ((True, True, True), (True, False, False), (False, True, False), (False, False, True))

# Structural balance of triads (Huang2013): the trust of A in C agrees with the trust between A and B and between B and
# C, for the four combinations of directions and with both signs. The last six rules are ours; they use the latent
# attributes.
_DIRECTIONS = (("A, B", "B, C"), ("A, B", "C, B"), ("B, A", "B, C"), ("B, A", "C, B"))
BALANCE = (
    *(
        f"w: Knows({ab}) & Knows({bc}) & Knows(A, C) & {a}Trusts({ab}) & {b}Trusts({bc}) -> {c}Trusts(A, C) ^2"
        for ab, bc in _DIRECTIONS
        for a, b, c in (["" if sign else "!" for sign in signs] for signs in _SIGNS)
    ),
    "w: Knows(A, B) & Knows(B, A) & Trusts(A, B) -> Trusts(B, A) ^2",
    "w: Knows(A, B) & Knows(B, A) & !Trusts(A, B) -> !Trusts(B, A) ^2",
    "w: Knows(A, B) & Average('all') -> Trusts(A, B) ^2",
    "w: Knows(A, B) & Trusts(A, B) -> Average('all') ^2",
)
RULES = "\n".join(
    [
        *BALANCE,
        "w: Knows(A, B) & Trusting(A) -> Trusts(A, B) ^2",
        "w: Knows(A, B) & Trusts(A, B) -> Trusting(A) ^2",
        "w: Knows(A, B) & Trustworthy(B) -> Trusts(A, B) ^2",
        "w: Knows(A, B) & Trusts(A, B) -> Trustworthy(B) ^2",
        "w: Knows(A, B) & Trusting(A) & Trustworthy(B) -> Trusts(A, B) ^2",
        "w: Knows(A, B) & !Trusting(A) & !Trustworthy(B) -> !Trusts(A, B) ^2",
    ]
)

# Both surrogates are symmetric. The weight on the attributes is small compared with the initial rule weights; otherwise
# the attributes end near 1/2 and explain nothing. Both were chosen on a fold inside the training data of the first
# fold, on which the other folds are tested.
_SURROGATE = SurrogateByRole(latent=EntropyPair(weight=0.05), labelled=EntropyPair(weight=2.0))
_L2, _STEP = 1.0, 1.0
_N_FOLDS = 8
_SCORE = "AuPR of distrust"
# Baselines without rules: functions of (pairs, trust, n_users, new pairs) that return scores of distrust.
_BASELINES = {
    "log-odds": ("baseline: log odds of giver and receiver", user_log_odds),
    "user-effects": ("baseline: logistic regression with user effects", user_effects),
}


def trust(quick: bool = False, data: Path | None = None) -> Experiment:
    """Return the experiment that predicts distrust between users of Epinions through two latent attributes per user.

    There are eight folds over the 8,675 statements. To predict a fold, the next fold is labelled, the one after it is
    held out to stop learning, and the other five are observed during learning; all seven are observed during
    prediction. The quick version has the 300 users with most statements and one fold.

    Examples
    --------
    >>> [task.key for task in trust(quick=True).tasks][:3]
    ['primal', 'em', 'paired_1']
    """

    @cache
    def network() -> tuple[IntArray, FloatArray, int]:
        return _load(quick, data)

    comparison = Comparison(
        folds=lambda k: make_fold(*network(), k, _N_FOLDS),
        n_folds=1 if quick else _N_FOLDS,
        surrogate=_SURROGATE,
        l2=_L2,
        step_size=_STEP,
        budget=4000 if quick else 10000,
        score_name=_SCORE,
        n_points=12 if quick else 30,
        has_validation=True,
    )
    baselines = [
        Task(key, label, {_SCORE: None}, "value", partial(_baseline, score, network, comparison.n_folds), significant=4)
        for key, (label, score) in _BASELINES.items()
    ]
    # Only the start and the end are evaluated, since this row is in no plot.
    without = replace(comparison, folds=lambda k: make_fold(*network(), k, _N_FOLDS, has_latent=False), n_points=2)
    label = "paired-dual, N = 1, without latent variables"
    run = partial(run_method, without, "paired_1")
    baselines.append(Task("no-latent", label, {"objective": None, _SCORE: None}, "value", run, significant=4))
    return Experiment(
        "trust",
        "Trust in a social network with latent attributes (Bach2015, section 4)",
        [*method_tasks(comparison), *baselines],
        lambda findings: draw_curves(findings, "trust", "Trust", _SCORE),
        "8,675 statements of trust or distrust between 2,000 users of Epinions, 701 of distrust",
        question="Do latent attributes of people predict who trusts whom, and which learner is fastest?",
    )


def _load(quick: bool, data: Path | None) -> tuple[IntArray, FloatArray, int]:
    from intarsia_reproduction.datasets import load_epinions

    network = load_epinions(data)
    pairs, trust_values = network.pairs, network.trust.astype(np.float64)
    other = pairs[:, 0] != pairs[:, 1]
    pairs, trust_values, n_users = pairs[other], trust_values[other], network.n_users
    if quick:
        busy = np.argsort(-np.bincount(pairs.reshape(-1), minlength=n_users), kind="stable")[:300]
        number = np.full(n_users, -1)
        number[busy] = np.arange(busy.size)
        mask = (number[pairs] >= 0).all(axis=1)
        pairs, trust_values, n_users = number[pairs[mask]], trust_values[mask], busy.size
    return pairs, trust_values, n_users


def trust_model(pairs: IntArray, n_users: int, average: float, latent: bool = True) -> HingeLossMRF:
    """Ground the rules: variables are the trust of each pair, then Trusting and Trustworthy of every user.

    Without `latent` the model has only the rules of structural balance, and no variables of users.

    Examples
    --------
    A single pair in one direction has no triad and no opposite pair:

    >>> trust_model(np.array([[0, 1]]), 2, 0.9).n_terms, trust_model(np.array([[0, 1]]), 2, 0.9, latent=False).n_terms
    (8, 2)
    """
    n_pairs = len(pairs)
    trust_of_pair = Literal(np.arange(n_pairs))
    trusting, worthy = Literal(n_pairs + pairs[:, 0]), Literal(n_pairs + n_users + pairs[:, 1])
    rules: list[GroundRules] = []
    for directions, (first, second, third) in enumerate(triads(pairs, n_users)):
        for k, (a, b, c) in enumerate(_SIGNS):
            rules.append(implies([Literal(first, a), Literal(second, b)], Literal(third, c), 4 * directions + k))
    forward, backward = opposite_pairs(pairs, n_users)
    rules += [
        implies([Literal(forward)], Literal(backward), 16),
        implies([Literal(forward, positive=False)], Literal(backward, positive=False), 17),
        implies([], trust_of_pair, 18, observed=average),
        implies([], trust_of_pair.negated(), 19, observed=1.0 - average),  # trust -> average
    ]
    if not latent:
        return assemble(n_pairs, rules, BALANCE)
    rules += [
        implies([trusting], trust_of_pair, 20),
        implies([trust_of_pair], trusting, 21),
        implies([worthy], trust_of_pair, 22),
        implies([trust_of_pair], worthy, 23),
        implies([trusting, worthy], trust_of_pair, 24),
        implies([trusting.negated(), worthy.negated()], trust_of_pair.negated(), 25),
    ]
    return assemble(n_pairs + 2 * n_users, rules, RULES.splitlines())


def triads(pairs: IntArray, n_users: int) -> list[tuple[IntArray, IntArray, IntArray]]:
    """Return the indices of the pairs (A and B, B and C, A to C) of all triads, for each combination of directions.

    Examples
    --------
    >>> [index.tolist() for index in triads(np.array([[0, 1], [1, 2], [0, 2]]), 3)[0]]
    [[0], [1], [2]]
    """
    index_of = _PairIndex(pairs, n_users)
    forward = np.column_stack([pairs, np.arange(len(pairs))])
    backward = forward[:, [1, 0, 2]]
    triples = []
    for ab, bc in _DIRECTIONS:
        start, end = forward if ab == "A, B" else backward, forward if bc == "B, C" else backward
        end = end[np.argsort(end[:, 0], kind="stable")]
        first, last = (np.searchsorted(end[:, 0], start[:, 1], side=side) for side in ("left", "right"))
        width = last - first
        path = np.repeat(np.arange(len(start)), width)
        second = np.arange(path.size) - np.repeat(np.cumsum(width) - width - first, width)
        third = index_of(start[path, 0], end[second, 1])
        closed = third >= 0
        triples.append((start[path[closed], 2], end[second[closed], 2], third[closed]))
    return triples


def opposite_pairs(pairs: IntArray, n_users: int) -> tuple[IntArray, IntArray]:
    """Return the indices of the pairs that exist in both directions, and of their opposites.

    Examples
    --------
    >>> [index.tolist() for index in opposite_pairs(np.array([[0, 1], [1, 0], [1, 2]]), 3)]
    [[0, 1], [1, 0]]
    """
    opposite = _PairIndex(pairs, n_users)(pairs[:, 1], pairs[:, 0])
    both_ways = np.flatnonzero(opposite >= 0)
    return both_ways, opposite[both_ways]


class _PairIndex:
    """Index of each pair of users; -1 for pairs that do not exist."""

    def __init__(self, pairs: IntArray, n_users: int) -> None:
        key = pairs[:, 0] * n_users + pairs[:, 1]
        self._n_users, self._order = n_users, np.argsort(key, kind="stable")
        self._key = key[self._order]

    def __call__(self, first: IntArray, second: IntArray) -> IntArray:
        key = first * self._n_users + second
        position = np.searchsorted(self._key, key).clip(max=len(self._key) - 1)
        return np.where(self._key[position] == key, self._order[position], -1)


def make_fold(
    pairs: IntArray, trust_values: FloatArray, n_users: int, k: int, n_folds: int, has_latent: bool = True
) -> Fold:
    """Make fold k: learn from fold k + 1 given all others except k and k + 2, validate on k + 2, test on k.

    The validation statements are predicted from all others except fold k, the test statements from all others.
    """
    fold = _fold_of_pair(len(pairs), n_folds)
    tested, validated = fold == k, fold == (k + 2) % n_folds
    in_training = ~tested & ~validated
    labelled = fold[in_training] == (k + 1) % n_folds
    latent = np.full(2 * n_users if has_latent else 0, np.nan)
    values = trust_values[in_training]
    training = trust_model(pairs[in_training], n_users, float(values[~labelled].mean()), has_latent)
    conditioned = condition(training, np.concatenate([np.where(labelled, np.nan, values), latent]))
    truth = np.concatenate([values, latent])

    def scorer(present: NDArray[np.bool_], hidden: NDArray[np.bool_]) -> Callable[[FloatArray], float]:
        """Return the AuPR of hidden statements in the network of the statements that are present."""
        values, targets = np.where(hidden, np.nan, trust_values)[present], np.flatnonzero(hidden[present])
        whole = trust_model(pairs[present], n_users, float(np.nanmean(values)), has_latent)
        predictor = Predictor(whole, np.concatenate([values, latent]), _SURROGATE)
        distrusted = trust_values[hidden] == 0.0
        return lambda weights: area_under_precision(distrusted, 1.0 - predictor(weights)[targets])

    everything = np.ones(len(pairs), dtype=bool)
    return Fold(conditioned.model, truth[conditioned.free], scorer(everything, tested), scorer(~tested, validated))


def _fold_of_pair(n_pairs: int, n_folds: int) -> IntArray:
    return np.random.default_rng(0).permutation(n_pairs) % n_folds


def _baseline(
    score: Callable[[IntArray, FloatArray, int, IntArray], FloatArray],
    load: Callable[[], tuple[IntArray, FloatArray, int]],
    n_folds: int,
    _: Path,
) -> Finding:
    """Predict each fold from all others, the statements that our models observe in prediction."""
    pairs, trust_values, n_users = load()
    fold = _fold_of_pair(len(pairs), _N_FOLDS)
    scores = []
    for k in range(n_folds):
        observed = fold != k
        predicted = score(pairs[observed], trust_values[observed], n_users, pairs[~observed])
        scores.append(area_under_precision(trust_values[~observed] == 0.0, predicted))
    return Finding(with_interval(_SCORE, scores), n_folds, settings={"scores": scores})
