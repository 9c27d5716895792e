"""Every module of the package that can be imported here; a room whose extra is missing is left out and counted."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from importlib.util import find_spec
from types import ModuleType

import intarsia

# Rooms that an extra brings to life, with the package that the extra installs.
EXTRAS = {"intarsia.torch": "torch"}


def missing_rooms() -> dict[str, str]:
    """Return the rooms that cannot be imported here, with the package that each needs."""
    return {room: package for room, package in EXTRAS.items() if find_spec(package) is None}


def modules() -> Iterator[ModuleType]:
    """Import every module of the package, except those of missing rooms."""
    for module in pkgutil.walk_packages(intarsia.__path__, "intarsia."):
        if ".".join(module.name.split(".")[:2]) not in missing_rooms():
            yield importlib.import_module(module.name)
