"""Names of code, kernels, tests and pages agree; public names have docstrings; citations are in the bibliography."""

from __future__ import annotations

import collections
import importlib.util
import inspect
import re
from pathlib import Path

import pytest
from tests.modules import modules

import intarsia
from intarsia.inference.registry import method_class, method_names

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "intarsia"
DOCS = ROOT / "docs"
# Written with NumPy on purpose, so that the reference method shares no loop with the kernels.
WITHOUT_KERNEL = {"brute_force"}
# Wrappers around another method, which does the work.
WITHOUT_KERNEL |= {"bethe_rda", "bethe_mirror_descent", "bethe_accelerated", "bethe_dual"}
# Programs that HiGHS solves.
WITHOUT_KERNEL |= {"lp_relaxation", "integer_program"}
# Methods that share a kernel, which is therefore named after its function.
KERNEL_OF = {
    "belief_propagation": "messages",
    "tree_reweighted": "messages",
    "tree": "elimination",
    "junction_tree": "elimination",
}
ROOMS = [name for name in intarsia.__all__ if inspect.ismodule(getattr(intarsia, name))]
FRONT_DOOR = [name for name in intarsia.__all__ if name not in (*ROOMS, "__version__")]
MOST_NAMES = 45
# Dotted names of all public names: the top-level package, then the `__all__` of every subpackage.
PUBLIC = {name: getattr(intarsia, name) for name in FRONT_DOOR} | {
    f"{room}.{name}": getattr(getattr(intarsia, room), name)
    for room in ROOMS
    for name in getattr(getattr(intarsia, room), "__all__", [])
    if name not in FRONT_DOOR
}


def test_top_level_namespace_is_small():
    assert len(FRONT_DOOR) <= MOST_NAMES, "a name used by few belongs in the __all__ of its room alone"


def test_no_two_public_names_are_the_same():
    places = collections.defaultdict(dict)
    for dotted, value in PUBLIC.items():
        places[dotted.rpartition(".")[2]][id(value)] = dotted
    assert [sorted(same.values()) for same in places.values() if len(same) > 1] == []


@pytest.mark.parametrize("name", method_names())
def test_method_name_is_the_name_of_kernel_test_and_page(name):
    found = method_class(name)
    assert re.fullmatch(rf"intarsia\.inference\.\w+\.{name}", found.__module__)
    assert found.__name__.lower() == name.replace("_", "")
    assert list((ROOT / "tests" / "inference").rglob(f"test_{name}.py"))
    assert (DOCS / "guide" / f"{name}.md").is_file()
    if name not in WITHOUT_KERNEL:
        kernel = KERNEL_OF.get(name, name)
        assert (SOURCE / "_kernels" / f"{kernel}.py").is_file()
        (path,) = (SOURCE / "inference").rglob(f"{name}.py")
        source = path.read_text(encoding="utf-8")
        assert "_kernels" in source or name in KERNEL_OF


def test_a_public_class_name_means_one_class():
    """A name never stands for two classes in the top-level package and the `__all__` of all subpackages."""
    packages = [intarsia, *(module for module in modules() if hasattr(module, "__path__"))]
    classes: dict[str, set[type]] = {}
    for package in packages:
        for name in getattr(package, "__all__", ()):
            value = getattr(package, name)
            if inspect.isclass(value):
                classes.setdefault(name, set()).add(value)
    assert len(classes) > 100
    assert {name: found for name, found in classes.items() if len(found) > 1} == {}


# A scorer is a scikit-learn object around a function that has its own docstring.
@pytest.mark.parametrize("name", [name for name in PUBLIC if not name.endswith("_scorer")])
def test_public_names_have_docstrings_with_examples(name):
    value = PUBLIC[name]
    text = inspect.getdoc(value)
    assert text, f"{name} has no docstring"
    first = text.splitlines()[0]
    assert len(first) <= 120
    abstract = inspect.isabstract(value)
    enumeration = inspect.isclass(value) and issubclass(value, (intarsia.Status, intarsia.graph.FactorKind))
    made_elsewhere = value is intarsia.graph.GraphBatch
    if not (abstract or enumeration or made_elsewhere):
        assert re.search(r"^Examples\n-{8}$", text, flags=re.M), f"{name} has no Examples section"
        assert ">>> " in text.split("Examples\n--------")[1]


@pytest.mark.parametrize("name", [name for name, value in PUBLIC.items() if inspect.isfunction(value)])
def test_public_functions_are_typed(name):
    signature = inspect.signature(PUBLIC[name])
    assert signature.return_annotation is not inspect.Signature.empty
    for parameter in signature.parameters.values():
        assert parameter.annotation is not inspect.Parameter.empty, parameter.name


@pytest.mark.parametrize("name", method_names())
def test_every_setting_is_in_the_docstring(name):
    found = method_class(name)
    text = inspect.getdoc(found) or ""
    for setting in found._get_param_names():
        assert re.search(rf"^(\w+, )*{setting}(, \w+)*( : .*)?$", text, flags=re.M), f"{found.__name__}: {setting}"


def test_every_registry_name_is_public():
    for name in method_names():
        assert getattr(intarsia, method_class(name).__name__) is method_class(name)


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in sorted(DOCS.rglob("*.md")):
        assert f"- {page.relative_to(DOCS).as_posix()}" in navigation, f"add {page.name} to nav in mkdocs.yml"


# ---------------------------------------------------------------- citations

# Author-year keys in comments and docstrings: Domke2013, Wainwright2005.
_KEY = re.compile(r"\b([A-Z][a-z]+(?:[A-Z][a-z]+)*(?:19|20)\d\d[a-z]?)\b")


def bibliography() -> set[str]:
    return set(re.findall(r"^@\w+\{(\w+),", (DOCS / "references.bib").read_text(encoding="utf-8"), flags=re.M))


@pytest.mark.parametrize(
    "path",
    sorted(
        [*SOURCE.rglob("*.py"), *(ROOT / "reproduction" / "src").rglob("*.py"), *DOCS.rglob("*.md"), ROOT / "README.md"]
    ),
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_citation_keys_are_in_the_bibliography(path):
    unknown = set(_KEY.findall(path.read_text(encoding="utf-8"))) - bibliography()
    assert not unknown, f"not in docs/references.bib: {sorted(unknown)}"


def test_the_references_page_lists_the_bibliography():
    spec = importlib.util.spec_from_file_location("hooks", DOCS / "_hooks.py")
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    assert bibliography() == set(hooks.bibliography())
    listed = hooks.references_list()
    assert all(f'id="{key}"' in listed for key in bibliography())
