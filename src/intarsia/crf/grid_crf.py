"""Labelling of images: a conditional random field on the pixel grid, fitted for the inference it is used with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from intarsia._core.error_context import entry_point
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
    r"""Labels of pixels from features of pixels and of neighbouring pairs, by a pairwise grid model.

    Scores are :math:`\theta_i = F u_i` and :math:`\theta_{ij} = G v_{ij}`. Weights start at those of the independent
    model (multinomial logistic regression of single pixels, G = 0) and are then fitted through the inference. With the
    truncated gradient the model predicts with the number of sweeps it was fitted for. No constant feature is added:
    give one, if the classes are to have a bias. Features in single precision are kept so.

    X is a list of (H, W, n_features) arrays of any sizes. Sparse ones are three-dimensional too, as
    `csr_array(...).reshape((H, W, n_features))` makes them (SciPy 1.15 or newer), and stay sparse. Features of edges
    are given beside X as `edge_features`, or X is a list of pairs (image, edge features), which goes through
    cross-validation and pipelines.

    Parameters
    ----------
    inference : str or InferenceMethod
        How scores become marginals.
    learner : str or Learner
        How weights are found; by default `RiskMinimizer()`: clique logistic loss, truncated gradient.
    connectivity : {4, 8}
        Number of neighbours of an inner pixel.
    classes : array, optional
        All labels there are, in the order in which marginals and boolean labels count them; by default those in y,
        sorted.
    class_weight : None, "balanced" or dict of label -> weight, optional
        How much a pixel counts by its label, for losses that are sums over variables or factors.
    decode : {"auto", "marginals", "map"}
        Predict the most probable label of each pixel, or the best labelling of all together. "auto": the
        latter with learners of margins (`StructuredPerceptron`, `StructuredSVM`), else the former.
    warm_start : bool
        Whether `fit` goes on from the weights it finds, with the same classes and features.
    random_state : int or Generator, optional
        Where given, instead of that of the learner; a seed is drawn from a Generator for each fit.
    n_jobs, verbose : optional
        Where given, instead of those of the learner.

    Attributes
    ----------
    classes_ : array (k,)
        Labels.
    weights_ : float array
        F in C order, then G.
    node_weights_, edge_weights_ : float arrays (k, n_features), (k * k, n_edge_features)
        F and G.
    initial_weights_ : float array
        Where the fit began: those of the independent model, unless told otherwise.
    templates_ : Templates
        Numbers of states and of features.
    history_ : dict of arrays
        "risk", "gradient_norm", "seconds", "evaluations" and "n_examples" of each iteration.
    n_iter_, status_, risk_ : int, Status, float
        Iterations, how the fit ended (INTERRUPTED after Ctrl-C, with the best weights), and the risk reached; NaN if it
        was interrupted before there was one, with the weights of the independent model.

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
        """Fit the weights.

        Parameters
        ----------
        X : list of (H, W, n_features) arrays, dense or sparse, or of pairs (such an array, edge features)
            Images, of any sizes.
        y : list of (H, W) arrays or nested lists, or (H, W, n_classes) bool arrays
            Labels: whole numbers, -1 where hidden; strings, None where hidden; frozensets of allowed labels among
            either. Or which classes are allowed.
        edge_features : list of (n_edges, n_edge_features) arrays or sparse matrices, optional
            In the order of the factors of `grid_graph`; by default one indicator for each direction.
        sample_weight : (n_images,) array, optional
            How much each image counts.
        validation : pair (X, y), optional
            Images on which the learner may stop early; with pairs in X, if there are features of edges.
        start : float array, optional
            Weights to begin with, laid out as `weights_`; by default those of the independent model.
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
        """Change the weights by one pass over these images, with an optimiser of mini-batches.

        The first call needs all classes, here or as a setting; it starts from weights of 0.
        """
        return self._partial_fit(X, y, edge_features, classes, sample_weight)

    @entry_point
    def predict_marginals(self, X: Sequence[Any], edge_features: Sequence[Any] | None = None) -> list[FloatArray]:
        """Probability of each class at each pixel: a list of (H, W, n_classes) arrays."""
        return self._predict_marginals(X, edge_features)

    @entry_point
    def predict(self, X: Sequence[Any], edge_features: Sequence[Any] | None = None) -> list[Any]:
        """Label of each pixel, (H, W) arrays: that of the largest marginal (Domke2013 Eq. 2), or as `decode` says."""
        return self._predict(X, edge_features)

    @entry_point
    def predict_kbest(
        self, X: Sequence[Any], k: int, edge_features: Sequence[Any] | None = None
    ) -> list[list[tuple[Any, float]]]:
        """Return the k best labellings of each image with their log-probabilities, the best first; fewer if there are.

        Needs an exact `inference`, such as "junction_tree", so the images must be narrow.
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
        """Return labellings of each image, (n_samples, H, W) arrays, drawn by their probabilities.

        Draws are independent and exact with an exact `inference`, such as "junction_tree"; "gibbs" gives a chain of
        dependent ones.
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
        """Fraction of the observed pixels, over all images, whose label is predicted; one not seen in fit is wrong."""
        return self._score(X, y, edge_features, sample_weight)

    @property
    def node_weights_(self) -> FloatArray:
        """F, a row for each class."""
        check_is_fitted(self, "weights_")
        return self.templates_.unpack(self.weights_)[0]["pixel"]

    @property
    def edge_weights_(self) -> FloatArray:
        """G, a row for each pair of classes in C order."""
        check_is_fitted(self, "weights_")
        (weights,) = self.templates_.unpack(self.weights_)[1].values()
        return weights

    @property
    def n_features_in_(self) -> int:
        """Number of features of a pixel."""
        check_is_fitted(self, "weights_")
        return self.templates_.n_features["pixel"]

    def _read(self, X: Any, more: Any, known: Templates | None) -> Data:
        if self.connectivity not in (4, 8):
            raise InvalidInputError(f"connectivity is 4 or 8, got {self.connectivity!r}.")
        widths: tuple[int | None, int | None] = (None, None)
        if known is not None:
            widths = known.n_features["pixel"], next(iter(known.n_factor_features.values()))
        images = read_images(X, more, self.connectivity, *widths)
        # The name keeps apart what only looks alike: two columns may be features of edges, or their two directions.
        edge = "direction" if more is None and not isinstance(next(iter(X)), tuple) else "edge"
        if known is not None and edge not in known.scopes:
            had = "none" if edge == "edge" else "some"
            raise InvalidInputError(
                f"edge features are {'' if edge == 'edge' else 'not '}given, but fit had {had}. Give them "
                f"always, or leave edge_features out just where fit had none."
            )
        if known is None and all(image.size == (1, 1) for image in images):
            raise InvalidInputError("every image is a single pixel, so none has neighbours. Give larger images.")
        types = TypeTable(
            {"pixel": int(images[0].pixels.shape[1])},
            {edge: ("pixel", "pixel")},
            {edge: int(images[0].edges.shape[1])},
        )
        layouts = [
            Layout(
                {"pixel": image.size},
                {"pixel": f"X[{i}] has shape {(*image.size, image.pixels.shape[1])}. Give one label per pixel"},
            )
            for i, image in enumerate(images)
        ]

        def score_maps(templates: Templates) -> list[TemplateScores]:
            graphs: dict[Any, FactorGraph] = {}  # images of one size share a graph and all that is prepared for it
            maps = []
            for image in images:
                if image.size not in graphs:
                    graphs[image.size] = grid_graph(
                        *image.size, templates.n_states["pixel"], connectivity=self.connectivity
                    )
                maps.append(TemplateScores(templates, graphs[image.size], {"pixel": image.pixels}, {edge: image.edges}))
            return maps

        return Data(layouts, types, score_maps)
