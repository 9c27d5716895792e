"""Models written for CRFsuite: byte for byte as CRFsuite writes them, and tagged equally by python-crfsuite."""

from __future__ import annotations

import base64
import gzip
import json
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from intarsia import ChainCRF
from intarsia.energies import at_most_one
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.sequences import write_crfsuite_model
from intarsia.sequences.serving.crfsuite_model import _hash, _model
from intarsia_reproduction.benchmarks.peers import peer_folders

PYTHON = next((path for path in (folder / "crfsuite/bin/python" for folder in peer_folders()) if path.exists()), None)

# Written by python-crfsuite 0.9.12 after training on [["a", "b"], ["b", "\u00fc"], ["c"]] with labels X, Y, X and on
# [["a"], ["c", "b"]] with labels Y, Z; c1 = 0, c2 = 0.1.
MODEL = (
    "H4sIAAAAAAACA8txDnJbIMTA4Obv65zCAAHMQMwCxAZALMHIwNDFycAgA1QTAlLn6hjyAijOzYAK7ubz/cjSfG4P4wO1McS8YI1au/apPYwPAj"
    "+YdVMqu47th4mBMJtOhn3uxHtwMSYQI3z/j5DXT8B6maDipkJ902+Xf7GHuREEtmY+M5tW8hIuBlL7PDbAb+vmB/aMSG7hDtXplev9Yc+I5BbL"
    "jo03c+K/wcVAepV+5+ax7vpi7xzo4lTEAVFXGOySBDI7jYNhFIyCUTCCgRkHtHwaBUMKuI3G25AEYYMw3kDuiYC3GCLBJAhHwVU0TFbz0UFqLW"
    "zXvLFUAon/7qOqhhKQDxID0SC1oBbHRKQWB6gF1jja4mBwHM25o2AQgMABToeJo/lgFIwCqoPCIZCvQO5LhLc4ksAkaETi8B74oEcyg4JG/00l"
    "pAZDYdlGJwksDYjG8NVHkBsnbxhZ1M3RGiMgPoOPW5CbBZBmBWIbIQYGFyAOEEJoBLmHA2o9JxBzwWpsoD4fBsgYUgFQfQ0Q9wDxFCFESDMyIM"
    "ZrYONNjFC7QGJsQMwOxAAxbpMxoBIAAA=="
)


def _read_features(content: bytes):
    """Return the features of a model file: kind, source, label, weight."""
    (offset,) = struct.unpack_from("<I", content, 28)
    name, _, n = struct.unpack_from("<4sII", content, offset)
    assert name == b"FEAT"
    return [struct.unpack_from("<IIId", content, offset + 12 + 20 * i) for i in range(n)]


def _look_up(content: bytes, which: int, name: str) -> int | None:
    """Return the index of a name in the database of labels (0) or attributes (1), by its hash table."""
    begin = struct.unpack_from("<2I", content, 32)[which]
    key = name.encode() + b"\0"
    hashed = _hash(key)
    table, n = struct.unpack_from("<2I", content, begin + 24 + 8 * (hashed % 256))
    for k in range(n):
        bucket = begin + table + 8 * (((hashed >> 8) + k) % n)
        stored_hash, record = struct.unpack_from("<2I", content, bucket)
        if not record:
            return None
        index, size = struct.unpack_from("<2I", content, begin + record)
        if stored_hash == hashed and content[begin + record + 8 : begin + record + 8 + size] == key:
            return index
    return None


def test_the_hash_has_the_published_values_of_lookup3():
    assert _hash(b"") == 0xDEADBEEF
    assert _hash(b"Four score and seven years ago") == 0x17770551


def test_a_model_of_crfsuite_is_written_byte_for_byte():
    expected = gzip.decompress(base64.b64decode("".join(MODEL)))
    weights, transitions = np.zeros((4, 3)), np.zeros((3, 3))
    for kind, source, label, weight in _read_features(expected):
        (weights, transitions)[kind][source, label] = weight
    assert _model(["X", "Y", "Z"], ["a", "b", "\u00fc", "c"], weights, transitions) == expected


def _data(n: int, seed: int):
    rng = np.random.default_rng(seed)
    y = [rng.choice(["B-x", "I-x", "O"], int(rng.integers(1, 12))).tolist() for _ in range(n)]
    X = [
        [
            [f"w={tag}" if rng.random() < 0.5 else "w=?", f"k={rng.integers(30)}", f"\u00fc{t % 3}"]
            for t, tag in enumerate(tags)
        ]
        for tags in y
    ]
    return X, y


def test_every_weight_is_in_the_file(tmp_path):
    X, y = _data(60, 0)
    crf = ChainCRF(l1=1.0, l2=0.1).fit(X, y)
    write_crfsuite_model(tmp_path / "model.crfsuite", crf, first="FIRST", last="w=?")
    content = (tmp_path / "model.crfsuite").read_bytes()
    size, _, version, _, n_labels, n_names = struct.unpack_from("<I4s4I", content, 4)
    assert (size, version, n_labels) == (len(content), 100, 3)
    rows = {name: row.copy() for name, row in zip(crf.vocabulary_, crf.state_weights_, strict=True)}
    rows["FIRST"] = crf.start_
    rows["w=?"] = rows["w=?"] + crf.end_
    labels = [_look_up(content, 0, label) for label in crf.classes_]
    assert labels == [0, 1, 2]
    table = {(kind, source, label): weight for kind, source, label, weight in _read_features(content)}
    n_read = 0
    for name, row in rows.items():
        index = _look_up(content, 1, name)
        assert (index is None) == (not row.any())
        for label in np.flatnonzero(row).tolist():
            assert table[0, index, label] == row[label]
            n_read += 1
    for a, b in np.argwhere(crf.transitions_).tolist():
        assert table[1, a, b] == crf.transitions_[a, b]
        n_read += 1
    assert n_read == len(table)
    assert n_names == sum(row.any() for row in rows.values())
    assert _look_up(content, 1, "never seen") is None


@pytest.mark.skipif(PYTHON is None, reason="python-crfsuite is not set up; see reproduction/README.md")
@pytest.mark.parametrize("settings", [{"ends": False}, {"scheme": "bio"}, {"l1": 0.5, "ends": False}])
def test_crfsuite_tags_1000_sequences_equally(tmp_path, settings):
    X, y = _data(200, 0)
    if "scheme" in settings:
        y = [["O" if tag == "I-x" and "B-x" not in tags[:t][-1:] else tag for t, tag in enumerate(tags)] for tags in y]
    crf = ChainCRF(l2=0.5, **settings).fit(X, y)
    write_crfsuite_model(tmp_path / "model.crfsuite", crf)
    X_test, _ = _data(1000, 1)
    marked = [[*map(list, x)] for x in X_test]
    for x in marked:
        x[0].append("__BOS__")
        x[-1].append("__EOS__")
    (tmp_path / "X.json").write_text(json.dumps(marked), encoding="utf-8")
    script = (
        "import json, pycrfsuite; tagger = pycrfsuite.Tagger(); tagger.open('model.crfsuite')\n"
        "print(json.dumps([[tagger.tag(x), tagger.probability(tagger.tag(x))] for x in json.load(open('X.json'))]))"
    )
    done = subprocess.run([str(PYTHON), "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    answers = json.loads(done.stdout)
    assert [tags for tags, _ in answers] == [labels.tolist() for labels in crf.predict(X_test)]
    expected = crf.sequence_log_probability(X_test, [tags for tags, _ in answers])
    np.testing.assert_allclose([probability for _, probability in answers], np.exp(expected), atol=1e-9)


def test_models_that_crfsuite_cannot_represent(tmp_path):
    X, y = _data(20, 0)
    path = tmp_path / "model.crfsuite"
    with pytest.raises(NotSupportedError, match=r"^write_crfsuite_model: the model has energies, .* Fit it without"):
        write_crfsuite_model(path, ChainCRF(energies=at_most_one("x")).fit(X, y))
    arrays = [np.eye(4)[: len(x) % 4 + 1] for x in X]
    labels = [np.arange(len(x)) % 2 for x in arrays]
    with pytest.raises(NotSupportedError, match="features without names"):
        write_crfsuite_model(path, ChainCRF().fit(arrays, labels))
    crf = ChainCRF().fit(X, y)
    with pytest.raises(InvalidInputError, match="two different names"):
        write_crfsuite_model(path, crf, first="a", last="a")
    with pytest.raises(InvalidInputError, match="zero character"):
        write_crfsuite_model(path, crf, first="a\0b")
    assert not list(Path(tmp_path).iterdir())
