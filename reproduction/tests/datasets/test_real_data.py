"""Loaders on the published data sets: counts that their publishers or the papers state."""

import numpy as np
import pytest

from intarsia_reproduction.datasets import (
    find_set,
    load_backgrounds,
    load_cora_citations,
    load_denoising,
    load_epinions,
    load_febrl,
    load_horses,
    load_linked_documents,
    load_litbank,
    load_ocr_letters,
    load_olivetti_faces,
    load_simple_acquaintances,
    load_snakes,
)
from intarsia_reproduction.datasets.backgrounds import SAME_PICTURE as SAME_BACKGROUND
from intarsia_reproduction.datasets.horses import SAME_PICTURE as SAME_HORSE

pytestmark = pytest.mark.data


def look_alike(images, min_correlation):
    """Return pairs of names whose images, reduced to 12 x 12 grey cells, have at least this correlation."""
    cells = []
    for rgb in images.rgb:
        grey = rgb.astype(float).mean(axis=2)
        rows, columns = (np.arange(12) * side // 12 for side in grey.shape)
        cells.append(np.add.reduceat(np.add.reduceat(grey, rows, axis=0), columns, axis=1).ravel())
    first, second = np.nonzero(np.triu(np.corrcoef(cells), 1) >= min_correlation)
    return {(images.names[i], images.names[j]) for i, j in zip(first, second, strict=True)}


def test_denoising(data):
    images = load_denoising(data)
    assert (len(images.train), len(images.test)) == (32, 100)
    assert {image.shape for image in images.binary} == {(200, 300)}
    assert len(set(images.image_id)) == 132
    grey = np.load(data / "bsds_132_200x300.npz")["grey"]
    np.testing.assert_array_equal(np.stack(images.binary), grey > grey.mean(axis=(1, 2), keepdims=True))


def test_horses(data):
    large, small = load_horses(data=data), load_horses(32, data)
    assert len(large.rgb) == len(large.mask) == 328
    assert (len(large.train), len(large.test)) == (200, 128)
    assert all(max(image.shape) == 144 for image in large.mask)
    assert all(rgb.shape == (*mask.shape, 3) for rgb, mask in zip(large.rgb, large.mask, strict=True))
    assert {image.shape for image in small.rgb} == {(32, 32, 3)}
    np.testing.assert_array_equal(large.train, small.train)
    # On average, a horse covers between a tenth and half of its image.
    assert 0.1 < np.mean([mask.mean() for mask in large.mask]) < 0.5


def test_backgrounds(data):
    images = load_backgrounds(data)
    assert len(images.rgb) == len(images.regions) == 715
    assert np.bincount(images.fold).tolist() == [143] * 5
    assert [len(part) for part in images.split(2)] == [572, 143]
    assert all(rgb.shape == (*regions.shape, 3) for rgb, regions in zip(images.rgb, images.regions, strict=True))
    assert np.mean([regions.shape == (48, 64) for regions in images.regions]) > 0.5
    assert set(np.unique(np.concatenate([regions.ravel() for regions in images.regions]))) == set(range(-1, 8))


def test_repeated_pictures_are_listed(data):
    horses, backgrounds = load_horses(data=data), load_backgrounds(data)
    assert look_alike(horses, 0.91) == set(SAME_HORSE)
    assert look_alike(backgrounds, 0.97) == set(SAME_BACKGROUND)
    side = np.isin(np.arange(328), horses.train)
    for images, pairs, part in ((horses, SAME_HORSE, side), (backgrounds, SAME_BACKGROUND, backgrounds.fold)):
        for a, b in pairs:
            assert part[images.names.index(a)] == part[images.names.index(b)]


def test_letters(data):
    words, facts = load_ocr_letters(data), find_set("ocr_letters").facts
    lengths = [len(word) for word in words.letters]
    assert (len(lengths), sum(lengths), min(lengths), max(lengths)) == (facts["words"], facts["letters"], 3, 14)
    assert len({tuple(word) for word in words.letters}) == facts["distinct_words"] == 55
    assert np.bincount(words.fold).tolist() == [626, 704, 684, 698, 693, 651, 739, 717, 690, 675]
    assert "".join(chr(97 + k) for k in words.letters[0]) == "ommanding"
    assert {pixels.shape[1] for pixels in words.pixels} == {128}


def test_faces(data):
    faces = load_olivetti_faces(data)
    assert np.bincount(faces.subject).tolist() == [10] * 40
    assert max(image.max() for image in faces.images) == 242


def test_snakes(data):
    snakes = load_snakes(data)
    assert (len(snakes.train_rgb), len(snakes.test_rgb)) == (200, 100)
    for label in [*snakes.train_label, *snakes.test_label]:
        assert np.bincount(label.ravel())[1:].tolist() == [1] * 10  # one cell of each number


def test_records(data):
    citations = load_cora_citations(data)
    facts = find_set("cora_citations").facts
    assert (len(citations), citations.n_entities) == (facts["records"], facts["entities"])
    persons = [load_febrl(k, data) for k in (1, 2, 3)]
    assert [len(records) for records in persons] == find_set("febrl").facts["records"]
    assert [records.n_entities for records in persons] == find_set("febrl").facts["entities"]
    assert np.bincount(persons[0].entity).tolist() == [2] * 500


def test_mentions(data):
    texts, facts = load_litbank(data), find_set("litbank").facts
    assert len(texts) == facts["books"]
    assert sum(len(text.mentions) for text in texts) == facts["mentions"]
    assert sum(len(set(text.entity.tolist())) for text in texts) == facts["entities"]


def test_relations(data):
    network, facts = load_epinions(data), find_set("epinions").facts
    assert (network.n_users, len(network.pairs), int((~network.trust).sum())) == tuple(facts.values())
    for name in ("cora", "citeseer"):
        papers, facts = load_linked_documents(name, data), find_set(f"{name}_topics").facts
        assert (papers.words.shape[0], len(papers.topic_names), len(papers.links)) == tuple(facts.values())
    program = load_simple_acquaintances(data)
    assert [len(rows["Knows"]) for rows in (program.observations, program.targets, program.truth)] == [482, 118, 118]
