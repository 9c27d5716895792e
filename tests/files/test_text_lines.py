"""Lines of text files, whatever ends them, and files that are written whole or not at all."""

import gzip
import io

import pytest

from intarsia._files.text_lines import read_lines, written_text
from intarsia.exceptions import FileFormatError, InvalidInputError


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a\r\nb\n\nc", ["a", "b", "", "c"]),
        (b"\xef\xbb\xbfa\n", ["a"]),  # byte order mark
        ("a\u2028b\u00a0c\x0bd\re\n".encode(), ["a\u2028b\u00a0c\x0bd\re"]),  # none of these ends a line
    ],
)
def test_lines(tmp_path, content, lines, packed):
    path = tmp_path / "file"  # the name does not tell
    path.write_bytes(gzip.compress(content) if packed else content)
    expected = list(enumerate(lines, 1))
    assert list(read_lines(path)) == expected
    assert list(read_lines(str(path))) == expected
    assert list(read_lines(io.BytesIO(content))) == expected


def test_text_streams():
    assert list(read_lines(io.StringIO("a\nb"))) == [(1, "a"), (2, "b")]


def test_what_cannot_be_read(tmp_path):
    path = tmp_path / "words.txt"
    path.write_bytes(b"good\nna\xefve\n")
    with pytest.raises(FileFormatError, match=r"words.txt, line 2: byte 3 \(0xef\) is not UTF-8"):
        list(read_lines(path))
    whole = gzip.compress(b"some text\n" * 100)
    for damaged in (whole[:-12], whole[:20] + b"\xff" + whole[21:]):
        path.write_bytes(damaged)
        with pytest.raises(FileFormatError, match=r"words\.txt: damaged gzip file"):
            list(read_lines(path))
    with pytest.raises(FileNotFoundError):
        list(read_lines(tmp_path / "none"))


def test_the_old_file_stays_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")
    with pytest.raises(TypeError), written_text(path) as file:
        file.writelines(["half", None])
    with pytest.raises(InvalidInputError, match="cannot be written as UTF-8"), written_text(path) as file:
        file.write("\ud800")
    assert path.read_text() == "old"
    with written_text(path) as file:
        file.write("new\n")
    assert path.read_bytes() == b"new\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file.txt"]


def test_packed_files_are_the_same_for_the_same_text(tmp_path):
    for name in ("a.gz", "b.gz"):
        with written_text(tmp_path / name) as file:
            file.write("text")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == b"text"
