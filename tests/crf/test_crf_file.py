"""Saved models of images, graphs and collective chains: equal predictions after loading, errors for other files."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest
from tests.contracts.saved_models import COUNTS, GRAPHS, IMAGES, QUICK

import intarsia
from intarsia import ChainCRF, CollectiveChain, GraphCRF, GridCRF, RiskMinimizer, StructuredPerceptron, TreeReweighted
from intarsia.collective import GaussianNoise, make_moves
from intarsia.exceptions import FileFormatError, InvalidInputError
from intarsia.learning import Incremental
from intarsia.losses import SurrogateEM

LABELS = [(image[..., 0] > 0).astype(int) for image in IMAGES]


def make(kind):
    """Return a fitted model of a kind, and data for predictions."""
    if kind == "grid":
        return GridCRF(learner=QUICK, classes=[0, 1], class_weight={0: 2.0}).fit(IMAGES, LABELS), IMAGES
    if kind == "perceptron":
        return GridCRF(inference="icm", learner=StructuredPerceptron(max_iter=2)).fit(IMAGES, LABELS), IMAGES
    if kind == "nested":
        learner = RiskMinimizer(
            loss=SurrogateEM(free=TreeReweighted(tol=1e-3), clamped="mean_field"),
            schedule=Incremental(n_start=1, max_iter=3),
            l2=5.0,
        )
        return GridCRF(inference=TreeReweighted(tol=1e-3), learner=learner).fit(IMAGES, LABELS), IMAGES
    if kind == "types":
        X, y = GRAPHS, [{"word": ["a", "b", "a"], "topic": [1]}]
        classes = {"word": ["a", "b"], "topic": [0, 1]}
        return GraphCRF(learner=QUICK, classes=classes, symmetric=["follows"]).fit(X, y), X
    right = np.roll(np.eye(4), 1, axis=1)
    moves = make_moves(np.ones((4, 4)), {"right": right})
    return CollectiveChain(moves, noise=GaussianNoise(2.0), seasons=["a", "a", "b"]).fit(COUNTS), COUNTS


KINDS = ("grid", "perceptron", "nested", "types", "walkers")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore::intarsia.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::intarsia.exceptions.CompatibilityWarning")
def test_a_loaded_model_equals_the_saved_model(kind, tmp_path):
    model, X = make(kind)
    path = tmp_path / "model.npz"
    model.save(path, notes={"made": "here"})
    back = intarsia.load(path)
    assert type(back) is type(model)
    assert back.notes_ == {"made": "here"}
    assert repr(back) == repr(model)
    np.testing.assert_array_equal(back.weights_, model.weights_)
    assert (back.n_iter_, back.status_) == (model.n_iter_, model.status_)
    for name, values in model.history_.items():
        np.testing.assert_array_equal(back.history_[name], values)
    for one, other in zip(flat(model.predict(X)), flat(back.predict(X)), strict=True):
        np.testing.assert_array_equal(one, other)
    back.save(tmp_path / "again.npz", notes={"made": "here"})
    assert (tmp_path / "again.npz").read_bytes() == path.read_bytes()


def flat(answers):
    return [part for one in answers for part in (one.values() if isinstance(one, dict) else [one])]


def test_flows_of_the_fit_are_restored(tmp_path):
    model, _ = make("walkers")
    model.save(tmp_path / "w.npz")
    back = intarsia.load(tmp_path / "w.npz")
    np.testing.assert_allclose(back.flows(1), model.flows(1), rtol=1e-6, atol=1e-6)
    assert back.moves_.names == ("right",)
    np.testing.assert_allclose(back.infer(COUNTS).walkers, model.infer(COUNTS).walkers, rtol=1e-6)


# ---------------------------------------------------------------- errors


def edit(path, **entries):
    """Change entries of the JSON member at any depth."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    head = json.loads(members["model.json"])
    for key, value in entries.items():
        (head if key in head else head["about"])[key] = value
    members["model.json"] = json.dumps(head).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


@pytest.mark.parametrize(
    "entries",
    [
        {"classes": [["pixel", [0, 0]]]}, {"classes": [["pixel", [0, 1, 2]]]}, {"classes": 3}, {"classes": []},
        {"n_features": [["pixel", -1]]}, {"n_features": [["pixel", 10**12]]}, {"n_features": [["other", 2]]},
        {"scopes": [["edge", ["nobody", "pixel"]]]}, {"symmetric": ["nobody"]}, {"status": "FINE"},
        {"history": ["none"]}, {"settings": {"dict": [["learner", {"object": "os.system", "settings": {}}]]}},
        {"settings": {"dict": [["no", 1]]}}, {"arrays": ["weights"]},
    ],
)  # fmt: skip
def test_damaged_files_raise(entries, tmp_path):
    path = tmp_path / "model.npz"
    make("grid")[0].save(path)
    edit(path, **entries)
    with pytest.raises(FileFormatError, match="damaged"):
        intarsia.load(path)


@pytest.mark.parametrize(
    "change",
    [
        {"names": []}, {"n_walkers": 0}, {"n_walkers": "many"}, {"status": "FINE"},
        {"settings": {"dict": [["noise", {"object": "thunder", "settings": {}}]]}},
    ],
)  # fmt: skip
def test_damaged_files_of_collective_chains_raise(change, tmp_path):
    path = tmp_path / "walkers.npz"
    make("walkers")[0].save(path)
    edit(path, **change)
    with pytest.raises(FileFormatError, match="damaged"):
        intarsia.load(path)


def test_files_of_another_version_or_class_raise(tmp_path):
    path = tmp_path / "model.npz"
    make("grid")[0].save(path)
    with pytest.raises(FileFormatError, match=r"holds a GridCRF, not a ChainCRF"):
        ChainCRF.load(path)
    edit(path, kind="Oracle")
    with pytest.raises(FileFormatError, match=r"holds a Oracle, which this version cannot load"):
        intarsia.load(path)
    edit(path, version=99)
    with pytest.raises(FileFormatError, match=r"version 99 .* Install a newer version"):
        intarsia.load(path)


def test_what_cannot_be_saved(tmp_path):
    model, _ = make("grid")
    with pytest.raises(InvalidInputError, match="notes cannot be written as JSON"):
        model.save(tmp_path / "m.npz", notes=object())
    with pytest.raises(InvalidInputError, match="there is no folder"):
        model.save(tmp_path / "none" / "m.npz")
    assert not list(tmp_path.iterdir())
