"""Histogram of oriented gradients around every pixel of an image."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from intarsia._validation import FloatArray, check_number
from intarsia.models.rgb_image import as_rgb


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
    where = "histogram_of_gradients"
    rgb = as_rgb(image, where)
    check_number(n_orientations, f"{where}: n_orientations", low=1, high=1000, integer=True)
    check_number(cell, f"{where}: cell", low=1, high=1e6)
    check_number(clip, f"{where}: clip", low=0, open_low=True)
    check_number(noise, f"{where}: noise", low=0, open_low=True)
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
