"""Saving of a fitted `CollectiveChain` to a file, and loading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia._core.settings import clone
from intarsia._core.validation import frozen
from intarsia._files.saved_model import Arrays, Content, course_from_file, course_to_file, finite_array, index_rows
from intarsia.collective.moves import Moves
from intarsia.collective.noise import NOISES

if TYPE_CHECKING:
    from intarsia.collective.collective_chain import CollectiveChain


def collective_chain_to_file(model: CollectiveChain) -> Content:
    """Return the learned attributes of a fitted model and its counts, from which walkers and flows are recomputed."""
    course, histories = course_to_file(model.n_iter_, model.status_, model.history_)
    document = {
        **course,
        "moves_given": model.moves is not None,
        "names": list(model.moves_.names),
        "n_walkers": model.n_walkers_,
        "objective": model.objective_,
        "rate": float(model.noise_.rate) if model.learn_noise else None,
    }
    arrays: Arrays = {
        **histories, "ptr": model.moves_.ptr, "idx": model.moves_.idx, "features": model.moves_.features,
        "seasons": np.asarray(model.seasons_), "weights": model.weights_, "initial": model.initial_,
        "log_probabilities": model.log_probabilities_, "counts": model.counts_, "tilt": model.tilt_,
    }  # fmt: skip
    return document, arrays


def collective_chain_from_file(model: CollectiveChain, document: dict[str, Any], arrays: Arrays) -> None:
    """Put the content of a file into a new model; all values are checked before use."""
    moves = _moves(arrays, document["names"])
    model.moves = moves if document["moves_given"] else None
    counts, n_seasons = arrays["counts"].astype(np.float64), len(arrays["seasons"])
    if counts.ndim != 2 or counts.shape[1] != moves.n_cells or np.isinf(counts).any() or (counts < 0).any():
        raise ValueError("counts")
    model.initial_ = finite_array(arrays, "initial", (moves.n_cells,))
    model.log_probabilities_ = finite_array(arrays, "log_probabilities", (n_seasons, moves.idx.size))
    model.weights_ = finite_array(arrays, "weights", (n_seasons, arrays["weights"].shape[1]))
    model.tilt_ = finite_array(arrays, "tilt", (int((~np.isnan(counts)).sum()),))
    if not (model.initial_ > 0.0).all() or not 0.0 < float(document["n_walkers"]) < np.inf:
        raise ValueError("walkers")
    model.moves_, model.seasons_, model.counts_ = moves, arrays["seasons"], counts
    model.n_walkers_, model.objective_ = float(document["n_walkers"]), float(document["objective"])
    model.n_iter_, model.status_, model.history_ = course_from_file({"history": ["objective"], **document}, arrays)
    model.n_features_in_ = moves.n_cells
    model.noise_ = NOISES.resolve(model.noise)
    if document["rate"] is not None:
        if not 0.0 < float(document["rate"]) < np.inf:
            raise ValueError("rate")
        model.noise_ = clone(model.noise_).set_params(rate=float(document["rate"]))


def _moves(arrays: Arrays, names: Any) -> Moves:
    """Return the moves stored in a file."""
    ptr, idx = index_rows(arrays, "ptr", "idx", arrays["ptr"].size - 1)
    if ptr.size < 2 or (np.diff(ptr) < 1).any():
        raise ValueError("moves")
    features = finite_array(arrays, "features", (idx.size, len(names)))
    return Moves(frozen(ptr), frozen(idx), frozen(features), tuple(map(str, names)))
