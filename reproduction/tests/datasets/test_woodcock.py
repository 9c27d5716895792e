"""The loader of the bird map, tested on a small file, on damaged files and on the data set."""

import numpy as np
import pytest

from intarsia.exceptions import FileFormatError
from intarsia_reproduction.datasets import find_set, load_woodcock


def arrays():
    abundance = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    abundance[0, 1, 0] = np.nan  # missing in one week
    return {"abundance": abundance, "pixel_m": np.array([2000.0, 1000.0]), "ul_corner_m": np.array([-4000.0, 9000.0])}


def write(folder, **changes):
    (folder / "cgm_birds").mkdir(exist_ok=True)
    np.savez(folder / "cgm_birds" / "amewoo_2019_weekly.npz", **(arrays() | changes))


def test_cells_and_positions(tmp_path):
    write(tmp_path)
    birds = load_woodcock(tmp_path)
    assert birds.shape == (2, 3)
    assert birds.cells.tolist() == [[0, 0], [0, 2], [1, 0], [1, 1], [1, 2]]
    assert birds.abundance.tolist() == [[0, 4, 6, 8, 10], [1, 5, 7, 9, 11]]
    assert birds.positions[:3].tolist() == [[-3.0, 8.5], [1.0, 8.5], [-3.0, 7.5]]
    picture = birds.on_map(birds.abundance[0])
    assert np.isnan(picture[0, 1])
    assert picture[1].tolist() == [6, 8, 10]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"abundance": -np.ones((2, 3, 2))}, "finite, non-negative values"),
        ({"abundance": np.full((2, 3, 2), np.nan)}, "finite, non-negative values"),
        ({"abundance": np.ones((2, 3))}, "'abundance' should have shape"),
        ({"pixel_m": np.zeros(2)}, "'pixel_m' not 0"),
        ({"ul_corner_m": np.array([np.nan, 0.0])}, "should be finite"),
    ],
)
def test_damaged_files_raise(tmp_path, changes, message):
    write(tmp_path, **changes)
    with pytest.raises(FileFormatError, match=message):
        load_woodcock(tmp_path)


@pytest.mark.data
def test_published_data_set(data):
    birds, facts = load_woodcock(data), find_set("woodcock").facts
    assert birds.abundance.shape == (facts["weeks"], facts["cells"])
    assert (birds.abundance.sum(axis=1) > 0).all()
    north = birds.abundance @ birds.positions[:, 1] / birds.abundance.sum(axis=1)
    assert north[25] > north[2] + 500  # kilometres: birds are further north in summer than in winter
