"""What the estimators of conditional random fields share: from data and labels to weights, and back to labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from intarsia._core.error_context import entry_point, errors_in
from intarsia._core.html import ShownEstimator
from intarsia._core.predictions import PredictionList
from intarsia._core.registry import NamedParts, Parts
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
from intarsia.crf.crf_data import Data, Prepared, Truth, as_truth, find_truth, make_examples, observed_truth
from intarsia.crf.crf_file import crf_from_file, crf_to_file
from intarsia.crf.graph_data import TypeTable
from intarsia.crf.independent import forget_start, independent_weights
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.inference import InferenceMethod, Status, infer, method_class, method_names
from intarsia.inference.registry import METHODS
from intarsia.learning.examples import Example, example
from intarsia.learning.learner import Learner, whole_answer
from intarsia.learning.minimum import COLUMNS, Minimum
from intarsia.learning.registry import LEARNERS
from intarsia.models.labelling import Layout, States
from intarsia.models.template_scores import Templates, TemplateScores

# Size of the weights with which a type without any label begins. At 0 its states would be alike and stay so.
NOISE = 0.1

Self = TypeVar("Self", bound="CRF")


class CRF(NamedParts, SavedModel, ShownEstimator, BaseEstimator, ABC):  # type: ignore[misc]
    """Base of the estimators of conditional random fields; see `GridCRF` and `GraphCRF`."""

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

    # ---------------------------------------------------------------- what an estimator adds

    @abstractmethod
    def _read(self, X: Any, more: Any, known: Templates | None) -> Data:
        """Examples, checked; against the model, if it is fitted."""

    def _symmetric(self, types: TypeTable) -> frozenset[str]:
        """Types of factors with symmetric tables."""
        return frozenset()

    # ---------------------------------------------------------------- fitting

    @entry_point
    def examples(self, X: Any, y: Any) -> list[Example]:
        """Labelled examples as learners and diagnostics see them; with the form of the model, where it is fitted."""
        known = getattr(self, "templates_", None)
        data = self._read(X, None, known)
        truth = self._truth(data, y, self.classes, known)
        templates = self._templates(data, truth, known)
        return make_examples(data, truth, templates, None, self.class_weight)

    def _prepare(self, X: Any, y: Any, more: Any, sample_weight: Any, known: Templates | None) -> Prepared:
        """Read data and labels, in the form of `known` where weights are kept."""
        data = self._read(X, more, known)
        truth = self._truth(data, y, self.classes, known)
        templates = self._templates(data, truth, known)
        return Prepared(
            data, truth, templates, make_examples(data, truth, templates, sample_weight, self.class_weight), known
        )

    def _fit(self: Self, X: Any, y: Any, more: Any, sample_weight: Any, validation: Any, start: Any) -> Self:
        self._check_decode()
        known = self.templates_ if self.warm_start and hasattr(self, "weights_") else None
        return self._fit_prepared(self._prepare(X, y, more, sample_weight, known), validation, start)

    def _fit_prepared(self: Self, prepared: Prepared, validation: Any, start: Any) -> Self:
        learner = self._resolve_learner().with_seed()
        data, truth, templates, examples, known = prepared
        learner.check_examples(examples, self.inference)  # what does not fit is told before any work
        held_out = None
        if validation is not None:
            held_out = self._held_out(validation, templates, truth, "validation")
        learner.check_validation(examples, self.inference, held_out)
        status: Status | None = None
        if start is not None:
            first = _check_start(start, templates)
        elif known is not None:
            first = self.weights_
        elif learner.resumes():
            first = np.zeros(templates.n_weights)
        elif not learner.starts_independent:
            first = self._noise(truth, templates)
        else:
            first, status = self._independent_start(examples, truth, templates, learner)
        # After Ctrl-C before the fit proper has computed anything, the independent model is what there is.
        nothing: dict[str, FloatArray] = {name: np.empty(0) for name in COLUMNS}
        found = Minimum(first, np.nan, np.nan, Status.INTERRUPTED, 0, start=first, history=nothing)
        if status is not Status.INTERRUPTED:
            try:
                found = learner.minimize(
                    examples, self.inference, first, validation=held_out, title=type(self).__name__
                )
            except KeyboardInterrupt:
                if status is None:
                    raise
            finally:
                forget_start(learner)
        # Nothing is stored before everything has worked.
        self._store(data, templates, truth, found)
        self.initial_weights_ = found.start
        self._step_state = None
        return self

    def _partial_fit(self: Self, X: Any, y: Any, more: Any, classes: Any, sample_weight: Any) -> Self:
        learner = self._resolve_learner().with_seed()
        known = getattr(self, "templates_", None)
        data = self._read(X, more, known)
        given = self.classes if classes is None else classes
        if known is None and given is None:
            raise InvalidInputError(
                "the first call must name all classes, since later labels may have more. Give classes=."
            )
        by_type = self.class_weight.values() if isinstance(self.class_weight, Mapping) else [self.class_weight]
        if any(isinstance(asked, str) and asked == "balanced" for asked in by_type):
            raise InvalidInputError(
                "class_weight='balanced' is known only from all data, and here they come bit by bit. Give a "
                "dict of label -> weight."
            )
        truth = self._truth(data, y, given, known)
        templates = self._templates(data, truth, known)
        examples = make_examples(data, truth, templates, sample_weight, self.class_weight)
        learner.check_examples(examples, self.inference)
        first = self.weights_ if known is not None else self._noise(truth, templates)
        weights, state, risk = learner.step(examples, self.inference, first, getattr(self, "_step_state", None))
        n_iter = getattr(self, "n_iter_", 0) + 1
        history = {"risk": np.append(getattr(self, "history_", {}).get("risk", np.empty(0)), risk)}
        if known is None:
            self.initial_weights_ = first
        self._store(data, templates, truth, Minimum(weights, risk, np.nan, Status.MAX_ITER, n_iter, history=history))
        self._step_state = state
        return self

    def _store(self, data: Data, templates: Templates, truth: Truth, found: Minimum) -> None:
        if not hasattr(self, "templates_") or self.templates_ is not templates:
            self.classes_ = dict(truth.classes) if data.named else next(iter(truth.classes.values()))
            self.templates_ = templates
        self.weights_ = found.point
        self.history_ = found.history
        self.n_iter_ = found.n_iter
        self.risk_ = found.value
        self.status_ = found.status

    def _templates(self, data: Data, truth: Truth, known: Templates | None) -> Templates:
        """Form of the model: that of `known`, where it has been fitted."""
        types = data.types
        n_states = {kind: int(truth.classes[kind].size) for kind in types.n_features}
        symmetric = self._symmetric(types)
        if known is not None:
            if symmetric != known.symmetric:
                raise InvalidInputError(
                    f"factors with symmetric tables are {sorted(symmetric)}, but in the model to go on from "
                    f"they are {sorted(known.symmetric)}. Set symmetric as it was, or begin with a new model."
                )
            return known
        return Templates(n_states, types.n_features, types.scopes, types.n_factor_features, symmetric)

    def _truth(self, data: Data, y: Any, given: Any, known: Templates | None) -> Truth:
        return find_truth(data, y, given, None if known is None else self._class_table())

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
        apart = []
        for one in examples:
            scores: Any = one.scores
            # Variables keep their order and states, and labels of factors are labels of their variables.
            apart.append(example(scores.without_factors(), one.labels.allowed, one.weight, one.labels.weights))
        found, status = independent_weights(apart, learner, f"{type(self).__name__}, single variables")
        weights = self._noise(truth, templates)
        weights[: found.size] += found
        return weights, status

    def _noise(self, truth: Truth, templates: Templates) -> FloatArray:
        """Weights of 0, but small ones for the variables of types without any label."""
        rng = as_generator(0 if self.random_state is None else self.random_state)
        weights = np.zeros(templates.n_weights)
        for kind, part in templates.unpack(weights)[0].items():  # views
            drawn = NOISE * rng.normal(size=part.shape)
            if not truth.labelled(kind):
                part[:] = drawn
        return weights

    # ---------------------------------------------------------------- predicting

    def _known(self, X: Any, more: Any) -> tuple[Data, list[TemplateScores]]:
        check_is_fitted(self, "weights_")
        data = self._read(X, more, self.templates_)
        return data, data.score_maps(self.templates_)

    def _predict_marginals(self, X: Any, more: Any) -> list[Any]:
        data, maps = self._known(X, more)
        return [
            layout.whole({kind: part.reshape(*layout.shapes[kind], part.shape[1]) for kind, part in parts.items()})
            for layout, parts in zip(data.layouts, self._marginals(maps, data.layouts), strict=True)
        ]

    def _predict(self, X: Any, more: Any) -> list[Any]:
        data, maps = self._known(X, more)
        return PredictionList(
            self._named(parts, layout)
            for layout, parts in zip(data.layouts, self._decode(maps, data.layouts), strict=True)
        )

    def _predict_kbest(self, X: Any, more: Any, k: int) -> list[list[tuple[Any, float]]]:
        data, maps = self._known(X, more)
        check_number(k, "k", low=1, integer=True)
        self._check_ability("gives_best", "finds only one labelling")
        answers = self._parallel(partial(_best_labellings, int(k)), maps)
        return [
            [
                (self._named(self._by_type(states, layout, {}), layout), float(value))
                for states, value in zip(*answer, strict=True)
            ]
            for layout, answer in zip(data.layouts, answers, strict=True)
        ]

    def _sample(self, X: Any, more: Any, n_samples: int, random_state: Any) -> list[Any]:
        data, maps = self._known(X, more)
        check_number(n_samples, "n_samples", low=1, integer=True)
        self._check_ability("gives_samples", "draws no labellings")
        seed = as_seed(random_state)
        answers = self._parallel(
            partial(_drawn_labellings, int(n_samples)), maps, [[seed, i] for i in range(len(maps))]
        )
        return [
            self._named(self._by_type(states, layout, {}), layout)
            for layout, states in zip(data.layouts, answers, strict=True)
        ]

    def _check_ability(self, ability: str, lacks: str) -> None:
        method = METHODS.resolve(self.inference, {})
        if not getattr(method, ability):
            able = [name for name in method_names() if getattr(method_class(name), ability)]
            raise NotSupportedError(f"inference={type(method).__name__} {lacks}. Set inference to one of {able}.")

    def _named(self, parts: dict[str, NDArray[Any]], layout: Layout) -> Any:
        """Labels of states by type, as users give them; states may have leading axes."""
        classes = self._class_table()
        return layout.whole(
            {kind: classes[kind][part].reshape(*part.shape[:-1], *layout.shapes[kind]) for kind, part in parts.items()}
        )

    def _score(self, X: Any, y: Any, more: Any, sample_weight: Any) -> float:
        data, maps = self._known(X, more)
        weights = check_sample_weight(sample_weight, len(data.layouts))
        right, total = 0.0, 0.0
        truth = observed_truth(data, y, self._class_table())
        for one, weight in zip(truth, weights, strict=True):
            total += weight * sum(int((part >= 0).sum()) for part in one.values())
        if total == 0.0:
            raise InvalidInputError(
                "all labels are hidden, or of examples without weight. Give labels of some variables."
            )
        for one, found, weight in zip(truth, self._decode(maps, data.layouts), weights, strict=True):
            right += weight * sum(int((found[kind] == part).sum()) for kind, part in one.items())
        return float(right / total)

    def _decode(self, maps: list[TemplateScores], layouts: list[Layout]) -> list[dict[str, States]]:
        """State of each variable, by type: that of the largest marginal (Domke2013 Eq. 2), or of the best labelling."""
        if self._decoding() == "marginals":
            found = self._marginals(maps, layouts)
            return [{kind: part.argmax(axis=1) for kind, part in parts.items()} for parts in found]
        answers = self._parallel(_best_labelling, maps)
        return [self._by_type(answer, layout, {}) for answer, layout in zip(answers, layouts, strict=True)]

    def _marginals(self, maps: list[TemplateScores], layouts: list[Layout]) -> list[dict[str, FloatArray]]:
        widths = dict(self.templates_.n_states)
        answers = self._parallel(partial(_marginals_of_variables, self._resolve_learner()), maps)
        return [self._by_type(mu, layout, widths) for mu, layout in zip(answers, layouts, strict=True)]

    def _by_type(self, flat: NDArray[Any], layout: Layout, widths: dict[str, int]) -> dict[str, NDArray[Any]]:
        """Parts of what comes variable by variable; with several values for each, (n, width)."""
        parts, at = {}, 0
        for kind in self.templates_.n_states:
            if kind in layout.shapes:
                n = int(np.prod(layout.shapes[kind]))
                part = flat[..., at : at + n * widths.get(kind, 1)]
                parts[kind] = part.reshape(n, widths[kind]) if widths else part
                at += part.shape[-1]
        return parts

    def _parallel(
        self, one: Callable[..., Any], maps: Sequence[TemplateScores], seeds: Sequence[Any] | None = None
    ) -> list[Any]:
        """Answers of `one`, called with weights, inference, the scores of each example, and its seed if there are."""
        n_jobs = self._resolve_learner().get_params(deep=False).get("n_jobs")
        check_n_jobs(n_jobs, "n_jobs")
        inputs: Iterable[tuple[Any, ...]] = zip(maps) if seeds is None else zip(maps, seeds, strict=True)
        calls = [partial(one, self.weights_, self.inference, *each) for each in inputs]
        return run_by_workers(calls, n_jobs)

    # ---------------------------------------------------------------- files

    def _to_file(self) -> Content:
        return crf_to_file(self)

    def _from_file(self, about: dict[str, Any], arrays: Arrays) -> None:
        crf_from_file(self, about, arrays)

    # ---------------------------------------------------------------- settings

    def _class_table(self) -> dict[str, NDArray[Any]]:
        if isinstance(self.classes_, dict):
            return self.classes_
        return {next(iter(self.templates_.n_states)): self.classes_}

    def _resolve_learner(self) -> Learner:
        """The learner with what is set on the estimator itself."""
        self._check_decode()
        learner = LEARNERS.resolve(self.learner)
        own = {name: getattr(self, name) for name in ("n_jobs", "random_state", "verbose")}
        known = learner.get_params(deep=False)
        return LEARNERS.resolve(
            learner, {key: value for key, value in own.items() if value is not None and key in known}
        )

    def _decoding(self) -> str:
        """What is predicted: as asked, or what the learner fits the weights for."""
        self._check_decode()
        if self.decode != "auto":
            return self.decode
        return "map" if self._resolve_learner().learns_from == "best labelling" else "marginals"

    def _check_decode(self) -> None:
        check_choice(self.decode, ("auto", "marginals", "map"), "decode")
        if self.decode == "map" and not METHODS.resolve(self.inference, {}).gives_map:
            able = [
                name for name in method_names() if method_class(name).gives_map and method_class(name).gives_marginals
            ]
            raise NotSupportedError(
                f"decode='map', but {type(METHODS.resolve(self.inference, {})).__name__} finds no best "
                f"labelling. These do, and give the marginals to fit with: {', '.join(able)}."
            )


def _best_labelling(weights: FloatArray, inference: str | InferenceMethod, scores: TemplateScores) -> Any:
    return whole_answer(infer(scores.graph, scores.theta(weights), inference, task="map")).assignment


def _best_labellings(
    k: int, weights: FloatArray, inference: str | InferenceMethod, scores: TemplateScores
) -> tuple[Any, FloatArray]:
    """The k best labellings of one graph and their log-probabilities."""
    result = whole_answer(infer(scores.graph, scores.theta(weights), inference, n_best=k))
    if result.best is None or result.best_scores is None or result.log_partition is None:
        return [], np.empty(0)
    return result.best, result.best_scores - result.log_partition


def _drawn_labellings(
    n_samples: int, weights: FloatArray, inference: str | InferenceMethod, scores: TemplateScores, seed: list[int]
) -> Any:
    """Draws (n_samples, n_variables) of one graph."""
    rng = np.random.default_rng(seed)
    theta = scores.theta(weights)
    return whole_answer(infer(scores.graph, theta, inference, n_samples=n_samples, random_state=rng)).samples


def _marginals_of_variables(
    learner: Learner, weights: FloatArray, inference: str | InferenceMethod, scores: TemplateScores
) -> FloatArray:
    mu = learner.marginals(scores.graph, scores.theta(weights), inference)
    return mu[: int(scores.graph.variable_ptr[-1])].copy()  # a view would keep the marginals of factors


def _check_start(given: Any, templates: Templates) -> FloatArray:
    start = as_float_array(given, "start")
    if start.shape != (templates.n_weights,) or not np.isfinite(start).all():
        raise InvalidInputError(
            f"start has shape {start.shape}, but the model has {templates.n_weights} weights. Give as many "
            f"finite numbers, such as weights_ of a model of the same form."
        )
    return start.copy()
