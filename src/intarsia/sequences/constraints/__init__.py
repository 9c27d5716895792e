"""Hard constraints on label sequences: rules, their automata, and exact inference under them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
