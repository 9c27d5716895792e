"""Writer of CRFsuite's binary model format, so that CRFsuite and python-crfsuite can tag with our models.

The file has a header (magic "lCRF", type "FOMC", version 100), a chunk of features ("FEAT": type, source, label and
weight), two constant databases ("CQDB") of labels and attributes, and for each label and attribute the list of its
features ("LFRF", "AFRF"). Numbers are little-endian. A feature of type 0 is an attribute with a label, a feature of
type 1 a label followed by another.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.error_context import errors_from
from intarsia._core.settings import check_fitted
from intarsia._core.validation import FloatArray
from intarsia._files.atomic_file import write_bytes
from intarsia.exceptions import InvalidInputError, NotSupportedError, TooLargeError

if TYPE_CHECKING:
    from intarsia.sequences.chain_crf import ChainCRF

_HEADER = struct.Struct("<4sI4sI8I")
_FEATURE = np.dtype([("type", "<u4"), ("source", "<u4"), ("label", "<u4"), ("weight", "<f8")])
_VERSION = 100
_BYTE_ORDER = 0x62445371
_N_TABLES = 256
# Score of forbidden transitions. It is finite, because CRFsuite fails if a sequence has no possible labelling.
_FORBIDDEN = -1e9


@errors_from("write_crfsuite_model")
def write_crfsuite_model(
    path: str | os.PathLike[str], crf: ChainCRF, *, first: str = "__BOS__", last: str = "__EOS__"
) -> None:
    """Write a fitted `ChainCRF` as a model file of CRFsuite, which python-crfsuite and `crfsuite tag` read.

    CRFsuite predicts the same labels from the same features. It has no scores of first and last labels. They are
    written as weights of two features, which must be added to the first and to the last token of every sequence before
    CRFsuite tags it, unless the model was fitted with `ends=False` and forbids no first or last label. Forbidden
    transitions get a score of -1e9.

    Parameters
    ----------
    path : path
        File to write.
    crf : ChainCRF
        Model fitted to named features (lists of strings or dicts), without energies and edge features.
    first, last : str
        Features that mark the first and the last token. If the model has these features, for example those of
        `token_features`, "first" and "last", the scores are added to their weights.

    Raises
    ------
    NotSupportedError
        The model has energies, features of steps, required constraints or features without names.
    InvalidInputError
        A name contains a zero character, or `first` and `last` are equal.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from intarsia import ChainCRF
    >>> crf = ChainCRF(l2=0.2, ends=False).fit([[["sun"], ["rain"]]], [["good", "bad"]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_crfsuite_model(Path(folder, "weather.crfsuite"), crf)
    ...     Path(folder, "weather.crfsuite").read_bytes()[:4]
    b'lCRF'
    """
    names, weights, transitions = _attributes(crf, first, last)
    content = _model([str(label) for label in crf.classes_.tolist()], names, weights, transitions)
    write_bytes(path, content)


def _attributes(crf: ChainCRF, first: str, last: str) -> tuple[list[str], FloatArray, FloatArray]:
    """Return names and weights (n_attributes, n_classes) of the attributes, and the scores of transitions."""
    check_fitted(crf, "weights_")
    vocabulary = crf.vocabulary_
    obstacles = {
        "features without names": vocabulary is None,
        "energies": crf.energies_ is not None,
        "features of steps (edge_features=)": crf.layout_.n_edge_features > 0,
        "required constraints (require=)": bool(getattr(crf, "require", None)),
    }
    for reason, is_present in obstacles.items():
        if is_present:
            raise NotSupportedError(f"the model has {reason}, which CRFsuite cannot represent. Fit it without them.")
    if not isinstance(first, str) or not isinstance(last, str) or first == last or not first or not last:
        raise InvalidInputError(
            f"first and last must be two different names of features, got {first!r:.60} and {last!r:.60}. Pass other "
            f"names."
        )
    views = crf.layout_.unpack(crf.weights_)
    scores = crf.constraints_.added_to(views.transitions, views.start, views.end)
    transitions, start, end = (None if array is None else np.maximum(array, _FORBIDDEN) for array in scores)
    weights = {name: row for name, row in zip(vocabulary or [], crf.state_weights_, strict=True) if row.any()}
    for name, row in ((first, start), (last, end)):
        if row is not None and row.any():
            weights[name] = weights[name] + row if name in weights else row
    table = np.array(list(weights.values())).reshape(-1, crf.classes_.size)
    return list(weights), table, np.asarray(transitions)


def _model(labels: list[str], names: list[str], weights: FloatArray, transitions: FloatArray) -> bytes:
    """Return the bytes of a model file."""
    (name_of, label_of), (before, after) = np.nonzero(weights), np.nonzero(transitions)
    n_states = name_of.size
    features = np.zeros(n_states + before.size, _FEATURE)
    features["type"][n_states:] = 1
    features["source"], features["label"] = np.append(name_of, before), np.append(label_of, after)
    features["weight"] = np.append(weights[name_of, label_of], transitions[before, after])
    chunks = [struct.pack("<4sII", b"FEAT", 12 + features.nbytes, features.size) + features.tobytes()]
    chunks += [_database(labels), _database(names)]
    chunks[2] += b"\0" * (-(_HEADER.size + sum(map(len, chunks))) % 4)
    # CRFsuite reserves two more labels, which have no features.
    label_features = _split_indices(before, len(labels), n_states)
    position = _HEADER.size + sum(map(len, chunks))
    chunks.append(_references(b"LFRF", label_features, 2, position))
    chunks.append(_references(b"AFRF", _split_indices(name_of, len(names), 0), 0, position + len(chunks[3])))
    offsets = np.cumsum([_HEADER.size, *map(len, chunks)]).tolist()
    if offsets[-1] >= 2**32:
        raise TooLargeError("the model exceeds 4 GB, the limit of CRFsuite's format. Fit with l1= or min_count=.")
    # CRFsuite itself writes 0 for the number of features in the header; the chunk of features has it.
    header = _HEADER.pack(b"lCRF", offsets[-1], b"FOMC", _VERSION, 0, len(labels), len(names), *offsets[:-1])
    return header + b"".join(chunks)


def _split_indices(source: NDArray[Any], n: int, shift: int) -> list[NDArray[Any]]:
    """Return the indices of the features of each label or attribute; `source` is sorted."""
    return np.split(np.arange(shift, shift + source.size), np.searchsorted(source, np.arange(1, n)))[:n]


def _references(name: bytes, lists: list[NDArray[Any]], n_empty: int, position: int) -> bytes:
    """Return a chunk with the position in the file of each list, and the lists with their lengths."""
    sizes = [4 + 4 * indices.size for indices in lists]
    begin = position + 12 + 4 * (len(lists) + n_empty)
    offsets = begin + np.concatenate([[0], np.cumsum(sizes)])
    body = np.concatenate([offsets[:-1], np.zeros(n_empty, np.int64)]).astype("<u4").tobytes()
    body += b"".join(np.concatenate([[indices.size], indices]).astype("<u4").tobytes() for indices in lists)
    return struct.pack("<4sII", name, 12 + len(body), len(lists) + n_empty) + body


def _database(names: list[str]) -> bytes:
    """Return a constant database: records (index, name), 256 hash tables of their positions, positions by index."""
    position = 24 + 8 * _N_TABLES
    records, positions = [], []
    tables: list[list[tuple[int, int]]] = [[] for _ in range(_N_TABLES)]
    for index, name in enumerate(names):
        key = name.encode("utf-8", "surrogatepass") + b"\0"
        if len(key) != key.index(b"\0") + 1:
            raise InvalidInputError(f"the name {name!r:.60} contains a zero character. Remove it.")
        hashed = _hash(key)
        tables[hashed % _N_TABLES].append((hashed, position))
        positions.append(position)
        records.append(struct.pack("<II", index, len(key)) + key)
        position += 8 + len(key)
    references, buckets = [], []
    for entries in tables:
        references.append((position if entries else 0, 2 * len(entries)))
        buckets.append(_hash_table(entries))
        position += len(buckets[-1])
    body = np.array(references, "<u4").tobytes() + b"".join([*records, *buckets])
    size = position + 4 * len(names)
    header = struct.pack("<4s5I", b"CQDB", size, 0, _BYTE_ORDER, len(names), position)
    return header + body + np.array(positions, "<u4").tobytes()


def _hash_table(entries: list[tuple[int, int]]) -> bytes:
    """Return a hash table (hash, position), twice as long as it has entries, with linear probing."""
    n = 2 * len(entries)
    table = [(0, 0)] * n
    for hashed, position in entries:
        slot = (hashed >> 8) % n
        while table[slot][1]:
            slot = (slot + 1) % n
        table[slot] = hashed, position
    return np.array(table, "<u4").tobytes()


_MASK = 0xFFFFFFFF
# Steps of Jenkins' lookup3: indices of the words that change, and by how many bits a word is rotated.
_MIX = ((0, 2, 1, 4), (1, 0, 2, 6), (2, 1, 0, 8), (0, 2, 1, 16), (1, 0, 2, 19), (2, 1, 0, 4))
_FINAL = ((2, 1, 14), (0, 2, 11), (1, 0, 25), (2, 1, 16), (0, 2, 4), (1, 0, 14), (2, 1, 24))


def _hash(key: bytes) -> int:
    """Return the 32-bit hash of a key by Jenkins' lookup3 (hashlittle with initial value 0)."""
    words = [(0xDEADBEEF + len(key)) & _MASK] * 3
    if not key:
        return words[2]
    padded = key + b"\0" * (-len(key) % 12)
    for begin in range(0, len(padded), 12):
        words = [
            (word + added) & _MASK for word, added in zip(words, struct.unpack_from("<3I", padded, begin), strict=True)
        ]
        if begin + 12 < len(padded):
            for changed, other, third, bits in _MIX:
                words[changed] = ((words[changed] - words[other]) & _MASK) ^ _rotated(words[other], bits)
                words[other] = (words[other] + words[third]) & _MASK
    for changed, other, bits in _FINAL:
        words[changed] = ((words[changed] ^ words[other]) - _rotated(words[other], bits)) & _MASK
    return words[2]


def _rotated(word: int, bits: int) -> int:
    return ((word << bits) | (word >> (32 - bits))) & _MASK
