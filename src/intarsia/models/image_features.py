"""Image features for segmentation: of pixels and of pairs of neighbouring pixels, with histograms of gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from intarsia._core.error_context import errors_from
from intarsia._core.validation import FloatArray, as_float_array, check_number
from intarsia.exceptions import InvalidInputError


def as_rgb(image: Any) -> FloatArray:
    """Return an image as (H, W, 3) float64 in [0, 1]; bytes are divided by 255, grey becomes three equal channels."""
    pixels = np.asarray(image)
    shape = pixels.shape
    if not (pixels.ndim == 2 or (pixels.ndim == 3 and shape[2] == 3)) or pixels.size == 0:
        raise InvalidInputError(
            f"the image has shape {shape}, but (height, width) or (height, width, 3) is needed, with at least "
            f"one pixel. Pass one image at a time, and drop an alpha channel with image[..., :3]."
        )
    if pixels.dtype == np.uint8:
        values = pixels / 255.0
    elif pixels.dtype.kind in "fb":
        values = pixels.astype(np.float64)
        inside = (values >= 0.0) & (values <= 1.0)
        if not inside.all():
            position = tuple(int(i) for i in np.argwhere(~inside)[0])
            raise InvalidInputError(
                f"image[{', '.join(map(str, position))}] is {values[position]}, but intensities must lie in [0, 1]. "
                f"Divide 8-bit values by 255 or pass them as uint8, and fill in missing values."
            )
    else:
        raise InvalidInputError(
            f"the image has dtype {pixels.dtype}. Pass uint8 (0 to 255) or floats in [0, 1]; divide other integers by "
            f"their largest possible value."
        )
    return np.repeat(values[..., None], 3, axis=2) if values.ndim == 2 else np.ascontiguousarray(values)


@errors_from("histogram_of_gradients")
def histogram_of_gradients(
    image: Any, *, n_orientations: int = 9, cell: float = 12.0, clip: float = 0.2, noise: float = 0.1
) -> NDArray[np.float32]:
    r"""Compute a histogram of oriented gradients (HOG) around each pixel, from four neighbouring cells.

    A pixel votes for the direction of its gradient (without sign; in the channel where it is longest) with the length
    of the gradient, split linearly between the two nearest of `n_orientations` directions :math:`k \pi / n`, k = 0, 1,
    ...; direction 0 is a change along a row. Around *each* pixel there is a block of 2 x 2 cells, whose centres are
    half a cell up or down and half a cell left or right of the pixel. The histogram of a cell is the mean vote of the
    pixels, where a pixel at distance :math:`d` from the centre of the cell has the weight
    :math:`\max(0, 1 - |d_r| / cell) \max(0, 1 - |d_c| / cell)`. The block v of four histograms is normalised as

    .. math:: v \leftarrow v / \sqrt{|v|^2 + noise^2}, \quad v \leftarrow \min(v, clip), \quad
              v \leftarrow v / \sqrt{|v|^2 + noise^2}.

    Other libraries compute one descriptor per block of a coarse grid, but segmentation needs one for each pixel. Images
    of any size are accepted, down to one pixel; a constant image has zeros. The cost is O(H W n_orientations cell).

    Parameters
    ----------
    image : (H, W, 3) or (H, W) array
        Image of uint8, or of floats in [0, 1]; grey is read as three equal channels.
    n_orientations : int
        Number of directions in a histogram, between 0 and 180 degrees.
    cell : float
        Side of a cell in pixels, at least 1. The features of a pixel depend on about 1.5 cells in each direction:
        larger cells describe the scene, smaller cells the immediate neighbourhood.
    clip : float
        Largest component after the first normalisation, so that one strong edge does not dominate.
    noise : float
        Norm of a block (mean gradients per pixel) below which contrast is damped instead of being normalised to 1, so
        that a smooth sky and a textured wall differ. In photographs the norm is near 0.06, rarely above 0.1.

    Returns
    -------
    (H, W, 4 * n_orientations) float32 array
        Histograms of the upper left, upper right, lower left and lower right cell.

    Raises
    ------
    InvalidInputError
        If the image or a setting is invalid.

    References
    ----------
    DalalTriggs2005, section 6; Domke2013, section 8.3.

    Examples
    --------
    A vertical edge has gradients of direction 0 only:

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
    votes = _orientation_votes(rgb, int(n_orientations))
    height, width, n = votes.shape
    above_below = _cell_weights(height, cell) @ votes.reshape(height, width * n)
    by_column = above_below.reshape(2, height, width, n).transpose(2, 0, 1, 3).reshape(width, -1)
    cells = (_cell_weights(width, cell) @ by_column).reshape(2, width, 2, height, n)
    blocks = np.ascontiguousarray(cells.transpose(3, 1, 2, 0, 4)).reshape(height, width, 4 * n)
    _normalise(blocks, noise)
    np.minimum(blocks, np.float32(clip), out=blocks)
    _normalise(blocks, noise)
    return blocks


def _orientation_votes(rgb: FloatArray, n_orientations: int) -> NDArray[np.float32]:
    """Return the gradient length of each pixel, split between the two nearest directions: (H, W, n)."""
    padded = np.pad(rgb, ((1, 1), (1, 1), (0, 0)), mode="edge")
    vertical = (padded[2:, 1:-1] - padded[:-2, 1:-1]) / 2
    horizontal = (padded[1:-1, 2:] - padded[1:-1, :-2]) / 2
    strongest = np.argmax(vertical**2 + horizontal**2, axis=2)[..., None]
    vertical = np.take_along_axis(vertical, strongest, axis=2).ravel()
    horizontal = np.take_along_axis(horizontal, strongest, axis=2).ravel()
    angle = np.mod(np.arctan2(vertical, horizontal), np.pi) * (n_orientations / np.pi)
    lower = np.floor(angle).astype(np.int64)
    fraction = angle - lower
    length = np.hypot(vertical, horizontal)
    votes = np.zeros((length.size, n_orientations), dtype=np.float32)
    pixel = np.arange(length.size)
    # Directions are cyclic: the first follows the last. With a single direction it gets both fractions.
    votes[pixel, lower % n_orientations] += length * (1 - fraction)
    votes[pixel, (lower + 1) % n_orientations] += length * fraction
    return votes.reshape(*rgb.shape[:2], n_orientations)


def _cell_weights(length: int, cell: float) -> sparse.csr_array:
    """Return a matrix that averages a line of pixels over the cell before (first half) and after each pixel."""
    reach = int(np.ceil(1.5 * cell)) - 1
    steps = np.arange(-min(reach, length - 1), min(reach, length - 1) + 1)
    weights_before = np.maximum(0.0, 1 - np.abs(steps + cell / 2) / cell)
    halves = [
        sparse.diags_array(list(half_weights), offsets=list(steps), shape=(length, length), format="csr")
        for half_weights in (weights_before, weights_before[::-1])
    ]
    weights = sparse.csr_array(sparse.vstack(halves))
    # Where a cell extends beyond the image, the mean is over the existing pixels, without padding.
    weights = sparse.diags_array(1 / weights.sum(axis=1)) @ weights
    return sparse.csr_array(weights, dtype=np.float32)


def _normalise(blocks: NDArray[np.float32], noise: float) -> None:
    length = np.sqrt(np.einsum("hwk,hwk->hw", blocks, blocks) + np.float32(noise) ** 2)
    blocks /= length[..., None]


# Close to the k/11 quantiles over pairs in photographs 144 and 64 pixels wide (which nearly agree); the last is larger.
_COLOUR_THRESHOLDS = (0.01, 0.02, 0.03, 0.045, 0.065, 0.09, 0.13, 0.2, 0.3, 0.45)
_SOBEL_THRESHOLDS = (0.02, 0.04, 0.06, 0.09, 0.12, 0.16, 0.21, 0.28, 0.4, 0.55)
_MAX_BASE_FEATURES = 16  # 131,072 columns; each further base feature doubles them


def sinusoidal_expansion(base: ArrayLike, *, scale: float = np.pi) -> NDArray[np.float32]:
    r"""Expand features by sines and cosines of all their sums, so that a linear model is a smooth non-linear function.

    For base features s the columns are :math:`\sin(a\, c \cdot s)`, then :math:`\cos(a\, c \cdot s)`, for the
    binary vectors c = (0, ..., 0), (0, ..., 0, 1), (0, ..., 1, 0), ... in counting order, with a = `scale`. The number
    of columns doubles with every base feature, so use only a few. The first sine is 0 and the first cosine is 1, so a
    bias is included.

    Parameters
    ----------
    base : (..., d) array
        Base features s, usually between 0 and 1, with d <= 16.
    scale : float
        Factor a. With :math:`\pi`, a feature from 0 to 1 covers half a period, the usual Fourier basis. Domke2013
        prints no factor, that is 1; then the columns are nearly linear and nearly dependent, about as accurate and
        harder to fit.

    Returns
    -------
    (..., 2 * 2 ** d) float32 array

    Raises
    ------
    InvalidInputError
        If there are no or too many base features, or a value is not finite.

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
    if not 1 <= d <= _MAX_BASE_FEATURES:
        raise InvalidInputError(
            f"sinusoidal_expansion: base has shape {values.shape}, but its last axis must hold 1 to "
            f"{_MAX_BASE_FEATURES} features. Expand the most important features and append the others."
        )
    if not np.isfinite(values).all():
        position = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
        raise InvalidInputError(
            f"sinusoidal_expansion: base[{', '.join(map(str, position))}] is {values[position]}. Use finite values, "
            f"and fill in missing ones."
        )
    check_number(scale, "sinusoidal_expansion: scale", low=0, high=1e6, open_low=True)
    choices = (np.arange(2**d)[:, None] >> np.arange(d)[::-1]) & 1
    angles = scale * (values @ choices.T)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1, dtype=np.float32)


@errors_from("pixel_features")
def pixel_features(
    image: Any, *, cell: float = 12.0, scale: float = np.pi, clip: float = 0.2, noise: float = 0.1
) -> NDArray[np.float32]:
    """Compute 100 features for each pixel: 64 of colour and position, and 36 of the surrounding edges.

    The first 64 are the `sinusoidal_expansion` of red, green, blue, row and column (row and column scaled to [0, 1]; 0
    if there is only one). The other 36 are the `histogram_of_gradients`.

    Parameters
    ----------
    image : (H, W, 3) or (H, W) array
        Image of uint8, or of floats in [0, 1]; grey is read as three equal channels.
    cell, clip, noise
        As in `histogram_of_gradients`.
    scale : float
        As in `sinusoidal_expansion`.

    Returns
    -------
    (H, W, 100) float32 array
        Features of each pixel; `reshape(-1, 100)` has the rows in the order of the variables of `grid_graph`.

    References
    ----------
    Domke2013, section 8.3.

    Examples
    --------
    >>> import numpy as np
    >>> features = pixel_features(np.zeros((2, 3, 3)))
    >>> features.shape
    (2, 3, 100)
    >>> features[0, 2, 32:34].round().tolist()           # cosines of 0, and of the column: pi at the right edge
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
    r"""Compute 42 features (22 without Sobel) of the contrast between each pair of neighbouring pixels.

    A pair i, j has these base features: the constant 1; for each threshold t, whether :math:`|rgb_i - rgb_j|_2 > t`;
    and for each threshold, whether the larger Sobel response of i and j exceeds it. These are 21, or 11 without Sobel.
    With `by_direction` there are twice as many columns: horizontal pairs use the first half and vertical pairs the
    second half, and the other half is 0, so that the two directions have separate weights.

    The Sobel response is the length of the gradient (1 2 1)/4 x (-1 0 1) in the channel where it is longest, with
    border pixels repeated. It is 1 on both sides of a step from 0 to 1.

    Parameters
    ----------
    image : (H, W, 3) or (H, W) array
        Image of uint8, or of floats in [0, 1]; grey is read as three equal channels.
    sobel : bool
        Whether to include the Sobel responses.
    colour_thresholds, sobel_thresholds : increasing sequences of numbers
        Any number of thresholds. The defaults are constants, so that a feature has the same meaning in every image.
        They are close to the quantiles k/11 over the pairs of photographs 144 and 64 pixels wide, extended slightly
        towards strong edges.
    by_direction : bool
        Whether horizontal and vertical pairs have separate columns.

    Returns
    -------
    (n_edges, n_features) float32 array
        Rows in the order of the factors of ``grid_graph(H, W, n_states)``: horizontal pairs, row by row, then vertical
        pairs. An image of a single pixel has no pairs and no rows.

    Raises
    ------
    InvalidInputError
        If the image is invalid, or thresholds are negative or not increasing.

    References
    ----------
    Domke2013, sections 8.3 and 8.4.

    Examples
    --------
    Only the last pixel differs, by 0.1 in each channel, so its colour distance is 0.1 * sqrt(3) = 0.17:

    >>> edge_features([[0.0, 0.0], [0.0, 0.1]], sobel=False, colour_thresholds=[0.15])
    array([[1., 0., 0., 0.],
           [1., 1., 0., 0.],
           [0., 0., 1., 0.],
           [0., 0., 1., 1.]], dtype=float32)
    """
    rgb = as_rgb(image)
    thresholds = _check_thresholds(colour_thresholds, "colour_thresholds")
    distances = [np.linalg.norm(second - first, axis=2).ravel() for first, second in _neighbour_pairs(rgb)]
    blocks = [[distance[:, None] > thresholds] for distance in distances]
    if sobel:
        thresholds = _check_thresholds(sobel_thresholds, "sobel_thresholds")
        for block, (first, second) in zip(blocks, _neighbour_pairs(_sobel_response(rgb)), strict=True):
            block.append(np.maximum(first, second).reshape(-1, 1) > thresholds)
    horizontal, vertical = (
        np.concatenate([np.ones((len(block[0]), 1)), *block], axis=1, dtype=np.float32) for block in blocks
    )
    if by_direction:
        horizontal = np.concatenate([horizontal, np.zeros_like(horizontal)], axis=1)
        vertical = np.concatenate([np.zeros_like(vertical), vertical], axis=1)
    return np.concatenate([horizontal, vertical])


def _neighbour_pairs(pixels: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
    """Return views of the first and second pixels of horizontal pairs, and of vertical pairs, as in `grid_edges`."""
    return [(pixels[:, :-1], pixels[:, 1:]), (pixels[:-1], pixels[1:])]


def _sobel_response(rgb: FloatArray) -> FloatArray:
    """Return the length of the smoothed gradient at each pixel, maximised over channels: (H, W)."""
    padded = np.pad(rgb, ((1, 1), (1, 1), (0, 0)), mode="edge")
    rows = (padded[:-2] + 2 * padded[1:-1] + padded[2:]) / 4
    columns = (padded[:, :-2] + 2 * padded[:, 1:-1] + padded[:, 2:]) / 4
    return np.hypot(rows[:, 2:] - rows[:, :-2], columns[2:] - columns[:-2]).max(axis=2)


def _check_thresholds(thresholds: ArrayLike, name: str) -> FloatArray:
    values = as_float_array(thresholds, name)
    if values.ndim != 1 or not np.isfinite(values).all() or (values < 0).any() or (np.diff(values) <= 0).any():
        raise InvalidInputError(
            f"{name} must be finite, non-negative and increasing numbers, got {thresholds!r}. "
            f"Sort them and drop duplicates."
        )
    return values
