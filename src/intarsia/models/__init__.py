"""How data becomes scores: feature maps, and the way back of a gradient."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
