"""Remove the noise from a curve with jumps: your own potentials for the solver behind soft logic.

A `HingeLossMRF` is a sum of linear or squared hinges of variables in [0, 1]. Here squared hinges pull each variable to
its measured value, and further hinges pull neighbours together. Linear hinges keep jumps sharp, squared hinges blur
them. The solver reports how close to the optimum it is. See docs/guide/hinge_mrf.md.

    python examples/smooth_curve.py [picture.png]
"""

from __future__ import annotations

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from scipy.sparse import eye_array, vstack

from intarsia.softlogic import ConsensusADMM, HingeLossMRF, LinearRows


def main(picture: str = "curve.png") -> float:
    rng = np.random.default_rng(0)
    n = 200
    curve = np.repeat([0.2, 0.8, 0.5, 0.9, 0.3], n // 5)
    observed = np.clip(curve + rng.normal(0, 0.12, n), 0, 1)

    # |a| is two hinges, max(0, a) and max(0, -a): of x - observed, and of the difference of neighbours.
    value, step = eye_array(n, format="csr"), (eye_array(n, k=1) - eye_array(n)).tocsr()[:-1]
    rows = LinearRows.from_scipy(
        vstack([value, -value, step, -step], format="csr"),
        const=np.concatenate([-observed, observed, np.zeros(2 * (n - 1))]),
    )
    curves = {}
    for label, power, weight in (("linear hinges between neighbours", 1, 0.5), ("squared hinges", 2, 5.0)):
        powers = np.repeat([2, power], [2 * n, 2 * (n - 1)])
        weights = np.repeat([1.0, weight], [2 * n, 2 * (n - 1)])
        result = ConsensusADMM(tol=1e-4).solve(HingeLossMRF(n, rows, weights, powers))
        curves[f"{label}: {result.status.name}"] = result.x

    figure, axes = plt.subplots(figsize=(8, 3), layout="constrained")
    axes.plot(observed, ".", color="#bbbbbb", label="measured")
    axes.plot(curve, color="black", linewidth=1, label="truth")
    for (label, x), colour in zip(curves.items(), ("#c4622d", "#3b6fb6"), strict=True):
        axes.plot(x, color=colour, label=f"{label}, mean error {np.abs(x - curve).mean():.3f}")
    axes.set(xlabel="position", ylabel="value", ylim=(0, 1.35))
    axes.legend(frameon=False, fontsize=8, ncols=2, loc="upper center")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(picture, dpi=110)
    plt.close(figure)
    error = float(np.abs(next(iter(curves.values())) - curve).mean() / np.abs(observed - curve).mean())
    print(f"the error is {error:.0%} of the error of the measurements; see {picture}")
    return error


if __name__ == "__main__":
    main(*sys.argv[1:2])
