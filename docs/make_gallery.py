"""Make the pictures of the gallery by running the examples: `python docs/make_gallery.py [NAME ...]` (a minute).

The pictures are committed, so that building the site needs no computation. Run this script again after a change that
affects them. Each picture contains the line that its program printed, and a test compares it with a new run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo

ROOT = Path(__file__).parents[1]
GALLERY = ROOT / "docs" / "images" / "gallery"


def main(names: list[str]) -> None:
    """Run the named examples, or all of them."""
    GALLERY.mkdir(parents=True, exist_ok=True)
    for example in sorted((ROOT / "examples").glob("*.py")):
        if not names or example.stem in names:
            picture = GALLERY / f"{example.stem}.png"
            text = run_example(example, picture)
            print(text)
            information = PngInfo()
            information.add_text("Description", text)
            with Image.open(picture) as image:
                image.load()
            image.save(picture, pnginfo=information, optimize=True)


def run_example(example: Path, picture: Path) -> str:
    """Run an example, which draws its picture, and return what it printed without the path of the picture."""
    result = subprocess.run(
        [sys.executable, str(example), str(picture)],
        cwd=picture.parent,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"MPLBACKEND": "Agg"},
    )
    return result.stdout.replace(str(picture), picture.name).strip()


if __name__ == "__main__":
    main(sys.argv[1:])
