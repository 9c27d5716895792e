"""Sensitivity of pseudo-likelihood at the highest noise: stopping, regularization, decoding and training images."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from intarsia._core.validation import FloatArray
from intarsia.crf import GridCRF
from intarsia.exceptions import ConvergenceWarning
from intarsia.inference import InferenceMethod
from intarsia.inference.messages.belief_propagation import BeliefPropagation
from intarsia.inference.messages.mean_field import MeanField
from intarsia.inference.messages.tree_reweighted import TreeReweighted
from intarsia.learning import LBFGS, RiskMinimizer
from intarsia.metrics.pixels import error_rate
from intarsia_reproduction.experiment import Finding
from intarsia_reproduction.models.image_fits import Pictures, fit_independent, penalty

_RIDGE = 1e-6
ITERATIONS = (2, 4, 5, 10, 100)
RIDGES = (1e-3, 1e-2)
N_DRAWS = 4
# Names of the figures of each study.
STUDIES = {
    "iterations": tuple(f"{n} iterations" for n in ITERATIONS),
    "ridge": tuple(f"ridge {ridge:g}" for ridge in RIDGES),
    "decoding": ("tree-reweighted", "loopy belief propagation", "mean field"),
    "draws": ("lowest", "mean", "highest"),
}


def study_pseudo_likelihood(study: str, train: Pictures, test: Pictures, *, n_train: int) -> Finding:
    """Return test errors of models fitted by pseudo-likelihood, while one aspect of the fit changes.

    Parameters
    ----------
    study : str
        Aspect: "iterations" of L-BFGS, "ridge" (regularization), "decoding" (inference in prediction), or "draws" of
        the training images.
    train, test : Pictures
        All training images, and test images. Fits use the first `n_train` training images; "draws" draws them from
        all images except those of the test.
    n_train : int
        Number of training images of a fit.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> labels = [rng.integers(0, 2, size=(4, 4)) for _ in range(3)]
    >>> pictures = Pictures([np.stack([np.ones((4, 4)), y + 0.0], axis=-1) for y in labels], labels)
    >>> finding = study_pseudo_likelihood("decoding", pictures, pictures, n_train=2)
    >>> finding.values
    {'tree-reweighted': 0.0, 'loopy belief propagation': 0.0, 'mean field': 0.0}
    """
    first = train.take(range(n_train))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # some fits are stopped on purpose
        risks: list[float] = []
        errors = _STUDIES[study](train, first, test, risks)
    settings = {"ridge": _RIDGE, "images": [n_train, len(test.labels)], "risk": risks}
    n = sum(int(np.size(labels)) for labels in test.labels)
    return Finding(dict(zip(STUDIES[study], errors, strict=True)), n, settings=settings)


def _fit(pictures: Pictures, risks: list[float], ridge: float = _RIDGE, max_iter: int = 100) -> GridCRF:
    independent = fit_independent(pictures, pictures.take([0]), n_classes=2, ridge=ridge, optimizer=LBFGS(tol=1e-5))
    learner = RiskMinimizer(
        loss="pseudo_likelihood",
        optimizer=LBFGS(tol=1e-5, max_iter=max_iter),
        l2=penalty(ridge, pictures.labels),
    )
    crf = GridCRF(inference=TreeReweighted(tol=1e-4, max_iter=1000), learner=learner, classes=np.arange(2))
    start: FloatArray = independent.arrays["weights"]
    crf.fit(pictures.features, pictures.labels, start=start)
    risks.append(float(crf.risk_))
    return crf


def _error(crf: GridCRF, test: Pictures, inference: InferenceMethod | None = None) -> float:
    if inference is not None:
        crf.set_params(inference=inference)
    return error_rate(crf.predict_marginals(test.features), test.labels)


def _iterations(_: Pictures, first: Pictures, test: Pictures, risks: list[float]) -> list[float]:
    return [_error(_fit(first, risks, max_iter=n), test) for n in ITERATIONS]


def _ridges(_: Pictures, first: Pictures, test: Pictures, risks: list[float]) -> list[float]:
    return [_error(_fit(first, risks, ridge=ridge), test) for ridge in RIDGES]


def _decoding(_: Pictures, first: Pictures, test: Pictures, risks: list[float]) -> list[float]:
    crf = _fit(first, risks)
    methods = (TreeReweighted(tol=1e-4, max_iter=1000), BeliefPropagation(max_iter=300), MeanField(max_iter=300))
    return [_error(crf, test, method) for method in methods]


def _draws(train: Pictures, first: Pictures, test: Pictures, risks: list[float]) -> list[float]:
    rng = np.random.default_rng(0)
    n = len(first.labels)
    draws = [rng.permutation(len(train.labels))[:n].tolist() for _ in range(N_DRAWS)]
    errors = [_error(_fit(train.take(indices), risks), test) for indices in draws]
    return [min(errors), float(np.mean(errors)), max(errors)]


_STUDIES: dict[str, Callable[[Pictures, Pictures, Pictures, list[float]], list[float]]] = {
    "iterations": _iterations,
    "ridge": _ridges,
    "decoding": _decoding,
    "draws": _draws,
}


def join_pictures(*sets: Pictures) -> Pictures:
    """Return the images of several sets as one, without features of edges."""
    lists: list[Any] = [[item for pictures in sets for item in getattr(pictures, name)] for name in _LISTS]
    return Pictures(*lists)


_LISTS = ("features", "labels")
