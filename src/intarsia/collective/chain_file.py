"""A fitted `CollectiveChain` as a file, and back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from intarsia._validation import frozen
from intarsia.collective.moves import Moves
from intarsia.collective.noise import NOISES
from intarsia.exceptions import InvalidInputError
from intarsia.inference.result import Status
from intarsia.learning.model_file import (
    check_notes,
    damaged,
    read_model,
    settings_from_json,
    settings_to_json,
    write_model,
)

if TYPE_CHECKING:
    from intarsia.collective.collective_chain import CollectiveChain

KIND = "CollectiveChain"


def save_collective_chain(model: CollectiveChain, path: str | os.PathLike[str], notes: Any) -> None:
    """Write a fitted model with the counts it was fitted to, from which its walkers and flows are found again."""
    where = "CollectiveChain.save"
    check_notes(notes, where)
    settings = model.get_params(deep=False)
    about = {
        "settings": settings_to_json({name: settings[name] for name in settings if name != "moves"}, where),
        "moves_given": model.moves is not None,
        "names": list(model.moves_.names),
        "n_walkers": model.n_walkers_,
        "objective": model.objective_,
        "n_iter": model.n_iter_,
        "status": model.status_.name,
        "notes": notes,
    }
    arrays = {
        "ptr": model.moves_.ptr, "idx": model.moves_.idx, "features": model.moves_.features,
        "seasons": np.asarray(model.seasons_), "weights": model.weights_, "initial": model.initial_,
        "log_probabilities": model.log_probabilities_, "counts": model.counts_, "tilt": np.asarray(model.result_.tilt),
        "history_objective": model.history_["objective"],
    }  # fmt: skip
    write_model(path, KIND, about, arrays)


def load_collective_chain(cls: type[CollectiveChain], path: str | os.PathLike[str]) -> CollectiveChain:
    """The model of a file; everything in it is checked before it is used."""
    about, arrays = read_model(path, KIND)
    try:
        return _restore(cls, about, arrays)
    except (InvalidInputError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        raise damaged(path) from None


def _restore(cls: type[CollectiveChain], about: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> CollectiveChain:
    moves = _moves(arrays, about["names"])
    settings = settings_from_json(about["settings"], {"noise": NOISES.resolve})
    model = cls(moves if about["moves_given"] else None, **settings)
    counts, n_seasons = arrays["counts"].astype(np.float64), len(arrays["seasons"])
    if counts.ndim != 2 or counts.shape[1] != moves.n_cells or np.isinf(counts).any() or (counts < 0).any():
        raise ValueError("counts")
    wanted = {
        "initial": (moves.n_cells,),
        "log_probabilities": (n_seasons, moves.idx.size),
        "weights": (n_seasons, arrays["weights"].shape[1]),
    }
    found = {name: arrays[name].astype(np.float64) for name in wanted}
    for name, shape in wanted.items():
        if found[name].shape != shape or not np.isfinite(found[name]).all():
            raise ValueError(name)
    if not (found["initial"] > 0.0).all() or not 0.0 < float(about["n_walkers"]) < np.inf:
        raise ValueError("walkers")
    model.moves_, model.seasons_, model.counts_ = moves, arrays["seasons"], counts
    model.initial_, model.log_probabilities_, model.weights_ = (
        found["initial"],
        found["log_probabilities"],
        found["weights"],
    )
    model.n_walkers_, model.objective_ = float(about["n_walkers"]), float(about["objective"])
    model.n_iter_, model.status_ = int(about["n_iter"]), Status[about["status"]]
    model.history_ = {"objective": arrays["history_objective"].astype(np.float64)}
    model.n_features_in_, model.notes_ = moves.n_cells, about["notes"]
    model.settle(arrays["tilt"].astype(np.float64))
    return model


def _moves(arrays: dict[str, NDArray[Any]], names: Any) -> Moves:
    """Kernels read the pattern without looking: an index out of range must not get there."""
    ptr, idx = arrays["ptr"].astype(np.int64), arrays["idx"].astype(np.int64)
    features = arrays["features"].astype(np.float64)
    if (
        ptr.ndim != 1
        or ptr.size < 2
        or ptr[0] != 0
        or ptr[-1] != idx.size
        or (np.diff(ptr) < 1).any()
        or idx.ndim != 1
        or idx.min() < 0
        or idx.max() >= ptr.size - 1
        or features.shape != (idx.size, len(names))
        or not np.isfinite(features).all()
    ):
        raise ValueError("moves")
    return Moves(frozen(ptr), frozen(idx), frozen(features), tuple(map(str, names)))
