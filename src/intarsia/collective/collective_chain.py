"""The estimator of collective models: how walkers move, learned from noisy counts of them."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from intarsia._core.error_context import entry_point, warn_caller
from intarsia._core.html import ShownEstimator
from intarsia._core.registry import NamedParts, Parts
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


class CollectiveChain(NamedParts, SavedModel, ShownEstimator, BaseEstimator):  # type: ignore[misc]
    r"""Moves of many walkers between cells, learned from noisy counts by hard EM.

    Walkers move as a Markov chain, :math:`p_w(j | i) \propto \exp(w \cdot \phi_{ij})` over the possible moves. `fit`
    minimises

    .. math:: -\langle \log p_w, n \rangle - H(n) - \sum_{t,i} \log p(y_{ti} | n_{ti}) + \lambda |w|^2 / 2

    over weights w and numbers n of walkers in turn: `infer_flows`, begun where it ended before, then a log-linear fit
    to the flows (Vilnis2015 Algorithm 2, which is the hard EM of Sheldon et al.). The objective falls at every
    iteration. Each costs some forward-backward passes; memory is O(T s + moves).

    Parameters
    ----------
    moves : Moves, optional
        Possible moves and their features (`moves_within`, `make_moves`); by default all, without features.
    noise : {"poisson", "gaussian", "exact"} or Noise
        How counts come about.
    n_walkers : float, optional
        By default what completely observed steps speak for.
    learn : {"auto", "weights", "table", "nothing"}
        Weights of the features, or a probability for each move; "auto": weights if there are features. With "nothing"
        all moves that leave a cell are equally probable.
    seasons : sequence of length T - 1, optional
        Moves between steps of the same label share their parameters; by default all do.
    parents : int array (T,), optional
        For a tree of steps instead of a chain: the step from which walkers come to each, earlier than it; -1 for
        step 0. Then `seasons[t - 1]` is that of the moves to step t.
    l2 : float
        Precision of the Gaussian prior on weights: `l2 / 2 |w|^2` beside the summed loss.
    smoothing : float
        Added to every flow for `learn="table"`, and to the walkers in each cell at the first step.
    inference : {"dual", "mirror_descent"} or FlowMethod, optional
        How walkers and flows are found, with its own `max_iter` and `tol`; by default `FlowDual(tol=1e-7)`.
    max_iter, tol
        Iterations of EM at most; stop when the objective falls by less than `tol` of its size.
    warm_start : bool
        Begin from the parameters of the last fit.
    verbose : bool
        Show progress of inference on a terminal.

    Attributes
    ----------
    weights_ : float array (n_seasons, n_features)
        Empty when a table is learned.
    log_probabilities_ : float array (n_seasons, n_moves)
        Of the moves, in the order of `moves_`.
    initial_ : float array (s,)
        Distribution over cells at the first step.
    counts_ : float array (T, s)
        What was fitted.
    result_ : CollectiveResult
        Walkers and flows of these counts.
    moves_, seasons_, n_walkers_, objective_, history_, n_iter_, status_
        What was used, and how it went; `history_["objective"]` per iteration.

    Notes
    -----
    Hard EM puts the numbers n where their posterior is largest instead of averaging over them, and is a little too sure
    of itself when there are few walkers per cell.

    References
    ----------
    Vilnis2015, section 8.3; Sheldon, Sun, Kumar and Dietterich (2013), Approximate inference in collective graphical
    models.

    Examples
    --------
    Walkers on a ring of four cells take one step to the right each time:

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
        """Learn from counts (T, s), NaN where nothing was looked for; `y` is not used."""
        counts = check_counts(X, "counts")
        moves, learns = self._settings(counts)
        labels, season_of_step = self._read_seasons(len(counts))
        weights = np.zeros((labels.size, moves.features.shape[1] if learns == "weights" else 0))
        logs = np.tile(moves.log_softmax(np.zeros(moves.idx.size)), (labels.size, 1))
        initial = np.full(moves.n_cells, 1.0 / moves.n_cells)
        if self.warm_start and hasattr(self, "weights_"):
            if self.log_probabilities_.shape != logs.shape or self.weights_.shape != weights.shape:
                raise InvalidInputError("warm_start with other moves or seasons. Set warm_start=False.")
            weights, logs, initial = self.weights_.copy(), self.log_probabilities_, self.initial_
        losses: list[float] = []
        result: CollectiveResult | None = None
        status = Status.MAX_ITER
        for k in range(int(self.max_iter) + 1):
            tables = self._tables(moves, logs, season_of_step, len(counts))
            found = self._infer(tables, counts, initial, self.n_walkers, result)
            if found.marginals is None or (found.status is Status.INTERRUPTED and result is not None):
                status = found.status
                break
            result = found
            losses.append(found.objective + self._penalty(weights, logs, initial, learns))
            kept = weights, logs, initial
            if found.status is Status.INTERRUPTED:
                status = found.status
                break
            if k and losses[-2] - losses[-1] <= self.tol * (1.0 + abs(losses[-1])):
                status = Status.CONVERGED
                break
            if k < self.max_iter:
                weights, logs = self._maximise(moves, found, weights, logs, learns)
                smoothed = found.walkers[0] + self.smoothing
                initial = smoothed / smoothed.sum()
        if result is None:
            raise InvalidInputError("no path is possible. Allow more moves.")
        if status is Status.MAX_ITER and learns != "nothing":
            warn_caller(f"{status.message}. Raise max_iter or tol.", ConvergenceWarning)
        self.moves_, self.seasons_, self.n_walkers_ = moves, labels, result.n_walkers
        self.counts_ = counts
        self.weights_, self.log_probabilities_, self.initial_ = kept
        self.result_, self.objective_, self.status_ = result, losses[-1], status
        self.tilt_ = np.asarray(result.tilt)
        self.history_, self.n_iter_ = {"objective": np.array(losses)}, len(losses) - 1
        self.n_features_in_ = moves.n_cells
        return self

    @entry_point
    def infer(self, X: ArrayLike | None = None) -> CollectiveResult:
        """Walkers and flows given counts, by the model as it is; without counts, those of the fit."""
        check_is_fitted(self, "weights_")
        if X is None:
            return self.result_
        counts = check_counts(X, "counts")
        labels, season_of_step = self._read_seasons(len(counts))
        if not np.array_equal(labels, self.seasons_):
            raise InvalidInputError("seasons are not those of the fit. Fit again.")
        tables = self._tables(self.moves_, self.log_probabilities_, season_of_step, len(counts))
        return self._infer(tables, counts, self.initial_, self.n_walkers_, None)

    @entry_point
    def predict(self, X: ArrayLike | None = None) -> FloatArray:
        """Expected number of walkers in each cell at each step, (T, s)."""
        return self.infer(X).walkers

    @entry_point
    def predict_marginals(self, X: ArrayLike | None = None) -> FloatArray:
        """Distribution of a walker over the cells at each step, (T, s)."""
        result = self.infer(X)
        return result.walkers / result.n_walkers

    @entry_point
    def flows(self, step: int, X: ArrayLike | None = None) -> Any:
        """Expected number of walkers on each move from `step` to the next, (s, s)."""
        return self.infer(X).flows(step)

    @entry_point
    def score(self, X: ArrayLike, y: ArrayLike | None = None) -> float:
        """Mean log-likelihood of the counts `y` (by default X) given the counts X; higher is better.

        For held-out counts, make them NaN in X and everything else NaN in y.
        """
        check_is_fitted(self, "weights_")
        held_out = check_counts(X if y is None else y, "counts")
        walkers = self.infer(X).walkers
        if held_out.shape != walkers.shape:
            raise InvalidInputError(f"y has shape {held_out.shape}, but X {walkers.shape}. Give one for each.")
        seen = ~np.isnan(held_out)
        if not seen.any():
            raise InvalidInputError("all counts are NaN. Give some to score.")
        noise: Noise = NOISES.resolve(self.noise)
        noise.check(held_out[seen], "counts")
        return -float(noise.negative_log_likelihood(walkers[seen], held_out[seen]).mean())

    # ---------------------------------------------------------------- files

    _needs_labels = False
    _takes_matrix = True
    _settings_apart = ("moves",)
    _parts: ClassVar[Parts] = {"noise": NOISES, "inference": FLOW_METHODS}

    def _to_file(self) -> Content:
        return collective_chain_to_file(self)

    def _from_file(self, about: dict[str, Any], arrays: Arrays) -> None:
        collective_chain_from_file(self, about, arrays)

    @cached_property
    @entry_point
    def result_(self) -> CollectiveResult:
        """Walkers and flows of the counts of the fit; a model from a file finds them at first use, in a few passes."""
        _, season_of_step = self._read_seasons(len(self.counts_))
        tables = self._tables(self.moves_, self.log_probabilities_, season_of_step, len(self.counts_))
        ended = CollectiveResult(None, self.n_walkers_, np.inf, -np.inf, Status.INTERRUPTED, np.inf, 0, tilt=self.tilt_)
        return self._infer(tables, self.counts_, self.initial_, self.n_walkers_, ended)

    # ---------------------------------------------------------------- parts of fit

    def _settings(self, counts: FloatArray) -> tuple[Moves, str]:
        for name in ("l2", "tol"):
            check_number(getattr(self, name), name, low=0.0)
        check_number(self.smoothing, "smoothing", low=0.0, open_low=True)
        check_number(self.max_iter, "max_iter", low=0, integer=True)
        check_choice(self.learn, ("auto", "weights", "table", "nothing"), "learn")
        if self.moves is not None and not isinstance(self.moves, Moves):
            raise InvalidInputError(f"moves must be Moves (see moves_within), got {type(self.moves).__name__}.")
        moves = all_moves(counts.shape[1]) if self.moves is None else self.moves
        if moves.n_cells != counts.shape[1]:
            raise InvalidInputError(
                f"counts have {counts.shape[1]} cells, but moves {moves.n_cells}. Give a column per cell."
            )
        has_features = moves.features.shape[1] > 0
        if self.learn == "weights" and not has_features:
            raise InvalidInputError("learn='weights', but moves have no features. Use learn='table'.")
        return moves, ("weights" if has_features else "table") if self.learn == "auto" else self.learn

    def _read_seasons(self, n_steps: int) -> tuple[Any, IntArray]:
        if self.seasons is None:
            return np.zeros(1, np.int64), np.zeros(n_steps - 1, np.int64)
        given = np.asarray(self.seasons)
        if given.shape != (n_steps - 1,):
            raise InvalidInputError(
                f"seasons has shape {given.shape}, but there are {n_steps - 1} moves between {n_steps} steps."
            )
        labels, season_of_step = np.unique(given, return_inverse=True)
        return labels, season_of_step.astype(np.int64)

    def _tables(self, moves: Moves, logs: FloatArray, season_of_step: IntArray, n_steps: int) -> MoveTables:
        scores = [moves.matrix(one) for one in logs]
        return move_tables(scores, n_steps, season_of_step, parents=self.parents)

    def _infer(
        self,
        tables: MoveTables,
        counts: FloatArray,
        initial: FloatArray,
        n_walkers: float | None,
        earlier: CollectiveResult | None,
    ) -> CollectiveResult:
        scores = np.zeros_like(counts)
        scores[0] = np.log(initial)
        return infer_flows(
            tables, counts, n_walkers, noise=self.noise, scores=scores,
            method=FlowDual(tol=1e-7) if self.inference is None else self.inference,
            warm_start=earlier, verbose=self.verbose,
        )  # fmt: skip

    def _maximise(
        self, moves: Moves, found: CollectiveResult, weights: FloatArray, logs: FloatArray, learns: str
    ) -> tuple[FloatArray, FloatArray]:
        if learns == "nothing":
            return weights, logs
        taken = []
        for k in range(len(logs)):
            flows = found.sum_of_flows(k)
            # Dense storage holds impossible moves as well; those are 0.
            taken.append(flows.data if hasattr(flows, "indptr") else flows[moves.rows, moves.idx])
        if learns == "table":
            return weights.copy(), np.array([fit_table(moves, one, self.smoothing) for one in taken])
        # Seasons are learned apart from each other, so by workers, where joblib is configured for them.
        calls = [partial(fit_weights, moves, one, first, self.l2) for one, first in zip(taken, weights, strict=True)]
        weights = np.array(run_by_workers(calls, None))
        return weights, np.array([moves.log_softmax(moves.features @ one) for one in weights])

    def _penalty(self, weights: FloatArray, logs: FloatArray, initial: FloatArray, learns: str) -> float:
        """What `l2` and `smoothing` add to the objective; with them, it falls at every iteration."""
        value = 0.5 * self.l2 * float((weights * weights).sum()) - self.smoothing * float(np.log(initial).sum())
        return value - self.smoothing * float(logs.sum()) if learns == "table" else value
