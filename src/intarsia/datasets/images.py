"""Small noisy image with its clean original, made from a photograph in scikit-learn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.validation import FloatArray, IntArray, as_generator, check_number, frozen
from intarsia.exceptions import InvalidInputError
from intarsia.graph import FactorGraph, grid_graph


@dataclass(frozen=True, eq=False)
class NoisyImage:
    """Clean binary image, a noisy observation of it, and a grid model of both.

    Attributes
    ----------
    clean : (height, width) int array
        True labels: 1 where the photograph is dark.
    noisy : (height, width) float array
        Observation: -1 or 1 plus Gaussian noise.
    graph : FactorGraph
        4-connected grid with two states per pixel.
    theta : float array
        Scores: log-likelihood of the observation, and a bonus for equal neighbours.

    Examples
    --------
    The score of a labelling is 0.9 for each pair of equal neighbours plus the scores of the pixels:

    >>> image = load_noisy_image(2, 3, coupling=0.9)
    >>> black = np.zeros(6, dtype=np.int64)                     # state 0 scores 0 at every pixel
    >>> round(image.graph.score(image.theta, black) / 0.9, 9)  # 4 neighbours along rows, 3 along columns
    7.0
    """

    clean: IntArray
    noisy: FloatArray
    graph: FactorGraph
    theta: FloatArray


def load_noisy_image(
    height: int = 16, width: int = 24, *, noise: float = 1.4, coupling: float = 0.9, random_state: int = 0
) -> NoisyImage:
    r"""Load a noisy silhouette of a pagoda as a grid model that is small enough for exact inference.

    The photograph (`china.jpg` of scikit-learn) is averaged over blocks and thresholded at its median, then observed as
    :math:`y_i = 2 x_i - 1 + \sigma \epsilon_i`. The scores are
    :math:`\theta_i(x_i) = \log p(y_i \mid x_i)` up to a constant and :math:`\theta_{ij} = c [x_i = x_j]`.

    Parameters
    ----------
    height, width : int
        Size in pixels. Exact inference costs 2 to the power of the smaller one.
    noise : float
        Standard deviation :math:`\sigma` of the noise.
    coupling : float
        Bonus c for two equal neighbours.
    random_state : int
        Random seed of the noise.

    Examples
    --------
    >>> image = load_noisy_image(8, 12)
    >>> image.graph
    FactorGraph(96 variables with 2 states, 172 factors of scope <= 2, grid 8x12)
    >>> int((image.clean != (image.noisy > 0)).sum()) > 0       # pixels that the noise flips
    True
    """
    from sklearn.datasets import load_sample_image

    check_number(noise, "load_noisy_image: noise", low=0, open_low=True)
    photograph = np.asarray(load_sample_image("china.jpg"), dtype=float).mean(axis=2)
    for size, limit, name in ((height, photograph.shape[0], "height"), (width, photograph.shape[1], "width")):
        check_number(size, f"load_noisy_image: {name}", low=1, integer=True)
        if size > limit:
            raise InvalidInputError(
                f"load_noisy_image: {name}={size}, but the photograph has only {limit} pixels. Pass at most {limit}."
            )
    rows, columns = photograph.shape[0] // height, photograph.shape[1] // width
    blocks = photograph[: rows * height, : columns * width].reshape(height, rows, width, columns).mean(axis=(1, 3))
    clean = (blocks < np.median(blocks)).astype(np.int64)
    noisy = 2.0 * clean - 1.0 + noise * np.random.default_rng(random_state).standard_normal(clean.shape)
    graph = grid_graph(height, width, 2)
    # log N(y; 1, s^2) - log N(y; -1, s^2) = 2 y / s^2
    unary = np.stack([np.zeros(noisy.size), 2.0 * noisy.ravel() / noise**2], axis=1)
    tables = np.broadcast_to(coupling * np.eye(2), (graph.n_factors, 2, 2))
    return NoisyImage(frozen(clean), frozen(noisy), graph, frozen(graph.pack(unary, tables)))


def noisy_inputs(
    binary: Iterable[ArrayLike], n: float, random_state: int | np.random.Generator | None = 0
) -> list[FloatArray]:
    r"""Add noise to binary images: :math:`y_i = x_i (1 - t_i^n) + (1 - x_i) t_i^n` with uniform :math:`t_i`.

    A larger n means less noise (Domke2013, section 8.2, uses 1.25, 1.5 and 5). Noise is drawn image by image, so that
    the first images of a list get the same noise whatever follows.

    Parameters
    ----------
    binary : list of arrays of 0 and 1
        Clean images x.
    n : float
        Positive exponent of the noise.
    random_state : int, Generator or None
        Random seed of t.

    Returns
    -------
    list of float arrays
        Noisy images of the same shapes, with values in [0, 1].

    Examples
    --------
    With the same t, a black pixel becomes :math:`t^n` and a white one :math:`1 - t^n`:

    >>> black, = noisy_inputs([[0, 0, 0]], n=1.25)
    >>> white, = noisy_inputs([[1, 1, 1]], n=1.25)
    >>> bool(np.allclose(black + white, 1.0))
    True
    """
    check_number(n, "noisy_inputs: n", low=0, open_low=True, high=np.inf, open_high=True)
    rng = as_generator(random_state)
    observed = []
    for k, image in enumerate(binary):
        x = np.asarray(image)
        if x.dtype.kind not in "iubf" or not np.isin(x, (0, 1)).all():
            raise InvalidInputError(f"noisy_inputs: binary[{k}] must contain only 0 and 1. Threshold the image first.")
        noise = rng.random(x.shape) ** n
        observed.append(np.where(x == 1, 1.0 - noise, noise))
    return observed
