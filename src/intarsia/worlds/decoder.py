"""Decoders search the best state of a world under fixed weights: their base class, registry, result and `decode`."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.error_context import errors_from
from intarsia._core.html import ShownResult
from intarsia._core.progress import search_progress
from intarsia._core.registry import Registry
from intarsia._core.settings import Settings
from intarsia._core.validation import FloatArray, as_generator, check_number
from intarsia.exceptions import InvalidInputError
from intarsia.inference import Status
from intarsia.worlds.search import OutOfTime, Search

if TYPE_CHECKING:
    from intarsia.worlds.world import World


@dataclass(frozen=True, eq=False)
class Decoding(ShownResult):
    """Best state that `decode` visited, with its score.

    Attributes
    ----------
    state : object
        The state, as `World.snapshot` returns it.
    score : float
        Score of the state under the weights. For a world without `features` it is the gain over the initial state.
    n_proposals, n_accepted : int
        Numbers of proposed and of accepted moves, over all chains.
    seconds : float
        Wall time.
    scores : float array
        Best score of each chain.
    status : Status
        CONVERGED if the search ended because no proposal improved the state any more, MAX_ITER after the planned
        number of proposals, TIME_LIMIT, or INTERRUPTED (Ctrl-C).

    Examples
    --------
    >>> from intarsia.clusters import ClusterModel, ClusterWorld, pair_features
    >>> world = ClusterWorld(pair_features(2, [[0, 1]], [2.0]), ClusterModel(absent=False))
    >>> result = decode(world, [3.0])
    >>> result.state.tolist(), result.score, result.status.name
    ([0, 0], 6.0, 'CONVERGED')
    """

    state: Any
    score: float
    n_proposals: int
    n_accepted: int
    seconds: float
    scores: FloatArray
    status: Status = Status.MAX_ITER


class Decoder(Settings, ABC):
    """Abstract base of decoders: settings objects (scikit-learn conventions) that search for the best state.

    Examples
    --------
    A decoder that joins all records of a clustering, whatever the weights:

    >>> from intarsia.clusters import ClusterModel, ClusterWorld, pair_features
    >>> class Together(Decoder):
    ...     def run(self, search):
    ...         search.world.reset([0] * search.world.n_sites)
    ...         search.count(1, 1)
    ...         return Status.CONVERGED
    >>> world = ClusterWorld(pair_features(3, [[0, 1], [1, 2]], [2.0, -1.0]), ClusterModel(absent=False))
    >>> clustering = decode(world, [1.0], Together())
    >>> clustering.labels.tolist(), clustering.score
    ([0, 0, 0], 1.0)
    """

    name: ClassVar[str]
    """Name in the registry."""
    summary: ClassVar[str]
    """When to use the decoder, in one line."""

    @abstractmethod
    def run(self, search: Search) -> Status:
        """Search from the current state of `search.world`, and report every step to `search`, which keeps the best.

        Return whether the search converged or used up its proposals.
        """


DECODERS: Registry[Decoder] = Registry(
    "method",
    "intarsia.worlds",
    {
        "hill_climbing": "HillClimbing",
        "annealing": "metropolis_hastings:MetropolisHastings",
        "metropolis_hastings": "MetropolisHastings",
        "cem": "cem_decode:CEMDecode",
    },
    Decoder,  # type: ignore[type-abstract]
)


@errors_from("decode")
def decode(
    world: World,
    weights: ArrayLike,
    method: str | Decoder = "hill_climbing",
    *,
    n_chains: int = 1,
    time_limit: float | None = None,
    random_state: int | np.random.Generator | None = 0,
    verbose: bool = False,
    **settings: Any,
) -> Decoding:
    """Search the best state of a world under fixed weights (MAP inference); the world is left at this state.

    Parameters
    ----------
    world : World
        A world of your own, a `ClusterWorld` or a `GraphWorld`. Each chain begins with `world.restart`.
    weights : float array (n_weights,)
        Weights of the features, such as those that `SampleRank` learned.
    method : str or Decoder
        Name or settings object: "hill_climbing", "annealing" (also called "metropolis_hastings"), "cem" (CEM-Decode,
        also called "cem_decode"); for clusterings also "agglomeration".
    n_chains : int
        Number of searches with different random numbers; the best result is returned.
    time_limit : float, optional
        Seconds after which the search stops, with the best state so far.
    random_state : int, Generator or None
        Seed.
    verbose : bool
        Whether to show progress on stderr, only on a terminal.
    **settings
        Further settings of the decoder.

    Returns
    -------
    Decoding
        The best visited state. For a `ClusterWorld` it is a `Clustering`, with `labels`. Ctrl-C ends the search and
        returns the best state so far, with status INTERRUPTED.

    Raises
    ------
    InvalidInputError
        If `world` is not a `World`, the weights do not match its features, or a setting is invalid.

    Examples
    --------
    >>> from intarsia.clusters import ClusterModel, ClusterWorld, pair_features
    >>> world = ClusterWorld(pair_features(4, [[0, 1], [2, 3], [1, 2]], [1.0, 1.0, -3.0]), ClusterModel(absent=False))
    >>> decode(world, [1.0], n_chains=2).labels.tolist()
    [0, 0, 1, 1]
    """
    require_world(world)
    check_number(n_chains, "n_chains", low=1, integer=True)
    if time_limit is not None:
        check_number(time_limit, "time_limit", low=0.0, high=np.inf)
    decoder: Decoder = world.decoders.resolve(method, settings)
    checked_weights, rng, start_time = world.check_weights(weights), as_generator(random_state), time.perf_counter()
    deadline = np.inf if time_limit is None else start_time + float(time_limit)
    best, scores, n_proposed, n_accepted, status = None, [], 0, 0, Status.MAX_ITER
    initial_state = None
    with search_progress(f"decode ({type(decoder).__name__})", bool(verbose)) as report:
        for _ in range(int(n_chains)):
            if initial_state is None:
                world.restart(rng)
                # Without features, scores are gains over the initial state, which must then be equal for all chains.
                initial_state = None if world.has_features else world.snapshot()
            else:
                world.restore(initial_state)
            world.memory.clear()
            search = Search(world, checked_weights, rng, deadline=deadline, report=report)
            try:
                status = decoder.run(search)
            except OutOfTime:
                status = Status.TIME_LIMIT
            except KeyboardInterrupt:
                status = Status.INTERRUPTED
            search.finish()
            n_proposed, n_accepted = n_proposed + search.n_proposed, n_accepted + search.n_accepted
            scores.append(search.score)
            if best is None or scores[-1] >= max(scores):
                best = world.snapshot()
            if status in (Status.TIME_LIMIT, Status.INTERRUPTED):
                break
    if len(scores) > 1:
        world.restore(best)
    seconds = time.perf_counter() - start_time
    return world.result_type(best, max(scores), n_proposed, n_accepted, seconds, np.array(scores), status)


def require_world(world: object) -> None:
    """Raise if an object is not a world.

    Examples
    --------
    >>> require_world([1, 2])
    Traceback (most recent call last):
    intarsia.exceptions.InvalidInputError: expected a World, got a list. Derive your class from intarsia.worlds.World.
    """
    from intarsia.worlds.world import World  # here, because world.py imports this module

    if not isinstance(world, World):
        raise InvalidInputError(
            f"expected a World, got a {type(world).__name__}. Derive your class from intarsia.worlds.World."
        )
    for name in ("n_weights", "n_sites"):
        if not hasattr(world, name):
            raise InvalidInputError(
                f"{type(world).__name__} has no {name}. Set it in the class or in __init__: n_weights is the number of "
                f"features, n_sites the size of the world."
            )
        check_number(getattr(world, name), f"{type(world).__name__}: {name}", low=0, integer=True)
