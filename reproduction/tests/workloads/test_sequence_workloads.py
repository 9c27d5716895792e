import hashlib

import numpy as np
import pytest

from intarsia_reproduction.workloads.sequence_workloads import long_chain, words_to_infer, words_to_learn

# SHA-256, little-endian, of the sequences of the published timings: scores, starts, tables.
CHECKSUMS = {
    words_to_infer: "008f4cd93508716081a1f02e49b2fb7c8ca369d7925ab51efbfc6cb8362eea8f",
    long_chain: "8cacd8661b6eccb89b579a456841530c12980f18c8bb1b67937a67d6d1f55075",
}


def checksum(*arrays):
    digest = hashlib.sha256()
    for array, dtype in arrays:
        digest.update(np.ascontiguousarray(array, dtype=dtype).tobytes())
    return digest.hexdigest()


@pytest.mark.parametrize("make", CHECKSUMS)
def test_sequences_are_identical_to_those_of_the_published_timings(make):
    batch = make()
    digest = checksum((batch.nodes, "<f8"), (batch.ptr, "<i8"), (batch.transitions, "<f8"))
    assert digest == CHECKSUMS[make]


@pytest.mark.slow
def test_words_are_identical_to_those_of_the_published_timings():
    words = words_to_learn()
    digest = checksum((words.pixels, "u1"), (words.ptr, "<i8"), (words.labels, "<i8"))
    assert digest == "fd0f1cc6fe2d6378eb354b1f1d6a4ad4bd7b4e9c57d6f83356ba1d9019a78263"


def test_letters_resemble_their_images():
    words = words_to_learn(200)
    means = np.array([words.pixels[words.labels == y].mean(axis=0) for y in np.unique(words.labels)])
    # A pixel is flipped with probability 1/4, so means are near 1/4 and 3/4.
    frequent = np.array([(words.labels == y).sum() > 60 for y in np.unique(words.labels)])
    assert frequent.sum() >= 5
    assert np.abs(np.abs(means[frequent] - 0.5) - 0.25).max() < 0.25
    assert np.abs(np.abs(means[frequent] - 0.5) - 0.25).mean() < 0.06
