"""Regression tests: files that once raised a foreign error are now read, or raise an IntarsiaError with a reason."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
from tests.fuzz.readers import LOADERS, READERS
from tests.fuzz.valid_files import GRAPHS, LITBANK

from intarsia._core.validation import as_int_array, check_number
from intarsia.exceptions import IntarsiaError, InvalidInputError

LONG = b"1" * 5000
FOUND = [
    ("psl", LONG, "too many digits"),
    ("psl", b'{"a":' * 3000, "brackets are nested too deeply"),
    ("graphs", b'{"a":' * 3000, "brackets are nested too deeply"),
    ("graphs", LONG, "too many digits"),
    ("graphs", GRAPHS.replace(b"null", b"null, 9999999999999999999999"), "shape"),
    ("graphs", GRAPHS.replace(b"[1, -1]", b"[null, 9999999999999999999999]"), "64 bits"),
    ("graphs", b"\xff", "not UTF-8"),
    ("litbank", LITBANK.replace(b"[[0, 0", b"[[1e999, 0"), "mentions"),
    ("settings", b"'b':a={ [1, (2,)]}", None),
    ("litbank", LONG, "expected a JSON document"),
    ("epinions", b"99999999999999999999991\t2\t1\n", "column 1"),
    ("cora words", b"99999999999999999999991\t1:1\n", "column 1"),
    ("cora words", b"1\t99999999999999999999991:1\n", "column 2"),
    ("cora labels", b"99999999999999999999991\t1\n", "column 1"),
    ("cora links", LONG + b"\t1\n", "column 1"),
    (
        "acquaintances",
        b'{"rules": [], "predicates": {"Knows/2": {"truth": ["gone.txt"]}}}',
        "gone.txt is listed in model.json but missing",
    ),
]


@pytest.mark.parametrize(("kind", "content", "words"), FOUND, ids=[f"{kind} {k}" for k, (kind, *_) in enumerate(FOUND)])
def test_file_is_read_or_raises(data, folder, kind, content, words):
    reader, where = (LOADERS[kind], data) if kind in LOADERS else (READERS[kind], folder)
    path = where / reader.name
    path.write_bytes(content)
    try:
        with nullcontext() if words is None else pytest.raises(IntarsiaError, match=words):
            reader.read(data=data) if kind in LOADERS else reader.read(path)
    finally:
        path.write_bytes(reader.valid[0])


@pytest.mark.parametrize("value", [10**400, -(10**400), 2**63])
def test_integers_that_are_too_large_for_kernels(value):
    with pytest.raises(InvalidInputError, match="max_iter must be an integer"):
        check_number(value, "max_iter", integer=True)
    with pytest.raises(InvalidInputError, match="tol must be a number"):
        check_number(value, "tol")


@pytest.mark.parametrize("values", [[1e300], np.array([2**63], dtype=np.uint64), [[1], [1, 2]]])
def test_arrays_that_are_not_64_bit_integers(values):
    with pytest.raises(InvalidInputError, match="edges: "):
        as_int_array(values, "edges")
