"""A fitted `ChainCRF` as a file, and back: settings, vocabulary and labels as JSON, weights as arrays."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia.energies.registry import ENERGY_PARTS, resolve_psi
from intarsia.exceptions import FileFormatError, InvalidInputError
from intarsia.inference.registry import resolve_method
from intarsia.inference.result import Status
from intarsia.learning.energy_fit import bind_energies, resolve_energies
from intarsia.learning.fitted_energies import FittedEnergies
from intarsia.learning.model_file import (
    check_notes,
    damaged,
    read_model,
    settings_from_json,
    settings_to_json,
    write_model,
)
from intarsia.learning.registry import resolve_chain_learner, resolve_energy_learner, resolve_optimizer
from intarsia.learning.tag_schemes import Constraints
from intarsia.models.chain_scores import ChainLayout
from intarsia.models.sequence_features import SequenceVectorizer

if TYPE_CHECKING:
    from intarsia.learning.chain_crf import ChainCRF

KIND = "ChainCRF"
# A damaged file must not ask for a graph that no memory holds.
_LONGEST = 10**6


def save_chain_crf(crf: ChainCRF, path: str | os.PathLike[str], notes: Any) -> None:
    """Write a fitted model."""
    where = "ChainCRF.save"
    check_notes(notes, where)
    layout, bounds = crf.layout_, crf.constraints_
    about = {
        "settings": settings_to_json(crf.get_params(deep=False), where),
        "classes": crf.classes_.tolist(),
        "vocabulary": crf.vocabulary_,
        "n_features": layout.n_features,
        "ends": layout.ends,
        "n_edge_features": layout.n_edge_features,
        "by_pair": layout.pair_label is not None,
        "n_iter": int(crf.n_iter_),
        "risk": float(crf.risk_) if np.isfinite(crf.risk_) else None,
        "status": crf.status_.name,
        "history": sorted(crf.history_),
        "notes": notes,
    }
    arrays = {
        "weights": crf.weights_,
        "forbidden_transitions": bounds.transitions < 0,
        "forbidden_start": bounds.start < 0,
        "forbidden_end": bounds.end < 0,
    }
    if crf.energies_ is not None:
        about["energy_length"] = crf.energies_.energies.length
        about["energy_history"] = sorted(crf.energy_history_)
        arrays["psi_weights"] = crf.energies_.weights
        arrays |= {f"energy_history_{name}": values for name, values in crf.energy_history_.items()}
    arrays |= {f"history_{name}": values for name, values in crf.history_.items()}
    if layout.pair_ptr is not None and layout.pair_label is not None:
        arrays |= {"pair_ptr": layout.pair_ptr, "pair_label": layout.pair_label}
    write_model(path, KIND, about, arrays)


def load_chain_crf(cls: type[ChainCRF], path: str | os.PathLike[str]) -> ChainCRF:
    """The model of a file; everything in it is checked before it is used."""
    about, arrays = read_model(path, KIND)
    try:
        return _restore(cls, about, arrays)
    except FileFormatError:
        raise
    except (InvalidInputError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        raise damaged(path) from None


def _restore(cls: type[ChainCRF], about: dict[str, Any], arrays: dict[str, Any]) -> ChainCRF:
    resolvers = {
        "learner": resolve_chain_learner,
        "optimizer": resolve_optimizer,
        "psi": resolve_psi,
        "inference": resolve_method,
        "oracle": resolve_method,
        "energy_learner": resolve_energy_learner,
        **dict.fromkeys(("", "energies", "measurement", "judgement"), ENERGY_PARTS.resolve),
    }
    crf = cls(**settings_from_json(about["settings"], resolvers))
    classes = np.array(about["classes"])
    k, vocabulary = classes.size, about["vocabulary"]
    if classes.ndim != 1 or classes.dtype.kind not in "biU" or np.unique(classes).size != k or k < 2:
        raise ValueError("classes")
    n_features = int(about["n_features"])
    if vocabulary is None:
        vectorizer = SequenceVectorizer.from_vocabulary([], min_count=crf.min_count)
        vectorizer.vocabulary_, vectorizer.n_features_ = None, n_features
    else:
        if not all(isinstance(name, str) for name in vocabulary):
            raise ValueError("vocabulary")
        vectorizer = SequenceVectorizer.from_vocabulary(vocabulary, min_count=crf.min_count)
    if vectorizer.n_features_ != n_features or n_features < 0:
        raise ValueError("n_features")
    pair_ptr = pair_label = None
    if about["by_pair"]:
        pair_ptr, pair_label = arrays["pair_ptr"].astype(np.int64), arrays["pair_label"].astype(np.int32)
        # Kernels read these without looking: an index out of range must not get there.
        if (
            pair_ptr.shape != (n_features + 1,)
            or pair_label.ndim != 1
            or pair_ptr[0] != 0
            or pair_ptr[-1] != pair_label.size
            or (np.diff(pair_ptr) < 0).any()
            or (pair_label.size and (pair_label.min() < 0 or pair_label.max() >= k))
        ):
            raise ValueError("pairs")
    layout = ChainLayout(n_features, k, pair_ptr, pair_label, bool(about["ends"]), int(about["n_edge_features"]))
    weights = arrays["weights"].astype(np.float64)
    if layout.n_edge_features < 0 or weights.shape != (layout.n_weights,) or not np.isfinite(weights).all():
        raise ValueError("weights")
    masks = [arrays[f"forbidden_{name}"] for name in ("transitions", "start", "end")]
    if [(mask.shape, mask.dtype.kind) for mask in masks] != [((k, k), "b"), ((k,), "b"), ((k,), "b")]:
        raise ValueError("forbidden")
    crf.classes_, crf.vectorizer_, crf.layout_, crf.weights_ = classes, vectorizer, layout, weights
    crf.constraints_ = Constraints(*(np.where(mask, -np.inf, 0.0) for mask in masks))
    crf.history_ = {name: arrays[f"history_{name}"].astype(np.float64) for name in about["history"]}
    crf.n_iter_, crf.status_ = int(about["n_iter"]), Status[about["status"]]
    crf.risk_ = np.nan if about["risk"] is None else float(about["risk"])
    crf.notes_ = about["notes"]
    if "energy_length" in about:
        crf.energies_ = _restore_energies(crf, int(about["energy_length"]), arrays["psi_weights"].astype(np.float64))
        names = about["energy_history"]
        crf.energy_history_ = {name: arrays[f"energy_history_{name}"].astype(np.float64) for name in names}
    return crf


def _restore_energies(crf: ChainCRF, length: int, weights: Any) -> FittedEnergies:
    if not 0 < length <= _LONGEST:
        raise ValueError("energy_length")
    parts = resolve_energies(crf, "ChainCRF.load")
    if parts is None:
        raise ValueError("energies")
    energies = bind_energies(crf, crf.classes_, length, "ChainCRF.load")
    one = np.zeros((1, crf.layout_.n_features))
    n_features = parts.psi.features_of(one, np.array([0, 1])).shape[1]
    if weights.shape != (energies.n_psi, n_features) or not np.isfinite(weights).all():
        raise ValueError("psi_weights")
    return FittedEnergies(energies, parts.psi, weights, parts.method)
