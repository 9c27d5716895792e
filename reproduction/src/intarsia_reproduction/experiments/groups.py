"""Latent groups in a social network (Bach2015, section 4), on a generated network and the karate club."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, IntArray
from intarsia.exceptions import ConvergenceWarning
from intarsia.softlogic import (
    ConsensusADMM,
    EntropyPair,
    HingeLossMRF,
    PairedDual,
    ProjectedSubgradient,
    QuadraticPrior,
    SurrogateByRole,
    condition,
)
from intarsia_reproduction.experiment import Experiment, Finding, Task
from intarsia_reproduction.models.baselines import propagate_labels
from intarsia_reproduction.models.soft_rules.hinge_rules import Literal, assemble, implies
from intarsia_reproduction.models.soft_rules.latent_diagnosis import (
    LINK_FIGURES,
    STEP_FIGURES,
    choose_link_weight,
    compare_steps,
    learn_last_rule,
)
from intarsia_reproduction.models.soft_rules.latent_learning import (
    METHODS,
    Comparison,
    Fold,
    Predictor,
    area_under_precision,
    draw_curves,
    method_tasks,
    with_interval,
)
from intarsia_reproduction.models.soft_rules.social_groups import SocialGroups, make_social_groups

# The rules that the arrays represent. Each has a weight for every constant, the last has a single weight. The latent
# variable Red(U) is 1 in one group and 0 in the other.
RULES = """
w(tag):    UsesTag(U, 'tag') -> Red(U) ^2
w(tag):    UsesTag(U, 'tag') -> !Red(U) ^2
w(top):    User(U) & Red(U) -> Interacts(U, 'top') ^2
w(top):    User(U) & !Red(U) -> Interacts(U, 'top') ^2
w:         Linked(U, V) & Red(U) -> Red(V) ^2
"""

# Groups are symmetric. Interactions are rare, so without evidence they are false: a prior towards 0. The weights of the
# surrogates, l2 and the initial weights below were chosen on networks drawn with other seeds.
_SURROGATE = SurrogateByRole(latent=EntropyPair(weight=0.1), labelled=QuadraticPrior(weight=0.5))
_L2, _STEP = 0.5, 0.5

# The link rule has only latent atoms. Its violations with clamped labels are larger than with free labels, because free
# latent variables agree with each other whatever the links say, so learning lowers its weight to 0 (see the row "link
# rule learned too"). Its weight therefore stays at its initial value.
# Initial weights. From equal weights the two groups may stay identical, so red is the group of the first top user.
_TAG, _TOP, _FIRST_RED, _FIRST_OTHER, _LINK = 1.0, 0.3, 1.0, 0.0, 1.0
_FROM_EQUAL = ("primal", "em", "paired_1", "paired_10")  # methods that are also started from equal weights


def groups(quick: bool = False, data: Path | None = None) -> Experiment:
    """Return the experiment that predicts interactions with top users through unlabelled groups.

    Hashtags and links are observed. The Twitter data of the paper are not public. We use a generated network of the
    same kind: 300 users, 30 hashtags, 20 top users, ten folds over the users. The quick version has 150 users, 18
    hashtags, 10 top users and one fold.

    Examples
    --------
    >>> [task.key for task in groups(quick=True).tasks][:3]
    ['primal', 'em', 'paired_1']
    """
    n_folds = 1 if quick else 10

    @cache
    def network() -> SocialGroups:
        return make_social_groups(150, 18, 10) if quick else make_social_groups()

    comparison = Comparison(
        folds=lambda k: make_fold(network(), k, 5 if quick else 10),
        n_folds=n_folds,
        surrogate=_SURROGATE,
        l2=_L2,
        step_size=_STEP,
        budget=4500 if quick else 10000,
        score_name="AuPR",
        n_points=12 if quick else 30,
        has_validation=True,
    )
    tasks = [
        *method_tasks(comparison),
        Task(
            "equal",
            "from equal weights",
            {f"{METHODS[key]}, AuPR": None for key in _FROM_EQUAL},
            "value",
            lambda path: from_equal_weights(comparison),
            significant=4,
        ),
        Task(
            "learned-link",
            "paired-dual, N = 1, link rule learned too",
            dict.fromkeys(LINK_FIGURES),
            "value",
            lambda path: learn_last_rule(comparison, _LINK),
            significant=4,
        ),
        Task(
            "steps",
            "copies and consensus compared at nine pairs of step sizes",
            dict.fromkeys(STEP_FIGURES),
            "settings",
            lambda path: compare_steps(comparison, 1000 if quick else 1500),
        ),
        Task("camps", "hidden camps of the network", {"accuracy": None}, "share", lambda path: camps(network(), path)),
        Task("karate", "karate club", {"accuracy": None}, "share", karate),
        Task(
            "karate-chosen",
            "karate club, link weight chosen on generated clubs",
            {"accuracy": None},
            "share",
            karate_with_chosen_weight,
        ),
        Task(
            "karate-observed",
            "karate club, groups of the two leaders observed, link rule only",
            {"accuracy": None},
            "share",
            karate_with_observed_leaders,
        ),
        Task(
            "karate-learned",
            "karate club, link rule learned too",
            {"accuracy": None},
            "share",
            partial(karate, learn_links=True),
        ),
        Task(
            "propagation",
            "baseline: label propagation over the links",
            {"AuPR": None},
            "value",
            lambda path: propagated_interactions(network(), n_folds, 5 if quick else 10),
            significant=4,
        ),
        Task(
            "tags-regression",
            "baseline: logistic regression on hashtags",
            {"AuPR": None},
            "value",
            lambda path: interactions_by_tags(network(), n_folds, 5 if quick else 10),
            significant=4,
        ),
        Task(
            "camps-propagation",
            "baseline: hidden camps by label propagation from two top users",
            {"accuracy": None},
            "share",
            lambda path: propagated_camps(network()),
        ),
        Task(
            "karate-propagation",
            "baseline: karate club by label propagation from the two leaders",
            {"accuracy": None},
            "share",
            propagated_karate,
        ),
    ]
    return Experiment(
        "groups",
        "Latent groups in a social network (Bach2015, section 4)",
        tasks,
        lambda findings: draw_curves(findings, "groups", "Latent groups", "AuPR"),
        "a generated network of two camps, and the karate club that comes with the package",
        question="Do rules recover the groups of users without any labels, and which learner is fastest?",
    )


def group_model(tags: NDArray[np.bool_], n_top: int, links: IntArray, link_weight: float = _LINK) -> HingeLossMRF:
    """Ground the rules: variable u is Red(u), variable n_users + u n_top + t is Interacts(u, t).

    The model has the initial weights of learning.
    """
    n_users, n_tags = tags.shape
    user, tag = np.nonzero(tags)
    who, top = np.divmod(np.arange(n_users * n_top), n_top)
    red, meets = Literal(who), Literal(n_users + who * n_top + top)
    first = 2 * n_tags
    link = first + 2 * n_top
    rules = [
        implies([], Literal(user), tag),
        implies([], Literal(user, positive=False), n_tags + tag),
        implies([red], meets, first + top),
        implies([red.negated()], meets, first + n_top + top),
        implies([Literal(links[:, 0])], Literal(links[:, 1]), link),
        implies([Literal(links[:, 1])], Literal(links[:, 0]), link),
    ]
    names = [
        *(f"tag {h} -> red" for h in range(n_tags)),
        *(f"tag {h} -> not red" for h in range(n_tags)),
        *(f"red -> top {t}" for t in range(n_top)),
        *(f"not red -> top {t}" for t in range(n_top)),
        "linked",
    ]
    start = np.concatenate([np.full(2 * n_tags, _TAG), np.full(2 * n_top, _TOP), [link_weight]])
    start[[first, first + n_top]] = _FIRST_RED, _FIRST_OTHER
    return assemble(n_users * (1 + n_top), rules, names).with_weights(start)


def make_fold(network: SocialGroups, k: int, n_folds: int) -> Fold:
    """Make fold k: learn from users outside folds k and k + 1, validate on fold k + 1, test on fold k.

    Validation users are added to the training users as users without known interactions; test users are predicted in
    the whole network, with the interactions of all others.
    """
    held_out, validated = (
        _held_out(len(network.top), k, n_folds),
        _held_out(len(network.top), (k + 1) % n_folds, n_folds),
    )
    in_training = ~held_out & ~validated
    number = np.cumsum(in_training) - 1
    inside = in_training[network.links].all(axis=1)
    model = group_model(network.tags[in_training], network.top.shape[1], number[network.links[inside]])
    labels = np.concatenate(
        [np.full(int(in_training.sum()), np.nan), network.top[in_training].reshape(-1).astype(np.float64)]
    )
    trainable = np.arange(model.n_groups) < model.n_groups - 1  # all but the link rule
    everybody = np.ones(len(network.top), dtype=bool)
    return Fold(
        model,
        labels,
        _scorer(network, everybody, held_out),
        _scorer(network, ~held_out, validated),
        trainable,
    )


def _scorer(
    network: SocialGroups, users: NDArray[np.bool_], hidden: NDArray[np.bool_]
) -> Callable[[FloatArray], float]:
    """Return a function from weights to the AuPR of the interactions of hidden users in the network of some users."""
    n, number = int(users.sum()), np.cumsum(users) - 1
    links = number[network.links[users[network.links].all(axis=1)]]
    model = group_model(network.tags[users], network.top.shape[1], links)
    observed = np.where(hidden[users, None], np.nan, network.top[users]).reshape(-1)
    predictor = Predictor(model, np.concatenate([np.full(n, np.nan), observed]), _SURROGATE)
    truth, targets = network.top[hidden].reshape(-1), n + np.flatnonzero(np.isnan(observed))
    return lambda weights: area_under_precision(truth, predictor(weights)[targets])


def _held_out(n_users: int, k: int, n_folds: int) -> NDArray[np.bool_]:
    return np.asarray(np.random.default_rng(0).permutation(n_users) % n_folds == k)


def from_equal_weights(comparison: Comparison) -> Finding:
    """Compute the final scores if all weights start at 1, so that only chance breaks the symmetry of the groups."""
    scores: dict[str, list[float]] = {key: [] for key in _FROM_EQUAL}
    for k in range(comparison.n_folds):
        fold = comparison.folds(k)
        for key in _FROM_EQUAL:
            fit = comparison.learner(key).fit(
                fold.model, fold.labels, start=np.ones(fold.model.n_groups), trainable=fold.trainable
            )
            scores[key].append(fold.score(fit.history["weights"][-1]))
    values = {f"{METHODS[key]}, AuPR": float(np.mean(scores[key])) for key in _FROM_EQUAL}
    return Finding(values, comparison.n_folds, {}, {"scores": scores})


def karate(checkpoint: Path, learn_links: bool = False, link_weight: float = _LINK) -> Finding:
    """Recover the factions of the karate club: ties to the two leaders are labelled, other ties are observed."""
    from intarsia.datasets import load_karate_club

    club = load_karate_club()
    leaders = np.array([0, 33])
    others = np.setdiff1d(np.arange(34), leaders)
    number = np.full(34, -1)
    number[others] = np.arange(32)
    tied = np.zeros((34, 34))
    tied[club.edges[:, 0], club.edges[:, 1]] = tied[club.edges[:, 1], club.edges[:, 0]] = 1.0
    inside = ~np.isin(club.edges, leaders).any(axis=1)
    model = group_model(np.zeros((32, 0), dtype=bool), 2, number[club.edges[inside]], link_weight)
    labels = np.concatenate([np.full(32, np.nan), tied[np.ix_(others, leaders)].reshape(-1)])
    finding = _two_groups(model, labels, club.faction[others], learn_links)
    finding.settings["wrong members"] = others[finding.settings.pop("wrong")].tolist()
    return finding


def karate_with_observed_leaders(checkpoint: Path) -> Finding:
    """Infer the factions by the link rule alone, with the groups of the two leaders observed.

    The minimum of the squared link rule in both directions is the solution of label propagation.
    """
    from intarsia.datasets import load_karate_club

    club = load_karate_club()
    first, second = (Literal(club.edges[:, end]) for end in (0, 1))
    model = assemble(34, [implies([first], second, 0), implies([second], first, 0)], ["linked"])
    observed = np.full(34, np.nan)
    observed[[0, 33]] = 1.0, 0.0
    conditioned = condition(model, observed)
    red = ConsensusADMM(tol=1e-6).solve(conditioned.model).x
    finding = _accuracy(red < 0.5, club.faction[conditioned.free])
    wrong = conditioned.free[finding.settings["wrong"]].tolist()
    return replace(finding, arrays={"latent": red}, settings={"wrong members": wrong})


def karate_with_chosen_weight(checkpoint: Path) -> Finding:
    """Recover the factions with the weight of the link rule that is best on generated clubs of the same size."""
    weight, accuracies = choose_link_weight(_accuracy_on_generated_club)
    finding = karate(checkpoint, link_weight=weight)
    return replace(finding, settings=finding.settings | {"link weight": weight, "on generated clubs": accuracies})


def _accuracy_on_generated_club(weight: float, seed: int) -> float:
    """Return the accuracy on a generated network of 32 users and two top users, without hashtags."""
    network = make_social_groups(32, 3, 2, random_state=seed)
    model = group_model(np.zeros((32, 0), dtype=bool), 2, network.links, weight)
    labels = np.concatenate([np.full(32, np.nan), network.top.reshape(-1).astype(np.float64)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a weight may be too large or too small
        return _two_groups(model, labels, network.camp).values["accuracy"]


def camps(network: SocialGroups, checkpoint: Path) -> Finding:
    """Learn from all users, and compute how many are assigned to their true group."""
    model = group_model(network.tags, network.top.shape[1], network.links)
    labels = np.concatenate([np.full(network.camp.size, np.nan), network.top.reshape(-1).astype(np.float64)])
    return _two_groups(model, labels, network.camp)


def _two_groups(model: HingeLossMRF, labels: FloatArray, truth: IntArray, learn_links: bool = False) -> Finding:
    """Learn by paired-dual learning, and compare the latent variables with the true groups."""
    optimizer = ProjectedSubgradient(step_size=_STEP, adagrad=False, max_iter=500, average=False)
    trainable = np.arange(model.n_groups) < model.n_groups - (not learn_links)
    learner = PairedDual(surrogate=_SURROGATE, l2=_L2, optimizer=optimizer)
    fit = learner.fit(model, labels, trainable=trainable)
    finding = _accuracy(fit.latent < 0.5, truth)
    settings = {"updates": fit.n_iter, "admm_iterations": fit.n_admm_iter, **finding.settings}
    return replace(finding, arrays={"latent": fit.latent}, settings=settings)


# ---------------------------------------------------------------- baselines without rules


def propagated_interactions(network: SocialGroups, n_run: int, n_folds: int) -> Finding:
    """Predict the interactions of held-out users as means over their neighbours, by label propagation."""

    def predict(held_out: NDArray[np.bool_]) -> FloatArray:
        values = np.where(held_out[:, None], np.nan, network.top.astype(np.float64))
        return propagate_labels(network.links, values, network.top[~held_out].mean(axis=0))[held_out]

    return _score_folds(network, predict, n_run, n_folds)


def interactions_by_tags(network: SocialGroups, n_run: int, n_folds: int) -> Finding:
    """Predict the interactions of held-out users by a logistic regression on hashtags for each top user."""
    from sklearn.linear_model import LogisticRegression

    def predict(held_out: NDArray[np.bool_]) -> FloatArray:
        scores = np.zeros((int(held_out.sum()), network.top.shape[1]))
        for t, truth in enumerate(network.top[~held_out].T):
            if truth.any() and not truth.all():
                model = LogisticRegression().fit(network.tags[~held_out], truth)
                scores[:, t] = model.predict_proba(network.tags[held_out])[:, 1]
            else:
                scores[:, t] = truth.mean()
        return scores

    return _score_folds(network, predict, n_run, n_folds)


def _score_folds(
    network: SocialGroups, predict: Callable[[NDArray[np.bool_]], FloatArray], n_run: int, n_folds: int
) -> Finding:
    scores = []
    for k in range(n_run):
        held_out = _held_out(len(network.top), k, n_folds)
        scores.append(area_under_precision(network.top[held_out].reshape(-1), predict(held_out).reshape(-1)))
    return Finding(with_interval("AuPR", scores), n_run, settings={"scores": scores})


def propagated_camps(network: SocialGroups) -> Finding:
    """Propagate the labels of the first two top users over interactions, hashtags and links."""
    n_users, n_top = network.top.shape
    user, top = np.nonzero(network.top)
    tagger, tag = np.nonzero(network.tags)
    edges = np.concatenate(
        [
            network.links,
            np.column_stack([user, n_users + top]),
            np.column_stack([tagger, n_users + n_top + tag]),
        ]
    )
    values = np.full((n_users + n_top + network.tags.shape[1], 1), np.nan)
    values[[n_users, n_users + 1], 0] = 0.0, 1.0
    second = propagate_labels(edges, values, np.array([0.5]))[:n_users, 0]
    # One seed may be better connected than the other, so the threshold is the median.
    return _accuracy(second > np.median(second), network.camp)


def propagated_karate(checkpoint: Path) -> Finding:
    """Propagate the labels of the two leaders of the karate club over all ties."""
    from intarsia.datasets import load_karate_club

    club = load_karate_club()
    values = np.full((34, 1), np.nan)
    values[[0, 33], 0] = 0.0, 1.0
    others = np.setdiff1d(np.arange(34), [0, 33])
    second = propagate_labels(club.edges, values, np.array([0.5]))[others, 0]
    return _accuracy(second > 0.5, club.faction[others])


def _accuracy(predicted: NDArray[np.bool_], truth: IntArray) -> Finding:
    """Return the accuracy with a 95 % Wilson interval; the names of the two groups are arbitrary."""
    from scipy.stats import binomtest

    right = predicted == (truth == 1)
    right = right if right.mean() >= 0.5 else ~right
    interval = binomtest(int(right.sum()), right.size).proportion_ci(method="wilson")
    values = with_interval("accuracy", [float(right.mean())], (float(interval.low), float(interval.high)))
    return Finding(values, truth.size, settings={"wrong": np.flatnonzero(~right).tolist()})
