"""A year of the American woodcock (Vilnis2015, section 8.3): weekly flows, and weeks that were held out."""

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
_RATE = 100.0  # counts per bird: the maps are estimates from many observations and hardly noisy
_RADIUS = 720.0  # kilometres a week at most
_FEATURES = ("stay", "distance", "axis_0", "axis_1")
_SEASON = 4  # weeks that share their weights
_GAPS = {"every second week": 1, "three weeks in four": 3}  # weeks held out between two that are seen
_SHOWN = (8, 11, 14, 41, 44, 47)  # weeks on the map: north in spring, south in autumn


@dataclass(frozen=True, eq=False)
class Year:
    """Share of the birds in each cell by week (n_weeks, n_cells), and where the cells are, in kilometres."""

    shares: FloatArray
    positions: FloatArray


def birds(quick: bool = False, data: Path | None = None) -> Experiment:
    """Total variation between predicted and true distribution in held-out weeks, the model beside three baselines.

    Cells of 80 km are joined in squares, 240 km wide, in the quick version 320 km.

    Examples
    --------
    >>> [task.key for task in birds(quick=True).tasks]
    ['model', 'interpolation', 'nearest', 'mean', 'flows']
    """

    @cache
    def year() -> Year:
        return load_year(4 if quick else 3, data)

    by_model = partial(_by_model, 30 if quick else 100)
    ways: list[tuple[str, str, Callable[[Year, NDArray[np.bool_]], FloatArray]]] = [
        ("model", "collective model", by_model),
        ("interpolation", "linear interpolation between the weeks seen", _by_interpolation),
        ("nearest", "nearest week seen", _by_nearest),
        ("mean", "mean of the weeks seen", _by_mean),
    ]
    paper: dict[str, float | None] = dict.fromkeys(_GAPS)
    tasks = [Task(key, label, paper, "total variation", partial(_held_out, way, year)) for key, label, way in ways]
    tasks.append(
        Task("flows", "collective model, all weeks seen", {"misfit": None}, "total variation", partial(_flows, year))
    )
    return Experiment(
        "birds",
        "American woodcock: error in held-out weeks",
        tasks,
        lambda found: _figures(found, year),
        f"weekly relative abundance of the American woodcock in 2019, each week scaled to the same number of birds, in "
        f"cells of {80 * (4 if quick else 3)} km",
        question="From how many birds are seen where each week: which ways did they fly?",
    )


def load_year(coarse: int, data: Path | None) -> Year:
    """The woodcock's year, with cells joined in squares of `coarse` x `coarse`."""
    from intarsia_reproduction.datasets import load_woodcock

    found = load_woodcock(data)
    squares, group = np.unique(found.cells // coarse, axis=0, return_inverse=True)
    abundance = np.stack([np.bincount(group.reshape(-1), weights=week) for week in found.abundance])
    # The middles of whole squares, so that they stay a grid: east by columns, north against rows.
    middles = (squares * coarse + 0.5 * (coarse - 1))[:, ::-1] * [1, -1]
    places = found.cells[:, ::-1] * [1, -1]
    width = np.ptp(found.positions, axis=0) / np.ptp(places, axis=0)
    positions = found.positions[0] + (middles - places[0]) * width
    return Year(abundance / abundance.sum(axis=1, keepdims=True), positions)


def weeks_seen(n_weeks: int, gap: int) -> NDArray[np.bool_]:
    """Every (gap + 1)-th week, and the last.

    Examples
    --------
    >>> weeks_seen(7, 3).tolist()
    [True, False, False, False, True, False, True]
    """
    seen = np.arange(n_weeks) % (gap + 1) == 0
    seen[-1] = True
    return seen


def fit_year(year: Year, seen: NDArray[np.bool_], max_iter: int) -> CollectiveChain:
    """The collective model of a year of which some weeks were seen."""
    import warnings

    from intarsia.exceptions import ConvergenceWarning

    n_weeks = len(year.shares)
    counts = np.where(seen[:, None], _RATE * _WALKERS * year.shares, np.nan)
    model = CollectiveChain(
        moves_within(year.positions, _RADIUS, _FEATURES), noise=PoissonNoise(_RATE), n_walkers=_WALKERS,
        seasons=np.arange(n_weeks - 1) // _SEASON, max_iter=max_iter, tol=1e-4, inference=FlowDual(tol=1e-5),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the number of iterations is a setting of the experiment
        return model.fit(counts)


def total_variation(p: FloatArray, q: FloatArray) -> FloatArray:
    """Share of the birds that would have to move, by week.

    Examples
    --------
    >>> total_variation(np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]]))
    array([0.5])
    """
    return 0.5 * np.abs(p - q).sum(axis=1)


# ---------------------------------------------------------------- ways to fill a week


def _by_model(max_iter: int, year: Year, seen: NDArray[np.bool_]) -> FloatArray:
    return fit_year(year, seen, max_iter).predict_marginals()


def _by_interpolation(year: Year, seen: NDArray[np.bool_]) -> FloatArray:
    weeks, known = np.arange(len(seen)), np.flatnonzero(seen)
    return np.stack([np.interp(weeks, known, cell) for cell in year.shares[seen].T], axis=1)


def _by_nearest(year: Year, seen: NDArray[np.bool_]) -> FloatArray:
    known = np.flatnonzero(seen)
    nearest = np.abs(np.arange(len(seen))[:, None] - known).argmin(axis=1)
    return year.shares[known[nearest]]


def _by_mean(year: Year, seen: NDArray[np.bool_]) -> FloatArray:
    return np.broadcast_to(year.shares[seen].mean(axis=0), year.shares.shape)


# ---------------------------------------------------------------- tasks and pictures


def _held_out(way: Callable[[Year, NDArray[np.bool_]], FloatArray], year: Callable[[], Year], _: Path) -> Finding:
    here = year()
    values, arrays, n = {}, {}, 0
    for name, gap in _GAPS.items():
        seen = weeks_seen(len(here.shares), gap)
        errors = total_variation(way(here, seen), here.shares)
        values[name] = float(errors[~seen].mean())
        arrays[f"gap_{gap}"] = np.where(seen, np.nan, errors)
        n += int((~seen).sum())
    settings = {"walkers": _WALKERS, "rate": _RATE, "radius": _RADIUS, "season": _SEASON}
    return Finding(values, n, arrays, settings)


def _flows(year: Callable[[], Year], _: Path) -> Finding:
    here = year()
    model = fit_year(here, np.ones(len(here.shares), dtype=bool), 30)
    marginals = model.predict_marginals()
    arrays: dict[str, Any] = {"walkers": model.predict()[list(_SHOWN)].astype(np.float32)}
    for week in _SHOWN:
        flows = sparse.coo_array(model.flows(week))
        keep = flows.data > 1e-3  # birds; less is not seen on a map
        arrays[f"flow_{week}"] = np.stack([flows.row[keep], flows.col[keep], flows.data[keep]]).astype(np.float32)
    settings = {"status": model.status_.name, "n_iter": model.n_iter_, "features": list(_FEATURES)}
    return Finding({"misfit": float(total_variation(marginals, here.shares).mean())}, len(marginals), arrays, settings)


def _figures(found: dict[str, Finding], year: Callable[[], Year]) -> dict[str, Figure]:
    from intarsia.report.flow_maps import plot_flow_maps

    made = {}
    kept = found.get("flows")
    if kept is not None and kept.arrays:
        at = year().positions
        flows = []
        for week in _SHOWN:
            row, column, birds_on_move = kept.arrays[f"flow_{week}"]
            places = (row.astype(int), column.astype(int))
            flows.append(sparse.coo_array((birds_on_move.astype(float), places), shape=(len(at), len(at))))
        titles = [f"week {week + 1} to {week + 2}" for week in _SHOWN]
        made["birds-flows"] = plot_flow_maps(
            list(kept.arrays["walkers"].astype(float)), at, flows, titles=titles, n_columns=3
        )
    return made
