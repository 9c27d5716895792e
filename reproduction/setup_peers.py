"""Create a separate environment for every peer in .venv-peers/; environments that are up to date do not change.

    python reproduction/setup_peers.py            all peers
    python reproduction/setup_peers.py pgmax      only this peer

`peers/NAME.txt` lists the packages that pip installs; `peers/NAME.no-deps.txt`, if it exists, lists packages that are
installed without their dependencies. Only the standard library and pip are used. A peer that cannot be installed is
reported and skipped, and the exit status is still 0: the benchmark runs without it and prints null.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LISTS = ROOT / "reproduction" / "peers"
# Folder of the environments, which `intarsia bench` searches as well.
FOLDER = Path(os.environ.get("INTARSIA_PEERS") or ROOT / ".venv-peers")


def set_up(name: str) -> None:
    """Create the environment of one peer, unless it was created from the same lists with the same Python."""
    folder = FOLDER / name
    requirements, requirements_without_dependencies = LISTS / f"{name}.txt", LISTS / f"{name}.no-deps.txt"
    checksum = hashlib.sha256(sys.version.encode() + requirements.read_bytes())
    if requirements_without_dependencies.exists():
        checksum.update(requirements_without_dependencies.read_bytes())
    stamp = folder / "made-from.sha256"
    if stamp.exists() and stamp.read_text() == checksum.hexdigest():
        print(f"{name}: up to date")
        return
    print(f"{name}: installing into {folder}", flush=True)
    if folder.exists():
        shutil.rmtree(folder)
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-r", str(requirements)], check=True)
    if requirements_without_dependencies.exists():
        subprocess.run([*pip, "--no-deps", "-r", str(requirements_without_dependencies)], check=True)
    stamp.write_text(checksum.hexdigest())  # written last, so that a failed installation is repeated


def main() -> int:
    """Create the environments of the peers named on the command line, or of all peers; return the exit status."""
    known_names = sorted(file.stem for file in LISTS.glob("*.txt") if not file.stem.endswith(".no-deps"))
    names = sys.argv[1:] or known_names
    for name in names:
        if name not in known_names:
            print(
                f"setup_peers: there is no {name}.txt in reproduction/peers. Known: {', '.join(known_names)}.",
                file=sys.stderr,
            )
            return 2
        try:
            set_up(name)
        except subprocess.CalledProcessError as error:
            print(f"{name}: could not be installed (pip exited with {error.returncode}); skipped.", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
