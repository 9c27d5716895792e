r"""Distribution of labellings under rules: log partition function, marginals and samples with a certified error.

Few rules are exact. With many rules the joint states can be too many; then steps are left out that have a tiny
probability without the rules for later positions. Rules only remove labellings, so the mass that is left out is at most
this probability. Relative to the mass of the labellings that remain, this bounds the error of every probability.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intarsia._core.validation import FloatArray
from intarsia._kernels.automaton_arguments import PrefixScores
from intarsia.exceptions import TooLargeError
from intarsia.sequences.constraints.solver import Chain, Solution, solve
from intarsia.sequences.constraints.trellis import Automata, Trellis

# Steps are left out below these probabilities, relative to that of the best labelling under the rules.
THRESHOLDS = (1e-12, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
# Limit of joint states times labels; and of joint states for each position, if that is larger.
MAX_SIZE = 2 * 10**5
MAX_STATES = 16
# A larger error is reported.
TOLERANCE = 1e-4


@dataclass(frozen=True, eq=False)
class Posterior:
    """Labellings of one sequence under rules, with their probabilities.

    Attributes
    ----------
    chain : Chain
        Scores of the sequence.
    trellis : Trellis
        Labellings that satisfy the rules.
    log_partition : float
        Logarithm of the summed exponential scores of these labellings.
    error : float
        Upper bound on the error of a probability.
    """

    chain: Chain
    trellis: Trellis
    log_partition: float
    error: float

    def marginals(self) -> FloatArray:
        """Return the probabilities (length, n_labels) of labels."""
        return self.trellis.marginals(self.chain.nodes, self.chain.tables)[1]


def posterior_of(chain: Chain, automata: Automata, solution: Solution | None = None) -> Posterior | None:
    """Return the distribution of labellings that all automata accept, or None if there is no such labelling.

    Parameters
    ----------
    chain : Chain
        Scores of the sequence.
    automata : Automata
        Automata of hard rules.
    solution : Solution, optional
        Result of `solve`, if it is available.
    """
    nodes, tables = chain.nodes, chain.tables
    length, k = nodes.shape
    exact_size = MAX_STATES * (length + 1) * k
    trellis = automata.trellis(chain.alive, exact_size)
    if trellis is not None:
        log_partition = trellis.log_partition(nodes, tables)
        return None if log_partition == -np.inf else Posterior(chain, trellis, log_partition, 0.0)
    solution = solve(chain, automata) if solution is None else solution
    if not solution.scores.size:
        return None
    suffix, plain = _suffixes(nodes, tables)
    best = max(float(np.exp(solution.scores[0] - plain)), 1e-250)
    scores = PrefixScores(nodes, tables, suffix - plain)
    mass = 0.0
    for threshold in THRESHOLDS:
        trellis, mass = automata.likely_trellis(scores, max(MAX_SIZE, exact_size), threshold * best)
        if trellis is not None and trellis.is_possible:
            break
    else:
        alive = np.zeros(nodes.shape, dtype=np.bool_)  # the best labelling alone always fits
        alive[np.arange(length), solution.paths[0]] = True
        trellis, mass = automata.trellis(alive), 1.0
    if trellis is None:
        raise TooLargeError(
            f"the rules have too many states on a sequence of {length} positions to compute probabilities. Use fewer "
            f"rules, or lower bounds in count()."
        )
    log_partition = trellis.log_partition(nodes, tables)
    error = mass * float(np.exp(min(plain - log_partition, 700.0)))
    return Posterior(chain, trellis, log_partition, min(error, 1.0))


def _suffixes(nodes: FloatArray, tables: FloatArray) -> tuple[FloatArray, float]:
    """Return the log sums of the positions after each label, and log Z, without automata."""
    suffix = np.zeros(nodes.shape)
    for t in range(len(nodes) - 2, -1, -1):
        suffix[t] = np.logaddexp.reduce(tables[t % len(tables)] + nodes[t + 1] + suffix[t + 1], axis=1)
    return suffix, float(np.logaddexp.reduce(nodes[0] + suffix[0]))
