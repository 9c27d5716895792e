"""Saved models: equal predictions after loading, and a clear error for every other file."""

from __future__ import annotations

import io
import json
import pickle
import zipfile

import numpy as np
import pytest

from intarsia import ChainCRF
from intarsia._files.model_file import read_model, write_model
from intarsia._files.settings_json import settings_from_json, settings_to_json
from intarsia.exceptions import FileFormatError, InvalidInputError
from intarsia.learning import LBFGS
from intarsia.sequences import AROW, MaximumLikelihood
from intarsia.sequences.chain_learner import CHAIN_LEARNERS

X = [[["a"], ["b"], ["c", "a"]], [["c"], ["a"], ["b"]]]
Y = [["B-x", "I-x", "O"], ["O", "B-x", "I-x"]]


def fitted(**settings):
    return ChainCRF(**settings).fit(X, Y)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.npz"
    fitted(scheme="bio").save(path, notes={"columns": 3})
    return path


@pytest.mark.parametrize(
    "settings",
    [
        {"scheme": "bio", "forbidden": [("O", "O"), (None, "O")][:0], "class_weight": {"O": 2.0}},
        {"learner": MaximumLikelihood(optimizer=LBFGS(max_iter=50), l1=0.1), "weights": "all", "ends": False},
        {"learner": AROW(gamma=2.0), "classes": ["O", "B-x", "I-x"], "min_count": 2},
    ],
)
def test_loaded_model_equals_saved_model(settings, tmp_path):
    crf = fitted(**settings)
    path = tmp_path / "model.npz"
    crf.save(path)
    back = ChainCRF.load(path)
    assert repr(back) == repr(crf)
    for one, other in zip(crf.predict_marginals(X), back.predict_marginals(X), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(back.constraints_.transitions, crf.constraints_.transitions)
    assert (back.n_iter_, back.risk_, back.status_, back.vocabulary_) == (
        crf.n_iter_, crf.risk_, crf.status_, crf.vocabulary_,
    )  # fmt: skip
    assert [one.tolist() for one in back.fit(X, Y).predict(X)] == [one.tolist() for one in crf.predict(X)]


def test_models_of_numeric_features(tmp_path):
    arrays = [np.arange(6.0).reshape(3, 2), np.ones((2, 2))]
    crf = ChainCRF().fit(arrays, [[0, 1, 2], [1, 1]], edge_features=[np.ones((2, 1)), np.ones((1, 1))])
    crf.save(tmp_path / "m.npz")
    back = ChainCRF.load(tmp_path / "m.npz")
    assert back.vocabulary_ is None
    edges = [np.ones((2, 1)), np.ones((1, 1))]
    for one, other in zip(
        crf.predict(arrays, edge_features=edges), back.predict(arrays, edge_features=edges), strict=True
    ):
        assert one.tolist() == other.tolist()
        assert one.dtype == other.dtype


def test_file_is_deterministic_and_opens_as_npz(saved, tmp_path):
    ChainCRF.load(saved).save(tmp_path / "again.npz", notes={"columns": 3})
    assert (tmp_path / "again.npz").read_bytes() == saved.read_bytes()
    assert ChainCRF.load(saved).notes_ == {"columns": 3}
    with np.load(saved, allow_pickle=False) as file:
        assert "weights" in file.files
        assert json.loads(file["model.json"])["version"] == 1
    assert not list(tmp_path.glob("*.part"))


def test_failed_write_keeps_the_old_file(saved, monkeypatch):
    before = saved.read_bytes()

    def broken(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr("numpy.lib.format.write_array", broken)
    with pytest.raises(OSError, match="disk full"):
        fitted().save(saved)
    assert saved.read_bytes() == before
    assert not list(saved.parent.glob("*.part"))


# ---------------------------------------------------------------- damaged and hostile files


def rewrite(path, change, compression=zipfile.ZIP_STORED):
    """Rewrite the archive with members from `change(name, content)`; None drops the member."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            new = change(name, content)
            if new is not None:
                archive.writestr(name, new)


def edit(path, **entries):
    def change(name, content):
        if name != "model.json":
            return content
        head = json.loads(content)
        for key, value in entries.items():
            (head if key in head else head["about"])[key] = value
        return json.dumps(head)

    rewrite(path, change)


def as_npy(array, allow_pickle=False):
    out = io.BytesIO()
    np.lib.format.write_array(out, array, allow_pickle=allow_pickle)
    return out.getvalue()


@pytest.mark.parametrize("keep", [0, 1, 30, 200, 700, -1, -30])
def test_truncated_files_raise(saved, keep):
    saved.write_bytes(saved.read_bytes()[:keep])
    with pytest.raises(FileFormatError, match=r"model.npz is damaged, or not an Intarsia model"):
        ChainCRF.load(saved)


def test_flipped_bytes_are_detected(saved):
    content = bytearray(saved.read_bytes())
    at = content.index(b"weights.npy") + 160
    content[at] ^= 0xFF
    saved.write_bytes(content)
    with pytest.raises(FileFormatError, match="damaged"):
        ChainCRF.load(saved)


@pytest.mark.parametrize(
    "entries",
    [
        {"format": "other"}, {"version": "1"}, {"arrays": ["nothing"]}, {"about": 3}, {"classes": ["O"]},
        {"classes": ["O", "O", "B-x"]}, {"classes": ["O", "B-x", "I-x", "more"]}, {"n_names": [1, 2, 3]},
        {"n_names": 1}, {"n_features": -1}, {"n_edge_features": 1}, {"status": "FINE"},
        {"settings": {"dict": [["no", 1]]}},
        {"settings": {"dict": [["learner", {"object": "os.system", "settings": {}}]]}}, {"settings": []},
        {"history": ["none"]}, {"by_pair": False},
    ],
)  # fmt: skip
def test_invalid_entries_raise(saved, entries):
    edit(saved, **entries)
    with pytest.raises(FileFormatError, match="damaged"):
        ChainCRF.load(saved)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("weights", np.zeros(3)),
        ("weights", np.array(["a"])),
        ("weights", np.full(16, np.nan)),
        ("pair_label", np.array([0, 1, 2, 7], dtype=np.int32)),
        ("pair_ptr", np.array([0, 9, 1, 4])),
        ("forbidden_start", np.zeros(2, dtype=bool)),
    ],
)
def test_mismatched_arrays_raise(saved, name, array):
    rewrite(saved, lambda member, content: as_npy(array) if member == f"{name}.npy" else content)
    with pytest.raises(FileFormatError, match="damaged"):
        ChainCRF.load(saved)


def test_nothing_is_unpickled(saved, tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "was here"), "w"))

    bad = as_npy(np.array([Evil()], dtype=object), allow_pickle=True)
    rewrite(saved, lambda member, content: bad if member == "weights.npy" else content)
    with pytest.raises(FileFormatError, match="damaged"):
        ChainCRF.load(saved)
    saved.write_bytes(pickle.dumps(Evil()))
    with pytest.raises(FileFormatError, match="damaged"):
        ChainCRF.load(saved)
    assert not (tmp_path / "was here").exists()


def test_compressed_files_raise(saved):
    """A small file that expands to a huge one must not fill the memory."""
    rewrite(saved, lambda member, content: content, zipfile.ZIP_DEFLATED)
    with pytest.raises(FileFormatError, match="damaged"):
        ChainCRF.load(saved)


def test_deeply_nested_json_raises(saved):
    deep = "[" * 200_000
    rewrite(saved, lambda member, content: deep if member == "model.json" else content)
    with pytest.raises(FileFormatError, match="damaged"):
        ChainCRF.load(saved)


def test_newer_versions_and_other_kinds_raise(saved):
    edit(saved, version=2)
    with pytest.raises(FileFormatError, match=r"has version 2 of the format.*up to 1. Install a newer version"):
        ChainCRF.load(saved)
    write_model(saved, "GridCRF", {}, {})
    with pytest.raises(FileFormatError, match="holds a GridCRF, not a ChainCRF"):
        ChainCRF.load(saved)


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(FileNotFoundError):
        ChainCRF.load(tmp_path / "nothing.npz")
    with pytest.raises(InvalidInputError, match="there is no folder"):
        fitted().save(tmp_path / "no" / "m.npz")
    with pytest.raises(InvalidInputError, match="is a folder"):
        fitted().save(tmp_path)


# ---------------------------------------------------------------- settings


def test_settings_survive_json():
    given = {
        "learner": MaximumLikelihood(optimizer=LBFGS(memory=3)),
        "class_weight": {0: 1.5, 1: 2},
        "forbidden": [(None, "a"), ("a", "b")],
        "some": frozenset(["x", "y"]),
        "classes": np.array([0, 1]),
    }
    text = json.dumps(settings_to_json(given))
    found = settings_from_json(json.loads(text), {"learner": CHAIN_LEARNERS})
    assert found["learner"].optimizer.memory == 3
    assert found["class_weight"] == {0: 1.5, 1: 2}
    assert found["forbidden"] == given["forbidden"]
    assert found["some"] == given["some"]
    assert found["classes"] == [0, 1]


def test_settings_that_cannot_be_saved_raise(tmp_path):
    with pytest.raises(InvalidInputError, match="a setting of type function cannot be saved"):
        settings_to_json({"a": as_npy})
    with pytest.raises(InvalidInputError, match="notes cannot be written as JSON"):
        fitted().save(tmp_path / "m.npz", notes={1: {2}})


def test_read_model_returns_what_write_model_wrote(tmp_path):
    arrays = {"text": np.array(["a", "bc"]), "none": np.zeros((0, 3)), "flag": np.array(True)}
    write_model(tmp_path / "m.npz", "some", {"x": [1, None]}, arrays)
    about, back = read_model(tmp_path / "m.npz", "some")
    assert about == {"x": [1, None]}
    for name, array in arrays.items():
        np.testing.assert_array_equal(back[name].reshape(array.shape), array)
