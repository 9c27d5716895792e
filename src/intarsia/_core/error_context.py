"""Add the name of the public call to errors and warnings.

A public entry point names itself once, with `entry_point` on a method or `errors_from` on a function. Inner functions
do not need to know who called them.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar, cast

from intarsia.exceptions import IntarsiaError

F = TypeVar("F", bound=Callable[..., Any])

_entered: ContextVar[bool] = ContextVar("entered", default=False)
_prefix: ContextVar[str] = ContextVar("prefix", default="")
_dropped: ContextVar[tuple[type[Warning], ...]] = ContextVar("dropped", default=())
# Warnings are attributed to the first frame outside these files.
_INTERNAL_FILES = (os.path.dirname(inspect.getfile(IntarsiaError)) + os.sep, contextlib.__file__)


@contextmanager
def errors_in(label: str) -> Iterator[None]:
    """Prepend a label, such as an argument or a file name, to errors and warnings of the block; "" adds nothing.

    Examples
    --------
    >>> from intarsia.exceptions import InvalidInputError
    >>> with errors_from("ChainCRF.fit"), errors_in("validation"):
    ...     raise InvalidInputError("y[3] has 2 labels.")
    Traceback (most recent call last):
    intarsia.exceptions.InvalidInputError: ChainCRF.fit: validation: y[3] has 2 labels.
    """
    prefix = f"{label}: " if label else ""
    token = _prefix.set(_prefix.get() + prefix)
    try:
        yield
    except IntarsiaError as error:
        _add_prefix(error, prefix)
        raise
    finally:
        _prefix.reset(token)


@contextmanager
def errors_from(name: str) -> Iterator[None]:
    """Prepend the name of a public entry point to errors and warnings of the block, unless another one called it.

    It also works as a decorator. Errors of worker threads and processes get the name when they reach the caller.

    Examples
    --------
    >>> from intarsia.exceptions import InvalidInputError
    >>> @errors_from("best_threshold")
    ... def best_threshold():
    ...     raise InvalidInputError("scores are empty.")
    >>> with errors_from("EntityClusterer.fit"):
    ...     best_threshold()
    Traceback (most recent call last):
    intarsia.exceptions.InvalidInputError: EntityClusterer.fit: scores are empty.
    """
    if _entered.get():
        yield
        return
    token = _entered.set(True)
    try:
        with errors_in(name):
            yield
    finally:
        _entered.reset(token)


def entry_point(method: F) -> F:
    """Prepend the class and name of a public method to the errors and warnings that it raises.

    Examples
    --------
    >>> from intarsia.exceptions import InvalidInputError
    >>> class Model:
    ...     @entry_point
    ...     def fit(self, X):
    ...         raise InvalidInputError("X is empty.")
    >>> class Special(Model):
    ...     pass
    >>> Special().fit([])
    Traceback (most recent call last):
    intarsia.exceptions.InvalidInputError: Special.fit: X is empty.
    """

    @wraps(method)
    def named(self: Any, *args: Any, **kwargs: Any) -> Any:
        owner = self if isinstance(self, type) else type(self)
        with errors_from(f"{owner.__name__}.{method.__name__}"):
            return method(self, *args, **kwargs)

    return cast(F, named)


def current_place() -> str:
    """Return the current prefix of messages, the entry point and the labels inside it, or "".

    Examples
    --------
    >>> with errors_from("ChainCRF.fit"), errors_in("validation"):
    ...     current_place()
    'ChainCRF.fit: validation: '
    """
    return _prefix.get()


@contextmanager
def without_warnings(category: type[Warning]) -> Iterator[None]:
    """Drop warnings of a category from `warn_caller`, in this thread only.

    `warnings.catch_warnings` changes the filters of the whole process, and two threads can leave them changed.

    Examples
    --------
    >>> with without_warnings(UserWarning):
    ...     warn_caller("rules clash.", UserWarning)
    """
    token = _dropped.set((*_dropped.get(), category))
    try:
        yield
    finally:
        _dropped.reset(token)


def warn_caller(message: str, category: type[Warning]) -> None:
    """Issue a warning with the current prefix, attributed to the calling line outside the package."""
    if issubclass(category, _dropped.get()):
        return
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INTERNAL_FILES):
        level, frame = level + 1, frame.f_back
    warnings.warn(current_place() + message, category, stacklevel=level)


def _add_prefix(error: IntarsiaError, prefix: str) -> None:
    """Prepend a prefix to the message of an error."""
    if error.args and isinstance(error.args[0], str):
        error.args = (prefix + error.args[0], *error.args[1:])
    if isinstance(error, ImportError) and isinstance(error.msg, str):
        error.msg = prefix + error.msg  # str() of an ImportError is its msg
