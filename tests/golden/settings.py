"""Names and defaults of the settings of every class with `get_params`, found by walking the package's modules."""

from __future__ import annotations

import inspect
import json

from tests.golden.golden import FOLDER
from tests.modules import modules

NAME = "settings"
FILE = FOLDER / "settings.json"
# Of parts of the package that a missing extra leaves out: not compared where it is missing.
OPTIONAL = ("intarsia.torch",)


def _classes() -> dict[str, type]:
    """Return the settings classes that users meet: exported ones, and others that are no base of another class."""
    found, exported = {}, set()
    for module in modules():
        if module.__name__.startswith(OPTIONAL):
            continue
        if hasattr(module, "__path__"):
            exported |= set(getattr(module, "__all__", ()))
        found |= {
            name: value
            for name, value in vars(module).items()
            if inspect.isclass(value) and hasattr(value, "get_params") and value.__module__ == module.__name__
        }
    bases = {base for value in found.values() for base in value.__mro__[1:]}
    return {
        name: value
        for name, value in sorted(found.items())
        if not name.startswith("_") and (name in exported or value not in bases)
    }


def defaults() -> dict[str, dict[str, str]]:
    """Return the parameters of every settings class with the reprs of their defaults, by the class's name."""
    result = {}
    for name, value in _classes().items():
        parameters = list(inspect.signature(value.__init__).parameters.values())[1:]
        named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        result[name] = {p.name: "required" if p.default is p.empty else repr(p.default) for p in named}
        if not inspect.isabstract(value) and "required" not in result[name].values():
            assert sorted(result[name]) == sorted(value().get_params(deep=False)), name
    return result


def recorded() -> dict[str, dict[str, str]]:
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def changes() -> list[str]:
    """Return a line for each class whose settings differ from the recorded ones."""
    old, new = recorded(), defaults()
    changed = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    return [f"settings of {name}: {old.get(name)} -> {new.get(name)}" for name in changed if old]


def write() -> None:
    lines = [f" {json.dumps(name)}: {json.dumps(found)}" for name, found in defaults().items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
