"""Conditional random fields on images and graphs: `GridCRF`, `GraphCRF`, their data and their files."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
