"""Predictions of `ChainCRF` under rules: the functions of `chain_prediction`, restricted to valid labellings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from intarsia._core.error_context import warn_caller
from intarsia._core.validation import IntArray
from intarsia.exceptions import ConvergenceWarning, InvalidInputError
from intarsia.graph.chains import ChainBatch
from intarsia.inference.chains.chain_inference import viterbi
from intarsia.inference.chains.forward_backward import full_scores, full_tables
from intarsia.sequences import chain_prediction as plain
from intarsia.sequences.constraints.posterior import TOLERANCE, Posterior, posterior_of
from intarsia.sequences.constraints.rule_set import RuleSet, Tokens
from intarsia.sequences.constraints.solver import Chain, Solution, find_clash, least_violation, solve


class Answer(NamedTuple):
    """Result of one sequence, and a description of what is wrong with it, if anything."""

    value: Any
    clash: tuple[str, ...] = ()
    gap: float = 0.0


@dataclass(frozen=True, eq=False)
class SequenceRules:
    """Rules of a model and the tokens of the sequences that it predicts.

    Attributes
    ----------
    rules : RuleSet
        Rules bound to the classes of the model.
    tokens : list, optional
        Tokens of each sequence that is not empty.
    """

    rules: RuleSet
    tokens: Sequence[Tokens] | None = None

    def tokens_from(self, first: int, n: int) -> Sequence[Tokens] | None:
        """Return the tokens of `n` sequences."""
        return None if self.tokens is None else self.tokens[first : first + n]

    def tokens_of(self, s: int) -> Tokens:
        """Return the tokens of one sequence."""
        return None if self.tokens is None else self.tokens[s]

    def solve(self, chain: Chain, s: int, n_best: int = 1) -> Solution:
        """Return the best valid labellings of sequence s."""
        return solve(chain, self.rules.automata(len(chain.nodes), self.tokens_of(s)), n_best)

    def posterior(self, chain: Chain, s: int) -> Posterior | None:
        """Return the distribution of valid labellings of sequence s, or None if there are none."""
        return posterior_of(chain, self.rules.automata(len(chain.nodes), self.tokens_of(s)))

    def clash(self, chain: Chain, s: int) -> tuple[str, ...]:
        """Return the names of rules that cannot hold together on sequence s."""
        automata = self.rules.automata(len(chain.nodes), self.tokens_of(s))
        solution = solve(chain, automata)
        return tuple(repr(self.rules.rules[i]) for i in find_clash(chain, automata, solution.active))


def chains_of(batch: ChainBatch) -> list[Chain]:
    """Return the scores of each sequence of a batch, including those of first and last labels."""
    nodes, tables = full_scores(batch), full_tables(batch)
    result = []
    for s in range(batch.n_sequences):
        a, b = int(batch.ptr[s]), int(batch.ptr[s + 1])
        if batch.has_table_per_step and b - a > 1:
            result.append(Chain(nodes[a:b], tables[a - s : b - s - 1]))
        else:
            result.append(Chain(nodes[a:b], tables[:1]))
    return result


def _best(batch: ChainBatch, first: int, required: SequenceRules) -> list[Answer]:
    states, _ = viterbi(batch)
    violated = required.rules.violated(batch.ptr, states, required.tokens_from(first, batch.n_sequences))
    answers = [Answer(path) for path in np.split(states, batch.ptr[1:-1])]
    if violated.any():
        chains = chains_of(batch)
        for s in np.flatnonzero(violated).tolist():
            answers[s] = best_valid(chains[s], required, first + s)
    return answers


def best_valid(chain: Chain, required: SequenceRules, s: int) -> Answer:
    """Return the best valid labelling of a sequence, or that of least violation if there is none."""
    solution = required.solve(chain, s)
    if solution.scores.size:
        return Answer(solution.paths[0], (), 0.0 if solution.proven else solution.bound - float(solution.scores[0]))
    penalties = required.rules.automata(len(chain.nodes), required.tokens_of(s), is_penalty=True)
    compromise = least_violation(chain, penalties)
    path = compromise.paths[0] if compromise.scores.size else chain.best(1)[0][0]
    return Answer(path, required.clash(chain, s) if solution.proven else ("require",))


def _with_posterior(
    batch: ChainBatch,
    first: int,
    required: SequenceRules,
    read: Callable[[Posterior, int], Any],
    read_plain: plain.Work,
) -> list[Answer]:
    """Return what is read from the distribution of each sequence; rules that exclude everything are ignored."""
    answers = []
    for s, chain in enumerate(chains_of(batch)):
        posterior = required.posterior(chain, first + s)
        if posterior is None:
            value = read_plain(batch.part(s, s + 1), first + s)[0]
            answers.append(Answer(value, required.clash(chain, first + s)))
        else:
            answers.append(Answer(read(posterior, s), (), posterior.error if posterior.error > TOLERANCE else 0.0))
    return answers


def _marginals(batch: ChainBatch, first: int, required: SequenceRules) -> list[Answer]:
    return _with_posterior(
        batch, first, required, lambda posterior, s: posterior.marginals(), plain.label_probabilities
    )


def _likely(batch: ChainBatch, first: int, required: SequenceRules) -> list[Answer]:
    def read(posterior: Posterior, s: int) -> IntArray:
        return np.asarray(posterior.marginals().argmax(axis=1))

    return _with_posterior(batch, first, required, read, plain.likely_labels)


def _several_best(batch: ChainBatch, first: int, required: SequenceRules, n_best: int) -> list[Answer]:
    def read(posterior: Posterior, s: int) -> list[tuple[IntArray, float]]:
        solution = required.solve(posterior.chain, first + s, n_best)
        log_probabilities = np.minimum(solution.scores - posterior.log_partition, 0.0).tolist()
        return list(zip(solution.paths, log_probabilities, strict=True))

    return _with_posterior(batch, first, required, read, plain.several_best(n_best))


def _draws(batch: ChainBatch, first: int, required: SequenceRules, n_samples: int, seed: int) -> list[Answer]:
    def read(posterior: Posterior, s: int) -> IntArray:
        rng = np.random.default_rng([seed, first + s])
        return posterior.trellis.sample(posterior.chain.nodes, posterior.chain.tables, n_samples, rng)

    return _with_posterior(batch, first, required, read, plain.draws(n_samples, seed))


def log_probabilities_under_rules(
    batch: ChainBatch, first: int, required: SequenceRules, allowed: NDArray[np.bool_], ptr: IntArray
) -> list[Answer]:
    """Return the log-probability that all labels of each sequence are allowed, among valid labellings."""
    answers = []
    for s, chain in enumerate(chains_of(batch)):
        posterior = required.posterior(chain, first + s)
        mask = allowed[ptr[first + s] : ptr[first + s + 1]]
        clamped = required.posterior(Chain(np.where(mask, chain.nodes, -np.inf), chain.tables), first + s)
        if posterior is None or clamped is None:
            answers.append(Answer(-np.inf))
        else:
            answers.append(Answer(min(clamped.log_partition - posterior.log_partition, 0.0)))
    return answers


_UNDER_RULES: dict[Any, Callable[..., list[Answer]]] = {
    plain.best_labels: _best,
    plain.likely_labels: _likely,
    plain.label_probabilities: _marginals,
    plain.several_best(1).func: _several_best,  # type: ignore[attr-defined]
    plain.draws(1, 0).func: _draws,  # type: ignore[attr-defined]
}


def under_rules(work: plain.Work, required: SequenceRules) -> plain.Work:
    """Return the function that gives the answers of `work` under rules."""
    function: Any = getattr(work, "func", work)
    return partial(_UNDER_RULES[function], required=required, **getattr(work, "keywords", {}))


def values_of(answers: Sequence[Answer], source_index: IntArray, is_labelling: bool) -> list[Any]:
    """Return the results of all sequences; warn if rules clash on a sequence, or if a result is approximate."""
    clashes = [i for i, answer in enumerate(answers) if answer.clash]
    if clashes:
        i = clashes[0]
        count = "" if len(clashes) == 1 else f" (and no labelling of {len(clashes) - 1} more sequences is valid)"
        effect = "The labellings violate the rules least" if is_labelling else "The rules are ignored there"
        warn_caller(
            f"no labelling of X[{int(source_index[i])}] satisfies {' and '.join(answers[i].clash)}{count}. {effect}. "
            f"Remove or soften a rule.",
            UserWarning,
        )
    gaps = [answer.gap for answer in answers if answer.gap > 0.0]
    if gaps:
        meaning = "scores up to {:.3g} below the optimum" if is_labelling else "errors of probabilities up to {:.3g}"
        warn_caller(
            f"the rules have too many joint states on {len(gaps)} sequences: {meaning.format(max(gaps))}. Use fewer "
            f"rules for exact results.",
            ConvergenceWarning,
        )
    return [answer.value for answer in answers]


def read_tokens(tokens: Any, n_inputs: int, source_index: IntArray, lengths: IntArray) -> list[Tokens] | None:
    """Return the tokens of the sequences that are not empty, or raise if their number is wrong."""
    if tokens is None:
        return None
    if isinstance(tokens, (str, bytes)) or not hasattr(tokens, "__len__") or len(tokens) != n_inputs:
        size = len(tokens) if hasattr(tokens, "__len__") else type(tokens).__name__
        raise InvalidInputError(
            f"X has {n_inputs} sequences, but tokens has {size}. Pass one list of strings for each sequence."
        )
    result: list[Tokens] = []
    for i, length in zip(source_index.tolist(), lengths.tolist(), strict=True):
        if isinstance(tokens[i], (str, bytes)) or len(tokens[i]) != length:
            raise InvalidInputError(
                f"tokens[{i}] has {len(tokens[i])} entries, but X[{i}] has {length} positions. Pass one string for "
                f"each position."
            )
        result.append(list(tokens[i]))
    return result
