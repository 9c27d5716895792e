"""Show a structured perceptron that approximate inference leads away from the correct weights.

The graph has four nodes with a strong preference for equal labels, and two weights. With LP-relaxed inference the
perceptron finds weights that label both examples correctly. Parallel max-product belief propagation overcounts two of
the nodes, which flips both answers. The weights that would be correct for it lie on the other side, and every step
leads away from them. `diagnose` detects this before you train. See docs/which_learner.md.

    python examples/led_astray.py [picture.png]
"""

from __future__ import annotations

import sys
import warnings

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import intarsia
from intarsia import BeliefPropagation, StructuredPerceptron
from intarsia.datasets.counterexamples import diamond_examples, diamond_graph
from intarsia.exceptions import CompatibilityWarning, ConvergenceWarning

COLOURS = {"lp_relaxation": "#4b8b4f", "belief_propagation": "#c4622d"}


def all_correct(data: list, method: str | BeliefPropagation, angle: float) -> bool:
    """Return whether weights in this direction give every node of every example its label."""
    weights = np.array([np.cos(angle), np.sin(angle)])
    results = (intarsia.infer(diamond_graph(), item.scores.theta(weights), method, task="map") for item in data)
    return all((result.assignment == item.labels.y).all() for result, item in zip(results, data, strict=True))


def main(picture: str = "astray.png") -> float:
    data, wrong = diamond_examples(), {}
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
    warnings.simplefilter("ignore", CompatibilityWarning)  # the failure is the point of this example
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name, colour in COLOURS.items():
        inference = BeliefPropagation(schedule="parallel") if name == "belief_propagation" else name
        minimum = StructuredPerceptron(max_iter=10, average=False).minimize(data, inference)
        errors = np.array(minimum.history["risk"])
        left.plot(errors, ".-", color=colour, label=name)
        wrong[name] = float(errors[-1])
        for angle in np.arange(0.5, 1.0, 1 / 180) * np.pi + (0.0 if name == "lp_relaxation" else np.pi):
            if all_correct(data, inference, angle):
                right.plot([0, 2 * np.cos(angle)], [0, 2 * np.sin(angle)], color=colour, linewidth=2, alpha=0.4)
    path = np.array(minimum.history["path"])  # of belief propagation
    right.plot(*path.T, ".-", color=COLOURS["belief_propagation"], label="perceptron with belief_propagation")
    right.text(-1.2, 1.5, "correct for lp_relaxation", fontsize=8)
    right.text(1.2, -1.5, "correct for belief_propagation", fontsize=8, ha="right")
    left.set(xlabel="pass", ylabel="fraction of wrong labels", ylim=(-0.05, 1.05))
    right.set(xlabel="first weight", ylabel="second weight", xlim=(-2.2, 2.2), ylim=(-2.2, 2.8))
    for axes in (left, right):
        axes.legend(frameon=False, fontsize=8)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(picture, dpi=110)
    plt.close(figure)
    verdict = intarsia.diagnostics.diagnose_examples(data, inference=BeliefPropagation(schedule="parallel")).verdict
    print(f"fraction of wrong labels at the end: {wrong}; verdict of diagnose: {verdict}; see {picture}")
    return wrong["belief_propagation"] - wrong["lp_relaxation"]


if __name__ == "__main__":
    main(*sys.argv[1:2])
