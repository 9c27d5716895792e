"""Simple baselines that stand beside our rows: log odds, regressions, label propagation, boosting of single pixels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, IntArray
from intarsia.metrics.pixels import count_errors
from intarsia_reproduction.experiment import Finding
from intarsia_reproduction.models.intervals import pooled_error

if TYPE_CHECKING:
    from intarsia_reproduction.models.image_fits import Pictures
    from intarsia_reproduction.models.mention_features import Passage


def user_log_odds(pairs: IntArray, trust: FloatArray, n_users: int, new_pairs: IntArray) -> FloatArray:
    """Return scores of distrust: log odds of the giver plus log odds of the receiver.

    Each user's fraction of distrust is smoothed by 1 to 16 statements of average trust. Their number is chosen by
    cross-validation inside the given statements.

    Examples
    --------
    User 0 trusts everybody, user 1 nobody:

    >>> pairs, trust = np.tile([[0, 1], [0, 2], [1, 0], [1, 2]], (5, 1)), np.tile([1.0, 1.0, 0.0, 0.0], 5)
    >>> scores = user_log_odds(pairs, trust, 3, np.array([[0, 2], [2, 2], [1, 2]]))
    >>> bool(scores[0] < scores[1] < scores[2])
    True
    """
    from sklearn.metrics import average_precision_score

    distrust = trust == 0.0
    candidates = (1.0, 2.0, 4.0, 8.0, 16.0)
    scores: dict[float, list[float]] = {n_added: [] for n_added in candidates}
    for learn, test in _inner_folds().split(pairs, distrust):
        for n_added in candidates:
            predicted = _log_odds(pairs[learn], distrust[learn], n_users, pairs[test], n_added)
            scores[n_added].append(average_precision_score(distrust[test], predicted))
    best = max(candidates, key=lambda n_added: float(np.mean(scores[n_added])))
    return _log_odds(pairs, distrust, n_users, new_pairs, best)


def _log_odds(
    pairs: IntArray, distrust: NDArray[np.bool_], n_users: int, new_pairs: IntArray, n_added: float
) -> FloatArray:
    average = float(distrust.mean())
    scores = np.zeros(len(new_pairs))
    for side in (0, 1):
        n = np.bincount(pairs[:, side], minlength=n_users) + n_added
        n_distrust = np.bincount(pairs[:, side], weights=distrust, minlength=n_users) + n_added * average
        scores += np.log(n_distrust / (n - n_distrust))[new_pairs[:, side]]
    return scores


def user_effects(pairs: IntArray, trust: FloatArray, n_users: int, new_pairs: IntArray) -> FloatArray:
    """Return scores of distrust by logistic regression with an effect for each giver and each receiver.

    The regularization is chosen by cross-validation inside the given statements.
    """
    from scipy import sparse
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV

    def one_hot(rows: IntArray) -> Any:
        columns = np.concatenate([rows[:, 0], n_users + rows[:, 1]]).astype(np.int32)  # liblinear needs 32 bits
        entries = (np.tile(np.arange(len(rows), dtype=np.int32), 2), columns)
        return sparse.csr_matrix((np.ones(columns.size), entries), shape=(len(rows), 2 * n_users))

    regression = LogisticRegression(solver="liblinear")
    grid = {"C": [0.1, 0.3, 1.0, 3.0, 10.0]}
    model = GridSearchCV(regression, grid, scoring="average_precision", cv=_inner_folds())
    model.fit(one_hot(pairs), trust == 0.0)
    return np.asarray(model.decision_function(one_hot(new_pairs)), dtype=np.float64)


def _inner_folds() -> Any:
    """Return shuffled folds: statements are sorted by giver, and unshuffled folds would separate the givers."""
    from sklearn.model_selection import StratifiedKFold

    return StratifiedKFold(5, shuffle=True, random_state=0)


def propagate_labels(edges: IntArray, values: FloatArray, prior: FloatArray) -> FloatArray:
    """Fill in unlabelled nodes of a graph: each is the mean of its neighbours (label propagation).

    Parameters
    ----------
    edges : int array (n_edges, 2)
        Pairs of nodes.
    values : float array (n_nodes, n_labels)
        Labels; rows of NaN are unlabelled.
    prior : float array (n_labels,)
        Values of nodes that are connected to no labelled node.

    Examples
    --------
    >>> values = np.array([[1.0], [np.nan], [np.nan], [0.0]])
    >>> propagate_labels(np.array([[0, 1], [1, 2], [2, 3]]), values, np.array([0.5])).round(3).ravel().tolist()
    [1.0, 0.667, 0.333, 0.0]
    """
    n = len(values)
    weight = np.zeros((n, n))
    np.add.at(weight, (edges[:, 0], edges[:, 1]), 1.0)
    np.add.at(weight, (edges[:, 1], edges[:, 0]), 1.0)
    free = np.isnan(values).any(axis=1)
    weak = 1e-6  # weight of the prior
    system = np.diag(weight[free].sum(axis=1) + weak) - weight[np.ix_(free, free)]
    completed = values.copy()
    completed[free] = np.linalg.solve(system, weight[np.ix_(free, ~free)] @ values[~free] + weak * prior)
    return completed


def explained_by_ridge(
    train: tuple[FloatArray, FloatArray], test: tuple[FloatArray, FloatArray], person: IntArray
) -> Finding:
    """Predict lower halves of faces from upper halves by ridge regression.

    The regularization is chosen by cross-validation over the persons of the training faces.
    """
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import GridSearchCV, GroupKFold

    grid = {"alpha": np.logspace(-2, 4, 13).tolist()}
    model = GridSearchCV(Ridge(), grid, scoring="neg_mean_squared_error", cv=GroupKFold(5))
    model.fit(*train, groups=person)
    error = float(np.mean((model.predict(test[0]).clip(0.0, 1.0) - test[1]) ** 2))
    variance = float(np.mean((test[1] - train[1].mean(axis=0)) ** 2))
    values = {"variance explained": 1.0 - error / variance, "mean squared error": error * 255.0**2}
    return Finding(values, len(test[0]), settings={"alpha": float(model.best_params_["alpha"])})


def best_antecedents(learn: Sequence[Passage], passages: Sequence[Passage]) -> list[IntArray]:
    """Cluster mentions by logistic regression over pairs: each mention joins its most probable earlier mention.

    A mention with no earlier mention of probability above 1/2 begins an entity.
    """
    from sklearn.linear_model import LogisticRegression

    X = np.concatenate([passage.pairs.values for passage in learn])
    is_match = np.concatenate([_same_entity(passage) for passage in learn])
    model = LogisticRegression(max_iter=1000).fit(X, is_match)
    clusterings = []
    for passage in passages:
        n = passage.pairs.n_records
        probability = np.zeros((n, n))
        probability[tuple(passage.pairs.pairs.T)] = model.predict_proba(passage.pairs.values)[:, 1]
        labels = np.arange(n)
        for mention in range(1, n):
            best = int(probability[:mention, mention].argmax())
            if probability[best, mention] > 0.5:
                labels[mention] = labels[best]
        clusterings.append(labels)
    return clusterings


def _same_entity(passage: Passage) -> NDArray[np.bool_]:
    first, second = passage.pairs.pairs.T
    return np.asarray(passage.entity[first] == passage.entity[second])


def boost_pixels(train: Pictures, test: Pictures, *, n_pixels: int, max_iter: int = 200) -> Finding:
    """Label each pixel by scikit-learn's gradient boosting on the features of the model, without neighbours.

    It learns from `n_pixels` labelled pixels, drawn at random from all training images, with default settings. The
    errors of each test image are stored for the intervals.
    """
    marginals, n_used = _fit_boosting(train, n_pixels, max_iter)
    step = max(1, len(train.features) // len(test.features))  # as many training images as test images
    sets = {"train error": train.take(range(0, len(train.features), step)), "test error": test}
    counts = {
        name: count_errors([marginals(features) for features in pictures.features], pictures.counted)
        for name, pictures in sets.items()
    }
    n = int(counts["test error"][:, 1].sum())
    return Finding(
        {name: pooled_error(count) for name, count in counts.items()},
        n,
        {"picture_errors": counts["test error"]},
        settings={"pixels": n_used, "max_iter": max_iter, "train error on every n-th image": step},
    )


def add_boosted_scores(
    train: Pictures, test: Pictures, *, n_pixels: int, n_folds: int = 2, max_iter: int = 200
) -> tuple[Pictures, Pictures]:
    """Append the log probabilities of gradient boosting to the features of each pixel.

    Those of a training image come from a model that was fitted to the other folds, so that they are as uncertain as
    those of a test image.
    """
    fold = np.arange(len(train.features)) % n_folds
    extended: list[Any] = [None] * len(train.features)
    for k in range(n_folds):
        marginals, _ = _fit_boosting(train.take(np.flatnonzero(fold != k).tolist()), n_pixels, max_iter)
        for i in np.flatnonzero(fold == k):
            extended[i] = _with_scores(train.features[i], marginals)
    marginals, _ = _fit_boosting(train, n_pixels, max_iter)
    tested = [_with_scores(features, marginals) for features in test.features]
    return replace(train, features=extended), replace(test, features=tested)


def _with_scores(features: Any, marginals: Callable[[Any], FloatArray]) -> NDArray[np.float32]:
    scores = np.log(np.maximum(marginals(features), 1e-4))
    return np.concatenate([np.asarray(features), scores], axis=2).astype(np.float32)


def _fit_boosting(train: Pictures, n_pixels: int, max_iter: int) -> tuple[Callable[[Any], FloatArray], int]:
    """Return a function from the features of an image to its class probabilities, and the number of pixels used."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    rng = np.random.default_rng(0)
    n_labelled = [int((np.asarray(labels) >= 0).sum()) for labels in train.labels]
    fraction = min(1.0, n_pixels / sum(n_labelled))
    X, y = [], []
    for features, labels in zip(train.features, train.labels, strict=True):
        in_sample = (np.asarray(labels) >= 0) & (rng.random(np.shape(labels)) < fraction)
        X.append(np.asarray(features)[in_sample])
        y.append(np.asarray(labels)[in_sample])
    model = HistGradientBoostingClassifier(max_iter=max_iter, early_stopping=False, random_state=0)
    model.fit(np.concatenate(X), np.concatenate(y))
    n_classes = int(model.classes_.max()) + 1

    def marginals(features: Any) -> FloatArray:
        array = np.asarray(features)
        predicted = np.zeros((*array.shape[:2], n_classes))
        predicted[..., model.classes_] = model.predict_proba(array.reshape(-1, array.shape[2])).reshape(
            *array.shape[:2], -1
        )
        return predicted

    return marginals, int(sum(map(len, y)))
