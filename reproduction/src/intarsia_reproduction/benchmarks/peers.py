"""Other libraries, each in an environment of its own: found if installed, driven line by line over a pipe."""

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

from intarsia.exceptions import IntarsiaError
from intarsia_reproduction.benchmarks.measurement import ONE_THREAD

VARIABLE = "INTARSIA_PEERS"


def checkout() -> Path | None:
    """Return the source checkout: the nearest folder above this file that holds `reproduction/peers`."""
    return next((up for up in Path(__file__).resolve().parents if (up / "reproduction" / "peers").is_dir()), None)


def peer_folders() -> list[Path]:
    """Folders that may hold the peers' environments.

    The one named by the variable INTARSIA_PEERS; without it, `.venv-peers` in the working directory, then in the
    checkout.
    """
    if os.environ.get(VARIABLE):
        return [Path(os.environ[VARIABLE]).expanduser()]
    return [root / ".venv-peers" for root in (Path.cwd(), checkout()) if root is not None]


def script_folders() -> list[Path]:
    """Folders that may hold the peers' scripts: the installed package, and the checkout."""
    root = checkout()
    return [Path(__file__).with_name("scripts_of_peers"), *([] if root is None else [root / "reproduction" / "peers"])]


def find_peer(name: str, root: Path | None = None) -> Peer | None:
    """Return the peer of this name, or None when its environment has not been set up.

    `reproduction/setup_peers.py` sets it up.

    Parameters
    ----------
    name : str
        Name of a script in `reproduction/peers`.
    root : path, optional
        Checkout to look in instead of the configured folders.

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
    """A running peer. Use it in a `with` block: the process ends with the block.

    The script reads one JSON request per line and answers each with one line, so that its runs and ours can take turns
    while it keeps what it compiled.
    """

    def __init__(self, name: str, python: Path, script: Path) -> None:
        self.name = name
        self._command = [str(python), "-P", str(script)]  # -P: the script may carry the name of what it imports
        self._process: subprocess.Popen[str] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._errors: IO[str] | None = None

    def __enter__(self) -> Peer:
        self._folder = tempfile.TemporaryDirectory()
        # Errors go to a file: a pipe that nobody reads would fill up and stop the peer.
        self._errors = open(Path(self._folder.name) / "stderr", "w+", encoding="utf-8")
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, **ONE_THREAD},
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with suppress(BrokenPipeError):  # it ended by itself; the request that found out has raised
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
        """Send one request and wait for its answer."""
        if self._process is None or self._process.stdin is None or self._process.stdout is None:
            raise IntarsiaError(f"Peer {self.name}: not started. Use it in a `with` block.")
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise IntarsiaError(self._last_words(do)) from None
        line = self._process.stdout.readline()
        if not line:
            raise IntarsiaError(self._last_words(do))
        answer: dict[str, Any] = json.loads(line)
        return answer

    def load(self, **arrays: Any) -> dict[str, Any]:
        """Hand a model over as an npz file: the same bits on both sides."""
        return self.hand("load", **arrays)

    def hand(self, do: str, **arrays: Any) -> dict[str, Any]:
        """Send a request that takes arrays, as an npz file."""
        file = self._file("model.npz")
        np.savez(file, **arrays)
        return self.ask(do, file=file)

    def fetch(self, what: str) -> Any:
        """Ask for an array, which comes back as an npz file."""
        file = self._file(f"{what}.npz")
        self.ask(what, file=file)
        with np.load(file, allow_pickle=False) as data:
            return data[what]

    def _file(self, name: str) -> str:
        if self._folder is None:
            raise IntarsiaError(f"Peer {self.name}: not started. Use it in a `with` block.")
        return str(Path(self._folder.name) / name)

    def _last_words(self, do: str) -> str:
        words = ""
        if self._errors is not None:
            self._errors.seek(0)
            words = " ".join(self._errors.read().strip().splitlines()[-1:])
        return (
            f"Peer {self.name}: ended while asked to {do!r}. {words} Set it up anew with reproduction/setup_peers.py."
        )
