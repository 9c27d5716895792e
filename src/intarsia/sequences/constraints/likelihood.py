"""Likelihood among the labellings that satisfy rules: partition functions and marginals of training sequences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intarsia._core.error_context import warn_caller
from intarsia._core.validation import FloatArray
from intarsia.graph.chains import ChainBatch
from intarsia.inference.chains.chain_inference import chain_marginals
from intarsia.sequences.chain_data import ChainExamples
from intarsia.sequences.constraints.chain_rules import chains_of, read_tokens
from intarsia.sequences.constraints.rule_set import RuleSet, Tokens, check_rules, warn_of_unknown_fields
from intarsia.sequences.constraints.trellis import Trellis

# Largest mean number of joint states per position in a fit, where every iteration visits every state.
MAX_STATES = 16


@dataclass(frozen=True, eq=False)
class RequiredTrellises:
    """Valid labellings of training sequences.

    Attributes
    ----------
    free : list of Trellis or None
        Valid labellings of each sequence; None where the rules have no effect or are not used.
    clamped : list of Trellis or None
        Valid labellings that agree with labels that are partly hidden; None if all labels are known.
    """

    free: list[Trellis | None]
    clamped: list[Trellis | None]

    def subset(self, indices: ArrayLike) -> RequiredTrellises:
        """Return the trellises of some sequences."""
        order = np.asarray(indices, dtype=np.int64).tolist()
        return RequiredTrellises([self.free[i] for i in order], [self.clamped[i] for i in order])

    def marginals(
        self, batch: ChainBatch, first: int, weight: FloatArray, is_clamped: bool
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return log Z, marginals, and transitions: their weighted sum, or per step if tables differ by step.

        Parameters
        ----------
        batch : ChainBatch
            Scores of sequences `first`, `first + 1`, ...
        first : int
            Index of the first sequence.
        weight : (n_sequences,) float array
            Weights of the sequences in the sum of transitions.
        is_clamped : bool
            Whether the batch is restricted to the known labels.
        """
        by_step, k = batch.has_table_per_step, batch.n_labels
        trellises = (self.clamped if is_clamped else self.free)[first : first + batch.n_sequences]
        others = np.array([s for s, trellis in enumerate(trellises) if trellis is None], dtype=np.int64)
        log_partition, nodes = np.empty(batch.n_sequences), np.empty(batch.nodes.shape)
        transitions = np.zeros((batch.n_steps if by_step else 1, k, k))
        is_other = np.isin(np.arange(batch.n_sequences), others)
        if others.size:
            subset = batch.subset(others)
            plain = chain_marginals(
                subset,
                transitions="steps" if by_step else "sum",
                sequence_weight=None if by_step else weight[others],
            )
            log_partition[others] = plain.log_partition
            nodes[np.repeat(is_other, np.diff(batch.ptr))] = plain.nodes
            if by_step:
                transitions[np.repeat(is_other, np.diff(batch.ptr) - 1)] = plain.transitions
            else:
                transitions[0] += plain.transitions
        chains = chains_of(batch)
        for s, trellis in enumerate(trellises):
            if trellis is None:
                continue
            a, b = int(batch.ptr[s]), int(batch.ptr[s + 1])
            chain = chains[s]
            n_tables = b - a - 1 if by_step else 1
            log_partition[s], nodes[a:b], steps = trellis.marginals(chain.nodes, chain.tables, n_tables)
            if by_step:
                transitions[a - s : b - s - 1] = steps
            else:
                transitions[0] += weight[s] * steps[0]
        return log_partition, nodes, transitions if by_step else transitions[0]


def with_rules(examples: ChainExamples, require: Any, classes: NDArray[Any], tokens: Any = None) -> ChainExamples:
    """Return the examples with the valid labellings of each sequence, for the likelihood under rules.

    A sequence is fitted by the plain likelihood if its labels violate a rule, which is reported by a warning, if the
    rules have too many joint states, or if no rule can be violated. Rules that read tokens are left out if there are
    no tokens.
    """
    rules = check_rules(require)
    warn_of_unknown_fields(rules, classes.tolist())
    data, truth = examples.data, examples.truth
    token_lists = read_tokens(tokens, data.n_inputs, data.source_index, data.lengths)
    rule_set = RuleSet([rule for rule in rules if token_lists is not None or not rule.needs_tokens], classes)
    if not rule_set.rules:
        return examples
    free, clamped, invalid, large = _build(examples, rule_set, token_lists)
    if invalid:
        s = invalid[0]
        i, (a, b) = int(data.source_index[s]), data.ptr[s : s + 2]
        reason = "no valid labelling agrees with"
        if (truth.states[a:b] >= 0).all():
            labels = [rule_set.classes[y] for y in truth.states[a:b].tolist()]
            words = None if token_lists is None else token_lists[s]
            rule = next(rule for rule in rule_set.rules if not rule.check(labels, words))
            reason = f"{rule!r} is violated by"
        warn_caller(
            f"the labels of {len(invalid)} of {len(examples)} sequences violate require= (first: {reason} y[{i}]). "
            f"These sequences are fitted without the rules. Correct the labels, or make the rule soft.",
            UserWarning,
        )
    if large:
        warn_caller(
            f"the rules of require= have too many joint states on {len(large)} of {len(examples)} sequences, which "
            f"are fitted without the rules. Predictions satisfy all rules. Fit with fewer rules and add the others "
            f"with set_params(require=...) to avoid this message.",
            UserWarning,
        )
    if not any(trellis is not None for trellis in free):
        return examples
    return replace(examples, required=RequiredTrellises(free, clamped))


def _build(
    examples: ChainExamples, rule_set: RuleSet, tokens: Sequence[Tokens] | None
) -> tuple[list[Trellis | None], list[Trellis | None], list[int], list[int]]:
    """Return the trellises of the sequences, and the sequences with invalid labels and with too many states."""
    data, truth, k = examples.data, examples.truth, examples.layout.n_labels
    is_known = np.logical_and.reduceat(truth.states >= 0, data.ptr[:-1])
    violated = rule_set.violated(data.ptr, np.maximum(truth.states, 0), tokens)
    free: list[Trellis | None] = [None] * len(examples)
    clamped: list[Trellis | None] = [None] * len(examples)
    invalid, large = [], []
    by_length: dict[int, Trellis | None] = {}
    for s, length in enumerate(data.lengths.tolist()):
        if is_known[s] and violated[s]:
            invalid.append(s)
            continue
        automata = rule_set.automata(length, None if tokens is None else tokens[s])
        max_size = MAX_STATES * (length + 1) * k
        if not rule_set.is_stationary or length not in by_length:
            by_length[length] = automata.trellis(np.ones((length, k), dtype=np.bool_), max_size)
        trellis = by_length[length]
        if trellis is None:
            large.append(s)
        elif not is_known[s] and truth.allowed is not None:
            restricted = automata.trellis(truth.allowed[data.ptr[s] : data.ptr[s + 1]], max_size)
            if restricted is None:
                large.append(s)
            elif not restricted.is_possible:
                invalid.append(s)
            else:
                free[s], clamped[s] = trellis, restricted
        elif not trellis.accepts_all:
            free[s] = trellis
    return free, clamped, invalid, large
