"""Loaders of images, tested on small files with known pixels and on damaged files."""

import numpy as np
import pytest

from intarsia.datasets import noisy_inputs
from intarsia.exceptions import FileFormatError, InvalidInputError
from intarsia_reproduction.datasets import (
    load_backgrounds,
    load_denoising,
    load_horses,
    load_ocr_letters,
    load_olivetti_faces,
    load_snakes,
)
from intarsia_reproduction.datasets.backgrounds import SAME_PICTURE as SAME_BACKGROUND
from intarsia_reproduction.datasets.horses import SAME_PICTURE as SAME_HORSE
from intarsia_reproduction.datasets.splitting import draw_parts


def flat_arrays(images, key):
    """Return images of unequal size in the flat format."""
    sizes = np.array([image.shape[:2] for image in images])
    return {
        key: np.concatenate([image.reshape(-1, *image.shape[2:]) for image in images]),
        "height": sizes[:, 0].astype(np.int32),
        "width": sizes[:, 1].astype(np.int32),
        "offset": np.concatenate([[0], np.cumsum(sizes.prod(axis=1))]),
    }


def pictures(n, labels, seed=0, low=0):
    """Return colours and labels of n images of unequal size."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, size=(n, 2))
    rgb = [rng.integers(0, 256, size=(*size, 3), dtype=np.uint8) for size in sizes]
    return rgb, [rng.integers(low, labels, size=size).astype(np.int8) for size in sizes]


def denoising_arrays(n=35, height=3, width=5):
    grey = np.random.default_rng(1).integers(0, 256, size=(n, height, width), dtype=np.uint8)
    binary = grey > grey.mean(axis=(1, 2), keepdims=True)
    packed = np.packbits(binary.reshape(n, -1), axis=1)
    return {"grey": grey, "binary_packed": packed, "image_id": np.arange(n) + 100}, binary


def horses_arrays(n=328):
    rgb, mask = pictures(n, 2)
    names = np.array([f"horse{k + 1:03d}" for k in range(n)])
    mask = [m.astype(np.uint8) for m in mask]
    return (
        flat_arrays(rgb, "rgb") | flat_arrays(mask, "mask") | {"name": names},
        rgb,
        mask,
    )


def small_horses_arrays(n=328):
    rng = np.random.default_rng(2)
    return {
        "rgb": rng.integers(0, 256, size=(n, 32, 32, 3), dtype=np.uint8),
        "mask": rng.integers(0, 2, size=(n, 32, 32), dtype=np.uint8),
        "name": np.array([f"horse{k + 1:03d}" for k in range(n)]),
    }


def backgrounds_arrays(n=83):
    rgb, regions = pictures(n, 8, low=-1)
    twins = [name for pair in SAME_BACKGROUND for name in pair]
    names = np.array(twins + [f"x{k}" for k in range(n - len(twins))])
    flat = flat_arrays(rgb, "rgb") | flat_arrays(regions, "regions")
    return flat | {"name": names}, rgb, regions


def letters_arrays():
    pixels = np.random.default_rng(3).integers(0, 2, size=(6, 128))
    return {
        "pixels_packed": np.packbits(pixels, axis=1),
        "letter": np.array([0, 1, 2, 25, 4, 5], dtype=np.uint8),
        "word_start": np.array([0, 2, 6], dtype=np.int32),
        "word_fold": np.array([9, 0], dtype=np.uint8),
    }, pixels


def faces_arrays():
    images = np.random.default_rng(4).integers(0, 256, size=(3, 64, 64), dtype=np.uint8)
    return {"images": images, "subject": np.array([0, 0, 1], dtype=np.uint8)}


def snakes_arrays():
    arrays = {}
    for subset, seed in (("train", 5), ("test", 6)):
        rgb, labels = pictures(4, 11, seed)
        flat = flat_arrays(rgb, "rgb") | flat_arrays(labels, "label")
        arrays |= {f"{subset}_{key}": value for key, value in flat.items()}
    return arrays


FILES = {
    "bsds_132_200x300.npz": (load_denoising, lambda: denoising_arrays()[0]),
    "weizmann_horses_144.npz": (load_horses, lambda: horses_arrays()[0]),
    "weizmann_horses_32.npz": (lambda data: load_horses(32, data), small_horses_arrays),
    "stanford_background_20pct.npz": (load_backgrounds, lambda: backgrounds_arrays()[0]),
    "ocr_letters.npz": (load_ocr_letters, lambda: letters_arrays()[0]),
    "olivetti_faces.npz": (load_olivetti_faces, faces_arrays),
    "snakes.npz": (load_snakes, snakes_arrays),
}


# ---------------------------------------------------------------- valid files


def test_denoising(tmp_path):
    arrays, binary = denoising_arrays()
    np.savez(tmp_path / "bsds_132_200x300.npz", **arrays)
    images = load_denoising(tmp_path)
    np.testing.assert_array_equal(np.stack(images.binary), binary)
    assert images.train.tolist() == list(range(32))
    assert images.test.tolist() == [32, 33, 34]
    assert images.image_id[0] == 100
    assert not images.binary[0].flags.writeable


def test_horses(tmp_path):
    arrays, rgb, mask = horses_arrays()
    np.savez(tmp_path / "weizmann_horses_144.npz", **arrays)
    horses = load_horses(data=tmp_path)
    assert all(np.array_equal(a, b) for a, b in zip(horses.rgb, rgb, strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(horses.mask, mask, strict=True))
    assert horses.names[27] == "horse028"
    assert not horses.rgb[0].flags.writeable
    again, other = load_horses(data=tmp_path), load_horses(data=tmp_path, random_state=1)
    np.testing.assert_array_equal(horses.train, again.train)
    assert set(horses.train) != set(other.train)


@pytest.mark.parametrize("seed", range(20))
def test_copies_of_a_horse_are_on_one_side(tmp_path, seed):
    np.savez(tmp_path / "weizmann_horses_32.npz", **small_horses_arrays())
    horses = load_horses(32, tmp_path, random_state=seed)
    assert (len(horses.train), len(horses.test)) == (200, 128)
    assert sorted([*horses.train, *horses.test]) == list(range(328))
    for a, b in SAME_HORSE:
        assert (horses.names.index(a) in horses.train) == (horses.names.index(b) in horses.train)


def test_size_of_horses(tmp_path):
    with pytest.raises(InvalidInputError, match=r"144 .* or 32 .*, got 64"):
        load_horses(64, tmp_path)


def test_backgrounds(tmp_path):
    arrays, rgb, regions = backgrounds_arrays()
    np.savez(tmp_path / "stanford_background_20pct.npz", **arrays)
    images = load_backgrounds(tmp_path)
    assert all(np.array_equal(a, b) for a, b in zip(images.rgb, rgb, strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(images.regions, regions, strict=True))
    assert images.region_names[0] == "sky"
    assert np.bincount(images.fold).tolist() == [17, 17, 17, 16, 16]
    tested = [images.split(k)[1] for k in range(5)]
    assert sorted(np.concatenate(tested)) == list(range(83))
    train, test = images.split(3)
    assert sorted([*train, *test]) == list(range(83))
    for bad in (5, -1, 0.5):
        with pytest.raises(InvalidInputError, match="fold"):
            images.split(bad)
    for seed in range(20):
        fold = load_backgrounds(tmp_path, random_state=seed).fold
        assert (fold[:12:2] == fold[1:12:2]).all()  # the repeated pictures come first


def test_letters(tmp_path):
    arrays, pixels = letters_arrays()
    np.savez(tmp_path / "ocr_letters.npz", **arrays)
    words = load_ocr_letters(tmp_path)
    assert [word.tolist() for word in words.letters] == [[0, 1], [2, 25, 4, 5]]
    np.testing.assert_array_equal(words.pixels[1], pixels[2:])
    assert words.fold.tolist() == [9, 0]


def test_faces(tmp_path):
    arrays = faces_arrays()
    np.savez(tmp_path / "olivetti_faces.npz", **arrays)
    faces = load_olivetti_faces(tmp_path)
    np.testing.assert_array_equal(np.stack(faces.images), arrays["images"])
    assert faces.subject.tolist() == [0, 0, 1]


def test_snakes(tmp_path):
    np.savez(tmp_path / "snakes.npz", **snakes_arrays())
    snakes = load_snakes(tmp_path)
    for subset, seed in (("train", 5), ("test", 6)):
        rgb, labels = pictures(4, 11, seed)
        assert all(np.array_equal(a, b) for a, b in zip(getattr(snakes, f"{subset}_rgb"), rgb, strict=True))
        assert all(np.array_equal(a, b) for a, b in zip(getattr(snakes, f"{subset}_label"), labels, strict=True))


# ---------------------------------------------------------------- splits


def test_every_item_is_equally_likely_in_each_subset():
    """Keeping pairs together causes no bias: frequencies of 300 draws are within 5 standard deviations."""
    names = [f"n{k}" for k in range(20)]
    pairs = [("n0", "n1"), ("n5", "n2")]
    in_first = np.zeros(20)
    for seed in range(300):
        subset = draw_parts(names, [12, 8], pairs, np.random.default_rng(seed))
        assert np.bincount(subset).tolist() == [12, 8]
        assert subset[0] == subset[1]
        assert subset[5] == subset[2]
        in_first += subset == 0
    assert np.abs(in_first / 300 - 0.6).max() < 5 * np.sqrt(0.6 * 0.4 / 300)


def test_pairs_of_unknown_names_are_ignored():
    names = list("abcdef")
    with_pairs = draw_parts(names, [3, 3], [("a", "z"), ("y", "b")], np.random.default_rng(0))
    np.testing.assert_array_equal(with_pairs, draw_parts(names, [3, 3], [], np.random.default_rng(0)))


# ---------------------------------------------------------------- noise


@pytest.mark.parametrize("n", [1.25, 1.5, 5.0])
def test_noise_has_the_distribution_of_the_paper(n):
    """P(t^n > 1/2) = 1 - 2^(-1/n) and E t^n = 1 / (n + 1), for black and for white pixels."""
    truth = np.repeat([0, 1], 100_000).reshape(2, -1)
    (noisy,) = noisy_inputs([truth], n, random_state=3)
    assert noisy.min() >= 0
    assert noisy.max() <= 1
    departure = np.abs(noisy - truth)
    assert departure.mean(axis=1) == pytest.approx(1 / (n + 1), abs=0.005)
    assert (departure > 0.5).mean(axis=1) == pytest.approx(1 - 2 ** (-1 / n), abs=0.008)


def test_noise_is_seeded_and_drawn_image_after_image():
    binary = [np.eye(3, dtype=np.int8), np.zeros((2, 4), np.int8), np.ones((1, 1), bool)]
    all_three, first = noisy_inputs(binary, 1.5, random_state=7), noisy_inputs(binary[:1], 1.5, random_state=7)
    assert [y.shape for y in all_three] == [(3, 3), (2, 4), (1, 1)]
    np.testing.assert_array_equal(all_three[0], first[0])
    assert not np.array_equal(first[0], noisy_inputs(binary[:1], 1.5, random_state=8)[0])
    assert noisy_inputs([], 1.5) == []


@pytest.mark.parametrize("n", [0, -1.0, np.inf, np.nan, "much"])
def test_noise_level_must_be_positive(n):
    with pytest.raises(InvalidInputError, match="n must be a number"):
        noisy_inputs([[0, 1]], n)


@pytest.mark.parametrize("image", [[0, 2], [0.5], [-1, 1], ["0"], [np.nan]])
def test_noise_is_for_binary_images(image):
    with pytest.raises(InvalidInputError, match=r"binary\[1\] must contain only 0 and 1"):
        noisy_inputs([[0, 1], image], 1.5)


# ---------------------------------------------------------------- damaged files


@pytest.mark.parametrize("file", list(FILES))
@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.7, 0.99])
def test_truncated_file(tmp_path, file, fraction):
    load, make = FILES[file]
    path = tmp_path / file
    np.savez_compressed(path, **make())
    load(data=tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(fraction * len(whole))])
    with pytest.raises(FileFormatError, match=file):
        load(data=tmp_path)


@pytest.mark.parametrize("file", list(FILES))
def test_damaged_in_the_middle(tmp_path, file):
    load, make = FILES[file]
    path = tmp_path / file
    np.savez_compressed(path, **make())
    content = bytearray(path.read_bytes())
    for k in range(200, 260):
        content[k] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match="damaged"):
        load(data=tmp_path)


def test_any_bytes_changed(tmp_path):
    """After a change of three random bytes, loading either raises or returns the written labels."""
    path, written = tmp_path / "ocr_letters.npz", letters_arrays()[0]
    np.savez(path, **written)
    content, rng, refused = path.read_bytes(), np.random.default_rng(0), 0
    for _ in range(400):
        changed = bytearray(content)
        for k in rng.integers(len(content), size=3):
            changed[k] = rng.integers(256)
        path.write_bytes(changed)
        try:
            words = load_ocr_letters(tmp_path)
        except FileFormatError:
            refused += 1
        else:
            np.testing.assert_array_equal(np.concatenate(words.letters), written["letter"])
    assert 200 < refused < 400


@pytest.mark.parametrize("file", list(FILES))
def test_array_missing_or_of_another_shape_or_type(tmp_path, file):
    load, make = FILES[file]
    arrays = make()
    for key in arrays:
        for changed, message in (
            ({k: v for k, v in arrays.items() if k != key}, f"array '{key}' is not in the file"),
            (arrays | {key: arrays[key][:-1]}, "damaged"),
            (arrays | {key: arrays[key][None]}, f"array '{key}' should have shape"),
            (arrays | {key: np.full(arrays[key].shape, 1j)}, f"array '{key}' should have shape"),
        ):
            np.savez(tmp_path / file, **changed)
            with pytest.raises(FileFormatError, match=message):
                load(data=tmp_path)


@pytest.mark.parametrize(
    ("file", "key", "value", "message"),
    [
        ("weizmann_horses_144.npz", "mask", 2, "values from 0 to 1, got 0 to 2"),
        ("weizmann_horses_32.npz", "mask", 255, "values from 0 to 1, got 0 to 255"),
        ("stanford_background_20pct.npz", "regions", 8, "values from -1 to 7, got -1 to 8"),
        ("stanford_background_20pct.npz", "regions", -2, "values from -1 to 7, got -2"),
        ("stanford_background_20pct.npz", "offset", 1, "'offset' does not follow"),
        ("stanford_background_20pct.npz", "height", 0, "'offset' does not follow"),
        ("stanford_background_20pct.npz", "width", 100, "'offset' does not follow"),
        ("snakes.npz", "test_label", 11, "values from 0 to 10"),
        ("snakes.npz", "train_offset", 1, "'train_offset' does not follow"),
        ("ocr_letters.npz", "letter", 26, "values from 0 to 25"),
        ("ocr_letters.npz", "word_fold", 10, "values from 0 to 9"),
        ("ocr_letters.npz", "word_start", 1, "'word_start' should increase from 0 to 6"),
    ],
)
def test_value_out_of_range(tmp_path, file, key, value, message):
    load, make = FILES[file]
    arrays = make()
    arrays[key].flat[0] = value
    np.savez(tmp_path / file, **arrays)
    with pytest.raises(FileFormatError, match=message):
        load(data=tmp_path)


@pytest.mark.parametrize(
    ("file", "arrays"),
    [
        ("bsds_132_200x300.npz", lambda: denoising_arrays(32)[0]),
        ("weizmann_horses_144.npz", lambda: horses_arrays(220)[0]),
        ("stanford_background_20pct.npz", lambda: backgrounds_arrays(64)[0]),
    ],
)
def test_too_few_images_for_the_split(tmp_path, file, arrays):
    np.savez(tmp_path / file, **arrays())
    with pytest.raises(FileFormatError, match="images, expected"):
        FILES[file][0](data=tmp_path)


def test_bytes_per_image(tmp_path):
    arrays, _ = denoising_arrays()
    arrays["binary_packed"] = np.hstack([arrays["binary_packed"]] * 2)
    np.savez(tmp_path / "bsds_132_200x300.npz", **arrays)
    with pytest.raises(FileFormatError, match="4 bytes per image, expected 2"):
        load_denoising(tmp_path)


def test_other_kinds_of_file(tmp_path):
    path = tmp_path / "olivetti_faces.npz"
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(FileFormatError, match="not a zip file"):
        load_olivetti_faces(tmp_path)
    path.write_text("not found, said the server")
    with pytest.raises(FileFormatError, match="not a readable npz archive"):
        load_olivetti_faces(tmp_path)


def test_a_file_can_never_run_code(tmp_path):
    objects = np.empty(3, dtype=object)
    np.savez(tmp_path / "olivetti_faces.npz", images=objects, subject=np.zeros(3))
    with pytest.raises(FileFormatError, match="allow_pickle"):
        load_olivetti_faces(tmp_path)
