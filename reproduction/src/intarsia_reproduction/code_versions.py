"""Fingerprints of the code behind a stored row: they change with the code that computes it, not with comments.

A fingerprint covers the function that a task runs, the values bound to it, and all functions, classes and constants of
`intarsia_reproduction` that these refer to, at any depth. Comments, docstrings, annotations, layout, labels, names of
local variables and other rows of the experiment are not part of it, and neither is the library `intarsia`, which
changes daily: `intarsia reproduce --check` computes rows again instead.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from hashlib import sha256
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import FunctionType, GenericAlias, MethodType, ModuleType, UnionType
from typing import Any

import numpy as np

_PACKAGE = __name__.split(".")[0]
# Modules that find files and other programs, or store results: no figure depends on them.
_PLUMBING = tuple(
    f"{_PACKAGE}.{name}" for name in ("experiment", "datasets.location", "datasets.catalogue", "benchmarks.peers")
)


def code_fingerprint(run: Callable[..., Any]) -> str:
    """Return a fingerprint of the code and the settings of a function.

    Parameters
    ----------
    run : function
        Function of a `Task`; values bound to it by `functools.partial` or by a closure are its settings.

    Examples
    --------
    >>> from functools import partial
    >>> code_fingerprint(partial(sorted, reverse=True)) == code_fingerprint(partial(sorted, reverse=False))
    False
    """
    return sha256("\n".join(sorted(_Reader(run).parts)).encode()).hexdigest()[:16]


def code_definitions(run: Callable[..., Any]) -> dict[tuple[Path, str], str]:
    """Return the syntax trees, as text, of the functions and classes behind a function, by file and qualified name."""
    return _Reader(run).definitions


class _Reader:
    """Collects descriptions of everything that a function refers to.

    Attributes
    ----------
    parts : set of str
        Descriptions of functions, classes and constants.
    definitions : dict of (path, str) -> str
        Syntax trees of the functions and classes by file and qualified name.
    """

    def __init__(self, run: Callable[..., Any]) -> None:
        self.parts: set[str] = set()
        self.definitions: dict[tuple[Path, str], str] = {}
        self._bound_words = set(_words(run))
        self._objects: dict[int, str] = {}
        self._described: set[int] = set()
        self.parts.add(f"run {self._describe(run)}")

    def _describe(self, value: Any) -> str:
        """Return a text for a value, and collect the definitions that it refers to."""
        if value is None or isinstance(value, Path):
            return "None"  # the folder of the data differs between machines
        if isinstance(value, str):
            return "text" if " " in value else repr(value)  # a string with spaces is a label
        if isinstance(value, bool | int | float | complex | bytes | range | slice):
            return repr(value)
        if isinstance(value, np.ndarray | np.generic):
            array = np.asarray(value)
            return f"{array.dtype}{array.shape}{sha256(array.tobytes()).hexdigest()}"
        if isinstance(value, Mapping):
            # If a table of methods has an entry for a name that is bound to the task, its other entries do not matter.
            bound_keys = self._bound_words & {key for key in value if isinstance(key, str)}
            items = [(key, item) for key, item in value.items() if not bound_keys or key in bound_keys]
            return f"{{{', '.join(f'{self._describe(key)}: {self._describe(item)}' for key, item in items)}}}"
        if isinstance(value, set | frozenset):
            return f"{{{', '.join(sorted(self._describe(item) for item in value))}}}"
        if isinstance(value, tuple | list):
            return f"[{', '.join(self._describe(item) for item in value)}]"
        if isinstance(value, partial):
            return f"{self._describe(value.func)}({self._describe(value.args)}, {self._describe(value.keywords)})"
        if isinstance(value, MethodType):
            return f"{self._describe(value.__self__)}.{value.__name__}"
        if isinstance(value, ModuleType | GenericAlias | UnionType):
            return getattr(value, "__name__", "type")
        inner = getattr(value, "__wrapped__", getattr(value, "py_func", None))  # below a cache, or compiled by Numba
        if inner is not None and not isinstance(value, type):
            return self._describe(inner)
        if isinstance(value, FunctionType | type):
            return self._describe_definition(value)
        return self._describe_object(value)

    def _describe_definition(self, value: FunctionType | type) -> str:
        """Return the name of a function or class with the values bound to it, and collect its definition."""
        name = f"{value.__module__}.{value.__qualname__}"
        if not _is_ours(value):
            return name
        if isinstance(value, type):
            if id(value) not in self._described:
                self._described.add(id(value))
                module = sys.modules[value.__module__]
                path = Path(str(module.__file__))
                self._collect(path, value.__qualname__, [_classes(path)[value.__qualname__]], vars(module))
                for base in value.__mro__[1:]:
                    self._describe(base)
            return name
        if id(value.__code__) not in self._described:
            self._described.add(id(value.__code__))
            path = Path(value.__code__.co_filename)
            nodes = _callables(path).get(value.__code__.co_firstlineno, [])
            self._collect(path, value.__qualname__, nodes, value.__globals__)
        bound = [cell.cell_contents for cell in value.__closure__ or ()]
        bound += [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
        return f"{name}{self._describe(bound)}"

    def _describe_object(self, value: Any) -> str:
        """Return the class of an object with those of its settings that are not the defaults."""
        if id(value) not in self._objects:
            name = self._describe_definition(type(value))
            self._objects[id(value)] = name  # for an object that refers to itself
            settings = getattr(value, "__dict__", {})
            if name == f"{_PACKAGE}.experiment.Task":
                settings = {"key": value.key, "run": value.run}
            changed_settings = {
                key: item for key, item in sorted(settings.items()) if not _is_default(type(value), key, item)
            }
            self._objects[id(value)] = f"{name}{self._describe(list(changed_settings.items()))}"
        return self._objects[id(value)]

    def _collect(self, path: Path, name: str, nodes: list[ast.AST], names: Mapping[str, Any]) -> None:
        """Add a definition, and everything of this package to which it refers."""
        self.definitions[path, name] = text = "; ".join(_text(node) for node in nodes)
        self.parts.add(f"{path.name} {name} = {text}")
        for node in nodes:
            for reference, value in _references(node, names):
                is_definition = isinstance(value, FunctionType | type | ModuleType)
                if not is_definition or _is_ours(value):
                    self.parts.add(f"{reference}: {self._describe(value)}")


def _is_ours(value: Any) -> bool:
    """Return whether a function, class or module is of this package and computes figures."""
    module = value.__name__ if isinstance(value, ModuleType) else value.__module__ or ""
    return module.startswith(f"{_PACKAGE}.") and module not in _PLUMBING


def _is_default(cls: type, name: str, value: Any) -> bool:
    """Return whether an attribute is private or has the default of the setting of the same name."""
    try:
        parameter = signature(cls).parameters[name]
        return bool(parameter.default is value or parameter.default == value)
    except (KeyError, TypeError, ValueError):  # no such setting, or arrays
        return name.startswith("_")


def _words(value: Any) -> Iterator[str]:
    """Yield the strings that are bound to a function, such as the name of the method of its row."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, partial):
        yield from _words([value.func, *value.args, *value.keywords.values()])
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _words(item)
    elif isinstance(value, FunctionType):
        yield from _words([cell.cell_contents for cell in value.__closure__ or ()])


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8") if path.exists() else "")  # an interactive function has no file


@cache
def _callables(path: Path) -> dict[int, list[ast.AST]]:
    """Return the functions of a file by the number of their first line, which may be that of a decorator."""
    nodes: dict[int, list[ast.AST]] = {}
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            decorators = getattr(node, "decorator_list", ())
            nodes.setdefault(min([node.lineno, *(item.lineno for item in decorators)]), []).append(node)
    return nodes


def definitions_in(tree: ast.AST, prefix: str = "") -> dict[str, ast.AST]:
    """Return the functions and classes of a syntax tree by their qualified names.

    Examples
    --------
    >>> sorted(definitions_in(ast.parse("class A:\\n    def f(self):\\n        pass")))
    ['A', 'A.f']
    """
    definitions: dict[str, ast.AST] = {}
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = prefix + node.name
            definitions[name] = node
            definitions |= definitions_in(node, f"{name}." if isinstance(node, ast.ClassDef) else f"{name}.<locals>.")
        else:
            definitions |= definitions_in(node, prefix)
    return definitions


@cache
def _classes(path: Path) -> dict[str, ast.AST]:
    return definitions_in(_tree(path))


def _references(tree: ast.AST, names: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the global names in a definition, and those that it imports from this package, with their values."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names:
            if not node.id.startswith("__"):
                yield node.id, names[node.id]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = names.get(node.value.id)
            if isinstance(module, ModuleType) and _is_ours(module):
                yield f"{module.__name__}.{node.attr}", getattr(module, node.attr, None)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(_PACKAGE):
            module = import_module(str(node.module))
            for alias in node.names:
                yield f"{node.module}.{alias.name}", getattr(module, alias.name, None)


@cache
def _text(node: ast.AST) -> str:
    return tree_text(node)


def tree_text(node: Any, numbers: Mapping[str, int] | None = None) -> str:
    """Return a syntax tree as text, without docstrings, annotations and positions, equal in all versions of Python.

    Local variables of functions are numbered in the order in which they occur; `numbers` are those of the function
    around the node.

    Examples
    --------
    >>> with_comment = ast.parse('def f(x: int):\\n    "Return 2 x."\\n    y = 2 * x  # double\\n    return (y)')
    >>> tree_text(with_comment) == tree_text(ast.parse("def f(x): z = 2 * x; return z"))
    True
    """
    if isinstance(node, list):
        return f"[{', '.join(tree_text(item, numbers) for item in node)}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    if numbers is None and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        numbers = _local_variables(node)
    if isinstance(node, ast.Name) and numbers and node.id in numbers:
        return f"Local({numbers[node.id]})"
    texts = []
    for name, child in ast.iter_fields(node):
        value = child[1:] if name == "body" and isinstance(child, list) and _is_docstring(child[0]) else child
        if value is not None and value != [] and name not in _WITHOUT_EFFECT:
            texts.append(f"{name}={tree_text(value, numbers)}")
    return f"{type(node).__name__}({', '.join(texts)})"


def _local_variables(function: ast.AST) -> dict[str, int]:
    """Number the variables that are assigned in a function; arguments are not, since callers may name them."""
    arguments = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
    names = [node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return {name: k for k, name in enumerate(dict.fromkeys(name for name in names if name not in arguments))}


_WITHOUT_EFFECT = ("annotation", "returns", "ctx", "kind", "type_comment")


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
