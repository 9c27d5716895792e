"""Files that are there as a whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replaced_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A new name beside `path` to write to; what is there at the end takes the place of `path`.

    Whoever reads `path` finds the old file or the new one, never half of either, also after a crash. Where an error
    ends the writing, nothing is left of it. Several processes may write the same file: the last one stays.

    Parameters
    ----------
    path : path
        The file; its folder must exist. Through a symbolic link, the file that it leads to is replaced.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     target = Path(folder, "a.txt")
    ...     with replaced_file(target) as beside:
    ...         _ = beside.write_text("all of it")
    ...     target.read_text(), [file.name for file in Path(folder).iterdir()]
    ('all of it', ['a.txt'])
    """
    target = Path(os.path.realpath(path))
    # A name of its own, so that two writers do not meet and no file of the user's is in the way.
    beside = target.with_name(f".{secrets.token_hex(8)}.part")
    try:
        yield beside
        with open(beside, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(beside, target)
    except OSError as error:
        if error.filename is not None and os.fspath(error.filename) == os.fspath(beside):
            error.filename = os.fspath(path)  # the name that the user knows
        raise
    finally:
        beside.unlink(missing_ok=True)
