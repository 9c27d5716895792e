r"""Distribution of labellings under rules: log partition function, marginals and samples with a certified error.

Few rules are exact. With many rules the joint states can be too many; then labels whose probability without rules is
tiny are left out. Rules only remove labellings, so the mass that is left out is at most the mass of these labels
without rules. Relative to the mass of the labellings that remain, this bounds the error of every probability.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from intarsia._core.validation import FloatArray
from intarsia.exceptions import TooLargeError
from intarsia.graph.chains import ChainBatch
from intarsia.inference.chains.chain_inference import chain_marginals
from intarsia.sequences.constraints.automaton import Automaton
from intarsia.sequences.constraints.solver import QUICK_SIZE, Chain, Solution, solve
from intarsia.sequences.constraints.trellis import Trellis, build_trellis

# Labels are left out below these probabilities, relative to that of the best labelling under the rules.
THRESHOLDS = (1e-17, 1e-14, 1e-11, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
# A larger error is reported.
TOLERANCE = 1e-6


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


def posterior_of(
    chain: Chain, automata: Sequence[Automaton], solution: Solution | None = None, max_size: int = QUICK_SIZE
) -> Posterior | None:
    """Return the distribution of labellings that all automata accept, or None if there is no such labelling.

    Parameters
    ----------
    chain : Chain
        Scores of the sequence.
    automata : sequence of Automaton
        Automata of hard rules.
    solution : Solution, optional
        Result of `solve`, if it is available.
    max_size : int
        Limit of joint states times labels.
    """
    solution = solve(chain, automata) if solution is None else solution
    if not solution.scores.size:
        return None
    nodes, tables = chain.nodes, chain.tables
    length = len(nodes)
    batch = ChainBatch(nodes, [0, length], tables[0] if len(tables) == 1 else tables)
    plain = chain_marginals(batch, transitions=None)
    mass, log_partition = plain.nodes, float(plain.log_partition[0])
    best = float(np.exp(solution.scores[0] - log_partition))
    is_best = np.zeros(nodes.shape, dtype=np.bool_)
    is_best[np.arange(length), solution.paths[0]] = True
    trellis, alive = None, is_best
    for threshold in (0.0, *THRESHOLDS) if best < 1e-250 else THRESHOLDS:
        alive = is_best | (chain.alive & (mass > threshold * best))
        trellis = build_trellis(automata, alive, max_size)
        if trellis is not None:
            break
    else:
        alive = is_best  # the best labelling alone always fits
        trellis = build_trellis(automata, alive)
    if trellis is None:
        raise TooLargeError(
            f"the rules have too many states on a sequence of {length} positions to compute probabilities. Use fewer "
            f"rules, or lower bounds in count()."
        )
    constrained = trellis.log_partition(nodes, tables)
    error = float(mass[~alive].sum()) * float(np.exp(min(log_partition - constrained, 700.0)))
    return Posterior(chain, trellis, constrained, min(error, 1.0))
