"""Remove the noise from a photograph with a grid CRF that is fitted on another photograph.

Two photographs are reduced to black and white, and noise is added until single pixels say little. The weights are
fitted on one photograph through the same sweeps of message passing that restore the other. See docs/start/images.md
and docs/guide/grid_crf.md.

    python examples/denoise_photograph.py [picture.png]
"""

from __future__ import annotations

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_images

from intarsia import GridCRF, RiskMinimizer
from intarsia.datasets import noisy_inputs
from intarsia.gradients import TruncatedGradient


def binary(photograph: np.ndarray) -> np.ndarray:
    grey = photograph.mean(axis=2)[:416, :640].reshape(52, 8, 80, 8).mean(axis=(1, 3))
    return (grey > grey.mean()).astype(int)


def main(picture: str = "denoised.png") -> float:
    china, flower = map(binary, load_sample_images().images)
    X_train, X_test = (
        [np.stack([np.ones_like(noisy), noisy], axis=-1) for noisy in noisy_inputs([image], n=1.5, random_state=seed)]
        for seed, image in enumerate((china, flower))
    )
    learner = RiskMinimizer(loss="univariate_logistic", gradient=TruncatedGradient(n_iter=10), verbose=True)
    crf = GridCRF(learner=learner).fit(X_train, [china])
    accuracy = crf.score(X_test, [flower])

    figure, panels = plt.subplots(1, 3, figsize=(9, 2.4), layout="constrained")
    images = {"truth": flower, "input": X_test[0][..., 1], f"restored: {accuracy:.1%} correct": crf.predict(X_test)[0]}
    for axes, (title, pixels) in zip(panels, images.items(), strict=True):
        axes.imshow(pixels, cmap="cividis", vmin=0, vmax=1)
        axes.set_title(title)
        axes.axis("off")
    figure.savefig(picture, dpi=110)
    plt.close(figure)
    print(f"{accuracy:.1%} of the pixels are correct; see {picture}")
    return accuracy


if __name__ == "__main__":
    main(*sys.argv[1:2])
