"""Convert formulas in docstrings (`:math:` and `.. math::`) to Markdown formulas, so that the site shows them."""

from __future__ import annotations

import re
from typing import Any

import griffe

_BLOCK = re.compile(r"^( *)\.\. math::[ \n]*(\S.*?)(?=\n\s*\n(?!\1 )|\Z)", flags=re.M | re.S)


class MathInDocstrings(griffe.Extension):
    """Extension of griffe that rewrites docstrings before they are parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of an object."""
        if obj.docstring is None:
            return
        text = re.sub(r":math:`([^`]+)`", r"$\1$", obj.docstring.value)
        obj.docstring.value = _BLOCK.sub(
            lambda m: m[1] + "$$" + " ".join(line.strip() for line in m[2].splitlines()) + "$$", text
        )
