"""Infer the flows of a crowd between the cells of a map from noisy counts alone.

A crowd crosses a map of 12 x 8 cells from the left to the upper right. Each week the people in each cell are counted,
with errors; in one week nobody counts. Individuals are not tracked. The flows that agree with the counts and with a
model of short moves are inferred (a collective graphical model). See docs/guide/collective.md.

    python examples/follow_walkers.py [picture.png]
"""

from __future__ import annotations

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from intarsia.collective import infer_flows
from intarsia.report import plot_flow_maps

WEEKS, WIDTH, HEIGHT = 5, 12, 8


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

    figure = plot_flow_maps(
        [result.walkers[t] for t in range(WEEKS - 1)],
        cells,
        [result.flows(t) for t in range(WEEKS - 1)],
        titles=[f"week {t + 1}" + (", not counted" if t == 2 else "") for t in range(WEEKS - 1)],
        n_columns=2,
        max_arrows=30,
    )
    figure.savefig(picture, dpi=110)
    plt.close(figure)
    error = float(np.abs(result.walkers[2] - crowd[2]).sum() / (2 * 2000))
    print(f"{error:.0%} of the walkers are in the wrong cell in the week without counts; see {picture}")
    return error


if __name__ == "__main__":
    main(*sys.argv[1:2])
