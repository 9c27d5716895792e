"""Fit of a chain model to expectations on sequences whose labels are hidden."""

from __future__ import annotations

import copy
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia._core.validation import FloatArray
from intarsia._core.worker_threads import run_in_threads
from intarsia._kernels.chain_covariances import covariances_with_sums
from intarsia.exceptions import NotSupportedError
from intarsia.graph.chains import ChainBatch
from intarsia.inference.chains.chain_inference import chain_marginals
from intarsia.learning.expectations.generalized_expectation import (
    Corpus,
    Moments,
    bind_expectations,
    check_arguments,
    learn_from_expectations,
)
from intarsia.learning.expectations.positions import Positions
from intarsia.learning.registry import OPTIMIZERS
from intarsia.sequences.chain_data import ChainExamples
from intarsia.sequences.chain_learner import ChainLearner, Prepared, check_start, prepare_fit
from intarsia.sequences.maximum_likelihood import ChainRisk, MaximumLikelihood

if TYPE_CHECKING:
    from intarsia.sequences.chain_crf import ChainCRF


class ChainCorpus(Corpus):
    """Sequences with known and hidden labels, as learning from expectations needs them.

    Parameters
    ----------
    inputs : Prepared
        Sequences, labels and layout of the weights.
    n_jobs : int, optional
        Number of threads; the result does not depend on it.
    """

    def __init__(self, inputs: Prepared, n_jobs: int | None = None) -> None:
        examples = inputs.examples
        data, k = examples.data, examples.layout.n_labels
        n = int(data.ptr[-1])
        vocabulary = inputs.vectorizer.vocabulary_
        self.positions = Positions(
            np.repeat(np.arange(len(examples)), data.lengths),
            np.arange(n + 1) * k,
            examples.truth.weight,
            data.source_index,
            data.n_inputs,
            {"": (np.arange(n), inputs.classes, data.matrix, vocabulary)},
        )
        self.n_weights = examples.layout.n_weights
        self.has_labels = bool(examples.truth.is_labelled.any())
        self._sums = _Sums(examples, n_jobs)

    def moments(self, weights: FloatArray, *, clamped: bool = False) -> Moments:
        """Return sums over all sequences by forward-backward; exact."""
        sums = self._sums.prepared(clamped=clamped and self.has_labels)
        value, statistics = sums.total(weights)
        return Moments(value, sums.marginals.reshape(-1), statistics)

    def covariance(self, weights: FloatArray, direction: FloatArray) -> FloatArray:
        """Return the covariances of the features with the sum of `direction` over the labels; exact."""
        return self._sums.prepared(direction).total(weights)[1]


class _Sums(ChainRisk):
    """Sums of log Z and expected features of one model, instead of the difference of two that a likelihood needs."""

    def __init__(self, examples: ChainExamples, n_jobs: int | None) -> None:
        super().__init__(examples, 0.0, n_jobs)
        self.amounts: FloatArray | None = None
        self.is_clamped = False
        self.marginals = np.empty((0, examples.layout.n_labels))

    def prepared(self, amounts: FloatArray | None = None, *, clamped: bool = False) -> _Sums:
        """Return a copy for one pass; with amounts of the states, for covariances with their sum."""
        sums = copy.copy(self)  # shares the features
        k = self.examples.layout.n_labels
        sums.amounts = None if amounts is None else amounts.reshape(-1, k)
        sums.is_clamped = clamped
        sums.marginals = np.empty((int(self.examples.data.ptr[-1]), k))
        return sums

    def total(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Return the sums over all sequences, computed in threads."""
        table = self._table(weights)
        sums = run_in_threads([partial(self._sum, weights, table, group) for group in self._groups], self.n_jobs)
        return sum(value for value, _ in sums), np.sum([statistics for _, statistics in sums], axis=0)

    def _expected(self, batch: ChainBatch, weight: FloatArray, i: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        first, last = self._chunks[i]
        a, b = int(self.examples.data.ptr[first]), int(self.examples.data.ptr[last])
        if self.is_clamped:
            batch = self._clamped(batch, i)
        if self.amounts is not None:
            return self._covariances(batch, weight, self.amounts[a:b])
        log_partition, nodes, transitions = self._marginals(batch, weight, first)
        self.marginals[a:b] = nodes
        return log_partition, nodes.copy(), transitions

    def _covariances(
        self, batch: ChainBatch, weight: FloatArray, amounts: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the means of the sums of amounts, and covariances with them in place of probabilities."""
        result = chain_marginals(batch, transitions="steps")
        nodes, steps = np.array(result.nodes), np.array(result.transitions)
        means = np.empty(batch.n_sequences)
        covariances_with_sums(
            batch.ptr, np.ascontiguousarray(amounts), nodes, steps, np.empty(nodes.shape), np.empty(nodes.shape), means
        )
        if batch.has_table_per_step:
            return means, nodes, steps
        return means, nodes, np.tensordot(np.repeat(weight, np.diff(batch.ptr) - 1), steps, axes=1)


def fit_expectations(
    crf: ChainCRF,
    X: Any,
    y: Any,
    expectations: Any,
    edge_features: Any,
    sample_weight: Any,
    start: Any,
    unused: dict[str, Any],
) -> None:
    """Fit the weights to expectations and to the labels that are known, and store them in the estimator.

    Arguments in `unused` must be None, since they have no meaning with expectations.
    """
    items = check_arguments(expectations, unused)
    learner = _check_learner(crf, crf._resolve_learner())
    _check_estimator(crf)
    labels = list(dict.fromkeys(label for item in items for label in item.labels_used()))
    previous = crf if crf.warm_start and hasattr(crf, "weights_") else None
    inputs = prepare_fit(
        crf, X, y, edge_features, sample_weight, crf.classes, previous, every_pair=True, expected_labels=labels
    )
    examples = inputs.examples
    corpus = ChainCorpus(inputs, learner.n_jobs)
    bound = bind_expectations(items, corpus.positions)
    if start is not None:
        initial = check_start(start, examples.layout)
    else:
        initial = np.zeros(examples.layout.n_weights) if previous is None else crf.weights_.copy()
    settings = (float(learner.l2), OPTIMIZERS.resolve(learner.optimizer), bool(learner.verbose))
    minimum, table = learn_from_expectations(corpus, bound, settings, initial, "ChainCRF")
    crf._store(inputs)
    crf.weights_, crf.energies_, crf.energy_history_ = minimum.point, None, {}
    crf.l2_, crf.l2_path_, crf._step_state = float(learner.l2), None, None
    crf.history_, crf.n_iter_ = minimum.history, minimum.n_iter
    crf.risk_, crf.status_, crf.expectations_ = minimum.value, minimum.status, table


def _check_learner(crf: ChainCRF, learner: ChainLearner) -> MaximumLikelihood:
    """Return the learner, or raise if its settings cannot be used with expectations."""
    if not isinstance(learner, MaximumLikelihood):
        raise NotSupportedError(
            f"expectations need learner='maximum_likelihood', got {type(learner).__name__}. Change the learner."
        )
    learner.check_settings()
    if learner.chooses_l2:
        raise NotSupportedError(
            "l2='auto' chooses l2 by the likelihood of labels, which expectations do not have. Set l2 to a number."
        )
    if learner.l1 > 0:
        raise NotSupportedError(f"l1={learner.l1} cannot be used with expectations. Set l1=0, and use l2.")
    if OPTIMIZERS.resolve(learner.optimizer).takes_batches:
        raise NotSupportedError(
            "expectations are sums over all data, which mini-batches do not have. Use optimizer='lbfgs'."
        )
    if learner.validation_fraction or learner.checkpoint is not None:
        raise NotSupportedError(
            "validation_fraction and checkpoint of MaximumLikelihood cannot be used with expectations. Remove them."
        )
    return learner


def _check_estimator(crf: ChainCRF) -> None:
    """Raise if settings of the estimator cannot be used with expectations."""
    for setting in ("energies", "require"):
        if getattr(crf, setting) is not None:
            raise NotSupportedError(
                f"expectations cannot be used together with {setting}=. Remove {setting} for this fit; it can be set "
                f"on a model that is fitted later to labels."
            )
    if crf.weights == "observed":
        raise NotSupportedError(
            "weights='observed' has no weights for features of hidden labels. Use weights='all' with expectations."
        )
