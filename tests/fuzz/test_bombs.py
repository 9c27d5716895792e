"""Decompression bombs: every reader raises at once, but reads files that merely compress well."""

from __future__ import annotations

import gzip
import io
import time
import tracemalloc
import zipfile

import numpy as np
import pytest
from tests.fuzz.readers import READERS

import intarsia
from intarsia._files import packed_file as _packed_file
from intarsia._files.array_file import read_npz
from intarsia.exceptions import FileFormatError, IntarsiaError, TooLargeError
from intarsia.sequences import read_conll

# Members of a gzip file follow each other, so 100 times 30 kB become 3 GB.
CONTENTS = {"an endless line": b"a", "endless numbers": b"0 ", "endless lines": b"a O\n", "zeros": b"\0"}


def bomb(path, unit):
    path.write_bytes(gzip.compress(unit * (30_000_000 // len(unit))) * 100)
    assert path.stat().st_size < 4_000_000
    return path


class Cost:
    """Processor time and peak memory of a block."""

    def __enter__(self):
        tracemalloc.start()
        self._start = time.process_time()
        return self

    def __exit__(self, *_):
        self.seconds = time.process_time() - self._start
        self.peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()


@pytest.fixture(scope="module")
def bombs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bombs")
    return {name: bomb(folder / f"{unit[0]}.gz", unit) for name, unit in CONTENTS.items()}


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_raises_for_a_bomb_at_once(tmp_path, bombs, reader, content):
    path = tmp_path / READERS[reader].name
    path.hardlink_to(bombs[content])
    with Cost() as cost, pytest.raises(IntarsiaError):
        READERS[reader].read(path)
    assert cost.peak < 100e6
    assert cost.seconds < 1.0


def test_the_message_names_file_and_remedy(bombs):
    with pytest.raises(TooLargeError, match=r"97\.gz: .* more than 100 times its size .* Decompress it yourself"):
        list(read_conll(bombs["an endless line"]))


@pytest.mark.parametrize("unit", [b"a", b"\0"])
def test_an_endless_line_of_a_plain_file_raises_early(tmp_path, unit):
    path = tmp_path / "plain.txt"
    path.write_bytes(b"a O\n" + unit * (3 * _packed_file.LONGEST_LINE))
    with Cost() as cost, pytest.raises(FileFormatError, match=r"plain\.txt, line 2: more than 16000000 bytes in one"):
        list(read_conll(path))
    assert cost.peak < 100e6
    with Cost() as cost, pytest.raises(FileFormatError, match=r"plain\.txt, line 2: 1048576 bytes without a space"):
        intarsia.read_uai(path)
    assert cost.peak < 10e6


def test_a_highly_compressed_table_of_equal_numbers_is_read(tmp_path):
    n = 2**22
    text = b"MARKOV\n22\n" + b"2 " * 22 + b"\n1\n22 " + b" ".join(b"%d" % v for v in range(22)) + b"\n%d\n" % n
    path = tmp_path / "uniform.uai.gz"
    path.write_bytes(gzip.compress(text + b"0.5 " * n, 9))
    assert len(text) + 4 * n > 100 * path.stat().st_size
    graph, theta = intarsia.read_uai(path)
    assert graph.n_variables == 22
    np.testing.assert_array_equal(theta[44:], np.log(0.5))


def test_large_files_of_usual_density_are_read(monkeypatch, tmp_path):
    monkeypatch.setattr(_packed_file, "FREE_BYTES", 1000)
    words = np.random.default_rng(0).integers(0, 10**6, 5000)
    path = tmp_path / "train.txt.gz"
    path.write_bytes(gzip.compress("\n".join(f"w{word} O" for word in words).encode()))
    assert sum(1 for _ in read_conll(path)) == 1
    path.write_bytes(gzip.compress(b"w O\n" * 5000))
    with pytest.raises(TooLargeError):
        list(read_conll(path))


def test_arrays_with_an_extreme_compression_ratio_raise():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("a.npy", "w") as member:
        np.lib.format.write_array(member, np.zeros(10_000_000))
    with Cost() as cost, pytest.raises(ValueError, match="expands to more than 100 times its size"):
        read_npz(file)
    assert cost.peak < 1e6
