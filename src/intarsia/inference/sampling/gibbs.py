"""Gibbs sampling (MCMC): marginals from samples, with Monte Carlo errors and a convergence diagnostic."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, IntArray, check_choice, check_number
from intarsia._kernels.gibbs import partition_into_forests, sample_blocks
from intarsia._kernels.graph_arguments import GraphArrays, SampledBlocks
from intarsia.exceptions import TooLargeError
from intarsia.graph import FactorGraph, FactorKind
from intarsia.inference.method import Answer, InferenceMethod, Problem
from intarsia.inference.sampling.feasible import find_feasible, has_hard_zeros
from intarsia.inference.sampling.icm import random_labelling
from intarsia.inference.sampling.modes import check_modes

_BATCHES = 8  # batches per chain and round; the Monte Carlo error is the standard error of their means
_FIRST_ROUND = 128  # sweeps; each later round is as long as all rounds before it
_F_QUANTILE = 7.0  # about the quantile 0.999 of the F distribution with 3 and 28 degrees of freedom
_MAX_TREE_STATES = 16  # block="auto": with more states, messages cost more (states^2) than they gain
_MAX_TREE_ENTRIES = 30_000_000
_MAX_TREE_RANGE = 300.0  # exp(-range) must stay far from underflow

_WORK_PER_CALL = 5_000_000  # number of table rows, which take some tenths of a second

Chain = tuple[IntArray, np.random.Generator]
Sampler = Callable[[IntArray, int, np.random.Generator, FloatArray], None]


class Gibbs(InferenceMethod):
    r"""Marginals and samples by Gibbs sampling, with Monte Carlo errors and split R-hat.

    Choose it if you need asymptotically unbiased marginals of a loopy model, or samples, and the chains mix; it is the
    only approximate method here whose error decreases with more time. Do not use it for strongly coupled or nearly
    deterministic models, where chains stay in one mode: the status is then MAX_ITER.

    Each step samples a variable (or a block of variables whose induced subgraph is a forest, jointly by forward
    filtering and backward sampling) from its conditional distribution given the others,
    :math:`p(x_j | x_{\setminus j}) \propto \exp(\theta(x_j) + \sum_{c \ni j} \theta(x_c))`. Sampling proceeds in
    rounds, each as long as all rounds before it, until `r_hat <= max_r_hat` and no marginal of a variable has a
    standard error above `tol`. Then local maxima of the score are searched. If one has statistics that the chains
    hardly visited, and a score at which its probability can matter, a chain starts again from it, and sampling goes on.

    Parameters
    ----------
    max_iter : int
        Maximum number of sweeps of each chain, including burn-in.
    tol : float
        Stop when no marginal of a variable has a larger standard error; 0 samples until `max_iter`.
    max_r_hat : float
        Stop only when the largest split R-hat over the states of variables is at most this.
    n_chains : int
        Number of independent chains, from different random starts.
    burn_in : int
        Number of initial sweeps of each chain that are discarded.
    thinning : int
        Number of sweeps between two samples of a chain, for `n_samples`.
    block : {"auto", "tree", "single"}
        "tree": sample forests of variables jointly. "single": sample single variables. "auto": use forests for pairwise
        graphs with few states.
    temperature : float, optional
        Sample from exp(score / T), by default T = 1.

    Raises
    ------
    TooLargeError
        If the model has hard zeros and the search for an initial assignment reaches its limit.

    Notes
    -----
    With hard zeros the chains start from assignments of finite score, obtained by a search. They may be
    unable to reach all other assignments by single moves, so `note` warns that mixing is not guaranteed. Sampling does
    not estimate log Z: `log_partition` is None. `mu_error` is computed from the variance of batch means over all chains
    in the last round (of the means of chains, where chains are in different modes). It is at least the standard error
    of as many independent samples as the correlated ones are worth, with two added successes and two failures, so that
    states without samples have an error too. A mode that no chain visited and that the search misses stays undetected.
    `residual` is the largest standard error of a marginal of a variable; `history` has one entry for each round.

    References
    ----------
    Geman1984 for the sampler, Hamze2004 for forests, Gelman2013 for split R-hat.

    Examples
    --------
    >>> import intarsia
    >>> graph = intarsia.chain_graph(3, 2)
    >>> theta = graph.pack(tables=[[[1, 0], [0, 1]]] * 2)
    >>> result = intarsia.infer(graph, theta, "gibbs", random_state=0)
    >>> bool(abs(result.marginals(0)[0] - 0.5) < 5 * result.mu_error[0])
    True
    """

    name: ClassVar[str] = "gibbs"
    summary: ClassVar[str] = "unbiased marginals with error bars, where chains mix"
    gives_marginals: ClassVar[bool] = True
    gives_samples: ClassVar[bool] = True
    cost: ClassVar[str] = "states x factors per sweep; forests: table entries"

    def __init__(
        self,
        *,
        max_iter: int = 20_000,
        tol: float = 0.01,
        max_r_hat: float = 1.01,
        n_chains: int = 4,
        burn_in: int = 100,
        thinning: int = 10,
        block: str = "auto",
        temperature: float | None = None,
    ) -> None:
        self.max_iter = max_iter
        self.tol = tol
        self.max_r_hat = max_r_hat
        self.n_chains = n_chains
        self.burn_in = burn_in
        self.thinning = thinning
        self.block = block
        self.temperature = temperature

    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings."""
        super().check_settings()
        if self.temperature is not None:
            check_number(self.temperature, "Gibbs: temperature", low=0.0, open_low=True)
        check_number(self.n_chains, "Gibbs: n_chains", low=2, integer=True)
        check_number(self.burn_in, "Gibbs: burn_in", low=0, integer=True)
        check_number(self.max_iter, "Gibbs: max_iter", low=int(self.burn_in) + 2 * _BATCHES, integer=True)
        check_number(self.tol, "Gibbs: tol", low=0.0)
        check_number(self.max_r_hat, "Gibbs: max_r_hat", low=1.0)
        check_number(self.thinning, "Gibbs: thinning", low=1, integer=True)
        check_choice(self.block, ("auto", "tree", "single"), "Gibbs: block")

    def run(self, problem: Problem) -> Answer:
        """Sample in rounds until the chains agree and the standard errors are small."""
        starts, note = self._starts(problem)
        if starts is None:
            return Answer(Status.INFEASIBLE)
        seeds = problem.rng.integers(0, 2**63, size=len(starts))
        chains = [(y, np.random.default_rng(seed)) for y, seed in zip(starts, seeds, strict=True)]
        draw = make_sampler(problem.graph, problem.theta, self.block)
        tally = Tally(problem.graph, problem.theta, len(chains))
        status = self._sample(problem, draw, chains, tally)
        n_sweeps = tally.n_forgotten + tally.n_sweeps
        answer = Answer(status, note=note, n_iter=int(self.burn_in) + n_sweeps if n_sweeps else 0)
        if tally.n_sweeps:
            answer.mu, answer.mu_error = tally.mean(), tally.error()
            answer.residual = float(answer.mu_error[: tally.split].max())
            answer.r_hat = tally.r_hat()
        else:  # stopped before the first batch was complete: use the current states
            answer.mu = problem.graph.statistics(np.stack([y for y, _ in chains])) / len(chains)
            answer.residual, answer.r_hat = np.inf, np.inf
        answer.history = {key: np.array(values) for key, values in tally.history.items()}
        if problem.n_samples:
            answer.samples = self._draw_samples(problem, draw, chains, status)
        return answer

    def _starts(self, problem: Problem) -> tuple[list[IntArray] | None, str]:
        """Return an initial labelling for each chain, None if the model is infeasible, and a note."""
        graph, theta = problem.graph, problem.theta
        if not has_hard_zeros(graph, theta):
            return [random_labelling(graph, theta, problem.rng) for _ in range(int(self.n_chains))], ""
        starts: list[IntArray] = []
        for _ in range(int(self.n_chains)):
            search = find_feasible(graph, theta, problem.rng, problem.clock, random=True)
            if search.infeasible:
                return None, ""
            if search.labelling is None:
                raise TooLargeError(
                    f"Gibbs: no assignment of finite score for the start was found in {search.n_nodes} search steps. "
                    f"The model may be infeasible. Use junction_tree, or replace -inf by a large negative score."
                )
            starts.append(search.labelling)
        return starts, "Hard zeros: chains may be unable to reach every assignment, so mixing is not guaranteed."

    def _sample(self, problem: Problem, draw: Sampler, chains: list[Chain], tally: Tally) -> Status:
        """Run the burn-in, then rounds of sweeps until convergence or a limit; return the status."""
        n_theta, n_left = problem.graph.n_theta, int(self.max_iter) - int(self.burn_in)
        earlier_starts: set[bytes] = set()
        try:
            for chain in chains:
                _advance(draw, chain, int(self.burn_in), np.empty(0), problem)
            while n_left >= _BATCHES:
                length = min(max(_FIRST_ROUND, tally.n_sweeps), n_left) // _BATCHES
                # The last round includes sweeps that would be too few for another round.
                if n_left - length * _BATCHES < min(_FIRST_ROUND, length * _BATCHES):
                    length = n_left // _BATCHES
                for _ in range(_BATCHES):
                    counts = [_advance(draw, chain, length, np.zeros(n_theta), problem) for chain in chains]
                    tally.add(counts, length)
                n_left -= length * _BATCHES
                error, r_hat = tally.close_round()
                if problem.report is not None:
                    problem.report(int(self.burn_in) + tally.n_sweeps, error)
                if tally.n_rounds > 1 and r_hat <= self.max_r_hat and error <= self.tol:
                    states = [y for y, _ in chains]
                    is_right, start = check_modes(
                        problem, states, tally.mean(), tally.error(), earlier_starts, self.tol
                    )
                    if is_right:
                        return Status.TIME_LIMIT if problem.clock.expired else Status.CONVERGED
                    if start is not None and n_left >= _FIRST_ROUND:
                        # The chains agree since all of them stayed away from there: one of them starts again from it.
                        states[len(earlier_starts) % len(chains)][:] = start
                        earlier_starts.add(start.tobytes())
                        tally.reset()
        except _TimeLimitReachedError:
            return Status.TIME_LIMIT
        except KeyboardInterrupt:
            return Status.INTERRUPTED
        return Status.MAX_ITER

    def _draw_samples(self, problem: Problem, draw: Sampler, chains: list[Chain], status: Status) -> IntArray:
        """Draw samples from the chains in turn, with `thinning` sweeps between them, or one sweep after the limit."""
        samples = np.empty((problem.n_samples, problem.graph.n_variables), dtype=np.int64)
        no_counts = np.empty(0)
        for k in range(problem.n_samples):
            y, rng = chains[k % len(chains)]
            is_over = status is Status.INTERRUPTED or problem.clock.expired
            draw(y, 1 if is_over else int(self.thinning), rng, no_counts)
            samples[k] = y
        return samples


class Tally:
    """Running statistics of the chains, in memory that does not grow with the number of sweeps.

    Split R-hat compares, for each chain, the last round with all rounds before it, which together have its length.
    """

    def __init__(self, graph: FactorGraph, theta: FloatArray, n_chains: int) -> None:
        self.graph, self.theta = graph, theta
        self.split = int(graph.variable_ptr[-1])
        self.n_chains = n_chains
        self.totals = np.zeros((n_chains, graph.n_theta))
        self.last = np.zeros((n_chains, self.split))
        self.round_sum, self.round_squares, self.earlier_variance = np.zeros((3, graph.n_theta))
        self.n_forgotten = self.n_sweeps = 0
        self.reset()
        self.history: dict[str, list[float]] = {"residual": [], "r_hat": []}

    def reset(self) -> None:
        """Forget all sweeps so far, which were before one of the chains started again."""
        self.n_forgotten += self.n_sweeps
        self.n_sweeps = self.n_rounds = 0
        self.totals[:], self.earlier_variance[:] = 0.0, 0.0
        self._begin_round()

    def _begin_round(self) -> None:
        """Reset the statistics of the last round."""
        self._round_is_complete = False
        self.last[:], self.last_length = 0.0, 0
        self.round_sum[:], self.round_squares[:], self.n_batches = 0.0, 0.0, 0

    def add(self, counts: list[FloatArray], length: int) -> None:
        """Add one batch of each chain: statistics summed over `length` sweeps."""
        if self._round_is_complete:
            self.earlier_variance += self.last_length**2 * self._variance_of_round()
            self._begin_round()
        for chain, count in enumerate(counts):
            self.last[chain] += count[: self.split]
            self.totals[chain] += count
            count /= length
            self.round_sum += count
            count *= count
            self.round_squares += count
        self.n_batches += len(counts)
        self.last_length += length
        self.n_sweeps += length

    def close_round(self) -> tuple[float, float]:
        """End the round; return the largest standard error of a marginal of a variable, and R-hat."""
        self.n_rounds += 1
        self._round_is_complete = True
        self.history["residual"].append(float(self.error()[: self.split].max()))
        self.history["r_hat"].append(self.r_hat())
        return self.history["residual"][-1], self.history["r_hat"][-1]

    def mean(self) -> FloatArray:
        """Return the mean statistics over all sweeps of all chains."""
        return np.asarray(self.totals.sum(axis=0) / (self.n_sweeps * self.n_chains))

    def error(self) -> FloatArray:
        """Return the standard error of `mean`, from batch means, at least as for independent samples.

        The batches of the last round are the longest, but rare moves may all be in earlier rounds. Where chains differ
        far more than their batches, they are in different modes and the batches of a chain are not independent; the
        variance of the means of chains is used there.
        """
        n, chains = self.n_batches, self.n_chains
        of_round = self._variance_of_round()
        of_all = (self.earlier_variance + self.last_length**2 * of_round) / self.n_sweeps**2
        variance = np.maximum(of_round * (self.last_length / self.n_sweeps), of_all)
        between = (self.totals / self.n_sweeps).var(axis=0, ddof=1) / chains
        # F test with the variance within chains, which is the variance of all batches without that between chains.
        inside = ((n - 1) * variance - (chains - 1) * between) / max(n - chains, 1)
        variance = np.where(between > _F_QUANTILE * inside, np.maximum(between, variance), variance)
        return np.sqrt(np.maximum(variance, self._smallest_variance(variance)))

    def _variance_of_round(self) -> FloatArray:
        """Return the variance of the mean of the last round, from the means of its batches."""
        n = self.n_batches
        mean = self.round_sum / n
        return np.asarray(np.maximum(self.round_squares / n - mean**2, 0.0) / max(n - 1, 1))

    def _smallest_variance(self, variance: FloatArray) -> FloatArray:
        """Return the variance of the mean of the samples that are worth as many independent ones, four of them added.

        A rare state that a chain entered once counts as one success, not as one for each sweep of its stay.
        """
        graph = self.graph
        n_draws = self.n_sweeps * self.n_chains
        n_sharing = np.bincount(graph.table_of_factor, minlength=graph.n_tables).astype(float)
        first = graph.scope_idx[graph.scope_ptr[graph.first_factor_of_table]] if graph.n_tables else np.empty(0, int)
        largest_distance = (graph.n_states[first] - 1.0) ** np.where(
            graph.table_kind == FactorKind.TRUNCATED_QUADRATIC, 2, 1
        )
        span = np.where(
            graph.table_kind >= FactorKind.TRUNCATED_LINEAR, np.minimum(largest_distance, graph.table_truncation), 1.0
        )
        sizes = np.diff(graph.table_ptr)
        n_sharing = np.concatenate([np.ones(self.split), np.repeat(n_sharing, sizes)])
        span = np.concatenate([np.ones(self.split), np.repeat(np.maximum(span, 1e-300), sizes)])
        n_seen = np.abs(self.totals.sum(axis=0)) / span
        n = n_draws * n_sharing
        frequency = np.clip(n_seen / n, 0.0, 1.0)
        independent = (span * n_sharing) ** 2 * frequency * (1.0 - frequency) / n
        worth = np.minimum(independent / np.where(independent > 0.0, np.maximum(variance, independent), 1.0), 1.0)
        worth[independent == 0.0] = 1.0
        # Two added samples of each outcome: a state without samples is not impossible.
        probability = np.clip((n_seen * worth + 2.0) / (n * worth + 4.0), 0.0, 1.0)
        smallest = (span * n_sharing) ** 2 * probability * (1.0 - probability) / (n * worth)
        smallest[self.theta == -np.inf] = 0.0  # exactly 0, not estimated
        return smallest

    def r_hat(self) -> float:
        """Return the largest split R-hat over the states of variables; inf in the first round."""
        halves = np.array([self.n_sweeps - self.last_length, self.last_length])
        if halves.min() < 2:
            return float(np.inf)
        lengths = halves[:, None, None]
        means = np.stack([self.totals[:, : self.split] - self.last, self.last]) / lengths
        within = (means * (1.0 - means) * lengths / (lengths - 1.0)).mean(axis=(0, 1))
        between = means.reshape(2 * self.n_chains, -1).var(axis=0, ddof=1)
        n = halves.mean()
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(between > 0, (n - 1.0) / n + between / within, 1.0)
        return float(np.sqrt(max(ratio.max(), 1.0)))


def make_sampler(graph: FactorGraph, theta: FloatArray, block: str) -> Sampler:
    """Return the sampling function of a graph, which samples forests of variables where possible and cheap."""
    if block == "single" or not _forests_fit(graph, theta, must=block == "tree"):
        singles = np.arange(graph.n_variables + 1)  # each variable is a block with one root
        no_parents = np.full(graph.n_variables, -1)
        blocks = SampledBlocks(np.empty(0), singles[:1], singles[:-1], singles, singles[:-1], no_parents)
    else:
        weights, weight_ptr = _exponentiated_tables(graph, theta)
        forests = partition_into_forests(graph.n_variables, *graph.pairs_by_variable, graph.scope_idx)
        blocks = SampledBlocks(weights, weight_ptr, *forests)
    arrays = GraphArrays.of(graph)
    belief, state = np.empty(int(graph.variable_ptr[-1])), np.empty(graph.n_variables, dtype=np.int64)
    return lambda y, sweeps, rng, count: sample_blocks(theta, y, sweeps, rng, count, arrays, blocks, belief, state)


def _exponentiated_tables(graph: FactorGraph, theta: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return exp(score - highest score) of each pairwise table in full, and the offset of each table."""
    first = graph.first_factor_of_table
    side = graph.n_states[graph.scope_idx[2 * first + 1]]
    sizes = graph.n_states[graph.scope_idx[2 * first]] * side
    ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    table = np.repeat(np.arange(graph.n_tables), sizes)
    position = np.arange(ptr[-1]) - ptr[table]
    kind = graph.table_kind[table]
    gap = np.abs(position // side[table] - position % side[table]).astype(np.float64)
    distance = np.minimum(np.where(kind == FactorKind.TRUNCATED_LINEAR, gap, gap**2), graph.table_truncation[table])
    statistic = np.where(kind <= FactorKind.POTTS, (kind == FactorKind.TABLE) | (gap == 0.0), -distance)
    entry = theta[graph.table_ptr[table] + np.where(kind == FactorKind.TABLE, position, 0)]
    scores = np.multiply(entry, statistic, where=statistic != 0.0, out=np.zeros(entry.size))
    maxima = np.maximum.reduceat(scores, ptr[:-1])
    return np.exp(scores - np.where(maxima > -np.inf, maxima, 0.0)[table]), ptr


def _forests_fit(graph: FactorGraph, theta: FloatArray, must: bool) -> bool:
    """Return whether forests of variables can be sampled jointly; raise if they cannot and `must` is set."""
    if graph.n_factors == 0:
        return False
    if graph.max_scope > 2:
        reason = f"needs a pairwise graph, but a factor joins {graph.max_scope} variables"
    else:
        finite = theta[theta > -np.inf]
        score_range = float(finite.max(initial=0.0) - finite.min(initial=0.0))
        states = graph.n_states[graph.scope_idx]
        widest = float(states.max()) ** 2 if (graph.table_kind >= FactorKind.TRUNCATED_LINEAR).any() else 1.0
        entries = int((states[::2] * states[1::2])[graph.first_factor_of_table].sum())
        if score_range * widest > _MAX_TREE_RANGE:
            reason = f"needs scores within a range of {_MAX_TREE_RANGE:g}, but they span {score_range * widest:.3g}"
        elif entries > _MAX_TREE_ENTRIES:
            reason = f"needs at most {_MAX_TREE_ENTRIES} table entries, but there are {entries}"
        else:
            return must or int(states.max()) <= _MAX_TREE_STATES
    if must:
        raise TooLargeError(f"Gibbs: block='tree' {reason}. Use block='single'.")
    return False


def _advance(draw: Sampler, chain: Chain, sweeps: int, count: FloatArray, problem: Problem) -> FloatArray:
    """Run one chain in short calls, between which the time limit and Ctrl-C are checked; return the counts."""
    graph = problem.graph
    work = int(graph.n_states[graph.scope_idx].sum()) + int(graph.variable_ptr[-1])
    chunk = max(1, _WORK_PER_CALL // work)
    for start in range(0, sweeps, chunk):
        if problem.clock.expired:
            raise _TimeLimitReachedError
        draw(chain[0], min(chunk, sweeps - start), chain[1], count)
    return count


class _TimeLimitReachedError(Exception):
    """Exception for a time limit that is reached before a batch is complete."""
