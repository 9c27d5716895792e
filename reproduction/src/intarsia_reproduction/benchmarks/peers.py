"""Other libraries (peers), each run in a separate environment and controlled by JSON lines over a pipe."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np

from intarsia._files.array_file import write_npz
from intarsia._files.atomic_file import start_program, temporary_folder
from intarsia.exceptions import IntarsiaError
from intarsia_reproduction.benchmarks.measurement import ONE_THREAD

VARIABLE = "INTARSIA_PEERS"


def checkout() -> Path | None:
    """Return the source checkout: the nearest folder above this file that holds `reproduction/peers`."""
    return next(
        (folder for folder in Path(__file__).resolve().parents if (folder / "reproduction" / "peers").is_dir()), None
    )


def peer_folders() -> list[Path]:
    """Return the folders to search for environments of peers.

    This is the folder in the environment variable INTARSIA_PEERS; without it, `.venv-peers` in the working directory,
    then in the checkout.
    """
    if os.environ.get(VARIABLE):
        return [Path(os.environ[VARIABLE]).expanduser()]
    return [root / ".venv-peers" for root in (Path.cwd(), checkout()) if root is not None]


def script_folders() -> list[Path]:
    """Return the folders to search for scripts of peers: the installed package, then the checkout."""
    root = checkout()
    return [Path(__file__).with_name("scripts_of_peers"), *([] if root is None else [root / "reproduction" / "peers"])]


def find_peer(name: str, root: Path | None = None) -> Peer | None:
    """Return the peer of this name, or None if its environment does not exist.

    `reproduction/setup_peers.py` creates the environments.

    Parameters
    ----------
    name : str
        Name of a script in `reproduction/peers`.
    root : path, optional
        Checkout to search instead of the configured folders.

    Examples
    --------
    >>> find_peer("nobody") is None
    True
    """
    folders = peer_folders() if root is None else [root / ".venv-peers"]
    scripts = script_folders() if root is None else [root / "reproduction" / "peers"]
    inside = Path(name) / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    python = next((folder / inside for folder in folders if (folder / inside).exists()), None)
    script = next((folder / f"{name}.py" for folder in scripts if (folder / f"{name}.py").exists()), None)
    return None if python is None or script is None else Peer(name, python, script)


class Peer:
    """Process of a peer. Use it in a `with` block: the process ends with the block.

    The script reads one JSON request per line and answers each with one line. The process stays alive between requests,
    so that both programs can take turns and compiled code is kept.
    """

    def __init__(self, name: str, python: Path, script: Path) -> None:
        self.name, self.python = name, python
        self._command = [str(python), "-P", str(script)]  # -P: a script can have the name of the library it imports
        self._process: subprocess.Popen[str] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._errors: IO[str] | None = None

    def __enter__(self) -> Peer:
        self._folder = temporary_folder()
        # Errors go to a file, because a pipe that is not read would fill up and block the peer.
        self._errors = open(Path(self._folder.name) / "stderr", "w+", encoding="utf-8")
        self._process = start_program(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, **ONE_THREAD},
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with suppress(
                        BrokenPipeError
                    ):  # the peer has already ended; the request that noticed it has raised
                        pipe.close()
            try:
                self._process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._errors is not None:
            self._errors.close()
        if self._folder is not None:
            self._folder.cleanup()

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Send one request, wait for the answer and return it."""
        if self._process is None or self._process.stdin is None or self._process.stdout is None:
            raise IntarsiaError(f"Peer {self.name}: not started. Use it in a `with` block.")
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise IntarsiaError(self._failure_message(do)) from None
        line = self._process.stdout.readline()
        if not line:
            raise IntarsiaError(self._failure_message(do))
        answer: dict[str, Any] = json.loads(line)
        return answer

    def load(self, **arrays: Any) -> dict[str, Any]:
        """Send a model to the peer as an npz file, so that both sides get exactly the same numbers."""
        return self.hand("load", **arrays)

    def hand(self, do: str, **arrays: Any) -> dict[str, Any]:
        """Send a request with arrays, which are passed as an npz file."""
        file = self._file("model.npz")
        write_npz(file, arrays)
        return self.ask(do, file=file)

    def fetch(self, name: str) -> Any:
        """Request an array by name and return it; it is passed as an npz file."""
        file = self._file(f"{name}.npz")
        self.ask(name, file=file)
        with np.load(file, allow_pickle=False) as data:
            return data[name]

    def _file(self, name: str) -> str:
        if self._folder is None:
            raise IntarsiaError(f"Peer {self.name}: not started. Use it in a `with` block.")
        return str(Path(self._folder.name) / name)

    def _failure_message(self, do: str) -> str:
        last_line = ""
        if self._errors is not None:
            self._errors.seek(0)
            last_line = " ".join(self._errors.read().strip().splitlines()[-1:])
        return (
            f"Peer {self.name}: the process ended during {do!r}. {last_line} Install it again with "
            f"reproduction/setup_peers.py."
        )
