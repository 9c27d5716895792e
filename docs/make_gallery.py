"""Make the pictures of the gallery by running the examples: `python docs/make_gallery.py [NAME ...]` (a minute).

The pictures are committed, so that building the site needs no computation. Run this script again after a change that
affects them. A test runs every example.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
GALLERY = ROOT / "docs" / "images" / "gallery"


def main(names: list[str]) -> None:
    """Run the named examples, or all of them."""
    GALLERY.mkdir(parents=True, exist_ok=True)
    for example in sorted((ROOT / "examples").glob("*.py")):
        if not names or example.stem in names:
            command = [sys.executable, str(example), str(GALLERY / f"{example.stem}.png")]
            subprocess.run(command, check=True, env=os.environ | {"MPLBACKEND": "Agg"})


if __name__ == "__main__":
    main(sys.argv[1:])
