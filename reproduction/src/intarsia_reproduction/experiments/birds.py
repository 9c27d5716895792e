"""Weekly migration flows of the American woodcock over a year, and held-out weeks (Vilnis2015, section 8.3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from intarsia._core.validation import FloatArray
from intarsia.collective import CollectiveChain, FlowDual, PoissonNoise, moves_within
from intarsia_reproduction.experiment import Experiment, Finding, Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WALKERS = 10_000.0
_RADIUS = 720.0  # largest distance per week, in kilometres
_FEATURES = ("stay", "distance", "axis_0", "axis_1")
_GAPS = {"every second week": 1, "three weeks in four": 3}  # number of held-out weeks between two observed weeks
# Candidates of the choice: rate (counts per bird) and weeks per season, then the weight of an interpolated map relative
# to an observed one, and the fraction of the model in a blend with interpolation.
_CANDIDATES = ((10.0, 4), (10.0, 13), (100.0, 4), (100.0, 13))
_PRIOR_WEIGHTS, _FRACTIONS = (0.03, 0.3, 3.0), np.linspace(0.0, 1.0, 11)
_COARSE = 4  # the choice has larger cells, to save time
_MAX_ITER = 400
_WEEKS_ON_MAP = (8, 11, 14, 41, 44, 47)  # migration north in spring, south in autumn
_SIMULATED = ("model", "interpolation", "square roots")
_BLOCK = 4  # consecutive held-out weeks that the bootstrap keeps together, since their errors are correlated


@dataclass(frozen=True, eq=False)
class Year:
    """Fraction of the birds in each cell by week (n_weeks, n_cells), and positions of the cells in kilometres."""

    shares: FloatArray
    positions: FloatArray


def birds(quick: bool = False, data: Path | None = None) -> Experiment:
    """Return the experiment with the total variation in held-out weeks of the model and of interpolation.

    Errors are between predicted and true distributions. Cells of 80 km are merged into squares of 240 km; the quick
    version has squares of 320 km. All settings of the model are chosen on observed weeks alone: every second of them
    is hidden, and the setting with the smallest error there is used.

    Examples
    --------
    >>> [task.key for task in birds(quick=True).tasks]
    ['model', 'prior', 'blend', 'interpolation', 'square-roots', 'nearest', 'mean', 'flows', 'smoothness', 'simulated']
    """

    @cache
    def year() -> Year:
        return load_year(_COARSE if quick else 3, data)

    max_iter = 30 if quick else _MAX_ITER
    nested = cache(lambda: predict_nested(year(), year() if quick else load_year(_COARSE, data), max_iter))
    paper: dict[str, float | None] = dict.fromkeys(_GAPS)
    tasks = [
        Task(key, label, paper, "total variation", partial(_nested, key, nested, year))
        for key, label in (
            ("model", "collective model"),
            ("prior", "collective model, interpolated maps as counts of the hidden weeks"),
            ("blend", "blend of model and interpolation"),
        )
    ]
    tasks += [
        Task(key, label, paper, "total variation", partial(_held_out, predict, year))
        for key, label, predict in (
            ("interpolation", "linear interpolation between the weeks seen", _by_interpolation),
            ("square-roots", "linear interpolation of square roots", _by_square_roots),
            ("nearest", "nearest week seen", _by_nearest),
            ("mean", "mean of the weeks seen", _by_mean),
        )
    ]
    tasks += [
        Task("flows", "collective model, all weeks seen", {"misfit": None}, "total variation", partial(_flows, year)),
        Task(
            "smoothness", "error of interpolation between neighbouring weeks", {"autocorrelation": None},
            "correlation of consecutive weeks; -0.667 for independent errors of the maps", partial(_smoothness, year),
            separate=True,
        ),
        Task(
            "simulated", "birds that move as the fitted model says",
            {f"{method}, {name}": None for method in _SIMULATED for name in _GAPS}, "total variation",
            partial(_simulated, year, max_iter), separate=True,
        ),
    ]  # fmt: skip
    return Experiment(
        "birds",
        "American woodcock: error in held-out weeks",
        tasks,
        lambda findings: _figures(findings, year),
        f"weekly relative abundance of the American woodcock in 2019, each week scaled to the same number of birds, in "
        f"cells of {80 * (_COARSE if quick else 3)} km",
        question="Which routes did the birds fly, given only how many were observed in each place each week?",
    )


class WeightedPoisson(PoissonNoise):
    """Poisson counts with a rate for each count, so that a map can have less weight than an observed one.

    Examples
    --------
    >>> WeightedPoisson(np.array([1.0, 0.5])).slope(np.array([2.0, 2.0]), np.array([2.0, 2.0]))
    array([ 0. , -0.5])
    """

    def check(self, y: FloatArray, name: str) -> None:
        """Accept all rates, which `fit_year` has set."""


def load_year(coarse: int, data: Path | None) -> Year:
    """Load the year of the woodcock, with cells merged into squares of `coarse` x `coarse`."""
    from intarsia_reproduction.datasets import load_woodcock

    woodcock = load_woodcock(data)
    squares, group = np.unique(woodcock.cells // coarse, axis=0, return_inverse=True)
    abundance = np.stack([np.bincount(group.reshape(-1), weights=week) for week in woodcock.abundance])
    # Centres of complete squares, so that they form a grid: columns grow eastwards, rows southwards.
    centres = (squares * coarse + 0.5 * (coarse - 1))[:, ::-1] * [1, -1]
    grid = woodcock.cells[:, ::-1] * [1, -1]
    width = np.ptp(woodcock.positions, axis=0) / np.ptp(grid, axis=0)
    positions = woodcock.positions[0] + (centres - grid[0]) * width
    return Year(abundance / abundance.sum(axis=1, keepdims=True), positions)


def observed_mask(n_weeks: int, gap: int) -> NDArray[np.bool_]:
    """Return a mask of the observed weeks: every (gap + 1)-th week, and the last.

    Examples
    --------
    >>> observed_mask(7, 3).tolist()
    [True, False, False, False, True, False, True]
    """
    observed = np.arange(n_weeks) % (gap + 1) == 0
    observed[-1] = True
    return observed


def fit_year(
    year: Year,
    observed: NDArray[np.bool_],
    max_iter: int,
    rate: float,
    season: int,
    prior: FloatArray | None = None,
    prior_weight: float = 0.0,
) -> CollectiveChain:
    """Fit the collective model to the observed weeks of a year, by EM until it converges.

    With a prior, its maps are counts of the hidden weeks, with a rate of `prior_weight` times that of observed weeks.
    """
    import warnings

    from intarsia.exceptions import ConvergenceWarning

    n_weeks = len(year.shares)
    rates = np.where(observed, rate, np.nan if prior is None else prior_weight * rate)
    shares = year.shares if prior is None else np.where(observed[:, None], year.shares, prior)
    counts = rates[:, None] * _WALKERS * shares
    model = CollectiveChain(
        moves_within(year.positions, _RADIUS, _FEATURES),
        noise=WeightedPoisson(np.broadcast_to(rates[:, None], counts.shape)[~np.isnan(counts)]),  # type: ignore[arg-type]
        n_walkers=_WALKERS, seasons=np.arange(n_weeks - 1) // season, max_iter=max_iter, tol=1e-4,
        inference=FlowDual(tol=1e-5),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the results store the status
        return model.fit(counts)


def total_variation(p: FloatArray, q: FloatArray) -> FloatArray:
    """Compute the total variation by week: the fraction of the birds that would have to move.

    Examples
    --------
    >>> total_variation(np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]]))
    array([0.5])
    """
    return 0.5 * np.abs(p - q).sum(axis=1)


# ---------------------------------------------------------------- predictors of held-out weeks


def _by_interpolation(year: Year, observed: NDArray[np.bool_]) -> FloatArray:
    weeks, observed_weeks = np.arange(len(observed)), np.flatnonzero(observed)
    return np.stack([np.interp(weeks, observed_weeks, cell) for cell in year.shares[observed].T], axis=1)


def _by_square_roots(year: Year, observed: NDArray[np.bool_]) -> FloatArray:
    """Interpolate square roots, as along an arc between two distributions; sums of squares are scaled to 1."""
    squares = _by_interpolation(Year(np.sqrt(year.shares), year.positions), observed) ** 2
    return np.asarray(squares / squares.sum(axis=1, keepdims=True))


def _by_nearest(year: Year, observed: NDArray[np.bool_]) -> FloatArray:
    observed_weeks = np.flatnonzero(observed)
    nearest = np.abs(np.arange(len(observed))[:, None] - observed_weeks).argmin(axis=1)
    return year.shares[observed_weeks[nearest]]


def _by_mean(year: Year, observed: NDArray[np.bool_]) -> FloatArray:
    return np.broadcast_to(year.shares[observed].mean(axis=0), year.shares.shape)


# ---------------------------------------------------------------- tasks and pictures


def _held_out(predict: Callable[[Year, NDArray[np.bool_]], FloatArray], load: Callable[[], Year], _: Path) -> Finding:
    year = load()
    values, arrays, n = {}, {}, 0
    for name, gap in _GAPS.items():
        observed = observed_mask(len(year.shares), gap)
        errors = total_variation(predict(year, observed), year.shares)
        values[name] = float(errors[~observed].mean())
        arrays[f"gap_{gap}"] = np.where(observed, np.nan, errors)
        n += int((~observed).sum())
    return Finding(values, n, arrays)


def predict_nested(year: Year, coarse: Year, max_iter: int) -> dict[str, dict[str, Any]]:
    """Predict the held-out weeks with settings that were chosen on the observed weeks of a map with larger cells.

    For the choice, every second observed week is hidden. The evaluated weeks are never used.
    """
    predictions = {}
    for name, gap in _GAPS.items():
        observed = observed_mask(len(year.shares), gap)
        settings = choose_settings(coarse, observed, max_iter)
        interpolate = _by_square_roots if settings["square roots"] else _by_interpolation
        prior = interpolate(year, observed)
        candidate = (settings["rate"], int(settings["season"]))
        model = fit_year(year, observed, max_iter, *candidate)
        by_model = model.predict_marginals()
        with_prior = fit_year(year, observed, max_iter, *candidate, prior, settings["prior weight"])
        fraction = settings["fraction"]
        predictions[name] = {
            "settings": settings | {"EM": [model.status_.name, with_prior.status_.name]},
            "observed": observed,
            "model": by_model,
            "prior": with_prior.predict_marginals(),
            "blend": fraction * by_model + (1.0 - fraction) * prior,
        }
    return predictions


def _nested(key: str, predict: Callable[[], dict[str, dict[str, Any]]], load: Callable[[], Year], _: Path) -> Finding:
    """Return the errors of a prediction, and its gain over both interpolations with an interval over weeks."""
    year = load()
    values: dict[str, float] = {}
    arrays, n, settings_of_gap = {}, 0, {}
    for name, prediction in predict().items():
        observed, settings_of_gap[name] = prediction["observed"], prediction["settings"]
        errors = total_variation(prediction[key], year.shares)[~observed]
        values[name] = float(errors.mean())
        for baseline, interpolate in (("interpolation", _by_interpolation), ("square roots", _by_square_roots)):
            gain = total_variation(interpolate(year, observed), year.shares)[~observed] - errors
            for end, value in zip(("", ", low", ", high"), (float(gain.mean()), *block_interval(gain)), strict=True):
                values[f"gain over {baseline}, {name}{end}"] = value
        arrays[f"gap_{_GAPS[name]}"] = errors
        n += int((~observed).sum())
    return Finding(values, n, arrays, {"walkers": _WALKERS, "radius": _RADIUS, "chosen": settings_of_gap})


def block_interval(values: FloatArray, n_resamples: int = 10_000) -> tuple[float, float]:
    """Return the 95 % interval of the mean of a series by bootstrap of blocks, which wrap around at the end.

    Examples
    --------
    >>> low, high = block_interval(np.tile([0.0, 1.0], 50))
    >>> low == high == 0.5                                       # every block of four has the same mean
    True
    """
    rng = np.random.default_rng(0)
    starts = rng.integers(0, values.size, (n_resamples, -(-values.size // _BLOCK)))
    positions = (starts[:, :, None] + np.arange(_BLOCK)).reshape(n_resamples, -1)[:, : values.size]
    low, high = np.quantile(values[positions % values.size].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)


def choose_settings(year: Year, observed: NDArray[np.bool_], max_iter: int) -> dict[str, Any]:
    """Return the settings with the lowest error in hidden observed weeks.

    Rate and season are those of the best model alone. For these, the weight of the prior and the fraction of the blend
    are chosen, both with the better of the two interpolations.
    """
    hidden = np.flatnonzero(observed)[1:-1:2]
    inner = observed.copy()
    inner[hidden] = False

    def error(prediction: FloatArray) -> float:
        return float(total_variation(prediction, year.shares)[hidden].mean())

    models = {candidate: fit_year(year, inner, max_iter, *candidate).predict_marginals() for candidate in _CANDIDATES}
    best = min(models, key=lambda candidate: error(models[candidate]))
    interpolations = {False: _by_interpolation(year, inner), True: _by_square_roots(year, inner)}
    square_roots = min(interpolations, key=lambda name: error(interpolations[name]))
    prior = interpolations[square_roots]
    priors = {
        weight: error(fit_year(year, inner, max_iter, *best, prior, weight).predict_marginals())
        for weight in _PRIOR_WEIGHTS
    }
    blends = {fraction: error(fraction * models[best] + (1 - fraction) * prior) for fraction in _FRACTIONS.tolist()}
    return {
        "rate": best[0],
        "season": best[1],
        "square roots": square_roots,
        "prior weight": min(priors, key=lambda weight: priors[weight]),
        "fraction": min(blends, key=lambda fraction: blends[fraction]),
        "errors on hidden observed weeks": {
            "models": [[*candidate, error(models[candidate])] for candidate in models],
            "interpolation": error(interpolations[False]),
            "square roots": error(interpolations[True]),
            "priors": list(priors.items()),
            "blends": list(blends.items()),
        },
    }


def _smoothness(load: Callable[[], Year], _: Path) -> Finding:
    """Return the correlation between consecutive weeks of the error of interpolation from the two neighbouring weeks.

    Independent errors of the weekly maps give -2/3; a positive value means that the maps change smoothly.
    """
    shares = load().shares
    errors = shares[1:-1] - (shares[:-2] + shares[2:]) / 2.0
    value = float((errors[1:] * errors[:-1]).sum() / np.sqrt((errors[1:] ** 2).sum() * (errors[:-1] ** 2).sum()))
    return Finding({"autocorrelation": value}, len(errors))


def _simulated(load: Callable[[], Year], max_iter: int, _: Path) -> Finding:
    """Return errors on a year in which all birds move by the probabilities that were learned from the true year.

    The model is right there; its settings are those that were chosen for the true year.
    """
    year = load()
    rate, season = 10.0, 13
    model = fit_year(year, np.ones(len(year.shares), dtype=bool), max_iter, rate, season)
    shares = [year.shares[0]]
    for index in np.unique(np.asarray(model.seasons), return_inverse=True)[1]:
        shares.append(shares[-1] @ model.moves_.matrix(np.exp(model.log_probabilities_[index])))
    simulated = Year(np.stack(shares), year.positions)
    values, n = {}, 0
    for name, gap in _GAPS.items():
        observed = observed_mask(len(year.shares), gap)
        predictions = (
            fit_year(simulated, observed, max_iter, rate, season).predict_marginals(),
            _by_interpolation(simulated, observed),
            _by_square_roots(simulated, observed),
        )
        for method, prediction in zip(_SIMULATED, predictions, strict=True):
            errors = total_variation(prediction, simulated.shares)[~observed]
            values[f"{method}, {name}"] = float(errors.mean())
        n += int((~observed).sum())
    return Finding(values, n, settings={"rate": rate, "season": season, "EM": model.status_.name})


def _flows(load: Callable[[], Year], _: Path) -> Finding:
    year = load()
    model = fit_year(year, np.ones(len(year.shares), dtype=bool), 30, 100.0, 4)
    marginals = model.predict_marginals()
    arrays: dict[str, Any] = {"walkers": model.predict()[list(_WEEKS_ON_MAP)].astype(np.float32)}
    for week in _WEEKS_ON_MAP:
        flows = sparse.coo_array(model.flows(week))
        keep = flows.data > 1e-3  # birds; smaller flows are invisible on a map
        arrays[f"flow_{week}"] = np.stack([flows.row[keep], flows.col[keep], flows.data[keep]]).astype(np.float32)
    settings = {"status": model.status_.name, "n_iter": model.n_iter_, "features": list(_FEATURES)}
    return Finding({"misfit": float(total_variation(marginals, year.shares).mean())}, len(marginals), arrays, settings)


def _figures(findings: dict[str, Finding], year: Callable[[], Year]) -> dict[str, Figure]:
    from intarsia_reproduction.models.flow_maps import plot_flow_maps

    figures = {}
    finding = findings.get("flows")
    if finding is not None and finding.arrays:
        positions = year().positions
        flows = []
        for week in _WEEKS_ON_MAP:
            row, column, birds_on_move = finding.arrays[f"flow_{week}"]
            entries = (row.astype(int), column.astype(int))
            flows.append(
                sparse.coo_array((birds_on_move.astype(float), entries), shape=(len(positions), len(positions)))
            )
        titles = [f"week {week + 1} to {week + 2}" for week in _WEEKS_ON_MAP]
        figures["birds-flows"] = plot_flow_maps(
            list(finding.arrays["walkers"].astype(float)), positions, flows, titles=titles, n_columns=3
        )
    return figures
