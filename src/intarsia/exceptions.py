"""Errors and warnings that Intarsia raises.

A message has four parts: where the error arose, what was expected, the first invalid value, and what to do.
"""

from __future__ import annotations


class IntarsiaError(Exception):
    """Base class of all errors that Intarsia raises on purpose."""


class InvalidInputError(IntarsiaError, ValueError):
    """An argument, array or model is invalid, out of range or mismatched."""


class FileFormatError(InvalidInputError):
    """A file does not follow its format; the message names the file and the line."""


class NotSupportedError(IntarsiaError):
    """The method does not support the requested task; the message lists the methods that do."""


class TooLargeError(IntarsiaError):
    """The computation would exceed a limit on memory or on the number of assignments; nothing was allocated."""


class TimeLimitError(IntarsiaError):
    """An exact method could not finish within `time_limit`, and it has no approximate answer to return."""


class MissingDependencyError(IntarsiaError, ImportError):
    """An optional package is not installed; the message gives the command that installs it."""


class MissingDataError(IntarsiaError, FileNotFoundError):
    """A data set is not on this machine; the message names its source and the folder where it is expected."""


class ConvergenceWarning(UserWarning):
    """An iterative method stopped before it reached its tolerance."""


class CompatibilityWarning(UserWarning):
    """The learner and the inference method are known not to work together; the message says why and names a remedy."""


class UnreliableModelWarning(UserWarning):
    """A model was fitted, but its own parameters contradict what it is used for; the message names them."""


class ExchangeabilityWarning(UserWarning):
    """New data differ from the calibration data, so that conformal sets may not have their coverage."""
