"""Metropolis-Hastings samples of a world: means (marginals) of statistics that users name, and their precision."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.error_context import errors_from
from intarsia._core.html import ShownResult
from intarsia._core.progress import search_progress
from intarsia._core.validation import FloatArray, as_float_array, as_generator, check_number
from intarsia.exceptions import InvalidInputError
from intarsia.inference import Status
from intarsia.worlds.decoder import Decoder, require_world
from intarsia.worlds.search import OutOfTime, Search

if TYPE_CHECKING:
    from intarsia.worlds.world import World

_UNLIMITED = 10**15  # proposals, for the size of chunks


@dataclass(frozen=True, eq=False)
class WorldSamples(ShownResult):
    """Statistics of states that Metropolis-Hastings sampled from a world.

    Attributes
    ----------
    means : dict name -> float or float array
        Means of the statistics: the marginal probability, if a statistic is 0 or 1.
    standard_errors : dict name -> float or float array
        Standard errors of the means, from the effective sample sizes.
    effective_sample_sizes : dict name -> float or float array
        Numbers of independent samples that would give equally precise means. A statistic that never changed has the
        number of samples.
    values : dict name -> float array (n_samples, ...)
        Values of the statistics in each sample.
    acceptance_rate : float
        Fraction of the proposals that were accepted.
    best_state : object
        State with the highest score that the chain visited at the time of a sample.
    best_score : float
        Its score; for a world without `features`, its gain over the initial state.
    n_samples : int
        Number of samples; fewer than requested after Ctrl-C or at the time limit.
    seconds : float
        Wall time.
    status : Status
        MAX_ITER (all samples drawn), TIME_LIMIT or INTERRUPTED.

    Examples
    --------
    >>> from intarsia.clusters import ClusterModel, ClusterWorld, pair_features
    >>> world = ClusterWorld(pair_features(2, [[0, 1]], [2.0]), ClusterModel(absent=False))
    >>> together = {"together": lambda world: world.labels[0] == world.labels[1]}
    >>> samples = sample_world(world, [0.0], together, n_samples=500)
    >>> samples.n_samples, bool(abs(samples.means["together"] - 0.5) < 4 * samples.standard_errors["together"])
    (500, True)
    """

    means: dict[str, Any]
    standard_errors: dict[str, Any]
    effective_sample_sizes: dict[str, Any]
    values: dict[str, FloatArray]
    acceptance_rate: float
    best_state: Any
    best_score: float
    n_samples: int
    seconds: float
    status: Status


@errors_from("sample_world")
def sample_world(
    world: World,
    weights: ArrayLike,
    statistics: Mapping[str, Callable[[Any], Any]] | None = None,
    *,
    n_samples: int = 1000,
    thinning: float = 1.0,
    burn_in: float = 50.0,
    temperature: float = 1.0,
    start: str | Decoder | None = None,
    time_limit: float | None = None,
    random_state: int | np.random.Generator | None = 0,
    verbose: bool = False,
) -> WorldSamples:
    r"""Sample states by Metropolis-Hastings from :math:`P(Y) \propto \exp(\Theta \cdot \phi(Y) / T)`.

    The means of statistics that you name are estimates of their expectations, such as marginal probabilities. They are
    right if the proposals can reach all states and `log_ratio` of the world is right, which
    `intarsia.testing.check_world` tests.
    Consecutive samples are correlated: read the effective sample sizes, not the number of samples.

    Parameters
    ----------
    world : World
        A world of your own, a `ClusterWorld` or a `GraphWorld`; its state is the last sample afterwards.
    weights : float array (n_weights,)
        Weights of the features. SampleRank learns weights that rank states but does not fix their scale: choose
        `temperature` by calibration.
    statistics : dict name -> function of the world, optional
        Functions that return a number, a bool or an array of fixed shape for the current state of the world. By default
        "score", the score of the state.
    n_samples : int
        Number of samples.
    thinning, burn_in : float
        Proposals per site (record, variable) between samples, on average, and before the first sample.
    temperature : float
        Divisor of the score.
    start : str, Decoder or None
        Decoder that finds the first state of the chain; None begins with `world.restart`.
    time_limit : float, optional
        Seconds after which the chain stops, with the samples so far.
    random_state : int, Generator or None
        Seed.
    verbose : bool
        Whether to show progress on stderr, only on a terminal.

    Returns
    -------
    WorldSamples
        Ctrl-C ends the chain and returns the samples so far; without any sample, it is raised.

    References
    ----------
    Metropolis1953; Hastings1970; Geyer1992.

    Examples
    --------
    Two records whose union has score log 3 are together with probability 3/4.

    >>> from intarsia.clusters import ClusterModel, ClusterWorld, pair_features
    >>> world = ClusterWorld(pair_features(2, [[0, 1]], [1.0]), ClusterModel(absent=False))
    >>> together = {"together": lambda world: world.labels[0] == world.labels[1]}
    >>> samples = sample_world(world, [np.log(3.0)], together, n_samples=2000)
    >>> bool(abs(samples.means["together"] - 0.75) < 0.05)
    True
    """
    require_world(world)
    check_number(n_samples, "n_samples", low=1, integer=True)
    for name, value in (("thinning", thinning), ("burn_in", burn_in)):
        check_number(value, name, low=0.0, high=np.inf, open_high=True)
    check_number(temperature, "temperature", low=0.0, high=np.inf, open_low=True, open_high=True)
    if time_limit is not None:
        check_number(time_limit, "time_limit", low=0.0, high=np.inf)
    functions = _check_statistics(statistics)
    checked_weights, rng, start_time = world.check_weights(weights), as_generator(random_state), time.perf_counter()
    if functions is None:
        functions = {"score": lambda current: current.score(checked_weights)}
    deadline = np.inf if time_limit is None else start_time + float(time_limit)
    world.restart(rng)
    world.memory.clear()
    rows: dict[str, list[FloatArray]] = {name: [] for name in functions}
    status = Status.MAX_ITER
    with search_progress("sample_world", bool(verbose)) as report:
        search = Search(world, checked_weights, rng, deadline=deadline, report=report)
        try:
            if start is not None:
                world.decoders.resolve(start).run(search)
                search.restore_best()
            for _ in sampled_states(search, int(n_samples), float(thinning), float(burn_in), float(temperature)):
                row = {name: _statistic(name, function, world) for name, function in functions.items()}
                for name, row_value in row.items():
                    rows[name].append(row_value)
        except OutOfTime:
            status = Status.TIME_LIMIT
        except KeyboardInterrupt:
            if not all(rows.values()):
                raise
            status = Status.INTERRUPTED
    n = min(len(column) for column in rows.values())
    if n == 0:
        raise InvalidInputError(
            f"no sample was drawn within time_limit={time_limit} seconds. Raise time_limit, or lower burn_in."
        )
    values = {name: _stacked(name, column[:n]) for name, column in rows.items()}
    search.store_best()
    sizes = {name: effective_sample_size(array) for name, array in values.items()}
    return WorldSamples(
        {name: _scalar(array.mean(axis=0)) for name, array in values.items()},
        {name: _scalar(array.std(axis=0) / np.sqrt(sizes[name])) for name, array in values.items()},
        sizes,
        values,
        search.n_accepted / max(1, search.n_proposed),
        search.best_state,
        search.best_score,
        n,
        time.perf_counter() - start_time,
        status,
    )


def sampled_states(
    search: Search, n_samples: int, thinning: float, burn_in: float, temperature: float
) -> Iterator[int]:
    """Walk by Metropolis-Hastings and yield the number of each sample, with the world at the sampled state.

    Examples
    --------
    >>> from intarsia.clusters import ClusterModel, ClusterWorld, pair_features
    >>> world = ClusterWorld(pair_features(2, [[0, 1]], [2.0]), ClusterModel(absent=False))
    >>> search = Search(world, np.array([1.0]), np.random.default_rng(0))
    >>> len(list(sampled_states(search, 5, 1.0, 1.0, 1.0)))
    5
    """
    n_sites, chunk = search.world.n_sites, search.world.chunk_size(_UNLIMITED)
    for k in range(n_samples):
        n_remaining = int(np.ceil(burn_in * n_sites)) if k == 0 else 0
        # The number of proposals is random: with two records every proposal is accepted, and an even number of
        # them would always return to the same clustering.
        n_remaining += 1 + int(search.rng.integers(0, 2 * int(np.ceil(thinning * n_sites)) + 1))
        while n_remaining > 0:
            search.step(min(n_remaining, chunk), temperature)
            n_remaining -= chunk
        yield k


def effective_sample_size(values: ArrayLike) -> Any:
    r"""Return the number of independent samples with an equally precise mean, for each component of a chain.

    It is :math:`n / (1 + 2 \sum_t \rho_t)` with the autocorrelations :math:`\rho_t` of the chain, which are summed over
    pairs of lags while the sums of pairs are positive and decrease (initial monotone sequence of Geyer1992).

    Parameters
    ----------
    values : float array (n_samples, ...)
        A chain of numbers, or of arrays.

    Returns
    -------
    float or float array (...)
        A component that never changes has the effective size n_samples.

    Examples
    --------
    Independent draws count fully; if every draw is repeated ten times, a tenth of them counts.

    >>> draws = np.random.default_rng(0).normal(size=2000)
    >>> bool(effective_sample_size(draws) > 1500), bool(100 < effective_sample_size(draws[:200].repeat(10)) < 300)
    (True, True)
    """
    chain = as_float_array(values, "effective_sample_size: values")
    if chain.ndim == 0 or chain.shape[0] == 0:
        raise InvalidInputError("effective_sample_size: values has no samples. Pass an array (n_samples, ...).")
    n = chain.shape[0]
    columns = chain.reshape(n, -1)
    deviations = columns - columns.mean(axis=0)
    spectrum = np.fft.rfft(deviations, n=2 * n, axis=0)
    covariances = np.fft.irfft(np.abs(spectrum) ** 2, n=2 * n, axis=0)[:n] / n
    sizes = np.full(columns.shape[1], float(n))
    for k in range(columns.shape[1]):
        variance = covariances[0, k]
        if variance <= 1e-12 * max(1.0, float(np.abs(columns[:, k]).max()) ** 2):
            continue
        correlations = covariances[: n - n % 2, k] / variance
        pairs = correlations[0::2] + correlations[1::2]
        negative = np.flatnonzero(pairs <= 0.0)
        pairs = np.minimum.accumulate(pairs[: negative[0]] if negative.size else pairs)
        sizes[k] = min(float(n), n / max(2.0 * pairs.sum() - 1.0, 1.0 / n))
    return _scalar(sizes.reshape(chain.shape[1:]))


def _check_statistics(statistics: Mapping[str, Callable[[Any], Any]] | None) -> dict[str, Callable[[Any], Any]] | None:
    """Return the functions of the statistics; raise if they are not a dict of functions."""
    if statistics is None:
        return None
    if not isinstance(statistics, Mapping) or not statistics:
        raise InvalidInputError(
            "statistics must be a dict name -> function of the world with at least one entry. Pass, for example, "
            "{'first': lambda world: world.state[0]}."
        )
    wrong = next((name for name, function in statistics.items() if not callable(function)), None)
    if wrong is not None:
        raise InvalidInputError(
            f"statistics[{wrong!r}] is a {type(statistics[wrong]).__name__}, expected a function of the world. Pass, "
            f"for example, lambda world: world.state[0]."
        )
    return dict(statistics)


def _statistic(name: str, function: Callable[[Any], Any], world: World) -> FloatArray:
    """Return the value of a statistic as a new array; raise if it is not numeric or not finite."""
    value = np.array(as_float_array(function(world), f"statistics[{name!r}]"))
    if not np.isfinite(value).all():
        raise InvalidInputError(
            f"statistics[{name!r}] returned {value.tolist()!s:.80}. Change the function to return finite numbers."
        )
    return value


def _stacked(name: str, column: list[FloatArray]) -> FloatArray:
    """Return the values of a statistic in one array; raise if their shapes differ."""
    shapes = {value.shape for value in column}
    if len(shapes) > 1:
        raise InvalidInputError(
            f"statistics[{name!r}] returned arrays of shapes {sorted(shapes)}. Change the function to return "
            f"arrays of one shape."
        )
    return np.stack(column)


def _scalar(array: FloatArray) -> Any:
    """Return an array of dimension 0 as a float, and any other array unchanged."""
    return float(array) if np.ndim(array) == 0 else array
