"""Routes of single walkers: samples, conditions on places that they pass, and forecasts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.error_context import entry_point
from intarsia._core.settings import check_fitted, clone
from intarsia._core.validation import FloatArray, IntArray, as_float_array, as_generator, check_number
from intarsia.collective.intervals import FlowInterval, flow_interval
from intarsia.collective.moves import Moves
from intarsia.collective.oracle import Messages, WalkOracle
from intarsia.collective.result import CollectiveResult
from intarsia.exceptions import InvalidInputError

if TYPE_CHECKING:
    from intarsia.collective.noise import Noise

Places = Mapping[int, int | Iterable[int]]


class WalkerRoutes(ABC):
    """Abstract mixin of `CollectiveChain`: routes of single walkers, forecasts and intervals.

    Given the counts, all walkers move independently as a Markov chain, whose moves the inference has tilted so that
    the expected numbers agree with the counts. Routes are drawn exactly from that chain.
    """

    log_probabilities_: FloatArray
    moves_: Moves
    seasons_: Any
    n_walkers_: float
    noise_: Noise

    @abstractmethod
    def infer(self, X: ArrayLike | None = None) -> CollectiveResult:
        """Return walkers and flows given counts."""

    @abstractmethod
    def _read_seasons(self, n_steps: int) -> tuple[Any, IntArray]:
        """Return the distinct seasons, and the index of the season of each step."""

    @entry_point
    def sample_routes(
        self,
        n_routes: int = 1,
        X: ArrayLike | None = None,
        *,
        through: Places | None = None,
        random_state: int | np.random.Generator | None = None,
    ) -> IntArray:
        """Sample the routes of walkers, given the counts and places that the routes pass.

        Parameters
        ----------
        n_routes : int
            Number of routes.
        X : array (T, s), optional
            Counts; by default those of the fit.
        through : dict of int to int or list of ints, optional
            Cell, or one of several cells, in which a route is at a step: `{0: 4, 10: [7, 8]}`. Steps count from 0.
        random_state : int, Generator or None
            Seed.

        Returns
        -------
        int array (n_routes, T)
            Cell of each route at each step.

        Raises
        ------
        InvalidInputError
            If no possible route passes the places.

        Examples
        --------
        >>> from intarsia import CollectiveChain
        >>> counts = np.array([np.roll([90.0, 5, 3, 2], t) for t in range(5)])
        >>> model = CollectiveChain(tol=1e-4).fit(counts)
        >>> model.sample_routes(3, through={0: 0, 4: [0, 1]}, random_state=0).shape
        (3, 5)
        """
        check_number(n_routes, "n_routes", low=0, integer=True)
        messages, oracle = self._conditioned(X, through)
        return sample_paths(oracle, messages, int(n_routes), as_generator(random_state))

    @entry_point
    def passing_probability(self, through: Places, X: ArrayLike | None = None) -> float:
        """Return the probability that the route of a walker passes all places, given the counts.

        Examples
        --------
        >>> from intarsia import CollectiveChain
        >>> model = CollectiveChain(noise="exact", learn="nothing").fit(np.array([[9.0, 1.0], [9.0, 1.0]]))
        >>> round(model.passing_probability({0: 0}), 6)
        0.9
        """
        messages = self.infer(X)._require()[0]
        conditioned = self._conditioned(X, through, required=False)[0]
        if conditioned is None:
            return 0.0
        return float(min(np.exp(conditioned.log_partition - messages.log_partition), 1.0))

    @entry_point
    def predict_given(self, through: Places, X: ArrayLike | None = None) -> FloatArray:
        """Return the distribution over cells at each step, (T, s), of a walker whose route passes the places."""
        return self._conditioned(X, through)[0].marginals

    @entry_point
    def forecast(
        self, start: int | ArrayLike, week: int, n_weeks: int, *, seasons: Sequence[Any] | None = None
    ) -> FloatArray:
        """Forecast where a walker will be, from a place and a week, by the learned probabilities of moves.

        Unlike `sample_routes` it does not use the counts after `week`, so that it can pass the end of the data.

        Parameters
        ----------
        start : int or array (s,)
            Cell of the walker at `week`; or numbers of walkers in all cells, whose forecast has the same total.
        week : int
            Step at which the forecast begins, from 0.
        n_weeks : int
            Number of steps to forecast.
        seasons : sequence of length n_weeks, optional
            Season of each move, one of those of the fit; by default that of the same step in the fit. A model with a
            single season needs none; otherwise pass them for steps after the end of the data.

        Returns
        -------
        float array (n_weeks + 1, s)
            Distribution over the cells (or number of walkers) at each step; row 0 is the start.

        Examples
        --------
        >>> from intarsia import CollectiveChain
        >>> counts = np.array([np.roll([90.0, 5, 3, 2], t) for t in range(5)])
        >>> model = CollectiveChain(tol=1e-4).fit(counts)
        >>> model.forecast(0, week=4, n_weeks=3).argmax(axis=1)           # a ring of four cells
        array([0, 1, 2, 3])
        """
        rows, distribution = self._forecast_start(start, week, n_weeks, seasons)
        forecast = [distribution]
        for season in rows:
            matrix = self.moves_.matrix(np.exp(self.log_probabilities_[season]))
            forecast.append(np.asarray(forecast[-1] @ matrix))
        return np.stack(forecast)

    @entry_point
    def sample_forecast(
        self,
        start: int | ArrayLike,
        week: int,
        n_weeks: int,
        n_routes: int = 1,
        *,
        seasons: Sequence[Any] | None = None,
        random_state: int | np.random.Generator | None = None,
    ) -> IntArray:
        """Sample future routes, (n_routes, n_weeks + 1), from a place or a distribution; see `forecast`."""
        check_number(n_routes, "n_routes", low=0, integer=True)
        rows, distribution = self._forecast_start(start, week, n_weeks, seasons)
        rng = as_generator(random_state)
        routes = np.empty((int(n_routes), len(rows) + 1), dtype=np.int64)
        routes[:, 0] = rng.choice(distribution.size, size=int(n_routes), p=distribution / distribution.sum())
        for t, season in enumerate(rows):
            probabilities = np.exp(self.log_probabilities_[season])
            routes[:, t + 1] = _sample_moves(self.moves_.ptr, self.moves_.idx, probabilities, routes[:, t], rng)
        return routes

    @entry_point
    def flow_interval(
        self,
        step: int,
        X: ArrayLike | None = None,
        *,
        level: float = 0.9,
        n_draws: int = 100,
        refit: bool = True,
        random_state: int | np.random.Generator | None = 0,
    ) -> FlowInterval:
        """Return intervals for the numbers of walkers on the moves from `step` to the next, by parametric bootstrap.

        Populations are simulated from the inferred chain and counted with the noise of the model at the places that
        were observed. The model is fitted again to these counts, and the quantiles of the errors of its flows give the
        interval, so that noise, learned parameters and the bias of hard EM are all included. Each draw costs a fit.

        Parameters
        ----------
        step : int
            First step of the moves.
        X : array (T, s), optional
            Counts; by default those of the fit.
        level : float
            Probability that the interval of a move shall contain its number of walkers.
        n_draws : int
            Number of simulated populations.
        refit : bool
            Whether to fit the model again to each simulated population. False is faster, since a draw costs only an
            inference, but the intervals are too narrow if the moves were learned from few counts.
        random_state : int, Generator or None
            Seed.

        Examples
        --------
        >>> from intarsia import CollectiveChain
        >>> counts = np.array([np.roll([90.0, 5, 3, 2], t) for t in range(5)])
        >>> interval = CollectiveChain(tol=1e-4).fit(counts).flow_interval(0, n_draws=20, refit=False)
        >>> bool((interval.low <= interval.estimate).all()), interval.high.shape
        (True, (4, 4))
        """
        check_number(level, "level", low=0.0, high=1.0, open_low=True, open_high=True)
        check_number(n_draws, "n_draws", low=2, integer=True)
        counts = self._counts(X)
        result = self.infer(X)
        oracle = result._require()[1]
        n_moves = oracle.tables.table_of_step.size
        if not -n_moves <= step < n_moves:
            raise InvalidInputError(f"step is {step}, but moves start at steps 0..{n_moves - 1}. Pass one of these.")
        infer = self._infer_after_refit if refit else self.infer
        draws = (float(level), int(n_draws), as_generator(random_state))
        return flow_interval(result, counts, self.noise_, infer, step % n_moves, *draws)

    def _infer_after_refit(self, counts: FloatArray) -> CollectiveResult:
        """Return walkers and flows of a copy of the model that is fitted to the counts."""
        model: Any = clone(self).set_params(n_walkers=self.n_walkers_, warm_start=False)
        result: CollectiveResult = model.fit(counts).infer()
        return result

    @abstractmethod
    def _counts(self, X: ArrayLike | None) -> FloatArray:
        """Return the counts X, by default those of the fit."""

    def _conditioned(
        self, X: ArrayLike | None, through: Places | None, required: bool = True
    ) -> tuple[Any, WalkOracle]:
        """Return the messages of a walker that passes the places; None or an error if no route does."""
        messages, oracle = self.infer(X)._require()
        if not through:
            return messages, oracle
        scores = messages.scores.copy()
        for step, cells in _read_places(through, *scores.shape).items():
            allowed = np.zeros(scores.shape[1], dtype=bool)
            allowed[cells] = True
            scores[step, ~allowed] = -np.inf
        # A fresh oracle, because the scores of the search can have switched the stored one to the log domain.
        conditioned = WalkOracle(oracle.tables)(scores)
        if conditioned is None and required:
            raise InvalidInputError(
                f"no possible route passes {dict(through)}. Allow longer moves, or name places that can be reached."
            )
        return conditioned, oracle

    def _forecast_start(
        self, start: int | ArrayLike, week: int, n_weeks: int, seasons: Sequence[Any] | None
    ) -> tuple[IntArray, FloatArray]:
        """Return the index of the season of each move of a forecast, and the walkers at its start."""
        check_fitted(self, "weights_")
        check_number(week, "week", low=0, integer=True)
        check_number(n_weeks, "n_weeks", low=0, integer=True)
        n_cells = self.moves_.n_cells
        values = as_float_array(start, "start")
        if values.ndim == 0:
            check_number(start, "start", low=0, high=n_cells - 1, integer=True)
            distribution = np.eye(n_cells)[int(values)]
        else:
            distribution = values
            if values.shape != (n_cells,) or not (np.isfinite(values) & (values >= 0)).all() or values.sum() <= 0:
                raise InvalidInputError(
                    f"start has shape {values.shape}; expected a cell, or {n_cells} numbers of walkers of at least 0."
                )
        return self._seasons_of_forecast(int(week), int(n_weeks), seasons), distribution

    def _seasons_of_forecast(self, week: int, n_weeks: int, seasons: Sequence[Any] | None) -> IntArray:
        """Return the index of the season of each move of a forecast."""
        labels = list(np.asarray(self.seasons_).tolist())
        if seasons is not None:
            if len(seasons) != n_weeks:
                raise InvalidInputError(f"seasons has {len(seasons)} labels for {n_weeks} weeks. Pass one per week.")
            unknown = [label for label in seasons if label not in labels]
            if unknown:
                raise InvalidInputError(f"season {unknown[0]!r} was not in the fit. Use one of {labels[:20]}.")
            return np.array([labels.index(label) for label in seasons], dtype=np.int64)
        if len(labels) == 1:
            return np.zeros(n_weeks, dtype=np.int64)
        season_of_step = self._read_seasons(len(self._counts(None)))[1]
        if week + n_weeks > season_of_step.size:
            raise InvalidInputError(
                f"the forecast ends at week {week + n_weeks}, but the seasons of the fit end at week "
                f"{season_of_step.size}. Pass seasons=, one label per forecast week."
            )
        return season_of_step[week : week + n_weeks]


def _read_places(through: Places, n_steps: int, n_cells: int) -> dict[int, IntArray]:
    """Return the allowed cells of each step; raise if a step or cell does not exist."""
    if not isinstance(through, Mapping):
        raise InvalidInputError(f"through is of type {type(through).__name__}. Pass a dict from step to cell.")
    places = {}
    for step, cells in through.items():
        check_number(step, "through: step", low=-n_steps, high=n_steps - 1, integer=True)
        cell_list = np.atleast_1d(np.asarray(list(cells) if isinstance(cells, Iterable) else cells))
        if not cell_list.size or cell_list.dtype.kind not in "iu" or cell_list.min() < 0 or cell_list.max() >= n_cells:
            raise InvalidInputError(
                f"through[{step}] is {cells!r}; expected a cell from 0 to {n_cells - 1}, or a list of cells."
            )
        places[int(step) % n_steps] = cell_list.astype(np.int64)
    return places


def sample_paths(oracle: WalkOracle, messages: Messages, n_routes: int, rng: np.random.Generator) -> IntArray:
    """Sample routes from the chain (or tree) of a walker, from the first step on."""
    n_steps, n_cells = messages.marginals.shape
    routes = np.empty((n_routes, n_steps), dtype=np.int64)
    routes[:, 0] = rng.choice(n_cells, size=n_routes, p=messages.marginals[0] / messages.marginals[0].sum())
    ptr, idx, _ = oracle.tables.pattern()
    parents = oracle.tables.parent_of_step
    for t in range(1, n_steps):
        flow = oracle.flow(messages, t - 1).reshape(-1)
        routes[:, t] = _sample_moves(ptr, idx, flow, routes[:, parents[t]], rng)
    return routes


def _sample_moves(
    ptr: IntArray, idx: IntArray, weight: FloatArray, cells: IntArray, rng: np.random.Generator
) -> IntArray:
    """Return a sampled move from each of several cells, with probabilities proportional to the weights of the moves."""
    sums = np.concatenate([[0.0], np.cumsum(weight)])
    first, last = sums[ptr[cells]], sums[ptr[cells + 1]]
    move = np.searchsorted(sums, first + rng.random(cells.size) * (last - first), side="right") - 1
    # Rounding of the sums can lead to a neighbouring row, or to a move of weight 0.
    return idx[np.clip(move, ptr[cells], ptr[cells + 1] - 1)]
