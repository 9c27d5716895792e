"""The only place that writes files, makes folders and starts programs: a file is replaced completely or not at all.

Every such step calls `attempt` first, so that tests can make each of them fail.
"""

from __future__ import annotations

import contextlib
import io
import os
import platform
import secrets
import shutil
import subprocess
import tempfile
import time
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

# A temporary file of another machine that has not changed for so many seconds is abandoned.
_ABANDONED_AFTER = 86_400.0


def attempt(operation: str, subject: object) -> None:
    """Do nothing before an operation such as "write" or "replace"; tests replace this function by one that raises."""


@contextlib.contextmanager
def replaced_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the path of a temporary file beside `path`; at the end of the block it replaces `path`.

    A reader of `path` sees the old file or the new one, never a mixture, even after a crash. If the block raises an
    error, the temporary file is removed; if the process is killed, the next call for `path` removes it. If several
    processes write the same file, the last one wins. Use `written_file` unless another library opens the file.

    Parameters
    ----------
    path : path
        The file; its folder must exist. If it is a symbolic link, the target of the link is replaced.

    Examples
    --------
    >>> with temporary_folder() as folder:
    ...     target = Path(folder, "a.txt")
    ...     with replaced_file(target) as temporary:
    ...         _ = temporary.write_text("all of it")
    ...     target.read_text(), [file.name for file in Path(folder).iterdir()]
    ('all of it', ['a.txt'])
    """
    target = Path(os.path.realpath(path))
    # A random name, so that two writers do not collide and no file of the user is overwritten.
    temporary = target.with_name(f"{_start_of_name(target)}{secrets.token_hex(4)}.part")
    try:
        yield temporary
        attempt("fsync", path)
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        replace(temporary, target)
    except BaseException as error:
        if isinstance(error, OSError) and error.errno and error.filename in (None, os.fspath(temporary)):
            error.filename = os.fspath(path)  # the user does not know the temporary file
        remove(temporary)
        raise


def _start_of_name(target: Path) -> str:
    """Return how names of this process for new content of a target start; remove what killed processes have left."""
    name, machine = (f"{zlib.crc32(os.fsencode(text)):08x}" for text in (target.name, platform.node()))
    with contextlib.suppress(OSError), os.scandir(target.parent) as entries:
        for entry in entries:
            if entry.name.startswith(f".{name}-") and entry.name.endswith(".part"):
                _, home, process, _ = entry.name.split("-")
                is_old = time.time() - entry.stat().st_mtime > _ABANDONED_AFTER
                if is_old or (home == machine and not _is_running(int(process))):
                    shutil.rmtree(entry.path) if entry.is_dir() else remove(entry.path)
    return f".{name}-{machine}-{os.getpid()}-"


def _is_running(process: int) -> bool:
    """Return whether a process of this machine is running; on Windows, where open files cannot be removed, False."""
    try:
        if os.name != "nt":
            os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # a process of another user
        return True
    return os.name != "nt"


class _File(io.FileIO):
    """A new file of which each write can be made to fail."""

    def write(self, data: Any) -> int:
        attempt("write", self.name)
        return super().write(data)


@contextlib.contextmanager
def written_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yield a binary file for the new content of `path`, which it replaces at the end of the block.

    Examples
    --------
    >>> with temporary_folder() as folder:
    ...     with written_file(Path(folder, "a.bin")) as file:
    ...         _ = file.write(b"all of it")
    ...     Path(folder, "a.bin").read_bytes()
    b'all of it'
    """
    with replaced_file(path) as temporary:
        attempt("open", path)
        with io.BufferedWriter(_File(os.fspath(temporary), "xb")) as file:
            yield file


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Replace a file by one with this content."""
    with written_file(path) as file:
        file.write(content)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Replace a file by one with this text in UTF-8."""
    write_bytes(path, text.encode("utf-8"))


def append_line(path: str | os.PathLike[str], line: str) -> None:
    """Append a line to a file, and wait until it is on the disk; after an error the file is as it was."""
    content = (line + "\n").encode("utf-8")
    is_new = not os.path.exists(path)
    attempt("open", path)
    with _File(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), "ab") as file:
        size = os.fstat(file.fileno()).st_size
        try:
            while content:  # a disk that is almost full takes a part
                content = content[file.write(content) :]
            attempt("fsync", path)
            os.fsync(file.fileno())
        except BaseException:
            file.truncate(size)
            if is_new:
                Path(path).unlink(missing_ok=True)
            raise


def replace(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Give a file another name in the same folder tree, and replace the file that has it."""
    attempt("replace", target)
    os.replace(source, target)


def make_folder(path: str | os.PathLike[str]) -> Path:
    """Make a folder and those that contain it, unless they exist; return its path."""
    attempt("mkdir", path)
    Path(path).mkdir(parents=True, exist_ok=True)
    return Path(path)


def remove(*paths: str | os.PathLike[str]) -> None:
    """Remove files, if they exist; after an error, such as Ctrl-C, the others are removed before it is raised."""
    for k, path in enumerate(paths):
        try:
            attempt("remove", path)
            Path(path).unlink(missing_ok=True)
        except BaseException:
            for other in paths[k:]:
                Path(other).unlink(missing_ok=True)
            raise


def remove_folder(path: str | os.PathLike[str]) -> None:
    """Remove an empty folder; raise OSError if it is not empty."""
    attempt("remove", path)
    Path(path).rmdir()


def temporary_folder(target: Path | None = None) -> tempfile.TemporaryDirectory[str]:
    """Return a new folder, beside a target or among the system's temporary files, that is removed after a block."""
    attempt("mkdir", target)
    if target is None:
        return tempfile.TemporaryDirectory(prefix="intarsia_")
    return tempfile.TemporaryDirectory(".part", _start_of_name(target), target.parent)


def run_program(
    command: list[str], *, env: Mapping[str, str] | None = None, check: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run another program to its end and return its output as strings (`subprocess.run`)."""
    attempt("start", command[0])
    return subprocess.run(command, env=env, check=check, capture_output=True, text=True)


def start_program(command: list[str], **settings: Any) -> subprocess.Popen[str]:
    """Start another program that exchanges strings with this one (`subprocess.Popen`)."""
    attempt("start", command[0])
    return subprocess.Popen(command, text=True, **settings)
