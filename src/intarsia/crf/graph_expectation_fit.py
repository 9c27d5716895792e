"""Fit of a `GraphCRF` to expectations on graphs whose labels are hidden."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from intarsia._core.settings import clone
from intarsia._core.validation import FloatArray, check_sample_weight
from intarsia._core.worker_threads import cut_in_parts, run_in_threads
from intarsia.crf.crf import check_start
from intarsia.crf.crf_data import Classes, find_truth, make_examples
from intarsia.energies.binding.batch_energies import has_energies
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.gradients.truncated import TruncatedGradient
from intarsia.inference import InferenceMethod
from intarsia.learning.examples import Example
from intarsia.learning.expectations.expectation import Expectation
from intarsia.learning.expectations.generalized_expectation import (
    Corpus,
    Moments,
    bind_expectations,
    check_arguments,
    learn_from_expectations,
)
from intarsia.learning.expectations.positions import Positions
from intarsia.learning.margin_example import MarginExample
from intarsia.learning.registry import OPTIMIZERS
from intarsia.learning.risk_minimizer import RiskMinimizer
from intarsia.losses import LOSSES
from intarsia.losses.clamping import choose_method, solve

if TYPE_CHECKING:
    from intarsia.crf.graph_crf import GraphCRF

# Steps and weights of a difference of fourth order along a direction, which the largest entry is scaled to 1.
_STEP = 1e-3
_DIFFERENCES = ((2.0, -1.0 / 12.0), (1.0, 8.0 / 12.0), (-1.0, -8.0 / 12.0), (-2.0, 1.0 / 12.0))
# Differences of marginals need inference that has converged to this tolerance.
_TOLERANCE = 1e-11


class GraphCorpus(Corpus):
    """Graphs with known and hidden labels, as learning from expectations needs them.

    Parameters
    ----------
    examples : list of Example
        Graphs; all labels may be hidden.
    classes : dict of str -> array
        Classes of each type of variables.
    inference : InferenceMethod
        Method that computes log Z and marginals.
    n_jobs : int, optional
        Number of threads; the result does not depend on it.
    """

    def __init__(
        self, examples: Sequence[Example], classes: Classes, inference: InferenceMethod, n_jobs: int | None = None
    ) -> None:
        self.examples, self.inference, self.n_jobs = examples, _with_tight_tolerance(inference), n_jobs
        self.n_weights = examples[0].scores.n_weights
        graphs = [item.scores.graph for item in examples]
        sizes = np.array([graph.n_variables for graph in graphs])
        states = np.concatenate([np.empty(0, np.int64), *(graph.n_states for graph in graphs)])
        state_ptr = np.concatenate([[0], np.cumsum(states)]).astype(np.int64)
        self.positions = Positions(
            np.repeat(np.arange(len(examples)), sizes),
            state_ptr,
            np.array([item.weight for item in examples]),
            np.arange(len(examples)),
            len(examples),
            _tables(examples, classes, np.cumsum(sizes) - sizes),
        )
        self._allowed = [MarginExample(item).allowed for item in examples]
        self._state_start = np.concatenate([[0], np.cumsum([allowed.size for allowed in self._allowed])])
        self.has_labels = not all(allowed.all() for allowed in self._allowed)

    def moments(self, weights: FloatArray, *, clamped: bool = False) -> Moments:
        """Return sums over all graphs, exact if the inference is."""
        return self._moments(weights, clamped=clamped)

    def _moments(self, weights: FloatArray, tilt: FloatArray | None = None, clamped: bool = False) -> Moments:
        calls = [partial(self._sum, weights, tilt, clamped, indices) for indices in cut_in_parts(len(self.examples))]
        results = run_in_threads(calls, self.n_jobs)
        return Moments(
            sum(result.log_partition for result in results),
            np.concatenate([result.marginals for result in results]),
            np.sum([result.statistics for result in results], axis=0),
        )

    def covariance(self, weights: FloatArray, direction: FloatArray) -> FloatArray:
        """Return covariances by differences of fourth order of the expected features along the direction."""
        largest = float(np.abs(direction).max(initial=0.0))
        total = np.zeros(self.n_weights)
        if largest == 0.0:
            return total
        step = _STEP / largest
        for shift, weight in _DIFFERENCES:
            total += weight / step * self._moments(weights, -shift * step * direction).statistics
        return total

    def _sum(self, weights: FloatArray, tilt: FloatArray | None, clamped: bool, indices: list[int]) -> Moments:
        """Return the sums over some graphs."""
        log_partition, statistics, marginals = 0.0, np.zeros(self.n_weights), []
        for i in indices:
            item, (first, last) = self.examples[i], self._state_start[i : i + 2]
            theta = np.array(item.scores.theta(weights))
            if tilt is not None:
                theta[: last - first] -= tilt[first:last]
            if clamped:
                theta[: last - first][~self._allowed[i]] = -np.inf
            result = solve(item.scores.graph, theta, self.inference, "marginals", np.random.default_rng(0))
            if result is None:
                raise InvalidInputError(f"X[{i}] has no labelling that agrees with y[{i}]. Correct the labels.")
            log_partition += item.weight * result[0]
            statistics += item.weight * item.scores.pull_back(result[1])
            marginals.append(result[1][: last - first])
        return Moments(log_partition, np.concatenate(marginals), statistics)


def _tables(examples: Sequence[Example], classes: Classes, starts: Any) -> dict[str, Any]:
    """Return positions, classes and features of each type of variables."""
    maps: list[Any] = [item.scores for item in examples]
    tables: dict[str, Any] = {}
    offset = np.asarray(starts, dtype=np.int64).copy()
    for number, (kind, labels) in enumerate(classes.items()):
        features = [scores.blocks[number].features for scores in maps]
        counts = np.array([matrix.shape[0] for matrix in features])
        positions = np.concatenate([first + np.arange(n) for first, n in zip(offset, counts, strict=True)])
        offset = offset + counts
        stacked = sparse.vstack(features, format="csr") if any(map(sparse.issparse, features)) else np.vstack(features)
        tables[kind] = (positions.astype(np.int64), labels, stacked, None)
    return tables


def _with_tight_tolerance(inference: InferenceMethod) -> InferenceMethod:
    settings = inference.get_params(deep=False)
    if "tol" not in settings or settings["tol"] <= _TOLERANCE:
        return inference
    tight: InferenceMethod = clone(inference).set_params(tol=_TOLERANCE)
    return tight.set_params(max_iter=max(int(settings["max_iter"]), 2000)) if "max_iter" in settings else tight


def fit_graph_expectations(
    crf: GraphCRF,
    X: Any,
    y: Any,
    expectations: Any,
    sample_weight: Any,
    start: Any,
    unused: dict[str, Any],
) -> None:
    """Fit the weights to expectations and to the labels that are known, and store them in the estimator.

    Arguments in `unused` must be None, since they have no meaning with expectations.
    """
    items = check_arguments(expectations, unused)
    learner = crf._resolve_learner()
    if not isinstance(learner, RiskMinimizer) or OPTIMIZERS.resolve(learner.optimizer).takes_batches:
        raise NotSupportedError(
            "expectations need learner=RiskMinimizer(...) with optimizer='lbfgs', because they are sums over all data "
            "of the model's expectations. Change the learner."
        )
    if has_energies(crf.energies):
        raise NotSupportedError("expectations cannot be used together with energies=. Remove energies for this fit.")
    inference = choose_method("expectations", "marginals", crf.inference)
    if LOSSES.resolve(learner.loss).needs == "marginals" and inference.name not in TruncatedGradient.differentiates:
        raise NotSupportedError(
            f"predictions of {type(inference).__name__} need a likelihood as loss, but loss is {learner.loss!r:.60}. "
            f"Pass learner=RiskMinimizer(loss='likelihood')."
        )
    previous = crf.templates_ if crf.warm_start and hasattr(crf, "weights_") else None
    data = crf._read(X, None, previous)
    labels_by_type = _named_labels(items, list(data.types.n_features))
    truth = find_truth(data, y, crf.classes, None if previous is None else crf._class_table(), labels_by_type)
    templates = crf._templates(data, truth, previous)
    check_sample_weight(sample_weight, len(data.layouts))
    examples = make_examples(data, truth, templates, sample_weight, crf.class_weight)
    if not any(item.scores.graph.n_variables for item in examples):
        raise InvalidInputError("X has no variable. Pass at least one graph that is not empty.")
    corpus = GraphCorpus(examples, truth.classes, inference, learner.n_jobs)
    bound = bind_expectations(items, corpus.positions)
    if start is not None:
        initial = check_start(start, templates)
    elif previous is not None:
        initial = crf.weights_.copy()
    else:
        initial = crf._initial_weights(truth, templates)
        for kind, node_weights in templates.unpack(initial)[0].items():  # views
            if labels_by_type[kind]:  # expectations distinguish its states, so that no noise is needed
                node_weights[:] = 0.0
    settings = (float(learner.l2), OPTIMIZERS.resolve(learner.optimizer), bool(learner.verbose))
    minimum, table = learn_from_expectations(corpus, bound, settings, initial, "GraphCRF")
    crf._store(data, templates, truth, minimum)
    crf.initial_weights_, crf.energies_, crf.energy_history_ = initial, None, {}
    crf._step_state, crf.expectations_ = None, table


def _named_labels(items: list[Expectation], kinds: list[str]) -> dict[str, list[Any]]:
    """Return the labels of each type of variables that expectations name."""
    labels_by_type: dict[str, list[Any]] = {kind: [] for kind in kinds}
    for item in items:
        kind = kinds[0] if item.kind is None and len(kinds) == 1 else item.kind
        if kind is None and not item.labels_used():
            continue
        if kind not in labels_by_type:
            raise InvalidInputError(
                f"{item.title}: kind is {item.kind!r}, but the types of variables are {kinds}. Pass one of these."
            )
        labels_by_type[kind] += [label for label in item.labels_used() if label not in labels_by_type[kind]]
    return labels_by_type
