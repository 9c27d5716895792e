"""Trust between users of Epinions (Bach2015, section 4): structural balance with latent trusting and trustworthy."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from intarsia._core.validation import FloatArray, IntArray
from intarsia.softlogic import EntropyPair, HingeLossMRF, SurrogateByRole
from intarsia.softlogic.hinge.conditioning import condition
from intarsia_reproduction.experiment import Experiment
from intarsia_reproduction.models.hinge_rules import GroundRules, Literal, assemble, implies
from intarsia_reproduction.models.latent_learning import (
    Comparison,
    Fold,
    Predictor,
    area_under_precision,
    draw_curves,
    method_tasks,
)

_SIGNS = ((True, True, True), (True, False, False), (False, True, False), (False, False, True))

# Balance of triads (Huang2013): A's word on C agrees with the words between A and B and between B and C, in the four
# ways their arrows may point and with both signs; the last six of all are ours for the latent attributes.
_WAYS = (("A, B", "B, C"), ("A, B", "C, B"), ("B, A", "B, C"), ("B, A", "C, B"))
BALANCE = (
    *(
        f"w: Knows({one}) & Knows({two}) & Knows(A, C) & {a}Trusts({one}) & {b}Trusts({two}) -> {c}Trusts(A, C) ^2"
        for one, two in _WAYS
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

# Everything is two-sided. The pull on the attributes is small beside the weights that learning starts from: where it is
# not, they end in the middle and explain nothing. Chosen by a fold inside the training data of the first fold, which
# the other folds test on.
_SURROGATE = SurrogateByRole(latent=EntropyPair(weight=0.05), labelled=EntropyPair(weight=2.0))
_L2, _STEP = 1.0, 1.0
_N_FOLDS = 8


def trust(quick: bool = False, data: Path | None = None) -> Experiment:
    """Which users of Epinions distrust which, from the words of others, through two latent attributes of every user.

    Eight folds over the 8,675 statements. To predict a fold, the next one is labelled and the other six are observed
    while learning; all seven are observed while predicting. Quick: the 300 users who said and heard most, one fold.

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
        score_name="AuPR of distrust",
        n_points=12 if quick else 30,
    )
    return Experiment(
        "trust",
        "Trust in a social network with latent attributes (Bach2015, section 4)",
        method_tasks(comparison),
        lambda found: draw_curves(found, "trust", "Trust", "AuPR of distrust"),
        "8,675 statements of trust or distrust between 2,000 users of Epinions, 701 of distrust",
        question="Who trusts whom: do latent attributes of people tell, and which learner gets there first?",
    )


def _load(quick: bool, data: Path | None) -> tuple[IntArray, FloatArray, int]:
    from intarsia_reproduction.datasets import load_epinions

    network = load_epinions(data)
    pairs, said = network.pairs, network.trust.astype(np.float64)
    other = pairs[:, 0] != pairs[:, 1]
    pairs, said, n_users = pairs[other], said[other], network.n_users
    if quick:
        busy = np.argsort(-np.bincount(pairs.reshape(-1), minlength=n_users), kind="stable")[:300]
        number = np.full(n_users, -1)
        number[busy] = np.arange(busy.size)
        kept = (number[pairs] >= 0).all(axis=1)
        pairs, said, n_users = number[pairs[kept]], said[kept], busy.size
    return pairs, said, n_users


def trust_model(pairs: IntArray, n_users: int, average: float) -> HingeLossMRF:
    """The rules grounded: variables are the pairs' trust, then Trusting and Trustworthy of every user.

    Examples
    --------
    One pair knows each other in one direction only, so that no triad and no return is grounded:

    >>> trust_model(np.array([[0, 1]]), 2, 0.9).n_terms
    8
    """
    n_pairs = len(pairs)
    said = Literal(np.arange(n_pairs))
    trusting, worthy = Literal(n_pairs + pairs[:, 0]), Literal(n_pairs + n_users + pairs[:, 1])
    rules: list[GroundRules] = []
    for way, (first, second, third) in enumerate(triads(pairs, n_users)):
        for k, (a, b, c) in enumerate(_SIGNS):
            rules.append(implies([Literal(first, a), Literal(second, b)], Literal(third, c), 4 * way + k))
    there, back = returns(pairs, n_users)
    rules += [
        implies([Literal(there)], Literal(back), 16),
        implies([Literal(there, positive=False)], Literal(back, positive=False), 17),
        implies([], said, 18, given=average),
        implies([], said.negated(), 19, given=1.0 - average),  # the same as said -> average
        implies([trusting], said, 20),
        implies([said], trusting, 21),
        implies([worthy], said, 22),
        implies([said], worthy, 23),
        implies([trusting, worthy], said, 24),
        implies([trusting.negated(), worthy.negated()], said.negated(), 25),
    ]
    return assemble(n_pairs + 2 * n_users, rules, RULES.splitlines())


def triads(pairs: IntArray, n_users: int) -> list[tuple[IntArray, IntArray, IntArray]]:
    """Numbers of the pairs (between A and B, between B and C, from A to C), for each of the four ways.

    Examples
    --------
    >>> [one.tolist() for one in triads(np.array([[0, 1], [1, 2], [0, 2]]), 3)[0]]
    [[0], [1], [2]]
    """
    number_of = _Numbers(pairs, n_users)
    ahead = np.column_stack([pairs, np.arange(len(pairs))])
    back = ahead[:, [1, 0, 2]]
    found = []
    for one, two in _WAYS:
        start, end = ahead if one == "A, B" else back, ahead if two == "B, C" else back
        end = end[np.argsort(end[:, 0], kind="stable")]
        first, last = (np.searchsorted(end[:, 0], start[:, 1], side=side) for side in ("left", "right"))
        width = last - first
        path = np.repeat(np.arange(len(start)), width)
        at = np.arange(path.size) - np.repeat(np.cumsum(width) - width - first, width)
        third = number_of(start[path, 0], end[at, 1])
        closed = third >= 0
        found.append((start[path[closed], 2], end[at[closed], 2], third[closed]))
    return found


def returns(pairs: IntArray, n_users: int) -> tuple[IntArray, IntArray]:
    """Numbers of the pairs that exist in both directions, and of their opposites.

    Examples
    --------
    >>> [one.tolist() for one in returns(np.array([[0, 1], [1, 0], [1, 2]]), 3)]
    [[0, 1], [1, 0]]
    """
    back = _Numbers(pairs, n_users)(pairs[:, 1], pairs[:, 0])
    there = np.flatnonzero(back >= 0)
    return there, back[there]


class _Numbers:
    """The number of each pair; -1 where there is none."""

    def __init__(self, pairs: IntArray, n_users: int) -> None:
        key = pairs[:, 0] * n_users + pairs[:, 1]
        self._n_users, self._order = n_users, np.argsort(key, kind="stable")
        self._key = key[self._order]

    def __call__(self, first: IntArray, second: IntArray) -> IntArray:
        wanted = first * self._n_users + second
        at = np.searchsorted(self._key, wanted).clip(max=len(self._key) - 1)
        return np.where(self._key[at] == wanted, self._order[at], -1)


def make_fold(pairs: IntArray, said: FloatArray, n_users: int, k: int, n_folds: int) -> Fold:
    """Learn from the next fold given all others but k; predict k given all others."""
    fold = np.random.default_rng(0).permutation(len(pairs)) % n_folds
    latent = np.full(2 * n_users, np.nan)
    seen = fold != k
    labelled = fold[seen] == (k + 1) % n_folds
    values = said[seen]
    average = float(values[~labelled].mean())
    training = trust_model(pairs[seen], n_users, average)
    given = condition(training, np.concatenate([np.where(labelled, np.nan, values), latent]))
    truth = np.concatenate([values, latent])
    whole = trust_model(pairs, n_users, float(values.mean()))
    predictor = Predictor(whole, np.concatenate([np.where(seen, said, np.nan), latent]), _SURROGATE)
    asked = np.flatnonzero(~seen)
    distrusted = said[asked] == 0.0

    def score(weights: FloatArray) -> float:
        return area_under_precision(distrusted, 1.0 - predictor(weights)[asked])

    return Fold(given.model, truth[given.free], score)
