"""The `CollectiveChain` estimator: movement of a population, learned from noisy counts."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.error_context import entry_point, warn_caller
from intarsia._core.html import ShownEstimator
from intarsia._core.registry import NamedParts, Parts
from intarsia._core.settings import Settings, check_fitted, clone
from intarsia._core.status import Status
from intarsia._core.transaction import transaction
from intarsia._core.validation import FloatArray, IntArray, check_choice, check_number
from intarsia._core.worker_threads import run_by_workers
from intarsia._files.saved_model import Arrays, Content, SavedModel
from intarsia.collective.chain_file import collective_chain_from_file, collective_chain_to_file
from intarsia.collective.flow_methods import FLOW_METHODS, FlowDual, FlowMethod
from intarsia.collective.infer_flows import infer_flows
from intarsia.collective.moves import Moves, all_moves, fit_table, fit_weights
from intarsia.collective.noise import NOISES, Noise
from intarsia.collective.result import CollectiveResult
from intarsia.collective.tables import MoveTables, check_counts, move_tables
from intarsia.exceptions import ConvergenceWarning, InvalidInputError


class CollectiveChain(NamedParts, SavedModel, ShownEstimator, Settings):
    r"""Collective graphical model of walkers that move between cells, learned from noisy counts by hard EM.

    Use it when individuals of a population cannot be followed and only counts per place and time are available. All
    walkers move independently as a Markov chain, :math:`p_w(j | i) \propto \exp(w \cdot \phi_{ij})` over the possible
    moves. `fit` minimises

    .. math:: -\langle \log p_w, n \rangle - H(n) - \sum_{t,i} \log p(y_{ti} | n_{ti}) + \lambda |w|^2 / 2

    alternately over the numbers n of walkers (`infer_flows`, warm-started) and over the weights w (a log-linear fit to
    the flows; Vilnis2015 Algorithm 2, which is the hard EM of Sheldon et al.). The objective falls at every iteration.
    Each iteration costs some forward-backward passes; memory is O(T s + moves).

    Parameters
    ----------
    moves : Moves, optional
        Possible moves and their features (`moves_within`, `make_moves`); by default all moves, without features.
    noise : {"poisson", "gaussian", "exact"} or Noise
        Observation noise of the counts.
    learn_noise : bool
        Whether to learn the rate of the noise (the expected count per walker) too, from the rate of `noise` on. It
        needs `n_walkers`, because fewer walkers and a higher rate explain the same counts.
    n_walkers : float, optional
        Number of walkers; by default estimated from the completely observed steps.
    learn : {"auto", "weights", "table", "nothing"}
        What to learn: weights of the features, or a probability for each move; "auto": weights if there are features.
        With "nothing" all moves that leave a cell stay equally probable.
    seasons : sequence of length T - 1, optional
        Label of the moves between each pair of steps; moves with the same label share their parameters. By default
        all moves share them.
    parents : int array (T,), optional
        For a tree of steps instead of a chain: the parent of each step, from which walkers arrive; it precedes the
        step, and is -1 for step 0. Then `seasons[t - 1]` is the label of the moves to step t.
    l2 : float
        L2 regularization of the weights: `l2 / 2 |w|^2` is added to the summed loss.
    smoothing : float
        Number added to every flow for `learn="table"`, and to the walkers in each cell at the first step.
    inference : {"dual", "mirror_descent"} or FlowMethod, optional
        Inference method of walkers and flows, with its own `max_iter` and `tol`; by default `FlowDual(tol=1e-7)`.
    max_iter, tol
        Maximum number of EM iterations; EM stops when the relative decrease of the objective is below `tol`.
    warm_start : bool
        Whether to start from the parameters of the previous fit.
    verbose : bool
        Whether to show the progress of inference on a terminal.

    Attributes
    ----------
    weights_ : float array (n_seasons, n_features)
        Learned weights of the features; empty if a table is learned.
    log_probabilities_ : float array (n_seasons, n_moves)
        Log-probabilities of the moves, in the order of `moves_`.
    initial_ : float array (s,)
        Distribution over cells at the first step.
    counts_ : float array (T, s)
        Counts of the fit.
    result_ : CollectiveResult
        Walkers and flows inferred from `counts_`.
    moves_, seasons_, n_walkers_, noise_
        Settings of the fit, with defaults filled in; `noise_` has the learned rate.
    objective_, history_, n_iter_, status_
        Convergence of the fit; `history_["objective"]` holds the objective per iteration.

    Notes
    -----
    Hard EM uses the mode of the posterior of n instead of averaging over n, and is slightly overconfident if there are
    few walkers per cell.

    References
    ----------
    Vilnis2015, section 8.3; Sheldon, Sun, Kumar and Dietterich (2013), Approximate inference in collective graphical
    models.

    Examples
    --------
    Walkers on a ring of four cells move one cell to the right at each step:

    >>> from intarsia.collective.moves import make_moves
    >>> right = np.roll(np.eye(4), 1, axis=1)
    >>> counts = np.array([np.roll([90.0, 5, 3, 2], t) for t in range(5)])
    >>> model = CollectiveChain(make_moves(np.ones((4, 4)), {"right": right})).fit(counts)
    >>> bool(model.weights_[0, 0] > 4)
    True
    >>> model.flows(0).argmax(axis=1)
    array([1, 2, 3, 0])
    """

    weights_: FloatArray
    log_probabilities_: FloatArray
    initial_: FloatArray
    counts_: FloatArray
    tilt_: FloatArray
    moves_: Moves
    noise_: Noise
    n_walkers_: float
    objective_: float
    history_: dict[str, FloatArray]
    n_iter_: int
    status_: Status

    def __init__(
        self,
        moves: Moves | None = None,
        *,
        noise: str | Noise = "poisson",
        learn_noise: bool = False,
        n_walkers: float | None = None,
        learn: str = "auto",
        seasons: Any = None,
        parents: Any = None,
        l2: float = 1e-3,
        smoothing: float = 1e-2,
        inference: str | FlowMethod | None = None,
        max_iter: int = 200,
        tol: float = 1e-5,
        warm_start: bool = False,
        verbose: bool = False,
    ) -> None:
        self.moves = moves
        self.noise = noise
        self.learn_noise = learn_noise
        self.n_walkers = n_walkers
        self.learn = learn
        self.seasons = seasons
        self.parents = parents
        self.l2 = l2
        self.smoothing = smoothing
        self.inference = inference
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.verbose = verbose

    @entry_point
    @transaction
    def fit(self, X: ArrayLike, y: Any = None) -> CollectiveChain:
        """Learn from counts (T, s), NaN where nothing was observed; `y` is ignored."""
        counts = check_counts(X, "counts")
        moves, learn_mode = self._check_settings(counts)
        labels, season_of_step = self._read_seasons(len(counts))
        weights = np.zeros((labels.size, moves.features.shape[1] if learn_mode == "weights" else 0))
        log_probabilities = np.tile(moves.log_softmax(np.zeros(moves.idx.size)), (labels.size, 1))
        initial = np.full(moves.n_cells, 1.0 / moves.n_cells)
        if self.warm_start and hasattr(self, "weights_"):
            if self.log_probabilities_.shape != log_probabilities.shape or self.weights_.shape != weights.shape:
                raise InvalidInputError(
                    "warm_start needs the moves and seasons of the previous fit. Set warm_start=False."
                )
            weights, log_probabilities, initial = self.weights_.copy(), self.log_probabilities_, self.initial_
        noise: Any = NOISES.resolve(self.noise)
        objectives: list[float] = []
        result: CollectiveResult | None = None
        start: CollectiveResult | None = None
        status = Status.MAX_ITER
        for k in range(int(self.max_iter) + 1):
            tables = self._tables(moves, log_probabilities, season_of_step, len(counts))
            inferred = self._infer(tables, counts, initial, self.n_walkers, start, noise)
            if inferred.marginals is None or (inferred.status is Status.INTERRUPTED and result is not None):
                status = inferred.status
                break
            result = start = inferred
            objectives.append(inferred.objective + self._penalty(weights, log_probabilities, initial, learn_mode))
            best_parameters = weights, log_probabilities, initial, noise
            if inferred.status is Status.INTERRUPTED:
                status = inferred.status
                break
            if k and objectives[-2] - objectives[-1] <= self.tol * (1.0 + abs(objectives[-1])):
                status = Status.CONVERGED
                break
            if k < self.max_iter:
                weights, log_probabilities = self._fit_parameters(
                    moves, inferred, weights, log_probabilities, learn_mode
                )
                smoothed = inferred.walkers[0] + self.smoothing
                initial = smoothed / smoothed.sum()
                if self.learn_noise:
                    fitted_noise = self._fit_noise(noise, inferred.walkers, counts)
                    # The multipliers of the counts are in units of the rate.
                    start = replace(inferred, tilt=np.asarray(inferred.tilt) * (fitted_noise.rate / noise.rate))
                    noise = fitted_noise
        if result is None:
            raise InvalidInputError("no sequence of moves is possible. Allow more moves.")
        if status is Status.MAX_ITER and (learn_mode != "nothing" or self.learn_noise):
            warn_caller(f"{status.message}. Raise max_iter or tol.", ConvergenceWarning)
        self.moves_, self.seasons_, self.n_walkers_ = moves, labels, result.n_walkers
        self.counts_ = counts
        self.weights_, self.log_probabilities_, self.initial_, self.noise_ = best_parameters
        self.result_, self.objective_, self.status_ = result, objectives[-1], status
        self.tilt_ = np.asarray(result.tilt)
        self.history_, self.n_iter_ = {"objective": np.array(objectives)}, len(objectives) - 1
        self.n_features_in_ = moves.n_cells
        return self

    @entry_point
    def infer(self, X: ArrayLike | None = None) -> CollectiveResult:
        """Infer walkers and flows from counts with the fitted model; without counts, return those of the fit."""
        check_fitted(self, "weights_")
        if X is None:
            return self.result_
        counts = check_counts(X, "counts")
        labels, season_of_step = self._read_seasons(len(counts))
        if not np.array_equal(labels, self.seasons_):
            raise InvalidInputError("seasons differ from those of the fit. Fit again.")
        tables = self._tables(self.moves_, self.log_probabilities_, season_of_step, len(counts))
        return self._infer(tables, counts, self.initial_, self.n_walkers_, None, self.noise_)

    @entry_point
    def predict(self, X: ArrayLike | None = None) -> FloatArray:
        """Return the expected number of walkers in each cell at each step, (T, s)."""
        return self.infer(X).walkers

    @entry_point
    def predict_marginals(self, X: ArrayLike | None = None) -> FloatArray:
        """Return the distribution of a walker over the cells at each step, (T, s)."""
        result = self.infer(X)
        return result.walkers / result.n_walkers

    @entry_point
    def flows(self, step: int, X: ArrayLike | None = None) -> Any:
        """Return the expected number of walkers on each move from `step` to the next, (s, s)."""
        return self.infer(X).flows(step)

    @entry_point
    def score(self, X: ArrayLike, y: ArrayLike | None = None) -> float:
        """Return the mean log-likelihood of the counts `y` (by default X) given the counts X; higher is better.

        To score held-out counts, set them to NaN in X and all other counts to NaN in y.
        """
        check_fitted(self, "weights_")
        held_out = check_counts(X if y is None else y, "counts")
        walkers = self.infer(X).walkers
        if held_out.shape != walkers.shape:
            raise InvalidInputError(
                f"y has shape {held_out.shape}, but X has shape {walkers.shape}. Pass equal shapes."
            )
        observed = ~np.isnan(held_out)
        if not observed.any():
            raise InvalidInputError("all counts are NaN. Pass counts to score.")
        self.noise_.check(held_out[observed], "counts")
        return -float(self.noise_.negative_log_likelihood(walkers[observed], held_out[observed]).mean())

    # ---------------------------------------------------------------- files

    _needs_labels = False
    _takes_matrix = True
    _settings_apart = ("moves",)
    _parts: ClassVar[Parts] = {"noise": NOISES, "inference": FLOW_METHODS}

    def _to_file(self) -> Content:
        return collective_chain_to_file(self)

    def _from_file(self, document: dict[str, Any], arrays: Arrays) -> None:
        collective_chain_from_file(self, document, arrays)

    @cached_property
    @entry_point
    def result_(self) -> CollectiveResult:
        """Walkers and flows inferred from the counts of the fit; a loaded model computes them at first use."""
        _, season_of_step = self._read_seasons(len(self.counts_))
        tables = self._tables(self.moves_, self.log_probabilities_, season_of_step, len(self.counts_))
        earlier = CollectiveResult(
            None, self.n_walkers_, np.inf, -np.inf, Status.INTERRUPTED, np.inf, 0, tilt=self.tilt_
        )
        return self._infer(tables, self.counts_, self.initial_, self.n_walkers_, earlier, self.noise_)

    # ---------------------------------------------------------------- steps of fit

    def _check_settings(self, counts: FloatArray) -> tuple[Moves, str]:
        """Check the settings; return the moves, and what to learn."""
        for name in ("l2", "tol"):
            check_number(getattr(self, name), name, low=0.0)
        check_number(self.smoothing, "smoothing", low=0.0, open_low=True)
        check_number(self.max_iter, "max_iter", low=0, integer=True)
        check_choice(self.learn, ("auto", "weights", "table", "nothing"), "learn")
        if self.learn_noise and self.n_walkers is None:
            raise InvalidInputError(
                "learn_noise=True needs n_walkers, because fewer walkers and a higher rate explain the same counts. "
                "Pass n_walkers, or set learn_noise=False."
            )
        if self.moves is not None and not isinstance(self.moves, Moves):
            raise InvalidInputError(
                f"moves must be a Moves object, got {type(self.moves).__name__}. Use moves_within or make_moves."
            )
        moves = all_moves(counts.shape[1]) if self.moves is None else self.moves
        if moves.n_cells != counts.shape[1]:
            raise InvalidInputError(
                f"counts have {counts.shape[1]} cells, but moves have {moves.n_cells}. Pass one column per cell."
            )
        has_features = moves.features.shape[1] > 0
        if self.learn == "weights" and not has_features:
            raise InvalidInputError("learn='weights', but moves have no features. Use learn='table'.")
        return moves, ("weights" if has_features else "table") if self.learn == "auto" else self.learn

    def _read_seasons(self, n_steps: int) -> tuple[Any, IntArray]:
        """Return the distinct seasons, and the index of the season of each step."""
        if self.seasons is None:
            return np.zeros(1, np.int64), np.zeros(n_steps - 1, np.int64)
        season_labels = np.asarray(self.seasons)
        if season_labels.shape != (n_steps - 1,):
            raise InvalidInputError(
                f"seasons has shape {season_labels.shape}, expected ({n_steps - 1},). Pass one label per pair of steps."
            )
        labels, season_of_step = np.unique(season_labels, return_inverse=True)
        return labels, season_of_step.astype(np.int64)

    def _tables(
        self, moves: Moves, log_probabilities: FloatArray, season_of_step: IntArray, n_steps: int
    ) -> MoveTables:
        """Return the tables of log-probabilities of moves, one per season."""
        scores = [moves.matrix(season_logs) for season_logs in log_probabilities]
        return move_tables(scores, n_steps, season_of_step, parents=self.parents)

    def _infer(
        self,
        tables: MoveTables,
        counts: FloatArray,
        initial: FloatArray,
        n_walkers: float | None,
        earlier: CollectiveResult | None,
        noise: Noise,
    ) -> CollectiveResult:
        """Infer walkers and flows, starting from an earlier result."""
        scores = np.zeros_like(counts)
        scores[0] = np.log(initial)
        return infer_flows(
            tables, counts, n_walkers, noise=noise, scores=scores,
            method=FlowDual(tol=1e-7) if self.inference is None else self.inference,
            warm_start=earlier, verbose=self.verbose,
        )  # fmt: skip

    def _fit_parameters(
        self,
        moves: Moves,
        result: CollectiveResult,
        weights: FloatArray,
        log_probabilities: FloatArray,
        learn_mode: str,
    ) -> tuple[FloatArray, FloatArray]:
        """Fit weights and log-probabilities of the moves to the inferred flows (the M step)."""
        if learn_mode == "nothing":
            return weights, log_probabilities
        season_flows = []
        for k in range(len(log_probabilities)):
            flows = result.sum_of_flows(k)
            # Dense tables also store impossible moves, whose flows are 0.
            season_flows.append(flows.data if hasattr(flows, "indptr") else flows[moves.rows, moves.idx])
        if learn_mode == "table":
            return weights.copy(), np.array([fit_table(moves, values, self.smoothing) for values in season_flows])
        # Seasons are independent, so workers fit them in parallel if joblib is configured.
        calls = [
            partial(fit_weights, moves, values, start, self.l2)
            for values, start in zip(season_flows, weights, strict=True)
        ]
        weights = np.array(run_by_workers(calls, None))
        return weights, np.array([moves.log_softmax(moves.features @ values) for values in weights])

    def _fit_noise(self, noise: Any, walkers: FloatArray, counts: FloatArray) -> Any:
        """Return the noise with the rate that makes the counts most probable."""
        observed = ~np.isnan(counts)
        rate = noise.fit_rate(walkers[observed], counts[observed])
        if not 0.0 < rate < np.inf:
            raise InvalidInputError(
                f"the rate of the noise became {rate:g}. Pass counts above 0, or learn_noise=False."
            )
        return clone(noise).set_params(rate=rate)

    def _penalty(
        self, weights: FloatArray, log_probabilities: FloatArray, initial: FloatArray, learn_mode: str
    ) -> float:
        """Return the terms of `l2` and `smoothing` in the objective, with which it falls at every iteration."""
        value = 0.5 * self.l2 * float((weights * weights).sum()) - self.smoothing * float(np.log(initial).sum())
        return value - self.smoothing * float(log_probabilities.sum()) if learn_mode == "table" else value
