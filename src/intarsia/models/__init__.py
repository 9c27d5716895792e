"""Feature maps: from data and weights to scores (log-potentials), and the backward pass of a gradient."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
