"""Infer which side each member of a karate club takes in a quarrel, with two soft logic rules.

The members of the club quarrelled over its instructor and its president; only the sides of these two leaders are
observed. Friends tend to be on the same side, and everyone is on one side in total: two rules, 34 people, 78
friendships. The inferred value in [0, 1] of a side is its strength. See docs/start/rules.md and docs/guide/rules.md.

    python examples/take_sides.py [picture.png]
"""

from __future__ import annotations

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from intarsia import Program, SoftLogic
from intarsia.datasets import load_karate_club

SIDES = ("instructor", "president")


def layout(edges: np.ndarray, n: int) -> np.ndarray:
    """Return positions with friends near each other: two eigenvectors of the Laplacian, spread out by their ranks."""
    adjacency = np.zeros((n, n))
    adjacency[tuple(edges.T)] = adjacency[tuple(edges.T[::-1])] = 1
    degree = adjacency.sum(axis=1)
    vectors = np.linalg.eigh(np.eye(n) - adjacency / np.sqrt(np.outer(degree, degree)))[1][:, 1:3]
    return 0.8 * vectors.argsort(axis=0).argsort(axis=0) / n + 0.2 * (vectors - vectors.min(0)) / np.ptp(
        vectors, axis=0
    )


def main(picture: str = "sides.png") -> float:
    club = load_karate_club()
    leaders = {0: "instructor", 33: "president"}
    others = [member for member in range(34) if member not in leaders]
    program = (
        Program()
        .predicate("Friends", 2)
        .predicate("Side", 2)
        .rule("1: Friends(A, B) & Side(A, S) -> Side(B, S) ^2")
        .rule("Side(A, +S) = 1 .")
        .observe("Friends", [*club.edges, *club.edges[:, ::-1]])
        .observe(
            "Side", [(who, side, float(side == their_side)) for who, their_side in leaders.items() for side in SIDES]
        )
        .target("Side", [(member, side) for member in others for side in SIDES])
    )
    inferred = SoftLogic(program).infer()
    values = np.array([inferred.value("Side", member, "president") for member in others])
    accuracy = float(np.mean((values > 0.5) == club.faction[others]))

    positions = layout(club.edges, 34)
    figure, axes = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
    for a, b in club.edges:
        axes.plot(*positions[[a, b]].T, color="#bbbbbb", linewidth=0.8, zorder=1)
    for side, marker in enumerate("os"):
        members = np.flatnonzero(club.faction[others] == side)
        points = axes.scatter(
            *positions[np.array(others)[members]].T,
            c=values[members], cmap="coolwarm", vmin=0, vmax=1, s=110, marker=marker, edgecolors="#333333", zorder=2,
            label=f"went with the {SIDES[side]}",
        )  # fmt: skip
    for leader, name in leaders.items():
        axes.scatter(*positions[leader], marker="*", s=260, color="#333333", zorder=3)
        axes.annotate(name, positions[leader], textcoords="offset points", xytext=(10, -12), fontsize=9)
    figure.colorbar(points, ax=axes, shrink=0.7, label="inferred: with the president")
    axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=2)
    axes.set_title(f"{accuracy:.0%} of the members are on the side that they took", fontsize=10)
    axes.set_axis_off()
    figure.savefig(picture, dpi=110)
    plt.close(figure)
    print(f"{accuracy:.0%} of the sides are correct; see {picture}")
    return accuracy


if __name__ == "__main__":
    main(*sys.argv[1:2])
