"""Tour stop on images: a noisy photograph restored by four fits of the same grid CRF."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from intarsia._core.validation import FloatArray, IntArray
from intarsia.crf import GridCRF
from intarsia.gradients.truncated import TruncatedGradient
from intarsia.inference.messages.tree_reweighted import TreeReweighted
from intarsia.learning import LBFGS, RiskMinimizer
from intarsia.metrics.pixels import error_rate
from intarsia.report.page_parts import Picture, Section, Table
from intarsia.report.plots import Panel, plot_comparison
from intarsia.tour.tour import Row, Stop

_SIZE = (60, 90)
_SWEEPS = 5
_EXPONENT = 1.25  # of the noise, as in `reproduce denoising`
_INFERENCE = TreeReweighted(tol=1e-4)
_FITS: dict[str, dict[str, Any]] = {
    "pseudo-likelihood": {"loss": "pseudo_likelihood"},
    "surrogate likelihood": {"loss": "likelihood"},
    "clique logistic": {"loss": "clique_logistic", "gradient": TruncatedGradient(n_iter=_SWEEPS)},
}


def make_pictures(seed: int = 0) -> tuple[list[IntArray], list[FloatArray]]:
    """Return the two photographs of scikit-learn in black and white, and noisy features (constant, grey, grey squared).

    Examples
    --------
    >>> truth, features = make_pictures()
    >>> [image.shape for image in features], float(truth[0].mean())
    ([(60, 90, 3), (60, 90, 3)], 0.5)
    """
    from sklearn.datasets import load_sample_image

    rng = np.random.default_rng(seed)
    truth, features = [], []
    for name in ("flower.jpg", "china.jpg"):
        grey = np.asarray(load_sample_image(name), dtype=float).mean(axis=2)
        rows, columns = grey.shape[0] // _SIZE[0], grey.shape[1] // _SIZE[1]
        blocks = (
            grey[: rows * _SIZE[0], : columns * _SIZE[1]].reshape(_SIZE[0], rows, _SIZE[1], columns).mean(axis=(1, 3))
        )
        clean = (blocks > np.median(blocks)).astype(np.int64)
        noise = rng.random(_SIZE) ** _EXPONENT
        observed = clean * (1.0 - noise) + (1 - clean) * noise
        truth.append(clean)
        features.append(np.stack([np.ones(_SIZE), observed, observed**2], axis=-1))
    return truth, features


def picture_stop(seed: int = 0) -> Stop:
    """Fit on one photograph and restore the other."""
    start = time.perf_counter()
    truth, features = make_pictures(seed)
    marginals: dict[str, FloatArray] = {}
    for label, settings in _FITS.items():
        crf = GridCRF(
            inference=_INFERENCE,
            learner=RiskMinimizer(l2=1e-4 * truth[0].size, optimizer=LBFGS(tol=1e-4), **settings),
            classes=[0, 1],
        )
        crf.fit(features[:1], truth[:1])
        if not marginals:
            independent = GridCRF(learner=RiskMinimizer(gradient=TruncatedGradient(n_iter=_SWEEPS)), classes=[0, 1])
            marginals["independent"] = _independent(independent, crf, features[1:])
        marginals[label] = crf.predict_marginals(features[1:])[0]
    errors = {label: error_rate([beliefs], truth[1:]) for label, beliefs in marginals.items()}
    inputs = [
        Panel("photograph", "the truth", truth[1].astype(float)),
        Panel("observed", f"noise of exponent {_EXPONENT:g}", features[1][..., 1], kind="input"),
    ]
    fits = [Panel(label, f"error {errors[label]:.3f}", beliefs[..., 1]) for label, beliefs in marginals.items()]
    seconds = time.perf_counter() - start
    section = Section(
        "picture",
        "A noisy photograph",
        "The same grid model, fitted in four ways to one photograph and used on another. How much does it help to fit "
        "through the inference method that is used later?",
        [
            Table(["fit", "fraction of wrong pixels"], list(errors.items())),
            Picture(plot_comparison(inputs), "Truth and noisy input"),
            Picture(plot_comparison(fits), "Probability of white under each fit"),
        ],
        {
            "Data": "flower.jpg (fitted) and china.jpg (restored) of scikit-learn, averaged over blocks",
            "Inference": f"tree-reweighted belief propagation, {_SWEEPS} sweeps where the fit is truncated",
            "Seed": str(seed),
            "Seconds": f"{seconds:.1f}",
        },
    )
    rows = [Row(f"wrong pixels, {label}", value, "fraction") for label, value in errors.items()]
    return Stop("picture", section.title, rows, section, seconds)


def _independent(empty: GridCRF, fitted: GridCRF, features: list[FloatArray]) -> FloatArray:
    """Return the marginals of the initial model of the fits, in which pixels are independent."""
    empty.classes_, empty.templates_, empty.weights_ = fitted.classes_, fitted.templates_, fitted.initial_weights_
    return empty.predict_marginals(features)[0]
