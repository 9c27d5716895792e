"""Functions that the scripts share: the command line, flat arrays of images, texts with marked fields."""

from __future__ import annotations

import argparse
import gzip
import re
import sys
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intarsia._files.array_file import write_npz
from intarsia._files.atomic_file import make_folder, write_bytes
from intarsia.exceptions import IntarsiaError, InvalidInputError

_MARK = re.compile(r"(</?[A-Za-z][\w-]*>)")


def run(make: Callable[[Path, Path], None], source: str, arguments: Sequence[str] | None = None) -> None:
    """Call `make` with the two paths of the command line; print errors as one line and exit with status 1.

    Examples
    --------
    >>> run(lambda original, output: print(original, output), "anywhere", ["a", "b"])
    a b
    """
    parser = argparse.ArgumentParser(description=source)
    parser.add_argument("original", type=Path, help=source)
    parser.add_argument("output", type=Path, help="folder for our files")
    paths = parser.parse_args(arguments)
    try:
        make(paths.original, paths.output)
    except IntarsiaError as error:
        sys.exit(f"{parser.prog}: {error}")


def files_in(folder: Path, pattern: str) -> list[Path]:
    """Return the files of a folder that match a pattern, sorted by name; raise if there are none.

    Examples
    --------
    >>> files_in(Path(__file__).parent, "comm*.py")[0].name
    'command.py'
    """
    files = sorted(folder.glob(pattern))
    if not files:
        raise InvalidInputError(f"{folder} has no files {pattern}. Unpack the published data set there.")
    return files


def flat_images(**images: list[NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return images of unequal size as flat arrays, with `height`, `width` and `offset` as the loaders expect them.

    Examples
    --------
    >>> arrays = flat_images(mask=[np.zeros((1, 2)), np.ones((2, 2))])
    >>> arrays["height"].tolist(), arrays["offset"].tolist(), arrays["mask"].tolist()
    ([1, 2], [0, 2, 6], [0.0, 0.0, 1.0, 1.0, 1.0, 1.0])
    """
    first = next(iter(images.values()))
    height, width = (np.array([image.shape[axis] for image in first], dtype=np.int32) for axis in (0, 1))
    offset = np.concatenate([[0], np.cumsum(height.astype(np.int64) * width)])
    flat = {
        name: np.concatenate([image.reshape(-1, *image.shape[2:]) for image in parts]) for name, parts in images.items()
    }
    return {**flat, "height": height, "width": width, "offset": offset}


def write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    """Write a compressed npz file; create its folder if needed."""
    make_folder(path.parent)
    write_npz(path, arrays, compressed=True)


def write_text(path: Path, text: str) -> None:
    """Write a gzip-compressed text file; create its folder if needed. Equal texts give equal files."""
    make_folder(path.parent)
    write_bytes(path, gzip.compress(text.encode("utf-8"), mtime=0))


def find_original(path: Path) -> Path | None:
    """Return the path of a published file, plain or gzip-compressed (`.gz` added to its name), or None.

    Examples
    --------
    >>> find_original(Path(__file__)).name
    'command.py'
    """
    return next((file for file in (path, path.with_name(f"{path.name}.gz")) if file.is_file()), None)


def read_original_bytes(path: Path) -> bytes:
    """Return the content of a published file, plain or gzip-compressed.

    Examples
    --------
    >>> len(read_original_bytes(Path(__file__))) > 1000
    True
    """
    file = find_original(path)
    if file is None:
        raise InvalidInputError(f"{path} is missing, both plain and gzip-compressed. Unpack the published data set.")
    content = file.read_bytes()
    try:
        return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
    except (OSError, EOFError, zlib.error):
        raise InvalidInputError(f"{file} is a damaged gzip file. Download it again.") from None


def read_original(path: Path) -> str:
    """Return the text of a published file, plain or gzip-compressed.

    Examples
    --------
    >>> read_original(Path(__file__)).splitlines()[-1].strip()
    'return tokens'
    """
    try:
        return read_original_bytes(path).decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidInputError(f"{path} is not text in UTF-8. Download it again.") from None


def field_tokens(text: str) -> list[tuple[str, str, str]]:
    """Return the tokens of a reference with nested fields: token, tag of its innermost field and path of its fields.

    A token after a mark starts a field (B-). An end mark closes the innermost open field with its name and all fields
    inside it; an end mark without a start mark is ignored.

    Examples
    --------
    >>> field_tokens("<authors> <person> J. Doe </person> and </authors> see")
    [('J.', 'B-person', 'authors/person'), ('Doe', 'I-person', 'authors/person'), ('and', 'B-authors', 'authors'), \
('see', 'O', 'O')]
    """
    fields: list[str] = []
    tokens: list[tuple[str, str, str]] = []
    for k, piece in enumerate(_MARK.split(text)):
        name = piece.strip("</>")
        if k % 2 == 0:
            for position, token in enumerate(piece.split()):
                prefix = "I-" if position else "B-"
                tokens.append((token, prefix + fields[-1], "/".join(fields)) if fields else (token, "O", "O"))
        elif not piece.startswith("</"):
            fields.append(name)
        elif name in fields:
            last = len(fields) - 1 - fields[::-1].index(name)
            del fields[last:]
    return tokens
