"""Which side does each member of a quarrelling club take? Two rules, and nothing but the leaders is known.

The members of a karate club fell out over its instructor and its president. Friends tend to be on the same side, and
everyone is on one side in all: two rules, 34 people, 78 friendships. Truth values between 0 and 1 say how strongly.
See docs/start/rules.md and docs/guide/rules.md.

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


def places(edges: np.ndarray, n: int) -> np.ndarray:
    """Friends stand near each other: the second and third eigenvectors of the Laplacian, spread by their ranks."""
    joined = np.zeros((n, n))
    joined[tuple(edges.T)] = joined[tuple(edges.T[::-1])] = 1
    degree = joined.sum(axis=1)
    vectors = np.linalg.eigh(np.eye(n) - joined / np.sqrt(np.outer(degree, degree)))[1][:, 1:3]
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
        .observe("Side", [(who, side, float(side == own)) for who, own in leaders.items() for side in SIDES])
        .target("Side", [(member, side) for member in others for side in SIDES])
    )
    found = SoftLogic(program).infer()
    values = np.array([found.value("Side", member, "president") for member in others])
    share = float(np.mean((values > 0.5) == club.faction[others]))

    at = places(club.edges, 34)
    figure, axes = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
    for a, b in club.edges:
        axes.plot(*at[[a, b]].T, color="#bbbbbb", linewidth=0.8, zorder=1)
    for side, marker in enumerate("os"):
        chosen = np.flatnonzero(club.faction[others] == side)
        drawn = axes.scatter(
            *at[np.array(others)[chosen]].T,
            c=values[chosen], cmap="coolwarm", vmin=0, vmax=1, s=110, marker=marker, edgecolors="#333333", zorder=2,
            label=f"went with the {SIDES[side]}",
        )  # fmt: skip
    for leader, name in leaders.items():
        axes.scatter(*at[leader], marker="*", s=260, color="#333333", zorder=3)
        axes.annotate(name, at[leader], textcoords="offset points", xytext=(10, -12), fontsize=9)
    figure.colorbar(drawn, ax=axes, shrink=0.7, label="inferred: with the president")
    axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=2)
    axes.set_title(f"{share:.0%} of the members are on the side they took", fontsize=10)
    axes.set_axis_off()
    figure.savefig(picture, dpi=110)
    plt.close(figure)
    print(f"{share:.0%} of the sides are right; see {picture}")
    return share


if __name__ == "__main__":
    main(*sys.argv[1:2])
