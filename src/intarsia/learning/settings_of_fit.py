"""Settings that belong to a fitted model, and whether they were changed since."""

from __future__ import annotations

import copy
from typing import Any

from intarsia.exceptions import InvalidInputError
from intarsia.learning.checkpoint import describe


class SettingsOfFit:
    """Settings that are part of a fitted model, so that a later change cannot take effect without another fit.

    Parameters
    ----------
    estimator : BaseEstimator
        Its settings are copied.
    names : tuple of str
        Which.

    Examples
    --------
    >>> from intarsia import ChainCRF
    >>> crf = ChainCRF(scheme="bio")
    >>> fitted = SettingsOfFit(crf, ("scheme", "forbidden"))
    >>> fitted.changed(crf), fitted.changed(crf.set_params(scheme=None))
    (None, 'scheme')
    """

    def __init__(self, estimator: Any, names: tuple[str, ...]) -> None:
        self.values = {name: copy.deepcopy(getattr(estimator, name)) for name in names}

    def changed(self, estimator: Any) -> str | None:
        """Name of the first setting that is not as it was."""
        for name, value in self.values.items():
            if describe(getattr(estimator, name)) != describe(value):
                return name
        return None

    def check(self, estimator: Any, where: str) -> None:
        """Raise if a setting was changed after the fit."""
        name = self.changed(estimator)
        if name is not None:
            keep = " (fix_theta=True keeps the weights)" if name in ("energies", "psi") else ""
            raise InvalidInputError(
                f"{where}: {name} was changed after fit, so it is not part of this model. Call fit again{keep}, or set "
                f"{name} back to what it was."
            )
