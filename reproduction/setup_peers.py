"""Give every peer an environment of its own under .venv-peers/; one that is up to date is left alone.

    python reproduction/setup_peers.py            all of them
    python reproduction/setup_peers.py pgmax      only these

`peers/NAME.txt` lists what pip installs; `peers/NAME.no-deps.txt`, where there is one, what it installs without its
declared dependencies. Only the standard library and pip are used. A peer that cannot be installed is reported and
left out, and the exit status is still 0: the benchmark runs without it and prints null.
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
# Where the environments go, and where `intarsia bench` looks for them.
FOLDER = Path(os.environ.get("INTARSIA_PEERS") or ROOT / ".venv-peers")


def set_up(name: str) -> None:
    """Create the environment of one peer unless it was made from the same lists by the same Python."""
    folder = FOLDER / name
    plain, bare = LISTS / f"{name}.txt", LISTS / f"{name}.no-deps.txt"
    wanted = hashlib.sha256(sys.version.encode() + plain.read_bytes())
    if bare.exists():
        wanted.update(bare.read_bytes())
    stamp = folder / "made-from.sha256"
    if stamp.exists() and stamp.read_text() == wanted.hexdigest():
        print(f"{name}: up to date")
        return
    print(f"{name}: installing into {folder}", flush=True)
    if folder.exists():
        shutil.rmtree(folder)
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-r", str(plain)], check=True)
    if bare.exists():
        subprocess.run([*pip, "--no-deps", "-r", str(bare)], check=True)
    stamp.write_text(wanted.hexdigest())  # last, so that a broken installation is made anew


def main() -> int:
    known = sorted(file.stem for file in LISTS.glob("*.txt") if not file.stem.endswith(".no-deps"))
    names = sys.argv[1:] or known
    for name in names:
        if name not in known:
            print(
                f"setup_peers: there is no {name}.txt in reproduction/peers. Known: {', '.join(known)}.",
                file=sys.stderr,
            )
            return 2
        try:
            set_up(name)
        except subprocess.CalledProcessError as error:
            print(f"{name}: could not be installed (pip ended with {error.returncode}); left out.", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
