"""Input images of `GridCRF`: features of pixels and of edges, after all checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from intarsia._core.validation import FloatArray
from intarsia.exceptions import InvalidInputError
from intarsia.graph.shapes import grid_edges
from intarsia.models.feature_matrix import as_features, check_features, is_sparse


@dataclass(frozen=True, eq=False)
class Image:
    """Size (H, W) of an image, features of its pixels (H * W, p), and of its edges (n_edges, q), dense or CSR."""

    size: tuple[int, int]
    pixels: Any
    edges: Any


def read_images(
    X: Any,
    edge_features: Sequence[Any] | None,
    connectivity: int,
    n_features: int | None = None,
    n_edge_features: int | None = None,
) -> list[Image]:
    """Read images and features of their edges, from `edge_features` or from pairs (image, edge features) in X."""
    if isinstance(X, (str, bytes)) or not hasattr(X, "__len__"):
        raise InvalidInputError(f"X must be a list of (H, W, n_features) arrays, got {type(X).__name__}.")
    if len(X) == 0:
        raise InvalidInputError("X is empty. Pass at least one image.")
    pairs = [item for item in X if isinstance(item, tuple)]
    if pairs:
        if len(pairs) != len(X) or any(len(item) != 2 for item in pairs) or edge_features is not None:
            raise InvalidInputError(
                "X contains tuples. Pass (image, edge_features) for every image, and drop the argument edge_features."
            )
        X, edge_features = [image for image, _ in pairs], [edges for _, edges in pairs]
    sizes, pixels = check_images(X, n_features)
    edges = check_edge_features(edge_features, sizes, connectivity, n_edge_features)
    return [Image(*item) for item in zip(sizes, pixels, edges, strict=True)]


def check_images(X: Any, n_features: int | None = None) -> tuple[list[tuple[int, int]], list[Any]]:
    """Return the sizes of images and the features of their pixels, in row-major order.

    Raises if a feature is not finite or the numbers of features differ. Features remain in single precision, and sparse
    ones become CSR.
    """
    sizes, pixels = [], []
    for i, raw_image in enumerate(X):
        is_sparse_image = is_sparse(raw_image)
        if is_sparse_image and raw_image.ndim != 3:
            raise InvalidInputError(
                f"X[{i}] is a sparse matrix of shape {raw_image.shape}, but an image is an array (H, W, "
                f"n_features). Pass sparse features of pixels as csr_array(...).reshape((H, W, n_features)), which "
                f"needs SciPy 1.15 or newer, or use GraphCRF with the edges of grid_graph."
            )
        image = raw_image if is_sparse_image else as_features(raw_image, f"X[{i}]")
        if image.ndim != 3 or 0 in image.shape:
            raise InvalidInputError(
                f"X[{i}] has shape {image.shape}, expected (H, W, n_features) with none of them 0. "
                f"Pass a grey image as image[:, :, None]."
            )
        n_features = image.shape[2] if n_features is None else n_features
        if image.shape[2] != n_features:
            raise InvalidInputError(
                f"X[{i}] has {image.shape[2]} features, but the model has {n_features}. Use the same features for "
                f"every image."
            )
        height, width = int(image.shape[0]), int(image.shape[1])
        rows = image.reshape((height * width, n_features))
        if is_sparse_image:
            rows = as_features(rows, f"X[{i}]")
        position = _first_not_finite(rows)
        if position is not None:
            (r, c), f = divmod(position[0], width), position[1]
            raise InvalidInputError(
                f"X[{i}][{r}, {c}, {f}] is {rows[position]}, but features must be finite. Impute missing values, and "
                f"add an indicator feature for them."
            )
        sizes.append((height, width))
        pixels.append(rows)
    return sizes, pixels


def _first_not_finite(rows: Any) -> tuple[int, int] | None:
    """Return row and column of the first entry that is NaN or infinite, or None."""
    finite = np.isfinite(rows.data if is_sparse(rows) else rows)
    if finite.all():
        return None
    k = int(np.argmin(finite))
    if not is_sparse(rows):
        return divmod(k, rows.shape[1])
    return int(np.searchsorted(rows.indptr, k, side="right")) - 1, int(rows.indices[k])


def direction_indicators(height: int, width: int, connectivity: int) -> FloatArray:
    """Return indicator features of the edges of a grid, one column per direction."""
    counts = [len(edges) for edges in grid_edges(height, width, connectivity)]
    return np.repeat(np.eye(len(counts)), counts, axis=0)


def check_edge_features(
    edge_features: Sequence[Any] | None,
    sizes: list[tuple[int, int]],
    connectivity: int,
    n_features: int | None = None,
) -> list[Any]:
    """Return the features of the edges of every image, in the order of `grid_graph` (default: direction indicators)."""
    if edge_features is None:
        indicators = {size: direction_indicators(*size, connectivity) for size in set(sizes)}
        checked_features: list[Any] = [indicators[size] for size in sizes]
    else:
        if len(edge_features) != len(sizes):
            raise InvalidInputError(
                f"got {len(edge_features)} arrays of edge features for {len(sizes)} images. Pass one for each image."
            )
        checked_features = []
        for i, (features, size) in enumerate(zip(edge_features, sizes, strict=True)):
            n_edges = sum(len(edges) for edges in grid_edges(*size, connectivity))
            owner = f"the {size[0]}x{size[1]} grid of X[{i}] has {n_edges} edges, in the order of grid_graph"
            checked_features.append(check_features(features, f"edge_features[{i}]", n_edges, owner))
    for i, features in enumerate(checked_features):
        n_features = features.shape[1] if n_features is None else n_features
        if features.shape[1] != n_features:
            raise InvalidInputError(
                f"edge_features[{i}] has {features.shape[1]} columns, but the model has {n_features}. Use the same "
                f"features for every image, and pass edge_features if and only if fit had them."
            )
    return checked_features
