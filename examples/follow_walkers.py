"""Infer the flows of a crowd between the cells of a map from noisy counts alone, and sample routes.

A crowd crosses a map of 12 x 8 cells from the left to the upper right. Each week the people in each cell are counted,
with errors; in one week nobody counts. Individuals are not tracked. The flows that agree with the counts and with a
model of short moves are inferred (a collective graphical model). Given the counts, each walker is a Markov chain with
these flows, so that routes can be sampled, also those that pass given places. See docs/guide/collective.md.

    python examples/follow_walkers.py [picture.png]
"""

from __future__ import annotations

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse

from intarsia.collective import infer_flows

WEEKS, WIDTH, HEIGHT = 5, 12, 8


def sample_routes(result, n: int, through: dict[int, list[int]], rng: np.random.Generator) -> np.ndarray:
    """Sample n routes; `through` maps a week to the cells of which the route must pass one."""
    weeks, n_cells = result.walkers.shape
    flows = [sparse.csr_array(result.flows(t)).toarray() for t in range(weeks - 1)]
    allowed = [np.isin(np.arange(n_cells), through.get(t, range(n_cells))) for t in range(weeks)]
    # Backward: the probability that a walker in a cell passes all later places.
    ahead = [allowed[-1] * 1.0]
    for t in range(weeks - 2, -1, -1):
        moves = flows[t] / np.maximum(flows[t].sum(axis=1, keepdims=True), 1e-300)
        ahead.insert(0, allowed[t] * (moves @ ahead[0]))
    start = result.walkers[0] * ahead[0]
    routes = [rng.choice(n_cells, size=n, p=start / start.sum())]
    for t in range(weeks - 1):
        weights = np.cumsum(flows[t] * ahead[t + 1], axis=1)[routes[-1]]
        routes.append((weights <= weights[:, -1:] * rng.random((n, 1))).sum(axis=1))
    return np.stack(routes, axis=1)


def main(picture: str = "walkers.png") -> float:
    rng = np.random.default_rng(0)
    cells = np.array([(x, y) for y in range(HEIGHT) for x in range(WIDTH)], dtype=float)
    centres = np.linspace([1.5, 1.5], [9.5, 5.5], WEEKS)
    crowd = np.exp(-0.5 * ((cells - centres[:, None]) ** 2).sum(axis=2) / 1.5)
    crowd *= 2000 / crowd.sum(axis=1, keepdims=True)
    counts = rng.poisson(crowd).astype(float)
    counts[2] = np.nan  # not counted in this week

    distance = np.linalg.norm(cells[:, None] - cells, axis=2)
    # Short moves are more probable, and moves over more than 4.5 cells are impossible.
    moves = np.where(distance <= 4.5, -(distance**2) / 8, -np.inf)
    result = infer_flows(moves, counts, n_walkers=2000, noise="poisson", model_weight=0.05)

    figure, axes = plt.subplots(2, 3, figsize=(11, 5), sharex=True, sharey=True, layout="constrained")
    for t, week in enumerate(axes.flat[:WEEKS]):
        week.imshow(result.walkers[t].reshape(HEIGHT, WIDTH), origin="lower", cmap="Blues", vmax=result.walkers.max())
        week.set_title(f"week {t + 1}" + (", not counted" if t == 2 else ""), loc="left", fontsize=10)
        if t < WEEKS - 1:
            flow = sparse.csr_array(result.flows(t)).toarray()
            leaving = flow.sum(axis=1)
            busy = np.argsort(-leaving)[:25]
            mean_move = flow[busy] @ cells / leaving[busy, None] - cells[busy]
            week.quiver(*cells[busy].T, *mean_move.T, angles="xy", scale_units="xy", scale=1, color="#e8590c")
    corner = [k for k, (x, y) in enumerate(cells) if x >= 10 and y >= 6]
    for through, colour, label in (({}, "0.7", "any"), ({4: corner}, "#3b6fb6", "to the corner")):
        routes = cells[sample_routes(result, 40, through, rng)] + rng.normal(0.0, 0.1, (40, WEEKS, 2))
        lines = axes[1, 2].plot(*routes.T, color=colour, alpha=0.5, linewidth=0.8)
        lines[0].set_label(label)
    axes[1, 2].set_title("sampled routes", loc="left", fontsize=10)
    axes[1, 2].legend(loc="upper left", fontsize=8)
    axes[1, 2].set_aspect("equal")
    figure.savefig(picture, dpi=110)
    plt.close(figure)
    error = float(np.abs(result.walkers[2] - crowd[2]).sum() / (2 * 2000))
    print(f"{error:.0%} of the walkers are in the wrong cell in the week without counts; see {picture}")
    return error


if __name__ == "__main__":
    main(*sys.argv[1:2])
