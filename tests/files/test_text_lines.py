"""Lines of text files with any line end, and atomic writing of text files."""

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
        ("a\u2028b\u00a0c\x0bd\re\n".encode(), ["a\u2028b\u00a0c\x0bd\re"]),  # these characters do not end a line
    ],
)
def test_lines(tmp_path, content, lines, packed):
    path = tmp_path / "file"  # gzip is detected from the content, not the name
    path.write_bytes(gzip.compress(content) if packed else content)
    expected = list(enumerate(lines, 1))
    assert list(read_lines(path)) == expected
    assert list(read_lines(str(path))) == expected
    assert list(read_lines(io.BytesIO(content))) == expected


def test_text_streams():
    assert list(read_lines(io.StringIO("a\nb"))) == [(1, "a"), (2, "b")]


def test_unreadable_files_raise(tmp_path):
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


def test_old_file_stays_until_the_new_file_is_complete(tmp_path):
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


def test_gzip_files_are_deterministic(tmp_path):
    for name in ("a.gz", "b.gz"):
        with written_text(tmp_path / name) as file:
            file.write("text")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == b"text"
