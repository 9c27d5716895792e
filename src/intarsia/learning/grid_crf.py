"""Labelling of images: a conditional random field on the pixel grid, fitted for the inference it is used with."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from intarsia._validation import FloatArray, IntArray
from intarsia.exceptions import ConvergenceWarning, InvalidInputError
from intarsia.gradients.truncated import TruncatedGradient
from intarsia.graph import FactorGraph, from_edges, grid_graph
from intarsia.inference import InferenceMethod, Status
from intarsia.learning.example import Example, example
from intarsia.learning.image_data import as_states, check_edge_features, check_images, check_labels, find_classes
from intarsia.learning.lbfgs import LBFGS
from intarsia.learning.risk_minimizer import RiskMinimizer
from intarsia.models import LinearScores


class GridCRF(BaseEstimator):  # type: ignore[misc]
    r"""Labels of pixels from features of pixels and of neighbouring pairs, by a pairwise grid model.

    Scores are :math:`\theta_i = F u_i` and :math:`\theta_{ij} = G v_{ij}`. Weights start at those of the independent
    model (multinomial logistic regression of single pixels, G = 0) and are then fitted through the inference. With the
    truncated gradient the model predicts with the number of sweeps it was fitted for. No constant feature is added:
    give one, if the classes are to have a bias.

    Parameters
    ----------
    inference : str or InferenceMethod
        How scores become marginals.
    learner : RiskMinimizer, optional
        Loss, gradient, optimiser and ridge; by default `RiskMinimizer()`: clique logistic loss, truncated gradient.
    connectivity : {4, 8}
        Number of neighbours of an inner pixel.
    classes : int array, optional
        All labels there are; by default those in y.

    Attributes
    ----------
    classes_ : int array (k,)
        Labels, sorted.
    weights_ : float array
        F in C order, then G.
    node_weights_, edge_weights_ : float arrays (k, n_features), (k * k, n_edge_features)
        F and G.
    initial_weights_ : float array
        Those of the independent model, where the fit began.
    history_ : dict of arrays
        "risk", "gradient_norm", "seconds" and "evaluations" of each iteration.
    n_iter_, status_, risk_ : int, Status, float
        Iterations, how the fit ended (INTERRUPTED after Ctrl-C, with the best weights), and the risk reached.

    References
    ----------
    Domke2013, section 8.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = [np.repeat([[0, 1]], 4, axis=0).repeat(3, axis=1)] * 4
    >>> X = [labels[:, :, None] - 0.5 + rng.normal(size=(4, 6, 1)) for labels in y]
    >>> crf = GridCRF(learner=RiskMinimizer(ridge=0.01)).fit(X, y)
    >>> crf.predict(X)[0].shape, bool(crf.score(X, y) > 0.8)
    ((4, 6), True)
    """

    def __init__(
        self,
        *,
        inference: str | InferenceMethod = "tree_reweighted",
        learner: RiskMinimizer | None = None,
        connectivity: int = 4,
        classes: ArrayLike | None = None,
    ) -> None:
        self.inference = inference
        self.learner = learner
        self.connectivity = connectivity
        self.classes = classes

    def fit(self, X: Sequence[Any], y: Sequence[Any], edge_features: Sequence[Any] | None = None) -> GridCRF:
        """Fit the weights.

        Parameters
        ----------
        X : list of (H, W, n_features) arrays
            Images, of any sizes.
        y : list of (H, W) int arrays, or (H, W, n_classes) bool arrays
            Labels, -1 where hidden; or which classes are allowed.
        edge_features : list of (n_edges, n_edge_features) arrays or sparse matrices, optional
            In the order of the factors of `grid_graph`; by default one indicator for each direction.
        """
        here = "GridCRF.fit"
        learner = self._learner(here)
        images = check_images(X, here)
        labels = check_labels(y, images, here)
        classes = find_classes(labels, self.classes, here)
        states = as_states(labels, classes, here)
        if not any((s != -1).any() if s.ndim == 1 else not s.all() for s in states):
            raise InvalidInputError(f"{here}: all labels are hidden. Label some pixels.")
        edges = check_edge_features(edge_features, images, self._checked_connectivity(here), here)
        maps = self._score_maps(images, edges, classes.size)
        if not any(scores.graph.n_factors for scores in maps):
            raise InvalidInputError(
                f"{here}: every image is a single pixel, so none has neighbours. Give larger images."
            )
        examples = [example(scores, s) for scores, s in zip(maps, states, strict=True)]
        learner.risk(examples, self.inference)  # what does not fit is told before any work
        start, status = _independent_weights(examples, learner)
        if status is Status.INTERRUPTED:
            learner = RiskMinimizer(**learner.get_params(deep=False) | {"optimizer": LBFGS(max_iter=0)})
        with warnings.catch_warnings():
            if status is Status.INTERRUPTED:
                warnings.simplefilter("ignore", ConvergenceWarning)
            found = learner.minimize(examples, self.inference, start)
        # Nothing is stored before everything has worked.
        self.classes_ = classes
        self.n_features_in_ = images[0].shape[2]
        self.n_edge_features_ = int(edges[0].shape[1])
        self.initial_weights_ = start
        self.weights_ = found.point
        self.history_ = found.history
        self.n_iter_ = found.n_iter
        self.risk_ = found.value
        self.status_ = Status.INTERRUPTED if status is Status.INTERRUPTED else found.status
        return self

    @property
    def node_weights_(self) -> FloatArray:
        """F, a row for each class."""
        check_is_fitted(self, "weights_")
        k, p = self.classes_.size, self.n_features_in_
        return self.weights_[: k * p].reshape(k, p)

    @property
    def edge_weights_(self) -> FloatArray:
        """G, a row for each pair of classes in C order."""
        check_is_fitted(self, "weights_")
        k, p = self.classes_.size, self.n_features_in_
        return self.weights_[k * p :].reshape(k * k, self.n_edge_features_)

    def predict_marginals(self, X: Sequence[Any], edge_features: Sequence[Any] | None = None) -> list[FloatArray]:
        """Probability of each class at each pixel: a list of (H, W, n_classes) arrays."""
        return self._marginals(X, edge_features, "GridCRF.predict_marginals")

    def predict(self, X: Sequence[Any], edge_features: Sequence[Any] | None = None) -> list[IntArray]:
        """Label of the largest marginal at each pixel (Domke2013 Eq. 2): a list of (H, W) arrays."""
        found = self._marginals(X, edge_features, "GridCRF.predict")
        return [self.classes_[marginals.argmax(axis=2)] for marginals in found]

    def score(self, X: Sequence[Any], y: Sequence[Any], edge_features: Sequence[Any] | None = None) -> float:
        """Share of the observed pixels, over all images, whose label is predicted."""
        here = "GridCRF.score"
        check_is_fitted(self, "weights_")
        labels = check_labels(y, check_images(X, here, self.n_features_in_), here)
        truth = [_single_states(states) for states in as_states(labels, self.classes_, here)]
        n_observed = sum(int((states >= 0).sum()) for states in truth)
        if n_observed == 0:
            raise InvalidInputError(f"{here}: all labels are hidden. Give labels of some pixels.")
        n_right = 0
        for states, found in zip(truth, self._marginals(X, edge_features, here), strict=True):
            n_right += int((found.reshape(-1, self.classes_.size).argmax(axis=1) == states).sum())
        return n_right / n_observed

    def _marginals(self, X: Sequence[Any], edge_features: Sequence[Any] | None, here: str) -> list[FloatArray]:
        check_is_fitted(self, "weights_")
        learner = self._learner(here)
        images = check_images(X, here, self.n_features_in_)
        edges = check_edge_features(
            edge_features, images, self._checked_connectivity(here), here, self.n_edge_features_
        )
        maps = self._score_maps(images, edges, self.classes_.size)

        def one(scores: LinearScores) -> FloatArray:
            mu = learner.marginals(scores.graph, scores.theta(self.weights_), self.inference)
            return mu[: int(scores.graph.variable_ptr[-1])]

        found = Parallel(n_jobs=learner.n_jobs, require="sharedmem")(delayed(one)(scores) for scores in maps)
        return [mu.reshape(*image.shape[:2], -1) for mu, image in zip(found, images, strict=True)]

    def _score_maps(self, images: list[FloatArray], edges: list[Any], n_states: int) -> list[LinearScores]:
        graphs: dict[Any, FactorGraph] = {}  # images of one size share a graph and all that is prepared for it
        maps = []
        for image, features in zip(images, edges, strict=True):
            size = image.shape[0], image.shape[1]
            if size not in graphs:
                graphs[size] = grid_graph(*size, n_states, connectivity=self.connectivity)
            maps.append(LinearScores(graphs[size], image.reshape(-1, image.shape[2]), features))
        return maps

    def _learner(self, here: str) -> RiskMinimizer:
        if self.learner is None:
            return RiskMinimizer()
        if not isinstance(self.learner, RiskMinimizer):
            raise InvalidInputError(
                f"{here}: learner must be a RiskMinimizer or None, got {type(self.learner).__name__}."
            )
        return self.learner

    def _checked_connectivity(self, here: str) -> int:
        if self.connectivity not in (4, 8):
            raise InvalidInputError(f"{here}: connectivity is 4 or 8, got {self.connectivity!r}.")
        return self.connectivity


def _single_states(states: NDArray[Any]) -> NDArray[Any]:
    """State of each pixel, -1 where it is not a single one."""
    if states.ndim == 1:
        return states
    return np.where(states.sum(axis=1) == 1, states.argmax(axis=1), -1)


def _independent_weights(examples: list[Example], learner: RiskMinimizer) -> tuple[FloatArray, Status]:
    """Weights of logistic regression of single pixels, with 0 for all edges; and how that ended."""
    apart = []
    for one in examples:
        scores: Any = one.scores
        graph = from_edges(np.full(scores.graph.n_variables, scores.n_states), np.empty((0, 2), np.int64))
        alone = LinearScores(graph, scores.node_features, np.empty((0, 0)))
        apart.append(example(alone, one.labels.allowed))
    simple = RiskMinimizer(
        loss="univariate_logistic",
        gradient=TruncatedGradient(n_iter=0),
        optimizer=LBFGS(max_iter=200, tol=1e-4),
        ridge=learner.ridge,
        n_jobs=learner.n_jobs,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a start need not be exact
        found = simple.minimize(apart, "tree_reweighted")
    weights = np.zeros(examples[0].scores.n_weights)
    weights[: found.point.size] = found.point
    return weights, found.status
