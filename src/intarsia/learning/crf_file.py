"""A fitted `GridCRF` or `GraphCRF` as a file, and back: settings, types and labels as JSON, weights as arrays."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from intarsia.exceptions import InvalidInputError
from intarsia.gradients.registry import resolve_gradient
from intarsia.inference.registry import resolve_method
from intarsia.inference.result import Status
from intarsia.learning.model_file import (
    check_notes,
    damaged,
    read_model,
    settings_from_json,
    settings_to_json,
    write_model,
)
from intarsia.learning.registry import SCHEDULES, resolve_learner, resolve_optimizer
from intarsia.losses.registry import resolve_loss
from intarsia.models.template_scores import Templates

if TYPE_CHECKING:
    from intarsia.learning.crf import CRF

Model = TypeVar("Model", bound="CRF")

_RESOLVERS: dict[str, Any] = {
    "learner": resolve_learner,
    "loss": resolve_loss,
    "gradient": resolve_gradient,
    "optimizer": resolve_optimizer,
    "schedule": SCHEDULES.resolve,
    **dict.fromkeys(("inference", "free", "clamped"), resolve_method),
}
# A damaged file must not ask for more weights than any memory holds.
_MOST_WEIGHTS = 10**10


def save_crf(crf: CRF, path: str | os.PathLike[str], notes: Any) -> None:
    """Write a fitted model."""
    kind = type(crf).__name__
    check_notes(notes, f"{kind}.save")
    templates, named = crf.templates_, isinstance(crf.classes_, dict)
    classes = crf.classes_ if named else {next(iter(templates.n_states)): crf.classes_}
    about = {
        "settings": settings_to_json(crf.get_params(deep=False), f"{kind}.save"),
        # Lists of pairs, since the order of the types is that of the weights.
        "classes": [[name, labels.tolist()] for name, labels in classes.items()],
        "named": named,
        "n_features": [[name, int(n)] for name, n in templates.n_features.items()],
        "scopes": [[name, list(kinds)] for name, kinds in templates.scopes.items()],
        "n_factor_features": [[name, int(n)] for name, n in templates.n_factor_features.items()],
        "symmetric": sorted(templates.symmetric),
        "n_iter": int(crf.n_iter_),
        "risk": float(crf.risk_) if np.isfinite(crf.risk_) else None,
        "status": crf.status_.name,
        "history": sorted(crf.history_),
        "notes": notes,
    }
    arrays = {"weights": crf.weights_, "initial_weights": crf.initial_weights_}
    arrays |= {f"history_{name}": np.asarray(values) for name, values in crf.history_.items()}
    write_model(path, kind, about, arrays)


def load_crf(cls: type[Model], path: str | os.PathLike[str]) -> Model:
    """The model of a file; everything in it is checked before it is used."""
    about, arrays = read_model(path, cls.__name__)
    try:
        return _restore(cls, about, arrays)
    except (InvalidInputError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        raise damaged(path) from None


def _restore(cls: type[Model], about: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Model:
    crf = cls(**settings_from_json(about["settings"], _RESOLVERS))
    classes = {str(name): np.array(labels) for name, labels in about["classes"]}
    for labels in classes.values():
        if labels.ndim != 1 or labels.dtype.kind not in "biU" or np.unique(labels).size != labels.size:
            raise ValueError("classes")
    templates = Templates(
        {name: labels.size for name, labels in classes.items()},
        _counts(about["n_features"]),
        {str(name): tuple(map(str, kinds)) for name, kinds in about["scopes"]},
        _counts(about["n_factor_features"]),
        frozenset(map(str, about["symmetric"])),
    )
    if list(templates.n_features) != list(classes) or list(templates.n_factor_features) != list(templates.scopes):
        raise ValueError("types")
    sizes = [labels.size * templates.n_features[name] for name, labels in classes.items()]
    sizes += [np.prod(templates.table_shape(name), dtype=float) * n for name, n in templates.n_factor_features.items()]
    if sum(map(float, sizes)) > _MOST_WEIGHTS:
        raise ValueError("weights")
    weights, first = (arrays[name].astype(np.float64) for name in ("weights", "initial_weights"))
    if not weights.shape == first.shape == (templates.n_weights,) or not np.isfinite([weights, first]).all():
        raise ValueError("weights")
    crf.templates_, crf.weights_, crf.initial_weights_ = templates, weights, first
    crf.classes_ = classes if about["named"] else next(iter(classes.values()))
    crf.history_ = {str(name): arrays[f"history_{name}"] for name in about["history"]}
    crf.n_iter_, crf.status_ = int(about["n_iter"]), Status[about["status"]]
    crf.risk_ = np.nan if about["risk"] is None else float(about["risk"])
    crf.notes_ = about["notes"]
    return crf


def _counts(pairs: Any) -> dict[str, int]:
    counts = {str(name): int(n) for name, n in pairs}
    if any(n < 0 for n in counts.values()):
        raise ValueError("counts")
    return counts
