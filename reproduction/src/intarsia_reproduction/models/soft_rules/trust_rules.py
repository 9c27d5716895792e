"""Rules of structural balance between users who trust or distrust each other, and a regression on their triads."""

from __future__ import annotations

import numpy as np

from intarsia._core.validation import FloatArray, IntArray
from intarsia.softlogic import HingeLossMRF
from intarsia_reproduction.models.baselines import user_effects
from intarsia_reproduction.models.soft_rules.hinge_rules import GroundRules, Literal, assemble, implies

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


def trust_model(pairs: IntArray, n_users: int, prior: FloatArray | float, latent: bool = True) -> HingeLossMRF:
    """Ground the rules: variables are the trust of each pair, then Trusting and Trustworthy of every user.

    `prior` is Average('all'), or a value for each pair, which then replaces it. Without `latent` the model has only the
    rules of structural balance, and no variables of users.

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
        implies([], trust_of_pair, 18, observed=prior),
        implies([], trust_of_pair.negated(), 19, observed=1.0 - prior),  # trust -> prior
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


def user_effects_and_triads(pairs: IntArray, trust_values: FloatArray, n_users: int, new_pairs: IntArray) -> FloatArray:
    """Return scores of distrust by logistic regression on user effects, the opposite statement and triads.

    It is stacked: the features of each of five folds of the statements come from the other four. The regularization is
    chosen by cross-validation inside the statements.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, StratifiedKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    def all_features(pairs: IntArray, trust_values: FloatArray, new_pairs: IntArray) -> FloatArray:
        effects = user_effects(pairs, trust_values, n_users, new_pairs)
        return np.column_stack([effects, triad_features(pairs, trust_values, n_users, new_pairs)])

    features = np.zeros((len(pairs), 3 + 2 * len(_DIRECTIONS)))
    folds = StratifiedKFold(5, shuffle=True, random_state=1)
    for rest, hidden in folds.split(pairs, trust_values):
        features[hidden] = all_features(pairs[rest], trust_values[rest], pairs[hidden])
    regression = make_pipeline(StandardScaler(), LogisticRegression())
    grid = {"logisticregression__C": [0.01, 0.1, 1.0, 10.0]}
    model = GridSearchCV(regression, grid, scoring="average_precision", cv=folds).fit(features, trust_values == 0.0)
    new_features = all_features(pairs, trust_values, new_pairs)
    return np.asarray(model.decision_function(new_features), dtype=np.float64)


def triad_features(pairs: IntArray, trust_values: FloatArray, n_users: int, new_pairs: IntArray) -> FloatArray:
    """Return the opposite statement (trust, distrust), and the logarithm of the number of triads of each kind.

    The kinds are four combinations of directions, each for trust and for distrust. A triad of two known statements is
    for trust if both are of trust or both of distrust, otherwise for distrust.
    """
    n = len(pairs)
    everything = np.concatenate([pairs, new_pairs])
    sign = np.concatenate([2.0 * trust_values - 1.0, np.zeros(len(new_pairs))])  # 0: not known
    forward, backward = opposite_pairs(everything, n_users)
    opposite = np.zeros(len(everything))
    opposite[forward] = sign[backward]
    columns = [opposite[n:] > 0.0, opposite[n:] < 0.0]
    for first, second, third in triads(everything, n_users):
        balance = sign[first] * sign[second]
        for agreement in (1.0, -1.0):
            count = np.bincount(third[balance == agreement], minlength=len(everything))
            columns.append(np.log1p(count[n:]))
    return np.stack([np.asarray(column, dtype=np.float64) for column in columns], axis=1)
