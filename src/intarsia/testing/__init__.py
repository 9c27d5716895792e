"""Checks for the tests of your own classes: worlds, proposal distributions and energies."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
