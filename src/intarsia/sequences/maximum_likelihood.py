"""Regularized maximum likelihood of labelled sequences: the objective with its gradient, and the learner."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from intarsia._core.error_context import errors_in
from intarsia._core.progress import fit_progress
from intarsia._core.registry import NamedParts, Parts
from intarsia._core.transaction import describe
from intarsia._core.validation import FloatArray, as_seed, check_n_jobs, check_number
from intarsia._core.worker_threads import run_by_workers, run_in_threads, workers_are_apart
from intarsia._files.checkpoint import Checkpoint
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.graph.chains import ChainBatch
from intarsia.inference.chains.chain_inference import chain_marginals
from intarsia.learning.lbfgs import LBFGS
from intarsia.learning.minimum import LARGEST_WEIGHT, Minimum, Part, SummedObjective, largest
from intarsia.learning.optimizer import Optimizer, warn_unless_converged
from intarsia.learning.registry import OPTIMIZERS
from intarsia.learning.staged_fit import EarlyStopping, StagedFit
from intarsia.models.chain_scores import ChainWeights
from intarsia.sequences.chain_data import ChainExamples, ChainScores, cut_in_chunks
from intarsia.sequences.chain_learner import ChainLearner

Sums = tuple[float, FloatArray]

# Each group of chunks has its own gradient, so that the result does not depend on the number of workers.
MAX_GROUPS = 8
# Minimum number of features per weight in a group; with fewer, the sum of the gradients would dominate.
FEATURES_PER_WEIGHT = 3


class ChainRisk(SummedObjective):
    r"""Regularized negative log-likelihood of sequences; a call with weights returns value and gradient.

    .. math:: R(w) = \frac1N \sum_s a_s \bigl(\log Z_s(w) - \log Z_s(w; A_s)\bigr) + \frac r2 \lVert w \rVert^2

    where :math:`A_s` are the known or allowed labels, :math:`Z_s(w; A_s)` is the partition function restricted to
    them, and N is the weighted number of labelled positions.

    Parameters
    ----------
    examples : ChainExamples
        Labelled sequences.
    ridge : float
        L2 regularization r, relative to the risk per position.
    n_jobs : int, optional
        Number of threads, or of workers of `joblib.parallel_config`; the result does not depend on it.
    chunks : list of (int, int), optional
        Ranges of sequences that are computed together; by default chosen by length.

    Examples
    --------
    >>> from intarsia.sequences.chain_data import ChainTruth, Constraints, make_data
    >>> from intarsia.models.chain_scores import ChainLayout
    >>> data, truth = make_data(np.ones((1, 1)), np.array([0, 1]), None), ChainTruth(np.array([1]), None, np.ones(1))
    >>> examples = ChainExamples(data, truth, ChainLayout(1, 2, ends=False), Constraints.none(2))
    >>> value, gradient = ChainRisk(examples)(np.zeros(6))
    >>> round(value, 4), gradient[:2]
    (0.6931, array([ 0.5, -0.5]))
    """

    def __init__(
        self,
        examples: ChainExamples,
        ridge: float = 0.0,
        n_jobs: int | None = None,
        chunks: list[tuple[int, int]] | None = None,
    ) -> None:
        self.examples = examples
        self.ridge = ridge
        self.n_jobs = n_jobs
        self.mass = examples.mass
        self.n_weights = examples.layout.n_weights
        self._scores = ChainScores(examples.data, examples.layout, examples.constraints)
        self._row_weight = np.repeat(examples.truth.weight, examples.data.lengths)
        self._chunks = cut_in_chunks(examples.data.ptr) if chunks is None else chunks
        n_groups = min(MAX_GROUPS, max(2, examples.data.matrix.size // (FEATURES_PER_WEIGHT * self.n_weights)))
        groups = np.array_split(np.arange(len(self._chunks)), min(n_groups, max(1, len(self._chunks))))
        self._groups = [group.tolist() for group in groups]
        states, ptr = examples.truth.states, examples.data.ptr
        # If every label of a chunk is known, its observed statistics do not depend on the weights.
        self._all_known = [bool((states[ptr[a] : ptr[b]] >= 0).all()) for a, b in self._chunks]
        self._observed = self._count_observed()

    def __len__(self) -> int:
        """Return the number of sequences."""
        return len(self.examples)

    @property
    def convexity(self) -> float:
        """Modulus of strong convexity: the ridge if all labels are known, otherwise 0."""
        return self.ridge if all(self._all_known) else 0.0

    def subset(self, indices: ArrayLike) -> ChainRisk:
        """Return the risk of some sequences, per labelled position of these sequences and with the same ridge."""
        return ChainRisk(self.examples.subset(indices), self.ridge, self.n_jobs)

    def part(self, indices: ArrayLike) -> Part:
        """Return the risk of some sequences; with sparse features, its cost does not depend on the other weights."""
        examples = self.examples.subset(indices)
        if isinstance(examples.data.matrix, np.ndarray):
            return Part(ChainRisk(examples, self.ridge, self.n_jobs))
        rows: Any = sparse.csr_array(examples.data.matrix)
        columns, column_of = np.unique(rows.indices, return_inverse=True)
        matrix = sparse.csr_array((rows.data, column_of, rows.indptr), shape=(rows.shape[0], columns.size))
        layout, slots = examples.layout.of_features(columns.astype(np.int64))
        restricted = replace(examples, data=replace(examples.data, matrix=matrix), layout=layout)
        # `Part` expects the factor of the squared norm, hence one half.
        return Part(ChainRisk(restricted, 0.0, self.n_jobs), slots, 0.5 * self.ridge)

    def __call__(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Return risk and gradient at these weights; the risk is infinite if a weight is too large."""
        if not largest(weights) < LARGEST_WEIGHT:
            return np.inf, np.zeros(self.n_weights)
        if workers_are_apart():
            sums = run_by_workers([partial(_sum_group, group, weights) for group in self._groups_apart], self.n_jobs)
        else:
            table = self._table(weights)
            sums = run_in_threads([partial(self._sum, weights, table, group) for group in self._groups], self.n_jobs)
        value, gradient = sums[0][0], sums[0][1].copy()  # an array from another process may be read-only
        for group_value, group_gradient in sums[1:]:
            value += group_value
            gradient += group_gradient
        mass = self.mass or 1.0  # a mini-batch may have no labels
        value = (value - float(weights @ self._observed)) / mass + 0.5 * self.ridge * float(weights @ weights)
        gradient -= self._observed
        gradient /= mass
        gradient += self.ridge * weights
        return value, gradient

    @cached_property
    def _groups_apart(self) -> list[_Group]:
        """Groups that can be sent to workers one by one."""
        return [_Group(self.examples, [self._chunks[i] for i in group]) for group in self._groups]

    def sum(self, weights: FloatArray) -> Sums:
        """Return the sums of log-partition functions and expected statistics over all sequences."""
        return self._sum(weights, self._table(weights), list(range(len(self._chunks))))

    def _table(self, weights: FloatArray) -> FloatArray:
        return self._scores.features.spread(self.examples.layout.unpack(weights).states)

    def _sum(self, weights: FloatArray, table: FloatArray, group: list[int]) -> tuple[float, FloatArray]:
        """Return the sums of value and gradient over a group of chunks."""
        layout, features = self.examples.layout, self._scores.features
        gradient, table_gradient, value = np.zeros(self.n_weights), features.zeros(), 0.0
        out = layout.unpack(gradient)  # views
        for i in group:
            first, last = self._chunks[i]
            a, b = int(self.examples.data.ptr[first]), int(self.examples.data.ptr[last])
            chunk_value, residual = self._sum_chunk(weights, table, i, out)
            value += chunk_value
            features.pull_back(residual, gradient[: layout.n_states], a, b, table_gradient)
        features.collect(table_gradient, gradient[: layout.n_states])
        return value, gradient

    def _sum_chunk(self, weights: FloatArray, table: FloatArray, i: int, out: ChainWeights) -> Sums:
        """Return value and gradient in the scores of positions of a chunk; add all other gradients to `out`."""
        (first, last), data, k = self._chunks[i], self.examples.data, self.examples.layout.n_labels
        a, b = int(data.ptr[first]), int(data.ptr[last])
        weight = self.examples.truth.weight[first:last]
        batch = self._scores.batch(weights, first, last, table=table)
        log_partition, nodes, transitions = self._expected(batch, weight, i)
        nodes *= self._row_weight[a:b, None]
        if batch.has_table_per_step and out.edges is not None:
            steps = np.repeat(weight, data.lengths[first:last] - 1)[:, None] * transitions.reshape(-1, k * k)
            out.edges[:] += (data.edges[a - first : b - last].T @ steps).reshape(-1, k, k)
            transitions = steps.sum(axis=0).reshape(k, k)
        out.transitions[:] += transitions
        if out.start is not None and out.end is not None:
            out.start[:] += nodes[data.ptr[first:last] - a].sum(axis=0)
            out.end[:] += nodes[data.ptr[first + 1 : last + 1] - a - 1].sum(axis=0)
        return float(weight @ log_partition), nodes

    def _expected(self, batch: ChainBatch, weight: FloatArray, i: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return log Z, marginals and transitions of a chunk; minus those of its allowed labels, if some are hidden."""
        first = self._chunks[i][0]
        log_partition, nodes, transitions = self._marginals(batch, weight, first)
        if not self._all_known[i]:
            log_clamped, nodes_clamped, transitions_clamped = self._marginals(
                self._clamped(batch, i), weight, first, is_clamped=True
            )
            log_partition = log_partition - log_clamped
            nodes, transitions = nodes - nodes_clamped, transitions - transitions_clamped
        return log_partition, nodes, transitions

    def _marginals(
        self, batch: ChainBatch, weight: FloatArray, first: int, is_clamped: bool = False
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return log Z, marginals, and transitions: their weighted sum, or per step if tables differ by step."""
        if self.examples.required is not None:
            return self.examples.required.marginals(batch, first, weight, is_clamped)
        if batch.has_table_per_step:
            marginals = chain_marginals(batch, transitions="steps")
        else:
            marginals = chain_marginals(batch, sequence_weight=weight)
        return marginals.log_partition, marginals.nodes, np.asarray(marginals.transitions)

    def _clamped(self, batch: ChainBatch, i: int) -> ChainBatch:
        a, b = self.examples.data.ptr[list(self._chunks[i])]
        truth, k = self.examples.truth, self.examples.layout.n_labels
        allowed = truth.states[a:b, None] == np.arange(k) if truth.allowed is None else truth.allowed[a:b]
        return batch.restricted(allowed)

    def _count_observed(self) -> FloatArray:
        """Return the weighted observed statistics of the chunks whose labels are all known."""
        data, truth, layout = self.examples.data, self.examples.truth, self.examples.layout
        k = layout.n_labels
        is_known = np.repeat(self._all_known, [data.ptr[b] - data.ptr[a] for a, b in self._chunks]).astype(bool)
        weight = np.where(is_known, self._row_weight, 0.0)
        one_hot = np.zeros((is_known.size, k))
        one_hot[np.flatnonzero(is_known), truth.states[is_known]] = weight[is_known]
        counts = np.zeros(layout.n_weights)
        out = layout.unpack(counts)  # views
        self._scores.features.pull_back(one_hot, counts[: layout.n_states], 0, is_known.size)
        if out.start is not None and out.end is not None:
            out.start[:] = one_hot[data.ptr[:-1]].sum(axis=0)
            out.end[:] = one_hot[data.ptr[1:] - 1].sum(axis=0)
        has_previous = np.ones(is_known.size, dtype=bool)
        has_previous[data.ptr[:-1]] = False
        steps = np.flatnonzero(has_previous)
        step_known = is_known[steps]
        pair = truth.states[steps - 1] * k + truth.states[steps]
        amount = weight[steps]
        out.transitions[:] = np.bincount(pair[step_known], amount[step_known], k * k).reshape(k, k)
        if out.edges is not None and steps.size:
            flat = out.edges.reshape(-1, k * k)
            np.add.at(flat.T, pair[step_known], data.edges[step_known] * amount[step_known, None])
        return counts


class _Group:
    """Sequences of some chunks; only these are sent to a worker."""

    def __init__(self, examples: ChainExamples, chunks: list[tuple[int, int]]) -> None:
        self.examples, self.chunks = examples, chunks

    def __reduce__(self) -> tuple[Any, ...]:
        first, last = (self.chunks[0][0], self.chunks[-1][1]) if self.chunks else (0, 0)
        examples = self.examples.subset(np.arange(first, last))
        return _Group, (examples, [(a - first, b - first) for a, b in self.chunks])

    @cached_property
    def risk(self) -> ChainRisk:
        return ChainRisk(self.examples, chunks=self.chunks)


def _sum_group(group: _Group, weights: FloatArray) -> tuple[float, FloatArray]:
    return group.risk.sum(weights)


class MaximumLikelihood(NamedParts, ChainLearner):
    r"""Weights of a conditional random field by (partial) likelihood with L2 and L1 regularization.

    It minimizes

    .. math:: \sum_s a_s \bigl(\log Z_s(w) - \log Z_s(w; A_s)\bigr) + \frac{l_2}2 \lVert w \rVert^2 + l_1 \sum_i |w_i|,

    where :math:`A_s` is the set of labellings that agree with the labels: one labelling, or several if labels are
    hidden or sets. The objective is convex if all labels are known. CRFsuite's `c1` is `l1`, its `c2` is `l2 / 2`, and
    all weights are regularized, as in CRFsuite. The minimum is equal if the weights are (CRFsuite with
    `feature.possible_states` and `feature.possible_transitions`, Intarsia with `weights="all"` and `ends=False`). The
    optimizer sees this sum divided by the weighted number of labelled positions (`ChainCRF.risk_`), so that tolerance
    and step size do not depend on the amount of data.

    Parameters
    ----------
    l2 : float
        :math:`l_2`, the precision of a Gaussian prior; the default of 1 equals CRFsuite's `c2=0.5`. With `partial_fit`
        it is applied in every call. "auto" lets `ChainCRF.fit` choose it by cross-validation, see `choose_l2`.
    l1 : float
        :math:`l_1`; if positive, many weights become 0, and `ProximalLBFGS` replaces the optimizer, which must be
        "lbfgs".
    optimizer : str or Optimizer
        Method of minimization.
    validation_fraction : float
        Fraction of the sequences that is held out for early stopping: the result is the iterate with the lowest
        negative log-likelihood on them.
    patience : int
        Number of iterations without improvement after which early stopping ends the fit (STALLED, without a warning).
    checkpoint : str or Path, optional
        File that is written after every iteration; if it exists, the fit resumes from it. See `RiskMinimizer`.
    n_jobs : int, optional
        Number of threads; the result does not depend on it.
    random_state : int, Generator or None
        Seed of mini-batches and of the held-out sequences.
    verbose : bool
        Show progress on a terminal.

    Examples
    --------
    >>> from intarsia.sequences.chain_crf import ChainCRF
    >>> crf = ChainCRF(learner=MaximumLikelihood(l2=0.2)).fit([[["sun"], ["rain"]]], [["good", "bad"]])
    >>> crf.predict([[["sun"], ["rain"]]])[0].tolist(), crf.status_.name
    (['good', 'bad'], 'CONVERGED')
    """

    name: ClassVar[str] = "maximum_likelihood"
    summary: ClassVar[str] = "the default: calibrated probabilities, L2 and L1 regularization, hidden labels"

    _parts: ClassVar[Parts] = {"optimizer": OPTIMIZERS}

    def __init__(
        self,
        *,
        l2: float | str = 1.0,
        l1: float = 0.0,
        optimizer: str | Optimizer = "lbfgs",
        validation_fraction: float = 0.0,
        patience: int = 10,
        checkpoint: str | os.PathLike[str] | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.Generator | None = 0,
        verbose: bool = False,
    ) -> None:
        self.l2 = l2
        self.l1 = l1
        self.optimizer = optimizer
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings."""
        super().check_settings()
        if isinstance(self.l2, str) and not self.chooses_l2:
            raise InvalidInputError(
                f"MaximumLikelihood: l2 must be a number in [0, inf) or 'auto', got {self.l2!r:.60}."
            )
        if not self.chooses_l2:
            check_number(self.l2, "MaximumLikelihood: l2", low=0.0, high=np.inf, open_high=True)
        check_number(self.l1, "MaximumLikelihood: l1", low=0.0, high=np.inf, open_high=True)
        check_n_jobs(self.n_jobs, "MaximumLikelihood: n_jobs")
        (optimizer := OPTIMIZERS.resolve(self.optimizer)).check_settings()
        if self.l1 > 0 and not isinstance(optimizer, LBFGS):
            raise NotSupportedError(
                f"MaximumLikelihood: l1={self.l1} cannot be used with {type(optimizer).__name__}, which needs a smooth "
                f"objective. Use optimizer='lbfgs', or l1=0."
            )

    @property
    def chooses_l2(self) -> bool:
        """Whether `ChainCRF.fit` chooses the L2 regularization."""
        return isinstance(self.l2, str) and self.l2 == "auto"

    def check_examples(self, examples: ChainExamples) -> None:
        """Raise InvalidInputError for invalid settings; every kind of example is supported."""
        self.check_settings()

    def minimize(
        self,
        examples: ChainExamples,
        start: FloatArray,
        *,
        validation: ChainExamples | None = None,
        title: str = "",
    ) -> Minimum:
        """Return the weights of lowest risk reached from `start`; warn if the optimizer did not converge."""
        self.check_settings()
        seed = as_seed(self.random_state)
        train, held_out = self.hold_out(examples, validation, seed)
        risk = self.risk(train)
        optimizer = self.optimizer_for(risk)
        stopping = None
        if held_out is not None:
            stopping = EarlyStopping(ChainRisk(held_out, 0.0, self.n_jobs), int(self.patience))
        stages, checkpoint = [(len(risk), int(optimizer.max_iter))], self._checkpoint(risk, held_out, seed)
        with fit_progress(title or type(self).__name__, bool(self.verbose)) as report:
            fit = StagedFit(optimizer, risk, stages, np.arange(len(risk)), seed, stopping, checkpoint, report)
            minimum = fit.run(start)
        stopped_early = stopping is not None and stopping.given_up
        if not stopped_early:
            with errors_in("MaximumLikelihood"):
                warn_unless_converged(minimum, optimizer, "max_iter")
        return minimum

    def step(self, examples: ChainExamples, weights: FloatArray, state: Any = None) -> tuple[FloatArray, Any, float]:
        """Return new weights, state and risk after one pass in mini-batches; needs a mini-batch optimizer."""
        self.check_settings()
        optimizer, seed = OPTIMIZERS.resolve(self.optimizer), as_seed(self.random_state)
        return optimizer.epoch(self.risk(examples), weights, state or {}, seed)

    def risk(self, examples: ChainExamples) -> ChainRisk:
        """Return the objective without the L1 term, per labelled position."""
        if self.chooses_l2:
            raise InvalidInputError("l2='auto' needs ChainCRF.fit, which chooses the value. Set l2 to a number.")
        return ChainRisk(examples, float(self.l2) / (examples.mass or 1.0), self.n_jobs)

    def optimizer_for(self, risk: ChainRisk) -> Optimizer:
        """Return the optimizer of a risk: `ProximalLBFGS` with an L1 penalty, otherwise the setting."""
        optimizer = OPTIMIZERS.resolve(self.optimizer)
        if self.l1 > 0 and isinstance(optimizer, LBFGS):
            from intarsia.learning.proximal_lbfgs import ProximalLBFGS

            return ProximalLBFGS(l1=float(self.l1) / (risk.mass or 1.0), **optimizer.get_params(deep=False))
        return optimizer

    def _checkpoint(self, risk: ChainRisk, held_out: ChainExamples | None, seed: int) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        settings = {
            "optimizer": describe(OPTIMIZERS.resolve(self.optimizer), "max_iter", "tol"),
            "l1": describe(float(self.l1)),
            "l2": describe(float(self.l2)),
            "random_state": describe(seed),
            "number of weights": describe(risk.n_weights),
        }
        sets = [risk.examples] if held_out is None else [risk.examples, held_out]
        return Checkpoint(self.checkpoint, settings, np.array([_fingerprint(examples) for examples in sets]))


def _fingerprint(examples: ChainExamples) -> tuple[float, ...]:
    """Return sizes and sums that identify the data; the risk at fixed weights depends on features and labels."""
    value, _ = ChainRisk(examples)(np.cos(np.arange(examples.layout.n_weights)))
    return float(len(examples)), float(examples.data.ptr[-1]), examples.mass, value
