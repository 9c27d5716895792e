"""A perceptron that an approximate inference leads away from the right weights, for ever.

Four nodes that want to agree, and two weights. With relaxed inference the perceptron finds weights that label both
examples rightly. Parallel max-product belief propagation hears two of the nodes too loudly, which turns both answers
around: the weights that would be right for it lie on the other side, and each step leads away from them. `diagnose`
says so before you train. See docs/which_learner.md.

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

WAYS = {"lp_relaxation": "#4b8b4f", "belief_propagation": "#c4622d"}


def all_right(data: list, method: str | BeliefPropagation, angle: float) -> bool:
    """Whether weights in this direction give every node of every example its label."""
    weights = np.array([np.cos(angle), np.sin(angle)])
    found = (intarsia.infer(diamond_graph(), one.scores.theta(weights), method, task="map") for one in data)
    return all((result.assignment == one.labels.y).all() for result, one in zip(found, data, strict=True))


def main(picture: str = "astray.png") -> float:
    data, wrong = diamond_examples(), {}
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
    warnings.simplefilter("ignore", CompatibilityWarning)  # that it is known to fail is the point
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name, colour in WAYS.items():
        inference = BeliefPropagation(schedule="parallel") if name == "belief_propagation" else name
        found = StructuredPerceptron(max_iter=10, average=False).minimize(data, inference)
        errors = np.array(found.history["risk"])
        left.plot(errors, ".-", color=colour, label=name)
        wrong[name] = errors[-1]
        for angle in np.arange(0.5, 1.0, 1 / 180) * np.pi + (0.0 if name == "lp_relaxation" else np.pi):
            if all_right(data, inference, angle):
                right.plot([0, 2 * np.cos(angle)], [0, 2 * np.sin(angle)], color=colour, linewidth=2, alpha=0.4)
    path = np.array(found.history["path"])  # of belief propagation
    right.plot(*path.T, ".-", color=WAYS["belief_propagation"], label="the perceptron with belief_propagation")
    right.text(-1.2, 1.5, "all right by lp_relaxation", fontsize=8)
    right.text(1.2, -1.5, "all right by belief_propagation", fontsize=8, ha="right")
    left.set(xlabel="pass", ylabel="share of wrong labels", ylim=(-0.05, 1.05))
    right.set(xlabel="first weight", ylabel="second weight", xlim=(-2.2, 2.2), ylim=(-2.2, 2.8))
    for axes in (left, right):
        axes.legend(frameon=False, fontsize=8)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(picture, dpi=110)
    plt.close(figure)
    verdict = intarsia.diagnostics.diagnose_examples(data, inference=BeliefPropagation(schedule="parallel")).verdict
    print(f"wrong at the end: {wrong}; diagnose says: {verdict}; see {picture}")
    return float(wrong["belief_propagation"] - wrong["lp_relaxation"])


if __name__ == "__main__":
    main(*sys.argv[1:2])
