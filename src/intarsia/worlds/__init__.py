"""Worlds: states of your own with proposed moves, for SampleRank, search, sampling and the cross-entropy method."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
