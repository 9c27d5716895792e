"""Scripts that convert published data sets, tested on small files by reading their output with our loaders."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from intarsia.exceptions import InvalidInputError
from intarsia_reproduction.datasets import (
    load_backgrounds,
    load_cora_citations,
    load_denoising,
    load_horses,
    load_ocr_letters,
    load_olivetti_faces,
    load_snakes,
    set_names,
)
from intarsia_reproduction.datasets.catalogue import find_set
from intarsia_reproduction.datasets.make.backgrounds import make_backgrounds
from intarsia_reproduction.datasets.make.copies import COPIES, make_copies
from intarsia_reproduction.datasets.make.denoising import make_denoising
from intarsia_reproduction.datasets.make.horses import make_horses
from intarsia_reproduction.datasets.make.ocr_letters import make_ocr_letters
from intarsia_reproduction.datasets.make.olivetti_faces import make_olivetti_faces
from intarsia_reproduction.datasets.make.snakes import make_snakes

ROOT = Path(__file__).parents[2]
RNG = np.random.default_rng(0)


def letter_rows(pixels, letters, starts, folds):
    """Return the lines of `letter.data`."""
    lines, last = [], set(np.asarray(starts[1:]) - 1)
    word_of = np.searchsorted(starts, np.arange(len(letters)), side="right") - 1
    for k, (row, letter) in enumerate(zip(pixels, letters, strict=True)):
        word = word_of[k]
        head = [k + 1, chr(ord("a") + letter), -1 if k in last else k + 2, word + 1, k - starts[word] + 1, folds[word]]
        lines.append("\t".join(map(str, [*head, *row])) + "\t")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("packed", [False, True])
def test_letters(tmp_path, packed):
    pixels, letters = RNG.integers(0, 2, (6, 128)), np.array([2, 0, 19, 25, 1, 1])
    text = letter_rows(pixels, letters, [0, 3, 5, 6], [0, 7, 9])
    original = tmp_path / ("letter.data.gz" if packed else "letter.data")
    original.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    make_ocr_letters(original, tmp_path / "ours")
    words = load_ocr_letters(tmp_path / "ours")
    assert [word.tolist() for word in words.letters] == [[2, 0, 19], [25, 1], [1]]
    np.testing.assert_array_equal(np.concatenate(words.pixels), pixels)
    assert words.fold.tolist() == [0, 7, 9]


def test_letters_that_end_inside_a_word_raise(tmp_path):
    text = letter_rows(RNG.integers(0, 2, (3, 128)), [0, 1, 2], [0, 3], [0])
    (tmp_path / "letter.data").write_text("".join(text.splitlines(keepends=True)[:2]))
    with pytest.raises(InvalidInputError, match="ends inside a word"):
        make_ocr_letters(tmp_path / "letter.data", tmp_path)


def test_published_letters_give_our_file(data, tmp_path):
    with np.load(data / "ocr_letters.npz") as file:
        n = int(file["word_start"][50])
        stored = {name: file[name] for name in file}
    pixels = np.unpackbits(stored["pixels_packed"][:n], axis=1)
    text = letter_rows(pixels, stored["letter"][:n], stored["word_start"][:51], stored["word_fold"][:50])
    (tmp_path / "letter.data").write_text(text)
    make_ocr_letters(tmp_path / "letter.data", tmp_path)
    with np.load(tmp_path / "ocr_letters.npz") as arrays:
        assert set(arrays) == set(stored)
        for name in arrays:
            assert arrays[name].dtype == stored[name].dtype
            np.testing.assert_array_equal(arrays[name], stored[name][: len(arrays[name])], err_msg=name)


def test_faces(tmp_path):
    images = RNG.integers(0, 243, (400, 64, 64), dtype=np.uint8)
    savemat(tmp_path / "olivettifaces.mat", {"faces": images.transpose(0, 2, 1).reshape(400, -1).T})
    make_olivetti_faces(tmp_path / "olivettifaces.mat", tmp_path)
    with np.load(tmp_path / "olivetti_faces.npz") as arrays:
        np.testing.assert_array_equal(arrays["images"], images)
        assert np.bincount(arrays["subject"]).tolist() == [10] * 40
    assert load_olivetti_faces(tmp_path) is not None
    savemat(tmp_path / "other.mat", {"faces": images[0]})
    with pytest.raises(InvalidInputError, match="faces"):
        make_olivetti_faces(tmp_path / "other.mat", tmp_path)


def test_horses(tmp_path):
    for folder in ("rgb", "figure_ground"):
        (tmp_path / folder).mkdir()
    for k in range(1, 222):
        name, width = f"horse{k:03d}.jpg", 288 if k == 1 else 8
        left = np.arange(width)[None, :] < width // 2
        mask = np.repeat(255 * left.astype(np.uint8), width // 2, axis=0)
        Image.fromarray(mask).save(tmp_path / "figure_ground" / name, quality=95)
        Image.fromarray(np.full((width // 2, width, 3), 60, np.uint8)).save(tmp_path / "rgb" / name, quality=95)
    make_horses(tmp_path, tmp_path / "ours")
    for size, shape in ((144, (72, 144)), (32, (32, 32))):
        horses = load_horses(size, tmp_path / "ours")
        assert len(horses.names) == 221
        assert horses.mask[0].shape == shape
        assert horses.rgb[0].shape == (*shape, 3)
        assert (abs(horses.rgb[0].astype(int) - 60) < 4).all()
        np.testing.assert_array_equal(horses.mask[0], np.tile(np.arange(shape[1]) < shape[1] // 2, (shape[0], 1)))
    (tmp_path / "figure_ground" / "horse007.jpg").unlink()
    with pytest.raises(InvalidInputError, match=r"horse007\.jpg has no mask"):
        make_horses(tmp_path, tmp_path / "ours")


def test_denoising(tmp_path):
    """Upright photographs are turned counterclockwise: their top is at the left."""
    numbers = [100, 9, *range(1000, 1031)]
    for number in numbers:
        height, width = (481, 321) if number == 9 else (321, 481)
        grey = np.repeat(np.where(np.arange(height) < height // 2, 200, 40).astype(np.uint8)[:, None], width, axis=1)
        Image.fromarray(np.stack([grey] * 3, axis=2)).save(tmp_path / f"{number}.jpg", quality=95)
    make_denoising(tmp_path, tmp_path / "ours", n_images=33)
    images = load_denoising(tmp_path / "ours")
    assert images.image_id[:3].tolist() == [9, 100, 1000]  # in the order of numbers, not of texts
    assert (len(images.train), len(images.test), images.binary[0].shape) == (32, 1, (200, 300))
    upright, lying = images.binary[0], images.binary[1]
    assert upright[:, :148].all()
    assert not upright[:, 152:].any()
    assert lying[:98].all()
    assert not lying[102:].any()
    with pytest.raises(InvalidInputError, match=r"has 33 photographs, expected at least 132"):
        make_denoising(tmp_path, tmp_path / "ours")
    (tmp_path / "photo.jpg").write_bytes(b"")
    with pytest.raises(InvalidInputError, match=r"photo\.jpg is not named by a number"):
        make_denoising(tmp_path, tmp_path / "ours")


def test_stored_denoising_images_are_as_the_script_makes_them(data):
    """The stored file has the arrays of the script: sorted numbers, and 1 where grey is above the mean."""
    with np.load(data / "bsds_132_200x300.npz") as file:
        grey, packed, mean, number = (file[name] for name in ("grey", "binary_packed", "mean", "image_id"))
        assert set(file) == {"grey", "binary_packed", "mean", "image_id", "split", "rotated"}
    np.testing.assert_array_equal(packed, np.packbits((grey > mean[:, None, None]).reshape(132, -1), axis=1))
    np.testing.assert_allclose(mean, grey.mean(axis=(1, 2)), atol=0.01)
    assert (np.diff(number) > 0).all()


def test_backgrounds(tmp_path):
    for folder in ("images", "labels"):
        (tmp_path / folder).mkdir()
    for k in range(66):
        regions = np.full((10, 15), k % 8)
        regions[:, 10:] = -1
        np.savetxt(tmp_path / "labels" / f"{k:07d}.regions.txt", regions, fmt="%d")
        Image.fromarray(np.full((10, 15, 3), 3 * k, np.uint8)).save(tmp_path / "images" / f"{k:07d}.jpg", quality=95)
    make_backgrounds(tmp_path, tmp_path / "ours")
    images = load_backgrounds(tmp_path / "ours")
    assert [labels.tolist() for labels in images.regions] == [[[k % 8, k % 8, -1]] * 2 for k in range(66)]
    assert all((abs(rgb.astype(int) - 3 * k) < 4).all() for k, rgb in enumerate(images.rgb))
    np.savetxt(tmp_path / "labels" / "0000003.regions.txt", regions[:5], fmt="%d")
    with pytest.raises(InvalidInputError, match=r"0000003.regions.txt has shape \(5, 15\)"):
        make_backgrounds(tmp_path, tmp_path / "ours")


class Python2Pickler(pickle._Pickler):
    """Pickler that writes bytes as strings of Python 2, like the published pickle."""

    dispatch = pickle._Pickler.dispatch | {
        bytes: lambda self, content: self.write(b"T" + len(content).to_bytes(4, "little") + content)
    }


def python2_pickle(content):
    file = io.BytesIO()
    Python2Pickler(file, protocol=2).dump(content)
    return file.getvalue().replace(b"numpy._core.", b"numpy.core.")


@pytest.mark.parametrize("dump", [python2_pickle, lambda content: pickle.dumps(content, protocol=0)])
def test_snakes(tmp_path, dump):
    shapes = {"train": [(2, 3), (4, 2)], "test": [(3, 3)]}
    snakes = {f"X_{subset}": [255 * RNG.integers(0, 2, (*s, 3), np.uint8) for s in shapes[subset]] for subset in shapes}
    snakes |= {f"Y_{subset}": [RNG.integers(0, 11, s, np.int64) for s in shapes[subset]] for subset in shapes}
    original = tmp_path / "snakes.pickle"
    original.write_bytes(dump(snakes))
    make_snakes(original, tmp_path)
    images = load_snakes(tmp_path)
    for ours, key in ((images.train_rgb, "X_train"), (images.train_label, "Y_train"), (images.test_label, "Y_test")):
        assert len(ours) == len(snakes[key])
        for image, expected in zip(ours, snakes[key], strict=True):
            np.testing.assert_array_equal(image, expected)
    snakes["Y_test"][0] = snakes["Y_test"][0][:2]
    original.write_bytes(dump(snakes))
    with pytest.raises(InvalidInputError, match="'X_test' and 'Y_test' have different sizes"):
        make_snakes(original, tmp_path)


def test_a_pickle_cannot_run_code(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "harm"),)

    (tmp_path / "snakes.pickle").write_bytes(pickle.dumps({"X_train": Evil()}))
    with pytest.raises(InvalidInputError, match="neither a container nor an array"):
        make_snakes(tmp_path / "snakes.pickle", tmp_path)
    assert not (tmp_path / "harm").exists()


def test_published_snakes_give_our_file(data, tmp_path):
    stored = load_snakes(data)
    snakes = {"X_train": stored.train_rgb, "Y_train": stored.train_label}
    snakes |= {"X_test": stored.test_rgb, "Y_test": stored.test_label}
    (tmp_path / "snakes.pickle").write_bytes(python2_pickle(snakes))
    make_snakes(tmp_path / "snakes.pickle", tmp_path)
    with np.load(tmp_path / "snakes.npz") as arrays, np.load(data / "snakes.npz") as expected:
        assert set(arrays) == set(expected)
        for name in arrays:
            assert arrays[name].dtype == expected[name].dtype
            np.testing.assert_array_equal(arrays[name], expected[name], err_msg=name)


def test_copies(tmp_path):
    (tmp_path / "train.txt").write_text("Confidence NN B-NP\n")
    (tmp_path / "test.txt.gz").write_bytes(gzip.compress(b"Rockwell NNP B-NP\n"))
    make_copies(tmp_path, tmp_path / "ours")
    contents = {path.name: gzip.decompress(path.read_bytes()) for path in (tmp_path / "ours").rglob("*.gz")}
    assert contents == {"train.txt.gz": b"Confidence NN B-NP\n", "test.txt.gz": b"Rockwell NNP B-NP\n"}
    copied = ("conll2000", "febrl", "cora_citations", "epinions", "cora_topics", "citeseer_topics")
    expected = {file for name in copied for file in find_set(name).files}
    assert set(COPIES.values()) == expected


def test_readme_lists_every_data_set_and_script():
    readme = (ROOT / "README.md").read_text(encoding="utf-8").partition("# Data sets")[2]
    assert [name for name in set_names() if f"`{name}`" not in readme] == []
    scripts = {path.stem for path in (ROOT / "src/intarsia_reproduction/datasets/make").glob("*.py")}
    assert scripts - {"__init__", "command"} == set(re.findall(r"^\| `(\w+)` \|", readme, flags=re.M))


def test_an_error_is_one_line_on_stderr(tmp_path):
    module = "intarsia_reproduction.datasets.make.horses"
    done = subprocess.run([sys.executable, "-m", module, tmp_path, tmp_path], capture_output=True, text=True)
    assert done.returncode == 1
    assert "has no files horse*.jpg" in done.stderr
    assert "Traceback" not in done.stderr


def test_published_citations_give_our_file(data, tmp_path):
    content = gzip.decompress((data / "er_cora" / "cora_1295.csv.gz").read_bytes())
    assert len(content) == 275_857  # characters of the published file
    (tmp_path / "cora.csv").write_bytes(content)
    make_copies(tmp_path, tmp_path / "ours")
    citations = load_cora_citations(tmp_path / "ours")
    assert (len(citations), citations.n_entities) == (1295, 112)
