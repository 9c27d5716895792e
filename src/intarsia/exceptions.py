"""Every error and warning that Intarsia raises.

A message has four parts: where, what was expected, what came (the first offender), what to do.
"""

from __future__ import annotations


class IntarsiaError(Exception):
    """Base of everything Intarsia raises on purpose."""


class InvalidInputError(IntarsiaError, ValueError):
    """An argument, array or model that cannot be what was meant."""


class FileFormatError(InvalidInputError):
    """A file that does not follow its format; the message names file and line."""


class NotSupportedError(IntarsiaError):
    """A method was asked for something it does not offer; the message names those that do."""


class TooLargeError(IntarsiaError):
    """The work would exceed a limit on memory or on the number of assignments; nothing was allocated."""


class TimeLimitError(IntarsiaError):
    """An exact method could not finish within `time_limit`; it has no partial answer to give."""


class MissingDependencyError(IntarsiaError, ImportError):
    """An optional package is not installed; the message gives the command that installs it."""


class MissingDataError(IntarsiaError, FileNotFoundError):
    """A data set is not on this machine; the message says where it comes from and where it is expected."""


class ConvergenceWarning(UserWarning):
    """An iterative method stopped before it reached its tolerance."""


class CompatibilityWarning(UserWarning):
    """A learner and an inference method are known not to fit; the message says why and what to use instead."""
