"""Atomic writing of files: a file is replaced completely or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replaced_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the path of a temporary file beside `path`; at the end of the block it replaces `path`.

    A reader of `path` sees the old file or the new one, never a mixture, even after a crash. If the block raises an
    error, the temporary file is removed. If several processes write the same file, the last one wins.

    Parameters
    ----------
    path : path
        The file; its folder must exist. If it is a symbolic link, the target of the link is replaced.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     target = Path(folder, "a.txt")
    ...     with replaced_file(target) as temporary:
    ...         _ = temporary.write_text("all of it")
    ...     target.read_text(), [file.name for file in Path(folder).iterdir()]
    ('all of it', ['a.txt'])
    """
    target = Path(os.path.realpath(path))
    # A random name, so that two writers do not collide and no file of the user is overwritten.
    temporary = target.with_name(f".{secrets.token_hex(8)}.part")
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        if error.filename is not None and os.fspath(error.filename) == os.fspath(temporary):
            error.filename = os.fspath(path)  # the user does not know the temporary file
        raise
    finally:
        temporary.unlink(missing_ok=True)
