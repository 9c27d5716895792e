"""Any content of an npz or Parquet file yields a result or an IntarsiaError, quickly and with little memory."""

from __future__ import annotations

import io
import struct
import zipfile

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reproduction.tests.datasets.test_loaders import FILES as IMAGE_FILES
from tests.fuzz.damage import bounded_by, files, within_bounds

import intarsia
from intarsia._files.checkpoint import Checkpoint
from intarsia.cli.cluster_files import read_table_file
from intarsia.exceptions import FileFormatError
from intarsia_reproduction.datasets import load_olivetti_faces

bounded = bounded_by(15)


def archive(members, method=zipfile.ZIP_STORED):
    """Return a zip file with these members by name."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as file:
        for name, content in members.items():
            file.writestr(zipfile.ZipInfo(name), content, method)
    return made.getvalue()


def header(shape, dtype="<f8", fortran="False"):
    """Return an npy file that declares a shape but holds only eight bytes."""
    text = f"{{'descr': '{dtype}', 'fortran_order': {fortran}, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(8)


def with_members_changed(data, change):
    """Return the archive with each array replaced by the result of `change`."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        members = {info.filename: file.read(info) for info in file.infolist()}
    return archive({name: change(name, content) for name, content in members.items()})


def models():
    """Return a saved model of each kind that is fast to fit."""
    chain = intarsia.ChainCRF().fit([[["rainy"], ["sunny"]]], [["stay", "go"]])
    grid = intarsia.GridCRF(learner="structured_perceptron", inference="icm").fit(
        [np.arange(4.0).reshape(2, 2, 1)], [np.array([[0, 0], [1, 1]])]
    )
    records = {"name": ["Ann Lee", "Anne Lee", "Bob Ray", "Bob Rays", "Eve Fox", "Eva Fox"]}
    entities = intarsia.EntityClusterer({"name": "jaro_winkler"}, blocking="all_pairs")
    entities.fit(records, ["a", "a", "b", "b", "e", "e"])
    walkers = intarsia.CollectiveChain(max_iter=2, tol=1.0).fit(np.array([[3.0, 1.0], [2.0, 2.0], [1.0, 3.0]]))
    return [chain, grid, entities, walkers]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    result = []
    for k, model in enumerate(models()):
        model.save(folder / f"{k}.npz")
        result.append((folder / f"{k}.npz").read_bytes())
    return result


def test_models_are_loaded(saved, tmp_path):
    for content in saved:
        (tmp_path / "model.npz").write_bytes(content)
        intarsia.load(tmp_path / "model.npz")


@bounded_by(60)
@given(choice=st.data())
def test_any_model_file(saved, tmp_path_factory, choice):
    path = tmp_path_factory.getbasetemp() / "any_model.npz"
    path.write_bytes(choice.draw(files(saved, [b"model.json", b'{"format": "intarsia model"}'])))
    with within_bounds():
        intarsia.load(path)


@bounded_by(40)
@given(choice=st.data())
def test_any_member_of_a_model_file(saved, tmp_path_factory, choice):
    """Damage inside members with correct checksums, which the archive does not detect."""
    path = tmp_path_factory.getbasetemp() / "any_member.npz"
    which = choice.draw(st.integers(0, 30))
    number = iter(range(1000))

    def change(name, content):
        return choice.draw(files([content])) if next(number) == which % 8 else content

    path.write_bytes(with_members_changed(choice.draw(st.sampled_from(saved)), change))
    with within_bounds():
        intarsia.load(path)


CLAIMS = ["(1000000000,)", "(10000000000,)", "(100000, 100000)", "(0, 10000000000)", "(2, -1)", "()"]


@pytest.mark.parametrize("shape", CLAIMS)
def test_declared_sizes_of_a_model_file(saved, tmp_path, shape):
    for content in saved:
        claimed = with_members_changed(content, lambda name, old: old if name.endswith("json") else header(shape))
        (tmp_path / "model.npz").write_bytes(claimed)
        with within_bounds():
            intarsia.load(tmp_path / "model.npz")


# ---------------------------------------------------------------- data sets


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    contents = {}
    for name, (_, arrays) in IMAGE_FILES.items():
        np.savez_compressed(folder / name, **arrays())
        contents[name] = (folder / name).read_bytes()
    return folder, contents


@pytest.mark.parametrize("name", IMAGE_FILES)
@bounded
@given(choice=st.data())
def test_any_data_set(pictures, name, choice):
    folder, contents = pictures
    (folder / name).write_bytes(choice.draw(files([contents[name]])))
    with within_bounds():
        IMAGE_FILES[name][0](data=folder)


@pytest.mark.parametrize("shape", CLAIMS)
@pytest.mark.parametrize("name", IMAGE_FILES)
def test_declared_sizes_of_a_data_set(pictures, name, shape):
    folder, contents = pictures
    dtypes = ("<f8", "|u1", "<U100")
    for dtype in dtypes:
        claimed = with_members_changed(contents[name], lambda _, old, dtype=dtype: header(shape, dtype))
        (folder / name).write_bytes(claimed)
        with within_bounds():
            IMAGE_FILES[name][0](data=folder)


def test_a_bomb_among_the_data_sets(pictures, monkeypatch):
    """Members that would exceed the limit raise before they are decompressed; here the limit is below 40 MB."""
    folder, contents = pictures
    name = "olivetti_faces.npz"
    with zipfile.ZipFile(io.BytesIO(contents[name])) as file:
        members = {info.filename: file.read(info) for info in file.infolist()}
    members["images.npy"] = header("(5000000,)")[:-8] + bytes(40_000_000)
    (folder / name).write_bytes(archive(members, zipfile.ZIP_DEFLATED))
    assert (folder / name).stat().st_size < 100_000
    monkeypatch.setattr("intarsia._files.array_file.read_npz.__defaults__", (None, 30_000_000))
    with pytest.raises(FileFormatError, match=r"more than 3e.07 bytes"):
        load_olivetti_faces(folder)


# ---------------------------------------------------------------- checkpoints and Parquet


@bounded
@given(choice=st.data())
def test_any_checkpoint(tmp_path_factory, choice):
    path = tmp_path_factory.getbasetemp() / "checkpoint.npz"
    path.unlink(missing_ok=True)
    checkpoint = Checkpoint(path, {"loss": "a"}, np.ones((2, 2)))
    checkpoint.write({"point": np.arange(3.0)})
    path.write_bytes(choice.draw(files([path.read_bytes()])))
    with within_bounds():
        checkpoint.read()


def test_declared_sizes_of_a_checkpoint(tmp_path):
    (tmp_path / "c.npz").write_bytes(archive({"about.npy": header("(10000000000,)"), "sums.npy": header("(1,)")}))
    with within_bounds():
        Checkpoint(tmp_path / "c.npz", {"loss": "a"}, np.ones((2, 2))).read()


@bounded
@given(choice=st.data())
def test_any_parquet(tmp_path_factory, choice):
    path = tmp_path_factory.getbasetemp() / "a.parquet"
    path.unlink(missing_ok=True)
    duckdb.sql("SELECT range AS id, 'n' || range AS name FROM range(20)").write_parquet(str(path))
    path.write_bytes(choice.draw(files([path.read_bytes()])))
    with within_bounds():
        read_table_file(path)
