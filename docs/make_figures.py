"""Pictures of the pages, made by the library itself: `python docs/make_figures.py` (about a minute).

They are committed, so that building the site needs no computation; run this again after a change that moves them.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import intarsia
from intarsia.exceptions import ConvergenceWarning

IMAGES = Path(__file__).parent / "images"
COLOURS = {
    "mean_field": "#3b6fb6",
    "belief_propagation": "#c4622d",
    "tree_reweighted": "#4b8b4f",
    "gibbs": "#8058a5",
}


def save(figure: plt.Figure, name: str) -> None:
    figure.savefig(IMAGES / name, dpi=110, facecolor="white", pil_kwargs={"optimize": True})
    plt.close(figure)


def coupling() -> None:
    """Error of log Z and of marginals against coupling strength, mean over several grids."""
    graph = intarsia.grid_graph(10, 10, 2)
    n = int(graph.variable_ptr[-1])
    strengths = np.linspace(0, 2.4, 13)
    names = ("tree_reweighted", "belief_propagation", "mean_field")
    gap = {name: np.zeros((len(strengths), 5)) for name in names}
    error = {name: np.zeros((len(strengths), 5)) for name in names}
    for seed in range(5):
        rng = np.random.default_rng(seed)
        unary = rng.uniform(-0.5, 0.5, (100, 1)) * [-1, 1]
        signs = rng.standard_normal((graph.n_factors, 1, 1)) * np.array([[1, -1], [-1, 1]]) / 2
        for k, strength in enumerate(strengths):
            theta = graph.pack(unary, strength * signs)
            exact = intarsia.infer(graph, theta, "junction_tree")
            for name in names:
                settings = {} if name == "mean_field" else {"damping": 0.3}
                result = intarsia.infer(graph, theta, name, max_iter=2000, **settings)
                gap[name][k, seed] = result.log_partition - exact.log_partition
                error[name][k, seed] = np.abs(result.mu[:n] - exact.mu[:n]).mean()
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    left.axhline(0, color="black", linewidth=1)
    for name in names:
        left.plot(strengths, gap[name].mean(axis=1), color=COLOURS[name], label=name)
        right.plot(strengths, error[name].mean(axis=1), color=COLOURS[name], label=name)
    left.set(xlabel="coupling strength", ylabel="log Z minus exact log Z")
    right.set(xlabel="coupling strength", ylabel="mean error of marginals", ylim=(0, None))
    left.legend(frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    save(figure, "coupling.png")


def denoising() -> None:
    """Marginals of one noisy picture under several methods."""
    height, width = 16, 24
    rows, columns = np.mgrid[:height, :width]
    clean = ((rows - 7.5) ** 2 / 36 + (columns - 8) ** 2 / 36 < 1) | ((columns > 15) & (rows > 3) & (rows < 13))
    noisy = clean + np.random.default_rng(3).normal(0, 0.9, clean.shape)
    graph = intarsia.grid_graph(height, width, 2, shared=True, kind="potts")
    evidence = (noisy - 0.5) / 0.81
    theta = graph.pack(np.stack([np.zeros_like(evidence), evidence], axis=-1), [1.0, 1.0])
    panels = [("clean", clean), ("noisy", noisy)]
    exact = None
    for name in ("junction_tree", "tree_reweighted", "belief_propagation", "mean_field", "gibbs"):
        result = intarsia.infer(graph, theta, name, random_state=0)
        belief = result.mu[: graph.variable_ptr[-1]].reshape(height, width, 2)[..., 1]
        exact = belief if exact is None else exact
        title = "exact" if name == "junction_tree" else f"{name}\nmean error {np.abs(belief - exact).mean():.3f}"
        panels.append((title, belief))
    figure, grid = plt.subplots(2, 4, figsize=(9, 3.6), layout="constrained")
    for axes, (title, picture) in zip(grid.flat, panels, strict=False):
        shown = axes.imshow(picture, cmap="cividis", vmin=0, vmax=1)
        axes.set_title(title, fontsize=9)
        axes.set(xticks=[], yticks=[])
    grid.flat[-1].axis("off")
    scale = grid.flat[-1].inset_axes([0.05, 0.1, 0.06, 0.8])
    figure.colorbar(shown, cax=scale, label="probability of label 1")
    save(figure, "denoising.png")


def convergence() -> None:
    """Residual per sweep on a strongly coupled grid."""
    graph = intarsia.grid_graph(30, 30, 2)
    rng = np.random.default_rng(0)
    signs = rng.standard_normal((graph.n_factors, 1, 1)) * np.array([[1, -1], [-1, 1]])
    theta = graph.pack(rng.uniform(-0.5, 0.5, (900, 1)) * [-1, 1], 0.8 * signs)
    figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
    for name, damping, style in (
        ("belief_propagation", 0.0, "-"),
        ("belief_propagation", 0.3, "--"),
        ("tree_reweighted", 0.0, "-"),
        ("tree_reweighted", 0.3, "--"),
    ):
        result = intarsia.infer(graph, theta, name, max_iter=300, damping=damping)
        label = name + (f", damping={damping}" if damping else "")
        axes.semilogy(result.history["residual"], style, color=COLOURS[name], label=label)
    axes.set(xlabel="sweep", ylabel="residual", xlim=(0, 300))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="center right", bbox_to_anchor=(1.0, 0.7))
    save(figure, "convergence.png")


if __name__ == "__main__":
    warnings.simplefilter("ignore", ConvergenceWarning)  # that some do not converge is what the pictures show
    IMAGES.mkdir(exist_ok=True)
    coupling()
    denoising()
    convergence()
