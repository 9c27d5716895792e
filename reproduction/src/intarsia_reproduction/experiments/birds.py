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
_RATE = 100.0  # counts per bird: the maps are estimates from many observations, with little noise
_RADIUS = 720.0  # largest distance per week, in kilometres
_FEATURES = ("stay", "distance", "axis_0", "axis_1")
_SEASON = 4  # weeks that share their weights
_GAPS = {"every second week": 1, "three weeks in four": 3}  # number of held-out weeks between two observed weeks
# Candidates among which the nested choice is made, and the fraction of the model in a blend with interpolation.
_CANDIDATES, _FRACTIONS = ((100.0, 4), (100.0, 13), (10.0, 4)), np.linspace(0.0, 1.0, 11)  # rate, weeks per season
_INNER_ITER = 20
_WEEKS_ON_MAP = (8, 11, 14, 41, 44, 47)  # migration north in spring, south in autumn


@dataclass(frozen=True, eq=False)
class Year:
    """Fraction of the birds in each cell by week (n_weeks, n_cells), and positions of the cells in kilometres."""

    shares: FloatArray
    positions: FloatArray


def birds(quick: bool = False, data: Path | None = None) -> Experiment:
    """Return the experiment with the total variation in held-out weeks of the model and three baselines.

    Errors are between predicted and true distributions. Cells of 80 km are merged into squares of 240 km; the quick
    version has squares of 320 km.

    Examples
    --------
    >>> [task.key for task in birds(quick=True).tasks]
    ['model', 'interpolation', 'nearest', 'mean', 'nested-model', 'nested-blend', 'flows']
    """

    @cache
    def year() -> Year:
        return load_year(4 if quick else 3, data)

    by_model = partial(_by_model, 30 if quick else 100)
    predictors: list[tuple[str, str, Callable[[Year, NDArray[np.bool_]], FloatArray]]] = [
        ("model", "collective model", by_model),
        ("interpolation", "linear interpolation between the weeks seen", _by_interpolation),
        ("nearest", "nearest week seen", _by_nearest),
        ("mean", "mean of the weeks seen", _by_mean),
    ]
    paper: dict[str, float | None] = dict.fromkeys(_GAPS)
    tasks = [
        Task(key, label, paper, "total variation", partial(_held_out, predict, year))
        for key, label, predict in predictors
    ]
    nested = cache(partial(predict_nested, 10 if quick else 30))
    for key, label in (("model", "collective model"), ("blend", "blend of model and interpolation")):
        label = f"{label}, settings chosen on other weeks, EM stopped early"
        tasks.append(Task(f"nested-{key}", label, paper, "total variation", partial(_nested, key, nested, year)))
    tasks.append(
        Task("flows", "collective model, all weeks seen", {"misfit": None}, "total variation", partial(_flows, year))
    )
    return Experiment(
        "birds",
        "American woodcock: error in held-out weeks",
        tasks,
        lambda findings: _figures(findings, year),
        f"weekly relative abundance of the American woodcock in 2019, each week scaled to the same number of birds, in "
        f"cells of {80 * (4 if quick else 3)} km",
        question="Which routes did the birds fly, given only how many were observed in each place each week?",
    )


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
    year: Year, observed: NDArray[np.bool_], max_iter: int, rate: float | None = None, season: int | None = None
) -> CollectiveChain:
    """Fit the collective model to the observed weeks of a year, by default with the rate and seasons of the table."""
    import warnings

    from intarsia.exceptions import ConvergenceWarning

    n_weeks = len(year.shares)
    rate, season = _RATE if rate is None else rate, _SEASON if season is None else season
    counts = np.where(observed[:, None], rate * _WALKERS * year.shares, np.nan)
    model = CollectiveChain(
        moves_within(year.positions, _RADIUS, _FEATURES), noise=PoissonNoise(rate), n_walkers=_WALKERS,
        seasons=np.arange(n_weeks - 1) // season, max_iter=max_iter, tol=1e-4, inference=FlowDual(tol=1e-5),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the number of iterations is a setting of the experiment
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


def _by_model(max_iter: int, year: Year, observed: NDArray[np.bool_]) -> FloatArray:
    return fit_year(year, observed, max_iter).predict_marginals()


def _by_interpolation(year: Year, observed: NDArray[np.bool_]) -> FloatArray:
    weeks, observed_weeks = np.arange(len(observed)), np.flatnonzero(observed)
    return np.stack([np.interp(weeks, observed_weeks, cell) for cell in year.shares[observed].T], axis=1)


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
    settings = {"walkers": _WALKERS, "rate": _RATE, "radius": _RADIUS, "season": _SEASON}
    return Finding(values, n, arrays, settings)


def predict_nested(max_iter: int, year: Year) -> dict[str, dict[str, Any]]:
    """Predict the held-out weeks with rate, seasons and weight of a blend chosen on observed weeks alone.

    For the choice, every second observed week is hidden. The evaluated weeks are never used.
    """
    predictions = {}
    for name, gap in _GAPS.items():
        observed = observed_mask(len(year.shares), gap)
        settings = choose_settings(year, observed)
        rate, season, fraction = (settings[key] for key in ("rate", "season", "fraction"))
        by_model = fit_year(year, observed, max_iter, rate, int(season)).predict_marginals()
        blend = fraction * by_model + (1.0 - fraction) * _by_interpolation(year, observed)
        predictions[name] = {"settings": settings, "observed": observed, "model": by_model, "blend": blend}
    return predictions


def _nested(
    key: str, predict: Callable[[Year], dict[str, dict[str, Any]]], load: Callable[[], Year], _: Path
) -> Finding:
    """Return the errors of the model or of the blend, with intervals of the gain over interpolation by bootstrap."""
    year = load()
    values, gains, n = {}, {}, 0
    predictions = predict(year)
    for name, prediction in predictions.items():
        observed = prediction["observed"]
        errors = total_variation(prediction[key], year.shares)[~observed]
        gain = total_variation(_by_interpolation(year, observed), year.shares)[~observed] - errors
        rng = np.random.default_rng(0)
        means = gain[rng.integers(0, gain.size, (10_000, gain.size))].mean(axis=1)
        values[name] = float(errors.mean())
        gains[name] = [float(gain.mean()), *np.quantile(means, [0.025, 0.975]).tolist()]
        n += int((~observed).sum())
    chosen_settings = {name: prediction["settings"] for name, prediction in predictions.items()}
    return Finding(values, n, settings={"chosen": chosen_settings, "gain over interpolation, 95 % interval": gains})


def choose_settings(year: Year, observed: NDArray[np.bool_]) -> dict[str, float]:
    """Return the rate, weeks per season and fraction of the model with the lowest error in hidden observed weeks."""
    weeks = np.flatnonzero(observed)
    hidden = weeks[1:-1:2]
    inner = observed.copy()
    inner[hidden] = False
    by_interpolation = _by_interpolation(year, inner)
    best: dict[str, float] = {"error": np.inf}
    for rate, season in _CANDIDATES:
        by_model = fit_year(year, inner, _INNER_ITER, rate, season).predict_marginals()
        for fraction in _FRACTIONS:
            blend = fraction * by_model + (1.0 - fraction) * by_interpolation
            error = float(total_variation(blend, year.shares)[hidden].mean())
            if error < best["error"]:
                best = {"error": error, "rate": rate, "season": season, "fraction": float(fraction)}
    return best


def _flows(load: Callable[[], Year], _: Path) -> Finding:
    year = load()
    model = fit_year(year, np.ones(len(year.shares), dtype=bool), 30)
    marginals = model.predict_marginals()
    arrays: dict[str, Any] = {"walkers": model.predict()[list(_WEEKS_ON_MAP)].astype(np.float32)}
    for week in _WEEKS_ON_MAP:
        flows = sparse.coo_array(model.flows(week))
        keep = flows.data > 1e-3  # birds; smaller flows are invisible on a map
        arrays[f"flow_{week}"] = np.stack([flows.row[keep], flows.col[keep], flows.data[keep]]).astype(np.float32)
    settings = {"status": model.status_.name, "n_iter": model.n_iter_, "features": list(_FEATURES)}
    return Finding({"misfit": float(total_variation(marginals, year.shares).mean())}, len(marginals), arrays, settings)


def _figures(findings: dict[str, Finding], year: Callable[[], Year]) -> dict[str, Figure]:
    from intarsia.report.flow_maps import plot_flow_maps

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
