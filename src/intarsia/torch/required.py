"""Check that PyTorch is installed; imported before the modules that use it."""

from intarsia.exceptions import MissingDependencyError

try:
    import torch  # noqa: F401
except ImportError as error:
    raise MissingDependencyError(
        "intarsia.torch needs PyTorch 2.4 or newer, which is not installed. Run: pip install 'intarsia[torch]'"
    ) from error
