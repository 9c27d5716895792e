"""Scripts that convert the bird map and the Potts energy, tested by converting back the files that we have."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

from intarsia.exceptions import InvalidInputError, MissingDependencyError
from intarsia_reproduction.datasets import find_set, load_woodcock
from intarsia_reproduction.datasets.make import mrf_vision
from intarsia_reproduction.datasets.make.mrf_vision import make_mrf_vision
from intarsia_reproduction.datasets.make.woodcock import make_woodcock

NO_DATA = np.float32(-3.4e38)


class RasterioError(Exception):
    """Base class of rasterio's errors."""


class FakeRaster:
    """Open file of rasterio, with the two members that the script uses."""

    def __init__(self, bands, transform):
        self.bands, self.transform = bands, transform

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def read(self):
        return self.bands.copy()


@pytest.fixture
def fake_rasterio(monkeypatch):
    """Replace rasterio by a module that opens the file which a test puts into `module.raster`."""
    module = types.ModuleType("rasterio")
    module.errors = types.SimpleNamespace(RasterioError=RasterioError)

    def open_raster(path):
        if not isinstance(module.raster, FakeRaster):
            raise module.raster
        return module.raster

    module.open = open_raster
    monkeypatch.setitem(sys.modules, "rasterio", module)
    return module


def test_published_bands_give_our_map(data, tmp_path, fake_rasterio):
    with np.load(data / "cgm_birds" / "amewoo_2019_weekly.npz") as file:
        expected = {name: file[name] for name in file}
    bands = np.nan_to_num(np.moveaxis(expected["abundance"], -1, 0), nan=NO_DATA)
    (width, height), (east, north) = expected["pixel_m"], expected["ul_corner_m"]
    fake_rasterio.raster = FakeRaster(bands, types.SimpleNamespace(a=width, e=-height, c=east, f=north))
    make_woodcock(tmp_path / "any.tif", tmp_path)
    with np.load(tmp_path / "cgm_birds" / "amewoo_2019_weekly.npz") as arrays:
        assert set(arrays) == set(expected)
        for name in arrays:
            assert arrays[name].dtype == expected[name].dtype
            np.testing.assert_array_equal(arrays[name], expected[name], err_msg=name)
    assert load_woodcock(tmp_path).abundance.shape == (52, 1706)


def test_bands_become_weeks(tmp_path):
    """A GeoTIFF that rasterio itself writes: the value of a band, row and column is at row, column and week."""
    rasterio = pytest.importorskip("rasterio")
    bands = np.arange(52 * 2 * 3, dtype=np.float32).reshape(52, 2, 3)
    bands[:, 0, 1] = NO_DATA
    transform = rasterio.Affine(2000.0, 0.0, -4000.0, 0.0, -1000.0, 9000.0)
    settings = {"driver": "GTiff", "height": 2, "width": 3, "count": 52, "dtype": "float32", "transform": transform}
    with rasterio.open(tmp_path / "map.tif", "w", **settings) as file:
        file.write(bands)
    make_woodcock(tmp_path / "map.tif", tmp_path)
    birds = load_woodcock(tmp_path)
    assert birds.cells.tolist() == [[0, 0], [0, 2], [1, 0], [1, 1], [1, 2]]
    np.testing.assert_array_equal(birds.abundance, bands.reshape(52, 6)[:, [0, 2, 3, 4, 5]])
    assert birds.positions[0].tolist() == [-3.0, 8.5]


def test_other_maps_raise(tmp_path, fake_rasterio, monkeypatch):
    fake_rasterio.raster = FakeRaster(np.zeros((3, 2, 2), np.float32), None)
    with pytest.raises(InvalidInputError, match="3 bands, expected one for each of 52 weeks"):
        make_woodcock(tmp_path / "map.tif", tmp_path)
    fake_rasterio.raster = RasterioError("not recognised")
    with pytest.raises(InvalidInputError, match="not a readable GeoTIFF: not recognised"):
        make_woodcock(tmp_path / "map.tif", tmp_path)
    monkeypatch.setitem(sys.modules, "rasterio", None)
    with pytest.raises(MissingDependencyError, match="pip install rasterio"):
        make_woodcock(tmp_path / "map.tif", tmp_path)


def put_images(source, folder):
    for file in find_set("mrf_vision").files:
        if file.endswith(".png"):
            (folder / file.rpartition("/")[2]).write_bytes((source / file).read_bytes())


@pytest.mark.parametrize("per_line", [1, 16])
def test_published_costs_give_our_energy(data, tmp_path, per_line):
    """Both a column of numbers and a line per pixel have the same column order."""
    with np.load(data / "mrf_vision" / "tsukuba_potts_alahari.npz") as file:
        expected = {name: file[name] for name in file}
    by_pixel = expected["unary"].reshape(384, 288, 16).transpose(1, 0, 2).reshape(-1, 16)
    table = by_pixel if per_line == 16 else by_pixel.T.reshape(-1, 1)
    np.savetxt(tmp_path / "tsukuba_datacost.txt", table, fmt="%d")
    put_images(data, tmp_path)
    make_mrf_vision(tmp_path, tmp_path / "ours")
    with np.load(tmp_path / "ours" / "mrf_vision" / "tsukuba_potts_alahari.npz") as arrays:
        assert set(arrays) == set(expected)
        for name in arrays:
            assert arrays[name].dtype == expected[name].dtype
            np.testing.assert_array_equal(arrays[name], expected[name], err_msg=name)
    for file in find_set("mrf_vision").files:
        assert (tmp_path / "ours" / file).is_file()


def test_damaged_costs_raise(tmp_path, monkeypatch):
    with pytest.raises(InvalidInputError, match=r"has no tsukuba-imL\.png"):
        make_mrf_vision(tmp_path, tmp_path / "ours")
    for file in find_set("mrf_vision").files:
        (tmp_path / file.rpartition("/")[2]).touch()
    with pytest.raises(InvalidInputError, match=r"tsukuba_datacost\.txt is missing"):
        make_mrf_vision(tmp_path, tmp_path / "ours")
    monkeypatch.setattr(mrf_vision, "HEIGHT", 1)
    monkeypatch.setattr(mrf_vision, "WIDTH", 1)
    for text, message in (
        ("1 2 x\n", "not a table of numbers"),
        ("1\n2\n", "has 2 numbers, expected 16"),
        ("0.5\n" * 16, "integers"),
    ):
        (tmp_path / "tsukuba_datacost.txt").write_text(text)
        with pytest.raises(InvalidInputError, match=message):
            make_mrf_vision(tmp_path, tmp_path / "ours")
