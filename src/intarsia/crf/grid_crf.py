"""Image segmentation by a conditional random field on the pixel grid, trained through its approximate inference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from intarsia._core.error_context import entry_point
from intarsia._core.settings import check_fitted
from intarsia._core.transaction import transaction
from intarsia._core.validation import FloatArray
from intarsia.crf.crf import CRF
from intarsia.crf.crf_data import Data
from intarsia.crf.graph_data import TypeTable
from intarsia.crf.image_data import read_images
from intarsia.exceptions import InvalidInputError
from intarsia.graph import FactorGraph, grid_graph
from intarsia.inference import InferenceMethod
from intarsia.learning.learner import Learner
from intarsia.models.labelling import Layout
from intarsia.models.template_scores import Templates, TemplateScores


class GridCRF(CRF):
    r"""Conditional random field for image segmentation: labels of pixels from features of pixels and of pixel pairs.

    The scores (log-potentials) are :math:`\theta_i = F u_i` for pixel i and :math:`\theta_{ij} = G v_{ij}` for
    neighbouring pixels i and j. The weights start at those of the independent model (multinomial logistic regression of
    single pixels, G = 0) and are then trained through the approximate inference. With the truncated gradient,
    predictions use the same number of sweeps as training. No constant feature is added: include one if the classes
    should have a bias. Features in single precision remain in single precision.

    X is a list of (H, W, n_features) arrays of any sizes. Sparse images have three dimensions too, as
    `csr_array(...).reshape((H, W, n_features))` returns (SciPy 1.15 or newer), and remain sparse. Features of edges are
    passed as the argument `edge_features`, or X is a list of pairs (image, edge features), which also works in
    cross-validation and pipelines.

    Parameters
    ----------
    inference : str or InferenceMethod
        Inference method that computes marginals from scores.
    learner : str or Learner
        Learner that fits the weights; by default `RiskMinimizer()` with the clique logistic loss and the truncated
        gradient. Regularization and learning rate are settings of the learner.
    connectivity : {4, 8}
        Number of neighbours of an inner pixel.
    classes : array, optional
        All labels, in the order of the columns of marginals and of boolean labels. Default: the sorted labels in y.
    class_weight : None, "balanced" or dict label -> weight, optional
        Weight of a pixel by its label, for losses that are sums over variables or factors.
    decode : {"auto", "marginals", "map"}
        Whether to predict the most probable label of each pixel ("marginals") or the most probable joint labelling
        ("map", MAP inference). "auto" is "map" for margin learners (`StructuredPerceptron`, `StructuredSVM`) and
        "marginals" for others.
    warm_start : bool
        Whether `fit` continues from the present weights, with the same classes and features.
    random_state : int or Generator, optional
        If set, used instead of that of the learner; a Generator draws a new seed for each fit.
    n_jobs, verbose : optional
        If set, used instead of those of the learner.

    Attributes
    ----------
    classes_ : array (k,)
        Labels, in the order of the columns of marginals.
    weights_ : float array
        All weights in one vector: F in C order, then G.
    node_weights_, edge_weights_ : float arrays (k, n_features), (k * k, n_edge_features)
        Weights F of pixel features and G of edge features.
    initial_weights_ : float array
        Weights at the start of the fit: those of the independent model, unless `start` or `warm_start` sets others.
    templates_ : Templates
        Numbers of states and features.
    history_ : dict of arrays
        "risk", "gradient_norm", "seconds", "evaluations" and "n_examples" of each iteration.
    n_iter_, status_, risk_ : int, Status, float
        Number of iterations, status at the end of the fit, and final risk. After Ctrl-C the status is INTERRUPTED and
        the weights are the best so far; if no risk was computed before, it is NaN and the weights are those of the
        independent model.

    References
    ----------
    Domke2013, section 8.

    Examples
    --------
    >>> import numpy as np
    >>> from intarsia.learning import RiskMinimizer
    >>> rng = np.random.default_rng(0)
    >>> y = [np.repeat([[0, 1]], 4, axis=0).repeat(3, axis=1)] * 4
    >>> X = [labels[:, :, None] - 0.5 + rng.normal(size=(4, 6, 1)) for labels in y]
    >>> crf = GridCRF(learner=RiskMinimizer(l2=1.0)).fit(X, y)
    >>> crf.predict(X)[0].shape, bool(crf.score(X, y) > 0.8)
    ((4, 6), True)
    """

    def __init__(
        self,
        *,
        inference: str | InferenceMethod = "tree_reweighted",
        learner: str | Learner = "risk_minimizer",
        connectivity: int = 4,
        classes: Any = None,
        class_weight: Any = None,
        decode: str = "auto",
        warm_start: bool = False,
        random_state: int | np.random.Generator | None = None,
        n_jobs: int | None = None,
        verbose: bool | None = None,
    ) -> None:
        super().__init__(
            inference=inference,
            learner=learner,
            classes=classes,
            class_weight=class_weight,
            decode=decode,
            warm_start=warm_start,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.connectivity = connectivity

    @entry_point
    @transaction
    def fit(
        self,
        X: Sequence[Any],
        y: Sequence[Any],
        edge_features: Sequence[Any] | None = None,
        *,
        sample_weight: Any = None,
        validation: tuple[Any, Any] | None = None,
        start: Any = None,
    ) -> GridCRF:
        """Fit the weights to labelled images.

        Parameters
        ----------
        X : list of (H, W, n_features) arrays, dense or sparse, or of pairs (such an array, edge features)
            Images of any sizes.
        y : list of (H, W) arrays or nested lists, or (H, W, n_classes) bool arrays
            Labels: integers, with -1 for hidden (unlabelled) pixels, or strings, with None for hidden pixels; a
            frozenset is a set of allowed labels. Bool arrays mark the allowed classes.
        edge_features : list of (n_edges, n_edge_features) arrays or sparse matrices, optional
            Features of the edges, in the order of the factors of `grid_graph`. Default: one indicator per direction.
        sample_weight : (n_images,) array, optional
            Weight of each image.
        validation : pair (X, y), optional
            Images for early stopping of the learner; X is a list of pairs if there are edge features.
        start : float array, optional
            Initial weights in the layout of `weights_`. Default: those of the independent model.
        """
        return self._fit(X, y, edge_features, sample_weight, validation, start)

    @entry_point
    @transaction
    def partial_fit(
        self,
        X: Sequence[Any],
        y: Sequence[Any],
        classes: Any = None,
        edge_features: Sequence[Any] | None = None,
        *,
        sample_weight: Any = None,
    ) -> GridCRF:
        """Update the weights by one pass over these images, with a mini-batch optimizer.

        The first call needs all classes, as an argument or a setting, and starts from weights of 0.
        """
        return self._partial_fit(X, y, edge_features, classes, sample_weight)

    @entry_point
    def predict_marginals(self, X: Sequence[Any], edge_features: Sequence[Any] | None = None) -> list[FloatArray]:
        """Return the probability of each class at each pixel as a list of (H, W, n_classes) arrays."""
        return self._predict_marginals(X, edge_features)

    @entry_point
    def predict(self, X: Sequence[Any], edge_features: Sequence[Any] | None = None) -> list[Any]:
        """Return the label of each pixel as (H, W) arrays.

        By default it is the label with the largest marginal (Domke2013 Eq. 2); see `decode`.
        """
        return self._predict(X, edge_features)

    @entry_point
    def predict_kbest(
        self, X: Sequence[Any], k: int, edge_features: Sequence[Any] | None = None
    ) -> list[list[tuple[Any, float]]]:
        """Return the k most probable labellings of each image with their log-probabilities, the best first.

        The list is shorter if fewer labellings are possible. Needs an exact `inference`, such as "junction_tree", so
        the images must be narrow.
        """
        return self._predict_kbest(X, edge_features, k)

    @entry_point
    def sample(
        self,
        X: Sequence[Any],
        n_samples: int = 1,
        random_state: int | np.random.Generator | None = None,
        *,
        edge_features: Sequence[Any] | None = None,
    ) -> list[Any]:
        """Sample labellings of each image from the model, as (n_samples, H, W) arrays.

        Samples are independent and exact with an exact `inference`, such as "junction_tree"; "gibbs" returns dependent
        samples of a Markov chain.
        """
        return self._sample(X, edge_features, n_samples, random_state)

    @entry_point
    def score(
        self,
        X: Sequence[Any],
        y: Sequence[Any],
        edge_features: Sequence[Any] | None = None,
        sample_weight: Any = None,
    ) -> float:
        """Return the accuracy: the fraction of labelled pixels, over all images, whose label is predicted.

        A label that was not seen in fit counts as an error.
        """
        return self._score(X, y, edge_features, sample_weight)

    @property
    def node_weights_(self) -> FloatArray:
        """Weights F of pixel features, one row per class."""
        check_fitted(self, "weights_")
        return self.templates_.unpack(self.weights_)[0]["pixel"]

    @property
    def edge_weights_(self) -> FloatArray:
        """Weights G of edge features, one row per pair of classes in C order."""
        check_fitted(self, "weights_")
        (weights,) = self.templates_.unpack(self.weights_)[1].values()
        return weights

    @property
    def n_features_in_(self) -> int:
        """Number of features per pixel."""
        check_fitted(self, "weights_")
        return self.templates_.n_features["pixel"]

    def _read(self, X: Any, edge_features: Any, fitted_templates: Templates | None) -> Data:
        if self.connectivity not in (4, 8):
            raise InvalidInputError(f"connectivity must be 4 or 8, got {self.connectivity!r}.")
        widths: tuple[int | None, int | None] = (None, None)
        if fitted_templates is not None:
            widths = fitted_templates.n_features["pixel"], next(iter(fitted_templates.n_factor_features.values()))
        images = read_images(X, edge_features, self.connectivity, *widths)
        # Two columns may be edge features of the user or direction indicators; the name of the type distinguishes them.
        edge_type = "direction" if edge_features is None and not isinstance(next(iter(X)), tuple) else "edge"
        if fitted_templates is not None and edge_type not in fitted_templates.scopes:
            fit_had = "none" if edge_type == "edge" else "some"
            raise InvalidInputError(
                f"edge features are {'' if edge_type == 'edge' else 'not '}passed, but fit had {fit_had}. Pass "
                f"edge_features if and only if fit had them."
            )
        if fitted_templates is None and all(image.size == (1, 1) for image in images):
            raise InvalidInputError("every image is a single pixel, so there are no neighbours. Pass larger images.")
        types = TypeTable(
            {"pixel": int(images[0].pixels.shape[1])},
            {edge_type: ("pixel", "pixel")},
            {edge_type: int(images[0].edges.shape[1])},
        )
        layouts = [
            Layout(
                {"pixel": image.size},
                {"pixel": f"X[{i}] has shape {(*image.size, image.pixels.shape[1])}. Pass one label per pixel"},
            )
            for i, image in enumerate(images)
        ]

        def score_maps(templates: Templates) -> list[TemplateScores]:
            graphs: dict[Any, FactorGraph] = {}  # images of equal size share a graph and the values cached with it
            maps = []
            for image in images:
                if image.size not in graphs:
                    graphs[image.size] = grid_graph(
                        *image.size, templates.n_states["pixel"], connectivity=self.connectivity
                    )
                maps.append(
                    TemplateScores(templates, graphs[image.size], {"pixel": image.pixels}, {edge_type: image.edges})
                )
            return maps

        return Data(layouts, types, score_maps)
