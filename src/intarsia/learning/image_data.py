"""Images with labels as the grid model needs them: checked, with classes turned into states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from intarsia._validation import FloatArray, IntArray, as_float_array, as_int_array
from intarsia.exceptions import InvalidInputError
from intarsia.graph.shapes import grid_edges


def check_images(X: Any, where: str, n_features: int | None = None) -> list[FloatArray]:
    """Images as (H, W, p) float arrays: at least one, finite, all with the same number of features."""
    if isinstance(X, (str, bytes)) or not hasattr(X, "__len__"):
        raise InvalidInputError(f"{where}: X must be a list of (H, W, n_features) arrays, got {type(X).__name__}.")
    if len(X) == 0:
        raise InvalidInputError(f"{where}: X is empty. Give at least one image.")
    images = []
    for i, given in enumerate(X):
        image = as_float_array(given, f"{where}: X[{i}]")
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
    given: Sequence[Any] | None, images: list[FloatArray], connectivity: int, where: str, n_features: int | None = None
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
        found = [
            features if sparse.issparse(features) else as_float_array(features, f"{where}: edge_features[{i}]")
            for i, features in enumerate(given)
        ]
    for i, (features, size) in enumerate(zip(found, sizes, strict=True)):
        n_edges = sum(len(edges) for edges in grid_edges(*size, connectivity))
        if features.ndim != 2 or features.shape[0] != n_edges:
            raise InvalidInputError(
                f"{where}: edge_features[{i}] has shape {features.shape}, but the {size[0]}x{size[1]} grid of X[{i}] "
                f"has {n_edges} edges. Give a row for each, in the order of grid_graph."
            )
        n_features = features.shape[1] if n_features is None else n_features
        if features.shape[1] != n_features:
            raise InvalidInputError(
                f"{where}: edge_features[{i}] has {features.shape[1]} columns, but the model has {n_features}. Give "
                f"every image the same features; leave edge_features out just where fit had none."
            )
        values: Any = features
        if not np.isfinite(values.data if sparse.issparse(features) else values).all():
            raise InvalidInputError(f"{where}: edge_features[{i}] contains NaN or infinity. Features must be finite.")
    return found


def check_labels(y: Any, images: list[FloatArray], where: str) -> list[NDArray[Any]]:
    """Labels of every image as whole numbers (H, W), or booleans (H, W, n_classes) of what is allowed."""
    if not hasattr(y, "__len__") or len(y) != len(images):
        n = len(y) if hasattr(y, "__len__") else type(y).__name__
        raise InvalidInputError(f"{where}: X has {len(images)} images, but y has {n}. Give labels for each image.")
    labels: list[NDArray[Any]] = []
    for i, (given, image) in enumerate(zip(y, images, strict=True)):
        array = np.asarray(given)
        sets = array.dtype.kind == "b" and array.ndim == 3
        if array.shape[:2] != image.shape[:2] or array.ndim != 2 + sets:
            raise InvalidInputError(
                f"{where}: y[{i}] has shape {array.shape} but X[{i}] has shape {image.shape}. Give one label per "
                f"pixel; use -1 for a hidden label."
            )
        labels.append(array if sets else as_int_array(array, f"{where}: y[{i}]"))
    return labels


def find_classes(labels: list[NDArray[Any]], classes: ArrayLike | None, where: str) -> IntArray:
    """Sorted classes: those given, or those that occur; with boolean labels, 0 up to their last axis."""
    if classes is not None:
        found = as_int_array(classes, f"{where}: classes").reshape(-1)
        if np.unique(found).size != found.size or (found < 0).any():
            raise InvalidInputError(
                f"{where}: classes must be different whole numbers from 0 on, got {found.tolist()}."
            )
        found = np.sort(found)
    else:
        widths = [array.shape[2] for array in labels if array.ndim == 3]
        if widths:
            found = np.arange(widths[0])
        else:
            values = np.unique(np.concatenate([np.unique(array) for array in labels]))
            if values.tolist() == [-1, 1]:
                raise InvalidInputError(
                    f"{where}: the labels are -1 and 1, and -1 means hidden. Use 0 and 1 for two classes; if all the "
                    f"rest is hidden indeed, give classes=[0, 1]."
                )
            found = values[values >= 0]
            if found.size == 0 and (values == -1).all():
                raise InvalidInputError(f"{where}: all labels are hidden. Label some pixels.")
    if found.size < 2:
        raise InvalidInputError(
            f"{where}: the classes are {found.tolist()}. Give labels of at least two, or name them with classes=."
        )
    return found


def as_states(labels: list[NDArray[Any]], classes: IntArray, where: str) -> list[NDArray[Any]]:
    """Labels as states, flat over the pixels: the position among the classes, -1 for hidden; sets as they are."""
    states: list[NDArray[Any]] = []
    for i, array in enumerate(labels):
        if array.ndim == 3:
            if array.shape[2] != classes.size:
                raise InvalidInputError(
                    f"{where}: y[{i}] allows among {array.shape[2]} classes, but there are {classes.size}."
                )
            empty = ~array.any(axis=2)
            if empty.any():
                r, c = (int(at) for at in np.unravel_index(int(np.argmax(empty)), empty.shape))
                raise InvalidInputError(
                    f"{where}: y[{i}][{r}, {c}] allows no class. Allow all of them where the label is hidden."
                )
            states.append(array.reshape(-1, classes.size))
            continue
        at = np.searchsorted(classes, array).clip(max=classes.size - 1)
        wrong = (classes[at] != array) & (array != -1)
        if wrong.any():
            r, c = (int(p) for p in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
            raise InvalidInputError(
                f"{where}: y[{i}][{r}, {c}] is {array[r, c]}, but the classes are {classes.tolist()}. Use -1 for a "
                f"hidden label."
            )
        states.append(np.where(array == -1, -1, at).reshape(-1))
    return states
