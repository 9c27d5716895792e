"""Images with features as the grid model takes them: checked, with features of their edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from intarsia._validation import FloatArray
from intarsia.exceptions import InvalidInputError
from intarsia.graph.shapes import grid_edges
from intarsia.models.feature_matrix import as_features, check_features


@dataclass(frozen=True, eq=False)
class Image:
    """Features of one image, (H, W, p), and of its edges, (n_edges, q)."""

    pixels: Any
    edges: Any

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return int(self.pixels.shape[0]), int(self.pixels.shape[1])


def read_images(
    X: Any,
    edge_features: Sequence[Any] | None,
    connectivity: int,
    where: str,
    n_features: int | None = None,
    n_edge_features: int | None = None,
) -> list[Image]:
    """Images with features of their edges, given beside X or as X of pairs (image, edge features)."""
    if isinstance(X, (str, bytes)) or not hasattr(X, "__len__"):
        raise InvalidInputError(f"{where}: X must be a list of (H, W, n_features) arrays, got {type(X).__name__}.")
    if len(X) == 0:
        raise InvalidInputError(f"{where}: X is empty. Give at least one image.")
    pairs = [one for one in X if isinstance(one, tuple)]
    if pairs:
        if len(pairs) != len(X) or any(len(one) != 2 for one in pairs) or edge_features is not None:
            raise InvalidInputError(
                f"{where}: X holds tuples. Give each as (image, edge_features), for every image, and leave the "
                f"argument edge_features out."
            )
        X, edge_features = [image for image, _ in pairs], [edges for _, edges in pairs]
    images = check_images(X, where, n_features)
    edges = check_edge_features(edge_features, images, connectivity, where, n_edge_features)
    return [Image(pixels, features) for pixels, features in zip(images, edges, strict=True)]


def check_images(X: Any, where: str, n_features: int | None = None) -> list[Any]:
    """Images as (H, W, p) arrays: finite, all with the same number of features; single precision stays so."""
    images = []
    for i, given in enumerate(X):
        if sparse.issparse(given):
            raise InvalidInputError(
                f"{where}: X[{i}] is a sparse matrix, but an image is an array (H, W, n_features). For sparse features "
                f"of pixels use GraphCRF, with the edges of grid_graph."
            )
        image = as_features(given, f"{where}: X[{i}]")
        if image.ndim != 3 or 0 in image.shape:
            raise InvalidInputError(
                f"{where}: X[{i}] has shape {image.shape}, expected (H, W, n_features) with none of them 0. "
                f"Give a grey picture as picture[:, :, None]."
            )
        n_features = image.shape[2] if n_features is None else n_features
        if image.shape[2] != n_features:
            raise InvalidInputError(
                f"{where}: X[{i}] has {image.shape[2]} features, but the model has {n_features}. Give every image the "
                f"same features."
            )
        finite = np.isfinite(image)
        if not finite.all():
            r, c, f = (int(at) for at in np.unravel_index(int(np.argmin(finite)), image.shape))
            raise InvalidInputError(
                f"{where}: X[{i}][{r}, {c}, {f}] is {image[r, c, f]}. Features must be finite; fill in what is "
                f"missing, and add a feature that says so."
            )
        images.append(image)
    return images


def direction_indicators(height: int, width: int, connectivity: int) -> FloatArray:
    """Features of a grid's edges that tell only their direction: one column for each."""
    counts = [len(edges) for edges in grid_edges(height, width, connectivity)]
    return np.repeat(np.eye(len(counts)), counts, axis=0)


def check_edge_features(
    given: Sequence[Any] | None, images: list[Any], connectivity: int, where: str, n_features: int | None = None
) -> list[Any]:
    """Features of the edges of every image, in the order of `grid_graph`; by default indicators of the direction."""
    sizes = [(image.shape[0], image.shape[1]) for image in images]
    if given is None:
        made = {size: direction_indicators(*size, connectivity) for size in set(sizes)}
        found: list[Any] = [made[size] for size in sizes]
    else:
        if len(given) != len(images):
            raise InvalidInputError(
                f"{where}: {len(given)} arrays of edge features for {len(images)} images. Give one for each image."
            )
        found = []
        for i, (features, size) in enumerate(zip(given, sizes, strict=True)):
            n_edges = sum(len(edges) for edges in grid_edges(*size, connectivity))
            owner = f"the {size[0]}x{size[1]} grid of X[{i}] has {n_edges} edges, in the order of grid_graph"
            found.append(check_features(features, f"{where}: edge_features[{i}]", n_edges, owner))
    for i, features in enumerate(found):
        n_features = features.shape[1] if n_features is None else n_features
        if features.shape[1] != n_features:
            raise InvalidInputError(
                f"{where}: edge_features[{i}] has {features.shape[1]} columns, but the model has {n_features}. Give "
                f"every image the same features; leave edge_features out just where fit had none."
            )
    return found
