"""Fixtures: folders with a file for every reader."""

from __future__ import annotations

import pytest
from tests.fuzz.readers import LOADERS
from tests.fuzz.valid_files import TABLE

from intarsia_reproduction.datasets import find_set, set_names


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("files")
    (made / "likes.txt").write_bytes(b"ann\tchess\nbob\tchess\n")
    return made


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Folder with a file of every data set, each of which can be read."""
    made = tmp_path_factory.mktemp("data")
    for reader in LOADERS.values():
        for file in _files_of(reader):
            (made / file).parent.mkdir(parents=True, exist_ok=True)
            (made / file).touch()
    for reader in LOADERS.values():
        (made / reader.name).write_bytes(reader.valid[0])
    (made / "psl_uai13/epinions/knows.txt.gz").write_bytes(TABLE)
    (made / "psl_uai13/cora/labels.txt").write_bytes(b"1\tNets\n2\tRules\n")
    return made


def _files_of(reader):
    """Return the files of the data set to which the file of a reader belongs."""
    return next(result for result in map(find_set, set_names()) if reader.name in result.files).files
