"""What the learners have in common that look at one sequence at a time and learn from mistakes."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from intarsia._kernels.online_updates import learn_sequences
from intarsia._progress import fit_progress
from intarsia._validation import FloatArray, check_number, read_only
from intarsia.exceptions import NotSupportedError
from intarsia.inference.chains import viterbi
from intarsia.inference.result import Status
from intarsia.learning.chain_data import ChainExamples, ChainScores
from intarsia.learning.chain_learner import ChainLearner
from intarsia.learning.minimum import COLUMNS, Minimum

State = dict[str, NDArray[Any]]


class Rule(NamedTuple):
    """How long a step is, in the words of the kernel `learn_sequences`, and the variance each weight begins with."""

    fixed: bool = False
    most: float = np.inf
    slack: float = 0.0
    loss: int = 1
    gamma: float = 0.0
    variance: float = 1.0
    averages: bool = True


class OnlineLearner(ChainLearner):
    """Base of the mistake-driven learners; an iteration is a pass over the sequences in random order.

    The risk is the share of labels that were wrong when their sequence came. Where labels are hidden or sets, the best
    labelling that agrees with them takes the place of the truth. The weight of a sequence multiplies its steps. The
    search ends when a pass makes no mistake (CONVERGED), or after `max_epochs`, without a warning: on data that no
    weights label without mistakes that is how it must end.
    """

    max_epochs: int
    verbose: bool

    @abstractmethod
    def rule(self) -> Rule:
        """How long a step is."""

    def check_settings(self) -> None:
        """Raise for settings that cannot be meant; extended by subclasses."""
        super().check_settings()
        check_number(self.max_epochs, f"{type(self).__name__}: max_epochs", low=0, integer=True)

    def check_examples(self, examples: ChainExamples) -> None:
        """Raise where settings and examples do not fit."""
        self.check_settings()
        if examples.layout.n_edge_features:
            raise NotSupportedError(
                f"{type(self).__name__} learns no features of steps. Leave edge_features out, or use "
                f"learner='maximum_likelihood'."
            )

    def minimize(
        self,
        examples: ChainExamples,
        start: FloatArray,
        *,
        validation: ChainExamples | None = None,
        title: str = "",
    ) -> Minimum:
        """Weights after the last pass, or after the one with the fewest mistakes on the sequences held out."""
        self.check_examples(examples)
        train, held_out = self.hold_out(examples, validation)
        state, weights, status = self._begin(start), np.array(start), Status.MAX_ITER
        rows: list[tuple[float, ...]] = []
        shares: list[float] = []
        best, begun = weights, time.perf_counter()
        with fit_progress(title or type(self).__name__, bool(self.verbose)) as report:
            try:
                while len(rows) < int(self.max_epochs):
                    share, weights = self._pass(train, state)
                    rows.append((share, np.nan, time.perf_counter() - begun, len(rows) + 1.0))
                    if report is not None:
                        report(len(rows), share, np.nan, len(rows) / int(self.max_epochs))
                    if held_out is not None:
                        shares.append(_share_wrong(held_out, weights))
                        first_best = int(np.argmin(shares))
                        best = weights if first_best == len(shares) - 1 else best
                        if len(shares) - 1 - first_best >= int(self.patience):
                            status = Status.STALLED
                            break
                    if share == 0.0:
                        status = Status.CONVERGED
                        break
            except KeyboardInterrupt:
                if not rows:
                    raise
                status = Status.INTERRUPTED
        history = dict(zip(COLUMNS, np.array(rows).reshape(-1, len(COLUMNS)).T, strict=True))
        if shares:
            history["validation_risk"], weights = np.array(shares), best
        share = rows[-1][0] if rows else np.nan
        return Minimum(weights, share, np.nan, status, len(rows), start=np.array(start), history=history)

    def step(self, examples: ChainExamples, weights: FloatArray, state: Any = None) -> tuple[FloatArray, Any, float]:
        """One pass over the examples; `state` goes on from the last call."""
        self.check_examples(examples)
        kept = self._begin(weights) if state is None else {name: array.copy() for name, array in state.items()}
        share, new = self._pass(examples, kept)
        return new, kept, share

    def _begin(self, start: FloatArray) -> State:
        return {
            "weights": np.array(start),
            "total": np.zeros_like(start),
            "variance": np.full_like(start, self.rule().variance),
            "count": np.zeros(1),
            "epochs": np.zeros(1, dtype=np.int64),
        }

    def _pass(self, examples: ChainExamples, state: State) -> tuple[float, FloatArray]:
        """One pass, which changes the state; share of wrong labels, and the weights to predict with."""
        data, truth, layout, bounds = examples.data, examples.truth, examples.layout, examples.constraints
        rule = self.rule()
        thin = sparse.csr_array(data.matrix)
        allowed = np.zeros((0, layout.n_labels), dtype=bool) if truth.allowed is None else truth.allowed
        order = np.random.default_rng([int(self.random_state), int(state["epochs"][0])]).permutation(len(examples))
        pair_ptr, pair_label = layout.pairs()
        n_wrong = learn_sequences(
            read_only(order), read_only(data.ptr), read_only(thin.indptr), read_only(thin.indices),
            read_only(thin.data), read_only(pair_ptr), read_only(pair_label), layout.ends, read_only(truth.states),
            read_only(allowed), read_only(bounds.transitions), read_only(bounds.start), read_only(bounds.end),
            read_only(truth.weight), rule.fixed, float(rule.most), float(rule.slack), int(rule.loss),
            float(rule.gamma), state["weights"], state["total"], state["variance"], state["count"],
        )  # fmt: skip
        state["epochs"] += 1
        return float(n_wrong) / max(1, int(data.ptr[-1])), predicting_weights(state, rule)


def predicting_weights(state: Mapping[str, NDArray[Any]], rule: Rule) -> FloatArray:
    """The weights at present, or their mean over all sequences seen, each counted after its step."""
    count = float(state["count"][0])
    if not rule.averages or count == 0.0:
        return state["weights"].copy()
    return np.asarray(state["weights"] - state["total"] / count)


def _share_wrong(examples: ChainExamples, weights: FloatArray) -> float:
    """Share of the single labels that the best labellings miss."""
    batch = ChainScores(examples.data, examples.layout, examples.constraints).batch(weights, 0, len(examples))
    known = examples.truth.states >= 0
    return float((viterbi(batch)[0][known] != examples.truth.states[known]).mean()) if known.any() else 0.0
