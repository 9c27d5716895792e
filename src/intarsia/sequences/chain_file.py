"""Conversion of a fitted `ChainCRF` to and from the content of a file: JSON settings and arrays of weights."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia._files.saved_model import (
    Arrays,
    Content,
    course_from_file,
    course_to_file,
    finite_array,
    index_rows,
    labels_from_json,
    names_from_arrays,
    names_to_arrays,
    number_from_json,
    number_to_json,
)
from intarsia.energies import ConstantPsi
from intarsia.energies.binding.batch_energies import list_energies
from intarsia.exceptions import InvalidInputError
from intarsia.learning.energy_risk import StrengthTable
from intarsia.models.chain_scores import ChainLayout
from intarsia.models.sequence_features import SequenceVectorizer
from intarsia.sequences.chain_data import Constraints
from intarsia.sequences.energy_fit import bind_energies, resolve_energies
from intarsia.sequences.fitted_energies import FittedEnergies

if TYPE_CHECKING:
    from intarsia.sequences.chain_crf import ChainCRF
    from intarsia.sequences.regularization_path import L2Path

# Limit of sequence length times number of energies, so that a damaged file cannot exhaust the memory.
_MAX_READINGS = 10**7


def chain_crf_to_file(crf: ChainCRF) -> Content:
    """Return the learned attributes of a fitted model as JSON values and arrays.

    If most weights of features are 0, as after L1 regularization, neither they nor features without another weight are
    in the file. The loaded model predicts the same, but cannot learn these weights any more.
    """
    layout, constraints, weights, vocabulary = crf.layout_, crf.constraints_, crf.weights_, crf.vocabulary_
    # Weights psi that depend on the input have a coefficient for each feature.
    reads_features = crf.energies_ is not None and not isinstance(crf.energies_.psi, ConstantPsi)
    if 2 * np.count_nonzero(weights[: layout.n_states]) < layout.n_states and not reads_features:
        layout, weights, features = layout.without_zeros(weights, all_features=vocabulary is None)
        vocabulary = None if vocabulary is None else [vocabulary[f] for f in features.tolist()]
    course, histories = course_to_file(crf.n_iter_, crf.status_, crf.history_)
    values = {
        **course,
        "classes": crf.classes_.tolist(),
        "n_names": None if vocabulary is None else len(vocabulary),
        "string_tokens": crf.vectorizer_.string_tokens_,
        "n_features": layout.n_features,
        "ends": layout.ends,
        "n_edge_features": layout.n_edge_features,
        "by_pair": layout.pair_label is not None,
        "risk": number_to_json(crf.risk_),
        "temperature": number_to_json(crf.temperature_),
        "l2": None if crf.l2_ is None else float(crf.l2_),
        "l2_scoring": None if crf.l2_path_ is None else crf.l2_path_.scoring,
    }
    arrays: Arrays = {
        **histories,
        "weights": weights,
        "forbidden_transitions": constraints.transitions < 0,
        "forbidden_start": constraints.start < 0,
        "forbidden_end": constraints.end < 0,
    }
    if vocabulary is not None:
        arrays |= names_to_arrays(vocabulary, "vocabulary")
    if crf.l2_path_ is not None:
        arrays |= {"l2_values": crf.l2_path_.values, "l2_scores": crf.l2_path_.scores}
    if crf.expectations_ is not None:
        values["expectations"] = crf.expectations_.to_json()
    if crf.energies_ is not None:
        energies = crf.energies_.energies
        if energies.length * len(energies.members) > _MAX_READINGS:
            raise InvalidInputError(
                f"{len(energies.members)} energies on a sequence of {energies.length} positions are more than a file "
                f"can contain. Fit with shorter sequences, or with fewer energies."
            )
        values["energy_length"] = energies.length
        values["energy_history"] = sorted(crf.energy_history_)
        table = crf.energies_.table
        values["strengths"] = [[*row[:1], number_to_json(row.strength), *row[2:]] for row in table]
        values["n_held_out"] = table.n_held_out
        arrays["psi_weights"], arrays["psi_active"] = crf.energies_.weights, crf.energies_.active
        arrays |= {f"energy_history_{name}": history for name, history in crf.energy_history_.items()}
    if layout.pair_ptr is not None and layout.pair_label is not None:
        arrays |= {"pair_ptr": layout.pair_ptr, "pair_label": layout.pair_label}
    return values, arrays


def chain_crf_from_file(crf: ChainCRF, values: dict[str, Any], arrays: Arrays) -> None:
    """Set the attributes of a new model from the content of a file; every value is checked before use."""
    classes = labels_from_json(values["classes"])
    k = classes.size
    if k < 2:
        raise ValueError("classes")
    n_features = int(values["n_features"])
    if values["n_names"] is None:
        vectorizer = SequenceVectorizer.from_vocabulary([], min_count=crf.min_count)
        vectorizer.vocabulary_, vectorizer.n_features_ = None, n_features
    else:
        text, ptr = names_from_arrays(arrays, "vocabulary")
        vocabulary = [text[a:b] for a, b in pairwise(ptr.tolist())]
        if values["n_names"] != len(vocabulary):
            raise ValueError("vocabulary")
        vectorizer = SequenceVectorizer.from_vocabulary(vocabulary, min_count=crf.min_count)
        vectorizer.string_tokens_ = bool(values["string_tokens"])
    if vectorizer.n_features_ != n_features or n_features < 0:
        raise ValueError("n_features")
    pair_ptr = pair_label = None
    if values["by_pair"]:
        pair_ptr, labels = index_rows(arrays, "pair_ptr", "pair_label", k)
        pair_label = labels.astype(np.int32)
        if pair_ptr.size != n_features + 1:
            raise ValueError("pairs")
    layout = ChainLayout(n_features, k, pair_ptr, pair_label, bool(values["ends"]), int(values["n_edge_features"]))
    if layout.n_edge_features < 0:
        raise ValueError("n_edge_features")
    weights = finite_array(arrays, "weights", (layout.n_weights,))
    masks = [arrays[f"forbidden_{name}"] for name in ("transitions", "start", "end")]
    if [(mask.shape, mask.dtype.kind) for mask in masks] != [((k, k), "b"), ((k,), "b"), ((k,), "b")]:
        raise ValueError("forbidden")
    crf.classes_, crf.vectorizer_, crf.layout_, crf.weights_ = classes, vectorizer, layout, weights
    crf.constraints_ = Constraints(*(np.where(mask, -np.inf, 0.0) for mask in masks))
    crf.n_iter_, crf.status_, crf.history_ = course_from_file(values, arrays)
    crf.risk_, crf.temperature_ = number_from_json(values["risk"]), number_from_json(values.get("temperature", 1.0))
    crf.l2_ = None if values["l2"] is None else float(values["l2"])
    if values["l2_scoring"] is not None:
        crf.l2_path_ = _path_from_file(crf, str(values["l2_scoring"]), arrays)
    crf.expectations_ = None
    if "expectations" in values:
        from intarsia.learning.expectations import ExpectationTable

        crf.expectations_ = ExpectationTable.from_json(values["expectations"])
    if "energy_length" in values:
        crf.energies_ = _energies_from_file(crf, values, arrays)
        names = values["energy_history"]
        crf.energy_history_ = {name: arrays[f"energy_history_{name}"].astype(np.float64) for name in names}


def _path_from_file(crf: ChainCRF, scoring: str, arrays: Arrays) -> L2Path:
    from intarsia.sequences.regularization_path import L2Path

    scores = arrays["l2_scores"]
    if crf.l2_ is None or scores.ndim != 2:
        raise ValueError("l2_scores")
    return L2Path(
        crf.l2_,
        finite_array(arrays, "l2_values", scores.shape[:1]),
        finite_array(arrays, "l2_scores", scores.shape),
        scoring,
    )


def _energies_from_file(crf: ChainCRF, values: dict[str, Any], arrays: Arrays) -> FittedEnergies:
    parts, length = resolve_energies(crf), int(values["energy_length"])
    if parts is None or not 0 < length * len(list_energies(crf.energies)) <= _MAX_READINGS:
        raise ValueError("energies")
    energies = bind_energies(crf, crf.classes_, length)
    weights = finite_array(arrays, "psi_weights", (energies.n_psi, parts.psi.n_features(crf.layout_.n_features)))
    active = arrays["psi_active"]
    if active.shape != (energies.n_psi,) or active.dtype.kind != "b":
        raise ValueError("psi_active")
    rows = [(str(name), number_from_json(strength), *rest) for name, strength, *rest in values["strengths"]]
    if len(rows) != energies.n_psi:
        raise ValueError("strengths")
    table = StrengthTable(rows, int(values["n_held_out"]))
    return FittedEnergies(energies, parts.psi, weights, parts.method, active, table)
