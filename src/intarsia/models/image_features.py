"""Features of pixels and of pairs of neighbouring pixels, histograms of oriented gradients included."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from intarsia._core.error_context import errors_from
from intarsia._core.validation import FloatArray, as_float_array, check_number
from intarsia.exceptions import InvalidInputError


def as_rgb(image: Any) -> FloatArray:
    """Image as (H, W, 3) float64 in [0, 1]; bytes are divided by 255, grey becomes three equal channels."""
    given = np.asarray(image)
    shape = given.shape
    if not (given.ndim == 2 or (given.ndim == 3 and shape[2] == 3)) or given.size == 0:
        raise InvalidInputError(
            f"the image has shape {shape}, but (height, width) or (height, width, 3) is needed, with at least "
            f"one pixel. Take one image at a time, and drop an alpha channel with image[..., :3]."
        )
    if given.dtype == np.uint8:
        values = given / 255.0
    elif given.dtype.kind in "fb":
        values = given.astype(np.float64)
        inside = (values >= 0.0) & (values <= 1.0)
        if not inside.all():
            at = tuple(int(i) for i in np.argwhere(~inside)[0])
            raise InvalidInputError(
                f"image[{', '.join(map(str, at))}] is {values[at]}, but intensities lie in [0, 1]. "
                f"Divide 8-bit values by 255 or give them as uint8, and fill in what is missing."
            )
    else:
        raise InvalidInputError(
            f"the image has dtype {given.dtype}. Give uint8 (0 to 255) or floats in [0, 1]; for other whole "
            f"numbers divide by their largest possible value."
        )
    return np.repeat(values[..., None], 3, axis=2) if values.ndim == 2 else np.ascontiguousarray(values)


@errors_from("histogram_of_gradients")
def histogram_of_gradients(
    image: Any, *, n_orientations: int = 9, cell: float = 12.0, clip: float = 0.2, noise: float = 0.1
) -> NDArray[np.float32]:
    r"""Directions of the edges around each pixel: histograms of four neighbouring cells, normalised together.

    A pixel votes for the direction of its gradient (without sign; the channel where it is longest) with the gradient's
    length, split linearly between the two nearest of `n_orientations` directions :math:`k \pi / n`, k = 0, 1, ...;
    direction 0 is a change along a row. Around *each* pixel lies a block of 2 x 2 cells, with centres
    half a cell up or down and half a cell left or right of it. A cell's histogram is the mean vote of the image's
    pixels, with distances :math:`d` from the cell's centre weighted by :math:`\max(0, 1 - |d_r| / cell)` times
    :math:`\max(0, 1 - |d_c| / cell)`. The block v of four histograms is normalised as

    .. math:: v \leftarrow v / \sqrt{|v|^2 + noise^2}, \quad v \leftarrow \min(v, clip), \quad
              v \leftarrow v / \sqrt{|v|^2 + noise^2}.

    Libraries give one descriptor per block of a coarse lattice; a label for each pixel needs one for each pixel.
    Works for images of any size, down to one pixel; a constant image gives zeros. Cost: O(H W n_orientations cell).

    Parameters
    ----------
    image : (H, W, 3) or (H, W) array
        uint8, or floats in [0, 1]; grey is read as three equal channels.
    n_orientations : int
        Directions in a histogram, between 0 and 180 degrees.
    cell : float
        Side of a cell in pixels, at least 1. Each pixel sees about 1.5 cells each way: larger cells tell more about
        the scene, smaller ones more about the place.
    clip : float
        Largest component after the first normalisation, so that one strong edge does not hide the rest.
    noise : float
        Length of a block (mean gradients per pixel) below which contrast fades out instead of being raised to full
        strength: a smooth sky and a wall with texture then differ. In photographs it is near 0.06, rarely above 0.1.

    Returns
    -------
    (H, W, 4 * n_orientations) float32 array
        Upper left, upper right, lower left and lower right cell, each with its directions.

    Raises
    ------
    InvalidInputError
        If the image or a setting is not as above.

    References
    ----------
    DalalTriggs2005, section 6; Domke2013, section 8.3.

    Examples
    --------
    A step between left and right has direction 0 only, alike in the four cells around a pixel beside it:

    >>> import numpy as np
    >>> step = np.repeat([[0.0, 0.0, 1.0, 1.0]], 4, axis=0)
    >>> features = histogram_of_gradients(step, cell=2, clip=1.0, noise=1e-6)
    >>> features.shape
    (4, 4, 36)
    >>> blocks = features.reshape(4, 4, 2, 2, 9)         # row, column, cell above / below, cell left / right, direction
    >>> bool((blocks[..., 1:] == 0).all())
    True
    >>> bool((blocks[:, 0, :, 0, 0] < blocks[:, 0, :, 1, 0]).all())     # the step is on the right of column 0
    True
    """
    rgb = as_rgb(image)
    check_number(n_orientations, "n_orientations", low=1, high=1000, integer=True)
    check_number(cell, "cell", low=1, high=1e6)
    check_number(clip, "clip", low=0, open_low=True)
    check_number(noise, "noise", low=0, open_low=True)
    votes = _votes(rgb, int(n_orientations))
    height, width, n = votes.shape
    above_below = _cell_weights(height, cell) @ votes.reshape(height, width * n)
    by_column = above_below.reshape(2, height, width, n).transpose(2, 0, 1, 3).reshape(width, -1)
    cells = (_cell_weights(width, cell) @ by_column).reshape(2, width, 2, height, n)
    blocks = np.ascontiguousarray(cells.transpose(3, 1, 2, 0, 4)).reshape(height, width, 4 * n)
    _normalise(blocks, noise)
    np.minimum(blocks, np.float32(clip), out=blocks)
    _normalise(blocks, noise)
    return blocks


def _votes(rgb: FloatArray, n_orientations: int) -> NDArray[np.float32]:
    """Length of each pixel's gradient, shared between the two directions nearest to its own: (H, W, n)."""
    padded = np.pad(rgb, ((1, 1), (1, 1), (0, 0)), mode="edge")
    down = (padded[2:, 1:-1] - padded[:-2, 1:-1]) / 2
    right = (padded[1:-1, 2:] - padded[1:-1, :-2]) / 2
    strongest = np.argmax(down**2 + right**2, axis=2)[..., None]
    down = np.take_along_axis(down, strongest, axis=2).ravel()
    right = np.take_along_axis(right, strongest, axis=2).ravel()
    place = np.mod(np.arctan2(down, right), np.pi) * (n_orientations / np.pi)
    lower = np.floor(place).astype(np.int64)
    share = place - lower
    length = np.hypot(down, right)
    votes = np.zeros((length.size, n_orientations), dtype=np.float32)
    pixel = np.arange(length.size)
    # Directions go round: beyond the last one lies the first. With a single direction both shares meet in it.
    votes[pixel, lower % n_orientations] += length * (1 - share)
    votes[pixel, (lower + 1) % n_orientations] += length * share
    return votes.reshape(*rgb.shape[:2], n_orientations)


def _cell_weights(length: int, cell: float) -> sparse.csr_array:
    """Rows average a line of pixels into the cell before (first half) and after each of them (second half)."""
    reach = int(np.ceil(1.5 * cell)) - 1
    steps = np.arange(-min(reach, length - 1), min(reach, length - 1) + 1)
    before = np.maximum(0.0, 1 - np.abs(steps + cell / 2) / cell)
    halves = [
        sparse.diags_array(list(weights), offsets=list(steps), shape=(length, length), format="csr")
        for weights in (before, before[::-1])
    ]
    both = sparse.csr_array(sparse.vstack(halves))
    # Where a cell reaches beyond the image the mean is over the pixels there are: no dark frame, no invented pixels.
    both = sparse.diags_array(1 / both.sum(axis=1)) @ both
    return sparse.csr_array(both, dtype=np.float32)


def _normalise(blocks: NDArray[np.float32], noise: float) -> None:
    length = np.sqrt(np.einsum("hwk,hwk->hw", blocks, blocks) + np.float32(noise) ** 2)
    blocks /= length[..., None]


# Near k/11 quantiles over the pairs of photographs 144 and 64 pixels wide (the two nearly agree), the last beyond.
_COLOUR_THRESHOLDS = (0.01, 0.02, 0.03, 0.045, 0.065, 0.09, 0.13, 0.2, 0.3, 0.45)
_SOBEL_THRESHOLDS = (0.02, 0.04, 0.06, 0.09, 0.12, 0.16, 0.21, 0.28, 0.4, 0.55)
_MOST_BASE_FEATURES = 16  # 131,072 columns; the expansion doubles with each further one


def sinusoidal_expansion(base: ArrayLike, *, scale: float = np.pi) -> NDArray[np.float32]:
    r"""Sines and cosines of all sums of base features: a smooth non-linear function becomes a linear one.

    For base features s the columns are :math:`\sin(a\, c \cdot s)`, then :math:`\cos(a\, c \cdot s)`, for the
    binary vectors c = (0, ..., 0), (0, ..., 0, 1), (0, ..., 1, 0), ... counted upwards, with a = `scale`. Columns
    double with every base feature, so this is for a handful of them. The first sine is 0 and the first cosine 1, so a
    bias is included.

    Parameters
    ----------
    base : (..., d) array
        s, usually between 0 and 1, with d <= 16.
    scale : float
        a. With :math:`\pi` a feature from 0 to 1 runs through half a period, the usual Fourier basis. Domke2013
        prints none, that is 1, with which the columns are nearly linear and nearly dependent: about as good for
        telling pixels apart, and harder to fit.

    Returns
    -------
    (..., 2 * 2 ** d) float32 array

    Raises
    ------
    InvalidInputError
        If there are no or too many base features, or one is not finite.

    References
    ----------
    Konidaris2011; Domke2013, section 8.3.

    Examples
    --------
    >>> import numpy as np
    >>> sinusoidal_expansion([[0.5, 0.0]], scale=np.pi).round(3).tolist()
    [[0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0]]
    """
    values = as_float_array(base, "sinusoidal_expansion: base")
    d = values.shape[-1] if values.ndim else 0
    if not 1 <= d <= _MOST_BASE_FEATURES:
        raise InvalidInputError(
            f"sinusoidal_expansion: base has shape {values.shape}; its last axis holds the features, between 1 and "
            f"{_MOST_BASE_FEATURES} of them. Expand the most telling few and append the others."
        )
    if not np.isfinite(values).all():
        at = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
        raise InvalidInputError(f"sinusoidal_expansion: base[{', '.join(map(str, at))}] is {values[at]}. Fill it in.")
    check_number(scale, "sinusoidal_expansion: scale", low=0, high=1e6, open_low=True)
    choices = (np.arange(2**d)[:, None] >> np.arange(d)[::-1]) & 1
    angles = scale * (values @ choices.T)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1, dtype=np.float32)


@errors_from("pixel_features")
def pixel_features(
    image: Any, *, cell: float = 12.0, scale: float = np.pi, clip: float = 0.2, noise: float = 0.1
) -> NDArray[np.float32]:
    """100 features for each pixel: 64 of colour and position, 36 of the edges around it.

    The first 64 are the `sinusoidal_expansion` of red, green, blue, row and column (both from 0 to 1; 0 where there
    is only one), the other 36 the `histogram_of_gradients`.

    Parameters
    ----------
    image : (H, W, 3) or (H, W) array
        uint8, or floats in [0, 1]; grey is read as three equal channels.
    cell, clip, noise
        As in `histogram_of_gradients`.
    scale : float
        As in `sinusoidal_expansion`.

    Returns
    -------
    (H, W, 100) float32 array
        `reshape(-1, 100)` has the rows in the order of `grid_graph`'s variables.

    References
    ----------
    Domke2013, section 8.3.

    Examples
    --------
    >>> import numpy as np
    >>> features = pixel_features(np.zeros((2, 3, 3)))
    >>> features.shape
    (2, 3, 100)
    >>> features[0, 2, 32:34].round().tolist()           # cosines of nothing, and of the column: pi at the right edge
    [1.0, -1.0]
    """
    rgb = as_rgb(image)
    height, width = rgb.shape[:2]
    row = np.arange(height) / max(height - 1, 1)
    column = np.arange(width) / max(width - 1, 1)
    position = np.stack(np.meshgrid(row, column, indexing="ij"), axis=2)
    colour = sinusoidal_expansion(np.concatenate([rgb, position], axis=2), scale=scale)
    edges = histogram_of_gradients(rgb, cell=cell, clip=clip, noise=noise)
    return np.concatenate([colour, edges], axis=2)


@errors_from("edge_features")
def edge_features(
    image: Any,
    *,
    sobel: bool = True,
    colour_thresholds: ArrayLike = _COLOUR_THRESHOLDS,
    sobel_thresholds: ArrayLike = _SOBEL_THRESHOLDS,
    by_direction: bool = True,
) -> NDArray[np.float32]:
    r"""42 features (22 without Sobel) for each pair of neighbouring pixels, of how different they are.

    A pair i, j has the base features 1; for each threshold t whether :math:`|rgb_i - rgb_j|_2 > t`; for
    each threshold whether the larger Sobel response of i and j exceeds it: 21, or 11 without Sobel. With
    `by_direction` there are twice as many columns: pairs side by side fill the first half and pairs one above the
    other the second, the rest being 0, so that the two kinds have weights of their own.

    The Sobel response is the length of the gradient (1 2 1)/4 x (-1 0 1), pixels beyond the border repeated,
    in the channel where it is longest: 1 on both sides of a step from 0 to 1.

    Parameters
    ----------
    image : (H, W, 3) or (H, W) array
        uint8, or floats in [0, 1]; grey is read as three equal channels.
    sobel : bool
        Whether to include the Sobel responses.
    colour_thresholds, sobel_thresholds : rising sequences of numbers
        The defaults are fixed, so that a feature means the same in every image: close to the quantiles k/11 measured
        over the pairs of photographs 144 and 64 pixels wide, stretched a little towards strong outlines. Any number of
        thresholds will do.
    by_direction : bool
        Whether horizontal and vertical pairs have columns of their own.

    Returns
    -------
    (n_edges, n_features) float32 array
        Rows in the order of the factors of ``grid_graph(H, W, n_states)``: pairs side by side, row by row, then pairs
        one above the other. A single pixel has no pairs and gives no rows.

    Raises
    ------
    InvalidInputError
        If the image is not as above, or thresholds are negative or do not rise.

    References
    ----------
    Domke2013, sections 8.3 and 8.4.

    Examples
    --------
    Only the last pixel differs, by 0.1 in each channel, that is by 0.1 * sqrt(3) = 0.17:

    >>> edge_features([[0.0, 0.0], [0.0, 0.1]], sobel=False, colour_thresholds=[0.15])
    array([[1., 0., 0., 0.],
           [1., 1., 0., 0.],
           [0., 0., 1., 0.],
           [0., 0., 1., 1.]], dtype=float32)
    """
    rgb = as_rgb(image)
    limits = _rising(colour_thresholds, "colour_thresholds")
    sides = [np.linalg.norm(ahead - back, axis=2).ravel() for back, ahead in _pairs(rgb)]
    blocks = [[side[:, None] > limits] for side in sides]
    if sobel:
        limits = _rising(sobel_thresholds, "sobel_thresholds")
        for block, (back, ahead) in zip(blocks, _pairs(_sobel_response(rgb)), strict=True):
            block.append(np.maximum(back, ahead).reshape(-1, 1) > limits)
    horizontal, vertical = (
        np.concatenate([np.ones((len(block[0]), 1)), *block], axis=1, dtype=np.float32) for block in blocks
    )
    if by_direction:
        horizontal = np.concatenate([horizontal, np.zeros_like(horizontal)], axis=1)
        vertical = np.concatenate([np.zeros_like(vertical), vertical], axis=1)
    return np.concatenate([horizontal, vertical])


def _pairs(pixels: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
    """First and second pixel of the pairs side by side, and of those one above the other: `grid_edges` as views."""
    return [(pixels[:, :-1], pixels[:, 1:]), (pixels[:-1], pixels[1:])]


def _sobel_response(rgb: FloatArray) -> FloatArray:
    """Length of the smoothed gradient at each pixel, the largest of the channels: (H, W)."""
    padded = np.pad(rgb, ((1, 1), (1, 1), (0, 0)), mode="edge")
    rows = (padded[:-2] + 2 * padded[1:-1] + padded[2:]) / 4
    columns = (padded[:, :-2] + 2 * padded[:, 1:-1] + padded[:, 2:]) / 4
    return np.hypot(rows[:, 2:] - rows[:, :-2], columns[2:] - columns[:-2]).max(axis=2)


def _rising(thresholds: ArrayLike, name: str) -> FloatArray:
    limits = as_float_array(thresholds, name)
    if limits.ndim != 1 or not np.isfinite(limits).all() or (limits < 0).any() or (np.diff(limits) <= 0).any():
        raise InvalidInputError(
            f"{name} must be finite numbers from 0 on, each above the one before, got {thresholds!r}. "
            f"Sort them and drop repeated ones."
        )
    return limits
