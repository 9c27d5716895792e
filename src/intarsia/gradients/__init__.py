"""How a loss flows back to theta: one file per rule, one result type, one registry."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
