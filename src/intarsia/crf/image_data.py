"""Images with features as the grid model takes them: checked, with features of their edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from intarsia._core.validation import FloatArray
from intarsia.exceptions import InvalidInputError
from intarsia.graph.shapes import grid_edges
from intarsia.models.feature_matrix import as_features, check_features


@dataclass(frozen=True, eq=False)
class Image:
    """Height and width of an image, features of its pixels, (H * W, p), and of its edges, (n_edges, q).

    Features are dense or CSR.
    """

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
    """Images with features of their edges, given beside X or as X of pairs (image, edge features)."""
    if isinstance(X, (str, bytes)) or not hasattr(X, "__len__"):
        raise InvalidInputError(f"X must be a list of (H, W, n_features) arrays, got {type(X).__name__}.")
    if len(X) == 0:
        raise InvalidInputError("X is empty. Give at least one image.")
    pairs = [one for one in X if isinstance(one, tuple)]
    if pairs:
        if len(pairs) != len(X) or any(len(one) != 2 for one in pairs) or edge_features is not None:
            raise InvalidInputError(
                "X holds tuples. Give each as (image, edge_features), for every image, and leave the "
                "argument edge_features out."
            )
        X, edge_features = [image for image, _ in pairs], [edges for _, edges in pairs]
    sizes, pixels = check_images(X, n_features)
    edges = check_edge_features(edge_features, sizes, connectivity, n_edge_features)
    return [Image(*one) for one in zip(sizes, pixels, edges, strict=True)]


def check_images(X: Any, n_features: int | None = None) -> tuple[list[tuple[int, int]], list[Any]]:
    """Sizes of images, and features of their pixels, row by row: finite, and equally many in all of them.

    Single precision stays so, and what is sparse becomes CSR.
    """
    sizes, pixels = [], []
    for i, given in enumerate(X):
        thin = bool(sparse.issparse(given))
        if thin and given.ndim != 3:
            raise InvalidInputError(
                f"X[{i}] is a sparse matrix of shape {given.shape}, but an image is an array (H, W, "
                f"n_features). Give sparse features of pixels as csr_array(...).reshape((H, W, n_features)), from "
                f"SciPy 1.15 on, or use GraphCRF with the edges of grid_graph."
            )
        image = given if thin else as_features(given, f"X[{i}]")
        if image.ndim != 3 or 0 in image.shape:
            raise InvalidInputError(
                f"X[{i}] has shape {image.shape}, expected (H, W, n_features) with none of them 0. "
                f"Give a grey picture as picture[:, :, None]."
            )
        n_features = image.shape[2] if n_features is None else n_features
        if image.shape[2] != n_features:
            raise InvalidInputError(
                f"X[{i}] has {image.shape[2]} features, but the model has {n_features}. Give every image the "
                f"same features."
            )
        height, width = int(image.shape[0]), int(image.shape[1])
        rows = image.reshape((height * width, n_features))
        if thin:
            rows = as_features(rows, f"X[{i}]")
        bad = _first_not_finite(rows)
        if bad is not None:
            (r, c), f = divmod(bad[0], width), bad[1]
            raise InvalidInputError(
                f"X[{i}][{r}, {c}, {f}] is {rows[bad]}. Features must be finite; fill in what is "
                f"missing, and add a feature that says so."
            )
        sizes.append((height, width))
        pixels.append(rows)
    return sizes, pixels


def _first_not_finite(rows: Any) -> tuple[int, int] | None:
    """Row and column of the first entry that is NaN or infinite."""
    thin = bool(sparse.issparse(rows))
    finite = np.isfinite(rows.data if thin else rows)
    if finite.all():
        return None
    at = int(np.argmin(finite))
    if not thin:
        return divmod(at, rows.shape[1])
    return int(np.searchsorted(rows.indptr, at, side="right")) - 1, int(rows.indices[at])


def direction_indicators(height: int, width: int, connectivity: int) -> FloatArray:
    """Features of a grid's edges that tell only their direction: one column for each."""
    counts = [len(edges) for edges in grid_edges(height, width, connectivity)]
    return np.repeat(np.eye(len(counts)), counts, axis=0)


def check_edge_features(
    given: Sequence[Any] | None,
    sizes: list[tuple[int, int]],
    connectivity: int,
    n_features: int | None = None,
) -> list[Any]:
    """Features of the edges of every image, in the order of `grid_graph`; by default indicators of the direction."""
    if given is None:
        made = {size: direction_indicators(*size, connectivity) for size in set(sizes)}
        found: list[Any] = [made[size] for size in sizes]
    else:
        if len(given) != len(sizes):
            raise InvalidInputError(
                f"{len(given)} arrays of edge features for {len(sizes)} images. Give one for each image."
            )
        found = []
        for i, (features, size) in enumerate(zip(given, sizes, strict=True)):
            n_edges = sum(len(edges) for edges in grid_edges(*size, connectivity))
            owner = f"the {size[0]}x{size[1]} grid of X[{i}] has {n_edges} edges, in the order of grid_graph"
            found.append(check_features(features, f"edge_features[{i}]", n_edges, owner))
    for i, features in enumerate(found):
        n_features = features.shape[1] if n_features is None else n_features
        if features.shape[1] != n_features:
            raise InvalidInputError(
                f"edge_features[{i}] has {features.shape[1]} columns, but the model has {n_features}. Give "
                f"every image the same features; leave edge_features out just where fit had none."
            )
    return found
