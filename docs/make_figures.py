"""Make the figures of the pages with the library: `python docs/make_figures.py [NAME ...]` (a few minutes).

The figures are committed, so that building the site needs no computation. Run this script again after a change that
affects them; with names as arguments, only these figures are made.
"""

from __future__ import annotations

import os
import re
import sys
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
LINES = list(COLOURS.values())


def save(figure: plt.Figure, name: str) -> None:
    """Save a figure in the folder of images and close it."""
    figure.savefig(IMAGES / name, dpi=110, facecolor="white", pil_kwargs={"optimize": True})
    plt.close(figure)


def coupling() -> None:
    """Plot the errors of log Z and of marginals against the coupling strength, averaged over several grids."""
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
    """Show the marginals of one noisy image under several inference methods."""
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
    """Plot the residual per sweep on a strongly coupled grid."""
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


def small_photographs() -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """Return the data of `guide/grid_crf.md`: one photograph for training, another for testing."""
    from sklearn.datasets import load_sample_images

    from intarsia.datasets import noisy_inputs

    def binary(photograph: np.ndarray) -> np.ndarray:
        grey = photograph.mean(axis=2)[:416, :640].reshape(52, 8, 80, 8).mean(axis=(1, 3))
        return (grey > grey.mean()).astype(int)

    china, flower = map(binary, load_sample_images().images)
    y_train = [china[r : r + 26, c : c + 40] for r in (0, 26) for c in (0, 40)]
    y_test = [flower]
    X_train, X_test = (
        [np.stack([np.ones_like(noisy), noisy], axis=-1) for noisy in noisy_inputs(y, n=1.25, random_state=seed)]
        for seed, y in enumerate((y_train, y_test))
    )
    return X_train, y_train, X_test, y_test


def fit_small(loss: str, **settings: object) -> intarsia.GridCRF:
    """Fit a GridCRF to the training photograph with a loss."""
    X, y, _, _ = small_photographs()
    return intarsia.GridCRF(learner=intarsia.RiskMinimizer(loss=loss, **settings)).fit(X, y)


def show(panels: list[tuple[str, np.ndarray]], columns: int, name: str) -> None:
    """Show images side by side, each with a title."""
    rows = -(-len(panels) // columns)
    figure, grid = plt.subplots(rows, columns, figsize=(9, 9 / columns * 0.8 * rows), layout="constrained")
    for axes in grid.flat:
        axes.axis("off")
    for axes, (title, picture) in zip(grid.flat, panels, strict=False):
        axes.imshow(picture, cmap="cividis", vmin=0, vmax=1, interpolation="nearest")
        axes.set_title(title, fontsize=9)
    save(figure, name)


def grid_crf() -> None:
    """Show the steps of `guide/grid_crf.md`: truth, input, independent pixels, marginals and labels."""
    _, _, X, y = small_photographs()
    independent = fit_small("univariate_logistic", gradient=intarsia.gradients.TruncatedGradient(n_iter=0))
    crf = fit_small("clique_logistic")
    show(
        [
            ("truth", y[0]),
            ("input", X[0][..., 1]),
            (f"each pixel alone\nerror {1 - independent.score(X, y):.3f}", independent.predict(X)[0]),
            ("probability of white", crf.predict_marginals(X)[0][..., 1]),
            (f"labels\nerror {1 - crf.score(X, y):.3f}", crf.predict(X)[0]),
        ],
        5,
        "grid_crf.png",
    )


def losses() -> None:
    """Show the marginals of the test image after fitting with several losses."""
    _, _, X, y = small_photographs()
    panels = [("truth", y[0]), ("input", X[0][..., 1])]
    for loss in (
        "clique_logistic",
        "univariate_logistic",
        "univariate_quadratic",
        "likelihood",
        "pseudo_likelihood",
        "piecewise_likelihood",
    ):
        crf = fit_small(loss)
        panels.append((f"{loss}\nerror {1 - crf.score(X, y):.3f}", crf.predict_marginals(X)[0][..., 1]))
    show(panels, 4, "losses.png")


def fitting() -> None:
    """Plot the risk against time for four optimisers."""
    X, y, _, _ = small_photographs()
    X, y = ([half for array in arrays for half in (array[:, :20], array[:, 20:])] for arrays in (X, y))
    figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
    for colour, (label, settings) in zip(
        LINES,
        {
            "L-BFGS": {},
            "L-BFGS, incremental": {"schedule": intarsia.learning.Incremental(n_start=2, max_iter=40)},
            "Adam, batches of 2": {"optimizer": intarsia.learning.Adam(step_size=0.05, batch_size=2, max_iter=20)},
            "SGD, batches of 2": {"optimizer": intarsia.learning.SGD(step_size=0.05, batch_size=2, max_iter=20)},
        }.items(),
        strict=True,
    ):
        learner = intarsia.RiskMinimizer(l2=1e-3 * sum(labels.size for labels in y), **settings)
        history = intarsia.GridCRF(learner=learner).fit(X, y).history_
        axes.plot(history["seconds"], history["risk"], color=colour, label=label)
    axes.set(xlabel="seconds", ylabel="risk", xlim=(0, None))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="upper right")
    save(figure, "fitting.png")


def image_features() -> None:
    """Show a photograph, the strength of its edges in two directions, and features of pairs of pixels."""
    from sklearn.datasets import load_sample_image

    from intarsia.models import edge_features, histogram_of_gradients

    photograph = load_sample_image("china.jpg")[60:360:3, 200:500:3] / 255.0
    histogram = histogram_of_gradients(photograph).reshape(100, 100, 4, 9).mean(axis=2)
    pairs = edge_features(photograph, by_direction=False)[: 100 * 99].reshape(100, 99, 21)
    figure, grid = plt.subplots(1, 4, figsize=(9, 2.5), layout="constrained")
    for axes, (title, picture) in zip(
        grid,
        [
            ("photograph", photograph),
            ("histogram: change along rows", histogram[..., 0]),
            ("histogram: change along columns", histogram[..., 4:6].sum(axis=2)),
            ("pairs side by side:\nthresholds that they exceed", pairs[..., 1:11].sum(axis=2)),
        ],
        strict=True,
    ):
        axes.imshow(picture, cmap="cividis")
        axes.set_title(title, fontsize=9)
        axes.axis("off")
    save(figure, "image_features.png")


def diagnose() -> None:
    """Plot the diagnosis of a learner and an inference method that are not compatible."""
    from intarsia.datasets.counterexamples import diamond_examples
    from intarsia.report import plot_diagnosis

    diagnosis = intarsia.diagnostics.diagnose_examples(
        diamond_examples(), inference=intarsia.BeliefPropagation(schedule="parallel"), n_passes=10
    )
    save(plot_diagnosis(diagnosis), "diagnose.png")


def energies() -> None:
    """Plot the expected number of titles against the weight psi of an energy, and the marginals of one chain."""
    from intarsia.energies import Hinge, MeasuredEnergy, SegmentStarts, SmoothedHinge, Squared

    names = ["O", "B-title", "I-title"]
    graph = intarsia.chain_graph(8, 3, shared=True)
    unary = np.zeros((8, 3))
    unary[:, 1] = [-2.0, 1.2, -1.5, -1.8, 0.4, -1.0, 0.1, -2.0]
    unary[:, 2] = -0.5
    table = np.zeros((3, 3))
    table[0, 2] = -5.0
    theta = graph.pack(unary, table)

    def starts(judgement: object, psi: float) -> np.ndarray:
        energy = MeasuredEnergy(SegmentStarts("title"), judgement, psi=psi)  # type: ignore[arg-type]
        result = intarsia.infer(graph, theta, "bethe_dual", energy=energy, names=names)
        return np.array([result.marginals(v)[1] for v in range(8)])

    weights = np.linspace(0.0, 6.0, 25)
    judgements = {"hinge": Hinge(1.0), "smoothed hinge": SmoothedHinge(1.0), "squared": Squared(1.0)}
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    left.axhline(1.0, color="black", linewidth=1)
    for colour, (label, judgement) in zip(LINES, judgements.items(), strict=False):
        left.plot(weights, [starts(judgement, psi).sum() for psi in weights], color=colour, label=label)
    left.set(xlabel="weight psi", ylabel="expected number of titles")
    left.legend(frameon=False)
    positions = np.arange(8)
    right.bar(positions - 0.2, starts(judgements["hinge"], 0.0), 0.4, color=LINES[0], label="without")
    right.bar(positions + 0.2, starts(judgements["hinge"], 6.0), 0.4, color=LINES[1], label="at most one, psi = 6")
    right.set(xlabel="word", ylabel="probability that a title starts", ylim=(0, 1), xticks=positions)
    right.legend(frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    save(figure, "energies.png")


def confidence() -> None:
    """Run the pages on confidence and explanations, which save their figures."""
    for name in ("confidence.md", "explain_tags.md"):
        run_page(name)


def review_entities() -> None:
    """Run the page on the review of entities up to its figure."""
    run_page("review_entities.md", 3)


def run_page(name: str, n_blocks: int | None = None) -> None:
    """Run the first blocks of a page of the guide in the folder of images."""
    os.chdir(IMAGES)
    namespace: dict[str, object] = {"__name__": "page"}
    text = (IMAGES.parent / "guide" / name).read_text(encoding="utf-8")
    for block in re.findall(r"^```python\n(.*?)^```", text, flags=re.M | re.S)[:n_blocks]:
        exec(block, namespace)


FIGURES = (
    coupling,
    denoising,
    convergence,
    grid_crf,
    losses,
    fitting,
    image_features,
    diagnose,
    energies,
    confidence,
    review_entities,
)

if __name__ == "__main__":
    warnings.simplefilter("ignore", ConvergenceWarning)  # the figures also show methods that do not converge
    IMAGES.mkdir(exist_ok=True)
    for figure in FIGURES:
        if len(sys.argv) == 1 or figure.__name__ in sys.argv[1:]:
            figure()
