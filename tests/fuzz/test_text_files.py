"""Any content of a text file yields a result or an IntarsiaError, quickly and with little memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fuzz.damage import bounded_by, files, within_bounds
from tests.fuzz.readers import LOADERS, READERS

bounded = bounded_by(30)


@pytest.mark.parametrize("kind", READERS)
def test_valid_files_are_read(folder, kind):
    reader = READERS[kind]
    for content in reader.valid:
        (folder / reader.name).write_bytes(content)
        reader.read(folder / reader.name)
    (folder / "likes.txt").write_bytes(b"ann\tchess\nbob\tchess\n")


@pytest.mark.filterwarnings("ignore:.*after the table of the last factor:UserWarning")
@pytest.mark.parametrize("kind", READERS)
@bounded
@given(choice=st.data())
def test_any_file(folder, kind, choice):
    reader = READERS[kind]
    (folder / reader.name).write_bytes(choice.draw(files(reader.valid, reader.pieces)))
    with within_bounds():
        reader.read(folder / reader.name)


@pytest.mark.parametrize("kind", LOADERS)
def test_valid_data_sets_are_read(data, kind):
    LOADERS[kind].read(data=data)


@pytest.mark.parametrize("kind", LOADERS)
@bounded
@given(choice=st.data())
def test_any_data_set(data, kind, choice):
    reader = LOADERS[kind]
    path = data / reader.name
    path.write_bytes(choice.draw(files(reader.valid, reader.pieces)))
    try:
        with within_bounds():
            reader.read(data=data)
    finally:
        path.write_bytes(reader.valid[0])
