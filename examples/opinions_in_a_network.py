"""Compare four approximate inference methods with exact marginals on a social network with two observed opinions.

An edge list and a score for friends who agree define a graph of 34 variables with many loops. Exact marginals are
still affordable here, so each approximation is compared with them. Mean field and tree-reweighted message passing
bound log Z from below and above; where no exact answer is affordable, their gap measures the difficulty of the model.
See docs/start/your_own_graph.md and docs/choosing.md.

    python examples/opinions_in_a_network.py [picture.png]
"""

from __future__ import annotations

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import intarsia
from intarsia.datasets import load_karate_club

COLOURS = {"tree_reweighted": "#4b8b4f", "belief_propagation": "#c4622d", "mean_field": "#3b6fb6", "gibbs": "#8058a5"}


def main(picture: str = "opinions.png") -> float:
    club = load_karate_club()
    graph = intarsia.from_edges([2] * 34, club.edges)
    theta = graph.pack(variables=np.zeros((34, 2)), tables=[0.35 * np.eye(2)] * graph.n_factors)
    evidence = {0: 0, 33: 1}  # the instructor says no, the president yes

    exact = intarsia.infer(graph, theta, "junction_tree", evidence=evidence)
    truth = np.array([exact.marginals(v)[1] for v in range(34)])
    order = [v for v in np.argsort(truth) if v not in evidence]
    figure, axes = plt.subplots(figsize=(8, 3.4), layout="constrained")
    axes.plot(truth[order], color="black", linewidth=1.5, label=f"exact, log Z = {exact.log_partition:.2f}")
    errors = {}
    for name, colour in COLOURS.items():
        result = intarsia.infer(graph, theta, name, evidence=evidence, random_state=0)
        beliefs = np.array([result.marginals(v)[1] for v in range(34)])
        errors[name] = float(np.abs(beliefs - truth).mean())
        log_partition = (
            "" if result.log_partition is None else f", log Z {result.log_partition:.2f} ({result.log_partition_is})"
        )
        axes.plot(beliefs[order], ".", color=colour, label=f"{name}{log_partition}")
    axes.set(xlabel="other members, sorted by the exact marginal", ylabel="probability of yes", ylim=(0.2, 0.9))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="upper left")
    figure.savefig(picture, dpi=110)
    plt.close(figure)
    print(", ".join(f"{name}: mean error {error:.3f}" for name, error in errors.items()), f"; see {picture}")
    return errors["tree_reweighted"]


if __name__ == "__main__":
    main(*sys.argv[1:2])
