"""Every public name has a runnable example; the examples themselves run with the doctests."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil

import pytest

import intarsia

FOLDERS = ["intarsia"] + [
    f"intarsia.{folder.name}"
    for folder in pkgutil.iter_modules(intarsia.__path__)
    if folder.ispkg and not folder.name.startswith("_") and folder.name not in ("cli", "tour")
]


def examples(value):
    """Return the examples of a name: those that run, and those that need data sets."""
    found = doctest.DocTestParser().get_examples(inspect.getdoc(value) or "")
    return [one for one in found if not one.options.get(doctest.SKIP)], found


def names(folder):
    module = importlib.import_module(folder)
    return [name for name in module.__all__ if name != "__version__" and not inspect.ismodule(getattr(module, name))]


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_public_name_has_an_example(folder):
    if folder == "intarsia.torch":
        pytest.importorskip("torch")
    lacking = []
    for name in names(folder):
        value = getattr(importlib.import_module(folder), name)
        running, found = examples(value)
        abstract = inspect.isabstract(value) and folder != "intarsia"  # its subclasses have examples
        needs_data = folder == "intarsia.datasets" and name.startswith("load_") and found
        scorer = name.endswith("_scorer")  # a scikit-learn object around a function that has examples
        if not (running or abstract or needs_data or scorer):
            lacking.append(name)
    assert not lacking
