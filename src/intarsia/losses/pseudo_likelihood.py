"""Pseudo-likelihoods: each variable, or each patch of variables, given the labels of all others."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from intarsia._core.registry import Parts
from intarsia._core.validation import FloatArray, IntArray, as_int_array, check_number, read_only
from intarsia._kernels.graph_arguments import GraphArrays
from intarsia._kernels.pseudo_likelihood import add_pseudo_likelihood
from intarsia.exceptions import InvalidInputError
from intarsia.graph import FactorGraph
from intarsia.inference import InferenceMethod
from intarsia.inference.registry import METHODS
from intarsia.losses.clamping import LabelCache, choose_method, free_minus_clamped
from intarsia.losses.conditioning import Conditioned, condition_on_rest, patches_with_observed_border
from intarsia.losses.labels import TrainingLabels
from intarsia.losses.loss import DirectLoss
from intarsia.losses.terms import variable_terms

_CONDITIONED: LabelCache[list[tuple[float, Conditioned]]] = LabelCache()


class PseudoLikelihood(DirectLoss):
    r"""Pseudo-likelihood: negative log-probability of the label of each variable given all other labels, summed.

    It needs no inference and is consistent for a correct model. Choose it for speed; it relies too much on neighbours,
    whose labels are not available when predicting.

    .. math:: L(\theta) = -\sum_i \log p(y_i | y_{\setminus i}; \theta)

    A factor with a hidden variable cannot be conditioned on, so that a variable that shares one with a variable that is
    not observed is excluded. A variable with a label set, among observed ones, counts with the probability of the set.

    References
    ----------
    Domke2013 section 4.1.4; hidden variables, section 4.2.4.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> from intarsia.losses.labels import training_labels
    >>> graph = chain_graph(2, 2)
    >>> theta = graph.pack(tables=[[[1.0, 0.0], [0.0, 1.0]]])
    >>> labels = training_labels(graph, [0, 0])
    >>> round(PseudoLikelihood().value_and_gradient_theta(graph, theta, labels)[0], 4)    # 2 log(1 + 1/e)
    0.6265
    """

    name: ClassVar[str] = "pseudo_likelihood"
    summary: ClassVar[str] = "no inference, every label given its neighbours"
    needs: ClassVar[str] = "labels only"
    takes_weights: ClassVar[bool] = True

    def _evaluate(
        self,
        graph: FactorGraph,
        theta: FloatArray,
        labels: TrainingLabels,
        inference: str | InferenceMethod | None,
        rng: np.random.Generator,
    ) -> tuple[float, FloatArray] | None:
        weight = variable_terms(graph, labels).weight
        if not labels.complete:
            single = np.arange(graph.n_variables)
            weight = np.where(patches_with_observed_border(graph, labels, single), weight, 0.0)
        gradient = np.zeros(graph.n_theta)
        arrays = GraphArrays.of(graph)
        most_factors = int(np.diff(arrays.pair_ptr).max(initial=0))
        value = float(
            add_pseudo_likelihood(
                theta, gradient, read_only(labels.y), read_only(labels.allowed), weight, arrays,
                *np.empty((2, int(graph.n_states.max(initial=0)))), *np.empty((2, most_factors), np.int64),
            )
        )  # fmt: skip
        return None if value == np.inf else (value, gradient)


class PatchPseudoLikelihood(DirectLoss):
    r"""Pseudo-likelihood of patches: negative log-probability of each patch given the labels outside it, summed.

    It lies between pseudo-likelihood (patches of one variable) and likelihood (one patch). Choose it if
    pseudo-likelihood relies too much on neighbours; the cost grows exponentially with the width of a patch.

    .. math:: L(\theta) = -\sum_P \log p(y_P | y_{\setminus P}; \theta)

    Patches do not overlap. Labels hidden inside a patch are summed out; a patch next to a variable that is not observed
    is excluded. Weights of variables are averaged over the patch, at the cost of a run of inference for each distinct
    mean.

    Parameters
    ----------
    patch : int, (int, int) or int array (n_variables,)
        Side, or height and width, of the tiles of a grid, the last of which may be smaller; or an array with the patch
        number of each variable.
    inference : str or InferenceMethod
        Inference inside the patches; exact by default.

    References
    ----------
    Domke2013 section 4.1.4; hidden variables, section 4.2.4.

    Examples
    --------
    >>> from intarsia.graph import chain_graph, grid_graph
    >>> from intarsia.losses.labels import training_labels
    >>> graph = grid_graph(3, 3, 2)
    >>> labels = training_labels(graph, [0] * 9)
    >>> value, _ = PatchPseudoLikelihood(patch=2).value_and_gradient_theta(graph, graph.zeros(), labels)
    >>> round(value, 4)                                    # 9 log 2
    6.2383
    """

    name: ClassVar[str] = "patch_pseudo_likelihood"
    summary: ClassVar[str] = "exact inference in small patches, given all other labels"
    needs: ClassVar[str] = "labels only"
    takes_weights: ClassVar[bool] = True

    _parts: ClassVar[Parts] = {"inference": METHODS}

    def __init__(self, *, patch: Any = 2, inference: str | InferenceMethod = "junction_tree") -> None:
        self.patch = patch
        self.inference = inference

    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings."""
        if isinstance(self.patch, tuple) and len(self.patch) != 2:
            raise InvalidInputError(
                f"PatchPseudoLikelihood: patch must be an integer, (height, width), or an array with the patch "
                f"number of each variable; got {self.patch!r}."
            )
        if np.ndim(self.patch) == 0 or isinstance(self.patch, tuple):
            for side in self.patch if isinstance(self.patch, tuple) else (self.patch,):
                check_number(side, "PatchPseudoLikelihood: patch", low=1, integer=True)

    def check_fits(self, graph: FactorGraph, inference: str | InferenceMethod | None) -> None:
        """Raise unless the inference of the settings computes log Z and the graph can be split into patches."""
        self._method()
        self.patches(graph)

    def _evaluate(
        self,
        graph: FactorGraph,
        theta: FloatArray,
        labels: TrainingLabels,
        inference: str | InferenceMethod | None,
        rng: np.random.Generator,
    ) -> tuple[float, FloatArray] | None:
        method = self._method()
        patch_of = self.patches(graph)
        groups = _CONDITIONED.get(
            labels, graph, patch_of.tobytes(), lambda: _patches_by_weight(graph, labels, patch_of),
            lambda groups: sum(group.n_bytes for _, group in groups),
        )  # fmt: skip
        value, gradient = 0.0, np.zeros(graph.n_theta)
        for weight, group in groups:
            result = free_minus_clamped(group.graph, group.lower(theta), group.labels, method, method, "marginals", rng)
            if result is None:
                return None
            value += weight * result[0]
            gradient += weight * group.pull_back(result[1])
        return value, gradient

    def _method(self) -> InferenceMethod:
        """Return the inference method of the settings."""
        return choose_method("PatchPseudoLikelihood", "marginals", self.inference)

    def patches(self, graph: FactorGraph) -> IntArray:
        """Return the patch number of each variable, from 0."""
        if np.ndim(self.patch) == 0 or isinstance(self.patch, tuple):
            if graph.grid_shape is None:
                raise InvalidInputError(
                    f"PatchPseudoLikelihood: patch={self.patch!r} means tiles of a grid, but the graph has no "
                    f"grid_shape. Pass an array with the patch number of each variable."
                )
            height, width = self.patch if isinstance(self.patch, tuple) else (self.patch, self.patch)
            rows, columns = np.indices(graph.grid_shape)
            number = rows // int(height) * graph.grid_shape[1] + columns // int(width)
        else:
            number = as_int_array(self.patch, "PatchPseudoLikelihood: patch")
            if number.shape != (graph.n_variables,):
                raise InvalidInputError(
                    f"PatchPseudoLikelihood: patch has shape {number.shape}, but the graph has {graph.n_variables} "
                    f"variables. Pass one patch number per variable."
                )
        return np.unique(number, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _patches_by_weight(
    graph: FactorGraph, labels: TrainingLabels, patch_of: IntArray
) -> list[tuple[float, Conditioned]]:
    """Return the patches in groups of equal weight, the mean over their variables; those of weight 0 are excluded."""
    if labels.weights is None:
        return [(1.0, condition_on_rest(graph, labels, patch_of))]
    mean = np.bincount(patch_of, labels.weights) / np.bincount(patch_of)
    return [(float(w), condition_on_rest(graph, labels, patch_of, mean == w)) for w in np.unique(mean[mean > 0])]
