"""A fit that stores everything or nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])


def transaction(method: Method) -> Method:
    """Make a method that changes its object all or nothing: if it raises, all attributes are as before the call.

    Attributes are restored by reference, so the method must not change the old values in place: it computes new arrays
    and assigns them. An interrupted fit that keeps its best result returns normally, and its result is stored.

    Examples
    --------
    >>> class Model:
    ...     @transaction
    ...     def fit(self, x):
    ...         self.x_ = x
    ...         self.inverse_ = 1 / x
    >>> model = Model()
    >>> model.fit(2)
    >>> try:
    ...     model.fit(0)
    ... except ZeroDivisionError:
    ...     print(model.x_, model.inverse_)
    2 0.5
    """

    @wraps(method)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = dict(vars(self))
        try:
            return method(self, *args, **kwargs)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return run  # type: ignore[return-value]
