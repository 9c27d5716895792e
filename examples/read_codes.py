"""Read handwritten digits that spell known codes: a chain CRF without and with a global energy.

Noisy handwritten digits come in strings of five, and every string is one of 60 codes. A plain chain CRF reads digit by
digit. An energy that penalizes the distance to the nearest code uses the whole string; its weight psi is learned. See
docs/start/sequences.md and docs/guide/energies.md.

    python examples/read_codes.py [picture.png]
"""

from __future__ import annotations

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from intarsia import BetheRDA, ChainCRF
from intarsia.energies import DistanceToSet
from intarsia.learning import DoublyStochastic


def strings(codes: np.ndarray, n: int, first: int, last: int, rng: np.random.Generator) -> tuple[list, list]:
    """Return noisy images of handwritten digits that spell codes, and the digits."""
    images, digits = (array[first:last] for array in load_digits(return_X_y=True))
    y = [codes[k] for k in rng.integers(0, len(codes), n)]
    images_of_strings = [
        np.stack([images[rng.choice(np.flatnonzero(digits == digit))] for digit in code]) for code in y
    ]
    X = [np.clip(pixels / 16 + rng.normal(0, 0.4, pixels.shape), 0, 1) for pixels in images_of_strings]
    return [np.column_stack([pixels, np.ones(5)]) for pixels in X], y  # 64 pixels and a constant


def main(picture: str = "codes.png") -> float:
    rng = np.random.default_rng(0)
    codes = rng.permutation(np.unique(rng.integers(0, 10, (240, 5)), axis=0))[:60]
    X, y = strings(codes, 150, 0, 1200, rng)
    X_new, y_new = strings(codes, 100, 1200, 1797, rng)  # written by other people

    crf = ChainCRF(l2=2.0, classes=np.arange(10)).fit(X, y)
    plain = crf.predict(X_new)
    crf.set_params(
        energies=[DistanceToSet(codes.tolist(), psi=3.0)],
        projection=BetheRDA(max_iter=10),
        energy_learner=DoublyStochastic(max_iter=2),
    )
    with_codes = crf.fit(X, y, freeze_weights=True).predict(X_new)

    accuracies = [
        np.mean([(a == b).all() for a, b in zip(predictions, y_new, strict=True)])
        for predictions in (plain, with_codes)
    ]
    misread = [k for k in range(len(y_new)) if (plain[k] != y_new[k]).any()][:6]
    figure, grid = plt.subplots(3, 2, figsize=(8, 4), layout="constrained")
    for axes, k in zip(grid.flat, misread, strict=False):
        axes.imshow(np.hstack(X_new[k][:, :64].reshape(5, 8, 8)), cmap="Greys")
        words = ["".join(map(str, digits)) for digits in (plain[k], with_codes[k])]
        axes.set_title(f"chain {words[0]}, with codes {words[1]}", fontsize=9)
    for axes in grid.flat:
        axes.set_axis_off()
    figure.suptitle(f"correct strings: chain {accuracies[0]:.0%}, with codes {accuracies[1]:.0%}", fontsize=10)
    figure.savefig(picture, dpi=110)
    plt.close(figure)
    print(f"{accuracies[1]:.0%} of the strings are correct, {accuracies[0]:.0%} without the codes; see {picture}")
    return float(accuracies[1])


if __name__ == "__main__":
    main(*sys.argv[1:2])
