"""Base class of the conditional random field estimators: reads data, fits weights, predicts labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from intarsia._core.error_context import entry_point, errors_in
from intarsia._core.html import ShownEstimator
from intarsia._core.predictions import PredictionList
from intarsia._core.registry import NamedParts, Parts
from intarsia._core.settings import Settings, check_fitted
from intarsia._core.validation import (
    FloatArray,
    as_float_array,
    as_generator,
    as_seed,
    check_choice,
    check_n_jobs,
    check_number,
    check_sample_weight,
)
from intarsia._core.worker_threads import run_by_workers
from intarsia._files.saved_model import Arrays, Content, SavedModel
from intarsia.crf.crf_data import Data, TrainingData, Truth, as_truth, find_truth, make_examples, observed_truth
from intarsia.crf.crf_file import crf_from_file, crf_to_file
from intarsia.crf.graph_data import TypeTable
from intarsia.crf.independent import independent_weights, remove_start_checkpoint
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.inference import InferenceMethod, Status, infer, method_class, method_names
from intarsia.inference.registry import METHODS
from intarsia.learning.examples import Example, example
from intarsia.learning.learner import Learner, whole_answer
from intarsia.learning.minimum import COLUMNS, Minimum
from intarsia.learning.registry import LEARNERS
from intarsia.models.labelling import Layout, States
from intarsia.models.template_scores import Templates, TemplateScores

# Standard deviation of the initial weights of a type without labels. With weights of 0 its states would be identical,
# and would remain so.
NOISE_SCALE = 0.1

Self = TypeVar("Self", bound="CRF")


class CRF(NamedParts, SavedModel, ShownEstimator, Settings, ABC):
    """Base class of conditional random field estimators; see `GridCRF` and `GraphCRF`."""

    classes_: Any
    templates_: Templates
    weights_: FloatArray
    initial_weights_: FloatArray
    history_: dict[str, FloatArray]
    n_iter_: int
    risk_: float
    status_: Status
    notes_: Any

    _parts: ClassVar[Parts] = {"learner": LEARNERS, "inference": METHODS}

    def __init__(
        self,
        *,
        inference: str | InferenceMethod = "tree_reweighted",
        learner: str | Learner = "risk_minimizer",
        classes: Any = None,
        class_weight: Any = None,
        decode: str = "auto",
        warm_start: bool = False,
        random_state: int | np.random.Generator | None = None,
        n_jobs: int | None = None,
        verbose: bool | None = None,
    ) -> None:
        self.inference = inference
        self.learner = learner
        self.classes = classes
        self.class_weight = class_weight
        self.decode = decode
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # ---------------------------------------------------------------- defined by each estimator

    @abstractmethod
    def _read(self, X: Any, edge_features: Any, templates: Templates | None) -> Data:
        """Read and check examples; also against the templates of a fitted model, if passed."""

    def _symmetric(self, types: TypeTable) -> frozenset[str]:
        """Return the types of factors with symmetric tables."""
        return frozenset()

    # ---------------------------------------------------------------- fitting

    @entry_point
    def examples(self, X: Any, y: Any) -> list[Example]:
        """Return labelled examples in the form that learners and diagnostics take.

        If the model is fitted, its classes and types are used.
        """
        fitted_templates = getattr(self, "templates_", None)
        data = self._read(X, None, fitted_templates)
        truth = self._truth(data, y, self.classes, fitted_templates)
        templates = self._templates(data, truth, fitted_templates)
        return make_examples(data, truth, templates, None, self.class_weight)

    def _read_all(
        self, X: Any, y: Any, edge_features: Any, sample_weight: Any, fitted: Templates | None
    ) -> TrainingData:
        """Read data and labels, with the templates of a fitted model if its weights are reused."""
        data = self._read(X, edge_features, fitted)
        truth = self._truth(data, y, self.classes, fitted)
        templates = self._templates(data, truth, fitted)
        examples = make_examples(data, truth, templates, sample_weight, self.class_weight)
        return TrainingData(data, truth, templates, examples, fitted)

    def _fit(self: Self, X: Any, y: Any, edge_features: Any, sample_weight: Any, validation: Any, start: Any) -> Self:
        self._check_decode()
        previous = self.templates_ if self.warm_start and hasattr(self, "weights_") else None
        return self._fit_training_data(self._read_all(X, y, edge_features, sample_weight, previous), validation, start)

    def _fit_training_data(self: Self, training_data: TrainingData, validation: Any, start: Any) -> Self:
        learner = self._resolve_learner().with_seed()
        data, truth, templates, examples, previous_templates = training_data
        learner.check_examples(examples, self.inference)  # raise for incompatible settings before any work
        held_out = None
        if validation is not None:
            held_out = self._held_out(validation, templates, truth, "validation")
        learner.check_validation(examples, self.inference, held_out)
        status: Status | None = None
        if start is not None:
            initial = check_start(start, templates)
        elif previous_templates is not None:
            initial = self.weights_
        elif learner.resumes():
            initial = np.zeros(templates.n_weights)
        elif not learner.starts_independent:
            initial = self._initial_weights(truth, templates)
        else:
            initial, status = self._independent_start(examples, truth, templates, learner)
        # After Ctrl-C before the main fit has computed anything, the independent model is the result.
        history: dict[str, FloatArray] = {name: np.empty(0) for name in COLUMNS}
        minimum = Minimum(initial, np.nan, np.nan, Status.INTERRUPTED, 0, start=initial, history=history)
        if status is not Status.INTERRUPTED:
            try:
                minimum = learner.minimize(
                    examples, self.inference, initial, validation=held_out, title=type(self).__name__
                )
            except KeyboardInterrupt:
                if status is None:
                    raise
            finally:
                remove_start_checkpoint(learner)
        # Store the results only after everything has succeeded.
        self._store(data, templates, truth, minimum)
        self.initial_weights_ = minimum.start
        self._step_state = None
        return self

    def _partial_fit(self: Self, X: Any, y: Any, edge_features: Any, classes: Any, sample_weight: Any) -> Self:
        learner = self._resolve_learner().with_seed()
        fitted_templates = getattr(self, "templates_", None)
        data = self._read(X, edge_features, fitted_templates)
        class_setting = self.classes if classes is None else classes
        if fitted_templates is None and class_setting is None:
            raise InvalidInputError(
                "the first call needs all classes, since later labels may contain more. Pass classes=."
            )
        by_type = self.class_weight.values() if isinstance(self.class_weight, Mapping) else [self.class_weight]
        if any(isinstance(weight, str) and weight == "balanced" for weight in by_type):
            raise InvalidInputError(
                "class_weight='balanced' needs the whole data set and cannot be used with partial_fit. Pass a dict "
                "label -> weight."
            )
        truth = self._truth(data, y, class_setting, fitted_templates)
        templates = self._templates(data, truth, fitted_templates)
        examples = make_examples(data, truth, templates, sample_weight, self.class_weight)
        learner.check_examples(examples, self.inference)
        start_weights = self.weights_ if fitted_templates is not None else self._initial_weights(truth, templates)
        weights, state, risk = learner.step(examples, self.inference, start_weights, getattr(self, "_step_state", None))
        n_iter = getattr(self, "n_iter_", 0) + 1
        history = {"risk": np.append(getattr(self, "history_", {}).get("risk", np.empty(0)), risk)}
        if fitted_templates is None:
            self.initial_weights_ = start_weights
        self._store(data, templates, truth, Minimum(weights, risk, np.nan, Status.MAX_ITER, n_iter, history=history))
        self._step_state = state
        return self

    def _store(self, data: Data, templates: Templates, truth: Truth, minimum: Minimum) -> None:
        if not hasattr(self, "templates_") or self.templates_ is not templates:
            self.classes_ = dict(truth.classes) if data.has_types else next(iter(truth.classes.values()))
            self.templates_ = templates
        self.weights_ = minimum.point
        self.history_ = minimum.history
        self.n_iter_ = minimum.n_iter
        self.risk_ = minimum.value
        self.status_ = minimum.status

    def _templates(self, data: Data, truth: Truth, fitted_templates: Templates | None) -> Templates:
        """Return the templates of the model: those of the fitted model, or new ones from the data."""
        types = data.types
        n_states = {kind: int(truth.classes[kind].size) for kind in types.n_features}
        symmetric = self._symmetric(types)
        if fitted_templates is not None:
            if symmetric != fitted_templates.symmetric:
                raise InvalidInputError(
                    f"factors with symmetric tables are {sorted(symmetric)}, but in the fitted model they are "
                    f"{sorted(fitted_templates.symmetric)}. Restore the setting symmetric, or start with a new model."
                )
            return fitted_templates
        return Templates(n_states, types.n_features, types.scopes, types.n_factor_features, symmetric)

    def _truth(self, data: Data, y: Any, classes: Any, fitted_templates: Templates | None) -> Truth:
        return find_truth(data, y, classes, None if fitted_templates is None else self._class_table())

    def _held_out(self, validation: Any, templates: Templates, truth: Truth, name: str) -> list[Example]:
        if not isinstance(validation, tuple) or len(validation) != 2:
            raise InvalidInputError(f"{name} must be a pair (X, y), got {type(validation).__name__}.")
        with errors_in(name):
            data = self._read(validation[0], None, templates)
            held_out = as_truth(data, validation[1], truth.classes)
            return make_examples(data, held_out, templates, None, self.class_weight)

    def _independent_start(
        self, examples: list[Example], truth: Truth, templates: Templates, learner: Learner
    ) -> tuple[FloatArray, Status]:
        without_factors = []
        for labelled in examples:
            scores: Any = labelled.scores
            labels = labelled.labels
            # Without factors, the variables have the same order and states, so the labels remain valid.
            without_factors.append(example(scores.without_factors(), labels.allowed, labelled.weight, labels.weights))
        title = f"{type(self).__name__}, single variables"
        node_weights, status = independent_weights(without_factors, learner, title)
        weights = self._initial_weights(truth, templates)
        weights[: node_weights.size] += node_weights
        return weights, status

    def _initial_weights(self, truth: Truth, templates: Templates) -> FloatArray:
        """Return weights of 0, with small random weights for the variables of types without labels."""
        rng = as_generator(0 if self.random_state is None else self.random_state)
        weights = np.zeros(templates.n_weights)
        for kind, node_weights in templates.unpack(weights)[0].items():  # views
            noise = NOISE_SCALE * rng.normal(size=node_weights.shape)
            if not truth.labelled(kind):
                node_weights[:] = noise
        return weights

    # ---------------------------------------------------------------- predicting

    def _read_for_prediction(self, X: Any, edge_features: Any) -> tuple[Data, list[TemplateScores]]:
        check_fitted(self, "weights_")
        data = self._read(X, edge_features, self.templates_)
        return data, data.score_maps(self.templates_)

    def _predict_marginals(self, X: Any, edge_features: Any) -> list[Any]:
        data, maps = self._read_for_prediction(X, edge_features)
        predictions = []
        for layout, marginals in zip(data.layouts, self._marginals(maps, data.layouts), strict=True):
            arrays = {kind: mu.reshape(*layout.shapes[kind], mu.shape[1]) for kind, mu in marginals.items()}
            predictions.append(layout.join_types(arrays))
        return predictions

    def _predict(self, X: Any, edge_features: Any) -> list[Any]:
        data, maps = self._read_for_prediction(X, edge_features)
        return PredictionList(
            self._to_labels(states, layout)
            for layout, states in zip(data.layouts, self._decode(maps, data.layouts), strict=True)
        )

    def _predict_kbest(self, X: Any, edge_features: Any, k: int) -> list[list[tuple[Any, float]]]:
        data, maps = self._read_for_prediction(X, edge_features)
        check_number(k, "k", low=1, integer=True)
        self._check_ability("gives_best", "cannot find several best labellings")
        results = self._parallel(partial(_best_labellings, int(k)), maps)
        return [
            [
                (self._to_labels(self._split_by_type(states, layout, {}), layout), float(value))
                for states, value in zip(*result, strict=True)
            ]
            for layout, result in zip(data.layouts, results, strict=True)
        ]

    def _sample(self, X: Any, edge_features: Any, n_samples: int, random_state: Any) -> list[Any]:
        data, maps = self._read_for_prediction(X, edge_features)
        check_number(n_samples, "n_samples", low=1, integer=True)
        self._check_ability("gives_samples", "cannot sample labellings")
        seed = as_seed(random_state)
        results = self._parallel(
            partial(_sample_labellings, int(n_samples)), maps, [[seed, i] for i in range(len(maps))]
        )
        return [
            self._to_labels(self._split_by_type(states, layout, {}), layout)
            for layout, states in zip(data.layouts, results, strict=True)
        ]

    def _check_ability(self, ability: str, limitation: str) -> None:
        method = METHODS.resolve(self.inference, {})
        if not getattr(method, ability):
            supported = [name for name in method_names() if getattr(method_class(name), ability)]
            raise NotSupportedError(
                f"inference={type(method).__name__} {limitation}. Set inference to one of {supported}."
            )

    def _to_labels(self, states_by_type: dict[str, NDArray[Any]], layout: Layout) -> Any:
        """Convert states by type to user labels in the shape of the input; states may have leading axes."""
        classes = self._class_table()
        labels = {}
        for kind, states in states_by_type.items():
            labels[kind] = classes[kind][states].reshape(*states.shape[:-1], *layout.shapes[kind])
        return layout.join_types(labels)

    def _score(self, X: Any, y: Any, edge_features: Any, sample_weight: Any) -> float:
        data, maps = self._read_for_prediction(X, edge_features)
        weights = check_sample_weight(sample_weight, len(data.layouts))
        n_correct, total = 0.0, 0.0
        truth = observed_truth(data, y, self._class_table())
        for labels, weight in zip(truth, weights, strict=True):
            total += weight * sum(int((states >= 0).sum()) for states in labels.values())
        if total == 0.0:
            raise InvalidInputError(
                "all labels are hidden, or belong to examples of weight 0. Pass labels of some variables."
            )
        for labels, predictions, weight in zip(truth, self._decode(maps, data.layouts), weights, strict=True):
            n_correct += weight * sum(int((predictions[kind] == states).sum()) for kind, states in labels.items())
        return float(n_correct / total)

    def _decode(self, maps: list[TemplateScores], layouts: list[Layout]) -> list[dict[str, States]]:
        """Return the predicted states by type: largest marginals (Domke2013 Eq. 2), or the best joint labelling."""
        if self._decoding() == "marginals":
            marginals = self._marginals(maps, layouts)
            return [{kind: mu.argmax(axis=1) for kind, mu in mu_by_type.items()} for mu_by_type in marginals]
        assignments = self._parallel(_best_labelling, maps)
        return [self._split_by_type(states, layout, {}) for states, layout in zip(assignments, layouts, strict=True)]

    def _marginals(self, maps: list[TemplateScores], layouts: list[Layout]) -> list[dict[str, FloatArray]]:
        widths = dict(self.templates_.n_states)
        results = self._parallel(partial(_marginals_of_variables, self._resolve_learner()), maps)
        return [self._split_by_type(mu, layout, widths) for mu, layout in zip(results, layouts, strict=True)]

    def _split_by_type(self, flat: NDArray[Any], layout: Layout, widths: dict[str, int]) -> dict[str, NDArray[Any]]:
        """Split an array over all variables by type; `widths` is the number of values per variable, if above 1."""
        blocks, start = {}, 0
        for kind in self.templates_.n_states:
            if kind in layout.shapes:
                n = int(np.prod(layout.shapes[kind]))
                block = flat[..., start : start + n * widths.get(kind, 1)]
                blocks[kind] = block.reshape(n, widths[kind]) if widths else block
                start += block.shape[-1]
        return blocks

    def _parallel(
        self, function: Callable[..., Any], maps: Sequence[TemplateScores], seeds: Sequence[Any] | None = None
    ) -> list[Any]:
        """Call a function with weights, inference, the scores of each example and its seed, if any, in parallel."""
        n_jobs = self._resolve_learner().get_params(deep=False).get("n_jobs")
        check_n_jobs(n_jobs, "n_jobs")
        inputs: Iterable[tuple[Any, ...]] = zip(maps) if seeds is None else zip(maps, seeds, strict=True)
        calls = [partial(function, self.weights_, self.inference, *arguments) for arguments in inputs]
        return run_by_workers(calls, n_jobs)

    # ---------------------------------------------------------------- files

    def _to_file(self) -> Content:
        return crf_to_file(self)

    def _from_file(self, metadata: dict[str, Any], arrays: Arrays) -> None:
        crf_from_file(self, metadata, arrays)

    # ---------------------------------------------------------------- settings

    def _class_table(self) -> dict[str, NDArray[Any]]:
        if isinstance(self.classes_, dict):
            return self.classes_
        return {next(iter(self.templates_.n_states)): self.classes_}

    def _resolve_learner(self) -> Learner:
        """Return the learner, with the settings of the estimator in place of its defaults."""
        self._check_decode()
        learner = LEARNERS.resolve(self.learner)
        settings = {name: getattr(self, name) for name in ("n_jobs", "random_state", "verbose")}
        learner_settings = learner.get_params(deep=False)
        return LEARNERS.resolve(
            learner, {key: value for key, value in settings.items() if value is not None and key in learner_settings}
        )

    def _decoding(self) -> str:
        """Return what to predict, "marginals" or "map"; for "auto", the one that the learner trains for."""
        self._check_decode()
        if self.decode != "auto":
            return self.decode
        return "map" if self._resolve_learner().learns_from == "best labelling" else "marginals"

    def _check_decode(self) -> None:
        check_choice(self.decode, ("auto", "marginals", "map"), "decode")
        if self.decode == "map" and not METHODS.resolve(self.inference, {}).gives_map:
            supported = [
                name for name in method_names() if method_class(name).gives_map and method_class(name).gives_marginals
            ]
            raise NotSupportedError(
                f"decode='map' needs MAP inference, which {type(METHODS.resolve(self.inference, {})).__name__} does "
                f"not support. Set inference to a method with MAP and marginals: {', '.join(supported)}."
            )


def _best_labelling(weights: FloatArray, inference: str | InferenceMethod, scores: TemplateScores) -> Any:
    return whole_answer(infer(scores.graph, scores.theta(weights), inference, task="map")).assignment


def _best_labellings(
    k: int, weights: FloatArray, inference: str | InferenceMethod, scores: TemplateScores
) -> tuple[Any, FloatArray]:
    """Return the k best labellings of a graph and their log-probabilities."""
    result = whole_answer(infer(scores.graph, scores.theta(weights), inference, n_best=k))
    if result.best is None or result.best_scores is None or result.log_partition is None:
        return [], np.empty(0)
    return result.best, result.best_scores - result.log_partition


def _sample_labellings(
    n_samples: int, weights: FloatArray, inference: str | InferenceMethod, scores: TemplateScores, seed: list[int]
) -> Any:
    """Return samples (n_samples, n_variables) of the labellings of a graph."""
    rng = np.random.default_rng(seed)
    theta = scores.theta(weights)
    return whole_answer(infer(scores.graph, theta, inference, n_samples=n_samples, random_state=rng)).samples


def _marginals_of_variables(
    learner: Learner, weights: FloatArray, inference: str | InferenceMethod, scores: TemplateScores
) -> FloatArray:
    mu = learner.marginals(scores.graph, scores.theta(weights), inference)
    return mu[: int(scores.graph.variable_ptr[-1])].copy()  # a view would keep the factor marginals in memory


def check_start(start: Any, templates: Templates) -> FloatArray:
    """Return initial weights as an array, or raise."""
    weights = as_float_array(start, "start")
    if weights.shape != (templates.n_weights,) or not np.isfinite(weights).all():
        raise InvalidInputError(
            f"start has shape {weights.shape}, but the model has {templates.n_weights} weights. Pass as many "
            f"finite numbers, such as weights_ of a model with the same types and features."
        )
    return weights.copy()
