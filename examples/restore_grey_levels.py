"""Restore a photograph with 16 grey levels by dual decomposition, with a bound on the optimality gap.

Neighbouring pixels prefer similar levels, but large jumps at edges cost no more than a limit: a truncated linear score,
which needs one number instead of a table. Dual decomposition finds a labelling and an upper bound on the score of all
labellings. See docs/guide/dual_decomposition.md.

    python examples/restore_grey_levels.py [picture.png]
"""

from __future__ import annotations

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

import intarsia

LEVELS = 16


def main(picture: str = "grey_levels.png") -> float:
    grey = load_sample_image("china.jpg").mean(axis=2)[40:360, 160:640].reshape(64, 5, 96, 5).mean(axis=(1, 3))
    clean = np.clip(grey / 256 * LEVELS, 0, LEVELS - 1).astype(int)
    rng = np.random.default_rng(0)
    noisy = np.clip(clean + rng.normal(0, 2.0, clean.shape).round(), 0, LEVELS - 1)

    graph = intarsia.grid_graph(*clean.shape, LEVELS, kind="truncated_linear", truncation=4, shared=True)
    log_likelihood = -((np.arange(LEVELS) - noisy[..., None]) ** 2) / (2 * 2.0**2)  # Gaussian noise
    theta = graph.pack(variables=log_likelihood, tables=[0.3, 0.3])
    result = intarsia.infer(graph, theta, "dual_decomposition", task="map")
    restored = result.assignment.reshape(clean.shape)
    gap = (result.upper_bound - result.score) / abs(result.score)

    figure, grid = plt.subplots(1, 4, figsize=(11, 2.4), layout="constrained", width_ratios=[1, 1, 1, 1.2])
    errors = {name: np.abs(levels - clean).mean() for name, levels in (("noisy", noisy), ("restored", restored))}
    for axes, (title, levels) in zip(
        grid, {"truth": clean, "noisy": noisy, "restored": restored}.items(), strict=False
    ):
        axes.imshow(levels, cmap="gray", vmin=0, vmax=LEVELS - 1)
        axes.set_title(title + (f"\nmean error {errors[title]:.2f}" if title in errors else "\n"), fontsize=9)
        axes.set_axis_off()
    for name, colour in (("upper_bound", "#c4622d"), ("lower_bound", "#3b6fb6")):
        grid[3].plot(result.history[name], color=colour, label=name)
    grid[3].set(xlabel="sweep", ylabel="score", ylim=(1.02 * result.score, 0.98 * result.upper_bound))
    grid[3].set_title(f"{result.status.name}\n", fontsize=9)
    grid[3].legend(frameon=False, fontsize=8)
    grid[3].spines[["top", "right"]].set_visible(False)
    figure.savefig(picture, dpi=110)
    plt.close(figure)
    print(f"mean error {errors['restored']:.2f} levels, noisy {errors['noisy']:.2f}; gap {gap:.2%}; see {picture}")
    return float(errors["restored"] / errors["noisy"])


if __name__ == "__main__":
    main(*sys.argv[1:2])
