"""Errors and warnings that say which public call they come from.

A public entry point names itself once, with `entry_point` on a method or `errors_from` on a function; inner functions
know nothing of who called them.
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
# Files whose frames a warning does not point to.
_INSIDE = (os.path.dirname(inspect.getfile(IntarsiaError)) + os.sep, contextlib.__file__)


@contextmanager
def errors_in(part: str) -> Iterator[None]:
    """Put a part, such as an argument or a file, in front of errors and warnings from inside; "" adds nothing.

    Examples
    --------
    >>> from intarsia.exceptions import InvalidInputError
    >>> with errors_from("ChainCRF.fit"), errors_in("validation"):
    ...     raise InvalidInputError("y[3] has 2 labels.")
    Traceback (most recent call last):
    intarsia.exceptions.InvalidInputError: ChainCRF.fit: validation: y[3] has 2 labels.
    """
    start = f"{part}: " if part else ""
    token = _prefix.set(_prefix.get() + start)
    try:
        yield
    except IntarsiaError as error:
        _put_in_front(error, start)
        raise
    finally:
        _prefix.reset(token)


@contextmanager
def errors_from(place: str) -> Iterator[None]:
    """Name a public entry point in errors and warnings from inside, unless another entry point called this one.

    Also a decorator. Errors of worker threads and processes get the name when they come back to the caller.

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
        with errors_in(place):
            yield
    finally:
        _entered.reset(token)


def entry_point(method: F) -> F:
    """Name a public method in errors and warnings from inside, after the class of the object it is called on.

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
    """Beginning of messages at this point: the entry point and the parts inside it, or "".

    Examples
    --------
    >>> with errors_from("ChainCRF.fit"), errors_in("validation"):
    ...     current_place()
    'ChainCRF.fit: validation: '
    """
    return _prefix.get()


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the line outside the package that led here, with the entry point in front of the message."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INSIDE):
        level, frame = level + 1, frame.f_back
    warnings.warn(current_place() + message, category, stacklevel=level)


def _put_in_front(error: IntarsiaError, start: str) -> None:
    if error.args and isinstance(error.args[0], str):
        error.args = (start + error.args[0], *error.args[1:])
    if isinstance(error, ImportError) and isinstance(error.msg, str):
        error.msg = start + error.msg  # the text of an ImportError is its msg
