"""Conditional random field on graphs with any types of variables and factors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from intarsia._core.error_context import entry_point
from intarsia._core.registry import Parts
from intarsia._core.settings import check_fitted
from intarsia._core.transaction import SettingsOfFit, transaction
from intarsia._core.validation import FloatArray
from intarsia._files.saved_model import Arrays, Content
from intarsia.crf.crf import CRF
from intarsia.crf.crf_data import Data
from intarsia.crf.graph_data import TypedGraph, TypeTable, find_types, read_graphs
from intarsia.crf.graph_energies import FittedGraphEnergies, labels_of_variables, project_scores
from intarsia.crf.graph_energy_fit import (
    bind_graph_energies,
    fit_graph_energies,
    graph_energies_from_file,
    graph_energies_to_file,
    resolve_graph_energies,
)
from intarsia.energies import Energy, Psi
from intarsia.energies.binding.batch_energies import has_energies
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
    r"""Conditional random field on graphs: labels of variables from features of variables and of factors.

    The scores (log-potentials) are :math:`\theta_i = F_t u_i` for a variable of type t and :math:`\theta_c = G_s v_c`
    for a factor of type s, so all variables of a type share weights, and so do all factors of a type. Factors may join
    any number of variables. The weights start at those of the independent model (multinomial logistic regression of
    single variables, G = 0) and are then trained through the inference. No constant feature is added to the variables:
    include one if the classes should have a bias. Variables that have no label in y are hidden (latent); the loss
    marginalises over them.

    X is a list of `GraphInstance`, or of tuples (node_features, edges) or (node_features, edges, edge_features). The
    labels of a graph are one array, or a dict by type if the features are a dict by type; a missing type is hidden.

    Parameters
    ----------
    inference : str or InferenceMethod
        Inference method that computes marginals from scores.
    learner : str or Learner
        Learner that fits the weights; by default `RiskMinimizer()` with the clique logistic loss and the truncated
        gradient. Regularization and learning rate are settings of the learner.
    classes : array, or dict of str -> array, optional
        All labels, by type if the features are by type. Default: the sorted labels in y. Required for a type that has
        no labels at all.
    class_weight : None, "balanced" or dict, optional
        Weight of a variable by its label; a dict type -> label -> weight if the features are by type.
    symmetric : bool or list of str
        Types of factors that ignore the order of their variables, such as undirected edges: their weights are the same
        for every order. True for all types of factors that join variables of one type.
    energies : Energy or list of Energy, optional
        Global preferences on the labels of a graph, such as `MeasuredEnergy(Count("spam"), SmoothedHinge(2.0))`. An
        energy that does not apply to a graph is ignored there. Requires an exact `inference` or "tree_reweighted".
    psi : str or Psi
        Model of the strengths (the weights psi of the energies) as a function of the features of the variables:
        "constant", "linear" or "mean_map". They start at the strengths that the energies specify. With several types of
        variables only "constant" is supported.
    projection : str or InferenceMethod, optional
        Inference method that computes marginals under the energies. Default: `BetheRDA(max_iter=40)`; its oracle is
        `inference`.
    energy_learner : str, EnergyLearner or None
        Learner of the strengths (and weights) after the fit: "doubly_stochastic", "double_loop", or an object. None
        keeps the strengths that the energies specify; this is required for convex energies with kinks.
    decode : {"auto", "marginals", "map"}
        Whether to predict the most probable state of each variable ("marginals") or the most probable joint labelling
        ("map", MAP inference). "auto" is "map" for margin learners (`StructuredPerceptron`, `StructuredSVM`) and
        "marginals" for others.
    warm_start : bool
        Whether `fit` continues from the present weights, with the same classes and types.
    random_state : int or Generator, optional
        If set, used instead of that of the learner; a Generator draws a new seed for each fit.
    n_jobs, verbose : optional
        If set, used instead of those of the learner.

    Attributes
    ----------
    classes_ : array (k,), or dict of str -> array
        Labels, in the order of the columns of marginals.
    node_weights_, factor_weights_ : dict of str -> float array
        Weights of each type: a row for each state, or for each joint state in C order; a column for each feature. If
        there is a single type of variables, it is called "node"; edges passed as `edges` are factors of type "edge".
    templates_ : Templates
        Types of variables and factors, with their numbers of states and features.
    weights_, initial_weights_ : float arrays
        All weights in one vector, after the fit and at its start.
    energies_ : FittedGraphEnergies, or None
        Energies with the learned weights of their strengths.
    energy_history_ : dict
        "risk", the surrogate risk per labelled variable after each pass or round of learning energies.
    expectations_ : ExpectationTable, or None
        Target and value of each expectation of the fit.
    history_, n_iter_, status_, risk_
        As in `GridCRF`.

    References
    ----------
    Domke2013, section 8; Vilnis2015 for energies.

    Examples
    --------
    Three people, two of whom are friends; friends tend to agree.

    >>> import numpy as np
    >>> from intarsia.learning import RiskMinimizer
    >>> X = [([[1.0], [-1.0], [0.1]], [[0, 2]]), ([[-1.0], [1.0], [0.1]], [[0, 2]])] * 5
    >>> y = [["yes", "no", "yes"], ["no", "yes", "no"]] * 5
    >>> crf = GraphCRF(learner=RiskMinimizer(l2=0.3), symmetric=True).fit(X, y)
    >>> crf.predict(X)[1].tolist()                             # the friend of a "no", although its feature is positive
    ['no', 'yes', 'no']
    >>> crf.factor_weights_["edge"].shape
    (4, 1)

    With an energy that strongly prefers two "yes" in each graph:

    >>> from intarsia.energies import Count, MeasuredEnergy, Squared
    >>> two = MeasuredEnergy(Count("yes"), Squared(2.0), psi=1000.0)
    >>> crf = GraphCRF(energies=two, energy_learner=None, projection="bethe_mirror_descent").fit(X, y)
    >>> [round(float(p[:, 1].sum()), 1) for p in crf.predict_marginals(X[:2])]      # "no", "yes"
    [2.0, 2.0]
    """

    energies_: FittedGraphEnergies | None = None
    energy_history_: dict[str, FloatArray]
    expectations_: Any = None
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
        y: Sequence[Any] | None = None,
        *,
        sample_weight: Any = None,
        validation: tuple[Any, Any] | None = None,
        start: Any = None,
        freeze_weights: bool | None = None,
        development: tuple[Any, Any] | None = None,
        expectations: Any = None,
    ) -> GraphCRF:
        """Fit the weights to labelled graphs, and then the strengths of the energies, if there are any.

        Parameters
        ----------
        X : list of GraphInstance, or of tuples
            Graphs of any sizes.
        y : list of arrays, or of dicts of str -> array
            Labels of each graph: integers, with -1 for hidden (unlabelled) variables, or strings, with None for hidden
            variables; a frozenset is a set of allowed labels. Bool arrays (n, n_classes) mark the allowed classes.
            With `expectations`, graphs without labels are None, and so may y be.
        sample_weight : (n_graphs,) array, optional
            Weight of each graph.
        validation : pair (X, y), optional
            Graphs for early stopping of the learner.
        start : float array, optional
            Initial weights in the layout of `weights_`. Default: those of the independent model.
        freeze_weights : bool, optional
            Whether the weights remain fixed while the strengths of energies are learned. By default they do, after they
            have been fitted to X and y without the energies. If True, the weights of an earlier fit are not fitted
            again. If False, weights and strengths are learned together after the fit; if the result is worse than the
            start, a warning is issued and the best point is used.
        development : pair (X, y), optional
            Graphs on which the strengths are learned. Default: X and y.
        expectations : Expectation or list of Expectation, optional
            Known proportions and counts of labels, from which hidden labels are learned by maximum likelihood; see
            `intarsia.learning.expectations`. The loss of the learner is not used.
        """
        if expectations is not None:
            from intarsia.crf.graph_expectation_fit import fit_graph_expectations

            unused = {"validation": validation, "freeze_weights": freeze_weights, "development": development}
            fit_graph_expectations(self, X, y, expectations, sample_weight, start, unused)
            self._note_settings()
            return self
        self.expectations_ = None
        resolved = resolve_graph_energies(self)
        check_strengths_alone(freeze_weights, development, resolved is not None)
        if resolved is None:
            self._fit(X, y, None, sample_weight, validation, start)
            self.energies_, self.energy_history_ = None, {}
            self._note_settings()
            return self
        previous_templates = (
            self.templates_ if (self.warm_start or freeze_weights) and hasattr(self, "weights_") else None
        )
        previous_energies = self.energies_ if self.warm_start and previous_templates is not None else None
        # Read and check all data before fitting the weights.
        training_data = self._read_all(X, y, None, sample_weight, previous_templates)
        examples, classes = training_data.examples, training_data.truth.classes
        maps: list[Any] = [labelled.scores for labelled in examples]
        energies = bind_graph_energies(self, resolved, maps, classes)
        if development is not None:
            examples = self._held_out(development, training_data.templates, training_data.truth, "development")
        if previous_templates is None or not freeze_weights:
            self._fit_training_data(training_data, validation, start)
        settings = self._resolve_learner().get_params(deep=False)
        frozen = freeze_weights is not False
        self.weights_, self.energies_, self.energy_history_ = fit_graph_energies(
            self, resolved, energies, examples, classes, self.weights_, settings, frozen, previous_energies
        )
        self._note_settings()
        return self

    @entry_point
    @transaction
    def partial_fit(
        self, X: Sequence[Any], y: Sequence[Any], classes: Any = None, *, sample_weight: Any = None
    ) -> GraphCRF:
        """Update the weights by one pass over these graphs, with a mini-batch optimizer.

        The first call needs all classes, as an argument or a setting, and determines the types.
        """
        if has_energies(self.energies):
            raise NotSupportedError("energies need the whole data set. Use fit, or set energies=None.")
        return self._partial_fit(X, y, None, classes, sample_weight)

    @entry_point
    def predict_marginals(self, X: Sequence[Any]) -> list[Any]:
        """Return the probability of each class for each variable as (n, n_classes) arrays.

        They are dicts by type if the features are.
        """
        return self._predict_marginals(X, None)

    @entry_point
    def predict(self, X: Sequence[Any]) -> list[Any]:
        """Return the label of each variable.

        By default it is the label with the largest marginal (Domke2013 Eq. 2); see `decode`.
        """
        return self._predict(X, None)

    @entry_point
    def predict_kbest(self, X: Sequence[Any], k: int) -> list[list[tuple[Any, float]]]:
        """Return the k most probable labellings of each graph with their log-probabilities, the best first.

        The list is shorter if fewer labellings are possible. Needs an exact `inference`, such as "junction_tree". With
        energies, the labellings are those of the model whose scores include the gradient of the energies.
        """
        return self._predict_kbest(X, None, k)

    @entry_point
    def sample(
        self, X: Sequence[Any], n_samples: int = 1, random_state: int | np.random.Generator | None = None
    ) -> list[Any]:
        """Sample labellings of each graph from the model, as (n_samples, n) arrays, or dicts by type as in `predict`.

        Samples are independent and exact with an exact `inference`, such as "junction_tree"; "gibbs" returns dependent
        samples of a Markov chain. With energies, the model is the one whose scores include the gradient of the
        energies.
        """
        return self._sample(X, None, n_samples, random_state)

    @entry_point
    def score(self, X: Sequence[Any], y: Sequence[Any], sample_weight: Any = None) -> float:
        """Return the accuracy: the fraction of labelled variables, over all graphs, that are predicted correctly.

        A label that was not seen in fit counts as an error.
        """
        return self._score(X, y, None, sample_weight)

    @property
    def node_weights_(self) -> dict[str, FloatArray]:
        """Weights of each type of variables, one row per class."""
        check_fitted(self, "weights_")
        return self.templates_.unpack(self.weights_)[0]

    @property
    def factor_weights_(self) -> dict[str, FloatArray]:
        """Weights of each type of factors, one row per joint state in C order."""
        check_fitted(self, "weights_")
        return self.templates_.unpack(self.weights_)[1]

    def _parallel(
        self, function: Callable[..., Any], maps: Sequence[Any], seeds: Sequence[Any] | None = None
    ) -> list[Any]:
        """Call a function for each example; with energies, on scores that include the gradient of the energies.

        The present `inference` and `projection` are used, even if they were changed after the fit.
        """
        if self._model_settings is not None:
            self._model_settings.check(self)
        fitted = self.energies_
        if fitted is None:
            return super()._parallel(function, maps, seeds)
        if self._inference_of_fit is not None and self._inference_of_fit.changed(self):
            resolved = resolve_graph_energies(self)
            fitted = fitted if resolved is None else replace(fitted, method=resolved.method)
        classes = self._class_table()
        tilted: Any = fitted.add_energies(maps, [labels_of_variables(scores, classes) for scores in maps])
        results = super()._parallel(project_scores, tilted)
        warn_unless_all_converged([report for _, report in results], "graphs", fitted.method)
        return super()._parallel(function, [scores for scores, _ in results], seeds)

    _parts: ClassVar[Parts] = {
        **CRF._parts,
        "energies": ENERGY_PARTS,
        "psi": PSIS,
        "projection": METHODS,
        "energy_learner": ENERGY_LEARNERS,
    }

    def _to_file(self) -> Content:
        metadata, arrays = super()._to_file()
        energy_metadata, energy_arrays = graph_energies_to_file(self)
        if self.expectations_ is not None:
            metadata["expectations"] = self.expectations_.to_json()
        return {**metadata, **energy_metadata}, {**arrays, **energy_arrays}

    def _from_file(self, metadata: dict[str, Any], arrays: Arrays) -> None:
        super()._from_file(metadata, arrays)
        self.energies_, self.energy_history_ = graph_energies_from_file(self, metadata, arrays)
        if "expectations" in metadata:
            from intarsia.learning.expectations import ExpectationTable

            self.expectations_ = ExpectationTable.from_json(metadata["expectations"])
        self._note_settings()

    def _note_settings(self) -> None:
        """Record the settings that are part of the model, and those that may be changed for predictions."""
        self._model_settings = SettingsOfFit(self, ("energies", "psi"))
        self._inference_of_fit = SettingsOfFit(self, ("inference", "projection"))

    def _read(self, X: Any, edge_features: Any, fitted_templates: Templates | None) -> Data:
        graphs = read_graphs(X)
        types = find_types(graphs, fitted_templates)

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
                f"symmetric must be True, False or a list of types of factors, got {self.symmetric!r}."
            )
        return frozenset(self.symmetric)


def _layout(graph: TypedGraph, i: int) -> Layout:
    shapes: dict[str, tuple[int, ...]] = {kind: (n,) for kind, n in graph.n_variables.items()}
    reasons = {
        kind: f"X[{i}] has {n} variables{f' of type {kind!r}' if graph.has_types else ''}. Pass one label for each"
        for kind, n in graph.n_variables.items()
    }
    return Layout(shapes, reasons, graph.has_types)


def _score_map(graph: TypedGraph, templates: Templates) -> TemplateScores:
    scopes = {name: factors.scopes for name, factors in graph.factors.items()}
    factor_graph = template_graph(templates, graph.n_variables, scopes)
    features = {name: factors.features for name, factors in graph.factors.items()}
    return TemplateScores(templates, factor_graph, graph.node_features, features)
