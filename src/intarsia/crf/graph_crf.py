"""Labelling of graphs: a conditional random field with any types of variables and of factors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from intarsia._core.error_context import entry_point
from intarsia._core.registry import Parts
from intarsia._core.transaction import SettingsOfFit, transaction
from intarsia._core.validation import FloatArray
from intarsia._files.saved_model import Arrays, Content
from intarsia.crf.crf import CRF
from intarsia.crf.crf_data import Data
from intarsia.crf.graph_data import TypedGraph, TypeTable, find_types, read_graphs
from intarsia.crf.graph_energies import FittedGraphEnergies, names_of, project_scores
from intarsia.crf.graph_energy_fit import (
    bind_graph_energies,
    fit_graph_energies,
    graph_energies_from_file,
    graph_energies_to_file,
    resolve_graph_energies,
)
from intarsia.energies import Energy, Psi
from intarsia.energies.registry import ENERGY_PARTS, PSIS
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.inference import InferenceMethod
from intarsia.inference.registry import METHODS
from intarsia.learning.energy_learner import (
    ENERGY_LEARNERS,
    EnergyLearner,
    check_strengths_alone,
)
from intarsia.learning.energy_risk import warn_unless_all_converged
from intarsia.learning.learner import Learner
from intarsia.models.labelling import Layout
from intarsia.models.template_scores import Templates, TemplateScores, template_graph


class GraphCRF(CRF):
    r"""Labels of the variables of graphs, from features of variables and of the factors that join them.

    Scores are :math:`\theta_i = F_t u_i` for a variable of type t and :math:`\theta_c = G_s v_c` for a factor of type
    s, so all variables of a type share weights, and all factors of a type. Factors may join any number of variables.
    Weights start at those of the independent model (multinomial logistic regression of single variables, G = 0) and are
    then fitted through the inference. No constant feature is added to the variables: give one, if the classes are to
    have a bias. A variable without any label in all of y is a hidden one, marginalised as the loss does it.

    X is a list of `GraphInstance`, or of tuples (node_features, edges) or (node_features, edges, edge_features). Labels
    of a graph come as one array, or by type as a dict where the features do; a type left out there is hidden.

    Parameters
    ----------
    inference : str or InferenceMethod
        How scores become marginals.
    learner : str or Learner
        How weights are found; by default `RiskMinimizer()`: clique logistic loss, truncated gradient.
    classes : array, or dict of str -> array, optional
        All labels there are, by type where the features are; by default those in y, sorted. Needed for a type that is
        hidden throughout.
    class_weight : None, "balanced" or dict, optional
        How much a variable counts by its label; a dict of type -> label -> weight where the features come by type.
    symmetric : bool or list of str
        Types of factors for which the order of the variables says nothing, such as undirected edges: their weights are
        then the same for every order. True for all that join variables of one type.
    energies : Energy or list of Energy, optional
        Global preferences on the labels of a graph, such as `MeasuredEnergy(Count("spam"), SmoothedHinge(2.0))`. What
        makes no sense on a graph counts nothing there. They need `inference` to be exact or "tree_reweighted".
    psi : str or Psi
        How their strengths depend on the features of the variables: "constant", "linear" or "mean_map"; they begin
        with the energies' own. With several types of variables only "constant".
    projection : str or InferenceMethod, optional
        How marginals under the energies are found, by default `BetheRDA(max_iter=40)`; its oracle is `inference`.
    energy_learner : str, EnergyLearner or None
        How strengths (and weights) are learned after the fit: "doubly_stochastic", "double_loop", or an object. None
        keeps the strengths that the energies have; only then may convex ones have kinks.
    decode : {"auto", "marginals", "map"}
        Predict the most probable state of each variable, or the best labelling of all together. "auto": the
        latter with learners of margins (`StructuredPerceptron`, `StructuredSVM`), else the former.
    warm_start : bool
        Whether `fit` goes on from the weights it finds, with the same classes and types.
    random_state : int or Generator, optional
        Where given, instead of that of the learner; a seed is drawn from a Generator for each fit.
    n_jobs, verbose : optional
        Where given, instead of those of the learner.

    Attributes
    ----------
    classes_ : array (k,), or dict of str -> array
        Labels.
    node_weights_, factor_weights_ : dict of str -> float array
        Weights of each type: a row for each state, or for each joint state in C order; a column for each feature. The
        only type of variable is called "node", edges given as `edges` are factors "edge".
    templates_ : Templates
        The types, with their numbers of states and of features.
    weights_, initial_weights_ : float arrays
        All weights in one vector, after the fit and where it began.
    energies_ : FittedGraphEnergies, or None
        Energies with the weights of their strengths.
    energy_history_ : dict
        "risk", the surrogate risk per labelled variable after each pass or round of learning energies.
    history_, n_iter_, status_, risk_
        As in `GridCRF`.

    References
    ----------
    Domke2013, section 8; Vilnis2015 for energies.

    Examples
    --------
    Three people; two of them are known, friends tend to agree.

    >>> import numpy as np
    >>> from intarsia.learning import RiskMinimizer
    >>> X = [([[1.0], [-1.0], [0.1]], [[0, 2]]), ([[-1.0], [1.0], [0.1]], [[0, 2]])] * 5
    >>> y = [["yes", "no", "yes"], ["no", "yes", "no"]] * 5
    >>> crf = GraphCRF(learner=RiskMinimizer(l2=0.3), symmetric=True).fit(X, y)
    >>> crf.predict(X)[1].tolist()                             # the friend of a "no", although its feature is positive
    ['no', 'yes', 'no']
    >>> crf.factor_weights_["edge"].shape
    (4, 1)

    The same with the strong wish for two "yes" in each graph:

    >>> from intarsia.energies import Count, MeasuredEnergy, Squared
    >>> two = MeasuredEnergy(Count("yes"), Squared(2.0), psi=1000.0)
    >>> crf = GraphCRF(energies=two, energy_learner=None, projection="bethe_mirror_descent").fit(X, y)
    >>> [round(float(p[:, 1].sum()), 1) for p in crf.predict_marginals(X[:2])]      # "no", "yes"
    [2.0, 2.0]
    """

    energies_: FittedGraphEnergies | None = None
    energy_history_: dict[str, FloatArray]
    _model_settings: SettingsOfFit | None = None
    _inference_of_fit: SettingsOfFit | None = None

    def __init__(
        self,
        *,
        inference: str | InferenceMethod = "tree_reweighted",
        learner: str | Learner = "risk_minimizer",
        classes: Any = None,
        class_weight: Any = None,
        symmetric: bool | Sequence[str] = False,
        energies: Energy | Sequence[Energy] | None = None,
        psi: str | Psi = "constant",
        projection: str | InferenceMethod | None = None,
        energy_learner: str | EnergyLearner | None = "doubly_stochastic",
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
        self.symmetric = symmetric
        self.energies = energies
        self.psi = psi
        self.projection = projection
        self.energy_learner = energy_learner

    @entry_point
    @transaction
    def fit(
        self,
        X: Sequence[Any],
        y: Sequence[Any],
        *,
        sample_weight: Any = None,
        validation: tuple[Any, Any] | None = None,
        start: Any = None,
        freeze_weights: bool | None = None,
        development: tuple[Any, Any] | None = None,
    ) -> GraphCRF:
        """Fit the weights, and then the energies, if there are any.

        Parameters
        ----------
        X : list of GraphInstance, or of tuples
            Graphs, of any sizes.
        y : list of arrays, or of dicts of str -> array
            Labels of each graph: whole numbers, -1 where hidden; strings, None where hidden; frozensets of allowed
            labels among either; or booleans (n, n_classes) of what is allowed.
        sample_weight : (n_graphs,) array, optional
            How much each graph counts.
        validation : pair (X, y), optional
            Graphs on which the learner may stop early.
        start : float array, optional
            Weights to begin with, laid out as `weights_`; by default those of the independent model.
        freeze_weights : bool, optional
            Whether weights stay as they are while the strengths of energies are learned. By default they do, after they
            have been fitted to X and y without the energies. True: weights of an earlier fit, if there was one, are not
            fitted again. False: after the fit, weights and strengths are learned together, which may end worse than it
            began and then warns; the best point is kept.
        development : pair (X, y), optional
            The graphs on which strengths are learned; by default X and y.
        """
        parts = resolve_graph_energies(self)
        check_strengths_alone(freeze_weights, development, parts is not None)
        if parts is None:
            self._fit(X, y, None, sample_weight, validation, start)
            self.energies_, self.energy_history_ = None, {}
            self._note_settings()
            return self
        known = self.templates_ if (self.warm_start or freeze_weights) and hasattr(self, "weights_") else None
        before = self.energies_ if self.warm_start and known is not None else None
        # Everything is read and checked before the weights are fitted.
        prepared = self._prepare(X, y, None, sample_weight, known)
        examples, classes = prepared.examples, prepared.truth.classes
        maps: list[Any] = [one.scores for one in examples]
        energies = bind_graph_energies(self, parts, maps, classes)
        if development is not None:
            examples = self._held_out(development, prepared.templates, prepared.truth, "development")
        if known is None or not freeze_weights:
            self._fit_prepared(prepared, validation, start)
        settings = self._resolve_learner().get_params(deep=False)
        frozen = freeze_weights is not False
        self.weights_, self.energies_, self.energy_history_ = fit_graph_energies(
            self, parts, energies, examples, classes, self.weights_, settings, frozen, before
        )
        self._note_settings()
        return self

    @entry_point
    @transaction
    def partial_fit(
        self, X: Sequence[Any], y: Sequence[Any], classes: Any = None, *, sample_weight: Any = None
    ) -> GraphCRF:
        """Change the weights by one pass over these graphs, with an optimiser of mini-batches.

        The first call needs all classes, here or as a setting, and decides which types there are.
        """
        if self.energies is not None:
            raise NotSupportedError("energies are learned from all data. Use fit, or leave energies out.")
        return self._partial_fit(X, y, None, classes, sample_weight)

    @entry_point
    def predict_marginals(self, X: Sequence[Any]) -> list[Any]:
        """Probability of each class for each variable: (n, n_classes) arrays, by type where the features are."""
        return self._predict_marginals(X, None)

    @entry_point
    def predict(self, X: Sequence[Any]) -> list[Any]:
        """Label of each variable: that of the largest marginal (Domke2013 Eq. 2), or as `decode` says."""
        return self._predict(X, None)

    @entry_point
    def predict_kbest(self, X: Sequence[Any], k: int) -> list[list[tuple[Any, float]]]:
        """Return the k best labellings of each graph with their log-probabilities, the best first; fewer if there are.

        Needs an exact `inference`, such as "junction_tree". With energies, the model is the tilted one.
        """
        return self._predict_kbest(X, None, k)

    @entry_point
    def sample(
        self, X: Sequence[Any], n_samples: int = 1, random_state: int | np.random.Generator | None = None
    ) -> list[Any]:
        """Return labellings of each graph, drawn by their probabilities: (n_samples, n) arrays, by type like `predict`.

        Draws are independent and exact with an exact `inference`, such as "junction_tree"; "gibbs" gives a chain of
        dependent ones. With energies, the model is the tilted one.
        """
        return self._sample(X, None, n_samples, random_state)

    @entry_point
    def score(self, X: Sequence[Any], y: Sequence[Any], sample_weight: Any = None) -> float:
        """Fraction of the observed variables, over all types and graphs, whose label is predicted.

        A label that was not seen in fit counts as wrong.
        """
        return self._score(X, y, None, sample_weight)

    @property
    def node_weights_(self) -> dict[str, FloatArray]:
        """Weights of each type of variable, a row for each class."""
        check_is_fitted(self, "weights_")
        return self.templates_.unpack(self.weights_)[0]

    @property
    def factor_weights_(self) -> dict[str, FloatArray]:
        """Weights of each type of factor, a row for each joint state in C order."""
        check_is_fitted(self, "weights_")
        return self.templates_.unpack(self.weights_)[1]

    def _parallel(self, one: Callable[..., Any], maps: Sequence[Any], seeds: Sequence[Any] | None = None) -> list[Any]:
        """With energies, answers are those of the tilted models, by the present `inference` and `projection`."""
        if self._model_settings is not None:
            self._model_settings.check(self)
        fitted = self.energies_
        if fitted is None:
            return super()._parallel(one, maps, seeds)
        if self._inference_of_fit is not None and self._inference_of_fit.changed(self):
            parts = resolve_graph_energies(self)
            fitted = fitted if parts is None else replace(fitted, method=parts.method)
        classes = self._class_table()
        tilted: Any = fitted.tilted(maps, [names_of(scores, classes) for scores in maps])
        found = super()._parallel(project_scores, tilted)
        warn_unless_all_converged([report for _, report in found], "graphs", fitted.method)
        return super()._parallel(one, [scores for scores, _ in found], seeds)

    _parts: ClassVar[Parts] = {
        **CRF._parts,
        "energies": ENERGY_PARTS,
        "psi": PSIS,
        "projection": METHODS,
        "energy_learner": ENERGY_LEARNERS,
    }

    def _to_file(self) -> Content:
        about, arrays = super()._to_file()
        more, more_arrays = graph_energies_to_file(self)
        return {**about, **more}, {**arrays, **more_arrays}

    def _from_file(self, about: dict[str, Any], arrays: Arrays) -> None:
        super()._from_file(about, arrays)
        self.energies_, self.energy_history_ = graph_energies_from_file(self, about, arrays)
        self._note_settings()

    def _note_settings(self) -> None:
        """Remember the settings that are part of the model, and those that can be changed for predictions."""
        self._model_settings = SettingsOfFit(self, ("energies", "psi"))
        self._inference_of_fit = SettingsOfFit(self, ("inference", "projection"))

    def _read(self, X: Any, more: Any, known: Templates | None) -> Data:
        graphs = read_graphs(X)
        types = find_types(graphs, known)

        def score_maps(templates: Templates) -> list[TemplateScores]:
            return [_score_map(graph, templates) for graph in graphs]

        return Data([_layout(graph, i) for i, graph in enumerate(graphs)], types, score_maps)

    def _symmetric(self, types: TypeTable) -> frozenset[str]:
        if self.symmetric is True:
            return frozenset(name for name, kinds in types.scopes.items() if len(set(kinds)) == 1)
        if self.symmetric is False:
            return frozenset()
        names = self.symmetric if isinstance(self.symmetric, (list, tuple, set, frozenset)) else [None]
        if not all(isinstance(name, str) for name in names):
            raise InvalidInputError(
                f"symmetric must be True, False or a list of names of factors, got {self.symmetric!r}."
            )
        return frozenset(self.symmetric)


def _layout(graph: TypedGraph, i: int) -> Layout:
    shapes: dict[str, tuple[int, ...]] = {kind: (n,) for kind, n in graph.n_variables.items()}
    reasons = {
        kind: f"X[{i}] has {n} variables{f' of type {kind!r}' if graph.named else ''}. Give one label for each"
        for kind, n in graph.n_variables.items()
    }
    return Layout(shapes, reasons, graph.named)


def _score_map(graph: TypedGraph, templates: Templates) -> TemplateScores:
    scopes = {name: factors.scopes for name, factors in graph.factors.items()}
    made = template_graph(templates, graph.n_variables, scopes)
    features = {name: factors.features for name, factors in graph.factors.items()}
    return TemplateScores(templates, made, graph.node_features, features)
